//! CBC encryption of several items side by side: a block waits for the one before it, blocks of other items do not.
//!
//! Each lane works on one item; when it is done, the next item takes its place. All lanes go forward by the same number of
//! blocks, as many as the lane with the fewest has left.

use std::marker::PhantomData;

use aes::cipher::inout::InOutBuf;

use super::keys::{Extra, Items, Keys, Source};
use crate::security::aes::form::{BLOCK, Parts, Places};

/// Items at a time.
pub(super) const LANES_MAX: usize = 16;

/// Items on their way. The first [`Chains::busy`] lanes each have one; the others do the first one's work once more, so that
/// code for more lanes may run: it reads all of a step before it writes the same bytes to the same places.
pub(super) struct Chains<'a, 'k, E> {
    /// The last block that came out, before the first one the initialisation vector.
    pub(super) states: [[u8; BLOCK]; LANES_MAX],
    /// The keys of each lane, if not all have the same.
    pub(super) keys: [&'k Keys<E>; LANES_MAX],
    /// The texts that are left to encrypt.
    texts: [Rest<'a>; LANES_MAX],
    busy: usize,
}

/// Where lanes read and write.
pub(super) struct Addresses<const W: usize> {
    pub(super) from: [[*const u8; 4]; W],
    pub(super) to: [[*mut u8; 4]; W],
}

/// The rest of a text: [`InOutBuf`] as addresses, because an idle lane reads and writes where the first one does.
#[derive(Clone, Copy)]
struct Rest<'a> {
    from: *const u8,
    to: *mut u8,
    len: usize,
    text: PhantomData<InOutBuf<'a, 'a, u8>>,
}

/// The items of a batch, as they come and go in lanes.
pub(super) struct Lanes<'a, 'k, P, S, E> {
    items: Items<'a, P, S>,
    /// Lanes that may be busy, [`LANES_MAX`] at most.
    limit: usize,
    pub(super) chains: Chains<'a, 'k, E>,
}

impl<'a, 'k, P: Places<'a>, S, E: Extra> Lanes<'a, 'k, P, S, E> {
    /// With `limit` lanes. `any` keys stand in lanes that never had an item.
    #[inline(always)]
    pub(super) fn new(items: Items<'a, P, S>, limit: usize, any: &'k Keys<E>) -> Self {
        let none = Rest {
            from: std::ptr::null(),
            to: std::ptr::null_mut(),
            len: 0,
            text: PhantomData,
        };
        Self {
            items,
            limit: limit.min(LANES_MAX),
            chains: Chains {
                states: [[0; BLOCK]; LANES_MAX],
                keys: [any; LANES_MAX],
                texts: [none; LANES_MAX],
                busy: 0,
            },
        }
    }

    /// Gives idle lanes items, and says how many blocks all go forward now. Who asks again has done that: taken all lanes that are busy, or
    /// more, so far, left the last blocks in `states`, and told the chains.
    #[inline(always)]
    pub(super) fn next<const N: usize>(&mut self) -> Option<usize>
    where
        S: Source<'k, E, N>,
    {
        let chains = &mut self.chains;
        while chains.busy < self.limit
            && let Some((keys, parts, _)) = self.items.next()
        {
            chains.take(parts, keys);
        }
        if chains.busy == 0 {
            return None;
        }
        let left = chains.texts[..chains.busy].iter().map(|text| text.len);
        let count = left.min().unwrap_or(0) / BLOCK;
        for idle in chains.busy..chains.in_step() {
            chains.copy(0, idle);
        }
        Some(count)
    }
}

impl<'a, 'k, E> Chains<'a, 'k, E> {
    /// Lanes that go forward together: those that have an item, and as many others as make four, eight or sixteen.
    #[inline(always)]
    pub(super) fn in_step(&self) -> usize {
        match self.busy {
            0..=4 => 4,
            5..=8 => 8,
            _ => 16,
        }
    }

    /// The addresses at which each of `W` times four lanes reads and writes, `bytes` bytes of each.
    ///
    /// # Panics
    /// If a lane has fewer left, or some of these are not in step.
    #[inline(always)]
    pub(super) fn addresses<const W: usize>(&self, bytes: usize) -> Addresses<W> {
        assert!(4 * W <= self.in_step(), "lanes");
        let mut addresses = Addresses {
            from: [[std::ptr::null(); 4]; W],
            to: [[std::ptr::null_mut(); 4]; W],
        };
        for w in 0..W {
            for lane in 0..4 {
                let text = &self.texts[4 * w + lane];
                assert!(text.len >= bytes, "text");
                (addresses.from[w][lane], addresses.to[w][lane]) = (text.from, text.to);
            }
        }
        addresses
    }

    /// Gives an item, if it has any blocks, to the first idle lane.
    #[inline(always)]
    fn take(&mut self, parts: Parts<'a>, keys: &'k Keys<E>) {
        let text = parts.text;
        let len = text.len();
        if len > 0 {
            let (from, to) = text.into_raw();
            self.states[self.busy].copy_from_slice(parts.iv);
            self.keys[self.busy] = keys;
            self.texts[self.busy] = Rest {
                from,
                to,
                len,
                text: PhantomData,
            };
            self.busy += 1;
        }
    }

    /// Steps over `bytes` bytes, and puts the lanes that have any left to the front.
    #[inline(always)]
    pub(super) fn leave_behind(&mut self, bytes: usize) {
        for lane in (0..self.busy).rev() {
            let text = &mut self.texts[lane];
            text.from = text.from.wrapping_add(bytes);
            text.to = text.to.wrapping_add(bytes);
            text.len -= bytes;
            if text.len == 0 {
                // Those behind it are done with this step.
                self.busy -= 1;
                if lane != self.busy {
                    self.copy(self.busy, lane);
                }
            }
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        self.states[to] = self.states[from];
        self.keys[to] = self.keys[from];
        self.texts[to] = self.texts[from];
    }
}
