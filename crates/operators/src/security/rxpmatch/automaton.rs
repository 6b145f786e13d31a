//! Deterministic automata of many rules at once, made state by state as payloads ask for them.
//!
//! A state is the set of Thompson's states that were entered by the last byte, what that byte was to the assertions, and
//! the rules whose matches ended before it: an assertion looks at the next byte too, so a match is known one byte late.
//! Threads that start anew at every byte are in no set: what they enter is found once for each byte and kept. A rule that
//! has matched loses its other threads there, for only the smallest end counts.
//!
//! There is a state only where a payload led. Where an automaton of all rules would have too many, as those of several
//! rules with `.*` inside, a payload still sees few. When there is no more room, states are forgotten.
//!
//! A table that is too large for the caches near a core is packed once payloads have been through it, and again when it has grown by a
//! quarter.

mod packed;

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

pub(super) use packed::Packed;

/// In a transition: not found yet.
pub(super) const UNKNOWN: u32 = u32::MAX;
/// In a transition: there is something to do before going on.
pub(super) const SPECIAL: u32 = 1 << 31;

/// In a transition: no byte leads on to a match. Special.
pub(super) const DEAD: u32 = u32::MAX - 1;

/// The class of the byte before, as assertions ask for it: no byte, a line feed, a letter, any other.
type Context = u8;
const AT_START: Context = 0;
const LINE_FEED: Context = 1;
const WORD: Context = 2;
const OTHER: Context = 3;
/// Behind the last byte of all.
const AT_END: Context = 4;
const CONTEXTS: usize = 4;

/// An automaton of some rules, as far as it is known.
pub(super) struct Automaton {
    program: Program,
    /// By state and class of bytes: the start of the next state's row, perhaps with [`SPECIAL`], or [`UNKNOWN`].
    table: Vec<u32>,
    states: Vec<Key>,
    index: HashMap<Key, u32>,
    /// Bytes of keys.
    key_bytes: usize,
    bytes_max: usize,
    start: u32,
    /// The number of transitions in the table that are not [`UNKNOWN`].
    known: usize,
    /// The number of them when the table was packed last.
    known_packed: usize,
    packed: Option<Packed>,
    /// The step of the threads that start before a byte of a class, by context and class.
    starts: Vec<Option<Box<Step>>>,
    scratch: Scratch,
}

/// The part that never changes.
struct Program {
    nfa: NFA,
    /// The pattern that each of Thompson's states belongs to.
    owners: Vec<u32>,
    /// The starts of the patterns that match anywhere, and of the patterns that match at the start only.
    starts: Vec<StateID>,
    anchored_starts: Vec<StateID>,
    /// Contexts that rules tell apart.
    has_line: bool,
    has_word: bool,
    has_start: bool,
    classes: [u8; 256],
    /// A byte of each class.
    examples: Vec<u8>,
}

/// Context, number of patterns that matched, these patterns, then Thompson's states, sorted.
type Key = Arc<[u32]>;

/// The step of a set of threads on a byte.
#[derive(Default)]
struct Step {
    matched: Vec<u32>,
    entered: Vec<StateID>,
}

#[derive(Default)]
struct Scratch {
    stack: Vec<StateID>,
    closure: Set,
    entered: Set,
    /// Patterns.
    matched: Set,
    key: Vec<u32>,
}

/// Small numbers, each once.
#[derive(Default)]
struct Set {
    members: Vec<u32>,
    /// The round in which a number was put in last.
    rounds: Vec<u32>,
    round: u32,
}

