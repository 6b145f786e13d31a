//! TCP segmentation: one large send becomes segments of at most MSS bytes of payload.
//!
//! A send is a complete IPv4 or IPv6 packet with its TCP header, options and payload, as a network stack hands it down. Its
//! checksums are not read. A payload that the length field cannot say makes the field zero, and the item's own length counts.
//!
#![doc = include_str!("../../docs/segmentation.md")]

mod lines;
mod oracle;
mod template;
#[cfg(test)]
mod tests;

use dpb_core::{
    Batch, BatchOut, JobError, Kernel, OutputShape, SegmentationMode as Mode, SetupError,
    spec::{self, Declared, Domain},
};

use super::checksum::{Code, words};
use super::packet::workload::Packets;
use super::packet::{HEADERS_BYTES_MAX, IPV4_BYTES, Packet, PacketError, TCP, Transport};
use crate::entry::{Entry, own};
use crate::implementation::Implementation;
use lines::Segments;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "network",
    summary: "cuts one large TCP send per item into segments",
    output: "packets one after another, or descriptors with headers; variable",
    source: "RFC 9293, RFC 791, RFC 8200, RFC 3168; checksums RFC 1624",
    peers: &["rte_gso"],
    paths: Segmentation::PATHS,
    documentation: include_str!("../../docs/segmentation.md"),
    ..Entry::of::<spec::Segmentation>(
        |spec, path| {
            let &spec::Segmentation { mss, mode } = own(spec);
            Ok(Box::new(Segmentation::new(mss, mode, path)?))
        },
        |case| {
            let &spec::Segmentation { mss, mode } = own(&case.spec);
            let judge = Segmentation::new(mss, mode, Implementation::Portable)?;
            let right = move |item: &[u8]| {
                let mut segments = vec![0; judge.dst_len(item.len())];
                let len = judge.segment(item, &mut segments)?;
                segments.truncate(len);
                Ok(segments)
            };
            Ok(Box::new(Packets::send(&case.spec, Transport::LAST, right)))
        },
    )
};

/// The smallest MSS that is taken.
pub const MSS_MIN: u16 = 48;
/// The largest: with the longest headers a segment can still say its length.
pub const MSS_MAX: u16 = u16::MAX - HEADERS_BYTES_MAX as u16;

const _: () = assert!(
    matches!(spec::Segmentation::PARAMETERS[0].values, Domain::Number(first, last)
        if first == MSS_MIN as u64 && last == MSS_MAX as u64)
);

/// Bytes in front of the headers in a descriptor.
pub const DESCRIPTOR_BYTES: usize = 8;
/// Descriptors begin at multiples of this.
pub const DESCRIPTOR_ALIGN: usize = 64;

/// A descriptor of [`SegmentationMode::Descriptor`](Mode::Descriptor), read from bytes. It is eight bytes, the headers, and zeros up to a multiple of
/// [`DESCRIPTOR_ALIGN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// IP and TCP headers, final, both checksums too. Bytes 6 and 7 of the descriptor say how long they are, little endian.
    pub headers: &'a [u8],
    /// The start of the payload in the send: bytes 0 to 3, little endian.
    pub payload_at: u32,
    /// The length of the payload: bytes 4 and 5, little endian.
    pub payload_bytes: u16,
}

/// TCP segmentation on one code path.
///
/// Each segment gets the send's headers with its own lengths, sequence number, IPv4 id (one more for each segment) and
/// checksums. FIN and PSH stay on the last segment, CWR on the first. A send that fits one segment comes out whole; one that
/// does not is refused if it has SYN, RST or URG, which have no meaning in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Segmentation {
    mss: usize,
    mode: Mode,
    code: Code,
}

/// A send, checked: the headers that every segment repeats, and the payload that the segments share.
#[derive(Clone, Copy, Debug)]
struct Send<'a> {
    packet: Packet<'a>,
    /// IP and TCP headers.
    headers: &'a [u8],
    payload: &'a [u8],
}

impl Segmentation {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// With `mss` bytes of payload a segment, on `path`.
    ///
    /// # Errors
    /// If `mss` is not from [`MSS_MIN`] to [`MSS_MAX`], this CPU lacks what the path needs, or there is no such path.
    pub fn new(mss: u16, mode: Mode, path: Implementation) -> Result<Self, SetupError> {
        if !(MSS_MIN..=MSS_MAX).contains(&mss) {
            let what = format!("an MSS of {mss} bytes: not {MSS_MIN}..{MSS_MAX}");
            return Err(SetupError::Parameter(what));
        }
        Ok(Self {
            mss: usize::from(mss),
            mode,
            code: Code::on("segmentation", path)?,
        })
    }

    /// The same, on the best path of this CPU.
    ///
    /// # Errors
    /// If `mss` is not from [`MSS_MIN`] to [`MSS_MAX`].
    pub fn best(mss: u16, mode: Mode) -> Result<Self, SetupError> {
        Self::new(mss, mode, Implementation::best(Self::PATHS))
    }

