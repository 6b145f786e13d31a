//! AVX-512 and GFNI: one instruction multiplies 64 bytes by a coefficient.
//!
//! Multiplying by a coefficient is linear, so it is a matrix of 8 × 8 bits, which `vgf2p8affineqb` takes; its own product of
//! bytes is of another field.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::field::product;
use super::super::groups::Groups;
use super::super::matrix::Matrix;
use crate::isa::Gfni;

/// Bytes of a vector.
const LINE: usize = 64;
/// With two lines each, sums take half of the registers.
const OUTPUTS_MAX: usize = 8;

/// Coefficients as matrices of bits.
#[derive(Debug)]
pub(in super::super) struct Matrices(Groups<u64>, Gfni);

impl Matrices {
    pub(in super::super) fn new(proof: Gfni, matrix: &Matrix) -> Self {
        Self(Groups::new(matrix, OUTPUTS_MAX, bits), proof)
    }

    /// Blocks are of whole lines.
    pub(in super::super) fn product(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        let Self(groups, Gfni { .. }) = self;
        assert!(block_bytes.is_multiple_of(LINE));
        groups.run(blocks, block_bytes, out, |group, blocks, out| {
            let rows = match group.outputs {
                1 => rows::<1, 4>,
                2 => rows::<2, 4>,
                3 => rows::<3, 4>,
                4 => rows::<4, 4>,
                5 => rows::<5, 2>,
                6 => rows::<6, 2>,
                7 => rows::<7, 2>,
                _ => rows::<8, 2>,
            };
            // SAFETY: `Gfni` exists only where these instructions do; blocks, coefficients and room are as `Groups` says.
            unsafe { rows(&group.coefficients, blocks, block_bytes, out) };
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

/// `OUTPUTS` blocks, in columns of `LINES` lines and then of one.
///
/// # Safety
/// There are `OUTPUTS` matrices for each of `blocks`, all of whole lines, and `out` has room for `OUTPUTS` blocks.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn rows<const OUTPUTS: usize, const LINES: usize>(
    matrices: &[u64],
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
) {
    let wide = block_bytes - block_bytes % (LINES * LINE);
    for at in (0..wide).step_by(LINES * LINE) {
        // SAFETY: the caller vouches for the blocks, in which this column lies.
        unsafe { column::<OUTPUTS, LINES>(matrices, blocks, block_bytes, out, at) };
    }
    for at in (wide..block_bytes).step_by(LINE) {
        // SAFETY: as above.
        unsafe { column::<OUTPUTS, 1>(matrices, blocks, block_bytes, out, at) };
    }
}

/// `LINES` lines from `at` on of each block.
///
/// # Safety
/// As of `rows`, and the lines lie inside a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn column<const OUTPUTS: usize, const LINES: usize>(
    matrices: &[u64],
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
    at: usize,
) {
    let mut sums = [[_mm512_setzero_si512(); LINES]; OUTPUTS];
    let (matrices, _) = matrices.as_chunks::<OUTPUTS>();
    let mut from = blocks.as_ptr().wrapping_add(at);
    let (pairs, odd) = matrices.as_chunks::<2>();
    for [first, second] in pairs {
        // SAFETY: the caller vouches for the lines; there are as many blocks as chunks of matrices.
        let (one, other) = unsafe {
            (
                lines_at::<LINES>(from),
                lines_at::<LINES>(from.add(block_bytes)),
            )
        };
        for ((sums, &first), &second) in sums.iter_mut().zip(first).zip(second) {
            let (first, second) = (
                _mm512_set1_epi64(first as i64),
                _mm512_set1_epi64(second as i64),
            );
            for ((sum, one), other) in sums.iter_mut().zip(&one).zip(&other) {
                let one = _mm512_gf2p8affine_epi64_epi8::<0>(*one, first);
                let other = _mm512_gf2p8affine_epi64_epi8::<0>(*other, second);
                *sum = _mm512_ternarylogic_epi64::<0x96>(*sum, one, other);
            }
        }
        from = from.wrapping_add(2 * block_bytes);
    }
    if let [matrices] = odd {
        // SAFETY: as above.
        let lines = unsafe { lines_at::<LINES>(from) };
        for (sums, &matrix) in sums.iter_mut().zip(matrices) {
            let matrix = _mm512_set1_epi64(matrix as i64);
            for (sum, line) in sums.iter_mut().zip(&lines) {
                let multiple = _mm512_gf2p8affine_epi64_epi8::<0>(*line, matrix);
                *sum = _mm512_xor_si512(*sum, multiple);
            }
        }
    }
    let mut to = out.as_mut_ptr().wrapping_add(at);
    for sums in &sums {
        for (i, sum) in sums.iter().enumerate() {
            // SAFETY: the caller vouches for the room.
            unsafe { _mm512_storeu_si512(to.add(i * LINE).cast(), *sum) };
        }
        to = to.wrapping_add(block_bytes);
    }
}

/// # Safety
/// So many lines are there.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lines_at<const LINES: usize>(from: *const u8) -> [__m512i; LINES] {
    let mut lines = [_mm512_setzero_si512(); LINES];
    for (i, line) in lines.iter_mut().enumerate() {
        // SAFETY: the caller vouches for them.
        *line = unsafe { _mm512_loadu_si512(from.add(i * LINE).cast()) };
    }
    lines
}