/// There is no room for another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Automaton {
    /// Of the patterns of `nfa`, those of `anchored` to match at the start of a payload only. States take up to
    /// `bytes_max`, or what a few of them need.
    pub(super) fn new(nfa: NFA, anchored: &[bool], bytes_max: usize) -> Self {
        let program = Program::new(nfa, anchored);
        let classes = program.stride();
        let mut automaton = Self {
            table: Vec::new(),
            states: Vec::new(),
            index: HashMap::new(),
            key_bytes: 0,
            bytes_max,
            start: 0,
            known: 0,
            packed: None,
            known_packed: 0,
            starts: (0..CONTEXTS * classes).map(|_| None).collect(),
            scratch: Scratch::new(&program),
            program,
        };
        automaton.forget();
        automaton
    }

    /// Forgets all states but the first.
    pub(super) fn forget(&mut self) {
        self.table.clear();
        self.states.clear();
        self.index.clear();
        self.key_bytes = 0;
        self.known = 0;
        self.packed = None;
        self.known_packed = 0;
        let key = self.program.first(&mut self.scratch);
        self.start = self.add(key);
    }

    /// The state before the first byte.
    pub(super) fn start(&self) -> u32 {
        self.start
    }

    /// Transitions, one row behind the other.
    pub(super) fn table(&self) -> &[u32] {
        &self.table
    }

    /// The column of each byte.
    pub(super) fn classes(&self) -> &[u8; 256] {
        &self.program.classes
    }

    /// The column behind the last byte.
    pub(super) fn end_class(&self) -> usize {
        self.program.stride() - 1
    }

    /// Packs the table if that is worth it, and only after something was found: payloads like those before allocate nothing.
    pub(super) fn pack(&mut self) {
        /// About the cache that a core has for itself on a small machine. In tests, tables are small.
        const TABLE_BYTES_MIN: usize = if cfg!(test) { 1 } else { 256 << 10 };
        /// A table that has grown by a quarter is packed again: finding what it has takes longer than that.
        const NEW_SHARE: usize = 4;
        let is_large = self.table.len() * 4 >= TABLE_BYTES_MIN;
        if is_large && self.known - self.known_packed > self.known_packed / NEW_SHARE {
            self.packed = Packed::of(&self.table, self.program.stride());
            self.known_packed = self.known;
        }
    }

    /// The table as it was packed last.
    pub(super) fn packed(&self) -> Option<&Packed> {
        self.packed.as_ref()
    }

    /// The number of states.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Bytes that states take.
    pub(super) fn bytes(&self) -> usize {
        let packed = self.packed.as_ref().map_or(0, Packed::bytes);
        self.table.len() * 4 + self.key_bytes + packed
    }

    /// Bytes that states may take.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The key of a state, to find it again when all were forgotten.
    pub(super) fn key(&self, state: u32) -> Key {
        self.states[state as usize / self.program.stride()].clone()
    }

    /// The state of a key.
    pub(super) fn state(&mut self, key: Key) -> u32 {
        match self.index.get(&key) {
            Some(state) => *state,
            None => self.add(key),
        }
    }

    /// The patterns of which a match ended before the byte that led to `state`.
    pub(super) fn matched(&self, state: u32) -> &[u32] {
        let key = &self.states[state as usize / self.program.stride()];
        &key[2..][..key[1] as usize]
    }

    /// Whether the first bytes of a payload may settle that nothing matches.
    pub(super) fn is_anchored(&self) -> bool {
        self.program.starts.is_empty()
    }

    /// Whether no byte leads on from `state` to a match.
    pub(super) fn is_dead(&self, state: u32) -> bool {
        let key = &self.states[state as usize / self.program.stride()];
        self.program.is_dead(key)
    }

    /// Finds the transition from `state` by a column, which was [`UNKNOWN`].
    ///
    /// # Errors
    /// If there is no room for where it leads.
    pub(super) fn find(&mut self, state: u32, class: usize) -> Result<u32, Full> {
        let stride = self.program.stride();
        let from = self.states[state as usize / stride].clone();
        let key = self.step(&from, class);
        let is_special = key[1] != 0;
        let entry = if !is_special && self.program.is_dead(&key) {
            DEAD
        } else {
            let next = match self.index.get(&key) {
                Some(next) => *next,
                None if self.is_full() => return Err(Full),
                None => self.add(key),
            };
            next | if is_special { SPECIAL } else { 0 }
        };
        self.table[state as usize + class] = entry;
        self.known += 1;
        Ok(entry)
    }

    /// A few states there must be room for: the payloads' under way, and where they lead.
    fn is_full(&self) -> bool {
        const STATES_MIN: usize = 64;
        self.bytes() >= self.bytes_max && self.len() >= STATES_MIN
    }

    fn add(&mut self, key: Key) -> u32 {
        let state = self.table.len() as u32;
        self.table
            .resize(self.table.len() + self.program.stride(), UNKNOWN);
        self.key_bytes += key.len() * 4;
        self.states.push(key.clone());
        self.index.insert(key, state);
        state
    }

    /// The state that follows `from` by a column.
    fn step(&mut self, from: &Key, class: usize) -> Key {
        let (program, scratch) = (&self.program, &mut self.scratch);
        let context = from[0] as Context;
        let threads = &from[2 + from[1] as usize..];
        program.close(threads, context, class, scratch);
        let place = context as usize * program.stride() + class;
        let starts =
            self.starts[place].get_or_insert_with(|| Box::new(program.start_step(context, class)));
        starts
            .matched
            .iter()
            .for_each(|pattern| scratch.matched.put(*pattern));
        program.enter(class, scratch);
        starts
            .entered
            .iter()
            .for_each(|id| scratch.entered.put(id.as_u32()));
        program.key(program.context_behind(class), scratch)
    }
}

