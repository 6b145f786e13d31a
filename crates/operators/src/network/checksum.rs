//! The Internet checksum (RFC 1071): of any bytes, of an IPv4 header, of TCP and UDP with their pseudo headers; and its
//! incremental update (RFC 1624).
//!
#![doc = include_str!("../../docs/checksum.md")]
#![doc = include_str!("../../docs/checksum-verify.md")]
#![doc = include_str!("../../docs/checksum-fill.md")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod code;
pub(crate) mod kernel;
pub(crate) mod lines;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod packets;
pub(crate) mod portable;
mod quarters;
#[cfg(target_arch = "x86_64")]
mod sse42;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use dpb_core::{
    Batch, BatchOut, ChecksumForm, JobError, Kernel, OpSpec, OutputShape, SetupError, spec,
};

use super::packet::workload::Packets;
use super::packet::{
    IPV4_BYTES, IPV6_BYTES, Packet, PacketError, TCP, Transport, UDP, Version, u16_at,
};
use crate::entry::{Entry, own};
use crate::implementation::Implementation;
pub(crate) use code::Code;
use kernel::{OfBatch, OfFew};
pub use packets::{ChecksumFill, ChecksumVerify, Verdict};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "network",
    summary: "Internet checksum of each item, or of the headers that it begins with",
    output: "2 bytes per item, big endian; variable where the item must be a packet",
    source: "RFC 1071; RFC 791, RFC 9293, RFC 768, RFC 8200",
    peers: &["rte_cksum", "vpp-rewritten"],
    paths: Checksum::PATHS,
    documentation: include_str!("../../docs/checksum.md"),
    ..Entry::of::<spec::Checksum>(
        |spec, path| Ok(Box::new(Checksum::new(form_of(spec), path)?)),
        |case| {
            let form = form_of(&case.spec);
            let right = move |item: &[u8]| oracle(form, item).map(|sum| sum.to_be_bytes().to_vec());
            Ok(Box::new(match form {
                ChecksumForm::Plain => Packets::bytes(&case.spec, right),
                ChecksumForm::Ipv4 => Packets::ipv4(&case.spec, right),
                ChecksumForm::Tcp => Packets::one(&case.spec, Transport::ACK, right),
                ChecksumForm::Udp => Packets::one(&case.spec, Transport::Udp, right),
            }))
        },
    )
};

fn form_of(spec: &OpSpec) -> ChecksumForm {
    own::<spec::Checksum>(spec).form
}

/// The Internet checksum on one code path.
///
/// What comes out is what goes into the checksum field, big endian as on the wire. A field inside the item counts as zero,
/// so that the same answer fills a packet that leaves and checks one that came; in [`ChecksumForm::Plain`] there is no field, and
/// bytes that hold their right checksum give zero.
#[derive(Clone, Copy, Debug)]
pub struct Checksum {
    form: ChecksumForm,
    code: Code,
}

/// The part of an item that is summed, in the byte order of memory: 16-bit words, little endian.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) bytes: &'a [u8],
    /// Added to their sum: pseudo header and the complement of the field.
    pub(crate) plus: u32,
}

/// The number of items that are summed together across lanes.
const GROUP: usize = 16;

/// So much is summed in 32 bits: each of sixteen lanes takes two words of every 64 bytes.
const BLOCK_BYTES: usize = 1 << 16;

/// Items to be summed together. The places without an item are empty.
struct Group<'a> {
    bytes: [&'a [u8]; GROUP],
    /// Added to the sum of each.
    plus: [u32; GROUP],
}

/// `checksum` of bytes in which the 16-bit word `old` has become `new` (RFC 1624, equation 3).
///
/// ```
/// use dpb_operators::network::checksum::update;
///
/// // The example of RFC 1624, 4.
/// assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
/// ```
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    !fold(u64::from(sum))
}

/// `checksum` of bytes in which the 32-bit word `old`, at an even offset, has become `new`.
pub fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    let high = update(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update(high, old as u16, new as u16)
}

