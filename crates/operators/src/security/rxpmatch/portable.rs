//! The oracle: each rule by itself, by regex-automata's lazy DFA, which keeps every thread until the first match.

use std::sync::Arc;

use dpb_core::{Batch, BatchOut, JobError, SetupError};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Input, MatchKind};

use super::live::Matcher;
use super::loaded::Loaded;
use super::rules::Rules;
use super::{Match, write};

/// Every rule as an automaton of its own.
pub(super) struct Oracle {
    rules: Vec<(u32, DFA)>,
}

/// Bytes of states that are kept, of one rule and of all; more are found anew.
const CACHE_BYTES_MAX: usize = 1 << 20;
const CACHES_BYTES: usize = 64 << 20;

impl Oracle {
    pub(super) fn new(rules: &Rules) -> Self {
        let config = DFA::config()
            // Nothing is dropped in favour of a preferred match, so the first end is the smallest.
            .match_kind(MatchKind::All)
            .cache_capacity(CACHE_BYTES_MAX.min(CACHES_BYTES / rules.rules().len().max(1)))
            .skip_cache_capacity_check(true);
        let dfa = |nfa| {
            let dfa = DFA::builder().configure(config.clone()).build_from_nfa(nfa);
            dfa.expect("no Unicode word boundary, no limit")
        };
        let rules = rules.rules().iter();
        Self {
            rules: rules.map(|rule| (rule.id, dfa(rule.nfa.clone()))).collect(),
        }
    }

    /// Room for each rule's states.
    pub(super) fn caches(&self) -> Vec<Cache> {
        self.rules
            .iter()
            .map(|(_, dfa)| dfa.create_cache())
            .collect()
    }

    /// The matches in each item.
    pub(super) fn matches(&self, caches: &mut [Cache], items: &[&[u8]]) -> Vec<Vec<Match>> {
        let mut found = vec![Vec::new(); items.len()];
        for ((id, dfa), cache) in self.rules.iter().zip(caches) {
            for (item, found) in items.iter().zip(&mut found) {
                let input = Input::new(*item).earliest(true);
                let end = dfa.try_search_fwd(cache, &input);
                if let Some(end) = end.expect("no byte ends the search") {
                    let end = end.offset() as u32;
                    found.push(Match { id: *id, end });
                }
            }
        }
        found
    }
}

impl Matcher for Oracle {
    type Scratch = Vec<Cache>;

    fn new(rules: &Arc<Loaded>) -> Result<Self, SetupError> {
        Ok(Self::new(rules))
    }

    fn scratch(&self) -> Vec<Cache> {
        self.caches()
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        caches: &mut Vec<Cache>,
    ) -> Result<(), JobError> {
        let items: Vec<&[u8]> = (0..batch.len()).map(|i| batch.item(i)).collect();
        let found = self.matches(caches, &items);
        for (i, found) in found.iter().enumerate() {
            let slot = &mut out.slots[i];
            out.outcomes.push(write(found, slot));
        }
        Ok(())
    }
}

/// The output for these matches.
pub(super) fn output(found: &[Match]) -> Result<Vec<u8>, JobError> {
    let mut bytes = vec![0; found.len() * Match::BYTES];
    write(found, &mut bytes).map(|_| bytes)
}
