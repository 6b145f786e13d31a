//! From what was measured to the fields of a record.

use super::{Counts, Measured, Mode, Run};
use crate::measure::latency::Latencies;
use crate::measure::record::{Check, Outcome, Record, Samples};
use crate::measure::statistics::{self, Stability, Summary};

/// A name ending and the share of jobs that it stands for.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// One arrival in so many may go unserved before a backend counts as too slow for the rate.
const UNSERVED_SHARE: u64 = 100;

impl Measured {
    /// Adds samples, counts, summaries, check and verdict to `record`. Throughput and latency of one test go into one
    /// record, each in its turn.
    pub fn fill(&self, record: &mut Record) {
        let total = self.total();
        if self.interrupted {
            record.outcome = Outcome::Interrupted;
        }
        match self.mode {
            Mode::Throughput => self.fill_throughput(record, &total),
            Mode::Latency => self.fill_latency(record),
            Mode::HostCpu => self.fill_host_cpu(record),
            Mode::Open { jobs_per_s } => {
                self.fill_throughput(record, &total);
                self.fill_latency(record);
                let offered = Summary {
                    median: jobs_per_s,
                    ci95_low: None,
                    ci95_high: None,
                    samples: 1,
                };
                record.summary.insert("offered_jobs_per_s".into(), offered);
            }
        }
        self.fill_check(record, &total);
        self.fill_verdict(record, &total);
    }

    fn total(&self) -> Counts {
        let mut total = Counts::default();
        for run in &self.runs {
            total.add(&run.counts);
        }
        total
    }

    fn fill_throughput(&self, record: &mut Record, total: &Counts) {
        let each = |of: fn(&Run) -> f64| self.runs.iter().map(of).collect::<Vec<_>>();
        record.sample("items_per_s", each(|run| run.items_per_s));
        record.sample("bytes_per_s", each(|run| run.bytes_per_s));
        let counts = [
            ("jobs", total.jobs),
            ("items", total.items),
            ("bytes_in", total.bytes_in),
            ("bytes_out", total.bytes_out),
            ("polls_empty", total.polls_empty),
            ("segment_jobs", self.segment_jobs),
        ];
        let counts = counts.map(|(name, count)| (name.to_owned(), count));
        record.counts.extend(counts);
        if let Mode::Open { .. } = self.mode {
            let unserved = total.arrivals_unserved;
            record.counts.insert("arrivals_unserved".into(), unserved);
        }
    }

    /// A percentile is taken of each run, so that it has an interval; the histogram is of all runs.
    fn fill_latency(&self, record: &mut Record) {
        let mut all = Latencies::default();
        for run in &self.runs {
            all.add(&run.latencies);
        }
        let each = |of: &dyn Fn(&Latencies) -> u64| {
            let values = self.runs.iter().map(|run| of(&run.latencies) as f64);
            values.collect::<Vec<_>>()
        };
        for (name, share) in PERCENTILES {
            let values = each(&|latencies| latencies.percentile_ns(share));
            record.sample(&format!("latency_ns_{name}"), values);
        }
        record.sample("latency_ns_max", each(&Latencies::max_ns));
        record.counts.insert("latency_jobs".into(), all.count());
        let histogram = Samples {
            values: Vec::new(),
            hdr: Some(all.to_base64()),
        };
        record.samples.insert("latency_ns".into(), histogram);
    }

    fn fill_host_cpu(&self, record: &mut Record) {
        let values = self.runs.iter().map(host_cpu_ns_per_item).collect();
        record.sample("host_cpu_ns_per_item", values);
    }

    fn fill_check(&self, record: &mut Record, total: &Counts) {
        let before = record.check.as_ref().map_or(0, |check| check.compared);
        record.check = Some(Check {
            against: self.against.clone(),
            compared: before + total.items,
            digest: self.digest.clone(),
        });
    }

    fn fill_verdict(&self, record: &mut Record, total: &Counts) {
        let series: Vec<f64> = match self.mode {
            Mode::Throughput => self.runs.iter().map(|run| run.items_per_s).collect(),
            Mode::HostCpu => self.runs.iter().map(host_cpu_ns_per_item).collect(),
            Mode::Latency | Mode::Open { .. } => {
                let medians = self.runs.iter().map(|run| run.latencies.percentile_ns(0.5));
                medians.map(|ns| ns as f64).collect()
            }
        };
        let asked = self.runs_asked as usize;
        let mut verdict = statistics::judge(&series, asked, self.threads, &self.interference);
        // A few are due in the last moment of every run.
        if total.arrivals_unserved * UNSERVED_SHARE > total.jobs {
            verdict.stable = false;
            verdict.reasons.push(format!(
                "fell behind: {} of {} arrivals not served, latencies are lower bounds",
                total.arrivals_unserved,
                total.arrivals_unserved + total.jobs
            ));
        }
        let prefix = match self.mode {
            Mode::Throughput => "",
            Mode::HostCpu => "host CPU time: ",
            Mode::Latency | Mode::Open { .. } => "latency: ",
        };
        for reason in &mut verdict.reasons {
            reason.insert_str(0, prefix);
        }
        record.stability = Some(match record.stability.take() {
            None => verdict,
            Some(first) => both(first, verdict),
        });
    }
}

fn host_cpu_ns_per_item(run: &Run) -> f64 {
    run.cpu.of_jobs_ns() / run.counts.items.max(1) as f64
}

/// Of the same test: throughput first, then the others.
fn both(first: Stability, second: Stability) -> Stability {
    Stability {
        disturbed: first.disturbed || second.disturbed,
        stable: first.stable && second.stable,
        reasons: first.reasons.into_iter().chain(second.reasons).collect(),
        cv: first.cv,
        core_wait_s: sum(first.core_wait_s, second.core_wait_s),
        context_switches_involuntary: sum(
            first.context_switches_involuntary,
            second.context_switches_involuntary,
        ),
        steal_s: sum(first.steal_s, second.steal_s),
    }
}

fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    Some(a? + b?)
}
