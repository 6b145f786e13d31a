//! The pushdown task: every scheme answers the same tests, interleaved; first all are compared, then all are timed.
//!
//! For each test (a query and a number of threads) every scheme first runs once with its rows digested. These runs are not
//! timed; they also warm caches, unless the test is cold. Only if all digests agree do the timed runs begin: so many rounds,
//! in each round every scheme once, starting with another one each time. A timed run whose count of rows differs fails too,
//! and one of few rows (all aggregates) whose values do.

use std::collections::BTreeMap;

use dpb_core::measure::interference::Interference;
use dpb_core::measure::statistics::{judge, median};
use dpb_core::measure::{Check, Evidence, Outcome, Record};

use crate::compare::digest::{Digest, first_difference};
use crate::compare::reference;
use crate::compare::schemes::{Consumer, Run, Scheme, SchemeError, Side, Test};
use crate::duckdb;
use crate::query::sql;
use crate::query::{Output, Query};
use crate::schema::Schema;
use crate::service::client::ClientError;

/// The task's name in records.
pub const TASK: &str = "pushdown";
/// Timed runs of so many rows at most keep them until the clock has stopped, and then compare their values.
const KEPT_ROWS_MAX: u64 = 65_536;

/// Everything that is the same for all tests of one command.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Scale factor.
    pub sf: f64,
    /// The questions.
    pub questions: Vec<Question>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Timed runs of each scheme.
    pub repeat: usize,
    /// Rows per batch.
    pub batch_rows: u32,
    /// Whether storage is read anew in each run.
    pub cold: bool,
    /// The link's pace, bits per second; 0 for the bare loopback.
    pub link_bits_per_s: u64,
    /// More parameters for the records.
    pub parameters: BTreeMap<String, String>,
}

/// One query, and how it was asked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The query.
    pub query: Query,
    /// `q6`, `selectivity`, or `where`.
    pub name: String,
    /// The share of rows that was asked for, if one was.
    pub selectivity_asked: Option<f64>,
}

/// One scheme's part in a sweep.
#[derive(Debug)]
pub struct Contender {
    /// Which scheme.
    pub scheme: Scheme,
    /// Its connection, or why it cannot take part and what to do.
    pub side: Result<Side, String>,
}

/// What one scheme gave in one test.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which scheme.
    pub scheme: Scheme,
    /// The test's threads.
    pub threads: u32,
    /// The share of rows that qualify, as counted; `None` without a run, and for aggregates.
    pub selectivity: Option<f64>,
    /// Timed runs, in order.
    pub runs: Vec<Run>,
    /// The record.
    pub record: Record,
}

/// What a sweep tells while it runs.
pub enum Event<'a> {
    /// A run begins: how many were done, how many there are, and what it is.
    Running(u64, u64, String),
    /// A test is done.
    Tested(&'a [Finding]),
}

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All tests ran; in so many of them a check failed.
    Done {
        /// How many.
        failed: usize,
    },
    /// A signal ended it; what was finished is in the records.
    Interrupted,
}

/// How a test went for all its contenders.
enum Verified {
    /// They agree.
    Agreed {
        check: Check,
        digest: Digest,
    },
    Differs(String),
    Broke(BTreeMap<Scheme, String>),
    Interrupted,
}

/// Runs all tests. Every finding is told as soon as its test is done.
///
/// # Errors
/// What `tell` says; it is how records that cannot be written end a sweep.
pub fn run<E>(
    plan: &Plan,
    contenders: &mut [Contender],
    interrupted: fn() -> bool,
    tell: &mut dyn FnMut(Event<'_>) -> Result<(), E>,
) -> Result<Ended, E> {
    let mut failed = 0;
    let runs_per_test = ((1 + plan.repeat) * contenders.len()) as u64;
    let tests = (plan.questions.len() * plan.threads.len()) as u64;
    let mut done = 0;
    for question in &plan.questions {
        for &threads in &plan.threads {
            let mut bench = Bench {
                plan,
                question,
                threads,
                interrupted,
            };
            let mut progress = |at: u64, what: String| {
                tell(Event::Running(
                    done * runs_per_test + at,
                    tests * runs_per_test,
                    what,
                ))
            };
            let findings = bench.run(contenders, &mut progress)?;
            done += 1;
            let any_failed = findings
                .iter()
                .any(|finding| matches!(finding.record.outcome, Outcome::Failed { .. }));
            failed += usize::from(any_failed);
            let ended = findings
                .iter()
                .any(|finding| finding.record.outcome == Outcome::Interrupted);
            tell(Event::Tested(&findings))?;
            if ended || interrupted() {
                return Ok(Ended::Interrupted);
            }
        }
    }
    Ok(Ended::Done { failed })
}

/// One test.
struct Bench<'a> {
    plan: &'a Plan,
    question: &'a Question,
    threads: u32,
    interrupted: fn() -> bool,
}

