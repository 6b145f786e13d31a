//! One operator: its description, its kernels, and the workload that tests and benches run it on.

use std::collections::BTreeMap;
use std::fmt;
#[cfg(feature = "packets")]
use std::hash::{BuildHasher, RandomState};

use dpb_core::spec::{Arguments, Declared, Domain, MakeMaterial, Parameter, ParameterType};
use dpb_core::{Material, OpSpec, ParameterValue, SetupError, Spec, Unsupported, Workload};

use crate::direct::{AnyKernel, Direct};
use crate::implementation::Implementation;

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
    /// The parameters of the spec.
    pub parameters: &'static [Parameter],
    /// The parameters of the workload: they choose what the operator is run on, and are not in the spec.
    pub workload_parameters: &'static [Parameter],
    /// The code paths there are, best first, the portable one last.
    pub paths: &'static [Implementation],
    /// The paths that compute only some specs, each with those specs in words; [`Self::serves`] says the same.
    pub partial: &'static [(Implementation, &'static str)],
    /// True if a path, one of [`Self::paths`], computes this spec, one of this entry's own.
    pub serves: fn(&OpSpec, Implementation) -> bool,
    /// The library behind a path, where the code is not this crate's own.
    pub libraries: &'static [(Implementation, Library)],
    /// The paths whose kernels allocate while they compute: their libraries do, or they are the plain oracle. All others keep what
    /// [`Queue::submit`](dpb_core::Queue::submit) promises, and the tests count.
    pub allocates: &'static [Implementation],
    /// The operator's page, in Markdown.
    pub documentation: &'static str,
    /// The code behind every path that [`Self::libraries`] does not name.
    pub library: Library,
    /// Whether a spec that has this operator's name has its type too.
    pub is_own: fn(&OpSpec) -> bool,
    /// Whether what a job gives depends on those that its queue had before. Such jobs go one behind another, in their order: a pool does
    /// not take them.
    pub keeps_state: fn(&OpSpec) -> bool,
    /// Gives the material of a parameter that is a file, for a spec that `spec!` declares: checks the file's content, or makes one.
    pub material: MakeMaterial,
    /// Makes a case of arguments, but for the workload's parameters. Callers want [`Self::case`].
    pub parse: Parse,
    /// Makes the kernel of a spec of this name and type, which it does not check. Callers want [`Self::direct`].
    pub kernel: MakeKernel,
    /// Makes the workload of a case whose spec has this name and type, which it does not check. Callers want [`Self::workload`](Self::workload()).
    pub workload: MakeWorkload,
}

/// Makes the case that arguments choose. Keys and tables that are not given are generated.
pub type Parse = fn(&Arguments<'_>) -> Result<Case, SetupError>;
/// Makes the kernel of a spec on a path.
pub type MakeKernel = fn(&OpSpec, Implementation) -> Result<Box<dyn AnyKernel>, SetupError>;
/// Makes the workload of a case, whose outputs the portable path judges.
pub type MakeWorkload = fn(&Case) -> Result<Box<dyn Workload>, SetupError>;

/// The name under which records keep the oracle: the portable path.
pub(crate) const PORTABLE: &str = "cpu/portable";

/// A spec, and the parameters of the workload that it is run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The operator with its parameters.
    pub spec: OpSpec,
    /// Parameters of the workload. One that is absent has its default.
    words: BTreeMap<&'static str, ParameterValue>,
    private: Option<Material>,
}

/// Code that others wrote.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The name in a package registry.
    pub name: &'static str,
    /// Says the version that was built in, or that was found at run time.
    pub version: fn() -> &'static str,
}

