//! What every family of devices answers: which backends it has here, and what was looked for.

use dpb_core::{Backend, Unsupported};

/// DOCA, DPDK, RDMA: a kind of device, reached through a library that this machine may have.
pub trait Family: Sync {
    /// The family's name, which stands before the slash of a backend's name: `dpdk` of `dpdk/compress_isal`.
    fn name(&self) -> &'static str;
    /// Whether `--backend all` means its devices too: not where starting it takes memory and time that every measurement would
    /// pay for.
    fn is_in_all(&self) -> bool {
        true
    }
    /// The backends that this machine has, or could have with what is named. Loads the family's library if it is there, and
    /// looks at its devices; never waits for one, and what is missing is no error.
    fn backends(&self) -> Vec<Listed>;
    /// The backend whose name follows the slash.
    ///
    /// # Errors
    /// There is none, or it is not to be had here: a reason that a person can act on.
    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, Unsupported>;
    /// The library behind the devices and its version, if it is loaded: `DPDK 22.11.11`.
    fn reached_by(&self) -> Option<String>;
    /// Everything that was looked for, found or not: library, version, API family, missing symbols, devices, capabilities and limits.
    fn findings(&self) -> Vec<Finding>;
}

/// A backend of a family, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The backend's name after the slash; the caller fills in words in capitals.
    pub instance: String,
    /// Whether this machine has it.
    pub is_here: bool,
    /// The operators that it runs, or what it is for.
    pub summary: String,
    /// What the backend is, or what it needs.
    pub details: String,
}

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What: `library`, `device mlx5_0`.
    pub what: String,
    /// Whether the thing was found, and whether it can be used.
    pub state: State,
    /// A description of the thing, or why it is not there.
    pub detail: String,
    /// The remedy for a person; empty if nothing need be done.
    pub remedy: String,
}

/// Whether a thing that was looked for is there and usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There.
    Found,
    /// There, but rights or parts are missing.
    Limited,
    /// Not there.
    Missing,
}

impl Finding {
    /// There.
    pub fn found(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Found,
            detail: detail.into(),
            remedy: String::new(),
        }
    }

    /// There, with something left to wish for.
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

    /// Not there.
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
