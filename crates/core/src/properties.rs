//! What a backend says of itself: what its numbers rest on, who carries out its jobs, what it is made of.

use std::num::NonZeroU32;

use crate::Evidence;

/// The properties of a backend. Whoever measures, records or compares asks for them ([`Backend::properties`](crate::Backend::properties))
/// and infers nothing from a name.
///
/// Made by [`Properties::of_this_cpu`] or [`Properties::of_device`], then said more exactly by the methods that return `Self`:
///
/// ```
/// use dpb_core::Properties;
///
/// let properties = Properties::of_device(None)
///     .with_library("DPDK 24.11.1")
///     .with_device("crypto_aesni_mb");
/// assert_eq!(properties.made_of.device.as_deref(), Some("crypto_aesni_mb"));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The evidence that its numbers rest on.
    pub evidence: Evidence,
    /// The parts that it is made of.
    pub made_of: MadeOf,
}

/// What a backend is made of. Records keep it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "measure",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
pub struct MadeOf {
    /// Who carries out its jobs.
    pub executor: Executor,
    /// The library that computes, or that the device is reached by, with its version: `DPDK 22.11.11`. `None` for code that is the
    /// program's own, and where it depends on the operator ([`Backend::code`](crate::Backend::code)).
    pub library: Option<String>,
    /// The device, by the name that its library has for it.
    pub device: Option<String>,
    /// The backend inside: the one that computes a model's results, or that faults are injected into.
    pub inner: Option<Box<Inner>>,
}

/// A backend inside another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "measure",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
pub struct Inner {
    /// Its name.
    pub name: String,
    /// The parts that it is made of.
    pub made_of: MadeOf,
}

/// Who carries out a backend's jobs, and so whether their times are computed or modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "measure",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "snake_case")
)]
pub enum Executor {
    /// The core of the thread that submits.
    Caller,
    /// Worker threads of this process.
    Workers {
        /// The number of threads.
        threads: NonZeroU32,
    },
    /// A device, or software that is driven as one.
    Device,
    /// A model: it says how long a job takes, on a virtual clock. Results are real, the backend inside computes them.
    Model,
}

impl Properties {
    /// Software on the core of the thread that submits: [`Evidence::of_this_cpu`].
    pub fn of_this_cpu() -> Self {
        Self::new(Evidence::of_this_cpu(), Executor::Caller)
    }

    /// Software on `threads` workers of this process.
    pub fn of_workers(threads: NonZeroU32) -> Self {
        Self::new(Evidence::of_this_cpu(), Executor::Workers { threads })
    }

    /// A device; where software stands in for it, what that is ([`Evidence::of_device`]).
    pub fn of_device(stand_in: Option<String>) -> Self {
        Self::new(Evidence::of_device(stand_in), Executor::Device)
    }

    /// A model on a virtual clock, described by `model`, whose results the backend `name` with `inner` computes.
    pub fn of_model(model: String, name: &str, inner: Self) -> Self {
        let evidence = Evidence::Simulated { model };
        Self::new(evidence, Executor::Model).around(name, inner)
    }

    /// A wrapper that leaves jobs to the backend `name` with `inner`, and has its evidence.
    pub fn of_wrapper(name: &str, inner: Self) -> Self {
        let executor = inner.made_of.executor;
        Self::new(inner.evidence.clone(), executor).around(name, inner)
    }

    /// The same properties with other evidence.
    #[must_use]
    pub fn with_evidence(self, evidence: Evidence) -> Self {
        Self { evidence, ..self }
    }

    /// Computed by `library`, or reached by it: its name and version.
    #[must_use]
    pub fn with_library(mut self, library: impl Into<String>) -> Self {
        self.made_of.library = Some(library.into());
        self
    }

    /// On the device of this name.
    #[must_use]
    pub fn with_device(mut self, device: impl Into<String>) -> Self {
        self.made_of.device = Some(device.into());
        self
    }

    /// With the backend `name`, which has the properties `inner`, inside.
    fn around(mut self, name: &str, inner: Self) -> Self {
        self.made_of.inner = Some(Box::new(Inner {
            name: name.to_owned(),
            made_of: inner.made_of,
        }));
        self
    }

    /// True if its times are a model's.
    pub fn is_modelled(&self) -> bool {
        self.made_of.executor == Executor::Model
    }

    fn new(evidence: Evidence, executor: Executor) -> Self {
        Self {
            evidence,
            made_of: MadeOf {
                executor,
                library: None,
                device: None,
                inner: None,
            },
        }
    }
}
