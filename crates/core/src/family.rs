//! Families: kinds of backends. A family opens its backends by name, says which there are, and what it found on this machine.
//!
//! A backend's name is its family's, a slash, and the instance: `cpu/avx512`, `pool/4`, `sim/lanes=2,job_ns=500`, `dpdk/compress_isal`.
//! Programs hold [`Families`], which is a slice: a prototype adds a family of its own by passing a slice that has it.

use std::fmt;
use std::sync::Arc;

use crate::{
    Backend, Buf, Clock, Limits, OpSpec, Operator, Properties, SetupError, StageByStage,
    Unsupported, WallClock,
};

/// A kind of backends: CPU paths, pools, models, the devices of one library.
pub trait Family: Sync {
    /// The family's name, which stands before the slash of a backend's name: `dpdk` of `dpdk/compress_isal`.
    fn name(&self) -> &'static str;
    /// Other names that mean the same family.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// The backends that this machine has, or could have with what is named. Loads the family's library if it is there, and
    /// looks at its devices; never waits for one, and what is missing is no error.
    fn backends(&self) -> Vec<Listed>;
    /// The backend whose name follows the slash; without a name the family's usual one.
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError>;
    /// The instances that are meant where a user asks for all backends for `spec`. By default those that this machine has
    /// and that can do it, and where one without a name chooses among the others, that one alone. A family
    /// that is costly to start returns none.
    fn all_for(&self, spec: &OpSpec) -> Vec<String> {
        let listed = self.backends().into_iter();
        let here = listed.filter(|listed| listed.is_here);
        let mut here: Vec<String> = here.map(|listed| listed.instance).collect();
        if here.iter().any(String::is_empty) {
            here.retain(String::is_empty);
        }
        here.retain(|instance| {
            let opened = self.open(instance);
            opened.is_ok_and(|backend| backend.limits(spec).is_ok())
        });
        here
    }
    /// Everything that was looked for, found or not: library, version, missing symbols, devices, capabilities and limits.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// The reason why a family does not open a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No backend can have this name; says what names there are.
    NoSuch(String),
    /// The backend is not to be had here: a finding, with a reason that a person can act on.
    Absent(Unsupported),
}

/// A backend of a family, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The backend's name after the slash; the caller fills in words in capitals.
    pub instance: String,
    /// True if this machine has it.
    pub is_here: bool,
    /// The operators that it runs, or what it is for.
    pub summary: String,
    /// A description of the backend, or of the things that it needs.
    pub details: String,
}

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "measure", derive(serde::Serialize))]
pub struct Finding {
    /// The thing: `library`, `device mlx5_0`.
    pub what: String,
    /// The state in which the thing was found.
    pub state: State,
    /// A description of the thing, or why it is not there.
    pub detail: String,
    /// The remedy for a person; empty if nothing need be done.
    pub remedy: String,
}

/// The state of a thing that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "measure",
    derive(serde::Serialize),
    serde(rename_all = "lowercase")
)]
pub enum State {
    /// The thing is there.
    Found,
    /// The thing is there, but timings will suffer, or rights or parts are missing.
    Limited,
    /// The thing is not there.
    Missing,
}

/// The families that a program has, in the order in which it lists them.
#[derive(Clone, Copy, Default)]
pub struct Families(&'static [&'static dyn Family]);

impl Families {
    /// These families. Of two that have the same name the first is meant.
    pub const fn new(families: &'static [&'static dyn Family]) -> Self {
        Self(families)
    }

    /// All families.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn Family> + use<> {
        let all = self.0;
        let is_first = move |at: usize| {
            all[..at]
                .iter()
                .all(|before| before.name() != all[at].name())
        };
        (0..all.len())
            .filter(move |at| is_first(*at))
            .map(move |at| all[at])
    }

    /// The backend called `name`. The slash may be a colon, and a family's name alone means its usual backend. One that is not to
    /// be had here is a backend that can do nothing and says why, so that its rows do too. A chain of operators that it does not take
    /// whole it runs stage by stage ([`StageByStage`]).
    ///
    /// # Errors
    /// If no backend can have this name; the message says which there are.
    pub fn open(&self, name: &str) -> Result<Box<dyn Backend>, OpenError> {
        let Some((family, instance)) = self.split(name) else {
            let known: Vec<String> = self.backends().map(|(name, _)| name).collect();
            let known = known.join(", ");
            let reason = format!("no backend `{name}`; there are: {known}");
            return Err(OpenError::NoSuch(reason));
        };
        match family.open(instance) {
            Err(OpenError::Absent(why)) => Ok(Box::new(Absent::new(family, instance, why))),
            opened => Ok(Box::new(StageByStage::new(opened?))),
        }
    }

    /// Every backend there is, with its whole name.
    pub fn backends(&self) -> impl Iterator<Item = (String, Listed)> + use<> {
        self.iter().flat_map(|family| {
            let listed = family.backends().into_iter();
            listed.map(move |listed| (whole_name(family, &listed.instance), listed))
        })
    }

    /// The names of all backends that are meant where a user asks for all of them for `spec`: [`Family::all_for`].
    pub fn all_for(&self, spec: &OpSpec) -> Vec<String> {
        let names = self.iter().flat_map(|family| {
            let instances = family.all_for(spec).into_iter();
            instances.map(move |instance| whole_name(family, &instance))
        });
        names.collect()
    }

    /// The family and the instance that `name` is of: `dpdk/compress_isal`, `dpdk:compress_isal`, `doca`.
    fn split<'a>(&self, name: &'a str) -> Option<(&'static dyn Family, &'a str)> {
        self.iter().find_map(|family| {
            let names = [family.name()].into_iter();
            let mut names = names.chain(family.aliases().iter().copied());
            let instance = names.find_map(|prefix| match name.strip_prefix(prefix)? {
                "" => Some(""),
                rest => rest.strip_prefix(['/', ':']),
            })?;
            Some((family, instance))
        })
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.iter().map(Family::name);
        f.debug_list().entries(names).finish()
    }
}

