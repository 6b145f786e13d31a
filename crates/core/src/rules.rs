//! Rule files: regular expressions with ids, and what each of them means, byte by byte.
//!
//! Whatever matches rules ([`spec::RxpMatch`](crate::spec::RxpMatch)) reads them here, so that all mean the same by a file, and
//! writes them anew for its own automaton, library or device.

mod expression;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::UnsupportedRules;

/// Rules of one file, at most.
pub const RULES_MAX: usize = 1 << 16;

/// Bytes of a line, at most. What an expression means takes hundreds of times as much memory.
pub const LINE_BYTES_MAX: usize = 1 << 16;

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The number by which outputs name the rule.
    pub id: u32,
    /// The expression, as written.
    pub expression: Vec<u8>,
    /// The flags behind the expression.
    pub flags: Flags,
    /// The meaning of the expression, flags considered.
    pub meaning: Node,
}

/// The flags of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `i`: ASCII letters stand for both cases.
    pub caseless: bool,
    /// `s`: `.` is every byte, a line feed too.
    pub dot_all: bool,
    /// `m`: `^` and `$` also stand at lines.
    pub multi_line: bool,
    /// `x`: white space and comments are skipped.
    pub extended: bool,
}

/// A regular expression over bytes. Greedy and lazy are the same, and groups capture nothing: only where matches end counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// One byte out of a set; out of the empty one, none.
    Set(ByteSet),
    /// No byte, where something holds.
    Look(Look),
    /// So often, one behind the other.
    Repeat {
        /// The expression that is repeated.
        node: Box<Node>,
        /// At least.
        min: u32,
        /// At most.
        max: Option<u32>,
    },
    /// One behind the other; of nothing, no byte.
    Concat(Vec<Node>),
    /// Any of them; never none.
    Either(Vec<Node>),
}

/// A condition on a place between two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// In front of the payload.
    Start,
    /// Behind it; a line feed that ends it is part of it.
    End,
    /// In front of the payload, or behind a line feed, also one that ends it.
    LineStart,
    /// Behind the payload, or in front of a line feed.
    LineEnd,
    /// Between a word's byte (letter, digit, `_`; ASCII) and another or an end.
    WordBoundary,
    /// Anywhere else.
    NoWordBoundary,
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSet([u64; 4]);

/// The content of a rule file.
#[derive(Clone, Debug)]
pub struct RuleFile<T> {
    /// The rules as their reader made them, in order of their ids.
    pub rules: Vec<T>,
    /// The rules that were left out, and why.
    pub skipped: Vec<RuleError>,
}

/// The reason why a text is no rule file, or why a rule is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// A description of the fault.
    pub what: String,
}

/// A fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is no rule, or one too many.
    Line(String),
    /// Its expression is none that can be matched.
    Expression(String),
}

impl<T> RuleFile<T> {
    /// Reads a rule file: on each line `id:/expression/flags`. Empty lines and those that start with `#` are skipped. Each rule is
    /// given to `make`, in the file's order.
    ///
    /// # Errors
    /// The first line that is none of these, whose id an earlier line has, or with which `make` finds fault; with
    /// [`UnsupportedRules::Refuse`] also the first whose expression is malformed or not regular, or so for `make`.
    pub fn read(
        text: &[u8],
        unsupported: UnsupportedRules,
        mut make: impl FnMut(Rule) -> Result<T, Wrong>,
    ) -> Result<Self, RuleError> {
        let mut made = Vec::new();
        let mut skipped = Vec::new();
        let mut lines = HashMap::new();
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let wrong = |what: String| RuleError { line, what };
            let rule = parse_line(text).and_then(|rule| {
                let Some(rule) = rule else {
                    return Ok(None);
                };
                let id = rule.id;
                Ok(Some((id, make(rule)?)))
            });
            match rule {
                Ok(None) => {}
                Ok(Some((id, rule))) => {
                    match lines.entry(id) {
                        Entry::Vacant(entry) => entry.insert(line),
                        Entry::Occupied(entry) => {
                            let what = format!("id {id} is on line {} already", entry.get());
                            return Err(wrong(what));
                        }
                    };
                    if made.len() == RULES_MAX {
                        return Err(wrong("the rules up to here are too many".to_owned()));
                    }
                    made.push((id, rule));
                }
                Err(Wrong::Expression(what)) if unsupported == UnsupportedRules::Skip => {
                    skipped.push(wrong(what));
                }
                Err(Wrong::Line(what) | Wrong::Expression(what)) => return Err(wrong(what)),
            }
        }
        made.sort_by_key(|(id, _)| *id);
        Ok(Self {
            rules: made.into_iter().map(|(_, rule)| rule).collect(),
            skipped,
        })
    }
}

