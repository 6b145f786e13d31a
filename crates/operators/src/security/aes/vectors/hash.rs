//! GHASH as POLYVAL (RFC 8452, appendix A): the bytes of blocks are turned around, the hash key is multiplied by x, and a product
//! is reduced as Montgomery does. Sums of up to 96 products are reduced once.

use dpb_core::prefetch::prefetch;
use zeroize::Zeroize;

use super::blocks::{Block, Blocks};
use super::keys::Extra;
use super::rounds::{broadcast, encrypt_one};
use crate::security::aes::form::BLOCK;

/// Products in a sum: those of a packet of 1,500 bytes.
pub(super) const SUMMANDS: usize = 96;

/// The powers of the hash key, highest first, and zeros that are read with the last ones.
#[repr(align(64))]
pub(super) struct Powers {
    whole: [[u8; BLOCK]; SUMMANDS + 3],
    /// The sum of each one's words.
    folded: [[u8; BLOCK]; SUMMANDS + 3],
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.whole.zeroize();
        self.folded.zeroize();
    }
}

impl Extra for Powers {
    const NONE: Self = Self {
        whole: [[0; BLOCK]; SUMMANDS + 3],
        folded: [[0; BLOCK]; SUMMANDS + 3],
    };

    #[inline(always)]
    fn make<T: Blocks, const N: usize>(&mut self, t: T, data: &[[u8; 16]; N], _second: &[u8]) {
        powers(t, data, self);
    }

    /// The last ones.
    #[inline(always)]
    fn prefetch<const N: usize>(&self) {
        for i in [SUMMANDS - 5, SUMMANDS - 1] {
            prefetch(&self.whole[i], 0);
            prefetch(&self.folded[i], 0);
        }
    }
}

/// The powers of `W` times four blocks.
#[derive(Clone, Copy)]
pub(super) struct Next<'a, const W: usize> {
    whole: &'a [[u8; 64]; W],
    folded: &'a [[u8; 64]; W],
}

/// Makes the powers of the hash key, which the encrypted block of zeros is, in the place of zeros.
#[inline(always)]
fn powers<T: Blocks, const N: usize>(t: T, keys: &[[u8; 16]; N], powers: &mut Powers) {
    let one = t.one();
    let zeros = one.set_words([0; 2]);
    let zeros = encrypt_one(one, &broadcast(one, keys), zeros);
    let [low, high] = one.words(one.swap(zeros));
    let key = u128::from(low) | u128::from(high) << 64;
    // Times x; x^128 is x^127 + x^126 + x^121 + 1.
    let key = key << 1 ^ (key >> 127).wrapping_neg() & (0xc2 << 120 | 1);
    let key = one.set_words([key as u64, (key >> 64) as u64]);
    let mut power = key;
    let folded_key = fold(one, key);
    for i in (0..SUMMANDS).rev() {
        one.store_block(&mut powers.whole[i], power);
        one.store_block(&mut powers.folded[i], fold(one, power));
        let mut next = Sum::zero(one);
        next.add(one, power, [key, folded_key]);
        power = next.reduced(one);
    }
}

/// A hash on its way.
#[derive(Clone, Copy)]
pub(super) struct Hash<'a, T: Blocks> {
    powers: &'a Powers,
    /// The hash of the blocks before the current sum, in the lowest block.
    before: T::Reg,
    sum: Sum<T>,
    /// The number of blocks that the current sum still takes.
    left: usize,
}

impl<'a, T: Blocks> Hash<'a, T> {
    #[inline(always)]
    pub(super) fn new(t: T, powers: &'a Powers) -> Self {
        Self {
            powers,
            before: t.zeros()[0],
            sum: Sum::zero(t),
            left: 0,
        }
    }

    /// Begins a sum of `blocks` blocks, of at most [`SUMMANDS`] of them.
    #[inline(always)]
    pub(super) fn begin(&mut self, t: T, blocks: usize) {
        self.sum = Sum::zero(t);
        self.left = blocks.min(SUMMANDS);
    }

    #[inline(always)]
    pub(super) fn begin_if_none(&mut self, t: T, blocks: usize) {
        if self.left == 0 {
            self.begin(t, blocks);
        }
    }

    /// Takes `blocks` blocks in, four at most; zeros are behind them.
    #[inline(always)]
    pub(super) fn add(&mut self, t: T, four: T::Four, blocks: usize) {
        let powers = self.next_powers::<1>();
        for r in 0..T::REGS {
            self.multiply(t, r, four[r], powers);
        }
        self.end(t, blocks);
    }

