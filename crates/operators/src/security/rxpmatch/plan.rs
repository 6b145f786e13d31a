//! How a rule set is cut: what one automaton looks for in every payload, and what is looked at only where it found a
//! part of it.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look, Repetition};

use super::rules::Rules;

/// The patterns that are looked for, and how.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Rules that match at the start of everything, for they match nothing at all; by their number, as all rules here.
    pub(super) always: Vec<u32>,
    /// The patterns that are looked for in every payload.
    pub(super) patterns: Vec<Pattern>,
    /// The rest of each rule when only the end of its first match counts.
    pub(super) rules: Vec<Hir>,
}

/// A pattern that an automaton looks for.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) hir: Hir,
    pub(super) means: Meaning,
    /// Whether it matches at a payload's start only.
    pub(super) is_anchored: bool,
    /// Whether an automaton of several such patterns may have many states.
    pub(super) is_wild: bool,
}

/// The meaning of a pattern's match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// This rule does.
    Matches(u32),
    /// This rule might.
    Asks(u32),
}

/// A part that every match of a rule contains.
struct Part {
    hir: Hir,
    /// The rarity of the part in ordinary payloads.
    bits: f32,
}

/// The most rules with gaps inside that are looked for as a whole from the beginning.
const GAPS_MAX: usize = 3;
/// Rarer than one in 2^20 positions of ordinary payloads.
const BITS_MIN: f32 = 20.0;
/// Bytes of a class that few different payloads stay in for long.
const NARROW_MAX: usize = 16;
/// Repetitions of such a class, and of any other, that an automaton may count.
const NARROW_COUNT_MAX: u32 = 64;
const WIDE_COUNT_MAX: u32 = 4;

impl Plan {
    pub(super) fn new(rules: &Rules) -> Self {
        let mut plan = Self::default();
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
            let properties = hir.properties();
            let whole = Pattern {
                hir: hir.clone(),
                means: Meaning::Matches(number),
                is_anchored,
                is_wild: !is_tame(&hir),
            };
            if properties.minimum_len() == Some(0) && properties.look_set().is_empty() {
                plan.always.push(number);
            } else if is_anchored || !whole.is_wild {
                plan.patterns.push(whole);
            } else {
                match rare_part(&hir) {
                    Some(part) => gaps.push((whole, part)),
                    None => plan.patterns.push(whole),
                }
            }
            plan.rules.push(hir);
        }
        let is_few = gaps.len() <= GAPS_MAX;
        let gaps = gaps.into_iter().map(|(whole, part)| match is_few {
            true => whole,
            false => whole.asked_by(part),
        });
        plan.patterns.extend(gaps);
        plan
    }

    /// The patterns of each automaton. Those that are wild and may match anywhere are apart from the others, or there
    /// would be a state for each pair of theirs; one that is settled at a payload's start, mostly by its first bytes,
    /// stays with those that are looked for anyway.
    pub(super) fn groups(&self) -> Vec<Vec<Pattern>> {
        let is_apart = |pattern: &Pattern| pattern.is_wild && !pattern.is_anchored;
        let (apart, others): (Vec<_>, Vec<_>) = self.patterns.iter().cloned().partition(is_apart);
        let groups = [others, apart].into_iter();
        groups.filter(|group| !group.is_empty()).collect()
    }

    /// The whole of a rule that was looked for by a part.
    pub(super) fn whole(&self, rule: u32) -> Pattern {
        Pattern {
            hir: self.rules[rule as usize].clone(),
            means: Meaning::Matches(rule),
            is_anchored: false,
            is_wild: true,
        }
    }
}

impl Pattern {
    /// The rule to look for by a part.
    fn asked_by(self, part: Hir) -> Self {
        let (Meaning::Matches(number) | Meaning::Asks(number)) = self.means;
        Self {
            hir: part,
            means: Meaning::Asks(number),
            is_anchored: false,
            is_wild: false,
        }
    }
}

/// Whether all matches start where the payload does.
pub(super) fn is_anchored(hir: &Hir) -> bool {
    hir.properties().look_set_prefix().contains(Look::Start)
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
            let is_counted = |most| max.is_some_and(|max| max <= most);
            let is_fine = match is_narrow(sub) {
                true => max.is_none() || is_counted(NARROW_COUNT_MAX),
                false => is_counted(WIDE_COUNT_MAX),
            };
            is_fine && is_tame(sub)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(is_tame),
        _ => true,
    }
}

