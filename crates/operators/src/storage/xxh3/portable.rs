//! The oracle: the specification's text, one sum a step.

use super::secret::{SECRET_BYTES, Secret};
use super::{BLOCK_BYTES, INITIAL, LAST, PRIME32_1, STRIPE_BYTES, Sums};

/// The sums after `data`, which is longer than a stripe.
pub(super) fn sums(data: &[u8], secret: &Secret) -> Sums {
    let mut sums = INITIAL;
    // The last byte is the last stripe's, which overlaps those before it.
    for block in data[..data.len() - 1].chunks(BLOCK_BYTES) {
        for (i, stripe) in block.as_chunks().0.iter().enumerate() {
            accumulate(&mut sums, stripe, secret, 8 * i);
        }
        if block.len() == BLOCK_BYTES {
            scramble(&mut sums, secret);
        }
    }
    let last = data.last_chunk().expect("longer than a stripe");
    accumulate(&mut sums, last, secret, LAST);
    sums
}

fn accumulate(sums: &mut Sums, stripe: &[u8; STRIPE_BYTES], secret: &Secret, at: usize) {
    for (i, word) in stripe.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let key = word ^ secret.word(at + 8 * i);
        sums[i ^ 1] = sums[i ^ 1].wrapping_add(word);
        sums[i] = sums[i].wrapping_add((key & 0xffff_ffff) * (key >> 32));
    }
}

fn scramble(sums: &mut Sums, secret: &Secret) {
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum ^= *sum >> 47;
        *sum ^= secret.word(SECRET_BYTES - STRIPE_BYTES + 8 * i);
        *sum = sum.wrapping_mul(PRIME32_1);
    }
}
