//! What is accumulated of groups, and merged.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::{Deserialize, Serialize};

use super::super::ScanError;
use super::super::memory::Memory;
use super::{Aggregation, GROUPS_MAX, Part};

/// The extreme that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtremeSide {
    Least,
    Greatest,
}

/// The accumulated value of a [`Part`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum State {
    Nothing,
    Integer(i128),
    Double(f64),
    Text(Vec<u8>),
}

/// One group's accumulated parts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Accumulated {
    pub(super) count: u64,
    pub(super) states: Vec<State>,
}

/// A grouping column's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Key {
    Integer(i64),
    Text(Vec<u8>),
}

/// Groups by value.
#[derive(Debug, Default)]
pub(in crate::scan) struct Partial {
    pub(super) groups: HashMap<Vec<Key>, Accumulated>,
}

impl Aggregation {
    /// Adds one part's groups to another's.
    pub(in crate::scan) fn merge(
        &self,
        into: &mut Partial,
        from: Partial,
        memory: &Memory,
    ) -> Result<(), ScanError> {
        for (key, accumulated) in from.groups {
            into.add(key, accumulated, self, memory)?;
        }
        Ok(())
    }

    /// Gives back what the groups of a partial aggregate took from `memory`.
    pub(in crate::scan) fn give_back(&self, partial: &Partial, memory: &Memory) {
        memory.give_back(partial.groups.len() * self.partial_bytes());
    }
}

impl Accumulated {
    pub(super) fn new(parts: &[Part]) -> Self {
        Self {
            count: 0,
            states: vec![State::Nothing; parts.len()],
        }
    }

    fn merge(&mut self, other: Self, parts: &[Part]) -> Result<(), ScanError> {
        self.count = self
            .count
            .checked_add(other.count)
            .ok_or(ScanError::Overflow)?;
        for ((state, other), part) in self.states.iter_mut().zip(other.states).zip(parts) {
            state.merge(other, part)?;
        }
        Ok(())
    }
}

impl State {
    /// Takes in another's.
    pub(super) fn merge(&mut self, other: Self, part: &Part) -> Result<(), ScanError> {
        let replaces = match (&*self, &other, part) {
            (_, Self::Nothing, _) => false,
            (Self::Nothing, ..) => true,
            (Self::Integer(a), Self::Integer(b), Part::Sum(_)) => {
                *self = Self::Integer(a.checked_add(*b).ok_or(ScanError::Overflow)?);
                false
            }
            (Self::Integer(a), Self::Integer(b), Part::Extreme(_, side)) => side.prefers(b.cmp(a)),
            (Self::Text(a), Self::Text(b), Part::ExtremeText(_, side)) => side.prefers(b.cmp(a)),
            _ => return Err(ScanError::Internal("partial aggregates of two kinds")),
        };
        if replaces {
            *self = other;
        }
        Ok(())
    }
}

impl ExtremeSide {
    /// Returns true if a value that compares so with the best so far is better.
    pub(super) fn prefers(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Least => order.is_lt(),
            Self::Greatest => order.is_gt(),
        }
    }
}

impl Partial {
    /// The number of groups.
    pub(in crate::scan) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn add(
        &mut self,
        key: Vec<Key>,
        accumulated: Accumulated,
        aggregation: &Aggregation,
        memory: &Memory,
    ) -> Result<(), ScanError> {
        let groups = self.groups.len();
        match self.groups.entry(key) {
            Entry::Occupied(known) => known.into_mut().merge(accumulated, &aggregation.parts),
            Entry::Vacant(_) if groups == GROUPS_MAX => Err(ScanError::TooManyGroups(GROUPS_MAX)),
            Entry::Vacant(new) => {
                memory.take(aggregation.partial_bytes())?;
                new.insert(accumulated);
                Ok(())
            }
        }
    }
}
