//! CBC encryption of several items side by side: a block waits for the one before it, blocks of other items do not.
//!
//! Each lane works on one item; when it is done, the next item takes its place. All lanes go forward by the same number of
//! blocks, as many as the lane with the fewest has left.

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
    /// Where in [`Chains::dst`] its output goes.
    pub(super) places: [usize; LANES],
    /// All slots.
    pub(super) dst: &'a mut [u8],
    busy: usize,
}

/// Encrypts each item. `advance` takes all lanes that are busy, or more, so many blocks forward: it writes to `dst` and leaves
/// the last blocks in `states`. Every lane has these blocks left in `texts`, and room for them in `dst`.
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
        places: [0; LANES],
        dst: out.dst,
        busy: 0,
    };
    let mut waiting = 0..batch.len();
    loop {
        while chains.busy < LANES {
            let Some(i) = waiting.next() else { break };
            let outcome = chains.take(form, batch.item(i), i * out.slot, out.slot);
            out.outcomes.push(outcome);
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
    fn take(
        &mut self,
        form: Form,
        item: &'a [u8],
        place: usize,
        slot: usize,
    ) -> Result<u32, JobError> {
        let (parts, to) = form.place(item, &mut self.dst[place..place + slot])?;
        let len = u32::try_from(to.len()).map_err(|_| JobError::TooLong)?;
        if len > 0 {
            self.states[self.busy].copy_from_slice(parts.iv);
            self.texts[self.busy] = parts.text;
            self.places[self.busy] = place;
            self.busy += 1;
        }
        Ok(len)
    }

    /// Steps over so many bytes, and puts the lanes that have any left to the front.
    fn leave_behind(&mut self, bytes: usize) {
        for lane in (0..self.busy).rev() {
            self.texts[lane] = &self.texts[lane][bytes..];
            self.places[lane] += bytes;
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
        self.places[to] = self.places[from];
    }
}
