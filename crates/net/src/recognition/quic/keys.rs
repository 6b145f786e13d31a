//! The keys of Initial packets (RFC 9001, 5.2; RFC 9369, 3.3).

use aes::Aes128;
use aes::cipher::BlockCipherEncrypt;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Tag};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::{Packet, Version};

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that began.
    Client,
    /// The other one.
    Server,
}

impl Version {
    fn salt(self) -> [u8; 20] {
        let salt = match self {
            Self::One => 0x38762cf7f55934b34d179ae6a4c80cad_u128.to_be_bytes(),
            Self::Two => 0x0dede3def700a6db819381be6e269dcb_u128.to_be_bytes(),
            Self::Draft29 => 0xafbfec289993d24c9e9786f19c6111e0_u128.to_be_bytes(),
            Self::Draft23 => 0xc3eef712c72ebb5a11a7d2432bb46365_u128.to_be_bytes(),
            Self::Draft22 => 0x7fbcdb0e7c66bbe9193a96cd21519ebd_u128.to_be_bytes(),
        };
        let end = match self {
            Self::One => 0xccbb_7f0a_u32,
            Self::Two => 0xf9bd_2ed9,
            Self::Draft29 => 0x4390_a899,
            Self::Draft23 => 0xbef9_f502,
            Self::Draft22 => 0x7a02_644a,
        };
        let mut whole = [0; 20];
        whole[..16].copy_from_slice(&salt);
        whole[16..].copy_from_slice(&end.to_be_bytes());
        whole
    }

    fn label(self, label: Label) -> &'static [u8] {
        match (self, label) {
            (Self::Two, Label::Key) => b"tls13 quicv2 key",
            (Self::Two, Label::Nonce) => b"tls13 quicv2 iv",
            (Self::Two, Label::Header) => b"tls13 quicv2 hp",
            (_, Label::Key) => b"tls13 quic key",
            (_, Label::Nonce) => b"tls13 quic iv",
            (_, Label::Header) => b"tls13 quic hp",
        }
    }
}

#[derive(Clone, Copy)]
enum Label {
    Key,
    Nonce,
    Header,
}

/// The keys by which one side protects its Initial packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Of AES-128-GCM.
    pub key: [u8; 16],
    /// What the packet's number is added to.
    pub nonce: [u8; 12],
    /// Of the header's protection.
    pub header: [u8; 16],
}

impl Keys {
    /// Those that follow from the destination in a client's first packet.
    pub fn of(version: Version, destination: &[u8], side: Side) -> Self {
        let initial = hmac(&version.salt(), &[destination]);
        let label: &[u8] = match side {
            Side::Client => b"tls13 client in",
            Side::Server => b"tls13 server in",
        };
        let secret: [u8; 32] = expanded(&keyed(&initial), label);
        let secret = keyed(&secret);
        Self {
            key: expanded(&secret, version.label(Label::Key)),
            nonce: expanded(&secret, version.label(Label::Nonce)),
            header: expanded(&secret, version.label(Label::Header)),
        }
    }

    fn nonce_of(&self, number: u64) -> [u8; 12] {
        let mut nonce = self.nonce;
        for (byte, part) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= part;
        }
        nonce
    }

    /// What a header is masked with, by a sample of the packet.
    pub(super) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        let mut block = (*sample).into();
        Aes128::new(&self.header.into()).encrypt_block(&mut block);
        let block: [u8; 16] = block.into();
        let [a, b, c, d, e, ..] = block;
        [a, b, c, d, e]
    }

    /// Decrypts the frames of packet `number` in place; false if they are not what was sealed with these keys.
    pub(super) fn open(
        &self,
        number: u64,
        header: &[u8],
        frames: &mut [u8],
        tag: &[u8; 16],
    ) -> bool {
        let tag: Tag = (*tag).into();
        let aead = Aes128Gcm::new(&self.key.into());
        (aead.decrypt_inout_detached(&self.nonce_of(number).into(), header, frames.into(), &tag))
            .is_ok()
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = keyed(key);
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// HKDF-Expand-Label without a context (RFC 8446, 7.1), for at most 32 bytes.
fn expanded<const N: usize>(secret: &Hmac<Sha256>, label: &[u8]) -> [u8; N] {
    let mut mac = secret.clone();
    mac.update(&[0, N as u8, label.len() as u8]);
    mac.update(label);
    mac.update(&[0, 1]);
    let bytes: [u8; 32] = mac.finalize().into_bytes().into();
    let mut cut = [0; N];
    let len = N.min(32);
    cut[..len].copy_from_slice(&bytes[..len]);
    cut
}

/// True if a Retry answers a client's packet that had this destination (RFC 9001, 5.8; RFC 9369, 3.3.3).
pub fn retry_is_whole(packet: &Packet<'_>, original: &[u8]) -> bool {
    let (key, nonce): (u128, u128) = match packet.version {
        Some(Version::One) => (
            0xbe0c690b9f66575a1d766b54e368c84e,
            0x461599d35d632bf2239825bb,
        ),
        Some(Version::Two) => (
            0x8fb4b01b56ac48e260fbcbcead7ccc92,
            0xd86969bc2d7c6d9990efb04a,
        ),
        _ => return false,
    };
    let Some((text, tag)) = packet.bytes.split_last_chunk::<16>() else {
        return false;
    };
    let [_, _, _, _, nonce @ ..] = nonce.to_be_bytes();
    let len = original.len() as u8;
    let pseudo = [&[len], original, text].concat();
    let tag: Tag = (*tag).into();
    let aead = Aes128Gcm::new(&key.to_be_bytes().into());
    (aead.decrypt_inout_detached(&nonce.into(), &pseudo, (&mut [][..]).into(), &tag)).is_ok()
}
