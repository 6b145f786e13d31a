//! GHASH as POLYVAL (RFC 8452, appendix A): the bytes of blocks are turned around, the hash key is multiplied by x, and a product
//! is reduced as Montgomery does. Sums of up to 64 products are reduced once.

use zeroize::{Zeroize, Zeroizing};

use super::blocks::{Block, Blocks, Task};
use super::rounds::{RoundKeys, broadcast, encrypt_one};
use crate::security::aes::form::BLOCK;

/// Products in a sum.
pub(super) const SUMMANDS: usize = 64;

/// The powers of the hash key, highest first, and zeros that are read with the last ones.
#[repr(align(64))]
pub(super) struct Powers([[u8; BLOCK]; SUMMANDS + 3]);

/// Of no key.
pub(super) const NONE: Powers = Powers([[0; BLOCK]; SUMMANDS + 3]);

impl Zeroize for Powers {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

/// Computes the powers of the hash key, which the encrypted block of zeros is.
pub(super) struct Power<'k, const N: usize>(pub(super) &'k RoundKeys<N>);

impl<T: Blocks, const N: usize> Task<T> for Power<'_, N> {
    type Out = Zeroizing<Powers>;

    #[inline(always)]
    fn run<const W: usize>(self, t: T) -> Zeroizing<Powers> {
        let one = t.one();
        let zeros = one.from_words([0; 2]);
        let zeros = encrypt_one(one, &broadcast(one, self.0), zeros);
        let [low, high] = one.words(one.swap(zeros));
        let key = u128::from(low) | u128::from(high) << 64;
        // Times x; x^128 is x^127 + x^126 + x^121 + 1.
        let key = key << 1 ^ (key >> 127).wrapping_neg() & (0xc2 << 120 | 1);
        let key = one.from_words([key as u64, (key >> 64) as u64]);
        let mut powers = Zeroizing::new(NONE);
        let mut power = key;
        for to in powers.0[..SUMMANDS].iter_mut().rev() {
            one.store_block(to, power);
            let mut next = Sum::zero(one);
            next.add(one, power, key);
            power = next.reduced(one);
        }
        powers
    }
}

/// A hash on its way.
#[derive(Clone, Copy)]
pub(super) struct Hash<'a, T: Blocks> {
    powers: &'a Powers,
    /// Of the blocks before the current sum, in the lowest block.
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

    /// Begins a sum of `blocks` blocks, at most [`SUMMANDS`].
    #[inline(always)]
    pub(super) fn begin(&mut self, t: T, blocks: usize) {
        self.sum = Sum::zero(t);
        self.left = blocks;
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
        let powers = self.next_powers(4);
        let powers = powers.as_flattened().try_into().expect("64 bytes");
        self.add_product(t, four, powers);
        self.end(t, blocks);
    }

    /// Takes the block of lengths in, whose bytes are turned around already.
    #[inline(always)]
    pub(super) fn last(mut self, t: T, lengths: [u64; 2]) -> Block<T> {
        let one = t.one();
        self.begin_if_none(t, 1);
        let power = t.load_block(&self.powers.0[SUMMANDS - 1]);
        let block = t.xor(t.widen(one.from_words(lengths)), self.before);
        self.sum.add(t, block, t.widen(power));
        self.sum.reduced(t)
    }

    /// The next powers, `count` at least.
    #[inline(always)]
    pub(super) fn next_powers(&self, count: usize) -> &'a [[u8; BLOCK]] {
        &self.powers.0[SUMMANDS - self.left..][..count]
    }

    /// Adds four blocks, times their powers.
    #[inline(always)]
    pub(super) fn add_product(&mut self, t: T, four: T::Four, powers: &[u8; 64]) {
        for r in 0..T::REGS {
            let mut blocks = t.swap(four[r]);
            if r == 0 {
                blocks = t.xor(blocks, self.before);
                self.before = t.zeros()[0];
            }
            let powers = t.load_reg(&powers[r * T::BYTES..]);
            self.sum.add(t, blocks, powers);
        }
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

/// The sums of products of 256 bits of each place: those of the lower halves, of the upper, and of one with the other.
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

    #[inline(always)]
    fn add(&mut self, t: T, a: T::Reg, b: T::Reg) {
        self.low = t.xor(self.low, t.low_product(a, b));
        self.high = t.xor(self.high, t.high_product(a, b));
        self.middle = t.xor3(self.middle, t.cross_product(a, b), t.cross_product(b, a));
    }

    /// The sum of all places, divided by x^128.
    #[inline(always)]
    fn reduced(self, t: T) -> Block<T> {
        let one = t.one();
        let low = t.xor(self.low, t.up::<8>(self.middle));
        let high = t.xor(self.high, t.down::<8>(self.middle));
        let mut low = t.across(low);
        let prime = one.from_words([0xc2 << 56, 0]);
        for _ in 0..2 {
            low = one.xor(one.swap_words(low), one.low_product(low, prime));
        }
        one.xor(low, t.across(high))
    }
}
