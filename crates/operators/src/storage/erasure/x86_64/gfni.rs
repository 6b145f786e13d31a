//! GFNI: one instruction multiplies 64 or 32 bytes by a coefficient.
//!
//! Multiplying by a coefficient is linear, so it is a matrix of 8 × 8 bits, which `vgf2p8affineqb` takes; its own product of
//! bytes is of another field.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::field::product;
use super::super::groups::{Group, Groups};
use super::super::matrix::Matrix;
use super::line::Line;
use crate::isa;

/// Coefficients as matrices of bits, for registers of 64 bytes.
#[derive(Debug)]
pub(in super::super) struct Matrices(Groups<u64>, isa::Gfni);

/// The same for registers of 32 bytes.
#[derive(Debug)]
pub(in super::super) struct HalfMatrices(Groups<u64>, isa::GfniAvx2);

impl Matrices {
    pub(in super::super) fn new(proof: isa::Gfni, matrix: &Matrix) -> Self {
        // With two lines each, sums take half of the registers.
        Self(Groups::new(matrix, 8, bits), proof)
    }

    /// Blocks are of whole lines of 64 bytes.
    pub(in super::super) fn product(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        let Self(groups, isa::Gfni { .. }) = self;
        assert!(block_bytes.is_multiple_of(64));
        groups.run(blocks, block_bytes, out, |group, blocks, out| {
            // SAFETY: `Gfni` exists only where these instructions do; blocks, coefficients and room are as `Groups` says.
            unsafe { wide(group, blocks, block_bytes, out) };
        });
    }
}

impl HalfMatrices {
    pub(in super::super) fn new(proof: isa::GfniAvx2, matrix: &Matrix) -> Self {
        Self(Groups::new(matrix, 4, bits), proof)
    }

    /// Blocks are of whole lines of 32 bytes.
    pub(in super::super) fn product(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        let Self(groups, isa::GfniAvx2 { .. }) = self;
        assert!(block_bytes.is_multiple_of(32));
        groups.run(blocks, block_bytes, out, |group, blocks, out| {
            // SAFETY: as above, of `GfniAvx2`.
            unsafe { half(group, blocks, block_bytes, out) };
        });
    }
}

/// The matrix by which `vgf2p8affineqb` multiplies by `coefficient`: bit *i* of its product with a byte is the parity of that byte
/// and row *i*, the rows from the last byte on.
fn bits(coefficient: u8) -> u64 {
    let mut rows = [0u8; 8];
    for bit in 0..8 {
        let column = product(coefficient, 1 << bit);
        for (i, row) in rows.iter_mut().rev().enumerate() {
            *row |= (column >> i & 1) << bit;
        }
    }
    u64::from_le_bytes(rows)
}

/// # Safety
/// There are `group.outputs` matrices for each of `blocks`, all of whole lines of 64 bytes, and `out` has room for `group.outputs` blocks.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn wide(group: &Group<u64>, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
    let matrices = &group.coefficients;
    // SAFETY: the caller vouches for it.
    unsafe {
        match group.outputs {
            1 => rows::<__m512i, 1, 4>(matrices, blocks, block_bytes, out),
            2 => rows::<__m512i, 2, 4>(matrices, blocks, block_bytes, out),
            3 => rows::<__m512i, 3, 4>(matrices, blocks, block_bytes, out),
            4 => rows::<__m512i, 4, 4>(matrices, blocks, block_bytes, out),
            5 => rows::<__m512i, 5, 2>(matrices, blocks, block_bytes, out),
            6 => rows::<__m512i, 6, 2>(matrices, blocks, block_bytes, out),
            7 => rows::<__m512i, 7, 2>(matrices, blocks, block_bytes, out),
            _ => rows::<__m512i, 8, 2>(matrices, blocks, block_bytes, out),
        }
    }
}

/// # Safety
/// The same, of lines of 32 bytes.
#[target_feature(enable = "avx2,gfni")]
unsafe fn half(group: &Group<u64>, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
    let matrices = &group.coefficients;
    // SAFETY: the caller vouches for it.
    unsafe {
        match group.outputs {
            1 => rows::<__m256i, 1, 4>(matrices, blocks, block_bytes, out),
            2 => rows::<__m256i, 2, 4>(matrices, blocks, block_bytes, out),
            3 => rows::<__m256i, 3, 2>(matrices, blocks, block_bytes, out),
            _ => rows::<__m256i, 4, 2>(matrices, blocks, block_bytes, out),
        }
    }
}

/// A register whose bytes GFNI multiplies. Of its functions too the caller vouches that the CPU has the instructions.
trait Multiplied: Line {
    /// True if two products are added to a sum by one instruction, and there are registers for two blocks' lines.
    const ADDS_TWO: bool;

