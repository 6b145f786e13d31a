//! AVX2 and SSSE3: two look-ups of sixteen entries multiply 32 or 16 bytes by a coefficient.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::field::nibbles;
use super::super::groups::{Group, Groups};
use super::super::matrix::Matrix;
use super::line::Line;
use crate::isa::{Avx2, Sse42};

/// With two lines each, sums take half of the registers.
const OUTPUTS_MAX: usize = 4;

/// The products of a coefficient with the sixteen values of the low four bits of a byte, and of the high ones.
type Products = [[u8; 16]; 2];

/// The products of each coefficient, for registers that `P` proves.
#[derive(Debug)]
pub(in super::super) struct Tables<P>(Groups<Products>, P);

impl<P> Tables<P> {
    pub(in super::super) fn new(proof: P, matrix: &Matrix) -> Self {
        Self(Groups::new(matrix, OUTPUTS_MAX, nibbles), proof)
    }
}

impl Tables<Avx2> {
    /// Blocks are of whole 64 bytes.
    pub(in super::super) fn product(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        let Self(groups, Avx2 { .. }) = self;
        assert!(block_bytes.is_multiple_of(64));
        groups.run(blocks, block_bytes, out, |group, blocks, out| {
            // SAFETY: `Avx2` exists only where these instructions do; blocks, coefficients and room are as `Groups` says.
            unsafe { by_avx2(group, blocks, block_bytes, out) };
        });
    }
}

impl Tables<Sse42> {
    /// Blocks are of whole 32 bytes.
    pub(in super::super) fn product(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        let Self(groups, Sse42 { .. }) = self;
        assert!(block_bytes.is_multiple_of(32));
        groups.run(blocks, block_bytes, out, |group, blocks, out| {
            // SAFETY: as above, of `Sse42`.
            unsafe { by_sse(group, blocks, block_bytes, out) };
        });
    }
}

/// # Safety
/// There are `group.outputs` coefficients for each of `blocks`, all of whole 64 bytes, and `out` has room for as many blocks.
#[target_feature(enable = "avx2")]
unsafe fn by_avx2(group: &Group<Products>, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
    // SAFETY: the caller vouches for it.
    unsafe { all::<__m256i>(group, blocks, block_bytes, out) }
}

/// # Safety
/// The same, of whole 32 bytes.
#[target_feature(enable = "sse4.2")]
unsafe fn by_sse(group: &Group<Products>, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
    // SAFETY: the caller vouches for it.
    unsafe { all::<__m128i>(group, blocks, block_bytes, out) }
}

/// # Safety
/// As of `rows`.
#[inline(always)]
unsafe fn all<L: LookedUp>(
    group: &Group<Products>,
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
) {
    let tables = &group.coefficients;
    // SAFETY: the caller vouches for it.
    unsafe {
        match group.outputs {
            1 => rows::<L, 1>(tables, blocks, block_bytes, out),
            2 => rows::<L, 2>(tables, blocks, block_bytes, out),
            3 => rows::<L, 3>(tables, blocks, block_bytes, out),
            _ => rows::<L, 4>(tables, blocks, block_bytes, out),
        }
    }
}

/// A register in which bytes are looked up. Of its functions too the caller vouches that the CPU has the instructions.
trait LookedUp: Line {
    /// A table for each sixteen bytes.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn table(table: &[u8; 16]) -> Self;
    /// The low and the high four bits of each byte.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn halves(self) -> [Self; 2];
    /// The entries of this table at these places.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn at(self, places: Self) -> Self;
}

impl LookedUp for __m256i {
    #[inline(always)]
    unsafe fn table(table: &[u8; 16]) -> Self {
        // SAFETY: the caller vouches for the instructions, and there are sixteen bytes.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn halves(self) -> [Self; 2] {
        // SAFETY: as of `table`.
        unsafe {
            let low = _mm256_set1_epi8(15);
            [
                _mm256_and_si256(self, low),
                _mm256_and_si256(_mm256_srli_epi16::<4>(self), low),
            ]
        }
    }

    #[inline(always)]
    unsafe fn at(self, places: Self) -> Self {
        // SAFETY: as of `table`.
        unsafe { _mm256_shuffle_epi8(self, places) }
    }
}

impl LookedUp for __m128i {
    #[inline(always)]
    unsafe fn table(table: &[u8; 16]) -> Self {
        // SAFETY: the caller vouches for the instructions, and there are sixteen bytes.
        unsafe { _mm_loadu_si128(table.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn halves(self) -> [Self; 2] {
        // SAFETY: as of `table`.
        unsafe {
            let low = _mm_set1_epi8(15);
            [
                _mm_and_si128(self, low),
                _mm_and_si128(_mm_srli_epi16::<4>(self), low),
            ]
        }
    }

    #[inline(always)]
    unsafe fn at(self, places: Self) -> Self {
        // SAFETY: as of `table`.
        unsafe { _mm_shuffle_epi8(self, places) }
    }
}

/// `OUTPUTS` blocks, in columns of two lines.
///
/// # Safety
/// There are `OUTPUTS` coefficients for each of `blocks`, all of whole pairs of lines, and `out` has room for `OUTPUTS` blocks. The CPU
/// has the instructions of `L`.
#[inline(always)]
unsafe fn rows<L: LookedUp, const OUTPUTS: usize>(
    tables: &[Products],
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
) {
    let (tables, _) = tables.as_chunks::<OUTPUTS>();
    for at in (0..block_bytes).step_by(2 * L::BYTES) {
        let mut from = blocks.as_ptr().wrapping_add(at);
        // SAFETY: the caller vouches for the instructions, for the blocks, of which there are as many as chunks of tables, and for
        // the room.
        unsafe {
            let mut sums = [[L::zero(); 2]; OUTPUTS];
            for tables in tables {
                let lines = [L::load(from).halves(), L::load(from.add(L::BYTES)).halves()];
                for (sums, [of_low, of_high]) in sums.iter_mut().zip(tables) {
                    let (of_low, of_high) = (L::table(of_low), L::table(of_high));
                    for (sum, [low, high]) in sums.iter_mut().zip(&lines) {
                        let product = of_low.at(*low).plus(of_high.at(*high));
                        *sum = sum.plus(product);
                    }
                }
                from = from.wrapping_add(block_bytes);
            }
            let mut to = out.as_mut_ptr().wrapping_add(at);
            for sums in &sums {
                for (i, sum) in sums.iter().enumerate() {
                    sum.store(to.add(i * L::BYTES));
                }
                to = to.wrapping_add(block_bytes);
            }
        }
    }
}