/// A [`Library`] that this crate depends on, by its name; the build script knows its version.
#[allow(unused_macros, reason = "which operators are built in, features say")]
macro_rules! library {
    ($name:literal) => {
        $crate::entry::Library {
            name: $name,
            version: || match option_env!(concat!("DPB_VERSION_", $name)) {
                Some(version) => version,
                None => "of unknown version",
            },
        }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use library;

/// The spec of an entry's own operator, in its type.
///
/// # Panics
/// If it is of another type. An [`Entry`] gives its functions none of those.
pub fn own<S: Spec>(spec: &OpSpec) -> &S {
    spec.get().unwrap_or_else(|| foreign(spec))
}

/// Ends an operator that was given the spec of another one, which [`Entry`] does not do.
pub(crate) fn foreign(spec: &OpSpec) -> ! {
    unreachable!("{spec} is another operator")
}

/// The content of the file that the parameter `name` is; without a file, `bytes` random bytes of the system's.
///
/// # Errors
/// If the file cannot be read, or the system gives no random bytes.
#[cfg(any(feature = "aes", feature = "hashes"))]
pub(crate) fn secret(
    given: &Arguments<'_>,
    name: &str,
    bytes: usize,
) -> Result<Vec<u8>, SetupError> {
    if let Some(content) = given.file(name)? {
        return Ok(content);
    }
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|error| {
        let reason = format!("{name}: the system gives no random bytes: {error}");
        SetupError::Parameter(reason)
    })?;
    Ok(random)
}

/// Seeds of a hash that whoever sends the keys must not know, or he could choose keys that collide.
#[cfg(feature = "packets")]
pub(crate) fn hash_seeds() -> [u64; 2] {
    let state = RandomState::new();
    [0, 1].map(|number| state.hash_one(number))
}

impl Case {
    /// The same with a parameter of the workload. [`Entry::workload`] checks it.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<ParameterValue>) -> Self {
        self.words.insert(name, value.into());
        self
    }

    /// The same with the private half of the spec's key, by which the workload makes or judges items.
    #[must_use]
    pub fn with_private(mut self, key: Material) -> Self {
        self.private = Some(key);
        self
    }

    /// The value that the workload's parameter `name` has.
    ///
    /// # Panics
    /// If the operator's workload has no such parameter: [`Entry::workload`] fills in the defaults of all that it has.
    pub fn word<T: ParameterType>(&self, name: &str) -> T {
        let word = self.words.get(name).map(ToString::to_string);
        let value = word.and_then(|word| T::parse(&word));
        value.unwrap_or_else(|| panic!("{}'s workload has no parameter {name}", self.spec))
    }

    /// The private half of the spec's key, if it is known.
    pub fn private(&self) -> Option<&Material> {
        self.private.as_ref()
    }

    /// Every parameter that a person may choose, the spec's and then the workload's.
    pub fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        let mut parameters = self.spec.parameters();
        let of_workload = self.words.iter();
        parameters.extend(of_workload.map(|(name, value)| (*name, value.clone())));
        parameters
    }
}

impl From<OpSpec> for Case {
    fn from(spec: OpSpec) -> Self {
        Self {
            spec,
            words: BTreeMap::new(),
            private: None,
        }
    }
}

impl From<&OpSpec> for Case {
    fn from(spec: &OpSpec) -> Self {
        spec.clone().into()
    }
}

impl From<&Case> for Case {
    fn from(case: &Case) -> Self {
        case.clone()
    }
}

impl Entry {
    /// The entry of the operator whose declared spec is `S`. Name, parameters and how arguments make a case follow from it; the
    /// texts are empty, the path is the portable one.
    pub const fn of<S: Declared>(kernel: MakeKernel, workload: MakeWorkload) -> Self {
        let parse: Parse = |given| Ok(OpSpec::from(S::from_arguments(given)?).into());
        Self {
            name: S::NAME,
            parameters: S::PARAMETERS,
            ..Self::new::<S>(parse, kernel, workload)
        }
    }

    /// The entry of an operator whose specs are of type `S`, without a name.
    pub const fn new<S: Spec>(parse: Parse, kernel: MakeKernel, workload: MakeWorkload) -> Self {
        Self {
            name: "",
            scenario: "",
            summary: "",
            unit: "input byte",
            output: "",
            source: "",
            peers: &[],
            parameters: &[],
            workload_parameters: &[],
            paths: &[Implementation::Portable],
            partial: &[],
            serves: |_, _| true,
            libraries: &[],
            allocates: &[],
            documentation: "",
            library: Library {
                name: env!("CARGO_PKG_NAME"),
                version: || env!("CARGO_PKG_VERSION"),
            },
            is_own: OpSpec::is::<S>,
            keeps_state: |_| false,
            material: |given, name| given.read(name),
            parse,
            kernel,
            workload,
        }
    }

