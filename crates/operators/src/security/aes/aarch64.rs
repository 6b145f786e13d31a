//! Armv8-A with the AES extension: eight blocks on their way at once, as a round takes three cycles and more.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use dpb_core::Direction;

use super::form::{BLOCK, Form, Mode, Parts, Places, Work};
use super::lanes::{self, Chains, LANES};
use super::schedule::{Keys, RoundKeys};
use super::stealing::steal;
use super::text::{chunks, groups};
use super::{Code, Coder};
use crate::isa::ArmAes;

/// Blocks on their way at once.
const WIDE: usize = 8;

/// A mode with its keys, of `N` rounds and one.
struct Keyed<const N: usize> {
    proof: ArmAes,
    form: Form,
    keys: Keys<N>,
}

/// In the mode that `form` says, which is not GCM; `key` has a length that there is.
pub(super) fn new(proof: ArmAes, form: Form, key: &[u8]) -> Box<dyn Code> {
    match key.len() / form.keys() {
        16 => Box::new(Keyed::<11>::new(proof, form, key)),
        _ => Box::new(Keyed::<15>::new(proof, form, key)),
    }
}

impl<const N: usize> Keyed<N> {
    fn new(proof: ArmAes, form: Form, key: &[u8]) -> Self {
        // SAFETY: `ArmAes` exists only where these instructions do.
        let keys = unsafe { Keys::new(form, key, |word| substitute(word), |keys| inverse(keys)) };
        Self { proof, form, keys }
    }

    #[target_feature(enable = "aes")]
    fn ctr(&self, parts: Parts<'_>) {
        let keys = load_all(&self.keys.data);
        let mut counter = u128::from_be_bytes(parts.iv.try_into().expect("sixteen bytes"));
        let mut next = || {
            let block = load(&counter.to_be_bytes());
            counter = counter.wrapping_add(1);
            block
        };
        let (whole, rest) = groups::<WIDE, BLOCK>(parts.text);
        for mut text in whole {
            let stream = encrypt(&keys, std::array::from_fn::<_, WIDE, _>(|_| next()));
            for (i, stream) in stream.iter().enumerate() {
                let crypt = veorq_u8(load(&text.get_in()[i]), *stream);
                store(&mut text.get_out()[i], crypt);
            }
        }
        for mut text in chunks(rest, BLOCK) {
            let [stream] = encrypt(&keys, [next()]);
            let mut bytes = [0; BLOCK];
            store(&mut bytes, stream);
            let len = text.len();
            text.xor_in2out(&bytes[..len]);
        }
    }

    #[target_feature(enable = "aes")]
    fn cbc_decrypt(&self, parts: Parts<'_>) {
        let keys = load_all(&self.keys.data);
        // The block before: kept, for where it lay its output may have been written.
        let mut before = load(parts.iv.try_into().expect("sixteen bytes"));
        let (whole, rest) = groups::<WIDE, BLOCK>(parts.text);
        for mut text in whole {
            let crypt = std::array::from_fn::<_, WIDE, _>(|i| load(&text.get_in()[i]));
            let blocks = decrypt(&keys, crypt);
            for i in 0..WIDE {
                store(&mut text.get_out()[i], veorq_u8(blocks[i], before));
                before = crypt[i];
            }
        }
        for mut text in groups::<1, BLOCK>(rest).0 {
            let crypt = load(&text.get_in()[0]);
            let [block] = decrypt(&keys, [crypt]);
            store(&mut text.get_out()[0], veorq_u8(block, before));
            before = crypt;
        }
    }

    #[target_feature(enable = "aes")]
    fn xts<const ENCRYPT: bool>(&self, parts: Parts<'_>) {
        let keys = load_all(&self.keys.data);
        let iv = parts.iv.try_into().expect("sixteen bytes");
        let [tweak] = encrypt(&load_all(&self.keys.tweak), [load(iv)]);
        let mut first = [0; BLOCK];
        store(&mut first, tweak);
        let mut tweak = u128::from_le_bytes(first);
        let mut next = || {
            let now = tweak.to_le_bytes();
            let carry = (tweak >> 127).wrapping_neg() & 0x87;
            tweak = tweak << 1 ^ carry;
            now
        };
        let text = parts.text;
        let rest = text.len() % BLOCK;
        // With a short block at the end, the last whole one is not done in turn.
        let in_turn = match rest {
            0 => text.len(),
            rest => text.len() - rest - BLOCK,
        };
        let (text, last) = text.split_at(in_turn);
        let (whole, text) = groups::<WIDE, BLOCK>(text);
        for mut text in whole {
            let tweaks = std::array::from_fn::<_, WIDE, _>(|_| load(&next()));
            let add = |i: usize| veorq_u8(load(&text.get_in()[i]), tweaks[i]);
            let blocks = direct::<N, WIDE, ENCRYPT>(&keys, std::array::from_fn(add));
            for i in 0..WIDE {
                store(&mut text.get_out()[i], veorq_u8(blocks[i], tweaks[i]));
            }
        }
        let one = |block: [u8; BLOCK], tweak: [u8; BLOCK]| {
            let tweak = load(&tweak);
            let block = veorq_u8(load(&block), tweak);
            let [block] = direct::<N, 1, ENCRYPT>(&keys, [block]);
            let mut to = [0; BLOCK];
            store(&mut to, veorq_u8(block, tweak));
            to
        };
        for mut text in groups::<1, BLOCK>(text).0 {
            text.get_out()[0] = one(text.get_in()[0], next());
        }
        if rest != 0 {
            let tweaks = [next(), next()];
            steal(self.form.direction, tweaks, last, one);
        }
    }
}

