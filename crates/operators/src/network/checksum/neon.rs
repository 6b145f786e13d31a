//! Armv8-A: pairs of 16-bit words added to 32-bit lanes, 64 bytes a step.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use crate::isa::Neon;

/// So much is summed in 32 bits: each of 16 lanes takes two words of every 64 bytes.
const BLOCK_BYTES: usize = 1 << 16;

/// The sum of the little-endian words of `data`.
pub(crate) fn sum(_proof: Neon, data: &[u8]) -> u64 {
    // SAFETY: `Neon` exists only where these instructions do.
    unsafe { sum_of(data) }
}

/// The same, while `src` is copied to `dst`, which is as long.
pub(crate) fn copy(_proof: Neon, src: &[u8], dst: &mut [u8]) -> u64 {
    assert_eq!(src.len(), dst.len());
    let blocks = src.chunks(BLOCK_BYTES).zip(dst.chunks_mut(BLOCK_BYTES));
    blocks
        // SAFETY: `Neon` exists only where these instructions do; `dst` has room for `src`.
        .map(|(src, dst)| unsafe { pass::<true>(src, dst.as_mut_ptr()) })
        .sum()
}

#[target_feature(enable = "neon")]
fn sum_of(data: &[u8]) -> u64 {
    data.chunks(BLOCK_BYTES)
        // SAFETY: nothing is written.
        .map(|block| unsafe { pass::<false>(block, std::ptr::null_mut()) })
        .sum()
}

/// The sum of at most [`BLOCK_BYTES`]; with `COPY` also written to `dst`.
///
/// # Safety
/// With `COPY`, `dst` has room for `src`.
#[target_feature(enable = "neon")]
unsafe fn pass<const COPY: bool>(src: &[u8], dst: *mut u8) -> u64 {
    let mut sums = [vdupq_n_u32(0); 4];
    let (lines, tail) = src.as_chunks::<64>();
    for (i, line) in lines.iter().enumerate() {
        for (j, sum) in sums.iter_mut().enumerate() {
            // SAFETY: sixteen bytes at `16 * j` lie inside 64, and as far into `dst` as into `src`.
            unsafe {
                let bytes = vld1q_u8(line.as_ptr().add(16 * j));
                if COPY {
                    vst1q_u8(dst.add(64 * i + 16 * j), bytes);
                }
                *sum = vpadalq_u16(*sum, vreinterpretq_u16_u8(bytes));
            }
        }
    }
    let (quarters, rest) = tail.as_chunks::<16>();
    for quarter in quarters {
        // SAFETY: sixteen bytes.
        let bytes = unsafe { vld1q_u8(quarter.as_ptr()) };
        sums[0] = vpadalq_u16(sums[0], vreinterpretq_u16_u8(bytes));
    }
    if COPY {
        let at = lines.len() * 64;
        // SAFETY: the tail lies as far into `dst` as into `src`; the two do not overlap, one being borrowed mutably.
        unsafe { std::ptr::copy_nonoverlapping(tail.as_ptr(), dst.add(at), tail.len()) };
    }
    let low = vaddq_u32(sums[0], sums[1]);
    let high = vaddq_u32(sums[2], sums[3]);
    vaddlvq_u32(vaddq_u32(low, high)) + u64::from(words(rest))
}

/// The words of fewer than 16 bytes.
fn words(rest: &[u8]) -> u32 {
    let (pairs, odd) = rest.as_chunks::<2>();
    let pairs: u32 = pairs
        .iter()
        .map(|pair| u32::from(u16::from_le_bytes(*pair)))
        .sum();
    pairs + odd.first().map_or(0, |&byte| byte.into())
}
