//! Cipher block chaining: sixteen blocks of one item to decrypt, blocks of many items to encrypt.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::Direction;

use super::{
    WIDE, broadcast, decrypt_blocks, encrypt_blocks, encrypt_each_four, load, load_block,
    load_some, store, store_some,
};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::lanes::{self, Chains, LANES};
use crate::security::aes::text::{chunks, groups};

/// Each item. The last block of a vector is kept for the next one: where it lay, its output may have been written.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(super) fn decrypt<'a, const N: usize, P: Places<'a>>(
    keys: &[[u8; 16]; N],
    form: Form,
    work: Work<'a, P>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Cbc, Direction::Decrypt);
    form.each(work, |parts| {
        let mut before = super::broadcast_block(parts.iv.try_into().expect("sixteen bytes"));
        // Four blocks, each moved up by one: the predecessors of these.
        let mut predecessors = |text: __m512i| {
            let moved = _mm512_alignr_epi64::<6>(text, before);
            before = text;
            moved
        };
        let (whole, rest) = groups::<WIDE, 64>(parts.text);
        for mut text in whole {
            let mut blocks = [_mm512_setzero_si512(); WIDE];
            for (four, from) in blocks.iter_mut().zip(text.get_in()) {
                *four = load(from);
            }
            let mut added = [_mm512_setzero_si512(); WIDE];
            for (added, four) in added.iter_mut().zip(&blocks) {
                *added = predecessors(*four);
            }
            let blocks = decrypt_blocks(&keys, blocks);
            for i in 0..WIDE {
                store(
                    &mut text.get_out()[i],
                    _mm512_xor_si512(blocks[i], added[i]),
                );
            }
        }
        for mut text in chunks(rest, 64) {
            let blocks = load_some(text.get_in());
            let added = predecessors(blocks);
            let [blocks] = decrypt_blocks(&keys, [blocks]);
            store_some(text.get_out(), _mm512_xor_si512(blocks, added));
        }
        Ok(())
    });
}

/// All items side by side.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(super) fn encrypt<'a, const N: usize, P: Places<'a>>(
    keys: &[[u8; 16]; N],
    form: Form,
    work: Work<'a, P>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Cbc, Direction::Encrypt);
    lanes::encrypt(
        form,
        work,
        |_| (),
        |chains, count| match chains.busy() {
            0..=4 => advance::<1, _, P>(|blocks| encrypt_blocks(&keys, blocks), chains, count),
            5..=8 => advance::<2, _, P>(|blocks| encrypt_blocks(&keys, blocks), chains, count),
            _ => advance::<4, _, P>(|blocks| encrypt_blocks(&keys, blocks), chains, count),
        },
    );
}

/// All items side by side, each with keys of its own.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(super) fn encrypt_each<'a, const N: usize, P: Places<'a>>(
    keys: &[&[[u8; 16]; N]],
    form: Form,
    work: Work<'a, P>,
) {
    let form = form.known(Mode::Cbc, Direction::Encrypt);
    lanes::encrypt(
        form,
        work,
        |i| keys[i],
        |chains, count| match chains.busy() {
            0..=4 => advance_each::<N, 1, P>(chains, count),
            5..=8 => advance_each::<N, 2, P>(chains, count),
            _ => advance_each::<N, 4, P>(chains, count),
        },
    );
}

/// Takes `W` times four chains forward together, each with its own keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
fn advance_each<const N: usize, const W: usize, P>(
    chains: &mut Chains<'_, &[[u8; 16]; N]>,
    count: usize,
) {
    let mut keys = [[_mm512_setzero_si512(); N]; W];
    for (keys, four) in keys.iter_mut().zip(chains.keys.as_chunks::<4>().0) {
        for (i, key) in keys.iter_mut().enumerate() {
            *key = together(four.map(|keys| load_block(&keys[i])));
        }
    }
    let keys = keys.each_ref();
    advance::<W, _, P>(|blocks| encrypt_each_four(keys, blocks), chains, count);
}

/// Four blocks in one vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn together([a, b, c, d]: [__m128i; 4]) -> __m512i {
    let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
    let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(c), d);
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Takes `W` times four chains forward together, as `encrypt` does with their blocks. Made for each `P`, so that the one call of it is inlined.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
fn advance<const W: usize, K: Copy, P>(
    encrypt: impl Fn([__m512i; W]) -> [__m512i; W],
    chains: &mut Chains<'_, K>,
    count: usize,
) {
    const { assert!(4 * W <= LANES) };
    let bytes = count * BLOCK;
    let (from, to) = chains.addresses(bytes);
    let mut states = [_mm512_setzero_si512(); W];
    for (state, four) in states.iter_mut().zip(chains.states.as_chunks::<4>().0) {
        *state = load_some(four.as_flattened());
    }
    for at in (0..bytes).step_by(BLOCK) {
        for (i, state) in states.iter_mut().enumerate() {
            // SAFETY: each lane reads `bytes` bytes, and `at + BLOCK` are no more; no load needs alignment.
            let text = unsafe {
                let block = |lane: usize| _mm_loadu_si128(from[4 * i + lane].add(at).cast());
                together([block(0), block(1), block(2), block(3)])
            };
            *state = _mm512_xor_si512(*state, text);
        }
        states = encrypt(states);
        for (i, state) in states.iter().enumerate() {
            let to = |lane: usize| to[4 * i + lane].wrapping_add(at).cast();
            // SAFETY: each lane writes `bytes` bytes; no store needs alignment.
            unsafe {
                _mm_storeu_si128(to(0), _mm512_castsi512_si128(*state));
                _mm_storeu_si128(to(1), _mm512_extracti32x4_epi32::<1>(*state));
                _mm_storeu_si128(to(2), _mm512_extracti32x4_epi32::<2>(*state));
                _mm_storeu_si128(to(3), _mm512_extracti32x4_epi32::<3>(*state));
            }
        }
    }
    for (state, four) in states.iter().zip(chains.states.as_chunks_mut::<4>().0) {
        store_some(four.as_flattened_mut(), *state);
    }
}
