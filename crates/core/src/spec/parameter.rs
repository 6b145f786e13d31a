//! Parameters as a person writes them: names, domains, defaults, and the macros that declare them.

use std::fmt;

use super::Material;
use crate::{SetupError, file};

/// A parameter of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name, left of the equals sign.
    pub name: &'static str,
    /// The values that may stand right of the equals sign.
    pub values: Domain,
    /// The value when none is given.
    pub default: &'static str,
    /// The meaning of the value.
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
    /// A file's path, whose content is the value. The default `-` is no file: the operator generates the content.
    File,
}

/// A type that a parameter's value can have. [`words!`](crate::words) implements it for an enum of words.
pub trait ParameterType: Sized {
    /// Every value of the type.
    const DOMAIN: Domain;

    /// The value that `word` says; `None` if it says none.
    fn parse(word: &str) -> Option<Self>;

    /// The value as records have it.
    fn value(&self) -> super::ParameterValue;
}

/// An operator's arguments: a value for each parameter, inside its domain. What was not given has its default.
#[derive(Debug)]
pub struct Arguments<'a> {
    operator: &'static str,
    values: Vec<(&'static str, &'a str)>,
    contents: &'a [(&'a str, &'a [u8])],
    make: MakeMaterial,
}

/// Gives the material of a parameter that is a file, which it is called with: the file's content, or what the operator makes where no file
/// is given.
pub type MakeMaterial = fn(&Arguments<'_>, &'static str) -> Result<Material, SetupError>;

/// The value of a [`Domain::File`] that names no file.
pub const NO_FILE: &str = "-";

/// Longest file that a parameter may be: several times the Internet's routes.
const FILE_BYTES_MAX: u64 = 256 << 20;

impl Parameter {
    /// The value that `word`, which is in the domain, says.
    pub fn value(&self, word: &str) -> super::ParameterValue {
        match (self.values, word.parse()) {
            (Domain::Number(..), Ok(number)) => super::ParameterValue::Number(number),
            _ => word.into(),
        }
    }
}

