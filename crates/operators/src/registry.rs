//! The one list of operators: command line, benches, conformance and page-end tests follow from it.

use std::fmt;

use dpb_core::{OpSpec, SetupError, Workload, file};

use crate::cpu::Path;
use crate::direct::{AnyKernel, Direct};
use crate::security::rxpmatch::Hyperscan;
use crate::{network, primitive, security, storage};

/// Every operator that has a CPU kernel.
pub const OPERATORS: &[Entry] = &[
    network::crc::CRC32C,
    network::crc::CRC32,
    network::crc::CRC16_T10DIF,
    network::crc::combine::ENTRY,
    network::copy::ENTRY,
    network::lpm::LPM4,
    network::lpm::LPM6,
    network::lpm::LPM4_UPDATE,
    network::lpm::LPM6_UPDATE,
    network::toeplitz::ENTRY,
    network::checksum::ENTRY,
    network::checksum::packets::VERIFY,
    network::checksum::packets::FILL,
    network::segmentation::ENTRY,
    network::fragmentation::ENTRY,
    network::reassembly::ENTRY,
    security::md5::ENTRY,
    security::sha1::ENTRY,
    security::sha256::ENTRY,
    security::sha512::ENTRY,
    security::hmac::HMAC_MD5,
    security::hmac::HMAC_SHA1,
    security::hmac::HMAC_SHA256,
    security::hmac::HMAC_SHA512,
    security::rxpmatch::ENTRY,
    security::aes::GCM,
    security::aes::GCM_DECRYPT,
    security::aes::CTR,
    security::aes::CBC,
    security::aes::CBC_DECRYPT,
    security::aes::XTS,
    security::aes::XTS_DECRYPT,
    security::rsa::SIGN,
    security::rsa::VERIFY,
    security::rsa::oaep::ENCRYPT,
    security::rsa::oaep::DECRYPT,
    security::dsa::SIGN,
    security::dsa::VERIFY,
    security::ecdsa::SIGN,
    security::ecdsa::VERIFY,
    storage::deflate::DEFLATE,
    storage::deflate::INFLATE,
    storage::lz4::LZ4,
    storage::lz4::UNLZ4,
    storage::snappy::SNAPPY,
    storage::snappy::UNSNAPPY,
    storage::huffman::HUFFMAN,
    storage::huffman::UNHUFFMAN,
    storage::erasure::ENCODE,
    storage::erasure::RECOVER,
    primitive::arithmetic::ENTRY,
    primitive::strings::STRCMP,
    primitive::strings::STRCAT,
    primitive::strxfrm::ENTRY,
];

/// One operator: its description, its kernels, and the workload that tests and benches run it on.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name on the command line and in records; equals [`OpSpec::name`].
    pub name: &'static str,
    /// The scenario that needs the operator: `network`, `security`, `storage`, `primitive`.
    pub scenario: &'static str,
    /// One line on what the operator computes.
    pub summary: &'static str,
    /// The unit that throughput counts.
    pub unit: &'static str,
    /// The format of an item's output.
    pub output: &'static str,
    /// The standard that defines it.
    pub source: &'static str,
    /// The implementations that an expert would use instead.
    pub peers: &'static [&'static str],
    /// The parameters that a user may choose.
    pub parameters: &'static [Parameter],
    /// The code paths there are, best first, the portable one last.
    pub paths: &'static [Path],
    /// The library behind a path, where the code is not this crate's own.
    pub libraries: &'static [(Path, Library)],
    /// The operator's page, in Markdown.
    pub documentation: &'static str,
    pub(crate) parse: Parse,
    pub(crate) kernel: MakeKernel,
    pub(crate) workload: MakeWorkload,
}

/// Makes the spec that the values choose. Keys and tables that are not given are generated.
pub(crate) type Parse = fn(&ParsedParameters<'_>) -> Result<OpSpec, SetupError>;
/// Makes the kernel of a spec on a path.
type MakeKernel = fn(&OpSpec, Path) -> Result<Box<dyn AnyKernel>, SetupError>;
/// Makes the workload of a spec, whose outputs the portable path judges.
type MakeWorkload = fn(&OpSpec) -> Result<Box<dyn Workload>, SetupError>;

/// The name under which records keep the oracle: the portable path.
pub(crate) const PORTABLE: &str = "cpu/portable";

/// A parameter of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Left of the equals sign.
    pub name: &'static str,
    /// The values that may stand right of the equals sign.
    pub values: Domain,
    /// The value when none is given.
    pub default: &'static str,
    /// One line on what the value changes.
    pub meaning: &'static str,
}