impl Program {
    fn new(nfa: NFA, anchored: &[bool]) -> Self {
        let starts = |is_anchored| {
            let patterns = nfa.patterns().zip(anchored);
            let patterns = patterns.filter(|(_, anchored)| **anchored == is_anchored);
            let start = |(pattern, _)| nfa.start_pattern(pattern).expect("one of its own");
            patterns.map(start).collect()
        };
        let looks = nfa.look_set_any();
        let alphabet = nfa.byte_classes();
        let mut classes = [0; 256];
        for (byte, class) in (0..=255).zip(&mut classes) {
            *class = alphabet.get(byte);
        }
        let representative = |class| {
            let byte = (0..=255u8).find(|byte| classes[usize::from(*byte)] == class);
            byte.expect("no class is empty")
        };
        let last = classes[255];
        Self {
            owners: owners(&nfa),
            starts: starts(false),
            anchored_starts: starts(true),
            has_line: looks.contains_anchor_line(),
            has_word: looks.contains_word(),
            has_start: looks.contains_anchor(),
            classes,
            examples: (0..=last).map(representative).collect(),
            nfa,
        }
    }

    /// Columns: one for each class of bytes, and the end.
    fn stride(&self) -> usize {
        self.examples.len() + 1
    }

    fn byte(&self, class: usize) -> Option<u8> {
        self.examples.get(class).copied()
    }

    /// The context that a byte of a class gives to the next one, as far as some rule asks.
    fn context_behind(&self, class: usize) -> Context {
        match self.byte(class) {
            None => AT_END,
            Some(b'\n') if self.has_line => LINE_FEED,
            Some(byte) if self.has_word && is_word(byte) => WORD,
            Some(_) => OTHER,
        }
    }

    fn is_dead(&self, key: &Key) -> bool {
        self.starts.is_empty() && key.len() == 2 + key[1] as usize
    }

    /// The first state.
    fn first(&self, scratch: &mut Scratch) -> Key {
        scratch.matched.clear();
        scratch.entered.clear();
        for start in &self.anchored_starts {
            self.resolve(*start, &mut scratch.stack, &mut scratch.entered);
        }
        let asks = self.has_start || self.has_word;
        self.key(if asks { AT_START } else { OTHER }, scratch)
    }

    fn key(&self, context: Context, scratch: &mut Scratch) -> Key {
        let (matched, entered) = (&mut scratch.matched.members, &mut scratch.entered.members);
        matched.sort_unstable();
        entered.sort_unstable();
        scratch.key.clear();
        scratch
            .key
            .extend([u32::from(context), matched.len() as u32]);
        scratch.key.extend_from_slice(matched);
        scratch.key.extend_from_slice(entered);
        Arc::from(&scratch.key[..])
    }

    /// The step of threads that start between a byte of `context` and one of `class`.
    fn start_step(&self, context: Context, class: usize) -> Step {
        let mut scratch = Scratch::new(self);
        for start in &self.starts {
            self.resolve(*start, &mut scratch.stack, &mut scratch.entered);
        }
        let threads = std::mem::take(&mut scratch.entered.members);
        scratch.entered.clear();
        self.close(&threads, context, class, &mut scratch);
        self.enter(class, &mut scratch);
        let entered = scratch.entered.members.iter();
        Step {
            matched: scratch.matched.members,
            entered: entered.map(|id| StateID::must(*id as usize)).collect(),
        }
    }

    /// All that `threads` reach without a byte, between one of `context` and one of `class`; and what matched so.
    fn close(&self, threads: &[u32], context: Context, class: usize, scratch: &mut Scratch) {
        let Scratch {
            stack,
            closure,
            matched,
            entered,
            ..
        } = scratch;
        closure.clear();
        matched.clear();
        entered.clear();
        threads.iter().for_each(|thread| closure.put(*thread));
        let next = self.byte(class);
        let mut at = 0;
        while let Some(id) = closure.members.get(at) {
            at += 1;
            match self.nfa.state(StateID::must(*id as usize)) {
                State::Look { look, next: to } if holds(*look, context, next) => {
                    self.resolve(*to, stack, closure);
                }
                State::Match { pattern_id } => matched.put(pattern_id.as_u32()),
                _ => {}
            }
        }
    }

