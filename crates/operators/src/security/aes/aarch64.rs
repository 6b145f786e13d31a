//! Armv8-A with the AES extension: eight blocks on their way at once, as a round takes three cycles and more.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use dpb_core::{Batch, BatchOut, Direction};

use super::Code;
use super::form::{BLOCK, Form, Mode, Parts};
use super::lanes::{self, Chains, LANES};
use super::schedule::{Keys, RoundKeys};
use super::stealing::steal;
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
    fn ctr(&self, parts: Parts<'_>, to: &mut [u8]) {
        let keys = load_all(&self.keys.data);
        let mut counter = u128::from_be_bytes(parts.iv.try_into().expect("sixteen bytes"));
        let mut next = || {
            let block = load(&counter.to_be_bytes());
            counter = counter.wrapping_add(1);
            block
        };
        let (groups, _) = parts.text.as_chunks::<BLOCK>().0.as_chunks::<WIDE>();
        let done = groups.len() * WIDE * BLOCK;
        let (to, rest_to) = to.split_at_mut(done);
        let to = to.as_chunks_mut::<BLOCK>().0.as_chunks_mut::<WIDE>().0;
        for (text, to) in groups.iter().zip(to) {
            let stream = encrypt(&keys, std::array::from_fn::<_, WIDE, _>(|_| next()));
            for i in 0..WIDE {
                store(&mut to[i], veorq_u8(load(&text[i]), stream[i]));
            }
        }
        let rest = parts.text[done..].chunks(BLOCK);
        for (text, to) in rest.zip(rest_to.chunks_mut(BLOCK)) {
            let [stream] = encrypt(&keys, [next()]);
            let mut bytes = [0; BLOCK];
            store(&mut bytes, stream);
            for ((to, text), byte) in to.iter_mut().zip(text).zip(bytes) {
                *to = text ^ byte;
            }
        }
    }

    #[target_feature(enable = "aes")]
    fn cbc_decrypt(&self, parts: Parts<'_>, to: &mut [u8]) {
        let keys = load_all(&self.keys.data);
        // A block's predecessor lies in front of it, before the first one the initialisation vector.
        let (before, _) = parts.item.as_chunks::<BLOCK>();
        let (text, _) = parts.text.as_chunks::<BLOCK>();
        let (to, _) = to.as_chunks_mut::<BLOCK>();
        let mut at = 0;
        while at + WIDE <= text.len() {
            let blocks = std::array::from_fn::<_, WIDE, _>(|i| load(&text[at + i]));
            let blocks = decrypt(&keys, blocks);
            for i in 0..WIDE {
                store(&mut to[at + i], veorq_u8(blocks[i], load(&before[at + i])));
            }
            at += WIDE;
        }
        for i in at..text.len() {
            let [block] = decrypt(&keys, [load(&text[i])]);
            store(&mut to[i], veorq_u8(block, load(&before[i])));
        }
    }

    #[target_feature(enable = "aes")]
    fn xts<const ENCRYPT: bool>(&self, parts: Parts<'_>, to: &mut [u8]) {
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
        let rest = parts.text.len() % BLOCK;
        // With a short block at the end, the last whole one is not done in turn.
        let in_turn = match rest {
            0 => parts.text.len(),
            rest => parts.text.len() - rest - BLOCK,
        };
        let (text, last) = parts.text.split_at(in_turn);
        let (to, last_to) = to.split_at_mut(in_turn);
        let (text, _) = text.as_chunks::<BLOCK>();
        let (to, _) = to.as_chunks_mut::<BLOCK>();
        let mut at = 0;
        while at + WIDE <= text.len() {
            let tweaks = std::array::from_fn::<_, WIDE, _>(|_| load(&next()));
            let add = |i: usize| veorq_u8(load(&text[at + i]), tweaks[i]);
            let blocks = direct::<N, WIDE, ENCRYPT>(&keys, std::array::from_fn(add));
            for i in 0..WIDE {
                store(&mut to[at + i], veorq_u8(blocks[i], tweaks[i]));
            }
            at += WIDE;
        }
        let one = |block: [u8; BLOCK], tweak: [u8; BLOCK]| {
            let tweak = load(&tweak);
            let block = veorq_u8(load(&block), tweak);
            let [block] = direct::<N, 1, ENCRYPT>(&keys, [block]);
            let mut to = [0; BLOCK];
            store(&mut to, veorq_u8(block, tweak));
            to
        };
        for i in at..text.len() {
            to[i] = one(text[i], next());
        }
        if rest != 0 {
            let tweaks = [next(), next()];
            steal(self.form.direction, tweaks, last, last_to, one);
        }
    }
}

impl<const N: usize> Code for Keyed<N> {
    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>) {
        let _: ArmAes = self.proof;
        let form = self.form;
        let advance = |chains: &mut Chains<'_>, count| {
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
            (Mode::Cbc, Direction::Encrypt) => lanes::encrypt(form, batch, out, advance),
            (mode, direction) => form.each(batch, out, |parts, to| {
                // SAFETY: as above.
                unsafe {
                    match (mode, direction) {
                        (Mode::Gcm, _) => unreachable!("no path for GCM"),
                        (Mode::Ctr, _) => self.ctr(parts, to),
                        (Mode::Cbc, _) => self.cbc_decrypt(parts, to),
                        (Mode::Xts, Direction::Encrypt) => self.xts::<true>(parts, to),
                        (Mode::Xts, Direction::Decrypt) => self.xts::<false>(parts, to),
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
    chains: &mut Chains<'_>,
    count: usize,
) {
    let keys = load_all(keys);
    let mut states = std::array::from_fn::<_, W, _>(|lane| load(&chains.states[lane]));
    for at in (0..count * BLOCK).step_by(BLOCK) {
        let text = |lane: usize| chains.texts[lane][at..].first_chunk().expect("a block");
        let add = |lane: usize| veorq_u8(states[lane], load(text(lane)));
        states = encrypt(&keys, std::array::from_fn(add));
        for (state, to) in states.iter().zip(chains.to) {
            let to = to[at..at + BLOCK].as_ptr().cast::<u8>().cast_mut();
            // SAFETY: a block of cells, through which one may write; the store needs no alignment.
            unsafe { vst1q_u8(to, *state) };
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

/// With the keys of the inverse cipher.
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
