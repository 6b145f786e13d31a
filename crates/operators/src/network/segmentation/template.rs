//! What all segments of a send have in common, and what makes it one segment's own.

use super::{DESCRIPTOR_ALIGN, DESCRIPTOR_BYTES, Mode, Send, descriptor_bytes};
use crate::network::checksum::{fold, words};
use crate::network::packet::{HEADERS_BYTES_MAX, TCP, Version, put_u16, put_u32, u16_at, u32_at};

/// TCP's flags, as the low byte of the word that they share with the header's length.
const FIN_PSH: u16 = 0x01 | 0x08;
const CWR: u16 = 0x80;

/// The headers of a send, and the sums of those of their words that do not change.
pub(super) struct Template {
    /// The headers, from the place that was asked for; zeros around them.
    pub(super) bytes: [u8; Self::BYTES],
    version: Version,
    /// The start of TCP's header in the headers.
    tcp_at: usize,
    tcp_bytes: usize,
    /// Of the next segment.
    sequence: u32,
    id: u16,
    /// Header length and flags of the next segment, unless it is the last; and what the last has besides.
    flags: u16,
    flags_of_last: u16,
    /// Of IPv4's header; of pseudo header and TCP's.
    ip_sum: u32,
    tcp_sum: u32,
}

impl Template {
    pub(super) const BYTES: usize =
        (DESCRIPTOR_BYTES + HEADERS_BYTES_MAX).next_multiple_of(DESCRIPTOR_ALIGN);

    /// Of `send`, its headers at `at` in the bytes.
    pub(super) fn new(send: &Send<'_>, at: usize) -> Self {
        let mut bytes = [0; Self::BYTES];
        let headers = &mut bytes[at..at + send.headers.len()];
        headers.copy_from_slice(send.headers);
        let version = send.packet.version();
        let tcp_at = send.packet.headers().len();
        let (ip, tcp) = headers.split_at_mut(tcp_at);
        let (sequence, flags) = (u32_at(tcp, 4), u16_at(tcp, 12));
        let id = u16_at(ip, 4);
        for field in [4..8, 12..14, 16..18] {
            tcp[field].fill(0);
        }
        if version == Version::V4 {
            for field in [2..6, 10..12] {
                ip[field].fill(0);
            }
        }
        let protocol = u32::from(u16::from(TCP).swap_bytes());
        let tcp_sum = words(send.packet.addresses()) + protocol + words(tcp);
        Self {
            version,
            tcp_at,
            tcp_bytes: tcp.len(),
            sequence,
            id,
            flags: flags & !FIN_PSH,
            flags_of_last: flags & FIN_PSH,
            ip_sum: words(ip),
            tcp_sum,
            bytes,
        }
    }

    /// Makes `headers`, to which the template was copied, the next segment's: its bytes of payload with this sum of
    /// little-endian words.
    #[inline]
    pub(super) fn finish(
        &mut self,
        headers: &mut [u8],
        payload_bytes: usize,
        payload_sum: u64,
        is_last: bool,
    ) {
        let (ip, tcp) = headers.split_at_mut(self.tcp_at);
        let tcp = &mut tcp[..self.tcp_bytes];
        let segment_bytes = (tcp.len() + payload_bytes) as u16;
        let flags = self.flags | if is_last { self.flags_of_last } else { 0 };
        put_u32(tcp, 4, self.sequence);
        put_u16(tcp, 12, flags);
        let sum = payload_sum
            + u64::from(self.tcp_sum)
            + u64::from(self.sequence.swap_bytes())
            + u64::from(flags.swap_bytes())
            + u64::from(segment_bytes.swap_bytes());
        put_u16(tcp, 16, !fold(sum).swap_bytes());
        match self.version {
            Version::V4 => {
                let len = segment_bytes + ip.len() as u16;
                put_u16(ip, 2, len);
                put_u16(ip, 4, self.id);
                let sum =
                    self.ip_sum + u32::from(len.swap_bytes()) + u32::from(self.id.swap_bytes());
                put_u16(ip, 10, !fold(sum.into()).swap_bytes());
            }
            Version::V6 => put_u16(ip, 4, segment_bytes + (ip.len() - 40) as u16),
        }
        self.sequence = self.sequence.wrapping_add(payload_bytes as u32);
        self.id = self.id.wrapping_add(1);
        self.flags &= !CWR;
    }
}

/// Writes the segments of `send` to `dst`, which is as long as they are. `sum` adds up little-endian words, `copy` does so
/// while it copies, `put` writes the start of a template.
///
/// Inlined into its caller, so that the closures may use the caller's instructions.
#[inline(always)]
pub(super) fn segment(
    send: &Send<'_>,
    (mss, mode): (usize, Mode),
    dst: &mut [u8],
    sum: impl Fn(&[u8]) -> u64,
    copy: impl Fn(&[u8], &mut [u8]) -> u64,
    put: impl Fn(&[u8; Template::BYTES], &mut [u8]),
) {
    let headers_bytes = send.headers.len();
    let (front_bytes, fixed_bytes) = match mode {
        Mode::Copy => (0, headers_bytes),
        Mode::Descriptor => (DESCRIPTOR_BYTES, descriptor_bytes(headers_bytes)),
    };
    let mut template = Template::new(send, front_bytes);
    let (mut payload, mut rest) = (send.payload, dst);
    let mut payload_at = headers_bytes;
    loop {
        let (part, behind) = payload.split_at(payload.len().min(mss));
        let (fixed, out_behind) = rest.split_at_mut(fixed_bytes);
        rest = out_behind;
        let sum = match mode {
            Mode::Copy => {
                let (body, out_behind) = rest.split_at_mut(part.len());
                rest = out_behind;
                copy(part, body)
            }
            Mode::Descriptor => sum(part),
        };
        put(&template.bytes, fixed);
        let (front, headers) = fixed.split_at_mut(front_bytes);
        if let Some(place) = front.first_chunk_mut::<DESCRIPTOR_BYTES>() {
            let lengths = (headers_bytes << 16 | part.len()) as u64;
            *place = (lengths << 32 | payload_at as u64).to_le_bytes();
        }
        template.finish(headers, part.len(), sum, behind.is_empty());
        if behind.is_empty() {
            break;
        }
        payload_at += part.len();
        payload = behind;
    }
}
