//! Where the figures of `dpb rdma` go: records, rows of perftest's form, a table.

use dpb_accel::rdma::bench::{
    Bandwidth, Figures, Latency, Measured, MeasurementPlan, Method, Report, Role, Verb, perftest,
};
use dpb_core::measure::{Evidence, Interference, Outcome, Record, Samples, Store};

use crate::cmd::sweep::{conclude, parameter};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, evidence, short, short_ns, verdict};

/// The runs of one size so far.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeRuns {
    figures: Vec<Figures>,
    /// What disturbed these runs, and not those of other sizes.
    interference: Interference,
    is_recorded: bool,
}

/// Where results go.
pub(super) struct Show<'a> {
    pub(super) as_perftest: bool,
    pub(super) format: Format,
    pub(super) store: Option<Store>,
    pub(super) plan: &'a MeasurementPlan,
    pub(super) role: &'a Role,
    pub(super) evidence: Evidence,
    /// Runs that were asked for.
    pub(super) repeat: usize,
    /// What each size has, in the order of the plan's.
    pub(super) runs: Vec<SizeRuns>,
    pub(super) records: Vec<Record>,
}

impl Show<'_> {
    pub(super) fn begin(&self) -> Result<(), Failure> {
        if !self.as_perftest {
            return Ok(());
        }
        let titles = match self.plan.method {
            Method::Latency => perftest::LATENCY_TITLES,
            Method::Bandwidth => perftest::BANDWIDTH_TITLES,
        };
        output::print(&format!("{}\n{titles}\n", perftest::RULE))
    }

    /// Takes the figures of one more run of a size. The last run's make its record.
    pub(super) fn measured(
        &mut self,
        measured: Measured,
        interference: &Interference,
    ) -> Result<(), Failure> {
        if self.as_perftest {
            let row = match &measured.figures {
                Figures::Latency(latency) => perftest::latency_row(measured.size_bytes, latency),
                Figures::Bandwidth(bandwidth) => {
                    Some(perftest::bandwidth_row(&Report::of(bandwidth)))
                }
                Figures::Reported(report) => Some(perftest::bandwidth_row(report)),
            };
            output::print(&(row.unwrap_or_default() + "\n"))?;
        }
        let sizes = &self.plan.sizes;
        let at = sizes.iter().position(|&size| size == measured.size_bytes);
        let at = at.unwrap_or(sizes.len() - 1);
        let runs = &mut self.runs[at];
        runs.figures.push(measured.figures);
        runs.interference.add(interference);
        match runs.figures.len() == self.repeat {
            true => self.finished(at, false),
            false => Ok(()),
        }
    }

    /// The record of a size of which there are no more runs.
    fn finished(&mut self, at: usize, interrupted: bool) -> Result<(), Failure> {
        let runs = std::mem::take(&mut self.runs[at]);
        self.runs[at].is_recorded = true;
        let record = self.record(self.plan.sizes[at]);
        self.keep(filled(record, &runs, self.repeat, interrupted))
    }

    /// Records of what was measured before the end that `outcome` says: of sizes with runs these; of the first size that has none, nor
    /// any size after it, the outcome, unless that is an interrupt.
    pub(super) fn broken(&mut self, outcome: Outcome) -> Result<(), Failure> {
        let interrupted = outcome == Outcome::Interrupted;
        let has_runs = |runs: &SizeRuns| runs.is_recorded || !runs.figures.is_empty();
        let next = self.runs.iter().rposition(has_runs).map_or(0, |at| at + 1);
        for at in 0..next {
            if !self.runs[at].figures.is_empty() {
                self.finished(at, interrupted)?;
            }
        }
        match self.plan.sizes.get(next) {
            Some(&size) if !interrupted => self.keep(self.record(size).without_numbers(outcome)),
            _ => Ok(()),
        }
    }

    pub(super) fn end(&self) -> Result<(), Failure> {
        if self.as_perftest {
            return output::print(&format!("{}\n", perftest::RULE));
        }
        match self.format {
            Format::Table => output::print(&table(&self.records).to_text()),
            Format::Csv => output::print(&table(&self.records).to_csv()),
            Format::Markdown => output::print(&table(&self.records).to_markdown()),
            Format::Json => Ok(()),
        }
    }

    pub(super) fn keep(&mut self, record: Record) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.append(&record).map_err(anyhow::Error::from)?;
        }
        if self.format == Format::Json && !self.as_perftest {
            output::print_json(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// A record of dpb's, without figures.
    pub(super) fn record(&self, size_bytes: u32) -> Record {
        self.blank(size_bytes).with("tool", "dpb")
    }

    /// A record of any tool's, without figures.
    pub(super) fn blank(&self, size_bytes: u32) -> Record {
        let plan = self.plan;
        let method = match plan.method {
            Method::Latency => "lat",
            Method::Bandwidth => "bw",
        };
        let record = Record::new("rdma", self.evidence.clone(), 0)
            .with("method", method)
            .with("verb", verb_name(plan.verb))
            .with("size", u64::from(size_bytes))
            .with("depth", u64::from(plan.depth))
            .with("qps", u64::from(plan.queue_pairs))
            .with("iterations", u64::from(plan.iterations))
            .with("signal_every", u64::from(plan.signal_every))
            .with("chain", u64::from(plan.chain))
            .with("inline", u64::from(plan.inline_bytes))
            .with("cm", plan.by_rdma_cm)
            .with("device", plan.device.as_str())
            .with("repeat", self.repeat as u64);
        match self.role {
            Role::Client(host) => record.with("role", "client").with("peer", host.as_str()),
            Role::Server(_) => record.with("role", "server"),
        }
    }
}

pub(super) fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => "read",
        Verb::Write => "write",
        Verb::Send => "send",
    }
}

