//! When the start of a stream is looked at again: [`Looks`].

/// Looks at the start of a stream that has said too little so far, by readers or by rules.
///
/// A look is a pass over all that is held, so not every small packet may bring one: whoever sends single bytes would have 8 KiB read for each. The first
/// [`EARLY_MAX`] looks come whenever there is more. After them a stream has to grow by a step between looks: less than a hundred in all, in however many packets it
/// comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    /// Bytes that were there at the last one.
    at: u16,
    /// Looks at a stream that had not grown by a step.
    early: u8,
    /// True if the stream was over at the last one.
    was_over: bool,
}

/// Looks without a step before them.
const EARLY_MAX: u8 = 64;

/// Bytes by which a stream grows before it is looked at again.
fn step(at: usize) -> usize {
    (at / 8).max(64)
}

impl Looks {
    pub(super) const NONE: Self = Self {
        at: 0,
        early: 0,
        was_over: false,
    };

    /// True if there is enough that was not there at the last look, or the rest of the stream.
    pub(super) fn is_due(&self, front: usize, is_over: bool) -> bool {
        let at = usize::from(self.at);
        let is_enough = self.early < EARLY_MAX || front >= at + step(at);
        front != at && (is_enough || self.is_last(is_over))
    }

    /// True if the stream is over since the last look.
    pub(super) fn is_last(&self, is_over: bool) -> bool {
        is_over && !self.was_over
    }

    /// The first `front` bytes are looked at.
    pub(super) fn look(&mut self, front: usize, is_over: bool) {
        let at = usize::from(self.at);
        if front < at + step(at) {
            self.early = self.early.saturating_add(1);
        }
        (self.at, self.was_over) = (front as u16, is_over);
    }
}
