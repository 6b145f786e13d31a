//! What trials counted, over all of a record, and what each run gave.

use std::collections::BTreeMap;

use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Check, Record, Samples};
use dpb_net::trial::Outcome;

/// A name's ending and the share of packets that it stands for.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// Counts of all trials of a record. Of trials that say nothing only their number counts.
#[derive(Default)]
pub(in crate::cmd::net) struct Counted {
    counts: BTreeMap<String, u64>,
    /// Trials that say nothing.
    pub(in crate::cmd::net) invalid: u64,
    /// The reason of the last of them.
    why: Option<String>,
    latencies: Latencies,
}

impl Counted {
    /// Counts a trial; `invalid` is the reason why it says nothing, if it does not.
    pub(in crate::cmd::net) fn add(&mut self, outcome: &Outcome, invalid: Option<String>) {
        if invalid.is_some() {
            self.invalid += 1;
            self.why = invalid;
            return;
        }
        let account = &outcome.account;
        let counts = [
            ("trials", 1),
            ("offered", account.offered),
            ("refused", account.refused),
            ("delivered", account.delivered),
            ("dropped", account.drops.packets()),
            ("lost", outcome.balance.lost),
            ("unexplained", outcome.balance.unexplained),
            ("duplicates", account.duplicates),
            ("corrupted", account.corrupted),
            ("foreign", account.foreign),
            ("received", account.received),
            ("reordered", outcome.order.reordered()),
        ];
        for (name, count) in counts {
            self.count(name, count);
        }
        for (reason, packets) in &account.drops.reasons {
            self.count(&format!("dropped: {reason}"), *packets);
        }
        if let Some(order) = &outcome.flow_order {
            self.count("reordered_in_flows", order.reordered());
        }
        self.latencies.add(outcome.latency.of_arrived());
    }

    fn count(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_owned()).or_insert(0) += count;
    }

    /// Adds the counts to a record, and what was checked.
    pub(in crate::cmd::net) fn note(&self, record: &mut Record) {
        record.counts.extend(self.counts.clone());
        let invalid = ("trials_invalid".to_owned(), self.invalid);
        record.counts.extend([invalid]);
        record.check = Some(Check {
            against: "each packet's stamp and payload; offered = refused + delivered + dropped by reason, and what of another system or of damaged packets is unexplained"
                .to_owned(),
            compared: self.counts.get("received").copied().unwrap_or(0),
            digest: None,
        });
    }

    /// Adds the distribution of latencies, of packets that arrived. It is one of a single load.
    pub(in crate::cmd::net) fn note_latencies(&self, record: &mut Record) {
        let samples = Samples {
            values: Vec::new(),
            hdr: Some(self.latencies.to_base64()),
        };
        record.samples.insert("latency_ns".to_owned(), samples);
    }

    /// The reason why the last invalid trial says nothing.
    pub(in crate::cmd::net) fn why_invalid(&self) -> &str {
        self.why.as_deref().unwrap_or("there was no trial")
    }
}

/// What each run at a load gave.
#[derive(Default)]
pub(in crate::cmd::net) struct OfRuns {
    offered: Vec<f64>,
    pub(in crate::cmd::net) delivered: Vec<f64>,
    bytes: Vec<f64>,
    loss: Vec<f64>,
    schedule_errors: Vec<f64>,
    /// Of each of [`PERCENTILES`]; `None` where it is infinite.
    latencies: [Vec<Option<f64>>; PERCENTILES.len()],
}

impl OfRuns {
    /// Adds a trial in which packets were due for so many seconds.
    pub(in crate::cmd::net) fn add(&mut self, outcome: &Outcome, seconds: f64) {
        let balance = &outcome.balance;
        self.offered.push(balance.offered as f64 / seconds);
        self.delivered.push(balance.delivered as f64 / seconds);
        self.bytes
            .push(outcome.account.delivered_bytes as f64 / seconds);
        self.loss.push(balance.loss_ratio());
        let error = outcome.schedule_errors.percentile_ns(0.99);
        self.schedule_errors.push(error as f64);
        for (values, (_, share)) in self.latencies.iter_mut().zip(PERCENTILES) {
            let latency = outcome.latency.percentile_ns(share);
            values.push(latency.map(|ns| ns as f64));
        }
    }

    /// Adds the samples to a record, and gives the series by which the runs are judged.
    pub(in crate::cmd::net) fn sample(self, record: &mut Record) -> Vec<f64> {
        let series = self.delivered.clone();
        record.sample("offered_packets_per_s", self.offered);
        record.sample("packets_per_s", self.delivered);
        record.sample("bytes_per_s", self.bytes);
        record.sample("loss_ratio", self.loss);
        record.sample("schedule_error_ns_p99", self.schedule_errors);
        for (values, (name, _)) in self.latencies.into_iter().zip(PERCENTILES) {
            let name = format!("latency_ns_{name}");
            let infinite = values.iter().filter(|value| value.is_none()).count();
            match values.into_iter().collect::<Option<Vec<f64>>>() {
                Some(values) => record.sample(&name, values),
                // A median of the other runs would be better than the truth.
                None => {
                    let name = format!("{name}_infinite");
                    record.counts.insert(name, infinite as u64);
                }
            }
        }
        series
    }
}

/// A figure of a table: a median; `never` if a lost packet makes it infinite.
pub(in crate::cmd::net) fn figure(record: &Record, name: &str, text: fn(f64) -> String) -> String {
    match record.summary.get(name) {
        Some(summary) => text(summary.median),
        None if record.counts.contains_key(&format!("{name}_infinite")) => "never".to_owned(),
        None => "-".to_owned(),
    }
}
