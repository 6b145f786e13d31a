//! One test: both sides made, loaded and driven, and the record of it.

use std::path::Path;
use std::sync::Arc;

use dpb_core::WallClock;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Check, Evidence, Record, Samples};
use dpb_dbmods::index::drive::{self, Load, Records};
use dpb_dbmods::index::router::{Lane, Router, RouterOptions};
use dpb_dbmods::index::runs::{self, RunPlan, RunResult};
use dpb_dbmods::index::{EngineKind, Index, Plan};
use dpb_link::Connect;

use super::dpu::DpuSide;
use super::plans::Test;
use super::words::Parts;
use super::{Args, Ended, unsupported, wrong};
use crate::cmd::sweep;
use crate::exit::Failure;
use crate::interrupt;

/// Marks at which the boundary may lie.
const MARKS: usize = 1024;
/// Requests of a burst while records are loaded.
const LOADED_AT_ONCE: usize = 256;
/// A name ending and the share of requests that it stands for.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

impl Args {
    fn record(&self, test: &Test) -> Record {
        let name = test.distribution.name();
        let mut record = Record::new("index", Evidence::of_this_cpu(), self.runs.seed)
            .with("engine", test.engine.name())
            .with("workload", test.workload.workload().name())
            .with("distribution", name)
            .with("records", test.records)
            .with("value_bytes", test.value_bytes)
            .with("keys", self.keys.name())
            .with("scan_rows", self.scan_rows)
            .with("split", test.split.to_string())
            .with("adaptive", self.adaptive)
            .with("failover", self.failover)
            .with("host_threads", test.host_threads)
            .with("dpu_threads", test.dpu_threads)
            .with("batch", test.batch)
            .with("depth", self.depth)
            .with("window", self.window(test))
            .with(
                "mode",
                if test.rate.is_some() {
                    "open"
                } else {
                    "closed"
                },
            )
            .with("server", self.agent.name());
        if let Some(rate) = test.rate {
            record = record.with("rate", rate);
        }
        let (host, _) = self.plans(test);
        record = record.with("durability", host.durability.word());
        let record = self.runs.note(record);
        let (cores, dpu_cores) = self.cores(test);
        let mut record = match dpu_cores.is_empty() {
            true => record,
            false => {
                let dpu_cores: Vec<String> = dpu_cores.iter().map(ToString::to_string).collect();
                record.with("dpu_cores", dpu_cores.join(","))
            }
        };
        record.provenance.pinned = cores;
        record
    }

    pub(super) fn measure(&self, test: &Test) -> Result<Record, Failure> {
        let record = self.record(test);
        match self.measured(test, record.clone()) {
            Ok(record) => Ok(record),
            Err(Ended::Broken(broken)) => Ok(sweep::broken(record, &broken)),
            Err(Ended::Failure(failure)) => Err(failure),
        }
    }

    fn measured(&self, test: &Test, mut record: Record) -> Result<Record, Ended> {
        let (host_cores, dpu_cores) = self.cores(test);
        let (host_plan, dpu_plan) = self.plans(test);
        let dir = self.dir();
        let files = match test.engine {
            EngineKind::Tree => None,
            EngineKind::Lmdb => Some(folder_in(&dir)?),
        };
        let side = match dpu_plan {
            Some(plan) => Some((
                DpuSide::find(self, &plan, test.dpu_threads, &dpu_cores)?,
                plan,
            )),
            None => None,
        };
        let path = files.as_ref().map_or(dir.as_path(), |folder| folder.path());
        let host = host_plan.make(path).map_err(unsupported)?;
        let records = Records::new(self.spec(test), self.keys.form(), test.value_bytes as usize)
            .map_err(unsupported)?;
        let router = self.router(
            test,
            host,
            &records,
            side.as_ref().map(|(side, plan)| (side.connect(), *plan)),
        )?;
        self.load(test, &router, &records)?;
        let (host_bytes, dpu_bytes) = sizes(&router)?;
        let runs = self.run_all(test, &router, &records, host_cores)?;
        if let Some((side, _)) = &side {
            record
                .provenance
                .libraries
                .insert("dpu".to_owned(), side.words());
        }
        record.counts.insert("index_bytes".to_owned(), host_bytes);
        record
            .counts
            .insert("dpu_index_bytes".to_owned(), dpu_bytes);
        self.fill(&mut record, test, &runs, &router);
        Ok(record)
    }

    fn router(
        &self,
        test: &Test,
        host: Arc<dyn Index>,
        records: &Records,
        dpu: Option<(Connect, Plan)>,
    ) -> Result<Arc<Router>, Ended> {
        let marks = records.marks(MARKS);
        let boundary = (test.split.host_share() * marks.len() as f64).round() as usize;
        let boundary = match test.split {
            Parts { host: 0, .. } => 0,
            Parts { dpu: 0, .. } => marks.len(),
            _ => boundary.clamp(1, marks.len().saturating_sub(1).max(1)),
        };
        let options = RouterOptions {
            dpu,
            marks,
            boundary,
            value_room: test.value_bytes as usize,
            burst_requests: test.batch as usize,
            depth: self.depth as usize,
            connections: test.dpu_threads.div_ceil(test.host_threads) as usize,
            patience: self.patience,
            mirror: self.failover,
            clock: Arc::new(WallClock::default()),
        };
        Router::new(host, options)
            .map_err(|error| Ended::Failure(Failure::unavailable(error.to_string())))
    }

