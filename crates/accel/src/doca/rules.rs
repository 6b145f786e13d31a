//! Rules as NVIDIA's compiler reads them: on each line `id, /expression/flags`.
//!
//! Expressions are written anew, in the few words that the compiler and PCRE read alike: bytes as letters, digits or `\xhh`,
//! classes as ranges of these, groups, alternatives, counts, `^`, and `$` under the flag `m`. What the compiler takes `.`, `\s` or
//! the flag `s` for is then no matter. What is not among them is refused:
//!
//! * Word boundaries: for what it does not take, its guide (RXP Compiler 1.5.2) refers to them.
//! * `$` without `m`, and `\z`: PCRE's `$` also stands in front of a line feed that ends the payload, and which is meant there
//!   NVIDIA does not say.
//! * `^` behind something, at lines: behind a line feed that ends the payload PCRE has none, and a rule file has one.
//! * Matches of no bytes, which an engine that looks for bytes does not report.

use std::fmt::Write as _;

use dpb_core::UnsupportedRules;
use dpb_core::rules::{ByteSet, Look, Node, Rule, RuleFile};

/// Bytes that a rule's automaton takes in software at most, where larger ones are left out or refused, and those that a state of it
/// and a range of bytes take at most. What is below is left out by nobody.
const AUTOMATON_BYTES_MAX: u64 = 4 << 20;
const STATE_BYTES_MAX: u64 = 128;
const RANGE_BYTES_MAX: u64 = 16;

/// A rule file, for an engine.
#[derive(Clone, Debug)]
pub(super) struct Translated {
    /// The text that the compiler is given.
    pub(super) text: Vec<u8>,
    /// Rules in it.
    pub(super) rules: usize,
}

/// The rules of `file` in the compiler's syntax.
///
/// # Errors
/// The first rule that the two do not read alike, by its id; or what is wrong with a line.
pub(super) fn translated(file: &[u8], unsupported: UnsupportedRules) -> Result<Translated, String> {
    let lines = RuleFile::read(file, unsupported, |rule| Ok(line(&rule)));
    let lines = lines.map_err(|error| format!("rules: {error}"))?.rules;
    let rules = lines.len();
    if rules == 0 {
        return Err("the engine needs a rule at least".to_owned());
    }
    let text = lines.into_iter().collect::<Result<String, String>>()?;
    Ok(Translated {
        text: text.into_bytes(),
        rules,
    })
}

fn line(rule: &Rule) -> Result<String, String> {
    let refused = |why: &str| format!("rule {}: the engine takes no {why}", rule.id);
    if bytes_min(&rule.meaning) == 0 {
        return Err(refused("rule that matches no bytes"));
    }
    if automaton_bytes_max(&rule.meaning) > AUTOMATON_BYTES_MAX {
        return Err(refused("rule as large as this one"));
    }
    let mut written = Written::default();
    written
        .put(&rule.meaning, true)
        .map_err(|why| refused(&why))?;
    let flag = match (written.has_start, written.has_lines) {
        (true, true) => return Err(refused("`^` of the payload in a rule of lines")),
        (_, true) => "m",
        (_, false) => "",
    };
    Ok(format!("{}, /{}/{flag}\n", rule.id, written.text))
}

/// Bytes that a match has at least.
fn bytes_min(node: &Node) -> u64 {
    match node {
        Node::Set(_) => 1,
        Node::Look(_) => 0,
        Node::Repeat { node, min, .. } => bytes_min(node).saturating_mul(u64::from(*min)),
        Node::Concat(parts) => parts.iter().map(bytes_min).fold(0, u64::saturating_add),
        Node::Either(branches) => branches.iter().map(bytes_min).min().unwrap_or(0),
    }
}

/// Bytes that Thompson's automaton takes at most.
fn automaton_bytes_max(node: &Node) -> u64 {
    let all = |nodes: &[Node]| {
        let each = nodes.iter().map(automaton_bytes_max);
        each.fold(STATE_BYTES_MAX, u64::saturating_add)
    };
    match node {
        Node::Set(set) => STATE_BYTES_MAX + RANGE_BYTES_MAX * set.ranges().len() as u64,
        Node::Look(_) => STATE_BYTES_MAX,
        Node::Repeat { node, min, max } => {
            let copies = max.unwrap_or(*min).max(1);
            let once = automaton_bytes_max(node).saturating_add(STATE_BYTES_MAX);
            once.saturating_mul(u64::from(copies) + 1)
        }
        Node::Concat(nodes) | Node::Either(nodes) => all(nodes),
    }
}

