//! Key expansion (FIPS 197, 5.2).

use dpb_core::Direction;
use zeroize::Zeroizing;

use super::form::{Form, Mode};

/// A key for each round, and one before the first: 11 with keys of 128 bits, 15 with 256. Overwritten when dropped.
pub(super) type RoundKeys<const N: usize> = Zeroizing<[[u8; 16]; N]>;

/// The keys that a mode encrypts or decrypts with.
pub(super) struct Keys<const N: usize> {
    /// Of the direction in which the mode uses the block cipher.
    pub(super) data: RoundKeys<N>,
    /// The keys that encrypt the tweak of XTS; else zeros.
    pub(super) tweak: RoundKeys<N>,
}

impl<const N: usize> Keys<N> {
    /// Of `key`, which has a length that there is, with a CPU's SUBWORD (see [`expand`]), and its way to the keys of the
    /// equivalent inverse cipher (FIPS 197, 5.3.5).
    pub(super) fn new(
        form: Form,
        key: &[u8],
        substitute: impl Fn(u32) -> u32,
        inverse: impl Fn(&[[u8; 16]; N]) -> RoundKeys<N>,
    ) -> Self {
        let (key, tweak) = key.split_at(key.len() / form.keys());
        let encrypting = expand(key, &substitute);
        Self {
            data: match (form.mode, form.direction) {
                (Mode::Cbc | Mode::Xts, Direction::Decrypt) => inverse(&encrypting),
                _ => encrypting,
            },
            tweak: match form.mode {
                Mode::Xts => expand(tweak, &substitute),
                Mode::Gcm | Mode::Ctr | Mode::Cbc => RoundKeys::from([[0; 16]; N]),
            },
        }
    }
}

/// Expands a key of 128 or 256 bits, as `N` says. `substitute` does SUBWORD, in the same time for every word: a table in memory
/// would give the key away to who shares the cache.
fn expand<const N: usize>(key: &[u8], substitute: impl Fn(u32) -> u32) -> RoundKeys<N> {
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
            word = substitute(word.rotate_right(8)) ^ constant;
            constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
        } else if key_words == 8 && i % key_words == 4 {
            word = substitute(word);
        }
        words[i] = (word ^ u32::from_le_bytes(words[i - key_words])).to_le_bytes();
    }
    keys
}