    /// Writes all records, by one thread: the host's side and the DPU's take turns to be waited for.
    fn load(&self, test: &Test, router: &Arc<Router>, records: &Records) -> Result<(), Ended> {
        let mut lane = Lane::new(router).map_err(unsupported)?;
        let window = (test.batch as usize).max(LOADED_AT_ONCE);
        drive::load(records, 0, 1, window, &mut lane, interrupt::flag()).map_err(wrong)?;
        match interrupt::is_set() {
            true => Err(Ended::Failure(Failure::interrupted(
                "interrupted while records were loaded",
            ))),
            false => Ok(()),
        }
    }

    fn run_all(
        &self,
        test: &Test,
        router: &Arc<Router>,
        records: &Records,
        pin: Vec<u32>,
    ) -> Result<Vec<RunResult>, Ended> {
        let mut plan = RunPlan {
            threads: test.host_threads as u32,
            pin,
            load: Load {
                window: self.window(test) as usize,
                rate: test.rate.map(|rate| rate / test.host_threads as f64),
                requests: None,
            },
            seconds: self.runs.warm_up(),
            seed: self.runs.seed,
            adapt_to: self.adaptive.then_some(test.dpu_threads as u32),
        };
        let mut results = Vec::new();
        for run in 0..=self.runs.repeat() {
            if interrupt::is_set() {
                break;
            }
            plan.seed = self.runs.seed.wrapping_add(run as u64);
            let result = runs::run(router, records, &plan, &interrupt::is_set).map_err(wrong)?;
            if let Some(why) = &result.driven.wrong {
                return Err(wrong(why));
            }
            if let Some(why) = result
                .driven
                .failure
                .as_ref()
                .filter(|_| !self.failover || result.driven.requests == 0)
            {
                return Err(wrong(why));
            }
            // The first one warms caches up, and is no result.
            if run > 0 {
                results.push(result);
            }
            plan.seconds = self.runs.seconds();
        }
        Ok(results)
    }

    fn fill(&self, record: &mut Record, test: &Test, runs: &[RunResult], router: &Router) {
        let each = |of: &dyn Fn(&RunResult) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let requests = |run: &RunResult| run.driven.requests.max(1) as f64;
        let rates = each(&|run| run.driven.requests as f64 * 1e9 / run.elapsed_ns as f64);
        record.sample("requests_per_s", rates.clone());
        record.sample(
            "value_bytes_per_s",
            each(&|run| run.driven.value_bytes as f64 * 1e9 / run.elapsed_ns as f64),
        );
        record.sample(
            "host_cpu_ns_per_request",
            each(&|run| run.host_cpu_ns as f64 / requests(run)),
        );
        if runs.iter().all(|run| run.dpu_cpu_ns.is_some()) && !runs.is_empty() {
            record.sample(
                "dpu_cpu_ns_per_request",
                each(&|run| run.dpu_cpu_ns.unwrap_or(0) as f64 / requests(run)),
            );
        }
        record.sample(
            "dpu_share",
            each(&|run| run.work.dpu_share().unwrap_or(0.0)),
        );
        for (name, share) in PERCENTILES {
            record.sample(
                &format!("latency_ns_{name}"),
                each(&|run| run.driven.latencies.percentile_ns(share) as f64),
            );
        }
        let mut all = Latencies::default();
        runs.iter().for_each(|run| all.add(&run.driven.latencies));
        record.samples.insert(
            "latency_ns".to_owned(),
            Samples {
                values: Vec::new(),
                hdr: Some(all.to_base64()),
            },
        );
        let sum = |of: fn(&RunResult) -> u64| runs.iter().map(of).sum::<u64>();
        let counts = [
            ("requests", sum(|run| run.driven.requests)),
            ("requests_failed", sum(|run| run.driven.failed)),
            ("requests_late", sum(|run| run.driven.late)),
            ("lookups_found", sum(|run| run.driven.hits)),
            ("rows", sum(|run| run.driven.rows)),
            ("pieces_moved", sum(|run| run.moved.pieces)),
            ("records_moved", sum(|run| run.moved.records)),
            ("dpu_failures", router.failures()),
        ];
        record
            .counts
            .extend(counts.map(|(name, count)| (name.to_owned(), count)));
        record.check = Some(Check {
            against: "the bytes and the version of each value that was read, what was written before, and the order of rows".to_owned(),
            compared: sum(|run| run.driven.requests),
            digest: None,
        });
        let mut interference = runs
            .first()
            .map(|run| run.interference.clone())
            .unwrap_or_default();
        runs.iter()
            .skip(1)
            .for_each(|run| interference.add(&run.interference));
        let workers = test.host_threads;
        sweep::conclude(
            record,
            &rates,
            self.runs.repeat(),
            workers,
            &interference,
            interrupt::is_set(),
        );
        if let Some(reason) = runs.iter().find_map(|run| run.driven.failure.as_ref())
            && let Some(stability) = &mut record.stability
        {
            stability.stable = false;
            stability.reasons.push(format!("requests failed: {reason}"));
        }
    }
}

/// Bytes of both sides' indexes.
fn sizes(router: &Router) -> Result<(u64, u64), Ended> {
    let host = router.host().usage().map_err(unsupported)?.bytes;
    let dpu = match router.dpu_usage() {
        Some(usage) => usage.map_err(wrong)?.bytes,
        None => 0,
    };
    Ok((host, dpu))
}

/// A folder for one test's files, which is gone when the test ends.
fn folder_in(dir: &Path) -> Result<tempfile::TempDir, Ended> {
    let made = std::fs::create_dir_all(dir)
        .and_then(|()| tempfile::Builder::new().prefix("index-").tempdir_in(dir));
    made.map_err(|error| {
        Ended::Failure(Failure::unavailable(format!(
            "--data-dir {}: {error}",
            dir.display()
        )))
    })
}