impl Bench<'_> {
    fn run<E>(
        &mut self,
        contenders: &mut [Contender],
        progress: &mut dyn FnMut(u64, String) -> Result<(), E>,
    ) -> Result<Vec<Finding>, E> {
        let mut findings: Vec<Finding> = contenders
            .iter()
            .map(|contender| self.finding(contender))
            .collect();
        let here = contenders.len() as u64;
        let verified = self.verify(contenders, &mut findings, progress)?;
        let (check, agreed) = match verified {
            Verified::Agreed { check, digest } => (check, digest),
            Verified::Differs(reason) => {
                for finding in &mut findings {
                    finding.fail(&reason);
                }
                return Ok(findings);
            }
            Verified::Broke(reasons) => {
                for finding in &mut findings {
                    let own = reasons.get(&finding.scheme).map(String::as_str);
                    finding.fail(own.unwrap_or("another scheme of this test broke"));
                }
                return Ok(findings);
            }
            Verified::Interrupted => {
                for finding in &mut findings {
                    finding.interrupt();
                }
                return Ok(findings);
            }
        };
        let rows = agreed.rows;
        let test = self.test(Some(rows));
        for round in 0..self.plan.repeat {
            for turn in 0..contenders.len() {
                let at = (round + turn) % contenders.len();
                let scheme = contenders[at].scheme;
                if findings[at].has_no_numbers() {
                    continue;
                }
                progress(here + round as u64 * here + turn as u64, self.label(scheme))?;
                let Ok(side) = &mut contenders[at].side else {
                    continue;
                };
                let mut consumer = match rows <= KEPT_ROWS_MAX {
                    true => Consumer::keep(),
                    false => Consumer::Count,
                };
                let run = side.run(&test, &mut consumer);
                match run {
                    Ok(run) => match differs(&run, &consumer, &agreed) {
                        None => findings[at].runs.push(run),
                        Some(reason) => findings[at].fail(&reason),
                    },
                    Err(error @ SchemeError::NotCold(_)) => {
                        findings[at].cannot(&error.to_string());
                    }
                    Err(error) if is_interrupt(&error) => {}
                    Err(error) => findings[at].fail(&error.to_string()),
                }
                if (self.interrupted)() {
                    for finding in &mut findings {
                        finding.interrupt();
                        finding.finish(self, &check, rows);
                    }
                    return Ok(findings);
                }
            }
        }
        for finding in &mut findings {
            finding.finish(self, &check, rows);
        }
        Ok(findings)
    }

    /// Every contender's rows, compared. Who cannot run this test says so in its finding.
    fn verify<E>(
        &self,
        contenders: &mut [Contender],
        findings: &mut [Finding],
        progress: &mut dyn FnMut(u64, String) -> Result<(), E>,
    ) -> Result<Verified, E> {
        let mut digests: Vec<(usize, Digest)> = Vec::new();
        let mut broke = BTreeMap::new();
        // DuckDB chooses how it hands rows over by their number, and what is checked is what will be timed. So ours goes
        // first, being last in the list; without it the first scheme counts its rows in a run of its own.
        for (done, at) in (0..contenders.len()).rev().enumerate() {
            let contender = &mut contenders[at];
            let label = self.label(contender.scheme);
            progress(done as u64, format!("checking {label}"))?;
            let Ok(side) = &mut contender.side else {
                continue;
            };
            let mut consumer = Consumer::Digest(Digest::default());
            let expected = match digests.first() {
                Some((_, digest)) => Ok(Some(digest.rows)),
                None if contender.scheme == Scheme::Dpb => Ok(None),
                None => side
                    .run(&self.test(None), &mut Consumer::Count)
                    .map(|run| Some(run.rows)),
            };
            let run = expected.and_then(|rows| side.run(&self.test(rows), &mut consumer));
            match (run, consumer) {
                (Ok(_), Consumer::Digest(digest)) => digests.push((at, digest)),
                (Err(error @ SchemeError::NotCold(_)), _) => {
                    findings[at].cannot(&error.to_string());
                }
                (Err(error), _) if is_interrupt(&error) => return Ok(Verified::Interrupted),
                (Err(error), _) => {
                    broke.insert(contender.scheme, error.to_string());
                }
                (Ok(_), _) => unreachable!("a consumer keeps its kind"),
            }
            if (self.interrupted)() {
                return Ok(Verified::Interrupted);
            }
        }
        if !broke.is_empty() {
            return Ok(Verified::Broke(broke));
        }
        digests.reverse();
        let Some(&(first, digest)) = digests.first() else {
            return Ok(Verified::Broke(BTreeMap::new()));
        };
        if let Some(&(other, _)) = digests.iter().find(|(_, other)| *other != digest) {
            let test = self.test(Some(digest.rows));
            let difference = self.difference(contenders, &test, first, other);
            return Ok(Verified::Differs(difference));
        }
        if let [(only, _)] = digests[..] {
            return Ok(self.verify_alone(&mut contenders[only], digest));
        }
        let names = digests.iter().map(|&(at, _)| contenders[at].scheme.label());
        let check = Check {
            against: names.collect::<Vec<_>>().join(" = "),
            compared: digest.rows,
            digest: Some(digest.to_string()),
        };
        Ok(Verified::Agreed { check, digest })
    }

    /// With nobody to compare with: the reference evaluator.
    fn verify_alone(&self, contender: &mut Contender, digest: Digest) -> Verified {
        let scheme = contender.scheme;
        let Ok(side) = &mut contender.side else {
            return Verified::Broke(BTreeMap::new());
        };
        match reference::compare(side, &self.test(Some(digest.rows))) {
            Ok(Ok(compared)) => Verified::Agreed {
                check: Check {
                    against: compared.to_string(),
                    compared: compared.rows,
                    digest: Some(digest.to_string()),
                },
                digest,
            },
            Ok(Err(difference)) => Verified::Differs(difference),
            Err(error) if is_interrupt(&error) => Verified::Interrupted,
            Err(error) => Verified::Broke(BTreeMap::from([(scheme, error.to_string())])),
        }
    }

    /// Names the first row that two contenders do not share.
    fn difference(
        &self,
        contenders: &mut [Contender],
        test: &Test,
        first: usize,
        other: usize,
    ) -> String {
        let names = [first, other].map(|at| contenders[at].scheme.label());
        let mut kept = [first, other].map(|at| {
            let side = contenders[at].side.as_mut().ok()?;
            let mut consumer = Consumer::keep();
            side.run(test, &mut consumer).ok()?;
            match consumer {
                Consumer::Keep(kept) => Some(kept.batches),
                _ => None,
            }
        });
        let row = match (kept[0].take(), kept[1].take()) {
            (Some(a), Some(b)) => first_difference(names[0], &a, names[1], &b)
                .ok()
                .flatten()
                .unwrap_or_else(|| "they agree when asked again".to_owned()),
            _ => {
                "they could not be asked again, or return too much to compare row by row".to_owned()
            }
        };
        format!(
            "{} and {} return different rows for {}: {row}",
            names[0],
            names[1],
            self.condition(contenders[first].side.as_ref().ok())
        )
    }

    fn test(&self, rows_expected: Option<u64>) -> Test {
        Test {
            sf: self.plan.sf,
            query: self.question.query.clone(),
            threads: self.threads,
            batch_rows: self.plan.batch_rows,
            cold: self.plan.cold,
            rows_expected,
        }
    }

    fn label(&self, scheme: Scheme) -> String {
        let share = self.question.selectivity_asked.map(|s| format!(", {s}"));
        format!(
            "{}, {} threads{}",
            scheme.label(),
            self.threads,
            share.unwrap_or_default()
        )
    }

    fn condition(&self, side: Option<&Side>) -> String {
        side.map_or_else(String::new, |side| {
            sql::to_sql(&self.question.query.predicate, &side.table().schema)
        })
    }

    fn finding(&self, contender: &Contender) -> Finding {
        let plan = self.plan;
        let transport = contender.side.as_ref().ok().map(Side::transport);
        let side = contender.side.as_ref().ok();
        let emulated_by = side.and_then(Side::emulated_by);
        let evidence = emulated_by.map_or_else(Evidence::of_this_cpu, |by| Evidence::Emulated {
            by: by.to_owned(),
        });
        // Nothing is drawn at random: the generator of the data has its own fixed seeds, and schemes take turns.
        let mut record = Record::new(TASK, evidence, 0)
            .with("scheme", contender.scheme.name())
            .with("format", contender.scheme.format_name())
            .with("sf", plan.sf)
            .with("threads", u64::from(self.threads))
            .with("query", self.question.name.as_str())
            .with("link_gbps", plan.link_bits_per_s as f64 / 1e9)
            .with("cold", plan.cold)
            .with("repeat", plan.repeat as u64);
        if let Some(asked) = self.question.selectivity_asked {
            record = record.with("selectivity", asked);
        }
        for (name, value) in &plan.parameters {
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
                    .with("where", sql::to_sql(&self.question.query.predicate, schema))
                    .with("output", output_text(&self.question.query, schema));
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
        Finding {
            scheme: contender.scheme,
            threads: self.threads,
            selectivity: None,
            runs: Vec::new(),
            record,
        }
    }
}

