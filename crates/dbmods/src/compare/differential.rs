//! Whether the scan agrees with DuckDB, row for row, on random statements over tables of TPC-H.
//!
//! Both sides have each table from the same generator on ways of their own: a segment here, DuckDB's own file there. Each side reads the
//! text of the condition itself. So what is compared is parser, encoder, scan and materialisation with everything that DuckDB does.
//!
//! A statement with a limit has many right answers. Its rows are right if there are as many as the limit and the whole answer allow, and
//! if the whole answer has each of them at least as often.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::compare::digest::{Digest, first_difference, first_surplus};
use crate::compare::random::{Generator, Samples, Statement};
use crate::duckdb::{Config, Connection, Database, Delivery, Library, tpch_baseline};
use crate::query::Query;
use crate::query::sql;
use crate::scan::{ScanOptions, output_schema, scan};
use crate::schema::Schema;
use crate::table::cache::Cache;
use crate::table::segment::Segment;
use crate::tpch;

/// Columns of few values, by which aggregates are grouped.
const GROUP_BY: [&str; 17] = [
    "r_name",
    "n_name",
    "n_regionkey",
    "s_nationkey",
    "c_mktsegment",
    "c_nationkey",
    "p_mfgr",
    "p_brand",
    "p_size",
    "p_container",
    "o_orderstatus",
    "o_orderpriority",
    "l_returnflag",
    "l_linestatus",
    "l_linenumber",
    "l_shipinstruct",
    "l_shipmode",
];

/// Tables, each twice.
pub struct Differential {
    tables: Vec<Twice>,
    threads: usize,
}

/// A table here and in DuckDB.
struct Twice {
    segment: Arc<Segment>,
    cache: Arc<Cache>,
    connection: Connection,
    group_by: Vec<u32>,
}

/// The extent of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Statements that agreed.
    pub statements: u64,
    /// Those of them that ask for aggregates.
    pub aggregates: u64,
    /// Those of them that have a limit which leaves rows out.
    pub limited: u64,
    /// Rows that these statements returned.
    pub rows: u64,
    /// Statements that returned no row, and all rows of their table.
    pub extremes: (u64, u64),
}

/// The reason why a comparison ended.
#[derive(Debug)]
pub enum DifferentialError {
    /// The data could not be made or opened.
    Setup(String),
    /// One side failed where the other may not have.
    Query {
        /// The side that failed.
        side: &'static str,
        /// The reason.
        reason: String,
        /// The statement.
        sql: String,
    },
    /// Both answered, differently.
    Difference {
        /// The statement.
        sql: String,
        /// The query as the scan ran it.
        query: Box<Query>,
        /// The first row that differs.
        row: String,
    },
}

impl std::error::Error for DifferentialError {}

impl fmt::Display for DifferentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(reason) => f.write_str(reason),
            Self::Query { side, reason, sql } => write!(f, "{side} failed: {reason}\nSQL: {sql}"),
            Self::Difference { sql, query, row } => {
                write!(f, "{row}\nSQL: {sql}\nquery: {query:?}")
            }
        }
    }
}

impl Differential {
    /// Makes or finds both copies of these tables under `data_dir`.
    ///
    /// # Errors
    /// [`DifferentialError::Setup`].
    pub fn open(
        library: Library,
        data_dir: &Path,
        scale_factor: f64,
        tables: &[&str],
        threads: usize,
    ) -> Result<Self, DifferentialError> {
        let setup = |error: &dyn fmt::Display| DifferentialError::Setup(error.to_string());
        let go_on = |_: tpch::Step<'_>| ControlFlow::Continue(());
        let clock = dpb_core::WallClock::default();
        let made = tpch::ensure(data_dir, scale_factor, tables, threads, &clock, &go_on)
            .map_err(|error| setup(&error))?;
        let open = |&table: &&str| {
            let baseline = tpch_baseline::ensure(
                library,
                data_dir,
                scale_factor,
                table,
                threads,
                &clock,
                &mut |_| (),
            )
            .map_err(|error| setup(&error))?;
            let config = Config {
                threads: Some(threads),
                read_only: true,
                ..Config::default()
            };
            let database = Database::open(library, Some(&baseline.duckdb_path), &config)
                .map_err(|error| setup(&error))?;
            let segment = Arc::new(made.open(table).map_err(|error| setup(&error))?);
            let schema = segment.schema();
            let groups = GROUP_BY.iter().filter_map(|name| schema.position(name));
            Ok(Twice {
                group_by: groups.map(|column| column as u32).collect(),
                cache: Arc::new(Cache::new(segment.file_bytes())),
                connection: database.connect().map_err(|error| setup(&error))?,
                segment,
            })
        };
        Ok(Self {
            tables: tables.iter().map(open).collect::<Result<_, _>>()?,
            threads,
        })
    }