    /// The spec and the workload's parameters that `parameters` choose: `level=9,format=zlib`, or nothing for the defaults.
    /// Secrets that are not given are made anew at each call.
    ///
    /// # Errors
    /// An unknown or repeated name, a value out of range, a file that cannot be read or does not say what it should, named
    /// in the message.
    pub fn case(&self, parameters: &str) -> Result<Case, SetupError> {
        self.case_with(parameters, &[])
    }

    /// [`Self::case`] with the contents of files, each by the name of its parameter.
    fn case_with(&self, parameters: &str, contents: &[(&str, &[u8])]) -> Result<Case, SetupError> {
        let arguments = Arguments::parse(self.name, self.all_parameters(), parameters)?;
        let arguments = arguments
            .with_materials(self.material)
            .with_contents(contents);
        let mut case = (self.parse)(&arguments)?;
        for parameter in self.workload_parameters {
            let value = parameter.value(arguments.word(parameter.name));
            case.words.insert(parameter.name, value);
        }
        Ok(case)
    }

    /// The spec that `parameters` choose, none of which is the workload's.
    ///
    /// # Errors
    /// As for [`Self::case`]; a parameter of the workload, which would be lost.
    pub fn spec(&self, parameters: &str) -> Result<OpSpec, SetupError> {
        Arguments::parse(self.name, self.parameters.iter(), parameters)?;
        Ok(self.case(parameters)?.spec)
    }

    /// The spec that has these values of parameters, as [`Spec::parts`] says them: what a spec says of itself makes it again. No file
    /// is read and nothing is generated, so the values may come from elsewhere.
    ///
    /// # Errors
    /// A parameter that the spec does not have, that is given twice or not at all; a value outside its domain; a file whose content is not
    /// given, or is not what the operator reads.
    pub fn spec_from(&self, values: &[(&str, ParameterValue)]) -> Result<OpSpec, SetupError> {
        let wrong = |parameter: &str, why: &str| {
            SetupError::Parameter(format!("{}: {parameter}: {why}", self.name))
        };
        let (mut pairs, mut contents) = (Vec::new(), Vec::new());
        for (name, value) in values {
            let parameter = self.parameters.iter().find(|known| known.name == *name);
            let parameter = parameter.ok_or_else(|| wrong(name, "no such parameter"))?;
            match (parameter.values, value) {
                (Domain::File, ParameterValue::Material(content)) => {
                    contents.push((*name, content.bytes()));
                }
                (Domain::File, _) => {
                    return Err(wrong(
                        name,
                        "a file, and the spec does not hold its content",
                    ));
                }
                (_, ParameterValue::Material(_)) => {
                    return Err(wrong(name, "has content, but is no file"));
                }
                // A comma would begin another parameter.
                (_, ParameterValue::Text(text)) if text.contains(',') => {
                    return Err(wrong(name, "a comma in its value"));
                }
                (_, value) => pairs.push(format!("{name}={value}")),
            }
        }
        for Parameter { name, .. } in self.parameters {
            match values.iter().filter(|(given, _)| given == name).count() {
                1 => {}
                0 => return Err(wrong(name, "not given")),
                _ => return Err(wrong(name, "given twice")),
            }
        }
        Ok(self.case_with(&pairs.join(","), &contents)?.spec)
    }

    /// The case without any parameter given.
    pub fn default_case(&self) -> Case {
        self.case("").expect("the defaults make a case")
    }

    /// The spec without any parameter given.
    pub fn default_spec(&self) -> OpSpec {
        self.default_case().spec
    }

