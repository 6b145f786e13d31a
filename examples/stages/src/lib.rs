//! Bursts of packets through four operators, each on a backend of its own:
//!
//! 1. `checksum-verify` drops packets that were damaged on their way.
//! 2. `toeplitz` gives each packet's hash for receive-side scaling.
//! 3. `lpm4` gives the next hop of its destination.
//! 4. `aes-gcm` encrypts it where it lies.
//!
//! Every packet lies in a buffer of its own, with room before and behind it. Each stage reads its part of each packet there, and
//! nothing is copied; after the first burst nothing is allocated. A [`Stage`] is all that it takes: one queue, and one job that is
//! sent again and again.

mod hand;
mod packets;
mod stage;

use std::ops::Range;

use anyhow::{Context, Result};
use dpb_accel::{doca::Doca, dpdk::Dpdk};
use dpb_core::{Backend, Buf, Families, Span};
use dpb_operators::cpu::{self, CPU, POOLS};
use dpb_operators::network::checksum::Verdict;
use dpb_sim::{Faultiness, Models};

pub use hand::ByHand;
pub use packets::{NONCE_BYTES, PACKET_AT, Packets, ROOM_BEHIND};
pub use stage::{Stage, Use};

/// Packets of a burst.
pub const BURST: usize = 64;

/// The operators.
pub const OPERATORS: [Use; 4] = [
    Use {
        name: "checksum-verify",
        parameters: "",
        output_bytes: 1,
    },
    Use {
        name: "toeplitz",
        parameters: "form=ipv4-ports",
        output_bytes: 4,
    },
    Use {
        name: "lpm4",
        parameters: "routes=generated:10000",
        output_bytes: 4,
    },
    Use {
        name: "aes-gcm",
        parameters: "aad=0",
        output_bytes: 0,
    },
];

/// The place of the addresses of a packet of IPv4 without options, and behind them of its ports.
const TUPLE: Range<usize> = PACKET_AT + 12..PACKET_AT + 24;
/// The place of its destination.
const DESTINATION: Range<usize> = PACKET_AT + 16..PACKET_AT + 20;

/// The four stages, and what the last burst gave.
pub struct Program {
    verify: Stage,
    hash: Stage,
    route: Stage,
    encrypt: Stage,
    /// The numbers of the packets of the burst that were right.
    accepted: Vec<u32>,
}

/// The results of one burst, for each packet that was accepted.
#[derive(Debug)]
pub struct Burst<'a> {
    /// The numbers of the packets.
    pub accepted: &'a [u32],
    /// The receive-side scaling hash of each, four bytes, little endian.
    pub hashes: &'a [u8],
    /// The next hop of each, four bytes, little endian.
    pub hops: &'a [u8],
}

impl Program {
    /// The stages on these backends, in the order of [`OPERATORS`].
    ///
    /// # Errors
    /// If a backend has no such operator; the message says why.
    pub fn new(backends: &[Box<dyn Backend>; 4]) -> Result<Self> {
        let mut stages = backends.iter().zip(OPERATORS).map(|(backend, operator)| {
            let stage = Stage::new(&**backend, operator);
            stage.with_context(|| format!("{} on {}", operator.name, backend.name()))
        });
        let mut next = || stages.next().expect("four of them");
        Ok(Self {
            verify: next()?,
            hash: next()?,
            route: next()?,
            encrypt: next()?,
            accepted: Vec::with_capacity(BURST),
        })
    }

    /// Sends a burst through. Its packets come back encrypted, but those that were refused.
    ///
    /// # Errors
    /// If a stage cannot carry out its job, or refuses a packet.
    pub fn run(&mut self, packets: &mut Vec<Buf>) -> Result<Burst<'_>> {
        let Self {
            verify,
            hash,
            route,
            encrypt,
            accepted,
        } = self;
        let all = 0..packets.len() as u32;
        let verdicts =
            verify.reads(packets, all, |packet| PACKET_AT..packet.len() - ROOM_BEHIND)?;
        let verdicts = verdicts.iter().zip(0..);
        accepted.clear();
        accepted.extend(
            verdicts
                .filter(|(byte, _)| Verdict(**byte).is_accepted())
                .map(|(_, i)| i),
        );
        let hashes = hash.reads(packets, accepted.iter().copied(), |_| TUPLE)?;
        let hops = route.reads(packets, accepted.iter().copied(), |_| DESTINATION)?;
        encrypt.changes(packets, accepted.iter().copied(), |packet| {
            PACKET_AT - NONCE_BYTES..packet.len() - ROOM_BEHIND
        })?;
        Ok(Burst {
            accepted,
            hashes,
            hops,
        })
    }

    /// The stages, in the order of [`OPERATORS`].
    pub fn stages(&self) -> [&Stage; 4] {
        [&self.verify, &self.hash, &self.route, &self.encrypt]
    }

    /// Has every output of the next bursts judged by the operators' oracles, or not.
    pub fn check(&mut self, is_on: bool) {
        for stage in [
            &mut self.verify,
            &mut self.hash,
            &mut self.route,
            &mut self.encrypt,
        ] {
            stage.check(is_on);
        }
    }
}

static MODELS: Models = Models::new(&cpu::best);
static FAULTINESS: Faultiness = Faultiness::new(&cpu::best);

/// The backends that the program knows: `cpu`, `cpu/portable`, `pool/2`, `sim/default`, `faulty/`, `dpdk/crypto_aesni_mb`.
pub static FAMILIES: Families = Families::new(&[&CPU, &POOLS, &MODELS, &FAULTINESS, &Doca, &Dpdk]);

/// A part of the buffer with this number.
fn span(buf: u32, part: Range<usize>) -> Span {
    Span {
        buf,
        start: part.start as u32,
        len: part.len() as u32,
    }
}
