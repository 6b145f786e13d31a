//! QUIC's Initial packets, encrypted as their receivers expect it (RFC 9000, RFC 9001; RFC 9369 for version 2).
//!
//! The keys of Initial packets follow from the connection ID that the client has chosen, so whoever sees the packet can read it. The point of the
//! encryption is that nobody does so without meaning to.

use aes::Aes128;
use aes::cipher::BlockCipherEncrypt;
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, KeyInit};
use dpb_core::random::SplitMix64;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::bytes::{Bytes, random_bytes};

/// A version of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicVersion {
    /// RFC 9000.
    V1,
    /// RFC 9369.
    V2,
}

/// How a hello travels in Initial packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicDelivery {
    /// One CRYPTO frame in each packet, in order; as many packets as are needed.
    Whole,
    /// Each packet's part in so many CRYPTO frames, 1 to 64, in order.
    Frames(usize),
    /// As [`QuicDelivery::Frames`], in an order that is drawn, with PING and PADDING frames between, as Chromium sends them.
    Scattered(usize),
    /// The hello in so many datagrams, the last part first, one frame each.
    Backwards(usize),
}

/// A datagram's bytes, so that a server may answer (RFC 9000, 14.1).
pub const DATAGRAM_BYTES: usize = 1200;
/// Bytes of the connection IDs here.
const ID_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
const NUMBER_BYTES: usize = 4;
/// Where the sample begins behind the packet number's first byte (RFC 9001, 5.4.2).
const SAMPLE_AT: usize = 4;

impl QuicVersion {
    /// The version's number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 0x6b33_43cf,
        }
    }

    /// RFC 9001, 5.2; RFC 9369, 3.3.1.
    fn salt(self) -> [u8; 20] {
        match self {
            Self::V1 => [
                0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
                0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
            ],
            Self::V2 => [
                0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
                0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
            ],
        }
    }

    fn labels(self) -> [&'static str; 3] {
        match self {
            Self::V1 => ["quic key", "quic iv", "quic hp"],
            Self::V2 => ["quicv2 key", "quicv2 iv", "quicv2 hp"],
        }
    }

    /// The type bits of an Initial packet (RFC 9369, 3.2).
    fn initial_type(self) -> u8 {
        match self {
            Self::V1 => 0,
            Self::V2 => 1,
        }
    }
}

/// The keys of one side's Initial packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialKeys {
    pub(super) key: [u8; 16],
    pub(super) iv: [u8; 12],
    pub(super) hp: [u8; 16],
}

impl InitialKeys {
    /// The client's, by the connection ID that it has chosen for the server.
    pub fn client(version: QuicVersion, destination_id: &[u8]) -> Self {
        Self::of(version, destination_id, "client in")
    }

    /// The server's.
    pub fn server(version: QuicVersion, destination_id: &[u8]) -> Self {
        Self::of(version, destination_id, "server in")
    }

    fn of(version: QuicVersion, destination_id: &[u8], side: &str) -> Self {
        let initial = hmac(&version.salt(), &[destination_id]);
        let secret = expand_label::<32>(&initial, side);
        let [key, iv, hp] = version.labels();
        Self {
            key: expand_label(&secret, key),
            iv: expand_label(&secret, iv),
            hp: expand_label(&secret, hp),
        }
    }

