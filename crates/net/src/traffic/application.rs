//! What flows say: conversations of real protocols, made once from a seed and used by many flows.
//!
//! A *conversation* is a list of segments, with the bytes of each, its direction and its place in the sequence numbers of TCP. A *catalogue* holds
//! a number of them for each application, with server names, random fields and keys of their own. A flow takes one of them by its number,
//! and goes on with data that looks encrypted or like text once it is over. So a packet costs a copy, whatever the protocol costs to make.
//!
//! The readers that recognise applications share nothing with this module, so that each checks the other.

mod bytes;
mod conversation;
mod delivery;
mod plain;
mod quic;
#[cfg(test)]
mod tests;
mod tls;

pub(super) use conversation::{ACK, FIN, PSH, SYN};
pub use conversation::{Conversation, Segment, Transport};
pub use delivery::Delivery;
pub use plain::{
    dns_exchange, http_request, http_response, private_message, smb_negotiate, ssh_banner,
};
pub use quic::{DATAGRAM_BYTES, Initial, InitialKeys, QuicDelivery, QuicVersion, client_initials};
pub use tls::{
    APPLICATION_DATA, ClientHello, HANDSHAKE, TlsOffer, encrypted_records, handshake_records,
    server_hello,
};

use dpb_core::random::SplitMix64;

use super::TrafficError;
use super::draw::{below, draw, threshold};

/// An application of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Application {
    /// TLS up to 1.2 on port 443.
    Tls12,
    /// TLS 1.3 on port 443.
    Tls13,
    /// TLS 1.3 with a post-quantum share, whose hello takes two segments.
    Tls13PostQuantum,
    /// HTTP/1.1 on port 80.
    Http,
    /// A DNS query over UDP, and its response.
    Dns,
    /// QUIC version 1 on port 443.
    QuicV1,
    /// QUIC version 1 with a post-quantum share, whose hello takes two datagrams.
    QuicV1PostQuantum,
    /// QUIC version 2.
    QuicV2,
    /// SSH on port 22.
    Ssh,
    /// SMB2 on port 445.
    Smb,
    /// A protocol of nobody's on port 7070, whose first message says the server's name: what only rules for payloads know.
    Private,
}

impl Application {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Tls12,
        Self::Tls13,
        Self::Tls13PostQuantum,
        Self::Http,
        Self::Dns,
        Self::QuicV1,
        Self::QuicV1PostQuantum,
        Self::QuicV2,
        Self::Ssh,
        Self::Smb,
        Self::Private,
    ];

    /// What it is called where figures are shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "tls-1.2",
            Self::Tls13 => "tls-1.3",
            Self::Tls13PostQuantum => "tls-1.3-mlkem",
            Self::Http => "http",
            Self::Dns => "dns",
            Self::QuicV1 => "quic-v1",
            Self::QuicV1PostQuantum => "quic-v1-mlkem",
            Self::QuicV2 => "quic-v2",
            Self::Ssh => "ssh",
            Self::Smb => "smb",
            Self::Private => "private",
        }
    }

    /// The port of its servers.
    pub fn port(self) -> u16 {
        match self {
            Self::Tls12
            | Self::Tls13
            | Self::Tls13PostQuantum
            | Self::QuicV1
            | Self::QuicV1PostQuantum
            | Self::QuicV2 => 443,
            Self::Http => 80,
            Self::Dns => 53,
            Self::Ssh => 22,
            Self::Smb => 445,
            Self::Private => 7070,
        }
    }

    /// The protocol below.
    pub fn transport(self) -> Transport {
        match self {
            Self::Dns | Self::QuicV1 | Self::QuicV1PostQuantum | Self::QuicV2 => Transport::Udp,
            Self::Tls12
            | Self::Tls13
            | Self::Tls13PostQuantum
            | Self::Http
            | Self::Ssh
            | Self::Smb
            | Self::Private => Transport::Tcp,
        }
    }
}

/// What a mix of applications is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Applications {
    /// What the mix is called.
    pub name: String,
    /// Applications and the shares of flows that they have, by weight.
    pub shares: Vec<(Application, f64)>,
    /// Conversations of each application that differ. All are in memory, some KiB each.
    pub conversations: u32,
    /// How the client's first message travels over TCP.
    pub delivery: Delivery,
    /// How it travels over QUIC.
    pub quic_delivery: QuicDelivery,
}

