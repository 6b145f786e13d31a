//! Armv8-A with Advanced SIMD: two look-ups of sixteen entries multiply 16 bytes by a coefficient.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::field::nibbles;
use super::groups::Groups;
use super::matrix::Matrix;
use crate::isa::Neon;

/// Bytes of a vector.
const LINE: usize = 16;
/// Of a column.
const LINES: usize = 4;
/// With four lines each, sums take half of the registers.
const OUTPUTS_MAX: usize = 4;

/// The products of each coefficient.
#[derive(Debug)]
pub(super) struct Tables(Groups<[[u8; 16]; 2]>, Neon);

impl Tables {
    pub(super) fn new(proof: Neon, matrix: &Matrix) -> Self {
        Self(Groups::new(matrix, OUTPUTS_MAX, nibbles), proof)
    }

    /// Blocks are of whole columns.
    pub(super) fn product(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        let Self(groups, Neon { .. }) = self;
        assert!(block_bytes.is_multiple_of(LINES * LINE));
        groups.run(blocks, block_bytes, out, |group, blocks, out| {
            let rows = match group.outputs {
                1 => rows::<1>,
                2 => rows::<2>,
                3 => rows::<3>,
                _ => rows::<4>,
            };
            // SAFETY: `Neon` exists only where these instructions do; blocks, coefficients and room are as `Groups` says.
            unsafe { rows(&group.coefficients, blocks, block_bytes, out) };
        });
    }
}

/// `OUTPUTS` blocks, in columns of `LINES` lines.
///
/// # Safety
/// There are `OUTPUTS` coefficients for each of `blocks`, all of whole columns, and `out` has room for `OUTPUTS` blocks.
#[target_feature(enable = "neon")]
unsafe fn rows<const OUTPUTS: usize>(
    tables: &[[[u8; 16]; 2]],
    blocks: &[u8],
    block_bytes: usize,
    out: &mut [u8],
) {
    let (tables, _) = tables.as_chunks::<OUTPUTS>();
    let low_bits = vdupq_n_u8(15);
    for at in (0..block_bytes).step_by(LINES * LINE) {
        let mut sums = [[vdupq_n_u8(0); LINES]; OUTPUTS];
        let mut from = blocks.as_ptr().wrapping_add(at);
        for tables in tables {
            let mut halves = [[vdupq_n_u8(0); 2]; LINES];
            for (i, [low, high]) in halves.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the blocks, of which there are as many as chunks of tables.
                let line = unsafe { vld1q_u8(from.add(i * LINE)) };
                *low = vandq_u8(line, low_bits);
                *high = vshrq_n_u8::<4>(line);
            }
            for (sums, [of_low, of_high]) in sums.iter_mut().zip(tables) {
                // SAFETY: sixteen bytes each.
                let (of_low, of_high) =
                    unsafe { (vld1q_u8(of_low.as_ptr()), vld1q_u8(of_high.as_ptr())) };
                for (sum, [low, high]) in sums.iter_mut().zip(&halves) {
                    let (low, high) = (vqtbl1q_u8(of_low, *low), vqtbl1q_u8(of_high, *high));
                    *sum = veorq_u8(*sum, veorq_u8(low, high));
                }
            }
            from = from.wrapping_add(block_bytes);
        }
        let mut to = out.as_mut_ptr().wrapping_add(at);
        for sums in &sums {
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: the caller vouches for the room.
                unsafe { vst1q_u8(to.add(i * LINE), *sum) };
            }
            to = to.wrapping_add(block_bytes);
        }
    }
}
