//! The fast path: all rules in few automata, and few rules by themselves where a part of them was found; or, if there are
//! but few and they are literals, a search for these.

use std::sync::Arc;

use dpb_core::{Batch, BatchOut, JobError, SetupError};
use regex_automata::nfa::thompson::NFA;
use regex_syntax::hir::Hir;

use super::automaton::Automaton;
use super::live::Matcher;
use super::loaded::Loaded;
use super::plan::{Meaning, Pattern, Plan};
use super::rules::{self, Rules};
use super::scan::{Hit, Seen, TooManyStates, scan};
use super::sequence::Sequences;
use super::{Match, write};

/// Bytes of states of all automata that every payload goes through; each has its share.
const GROUPS_BYTES_MAX: usize = 64 << 20;
/// The most groups.
const GROUPS_MAX: usize = 64;
/// Bytes of states of one rule that is looked for only where a part of it was found, and of all these.
const CHECK_BYTES_MAX: usize = 1 << 20;
const CHECKS_BYTES_MAX: usize = 128 << 20;
/// Items until it is looked for the first time which rules are asked for too often; each time four times as many.
const REVIEW_ITEMS: usize = 512;
/// A hit in one of this number of items is too often.
const ITEMS_PER_ASK: usize = 16;
/// Of an automaton's Thompson form. Each of its rules passed a stricter limit.
const NFA_BYTES_MAX: usize = 2 << 30;

/// A rule set, ready.
pub(super) struct Engine {
    plan: Plan,
    /// Instead of all that follows.
    sequences: Option<Sequences>,
    ids: Vec<u32>,
    /// Of the plan's groups.
    nfas: Vec<NFA>,
    /// For states of all groups, each of which has its share.
    bytes_max: usize,
}

/// The findings of one queue's payloads so far.
pub(super) struct Scratch {
    groups: Vec<Group>,
    groups_bytes_max: usize,
    /// By rule.
    checks: Vec<Option<Automaton>>,
    checks_bytes: usize,
    /// By rule, in how many items it was asked for; and in how many it could have been.
    asks: Vec<usize>,
    items: usize,
    items_at_review: usize,
    /// For one pattern.
    seen_one: Seen,
    hits: Vec<Hit>,
    /// Rules and the items in which they might match.
    asked: Vec<(u32, u32)>,
    /// Matches; their patterns are rules.
    found: Vec<Hit>,
    line: Vec<Match>,
}

/// An automaton for every payload.
struct Group {
    automaton: Automaton,
    patterns: Vec<Pattern>,
    seen: Seen,
}

impl Engine {
    pub(super) fn new(rules: &Rules) -> Self {
        let plan = Plan::new(rules);
        Self {
            nfas: plan.groups().iter().map(|group| nfa(group)).collect(),
            sequences: Sequences::of(rules, &plan.rules),
            ids: rules.rules().iter().map(|rule| rule.id).collect(),
            plan,
            bytes_max: GROUPS_BYTES_MAX,
        }
    }

    /// The same engine with at most `bytes_max` bytes for states.
    #[cfg(test)]
    pub(super) fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }
}

impl Matcher for Engine {
    type Scratch = Scratch;

    fn new(rules: &Arc<Loaded>) -> Result<Self, SetupError> {
        Ok(Self::new(rules))
    }

    /// Nothing seen yet.
    fn scratch(&self) -> Scratch {
        let groups = self.plan.groups().into_iter().zip(&self.nfas);
        let bytes_max = self.bytes_max / self.nfas.len().max(1);
        Scratch {
            groups: groups
                .map(|(patterns, nfa)| Group::new(patterns, nfa.clone(), bytes_max))
                .collect(),
            groups_bytes_max: self.bytes_max,
            checks: (0..self.ids.len()).map(|_| None).collect(),
            checks_bytes: 0,
            asks: vec![0; self.ids.len()],
            items: 0,
            items_at_review: REVIEW_ITEMS,
            seen_one: Seen::of(1),
            hits: Vec::new(),
            asked: Vec::new(),
            found: Vec::new(),
            line: Vec::new(),
        }
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), JobError> {
        if let Some(sequences) = &self.sequences {
            for item in 0..batch.len() {
                scratch.line.clear();
                sequences.find(batch.item(item), &mut scratch.line);
                out.outcomes
                    .push(write(&scratch.line, &mut out.slots[item]));
            }
            return Ok(());
        }
        scratch.found.clear();
        scratch.asked.clear();
        scratch.scan_all(batch);
        scratch.check(&self.plan, batch);
        scratch.found.sort_unstable();
        let mut found = scratch.found.iter().peekable();
        for item in 0..batch.len() as u32 {
            scratch.line.clear();
            let mut put = |rule: u32, end| {
                let id = self.ids[rule as usize];
                scratch.line.push(Match { id, end });
            };
            self.plan.always.iter().for_each(|rule| put(*rule, 0));
            while let Some(hit) = found.next_if(|hit| hit.item == item) {
                put(hit.pattern, hit.end);
            }
            if !self.plan.always.is_empty() {
                scratch.line.sort_unstable_by_key(|found| found.id);
            }
            let slot = &mut out.slots[item as usize];
            out.outcomes.push(write(&scratch.line, slot));
        }
        Ok(())
    }
}