    /// Compares `count` random statements, over one table after the other. `progress` hears how many agreed.
    ///
    /// # Errors
    /// The first statement that differs or fails.
    pub fn run(
        &mut self,
        count: u64,
        seed: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<Report, DifferentialError> {
        let threads = self.threads;
        let schemas: Vec<Schema> = self.schemas().cloned().collect();
        let samples = self
            .tables
            .iter()
            .map(|table| Samples::of_segment(&table.segment, &table.cache, seed));
        let samples: Vec<Samples> = samples
            .collect::<Result<_, _>>()
            .map_err(|error| DifferentialError::Setup(error.to_string()))?;
        let mut generators: Vec<Generator<'_>> = (schemas.iter().zip(&samples))
            .map(|(schema, samples)| Generator::new(schema, samples, seed))
            .collect();
        let mut report = Report::default();
        for done in 0..count {
            let at = (done % self.tables.len() as u64) as usize;
            let table = &mut self.tables[at];
            let statement = generators[at].statement(&table.group_by);
            let compared = table.compare(&statement, threads)?;
            let is_aggregate = matches!(statement.output, crate::query::Output::Aggregate(_));
            report.statements += 1;
            report.aggregates += u64::from(is_aggregate);
            report.limited += u64::from(compared.rows < compared.whole);
            report.rows += compared.rows;
            report.extremes.0 += u64::from(compared.rows == 0);
            report.extremes.1 += u64::from(compared.rows == table.segment.rows());
            progress(done + 1);
        }
        Ok(report)
    }

    /// The tables' names and columns.
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        self.tables.iter().map(|table| table.segment.schema())
    }

    /// Runs one condition over the first table on both sides, each from the text itself; says how many rows it selects.
    ///
    /// # Errors
    /// If they differ, or one fails.
    pub fn compare_text(&mut self, condition: &str) -> Result<u64, DifferentialError> {
        let table = &mut self.tables[0];
        let schema = table.segment.schema();
        let text = format!("SELECT * FROM {} WHERE {condition}", schema.table);
        let statement = Statement {
            whole: text.clone(),
            text,
            output: crate::query::Output::Rows((0..schema.columns.len() as u32).collect()),
            limit: None,
        };
        Ok(table.compare(&statement, self.threads)?.rows)
    }
}

/// Rows of a statement that agreed.
struct Compared {
    rows: u64,
    /// Rows without its limit.
    whole: u64,
}

impl Twice {
    fn compare(
        &mut self,
        statement: &Statement,
        threads: usize,
    ) -> Result<Compared, DifferentialError> {
        let sql = || statement.text.clone();
        let failed = |side, reason: String| DifferentialError::Query {
            side,
            reason,
            sql: sql(),
        };
        let schema = self.segment.schema();
        let table = sql::table_name(&statement.text);
        let table = table.map_err(|error| failed("the search for the table", error.to_string()))?;
        let query = Query::parse(schema, &statement.text);
        let query = query.map_err(|error| failed("the parser", error.to_string()))?;
        if (table.as_str(), &query.output, query.limit)
            != (schema.table.as_str(), &statement.output, statement.limit)
        {
            let reason = format!("it read {query:?}, of table {table}");
            return Err(failed("the parser", reason));
        }
        let output = output_schema(schema, &query)
            .map_err(|error| failed("the scan's schema", error.to_string()))?;
        let differs = |row: String| DifferentialError::Difference {
            row,
            query: Box::new(query.clone()),
            sql: format!("{}\nDuckDB: {}", statement.text, statement.whole),
        };
        match query.limit {
            None => {
                let rows = self.whole(statement, &query, &output, threads)?;
                Ok(Compared { rows, whole: rows })
            }
            Some(limit) => {
                let expected = self
                    .peer(&statement.whole, &output)
                    .map_err(|reason| failed("DuckDB", reason))?;
                let found = self
                    .scan(&query, threads)
                    .map_err(|reason| failed("the scan", reason))?;
                let count = |batches: &[RecordBatch]| -> u64 {
                    batches.iter().map(|batch| batch.num_rows() as u64).sum()
                };
                let (rows, whole) = (count(&found), count(&expected));
                if rows != limit.min(whole) {
                    let row = format!("{rows} rows come of {whole} with a limit of {limit}");
                    return Err(differs(row));
                }
                match first_surplus("the scan", &found, "DuckDB", &expected) {
                    Ok(None) => Ok(Compared { rows, whole }),
                    Ok(Some(row)) => Err(differs(row)),
                    Err(error) => Err(failed("the comparison", error.to_string())),
                }
            }
        }
    }

