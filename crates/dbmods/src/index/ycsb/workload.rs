//! The core workloads of YCSB as data: the mix of requests and the distribution of records.

use std::fmt;
use std::str::FromStr;

/// A core workload of YCSB (SoCC 2010, table 2; F came with its software). It parses from its letter, small or capital, and prints the small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Update heavy: half reads, half updates, zipfian.
    A,
    /// Read mostly: 95 % reads, 5 % updates, zipfian.
    B,
    /// Read only: reads, zipfian.
    C,
    /// Read latest: 95 % reads, 5 % inserts, latest.
    D,
    /// Short ranges: 95 % scans, 5 % inserts, zipfian.
    E,
    /// Read-modify-write: half reads, half read-modify-writes, zipfian.
    F,
}

impl Workload {
    /// All, in order.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Shares of the requests, as in YCSB's files `workloada` to `workloadf`.
    pub const fn mix(self) -> Mix {
        match self {
            Self::A => Mix {
                read: 0.5,
                update: 0.5,
                ..Mix::NONE
            },
            Self::B => Mix {
                read: 0.95,
                update: 0.05,
                ..Mix::NONE
            },
            Self::C => Mix {
                read: 1.0,
                ..Mix::NONE
            },
            Self::D => Mix {
                read: 0.95,
                insert: 0.05,
                ..Mix::NONE
            },
            Self::E => Mix {
                scan: 0.95,
                insert: 0.05,
                ..Mix::NONE
            },
            Self::F => Mix {
                read: 0.5,
                read_modify_write: 0.5,
                ..Mix::NONE
            },
        }
    }

    /// The distribution of records, as in YCSB's files.
    pub const fn distribution(self) -> Distribution {
        match self {
            Self::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }

    /// The letter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        }
    }
}

/// Shares of the kinds of requests. They are weights: a kind's share is its weight over their sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Reads of one record.
    pub read: f64,
    /// Writes of a record that is there.
    pub update: f64,
    /// Writes of a new record.
    pub insert: f64,
    /// Reads of some records from a key on.
    pub scan: f64,
    /// Reads of a record, each followed by a write of it.
    pub read_modify_write: f64,
}

impl Mix {
    /// Nothing: to begin from.
    pub const NONE: Self = Self {
        read: 0.0,
        update: 0.0,
        insert: 0.0,
        scan: 0.0,
        read_modify_write: 0.0,
    };

    /// The weights in the order of the fields.
    pub const fn weights(&self) -> [f64; 5] {
        [
            self.read,
            self.update,
            self.insert,
            self.scan,
            self.read_modify_write,
        ]
    }
}

/// How often each record is asked for. It parses from its name in any case, and prints it small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Each record that was loaded equally often. Inserted ones are never drawn, as in YCSB.
    Uniform,
    /// YCSB's scrambled zipfian: items of a zipfian distribution with constant 0.99 over 10^10 items, hashed onto the records, so that popular
    /// records lie anywhere. Many items fall on one record, so the most popular of few records is drawn less often than a plain zipfian
    /// distribution over them would have it.
    Zipfian,
    /// YCSB's skewed latest: the newest record is the most popular, by a zipfian distribution with constant 0.99 over the ages of the records.
    /// Record 0 is never drawn unless it is the only one, as in YCSB.
    Latest,
}

impl Distribution {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Zipfian, Self::Latest];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let named = (Self::ALL.into_iter()).find(|one| one.name().eq_ignore_ascii_case(name));
        named.ok_or_else(|| UnknownName {
            kind: "workload",
            name: name.into(),
            known: "a, b, c, d, e, f",
        })
    }
}

impl FromStr for Distribution {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let named = (Self::ALL.into_iter()).find(|one| one.name().eq_ignore_ascii_case(name));
        named.ok_or_else(|| UnknownName {
            kind: "distribution",
            name: name.into(),
            known: "uniform, zipfian, latest",
        })
    }
}

/// A name that no workload or distribution has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no {kind} of YCSB; they are {known}")]
pub struct UnknownName {
    /// What was named: a workload or a distribution.
    kind: &'static str,
    name: String,
    known: &'static str,
}
