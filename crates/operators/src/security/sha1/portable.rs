//! The oracle: FIPS 180-4 section 6.1.2 as it is written there.

use super::K;

/// One block.
pub(super) fn compress(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut w = [0u32; 80];
    for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..80 {
        w[t] = (w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (t, word) in w.into_iter().enumerate() {
        let mixed = match t / 20 {
            0 => (b & c) ^ (!b & d),
            2 => (b & c) ^ (b & d) ^ (c & d),
            _ => b ^ c ^ d,
        };
        let sum = a
            .rotate_left(5)
            .wrapping_add(mixed)
            .wrapping_add(e)
            .wrapping_add(K[t / 20])
            .wrapping_add(word);
        (a, b, c, d, e) = (sum, a, b.rotate_left(30), c, d);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
}
