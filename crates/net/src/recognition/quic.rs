//! The start of QUIC: Initial packets of versions 1 (RFC 9000, RFC 9001) and 2 (RFC 9369) and of the drafts since 22, their protection removed, and the
//! pieces of the TLS hello that they carry.
//!
//! An Initial packet is encrypted with keys that follow from a connection's number in it, so that whoever sees the packet can read it. What it
//! protects against is mistaking another protocol for QUIC. [`crate::traffic::application`] makes such packets, with code of its own: each checks the other.
//!
//! ```text
//! datagram = packet, packet …           several packets in one datagram
//! packet   = header, frames under AEAD  Initial, 0-RTT, Handshake; Retry; version negotiation
//! frames   = CRYPTO at an offset, PADDING, PING, ACK …
//! ```

mod frames;
mod header;
mod keys;
mod version;

pub use frames::{Frame, Frames};
pub use header::{Packet, Packets};
pub use keys::{Keys, Side, retry_is_whole};
pub use version::{Kind, Version};

/// The longest datagram that is looked into.
pub(super) const DATAGRAM_BYTES_MAX: usize = 1 << 12;

/// Removes an Initial packet's protection; its frames are put into `plain`. `None` if the keys are not its keys, or if it is none.
pub fn open<'a>(packet: &Packet<'_>, keys: &Keys, plain: &'a mut Vec<u8>) -> Option<Frames<'a>> {
    /// Packet numbers are taken to be this long where the sample is cut out (RFC 9001, 5.4.2).
    const NUMBER_BYTES_MAX: usize = 4;
    const SAMPLE: usize = 16;
    const TAG: usize = 16;
    let Packet {
        bytes,
        number_at,
        kind: Kind::Initial,
        ..
    } = *packet
    else {
        return None;
    };
    let sample = bytes
        .get(number_at + NUMBER_BYTES_MAX..)?
        .first_chunk::<SAMPLE>()?;
    let mask = keys.mask(sample);
    let first = bytes.first()? ^ (mask[0] & 0x0f);
    let number_len = usize::from(first & 3) + 1;
    let start = number_at + number_len;
    if bytes.len() < start + TAG || bytes.len() > DATAGRAM_BYTES_MAX {
        return None;
    }
    // The header is authenticated as it was before it was protected; frames and tag follow it.
    plain.clear();
    plain.extend_from_slice(bytes);
    *plain.first_mut()? = first;
    let mut number = 0_u64;
    for (byte, mask) in plain[number_at..start].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
        number = number << 8 | u64::from(*byte);
    }
    let (header, sealed) = plain.split_at_mut(start);
    let (frames, tag) = sealed.split_at_mut(sealed.len() - TAG);
    // Numbers of Initial packets are small: what is left out of one is zero.
    let is_right = keys.open(number, header, frames, tag.first_chunk()?);
    let len = frames.len();
    is_right.then(|| Frames::new(&plain[start..start + len]))
}
