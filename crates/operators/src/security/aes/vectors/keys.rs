//! Keys as modes use them, and whose they are: all items' or each item's own.

use dpb_core::Direction;
use dpb_core::prefetch::prefetch;
use zeroize::Zeroizing;

use super::blocks::{Blocks, Task};
use super::hash::{self, NONE, Powers};
use super::rounds::RoundKeys;
use crate::security::aes::form::{Form, Mode};

/// The keys that a mode encrypts or decrypts with.
pub(super) struct Keys<const N: usize> {
    /// The keys for the direction in which the mode uses the block cipher.
    pub(super) data: RoundKeys<N>,
    /// The keys that encrypt the tweak of XTS; else zeros.
    pub(super) tweak: RoundKeys<N>,
    /// GCM's hash key; else zeros.
    pub(super) powers: Zeroizing<Powers>,
}

impl<const N: usize> Keys<N> {
    /// Zeros, in whose place keys are made.
    pub(super) fn none() -> Self {
        Self {
            data: RoundKeys::from([[0; 16]; N]),
            tweak: RoundKeys::from([[0; 16]; N]),
            powers: Zeroizing::new(NONE),
        }
    }

    /// Fetches what a short item needs.
    #[inline(always)]
    fn prefetch(&self, mode: Mode) {
        for i in (0..N).step_by(4) {
            prefetch(&self.data[i], 0);
        }
        match mode {
            Mode::Gcm => self.powers.prefetch(),
            Mode::Xts => {
                for i in (0..N).step_by(4) {
                    prefetch(&self.tweak[i], 0);
                }
            }
            Mode::Ctr | Mode::Cbc => {}
        }
    }
}

/// The keys of items.
pub(super) trait Source<'k, const N: usize>: Copy {
    /// True if items have keys of their own.
    const EACH: bool;
    /// The keys of item number `i`.
    fn of(self, i: usize) -> &'k Keys<N>;
    /// Fetches the keys of item number `i`, if there is one: thousands do not fit in the caches that are near.
    fn prefetch(self, mode: Mode, i: usize);
}

/// How many items ahead keys are fetched.
pub(super) const AHEAD: usize = 3;

/// One key for all.
#[derive(Clone, Copy)]
pub(super) struct Same<'k, const N: usize>(pub(super) &'k Keys<N>);

impl<'k, const N: usize> Source<'k, N> for Same<'k, N> {
    const EACH: bool = false;

    #[inline(always)]
    fn of(self, _i: usize) -> &'k Keys<N> {
        self.0
    }

    #[inline(always)]
    fn prefetch(self, _mode: Mode, _i: usize) {}
}

/// A key for each; there is one at least.
#[derive(Clone, Copy)]
pub(super) struct Each<'k, const N: usize>(pub(super) &'k [&'k Keys<N>]);

impl<'k, const N: usize> Source<'k, N> for Each<'k, N> {
    const EACH: bool = true;

    #[inline(always)]
    fn of(self, i: usize) -> &'k Keys<N> {
        self.0[i]
    }

    #[inline(always)]
    fn prefetch(self, mode: Mode, i: usize) {
        if let Some(keys) = self.0.get(i) {
            keys.prefetch(mode);
        }
    }
}

/// Makes the keys that a form needs out of a key that has a length that there is. They are made where they stay: a copy that is
/// moved from is not overwritten.
pub(super) struct Expansion<'a, const N: usize> {
    pub(super) form: Form,
    pub(super) key: &'a [u8],
    /// Zeros before.
    pub(super) into: &'a mut Keys<N>,
}

impl<T: Blocks, const N: usize> Task<T> for Expansion<'_, N> {
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let Keys {
            data,
            tweak: of_tweak,
            powers,
        } = self.into;
        let (key, tweak) = self.key.split_at(self.key.len() / self.form.keys());
        expand(t, key, data);
        if let (Mode::Cbc | Mode::Xts, Direction::Decrypt) = (self.form.mode, self.form.direction) {
            data.reverse();
            for key in &mut data[1..N - 1] {
                let inverse = t.inverse_key(t.load_block(key));
                t.store_block(key, inverse);
            }
        }
        match self.form.mode {
            Mode::Gcm => hash::powers(t, data, powers),
            Mode::Xts => expand(t, tweak, of_tweak),
            Mode::Ctr | Mode::Cbc => {}
        }
    }
}

/// Key expansion (FIPS 197, 5.2) of a key of 128 or 256 bits, as `N` says. SUBWORD takes the same time for every word: a table in
/// memory would give the key away to who shares the cache.
#[inline(always)]
fn expand<T: Blocks, const N: usize>(t: T, key: &[u8], keys: &mut RoundKeys<N>) {
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
}
