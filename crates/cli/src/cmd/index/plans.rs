//! The tests that the flags ask for, what each takes of this machine, and where it runs.

use std::path::{Path, PathBuf};

use dpb_core::measure::provenance::{allowed_cpus, memory_available_bytes};
use dpb_dbmods::index::ycsb::{Distribution, Spec, VALUE_BYTES_MIN};
use dpb_dbmods::index::{Durability, EngineKind, Needs, Plan, VALUE_BYTES_MAX};
use dpb_dbmods::tpch;
use dpb_micro::storage::available_bytes;

use super::Args;
use super::words::{DurabilityName, LoopName, Parts, WorkloadName};
use crate::args::List;
use crate::exit::Failure;
use crate::output;

/// Requests a second of one thread that inserts make room for.
const REQUESTS_PER_S_MAX: f64 = 4e6;

/// One test: a value for every parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) records: u64,
    pub(super) value_bytes: u64,
    pub(super) workload: WorkloadName,
    pub(super) distribution: Distribution,
    pub(super) rate: Option<f64>,
    pub(super) engine: EngineKind,
    pub(super) split: Parts,
    pub(super) host_threads: u64,
    pub(super) dpu_threads: u64,
    pub(super) batch: u64,
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, workload {}, {} x {} B, split {}",
            self.engine,
            self.workload.workload().name(),
            self.records,
            self.value_bytes,
            self.split
        )
    }
}

