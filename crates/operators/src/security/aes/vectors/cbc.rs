//! Cipher block chaining: a group of blocks of one item to decrypt, blocks of many items to encrypt.
#![allow(unsafe_code)]

use dpb_core::Direction;

use super::blocks::{Blocks, Rounds, Task};
use super::keys::{AHEAD, Items, Keys, Source, each_item};
use super::lanes::{Addresses, Chains, LANES_MAX};
use super::rounds::{OwnRounds, decrypt, each_part, encrypt, encrypt_each};
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
    S: Source<'k, (), N>,
{
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let common = self.source.common().unwrap_or(const { &Keys::NONE });
        let mut keys = S::ready(t, common.data());
        let form = self.form.known(Mode::Cbc, Direction::Decrypt);
        let items = Items::alike(form, self.source, self.work, AHEAD);
        each_item!(items, (own, parts, _) => {
            if S::EACH {
                keys = S::ready(t, own.data());
            }
            let iv = t.load_block(parts.iv.try_into().expect("sixteen bytes"));
            let mut before = t.repeat(t.broadcast(iv));
            let (whole, mut rest) = groups::<W, 64>(parts.text);
            for mut text in whole {
                let mut blocks = [before; W];
                let mut added = [before; W];
                for i in 0..W {
                    blocks[i] = t.load(&text.get_in()[i]);
                    added[i] = t.behind(before, blocks[i]);
                    before = blocks[i];
                }
                let mut blocks = decrypt(t, &keys, blocks);
                if T::READS_AGAIN {
                    // All before the first store, which may be to where they lie.
                    let read = text.get_in().as_flattened();
                    for i in 0..W {
                        for r in 0..T::REGS {
                            let at = 64 * i + T::BYTES * r;
                            added[i][r] = match at {
                                0 => added[0][0],
                                _ => t.load_reg(&read[at - BLOCK..]),
                            };
                        }
                    }
                    before = t.load(&text.get_in()[W - 1]);
                }
                for i in 0..W {
                    blocks[i] = t.xor4(blocks[i], added[i]);
                }
                for i in 0..W {
                    t.store(&mut text.get_out()[i], blocks[i]);
                }
            }
            if rest.len() > 64 {
                let mut blocks = [before; W];
                let mut added = [before; W];
                each_part!(W, rest.reborrow(), (i, text) {
                    blocks[i] = t.load_some(text.get_in());
                    added[i] = t.behind(before, blocks[i]);
                    before = blocks[i];
                });
                let blocks = decrypt(t, &keys, blocks);
                each_part!(W, rest, (i, text) {
                    t.store_some(text.get_out(), t.xor4(blocks[i], added[i]));
                });
                continue;
            }
            for mut text in chunks(rest, 64) {
                let blocks = t.load_some(text.get_in());
                let added = t.behind(before, blocks);
                before = blocks;
                let [blocks] = decrypt(t, &keys, [blocks]);
                t.store_some(text.get_out(), t.xor4(blocks, added));
            }
        });
    }
}

/// Encrypts all items side by side.
pub(super) struct Encrypt<'a, P, S, const N: usize> {
    pub(super) source: S,
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, 'k, T, P, S, const N: usize> Task<T> for Encrypt<'a, P, S, N>
where
    T: Blocks,
    P: Places<'a>,
    S: Source<'k, (), N>,
{
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let form = self.form.known(Mode::Cbc, Direction::Encrypt);
        // Lanes ask for as many items before any of them is begun.
        match Items::alike(form, self.source, self.work, T::LANES) {
            Ok(items) => encrypt_all::<T, _, S, N>(t, self.source, items),
            Err(items) => encrypt_all::<T, _, S, N>(t, self.source, items),
        }
    }
}

/// Encrypts items side by side.
// The items are no part of the lanes, which lie in memory because code picks one by its number: the compiler would not know the form of items that
// lie there.
#[inline(always)]
fn encrypt_all<'a, 'k, T, P, S, const N: usize>(t: T, source: S, mut items: Items<'a, P, S>)
where
    T: Blocks,
    P: Places<'a>,
    S: Source<'k, (), N>,
{
    let common = source.common().unwrap_or(const { &Keys::NONE });
    let keys = S::ready(t, common.data());
    let mut chains = Chains::new(common);
    while let Some(count) = chains.fill(&mut items, T::LANES) {
        match chains.in_step() {
            4 => advance_all::<T, S, N, 1>(t, &keys, &mut chains, count),
            16 if T::LANES > 8 => advance_all::<T, S, N, 4>(t, &keys, &mut chains, count),
            _ => advance_all::<T, S, N, 2>(t, &keys, &mut chains, count),
        }
        chains.leave_behind(count * BLOCK);
    }
}

/// The keys of `W` times four chains.
trait LaneKeys<T: Blocks, const W: usize> {
    fn encrypt(&self, t: T, blocks: [T::Four; W]) -> [T::Four; W];
}

/// One key for all.
struct CommonKey<'a, K, const N: usize>(&'a K);

