//! x86-64 with VAES: a round of four blocks at once.
//!
//! A round starts in each cycle and takes three or more, so four vectors are on their way at once. Of short items it is the CPU
//! that overlaps one with the next.
#![allow(unsafe_code)]

mod cbc;
mod ctr;
mod gcm;
mod xts;

use std::arch::x86_64::*;

use dpb_core::Direction;
use zeroize::Zeroizing;

use super::form::{Form, Mode, Places, Work};
use super::schedule::{Keys, RoundKeys};
use super::{Code, Coder};
use crate::isa::Vaes;
use crate::security::sessions::TOGETHER;

/// Vectors on their way at once.
const WIDE: usize = 4;

/// The bytes of a group.
type Group = [[u8; 64]; WIDE];

/// A mode with its keys, of `N` rounds and one.
struct Keyed<const N: usize> {
    proof: Vaes,
    form: Form,
    keys: Keys<N>,
    /// GCM's hash key.
    hash: Zeroizing<gcm::Powers>,
}

/// In the mode that `form` says; `key` has a length that there is.
pub(super) fn new(proof: Vaes, form: Form, key: &[u8]) -> Box<dyn Code> {
    match key.len() / form.keys() {
        16 => Box::new(Keyed::<11>::new(proof, form, key)),
        _ => Box::new(Keyed::<15>::new(proof, form, key)),
    }
}

impl<const N: usize> Keyed<N> {
    fn new(proof: Vaes, form: Form, key: &[u8]) -> Self {
        // SAFETY: `Vaes` exists only where these instructions do.
        let (keys, hash) = unsafe {
            let keys = Keys::new(form, key, |word| substitute(word), |keys| inverse(keys));
            let hash = match form.mode {
                Mode::Gcm => gcm::powers(&keys.data),
                Mode::Ctr | Mode::Cbc | Mode::Xts => Zeroizing::new(gcm::NONE),
            };
            (keys, hash)
        };
        Self {
            proof,
            form,
            keys,
            hash,
        }
    }
}

impl<const N: usize> Coder for Keyed<N> {
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>) {
        let _: Vaes = self.proof;
        let (form, keys) = (self.form, &self.keys);
        // SAFETY: `Vaes` exists only where these instructions do.
        unsafe {
            match (form.mode, form.direction) {
                (Mode::Gcm, Direction::Encrypt) => {
                    gcm::encrypt(&keys.data, &self.hash, form, work);
                }
                (Mode::Gcm, Direction::Decrypt) => {
                    gcm::decrypt(&keys.data, &self.hash, form, work);
                }
                (Mode::Ctr, _) => ctr::crypt(&keys.data, form, work),
                (Mode::Cbc, Direction::Encrypt) => cbc::encrypt(&keys.data, form, work),
                (Mode::Cbc, Direction::Decrypt) => cbc::decrypt(&keys.data, form, work),
                (Mode::Xts, Direction::Encrypt) => {
                    xts::crypt::<N, true, _>(&keys.data, &keys.tweak, form, work);
                }
                (Mode::Xts, Direction::Decrypt) => {
                    xts::crypt::<N, false, _>(&keys.data, &keys.tweak, form, work);
                }
            }
        }
    }

    fn chained(&self) -> Option<&[[u8; 16]]> {
        let is_chained = (self.form.mode, self.form.direction) == (Mode::Cbc, Direction::Encrypt);
        is_chained.then_some(&self.keys.data[..])
    }

    fn on_each<'a>(&self, keys: &[&[[u8; 16]]], work: Work<'a, impl Places<'a>>) {
        let mut each = [&*self.keys.data; TOGETHER];
        for (each, keys) in each.iter_mut().zip(keys) {
            *each = (*keys).try_into().expect("keys of this length");
        }
        // SAFETY: `Vaes` exists only where these instructions do.
        unsafe { cbc::encrypt_each(&each[..keys.len()], self.form, work) }
    }
}

/// SUBWORD: the last round of AES on four equal words, where SHIFTROWS changes nothing.
#[target_feature(enable = "aes")]
fn substitute(word: u32) -> u32 {
    let words = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aesenclast_si128(words, _mm_setzero_si128())).cast_unsigned()
}