impl<const N: usize> Coder for Keyed<N> {
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>) {
        let _: ArmAes = self.proof;
        let form = self.form;
        let advance = |chains: &mut Chains<'_, ()>, count| {
            // SAFETY: `ArmAes` exists only where these instructions do.
            unsafe {
                match chains.busy() {
                    0..=4 => advance::<N, 4>(&self.keys.data, chains, count),
                    5..=8 => advance::<N, 8>(&self.keys.data, chains, count),
                    _ => advance::<N, LANES>(&self.keys.data, chains, count),
                }
            }
        };
        match (form.mode, form.direction) {
            (Mode::Cbc, Direction::Encrypt) => lanes::encrypt(form, work, |_| (), advance),
            (mode, direction) => form.each(work, |parts| {
                // SAFETY: as above.
                unsafe {
                    match (mode, direction) {
                        (Mode::Gcm, _) => unreachable!("no path for GCM"),
                        (Mode::Ctr, _) => self.ctr(parts),
                        (Mode::Cbc, _) => self.cbc_decrypt(parts),
                        (Mode::Xts, Direction::Encrypt) => self.xts::<true>(parts),
                        (Mode::Xts, Direction::Decrypt) => self.xts::<false>(parts),
                    }
                }
                Ok(())
            }),
        }
    }
}

/// Takes `W` chains forward together.
#[target_feature(enable = "aes")]
fn advance<const N: usize, const W: usize>(
    keys: &[[u8; 16]; N],
    chains: &mut Chains<'_, ()>,
    count: usize,
) {
    let keys = load_all(keys);
    let (from, to) = chains.addresses(count * BLOCK);
    let mut states = std::array::from_fn::<_, W, _>(|lane| load(&chains.states[lane]));
    for at in (0..count * BLOCK).step_by(BLOCK) {
        // SAFETY: each lane reads `count` blocks; no load needs alignment.
        let text = |lane: usize| unsafe { vld1q_u8(from[lane].add(at)) };
        let add = |lane: usize| veorq_u8(states[lane], text(lane));
        states = encrypt(&keys, std::array::from_fn(add));
        for (state, to) in states.iter().zip(to) {
            // SAFETY: each lane writes `count` blocks; no store needs alignment.
            unsafe { vst1q_u8(to.add(at), *state) };
        }
    }
    for (state, to) in states.into_iter().zip(&mut chains.states) {
        store(to, state);
    }
}

/// SUBWORD: a round of AES without its last step, on four equal words, where SHIFTROWS changes nothing.
#[target_feature(enable = "aes")]
fn substitute(word: u32) -> u32 {
    let words = vreinterpretq_u8_u32(vdupq_n_u32(word));
    vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(words, vdupq_n_u8(0))))
}

/// The keys of the equivalent inverse cipher (FIPS 197, 5.3.5).
#[target_feature(enable = "aes")]
fn inverse<const N: usize>(keys: &[[u8; 16]; N]) -> RoundKeys<N> {
    let mut inverse = RoundKeys::from(*keys);
    inverse.reverse();
    for key in &mut inverse[1..N - 1] {
        let mixed = vaesimcq_u8(load(key));
        store(key, mixed);
    }
    inverse
}

#[inline]
#[target_feature(enable = "aes")]
fn encrypt<const N: usize, const W: usize>(
    keys: &[uint8x16_t; N],
    mut blocks: [uint8x16_t; W],
) -> [uint8x16_t; W] {
    for key in &keys[..N - 2] {
        for block in &mut blocks {
            *block = vaesmcq_u8(vaeseq_u8(*block, *key));
        }
    }
    for block in &mut blocks {
        *block = veorq_u8(vaeseq_u8(*block, keys[N - 2]), keys[N - 1]);
    }
    blocks
}

/// The same with the keys of the inverse cipher.
#[inline]
#[target_feature(enable = "aes")]
fn decrypt<const N: usize, const W: usize>(
    keys: &[uint8x16_t; N],
    mut blocks: [uint8x16_t; W],
) -> [uint8x16_t; W] {
    for key in &keys[..N - 2] {
        for block in &mut blocks {
            *block = vaesimcq_u8(vaesdq_u8(*block, *key));
        }
    }
    for block in &mut blocks {
        *block = veorq_u8(vaesdq_u8(*block, keys[N - 2]), keys[N - 1]);
    }
    blocks
}

#[inline]
#[target_feature(enable = "aes")]
fn direct<const N: usize, const W: usize, const ENCRYPT: bool>(
    keys: &[uint8x16_t; N],
    blocks: [uint8x16_t; W],
) -> [uint8x16_t; W] {
    match ENCRYPT {
        true => encrypt(keys, blocks),
        false => decrypt(keys, blocks),
    }
}

#[inline]
#[target_feature(enable = "aes")]
fn load_all<const N: usize>(keys: &[[u8; 16]; N]) -> [uint8x16_t; N] {
    std::array::from_fn(|i| load(&keys[i]))
}

#[inline]
#[target_feature(enable = "neon")]
fn load(block: &[u8; BLOCK]) -> uint8x16_t {
    // SAFETY: sixteen bytes; the load needs no alignment.
    unsafe { vld1q_u8(block.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(to: &mut [u8; BLOCK], block: uint8x16_t) {
    // SAFETY: sixteen bytes; the store needs no alignment.
    unsafe { vst1q_u8(to.as_mut_ptr(), block) }
}