    /// Compares all rows of a statement without a limit; says how many there are.
    fn whole(
        &mut self,
        statement: &Statement,
        query: &Query,
        output: &SchemaRef,
        threads: usize,
    ) -> Result<u64, DifferentialError> {
        let failed = |side, reason: String| DifferentialError::Query {
            side,
            reason,
            sql: statement.text.clone(),
        };
        let mut expected = Digest::default();
        self.peer_into(&statement.whole, output, |batch| {
            digest_into(&mut expected, &batch);
        })
        .map_err(|reason| failed("DuckDB", reason))?;
        let found = Mutex::new(Digest::default());
        self.scan_into(query, threads, &|batch| {
            digest_into(
                &mut found.lock().unwrap_or_else(PoisonError::into_inner),
                &batch,
            );
        })
        .map_err(|reason| failed("the scan", reason))?;
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if found == expected {
            return Ok(found.rows);
        }
        let again = |reason| failed("a second run", reason);
        let theirs = self.peer(&statement.whole, output).map_err(again)?;
        let ours = self.scan(query, threads).map_err(again)?;
        let difference = first_difference("DuckDB", &theirs, "the scan", &ours)
            .map_err(|error| again(error.to_string()))?;
        let row = difference.unwrap_or_else(|| "a second run of both agrees".into());
        Err(DifferentialError::Difference {
            row: format!("DuckDB: {expected}; scan: {found}\n{row}"),
            query: Box::new(query.clone()),
            sql: format!("{}\nDuckDB: {}", statement.text, statement.whole),
        })
    }

    fn peer(&mut self, sql: &str, schema: &SchemaRef) -> Result<Vec<RecordBatch>, String> {
        let mut batches = Vec::new();
        self.peer_into(sql, schema, |batch| batches.push(batch))?;
        Ok(batches)
    }

    fn peer_into(
        &mut self,
        sql: &str,
        schema: &SchemaRef,
        mut sink: impl FnMut(RecordBatch),
    ) -> Result<(), String> {
        let rows = self
            .connection
            .query(sql, Some(schema.clone()), Delivery::Streamed);
        for batch in rows.map_err(|error| error.to_string())? {
            sink(batch.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn scan(&self, query: &Query, threads: usize) -> Result<Vec<RecordBatch>, String> {
        let batches = Mutex::new(Vec::new());
        self.scan_into(query, threads, &|batch| {
            let mut batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
            batches.push(batch);
        })?;
        Ok(batches.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn scan_into(
        &self,
        query: &Query,
        threads: usize,
        sink: &(dyn Fn(RecordBatch) + Sync),
    ) -> Result<(), String> {
        let options = ScanOptions {
            threads,
            stop: &AtomicBool::new(false),
            batch_rows: 16_384,
            memory_bytes: 256 << 20,
            sink_batches: 0,
            slots: None,
        };
        let keep_on = |batch| {
            sink(batch);
            ControlFlow::Continue(())
        };
        scan(&self.segment, &self.cache, query, &options, &keep_on)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

fn digest_into(digest: &mut Digest, batch: &RecordBatch) {
    digest.update(batch).expect("a scan's types have digests");
}
