//! What is computed, as data: the specs of operators and their parameters.

mod container;
mod erasure;
mod material;
mod network;
mod parameter;
mod primitive;
mod security;
mod storage;
mod words;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use container::DeflateTrailer;
pub use erasure::{BlockLoss, ErasureCode};
pub use material::Material;
#[cfg(feature = "measure")]
pub(crate) use material::{FNV_START, fnv1a64};
pub use network::*;
pub use parameter::{Arguments, Domain, MakeMaterial, NO_FILE, Parameter, ParameterType};
pub use primitive::*;
pub use security::*;
pub use storage::*;
pub use words::*;

use crate::SetupError;

/// An operator and its parameters: a type with a field for each parameter. The types of this module are the operators that
/// several of dpb's crates know. [`spec!`](crate::spec!) declares one of your own.
pub trait Spec: fmt::Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// The name as written on a command line and in records: `crc32c`, `deflate`.
    fn name(&self) -> &str;

    /// Every parameter by its name, also those at their default. The spec's name and its parameters together say exactly what is
    /// computed.
    fn parameters(&self) -> Vec<(&str, ParameterValue)>;

    /// The parameters with their whole content, from which the spec is made again on another machine. By default they are
    /// [`Spec::parameters`]. A spec whose parameters show only a part of their content, such as a digest of a key, returns all of it here.
    fn parts(&self) -> Vec<(&str, ParameterValue)> {
        self.parameters()
    }

    /// The cost of an item besides its bytes, whatever its length, expressed in bytes. One such byte stands for about a nanosecond
    /// on a slow path, for making an item, running it and checking it. Most operators cost 0 here, a signature millions. Only the
    /// order of magnitude matters. Code that bounds time by bytes adds this cost.
    fn cost_bytes(&self) -> usize {
        0
    }
}

/// A spec whose parameters are declared beside it, as [`spec!`](crate::spec!) does.
pub trait Declared: Spec {
    /// The name that [`Spec::name`] returns. A type with several names gives the first of them here.
    const NAME: &'static str;

    /// The parameters, in the order of [`Spec::parameters`].
    const PARAMETERS: &'static [Parameter];

    /// The spec with these arguments, which were parsed by [`Self::PARAMETERS`] for an operator of this type.
    ///
    /// # Errors
    /// As [`Arguments::material`], for a parameter that is a file.
    fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, SetupError>;

    /// The spec that `text` chooses: `level=9,format=zlib`, or nothing for the defaults.
    ///
    /// # Errors
    /// As [`Arguments::parse`] and [`Arguments::material`] say.
    fn from_text(text: &str) -> Result<Self, SetupError> {
        let arguments = Arguments::parse(Self::NAME, Self::PARAMETERS.iter(), text)?;
        Self::from_arguments(&arguments)
    }
}

/// The spec of any operator: comparable, printable, cheap to clone. Two are equal if they are of one type and equal in it.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::sync::Arc;
///
/// use dpb_core::{Batch, BatchOut, Inline, JobError, Kernel, Limits, OpSpec, Operator, OutputShape};
///
/// dpb_core::spec! {
///     /// The sum of an item's bytes, modulo a number.
///     pub struct Sum = "sum" {
///         /// The number that the sum is less than.
///         modulus: u8 = "251" in 1..=255,
///     }
/// }
///
/// impl Kernel for Sum {
///     type Scratch = ();
///     fn scratch(&self) {}
///     fn shape(&self) -> OutputShape {
///         OutputShape::Fixed(1)
///     }
///     fn dst_len(&self, _item_len: usize) -> usize {
///         1
///     }
///     fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
///         out.each(batch, |item, slot| {
///             let sum = item.iter().map(|&byte| u64::from(byte)).sum::<u64>();
///             slot[0] = (sum % u64::from(self.modulus)) as u8;
///         });
///         Ok(())
///     }
/// }
///
/// let sum = Sum { modulus: 251 };
/// let spec = OpSpec::from(sum);
/// assert_eq!(spec.name(), "sum");
/// assert_eq!(spec.get(), Some(&sum));
/// let mut limits = Limits::new(NonZeroU32::MIN);
/// limits.synchronous = true;
/// let operator: Arc<dyn Operator> = Arc::new(Inline::new(sum, spec, limits));
/// ```
#[derive(Clone)]
pub struct OpSpec(Arc<dyn AnySpec>);

/// [`Spec`] without its type.
trait AnySpec: fmt::Debug + Send + Sync {
    fn name(&self) -> &str;
    fn parameters(&self) -> Vec<(&str, ParameterValue)>;
    fn parts(&self) -> Vec<(&str, ParameterValue)>;
    fn cost_bytes(&self) -> usize;
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn AnySpec) -> bool;
    fn hash(&self, state: &mut dyn Hasher);
}

/// An operator that has a name, parameters, and no type of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Custom {
    /// The name.
    pub name: String,
    /// All parameters, also those at their default, so that equal specs compute the same.
    pub parameters: BTreeMap<String, ParameterValue>,
}

/// Operators one behind another: the output of each is the item of the next. The chain's output is the last operator's. Its length
/// is variable if that of any of them is. An item that one of them refuses is refused. See [`crate::Chain`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain(pub Vec<OpSpec>);

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ParameterValue {
    /// A level, a length, a count.
    Number(i64),
    /// A format, a name.
    Text(String),
    /// A key, a route list.
    Material(Material),
}

