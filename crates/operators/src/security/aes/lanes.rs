//! CBC encryption of several items side by side: a block waits for the one before it, blocks of other items do not.
//!
//! Each lane works on one item; when it is done, the next item takes its place. All lanes go forward by the same number of
//! blocks, as many as the lane with the fewest has left.

use std::cell::Cell;

use dpb_core::{Batch, BatchOut, JobError};

use super::form::{BLOCK, Form};

/// Items at a time.
pub(super) const LANES: usize = 16;

/// Items on their way. The first [`Chains::busy`] lanes each have one; the others do the first one's work once more, so that
/// code for more lanes may run: it writes the same bytes to the same places.
pub(super) struct Chains<'a> {
    /// The last block that came out, before the first one the initialisation vector.
    pub(super) states: [[u8; BLOCK]; LANES],
    /// What is left to encrypt.
    pub(super) texts: [&'a [u8]; LANES],
    /// Room for the output of what is left. Cells, because an idle lane writes where the first one does.
    pub(super) to: [&'a [Cell<u8>]; LANES],
    busy: usize,
}

/// Encrypts each item. `advance` takes all lanes that are busy, or more, so many blocks forward: it writes them to `to` and
/// leaves the last blocks in `states`. Every lane has these blocks left in `texts`, and room for them in `to`.
#[inline(always)]
pub(super) fn encrypt(
    form: Form,
    batch: Batch<'_>,
    out: BatchOut<'_>,
    mut advance: impl FnMut(&mut Chains<'_>, usize),
) {
    let mut chains = Chains {
        states: [[0; BLOCK]; LANES],
        texts: [&[]; LANES],
        to: [&[]; LANES],
        busy: 0,
    };
    let mut waiting = batch.iter().zip(out.slots);
    loop {
        while chains.busy < LANES {
            let Some((item, slot)) = waiting.next() else {
                break;
            };
            out.outcomes.push(chains.take(form, item, slot));
        }
        if chains.busy == 0 {
            return;
        }
        let left = chains.texts[..chains.busy].iter().map(|text| text.len());
        let count = left.min().unwrap_or(0) / BLOCK;
        for idle in chains.busy..LANES {
            chains.copy(0, idle);
        }
        advance(&mut chains, count);
        chains.leave_behind(count * BLOCK);
    }
}

impl<'a> Chains<'a> {
    /// Lanes that have an item.
    pub(super) fn busy(&self) -> usize {
        self.busy
    }

    /// Gives an item, if it is one and has any blocks, to the first idle lane.
    fn take(&mut self, form: Form, item: &'a [u8], slot: &'a mut [u8]) -> Result<u32, JobError> {
        let (parts, to) = form.place(item, slot)?;
        let len = u32::try_from(to.len()).map_err(|_| JobError::TooLong)?;
        if len > 0 {
            self.states[self.busy].copy_from_slice(parts.iv);
            self.texts[self.busy] = parts.text;
            self.to[self.busy] = Cell::from_mut(to).as_slice_of_cells();
            self.busy += 1;
        }
        Ok(len)
    }

    /// Steps over so many bytes, and puts the lanes that have any left to the front.
    fn leave_behind(&mut self, bytes: usize) {
        for lane in (0..self.busy).rev() {
            self.texts[lane] = &self.texts[lane][bytes..];
            self.to[lane] = &self.to[lane][bytes..];
            if self.texts[lane].is_empty() {
                // Those behind it are done with this step.
                self.busy -= 1;
                self.copy(self.busy, lane);
            }
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        self.states[to] = self.states[from];
        self.texts[to] = self.texts[from];
        self.to[to] = self.to[from];
    }
}