    /// The parameters of the spec, then those of the workload.
    pub fn all_parameters(&self) -> impl Iterator<Item = &'static Parameter> + Clone + use<> {
        self.parameters.iter().chain(self.workload_parameters)
    }

    /// The cases that tests and benches run: the default, and each parameter at each end of its range or at each of its words, the
    /// others at their defaults. Files are not given.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = vec![self.default_case()];
        for Parameter { name, values, .. } in self.all_parameters() {
            let values = match values {
                Domain::Number(first, last) => vec![first.to_string(), last.to_string()],
                Domain::Numbers {
                    examples: words, ..
                }
                | Domain::Word(words) => words.iter().map(ToString::to_string).collect(),
                Domain::File => Vec::new(),
            };
            for value in values {
                let case = self.case(&format!("{name}={value}"));
                let case = case.expect("inside its domain");
                if !cases.contains(&case) {
                    cases.push(case);
                }
            }
        }
        cases
    }

    /// The kernel of `spec` on `path`, to be called without a queue.
    ///
    /// # Errors
    /// If `spec` is another operator's or one that the path does not compute, this CPU lacks what the path needs, or there is no such path.
    pub fn direct(
        &self,
        spec: &OpSpec,
        path: Implementation,
    ) -> Result<Box<dyn Direct>, SetupError> {
        self.check(spec)?;
        self.admit(spec, path).map_err(SetupError::Unsupported)?;
        Ok((self.kernel)(spec, path)?.direct())
    }

    /// The paths that compute `spec`, best first, whether this CPU has them or not. None if the spec is another operator's.
    pub fn paths_of(&self, spec: &OpSpec) -> impl Iterator<Item = Implementation> {
        let is_own = self.check(spec).is_ok();
        let serves = move |path: &Implementation| is_own && (self.serves)(spec, *path);
        self.paths.iter().copied().filter(serves)
    }

    /// The specs, in words, that `path` computes, if they are not all.
    pub(crate) fn specs_of(&self, path: Implementation) -> Option<&'static str> {
        let partial = self.partial.iter().find(|(of, _)| *of == path);
        partial.map(|(_, specs)| *specs)
    }

    /// Refuses a spec that `path`, one of [`Self::paths`], does not compute.
    pub(crate) fn admit(&self, spec: &OpSpec, path: Implementation) -> Result<(), Unsupported> {
        if (self.serves)(spec, path) {
            return Ok(());
        }
        let specs = self.specs_of(path).unwrap_or("others");
        let reason = format!("{} needs {specs} on cpu/{path}", self.name);
        Err(Unsupported { reason })
    }

    /// The library, or this crate, whose code computes on `path`.
    pub fn code(&self, path: Implementation) -> Library {
        let named = self.libraries.iter().find(|(of, _)| *of == path);
        named.map_or(self.library, |(_, library)| *library)
    }

    /// The items that `case` is run on and the check of its outputs by the portable path. Of a spec alone the workload's
    /// parameters are the defaults.
    ///
    /// # Errors
    /// If its spec is another operator's, a parameter is not one of the workload or has a value that it does not take, or what the
    /// spec is prepared with makes no sense.
    pub fn workload(&self, case: impl Into<Case>) -> Result<Box<dyn Workload>, SetupError> {
        let mut case = case.into();
        self.check(&case.spec)?;
        for (name, value) in &case.words {
            let mut known = self.workload_parameters.iter();
            let parameter = known.find(|parameter| parameter.name == *name);
            if !parameter.is_some_and(|parameter| parameter.values.has(&value.to_string())) {
                let reason = format!("{}: {name}={value}: its workload takes no such", self.name);
                return Err(SetupError::Parameter(reason));
            }
        }
        for parameter in self.workload_parameters {
            let default = || parameter.value(parameter.default);
            case.words.entry(parameter.name).or_insert_with(default);
        }
        (self.workload)(&case)
    }

    /// Refuses the spec of another operator. A spec of another type is nobody's, whatever its name.
    fn check(&self, spec: &OpSpec) -> Result<(), SetupError> {
        let is_own = spec.name() == self.name && (self.is_own)(spec);
        is_own.then_some(()).ok_or_else(|| {
            SetupError::Parameter(format!("{}: {spec} is another operator", self.name))
        })
    }
}

/// `libdeflater 1.26.1`.
impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, (self.version)())
    }
}
