//! Which run a record is of. Machines, builds and runs never share a ratio or a curve.

use std::collections::BTreeSet;

use dpb_core::measure::Record;

/// A machine, a build, and one process there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin<'a> {
    host: &'a str,
    version: &'a str,
    run: &'a str,
}

/// The runs that a page's records come from, in the order in which they come.
pub(super) struct Origins<'a>(Vec<Origin<'a>>);

/// What tells some records' runs apart: each part only where there are several.
pub(super) struct Names<'a> {
    origins: &'a Origins<'a>,
    hosts: bool,
    versions: bool,
    runs: bool,
}

impl<'a> Origin<'a> {
    pub(super) fn of(record: &'a Record) -> Self {
        let here = &record.provenance;
        Self {
            host: &here.host,
            version: &here.dpb_version,
            run: &here.run,
        }
    }

    /// Records from before runs were kept tell nothing of which of them are one.
    pub(super) fn is_known(&self) -> bool {
        !self.run.is_empty()
    }
}

impl<'a> Origins<'a> {
    pub(super) fn of(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut origins = Vec::new();
        for origin in records.into_iter().map(Origin::of) {
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        Self(origins)
    }

    /// The run's number on the page, from 1.
    pub(super) fn number(&self, record: &Record) -> usize {
        let own = Origin::of(record);
        self.0.iter().take_while(|origin| **origin != own).count() + 1
    }

    /// For naming the runs of `records`.
    pub(super) fn names(&self, records: &[&Record]) -> Names<'_> {
        let among: BTreeSet<Origin<'_>> = records.iter().map(|record| Origin::of(record)).collect();
        let hosts: BTreeSet<&str> = among.iter().map(|origin| origin.host).collect();
        let versions: BTreeSet<&str> = among.iter().map(|origin| origin.version).collect();
        let builds: BTreeSet<(&str, &str)> = among
            .iter()
            .map(|origin| (origin.host, origin.version))
            .collect();
        Names {
            origins: self,
            hosts: hosts.len() > 1,
            versions: versions.len() > 1,
            runs: builds.len() < among.len(),
        }
    }
}

impl Names<'_> {
    pub(super) fn are_several(&self) -> bool {
        self.hosts || self.versions || self.runs
    }

    /// Of the record's run; nothing where there is no other.
    pub(super) fn of(&self, record: &Record) -> Option<String> {
        let own = Origin::of(record);
        let host = self.hosts.then(|| own.host.to_owned());
        let version = self.versions.then(|| format!("dpb {}", own.version));
        let run = self
            .runs
            .then(|| format!("run {}", self.origins.number(record)));
        let words: Vec<String> = [host, version, run].into_iter().flatten().collect();
        self.are_several().then(|| words.join(", "))
    }
}