impl Args {
    /// The cartesian product, splits innermost so that what is compared is measured close together.
    pub(super) fn tests(&self) -> Vec<Test> {
        let rates: Vec<Option<f64>> = match &self.rate {
            Some(rates) => rates.iter().map(|&rate| Some(rate)).collect(),
            None => vec![None],
        };
        let mut tests = Vec::new();
        for &engine in &self.engine {
            for &workload in &self.workload {
                let own = [workload.workload().distribution()];
                let given: Vec<_> = self
                    .distribution
                    .iter()
                    .map(|name| name.distribution())
                    .collect();
                for &distribution in if given.is_empty() { &own[..] } else { &given } {
                    for &records in &self.records {
                        for &value_bytes in &self.value_bytes {
                            for &rate in &rates {
                                for &host_threads in &self.host_threads {
                                    for &dpu_threads in &self.dpu_threads {
                                        for &batch in &self.batch {
                                            tests.extend(self.split.iter().map(|&split| Test {
                                                records,
                                                value_bytes,
                                                workload,
                                                distribution,
                                                rate,
                                                engine: engine.kind(),
                                                split,
                                                host_threads,
                                                dpu_threads,
                                                batch,
                                            }));
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        tests
    }

    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.mode == LoopName::Closed && self.rate.is_some() {
            return Err(Failure::usage(
                "--rate needs --mode open: a closed loop has no rate",
            ));
        }
        let sizes = VALUE_BYTES_MIN as u64..=VALUE_BYTES_MAX as u64;
        if let Some(bytes) = self.value_bytes.iter().find(|bytes| !sizes.contains(bytes)) {
            return Err(Failure::usage(format!(
                "--value-bytes {bytes}: a value has {} to {} bytes",
                sizes.start(),
                sizes.end()
            )));
        }
        if let Some(batch) = self.batch.iter().find(|&&batch| batch > 4096) {
            return Err(Failure::usage(format!(
                "--batch {batch}: a burst has 4096 requests at most"
            )));
        }
        let is_split = |split: &Parts| split.host > 0 && split.dpu > 0;
        if self.adaptive && !self.split.iter().all(is_split) {
            return Err(Failure::usage(
                "--adaptive needs a --split that gives both sides a part, as 10:1",
            ));
        }
        for test in self.tests() {
            self.spec(&test)
                .validate()
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
        self.runs.check()
    }

    /// The records and requests of a test.
    pub(super) fn spec(&self, test: &Test) -> Spec {
        let seconds = self.runs.warm_up() + self.runs.seconds() * self.runs.repeat() as u32;
        let rate = test
            .rate
            .unwrap_or(REQUESTS_PER_S_MAX * test.host_threads as f64);
        Spec {
            distribution: test.distribution,
            scan_rows_max: self.scan_rows.min(u64::from(u32::MAX)) as u32,
            ..Spec::new(
                test.workload.workload(),
                test.records,
                (seconds.as_secs_f64() * rate) as u64,
            )
        }
    }

    /// The index of a side that has `share` of the records.
    pub(super) fn plan(&self, test: &Test, share: f64) -> Plan {
        let spec = self.spec(test);
        let all = (spec.records + spec.inserts_expected()) as f64;
        Plan {
            engine: test.engine,
            durability: match (test.engine, self.durability) {
                (EngineKind::Tree, _) => Durability::Volatile,
                (EngineKind::Lmdb, DurabilityName::None) => Durability::None,
                (EngineKind::Lmdb, DurabilityName::Commit) => Durability::Commit,
                (EngineKind::Lmdb, DurabilityName::Sync) => Durability::Sync,
            },
            // Ranges of keys have their shares of the records about, not exactly.
            records_max: ((all * (share + 0.02)).min(all)).ceil() as u64,
            key_bytes: self.keys.bytes(),
            value_bytes: test.value_bytes as u32,
            sessions_max: (2 * (test.host_threads + test.dpu_threads) + 16).min(4096) as u32,
        }
    }

    /// Plans of the host's side, and of the DPU's if it has a part.
    pub(super) fn plans(&self, test: &Test) -> (Plan, Option<Plan>) {
        let share = test.split.host_share();
        // A boundary that moves may give one side nearly all, and a copy is of all.
        let (host, dpu) = match (self.failover, self.adaptive) {
            (_, true) => (1.0, 1.0),
            (true, false) => (1.0, 1.0 - share),
            (false, false) => (share, 1.0 - share),
        };
        let dpu = (test.split.dpu > 0).then(|| self.plan(test, dpu));
        (self.plan(test, host), dpu)
    }

    /// What a test takes of this machine.
    pub(super) fn needs(&self, test: &Test) -> Needs {
        let (host, dpu) = self.plans(test);
        let dpu = match (&self.agent.server, dpu) {
            (None, Some(plan)) => plan.needs(),
            _ => Needs::default(),
        };
        let spec = self.spec(test);
        // What is known of each record.
        let known = (spec.records + spec.inserts_expected()).saturating_mul(24);
        let host = host.needs();
        Needs {
            memory_bytes: host
                .memory_bytes
                .saturating_add(dpu.memory_bytes)
                .saturating_add(known),
            disk_bytes: host.disk_bytes.saturating_add(dpu.disk_bytes),
        }
    }

    /// What needs more memory or disk than there is is refused before anything is loaded.
    pub(super) fn check_room(&self, tests: &[Test]) -> Result<(), Failure> {
        let dir = self.dir();
        let there = dir
            .ancestors()
            .find(|folder| folder.is_dir())
            .unwrap_or(Path::new("."));
        let disk = available_bytes(there).unwrap_or(u64::MAX);
        let memory = memory_available_bytes();
        for test in tests {
            let needs = self.needs(test);
            let short = |bytes: u64| output::short(bytes as f64);
            if needs.memory_bytes > memory {
                return Err(Failure::unavailable(format!(
                    "{test} needs about {}B of memory, {}B are available; ask for fewer --records or a smaller --value-bytes",
                    short(needs.memory_bytes),
                    short(memory)
                )));
            }
            if needs.disk_bytes > disk {
                return Err(Failure::unavailable(format!(
                    "{test} needs about {}B in {}, {}B are free; ask for fewer --records, or name another --data-dir",
                    short(needs.disk_bytes),
                    dir.display(),
                    short(disk)
                )));
            }
        }
        Ok(())
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(tpch::default_data_dir)
    }

    /// Threads of the DPU's side that run on this machine.
    pub(super) fn dpu_threads_here(&self, test: &Test) -> u64 {
        match (&self.agent.server, test.split.dpu) {
            (Some(_), _) | (_, 0) => 0,
            (None, _) => test.dpu_threads,
        }
    }

    /// The cores of the host's threads and of the DPU's process: disjoint where the machine has enough.
    pub(super) fn cores(&self, test: &Test) -> (Vec<u32>, Vec<u32>) {
        let given = self.runs.pins();
        let dpu_given = self
            .dpu_cores
            .iter()
            .flat_map(List::iter)
            .map(|&core| core as u32);
        let dpu_given: Vec<u32> = dpu_given.collect();
        let cpus = allowed_cpus();
        let dpu = self.dpu_threads_here(test) as usize;
        let host_threads = test.host_threads as usize;
        let fits = host_threads + dpu <= cpus.len();
        let host = match given.is_empty() && dpu_given.is_empty() && fits {
            true => cpus[..host_threads].to_vec(),
            false => given,
        };
        let dpu_cores = match dpu > 0 && dpu_given.is_empty() && fits {
            true => cpus[cpus.len() - dpu..].to_vec(),
            false => dpu_given,
        };
        (host, dpu_cores)
    }
    pub(super) fn window(&self, test: &Test) -> u64 {
        match (self.window, test.batch) {
            (Some(window), _) => window,
            (None, 1) => 1,
            // Both sides' bursts, and those on their way.
            (None, batch) => batch * (2 + self.depth),
        }
    }
}