impl Checksum {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// Makes the checksum of `form` on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(form: ChecksumForm, path: Implementation) -> Result<Self, SetupError> {
        let code = Code::on("checksum", path)?;
        Ok(Self { form, code })
    }

    /// Makes the checksum of `form` on the best path of this CPU.
    pub fn best(form: ChecksumForm) -> Self {
        let path = Implementation::best(Self::PATHS);
        Self::new(form, path).expect("the best path is available")
    }

    /// The checksum of `item`.
    ///
    /// # Errors
    /// Of [`ChecksumForm::Plain`] none; else [`PacketError::Malformed`], [`PacketError::Protocol`], [`PacketError::Fragment`],
    /// [`PacketError::Routed`].
    pub fn of(&self, item: &[u8]) -> Result<u16, PacketError> {
        let piece = piece(self.form, item)?;
        Ok(self.written(self.code.checksum(piece)).swap_bytes())
    }

    /// `checksum` as it is written: UDP's is never zero, which would say that there is none (RFC 768).
    fn written(&self, checksum: u16) -> u16 {
        match checksum {
            0 if self.form == ChecksumForm::Udp => 0xffff,
            checksum => checksum,
        }
    }

    /// Says whether the field of `item` holds its checksum. A UDP field of zero over IPv4 says that there is none: right.
    ///
    /// # Errors
    /// As [`Checksum::of`].
    pub fn is_right(&self, item: &[u8]) -> Result<bool, PacketError> {
        let right = self.of(item)?;
        let field = match self.form {
            ChecksumForm::Plain => return Ok(right == 0),
            ChecksumForm::Ipv4 => u16_at(item, 10),
            ChecksumForm::Tcp => u16_at(Packet::parse_padded(item)?.payload(), 16),
            ChecksumForm::Udp => u16_at(Packet::parse_padded(item)?.payload(), 6),
        };
        let is_absent = self.form == ChecksumForm::Udp && field == 0 && item[0] >> 4 == 4;
        // In one's complement both are zero.
        Ok(field == right || right == 0 && field == 0xffff || is_absent)
    }
}

impl<'a> Group<'a> {
    const fn empty() -> Self {
        Self {
            bytes: [&[]; GROUP],
            plus: [0; GROUP],
        }
    }

    fn set(&mut self, i: usize, piece: Piece<'a>) {
        (self.bytes[i], self.plus[i]) = (piece.bytes, piece.plus);
    }
}

impl Kernel for Checksum {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        match self.form {
            ChecksumForm::Plain => OutputShape::Fixed(2),
            ChecksumForm::Ipv4 | ChecksumForm::Tcp | ChecksumForm::Udp => OutputShape::Variable,
        }
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        2
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        match self.code {
            code if self.form == ChecksumForm::Plain && code.has_vectors() => {
                out.fixed(&batch, 2, |batch, sums| {
                    let slots = sums.as_chunks_mut().0;
                    // A few items are done sooner than many are prepared for.
                    match batch.len() < GROUP {
                        true => code.enter(OfFew(batch, slots)),
                        false => code.enter(OfBatch(batch, slots)),
                    }
                    .expect("a path with vectors");
                });
            }
            _ => self.groups(batch, out),
        }
        Ok(())
    }
}

impl Checksum {
    /// Computes sixteen items at a time, on every path and in every form. Not inlined: to make room on the stack for its arrays would take a good part
    /// of the time of a few plain items.
    #[inline(never)]
    fn groups(&self, batch: Batch<'_>, mut out: BatchOut<'_>) {
        for first in (0..batch.len()).step_by(GROUP) {
            let count = GROUP.min(batch.len() - first);
            let mut group = Group::empty();
            let mut refused = [None; GROUP];
            for (i, refused) in refused[..count].iter_mut().enumerate() {
                match piece(self.form, batch.item(first + i)) {
                    Ok(piece) => group.set(i, piece),
                    Err(error) => *refused = Some(error),
                }
            }
            let checksums = self.code.checksums(&group, count);
            for ((i, checksum), refused) in (first..first + count).zip(checksums).zip(refused) {
                let checksum = self.written(checksum).to_le_bytes();
                self.put(&mut out, i, refused.map_or(Ok(checksum), Err));
            }
        }
    }

    /// Writes what came of item `i`.
    fn put(&self, out: &mut BatchOut<'_>, i: usize, checksum: Result<[u8; 2], PacketError>) {
        let slot = out.slots[i].first_chunk_mut::<2>();
        let outcome = match (checksum, slot) {
            (Ok(checksum), Some(slot)) => {
                *slot = checksum;
                Ok(2)
            }
            (Ok(_), None) => Err(JobError::DstTooShort),
            (Err(error), _) => Err(error.refusal()),
        };
        if self.form != ChecksumForm::Plain {
            out.outcomes.push(outcome);
        }
    }
}