impl Scratch {
    /// Takes all items through the automata for all, which are divided where they have too many states.
    fn scan_all(&mut self, batch: Batch<'_>) {
        let mut at = 0;
        while at < self.groups.len() {
            let is_last_resort = self.groups.len() >= GROUPS_MAX;
            let group = &mut self.groups[at];
            let is_divisible = group.patterns.len() > 1 && !is_last_resort;
            self.hits.clear();
            let items = 0..batch.len() as u32;
            let Group {
                automaton, seen, ..
            } = group;
            match scan(
                automaton,
                (batch, items),
                seen,
                &mut self.hits,
                is_divisible,
            ) {
                Ok(()) => {
                    self.sort_out(at);
                    at += 1;
                }
                Err(TooManyStates) => self.divide(at),
            }
        }
    }

    /// Finds the matches behind the hits of a group.
    fn sort_out(&mut self, group: usize) {
        let patterns = &self.groups[group].patterns;
        for hit in &self.hits {
            match patterns[hit.pattern as usize].means {
                Meaning::Matches(rule) => self.found.push(Hit {
                    pattern: rule,
                    ..*hit
                }),
                Meaning::Asks(rule) => self.asked.push((rule, hit.item)),
            }
        }
    }

    /// Looks for rules where they were asked for.
    fn check(&mut self, plan: &Plan, batch: Batch<'_>) {
        self.asked.sort_unstable();
        for asked in self.asked.chunk_by(|a, b| a.0 == b.0) {
            let rule = asked[0].0;
            self.asks[rule as usize] += asked.len();
            let hir = &plan.rules[rule as usize];
            let automaton = self.checks[rule as usize].get_or_insert_with(|| {
                let nfa = rules::automaton(&[hir], NFA_BYTES_MAX).expect("it passed before");
                Automaton::new(nfa, &[false], CHECK_BYTES_MAX)
            });
            let before = automaton.bytes();
            let items = asked.iter().map(|(_, item)| *item);
            self.hits.clear();
            let seen = &mut self.seen_one;
            let Ok(()) = scan(automaton, (batch, items), seen, &mut self.hits, false) else {
                unreachable!("it does not give up")
            };
            self.checks_bytes = self.checks_bytes + automaton.bytes() - before;
            self.found.extend(self.hits.iter().map(|hit| Hit {
                pattern: rule,
                ..*hit
            }));
        }
        if self.checks_bytes > CHECKS_BYTES_MAX {
            self.checks.fill_with(|| None);
            self.checks_bytes = 0;
        }
        self.items += batch.len();
        if self.items >= self.items_at_review {
            self.review(plan);
        }
    }

    /// Looks everywhere for the rules that are asked for nearly everywhere.
    fn review(&mut self, plan: &Plan) {
        let mut promoted = Vec::new();
        for group in &mut self.groups {
            let before = promoted.len();
            group.patterns.retain(|pattern| match pattern.means {
                Meaning::Asks(rule) if self.asks[rule as usize] * ITEMS_PER_ASK > self.items => {
                    promoted.push(plan.whole(rule));
                    false
                }
                _ => true,
            });
            if promoted.len() > before {
                group.rebuild();
            }
        }
        if !promoted.is_empty() {
            let is_wild = |one: &Pattern| one.is_wild && !one.is_anchored;
            let is_wild = |group: &&mut Group| group.patterns.iter().all(is_wild);
            match self.groups.iter_mut().find(is_wild) {
                Some(group) => {
                    group.patterns.extend(promoted);
                    group.rebuild();
                }
                None => {
                    let nfa = nfa(&promoted);
                    self.groups
                        .push(Group::new(promoted, nfa, self.groups_bytes_max / 2));
                }
            }
        }
        self.groups.retain(|group| !group.patterns.is_empty());
        self.asks.fill(0);
        self.items = 0;
        self.items_at_review *= 4;
    }

    fn divide(&mut self, at: usize) {
        let bytes_max = self.groups_bytes_max / (self.groups.len() + 1);
        let [first, second] = self.groups[at].divided(bytes_max);
        self.groups[at] = first;
        self.groups.push(second);
    }
}

impl Group {
    fn new(patterns: Vec<Pattern>, nfa: NFA, bytes_max: usize) -> Self {
        let anchored: Vec<bool> = patterns.iter().map(|pattern| pattern.is_anchored).collect();
        Self {
            automaton: Automaton::new(nfa, &anchored, bytes_max),
            seen: Seen::of(patterns.len()),
            patterns,
        }
    }

    /// For the patterns that there are now.
    fn rebuild(&mut self) {
        let patterns = std::mem::take(&mut self.patterns);
        let nfa = nfa(&patterns);
        *self = Self::new(patterns, nfa, self.automaton.bytes_max());
    }

    /// Two of some of the patterns each: the anchored ones by themselves, else the wild ones, else half of them.
    fn divided(&mut self, bytes_max: usize) -> [Self; 2] {
        let mut patterns = std::mem::take(&mut self.patterns);
        let kinds: [fn(&Pattern) -> bool; 2] =
            [|pattern| !pattern.is_anchored, |pattern| !pattern.is_wild];
        let split = kinds.into_iter().find_map(|kind| {
            patterns.sort_by_key(kind);
            let split = patterns.partition_point(|pattern| !kind(pattern));
            (1..patterns.len()).contains(&split).then_some(split)
        });
        let second = patterns.split_off(split.unwrap_or(patterns.len() / 2));
        [patterns, second].map(|patterns| {
            let nfa = nfa(&patterns);
            Self::new(patterns, nfa, bytes_max)
        })
    }
}

fn nfa(patterns: &[Pattern]) -> NFA {
    let hirs: Vec<&Hir> = patterns.iter().map(|pattern| &pattern.hir).collect();
    rules::automaton(&hirs, NFA_BYTES_MAX).expect("the rules' own are smaller")
}
