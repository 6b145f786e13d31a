//! Rule files: on each line an id, an expression and flags.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use dpb_core::UnsupportedRules;
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::hir::Hir;

use super::pattern::{self, Flags};

/// Rules of one file, at most.
pub const RULES_MAX: usize = 1 << 16;
/// Bytes that one rule's automaton may take before it is made deterministic, and those of a file.
const RULE_BYTES_MAX: usize = 4 << 20;
const FILE_BYTES_MAX: usize = 1 << 30;

/// A rule set.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    skipped: Vec<RuleError>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it is called in outputs.
    pub id: u32,
    /// The expression, as written.
    pub expression: Vec<u8>,
    /// How it is meant.
    pub flags: Flags,
    pub(super) hir: Hir,
    pub(super) nfa: NFA,
}

/// Why a text is no rule file, or a rule is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// What is wrong with a line.
enum Wrong {
    /// It is no rule.
    Line(String),
    /// Its expression is none that can be matched.
    Expression(String),
}

impl Rules {
    /// Reads a rule file: on each line `id:/expression/flags`. Empty lines and those that start with `#` are skipped.
    ///
    /// # Errors
    /// The first line that is none of these, or whose id an earlier line has; with [`UnsupportedRules::Refuse`] also the
    /// first whose expression is malformed, not regular, or too large.
    pub fn parse(text: &[u8], unsupported: UnsupportedRules) -> Result<Self, RuleError> {
        let mut read = Self {
            rules: Vec::new(),
            skipped: Vec::new(),
        };
        let mut lines = HashMap::new();
        let mut bytes = 0;
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let wrong = |what: String| RuleError { line, what };
            match parse_line(text) {
                Ok(None) => {}
                Ok(Some(rule)) => {
                    match lines.entry(rule.id) {
                        Entry::Vacant(entry) => entry.insert(line),
                        Entry::Occupied(entry) => {
                            let what = format!("id {} is on line {} already", rule.id, entry.get());
                            return Err(wrong(what));
                        }
                    };
                    bytes += rule.nfa.memory_usage();
                    if read.rules.len() == RULES_MAX || bytes > FILE_BYTES_MAX {
                        return Err(wrong("the rules up to here are too many".to_owned()));
                    }
                    read.rules.push(rule);
                }
                Err(Wrong::Expression(what)) if unsupported == UnsupportedRules::Skip => {
                    read.skipped.push(wrong(what));
                }
                Err(Wrong::Line(what) | Wrong::Expression(what)) => return Err(wrong(what)),
            }
        }
        read.rules.sort_by_key(|rule| rule.id);
        Ok(read)
    }

    /// Those that are matched, in order of their ids.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Those that were left out, and why.
    pub fn skipped(&self) -> &[RuleError] {
        &self.skipped
    }
}

/// The rule of one line; `None` if there is none on it.
fn parse_line(line: &[u8]) -> Result<Option<Rule>, Wrong> {
    let line = line.trim_ascii();
    if line.is_empty() || line[0] == b'#' {
        return Ok(None);
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
    let hir = pattern::parse(expression, flags).map_err(Wrong::Expression)?;
    let nfa = automaton(&[&hir], RULE_BYTES_MAX)
        .map_err(|_| Wrong::Expression(format!("takes more than {} MiB", RULE_BYTES_MAX >> 20)))?;
    Ok(Some(Rule {
        id,
        expression: expression.to_vec(),
        flags,
        hir,
        nfa,
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

/// Thompson's automaton of these expressions, each a pattern of its own.
///
/// # Errors
/// If it would take more bytes than these.
pub(super) fn automaton(hirs: &[&Hir], bytes_max: usize) -> Result<NFA, Box<thompson::BuildError>> {
    let config = thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(bytes_max))
        .which_captures(WhichCaptures::None);
    let nfa = thompson::Compiler::new()
        .configure(config)
        .build_many_from_hir(hirs);
    nfa.map_err(Box::new)
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for RuleError {}