impl Finding {
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

    fn has_no_numbers(&self) -> bool {
        matches!(
            self.record.outcome,
            Outcome::Failed { .. } | Outcome::Unsupported { .. }
        )
    }

    fn fail(&mut self, reason: &str) {
        if !self.has_no_numbers() {
            self.runs.clear();
            self.record.outcome = Outcome::Failed {
                reason: reason.to_owned(),
            };
        }
    }

    fn cannot(&mut self, reason: &str) {
        self.runs.clear();
        self.record.outcome = Outcome::Unsupported {
            reason: reason.to_owned(),
        };
    }

    fn interrupt(&mut self) {
        if !self.has_no_numbers() {
            self.record.outcome = Outcome::Interrupted;
        }
    }

    /// Fills the record from the timed runs.
    fn finish(&mut self, bench: &Bench<'_>, check: &Check, rows: u64) {
        if self.has_no_numbers() {
            return;
        }
        self.record.check = Some(check.clone());
        let Some(last) = self.runs.last() else {
            return;
        };
        // The rows of an aggregate say nothing of the rows that qualified.
        self.selectivity = matches!(bench.question.query.output, Output::Rows(_))
            .then(|| rows as f64 / last.tuples_scanned.max(1) as f64);
        // What was asked for stays; without a wish it is what was found.
        if let (None, Some(found)) = (bench.question.selectivity_asked, self.selectivity) {
            let record = &mut self.record;
            record.parameters.insert("selectivity".into(), found.into());
        }
        let runs = &self.runs;
        let series = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
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
        let mut bytes = |name: &str, of: fn(&Run) -> u64| {
            record.sample(name, series(&|run| of(run) as f64));
        };
        bytes("agent_peak_bytes", |run| run.agent_peak_bytes);
        bytes("agent_added_bytes", |run| run.agent_added_bytes);
        bytes("client_peak_bytes", |run| run.client_peak_bytes);
        bytes("client_added_bytes", |run| run.client_added_bytes);
        let total = |of: &dyn Fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
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
        record.stability = Some(judge(&rates, bench.plan.repeat, bench.threads, &around));
    }
}