/// The rule of one line; `None` if there is none on it.
fn parse_line(line: &[u8]) -> Result<Option<Rule>, Wrong> {
    let line = line.trim_ascii();
    if line.is_empty() || line[0] == b'#' {
        return Ok(None);
    }
    if line.len() > LINE_BYTES_MAX {
        let what = format!("longer than {LINE_BYTES_MAX} bytes");
        return Err(Wrong::Line(what));
    }
    let is_no_rule = || Wrong::Line("not `id:/expression/flags`".to_owned());
    let colon = line.iter().position(|byte| *byte == b':');
    let (id, rest) = line.split_at(colon.ok_or_else(is_no_rule)?);
    let is_number = id.iter().all(u8::is_ascii_digit);
    let id = std::str::from_utf8(id).ok().filter(|_| is_number);
    let id = id.and_then(|id| id.parse().ok()).ok_or_else(|| {
        Wrong::Line(format!(
            "no id before the colon: a number from 0 to {}",
            u32::MAX
        ))
    })?;
    let rest = rest.strip_prefix(b":/").ok_or_else(is_no_rule)?;
    let slash = rest.iter().rposition(|byte| *byte == b'/');
    let (expression, letters) = rest.split_at(slash.ok_or_else(is_no_rule)?);
    let flags = parse_flags(&letters[1..]).map_err(Wrong::Expression)?;
    Ok(Some(Rule {
        id,
        expression: expression.to_vec(),
        flags,
        meaning: expression::parse(expression, flags).map_err(Wrong::Expression)?,
    }))
}

/// `H` and `V`, Hyperscan's for one match of each rule and for matches of no bytes, ask for what is done anyway.
fn parse_flags(letters: &[u8]) -> Result<Flags, String> {
    let mut flags = Flags::default();
    for letter in letters {
        match letter {
            b'i' => flags.caseless = true,
            b's' => flags.dot_all = true,
            b'm' => flags.multi_line = true,
            b'x' => flags.extended = true,
            b'H' | b'V' => {}
            letter => {
                let letter = letter.escape_ascii();
                return Err(format!(
                    "flag `{letter}` is not supported; these are: i, s, m, x, H, V"
                ));
            }
        }
    }
    Ok(flags)
}

impl ByteSet {
    /// No byte.
    pub const EMPTY: Self = Self([0; 4]);

    /// Adds the bytes from `low` to `high`, both included.
    pub fn insert(&mut self, low: u8, high: u8) {
        for byte in low..=high {
            self.0[usize::from(byte) / 64] |= 1 << (byte % 64);
        }
    }

