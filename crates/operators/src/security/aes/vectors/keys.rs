//! Keys as modes use them, and whose they are: all items' or each item's own.

use std::cell::Cell;
use std::mem::offset_of;

use dpb_core::prefetch::prefetch;
use dpb_core::sessions::SessionTable;
use dpb_core::{Direction, JobError};
use zeroize::Zeroize;

use super::blocks::{Blocks, Rounds, Task};
use super::rounds::broadcast;
use crate::security::aes::form::{BLOCK, Form, Mode, Parts, Places, Work};

/// The round keys of the longer keys, and of the shorter.
pub(super) const LONG: usize = 15;
pub(super) const SHORT: usize = 11;

/// What a mode encrypts or decrypts with, in the order in which a short item needs it, from the start of a cache line on: an item of a
/// session of its own reads as few lines as it can.
#[repr(C, align(64))]
pub(super) struct Keys<E> {
    /// The number of round keys. As long as one of them, so that none lies in two lines.
    count: u128,
    /// The keys for the direction in which the mode uses the block cipher; zeros behind the shorter ones. Overwritten when dropped.
    data: [[u8; 16]; LONG],
    /// What else the mode needs.
    pub(super) extra: E,
}

impl<E> Drop for Keys<E> {
    fn drop(&mut self) {
        self.data.zeroize();
    }
}

/// What a mode needs of a key besides its round keys. It is overwritten when dropped.
pub(super) trait Extra: Send + Sync + Sized + 'static {
    /// Zeros, in whose place it is made.
    const NONE: Self;
    /// Makes it: of the round keys, or of the second key.
    fn make<T: Blocks, const N: usize>(&mut self, t: T, data: &[[u8; 16]; N], second: &[u8]);
    /// Fetches what a short item needs.
    fn prefetch<const N: usize>(&self);
}

/// Nothing, as CTR and CBC have it.
impl Extra for () {
    const NONE: Self = ();

    #[inline(always)]
    fn make<T: Blocks, const N: usize>(&mut self, _t: T, _data: &[[u8; 16]; N], _second: &[u8]) {}

    #[inline(always)]
    fn prefetch<const N: usize>(&self) {}
}

/// The keys that encrypt the tweak of XTS.
pub(super) struct TweakKeys([[u8; 16]; LONG]);

impl Drop for TweakKeys {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl TweakKeys {
    #[inline(always)]
    pub(super) fn keys<const N: usize>(&self) -> &[[u8; 16]; N] {
        self.0.first_chunk().expect("no more than the longest has")
    }
}

impl Extra for TweakKeys {
    const NONE: Self = Self([[0; 16]; LONG]);

    #[inline(always)]
    fn make<T: Blocks, const N: usize>(&mut self, t: T, _data: &[[u8; 16]; N], second: &[u8]) {
        let keys: &mut [_; N] = (self.0.first_chunk_mut()).expect("no more than the longest has");
        expand(t, second, keys);
    }

    #[inline(always)]
    fn prefetch<const N: usize>(&self) {
        lines::<N>(self.0.as_flattened());
    }
}

/// Fetches the lines of the first `N` keys, which begin at the start of a line or one key behind it.
#[inline(always)]
fn lines<const N: usize>(keys: &[u8]) {
    for at in (0..16 * N).step_by(64) {
        prefetch(keys, at);
    }
}

impl<E: Extra> Keys<E> {
    /// Zeros, in whose place keys are made.
    pub(super) const NONE: Self = Self {
        count: 0,
        data: [[0; 16]; LONG],
        extra: E::NONE,
    };

    /// The number of round keys.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// The round keys, if there are `N`; else the first ones, or zeros behind them.
    #[inline(always)]
    pub(super) fn data<const N: usize>(&self) -> &[[u8; 16]; N] {
        self.data
            .first_chunk()
            .expect("no more than the longest has")
    }
}

/// The keys of items.
pub(super) trait Source<'k, E: Extra, const N: usize>: Copy {
    /// True if items begin with the number of a session, which has its own keys.
    const EACH: bool;
    /// Round keys as code uses them.
    type Rounds<T: Blocks>: Rounds<T, N>;
    /// The keys that all items have, if there are such.
    fn common(self) -> Option<&'k Keys<E>>;
    /// Makes round keys ready for use.
    fn ready<T: Blocks>(t: T, keys: &'k [[u8; 16]; N]) -> Self::Rounds<T>;
    /// The keys of an item of this session.
    ///
    /// # Errors
    /// `Some(why)` if the item is refused; `None` if the walk for the other length of keys computes it.
    fn of(self, session: Option<u32>) -> Result<&'k Keys<E>, Option<JobError>>;
    /// Fetches the keys of a session, if there is one: thousands do not fit in the caches that are near.
    fn prefetch(self, session: Option<u32>);
}

/// One key for all.
pub(super) struct Same<'k, E>(pub(super) &'k Keys<E>);

