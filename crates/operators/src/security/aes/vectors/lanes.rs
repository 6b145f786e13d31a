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

impl<'a, 'k, E: Extra> Chains<'a, 'k, E> {
    /// Idle lanes. `any` keys stand in lanes that never had an item.
    #[inline(always)]
    pub(super) fn new(any: &'k Keys<E>) -> Self {
        let none = Rest {
            from: std::ptr::null(),
            to: std::ptr::null_mut(),
            len: 0,
            text: PhantomData,
        };
        Self {
            states: [[0; BLOCK]; LANES_MAX],
            keys: [any; LANES_MAX],
            texts: [none; LANES_MAX],
            busy: 0,
        }
    }

    /// Gives items to idle lanes until `limit` are busy, [`LANES_MAX`] at most. Says how many blocks all go forward now; `None` if no lane is busy.
    ///
    /// Before the next call, the caller takes the busy lanes so far, or more of them, puts the last blocks into `states`, and calls
    /// [`Self::leave_behind`].
    #[inline(always)]
    pub(super) fn fill<P, S, const N: usize>(
        &mut self,
        items: &mut Items<'a, P, S>,
        limit: usize,
    ) -> Option<usize>
    where
        P: Places<'a>,
        S: Source<'k, E, N>,
    {
        // `self.busy` lies in memory: it would be read and written for each item.
        let mut busy = self.busy;
        while busy < limit.min(LANES_MAX)
            && let Some((keys, parts, _)) = items.next()
        {
            if self.take(busy, parts, keys) {
                busy += 1;
            }
        }
        self.busy = busy;
        if busy == 0 {
            return None;
        }
        let left = self.texts[..busy].iter().map(|text| text.len);
        let count = left.min().unwrap_or(0) / BLOCK;
        for idle in busy..self.in_step() {
            self.copy(0, idle);
        }
        Some(count)
    }

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

    /// Gives an item to an idle lane. False if the item has no blocks: the lane stays idle.
    #[inline(always)]
    fn take(&mut self, lane: usize, parts: Parts<'a>, keys: &'k Keys<E>) -> bool {
        let text = parts.text;
        let len = text.len();
        let (from, to) = text.into_raw();
        self.states[lane].copy_from_slice(parts.iv);
        self.keys[lane] = keys;
        self.texts[lane] = Rest {
            from,
            to,
            len,
            text: PhantomData,
        };
        len > 0
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
