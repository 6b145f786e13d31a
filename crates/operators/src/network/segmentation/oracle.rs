//! Segment by segment, field by field, each checksum from nothing.

use super::{DESCRIPTOR_BYTES, Mode, Send, descriptor_bytes};
use crate::network::checksum::portable;
use crate::network::packet::{TCP, Version, put_u16, put_u32, u16_at, u32_at};

/// TCP's flags.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Writes the segments of `send` to `dst`, which is as long as they are.
pub(super) fn segment(send: &Send<'_>, mss: usize, mode: Mode, dst: &mut [u8]) {
    let segments = send.segments(mss);
    let mut rest = dst;
    for i in 0..segments {
        let payload_at = i * mss;
        let payload_end = send.payload.len().min(payload_at + mss);
        let payload = &send.payload[payload_at..payload_end];
        // Whole, so that the checksum is what a receiver would compute; then what the mode asks for of it.
        let mut whole = [0; 1 << 16];
        let whole = &mut whole[..send.headers.len() + payload.len()];
        write(send, i, segments, payload_at, payload, whole);
        rest = match mode {
            Mode::Copy => {
                let (out, rest) = rest.split_at_mut(whole.len());
                out.copy_from_slice(whole);
                rest
            }
            Mode::Descriptor => {
                let (out, rest) = rest.split_at_mut(descriptor_bytes(send.headers.len()));
                let at = (send.headers.len() + payload_at) as u32;
                out.fill(0);
                out[0..4].copy_from_slice(&at.to_le_bytes());
                out[4..6].copy_from_slice(&(payload.len() as u16).to_le_bytes());
                out[6..8].copy_from_slice(&(send.headers.len() as u16).to_le_bytes());
                out[DESCRIPTOR_BYTES..][..send.headers.len()]
                    .copy_from_slice(&whole[..send.headers.len()]);
                rest
            }
        };
    }
}

/// Segment `i` of `count`, whole.
fn write(
    send: &Send<'_>,
    i: usize,
    segments: usize,
    payload_at: usize,
    payload: &[u8],
    out: &mut [u8],
) {
    let len = out.len();
    let (headers, body) = out.split_at_mut(send.headers.len());
    headers.copy_from_slice(send.headers);
    body.copy_from_slice(payload);
    let (ip, tcp) = out.split_at_mut(send.packet.headers().len());
    put_u32(tcp, 4, u32_at(tcp, 4).wrapping_add(payload_at as u32));
    if i > 0 {
        tcp[13] &= !CWR;
    }
    if i + 1 < segments {
        tcp[13] &= !(FIN | PSH);
    }
    put_u16(tcp, 16, 0);
    let sum = portable::transport(send.packet.addresses(), TCP, tcp);
    put_u16(tcp, 16, sum);
    match send.packet.version() {
        Version::V4 => {
            put_u16(ip, 2, len as u16);
            put_u16(ip, 4, u16_at(ip, 4).wrapping_add(i as u16));
            put_u16(ip, 10, 0);
            put_u16(ip, 10, portable::checksum(ip));
        }
        Version::V6 => put_u16(ip, 4, (len - 40) as u16),
    }
}
