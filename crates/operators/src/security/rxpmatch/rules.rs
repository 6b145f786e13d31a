//! The rules of a file, each with its automaton.

use dpb_core::UnsupportedRules;
use dpb_core::rules::{self, ByteSet, Flags, Node, RuleError, RuleFile, Wrong};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

/// Bytes that one rule's automaton may take before it is made deterministic, and those of a file.
const RULE_BYTES_MAX: usize = 4 << 20;
const FILE_BYTES_MAX: usize = 1 << 30;

/// A rule set.
#[derive(Clone, Debug)]
pub struct Rules {
    file: RuleFile<Rule>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The id in outputs.
    pub id: u32,
    /// The expression, as written.
    pub expression: Vec<u8>,
    /// The flags behind the expression.
    pub flags: Flags,
    pub(super) hir: Hir,
    pub(super) nfa: NFA,
}

impl Rules {
    /// Reads a rule file: on each line `id:/expression/flags`. Empty lines and those that start with `#` are skipped.
    ///
    /// # Errors
    /// The first line that is none of these, or whose id an earlier line has; with [`UnsupportedRules::Refuse`] also the
    /// first whose expression is malformed, not regular, or too large.
    pub fn parse(text: &[u8], unsupported: UnsupportedRules) -> Result<Self, RuleError> {
        let mut bytes = 0;
        let file = RuleFile::read(text, unsupported, |rule| {
            let rule = compiled(rule)?;
            bytes += rule.nfa.memory_usage();
            match bytes {
                0..=FILE_BYTES_MAX => Ok(rule),
                _ => Err(Wrong::Line("the rules up to here are too many".to_owned())),
            }
        })?;
        Ok(Self { file })
    }

    /// The rules that are matched, in order of their ids.
    pub fn rules(&self) -> &[Rule] {
        &self.file.rules
    }

    /// The rules that were left out, with the reasons.
    pub fn skipped(&self) -> &[RuleError] {
        &self.file.skipped
    }
}

fn compiled(rule: rules::Rule) -> Result<Rule, Wrong> {
    let hir = hir(&rule.meaning);
    let nfa = automaton(&[&hir], RULE_BYTES_MAX)
        .map_err(|_| Wrong::Expression(format!("takes more than {} MiB", RULE_BYTES_MAX >> 20)))?;
    Ok(Rule {
        id: rule.id,
        expression: rule.expression,
        flags: rule.flags,
        hir,
        nfa,
    })
}

/// In regex-syntax's terms.
fn hir(node: &Node) -> Hir {
    match node {
        Node::Set(set) => Hir::class(Class::Bytes(class(set))),
        Node::Look(look) => Hir::look(match look {
            rules::Look::Start => Look::Start,
            rules::Look::End => Look::End,
            rules::Look::LineStart => Look::StartLF,
            rules::Look::LineEnd => Look::EndLF,
            rules::Look::WordBoundary => Look::WordAscii,
            rules::Look::NoWordBoundary => Look::WordAsciiNegate,
        }),
        Node::Repeat { node, min, max } => Hir::repetition(Repetition {
            min: *min,
            max: *max,
            greedy: true,
            sub: Box::new(hir(node)),
        }),
        Node::Concat(parts) => Hir::concat(parts.iter().map(hir).collect()),
        Node::Either(branches) => Hir::alternation(branches.iter().map(hir).collect()),
    }
}

fn class(set: &ByteSet) -> ClassBytes {
    let ranges = set.ranges().into_iter();
    ClassBytes::new(ranges.map(|(low, high)| ClassBytesRange::new(low, high)))
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
