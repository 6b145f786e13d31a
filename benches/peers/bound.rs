//! One side of a comparison, set up for one batch.

use dpb_core::JobError;

/// One side's code, bound to one batch, with memory for its outputs.
pub trait Bound {
    /// Does the batch once, all its calls.
    fn run(&mut self);
    /// Overwrites all outputs with `byte`.
    fn spoil_outputs(&mut self, byte: u8);
    /// The output of each item in the last run.
    ///
    /// # Panics
    /// If the code wrote beyond a slot, or not as many bytes as the operator's shape says.
    fn outputs(&mut self) -> Vec<Result<&[u8], JobError>>;
}
