//! The pushdown task: every scheme answers the same tests, interleaved; first all are compared, then all are timed.
//!
//! For each test (a query and a number of threads) every scheme first runs once with its rows digested. These runs are not
//! timed; they also warm caches, unless the test is cold. Only if all digests agree do the timed runs begin: so many rounds,
//! in each round every scheme once, starting with another one each time. A timed run whose count of rows differs fails too,
//! and one of few rows (all aggregates) whose values do.

use std::collections::BTreeMap;

use dpb_core::measure::Outcome;

pub use self::result::SchemeResult;
use super::error::SchemeError;
use super::scheme::Scheme;
use super::side::{SchemeSide, Test};
use crate::duckdb;
use crate::query::{Query, sql};
use crate::service::client::ClientError;
use crate::service::protocol::DataSet;

mod result;
mod timing;
mod verification;

/// The task's name in records.
pub const TASK: &str = "pushdown";

/// Everything that is the same for all tests of one command.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Scale factor.
    pub sf: f64,
    /// The data set at the agents: that scale factor's.
    pub data: DataSet,
    /// The questions.
    pub questions: Vec<Question>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Timed runs of each scheme.
    pub repeat: usize,
    /// Rows per batch.
    pub batch_rows: u32,
    /// True if storage is read anew in each run.
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
    /// The scheme.
    pub scheme: Scheme,
    /// This side's connection, or the reason why the scheme cannot take part and the remedy.
    pub side: Result<SchemeSide, String>,
}

/// News of a sweep while it runs.
pub enum SweepEvent<'a> {
    /// A run begins: how many were done, how many there are, and what it is.
    Running(u64, u64, String),
    /// A test is done.
    Tested(&'a [SchemeResult]),
}

/// The end of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepEnd {
    /// All tests ran; in so many of them a check failed.
    Done {
        /// The number of tests in which a check failed.
        failed: usize,
    },
    /// A signal ended it; what was finished is in the records.
    Interrupted,
}

impl Sweep {
    /// Runs all tests. The results of a test are told as soon as it is done.
    ///
    /// # Errors
    /// Those of `tell`: so records that cannot be written end a sweep.
    pub fn run<E>(
        &self,
        contenders: &mut [Contender],
        interrupted: fn() -> bool,
        tell: &mut dyn FnMut(SweepEvent<'_>) -> Result<(), E>,
    ) -> Result<SweepEnd, E> {
        let mut failed = 0;
        let runs_per_test = ((1 + self.repeat) * contenders.len()) as u64;
        let tests = (self.questions.len() * self.threads.len()) as u64;
        let each = |question| self.threads.iter().map(move |&threads| (question, threads));
        for (done, (question, threads)) in self.questions.iter().flat_map(each).enumerate() {
            let test = SweepTest {
                sweep: self,
                question,
                threads,
                interrupted,
            };
            let mut progress = |at: u64, what: String| {
                tell(SweepEvent::Running(
                    done as u64 * runs_per_test + at,
                    tests * runs_per_test,
                    what,
                ))
            };
            let results = test.run(contenders, &mut progress)?;
            let any = |is: fn(&Outcome) -> bool| results.iter().any(|one| is(&one.record.outcome));
            failed += usize::from(any(|outcome| matches!(outcome, Outcome::Failed { .. })));
            let ended = any(|outcome| *outcome == Outcome::Interrupted);
            tell(SweepEvent::Tested(&results))?;
            if ended || interrupted() {
                return Ok(SweepEnd::Interrupted);
            }
        }
        Ok(SweepEnd::Done { failed })
    }
}

/// One test.
struct SweepTest<'a> {
    sweep: &'a Sweep,
    question: &'a Question,
    threads: u32,
    interrupted: fn() -> bool,
}

/// Hears of the runs of a test: the number that were done, and the next one's name.
type Progress<'a, E> = dyn FnMut(u64, String) -> Result<(), E> + 'a;

impl SweepTest<'_> {
    fn test(&self, rows_expected: Option<u64>) -> Test {
        Test {
            data: self.sweep.data.clone(),
            query: self.question.query.clone(),
            threads: self.threads,
            batch_rows: self.sweep.batch_rows,
            cold: self.sweep.cold,
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

    fn condition(&self, side: Option<&SchemeSide>) -> String {
        side.map_or_else(String::new, |side| {
            sql::to_sql(&self.question.query.predicate, &side.table().schema)
        })
    }
}

/// Returns true if a run failed because a signal ended it.
fn is_interrupt(error: &SchemeError) -> bool {
    matches!(
        error,
        SchemeError::Client(ClientError::Interrupted)
            | SchemeError::DuckDb(duckdb::Error::Interrupted { .. })
    )
}
