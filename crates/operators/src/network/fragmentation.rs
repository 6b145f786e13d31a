//! IP fragmentation: a packet longer than the MTU becomes fragments (RFC 791, 3.2; RFC 8200, 4.5).
//!
#![doc = include_str!("../../docs/fragmentation.md")]

pub(crate) mod oracle;
#[cfg(test)]
mod tests;

use dpb_core::{
    Batch, BatchOut, JobError, Kernel, OutputShape, SetupError,
    spec::{self, Declared, Domain},
};

use super::checksum::{self, fold};
use super::packet::workload::Packets;
use super::packet::{
    FRAGMENT, FRAGMENT_BYTES, HEADERS_BYTES_MAX, IPV4_BYTES, PACKET_BYTES_MAX, Packet, PacketError,
    Transport, Version, put_u16, put_u32, u16_at,
};
use crate::entry::{Entry, own};
use crate::implementation::Implementation;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "network",
    summary: "cuts one IP packet per item into fragments",
    output: "packets one after another, variable; what must not be cut is refused",
    source: "RFC 791, 3.2; RFC 8200, 4.5",
    peers: &["rte_ip_frag"],
    paths: Fragmentation::PATHS,
    documentation: include_str!("../../docs/fragmentation.md"),
    ..Entry::of::<spec::Fragmentation>(
        |spec, path| {
            Ok(Box::new(Fragmentation::new(
                own::<spec::Fragmentation>(spec).mtu,
                path,
            )?))
        },
        |case| {
            let mtu = own::<spec::Fragmentation>(&case.spec).mtu;
            let right = move |item: &[u8]| oracle::fragment(item, mtu.into(), identification(item));
            Ok(Box::new(Packets::one(&case.spec, Transport::Udp, right)))
        },
    )
};

/// The smallest MTU that is taken: what every IPv4 link must carry (RFC 791, 3.2). Of IPv6 it is 1,280; smaller ones work.
pub const MTU_MIN: u16 = 68;
const _: () = assert!(
    matches!(spec::Fragmentation::PARAMETERS[0].values, Domain::Number(first, _) if first == MTU_MIN as u64)
);

/// IPv4: don't fragment, more fragments, offset in units of eight bytes.
const DF: u16 = 0x4000;
const MF: u16 = 0x2000;

/// IP fragmentation on one code path.
///
/// A packet that fits comes out as it is. Of IPv4 the first fragment has all options, the others those with the copy bit,
/// closed up; a fragment can be fragmented again; a packet that says `don't fragment` is refused. Of IPv6 each fragment
/// repeats the headers up to the routing header (else the hop-by-hop options) and has a fragment header; a packet that has
/// one is refused, since only a source fragments.
#[derive(Clone, Copy, Debug)]
pub struct Fragmentation {
    mtu: usize,
}

impl Fragmentation {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = &[Implementation::Portable];

    /// To fragments of at most `mtu` bytes, on `path`.
    ///
    /// # Errors
    /// If `mtu` is below [`MTU_MIN`], or there is no such path.
    pub fn new(mtu: u16, path: Implementation) -> Result<Self, SetupError> {
        if mtu < MTU_MIN {
            let what = format!("an MTU of {mtu} bytes: not {MTU_MIN}..{}", u16::MAX);
            return Err(SetupError::Parameter(what));
        }
        match path {
            Implementation::Portable => Ok(Self { mtu: mtu.into() }),
            _ => Err(path.missing("fragmentation", Self::PATHS)),
        }
    }

    /// The same, on the best path of this CPU.
    ///
    /// # Errors
    /// If `mtu` is below [`MTU_MIN`].
    pub fn best(mtu: u16) -> Result<Self, SetupError> {
        Self::new(mtu, Implementation::best(Self::PATHS))
    }

