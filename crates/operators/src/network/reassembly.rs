//! IP reassembly: fragments become the datagram they were cut from (RFC 791, 3.2; RFC 815; RFC 8200, 4.5; RFC 5722).
//!
//! A fragment's payload goes straight to its place in the datagram's buffer. What has come is kept as one bit for each eight
//! bytes, RFC 815's holes being the bits that are clear: its cost does not grow with the order or the number of fragments.
//!
#![doc = include_str!("../../docs/reassembly.md")]

mod burst;
mod key;
mod oracle;
mod table;
#[cfg(test)]
mod tests;
mod units;

use std::fmt;

use dpb_core::{
    Batch, BatchOut, FragmentsKept, JobError, Kernel, OpSpec, OutputShape, SetupError, spec,
};

use super::checksum::{fold, words};
use super::packet::workload::Packets;
use super::packet::{self, Burst, Packet, PacketError, Version};
use crate::entry::{Entry, hash_seeds, own};
use crate::implementation::Implementation;
use key::Piece;
use table::Table;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "network",
    summary: "puts the fragments of a burst of IP packets together",
    output: "the datagrams that became whole, one after another; variable",
    source: "RFC 791, 3.2; RFC 815; RFC 8200, 4.5; RFC 5722; RFC 3168, 5.3",
    peers: &["rte_ip_frag"],
    paths: Reassembly::PATHS,
    documentation: include_str!("../../docs/reassembly.md"),
    keeps_state,
    ..Entry::of::<spec::Reassembly>(
        |spec, path| Ok(Box::new(Reassembly::new(*own(spec), path, hash_seeds())?)),
        |case| {
            let spec: &spec::Reassembly = own(&case.spec);
            let limits = ReassemblyLimits::of(spec);
            Ok(match spec.keep {
                FragmentsKept::Item => {
                    let right = move |item: &[u8]| oracle::reassemble(item, limits);
                    Box::new(Packets::fragments(&case.spec, right))
                }
                FragmentsKept::Queue => {
                    let right = move |item: &[u8]| {
                        let (_, burst) = timed(item).ok_or(PacketError::Malformed)?;
                        oracle::reassemble(burst, limits)
                    };
                    Box::new(Packets::timed_fragments(&case.spec, right))
                }
            })
        },
    )
};

/// The shortest fragment: an IPv4 header and one byte.
const FRAGMENT_BYTES_MIN: usize = 21;

/// In its queue, if fragments are kept there.
fn keeps_state(spec: &OpSpec) -> bool {
    own::<spec::Reassembly>(spec).keep == FragmentsKept::Queue
}

/// The bounds of what a [`Reassembler`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Datagrams at once. Each takes about 68 KiB, all allocated at the start; the oldest gives way to one more.
    pub datagrams_max: u32,
    /// Fragments of one datagram; one more and the datagram is given up.
    pub fragments_max: u32,
    /// The time that a datagram waits at most after its first fragment came (RFC 8200: 60 s).
    pub timeout_ns: u64,
}

/// Puts fragments together. Bounded in memory, fragments and time, whatever comes.
#[derive(Debug)]
pub struct Reassembler {
    limits: ReassemblyLimits,
    table: Table,
    /// The latest time that it was told.
    now_ns: u64,
}

/// Why a packet did not get into a datagram.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is no valid packet or fragment, and changed nothing.
    Packet(PacketError),
    /// It has come before, byte for byte.
    Duplicate,
    /// It overlaps another, or disagrees about where the datagram ends: the datagram is given up, and so is every fragment of
    /// it that is still to come (RFC 5722).
    Overlap,
    /// The datagram would be longer than an IP packet can be: given up.
    TooLong,
    /// There are too many fragments of its datagram: given up.
    TooMany,
    /// Fragments marked by congestion and unmarkable ones in one datagram (RFC 3168, 5.3): given up.
    Congestion,
    /// Its datagram was given up before.
    GivenUp,
}

/// IP reassembly as an operator: an item is a burst of packets as they came off the wire, the output the datagrams that
/// became whole and the packets that were, in the order in which they did. Fragments are kept as the spec says: no longer than their item,
/// or in the queue's [`Reassembler`].
#[derive(Clone, Copy)]
pub struct Reassembly {
    spec: spec::Reassembly,
    seeds: [u64; 2],
}

impl Default for ReassemblyLimits {
    /// 64 datagrams, 8,192 fragments each (as many as there can be), 60 seconds.
    fn default() -> Self {
        Self {
            datagrams_max: 64,
            fragments_max: 8192,
            timeout_ns: 60_000_000_000,
        }
    }
}

impl ReassemblyLimits {
    /// The limits of a spec.
    fn of(spec: &spec::Reassembly) -> Self {
        Self {
            datagrams_max: spec.datagrams.into(),
            timeout_ns: u64::from(spec.timeout_ms) * 1_000_000,
            ..Self::default()
        }
    }
}

impl Reassembler {
    /// Allocates everything. At least one datagram. `seeds` are of the hash that finds datagrams; whoever knows them can send fragments that
    /// all have one hash, and each of which takes a search through all datagrams.
    pub fn new(limits: ReassemblyLimits, seeds: [u64; 2]) -> Self {
        Self {
            limits,
            table: Table::new(limits.datagrams_max.max(1), seeds),
            now_ns: 0,
        }
    }

