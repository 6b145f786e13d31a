//! Which regular expressions of a rule set match in each payload, and where first.
//!
#![doc = include_str!("../../docs/rxpmatch.md")]

mod automaton;
mod by_hyperscan;
mod engine;
mod hyperscan;
mod live;
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

use dpb_core::{
    JobError, Material, OpSpec, SetupError,
    spec::{self, Arguments, Parameter, ParameterType},
    words,
};

pub use dpb_core::rules::{Flags, RULES_MAX, RuleError};
pub use hyperscan::Hyperscan;
pub use rules::{Rule, Rules};

use crate::direct::AnyKernel;
use crate::entry::{Entry, Library, PORTABLE};
use crate::implementation::Implementation;
use by_hyperscan::ByHyperscan;
use engine::Engine;
use live::Live;
use loaded::Loaded;
use portable::Oracle;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "security",
    summary: "which regular expressions of a rule set match, and where first",
    output: "8 bytes per rule that matches, little endian, by id: id, smallest end of a match",
    source: "PCRE2's syntax, as far as it is regular; pcre2pattern(3)",
    peers: &["hyperscan"],
    workload_parameters: &[Parameter {
        name: SET,
        values: RuleSet::DOMAIN,
        default: RuleSet::Ips.name(),
        meaning: "What payloads look like, and the rules if there is no file: attacks, URLs, TPC-H's query 13.",
    }],
    paths: PATHS,
    allocates: &[Implementation::Portable],
    libraries: &[(Implementation::Hyperscan, LIBHS)],
    documentation: include_str!("../../docs/rxpmatch.md"),
    material: rules_given,
    ..Entry::of::<spec::RxpMatch>(kernel, |case| Ok(Box::new(workload::Payloads::new(case)?)))
};

/// The workload's parameter.
const SET: &str = "set";

words! {
    /// The purpose of a rule set.
    pub enum RuleSet {
        /// Intrusion prevention: attacks in HTTP requests, mail and shell sessions.
        Ips = "ips",
        /// A filter of URLs.
        Url = "url",
        /// Comments on orders that tell of special requests: TPC-H's query 13.
        Q13 = "q13",
    }
}

/// The library behind a path, whichever version was found.
const LIBHS: Library = Library {
    name: "libhs",
    version: || Hyperscan::detect().map_or("of unknown version", Hyperscan::version),
};

const NAME: &str = "rxpmatch";
const PATHS: &[Implementation] = &[
    Implementation::Tables,
    Implementation::Hyperscan,
    Implementation::Portable,
];

/// A match of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// The rule's id.
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

fn rules_given(given: &Arguments<'_>, name: &'static str) -> Result<Material, SetupError> {
    let rules = match given.file(name)? {
        Some(text) => Material::public(text),
        None => workload::built_in(given.get(SET)),
    };
    Loaded::of(&rules, given.get("unsupported"))?;
    Ok(rules)
}

fn kernel(spec: &OpSpec, path: Implementation) -> Result<Box<dyn AnyKernel>, SetupError> {
    match path.among(NAME, PATHS)? {
        Implementation::Hyperscan => Ok(Box::new(Live::<ByHyperscan>::new(spec)?)),
        Implementation::Portable => Ok(Box::new(Live::<Oracle>::new(spec)?)),
        _ => Ok(Box::new(Live::<Engine>::new(spec)?)),
    }
}
