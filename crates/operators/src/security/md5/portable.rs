//! The oracle: RFC 1321 section 3.4 as it is written there.

use super::K;

/// The rotation of each step: by its round, and by its place among four.
const ROTATE: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// One block.
pub(super) fn compress(state: &mut [u32; 4], block: &[u8; 64]) {
    let words: [u32; 16] = std::array::from_fn(|i| u32::from_le_bytes(block.as_chunks::<4>().0[i]));
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let round = step / 16;
        let (mixed, word) = match round {
            0 => ((b & c) | (!b & d), step),
            1 => ((b & d) | (c & !d), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let sum = a
            .wrapping_add(mixed)
            .wrapping_add(words[word % 16])
            .wrapping_add(K[step]);
        let turned = b.wrapping_add(sum.rotate_left(ROTATE[round][step % 4]));
        (a, b, c, d) = (d, turned, b, c);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}
