//! Headroom: how much of its cores a system has left for other work while it forwards packets at a given rate.
//!
//! The system does *injected work* beside its packets: so many nanoseconds of it for each packet. MLRsearch ([`crate::search`]) looks for the most
//! that it bears at a fixed packet rate without losing more packets than a goal allows. The product of that work and the packet rate is what
//! was left: cores, of the kind that the work needs ([`Work`]): arithmetic, memory, or an operator. A core that waits for memory half of
//! the time has more left for arithmetic than for memory, so headroom is a figure of each kind.
//!
//! Liu et al. (section II) found how long a sender may pause between two bursts before throughput falls. That is arithmetic: the pause tells
//! how far the rate lies below the highest one. [`Headroom::by_rate`] is that figure, `1 - R / Rmax`, beside the measured one.
//!
//! ```
//! use dpb_net::headroom::{Load, Patience, find};
//! use dpb_net::search::{Goal, TrialOutput};
//!
//! // A system with one core that spends 300 ns on a packet.
//! let mut trial = |load: Load| -> Result<_, std::convert::Infallible> {
//!     let busy = load.packets_per_s * (300.0 + load.work_ns_per_packet) * 1e-9;
//!     let loss_ratio = (1.0 - 1.0 / busy).max(0.0);
//!     Ok(Some(TrialOutput { loss_ratio, effective_s: load.duration_s }))
//! };
//! let found = find(&Goal::PDR, 1e6, 1, &Patience::default(), &mut trial)?;
//! assert!((found.cores_free().unwrap() - 0.7).abs() < 0.01);
//! # Ok::<(), dpb_net::search::SearchError<std::convert::Infallible>>(())
//! ```

mod injected;
mod rate;
#[cfg(test)]
mod tests;
mod work;

pub use injected::{Dial, Injected};
pub use rate::{HighestRate, highest_rate};
pub use work::{Arithmetic, Computed, Speed, Walk, WalkError, Work, WorkError};

use crate::search::{
    Goal, GoalResult, Measurer, Outcome, SearchError, Settings, TrialInput, TrialOutput, search,
};

/// What a trial of headroom is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Packets a second that are offered.
    pub packets_per_s: f64,
    /// Nanoseconds of work that the system does for each packet that it receives: the time that the work takes on a core alone.
    pub work_ns_per_packet: f64,
    /// Seconds for which packets are offered.
    pub duration_s: f64,
}

/// The headroom of a system at a packet rate, for one kind of work.
#[derive(Clone, Debug)]
pub struct Headroom {
    /// Packets a second that were offered.
    pub packets_per_s: f64,
    /// What the search found. Its loads are nanoseconds of work a packet.
    pub found: GoalResult,
    /// All trials.
    pub outcome: Outcome,
}

impl Headroom {
    /// Cores that were free for the work; `None` if the goal is not upheld even with the least of it.
    pub fn cores_free(&self) -> Option<f64> {
        self.found.lower.map(|ns| ns * 1e-9 * self.packets_per_s)
    }

    /// The same by the lowest amount of work that the system did not bear: the true value lies between both.
    pub fn cores_free_at_most(&self) -> Option<f64> {
        self.found.upper.map(|ns| ns * 1e-9 * self.packets_per_s)
    }

    /// What Liu et al. call headroom: `1 - R / Rmax`, the part of the highest packet rate that is not used. It says nothing of what else
    /// the cores can do.
    pub fn by_rate(&self, packets_per_s_max: f64) -> f64 {
        1.0 - self.packets_per_s / packets_per_s_max
    }
}

/// Where a search ends that finds nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// Seconds of trials after which it ends with what it has.
    pub duration_max_s: f64,
    /// So many trials that say nothing, one after another, end it without a result.
    pub invalid_max: u32,
}

impl Default for Patience {
    /// An hour, three trials.
    fn default() -> Self {
        let Settings {
            duration_max_s,
            invalid_max,
            ..
        } = Settings::between(1.0, 2.0);
        Self {
            duration_max_s,
            invalid_max,
        }
    }
}

impl Patience {
    fn of(&self, settings: Settings) -> Settings {
        Settings {
            duration_max_s: self.duration_max_s,
            invalid_max: self.invalid_max,
            ..settings
        }
    }
}

/// The least work that is tried: so small a part of the time between two packets.
const PART_MIN: f64 = 1e-3;
/// The most: so much more than all cores' time between two packets.
const PART_MAX: f64 = 1.25;

/// Finds the headroom of a system whose packets are worked on by `cores` cores, at `packets_per_s`.
///
/// Work is tried from a thousandth of the cores' time to more than all of it.
///
/// # Errors
/// [`SearchError`]: also if the rate is not above zero.
pub fn find<E>(
    goal: &Goal,
    packets_per_s: f64,
    cores: u32,
    patience: &Patience,
    trial: &mut impl FnMut(Load) -> Result<Option<TrialOutput>, E>,
) -> Result<Headroom, SearchError<E>> {
    if !(packets_per_s > 0.0 && packets_per_s.is_finite()) || cores == 0 {
        return Err(SearchError::Settings(
            "headroom is that of at least one core at a packet rate above 0",
        ));
    }
    let each_ns = f64::from(cores) * 1e9 / packets_per_s;
    let mut at_work = AtWork {
        packets_per_s,
        trial,
    };
    let settings = patience.of(Settings::between(PART_MIN * each_ns, PART_MAX * each_ns));
    let outcome = search(std::slice::from_ref(goal), &settings, &mut at_work)?;
    Ok(Headroom {
        packets_per_s,
        found: outcome.results[0],
        outcome,
    })
}

/// The search's loads are nanoseconds of work a packet.
struct AtWork<'a, F> {
    packets_per_s: f64,
    trial: &'a mut F,
}

impl<E, F: FnMut(Load) -> Result<Option<TrialOutput>, E>> Measurer for AtWork<'_, F> {
    type Error = E;

    fn measure(&mut self, input: TrialInput) -> Result<Option<TrialOutput>, E> {
        (self.trial)(Load {
            packets_per_s: self.packets_per_s,
            work_ns_per_packet: input.load,
            duration_s: input.duration_s,
        })
    }
}
