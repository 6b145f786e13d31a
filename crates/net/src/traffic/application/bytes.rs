//! Fields in network order, and vectors with their lengths in front.

use dpb_core::random::SplitMix64;

/// Bytes that are being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    /// What `write` writes.
    pub(super) fn with(write: impl FnOnce(&mut Self)) -> Self {
        let mut bytes = Self::default();
        write(&mut bytes);
        bytes
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn u16(&mut self, number: u16) {
        self.raw(&number.to_be_bytes());
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.raw(&number.to_be_bytes());
    }

    /// A vector with a length of one byte.
    pub(super) fn vec8(&mut self, bytes: &[u8]) {
        self.raw(&[u8::try_from(bytes.len()).expect("at most 255 bytes")]);
        self.raw(bytes);
    }

    /// A vector with a length of two bytes.
    pub(super) fn vec16(&mut self, bytes: &[u8]) {
        self.u16(u16::try_from(bytes.len()).expect("at most 65,535 bytes"));
        self.raw(bytes);
    }

    pub(super) fn in8(&mut self, write: impl FnOnce(&mut Self)) {
        let inner = Self::with(write);
        self.vec8(&inner.0);
    }

    pub(super) fn in16(&mut self, write: impl FnOnce(&mut Self)) {
        let inner = Self::with(write);
        self.vec16(&inner.0);
    }
}

/// So many bytes of `random`.
pub(super) fn random_bytes(random: &mut SplitMix64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
