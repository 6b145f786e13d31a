//! Cipher block chaining: sixteen blocks of one item to decrypt, blocks of many items to encrypt.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::{Batch, BatchOut, Direction};

use super::{
    WIDE, broadcast, decrypt_blocks, encrypt_blocks, groups, groups_mut, load, load_some, store,
    store_some,
};
use crate::security::aes::form::{BLOCK, Form, Mode};
use crate::security::aes::lanes::{self, Chains, LANES};

/// Each item: a block's predecessor lies in front of it, before the first one the initialisation vector.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(super) fn decrypt<const N: usize>(
    keys: &[[u8; 16]; N],
    form: Form,
    batch: Batch<'_>,
    out: BatchOut<'_>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Cbc, Direction::Decrypt);
    form.each(batch, out, |parts, to| {
        let before = &parts.item[..parts.text.len()];
        let (chunks, text) = groups(parts.text);
        let (chunks_before, before) = groups(before);
        let (chunks_to, to) = groups_mut(to);
        for ((text, before), to) in chunks.iter().zip(chunks_before).zip(chunks_to) {
            let mut blocks = [_mm512_setzero_si512(); WIDE];
            for i in 0..WIDE {
                blocks[i] = load(&text[i]);
            }
            let blocks = decrypt_blocks(&keys, blocks);
            for i in 0..WIDE {
                store(&mut to[i], _mm512_xor_si512(blocks[i], load(&before[i])));
            }
        }
        let rest = text.chunks(64).zip(before.chunks(64));
        for ((text, before), to) in rest.zip(to.chunks_mut(64)) {
            let [block] = decrypt_blocks(&keys, [load_some(text)]);
            store_some(to, _mm512_xor_si512(block, load_some(before)));
        }
        Ok(())
    });
}

/// All items side by side.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(super) fn encrypt<const N: usize>(
    keys: &[[u8; 16]; N],
    form: Form,
    batch: Batch<'_>,
    out: BatchOut<'_>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Cbc, Direction::Encrypt);
    lanes::encrypt(form, batch, out, |chains, count| match chains.busy() {
        0..=4 => advance::<N, 1>(&keys, chains, count),
        5..=8 => advance::<N, 2>(&keys, chains, count),
        _ => advance::<N, 4>(&keys, chains, count),
    });
}

/// Takes `W` times four chains forward together.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
fn advance<const N: usize, const W: usize>(
    keys: &[__m512i; N],
    chains: &mut Chains<'_>,
    count: usize,
) {
    const { assert!(4 * W <= LANES) };
    let bytes = count * BLOCK;
    assert!(chains.texts.iter().all(|text| text.len() >= bytes));
    assert!(chains.to.iter().all(|to| to.len() >= bytes));
    let from = chains.texts.map(<[u8]>::as_ptr);
    // Through cells one may write.
    let to = chains.to.map(|to| to.as_ptr().cast::<u8>().cast_mut());
    let mut states = [_mm512_setzero_si512(); W];
    for (state, four) in states.iter_mut().zip(chains.states.as_chunks::<4>().0) {
        *state = load_some(four.as_flattened());
    }
    for at in (0..bytes).step_by(BLOCK) {
        for (i, state) in states.iter_mut().enumerate() {
            // SAFETY: each text has `bytes` bytes, as asserted, and `at + BLOCK` are no more; no load needs alignment.
            let text = unsafe {
                let block = |lane: usize| _mm_loadu_si128(from[4 * i + lane].add(at).cast());
                let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(block(0)), block(1));
                let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(block(2)), block(3));
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            };
            *state = _mm512_xor_si512(*state, text);
        }
        states = encrypt_blocks(keys, states);
        for (i, state) in states.iter().enumerate() {
            let to = |lane: usize| to[4 * i + lane].wrapping_add(at).cast();
            // SAFETY: each lane has room for `bytes` bytes, as asserted, in cells; no store needs alignment.
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