impl<T, K, const N: usize, const W: usize> LaneKeys<T, W> for CommonKey<'_, K, N>
where
    T: Blocks,
    K: Rounds<T, N>,
{
    #[inline(always)]
    fn encrypt(&self, t: T, blocks: [T::Four; W]) -> [T::Four; W] {
        encrypt::<T, N, W>(t, self.0, blocks)
    }
}

/// From so many blocks on, registers of one block have their keys gathered too. That copies all keys of all lanes; then a round's keys lie side by side,
/// and code needs no pointer for each lane, of which there are more than the CPU has registers. Measured on Zen 3, and not on Arm.
const GATHERED_FROM: usize = 8;

/// A key for each: those of a register's blocks together.
struct GatheredKeys<F, const N: usize, const W: usize>([[F; N]; W]);

impl<T: Blocks, const N: usize, const W: usize> OwnRounds<T, N, W> for GatheredKeys<T::Four, N, W> {
    #[inline(always)]
    fn at(&self, _t: T, w: usize, r: usize, i: usize) -> T::Reg {
        self.0[w][i][r]
    }
}

impl<T: Blocks, const N: usize, const W: usize> LaneKeys<T, W> for GatheredKeys<T::Four, N, W> {
    #[inline(always)]
    fn encrypt(&self, t: T, blocks: [T::Four; W]) -> [T::Four; W] {
        encrypt_each::<T, N, W>(t, self, blocks)
    }
}

/// A key for each, read where it lies, for a few blocks in registers of one block.
struct StoredKeys<'k, const N: usize>([&'k [[u8; BLOCK]; N]; LANES_MAX]);

impl<T: Blocks, const N: usize, const W: usize> OwnRounds<T, N, W> for StoredKeys<'_, N> {
    #[inline(always)]
    fn at(&self, t: T, w: usize, r: usize, i: usize) -> T::Reg {
        t.broadcast(t.load_block(&self.0[4 * w + r][i]))
    }
}

impl<T: Blocks, const N: usize, const W: usize> LaneKeys<T, W> for StoredKeys<'_, N> {
    #[inline(always)]
    fn encrypt(&self, t: T, blocks: [T::Four; W]) -> [T::Four; W] {
        encrypt_each::<T, N, W>(t, self, blocks)
    }
}

/// Takes `W` times four chains forward together, with `keys` or each with its own.
#[inline(always)]
fn advance_all<'k, T, S, const N: usize, const W: usize>(
    t: T,
    keys: &S::Rounds<T>,
    chains: &mut Chains<'_, 'k, ()>,
    count: usize,
) where
    T: Blocks,
    S: Source<'k, (), N>,
{
    if !S::EACH {
        return advance::<T, W>(t, &CommonKey::<_, N>(keys), chains, count);
    }
    let mut own = [chains.keys[0].data::<N>(); LANES_MAX];
    for lane in 0..4 * W {
        own[lane] = chains.keys[lane].data();
    }
    if T::REGS == 4 && count < GATHERED_FROM {
        return advance::<T, W>(t, &StoredKeys(own), chains, count);
    }
    let mut gathered = GatheredKeys([[t.zeros(); N]; W]);
    for w in 0..W {
        for i in 0..N {
            let mut from = [std::ptr::null(); 4];
            for lane in 0..4 {
                from[lane] = own[4 * w + lane][i].as_ptr();
            }
            // SAFETY: each is a key of sixteen bytes.
            gathered.0[w][i] = unsafe { t.gather(from) };
        }
    }
    advance::<T, W>(t, &gathered, chains, count);
}

/// Takes `W` times four chains forward together.
#[inline(always)]
fn advance<T: Blocks, const W: usize>(
    t: T,
    keys: &impl LaneKeys<T, W>,
    chains: &mut Chains<'_, '_, ()>,
    count: usize,
) {
    const { assert!(4 * W <= LANES_MAX) };
    let bytes = count * BLOCK;
    let Addresses { from, to } = chains.addresses::<W>(bytes);
    let mut states = [t.zeros(); W];
    for w in 0..W {
        states[w] = t.load_some(chains.states[4 * w..][..4].as_flattened());
    }
    for at in (0..bytes).step_by(BLOCK) {
        for w in 0..W {
            let mut places = [std::ptr::null(); 4];
            for lane in 0..4 {
                places[lane] = from[w][lane].wrapping_add(at);
            }
            // SAFETY: each lane reads `bytes` bytes, and `at + BLOCK` are no more.
            states[w] = t.xor4(states[w], unsafe { t.gather(places) });
        }
        states = keys.encrypt(t, states);
        for w in 0..W {
            let mut places = [std::ptr::null_mut(); 4];
            for lane in 0..4 {
                places[lane] = to[w][lane].wrapping_add(at);
            }
            // SAFETY: each lane writes `bytes` bytes, and `at + BLOCK` are no more.
            unsafe { t.scatter(places, states[w]) };
        }
    }
    for w in 0..W {
        t.store_some(chains.states[4 * w..][..4].as_flattened_mut(), states[w]);
    }
}
