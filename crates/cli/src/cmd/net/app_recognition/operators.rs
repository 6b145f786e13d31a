//! The operators of application recognition, wherever it runs: [`Specs`].

use std::fs;
use std::path::Path;

use clap::ValueEnum;
use dpb_core::{Material, OpSpec, ParameterValue};
use dpb_operators::registry::Operators;

use crate::cmd::net::traffic::word;

/// Rules where there is no file: names that a protocol without a reader says.
const RULES: &str = "1:/session ..(video|img)-[0-9]+\\.example\\.(com|net|org)/s\n\
                     2:/session ..mail-[0-9]+\\.example\\.(com|net|org)/s\n\
                     3:/session ..(www|cdn|api)-[0-9]+\\.example\\.(com|net|org)/s\n\
                     4:/BitTorrent protocol/\n\
                     5:/(user|login|password)[ =:]+[^\\s]{1,64}/i\n";

/// The operator that compresses payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cmd::net) enum Compression {
    Deflate,
    Lz4,
}

/// The operators of application recognition.
#[derive(Debug)]
pub(in crate::cmd::net) struct Specs {
    /// Hashes frames.
    pub(in crate::cmd::net) hash: OpSpec,
    /// Compresses payloads.
    pub(in crate::cmd::net) compress: OpSpec,
    /// Matches rules for flows that no reader knows.
    pub(in crate::cmd::net) rules: OpSpec,
}

impl Specs {
    /// The operators with the rules of this file, or with a few of dpb's own.
    ///
    /// # Errors
    /// A file that cannot be read or has no rules, as a sentence.
    pub(in crate::cmd::net) fn new(
        rules: Option<&Path>,
        compression: Compression,
        operators: Operators,
    ) -> Result<Self, String> {
        let rules = match rules {
            Some(path) => {
                fs::read(path).map_err(|why| format!("--rules {}: {why}", path.display()))?
            }
            None => RULES.as_bytes().to_vec(),
        };
        let usual = |name: &str| {
            let entry = operators.find(name);
            let entry = entry.ok_or_else(|| format!("there is no operator {name}"))?;
            entry.spec("").map_err(|why| format!("{name}: {why}"))
        };
        let rules = ParameterValue::from(Material::public(rules));
        let rules = [("rules", rules), ("unsupported", "refuse".into())];
        let rules = operators.spec_from("rxpmatch", &rules);
        Ok(Self {
            hash: usual("sha256")?,
            compress: usual(&word(compression))?,
            rules: rules.map_err(|why| format!("rxpmatch: {why}"))?,
        })
    }
}