impl Domain {
    /// Whether `value` is one of these.
    pub fn has(self, value: &str) -> bool {
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

impl<'a> Arguments<'a> {
    /// The arguments of `operator`, which has these `parameters`, that `text` gives: `level=9,format=zlib`.
    ///
    /// # Errors
    /// An unknown or repeated name, or a value outside its domain, named in the message.
    pub fn parse(
        operator: &'static str,
        parameters: impl Iterator<Item = &'static Parameter> + Clone,
        text: &'a str,
    ) -> Result<Self, SetupError> {
        let mut values: Vec<(&'static str, &'a str)> = Vec::new();
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        for part in parts {
            let wrong = |what: &str| SetupError::Parameter(format!("{operator}: {part}: {what}"));
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("not key=value"))?;
            let parameter = parameters.clone().find(|parameter| parameter.name == key);
            let parameter = parameter.ok_or_else(|| {
                let known: Vec<_> = parameters.clone().map(|p| p.name).collect();
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
        for parameter in parameters {
            if !values.iter().any(|(key, _)| *key == parameter.name) {
                values.push((parameter.name, parameter.default));
            }
        }
        Ok(Self {
            operator,
            values,
            contents: &[],
            make: |given, name| given.read(name),
        })
    }

    /// The same arguments with the contents of files, each by the name of its parameter: they stand in for the files, and no file is
    /// read for such a parameter.
    #[must_use]
    pub fn with_contents(self, contents: &'a [(&'a str, &'a [u8])]) -> Self {
        Self { contents, ..self }
    }

    /// The same arguments, whose materials `make` gives. As they stand, their materials are public, and a file is needed.
    #[must_use]
    pub fn with_materials(self, make: MakeMaterial) -> Self {
        Self { make, ..self }
    }

    /// The operator's name.
    pub fn operator(&self) -> &'static str {
        self.operator
    }

    /// The word that the parameter `name` has.
    ///
    /// # Panics
    /// If the operator has no such parameter.
    pub fn word(&self, name: &str) -> &str {
        let given = self.values.iter().find(|(key, _)| *key == name);
        let (_, value) =
            given.unwrap_or_else(|| panic!("{} has no parameter {name}", self.operator));
        value
    }

    /// The value that the parameter `name` has.
    ///
    /// # Panics
    /// If the operator has no such parameter, or the parameter's domain is larger than that of `T`.
    pub fn get<T: ParameterType>(&self, name: &str) -> T {
        let word = self.word(name);
        let value = T::parse(word);
        value.unwrap_or_else(|| panic!("{}: {name}={word} is beyond its type", self.operator))
    }

    /// The numbers that the parameter `name`, a [`Domain::Numbers`], has.
    ///
    /// # Panics
    /// If the operator has no such parameter, or it is not one of numbers.
    pub fn numbers(&self, name: &str) -> impl Iterator<Item = u64> {
        let numbers = self.word(name).split('+');
        numbers.map(|number| number.parse().expect("its domain is of numbers"))
    }

    /// The material that the parameter `name`, which is a file, stands for.
    ///
    /// # Errors
    /// If the file cannot be read or is none of the operator's, or a file is needed and not given.
    ///
    /// # Panics
    /// If the operator has no such parameter.
    pub fn material(&self, name: &'static str) -> Result<Material, SetupError> {
        (self.make)(self, name)
    }

    /// The content of the file that the parameter `name` names, which everybody may know.
    ///
    /// # Errors
    /// If the file cannot be read, or none is given.
    ///
    /// # Panics
    /// If the operator has no such parameter.
    pub fn read(&self, name: &'static str) -> Result<Material, SetupError> {
        let content = self.file(name)?.ok_or_else(|| {
            let operator = self.operator;
            SetupError::Parameter(format!("{operator}: {name}: a file is needed"))
        })?;
        Ok(Material::public(content))
    }

    /// The content of the file that the parameter `name` names, or that stands in for it ([`Arguments::with_contents`]); `None` if it
    /// names none.
    ///
    /// # Errors
    /// If the file cannot be read.
    ///
    /// # Panics
    /// If the operator has no such parameter.
    pub fn file(&self, name: &str) -> Result<Option<Vec<u8>>, SetupError> {
        let word = self.word(name);
        if let Some((_, content)) = self.contents.iter().find(|(of, _)| *of == name) {
            return Ok(Some(content.to_vec()));
        }
        match word {
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

/// Implements [`ParameterType`] for whole numbers.
macro_rules! numbers {
    ($($type:ty)+) => {$(
        impl ParameterType for $type {
            const DOMAIN: Domain = Domain::Number(<$type>::MIN as u64, <$type>::MAX as u64);

            fn parse(word: &str) -> Option<Self> {
                word.parse().ok()
            }

            fn value(&self) -> super::ParameterValue {
                i64::from(*self).into()
            }
        }
    )+};
}

numbers!(u8 u16 u32);

/// Up to the largest number that a record takes.
impl ParameterType for u64 {
    const DOMAIN: Domain = Domain::Number(0, Self::MAX >> 1);

    fn parse(word: &str) -> Option<Self> {
        word.parse().ok()
    }

    fn value(&self) -> super::ParameterValue {
        self.cast_signed().into()
    }
}

/// Declares an enum whose values are words on a command line and in records, each word once.
///
/// ```
/// dpb_core::words! {
///     /// The order of bytes.
///     pub enum Endianness {
///         /// The least significant byte first.
///         Little = "little",
///         /// The most significant byte first.
///         Big = "big",
///     }
/// }
/// assert_eq!(Endianness::ALL, [Endianness::Little, Endianness::Big]);
/// assert_eq!(Endianness::Big.name(), "big");
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Word:ident {
            $($(#[$of:meta])* $Value:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $Word {
            $($(#[$of])* $Value,)+
        }

        impl $Word {
            /// Every value.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Value),+];

            /// The word for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)+
                }
            }
        }

        impl $crate::spec::ParameterType for $Word {
            const DOMAIN: $crate::spec::Domain = $crate::spec::Domain::Word(&[$($name),+]);

            fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == word)
            }

            fn value(&self) -> $crate::ParameterValue {
                self.name().into()
            }
        }
    };
}

/// Declares the spec of an operator once: its type, its name, and each parameter with its meaning, type, default and, where the
/// type has more values than the parameter takes, its range. It implements [`Spec`](crate::Spec) and [`Declared`](crate::spec::Declared).
///
/// ```
/// use dpb_core::spec::{Declared, Spec};
///
/// dpb_core::spec! {
///     /// The sum of an item's bytes.
///     pub struct Sum = "sum" {
///         /// The number that the sum is less than.
///         modulus: u8 = "251" in 1..=255,
///     }
/// }
/// assert_eq!(Sum { modulus: 7 }.name(), "sum");
/// assert_eq!(Sum::PARAMETERS[0].meaning, "The number that the sum is less than.");
/// assert_eq!(Sum::from_text("")?, Sum { modulus: 251 });
/// assert!(Sum::from_text("modulus=0").is_err());
/// # Ok::<(), dpb_core::SetupError>(())
/// ```
///
/// A parameter is a `u8`, `u16`, `u32`, `u64` or an enum of [`words!`](crate::words); other types implement
/// [`ParameterType`](crate::spec::ParameterType) in their own crate. A parameter whose name is no good name for a field has `as "name"`
/// behind the field's. A spec whose items cost more than their bytes ends in `cost |spec| …`, see
/// [`Spec::cost_bytes`](crate::Spec::cost_bytes).
///
/// Keys and tables are a [`Material`](crate::Material) each, and stand behind the others under `file`. A type that several operators share
/// has a field that tells them apart, with the name of each operator:
///
/// ```
/// use dpb_core::spec::{Declared, IpFamily, Spec};
/// use dpb_core::{Material, OpSpec};
///
/// dpb_core::spec! {
///     /// Whether addresses are in a list.
///     pub struct Listed =
///         /// The version of the addresses.
///         family: IpFamily { V4 = "listed4", V6 = "listed6" } {
///         file {
///             /// The list, an address on each line.
///             list,
///         }
///     }
/// }
/// let list = Material::public(*b"::1");
/// assert_eq!(Listed { family: IpFamily::V6, list }.name(), "listed6");
/// assert_eq!(Listed::PARAMETERS[0].values.to_string(), "FILE");
/// ```
#[macro_export]
macro_rules! spec {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Spec:ident = $name:literal;
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis struct $Spec;

        $crate::spec!(@traits $Spec $name (|_: &$Spec| $name) {} {} {});
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Spec:ident = $name:literal {
            $(
                $(#[doc = $meaning:literal])+
                $field:ident $(as $label:literal)?: $type:ty = $default:literal
                $(in $first:literal..=$last:literal)?,
            )+
            $(cost $cost:expr)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis struct $Spec {
            $(
                $(#[doc = $meaning])+
                pub $field: $type,
            )+
        }

        $crate::spec!(@traits $Spec $name (|_: &$Spec| $name) {} {
            $(
                $field ($crate::spec!(@label $field $($label)?)) $type, $default,
                ($crate::spec!(@domain $type $(, $first, $last)?)), concat!($($meaning),+);
            )+
        } {} $($cost)?);
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Spec:ident = $name:literal {
            $(
                $(#[doc = $meaning:literal])+
                $field:ident $(as $label:literal)?: $type:ty = $default:literal
                $(in $first:literal..=$last:literal)?,
            )*
            file {
                $(
                    $(#[doc = $content:literal])+
                    $file:ident,
                )+
            }
            $(cost $cost:expr)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        $vis struct $Spec {
            $(
                $(#[doc = $meaning])+
                pub $field: $type,
            )*
            $(
                $(#[doc = $content])+
                pub $file: $crate::Material,
            )+
        }

        $crate::spec!(@traits $Spec $name (|_: &$Spec| $name) {} {
            $(
                $field ($crate::spec!(@label $field $($label)?)) $type, $default,
                ($crate::spec!(@domain $type $(, $first, $last)?)), concat!($($meaning),+);
            )*
        } {
            $($file concat!($($content),+);)+
        } $($cost)?);
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Spec:ident =
            $(#[$of_kind:meta])+
            $kind:ident: $Kind:ident { $Value:ident = $name:literal, $($Other:ident = $other:literal),+ } {
            file {
                $(
                    $(#[doc = $content:literal])+
                    $file:ident,
                )+
            }
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        $vis struct $Spec {
            $(#[$of_kind])+
            pub $kind: $Kind,
            $(
                $(#[doc = $content])+
                pub $file: $crate::Material,
            )+
        }

        $crate::spec!(
            @traits $Spec $name
            (|spec: &$Spec| match spec.$kind {
                $Kind::$Value => $name,
                $($Kind::$Other => $other,)+
            })
            {
                $kind |operator: &str| match operator {
                    $($other => $Kind::$Other,)+
                    _ => $Kind::$Value,
                };
            }
            {}
            { $($file concat!($($content),+);)+ }
        );
    };
    (@traits $Spec:ident $name:literal ($name_of:expr) { $($kind:ident $kind_of:expr;)? } {
        $($field:ident ($label:expr) $type:ty, $default:literal, ($domain:expr), $meaning:expr;)*
    } {
        $($file:ident $content:expr;)*
    } $($cost:expr)?) => {
        impl $crate::spec::Spec for $Spec {
            fn name(&self) -> &str {
                let name_of: fn(&Self) -> &'static str = $name_of;
                name_of(self)
            }

            fn parameters(&self) -> Vec<(&str, $crate::ParameterValue)> {
                vec![
                    $(($label, $crate::spec::ParameterType::value(&self.$field)),)*
                    $((stringify!($file), self.$file.clone().into()),)*
                ]
            }

            $(
                fn cost_bytes(&self) -> usize {
                    let cost: fn(&Self) -> usize = $cost;
                    cost(self)
                }
            )?
        }

        impl $crate::spec::Declared for $Spec {
            const NAME: &'static str = $name;
            const PARAMETERS: &'static [$crate::spec::Parameter] = &[
                $($crate::spec::Parameter {
                    name: $label,
                    values: $domain,
                    default: $default,
                    meaning: $meaning.trim_ascii(),
                },)*
                $($crate::spec::Parameter {
                    name: stringify!($file),
                    values: $crate::spec::Domain::File,
                    default: $crate::spec::NO_FILE,
                    meaning: $content.trim_ascii(),
                },)*
            ];

            fn from_arguments(
                _arguments: &$crate::spec::Arguments<'_>,
            ) -> Result<Self, $crate::SetupError> {
                Ok(Self {
                    $($kind: {
                        let kind_of: fn(&str) -> _ = $kind_of;
                        kind_of(_arguments.operator())
                    },)?
                    $($field: _arguments.get($label),)*
                    $($file: _arguments.material(stringify!($file))?,)*
                })
            }
        }
    };
    (@label $field:ident) => { stringify!($field) };
    (@label $field:ident $label:literal) => { $label };
    (@domain $type:ty) => { <$type as $crate::spec::ParameterType>::DOMAIN };
    (@domain $type:ty, $first:literal, $last:literal) => {{
        const RANGE: (u64, u64) = ($first, $last);
        assert!(RANGE.0 <= RANGE.1 && RANGE.1 <= <$type>::MAX as u64, "a range beyond its type");
        $crate::spec::Domain::Number(RANGE.0, RANGE.1)
    }};
}

/// Matches an [`OpSpec`](crate::OpSpec) against patterns of specs' types, the first that fits.
///
/// ```
/// use dpb_core::{OpSpec, match_spec, spec};
///
/// let digest_bytes = |spec: &OpSpec| match_spec!(spec, {
///     spec::Md5 => Some(16),
///     spec::Sha1 => Some(20),
/// } else {
///     None
/// });
/// assert_eq!(digest_bytes(&spec::Sha1.into()), Some(20));
/// assert_eq!(digest_bytes(&spec::Crc32.into()), None);
/// ```
#[macro_export]
macro_rules! match_spec {
    ($spec:expr, { $($pattern:pat $(if $guard:expr)? => $body:expr,)+ } else $default:block) => {{
        let spec: &$crate::OpSpec = $spec;
        $(if let Some($pattern) = spec.get() $(&& $guard)? { $body } else)+ $default
    }};
}
