//! One long item: loads that cross a cache line take twice as long, so vectors begin on one.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::Algorithm;
use super::super::constants::{fold, shift};
use super::super::x86_64::chained::{moved, word};
use super::{
    Parts, Start, advance, by, fold_start, folded as onto, load_bytes, register_of, with_tail,
};

/// A long item goes in strides: eight vectors side by side for eight steps, and three chains of `crc32` beside them.
const STEPS: usize = 8;
const STEP_BYTES: usize = 512;
const VECTOR_BYTES: usize = STEPS * STEP_BYTES;
const STEP_CHAIN_WORDS: usize = 5;
const CHAIN_BYTES: usize = STEPS * STEP_CHAIN_WORDS * 8;
/// A multiple of a cache line.
const STRIDE_BYTES: usize = VECTOR_BYTES + 3 * CHAIN_BYTES;

/// Items from this length on are long.
pub(super) const BYTES_MIN: usize = 1024;
/// Items from this length on are worth the three ends of the chains.
pub(super) const FUSED_BYTES_MIN: usize = 1 << 15;

/// The register after `data`, a small part of which goes through the `crc32` instruction.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
pub(super) fn fused<A: Algorithm>(data: &[u8]) -> u32 {
    let (head, data) = data.split_at(data.as_ptr().align_offset(64));
    let (strides, tail) = data.as_chunks::<STRIDE_BYTES>();
    let mut register = advance::<A>(A::INITIAL, head);
    // Zeros stay zeros however far they are moved.
    let mut vectors = [_mm512_setzero_si512(); 8];
    for stride in strides {
        let chains = fold_stride::<A>(&mut vectors, stride);
        // Factors that move a register forward.
        let carried = moved(register, const { shift::<A>(STRIDE_BYTES as u32 * 8) })
            ^ moved(chains[0], const { shift::<A>(2 * CHAIN_BYTES as u32 * 8) })
            ^ moved(chains[1], const { shift::<A>(CHAIN_BYTES as u32 * 8) });
        register = chains[2] ^ word::<A>(0, carried);
    }
    let before_chains = register_of::<A>(joined::<A>(vectors));
    let by_chains = const { shift::<A>(3 * CHAIN_BYTES as u32 * 8) };
    register ^= word::<A>(0, moved(before_chains, by_chains));
    advance::<A>(register, tail)
}

/// One stride: the vectors go on, the chains begin anew.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,gfni,sse4.2")]
fn fold_stride<A: Algorithm>(vectors: &mut [__m512i; 8], stride: &[u8; STRIDE_BYTES]) -> [u32; 3] {
    let (steps, words) = stride.split_at(VECTOR_BYTES);
    let (steps, _) = steps.as_chunks::<STEP_BYTES>();
    let (words, _) = words.as_chunks::<8>();
    let (words, _) = words.as_chunks::<STEP_CHAIN_WORDS>();
    let (words0, words) = words.split_at(STEPS);
    let (words1, words2) = words.split_at(STEPS);
    let words = words0.iter().zip(words1).zip(words2);
    let mut chains = [0; 3];
    // From the last vectors of a stride to the first of the next.
    let mut factors = by(const { fold::<A>((STEP_BYTES + 3 * CHAIN_BYTES) as u32 * 8) });
    for (step, ((words0, words1), words2)) in steps.iter().zip(words) {
        let (blocks, _) = step.as_chunks::<64>();
        for lane in 0..8 {
            vectors[lane] = onto(vectors[lane], factors, load_bytes::<A>(&blocks[lane]));
        }
        factors = by(const { fold::<A>(STEP_BYTES as u32 * 8) });
        for i in 0..STEP_CHAIN_WORDS {
            chains[0] = word::<A>(chains[0], u64::from_le_bytes(words0[i]));
            chains[1] = word::<A>(chains[1], u64::from_le_bytes(words1[i]));
            chains[2] = word::<A>(chains[2], u64::from_le_bytes(words2[i]));
        }
    }
    chains
}

/// Eight vectors of 64 bytes, one behind another, in one.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn joined<A: Algorithm>([a, b, c, d, e, f, g, h]: [__m512i; 8]) -> __m512i {
    let by_64 = by(const { fold::<A>(512) });
    let by_128 = by(const { fold::<A>(1024) });
    let abcd = onto(onto(a, by_64, b), by_128, onto(c, by_64, d));
    let efgh = onto(onto(e, by_64, f), by_128, onto(g, by_64, h));
    onto(abcd, by(const { fold::<A>(2048) }), efgh)
}

/// The register after `data`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
pub(super) fn folded<A: Algorithm>(data: &[u8]) -> u32 {
    let Parts { head, body, tail } = Parts::aligned(data);
    let vector = fold_start::<A>(const { &Start::new(A::INITIAL) }, head, body);
    register_of::<A>(with_tail::<A>(vector, tail))
}
