//! Tests of text as automata over bytes: LIKE, comparison with a constant, membership.
//!
//! One mechanism for all of them, because an automaton over bytes becomes one over FSST codes by running each symbol through
//! it ([`super::codes`]), so text is tested without being decoded. A pattern whose automaton would be too large
//! (many `_` after a `%`) is matched by backtracking on decoded text.

use std::collections::{BTreeSet, HashMap};

use super::ScanError;
use super::order::holds;
use crate::query::CompareOp;

/// A test of a text.
#[derive(Clone, Debug)]
pub(super) struct Automaton {
    test: Test,
    table: Option<Table>,
    negated: bool,
}

/// The test of a text.
#[derive(Clone, Debug)]
enum Test {
    Like(Vec<Token>),
    Compare(CompareOp, Vec<u8>),
    AnyOf(BTreeSet<Vec<u8>>),
}

/// A piece of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// One character.
    One,
    /// Any run of characters.
    Many,
}

/// Transitions of a deterministic automaton. States from `absorbing` on are never left.
#[derive(Clone, Debug)]
pub(super) struct Table {
    next: Vec<[u16; 256]>,
    accepts: Vec<bool>,
    start: u16,
    absorbing: u16,
}

/// Bytes of a state in a table, and again in each thread.
pub(super) const STATE_BYTES: usize = size_of::<[u16; 256]>() + size_of::<bool>();

/// What all tables of a plan may take; a test for which too little is left does without one.
#[derive(Debug)]
pub(super) struct Budget {
    /// States, of [`STATE_BYTES`] each.
    states: usize,
    /// Places looked at by subset constructions, whether they end in a table or not.
    places: usize,
}

impl Budget {
    /// For tables of so many bytes. What subset constructions look at bounds their time, some milliseconds, and their sets.
    pub(super) fn new(table_bytes: usize) -> Self {
        Self {
            states: table_bytes / STATE_BYTES,
            places: 1 << 17,
        }
    }

    /// Most states that the next table may have.
    fn states(&self) -> usize {
        self.states.min(STATES_MAX)
    }

    /// A table, or its states back.
    fn pay(&mut self, make: impl FnOnce(&mut Self) -> Option<Table>) -> Option<Table> {
        let states = self.states;
        let table = make(self);
        if table.is_none() {
            self.states = states;
        }
        table
    }
}

/// More states than this are not tabulated.
const STATES_MAX: usize = 2048;
/// Needles of a pattern that are looked for, and bytes of each: a few rare bytes tell nearly all that a filter can.
const NEEDLES_MAX: usize = 8;
/// Bytes of a needle, at most.
const NEEDLE_BYTES_MAX: usize = 32;
/// Longest pattern or constant.
const TEXT_BYTES_MAX: usize = 1 << 16;

impl Automaton {
    /// `text LIKE pattern ESCAPE escape`.
    pub(super) fn like(
        pattern: &str,
        escape: Option<char>,
        budget: &mut Budget,
    ) -> Result<Self, ScanError> {
        check_len(pattern.len())?;
        let tokens = tokens(pattern, escape)?;
        let table = budget.pay(|budget| like_table(&tokens, budget));
        Ok(Self {
            test: Test::Like(tokens),
            table,
            negated: false,
        })
    }

    /// `text op constant`, by bytes.
    pub(super) fn compare(
        op: CompareOp,
        constant: &[u8],
        budget: &mut Budget,
    ) -> Result<Self, ScanError> {
        check_len(constant.len())?;
        if op == CompareOp::NotEqual {
            return Ok(Self::compare(CompareOp::Equal, constant, budget)?.negated(true));
        }
        Ok(Self {
            test: Test::Compare(op, constant.to_vec()),
            table: budget.pay(|budget| compare_table(op, constant, budget)),
            negated: false,
        })
    }

    /// `text IN (texts)`.
    pub(super) fn any_of(texts: &[&[u8]], budget: &mut Budget) -> Result<Self, ScanError> {
        check_len(texts.iter().map(|text| text.len()).max().unwrap_or(0))?;
        if let [text] = texts {
            return Self::compare(CompareOp::Equal, text, budget);
        }
        let texts: BTreeSet<Vec<u8>> = texts.iter().map(|text| text.to_vec()).collect();
        let table = budget.pay(|budget| any_of_table(&texts, budget));
        Ok(Self {
            test: Test::AnyOf(texts),
            table,
            negated: false,
        })
    }

