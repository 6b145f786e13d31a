//! Headers of 20 and of 40 bytes, the lengths that bursts have: turned into columns.

use std::arch::x86_64::*;

use super::plus_pairs;
use crate::isa::Avx512Vnni;
use crate::network::checksum::GROUP;
use crate::network::checksum::lines::Lines;

/// Items of 20 bytes: sixteen are five vectors, of whose 80 lanes five are an item. They are turned into five columns, in
/// which an item has one lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn of_20(proof: Avx512Vnni, items: &[u8; GROUP * 20]) -> __m512i {
    const MIDDLE: [u16; 5] = lanes_from::<16>(32);
    const HIGH: [u16; 5] = lanes_from::<16>(64);
    let first = _mm512_set_epi32(75, 70, 65, 60, 55, 50, 45, 40, 35, 30, 25, 20, 15, 10, 5, 0);
    let [a, b, c, d, e] = five_lines(proof, items);
    let mut sum = _mm512_set1_epi32(10 * 0x8000);
    for column in 0..5 {
        // Lanes count modulo 32 in two vectors and modulo 16 in one, so that one index serves all.
        let lane = _mm512_add_epi32(first, _mm512_set1_epi32(column as i32));
        let low = _mm512_permutex2var_epi32(a, lane, b);
        let middle = _mm512_permutex2var_epi32(c, lane, d);
        let words = _mm512_mask_blend_epi32(MIDDLE[column], low, middle);
        let words = _mm512_mask_permutexvar_epi32(words, HIGH[column], lane, e);
        sum = plus_pairs(sum, words);
    }
    sum
}

/// Items of 40 bytes: the same, with eight items in lanes of 64 bits, twice.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn of_40(proof: Avx512Vnni, items: &[u8; GROUP * 40]) -> __m512i {
    let (eights, _) = items.as_chunks::<{ GROUP / 2 * 40 }>();
    let a = _mm512_castsi512_ps(eight_of_40(proof, &eights[0]));
    let b = _mm512_castsi512_ps(eight_of_40(proof, &eights[1]));
    let even = _mm512_castps_si512(_mm512_shuffle_ps::<0b10_00_10_00>(a, b));
    let odd = _mm512_castps_si512(_mm512_shuffle_ps::<0b11_01_11_01>(a, b));
    let sums = _mm512_add_epi32(even, odd);
    let sums = _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), sums);
    _mm512_add_epi32(sums, _mm512_set1_epi32(20 * 0x8000))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn eight_of_40(proof: Avx512Vnni, items: &[u8; GROUP / 2 * 40]) -> __m512i {
    const MIDDLE: [u16; 5] = lanes_from::<8>(16);
    const HIGH: [u16; 5] = lanes_from::<8>(32);
    let [a, b, c, d, e] = five_lines(proof, items);
    let first = _mm512_set_epi64(35, 30, 25, 20, 15, 10, 5, 0);
    let mut sum = _mm512_setzero_si512();
    for column in 0..5 {
        let lane = _mm512_add_epi64(first, _mm512_set1_epi64(column as i64));
        let low = _mm512_permutex2var_epi64(a, lane, b);
        let middle = _mm512_permutex2var_epi64(c, lane, d);
        let words = _mm512_mask_blend_epi64(MIDDLE[column] as u8, low, middle);
        let words = _mm512_mask_permutexvar_epi64(words, HIGH[column] as u8, lane, e);
        sum = plus_pairs(sum, words);
    }
    sum
}

/// The items, of `LANES`, that have a column's lane, the fifth of their lanes for each column, at `start` or behind.
const fn lanes_from<const LANES: usize>(start: usize) -> [u16; 5] {
    let mut masks = [0; 5];
    let mut lane = 0;
    while lane < 5 * LANES {
        if lane >= start {
            masks[lane % 5] |= 1 << (lane / 5);
        }
        lane += 1;
    }
    masks
}

/// Five lines, the top bits of their words flipped.
#[inline]
#[target_feature(enable = "avx512f")]
fn five_lines(proof: Avx512Vnni, bytes: &[u8; 5 * 64]) -> [__m512i; 5] {
    let (lines, _) = bytes.as_chunks::<64>();
    let mut flipped = [_mm512_setzero_si512(); 5];
    for (flipped, line) in flipped.iter_mut().zip(lines) {
        *flipped = _mm512_xor_si512(proof.load(line), _mm512_set1_epi16(i16::MIN));
    }
    flipped
}