/// The record with the figures of its runs: of each figure a value a run, as of every task.
fn filled(mut record: Record, runs: &SizeRuns, asked: usize, interrupted: bool) -> Record {
    let mut raw: Vec<f64> = Vec::new();
    let mut raw_name = "";
    let mut by_figure: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for run in &runs.figures {
        let figures = match run {
            Figures::Latency(latency) => {
                raw_name = "latency_ns";
                raw.extend(&latency.samples_ns);
                of_latency(latency)
            }
            Figures::Bandwidth(bandwidth) => {
                raw_name = "completed_ns";
                let start = bandwidth.posted_ns.first().copied().unwrap_or(0);
                let since = bandwidth.completed_ns.iter();
                raw.extend(since.map(|&(_, at)| (at - start) as f64));
                count(&mut record, bandwidth.messages(), bandwidth.size_bytes);
                of_bandwidth(bandwidth)
            }
            Figures::Reported(report) => {
                *record.counts.entry("messages".to_owned()).or_default() += report.messages;
                of_report(report)
            }
        };
        for (name, value) in figures {
            match by_figure.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => by_figure.push((name, vec![value])),
            }
        }
    }
    for (name, values) in by_figure {
        record.sample(name, values);
    }
    if !raw.is_empty() {
        // Without a summary: a run has many messages, so they make no interval of it.
        let all = Samples {
            values: raw,
            hdr: None,
        };
        record.samples.insert(raw_name.to_owned(), all);
    }
    let judged = ["bytes_per_s", "latency_ns_p50"];
    let judged = judged.iter().find_map(|name| record.samples.get(*name));
    let series = judged.map_or_else(Vec::new, |samples| samples.values.clone());
    let interference = &runs.interference;
    conclude(&mut record, &series, asked, 1, interference, interrupted);
    record
}

fn count(record: &mut Record, messages: u64, size_bytes: u32) {
    let counts = [
        ("messages", messages),
        ("bytes", messages * u64::from(size_bytes)),
    ];
    for (name, count) in counts {
        *record.counts.entry(name.to_owned()).or_default() += count;
    }
}

fn of_latency(latency: &Latency) -> Vec<(&'static str, f64)> {
    let Some(summary) = latency.summary() else {
        return Vec::new();
    };
    vec![
        ("latency_ns_min", summary.min_ns),
        ("latency_ns_mean", summary.mean_ns),
        ("latency_ns_deviation", summary.deviation_ns),
        ("latency_ns_p50", summary.p50_ns),
        ("latency_ns_p99", summary.p99_ns),
        ("latency_ns_p999", summary.p999_ns),
        ("latency_ns_max", summary.max_ns),
    ]
}

