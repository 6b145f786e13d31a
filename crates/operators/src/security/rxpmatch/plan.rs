//! How a rule set is cut: what one automaton looks for in every payload, and what is looked at only where it found a
//! part of it.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look, Repetition};

use super::rules::Rules;

/// What is looked for, and how.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Rules that match at the start of everything, for they match nothing at all; by their number, as all rules here.
    pub(super) always: Vec<u32>,
    /// Automata for all payloads.
    pub(super) groups: Vec<Group>,
    /// What is left of each rule when only the end of its first match counts.
    pub(super) rules: Vec<Hir>,
}

/// Patterns for one automaton.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Whether all match at a payload's start only.
    pub(super) is_anchored: bool,
    pub(super) patterns: Vec<Pattern>,
}

/// What an automaton looks for.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) hir: Hir,
    pub(super) means: Meaning,
}

/// What it means that a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// This rule does.
    Matches(u32),
    /// This rule might.
    Asks(u32),
}

/// Strings of which each match of a rule contains one: sequences of classes.
struct Factors {
    any_of: Vec<Vec<ClassBytes>>,
    /// The rarity of the most frequent one, in bits.
    bits: f32,
}

/// As many rules with gaps inside go with the others as a whole.
const GAPS_MAX: usize = 3;
/// Rarer than one in 2^20 positions of ordinary text.
const BITS_MIN: f32 = 20.0;
/// Rarer than that is not better.
const BITS_MAX: f32 = 48.0;
/// Bytes of a class that is good in a factor, and for repetitions without end.
const NARROW_MAX: usize = 16;
const FACTORS_MAX: usize = 64;
const FACTOR_LEN_MAX: usize = 16;

impl Plan {
    pub(super) fn new(rules: &Rules) -> Self {
        let mut plan = Self::default();
        let [mut anchored, mut whole, mut wild] = [const { Vec::new() }; 3];
        let mut gaps = Vec::new();
        for (number, rule) in (0..).zip(rules.rules()) {
            let is_anchored = rule
                .hir
                .properties()
                .look_set_prefix()
                .contains(Look::Start);
            let hir = match is_anchored {
                true => without_tail(&rule.hir),
                false => without_head(&without_tail(&rule.hir)),
            };
            let matches = |hir: &Hir| Pattern {
                hir: hir.clone(),
                means: Meaning::Matches(number),
            };
            let properties = hir.properties();
            match () {
                () if properties.minimum_len() == Some(0) && properties.look_set().is_empty() => {
                    plan.always.push(number);
                }
                () if is_anchored => anchored.push(matches(&hir)),
                () if is_tame(&hir) => whole.push(matches(&hir)),
                () => match factors(&hir) {
                    Some(factors) => gaps.push((matches(&hir), factors)),
                    None => wild.push(matches(&hir)),
                },
            }
            plan.rules.push(hir);
        }
        let is_few = gaps.len() <= GAPS_MAX;
        whole.extend(gaps.into_iter().map(|(pattern, factors)| match is_few {
            true => pattern,
            false => pattern.asked_by(factors),
        }));
        let groups = [(true, anchored), (false, whole), (false, wild)];
        plan.groups = groups
            .into_iter()
            .filter(|(_, patterns)| !patterns.is_empty())
            .map(|(is_anchored, patterns)| Group {
                is_anchored,
                patterns,
            })
            .collect();
        plan
    }
}

impl Pattern {
    /// The rule to look for by its factors.
    fn asked_by(self, factors: Factors) -> Self {
        let (Meaning::Matches(number) | Meaning::Asks(number)) = self.means;
        let string = |classes: Vec<ClassBytes>| {
            let classes = classes.into_iter();
            Hir::concat(
                classes
                    .map(|class| Hir::class(Class::Bytes(class)))
                    .collect(),
            )
        };
        Self {
            hir: Hir::alternation(factors.any_of.into_iter().map(string).collect()),
            means: Meaning::Asks(number),
        }
    }
}

/// `foo.+` as `foo.`: the same first end. What may be repeated last is repeated no more than it must be.
fn without_tail(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Repetition(repetition) => match repetition.min {
            1 => without_tail(&repetition.sub),
            _ => at_least(repetition),
        },
        HirKind::Concat(parts) => {
            let mut parts = parts.clone();
            while let Some(last) = parts.pop() {
                let last = without_tail(&last);
                if !matches!(last.kind(), HirKind::Empty) {
                    parts.push(last);
                    break;
                }
            }
            Hir::concat(parts)
        }
        HirKind::Alternation(branches) => {
            Hir::alternation(branches.iter().map(without_tail).collect())
        }
        _ => hir.clone(),
    }
}

/// `.*foo` as `foo`, where a match may start anywhere.
fn without_head(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Repetition(repetition) => match repetition.min {
            1 => without_head(&repetition.sub),
            _ => at_least(repetition),
        },
        HirKind::Concat(parts) => {
            let mut parts = parts.iter();
            let mut rest = Vec::new();
            for first in parts.by_ref() {
                let first = without_head(first);
                if !matches!(first.kind(), HirKind::Empty) {
                    rest.push(first);
                    break;
                }
            }
            rest.extend(parts.cloned());
            Hir::concat(rest)
        }
        HirKind::Alternation(branches) => {
            Hir::alternation(branches.iter().map(without_head).collect())
        }
        _ => hir.clone(),
    }
}

