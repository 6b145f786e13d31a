//! The search for the highest packet rate that a system forwards with little loss: MLRsearch (RFC 9971).
//!
//! A *trial* offers a constant load for some time and counts what comes back. Software loses packets now and then for reasons of its own, so
//! one trial says little, and RFC 2544's binary search over single trials finds another rate each time. MLRsearch asks for several
//! trials at a load and allows some of them to lose more than they should; a [`Goal`] says how many, how long, and how much loss. One
//! search serves several goals, from all trials together.
//!
//! [`search`] is the RFC's controller. It knows nothing of packets: whoever can do a trial implements [`Measurer`]. It is pure, so that it is
//! tested on systems whose limit is known.
//!
//! ```
//! use dpb_net::search::{Goal, Settings, TrialInput, TrialOutput, search};
//!
//! // A system that forwards a million packets a second and loses what is more.
//! let mut system = |trial: TrialInput| -> Result<_, std::convert::Infallible> {
//!     let loss_ratio = (1.0 - 1e6 / trial.load).max(0.0);
//!     Ok(Some(TrialOutput { loss_ratio, effective_s: trial.duration_s }))
//! };
//! let found = search(&[Goal::NDR, Goal::PDR], &Settings::between(1e3, 1e7), &mut system)?;
//! let ndr = &found.results[0];
//! assert!(ndr.lower.unwrap() <= 1e6 && ndr.upper.unwrap() >= 1e6);
//! # Ok::<(), dpb_net::search::SearchError<std::convert::Infallible>>(())
//! ```

mod controller;
mod goal;
mod grid;
mod load;
#[cfg(test)]
mod tests;

pub use controller::{GoalResult, Irregular, Outcome, SearchError, Settings, search};
pub use goal::{Goal, GoalError};
pub use load::{Bound, classify, conditional_throughput};

/// What a trial is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialInput {
    /// Packets a second that are offered, of one direction if there are two (RFC 9971, "Trial Load").
    pub load: f64,
    /// Seconds for which they are.
    pub duration_s: f64,
}

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialOutput {
    /// Packets that did not come back, as a part of those that should have been offered: from 0 to 1. A packet that was never sent is lost.
    pub loss_ratio: f64,
    /// Seconds that the trial counts for: those of its input, or as long as it took with all that is around it.
    pub effective_s: f64,
}

/// A trial that was done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// What it did.
    pub input: TrialInput,
    /// What it showed.
    pub output: TrialOutput,
}

impl Trial {
    /// Packets a second that came back.
    pub fn forwarding_rate(&self) -> f64 {
        self.input.load * (1.0 - self.output.loss_ratio)
    }
}

/// Does trials.
pub trait Measurer {
    /// What ends the search.
    type Error;

    /// Does one trial. `None` if it says nothing about the system, for example since the generator was late: it is done again.
    ///
    /// # Errors
    /// If no trial can be done any more.
    fn measure(&mut self, input: TrialInput) -> Result<Option<TrialOutput>, Self::Error>;
}

impl<E, F: FnMut(TrialInput) -> Result<Option<TrialOutput>, E>> Measurer for F {
    type Error = E;

    fn measure(&mut self, input: TrialInput) -> Result<Option<TrialOutput>, E> {
        self(input)
    }
}
