//! Encryption of packets in place, as IPsec's ESP does (RFC 4303) with AES in Galois/counter mode (RFC 4106).
//!
//! [`Seal`] makes an ESP packet of an IP packet, [`Open`] makes the IP packet of it again; one behind the other, with a wire between, they carry plain traffic.
//! Each is an [`OffloadStage`] with `aes-gcm` or `aes-gcm-decrypt` behind it, on any backend, which has the key. The frame stays where it is: it grows into
//! the room around it in its [`Pool`]'s slot, and the operator writes its output over the text if it can.
//!
//! ```text
//! tunnel     [Ethernet][IP, new][SPI][sequence][IV][IP packet            ][padding][2][tag]
//! transport  [Ethernet][IP     ][SPI][sequence][IV][what stood behind IP ][padding][2][tag]
//!                            └─ nonce and additional data ─┘└──────── encrypted ──────┘
//! ```
//!
//! The operator takes nonce and additional data in front of the text: 4 bytes of salt, 8 of IV, 4 of SPI, 4 of sequence. They do not lie so in the packet. So
//! the last 4 bytes of the IP header, and the 16 behind them, are written over while a job is out, and written anew when it is home.
//!
//! **Done**: tunnel and transport mode; IPv4 and IPv6, one in the other too; padding, and its check; a window against replays of any length (RFC 4303, 3.4.3; the
//! ring of RFC 6479); an end of sequence numbers as an outcome; congestion marks (RFC 6040, normal mode); DSCP and "don't fragment" handed on (RFC 4301, 8.1);
//! dummy packets (dropped); packets longer than the next link takes are dropped and counted.
//!
//! **Not done**: extended sequence numbers; the choice among several associations by policy, and the check of the inner addresses against it (RFC 4301, 5.2); key
//! exchange and lifetimes; encapsulation in UDP; ICMP about packets that are too long; fragments in transport mode (dropped) and ESP packets in fragments (dropped: reassemble
//! first); extension headers of IPv6 and authentication headers in transport mode (dropped); padding that hides lengths, on the way out.
//!
//! **One association a shard.** Numbers are counted and windows kept without locks, by one core. Associations of several shards share a key only if their salts
//! differ: a nonce must never come twice ([`Association::numbered`]). RFC 9611 is how peers agree on one association for each core. [`Gateway`] is an end that sends and
//! receives, with one association for each direction and shard; [`GatewaySharding`] brings each association's packets to one shard.

mod gateway;
mod open;
mod seal;
mod window;

use std::net::{Ipv4Addr, Ipv6Addr};

use dpb_core::packet::{IPV4_BYTES, IPV6_BYTES};
use dpb_core::{Direction, SetupError, spec};

pub use gateway::{Gateway, GatewaySharding};
pub use open::Open;
pub use seal::Seal;
pub use window::Window;

use super::Engine;
use crate::packet::ether_type;
use crate::pipeline::{OffloadStage, Pool, Reason};

/// The agreement of both ends of one direction, beside the key, which the operator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// The number by which the receiver knows it; 256 at least (RFC 4303, 2.1).
    pub spi: u32,
    /// The part of nonces that does not travel; the last four bytes of the keying material (RFC 4106, 8.1).
    pub salt: [u8; 4],
    /// The part of a packet that is encrypted.
    pub mode: Mode,
}

/// The part of a packet that is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The bytes behind the IP header.
    Transport,
    /// The packet, within another one between these two addresses.
    Tunnel(Tunnel),
}

/// The ends of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// Over IPv4.
    V4 {
        /// This end.
        source: Ipv4Addr,
        /// The other one.
        destination: Ipv4Addr,
    },
    /// Over IPv6.
    V6 {
        /// This end.
        source: Ipv6Addr,
        /// The other one.
        destination: Ipv6Addr,
    },
}

impl Tunnel {
    fn header_bytes(&self) -> usize {
        match self {
            Self::V4 { .. } => IPV4_BYTES,
            Self::V6 { .. } => IPV6_BYTES,
        }
    }

    fn ether_type(&self) -> u16 {
        match self {
            Self::V4 { .. } => ether_type::IPV4,
            Self::V6 { .. } => ether_type::IPV6,
        }
    }
}

/// Settings of a receiving end.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Of so many numbers below the highest that came it remembers which came, and takes no older ones. On an engine with deep queues more packets
    /// are in flight at once: as many at least.
    pub window: u32,
    /// Longest packet, from its IP header on, where outputs do not take the place of their items; longer ones are refused there.
    pub mtu: u16,
    /// True if what is not encrypted passes by. Else it is dropped.
    pub lets_others_in: bool,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            window: 4096,
            mtu: 9000,
            lets_others_in: false,
        }
    }
}