impl Finding {
    /// A thing that is there.
    pub fn found(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Found,
            detail: detail.into(),
            remedy: String::new(),
        }
    }

    /// A thing that is there, with something left to wish for.
    pub fn limited(
        what: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Limited,
            remedy: remedy.into(),
            ..Self::found(what, detail)
        }
    }

    /// A thing that is not there.
    pub fn missing(
        what: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Missing,
            remedy: remedy.into(),
            ..Self::found(what, detail)
        }
    }
}

impl State {
    /// In lower case, as tables show it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

impl From<Unsupported> for OpenError {
    fn from(why: Unsupported) -> Self {
        Self::Absent(why)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuch(what) => f.write_str(what),
            Self::Absent(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// The name of a backend, as people write it.
fn whole_name(family: &dyn Family, instance: &str) -> String {
    match instance {
        "" => family.name().to_owned(),
        instance => format!("{}/{instance}", family.name()),
    }
}

/// A backend that this machine does not have.
struct Absent {
    name: String,
    why: Unsupported,
    clock: WallClock,
}

impl Absent {
    fn new(family: &dyn Family, instance: &str, why: Unsupported) -> Self {
        Self {
            name: whole_name(family, instance),
            why,
            clock: WallClock::default(),
        }
    }
}

impl Backend for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        Properties::of_device(None)
    }

    fn alloc(&self, _: usize) -> Result<Buf, SetupError> {
        Err(SetupError::Unsupported(self.why.clone()))
    }

    fn limits(&self, _: &OpSpec) -> Result<Limits, Unsupported> {
        Err(self.why.clone())
    }

    fn prepare(&self, _: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Err(SetupError::Unsupported(self.why.clone()))
    }
}

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use super::*;
    use crate::conformance::sample::Sample;
    use crate::spec;

    /// One backend that is there, one that is not, and a family whose second backend chooses.
    struct Made {
        name: &'static str,
        has_usual: bool,
    }

    impl Family for Made {
        fn name(&self) -> &'static str {
            self.name
        }

        fn aliases(&self) -> &'static [&'static str] {
            match self.has_usual {
                true => &["other"],
                false => &[],
            }
        }

        fn backends(&self) -> Vec<Listed> {
            let listed = |instance: &str, is_here| Listed {
                instance: instance.to_owned(),
                is_here,
                summary: String::new(),
                details: String::new(),
            };
            let usual = self.has_usual.then(|| listed("", true));
            let named = [listed("here", true), listed("gone", false)];
            named.into_iter().chain(usual).collect()
        }

        fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
            match instance {
                "here" => Ok(Box::new(Sample::new(None))),
                "" if self.has_usual => Ok(Box::new(Sample::new(None))),
                "gone" => Err(OpenError::Absent(Unsupported {
                    reason: "pulled out".to_owned(),
                })),
                _ => Err(OpenError::NoSuch(format!("{instance}?"))),
            }
        }
    }

    const PLAIN: Made = Made {
        name: "made",
        has_usual: false,
    };
    const CHOOSING: Made = Made {
        name: "made-up",
        has_usual: true,
    };
    const FAMILIES: Families = Families::new(&[&PLAIN, &CHOOSING]);

    #[test]
    fn names_are_of_the_family_before_the_slash() {
        let of = |name| {
            let split = FAMILIES.split(name);
            split.map(|(family, instance)| (family.name(), instance))
        };
        assert_eq!(of("made/here"), Some(("made", "here")));
        assert_eq!(of("made:here"), Some(("made", "here")));
        assert_eq!(of("made"), Some(("made", "")));
        assert_eq!(of("made-up/a/b"), Some(("made-up", "a/b")));
        assert_eq!(of("other/x"), Some(("made-up", "x")));
        assert_eq!(of("mad"), None);
        assert_eq!(of("madeira/here"), None);
    }

    #[test]
    fn what_is_absent_opens_and_says_why_and_what_is_unknown_does_not() {
        let open = |name| FAMILIES.open(name);
        assert_eq!(open("made/here").expect("there").name(), "sample/inline");
        let absent = open("made/gone").expect("a backend that says why");
        assert_eq!(absent.name(), "made/gone");
        let why = absent
            .limits(&OpSpec::from(spec::Crc32c))
            .expect_err("it is gone");
        assert_eq!(why.reason, "pulled out");
        let unknown = open("made/x").err().expect("no such instance");
        assert_eq!(unknown, OpenError::NoSuch("x?".to_owned()));
        let unknown = open("nothing").err().expect("no such family").to_string();
        let names = "there are: made/here, made/gone, made-up/here, made-up/gone, made-up";
        assert!(unknown.contains(names), "{unknown}");
    }

    #[test]
    fn all_are_those_that_are_here_and_able_or_the_one_that_chooses() {
        assert_eq!(
            FAMILIES.all_for(&OpSpec::from(spec::Crc32c)),
            ["made/here", "made-up"]
        );
        assert_eq!(FAMILIES.all_for(&OpSpec::from(spec::Sha256)), [""; 0]);
    }
}