    /// Turned over if `negated`.
    pub(super) fn negated(mut self, negated: bool) -> Self {
        self.negated ^= negated;
        self
    }

    /// Returns true if what [`Automaton::table`] and [`Automaton::needles`] say is turned over.
    pub(super) fn is_negated(&self) -> bool {
        self.negated
    }

    /// The transitions, before any negation, if they are few enough.
    pub(super) fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// Returns true if `text` (UTF-8) passes.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let found = match &self.table {
            Some(table) => table.matches(text),
            None => match &self.test {
                Test::Like(tokens) => like(tokens, text),
                Test::Compare(op, constant) => holds(*op, text.cmp(constant)),
                Test::AnyOf(texts) => texts.contains(text),
            },
        };
        found != self.negated
    }

    /// Some runs of bytes that each occur in every text that passes, before any negation.
    pub(super) fn needles(&self) -> Vec<Vec<u8>> {
        match &self.test {
            Test::Like(tokens) => tokens
                .split(|token| !matches!(token, Token::Byte(_)))
                .filter(|run| !run.is_empty())
                .take(NEEDLES_MAX)
                .map(|run| {
                    run.iter()
                        .take(NEEDLE_BYTES_MAX)
                        .filter_map(|token| match token {
                            Token::Byte(byte) => Some(*byte),
                            Token::One | Token::Many => None,
                        })
                        .collect()
                })
                .collect(),
            Test::Compare(CompareOp::Equal, constant) if !constant.is_empty() => {
                vec![constant[..constant.len().min(NEEDLE_BYTES_MAX)].to_vec()]
            }
            Test::Compare(..) | Test::AnyOf(_) => Vec::new(),
        }
    }
}

impl Table {
    /// States, numbered from 0.
    pub(super) fn states(&self) -> usize {
        self.next.len()
    }

    /// The state in which every text starts.
    pub(super) fn start(&self) -> u16 {
        self.start
    }

    /// The first of the states that are never left.
    pub(super) fn absorbing(&self) -> u16 {
        self.absorbing
    }

    /// Returns true if a text that ends here passes.
    pub(super) fn accepts(&self, state: u16) -> bool {
        self.accepts[usize::from(state)]
    }

    /// The state that `bytes` lead to from `state`.
    pub(super) fn run(&self, mut state: u16, bytes: &[u8]) -> u16 {
        for byte in bytes {
            state = self.next[usize::from(state)][usize::from(*byte)];
        }
        state
    }

    fn matches(&self, text: &[u8]) -> bool {
        let mut state = self.start;
        for byte in text {
            if state >= self.absorbing {
                break;
            }
            state = self.next[usize::from(state)][usize::from(*byte)];
        }
        self.accepts(state)
    }

    /// Numbers states that are never left last.
    fn new(next: Vec<[u16; 256]>, accepts: Vec<bool>) -> Self {
        let absorbs = |state: usize| next[state].iter().all(|&to| usize::from(to) == state);
        let mut order: Vec<usize> = (0..next.len()).collect();
        order.sort_by_key(|&state| absorbs(state));
        let mut number = vec![0; next.len()];
        for (new, &old) in order.iter().enumerate() {
            number[old] = new as u16;
        }
        Self {
            absorbing: order.iter().filter(|&&state| !absorbs(state)).count() as u16,
            start: number[0],
            next: order
                .iter()
                .map(|&old| next[old].map(|to| number[usize::from(to)]))
                .collect(),
            accepts: order.iter().map(|&old| accepts[old]).collect(),
        }
    }
}

fn check_len(len: usize) -> Result<(), ScanError> {
    if len > TEXT_BYTES_MAX {
        return Err(ScanError::Type(format!(
            "a text constant of {len} bytes, at most {TEXT_BYTES_MAX} are taken"
        )));
    }
    Ok(())
}