    /// Enters the closure's states by a byte of `class`, but for rules that have matched.
    fn enter(&self, class: usize, scratch: &mut Scratch) {
        let Some(byte) = self.byte(class) else { return };
        let Scratch {
            stack,
            closure,
            matched,
            entered,
            ..
        } = scratch;
        for id in &closure.members {
            if matched.has(self.owners[*id as usize]) {
                continue;
            }
            let to = match self.nfa.state(StateID::must(*id as usize)) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(transitions) => transitions.matches_byte(byte),
                State::Dense(transitions) => transitions.matches_byte(byte),
                _ => None,
            };
            if let Some(to) = to {
                self.resolve(to, stack, entered);
            }
        }
    }

    /// Puts the states in that `from` reaches without a byte and without asking for one.
    fn resolve(&self, from: StateID, stack: &mut Vec<StateID>, into: &mut Set) {
        stack.push(from);
        while let Some(id) = stack.pop() {
            match self.nfa.state(id) {
                State::Union { alternates } => {
                    if into.visit(id.as_u32()) {
                        stack.extend(alternates.iter().copied());
                    }
                }
                State::BinaryUnion { alt1, alt2 } => {
                    if into.visit(id.as_u32()) {
                        stack.extend([*alt1, *alt2]);
                    }
                }
                State::Capture { next, .. } => {
                    if into.visit(id.as_u32()) {
                        stack.push(*next);
                    }
                }
                State::Fail => {}
                _ => into.put(id.as_u32()),
            }
        }
    }
}

/// The pattern of each state that its pattern's start leads to.
fn owners(nfa: &NFA) -> Vec<u32> {
    let mut owners = vec![u32::MAX; nfa.states().len()];
    let mut stack = Vec::new();
    for pattern in nfa.patterns() {
        stack.extend(nfa.start_pattern(pattern));
        while let Some(id) = stack.pop() {
            let owner = &mut owners[id];
            if *owner != u32::MAX {
                continue;
            }
            *owner = pattern.as_u32();
            match nfa.state(id) {
                State::ByteRange { trans } => stack.push(trans.next),
                State::Sparse(transitions) => {
                    stack.extend(transitions.transitions.iter().map(|trans| trans.next));
                }
                State::Dense(transitions) => stack.extend(transitions.transitions.iter().copied()),
                State::Look { next, .. } | State::Capture { next, .. } => stack.push(*next),
                State::Union { alternates } => stack.extend(alternates.iter().copied()),
                State::BinaryUnion { alt1, alt2 } => stack.extend([*alt1, *alt2]),
                State::Fail | State::Match { .. } => {}
            }
        }
    }
    owners
}

/// Whether an assertion holds between a byte of `context` and `next`, of which there is none at the end.
fn holds(look: Look, context: Context, next: Option<u8>) -> bool {
    let is_edge = || (context == WORD) != next.is_some_and(is_word);
    match look {
        Look::Start => context == AT_START,
        Look::End => next.is_none(),
        Look::StartLF => matches!(context, AT_START | LINE_FEED),
        Look::EndLF => matches!(next, None | Some(b'\n')),
        Look::WordAscii => is_edge(),
        Look::WordAsciiNegate => !is_edge(),
        look => unreachable!("no rule has {look:?}"),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl Scratch {
    fn new(program: &Program) -> Self {
        let states = program.nfa.states().len();
        Self {
            closure: Set::of(states),
            entered: Set::of(states),
            matched: Set::of(program.nfa.pattern_len()),
            ..Self::default()
        }
    }
}

impl Set {
    /// For numbers below `n`.
    fn of(n: usize) -> Self {
        Self {
            members: Vec::new(),
            rounds: vec![0; n],
            round: 1,
        }
    }

    fn clear(&mut self) {
        self.members.clear();
        if self.round == u32::MAX {
            self.rounds.fill(0);
            self.round = 0;
        }
        self.round += 1;
    }

    fn has(&self, number: u32) -> bool {
        self.rounds[number as usize] == self.round
    }

    /// Whether it is seen for the first time; it is no member for that.
    fn visit(&mut self, number: u32) -> bool {
        let is_new = !self.has(number);
        self.rounds[number as usize] = self.round;
        is_new
    }

    fn put(&mut self, number: u32) {
        if self.visit(number) {
            self.members.push(number);
        }
    }
}