    /// Encrypts a packet and hides its number: `header` ends with the number, in `number_bytes` bytes.
    pub fn seal(&self, header: &[u8], number: u32, number_bytes: usize, payload: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        for (byte, of_number) in nonce[8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        let mut packet = header.to_vec();
        packet.extend_from_slice(payload);
        let tag = Aes128Gcm::new(&self.key.into())
            .encrypt_inout_detached(&nonce.into(), header, (&mut packet[header.len()..]).into())
            .expect("far below GCM's limit");
        packet.extend_from_slice(&tag);
        self.hide(&mut packet, header.len() - number_bytes, number_bytes);
        packet
    }

    /// Header protection (RFC 9001, 5.4), for a long header.
    fn hide(&self, packet: &mut [u8], number_at: usize, number_bytes: usize) {
        let sample: [u8; 16] = std::array::from_fn(|i| packet[number_at + SAMPLE_AT + i]);
        let mut mask = sample.into();
        Aes128::new(&self.hp.into()).encrypt_block(&mut mask);
        packet[0] ^= mask[0] & 0x0f;
        for (byte, mask) in packet[number_at..][..number_bytes]
            .iter_mut()
            .zip(&mask[1..])
        {
            *byte ^= mask;
        }
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("any length of key");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// HKDF-Expand-Label (RFC 8446, 7.1) without context, of up to 32 bytes.
fn expand_label<const N: usize>(secret: &[u8], label: &str) -> [u8; N] {
    let label = format!("tls13 {label}");
    let info = Bytes::with(|to| {
        to.u16(N as u16);
        to.vec8(label.as_bytes());
        to.vec8(&[]);
    });
    let whole = hmac(secret, &[&info.0, &[1]]);
    std::array::from_fn(|i| whole[i])
}

/// An Initial packet, before it is encrypted.
#[derive(Clone, Debug)]
pub struct Initial<'a> {
    /// QUIC's version.
    pub version: QuicVersion,
    /// The connection ID of the side that it is sent to, up to 20 bytes.
    pub destination_id: &'a [u8],
    /// That of the side that sends it.
    pub source_id: &'a [u8],
    /// What a server gave the client before.
    pub token: &'a [u8],
    /// The packet's number, which is sent in four bytes.
    pub number: u32,
}

impl Initial<'_> {
    fn header(&self, payload_bytes: usize) -> Vec<u8> {
        let mut header = Bytes::default();
        header.raw(&[0xc0 | self.version.initial_type() << 4 | (NUMBER_BYTES as u8 - 1)]);
        header.u32(self.version.number());
        header.vec8(self.destination_id);
        header.vec8(self.source_id);
        header.raw(&varint(self.token.len() as u64));
        header.raw(self.token);
        // Two bytes always, so that the header's length does not depend on the payload's.
        header.u16(0x4000 | (payload_bytes + NUMBER_BYTES + TAG_BYTES) as u16);
        header.u32(self.number);
        header.0
    }

    /// Bytes of frames that fit a packet of this many bytes.
    fn room(&self, packet_bytes: usize) -> usize {
        packet_bytes.saturating_sub(self.header(0).len() + TAG_BYTES)
    }

    /// The encrypted packet: `frames`, and padding up to `packet_bytes`.
    pub fn packet(&self, keys: &InitialKeys, frames: &[u8], packet_bytes: usize) -> Vec<u8> {
        let mut payload = frames.to_vec();
        payload.resize(self.room(packet_bytes).max(frames.len()), 0);
        let header = self.header(payload.len());
        keys.seal(&header, self.number, NUMBER_BYTES, &payload)
    }
}

/// A number of QUIC's, in as few bytes as it takes (RFC 9000, 16).
fn varint(number: u64) -> Vec<u8> {
    match number {
        0..0x40 => vec![number as u8],
        0x40..0x4000 => (0x4000 | number as u16).to_be_bytes().to_vec(),
        0x4000..0x4000_0000 => (0x8000_0000 | number as u32).to_be_bytes().to_vec(),
        _ => (0xc000_0000_0000_0000 | number).to_be_bytes().to_vec(),
    }
}

/// A CRYPTO frame (RFC 9000, 19.6).
fn crypto_frame(offset: usize, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x06];
    frame.extend(varint(offset as u64));
    frame.extend(varint(data.len() as u64));
    frame.extend_from_slice(data);
    frame
}

/// Bytes of a CRYPTO frame beside its data, at most.
const FRAME_OVERHEAD: usize = 1 + 4 + 2;

/// CRYPTO frames of a packet, so that more than half of it is left for their data.
const FRAMES_MAX: usize = 64;

/// The datagrams in which a client sends `hello`, each of [`DATAGRAM_BYTES`]. Returns the connection ID that the client chose for the server
/// with them.
pub fn client_initials(
    version: QuicVersion,
    hello: &[u8],
    delivery: QuicDelivery,
    source_id: &[u8],
    random: &mut SplitMix64,
) -> (Vec<Vec<u8>>, Vec<u8>) {
    let destination_id = random_bytes(random, ID_BYTES);
    let keys = InitialKeys::client(version, &destination_id);
    let mut initial = Initial {
        version,
        destination_id: &destination_id,
        source_id,
        token: &[],
        number: 0,
    };
    let frames = match delivery {
        QuicDelivery::Whole | QuicDelivery::Backwards(_) => 1,
        QuicDelivery::Frames(frames) | QuicDelivery::Scattered(frames) => {
            frames.clamp(1, FRAMES_MAX)
        }
    };
    // A PING goes with each frame of a scattered packet.
    let room = initial.room(DATAGRAM_BYTES) - frames * (FRAME_OVERHEAD + 1);
    let least = hello.len().div_ceil(room);
    let datagrams = match delivery {
        QuicDelivery::Backwards(datagrams) => datagrams.max(least),
        QuicDelivery::Whole | QuicDelivery::Frames(_) | QuicDelivery::Scattered(_) => least,
    };
    let mut parts: Vec<(usize, &[u8])> = pieces(0, hello, datagrams);
    if matches!(delivery, QuicDelivery::Backwards(_)) {
        parts.reverse();
    }
    let mut sent = Vec::new();
    for (offset, part) in parts {
        let payload = payload(offset, part, frames, delivery, random);
        sent.push(initial.packet(&keys, &payload, DATAGRAM_BYTES));
        initial.number += 1;
    }
    (sent, destination_id)
}

/// The frames of one packet.
fn payload(
    offset: usize,
    part: &[u8],
    frames: usize,
    delivery: QuicDelivery,
    random: &mut SplitMix64,
) -> Vec<u8> {
    let mut pieces = pieces(offset, part, frames);
    let is_scattered = matches!(delivery, QuicDelivery::Scattered(_));
    if is_scattered {
        for at in (1..pieces.len()).rev() {
            pieces.swap(at, random.below(at + 1));
        }
    }
    let mut payload = Vec::new();
    for (offset, piece) in pieces {
        payload.extend(crypto_frame(offset, piece));
        if is_scattered {
            // PING, or a byte of PADDING.
            payload.push(random.below(2) as u8);
        }
    }
    payload
}

/// `bytes` in so many pieces of about the same length, none empty, each with its offset.
fn pieces(offset: usize, bytes: &[u8], count: usize) -> Vec<(usize, &[u8])> {
    let len = bytes.len().div_ceil(count.max(1)).max(1);
    let piece = |(i, piece)| (offset + i * len, piece);
    bytes.chunks(len).enumerate().map(piece).collect()
}
