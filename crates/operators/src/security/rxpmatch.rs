//! Which regular expressions of a rule set match in each payload, and where first.
//!
#![doc = include_str!("../../docs/rxpmatch.md")]

mod automaton;
mod by_hyperscan;
mod engine;
mod hyperscan;
mod loaded;
mod plan;
mod portable;
mod rules;
mod scan;
mod sequence;
#[cfg(test)]
mod tests;
mod traffic;
mod workload;

use std::sync::Arc;

use dpb_core::{
    Batch, BatchOut, JobError, Kernel, Material, OpSpec, OutputShape, SetupError, UnsupportedRules,
    spec::{self, Arguments, Domain, NO_FILE, Parameter, ParameterType},
    words,
};
use regex_automata::hybrid::dfa::Cache;

pub use dpb_core::rules::{Flags, RULES_MAX, RuleError};
pub use hyperscan::Hyperscan;
pub use rules::{Rule, Rules};

use crate::direct::AnyKernel;
use crate::entry::{Case, Entry, PORTABLE, own};
use crate::path::Path;
use by_hyperscan::ByHyperscan;
use engine::{Engine, Lookout};
use loaded::Loaded;
use portable::Oracle;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    name: "rxpmatch",
    scenario: "security",
    summary: "which regular expressions of a rule set match, and where first",
    output: "8 bytes per rule that matches, little endian, by id: id, smallest end of a match",
    source: "PCRE2's syntax, as far as it is regular; pcre2pattern(3)",
    peers: &["hyperscan"],
    parameters: &[
        Parameter {
            name: "rules",
            values: Domain::File,
            default: NO_FILE,
            meaning: "A rule file, `id:/expression/flags` on each line; without one, those of `set`.",
        },
        Parameter {
            name: "unsupported",
            values: UnsupportedRules::DOMAIN,
            default: UnsupportedRules::Refuse.name(),
            meaning: "What to do with a rule that is not regular, or too large.",
        },
    ],
    workload_parameters: &[Parameter {
        name: SET,
        values: RuleSet::DOMAIN,
        default: RuleSet::Ips.name(),
        meaning: "What payloads look like, and the rules if there is no file: attacks, URLs, TPC-H's query 13.",
    }],
    paths: PATHS,
    allocates: &[Path::Portable],
    documentation: include_str!("../../docs/rxpmatch.md"),
    ..Entry::new::<spec::RxpMatch>(parse, kernel, |case| {
        Ok(Box::new(workload::Payloads::new(case)?))
    })
};

/// The workload's parameter.
const SET: &str = "set";

words! {
    /// What a rule set is for.
    pub enum RuleSet {
        /// Intrusion prevention: attacks in HTTP requests, mail and shell sessions.
        Ips = "ips",
        /// A filter of URLs.
        Url = "url",
        /// Comments on orders that tell of special requests: TPC-H's query 13.
        Q13 = "q13",
    }
}

const NAME: &str = "rxpmatch";
const PATHS: &[Path] = &[Path::Tables, Path::Hyperscan, Path::Portable];

/// That a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// The rule's.
    pub id: u32,
    /// The smallest offset at which a match of it ends.
    pub end: u32,
}

impl Match {
    /// The length of a match in an output.
    pub const BYTES: usize = 8;
}

/// Writes what matched in one item; how long that is.
fn write(found: &[Match], slot: &mut [u8]) -> Result<u32, JobError> {
    let len = found.len() * Match::BYTES;
    let slot = slot.get_mut(..len).ok_or(JobError::DstTooShort)?;
    for (found, place) in found.iter().zip(slot.as_chunks_mut::<{ Match::BYTES }>().0) {
        place[..4].copy_from_slice(&found.id.to_le_bytes());
        place[4..].copy_from_slice(&found.end.to_le_bytes());
    }
    Ok(len as u32)
}

fn parse(given: &Arguments<'_>) -> Result<Case, SetupError> {
    let set: RuleSet = given.get(SET);
    let unsupported = given.get("unsupported");
    let rules = match given.file("rules")? {
        Some(text) => Material::public(text),
        None => workload::built_in(set),
    };
    Loaded::of(&rules, unsupported)?;
    Ok(OpSpec::from(spec::RxpMatch { rules, unsupported }).into())
}

/// The rules of a spec of this operator.
fn rules(spec: &OpSpec) -> Result<Arc<Loaded>, SetupError> {
    let spec::RxpMatch { rules, unsupported } = own(spec);
    Loaded::of(rules, *unsupported)
}

fn kernel(spec: &OpSpec, path: Path) -> Result<Box<dyn AnyKernel>, SetupError> {
    let rules = rules(spec)?;
    match path.among(NAME, PATHS)? {
        Path::Hyperscan => Ok(Box::new(ByHyperscan::new(rules)?)),
        Path::Portable => Ok(Box::new(OneByOne(Oracle::new(&rules), rules))),
        _ => Ok(Box::new(Together(Engine::new(&rules), rules))),
    }
}

/// The path `portable`.
struct OneByOne(Oracle, Arc<Loaded>);

/// The path `tables`.
struct Together(Engine, Arc<Loaded>);

impl Kernel for OneByOne {
    type Scratch = Vec<Cache>;

    fn scratch(&self) -> Self::Scratch {
        self.0.caches()
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        dst_len(&self.1)
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        caches: &mut Vec<Cache>,
    ) -> Result<(), JobError> {
        self.0.run(caches, batch, out);
        Ok(())
    }
}

impl Kernel for Together {
    type Scratch = Lookout;

    fn scratch(&self) -> Lookout {
        self.0.lookout()
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        dst_len(&self.1)
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        lookout: &mut Lookout,
    ) -> Result<(), JobError> {
        self.0.run(lookout, batch, out);
        Ok(())
    }
}

/// If every rule matches.
fn dst_len(rules: &Rules) -> usize {
    rules.rules().len() * Match::BYTES
}
