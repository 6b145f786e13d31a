//! Registers with blocks of AES in them, and what the modes do with them: written once for registers of one, two and four blocks.
#![allow(unsafe_code)]

use std::ops::IndexMut;

/// The registers of an instruction set, by the token that proves it is there. Kernels work on four blocks at a time, which lie in
/// as many registers as they need.
pub(super) trait Blocks: Copy + Send + Sync + 'static {
    /// A register.
    type Reg: Copy;
    /// The registers of four blocks.
    type Four: Copy + IndexMut<usize, Output = Self::Reg>;
    /// The instruction set's registers of a single block.
    type One: Blocks<One = Self::One>;
    /// Round keys as they are fastest read: where they lie, or in registers.
    type Own<'k, const N: usize>: Rounds<Self, N>;
    /// Registers of four blocks.
    const REGS: usize;
    /// Bytes of a register.
    const BYTES: usize = 64 / Self::REGS;
    /// Items that are encrypted side by side in CBC: as many as leave registers for the keys.
    const LANES: usize;
    /// True if CBC's decryption loads the ciphertext a second time to add it, rather than keep it. Where registers are few, what is kept
    /// goes through memory; in registers of two blocks, each block must move to the place behind it, which costs more than a load.
    const READS_AGAIN: bool;

    /// Runs `task` in a function for which the compiler may use the instruction set.
    fn enter<K: Task<Self>>(self, task: K) -> K::Out;
    fn one(self) -> Self::One;
    /// Round keys, as [`Blocks::Own`] has them.
    fn own<const N: usize>(self, keys: &[[u8; 16]; N]) -> Self::Own<'_, N>;
    /// The lowest block.
    fn low(self, reg: Self::Reg) -> Block<Self>;
    /// A block, and zeros above it.
    fn widen(self, block: Block<Self>) -> Self::Reg;
    /// A block in each place.
    fn broadcast(self, block: Block<Self>) -> Self::Reg;
    /// The sum of the blocks.
    fn across(self, reg: Self::Reg) -> Block<Self>;
    fn zeros(self) -> Self::Four;
    /// Two words in each block, the lower first.
    fn set_words(self, words: [u64; 2]) -> Self::Reg;
    /// The words of the lowest block.
    fn words(self, reg: Self::Reg) -> [u64; 2];
    /// The first bytes, as many as a register has.
    fn load_reg(self, bytes: &[u8]) -> Self::Reg;
    fn store_reg(self, to: &mut [u8], reg: Self::Reg);
    /// Fewer bytes than a register has, and zeros behind them.
    fn load_part(self, bytes: &[u8]) -> Self::Reg;
    fn store_part(self, to: &mut [u8], reg: Self::Reg);

    /// What comes before the first round.
    fn start(self, block: Self::Reg, key: Self::Reg) -> Self::Reg;
    /// A round, with its key behind that of the round before: an instruction set adds one or the other.
    fn round(self, block: Self::Reg, keys: [Self::Reg; 2]) -> Self::Reg;
    /// The last round.
    fn last(self, block: Self::Reg, keys: [Self::Reg; 2]) -> Self::Reg;
    /// A round of decryption.
    fn inverse_round(self, block: Self::Reg, keys: [Self::Reg; 2]) -> Self::Reg;
    /// The last one of decryption.
    fn inverse_last(self, block: Self::Reg, keys: [Self::Reg; 2]) -> Self::Reg;
    /// The key of a round made ready for the equivalent inverse cipher (FIPS 197, 5.3.5); the lowest block alone.
    fn inverse_key(self, key: Block<Self>) -> Block<Self>;
    /// SUBWORD.
    fn substitute(self, word: u32) -> u32;

    fn xor(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    fn and(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// The sum of three, bit by bit.
    #[inline(always)]
    fn xor3(self, a: Self::Reg, b: Self::Reg, c: Self::Reg) -> Self::Reg {
        self.xor(self.xor(a, b), c)
    }
    /// Words of 32 bits added.
    fn add32(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Words of 64 bits added.
    fn add64(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Carry-less products of 64 bits: of the lower words.
    fn low_product(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Carry-less products of the upper words.
    fn high_product(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// Carry-less products of `a`'s upper words and `b`'s lower ones.
    fn cross_product(self, a: Self::Reg, b: Self::Reg) -> Self::Reg;
    /// The bytes of each block turned around.
    fn swap(self, reg: Self::Reg) -> Self::Reg;
    /// The words of each block exchanged.
    fn swap_words(self, reg: Self::Reg) -> Self::Reg;
    /// Each word moved left by `bits`.
    fn left(self, reg: Self::Reg, bits: u32) -> Self::Reg;
    /// Each word moved right by `bits`.
    fn right(self, reg: Self::Reg, bits: u32) -> Self::Reg;
    /// Each block moved up by `BYTES` bytes.
    fn up<const BYTES: i32>(self, reg: Self::Reg) -> Self::Reg;
    /// Each block moved down.
    fn down<const BYTES: i32>(self, reg: Self::Reg) -> Self::Reg;
    /// Each block times α to the power of `bits`, below 57, in XTS's field (IEEE 1619, 5.2).
    #[inline(always)]
    fn times_alpha_to(self, reg: Self::Reg, bits: u32) -> Self::Reg {
        let out = self.right(reg, 64 - bits);
        // What leaves the lower word enters the upper one; what leaves that comes back times α^7 + α^2 + α + 1.
        let back = self.cross_product(out, self.set_words([0x87; 2]));
        self.xor3(self.left(reg, bits), self.up::<8>(out), back)
    }
    /// Each block times α.
    #[inline(always)]
    fn times_alpha(self, reg: Self::Reg) -> Self::Reg {
        self.times_alpha_to(reg, 1)
    }
    /// A register's blocks, each times α to the power of its number.
    fn times_alphas(self, reg: Self::Reg) -> Self::Reg;
    /// The blocks behind `before`'s last one, `four`'s last one left out.
    fn behind(self, before: Self::Four, four: Self::Four) -> Self::Four;
    /// Keeps the compiler from moving what is computed of a register across this place.
    fn pin(self, reg: &mut Self::Reg);

    /// Four blocks from four places.
    ///
    /// # Safety
    /// Each has sixteen bytes to read.
    unsafe fn gather(self, from: [*const u8; 4]) -> Self::Four;
    /// Four blocks to four places.
    ///
    /// # Safety
    /// Each has sixteen bytes to write.
    unsafe fn scatter(self, to: [*mut u8; 4], four: Self::Four);

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> Self::Four {
        let mut four = self.zeros();
        for r in 0..Self::REGS {
            four[r] = self.load_reg(&bytes[r * Self::BYTES..]);
        }
        four
    }

    #[inline(always)]
    fn store(self, to: &mut [u8; 64], four: Self::Four) {
        for r in 0..Self::REGS {
            self.store_reg(&mut to[r * Self::BYTES..], four[r]);
        }
    }

    /// Up to 64 bytes, and zeros behind them.
    #[inline(always)]
    fn load_some(self, bytes: &[u8]) -> Self::Four {
        if let Ok(all) = bytes.try_into() {
            return self.load(all);
        }
        let whole = bytes.len() / Self::BYTES;
        let part = self.load_part(&bytes[whole * Self::BYTES..]);
        let mut four = self.zeros();
        for r in 0..Self::REGS {
            if r < whole {
                four[r] = self.load_reg(&bytes[r * Self::BYTES..]);
            } else if r == whole {
                four[r] = part;
            }
        }
        four
    }

    /// Stores as many bytes as `to` has, up to 64.
    #[inline(always)]
    fn store_some(self, to: &mut [u8], four: Self::Four) {
        if let Ok(all) = to.try_into() {
            return self.store(all, four);
        }
        let whole = to.len() / Self::BYTES;
        let mut part = four[0];
        for r in 0..Self::REGS {
            if r < whole {
                self.store_reg(&mut to[r * Self::BYTES..], four[r]);
            } else if r == whole {
                part = four[r];
            }
        }
        self.store_part(&mut to[whole * Self::BYTES..], part);
    }

    /// The first `bytes` bytes, and zeros behind them.
    #[inline(always)]
    fn first(self, four: Self::Four, bytes: usize) -> Self::Four {
        const KEEP: [u8; 128] = {
            let mut keep = [0; 128];
            let (ones, _) = keep.split_at_mut(64);
            let mut i = 0;
            while i < 64 {
                ones[i] = 0xff;
                i += 1;
            }
            keep
        };
        let mut kept = four;
        for r in 0..Self::REGS {
            let keep = self.load_reg(&KEEP[64 - bytes.min(64)..][r * Self::BYTES..]);
            kept[r] = self.and(four[r], keep);
        }
        kept
    }

    #[inline(always)]
    fn load_block(self, block: &[u8; 16]) -> Block<Self> {
        self.one().load_reg(block)
    }

    #[inline(always)]
    fn store_block(self, to: &mut [u8; 16], block: Block<Self>) {
        self.one().store_reg(to, block);
    }

    #[inline(always)]
    fn xor4(self, mut a: Self::Four, b: Self::Four) -> Self::Four {
        for r in 0..Self::REGS {
            a[r] = self.xor(a[r], b[r]);
        }
        a
    }

    /// A register in each place.
    #[inline(always)]
    fn repeat(self, reg: Self::Reg) -> Self::Four {
        let mut four = self.zeros();
        for r in 0..Self::REGS {
            four[r] = reg;
        }
        four
    }
}

/// The keys of rounds: one for each, and one before the first. 11 with keys of 128 bits, 15 with 256.
pub(super) trait Rounds<T: Blocks, const N: usize> {
    /// The key of round `i` in every block of a register.
    fn at(&self, t: T, i: usize) -> T::Reg;
}

impl<T: Blocks, const N: usize> Rounds<T, N> for [T::Reg; N] {
    #[inline(always)]
    fn at(&self, _t: T, i: usize) -> T::Reg {
        self[i]
    }
}

/// Keys that are read where they lie: a load fills a register of one block or of two, and where there are sixteen registers, copies of all keys would lie in memory too.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Stored<'k, const N: usize>(pub(super) &'k [[u8; 16]; N]);

#[cfg(target_arch = "x86_64")]
impl<T: Blocks, const N: usize> Rounds<T, N> for Stored<'_, N> {
    #[inline(always)]
    fn at(&self, t: T, i: usize) -> T::Reg {
        t.broadcast(t.load_block(&self.0[i]))
    }
}

/// A block in a register of its own.
pub(super) type Block<T> = <<T as Blocks>::One as Blocks>::Reg;

/// What is run in [`Blocks::enter`].
pub(super) trait Task<T: Blocks> {
    type Out;
    /// With `W` times four blocks on their way at once, and `L` where products are between the rounds. Always inlined.
    fn run<const W: usize, const L: usize>(self, t: T) -> Self::Out;
}

/// Writes fewer than sixteen bytes of a block.
#[inline(always)]
pub(super) fn write_part(to: &mut [u8], [low, high]: [u64; 2]) {
    let n = to.len();
    if n >= 8 {
        let all = u128::from(low) | u128::from(high) << 64;
        let tail = (all >> (8 * (n - 8))) as u64;
        to[..8].copy_from_slice(&low.to_le_bytes());
        to[n - 8..].copy_from_slice(&tail.to_le_bytes());
    } else if n >= 4 {
        let tail = (low >> (8 * (n - 4))) as u32;
        to[..4].copy_from_slice(&(low as u32).to_le_bytes());
        to[n - 4..].copy_from_slice(&tail.to_le_bytes());
    } else if n > 0 {
        for i in [0, n / 2, n - 1] {
            to[i] = (low >> (8 * i)) as u8;
        }
    }
}
