//! The result of a scheme in a test, and its record.

use dpb_core::measure::interference::Interference;
use dpb_core::measure::statistics::{judge, median};
use dpb_core::measure::{Check, Outcome, Record};

use super::{Contender, SweepTest, TASK};
use crate::compare::run::SchemeRun;
use crate::compare::scheme::Scheme;
use crate::compare::side::SchemeSide;
use crate::query::sql;
use crate::query::{Output, Query};
use crate::schema::Schema;
use crate::service;

/// The result of one scheme in one test.
#[derive(Clone, Debug)]
pub struct SchemeResult {
    /// The scheme.
    pub scheme: Scheme,
    /// The test's threads.
    pub threads: u32,
    /// The share of rows that qualify, as counted; `None` without a run, and for aggregates.
    pub selectivity: Option<f64>,
    /// Timed runs, in order.
    pub runs: Vec<SchemeRun>,
    /// The record.
    pub record: Record,
}

impl SchemeResult {
    /// The result of a scheme before it has run.
    pub(super) fn of(test: &SweepTest<'_>, contender: &Contender) -> Self {
        let sweep = test.sweep;
        let transport = contender.side.as_ref().ok().map(SchemeSide::transport);
        let side = contender.side.as_ref().ok();
        let emulated_by = side.and_then(SchemeSide::emulated_by).map(str::to_owned);
        let evidence = service::evidence(emulated_by, sweep.link_bits_per_s);
        // Nothing is drawn at random: the generator of the data has its own fixed seeds, and schemes take turns.
        let mut record = Record::new(TASK, evidence, 0)
            .with("scheme", contender.scheme.name())
            .with("format", contender.scheme.format_name())
            .with("sf", sweep.sf)
            .with("table", test.question.query.table.as_str())
            .with("threads", u64::from(test.threads))
            .with("query", test.question.name.as_str())
            .with("link_gbps", sweep.link_bits_per_s as f64 / 1e9)
            .with("cold", sweep.cold)
            .with("repeat", sweep.repeat as u64);
        if let Some(asked) = test.question.selectivity_asked {
            record = record.with("selectivity", asked);
        }
        for (name, value) in &sweep.parameters {
            record = record.with(name, value.as_str());
        }
        if let Some(transport) = transport {
            record = record.with("bulk", transport.name());
            if let Some(reason) = transport.fallback() {
                record = record.with("bulk_fallback", reason);
            }
        }
        match &contender.side {
            Ok(side) => {
                let schema = &side.table().schema;
                record = record
                    .with("where", sql::to_sql(&test.question.query.predicate, schema))
                    .with("output", output_text(&test.question.query, schema));
                if let Some(backend) = side.backend() {
                    record = record.with("backend", backend);
                }
                record.provenance.libraries = side.libraries();
            }
            Err(reason) => {
                record = record.without_numbers(Outcome::Unsupported {
                    reason: reason.clone(),
                });
            }
        }
        Self {
            scheme: contender.scheme,
            threads: test.threads,
            selectivity: None,
            runs: Vec::new(),
            record,
        }
    }

    /// Median tuples per second over the timed runs; `None` without any, and for a scheme that failed.
    pub fn tuples_per_s(&self) -> Option<f64> {
        median(&self.rates())
    }

    /// Tuples per second of each timed run; none for a scheme that failed.
    pub fn rates(&self) -> Vec<f64> {
        if self.has_no_numbers() {
            return Vec::new();
        }
        self.runs
            .iter()
            .map(|run| run.tuples_scanned as f64 / run.elapsed_s)
            .collect()
    }

    pub(super) fn has_no_numbers(&self) -> bool {
        matches!(
            self.record.outcome,
            Outcome::Failed { .. } | Outcome::Unsupported { .. }
        )
    }

    pub(super) fn fail(&mut self, reason: &str) {
        if !self.has_no_numbers() {
            self.runs.clear();
            self.record.outcome = Outcome::Failed {
                reason: reason.to_owned(),
            };
        }
    }

    pub(super) fn cannot(&mut self, reason: &str) {
        self.runs.clear();
        self.record.outcome = Outcome::Unsupported {
            reason: reason.to_owned(),
        };
    }

    pub(super) fn interrupt(&mut self) {
        if !self.has_no_numbers() {
            self.record.outcome = Outcome::Interrupted;
        }
    }

