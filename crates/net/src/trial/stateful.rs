//! Systems with a table of connections: NAT, firewalls, load balancers (RFC 9693).
//!
//! One packet of a connection costs such a system more than all others, and an empty table is faster than a full one. So a *preliminary phase* makes the
//! connections, and the *real test phase* measures on those that there are; mixing both measures neither. Whether a connection was made is not
//! seen at the side that asked for it alone: the other side answers on each, and what comes back was known to the system.
//!
//! What is measured: how fast connections are made ([`establishment_rate`]), the throughput with so many of them ([`throughput`]), how fast they are
//! forgotten ([`tear_down_rate`]), and how many there may be ([`capacity`]).
//!
//! [`Tester`] does the phases between two ports.

mod ahead;
mod packets;
mod tester;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::search::{
    Goal, Measurer, Outcome, SearchError, Settings, TrialInput, TrialOutput, search,
};

pub use ahead::AheadClock;
pub use tester::{Forgetting, Tester, TesterError, Timing};

/// A system under test with its two sides: an *initiator* that begins connections, and a *responder*.
///
/// Connections have numbers; the same number is the same tuple, which is not to depend on the number in a way that a hash table could profit from (RFC
/// 4814).
pub trait Stateful {
    /// What ends the measurement.
    type Error;

    /// The initiator sends the first packet of each of these connections, `per_s` of them in a second. Says how many reached the
    /// responder; `None` if the initiator was late, or the count says nothing for another reason.
    ///
    /// # Errors
    /// If nothing can be measured any more.
    fn establish(
        &mut self,
        connections: Range<u64>,
        per_s: f64,
    ) -> Result<Option<u64>, Self::Error>;

    /// The responder sends a packet on each of these connections. Says how many reached the initiator: so many the system knows.
    ///
    /// # Errors
    /// If nothing can be measured any more.
    fn answer(&mut self, connections: Range<u64>, per_s: f64) -> Result<Option<u64>, Self::Error>;

    /// A trial over connections that there are, none new, in the directions that the test is about.
    ///
    /// # Errors
    /// If nothing can be measured any more.
    fn trial(
        &mut self,
        connections: Range<u64>,
        input: TrialInput,
    ) -> Result<Option<TrialOutput>, Self::Error>;

    /// Forgets all connections. Says how many seconds it took.
    ///
    /// # Errors
    /// If they cannot be forgotten.
    fn tear_down(&mut self) -> Result<f64, Self::Error>;
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StatefulError<E> {
    /// What the system said.
    #[error("a phase could not be done")]
    System(#[source] E),
    /// The initiator or the responder was late in so many tries, one after another.
    #[error("no phase of {connections} connections said anything, of {tried} one after another")]
    Invalid {
        /// Connections of the phase.
        connections: u64,
        /// Tries.
        tried: u32,
    },
    /// The preliminary phase did not make the connections that the test needs.
    #[error(
        "{established} of {connections} connections were established at {per_s:.0} a second; fill the table more slowly, or with fewer"
    )]
    NotFilled {
        /// Connections that were asked for.
        connections: u64,
        /// Those that the system knew.
        established: u64,
        /// The rate.
        per_s: f64,
    },
    /// Connections were still known after they had been torn down.
    #[error("{0} connections were still known after all had been torn down")]
    NotForgotten(u64),
    /// A number makes no sense.
    #[error("{0}")]
    Settings(&'static str),
    /// The search's.
    #[error(transparent)]
    Search(#[from] SearchError<E>),
}

/// How the preliminary phase is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// Connections.
    pub connections: u64,
    /// The rate at which they are made, and answered: one that the system keeps up with, such as half of its establishment rate.
    pub per_s: f64,
    /// So many phases that say nothing, one after another, end the measurement.
    pub invalid_max: u32,
}

const NO_CONNECTIONS: &str = "a phase has one connection at least";

/// A phase, again if it says nothing.
fn valid<E>(
    connections: u64,
    tries: u32,
    mut phase: impl FnMut() -> Result<Option<u64>, E>,
) -> Result<u64, StatefulError<E>> {
    for _ in 0..tries.max(1) {
        if let Some(count) = phase().map_err(StatefulError::System)? {
            return Ok(count);
        }
    }
    Err(StatefulError::Invalid {
        connections,
        tried: tries.max(1),
    })
}

/// Makes the connections in an empty table, and says how many the system knows.
fn fill<S: Stateful + ?Sized>(
    system: &mut S,
    Fill {
        connections,
        per_s,
        invalid_max,
    }: Fill,
) -> Result<u64, StatefulError<S::Error>> {
    // An attempt that said nothing may have made some of them.
    valid(connections, invalid_max, || {
        system.tear_down()?;
        system.establish(0..connections, per_s)
    })?;
    valid(connections, invalid_max, || {
        system.answer(0..connections, per_s)
    })
}

fn fill_all<S: Stateful + ?Sized>(
    system: &mut S,
    plan: Fill,
) -> Result<(), StatefulError<S::Error>> {
    if plan.connections == 0 {
        return Err(StatefulError::Settings(NO_CONNECTIONS));
    }
    let established = fill(system, plan)?;
    match established == plan.connections {
        true => Ok(()),
        false => Err(StatefulError::NotFilled {
            connections: plan.connections,
            established,
            per_s: plan.per_s,
        }),
    }
}

/// Trials of connections being made.
struct Establishing<'a, S: ?Sized> {
    system: &'a mut S,
    validation: Fill,
}