    /// Takes one packet; gives the datagram that it made whole, or itself if it is no fragment.
    ///
    /// Datagrams that are due at `now_ns` expire first. Time does not go back: an earlier time than one before it counts as that.
    ///
    /// # Errors
    /// Why the packet was dropped.
    pub fn push<'a>(
        &'a mut self,
        packet: &'a [u8],
        now_ns: u64,
    ) -> Result<Option<&'a [u8]>, Dropped> {
        self.expire(now_ns);
        let piece = match Read::parse(packet)? {
            Read::Packet(packet) => return Ok(Some(packet)),
            Read::Fragment(piece) => piece,
        };
        if piece.is_whole() {
            // Stands for itself, even if fragments with its identification are waiting (RFC 6946).
            let whole = self.table.alone(&piece);
            return Ok(Some(self.table.bytes(whole)));
        }
        let at = self.table.find_or_make(&piece, self.now_ns);
        let whole = self.table.add(at, &piece, self.limits.fragments_max)?;
        Ok(whole.map(|whole| {
            self.table.release(at);
            self.table.bytes(whole)
        }))
    }

    /// Gives up the datagrams whose time is over at `now_ns`, and says how many.
    pub fn expire(&mut self, now_ns: u64) -> usize {
        self.now_ns = self.now_ns.max(now_ns);
        let mut expired = 0;
        while let Some((oldest, since_ns)) = self.table.oldest()
            && self.now_ns - since_ns >= self.limits.timeout_ns
        {
            self.table.release(oldest);
            expired += 1;
        }
        expired
    }

    /// Datagrams that wait for fragments, and those given up whose time is not over.
    pub fn waiting(&self) -> usize {
        self.table.len()
    }

    /// Datagrams that had to make room for others.
    pub fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// Forgets everything that waits.
    pub fn clear(&mut self) {
        while let Some((oldest, _)) = self.table.oldest() {
            self.table.release(oldest);
        }
    }
}

impl Reassembly {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = &[Implementation::Portable];

    /// Makes the operator on the code path `path`. `seeds` are those of [`Reassembler::new`].
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(
        spec: spec::Reassembly,
        path: Implementation,
        seeds: [u64; 2],
    ) -> Result<Self, SetupError> {
        path.among("reassembly", Self::PATHS)?;
        Ok(Self { spec, seeds })
    }
}

/// Says nothing of the seeds.
impl fmt::Debug for Reassembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reassembly")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl Kernel for Reassembly {
    type Scratch = Reassembler;

    fn scratch(&self) -> Reassembler {
        Reassembler::new(ReassemblyLimits::of(&self.spec), self.seeds)
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// A datagram is never longer than its fragments together. Where some of these came in earlier items, each fragment of an item may be
    /// the last of a datagram, and at most as many wait as the spec says.
    fn dst_len(&self, item_len: usize) -> usize {
        match self.spec.keep {
            FragmentsKept::Item => item_len,
            FragmentsKept::Queue => {
                let fragments = item_len / FRAGMENT_BYTES_MIN;
                let waiting = fragments.min(self.spec.datagrams.into());
                item_len.saturating_add(waiting * packet::PACKET_BYTES_MAX)
            }
        }
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Reassembler,
    ) -> Result<(), JobError> {
        match self.spec.keep {
            FragmentsKept::Item => out.each_outcome(batch, |item, slot| {
                scratch.clear();
                burst::run(scratch, item, slot)
            }),
            FragmentsKept::Queue => out.each_outcome(batch, |item, slot| {
                let (now_ns, burst) = timed(item).ok_or(JobError::Malformed)?;
                // A burst that cannot be cut into packets must leave no fragment behind.
                for packet in Burst::new(burst) {
                    packet.map_err(PacketError::refusal)?;
                }
                scratch.expire(now_ns);
                burst::run(scratch, burst, slot)
            }),
        }
        Ok(())
    }
}

/// The time at which a burst came, and the burst.
fn timed(item: &[u8]) -> Option<(u64, &[u8])> {
    let (time, burst) = item.split_first_chunk()?;
    Some((u64::from_le_bytes(*time), burst))
}

/// A packet, as far as it can be read by itself.
enum Read<'a> {
    /// A packet that is no fragment.
    Packet(&'a [u8]),
    Fragment(Piece<'a>),
}

impl<'a> Read<'a> {
    #[inline(always)] // see `Packet::parse_ipv4`
    fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        match packet::version(bytes)? {
            Version::V4 => Self::v4(bytes),
            Version::V6 => Self::v6(bytes),
        }
    }

    #[inline(always)]
    fn v4(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let packet = Packet::parse_ipv4(bytes)?;
        match fold(words(packet.headers()).into()) {
            0xffff => Self::of(packet),
            _ => Err(PacketError::Checksum),
        }
    }

    fn v6(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Packet::parse(bytes).and_then(Self::of)
    }

    #[inline(always)]
    fn of(packet: Packet<'a>) -> Result<Self, PacketError> {
        match packet.is_fragment() {
            true => Piece::parse(packet).map(Self::Fragment),
            false => Ok(Self::Packet(packet.bytes())),
        }
    }
}

impl From<PacketError> for Dropped {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet(error) => error.fmt(f),
            Self::Duplicate => f.write_str("a fragment that came before"),
            Self::Overlap => f.write_str("fragments that overlap or disagree about the end"),
            Self::TooLong => f.write_str("fragments of more than an IP packet can be"),
            Self::TooMany => f.write_str("too many fragments of one datagram"),
            Self::Congestion => f.write_str("fragments that disagree about congestion marks"),
            Self::GivenUp => f.write_str("a fragment of a datagram that was given up"),
        }
    }
}

impl std::error::Error for Dropped {}
