//! The one list of operators: command line, benches, conformance and page-end tests follow from it.

use std::fmt;
use std::mem::discriminant;

use dpb_core::{JobError, OpSpec, SetupError};

use crate::cpu::Path;
use crate::direct::{AnyKernel, Direct};
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
    /// What computes on a path, where it is not this crate's own code.
    pub libraries: &'static [(Path, Library)],
    /// Its page, in Markdown.
    pub documentation: &'static str,
    /// The spec without any parameter.
    pub default: OpSpec,
    pub(crate) parse: fn(&Given<'_>) -> OpSpec,
    pub(crate) kernel: MakeKernel,
    /// Items by seed, length and number; for a decoder what it decodes to.
    pub(crate) input: fn(u64, usize, usize) -> Input,
    pub(crate) oracle: Oracle,
    pub(crate) verify: Option<Verify>,
}

/// The kernel of a spec on a path.
type MakeKernel = fn(&OpSpec, Path) -> Result<Box<dyn AnyKernel>, SetupError>;
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
    pub values: Domain,
    /// What it is when not given.
    pub default: &'static str,
    /// What it changes.
    pub meaning: &'static str,
}

/// The values that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A whole number from the first to the last.
    Number(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
}

/// Code that others wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// As in a package registry.
    pub name: &'static str,
    /// What was built in.
    pub version: &'static str,
}

/// A [`Library`] that this crate depends on, by its name; the build script knows its version.
macro_rules! library {
    ($name:literal) => {
        $crate::registry::Library {
            name: $name,
            version: match option_env!(concat!("DPB_VERSION_", $name)) {
                Some(version) => version,
                None => "of unknown version",
            },
        }
    };
}
pub(crate) use library;

/// A value for each parameter of an operator, inside its domain: what was given, else the default.
#[derive(Debug)]
pub(crate) struct Given<'a>(Vec<(&'static str, &'a str)>);

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
        Ok((self.parse)(&Given::parse(parameters, self)?))
    }

    /// The specs that tests and benches run: the default, and each parameter at each end of its range or at each of its
    /// words, the others at their defaults.
    pub fn specs(&self) -> Vec<OpSpec> {
        let mut specs = vec![self.default.clone()];
        for Parameter { name, values, .. } in self.parameters {
            let values = match values {
                Domain::Number(first, last) => vec![first.to_string(), last.to_string()],
                Domain::Word(words) => words.iter().map(ToString::to_string).collect(),
            };
            for value in values {
                let spec = self.spec(&format!("{name}={value}"));
                let spec = spec.expect("inside its domain");
                if !specs.contains(&spec) {
                    specs.push(spec);
                }
            }
        }
        specs
    }

    /// The kernel of `spec` on `path`, to be called without a queue.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn direct(&self, spec: &OpSpec, path: Path) -> Result<Box<dyn Direct>, SetupError> {
        Ok((self.kernel)(spec, path)?.direct())
    }

    /// Whose code computes on `path`.
    pub fn library(&self, path: Path) -> Library {
        let named = self.libraries.iter().find(|(of, _)| *of == path);
        named.map_or(
            Library {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
            },
            |(_, library)| *library,
        )
    }

    /// `count` items by `seed`. For a decoder `item_bytes` is what each decodes to.
    ///
    /// # Panics
    /// If the items have 4 GiB or more.
    pub fn input(&self, spec: &OpSpec, seed: u64, item_bytes: usize, count: usize) -> Input {
        let plain = (self.input)(seed, item_bytes, count);
        self.fed(spec, plain).expect("an encoder takes any bytes")
    }

    /// What `spec` is run on to handle the items of `plain`: these items, or for a decoder what its encoder
    /// ([`OpSpec::fed_by`]) makes of them, on the portable path, so that it is the same on every machine.
    ///
    /// # Errors
    /// If the encoder refuses an item, and why.
    pub fn fed(&self, spec: &OpSpec, plain: Input) -> Result<Input, String> {
        match spec.fed_by() {
            None => Ok(plain),
            Some(encoder) => {
                let entry = of(&encoder).map_err(|error| error.to_string())?;
                let kernel = entry.direct(&encoder, Path::Portable);
                plain.encoded(&encoder, &mut *kernel.map_err(|error| error.to_string())?)
            }
        }
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

impl Given<'_> {
    /// The word that `name`, a parameter, is.
    pub(crate) fn word(&self, name: &str) -> &str {
        let given = self.0.iter().find(|(key, _)| *key == name);
        given
            .map(|(_, value)| *value)
            .expect("every parameter has a value")
    }

    /// The number that `name`, a parameter, is.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.word(name).parse().expect("its domain is of numbers")
    }
}

impl<'a> Given<'a> {
    fn parse(text: &'a str, entry: &Entry) -> Result<Self, SetupError> {
        let mut pairs: Vec<(&'static str, &'a str)> = Vec::new();
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        for part in parts {
            let wrong =
                |what: &str| SetupError::Parameter(format!("{}: {part}: {what}", entry.name));
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("not key=value"))?;
            let parameter = entry
                .parameters
                .iter()
                .find(|parameter| parameter.name == key);
            let parameter = parameter.ok_or_else(|| {
                let known: Vec<_> = entry.parameters.iter().map(|p| p.name).collect();
                wrong(&match known.as_slice() {
                    [] => "takes no parameters".to_owned(),
                    known => format!("no such parameter; there are: {}", known.join(", ")),
                })
            })?;
            if !parameter.values.has(value) {
                return Err(wrong(&format!("not {}", parameter.values)));
            }
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(wrong("given twice"));
            }
            pairs.push((parameter.name, value));
        }
        for parameter in entry.parameters {
            if !pairs.iter().any(|(key, _)| *key == parameter.name) {
                pairs.push((parameter.name, parameter.default));
            }
        }
        Ok(Self(pairs))
    }
}

impl Domain {
    fn has(self, value: &str) -> bool {
        match self {
            Self::Number(first, last) => value
                .parse()
                .is_ok_and(|number: u64| (first..=last).contains(&number)),
            Self::Word(words) => words.contains(&value),
        }
    }
}

/// `1..9`, `raw|zlib|gzip`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(first, last) => write!(f, "{first}..{last}"),
            Self::Word(words) => f.write_str(&words.join("|")),
        }
    }
}

/// `libdeflater 1.26.1`.
impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
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
