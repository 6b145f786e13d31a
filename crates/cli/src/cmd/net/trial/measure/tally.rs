//! What trials counted, over all of a record, and what each run gave.

use std::collections::BTreeMap;

use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Check, Record, Samples};
use dpb_net::trial::{Outcome, Validity};

/// A name's ending and the share of packets that it stands for.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// Counts of all trials of a record.
#[derive(Default)]
pub(super) struct Tally {
    counts: BTreeMap<String, u64>,
    pub(super) invalid: u64,
    why_invalid: Option<Validity>,
    latencies: Latencies,
}

impl Tally {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        if let Validity::Late { .. } = outcome.validity {
            self.invalid += 1;
            self.why_invalid = Some(outcome.validity);
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

    pub(super) fn note(&self, record: &mut Record) {
        record.counts.extend(self.counts.clone());
        record
            .counts
            .insert("trials_invalid".to_owned(), self.invalid);
        let hdr = Some(self.latencies.to_base64());
        let values = Vec::new();
        record
            .samples
            .insert("latency_ns".to_owned(), Samples { values, hdr });
        record.check = Some(Check {
            against: "each packet's stamp and payload, and the sum of all packets".to_owned(),
            compared: self.counts.get("received").copied().unwrap_or(0),
            digest: None,
        });
    }

    /// Why there is no number.
    pub(super) fn late(&self) -> String {
        match self.why_invalid {
            Some(Validity::Late { packets, allowed }) => format!(
                "the generator was late: {packets} packets were offered after their time, and {allowed} may be; lower the load, give the \
                 trial a core of its own (--pin), or allow more (--tolerance)"
            ),
            _ => "no packet was due; take a higher rate or longer trials".to_owned(),
        }
    }
}

/// What each run at a load gave.
#[derive(Default)]
pub(super) struct OfRuns {
    offered: Vec<f64>,
    pub(super) delivered: Vec<f64>,
    loss: Vec<f64>,
    schedule_errors: Vec<f64>,
    /// Of each of [`PERCENTILES`]; `None` where it is infinite.
    latencies: [Vec<Option<f64>>; 3],
}

impl OfRuns {
    pub(super) fn add(&mut self, outcome: &Outcome, seconds: f64) {
        let balance = &outcome.balance;
        self.offered.push(balance.offered as f64 / seconds);
        self.delivered.push(balance.delivered as f64 / seconds);
        self.loss.push(balance.loss_ratio());
        let error = outcome.schedule_errors.percentile_ns(0.99);
        self.schedule_errors.push(error as f64);
        for (values, (_, share)) in self.latencies.iter_mut().zip(PERCENTILES) {
            let latency = outcome.latency.percentile_ns(share);
            values.push(latency.map(|ns| ns as f64));
        }
    }

    /// Adds the samples to a record, and gives the series by which the runs are judged.
    pub(super) fn sample(self, record: &mut Record) -> Vec<f64> {
        let series = self.delivered.clone();
        record.sample("offered_packets_per_s", self.offered);
        record.sample("packets_per_s", self.delivered);
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
