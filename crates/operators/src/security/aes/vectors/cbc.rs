//! Cipher block chaining: a group of blocks of one item to decrypt, blocks of many items to encrypt.
#![allow(unsafe_code)]

use dpb_core::Direction;

use super::blocks::{Blocks, Task};
use super::keys::{AHEAD, Keys, Source};
use super::lanes::{Chains, LANES_MAX, Lanes};
use super::rounds::{broadcast, decrypt, encrypt, encrypt_each};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::text::{chunks, groups};

/// Decrypts each item. The last block of a register is kept for the next one: where it lay, its output may have been written.
pub(super) struct Decrypt<'a, P, S, const N: usize> {
    pub(super) source: S,
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, 'k, T, P, S, const N: usize> Task<T> for Decrypt<'a, P, S, N>
where
    T: Blocks,
    P: Places<'a>,
    S: Source<'k, N>,
{
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let mut keys = broadcast(t, &self.source.of(0).data);
        let form = self.form.known(Mode::Cbc, Direction::Decrypt);
        for (i, parts, _) in form.items(self.work) {
            if S::EACH {
                self.source.prefetch(Mode::Cbc, i + AHEAD);
                keys = broadcast(t, &self.source.of(i).data);
            }
            let iv = t.load_block(parts.iv.try_into().expect("sixteen bytes"));
            let mut before = t.repeat(t.broadcast(iv));
            let (whole, rest) = groups::<W, 64>(parts.text);
            for mut text in whole {
                let mut blocks = [before; W];
                let mut added = [before; W];
                for i in 0..W {
                    blocks[i] = t.load(&text.get_in()[i]);
                    added[i] = t.behind(before, blocks[i]);
                    before = blocks[i];
                }
                let blocks = decrypt(t, &keys, blocks);
                for i in 0..W {
                    t.store(&mut text.get_out()[i], t.xor4(blocks[i], added[i]));
                }
            }
            for mut text in chunks(rest, 64) {
                let blocks = t.load_some(text.get_in());
                let added = t.behind(before, blocks);
                before = blocks;
                let [blocks] = decrypt(t, &keys, [blocks]);
                t.store_some(text.get_out(), t.xor4(blocks, added));
            }
        }
    }
}

/// Encrypts all items side by side.
pub(super) struct Encrypt<'a, 'k, P, const N: usize> {
    pub(super) keys: &'k Keys<N>,
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, T: Blocks, P: Places<'a>, const N: usize> Task<T> for Encrypt<'a, '_, P, N> {
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let keys = broadcast(t, &self.keys.data);
        let form = self.form.known(Mode::Cbc, Direction::Encrypt);
        let mut lanes = Lanes::new(form, self.work, T::LANES, ());
        while let Some(count) = lanes.next(|_| ()) {
            match lanes.chains.busy() {
                0..=4 => advance::<T, _, N, 1>(t, Same(&keys), &mut lanes.chains, count),
                9.. if T::LANES > 8 => {
                    advance::<T, _, N, 4>(t, Same(&keys), &mut lanes.chains, count);
                }
                _ => advance::<T, _, N, 2>(t, Same(&keys), &mut lanes.chains, count),
            }
            lanes.chains.leave_behind(count * BLOCK);
        }
    }
}

/// Encrypts all items side by side, each with keys of its own.
pub(super) struct EncryptEach<'a, 'k, P, const N: usize> {
    pub(super) keys: &'k [&'k Keys<N>],
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, T: Blocks, P: Places<'a>, const N: usize> Task<T> for EncryptEach<'a, '_, P, N> {
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let Some(first) = self.keys.first() else {
            return;
        };
        let form = self.form.known(Mode::Cbc, Direction::Encrypt);
        let mut lanes = Lanes::new(form, self.work, T::LANES, *first);
        while let Some(count) = lanes.next(|i| self.keys[i]) {
            match lanes.chains.busy() {
                0..=4 => advance_each::<T, N, 1>(t, &mut lanes.chains, count),
                9.. if T::LANES > 8 => advance_each::<T, N, 4>(t, &mut lanes.chains, count),
                _ => advance_each::<T, N, 2>(t, &mut lanes.chains, count),
            }
            lanes.chains.leave_behind(count * BLOCK);
        }
    }
}

/// The keys of `W` times four chains.
trait LaneKeys<T: Blocks, const W: usize>: Copy {
    fn encrypt(self, t: T, blocks: [T::Four; W]) -> [T::Four; W];
}

/// One key for all.
#[derive(Clone, Copy)]
struct Same<'a, R, const N: usize>(&'a [R; N]);

impl<T: Blocks, const N: usize, const W: usize> LaneKeys<T, W> for Same<'_, T::Reg, N> {
    #[inline(always)]
    fn encrypt(self, t: T, blocks: [T::Four; W]) -> [T::Four; W] {
        encrypt(t, self.0, blocks)
    }
}

/// A key for each.
#[derive(Clone, Copy)]
struct Own<'a, F, const N: usize, const W: usize>(&'a [[F; N]; W]);

impl<T: Blocks, const N: usize, const W: usize> LaneKeys<T, W> for Own<'_, T::Four, N, W> {
    #[inline(always)]
    fn encrypt(self, t: T, blocks: [T::Four; W]) -> [T::Four; W] {
        encrypt_each(t, self.0, blocks)
    }
}

/// Takes `W` times four chains forward together, each with its own keys.
#[inline(always)]
fn advance_each<T: Blocks, const N: usize, const W: usize>(
    t: T,
    chains: &mut Chains<'_, &Keys<N>>,
    count: usize,
) {
    let mut keys = [[t.zeros(); N]; W];
    for w in 0..W {
        for i in 0..N {
            let mut from = [std::ptr::null(); 4];
            for lane in 0..4 {
                from[lane] = chains.keys[4 * w + lane].data[i].as_ptr();
            }
            // SAFETY: each is a key of sixteen bytes.
            keys[w][i] = unsafe { t.gather(from) };
        }
    }
    advance::<T, _, N, W>(t, Own(&keys), chains, count);
}

/// Takes `W` times four chains forward together.
#[inline(always)]
fn advance<T: Blocks, K: Copy, const N: usize, const W: usize>(
    t: T,
    keys: impl LaneKeys<T, W>,
    chains: &mut Chains<'_, K>,
    count: usize,
) {
    const { assert!(4 * W <= LANES_MAX) };
    let bytes = count * BLOCK;
    let (from, to) = chains.addresses(bytes);
    let mut states = [t.zeros(); W];
    for w in 0..W {
        states[w] = t.load_some(chains.states[4 * w..][..4].as_flattened());
    }
    for at in (0..bytes).step_by(BLOCK) {
        for w in 0..W {
            let mut places = [std::ptr::null(); 4];
            for lane in 0..4 {
                places[lane] = from[4 * w + lane].wrapping_add(at);
            }
            // SAFETY: each lane reads `bytes` bytes, and `at + BLOCK` are no more.
            states[w] = t.xor4(states[w], unsafe { t.gather(places) });
        }
        states = keys.encrypt(t, states);
        for w in 0..W {
            let mut places = [std::ptr::null_mut(); 4];
            for lane in 0..4 {
                places[lane] = to[4 * w + lane].wrapping_add(at);
            }
            // SAFETY: each lane writes `bytes` bytes, and `at + BLOCK` are no more.
            unsafe { t.scatter(places, states[w]) };
        }
    }
    for w in 0..W {
        t.store_some(chains.states[4 * w..][..4].as_flattened_mut(), states[w]);
    }
}