impl Applications {
    /// Traffic of clients today: mostly TLS 1.3 and QUIC, half of both with post-quantum shares, and a query of DNS for each two connections. The
    /// shares are set by hand, not measured.
    pub fn today() -> Self {
        use Application::{
            Dns, Http, QuicV1, QuicV1PostQuantum, QuicV2, Smb, Ssh, Tls12, Tls13, Tls13PostQuantum,
        };
        Self {
            name: "applications-today".to_owned(),
            shares: vec![
                (Tls12, 6.0),
                (Tls13, 14.0),
                (Tls13PostQuantum, 16.0),
                (Http, 5.0),
                (Dns, 33.0),
                (QuicV1, 11.0),
                (QuicV1PostQuantum, 12.0),
                (QuicV2, 1.0),
                (Ssh, 1.0),
                (Smb, 1.0),
            ],
            conversations: 64,
            delivery: Delivery::Whole,
            quic_delivery: QuicDelivery::Whole,
        }
    }

    /// One application alone.
    pub fn only(application: Application) -> Self {
        Self {
            name: application.name().to_owned(),
            shares: vec![(application, 1.0)],
            ..Self::today()
        }
    }
}

/// Conversations of a mix, ready to be sent. Flows that take the same one have the same bytes, random fields and QUIC's connection IDs included.
#[derive(Clone, Debug)]
pub struct Catalogue {
    key: u64,
    each: u64,
    /// For each application the largest number of 64 random bits that chooses it, and its first conversation.
    limits: Vec<(u64, usize)>,
    conversations: Vec<Conversation>,
}

impl Catalogue {
    /// The conversations of `mix`, cut for segments of at most `segment_bytes_max` bytes.
    ///
    /// # Errors
    /// [`TrafficError::Applications`] if there is none, or a weight is not positive.
    pub fn new(
        mix: &Applications,
        segment_bytes_max: usize,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        let is_weight = |(_, weight): &(Application, f64)| *weight > 0.0 && weight.is_finite();
        if mix.shares.is_empty() || mix.conversations == 0 || !mix.shares.iter().all(is_weight) {
            return Err(TrafficError::Applications(mix.name.clone()));
        }
        let sum: f64 = mix.shares.iter().map(|(_, weight)| weight).sum();
        let (mut limits, mut conversations) = (Vec::new(), Vec::new());
        let mut share = 0.0;
        for (application, weight) in &mix.shares {
            share += weight / sum;
            limits.push((threshold(share), conversations.len()));
            for _ in 0..mix.conversations {
                let number = conversations.len() as u64;
                let mut random = SplitMix64::new(draw(seed, number));
                let name = server_name(number, &mut random);
                conversations.push(conversation::of(
                    *application,
                    name,
                    mix,
                    segment_bytes_max,
                    &mut random,
                ));
            }
        }
        if let Some((last, _)) = limits.last_mut() {
            *last = u64::MAX;
        }
        Ok(Self {
            key: draw(seed, u64::MAX),
            each: u64::from(mix.conversations),
            limits,
            conversations,
        })
    }

    /// The conversation of a flow.
    #[inline]
    pub fn of(&self, flow: u64) -> &Conversation {
        let bits = draw(self.key, flow);
        let chosen = self.limits.iter().find(|(limit, _)| bits <= *limit);
        let first = chosen.map_or(0, |(_, first)| *first);
        let which = below(draw(!self.key, flow), self.each);
        &self.conversations[first + which as usize]
    }

    /// All of them.
    pub fn all(&self) -> &[Conversation] {
        &self.conversations
    }

    /// The longest payload of a segment.
    pub fn payload_bytes_max(&self) -> usize {
        let of = |conversation: &Conversation| {
            let lens = conversation.segments().iter();
            lens.map(|segment| segment.payload.len()).max()
        };
        self.conversations.iter().filter_map(of).max().unwrap_or(0)
    }
}

/// A name in the domains that are for examples (RFC 2606), with a number of its own.
fn server_name(number: u64, random: &mut SplitMix64) -> String {
    const KINDS: [&str; 6] = ["www", "cdn", "api", "img", "video", "mail"];
    const DOMAINS: [&str; 3] = ["example.com", "example.net", "example.org"];
    let kind = KINDS[random.below(KINDS.len())];
    let domain = DOMAINS[random.below(DOMAINS.len())];
    format!("{kind}-{number}.{domain}")
}