/// The last sequence number was used: the association needs another key.
pub const EXHAUSTED: Reason = Reason("no sequence number left");
/// The packet that would be sent is longer than the next link takes.
pub const TOO_LONG: Reason = Reason("longer than the next link takes");
/// A fragment, which transport mode does not encrypt, and of which no ESP packet is made.
pub const FRAGMENT: Reason = Reason("fragment");
/// Extension headers of IPv6 or an authentication header, in transport mode or in front of ESP.
pub const EXTENSIONS: Reason = Reason("extension headers");
/// No ESP packet, where only those are let in.
pub const UNPROTECTED: Reason = Reason("not encrypted");
/// No association has this SPI.
pub const UNKNOWN: Reason = Reason("unknown association");
/// Its sequence number came before, or is older than the window.
pub const REPLAY: Reason = Reason("replay");
/// The tag does not fit: it was changed on its way, or has another key.
pub const FORGED: Reason = Reason("wrong tag");
/// Behind a right tag, padding or a protocol that cannot be: the peer is at fault.
pub const BAD_CONTENT: Reason = Reason("wrong content");
/// A packet that only hides that there is none (RFC 4303, 2.6).
pub const DUMMY: Reason = Reason("dummy packet");
/// Congestion was marked on the way, and the packet inside cannot say so (RFC 6040, 4.2).
pub const CONGESTED: Reason = Reason("congestion without a mark");

/// Bytes of salt.
const SALT_BYTES: usize = 4;
/// Bytes of SPI, sequence number and IV, which travel in front of the text.
const HEADER_BYTES: usize = 16;
/// Bytes in front of the text for the operator: a nonce of 12, additional data of 8.
const PREFIX_BYTES: usize = SALT_BYTES + HEADER_BYTES;
/// Bytes of SPI and sequence number, which are authenticated.
const AAD_BYTES: u16 = 8;
const TAG_BYTES: usize = 16;
/// Length of padding and protocol, behind the padding.
const TRAILER_BYTES: usize = 2;
/// Texts end at a multiple of these.
const ALIGNMENT: usize = 4;

/// A packet whose job is out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Note {
    /// The first byte of the IP header, of the text; bytes of the text.
    network: u32,
    text: u32,
    text_bytes: u32,
    sequence: u32,
    /// Of a packet that is opened, the place of its association among the others.
    association: u32,
    /// The bytes that the salt was written over.
    saved: [u8; SALT_BYTES],
}

impl Note {
    /// Writes what the operator takes in front of the text.
    fn write_prefix(&mut self, frame: &mut [u8], association: &Association, iv: [u8; 8]) {
        let start = self.text as usize - PREFIX_BYTES;
        let prefix = &mut frame[start..start + PREFIX_BYTES];
        self.saved.copy_from_slice(&prefix[..SALT_BYTES]);
        prefix[..4].copy_from_slice(&association.salt);
        prefix[4..12].copy_from_slice(&iv);
        prefix[12..16].copy_from_slice(&association.spi.to_be_bytes());
        prefix[16..].copy_from_slice(&self.sequence.to_be_bytes());
    }
}

impl Association {
    /// The `number`th of associations that share this one's key: SPI and salt follow by the number, so that no two have a nonce in common.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        let salt = u32::from_be_bytes(self.salt) ^ number;
        Self {
            spi: self.spi.wrapping_add(number),
            salt: salt.to_be_bytes(),
            ..*self
        }
    }

    /// Encrypts packets of one shard, as [`Seal::new`] says.
    ///
    /// # Errors
    /// If the engine's operator does not encrypt with eight bytes of additional data, or its queue cannot be opened.
    pub fn seal(
        &self,
        engine: &Engine,
        pool: Pool,
        mtu: u16,
    ) -> Result<OffloadStage<Seal>, SetupError> {
        self.check(engine, Direction::Encrypt)?;
        let longest = u32::from(mtu) + TAG_BYTES as u32;
        engine.stage(Seal::new(*self, pool, mtu), longest)
    }

    /// Decrypts packets of one shard.
    ///
    /// # Errors
    /// If the engine's operator does not decrypt with eight bytes of additional data, or its queue cannot be opened.
    pub fn open(
        &self,
        engine: &Engine,
        pool: Pool,
        opening: Opening,
    ) -> Result<OffloadStage<Open>, SetupError> {
        self.check(engine, Direction::Decrypt)?;
        let longest = u32::from(opening.mtu);
        engine.stage(Open::new(&[*self], pool, opening), longest)
    }

    fn check(&self, engine: &Engine, direction: Direction) -> Result<(), SetupError> {
        let spec = engine.operator.spec();
        let wrong = |why: &str| {
            let what = spec.name();
            Err(SetupError::Parameter(format!("ESP with {what}: {why}")))
        };
        let Some(gcm) = spec.get::<spec::AesGcm>() else {
            return wrong("it takes aes-gcm and aes-gcm-decrypt, of one key");
        };
        if gcm.direction != direction {
            return wrong("the other direction is needed");
        }
        if gcm.aad_bytes != AAD_BYTES {
            return wrong("it needs aad=8, for SPI and sequence number");
        }
        if self.spi < 256 {
            return wrong("an SPI below 256 is reserved");
        }
        match engine.operator.in_place() {
            Ok(at) if at != PREFIX_BYTES => wrong("its text begins elsewhere"),
            _ => Ok(()),
        }
    }
}