/// The keys of the equivalent inverse cipher (FIPS 197, 5.3.5).
#[target_feature(enable = "aes")]
fn inverse<const N: usize>(keys: &[[u8; 16]; N]) -> RoundKeys<N> {
    let mut inverse = RoundKeys::from(*keys);
    inverse.reverse();
    for key in &mut inverse[1..N - 1] {
        // SAFETY: sixteen bytes, read and written; neither needs alignment.
        unsafe {
            let mixed = _mm_aesimc_si128(_mm_loadu_si128(key.as_ptr().cast()));
            _mm_storeu_si128(key.as_mut_ptr().cast(), mixed);
        }
    }
    inverse
}

/// The round keys, each four times.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast<const N: usize>(keys: &[[u8; 16]; N]) -> [__m512i; N] {
    let mut wide = [_mm512_setzero_si512(); N];
    for (wide, key) in wide.iter_mut().zip(keys) {
        *wide = broadcast_block(key);
    }
    wide
}

/// One block four times.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast_block(block: &[u8; 16]) -> __m512i {
    _mm512_broadcast_i32x4(load_block(block))
}

/// One block.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_block(block: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_block(to: &mut [u8; 16], block: __m128i) {
    // SAFETY: sixteen bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), block) }
}

/// Encrypts `W` times four blocks.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn encrypt_blocks<const N: usize, const W: usize>(
    keys: &[__m512i; N],
    mut blocks: [__m512i; W],
) -> [__m512i; W] {
    for block in &mut blocks {
        *block = _mm512_xor_si512(*block, keys[0]);
    }
    for key in &keys[1..N - 1] {
        for block in &mut blocks {
            *block = _mm512_aesenc_epi128(*block, *key);
        }
    }
    for block in &mut blocks {
        *block = _mm512_aesenclast_epi128(*block, keys[N - 1]);
    }
    blocks
}

/// The same with keys for each four.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn encrypt_each_four<const N: usize, const W: usize>(
    keys: [&[__m512i; N]; W],
    mut blocks: [__m512i; W],
) -> [__m512i; W] {
    for (block, keys) in blocks.iter_mut().zip(keys) {
        *block = _mm512_xor_si512(*block, keys[0]);
    }
    for round in 1..N - 1 {
        for (block, keys) in blocks.iter_mut().zip(keys) {
            *block = _mm512_aesenc_epi128(*block, keys[round]);
        }
    }
    for (block, keys) in blocks.iter_mut().zip(keys) {
        *block = _mm512_aesenclast_epi128(*block, keys[N - 1]);
    }
    blocks
}

/// Decrypts `W` times four blocks, with the keys of the inverse cipher.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn decrypt_blocks<const N: usize, const W: usize>(
    keys: &[__m512i; N],
    mut blocks: [__m512i; W],
) -> [__m512i; W] {
    for block in &mut blocks {
        *block = _mm512_xor_si512(*block, keys[0]);
    }
    for key in &keys[1..N - 1] {
        for block in &mut blocks {
            *block = _mm512_aesdec_epi128(*block, *key);
        }
    }
    for block in &mut blocks {
        *block = _mm512_aesdeclast_epi128(*block, keys[N - 1]);
    }
    blocks
}

/// 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [u8; 64], vector: __m512i) {
    // SAFETY: 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) }
}

/// Up to 64 bytes, and zeros behind them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_some(bytes: &[u8]) -> __m512i {
    if let Ok(all) = bytes.try_into() {
        return load(all);
    }
    // SAFETY: the mask has bits only for bytes that are there.
    unsafe { _mm512_maskz_loadu_epi8(first(bytes.len()), bytes.as_ptr().cast()) }
}

/// Stores as many bytes as `to` has, up to 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_some(to: &mut [u8], vector: __m512i) {
    if let Ok(all) = to.try_into() {
        return store(all, vector);
    }
    // SAFETY: the mask has bits only for bytes that are there.
    unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), first(to.len()), vector) }
}

/// A bit for each of the first `bytes`, of 64 at most.
#[inline]
fn first(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        bytes => u64::MAX >> 64usize.saturating_sub(bytes),
    }
}

/// Turns the bytes of each block around.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn swap(blocks: __m512i) -> __m512i {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order))
}