/// How a timed run's rows differ from those that were agreed on.
fn differs(run: &Run, consumer: &Consumer, agreed: &Digest) -> Option<String> {
    if run.rows != agreed.rows {
        return Some(format!(
            "a timed run returned {} rows, the check {}",
            run.rows, agreed.rows
        ));
    }
    let Consumer::Keep(kept) = consumer else {
        return None;
    };
    let digest = match Digest::of(&kept.batches) {
        Ok(digest) => digest,
        Err(error) => return Some(error.to_string()),
    };
    (digest != *agreed).then(|| "a timed run returned other values than the check".to_owned())
}

fn is_interrupt(error: &SchemeError) -> bool {
    matches!(
        error,
        SchemeError::Client(ClientError::Interrupted)
            | SchemeError::DuckDb(duckdb::Error::Interrupted { .. })
    )
}

/// What comes back, in words.
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
    use super::*;

    #[test]
    fn a_timed_run_with_other_values_or_rows_is_told() {
        let batch = |values: [i32; 2]| {
            let column: arrow_array::ArrayRef =
                std::sync::Arc::new(arrow_array::Int32Array::from(values.to_vec()));
            arrow_array::RecordBatch::try_from_iter([("a", column)]).unwrap()
        };
        let mut agreed = Digest::default();
        agreed.update(&batch([1, 2])).unwrap();
        let run = Run {
            rows: 2,
            ..Run::default()
        };
        let kept = |values| {
            let mut consumer = Consumer::keep();
            if let Consumer::Keep(kept) = &mut consumer {
                kept.batches.push(batch(values));
            }
            consumer
        };
        assert_eq!(differs(&run, &kept([2, 1]), &agreed), None);
        assert!(differs(&run, &kept([1, 3]), &agreed).is_some());
        assert!(differs(&Run::default(), &Consumer::Count, &agreed).is_some());
    }

    #[test]
    fn a_scheme_that_failed_has_no_rates_whatever_ran() {
        let run = Run {
            tuples_scanned: 600,
            elapsed_s: 2.0,
            ..Run::default()
        };
        let mut finding = Finding {
            scheme: Scheme::FetchDuckDb,
            threads: 1,
            selectivity: None,
            runs: vec![run.clone()],
            record: Record::new(TASK, Evidence::Measured, 1),
        };
        assert_eq!(finding.rates(), [300.0]);
        assert_eq!(finding.tuples_per_s(), Some(300.0));
        finding.fail("it returned other rows");
        assert!(finding.runs.is_empty());
        finding.runs.push(run);
        assert!(finding.rates().is_empty());
        assert_eq!(finding.tuples_per_s(), None);
    }
}