    /// Takes the block of lengths in, whose bytes are turned around already.
    #[inline(always)]
    pub(super) fn last(mut self, t: T, lengths: [u64; 2]) -> Block<T> {
        let one = t.one();
        self.begin_if_none(t, 1);
        let block = t.xor(t.widen(one.set_words(lengths)), self.before);
        let (whole, folded) = (&self.powers.whole, &self.powers.folded);
        let power = [&whole[SUMMANDS - 1], &folded[SUMMANDS - 1]];
        let power = [t.load_block(power[0]), t.load_block(power[1])];
        self.sum
            .add(t, block, [t.widen(power[0]), t.widen(power[1])]);
        self.sum.reduced(t)
    }

    /// The powers of the next blocks.
    #[inline(always)]
    pub(super) fn next_powers<const W: usize>(&self) -> Next<'a, W> {
        let at = SUMMANDS - self.left;
        Next {
            whole: fours(&self.powers.whole[at..]),
            folded: fours(&self.powers.folded[at..]),
        }
    }

    /// Adds register number `register` of a group, times its powers.
    #[inline(always)]
    pub(super) fn add_register<const W: usize>(
        &mut self,
        t: T,
        register: usize,
        blocks: T::Reg,
        powers: Next<'_, W>,
    ) {
        self.multiply(t, register, blocks, powers);
        // Sums of several products would stay in registers, and blocks of the encryption be driven out of theirs.
        if T::REGS > 1 {
            t.pin(&mut self.sum.low);
            t.pin(&mut self.sum.middle);
            t.pin(&mut self.sum.high);
        }
    }

    #[inline(always)]
    fn multiply<const W: usize>(
        &mut self,
        t: T,
        register: usize,
        blocks: T::Reg,
        powers: Next<'_, W>,
    ) {
        let mut blocks = t.swap(blocks);
        if register == 0 {
            blocks = t.xor(blocks, self.before);
            self.before = t.zeros()[0];
        }
        let at = register * T::BYTES;
        let [whole, folded] = [powers.whole, powers.folded].map(|of| &of.as_flattened()[at..]);
        self.sum
            .add(t, blocks, [t.load_reg(whole), t.load_reg(folded)]);
    }

    /// `blocks` blocks are in.
    #[inline(always)]
    pub(super) fn end(&mut self, t: T, blocks: usize) {
        self.left -= blocks;
        if self.left == 0 {
            self.before = t.widen(self.sum.reduced(t));
        }
    }
}

/// The first of `blocks`, four in each.
#[inline(always)]
fn fours<const W: usize>(blocks: &[[u8; BLOCK]]) -> &[[u8; 64]; W] {
    let (fours, _) = blocks.as_flattened().as_chunks();
    fours.first_chunk().expect("the zeros are behind them")
}

/// The sum of the words of each block, in both.
#[inline(always)]
fn fold<T: Blocks>(t: T, reg: T::Reg) -> T::Reg {
    t.xor(reg, t.swap_words(reg))
}

/// The sums of products of 256 bits of each place: those of the lower words, of the upper, and in the middle, as Karatsuba has them, of the sums of
/// words.
///
/// In registers of four blocks the middle has the products of the one's lower words and the other's upper ones. A CPU of Intel's has one port for
/// products and shuffles of so wide registers, where Karatsuba's product less is a shuffle more; and half of the powers need not be read.
#[derive(Clone, Copy)]
struct Sum<T: Blocks> {
    low: T::Reg,
    middle: T::Reg,
    high: T::Reg,
}

impl<T: Blocks> Sum<T> {
    #[inline(always)]
    fn zero(t: T) -> Self {
        let [low, middle, high] = [t.zeros()[0]; 3];
        Self { low, middle, high }
    }

    /// Adds `a` times `b`, which is followed by the sum of its words.
    #[inline(always)]
    fn add(&mut self, t: T, a: T::Reg, [b, folded]: [T::Reg; 2]) {
        self.low = t.xor(self.low, t.low_product(a, b));
        self.high = t.xor(self.high, t.high_product(a, b));
        if T::REGS == 1 {
            let [one, other] = [t.cross_product(a, b), t.cross_product(b, a)];
            self.middle = t.xor3(self.middle, one, other);
            return;
        }
        // Three products instead of four: CPUs start one in two cycles.
        self.middle = t.xor(self.middle, t.low_product(fold(t, a), folded));
    }

    /// The sum of all places, divided by x^128.
    #[inline(always)]
    fn reduced(self, t: T) -> Block<T> {
        let one = t.one();
        let middle = match T::REGS {
            1 => self.middle,
            _ => t.xor3(self.middle, self.low, self.high),
        };
        let low = t.xor(self.low, t.up::<8>(middle));
        let high = t.xor(self.high, t.down::<8>(middle));
        let mut low = t.across(low);
        let prime = one.set_words([0xc2 << 56, 0]);
        for _ in 0..2 {
            low = one.xor(one.swap_words(low), one.low_product(low, prime));
        }
        one.xor(low, t.across(high))
    }
}
