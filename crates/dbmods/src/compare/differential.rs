//! Whether the scan agrees with DuckDB, row for row, on random queries.
//!
//! Both sides have lineitem from the same generator on ways of their own: a segment here, DuckDB's own file there. So what is
//! compared is encoder, scan and materialisation with everything that DuckDB does.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::compare::digest::{Digest, first_difference};
use crate::compare::random::{Generator, Samples};
use crate::duckdb::{Config, Connection, Database, Delivery, Library, tpch_baseline};
use crate::query::sql;
use crate::query::{Output, Query};
use crate::scan::{ScanOptions, output_schema, scan};
use crate::table::cache::Cache;
use crate::table::segment::Segment;
use crate::tpch;

const TABLE: &str = "lineitem";
/// Every so many predicates one also has an aggregate computed over it, and is followed by a condition as text.
const AGGREGATE_EVERY: u64 = 4;
/// l_returnflag, l_linestatus, l_linenumber, l_shipinstruct, l_shipmode.
const GROUP_BY: [u32; 5] = [8, 9, 3, 13, 14];

/// lineitem, twice.
pub struct Differential {
    segment: Arc<Segment>,
    cache: Arc<Cache>,
    connection: Connection,
    threads: usize,
}

/// The extent of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Predicates whose rows agreed.
    pub predicates: u64,
    /// Aggregates whose rows agreed.
    pub aggregates: u64,
    /// Conditions whose rows agreed that each side read as text.
    pub texts: u64,
    /// Rows that these queries returned.
    pub rows: u64,
    /// Predicates that selected no row, and all rows.
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
        /// The query.
        sql: String,
    },
    /// Both answered, differently.
    Difference {
        /// The query as DuckDB ran it.
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
    /// Makes or finds both copies under `data_dir`.
    ///
    /// # Errors
    /// [`DifferentialError::Setup`].
    pub fn open(
        library: Library,
        data_dir: &Path,
        scale_factor: f64,
        threads: usize,
    ) -> Result<Self, DifferentialError> {
        let setup = |error: &dyn fmt::Display| DifferentialError::Setup(error.to_string());
        let go_on = |_: tpch::Step<'_>| ControlFlow::Continue(());
        let tables = tpch::ensure(
            data_dir,
            scale_factor,
            &[TABLE],
            threads,
            &dpb_core::WallClock::default(),
            &go_on,
        )
        .map_err(|error| setup(&error))?;
        let segment = Arc::new(tables.open(TABLE).map_err(|error| setup(&error))?);
        let baseline = tpch_baseline::ensure(
            library,
            data_dir,
            scale_factor,
            TABLE,
            threads,
            &dpb_core::WallClock::default(),
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
        let connection = database.connect().map_err(|error| setup(&error))?;
        let cache = Arc::new(Cache::new(segment.file_bytes()));
        Ok(Self {
            segment,
            cache,
            connection,
            threads,
        })
    }

    /// Compares `count` random predicates, all 16 columns of every row that qualifies, and for each fourth an aggregate over
    /// it and a condition as text. `progress` hears how many agreed.
    ///
    /// # Errors
    /// The first query that differs or fails.
    pub fn run(
        &mut self,
        count: u64,
        seed: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<Report, DifferentialError> {
        let schema = self.segment.schema().clone();
        let samples = Samples::of_segment(&self.segment, &self.cache, seed)
            .map_err(|error| DifferentialError::Setup(error.to_string()))?;
        let mut generator = Generator::new(&schema, &samples, seed);
        let mut report = Report::default();
        for done in 0..count {
            let mut query = Query {
                table: TABLE.into(),
                predicate: generator.predicate(),
                output: self.all_columns(),
                limit: None,
            };
            let rows = self.compare(&query)?;
            report.predicates += 1;
            report.rows += rows;
            report.extremes.0 += u64::from(rows == 0);
            report.extremes.1 += u64::from(rows == self.segment.rows());
            if done % AGGREGATE_EVERY == 0 {
                query.output = Output::Aggregate(generator.aggregate(&GROUP_BY));
                report.rows += self.compare(&query)?;
                report.aggregates += 1;
                report.rows += self.compare_text(&generator.between_text())?;
                report.texts += 1;
            }
            progress(done + 1);
        }
        Ok(report)
    }

    /// Runs one query on both sides; says how many rows it has.
    ///
    /// # Errors
    /// If they differ, or one fails.
    pub fn compare(&mut self, query: &Query) -> Result<u64, DifferentialError> {
        let sql = sql::query_to_sql(query, self.segment.schema(), TABLE);
        self.compare_as(query, sql)
    }

    /// Runs one condition on both sides, each from the text itself; says how many rows it has. [`Differential::compare`] gives DuckDB
    /// what the parser made of a text, and so cannot see what the parser made wrong.
    ///
    /// # Errors
    /// If they differ, or one fails.
    pub fn compare_text(&mut self, condition: &str) -> Result<u64, DifferentialError> {
        let schema = self.segment.schema();
        let sql = format!("SELECT * FROM {TABLE} WHERE {condition}");
        let predicate = match sql::parse_predicate(schema, condition) {
            Ok(predicate) => predicate,
            Err(error) => {
                return Err(DifferentialError::Query {
                    side: "the parser",
                    reason: error.to_string(),
                    sql,
                });
            }
        };
        let query = Query {
            table: TABLE.into(),
            predicate,
            output: self.all_columns(),
            limit: None,
        };
        self.compare_as(&query, sql)
    }

    fn all_columns(&self) -> Output {
        Output::Rows((0..self.segment.schema().columns.len() as u32).collect())
    }

    /// `sql`: the query as DuckDB shall run it.
    fn compare_as(&mut self, query: &Query, sql: String) -> Result<u64, DifferentialError> {
        let failed = |side, reason: String| DifferentialError::Query {
            side,
            reason,
            sql: sql.clone(),
        };
        query
            .check(self.segment.schema())
            .map_err(|error| failed("the check of the query", error.0))?;
        let schema = output_schema(self.segment.schema(), query)
            .map_err(|error| failed("the scan's schema", error.to_string()))?;
        let mut expected = Digest::default();
        self.peer(&sql, &schema, |batch| digest_into(&mut expected, &batch))
            .map_err(|reason| failed("DuckDB", reason))?;
        let found = Mutex::new(Digest::default());
        self.scan(query, &|batch| {
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
        let row = self
            .name_difference(query, &sql, &schema)
            .map_err(|reason| failed("a second run", reason))?;
        Err(DifferentialError::Difference {
            row: format!("DuckDB: {expected}; scan: {found}\n{row}"),
            query: Box::new(query.clone()),
            sql,
        })
    }

    fn name_difference(
        &mut self,
        query: &Query,
        sql: &str,
        schema: &SchemaRef,
    ) -> Result<String, String> {
        let mut expected = Vec::new();
        self.peer(sql, schema, |batch| expected.push(batch))?;
        let found = Mutex::new(Vec::new());
        self.scan(query, &|batch| {
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(batch);
        })?;
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let difference = first_difference("DuckDB", &expected, "the scan", &found)
            .map_err(|error| error.to_string())?;
        Ok(difference.unwrap_or_else(|| "a second run of both agrees".into()))
    }

    fn peer(
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

    fn scan(&self, query: &Query, sink: &(dyn Fn(RecordBatch) + Sync)) -> Result<(), String> {
        let options = ScanOptions {
            threads: self.threads,
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
