//! Maps from addresses: their keys are not chosen by an adversary who gains by collisions, and are looked up for every event.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from addresses.
pub(super) type Map<V> = HashMap<u64, V, BuildHasherDefault<Multiply>>;

/// One multiplication, by a number without pattern.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}