    /// Writes the segments of `send` to the start of `dst` and says how many bytes they are.
    ///
    /// # Errors
    /// [`PacketError::Malformed`], [`PacketError::Protocol`], [`PacketError::Fragment`], [`PacketError::Routed`],
    /// [`PacketError::Flags`], [`PacketError::Headers`], [`PacketError::DstTooShort`]; `dst` may have been written to.
    pub fn segment(&self, send: &[u8], dst: &mut [u8]) -> Result<usize, PacketError> {
        let send = Send::parse(send)?;
        send.check_flags(self.mss)?;
        let dst = dst.get_mut(..send.output_bytes(self.mss, self.mode));
        let dst = dst.ok_or(PacketError::DstTooShort)?;
        let len = dst.len();
        match self.code {
            Code::Portable => oracle::segment(&send, self.mss, self.mode, dst),
            Code::Words => template::segment(
                &send,
                (self.mss, self.mode),
                dst,
                words::sum,
                |part, to| {
                    to.copy_from_slice(part);
                    words::sum(part)
                },
                |template, to| to.copy_from_slice(&template[..to.len()]),
            ),
            code => code
                .enter(Segments {
                    send: &send,
                    mss: self.mss,
                    mode: self.mode,
                    dst,
                })
                .expect("a path with vectors"),
        }
        Ok(len)
    }
}

impl<'a> Send<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let packet = Packet::parse_send(bytes)?.whole(TCP)?;
        let tcp = packet.payload();
        let tcp_header_bytes = tcp.get(12).map(|byte| usize::from(byte >> 4) * 4);
        let tcp_header_bytes = tcp_header_bytes
            .filter(|len| (20..=tcp.len()).contains(len))
            .ok_or(PacketError::Malformed)?;
        let headers_bytes = packet.headers().len() + tcp_header_bytes;
        if headers_bytes > HEADERS_BYTES_MAX {
            return Err(PacketError::Headers);
        }
        let (headers, payload) = bytes.split_at(headers_bytes);
        Ok(Self {
            packet,
            headers,
            payload,
        })
    }

    /// Refuses flags that only one segment can carry if there are more.
    fn check_flags(&self, mss: usize) -> Result<(), PacketError> {
        const SYN_RST_URG: u8 = 0x02 | 0x04 | 0x20;
        let flags = self.headers[self.packet.headers().len() + 13];
        let is_right = self.payload.len() <= mss || flags & SYN_RST_URG == 0;
        is_right.then_some(()).ok_or(PacketError::Flags)
    }

    /// The number of segments: one at least.
    fn segments(&self, mss: usize) -> usize {
        self.payload.len().div_ceil(mss).max(1)
    }

    fn output_bytes(&self, mss: usize, mode: Mode) -> usize {
        match mode {
            Mode::Copy => self.segments(mss) * self.headers.len() + self.payload.len(),
            Mode::Descriptor => self.segments(mss) * descriptor_bytes(self.headers.len()),
        }
    }
}

/// The length of a descriptor with `headers_bytes` bytes of headers.
fn descriptor_bytes(headers_bytes: usize) -> usize {
    (DESCRIPTOR_BYTES + headers_bytes).next_multiple_of(DESCRIPTOR_ALIGN)
}

/// The descriptors in an output of [`SegmentationMode::Descriptor`](Mode::Descriptor). Ends at the first that is cut short.
pub fn descriptors(output: &[u8]) -> impl Iterator<Item = Descriptor<'_>> {
    let mut rest = output;
    std::iter::from_fn(move || {
        let (&[a, b, c, d, e, f, g, h], behind) = rest.split_first_chunk()?;
        let headers_bytes = usize::from(u16::from_le_bytes([g, h]));
        let headers = behind.get(..headers_bytes)?;
        rest = rest.get(descriptor_bytes(headers_bytes)..).unwrap_or(&[]);
        Some(Descriptor {
            headers,
            payload_at: u32::from_le_bytes([a, b, c, d]),
            payload_bytes: u16::from_le_bytes([e, f]),
        })
    })
}

impl Kernel for Segmentation {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// The length with the longest headers that such an item can have.
    fn dst_len(&self, item_len: usize) -> usize {
        const HEADERS_BYTES_MIN: usize = IPV4_BYTES + 20;
        let payload_max = item_len.saturating_sub(HEADERS_BYTES_MIN);
        let segments = payload_max.div_ceil(self.mss).max(1);
        let headers_max = HEADERS_BYTES_MAX.min(item_len);
        match self.mode {
            Mode::Copy => item_len + (segments - 1) * headers_max,
            Mode::Descriptor => segments * descriptor_bytes(headers_max),
        }
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            let len = self.segment(item, slot);
            len.map(|len| len as u32).map_err(PacketError::refusal)
        });
        Ok(())
    }
}
