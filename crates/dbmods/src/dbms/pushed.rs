//! DuckDB over tables that somebody else scans.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::answer::{Answer, Cell, decimal};
use super::filters;
use super::queries::TpchQuery;
use super::source::{Flow, ScanCounts, Source};
use crate::duckdb::Library;
use crate::duckdb::v2::{
    Expression, Instance, Offered, Pushed, PushedScan, PushedTable, Use, Value,
};
use crate::query::{Output, Predicate, Query, date, sql};
use crate::schema::Schema;

/// DuckDB, its tables elsewhere.
pub struct PushedDuckDb {
    instance: Instance,
    tables: Vec<Arc<Remote>>,
    log: Log,
}

/// A note of the scan of one use of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanNote {
    /// The table.
    pub table: String,
    /// The use of the table in the statement, from 0.
    pub number: usize,
    /// The columns that came back.
    pub columns: Vec<String>,
    /// The filters that were evaluated at the scan, in SQL; empty if there were none.
    pub filters: String,
    /// Filters of them that DuckDB evaluates again, as they were pushed in part.
    pub filters_in_part: usize,
    /// The scan's counts.
    pub counts: ScanCounts,
}

/// Notes of the statement that runs.
type Log = Arc<Mutex<Vec<ScanNote>>>;

/// A table of a source.
struct Remote {
    schema: Schema,
    rows: u64,
    source: Arc<dyn Source>,
    log: Log,
    /// Uses of it in the statement that runs.
    uses: AtomicUsize,
    /// Rows that the scans of its uses gave when the statement ran last.
    expected: Mutex<BTreeMap<usize, u64>>,
}

impl PushedDuckDb {
    /// Opens DuckDB with so many threads over the tables of a source.
    ///
    /// # Errors
    /// If this DuckDB is of another version than 2.0, or refuses.
    pub fn open(
        library: Library,
        source: Arc<dyn Source>,
        threads: usize,
        memory_bytes_max: Option<u64>,
        spill: PathBuf,
    ) -> Result<Self, String> {
        let mut instance = Instance::open(library, threads, memory_bytes_max, &spill)?;
        let log = Log::default();
        let mut tables = Vec::new();
        for (schema, rows) in source.tables() {
            let table = Arc::new(Remote {
                schema,
                rows,
                source: Arc::clone(&source),
                log: Arc::clone(&log),
                uses: AtomicUsize::new(0),
                expected: Mutex::default(),
            });
            instance.register(Arc::clone(&table) as Arc<dyn PushedTable>)?;
            tables.push(table);
        }
        Ok(Self {
            instance,
            tables,
            log,
        })
    }

    /// Runs a query to its last row, and says what its scans did. `ended` is called after the last row, before rows become text.
    ///
    /// # Errors
    /// DuckDB's words, or those of a scan.
    pub fn run(
        &mut self,
        query: &TpchQuery,
        ended: impl FnOnce(),
    ) -> Result<(Answer, Vec<ScanNote>), String> {
        self.run_sql(query.sql, ended)
    }

    /// The same for any statement.
    ///
    /// # Errors
    /// As [`PushedDuckDb::run`].
    pub fn run_sql(
        &mut self,
        statement: &str,
        ended: impl FnOnce(),
    ) -> Result<(Answer, Vec<ScanNote>), String> {
        lock(&self.log).clear();
        self.tables
            .iter()
            .for_each(|table| table.uses.store(0, Relaxed));
        let chunks = self.instance.query(statement)?;
        ended();
        let mut answer = Answer::default();
        chunks.rows(&mut |row| {
            answer.doubles.resize(row.len(), false);
            for (is_double, value) in answer.doubles.iter_mut().zip(&row) {
                *is_double |= matches!(value, Value::Double(_));
            }
            answer.rows.push(row.into_iter().map(cell).collect());
        })?;
        let mut notes = std::mem::take(&mut *lock(&self.log));
        notes.sort_by(|a, b| (&a.table, a.number).cmp(&(&b.table, b.number)));
        Ok((answer, notes))
    }

    /// Takes what the scans of a statement gave as what they will give when it runs again, for DuckDB's planner.
    pub fn expect(&self, notes: &[ScanNote]) {
        for table in &self.tables {
            let mut expected = lock(&table.expected);
            expected.clear();
            let own = notes.iter().filter(|note| note.table == table.schema.table);
            expected.extend(own.map(|note| (note.number, note.counts.rows_sent)));
        }
    }
}

impl std::fmt::Debug for PushedDuckDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushedDuckDb").finish_non_exhaustive()
    }
}

impl PushedTable for Remote {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn used(&self) -> Use {
        let number = self.uses.fetch_add(1, Relaxed);
        let expected = lock(&self.expected).get(&number).copied();
        Use {
            number,
            rows_expected: expected.unwrap_or(self.rows).max(1),
        }
    }

    fn offered(&self, filter: &Expression) -> Offered {
        filters::offered(&self.schema, filter)
    }

    fn threads_max(&self) -> usize {
        self.source.threads()
    }

    fn scan(
        &self,
        number: usize,
        columns: &[u32],
        filters: Vec<Pushed>,
    ) -> Result<Box<dyn PushedScan>, String> {
        let filters_in_part = filters.iter().filter(|filter| !filter.is_whole).count();
        let mut predicates: Vec<Predicate> =
            filters.into_iter().map(|filter| filter.predicate).collect();
        let predicate = match predicates.len() {
            0 => Predicate::Constant(Some(true)),
            1 => predicates.remove(0),
            _ => Predicate::And(predicates),
        };
        let mut note = ScanNote {
            table: self.schema.table.clone(),
            number,
            columns: names(&self.schema, columns),
            filters: match predicate {
                Predicate::Constant(Some(true)) => String::new(),
                _ => sql::to_sql(&predicate, &self.schema),
            },
            filters_in_part,
            counts: ScanCounts::default(),
        };
        let query = Query {
            table: self.schema.table.clone(),
            predicate,
            output: Output::Rows(columns.to_vec()),
            limit: None,
        };
        let log = Arc::clone(&self.log);
        let flow = Flow::start(&self.source, self.schema.clone(), query, move |counts| {
            note.counts = counts;
            lock(&log).push(note);
        });
        Ok(Box::new(flow?))
    }
}

fn names(schema: &Schema, columns: &[u32]) -> Vec<String> {
    let columns = columns.iter();
    let name = |&column: &u32| schema.columns[column as usize].name.clone();
    columns.map(name).collect()
}

fn cell(value: Value) -> Cell {
    Some(match value {
        Value::Null => return None,
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Decimal { unscaled, scale } => decimal(unscaled, scale),
        Value::Double(value) => value.to_string(),
        Value::Date(days) => date::text(days),
        Value::Text(text) => text,
        Value::Other(number) => format!("a value of DuckDB's type {number}"),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