fn tokens(pattern: &str, escape: Option<char>) -> Result<Vec<Token>, ScanError> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let literal = if Some(c) == escape {
            chars.next().ok_or_else(|| {
                ScanError::Type("LIKE: the pattern ends with its escape character".to_owned())
            })?
        } else if c == '%' {
            if tokens.last() != Some(&Token::Many) {
                tokens.push(Token::Many);
            }
            continue;
        } else if c == '_' {
            tokens.push(Token::One);
            continue;
        } else {
            c
        };
        let mut bytes = [0; 4];
        tokens.extend(literal.encode_utf8(&mut bytes).bytes().map(Token::Byte));
    }
    Ok(tokens)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// A position in the pattern, and whether the character that led there may still have continuation bytes.
type Place = (u16, bool);

/// Adds `place` and what follows without a byte.
fn reach(tokens: &[Token], places: &mut BTreeSet<Place>, place: Place) {
    places.insert(place);
    if tokens.get(usize::from(place.0)) == Some(&Token::Many) {
        reach(tokens, places, (place.0 + 1, false));
    }
}

/// The bytes that tell anything apart: literals, and of other bytes one that continues a character and one that does not.
struct Alphabet {
    literals: Vec<u8>,
    lead: Option<u8>,
    continuation: Option<u8>,
}

impl Alphabet {
    fn of(tokens: &[Token]) -> Self {
        let mut literals: Vec<u8> = tokens
            .iter()
            .filter_map(|token| match token {
                Token::Byte(byte) => Some(*byte),
                Token::One | Token::Many => None,
            })
            .collect();
        literals.sort_unstable();
        literals.dedup();
        let other = |continuation| {
            (0..=255u8).find(|byte| {
                is_continuation(*byte) == continuation && literals.binary_search(byte).is_err()
            })
        };
        Self {
            lead: other(false),
            continuation: other(true),
            literals,
        }
    }

    /// The states that all bytes lead to, by a step for each byte that tells something apart.
    fn row(&self, mut step: impl FnMut(u8) -> Option<u16>) -> Option<[u16; 256]> {
        let lead = self.lead.map_or(Some(0), &mut step)?;
        let continuation = self.continuation.map_or(Some(0), &mut step)?;
        let mut row: [u16; 256] = std::array::from_fn(|byte| {
            if is_continuation(byte as u8) {
                continuation
            } else {
                lead
            }
        });
        for &byte in &self.literals {
            row[usize::from(byte)] = step(byte)?;
        }
        Some(row)
    }
}

/// The places after `byte`. Once a `%` is reached, nothing before it matters: whatever it could lead to, the `%` can too.
fn after(tokens: &[Token], places: &BTreeSet<Place>, byte: u8) -> BTreeSet<Place> {
    let mut after = BTreeSet::new();
    for &(at, inside) in places {
        if inside && is_continuation(byte) {
            after.insert((at, true));
        }
        match tokens.get(usize::from(at)) {
            Some(Token::Byte(literal)) if *literal == byte => {
                reach(tokens, &mut after, (at + 1, false));
            }
            Some(Token::One) if !is_continuation(byte) => {
                reach(tokens, &mut after, (at + 1, true));
            }
            Some(Token::Many) => reach(tokens, &mut after, (at, false)),
            _ => {}
        }
    }
    let last_many = after
        .iter()
        .rev()
        .find(|place| tokens.get(usize::from(place.0)) == Some(&Token::Many))
        .copied();
    if let Some((many, _)) = last_many {
        after.retain(|place| place.0 >= many);
        after.remove(&(many, true));
        after.insert((many, false));
    }
    after
}