fn at_least(repetition: &Repetition) -> Hir {
    Hir::repetition(Repetition {
        max: Some(repetition.min),
        ..repetition.clone()
    })
}

/// Whether an automaton of many such rules has hardly more states than their sum: nothing inside goes on for long over
/// whatever comes.
fn is_tame(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(Repetition { max, sub, .. }) => {
            let is_short = max.is_some_and(|max| max <= 4);
            (is_short || is_narrow(sub)) && max.is_none_or(|max| max <= 64) && is_tame(sub)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(is_tame),
        _ => true,
    }
}

fn is_narrow(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Class(_) => narrow(hir).is_some(),
        HirKind::Repetition(repetition) => is_narrow(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(is_narrow),
        _ => true,
    }
}

fn factors(hir: &Hir) -> Option<Factors> {
    required(hir).filter(|factors| factors.bits >= BITS_MIN)
}

/// The rarest factors of `hir`.
fn required(hir: &Hir) -> Option<Factors> {
    match hir.kind() {
        HirKind::Concat(parts) => required_of(parts),
        HirKind::Alternation(branches) => {
            let mut all = Factors {
                any_of: Vec::new(),
                bits: f32::INFINITY,
            };
            for branch in branches {
                let one = required(branch)?;
                all.any_of.extend(one.any_of);
                all.bits = all.bits.min(one.bits);
            }
            (all.any_of.len() <= FACTORS_MAX).then_some(all)
        }
        HirKind::Repetition(Repetition { min: 0, .. }) => None,
        HirKind::Repetition(repetition) => required(&repetition.sub),
        HirKind::Literal(_) => required_of(std::slice::from_ref(hir)),
        _ => narrow(hir).and_then(|class| window(&[class])),
    }
}

/// Of one part behind the other: a run of parts that say each byte, or what one part has inside.
fn required_of(parts: &[Hir]) -> Option<Factors> {
    let mut best: Option<Factors> = None;
    let mut offer = |offered: Option<Factors>| {
        let bits = best.as_ref().map_or(0.0, |best| best.bits.min(BITS_MAX));
        if let Some(offered) = offered.filter(|offered| offered.bits.min(BITS_MAX) > bits) {
            best = Some(offered);
        }
    };
    let mut run: Vec<ClassBytes> = Vec::new();
    for part in parts {
        match part.kind() {
            HirKind::Look(_) | HirKind::Empty => {}
            HirKind::Literal(literal) => run.extend(literal.0.iter().map(|byte| single(*byte))),
            HirKind::Class(_) if let Some(class) = narrow(part) => run.push(class),
            HirKind::Repetition(Repetition { min: 1.., sub, .. })
                if let Some(class) = narrow(sub) =>
            {
                // The first one ends a run, the last one begins another.
                run.push(class.clone());
                offer(window(&run));
                run = vec![class];
            }
            HirKind::Class(_) => {
                offer(window(&run));
                run.clear();
            }
            _ => {
                offer(window(&run));
                offer(required(part));
                run.clear();
            }
        }
    }
    offer(window(&run));
    best
}

/// The rarest short piece of a run.
fn window(run: &[ClassBytes]) -> Option<Factors> {
    let bits: Vec<f32> = run.iter().map(rarity).collect();
    let len = run.len().min(FACTOR_LEN_MAX);
    let sums = bits
        .windows(len.max(1))
        .map(|window| window.iter().sum::<f32>());
    let (start, bits): (usize, f32) = sums.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Factors {
        any_of: vec![run[start..][..len].to_vec()],
        bits,
    })
}

/// How rare a byte of `class` is, in bits.
fn rarity(class: &ClassBytes) -> f32 {
    let bytes = class
        .ranges()
        .iter()
        .flat_map(|range| range.start()..=range.end());
    let share: f32 = bytes.map(|byte| (-byte_bits(byte)).exp2()).sum();
    -share.log2()
}

/// How rare a byte is in text and requests, roughly.
fn byte_bits(byte: u8) -> f32 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 4.0,
        b'a'..=b'z' => 5.5,
        b'0'..=b'9' | b'/' | b'.' | b'-' => 6.0,
        b'A'..=b'Z' | b'\r' | b'\n' | b'=' | b':' | b'"' | b'_' | b',' => 7.0,
        b'!'..=b'~' | 0 => 8.0,
        _ => 9.0,
    }
}

/// The bytes of a class of few.
fn narrow(hir: &Hir) -> Option<ClassBytes> {
    let HirKind::Class(class) = hir.kind() else {
        return None;
    };
    let count = |class: &ClassBytes| {
        class
            .ranges()
            .iter()
            .map(ClassBytesRange::len)
            .sum::<usize>()
    };
    bytes(class).filter(|class| count(class) <= NARROW_MAX)
}

/// The bytes of a class; `None` if it has sequences of them, which regex-syntax makes of literals that are UTF-8.
pub(super) fn bytes(class: &Class) -> Option<ClassBytes> {
    match class {
        Class::Bytes(class) => Some(class.clone()),
        Class::Unicode(class) => class.to_byte_class(),
    }
}

fn single(byte: u8) -> ClassBytes {
    ClassBytes::new([ClassBytesRange::new(byte, byte)])
}
