//! The session between two machines: one port, one handshake, and services that plug in.
//!
//! An [`Agent`] listens and offers services ([`Service`]). A client connects ([`Connect`]), is welcomed ([`Session`]) and opens one of
//! them; from then on the service owns the connection, as a [`Link`] of frames or as a bare [`Stream`].
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! use dpb_core::{Timer, WallClock};
//! use dpb_link::{Agent, AgentOptions, Connect, echo};
//!
//! let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
//! let options = AgentOptions::new("127.0.0.1:0".parse()?);
//! let agent = Agent::bind(options, vec![Arc::new(echo::Echo::new(None, &clock))])?;
//! let address = agent.address().to_string();
//! let stop = AtomicBool::new(false);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| agent.run(&|| stop.load(Ordering::Relaxed)));
//!     let session = Connect::new(address).session().expect("it listens");
//!     assert_eq!(session.services()[0].name, "echo");
//!     let mut link = session.open(echo::NAME, echo::VERSION, echo::TAGS).expect("it is offered");
//!     echo::round_trip(&mut link, b"hello").expect("it comes back");
//!     stop.store(true, Ordering::Relaxed);
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The wire
//!
//! All numbers are little endian. **A frame** is a header of 8 bytes and a body:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 1 | tag |
//! | 1 | 3 | zero |
//! | 4 | 4 | length of the body, at most what the tag allows |
//! | 8 | … | body |
//!
//! The tags 0 to 15 and 128 to 143 are the session's; all others are the open service's, whose [`Tags`] bound their bodies.
//! By custom a client's tags are below 128, and an agent's from 128 on.
//!
//! | tag | sent by | body | most bytes |
//! |---|---|---|---|
//! | 1 hello | client, first | magic `DPBW` (4), version (2), length of the token (2), capabilities (8), pace in bits per second, 0 for none (8), the token | 1 KiB |
//! | 2 open | client, once, after the welcome | version of the service's protocol (2), the service's name | 64 |
//! | 3 stop | client, during an answer | empty; the service says what it ends | 0 |
//! | 4 credit | client | pieces of its ring that are free again (4), see [`bulk`] | 4 |
//! | 129 welcome | agent, first | magic `DPBW` (4), version (2), zero (2), capabilities (8), the agent's description and its services (postcard) | 80 KiB |
//! | 130 opened | agent | version of the service's protocol (2) | 2 |
//! | 135 error | agent, in place of any answer | code (2), UTF-8 text | 64 KiB |
//! | 136 placed | agent | tag (1), zero (3), length (4) of a body that another transport carries, see [`bulk`] | 8 |
//!
//! **Conversation.** Hello, then welcome or error. Open, then opened or error. Then whatever the service says. A connection has one service for
//! as long as it lasts. Both bodies up to the version, and the error frame's, never change, so that two versions can always tell each other apart:
//! an agent refuses a client of another version with an error frame, a client refuses such an agent's welcome, and both say both versions. The same
//! goes for the version of a service. Up to version 6 the pushdown had the session for itself.
//!
//! **Secrecy.** An agent with credentials speaks TLS 1.3 to everyone ([`tls`]); the frames are the same inside it. Without credentials nothing is
//! encrypted, and agent and client refuse any address that is not loopback. A transport beside TCP ([`bulk`]) encrypts nothing either way.
//!
//! **Trust.** A length is checked against its tag's bound before anything is allocated, and a body is decoded to its last byte. Neither side
//! believes the other: every wait has a bound, and words are made printable where they enter.

pub mod agent;
pub mod budget;
pub mod bulk;
mod connect;
pub mod echo;
mod error;
mod header;
pub mod hello;
pub mod link;
mod lock;
mod message;
pub mod operators;
mod peer;
mod placed;
mod service;
mod stream;
pub mod tag;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(feature = "tls")]
pub mod tls;
mod token;
mod wait;

pub use agent::{Access, Agent, AgentOptions, BindError};
pub use connect::{Connect, ConnectError, Pass, Session};
pub use error::{LinkError, Refusal, cut, parse_refusal, refusal_bytes};
pub use header::{HEADER_BYTES, Header};
pub use hello::{AgentDescription, Offer};
pub use link::{Interrupted, Link};
pub use message::{decode, encode};
pub use placed::{Placed, credit_bytes, parse_credit};
pub use service::{ClientInfo, Service};
pub use stream::Stream;
pub use tag::Tags;
#[cfg(feature = "tls")]
pub use tls::{ClientCredentials, CredentialsError, ServerCredentials};
pub use token::{TOKEN_BYTES, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, TOKEN_REMEDY, Token, TokenLength};

/// First bytes of hello and welcome.
pub const MAGIC: [u8; 4] = *b"DPBW";
/// Version of the session.
pub const VERSION: u16 = 7;