/// An expression, as far as it is written.
#[derive(Default)]
struct Written {
    text: String,
    /// Whether the expression has a `^` that means the payload's start.
    has_start: bool,
    /// Whether the expression has a `^` or a `$` that mean lines.
    has_lines: bool,
    looks: usize,
}

impl Written {
    /// Appends `node`, in front of which nothing can match, if `is_leading`.
    ///
    /// # Errors
    /// What cannot be said.
    fn put(&mut self, node: &Node, is_leading: bool) -> Result<(), String> {
        match node {
            Node::Set(set) => self.put_set(set),
            Node::Look(look) => self.put_look(*look, is_leading),
            Node::Repeat { node, min, max } => self.put_repeat(node, *min, *max, is_leading),
            Node::Concat(parts) => {
                let mut is_leading = is_leading;
                for part in parts {
                    self.put(part, is_leading)?;
                    is_leading &= matches!(part, Node::Look(_));
                }
                Ok(())
            }
            Node::Either(branches) => match branches.as_slice() {
                [only] => self.put(only, is_leading),
                branches => self.put_branches(branches, is_leading),
            },
        }
    }

    fn put_set(&mut self, set: &ByteSet) -> Result<(), String> {
        match set.ranges().as_slice() {
            [] => return Err("class of no byte".to_owned()),
            [(low, high)] if low == high => self.put_byte(*low),
            ranges => {
                self.text.push('[');
                for &(low, high) in ranges {
                    self.put_byte(low);
                    if high > low {
                        self.text.push('-');
                        self.put_byte(high);
                    }
                }
                self.text.push(']');
            }
        }
        Ok(())
    }

    fn put_byte(&mut self, byte: u8) {
        match byte {
            byte if byte.is_ascii_alphanumeric() => self.text.push(char::from(byte)),
            byte => _ = write!(self.text, "\\x{byte:02x}"),
        }
    }

    fn put_look(&mut self, look: Look, is_leading: bool) -> Result<(), String> {
        let (is_of_lines, sign) = match look {
            Look::Start | Look::LineStart if !is_leading => {
                return Err("`^` behind something".to_owned());
            }
            Look::Start => (false, '^'),
            Look::LineStart => (true, '^'),
            Look::LineEnd => (true, '$'),
            Look::End => return Err("`$` without the flag m, and no `\\z`".to_owned()),
            Look::WordBoundary | Look::NoWordBoundary => {
                return Err("word boundary, `\\b` or `\\B`".to_owned());
            }
        };
        self.has_lines |= is_of_lines;
        self.has_start |= !is_of_lines;
        self.looks += 1;
        self.text.push(sign);
        Ok(())
    }

    fn put_repeat(
        &mut self,
        node: &Node,
        min: u32,
        max: Option<u32>,
        is_leading: bool,
    ) -> Result<(), String> {
        if max == Some(0) {
            return Ok(());
        }
        let (start, looks) = (self.text.len(), self.looks);
        let is_group = !matches!(node, Node::Set(_)) && (min, max) != (1, Some(1));
        self.text.push_str(if is_group { "(" } else { "" });
        self.put(node, is_leading)?;
        if self.text.len() == start + usize::from(is_group) {
            self.text.truncate(start);
            return Ok(());
        }
        if self.looks > looks && (min, max) != (1, Some(1)) {
            return Err("`^` or `$` in what is repeated".to_owned());
        }
        self.text.push_str(if is_group { ")" } else { "" });
        _ = match (min, max) {
            (1, Some(1)) => Ok(()),
            (0, Some(1)) => write!(self.text, "?"),
            (0, None) => write!(self.text, "*"),
            (1, None) => write!(self.text, "+"),
            (min, None) => write!(self.text, "{{{min},}}"),
            (min, Some(max)) if min == max => write!(self.text, "{{{min}}}"),
            (min, Some(max)) => write!(self.text, "{{{min},{max}}}"),
        };
        Ok(())
    }

    /// Writes branches as a group. An empty branch makes the others optional.
    fn put_branches(&mut self, branches: &[Node], is_leading: bool) -> Result<(), String> {
        let (start, looks) = (self.text.len(), self.looks);
        let mut has_empty = false;
        for branch in branches {
            self.text.push('|');
            let before = self.text.len();
            self.put(branch, is_leading)?;
            if self.text.len() == before {
                self.text.pop();
                has_empty = true;
            }
        }
        if has_empty && self.looks > looks {
            return Err("`^` or `$` that need not hold".to_owned());
        }
        if self.text.len() > start {
            self.text.replace_range(start..=start, "(");
            self.text.push_str(if has_empty { ")?" } else { ")" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