impl<E> Clone for Same<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Same<'_, E> {}

impl<'k, E: Extra, const N: usize> Source<'k, E, N> for Same<'k, E> {
    const EACH: bool = false;
    type Rounds<T: Blocks> = [T::Reg; N];

    #[inline(always)]
    fn common(self) -> Option<&'k Keys<E>> {
        Some(self.0)
    }

    #[inline(always)]
    fn ready<T: Blocks>(t: T, keys: &'k [[u8; 16]; N]) -> [T::Reg; N] {
        broadcast(t, keys)
    }

    #[inline(always)]
    fn of(self, _session: Option<u32>) -> Result<&'k Keys<E>, Option<JobError>> {
        Ok(self.0)
    }

    #[inline(always)]
    fn prefetch(self, _session: Option<u32>) {}
}

/// A key for each session. Keys of another length are left to code for that length.
pub(super) struct OfSessions<'k, E, const N: usize> {
    pub(super) table: &'k SessionTable<Keys<E>>,
    /// True for the code that looks after items without a session, too.
    pub(super) is_first: bool,
    /// Becomes true if there is an item that is left to others.
    pub(super) others: &'k Cell<bool>,
}

impl<E, const N: usize> Clone for OfSessions<'_, E, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, const N: usize> Copy for OfSessions<'_, E, N> {}

impl<'k, E: Extra, const N: usize> Source<'k, E, N> for OfSessions<'k, E, N> {
    const EACH: bool = true;
    type Rounds<T: Blocks> = T::Own<'k, N>;

    #[inline(always)]
    fn common(self) -> Option<&'k Keys<E>> {
        None
    }

    #[inline(always)]
    fn ready<T: Blocks>(t: T, keys: &'k [[u8; 16]; N]) -> T::Own<'k, N> {
        t.own(keys)
    }

    #[inline(always)]
    fn of(self, session: Option<u32>) -> Result<&'k Keys<E>, Option<JobError>> {
        let keys = match session {
            Some(session) => self.table.key(session),
            None => None,
        };
        match keys {
            Some(keys) if keys.count() == N => Ok(keys),
            Some(_) => {
                self.others.set(true);
                Err(None)
            }
            None => Err(self.is_first.then_some(JobError::Malformed)),
        }
    }

    #[inline(always)]
    fn prefetch(self, session: Option<u32>) {
        const { assert!(offset_of!(Keys<E>, data) == BLOCK) };
        const { assert!(offset_of!(Keys<E>, extra).is_multiple_of(64)) };
        if let Some(session) = session
            && let Some(keys) = self.table.key(session)
        {
            lines::<N>(keys.data.as_flattened());
            keys.extra.prefetch::<N>();
        }
    }
}

/// How many items ahead keys are fetched.
pub(super) const AHEAD: usize = 3;

/// Items on their way to code, each with its keys. Their outcomes, until code says something else, are that all is well.
pub(super) struct Items<'a, P, S> {
    form: Form,
    places: P,
    source: S,
    outcomes: std::slice::IterMut<'a, Result<u32, JobError>>,
    ahead: usize,
}

