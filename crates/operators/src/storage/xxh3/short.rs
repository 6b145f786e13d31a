//! Items of up to 240 bytes: no sums, but products of what is XORed with the secret.

use super::secret::DEFAULT;
use super::{PRIME64_1, PRIME64_2, PRIME64_3, avalanche, folded_product};

/// The longest item of this kind.
pub(super) const BYTES_MAX: usize = 240;

/// The hash of at most [`BYTES_MAX`] bytes.
#[inline]
pub(super) fn hash(data: &[u8], seed: u64) -> u64 {
    match data.len() {
        129.. => up_to_240(data, seed),
        17.. => up_to_128(data, seed),
        9.. => up_to_16(data, seed),
        4.. => up_to_8(data, seed),
        1.. => up_to_3(data, seed),
        0 => avalanche_of_xxh64(seed ^ DEFAULT.word(56) ^ DEFAULT.word(64)),
    }
}

fn up_to_3(data: &[u8], seed: u64) -> u64 {
    let [first, middle, last] = [0, data.len() >> 1, data.len() - 1].map(|at| data[at]);
    let combined = u32::from_le_bytes([last, data.len() as u8, first, middle]);
    let word = DEFAULT.word(0);
    let flip = (word as u32 ^ (word >> 32) as u32) as u64;
    avalanche_of_xxh64(u64::from(combined) ^ flip.wrapping_add(seed))
}

fn up_to_8(data: &[u8], seed: u64) -> u64 {
    let seed = seed ^ u64::from((seed as u32).swap_bytes()) << 32;
    let [first, last] = [0, data.len() - 4]
        .map(|at| u32::from_le_bytes(*data[at..].first_chunk().expect("four bytes")))
        .map(u64::from);
    let flip = (DEFAULT.word(8) ^ DEFAULT.word(16)).wrapping_sub(seed);
    let mut hash = (last + (first << 32)) ^ flip;
    const FACTOR: u64 = 0x9FB2_1C65_1E98_DF25;
    hash ^= hash.rotate_left(49) ^ hash.rotate_left(24);
    hash = hash.wrapping_mul(FACTOR);
    hash ^= (hash >> 35).wrapping_add(data.len() as u64);
    hash = hash.wrapping_mul(FACTOR);
    hash ^ (hash >> 28)
}

fn up_to_16(data: &[u8], seed: u64) -> u64 {
    let low_flip = (DEFAULT.word(24) ^ DEFAULT.word(32)).wrapping_add(seed);
    let high_flip = (DEFAULT.word(40) ^ DEFAULT.word(48)).wrapping_sub(seed);
    let low = word(data, 0) ^ low_flip;
    let high = word(data, data.len() - 8) ^ high_flip;
    let sum = (data.len() as u64)
        .wrapping_add(low.swap_bytes())
        .wrapping_add(high)
        .wrapping_add(folded_product(low, high));
    avalanche(sum)
}

/// Pairs of 16 bytes from both ends towards the middle. Not a loop: at 64 bytes one took twice as long.
#[inline]
fn up_to_128(data: &[u8], seed: u64) -> u64 {
    let mut sum = (data.len() as u64).wrapping_mul(PRIME64_1);
    if data.len() > 32 {
        if data.len() > 64 {
            if data.len() > 96 {
                sum = sum.wrapping_add(pair::<3>(data, seed));
            }
            sum = sum.wrapping_add(pair::<2>(data, seed));
        }
        sum = sum.wrapping_add(pair::<1>(data, seed));
    }
    avalanche(sum.wrapping_add(pair::<0>(data, seed)))
}

/// The pair that lies `PAIR` pairs from the ends.
#[inline]
fn pair<const PAIR: usize>(data: &[u8], seed: u64) -> u64 {
    let front = mixed(data, 16 * PAIR, 32 * PAIR, seed);
    let back = mixed(data, data.len() - 16 * (PAIR + 1), 32 * PAIR + 16, seed);
    front.wrapping_add(back)
}

fn up_to_240(data: &[u8], seed: u64) -> u64 {
    // Of the secret's shortest length, 136, the last 17.
    const LAST: usize = 136 - 17;
    let mut sum = (data.len() as u64).wrapping_mul(PRIME64_1);
    for i in 0..8 {
        sum = sum.wrapping_add(mixed(data, 16 * i, 16 * i, seed));
    }
    sum = avalanche(sum);
    for i in 8..data.len() / 16 {
        sum = sum.wrapping_add(mixed(data, 16 * i, 16 * (i - 8) + 3, seed));
    }
    avalanche(sum.wrapping_add(mixed(data, data.len() - 16, LAST, seed)))
}

/// Sixteen bytes of data with sixteen of the secret.
#[inline]
fn mixed(data: &[u8], at: usize, of_secret: usize, seed: u64) -> u64 {
    let low = DEFAULT.word(of_secret).wrapping_add(seed);
    let high = DEFAULT.word(of_secret + 8).wrapping_sub(seed);
    folded_product(word(data, at) ^ low, word(data, at + 8) ^ high)
}

#[inline]
fn word(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*data[at..].first_chunk().expect("eight bytes"))
}

/// The last mixing step, as in XXH64.
#[inline]
fn avalanche_of_xxh64(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(PRIME64_2);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(PRIME64_3);
    hash ^ (hash >> 32)
}
