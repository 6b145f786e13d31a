//! Rules that are literals with gaps between, `special.*requests`: each literal is searched for behind the last one, which
//! looks at many bytes at once where an automaton looks at one.

use memchr::{memmem::Finder, memrchr};
use regex_syntax::hir::{Class, Hir, HirKind};

use super::Match;
use super::rules::Rules;

/// More rules by themselves take longer than one automaton for all of them.
const RULES_MAX: usize = 4;

/// A set of few such rules.
pub(super) struct Sequences(Vec<Sequence>);

/// One rule. Between lines of it there may be anything; between parts of a line anything but a line feed.
struct Sequence {
    id: u32,
    lines: Vec<Vec<Finder<'static>>>,
}

/// The gap between two literals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Anything,
    NoLineFeed,
}

impl Sequences {
    /// Of these rules, each of which is left with its expression. `None` if one is something else, or they are too many.
    pub(super) fn of(rules: &Rules, expressions: &[Hir]) -> Option<Self> {
        if !(1..=RULES_MAX).contains(&expressions.len()) {
            return None;
        }
        let rules = rules.rules().iter().zip(expressions);
        let sequences = rules.map(|(rule, hir)| Sequence::of(rule.id, hir));
        sequences.collect::<Option<_>>().map(Self)
    }

    /// Appends what matches in `payload`, by id.
    pub(super) fn find(&self, payload: &[u8], found: &mut Vec<Match>) {
        for sequence in &self.0 {
            if let Some(end) = sequence.end(payload) {
                let id = sequence.id;
                found.push(Match {
                    id,
                    end: end as u32,
                });
            }
        }
    }
}

impl Sequence {
    fn of(id: u32, hir: &Hir) -> Option<Self> {
        let parts = match hir.kind() {
            HirKind::Concat(parts) => parts.as_slice(),
            _ => std::slice::from_ref(hir),
        };
        let mut lines = vec![Vec::new()];
        // Literals and gaps in turn, a literal first and last.
        for (at, part) in parts.iter().enumerate() {
            match (at % 2, part.kind()) {
                (0, HirKind::Literal(literal)) => {
                    let finder = Finder::new(&literal.0).into_owned();
                    lines.last_mut()?.push(finder);
                }
                (1, _) if gap(part)? == Gap::Anything => lines.push(Vec::new()),
                (1, _) => {}
                _ => return None,
            }
        }
        // A search that starts again behind a line feed would miss a literal that holds it.
        let holds_line_feed = |part: &Finder<'_>| part.needle().contains(&b'\n');
        let is_plain =
            |line: &Vec<Finder<'_>>| line.len() == 1 || !line.iter().any(holds_line_feed);
        let is_whole = parts.len() % 2 == 1 && lines.iter().all(is_plain);
        is_whole.then_some(Self { id, lines })
    }

    /// The smallest offset at which a match ends: each line as early as it can end, since what follows can only gain.
    fn end(&self, payload: &[u8]) -> Option<usize> {
        let mut lines = self.lines.iter();
        lines.try_fold(0, |from, line| line_end(line, payload, from))
    }
}

/// The end of the first match of `parts` that starts at `from` or behind.
fn line_end(parts: &[Finder<'_>], payload: &[u8], from: usize) -> Option<usize> {
    let mut start = from;
    'lines: loop {
        let mut at = start;
        for (number, part) in parts.iter().enumerate() {
            let gap = part.find(&payload[at..])?;
            if number > 0
                && let Some(line_feed) = memrchr(b'\n', &payload[at..at + gap])
            {
                // What came before this line feed reaches no such part: the nearest is behind it.
                start = at + line_feed + 1;
                continue 'lines;
            }
            at += gap + part.needle().len();
        }
        return Some(at);
    }
}

/// `.*` with or without line feeds.
fn gap(hir: &Hir) -> Option<Gap> {
    let HirKind::Repetition(repetition) = hir.kind() else {
        return None;
    };
    let HirKind::Class(Class::Bytes(class)) = repetition.sub.kind() else {
        return None;
    };
    let ranges: Vec<(u8, u8)> = class
        .ranges()
        .iter()
        .map(|range| (range.start(), range.end()))
        .collect();
    match ranges.as_slice() {
        _ if repetition.min > 0 || repetition.max.is_some() => None,
        [(0, 255)] => Some(Gap::Anything),
        [(0, 9), (11, 255)] => Some(Gap::NoLineFeed),
        _ => None,
    }
}
