//! The one list of operators: command line, documents, bench definitions and conformance follow from it.

use std::mem::discriminant;
use std::sync::Arc;

use dpb_core::{JobError, OpSpec, Operator, SetupError};

use crate::cpu::{Lift, Path};
use crate::input::Input;
use crate::{network, security, storage};

/// Every operator that has a CPU kernel.
pub const OPERATORS: &[Entry] = &[
    network::crc32c::ENTRY,
    security::sha256::ENTRY,
    storage::deflate::DEFLATE,
    storage::deflate::INFLATE,
];

/// One operator: what it is, and how to make, feed and check it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As on the command line and in records; equals [`OpSpec::name`].
    pub name: &'static str,
    /// Who needs it: `network`, `security`, `storage`.
    pub scenario: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What its throughput counts.
    pub unit: &'static str,
    /// What it writes.
    pub output: &'static str,
    /// The standard that defines it.
    pub source: &'static str,
    /// The implementations that an expert would use instead.
    pub peers: &'static [&'static str],
    /// What can be chosen.
    pub parameters: &'static [Parameter],
    /// The code paths there are, best first, the portable one last.
    pub paths: &'static [Path],
    /// Its page, in Markdown.
    pub documentation: &'static str,
    /// The spec without any parameter.
    pub default: OpSpec,
    pub(crate) parse: fn(&Values<'_>) -> Result<OpSpec, SetupError>,
    pub(crate) prepare: Prepare,
    pub(crate) input: fn(&OpSpec, u64, usize, usize) -> Input,
    pub(crate) oracle: Oracle,
    pub(crate) verify: Option<Verify>,
}

/// Lifts a path's kernel to an operator.
type Prepare = fn(&OpSpec, Path, Lift) -> Result<Arc<dyn Operator>, SetupError>;
/// What is right for an item, in a slot of so many bytes.
type Oracle = fn(&OpSpec, &[u8], usize) -> Result<Vec<u8>, JobError>;
/// Says whether an output is right for an item, where more than one is.
type Verify = fn(&OpSpec, &[u8], &[u8]) -> Result<(), String>;

/// A parameter of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Left of the equals sign.
    pub name: &'static str,
    /// What may stand right of it.
    pub values: &'static str,
    /// What it is when not given.
    pub default: &'static str,
    /// What it changes.
    pub meaning: &'static str,
}

/// `key=value` pairs, each key known and given once.
#[derive(Debug)]
pub(crate) struct Values<'a>(Vec<(&'a str, &'a str)>);

/// The operator of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    OPERATORS.iter().find(|entry| entry.name == name)
}

/// The operator that `spec` belongs to.
///
/// # Errors
/// If there is no CPU kernel for it. A custom operator is nobody's, whatever its name.
pub fn of(spec: &OpSpec) -> Result<&'static Entry, dpb_core::Unsupported> {
    let is_of_its_kind = |entry: &&Entry| discriminant(&entry.default) == discriminant(spec);
    find(spec.name())
        .filter(is_of_its_kind)
        .ok_or_else(|| dpb_core::Unsupported {
            reason: format!("there is no CPU kernel for {spec}"),
        })
}

impl Entry {
    /// The spec that `parameters` choose: `level=9,format=zlib`, or nothing for the defaults.
    ///
    /// # Errors
    /// An unknown or repeated key, or a value out of range, named in the message.
    pub fn spec(&self, parameters: &str) -> Result<OpSpec, SetupError> {
        let values = Values::parse(parameters, self)?;
        (self.parse)(&values)
    }

    /// `count` items by `seed`. For a decoder `item_bytes` is what each decodes to.
    pub fn input(&self, spec: &OpSpec, seed: u64, item_bytes: usize, count: usize) -> Input {
        (self.input)(spec, seed, item_bytes, count)
    }

    /// What the portable path makes of `item`, in a slot of `slot_bytes`; the length of a decoder's slot is its bound.
    ///
    /// # Errors
    /// If it refuses the item.
    pub fn oracle(
        &self,
        spec: &OpSpec,
        item: &[u8],
        slot_bytes: usize,
    ) -> Result<Vec<u8>, JobError> {
        (self.oracle)(spec, item, slot_bytes)
    }

    /// Whether two correct paths give the same bytes. An encoder is free in what it writes; it is checked by decoding.
    pub fn is_exact(&self) -> bool {
        self.verify.is_none()
    }

    /// Checks what a backend made of `item`: equal to the oracle's, or for an encoder decoded back to the item.
    /// Refusals must be the oracle's refusals.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(
        &self,
        spec: &OpSpec,
        item: &[u8],
        output: Result<&[u8], JobError>,
        slot_bytes: usize,
    ) -> Result<(), String> {
        if let (Some(verify), Ok(output)) = (self.verify, output) {
            return verify(spec, item, output);
        }
        match (self.oracle(spec, item, slot_bytes), output) {
            (Ok(right), Ok(output)) if right == output => Ok(()),
            (Ok(right), Ok(output)) => Err(difference(&right, output)),
            (Err(_), Err(_)) => Ok(()),
            (Ok(_), Err(error)) => Err(format!("refused ({error}), but it is right")),
            (Err(error), Ok(_)) => Err(format!("taken, but the oracle refuses it: {error}")),
        }
    }
}

impl Values<'_> {
    /// The value of `name`, if it was given.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    }
}

impl<'a> Values<'a> {
    fn parse(text: &'a str, entry: &Entry) -> Result<Self, SetupError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let wrong =
                |what: &str| SetupError::Parameter(format!("{}: {part}: {what}", entry.name));
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("not key=value"))?;
            if !entry
                .parameters
                .iter()
                .any(|parameter| parameter.name == key)
            {
                let known: Vec<_> = entry.parameters.iter().map(|p| p.name).collect();
                return Err(wrong(&match known.as_slice() {
                    [] => "takes no parameters".to_owned(),
                    known => format!("no such parameter; there are: {}", known.join(", ")),
                }));
            }
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(wrong("given twice"));
            }
            pairs.push((key, value));
        }
        Ok(Self(pairs))
    }
}

/// Where two outputs part.
fn difference(right: &[u8], output: &[u8]) -> String {
    let at = right.iter().zip(output).take_while(|(a, b)| a == b).count();
    format!(
        "byte {at} of {} is {:02x?}, should be {:02x?} of {}",
        output.len(),
        output.get(at),
        right.get(at),
        right.len()
    )
}
