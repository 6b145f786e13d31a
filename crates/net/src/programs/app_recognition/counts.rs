//! What a shard counted, for threads that are not the shard's: [`Totals`].

use std::sync::{Mutex, PoisonError};

use super::Action;

/// What was counted of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that came.
    pub packets: u64,
    /// Packets that are no IP. They go on as those of undecided flows do.
    pub others: u64,
    /// Packets that were refused, as their headers contradict themselves or are cut short.
    pub refused: u64,
    /// Packets without a flow, as the table was full. They go on as those of undecided flows do.
    pub full: u64,
    /// Flows that began.
    pub began: u64,
    /// Flows that ended.
    pub ended: u64,
    /// Packets that the recognizer looked into.
    pub inspected: u64,
    /// Flows that were decided by what they said, rules included, some of them at their end.
    pub decided: u64,
    /// Of these, flows that a rule decided.
    pub by_rule: u64,
    /// Flows that were given up; some have a guess.
    pub given_up: u64,
    /// Packets of each [`Action`], by its number.
    pub actions: [u64; 5],
    /// Of those to compress, packets with a payload: the others pass by.
    pub to_compress: u64,
    /// Starts of streams that rules have seen, and their bytes.
    pub rule_items: u64,
    /// See `rule_items`.
    pub rule_bytes: u64,
    /// Of these starts, those that the engine refused or whose job failed.
    pub rule_failed: u64,
}

impl Totals {
    /// Packets of this action.
    pub fn of(&self, action: Action) -> u64 {
        self.actions[action as usize]
    }
}

/// The counters of a shard, for other threads.
#[derive(Debug, Default)]
pub struct Counts(Mutex<Totals>);

impl Counts {
    /// The counters as of the last burst.
    pub fn read(&self) -> Totals {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, totals: &Totals) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = *totals;
    }
}