    /// The matrix for each byte.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn matrix(bits: u64) -> Self;
    /// Each byte times the matrix.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn times(self, matrix: Self) -> Self;
    /// # Safety
    /// See the trait.
    unsafe fn plus_two(self, one: Self, other: Self) -> Self;
}

impl Multiplied for __m512i {
    const ADDS_TWO: bool = true;

    #[inline(always)]
    unsafe fn matrix(bits: u64) -> Self {
        // SAFETY: the caller vouches for the instructions; so below.
        unsafe { _mm512_set1_epi64(bits as i64) }
    }

    #[inline(always)]
    unsafe fn times(self, matrix: Self) -> Self {
        // SAFETY: as of `matrix`.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self, matrix) }
    }

    #[inline(always)]
    unsafe fn plus_two(self, one: Self, other: Self) -> Self {
        // SAFETY: as of `matrix`.
        unsafe { _mm512_ternarylogic_epi64::<0x96>(self, one, other) }
    }
}

impl Multiplied for __m256i {
    const ADDS_TWO: bool = false;

    #[inline(always)]
    unsafe fn matrix(bits: u64) -> Self {
        // SAFETY: the caller vouches for the instructions; so below.
        unsafe { _mm256_set1_epi64x(bits as i64) }
    }

    #[inline(always)]
    unsafe fn times(self, matrix: Self) -> Self {
        // SAFETY: as of `matrix`.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self, matrix) }
    }

    #[inline(always)]
    unsafe fn plus_two(self, one: Self, other: Self) -> Self {
        // SAFETY: as of `matrix`.
        unsafe { self.plus(one).plus(other) }
    }
}

/// `OUTPUTS` blocks, in columns of `LINES` lines and then of one.
///
/// # Safety
/// There are `OUTPUTS` matrices for each of `blocks`, all of whole lines, and `out` has room for `OUTPUTS` blocks. The CPU has the
/// instructions of `L`.
#[inline(always)]
unsafe fn rows<L: Multiplied, const OUTPUTS: usize, const LINES: usize>(
    matrices: &[u64],
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
) {
    let wide = block_bytes - block_bytes % (LINES * L::BYTES);
    for at in (0..wide).step_by(LINES * L::BYTES) {
        // SAFETY: the caller vouches for the blocks, in which this column lies.
        unsafe { column::<L, OUTPUTS, LINES>(matrices, blocks, block_bytes, out, at) };
    }
    for at in (wide..block_bytes).step_by(L::BYTES) {
        // SAFETY: as above.
        unsafe { column::<L, OUTPUTS, 1>(matrices, blocks, block_bytes, out, at) };
    }
}

/// `LINES` lines from `at` on of each block.
///
/// # Safety
/// As of `rows`, and the lines lie inside a block.
#[inline(always)]
unsafe fn column<L: Multiplied, const OUTPUTS: usize, const LINES: usize>(
    matrices: &[u64],
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
    at: usize,
) {
    let (matrices, _) = matrices.as_chunks::<OUTPUTS>();
    let (pairs, single) = match L::ADDS_TWO {
        true => matrices.as_chunks::<2>(),
        false => (&[][..], matrices),
    };
    let mut from = blocks.as_ptr().wrapping_add(at);
    // SAFETY: the caller vouches for the instructions, for the lines, of which there are as many blocks as chunks of matrices, and
    // for the room.
    unsafe {
        let mut sums = [[L::zero(); LINES]; OUTPUTS];
        for [first, second] in pairs {
            let one = lines_at::<L, LINES>(from);
            let other = lines_at::<L, LINES>(from.add(block_bytes));
            for ((sums, &first), &second) in sums.iter_mut().zip(first).zip(second) {
                let (first, second) = (L::matrix(first), L::matrix(second));
                for ((sum, one), other) in sums.iter_mut().zip(&one).zip(&other) {
                    *sum = sum.plus_two(one.times(first), other.times(second));
                }
            }
            from = from.wrapping_add(2 * block_bytes);
        }
        for matrices in single {
            let lines = lines_at::<L, LINES>(from);
            for (sums, &matrix) in sums.iter_mut().zip(matrices) {
                let matrix = L::matrix(matrix);
                for (sum, line) in sums.iter_mut().zip(&lines) {
                    *sum = sum.plus(line.times(matrix));
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

/// # Safety
/// So many lines are there, and the instructions of `L`.
#[inline(always)]
unsafe fn lines_at<L: Line, const LINES: usize>(from: *const u8) -> [L; LINES] {
    // SAFETY: the caller vouches for them.
    unsafe {
        let mut lines = [L::zero(); LINES];
        for (i, line) in lines.iter_mut().enumerate() {
            *line = L::load(from.add(i * L::BYTES));
        }
        lines
    }
}