impl<S: Stateful + ?Sized> Measurer for Establishing<'_, S> {
    type Error = S::Error;

    fn measure(&mut self, input: TrialInput) -> Result<Option<TrialOutput>, S::Error> {
        let Fill {
            connections: max,
            per_s,
            invalid_max,
        } = self.validation;
        let connections = ((input.load * input.duration_s).round() as u64).clamp(1, max);
        self.system.tear_down()?;
        if self.system.establish(0..connections, input.load)?.is_none() {
            return Ok(None);
        }
        // Answers that were late say nothing of the load: they are sent again.
        for _ in 0..invalid_max.max(1) {
            if let Some(known) = self.system.answer(0..connections, per_s)? {
                return Ok(Some(TrialOutput {
                    loss_ratio: 1.0 - known.min(connections) as f64 / connections as f64,
                    effective_s: input.duration_s,
                }));
            }
        }
        Ok(None)
    }
}

/// The maximum rate at which connections are made (RFC 9693, 4.5), each in an empty table: a load of the search is connections a second, and a
/// connection is lost if the system does not let the responder's answer through.
///
/// A trial makes as many connections as its load and duration say, `validation.connections` at most: less than the table holds, so that a full table is not
/// taken for a slow one. The answers are sent at `validation.per_s`.
///
/// # Errors
/// [`StatefulError::Search`]; [`StatefulError::Settings`] if there are no connections.
pub fn establishment_rate<S: Stateful + ?Sized>(
    system: &mut S,
    validation: Fill,
    goals: &[Goal],
    settings: &Settings,
) -> Result<Outcome, StatefulError<S::Error>> {
    if validation.connections == 0 {
        return Err(StatefulError::Settings(NO_CONNECTIONS));
    }
    Ok(search(
        goals,
        settings,
        &mut Establishing { system, validation },
    )?)
}

/// The throughput over a table with `plan.connections` (RFC 9693, 4.6): they are made first, and the search's trials send on these alone.
///
/// # Errors
/// [`StatefulError`].
pub fn throughput<S: Stateful + ?Sized>(
    system: &mut S,
    plan: Fill,
    goals: &[Goal],
    settings: &Settings,
) -> Result<Outcome, StatefulError<S::Error>> {
    fill_all(system, plan)?;
    let mut trial = |input: TrialInput| system.trial(0..plan.connections, input);
    Ok(search(goals, settings, &mut trial)?)
}

/// Connections a second that are forgotten (RFC 9693, 4.7): a filled table is emptied at once, and the time is taken. No connection may be known after it.
///
/// # Errors
/// [`StatefulError`].
pub fn tear_down_rate<S: Stateful + ?Sized>(
    system: &mut S,
    plan: Fill,
) -> Result<f64, StatefulError<S::Error>> {
    fill_all(system, plan)?;
    let seconds = system.tear_down().map_err(StatefulError::System)?;
    let known = valid(plan.connections, plan.invalid_max, || {
        system.answer(0..plan.connections, plan.per_s)
    })?;
    if known > 0 {
        return Err(StatefulError::NotForgotten(known));
    }
    match seconds > 0.0 {
        true => Ok(plan.connections as f64 / seconds),
        false => Err(StatefulError::Settings(
            "a tear-down that takes no time has no rate: take more connections",
        )),
    }
}

/// What the table holds, in connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// So many were held, all of them.
    pub lower: u64,
    /// So many were not; `None` if `max` was held too.
    pub upper: Option<u64>,
}

/// The number of connections that the system holds at the same time (RFC 9693, 4.8): twice as many each time, from `plan.connections` on, until some are not
/// known; then between the two, until the bounds are a part of `width` of the upper one apart. At most `max` are tried.
///
/// # Errors
/// [`StatefulError`]; [`StatefulError::NotFilled`] if even the first number is too high.
pub fn capacity<S: Stateful + ?Sized>(
    system: &mut S,
    plan: Fill,
    max: u64,
    width: f64,
) -> Result<Capacity, StatefulError<S::Error>> {
    if plan.connections == 0 || plan.connections > max || !(width > 0.0 && width < 1.0) {
        return Err(StatefulError::Settings(
            "capacity is searched from one connection up, to no less, with a width between 0 and 1",
        ));
    }
    fill_all(system, plan)?;
    let mut holds = |connections: u64| -> Result<bool, StatefulError<S::Error>> {
        let plan = Fill {
            connections,
            ..plan
        };
        Ok(fill(system, plan)? == connections)
    };
    let mut lower = plan.connections;
    let mut upper = loop {
        if lower == max {
            return Ok(Capacity { lower, upper: None });
        }
        let next = lower.saturating_mul(2).min(max);
        if !holds(next)? {
            break next;
        }
        lower = next;
    };
    while upper - lower > 1 && (upper - lower) as f64 > width * upper as f64 {
        let middle = lower + (upper - lower) / 2;
        match holds(middle)? {
            true => lower = middle,
            false => upper = middle,
        }
    }
    Ok(Capacity {
        lower,
        upper: Some(upper),
    })
}
