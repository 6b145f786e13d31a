//! The words of `dpb index`'s flags, and what they stand for.

use clap::ValueEnum;
use dpb_dbmods::index::EngineKind;
use dpb_dbmods::index::ycsb::{Distribution, KeyForm, Workload};

use crate::args::List;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WorkloadName {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl WorkloadName {
    pub(super) fn workload(self) -> Workload {
        match self {
            Self::A => Workload::A,
            Self::B => Workload::B,
            Self::C => Workload::C,
            Self::D => Workload::D,
            Self::E => Workload::E,
            Self::F => Workload::F,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DistributionName {
    /// Each as often as the others
    Uniform,
    /// A few much oftener (constant 0.99), spread over all keys
    Zipfian,
    /// The last ones that were inserted much oftener
    Latest,
}

impl DistributionName {
    pub(super) fn distribution(self) -> Distribution {
        match self {
            Self::Uniform => Distribution::Uniform,
            Self::Zipfian => Distribution::Zipfian,
            Self::Latest => Distribution::Latest,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum KeysName {
    Ycsb,
    Integer,
}

impl KeysName {
    pub(super) fn form(self) -> KeyForm {
        match self {
            Self::Ycsb => KeyForm::Ycsb,
            Self::Integer => KeyForm::Integer,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ycsb => "ycsb",
            Self::Integer => "integer",
        }
    }

    pub(super) fn bytes(self) -> u32 {
        match self {
            Self::Ycsb => 23,
            Self::Integer => 8,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoopName {
    Closed,
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineName {
    Tree,
    Lmdb,
}

impl EngineName {
    pub(super) fn kind(self) -> EngineKind {
        match self {
            Self::Tree => EngineKind::Tree,
            Self::Lmdb => EngineKind::Lmdb,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DurabilityName {
    None,
    Commit,
    Sync,
}

/// Parts of the records, as they are written: `10:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) host: u32,
    pub(super) dpu: u32,
}

impl Parts {
    /// The host's share of the records.
    pub(super) fn host_share(self) -> f64 {
        f64::from(self.host) / (f64::from(self.host) + f64::from(self.dpu))
    }
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.dpu)
    }
}

/// A list of parts.
pub(super) fn splits(text: &str) -> Result<List<Parts>, String> {
    let wrong = |part: &str| format!("`{part}` is no split; splits look like 10:1, 1:0, 0:1");
    let one = |part: &str| {
        let (host, dpu) = part.split_once(':').ok_or_else(|| wrong(part))?;
        let parts = Parts {
            host: host.trim().parse().map_err(|_| wrong(part))?,
            dpu: dpu.trim().parse().map_err(|_| wrong(part))?,
        };
        match (parts.host, parts.dpu) {
            (0, 0) => Err(wrong(part)),
            _ => Ok(parts),
        }
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(List)
}