/// The values that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A whole number from the first to the last.
    Number(u64, u64),
    /// Whole numbers, joined by plus signs.
    Numbers {
        /// The bound that each number is below.
        below: u64,
        /// The values that tests and benches take besides the default.
        examples: &'static [&'static str],
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A file's path, whose content is the value; its own default, `-`, is none: what it would say is generated.
    File,
}

/// Code that others wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name in a package registry.
    pub name: &'static str,
    /// The version that was built in.
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
pub(crate) struct ParsedParameters<'a> {
    operator: &'static str,
    values: Vec<(&'static str, &'a str)>,
}

/// Instead of a path: there is no file.
pub(crate) const NO_FILE: &str = "-";

/// Longest file that a parameter may be: several times the Internet's routes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The operator of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    OPERATORS.iter().find(|entry| entry.name == name)
}

/// The operator that `spec` belongs to.
///
/// # Errors
/// If there is no CPU kernel for it. A custom operator is nobody's, whatever its name.
pub fn of(spec: &OpSpec) -> Result<&'static Entry, dpb_core::Unsupported> {
    let is_ours = !matches!(spec, OpSpec::Custom { .. });
    find(spec.name())
        .filter(|_| is_ours)
        .ok_or_else(|| dpb_core::Unsupported {
            reason: format!("there is no CPU kernel for {spec}"),
        })
}

/// Where an operator takes its spec apart: [`Entry`] gives it no spec of another operator.
pub(crate) fn foreign(spec: &OpSpec) -> ! {
    unreachable!("{spec} is another operator")
}

impl Entry {
    /// The spec that `parameters` choose: `level=9,format=zlib`, or nothing for the defaults. Secrets that are not given
    /// are made anew at each call.
    ///
    /// # Errors
    /// An unknown or repeated key, a value out of range, a file that cannot be read or does not say what it should, named
    /// in the message.
    pub fn spec(&self, parameters: &str) -> Result<OpSpec, SetupError> {
        (self.parse)(&ParsedParameters::parse(parameters, self)?)
    }

    /// The spec without any parameter given.
    pub fn default_spec(&self) -> OpSpec {
        self.spec("").expect("the defaults make a spec")
    }