    /// Writes the fragments of `packet`, one after another, to the start of `dst` and says how many bytes they are.
    /// `identification` is what IPv6's fragments have in common; IPv4 has its own.
    ///
    /// # Errors
    /// [`PacketError::Malformed`], [`PacketError::Checksum`], [`PacketError::DontFragment`], [`PacketError::Fragment`],
    /// [`PacketError::Headers`], [`PacketError::DstTooShort`]; `dst` may have been written to.
    pub fn fragment(
        &self,
        packet: &[u8],
        identification: u32,
        dst: &mut [u8],
    ) -> Result<usize, PacketError> {
        let packet = Packet::parse(packet)?;
        cut(packet, self.mtu, identification, dst)
    }
}

/// The identification that the seam gives a packet, since an item stands for itself: a hash of its first 64 bytes, which hold
/// addresses, flow label, ports and mostly the transport's checksum. A program that sends gives its own (RFC 7739).
pub fn identification(packet: &[u8]) -> u32 {
    let head = &packet[..packet.len().min(64)];
    let mut hash = packet.len() as u64;
    for chunk in head.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
    }
    hash as u32
}

/// Writes the fragments of `packet` to the start of `dst`.
fn cut(
    packet: Packet<'_>,
    mtu: usize,
    identification: u32,
    dst: &mut [u8],
) -> Result<usize, PacketError> {
    if packet.version() == Version::V4 && fold(checksum::words(packet.headers()).into()) != 0xffff {
        return Err(PacketError::Checksum);
    }
    let mut out = Out { dst, len: 0 };
    if packet.bytes().len() <= mtu {
        out.push(&[packet.bytes()])?;
    } else {
        match packet.version() {
            Version::V4 => cut_v4(packet, mtu, &mut out)?,
            Version::V6 => cut_v6(packet, mtu, identification, &mut out)?,
        }
    }
    Ok(out.len)
}

/// The output so far.
struct Out<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    fn push<const N: usize>(&mut self, parts: &[&[u8]; N]) -> Result<(), PacketError> {
        for part in parts {
            let end = self.len + part.len();
            let room = self.dst.get_mut(self.len..end);
            room.ok_or(PacketError::DstTooShort)?.copy_from_slice(part);
            self.len = end;
        }
        Ok(())
    }
}

fn cut_v4(packet: Packet<'_>, mtu: usize, out: &mut Out<'_>) -> Result<(), PacketError> {
    let (header, payload) = (packet.headers(), packet.payload());
    let field = u16_at(header, 6);
    if field & DF != 0 {
        return Err(PacketError::DontFragment);
    }
    let start = usize::from(field & 0x1fff) * 8;
    let is_last = field & MF == 0;
    // What no whole datagram can have come to, or what a fragment before the last must not be.
    if start + payload.len() > 0xffff || !is_last && !payload.len().is_multiple_of(8) {
        return Err(PacketError::Malformed);
    }
    let flags = field & !(MF | 0x1fff);
    let mut at = 0;
    let mut header = Header::new(header);
    while at < payload.len() {
        let room = (mtu - header.len) & !7;
        let end = payload.len().min(at + room);
        let more = end < payload.len() || !is_last;
        let field = flags | if more { MF } else { 0 } | ((start + at) / 8) as u16;
        let bytes = header.with(field, end - at);
        out.push(&[bytes, &payload[at..end]])?;
        if at == 0 {
            header = Header::new(packet.headers()).of_later_fragments()?;
        }
        at = end;
    }
    Ok(())
}

/// An IPv4 header to put on fragments.
struct Header {
    bytes: [u8; 60],
    len: usize,
    /// The sum of the header's words that do not change.
    sum: u32,
}

impl Header {
    fn new(header: &[u8]) -> Self {
        let mut bytes = [0; 60];
        bytes[..header.len()].copy_from_slice(header);
        Self {
            bytes,
            len: header.len(),
            sum: 0,
        }
        .summed()
    }