/// The right checksum of `item`, by the definition in the RFCs.
pub(crate) fn oracle(form: ChecksumForm, item: &[u8]) -> Result<u16, PacketError> {
    match form {
        ChecksumForm::Plain => Ok(portable::checksum(item)),
        ChecksumForm::Ipv4 => {
            let mut header = ipv4_header(item)?.to_vec();
            header[10..12].fill(0);
            Ok(portable::checksum(&header))
        }
        ChecksumForm::Tcp | ChecksumForm::Udp => {
            let packet = Packet::parse_padded(item)?;
            let (protocol, field) = match form {
                ChecksumForm::Tcp => (TCP, 16),
                _ => (UDP, 6),
            };
            let mut segment = transport(packet, protocol)?.to_vec();
            segment[field..field + 2].fill(0);
            match portable::transport(packet.addresses(), protocol, &segment) {
                0 if form == ChecksumForm::Udp => Ok(0xffff),
                sum => Ok(sum),
            }
        }
    }
}

/// The IPv4 header at the start of `item`.
fn ipv4_header(item: &[u8]) -> Result<&[u8], PacketError> {
    let first = *item.first().ok_or(PacketError::Malformed)?;
    let len = usize::from(first & 15) * 4;
    let is_right = first >> 4 == 4 && len >= 20;
    let header = item.get(..len).filter(|_| is_right);
    header.ok_or(PacketError::Malformed)
}

/// The transport's header and payload, their lengths checked.
fn transport<'a>(packet: Packet<'a>, protocol: u8) -> Result<&'a [u8], PacketError> {
    let payload = packet.whole(protocol)?.payload();
    let len = if protocol == TCP {
        let header = payload.get(12).map(|byte| usize::from(byte >> 4) * 4);
        header
            .filter(|header| (20..=payload.len()).contains(header))
            .map(|_| payload.len())
    } else {
        // What a UDP header says may be less than what IP carries.
        (payload.len() >= 8)
            .then(|| usize::from(u16_at(payload, 4)))
            .filter(|len| (8..=payload.len()).contains(len))
    };
    let len = len.ok_or(PacketError::Malformed)?;
    Ok(&payload[..len])
}

/// The part of `item` that the fast paths sum.
// As `Found::of`: copied just after it was written, it would be waited for.
#[inline(always)]
pub(crate) fn piece(form: ChecksumForm, item: &[u8]) -> Result<Piece<'_>, PacketError> {
    let of = |bytes, plus| Piece { bytes, plus };
    match form {
        ChecksumForm::Plain => Ok(of(item, 0)),
        ChecksumForm::Ipv4 => {
            let header = ipv4_header(item)?;
            Ok(of(header, complement(header, 10)))
        }
        ChecksumForm::Tcp | ChecksumForm::Udp => {
            let (protocol, field) = match form {
                ChecksumForm::Tcp => (TCP, 16),
                _ => (UDP, 6),
            };
            let packet = Packet::parse_padded(item)?;
            let segment = transport(packet, protocol)?;
            let mut piece = transport_piece(packet, segment);
            piece.plus += complement(segment, field);
            Ok(piece)
        }
    }
}

/// A transport's segment with its pseudo header, its field counted.
fn transport_piece<'a>(packet: Packet<'a>, segment: &'a [u8]) -> Piece<'a> {
    let plus = pseudo(packet.protocol(), segment.len());
    let addresses = packet.addresses();
    let fixed_bytes = match packet.version() {
        Version::V4 => IPV4_BYTES,
        Version::V6 => IPV6_BYTES,
    };
    // The addresses end the fixed header: without options one run of bytes covers them and the segment.
    let at = packet.headers().len();
    if at == fixed_bytes {
        let bytes = &packet.bytes()[at - addresses.len()..at + segment.len()];
        return Piece { bytes, plus };
    }
    Piece {
        bytes: segment,
        plus: plus + words(addresses),
    }
}

/// Protocol and length of a pseudo header, as little-endian words.
pub(crate) fn pseudo(protocol: u8, len: usize) -> u32 {
    let swapped = |word: usize| u32::from((word as u16).swap_bytes());
    swapped(usize::from(protocol)) + swapped(len >> 16) + swapped(len & 0xffff)
}

/// The summand that takes a field out of a sum that counted it.
fn complement(bytes: &[u8], at: usize) -> u32 {
    u32::from(!u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// The little-endian words of a few bytes, an even number of them.
pub(crate) fn words(bytes: &[u8]) -> u32 {
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs
        .iter()
        .map(|pair| u32::from(u16::from_le_bytes(*pair)))
        .sum()
}

/// Carries added back in: the 16-bit sum. Zero only of zero.
pub(crate) fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}
