//! Payload between headers and stamp: bytes that look random, cut from one pad that a seed makes.
//!
//! A packet's bytes begin at a place of the pad that its number chooses, so that payloads differ and a receiver knows them from the number. The pad fits
//! a first or second level cache, and a sum for each of its words is kept, so that a checksum costs the same whatever the length.

use dpb_core::random::SplitMix64;

use crate::packet::Sum;

use super::draw::draw;
use super::sizes::FRAME_BYTES_MAX;

/// Places where payloads begin.
const PLACES: u64 = 256;
/// Their distance in bytes: a cache line.
const APART: usize = 64;

/// The pad of a seed.
#[derive(Clone, Debug)]
pub(super) struct Pad {
    bytes: Vec<u8>,
    /// The folded sum of the words before each word.
    sums: Vec<u16>,
    key: u64,
}

impl Pad {
    pub(super) fn new(seed: u64) -> Self {
        let len = PLACES as usize * APART + FRAME_BYTES_MAX.next_multiple_of(8);
        let mut random = SplitMix64::new(seed);
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            bytes.extend_from_slice(&random.next_u64().to_le_bytes());
        }
        let mut sums = vec![0];
        let mut total = Sum::default();
        for word in bytes.chunks_exact(2) {
            total = total + Sum::of(word);
            sums.push(total.folded_le());
        }
        Self {
            bytes,
            sums,
            key: draw(seed, 1),
        }
    }

    /// Where the payload of packet `i` begins.
    #[inline(always)]
    fn place(&self, i: u64) -> usize {
        (draw(self.key, i) % PLACES) as usize * APART
    }

    /// The payload of packet `i`.
    #[inline(always)]
    pub(super) fn payload(&self, i: u64, len: usize) -> &[u8] {
        &self.bytes[self.place(i)..][..len]
    }

    /// Its sum, as at an even offset.
    #[inline(always)]
    pub(super) fn payload_sum(&self, i: u64, len: usize) -> Sum {
        let from = self.place(i);
        let (first, last) = (from / 2, (from + len) / 2);
        let odd = if len % 2 == 1 {
            u64::from(self.bytes[from + len - 1])
        } else {
            0
        };
        // In one's complement, a difference is a sum with the complement.
        let between = u64::from(self.sums[last]) + u64::from(!self.sums[first]);
        Sum::of_le(between + odd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_bytes() {
        let pad = Pad::new(3);
        for i in 0..300 {
            for len in [0, 1, 2, 3, 17, 18, 1453, 1454, FRAME_BYTES_MAX] {
                let right = Sum::of(pad.payload(i, len)).checksum();
                let found = pad.payload_sum(i, len).checksum();
                // Both zeros of one's complement are zero.
                let is_same = found == right
                    || [found, right] == [0xffff, 0]
                    || [found, right] == [0, 0xffff];
                assert!(is_same, "{i} {len}: {found:x} {right:x}");
            }
        }
    }

    #[test]
    fn payloads_differ() {
        let pad = Pad::new(3);
        let kinds: std::collections::HashSet<_> = (0..4000).map(|i| pad.payload(i, 32)).collect();
        assert_eq!(kinds.len() as u64, PLACES);
        assert_ne!(Pad::new(4).payload(0, 32), pad.payload(0, 32));
    }
}