    /// The header with the options that have the copy bit alone, closed up.
    fn of_later_fragments(mut self) -> Result<Self, PacketError> {
        let (mut from, mut to) = (IPV4_BYTES, IPV4_BYTES);
        while from < self.len {
            let kind = self.bytes[from];
            let len = match kind {
                0 => break,
                1 => 1,
                _ => match self.bytes[..self.len].get(from + 1) {
                    Some(&len) if len >= 2 => usize::from(len),
                    _ => return Err(PacketError::Malformed),
                },
            };
            if from + len > self.len {
                return Err(PacketError::Malformed);
            }
            if kind & 0x80 != 0 {
                self.bytes.copy_within(from..from + len, to);
                to += len;
            }
            from += len;
        }
        self.len = to.next_multiple_of(4);
        self.bytes[to..].fill(0);
        self.bytes[0] = 0x40 | (self.len / 4) as u8;
        Ok(self.summed())
    }

    fn summed(mut self) -> Self {
        for changing in [2..4, 6..8, 10..12] {
            self.bytes[changing].fill(0);
        }
        self.sum = checksum::words(&self.bytes);
        self
    }

    /// The header of a fragment with these flags and offset, and `payload_bytes` bytes of payload.
    fn with(&mut self, field: u16, payload_bytes: usize) -> &[u8] {
        let len = (self.len + payload_bytes) as u16;
        put_u16(&mut self.bytes, 2, len);
        put_u16(&mut self.bytes, 6, field);
        let sum = self.sum + u32::from(len.swap_bytes()) + u32::from(field.swap_bytes());
        let checksum = !fold(sum.into());
        self.bytes[10..12].copy_from_slice(&checksum.to_le_bytes());
        &self.bytes[..self.len]
    }
}

fn cut_v6(
    packet: Packet<'_>,
    mtu: usize,
    identification: u32,
    out: &mut Out<'_>,
) -> Result<(), PacketError> {
    if packet.is_fragment() {
        return Err(PacketError::Fragment);
    }
    let repeated = packet.per_fragment_bytes();
    let (repeated, rest) = packet.bytes().split_at(repeated);
    let headers_bytes = repeated.len() + FRAGMENT_BYTES;
    let room = mtu.saturating_sub(headers_bytes) & !7;
    // All headers, the transport's too, belong in the first fragment.
    let chain = packet.headers().len() - repeated.len() + packet.transport_header_bytes();
    if headers_bytes > HEADERS_BYTES_MAX || room == 0 || chain > room {
        return Err(PacketError::Headers);
    }
    let mut bytes = [0; HEADERS_BYTES_MAX];
    let headers = &mut bytes[..headers_bytes];
    headers[..repeated.len()].copy_from_slice(repeated);
    let next_header = std::mem::replace(&mut headers[packet.next_header_at()], FRAGMENT);
    headers[repeated.len()] = next_header;
    put_u32(headers, repeated.len() + 4, identification);
    let mut at = 0;
    while at < rest.len() {
        let end = rest.len().min(at + room);
        let more = u16::from(end < rest.len());
        put_u16(headers, 4, (headers_bytes - 40 + end - at) as u16);
        put_u16(headers, repeated.len() + 2, at as u16 | more);
        out.push(&[headers, &rest[at..end]])?;
        at = end;
    }
    Ok(())
}

impl Kernel for Fragmentation {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// The length with the longest headers that such an item can have.
    fn dst_len(&self, item_len: usize) -> usize {
        let len = item_len.min(PACKET_BYTES_MAX);
        if len <= self.mtu {
            return len;
        }
        // A fragment has room for one unit of payload at least.
        let headers = HEADERS_BYTES_MAX.min(self.mtu - 8);
        let room = (self.mtu - headers) & !7;
        len + len.div_ceil(room) * headers
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            let len = self.fragment(item, identification(item), slot);
            len.map(|len| len as u32).map_err(PacketError::refusal)
        });
        Ok(())
    }
}
