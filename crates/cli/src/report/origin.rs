//! Which machine and run a record is of. Machines, builds and runs never share a ratio or a curve.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::measure::Record;

/// The machines of a page's records. Of machines with one host name, the CPU's model tells which is which; records without a model,
/// such as another program's, are of the first machine of their name.
#[derive(Default)]
pub(super) struct Machines<'a> {
    /// The CPU models of each host name, in the records' order.
    models: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Machines<'a> {
    pub(super) fn of(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut models = BTreeMap::<&str, Vec<&str>>::new();
        for record in records {
            let here = &record.provenance;
            let known = models.entry(&here.host).or_default();
            if !here.cpu_model.is_empty() && !known.contains(&here.cpu_model.as_str()) {
                known.push(&here.cpu_model);
            }
        }
        Self { models }
    }

    /// The name of a record's machine: its host's, with the CPU's model where several machines have that name.
    pub(super) fn name(&self, record: &Record) -> String {
        let here = &record.provenance;
        match self.models.get(here.host.as_str()).map(Vec::as_slice) {
            Some(models @ [first, _, ..]) => {
                let own = models.iter().find(|model| **model == here.cpu_model);
                format!("{} ({})", here.host, own.unwrap_or(first))
            }
            _ => here.host.clone(),
        }
    }
}

/// A machine, a build, and one process there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin<'a> {
    host: &'a str,
    cpu_model: &'a str,
    version: &'a str,
    run: &'a str,
}

/// The runs that a page's records come from, in the order in which they come.
pub(super) struct Origins<'a> {
    runs: Vec<Origin<'a>>,
    machines: Machines<'a>,
}

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
            cpu_model: &here.cpu_model,
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
        let records: Vec<&Record> = records.into_iter().collect();
        let mut runs = Vec::new();
        for origin in records.iter().copied().map(Origin::of) {
            if !runs.contains(&origin) {
                runs.push(origin);
            }
        }
        Self {
            runs,
            machines: Machines::of(records),
        }
    }

    /// The name of a record's machine.
    pub(super) fn machine(&self, record: &Record) -> String {
        self.machines.name(record)
    }

    /// The run's number on the page, from 1.
    pub(super) fn number(&self, record: &Record) -> usize {
        let own = Origin::of(record);
        self.runs
            .iter()
            .take_while(|origin| **origin != own)
            .count()
            + 1
    }

    /// For naming the runs of `records`.
    pub(super) fn names(&self, records: &[&Record]) -> Names<'_> {
        let among: BTreeSet<Origin<'_>> = records.iter().map(|record| Origin::of(record)).collect();
        let hosts: BTreeSet<String> = records.iter().map(|record| self.machine(record)).collect();
        let versions: BTreeSet<&str> = among.iter().map(|origin| origin.version).collect();
        let builds: BTreeSet<(&str, &str, &str)> = among
            .iter()
            .map(|origin| (origin.host, origin.cpu_model, origin.version))
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
        let host = self.hosts.then(|| self.origins.machine(record));
        let version = self.versions.then(|| format!("dpb {}", own.version));
        let run = self
            .runs
            .then(|| format!("run {}", self.origins.number(record)));
        let words: Vec<String> = [host, version, run].into_iter().flatten().collect();
        self.are_several().then(|| words.join(", "))
    }
}