/// The subset construction.
fn like_table(tokens: &[Token], budget: &mut Budget) -> Option<Table> {
    let states_max = budget.states();
    // Each character that a text must have is a state of its own, and so is the end.
    let characters = tokens.iter().filter(|token| **token != Token::Many);
    if characters.count() >= states_max {
        return None;
    }
    let mut start = BTreeSet::new();
    reach(tokens, &mut start, (0, false));
    let mut known = HashMap::from([(start.clone(), 0u16)]);
    let mut pending = vec![start];
    let (mut next, mut accepts) = (Vec::new(), Vec::new());
    let alphabet = Alphabet::of(tokens);
    while next.len() < pending.len() {
        let places = pending[next.len()].clone();
        let ends = |place: &Place| usize::from(place.0) == tokens.len();
        accepts.push(places.iter().any(ends));
        budget.states = budget.states.checked_sub(1)?;
        let row = alphabet.row(|byte| {
            budget.places = budget.places.checked_sub(places.len())?;
            let after = after(tokens, &places, byte);
            if let Some(&state) = known.get(&after) {
                return Some(state);
            }
            if pending.len() >= states_max {
                return None;
            }
            let state = pending.len() as u16;
            known.insert(after.clone(), state);
            pending.push(after);
            Some(state)
        })?;
        next.push(row);
    }
    Some(Table::new(next, accepts))
}

/// State *i* has seen the constant's first *i* bytes; two more say less and greater.
fn compare_table(op: CompareOp, constant: &[u8], budget: &mut Budget) -> Option<Table> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let len = constant.len();
    if len + 3 > budget.states() {
        return None;
    }
    budget.states -= len + 3;
    let (less, greater) = (len as u16 + 1, len as u16 + 2);
    let mut next: Vec<[u16; 256]> = constant
        .iter()
        .enumerate()
        .map(|(i, expected)| {
            std::array::from_fn(|byte| match (byte as u8).cmp(expected) {
                Less => less,
                Equal => i as u16 + 1,
                Greater => greater,
            })
        })
        .collect();
    next.extend([[greater; 256], [less; 256], [greater; 256]]);
    // A text that ends early is less.
    let mut accepts = vec![holds(op, Less); len];
    accepts.extend([holds(op, Equal), holds(op, Less), holds(op, Greater)]);
    Some(Table::new(next, accepts))
}

/// A trie, and one state for whatever left it.
fn any_of_table(texts: &BTreeSet<Vec<u8>>, budget: &mut Budget) -> Option<Table> {
    let states_max = budget.states();
    budget.states = budget.states.checked_sub(2)?;
    const LOST: u16 = 1;
    let (mut next, mut accepts) = (vec![[LOST; 256], [LOST; 256]], vec![false, false]);
    for text in texts {
        let mut state = 0usize;
        for &byte in text {
            let to = next[state][usize::from(byte)];
            state = if to == LOST {
                if next.len() >= states_max {
                    return None;
                }
                budget.states -= 1;
                next[state][usize::from(byte)] = next.len() as u16;
                next.push([LOST; 256]);
                accepts.push(false);
                next.len() - 1
            } else {
                usize::from(to)
            };
        }
        accepts[state] = true;
    }
    Some(Table::new(next, accepts))
}