/// True if few payloads repeat `hir` for long: it consists of classes of few bytes, or each of its matches has a part that does.
fn is_narrow(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Class(class) => bytes(class).is_some_and(|class| count(&class) <= NARROW_MAX),
        HirKind::Repetition(repetition) => is_narrow(&repetition.sub),
        HirKind::Concat(parts) => {
            let is_there = |part: &Hir| part.properties().minimum_len() > Some(0);
            parts.iter().all(is_narrow)
                || parts.iter().any(|part| is_there(part) && is_narrow(part))
        }
        HirKind::Alternation(parts) => parts.iter().all(is_narrow),
        _ => true,
    }
}

/// Something tame and rare that is in all matches.
fn rare_part(hir: &Hir) -> Option<Hir> {
    let part = rarest(hir)?;
    (part.bits >= BITS_MIN).then(|| without_head(&without_tail(&part.hir)))
}

/// The rarest tame part of one that is not.
fn rarest(hir: &Hir) -> Option<Part> {
    match hir.kind() {
        HirKind::Concat(parts) => {
            let runs = parts.chunk_by(|a, b| is_tame(a) && is_tame(b));
            let parts = runs.filter_map(|run| match run {
                [part] if !is_tame(part) => rarest(part),
                run => Some(Part::of(run)),
            });
            parts.max_by(|a, b| a.bits.total_cmp(&b.bits))
        }
        HirKind::Alternation(branches) => {
            let parts: Option<Vec<Part>> = branches.iter().map(rarest).collect();
            let parts = parts?;
            Some(Part {
                bits: any_of(parts.iter().map(|part| part.bits)),
                hir: Hir::alternation(parts.into_iter().map(|part| part.hir).collect()),
            })
        }
        HirKind::Repetition(Repetition { min: 0, .. }) => None,
        HirKind::Repetition(repetition) => rarest(&repetition.sub),
        _ => Some(Part::of(std::slice::from_ref(hir))),
    }
}

impl Part {
    fn of(parts: &[Hir]) -> Self {
        Self {
            hir: Hir::concat(parts.to_vec()),
            bits: parts.iter().map(rarity).sum(),
        }
    }
}

/// The rarity of a match of `hir` at a position of an ordinary payload, in bits.
fn rarity(hir: &Hir) -> f32 {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.iter().copied().map(byte_rarity).sum(),
        HirKind::Class(class) => match bytes(class) {
            Some(class) => {
                let bytes = class.iter().flat_map(|range| range.start()..=range.end());
                any_of(bytes.map(byte_rarity))
            }
            None => 0.0,
        },
        HirKind::Repetition(repetition) => repetition.min as f32 * rarity(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().map(rarity).sum(),
        HirKind::Alternation(branches) => any_of(branches.iter().map(rarity)),
        _ => 0.0,
    }
}

/// The rarity of any event out of events with these rarities.
fn any_of(rarities: impl Iterator<Item = f32>) -> f32 {
    -rarities.map(|bits| (-bits).exp2()).sum::<f32>().log2()
}

/// The rarity of a byte in text and requests, roughly.
fn byte_rarity(byte: u8) -> f32 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 4.0,
        b'a'..=b'z' => 5.5,
        b'0'..=b'9' | b'/' | b'.' | b'-' => 6.0,
        b'A'..=b'Z' | b'\r' | b'\n' | b'=' | b':' | b'"' | b'_' | b',' => 7.0,
        b'!'..=b'~' | 0 => 8.0,
        _ => 9.0,
    }
}

fn count(class: &ClassBytes) -> usize {
    class.ranges().iter().map(ClassBytesRange::len).sum()
}

/// The bytes of a class; `None` if it has sequences of them, which regex-syntax makes of literals that are UTF-8.
pub(super) fn bytes(class: &Class) -> Option<ClassBytes> {
    match class {
        Class::Bytes(class) => Some(class.clone()),
        Class::Unicode(class) => class.to_byte_class(),
    }
}