    /// The specs that tests and benches run: the default, and each parameter at each end of its range or at each of its
    /// words, the others at their defaults. Files are not given.
    pub fn specs(&self) -> Vec<OpSpec> {
        let mut specs = vec![self.default_spec()];
        for Parameter { name, values, .. } in self.parameters {
            let values = match values {
                Domain::Number(first, last) => vec![first.to_string(), last.to_string()],
                Domain::Numbers {
                    examples: words, ..
                }
                | Domain::Word(words) => words.iter().map(ToString::to_string).collect(),
                Domain::File => Vec::new(),
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
    /// If `spec` is another operator's, this CPU lacks what the path needs, or there is no such path.
    pub fn direct(&self, spec: &OpSpec, path: Path) -> Result<Box<dyn Direct>, SetupError> {
        self.check(spec)?;
        Ok((self.kernel)(spec, path)?.direct())
    }

    /// The library, or this crate, whose code computes on `path`.
    pub fn code(&self, path: Path) -> Library {
        if path == Path::Hyperscan
            && let Some(library) = Hyperscan::detect()
        {
            return Library {
                name: "libhs",
                version: library.version(),
            };
        }
        let named = self.libraries.iter().find(|(of, _)| *of == path);
        named.map_or(
            Library {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
            },
            |(_, library)| *library,
        )
    }

    /// The items that `spec` is run on and the check of its outputs by the portable path.
    ///
    /// # Errors
    /// If `spec` is another operator's, or what it is prepared with makes no sense.
    pub fn workload(&self, spec: &OpSpec) -> Result<Box<dyn Workload>, SetupError> {
        self.check(spec)?;
        (self.workload)(spec)
    }

    /// Refuses the spec of another operator. A custom spec is nobody's, whatever its name.
    fn check(&self, spec: &OpSpec) -> Result<(), SetupError> {
        let is_own = spec.name() == self.name && !matches!(spec, OpSpec::Custom { .. });
        is_own.then_some(()).ok_or_else(|| {
            SetupError::Parameter(format!("{}: {spec} is another operator", self.name))
        })
    }
}

impl ParsedParameters<'_> {
    /// The word that `name`, a parameter, is.
    pub(crate) fn word(&self, name: &str) -> &str {
        let given = self.values.iter().find(|(key, _)| *key == name);
        given
            .map(|(_, value)| *value)
            .expect("every parameter has a value")
    }

    /// The one of `all` that the word of the parameter `name` names.
    ///
    /// # Panics
    /// If none has that name: the parameter's [`Domain::Word`] has a word too many.
    pub(crate) fn named<T: Copy>(
        &self,
        name: &str,
        all: impl IntoIterator<Item = T>,
        name_of: fn(T) -> &'static str,
    ) -> T {
        let word = self.word(name);
        let named = all.into_iter().find(|value| name_of(*value) == word);
        named.unwrap_or_else(|| panic!("{}: no {name} is called {word}", self.operator))
    }

    /// The number that `name`, a parameter, is.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.word(name).parse().expect("its domain is of numbers")
    }

    /// The numbers that `name`, a parameter, is.
    pub(crate) fn numbers(&self, name: &str) -> impl Iterator<Item = u64> {
        let numbers = self.word(name).split('+');
        numbers.map(|number| number.parse().expect("its domain is of numbers"))
    }

    /// The content of the file that `name`, a parameter, is; without a file, so many of the system's random bytes.
    ///
    /// # Errors
    /// If it cannot be read, or the system gives none.
    pub(crate) fn secret(&self, name: &str, bytes: usize) -> Result<Vec<u8>, SetupError> {
        if let Some(content) = self.file(name)? {
            return Ok(content);
        }
        let mut random = vec![0; bytes];
        getrandom::fill(&mut random).map_err(|error| {
            let reason = format!("{name}: the system gives no random bytes: {error}");
            SetupError::Parameter(reason)
        })?;
        Ok(random)
    }

    /// The content of the file that `name`, a parameter, is; `None` if no file is given.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn file(&self, name: &str) -> Result<Option<Vec<u8>>, SetupError> {
        match self.word(name) {
            NO_FILE => Ok(None),
            path => file::read(std::path::Path::new(path), FILE_BYTES_MAX)
                .map(Some)
                .map_err(|error| {
                    let operator = self.operator;
                    SetupError::Parameter(format!(
                        "{operator}: {name}={path}: cannot be read: {error}"
                    ))
                }),
        }
    }
}

impl<'a> ParsedParameters<'a> {
    fn parse(text: &'a str, entry: &Entry) -> Result<Self, SetupError> {
        let mut values: Vec<(&'static str, &'a str)> = Vec::new();
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
            if values.iter().any(|(known, _)| *known == key) {
                return Err(wrong("given twice"));
            }
            values.push((parameter.name, value));
        }
        for parameter in entry.parameters {
            if !values.iter().any(|(key, _)| *key == parameter.name) {
                values.push((parameter.name, parameter.default));
            }
        }
        Ok(Self {
            operator: entry.name,
            values,
        })
    }
}

impl Domain {
    fn has(self, value: &str) -> bool {
        match self {
            Self::Number(first, last) => value
                .parse()
                .is_ok_and(|number: u64| (first..=last).contains(&number)),
            Self::Numbers { below, .. } => value
                .split('+')
                .all(|number| number.parse().is_ok_and(|number: u64| number < below)),
            Self::Word(words) => words.contains(&value),
            Self::File => !value.is_empty(),
        }
    }
}

/// `1..9`, `0..254 joined by +`, `raw|zlib|gzip`, `FILE`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(first, last) => write!(f, "{first}..{last}"),
            Self::Numbers { below, .. } => write!(f, "0..{} joined by +", below - 1),
            Self::Word(words) => f.write_str(&words.join("|")),
            Self::File => f.write_str("FILE"),
        }
    }
}

/// `libdeflater 1.26.1`.
impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests;