/// LIKE by backtracking to the last `%`.
fn like(tokens: &[Token], text: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let stepped = match tokens.get(token) {
            None => at == text.len(),
            Some(Token::Many) => {
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            Some(Token::Byte(byte)) => text.get(at) == Some(byte),
            Some(Token::One) => at < text.len(),
        };
        match (stepped, tokens.get(token)) {
            (true, None) => return true,
            (true, Some(Token::One)) => {
                at += 1;
                while text.get(at).is_some_and(|&byte| is_continuation(byte)) {
                    at += 1;
                }
                token += 1;
            }
            (true, Some(_)) => {
                at += 1;
                token += 1;
            }
            (false, _) => {
                let Some((resume, from)) = retry else {
                    return false;
                };
                if from >= text.len() {
                    return false;
                }
                let mut from = from + 1;
                while text.get(from).is_some_and(|&byte| is_continuation(byte)) {
                    from += 1;
                }
                retry = Some((resume, from));
                (token, at) = (resume, from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scan::TABLES_BYTES_MAX;

    fn budget() -> Budget {
        Budget::new(TABLES_BYTES_MAX)
    }

    /// LIKE by its definition, on characters.
    fn by_definition(pattern: &[char], escape: Option<char>, text: &[char]) -> bool {
        match (pattern, text) {
            ([], text) => text.is_empty(),
            ([e, c, rest @ ..], _) if Some(*e) == escape => {
                text.first() == Some(c) && by_definition(rest, escape, &text[1..])
            }
            (['%', rest @ ..], _) => {
                (0..=text.len()).any(|skip| by_definition(rest, escape, &text[skip..]))
            }
            (['_', rest @ ..], [_, text @ ..]) => by_definition(rest, escape, text),
            ([c, rest @ ..], [d, text @ ..]) => c == d && by_definition(rest, escape, text),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn like_agrees_with_its_definition(
            pattern in "[ab%_é😀!]{0,8}",
            text in "[abé😀]{0,10}",
            escaping: bool,
        ) {
            let escape = escaping.then_some('!');
            let chars: Vec<char> = pattern.chars().collect();
            let Ok(automaton) = Automaton::like(&pattern, escape, &mut budget()) else {
                prop_assert!(escaping && pattern.ends_with('!'));
                return Ok(());
            };
            let expected = by_definition(&chars, escape, &text.chars().collect::<Vec<_>>());
            prop_assert_eq!(automaton.matches(text.as_bytes()), expected);
            prop_assert_eq!(like(&tokens(&pattern, escape).unwrap(), text.as_bytes()), expected);
            prop_assert_eq!(automaton.clone().negated(true).matches(text.as_bytes()), !expected);
            if expected {
                for needle in automaton.needles() {
                    prop_assert!(text.as_bytes().windows(needle.len()).any(|w| w == needle));
                }
            }
        }

        #[test]
        fn comparisons_and_lists_agree_with_slices(
            constant in "[ab]{0,4}", text in "[abc]{0,5}", list in prop::collection::vec("[ab]{0,3}", 0..5),
        ) {
            use CompareOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
            for op in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
                let automaton = Automaton::compare(op, constant.as_bytes(), &mut budget()).unwrap();
                prop_assert_eq!(automaton.matches(text.as_bytes()), holds(op, text.cmp(&constant)));
            }
            let texts: Vec<&[u8]> = list.iter().map(|text| text.as_bytes()).collect();
            prop_assert_eq!(Automaton::any_of(&texts, &mut budget()).unwrap().matches(text.as_bytes()), list.contains(&text));
        }
    }

    #[test]
    fn a_pattern_too_large_for_a_table_still_matches() {
        let pattern = format!("%a{}b%", "_".repeat(30));
        let automaton = Automaton::like(&pattern, None, &mut budget()).unwrap();
        assert!(automaton.table().is_none());
        let text = format!("xxa{}byy", "a".repeat(30));
        assert!(automaton.matches(text.as_bytes()));
        assert!(!automaton.matches(text.replace('b', "c").as_bytes()));
    }

    #[test]
    fn a_pattern_longer_than_any_table_costs_none_of_the_budget() {
        let mut budget = budget();
        let (states, places) = (budget.states, budget.places);
        let pattern = format!("%{}%", "ab".repeat(30_000));
        let automaton = Automaton::like(&pattern, None, &mut budget).unwrap();
        assert!(automaton.table().is_none());
        assert_eq!((budget.states, budget.places), (states, places));
        assert!(automaton.matches(&[b"x", "ab".repeat(30_000).as_bytes()].concat()));
        assert!(!automaton.matches("ab".repeat(29_999).as_bytes()));
        let looked_for: usize = automaton.needles().iter().map(Vec::len).sum();
        assert!((1..100).contains(&looked_for));
    }

    #[test]
    fn many_tests_share_one_budget_and_all_match() {
        let mut budget = budget();
        let patterns: Vec<String> = (0..40)
            .map(|i| format!("%a{}{i}%", "_".repeat(9)))
            .collect();
        let all: Vec<Automaton> = patterns
            .iter()
            .map(|pattern| Automaton::like(pattern, None, &mut budget).unwrap())
            .collect();
        let states: usize = all
            .iter()
            .filter_map(|one| one.table())
            .map(Table::states)
            .sum();
        assert!(all[0].table().is_some() && all[39].table().is_none());
        assert!(states <= 1 << 12, "{states} states");
        for (i, one) in all.iter().enumerate() {
            assert!(one.matches(format!("xabbbbbbbbb{i}y").as_bytes()));
            assert!(!one.matches(format!("xbbbbbbbbbb{i}y").as_bytes()));
        }
    }
}