    /// True if `byte` is in it.
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }

    /// Adds those of `other`.
    pub fn unite(&mut self, other: Self) {
        for (bits, others) in self.0.iter_mut().zip(other.0) {
            *bits |= others;
        }
    }

    /// The other bytes instead.
    pub fn negate(&mut self) {
        self.0 = self.0.map(|bits| !bits);
    }

    /// Adds each ASCII letter in its other case.
    pub fn fold_case(&mut self) {
        for (upper, lower) in (b'A'..=b'Z').zip(b'a'..=b'z') {
            if self.contains(upper) || self.contains(lower) {
                self.insert(upper, upper);
                self.insert(lower, lower);
            }
        }
    }

    /// The bytes as ranges, both ends included, ascending and with gaps between.
    pub fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|byte| self.contains(*byte)) {
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == byte => *high = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u8, u8)]) -> ByteSet {
        let mut set = ByteSet::EMPTY;
        for &(low, high) in ranges {
            set.insert(low, high);
        }
        set
    }

    #[test]
    fn sets_are_what_was_put_in() {
        let mut some = set(&[(b'Y', b'a'), (0, 0), (b'b', b'b'), (0xff, 0xff)]);
        assert_eq!(some.ranges(), [(0, 0), (b'Y', b'b'), (0xff, 0xff)]);
        some.fold_case();
        let folded = [
            (0, 0),
            (b'A', b'B'),
            (b'Y', b'b'),
            (b'y', b'z'),
            (0xff, 0xff),
        ];
        assert_eq!(some.ranges(), folded);
        some.negate();
        assert!(!some.contains(b'A') && some.contains(b'C') && !some.contains(0xff));
        some.unite(set(&folded));
        assert_eq!(some.ranges(), [(0, 0xff)]);
        assert_eq!(ByteSet::EMPTY.ranges(), []);
    }

    #[test]
    fn a_file_is_read_in_order_of_ids_and_its_faults_have_lines() {
        let text = b"# none\n9:/a/\n\n2:/b|c*/i\n4:/(?=d)/\n";
        let id = |rule: Rule| Ok(rule.id);
        let read = RuleFile::read(text, UnsupportedRules::Skip, id).expect("two rules");
        assert_eq!(read.rules, [2, 9]);
        assert_eq!(read.skipped[0].line, 5);
        let refused = RuleFile::read(text, UnsupportedRules::Refuse, id).expect_err("a lookahead");
        assert_eq!(refused, read.skipped[0]);
        for (text, line) in [
            (&b"1:/a/\n1:/b/"[..], 2),
            (b"a:/b/", 1),
            (b"1:/a", 1),
            (b"\n4294967296:/a/", 2),
            (&[b"1:/", &[b'a'; LINE_BYTES_MAX][..], b"/"].concat(), 1),
        ] {
            let wrong = RuleFile::read(text, UnsupportedRules::Skip, id).expect_err("no rule");
            assert_eq!(wrong.line, line, "{wrong}");
        }
        let unmade = |_| Err::<u32, _>(Wrong::Expression("too large".to_owned()));
        let read = RuleFile::read(b"1:/a/", UnsupportedRules::Skip, unmade).expect("left out");
        assert!(read.rules.is_empty() && read.skipped[0].what == "too large");
    }

    /// As PCRE2 does; `tests/rules.rs` of dpb-operators asks it.
    #[test]
    fn what_no_quantifier_and_no_range_may_follow() {
        let parse = |text: &str| expression::parse(text.as_bytes(), Flags::default()).is_ok();
        for text in [
            r"\b+",
            "^*",
            "$*",
            r"\z?",
            r"[\s-a]",
            "[[:alpha:]-z]",
            "[.a.]",
            "[:alpha:]",
        ] {
            assert!(!parse(text), "{text}");
        }
        for text in ["(^)*", r"[\s-]", r"[-\s]", "[[:alpha:]]", "[:a]", "[[:a]"] {
            assert!(parse(text), "{text}");
        }
    }

    #[test]
    fn what_an_expression_means_has_its_flags_in_it() {
        let rule = |text: &[u8]| {
            let read = RuleFile::read(text, UnsupportedRules::Refuse, |rule| Ok(rule.meaning));
            read.expect("a rule").rules.remove(0)
        };
        let either = |parts| Node::Either(vec![Node::Concat(parts)]);
        let a = Node::Set(set(&[(b'A', b'A'), (b'a', b'a')]));
        let (line, dot) = (Node::Look(Look::LineStart), Node::Set(set(&[(0, 0xff)])));
        let many = Node::Repeat {
            node: Box::new(dot),
            min: 0,
            max: None,
        };
        assert_eq!(rule(b"1:/^ a .*?/imsx"), either(vec![line, a, many]));
    }
}
