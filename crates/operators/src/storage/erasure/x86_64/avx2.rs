//! AVX2: two look-ups of sixteen entries multiply 32 bytes by a coefficient.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::field::nibbles;
use super::super::groups::Groups;
use super::super::matrix::Matrix;
use crate::isa::Avx2;

/// Bytes of a vector.
const LINE: usize = 32;
/// With two lines each, sums take half of the registers.
const OUTPUTS_MAX: usize = 4;

/// The products of each coefficient.
#[derive(Debug)]
pub(in super::super) struct Tables(Groups<[[u8; 16]; 2]>, Avx2);

impl Tables {
    pub(in super::super) fn new(proof: Avx2, matrix: &Matrix) -> Self {
        Self(Groups::new(matrix, OUTPUTS_MAX, nibbles), proof)
    }

    /// Blocks are of whole pairs of lines.
    pub(in super::super) fn product(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        let Self(groups, Avx2 { .. }) = self;
        assert!(block_bytes.is_multiple_of(2 * LINE));
        groups.run(blocks, block_bytes, out, |group, blocks, out| {
            let rows = match group.outputs {
                1 => rows::<1>,
                2 => rows::<2>,
                3 => rows::<3>,
                _ => rows::<4>,
            };
            // SAFETY: `Avx2` exists only where these instructions do; blocks, coefficients and room are as `Groups` says.
            unsafe { rows(&group.coefficients, blocks, block_bytes, out) };
        });
    }
}

/// `OUTPUTS` blocks, in columns of two lines.
///
/// # Safety
/// There are `OUTPUTS` coefficients for each of `blocks`, all of whole pairs of lines, and `out` has room for `OUTPUTS` blocks.
#[target_feature(enable = "avx2")]
unsafe fn rows<const OUTPUTS: usize>(
    tables: &[[[u8; 16]; 2]],
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
) {
    let (tables, _) = tables.as_chunks::<OUTPUTS>();
    let low_bits = _mm256_set1_epi8(15);
    for at in (0..block_bytes).step_by(2 * LINE) {
        let mut sums = [[_mm256_setzero_si256(); 2]; OUTPUTS];
        let mut from = blocks.as_ptr().wrapping_add(at);
        for tables in tables {
            let mut halves = [[_mm256_setzero_si256(); 2]; 2];
            for (i, [low, high]) in halves.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the blocks, of which there are as many as chunks of tables.
                let line = unsafe { _mm256_loadu_si256(from.add(i * LINE).cast()) };
                *low = _mm256_and_si256(line, low_bits);
                *high = _mm256_and_si256(_mm256_srli_epi16::<4>(line), low_bits);
            }
            for (sums, [of_low, of_high]) in sums.iter_mut().zip(tables) {
                let (of_low, of_high) = (twice(of_low), twice(of_high));
                for (sum, [low, high]) in sums.iter_mut().zip(&halves) {
                    let low = _mm256_shuffle_epi8(of_low, *low);
                    let high = _mm256_shuffle_epi8(of_high, *high);
                    *sum = _mm256_xor_si256(*sum, _mm256_xor_si256(low, high));
                }
            }
            from = from.wrapping_add(block_bytes);
        }
        let mut to = out.as_mut_ptr().wrapping_add(at);
        for sums in &sums {
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: the caller vouches for the room.
                unsafe { _mm256_storeu_si256(to.add(i * LINE).cast(), *sum) };
            }
            to = to.wrapping_add(block_bytes);
        }
    }
}

/// A table in both halves of a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(table: &[u8; 16]) -> __m256i {
    // SAFETY: sixteen bytes.
    let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
    _mm256_broadcastsi128_si256(table)
}