/// An item: its keys, its parts and its outcome.
pub(super) type Item<'a, 'k, E> = (&'k Keys<E>, Parts<'a>, &'a mut Result<u32, JobError>);

impl<'a, P: Places<'a>, S> Items<'a, P, S> {
    /// Those of `work`; keys are fetched `ahead` items ahead.
    #[inline(always)]
    pub(super) fn new<'k, E, const N: usize>(
        form: Form,
        source: S,
        work: Work<'a, P>,
        ahead: usize,
    ) -> Self
    where
        E: Extra,
        S: Source<'k, E, N>,
    {
        let Work { places, outcomes } = work;
        // At once, so that the list is not asked for room at each item. A walk for keys of the other length has left a full list, which stays as it is.
        outcomes.resize(places.count(), Ok(places.output_bytes().unwrap_or(0)));
        Self {
            form: form.numbered(S::EACH),
            places,
            source,
            outcomes: outcomes.iter_mut(),
            ahead,
        }
    }

    /// The same, of places that are [alike](Places::alike).
    ///
    /// # Errors
    /// Those of [`Self::new`], if they are not.
    #[inline(always)]
    pub(super) fn alike<'k, E, const N: usize>(
        form: Form,
        source: S,
        work: Work<'a, P>,
        ahead: usize,
    ) -> Result<Self, Self>
    where
        E: Extra,
        S: Source<'k, E, N>,
    {
        let Work { places, outcomes } = work;
        match places.alike(form.numbered(S::EACH)) {
            Ok(places) => Ok(Self::new(form, source, Work { places, outcomes }, ahead)),
            Err(places) => Err(Self::new(form, source, Work { places, outcomes }, ahead)),
        }
    }

    /// The next item that has keys and parts.
    #[inline(always)]
    pub(super) fn next<'k, E, const N: usize>(&mut self) -> Option<Item<'a, 'k, E>>
    where
        E: Extra,
        S: Source<'k, E, N>,
    {
        loop {
            let outcome = self.outcomes.next()?;
            let mut session = None;
            if S::EACH {
                self.source.prefetch(self.places.session(self.ahead));
                session = self.places.session(0);
            }
            let parts = self.places.next(self.form);
            let keys = match self.source.of(session) {
                Ok(keys) => keys,
                Err(None) => continue,
                Err(Some(error)) => {
                    *outcome = Err(error);
                    continue;
                }
            };
            match parts {
                Ok(parts) => {
                    if self.places.output_bytes().is_some() {
                        return Some((keys, parts, outcome));
                    }
                    *outcome = self.form.bytes_made(parts.text.len());
                    if outcome.is_ok() {
                        return Some((keys, parts, outcome));
                    }
                }
                Err(error) => *outcome = Err(error),
            }
        }
    }
}

/// Runs code for each item of [`Items::alike`]. The code is compiled a second time for items that are alike, because the shortest are over in ten
/// nanoseconds. A closure would not have the instruction set.
macro_rules! each_item {
    ($items:expr, $item:pat => $code:block) => {
        match $items {
            Ok(mut items) => {
                while let Some($item) = items.next() {
                    $code
                }
            }
            Err(mut items) => {
                while let Some($item) = items.next() {
                    $code
                }
            }
        }
    };
}
pub(super) use each_item;

/// Makes the keys that a form needs out of a key that has a length that there is. They are made where they stay: a copy that is
/// moved from is not overwritten.
pub(super) struct Expansion<'a, E, const N: usize> {
    pub(super) form: Form,
    pub(super) key: &'a [u8],
    /// Zeros before.
    pub(super) into: &'a mut Keys<E>,
}

impl<T: Blocks, E: Extra, const N: usize> Task<T> for Expansion<'_, E, N> {
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let Keys { count, data, extra } = self.into;
        *count = N as u128;
        let data: &mut [_; N] = data
            .first_chunk_mut()
            .expect("no more than the longest has");
        let (key, second) = self.key.split_at(self.key.len() / self.form.keys());
        expand(t, key, data);
        if let (Mode::Cbc | Mode::Xts, Direction::Decrypt) = (self.form.mode, self.form.direction) {
            data.reverse();
            for key in &mut data[1..N - 1] {
                let inverse = t.inverse_key(t.load_block(key));
                t.store_block(key, inverse);
            }
        }
        extra.make(t, data, second);
    }
}

/// Key expansion (FIPS 197, 5.2) of a key of 128 or 256 bits, as `N` says. SUBWORD takes the same time for every word: a table in
/// memory would give the key away to who shares the cache.
#[inline(always)]
pub(super) fn expand<T: Blocks, const N: usize>(t: T, key: &[u8], keys: &mut [[u8; 16]; N]) {
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
