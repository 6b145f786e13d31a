//! The definition, bit by bit: each bit of a tuple that is set adds the 32 bits of the key that start where it stands.

use super::Key;

/// The hash of `tuple`.
pub(super) fn hash(key: &Key, tuple: &[u8]) -> u32 {
    let mut hash = 0;
    for (i, byte) in tuple.iter().enumerate() {
        let window = key.window(i);
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= (window >> (32 - bit)) as u32;
            }
        }
    }
    hash
}
