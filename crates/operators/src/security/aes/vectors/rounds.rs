//! The rounds of AES on blocks that are on their way together, and the keys of the rounds.

use dpb_core::Direction;
use zeroize::Zeroizing;

use super::blocks::{Block, Blocks, Task};
use crate::security::aes::form::{Form, Mode};

/// A key for each round, and one before the first: 11 with keys of 128 bits, 15 with 256. Overwritten when dropped.
pub(super) type RoundKeys<const N: usize> = Zeroizing<[[u8; 16]; N]>;

/// The keys that a mode encrypts or decrypts with.
pub(super) struct Keys<const N: usize> {
    /// Of the direction in which the mode uses the block cipher.
    pub(super) data: RoundKeys<N>,
    /// The keys that encrypt the tweak of XTS; else zeros.
    pub(super) tweak: RoundKeys<N>,
}

/// Makes the keys that a form needs out of a key that has a length that there is.
pub(super) struct Expansion<'a, const N: usize> {
    pub(super) form: Form,
    pub(super) key: &'a [u8],
}

impl<T: Blocks, const N: usize> Task<T> for Expansion<'_, N> {
    type Out = Keys<N>;

    #[inline(always)]
    fn run<const W: usize>(self, t: T) -> Keys<N> {
        let (key, tweak) = self.key.split_at(self.key.len() / self.form.keys());
        let mut data = expand(t, key);
        if let (Mode::Cbc | Mode::Xts, Direction::Decrypt) = (self.form.mode, self.form.direction) {
            data.reverse();
            for key in &mut data[1..N - 1] {
                let inverse = t.inverse_key(t.load_block(key));
                t.store_block(key, inverse);
            }
        }
        Keys {
            data,
            tweak: match self.form.mode {
                Mode::Xts => expand(t, tweak),
                Mode::Gcm | Mode::Ctr | Mode::Cbc => RoundKeys::from([[0; 16]; N]),
            },
        }
    }
}

/// Key expansion (FIPS 197, 5.2) of a key of 128 or 256 bits, as `N` says. SUBWORD takes the same time for every word: a table in
/// memory would give the key away to who shares the cache.
#[inline(always)]
fn expand<T: Blocks, const N: usize>(t: T, key: &[u8]) -> RoundKeys<N> {
    let mut keys = RoundKeys::from([[0; 16]; N]);
    let key_words = key.len() / 4;
    let (words, _) = keys.as_flattened_mut().as_chunks_mut::<4>();
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = *bytes;
    }
    let mut constant = 1u32;
    for i in key_words..words.len() {
        // The first byte of a word is its lowest here, so ROTWORD turns right.
        let mut word = u32::from_le_bytes(words[i - 1]);
        if i % key_words == 0 {
            word = t.substitute(word.rotate_right(8)) ^ constant;
            constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
        } else if key_words == 8 && i % key_words == 4 {
            word = t.substitute(word);
        }
        words[i] = (word ^ u32::from_le_bytes(words[i - key_words])).to_le_bytes();
    }
    keys
}

/// The round keys, each in every block of a register.
#[inline(always)]
pub(super) fn broadcast<T: Blocks, const N: usize>(t: T, keys: &[[u8; 16]; N]) -> [T::Reg; N] {
    let mut wide = [t.zeros()[0]; N];
    for i in 0..N {
        wide[i] = t.broadcast(t.load_block(&keys[i]));
    }
    wide
}

/// Encrypts `W` times four blocks.
#[inline(always)]
pub(super) fn encrypt<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &[T::Reg; N],
    mut blocks: [T::Four; W],
) -> [T::Four; W] {
    for four in &mut blocks {
        for r in 0..T::REGS {
            four[r] = t.start(four[r], keys[0]);
        }
    }
    rounds(t, keys, 1..N - 1, &mut blocks);
    for four in &mut blocks {
        for r in 0..T::REGS {
            four[r] = t.last(four[r], [keys[N - 2], keys[N - 1]]);
        }
    }
    blocks
}

/// Some rounds of encryption.
#[inline(always)]
pub(super) fn rounds<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &[T::Reg; N],
    some: std::ops::Range<usize>,
    blocks: &mut [T::Four; W],
) {
    for i in some {
        for four in &mut *blocks {
            for r in 0..T::REGS {
                four[r] = t.round(four[r], [keys[i - 1], keys[i]]);
            }
        }
        keep_order(t, blocks);
    }
}

/// Keeps the compiler from moving one block's rounds behind another's, which it does for want of registers: the CPU would not
/// look far enough ahead to start them together.
#[inline(always)]
fn keep_order<T: Blocks, const W: usize>(t: T, blocks: &mut [T::Four; W]) {
    if W * T::REGS > 1 {
        for four in blocks {
            for r in 0..T::REGS {
                t.pin(&mut four[r]);
            }
        }
    }
}

/// Encrypts a block.
#[inline(always)]
pub(super) fn encrypt_one<T: Blocks, const N: usize>(
    t: T,
    keys: &[T::Reg; N],
    mut block: Block<T>,
) -> Block<T> {
    let one = t.one();
    block = one.start(block, t.low(keys[0]));
    for i in 1..N - 1 {
        block = one.round(block, [t.low(keys[i - 1]), t.low(keys[i])]);
    }
    one.last(block, [t.low(keys[N - 2]), t.low(keys[N - 1])])
}

/// Encrypts `W` times four blocks, each block with keys of its own.
#[inline(always)]
pub(super) fn encrypt_each<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &[[T::Four; N]; W],
    mut blocks: [T::Four; W],
) -> [T::Four; W] {
    for w in 0..W {
        for r in 0..T::REGS {
            blocks[w][r] = t.start(blocks[w][r], keys[w][0][r]);
        }
    }
    for i in 1..N - 1 {
        for w in 0..W {
            for r in 0..T::REGS {
                blocks[w][r] = t.round(blocks[w][r], [keys[w][i - 1][r], keys[w][i][r]]);
            }
        }
        keep_order(t, &mut blocks);
    }
    for w in 0..W {
        for r in 0..T::REGS {
            blocks[w][r] = t.last(blocks[w][r], [keys[w][N - 2][r], keys[w][N - 1][r]]);
        }
    }
    blocks
}

/// Decrypts `W` times four blocks, with the keys of the inverse cipher.
#[inline(always)]
pub(super) fn decrypt<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &[T::Reg; N],
    mut blocks: [T::Four; W],
) -> [T::Four; W] {
    for four in &mut blocks {
        for r in 0..T::REGS {
            four[r] = t.start(four[r], keys[0]);
        }
    }
    for i in 1..N - 1 {
        for four in &mut blocks {
            for r in 0..T::REGS {
                four[r] = t.inverse_round(four[r], [keys[i - 1], keys[i]]);
            }
        }
        keep_order(t, &mut blocks);
    }
    for four in &mut blocks {
        for r in 0..T::REGS {
            four[r] = t.inverse_last(four[r], [keys[N - 2], keys[N - 1]]);
        }
    }
    blocks
}