    /// Fills the record from the timed runs.
    pub(super) fn finish(&mut self, test: &SweepTest<'_>, check: &Check, rows: u64) {
        if self.has_no_numbers() {
            return;
        }
        self.record.check = Some(check.clone());
        let Some(last) = self.runs.last() else {
            return;
        };
        // The rows of an aggregate say nothing of the rows that qualified.
        self.selectivity = matches!(test.question.query.output, Output::Rows(_))
            .then(|| rows as f64 / last.tuples_scanned.max(1) as f64);
        // What was asked for stays; without a wish it is what was found.
        if let (None, Some(found)) = (test.question.selectivity_asked, self.selectivity) {
            let record = &mut self.record;
            record.parameters.insert("selectivity".into(), found.into());
        }
        let runs = &self.runs;
        let series = |of: &dyn Fn(&SchemeRun) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let record = &mut self.record;
        record.sample(
            "tuples_per_s",
            series(&|run| run.tuples_scanned as f64 / run.elapsed_s),
        );
        record.sample("run_s", series(&|run| run.elapsed_s));
        record.sample("first_batch_s", series(&|run| run.first_batch_s));
        if runs.iter().all(|run| run.transfer_s.is_some()) {
            record.sample("transfer_s", series(&|run| run.transfer_s.unwrap_or(0.0)));
        }
        record.sample("agent_cpu_s", series(&|run| run.agent_cpu_s));
        record.sample("client_cpu_s", series(&|run| run.client_cpu_s));
        let mut bytes = |name: &str, of: fn(&SchemeRun) -> u64| {
            record.sample(name, series(&|run| of(run) as f64));
        };
        bytes("agent_peak_bytes", |run| run.agent_peak_bytes);
        bytes("agent_added_bytes", |run| run.agent_added_bytes);
        bytes("client_peak_bytes", |run| run.client_peak_bytes);
        bytes("client_added_bytes", |run| run.client_added_bytes);
        let total = |of: &dyn Fn(&SchemeRun) -> u64| runs.iter().map(of).sum::<u64>();
        let counts = [
            ("tuples", total(&|run| run.tuples_scanned)),
            ("rows", total(&|run| run.rows)),
            ("result_bytes", total(&|run| run.result_bytes)),
            ("wire_bytes_to_agent", total(&|run| run.wire_bytes.0)),
            ("wire_bytes_from_agent", total(&|run| run.wire_bytes.1)),
            ("bulk_bytes_from_agent", total(&|run| run.bulk_bytes)),
            ("blocks_scanned", total(&|run| run.blocks.0)),
            ("blocks_skipped", total(&|run| run.blocks.1)),
        ];
        record.counts = counts.map(|(name, n)| (name.to_owned(), n)).into();
        let rates = series(&|run| run.tuples_scanned as f64 / run.elapsed_s);
        let mut around = Interference::default();
        runs.iter().for_each(|run| around.add(&run.interference));
        record.stability = Some(judge(&rates, test.sweep.repeat, test.threads, &around));
    }
}

/// The output of a query, in words.
fn output_text(query: &Query, schema: &Schema) -> String {
    let name = |&column: &u32| {
        let known = schema.columns.get(column as usize);
        known.map_or("?", |column| column.name.as_str())
    };
    match &query.output {
        Output::Rows(columns) if columns.len() == schema.columns.len() => "all columns".into(),
        Output::Rows(columns) => columns.iter().map(name).collect::<Vec<_>>().join(", "),
        Output::Aggregate(aggregate) => {
            let calls = aggregate.functions.iter().map(|call| call.name.as_str());
            let mut text = calls.collect::<Vec<_>>().join(", ");
            if !aggregate.group_by.is_empty() {
                let by: Vec<&str> = aggregate.group_by.iter().map(name).collect();
                text += &format!(" by {}", by.join(", "));
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::Evidence;

    use super::*;

    #[test]
    fn a_scheme_that_failed_has_no_rates_whatever_ran() {
        let run = SchemeRun {
            tuples_scanned: 600,
            elapsed_s: 2.0,
            ..SchemeRun::default()
        };
        let mut result = SchemeResult {
            scheme: Scheme::FetchDuckDb,
            threads: 1,
            selectivity: None,
            runs: vec![run.clone()],
            record: Record::new(TASK, Evidence::Measured, 1),
        };
        assert_eq!(result.rates(), [300.0]);
        assert_eq!(result.tuples_per_s(), Some(300.0));
        result.fail("it returned other rows");
        assert!(result.runs.is_empty());
        result.runs.push(run);
        assert!(result.rates().is_empty());
        assert_eq!(result.tuples_per_s(), None);
    }
}