fn of_bandwidth(bandwidth: &Bandwidth) -> Vec<(&'static str, f64)> {
    let peak = bandwidth.peak_messages_per_s();
    let figures = [
        ("messages_per_s", bandwidth.messages_per_s()),
        ("bytes_per_s", bandwidth.bytes_per_s()),
        (
            "bytes_per_s_peak",
            peak.map(|rate| rate * f64::from(bandwidth.size_bytes)),
        ),
    ];
    let figures = figures.into_iter();
    figures
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// What the client said; nothing of it was seen here.
fn of_report(report: &Report) -> Vec<(&'static str, f64)> {
    vec![
        ("bytes_per_s", report.average * f64::from(1 << 20)),
        ("messages_per_s", report.million_messages_per_s * 1e6),
    ]
}

fn table(records: &[Record]) -> Table {
    let is_latency = records
        .iter()
        .any(|record| record.summary.contains_key("latency_ns_p50"));
    let figures: &[(&str, &str)] = match is_latency {
        true => &[
            ("min", "latency_ns_min"),
            ("p50", "latency_ns_p50"),
            ("mean", "latency_ns_mean"),
            ("p99", "latency_ns_p99"),
            ("p99.9", "latency_ns_p999"),
            ("max", "latency_ns_max"),
        ],
        false => &[
            ("messages/s", "messages_per_s"),
            ("bytes/s", "bytes_per_s"),
            ("peak bytes/s", "bytes_per_s_peak"),
        ],
    };
    let has_peers = records
        .iter()
        .any(|record| parameter(record, "tool") != "dpb");
    let mut columns = vec![Column::left("verb"), Column::right("size")];
    columns.extend(has_peers.then(|| Column::left("tool")));
    columns.extend(figures.iter().map(|(title, _)| Column::right(*title)));
    columns.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(columns);
    for record in records {
        let mut row = vec![parameter(record, "verb"), parameter(record, "size")];
        row.extend(has_peers.then(|| parameter(record, "tool")));
        row.extend(
            figures
                .iter()
                .map(|(_, name)| match record.summary.get(*name) {
                    Some(summary) if is_latency => short_ns(summary.median),
                    Some(summary) => short(summary.median),
                    None => "-".into(),
                }),
        );
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a size with these runs, and the table of it and of a size whose measurement broke.
    fn shown(method: Method, runs: Vec<Figures>) -> (Record, String) {
        let plan = MeasurementPlan::new("rxe0", method, Verb::Write, vec![64, 128]);
        let mut show = Show {
            as_perftest: false,
            format: Format::Csv,
            store: None,
            plan: &plan,
            role: &Role::Client("host".into()),
            evidence: Evidence::Emulated {
                by: "soft-RoCE".into(),
            },
            repeat: runs.len(),
            runs: vec![SizeRuns::default(); 2],
            records: Vec::new(),
        };
        for figures in runs {
            let measured = Measured {
                size_bytes: 64,
                figures,
            };
            let shown = show.measured(measured, &Interference::default());
            shown.expect("shown");
        }
        let reason = "the link went down".to_owned();
        show.broken(Outcome::Failed { reason }).expect("shown");
        assert_eq!(show.records.len(), 2);
        let text = table(&show.records).to_text();
        (show.records.swap_remove(0), text)
    }

    #[test]
    fn a_latency_is_a_record_with_all_samples_and_a_row() {
        let samples_ns: Vec<f64> = (1..=100).map(|us| f64::from(us) * 1e3).collect();
        let latency = Latency {
            samples_ns: samples_ns.clone(),
        };
        let (record, text) = shown(Method::Latency, vec![Figures::Latency(latency)]);
        assert_eq!(record.samples["latency_ns"].values, samples_ns);
        assert!(
            !record.summary.contains_key("latency_ns"),
            "messages are no runs"
        );
        assert_eq!(record.summary["latency_ns_p99"].median, 99e3);
        assert_eq!(record.summary["latency_ns_max"].median, 100e3);
        let rows: Vec<&str> = text.lines().collect();
        assert!(
            rows[1].contains("50.0 us") && rows[1].contains("emulated"),
            "{text}"
        );
        assert!(
            rows[2].contains("failed") && text.contains("the link went down"),
            "{text}"
        );
    }

    #[test]
    fn a_bandwidth_is_a_record_with_its_counts_and_a_row() {
        let bandwidth = Bandwidth {
            size_bytes: 64,
            posted_ns: vec![1000, 1000, 2000, 2000],
            completed_ns: vec![(2, 1500), (4, 3000)],
        };
        let (record, text) = shown(Method::Bandwidth, vec![Figures::Bandwidth(bandwidth)]);
        assert_eq!(
            (record.counts["messages"], record.counts["bytes"]),
            (4, 256)
        );
        assert_eq!(record.summary["messages_per_s"].median, 2e6);
        assert_eq!(record.summary["bytes_per_s_peak"].median, 4e6 * 64.0);
        assert_eq!(record.samples["completed_ns"].values, [500.0, 2000.0]);
        assert!(text.contains("2.00 M") && text.contains("128 M"), "{text}");
    }

    #[test]
    fn what_a_client_reports_is_a_record_too() {
        let report = Report {
            size_bytes: 64,
            messages: 4,
            peak: 2.0,
            average: 1.0,
            million_messages_per_s: 0.5,
        };
        let (record, _) = shown(Method::Bandwidth, vec![Figures::Reported(report)]);
        assert_eq!(record.summary["bytes_per_s"].median, f64::from(1 << 20));
        assert_eq!(record.summary["messages_per_s"].median, 5e5);
    }

    #[test]
    fn each_run_is_a_value_and_all_messages_are_kept() {
        let run = |us: u32| {
            let samples_ns = (0..100).map(|at| f64::from(us * 1000 + at)).collect();
            Figures::Latency(Latency { samples_ns })
        };
        let (record, _) = shown(Method::Latency, (1..=7).map(run).collect());
        let medians = (1..=7).map(|us| f64::from(us * 1000 + 49));
        assert_eq!(
            record.samples["latency_ns_p50"].values,
            medians.collect::<Vec<_>>()
        );
        assert_eq!(record.samples["latency_ns"].values.len(), 700);
        let summary = &record.summary["latency_ns_p50"];
        assert_eq!((summary.median, summary.samples), (4049.0, 7));
        assert!(summary.ci95_low.is_some(), "seven runs have an interval");
        let stability = record.stability.expect("judged");
        assert!(!stability.stable, "they drift from 1 to 7 us");
    }

    /// Two sizes, the second of which lacks its last run when an interrupt comes.
    #[test]
    fn an_interrupt_keeps_the_runs_before_it_and_each_sizes_own_interference() {
        let plan = MeasurementPlan::new("rxe0", Method::Latency, Verb::Write, vec![64, 128, 256]);
        let mut show = Show {
            as_perftest: false,
            format: Format::Csv,
            store: None,
            plan: &plan,
            role: &Role::Client("host".into()),
            evidence: Evidence::Measured,
            repeat: 2,
            runs: vec![SizeRuns::default(); 3],
            records: Vec::new(),
        };
        let mut measure = |size_bytes, wall_s| {
            let samples_ns = vec![1e3, 2e3, 3e3];
            let figures = Figures::Latency(Latency { samples_ns });
            let interference = Interference {
                wall_s,
                core_wait_s: Some(wall_s / 2.0),
                ..Interference::default()
            };
            let measured = Measured {
                size_bytes,
                figures,
            };
            show.measured(measured, &interference).expect("shown");
        };
        measure(64, 1.0);
        measure(128, 10.0);
        measure(64, 2.0);
        assert_eq!(show.records.len(), 1);
        show.broken(Outcome::Interrupted).expect("kept");
        let [first, second] = &show.records[..] else {
            panic!("{:?}", show.records);
        };
        assert_eq!(
            (&first.outcome, &second.outcome),
            (&Outcome::Done, &Outcome::Interrupted)
        );
        let runs = |record: &Record| record.samples["latency_ns_p50"].values.len();
        assert_eq!((runs(first), runs(second)), (2, 1));
        let of = |record: &Record| record.stability.clone().expect("judged").core_wait_s;
        assert_eq!((of(first), of(second)), (Some(1.5), Some(5.0)));
    }
}