impl OpSpec {
    /// A [`Custom`] spec with this name and these parameters.
    pub fn custom<const N: usize>(name: &str, parameters: [(&str, ParameterValue); N]) -> Self {
        let own = |(name, value): (&str, ParameterValue)| (name.to_owned(), value);
        Self::from(Custom {
            name: name.to_owned(),
            parameters: parameters.into_iter().map(own).collect(),
        })
    }

    /// The spec, if it is of type `S`.
    pub fn get<S: Spec>(&self) -> Option<&S> {
        self.0.as_any().downcast_ref()
    }

    /// True if the spec is of type `S`.
    pub fn is<S: Spec>(&self) -> bool {
        self.get::<S>().is_some()
    }

    /// See [`Spec::name`].
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`Spec::cost_bytes`].
    pub fn cost_bytes(&self) -> usize {
        self.0.cost_bytes()
    }

    /// See [`Spec::parameters`].
    pub fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        self.0.parameters()
    }

    /// See [`Spec::parts`].
    pub fn parts(&self) -> Vec<(&str, ParameterValue)> {
        self.0.parts()
    }

    /// The name, and in brackets the parameters: `deflate(level=6,format=raw)`.
    fn with_parameters(&self) -> String {
        let parameters = self.parameters();
        let pairs = parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        match pairs.collect::<Vec<_>>().join(",") {
            none if none.is_empty() => self.name().to_owned(),
            pairs => format!("{}({pairs})", self.name()),
        }
    }
}

impl<S: Spec> AnySpec for S {
    fn name(&self) -> &str {
        Spec::name(self)
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        Spec::parameters(self)
    }

    fn parts(&self) -> Vec<(&str, ParameterValue)> {
        Spec::parts(self)
    }

    fn cost_bytes(&self) -> usize {
        Spec::cost_bytes(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn AnySpec) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn hash(&self, mut state: &mut dyn Hasher) {
        Hash::hash(self, &mut state);
    }
}

impl<S: Spec> From<S> for OpSpec {
    fn from(spec: S) -> Self {
        Self(Arc::new(spec))
    }
}

impl PartialEq for OpSpec {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Eq for OpSpec {}

impl Hash for OpSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        self.0.hash(state);
    }
}

impl Spec for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        self.parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect()
    }
}

impl Spec for Chain {
    fn name(&self) -> &str {
        "chain"
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        let stages: Vec<String> = self.0.iter().map(OpSpec::with_parameters).collect();
        vec![("stages", stages.join(" ").as_str().into())]
    }

    fn cost_bytes(&self) -> usize {
        self.0.iter().map(OpSpec::cost_bytes).sum()
    }
}

impl From<i64> for ParameterValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for ParameterValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Material> for ParameterValue {
    fn from(material: Material) -> Self {
        Self::Material(material)
    }
}

impl fmt::Display for OpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for OpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Material(material) => material.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(spec: &OpSpec) -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(spec)
    }

    #[test]
    fn parameters_are_all_there_and_typed() {
        let deflate = OpSpec::from(Deflate {
            level: 6,
            format: DeflateFormat::Zlib,
        });
        let expected = [
            ("level", ParameterValue::Number(6)),
            ("format", ParameterValue::Text("zlib".into())),
        ];
        assert_eq!(deflate.parameters(), expected);
        assert_eq!(OpSpec::from(Sha256).parameters(), []);
    }

    #[test]
    fn a_custom_spec_is_its_name_and_its_parameters_in_whatever_order() {
        let a = OpSpec::custom("sum", [("modulus", 7.into()), ("sign", "plus".into())]);
        let b = OpSpec::custom("sum", [("sign", "plus".into()), ("modulus", 7.into())]);
        assert_eq!(a, b);
        assert_eq!(hash(&a), hash(&b));
        assert_eq!(a.to_string(), "sum");
        assert_eq!(
            b.parameters(),
            [("modulus", 7.into()), ("sign", "plus".into())]
        );
        assert_ne!(a, OpSpec::custom("sum", [("modulus", 7.into())]));
    }

    #[test]
    fn specs_of_two_types_differ_whatever_their_names() {
        let of_core = OpSpec::from(Crc32c);
        assert_ne!(OpSpec::custom("crc32c", []), of_core);
        assert_eq!(of_core.get(), Some(&Crc32c));
        assert!(!of_core.is::<Crc32>());
        let raw = |level| {
            OpSpec::from(Deflate {
                level,
                format: DeflateFormat::Raw,
            })
        };
        assert_eq!(raw(6), raw(6));
        assert_eq!(hash(&raw(6)), hash(&raw(6)));
        assert_ne!(raw(6), raw(9));
    }

    #[test]
    fn declared_parameters_have_domains_and_defaults() {
        let default = Deflate {
            level: 6,
            format: DeflateFormat::Raw,
        };
        assert_eq!(Deflate::from_text(""), Ok(default));
        let said = |text| Deflate::from_text(text).expect_err(text).to_string();
        assert_eq!(said("level=0"), "deflate: level=0: not 1..9");
        assert_eq!(said("format=7z"), "deflate: format=7z: not raw|zlib|gzip");
        assert_eq!(
            said("speed=1"),
            "deflate: speed=1: no such parameter; there are: level, format"
        );
        assert_eq!(Deflate::PARAMETERS[1].meaning, "What wraps the stream.");
        assert_eq!(Arithmetic::PARAMETERS[0].name, "type");
    }
}
