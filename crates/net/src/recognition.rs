//! Applications of flows, recognised by what flows say: TLS, QUIC, HTTP, DNS and the first bytes of some fifty protocols.
//!
//! A [`Recognizer`] sees the packets of one shard, where they lie. Of each flow it looks at the first ones, until it has a [`Verdict`] or gives up;
//! then the flow's [`Mark`] holds a [`Label`], and no packet of the flow is looked at again. That is where the speed comes from. In order of their weight
//! the evidence is:
//!
//! 1. a ClientHello of **TLS** or DTLS: the server's name, ALPN, [JA4](Ja4), also behind STARTTLS or a proxy's CONNECT;
//! 2. the same in an Initial packet of **QUIC**, decrypted;
//! 3. a request of **HTTP** with its host; a question of **DNS** with its name;
//! 4. the **first bytes**, which say the protocol, and the **name** that DNS gave the server's address, which says the application: an answer names addresses if its
//!    question was seen before, so that nobody can give names unasked;
//! 5. **rules** for payloads: the bytes of undecided flows are handed out in batches, for an operator such as `rxpmatch`;
//! 6. the **port**, which is a guess and is called so.
//!
//! # What is held
//!
//! Most flows are decided by the first packet with a payload, and nothing of them is ever held. Of the others the start of each direction is put
//! together, at most 8 KiB (RFC 9293 lets segments come in any order, and again, and overlapping). Overlap has one policy: **the first copy
//! of a byte stays**. Memory is taken once, for [`Limits::undecided_max`] flows; a flow for which there is none gets its verdict from the port at
//! once, and is counted. Nothing is allocated for a packet.
//!
//! Work is bounded whoever sends: a look is a pass over these 8 KiB at most, and a direction gets less than a hundred looks of readers and as many of rules, in however
//! many packets its bytes come. Readers of each format are functions of bytes that never panic: [`tls`], [`quic`], [`http`], [`dns`].
//!
//! # Names and applications
//!
//! [`Applications`] is a list of domains. The longest one that a server's name ends with says the application.
//!
//! ```
//! use dpb_net::flow::Direction;
//! use dpb_net::recognition::{Applications, Mark, Outcome, Packet, Protocol, Recognizer, Settings};
//!
//! let applications = Applications::built_in();
//! let mut recognizer = Recognizer::new(Settings::default(), applications.clone());
//! // Kept with the flow, in its table.
//! let mut mark = Mark::default();
//! let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07youtube\x03com\0\0\x01\0\x01";
//! let packet = Packet {
//!     flow: 7,
//!     direction: Direction::Up,
//!     segment: None,
//!     addresses: [0xffff_c000_0201, 0xffff_c000_0235],
//!     ports: [40_000, 53],
//!     payload: question,
//! };
//! let Outcome::Verdict(verdict) = recognizer.packet(&mut mark, &packet, 0) else {
//!     panic!("one packet is enough");
//! };
//! assert_eq!(verdict.label.protocol, Protocol::Dns);
//! assert_eq!(verdict.host.as_bytes(), b"www.youtube.com");
//! assert_eq!(verdict.label.application, applications.named("youtube"));
//! // From now on the mark is enough.
//! assert_eq!(mark.label().unwrap().protocol, Protocol::Dns);
//! ```

mod application;
mod bytes;
pub mod dns;
pub mod http;
mod ja4;
mod looks;
mod protocol;
pub mod quic;
mod recognizer;
mod signature;
mod stream;
#[cfg(test)]
mod tests;
pub mod tls;
mod upgrade;
mod verdict;

pub use application::{Application, Applications, ListError};
pub use dns::Name;
pub use ja4::{Carrier, Ja4};
pub use protocol::{Evidence, Protocol};
pub use recognizer::{
    Candidate, GiveUp, Limits, Outcome, Packet, Recognizer, Segment, Settings, Stats,
};
pub use verdict::{Label, Mark, NameSource, Verdict};

/// What a reader made of the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// This is it.
    Whole(T),
    /// It may be; so many bytes from the start are wanted to go on.
    Partial {
        /// More than there are.
        wanted: usize,
    },
    /// It is something else.
    Foreign,
}
