//! Requests over a connection: when they are made, and how long each took.

use std::collections::VecDeque;

use dpb_core::measure::latency::Latencies;
use dpb_core::random::SplitMix64;

use super::arrivals::{Arrivals, Rate, exponential_ps};
use crate::kernel::NANOSECOND_PS;

/// The times at which requests are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A closed loop: each follows the answer to the one before, after the time that a user thinks.
    Closed {
        /// The time of thinking in picoseconds; its mean, if it is exponentially distributed.
        think_ps: u64,
        /// True if it is exponentially distributed.
        is_exponential: bool,
        /// The seed of times that vary.
        seed: u64,
    },
    /// An open loop: they come whether or not earlier ones are answered.
    Open {
        /// When.
        rate: Rate,
        /// The seed of gaps that vary.
        seed: u64,
    },
}

impl Pace {
    /// Each request follows the answer at once.
    pub const BACK_TO_BACK: Self = Self::Closed {
        think_ps: 0,
        is_exponential: false,
        seed: 0,
    };
}

/// The requests of a connection.
#[derive(Clone, Debug)]
pub struct Asking {
    pace: Pace,
    random: SplitMix64,
    arrivals: Option<Arrivals>,
    requests: u64,
    asked: u64,
    /// The times for which requests without an answer were intended.
    due_ps: VecDeque<u64>,
    /// Time from the intended begin of each request to the end of its answer, in nanoseconds rounded up.
    pub latencies: Latencies,
    /// The same, of all together, in picoseconds.
    pub latency_ps: u128,
}

impl Asking {
    /// An asker of `requests` requests, at this pace, from now on.
    pub fn new(pace: Pace, requests: u64, now_ps: u64) -> Self {
        let (arrivals, seed) = match pace {
            Pace::Closed { seed, .. } => (None, seed),
            Pace::Open { rate, seed } => (Some(Arrivals::new(rate, now_ps, seed)), seed),
        };
        Self {
            pace,
            random: SplitMix64::new(seed),
            arrivals,
            requests,
            asked: 0,
            due_ps: VecDeque::new(),
            latencies: Latencies::default(),
            latency_ps: 0,
        }
    }

    /// The time of the next request of an open loop, if there is one more.
    pub fn next_ps(&self) -> Option<u64> {
        let arrivals = self.arrivals.as_ref()?;
        (self.asked < self.requests).then(|| arrivals.next_ps())
    }

    /// The requests that were made so far.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// The requests that wait for an answer.
    pub fn open(&self) -> usize {
        self.due_ps.len()
    }

    /// A request is made now. Gives the time of the next, if that does not depend on an answer.
    pub fn ask(&mut self, now_ps: u64) -> Option<u64> {
        self.asked += 1;
        self.due_ps.push_back(now_ps);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.advance();
        }
        self.next_ps()
    }

    /// The answer to the oldest request has come. Gives the time of the next request, if that depends on the answer.
    pub fn answered(&mut self, now_ps: u64) -> Option<u64> {
        if let Some(due_ps) = self.due_ps.pop_front() {
            let took_ps = now_ps - due_ps;
            self.latency_ps += u128::from(took_ps);
            self.latencies.record(took_ps.div_ceil(NANOSECOND_PS));
        }
        match self.pace {
            Pace::Closed {
                think_ps,
                is_exponential,
                ..
            } if self.asked < self.requests => {
                let think_ps = match is_exponential {
                    true => exponential_ps(&mut self.random, think_ps as f64),
                    false => think_ps,
                };
                Some(now_ps + think_ps)
            }
            _ => None,
        }
    }
}
