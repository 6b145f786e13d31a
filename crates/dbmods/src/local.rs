//! A table on this machine: made of record batches or opened, asked in SQL, scanned in process.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use dpb_core::Backend;

use crate::query::Query;
use crate::query::sql::SqlError;
use crate::scan::operator::{BATCH_ROWS, own_cores};
use crate::scan::{self, BatchSink, GroupScan, Plan, Quota, ScanError, ScanOptions, ScanStats};
use crate::schema::Schema;
use crate::table::{BatchWriter, Cache, Segment, SegmentError, WriteError};

/// A table in a segment file, open to be scanned. Clones share the file and its cache.
#[derive(Clone, Debug)]
pub struct Table {
    segment: Arc<Segment>,
    cache: Arc<Cache>,
}

impl Table {
    /// Makes the file `path`, of a table called `name` with the rows of `batches`, and opens it. The first batch says what columns
    /// there are; [`BatchWriter`] lists the types that they may have.
    ///
    /// # Errors
    /// If there is no batch, or as [`BatchWriter`]. Nothing is left then.
    pub fn create(
        path: &Path,
        name: &str,
        batches: impl IntoIterator<Item = RecordBatch>,
    ) -> Result<Self, WriteError> {
        let mut batches = batches.into_iter();
        let first = batches
            .next()
            .ok_or_else(|| WriteError::Columns("no batch says what columns there are".into()))?;
        let mut writer = BatchWriter::create(path, name, &first.schema())?;
        writer.write(&first)?;
        batches.try_for_each(|batch| writer.write(&batch))?;
        writer.finish()?;
        Self::open(path).map_err(|error| WriteError::Io {
            path: path.to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Opens a segment file, with a cache that all of it fits.
    ///
    /// # Errors
    /// If it cannot be read, or is no whole segment.
    pub fn open(path: &Path) -> Result<Self, SegmentError> {
        Ok(Self::of(Arc::new(Segment::open(path)?)))
    }

    /// The table of a segment that is open, with a cache that all of it fits.
    pub fn of(segment: Arc<Segment>) -> Self {
        let cache = Arc::new(Cache::new(segment.file_bytes()));
        Self { segment, cache }
    }

    /// The same table with another cache, which it may share with others.
    #[must_use]
    pub fn with_cache(self, cache: Arc<Cache>) -> Self {
        Self { cache, ..self }
    }

    /// The table's name and columns.
    pub fn schema(&self) -> &Schema {
        self.segment.schema()
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.segment.rows()
    }

    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Reads a statement about this table, as [`Query::parse`].
    ///
    /// # Errors
    /// Points at the first thing that is not understood.
    pub fn query(&self, sql: &str) -> Result<Query, SqlError> {
        Query::parse(self.schema(), sql)
    }

    /// Scans on the calling thread, a row group at a time as the iterator is asked.
    ///
    /// # Errors
    /// If the query does not fit the table. What goes wrong later is an item of the iterator.
    pub fn scan(&self, query: &Query) -> Result<Batches, ScanError> {
        let plan = self.plan(query)?;
        let quota = Arc::new(Quota::new(query.limit));
        let groups = 0..self.segment.groups().len();
        Ok(Batches::new(self, &plan, groups, &quota))
    }

    /// Divides the scan into its row groups, to be scanned wherever and in whatever order their owner likes. The splits share the
    /// query's limit: together they give no more rows.
    ///
    /// # Errors
    /// If the query does not fit the table.
    pub fn splits(&self, query: &Query) -> Result<Vec<Split>, ScanError> {
        let plan = self.plan(query)?;
        let quota = Arc::new(Quota::new(query.limit));
        let split = |group| Split {
            table: self.clone(),
            plan: Arc::clone(&plan),
            group,
            quota: Arc::clone(&quota),
        };
        Ok((0..self.segment.groups().len()).map(split).collect())
    }

    fn plan(&self, query: &Query) -> Result<Arc<Plan>, ScanError> {
        self.check(query)?;
        Ok(Arc::new(Plan::new(self.schema(), query)?))
    }

    /// Scans with `threads` threads of its own, which hand their batches to `sink` in no order; a sink that breaks ends the scan.
    ///
    /// # Errors
    /// If the query does not fit the table, or a row group is damaged: then rows of other row groups may have been given.
    pub fn scan_with_threads(
        &self,
        query: &Query,
        threads: usize,
        sink: &BatchSink<'_>,
    ) -> Result<ScanStats, ScanError> {
        self.scan_on(&own_cores(), query, threads, sink)
    }

    /// Scans on `backend`, which has the operator `scan`, through `threads` queues.
    ///
    /// # Errors
    /// As [`Table::scan_with_threads`]; if the backend cannot scan, or fails.
    pub fn scan_on(
        &self,
        backend: &dyn Backend,
        query: &Query,
        threads: usize,
        sink: &BatchSink<'_>,
    ) -> Result<ScanStats, ScanError> {
        self.check(query)?;
        let options = ScanOptions {
            threads,
            stop: &AtomicBool::new(false),
            batch_rows: BATCH_ROWS,
            memory_bytes: usize::MAX,
            sink_batches: 0,
            slots: None,
        };
        scan::scan_on(backend, &self.segment, &self.cache, query, &options, sink)
    }

    fn check(&self, query: &Query) -> Result<(), ScanError> {
        let checked = query.check(self.schema());
        checked.map_err(|error| ScanError::Type(error.to_string()))
    }
}

/// The batches of a scan, made as they are asked for. After an error there are none.
#[derive(Debug)]
pub struct Batches {
    scan: GroupScan,
    schema: SchemaRef,
    /// Row groups that are left.
    groups: Range<usize>,
    /// Rows that may still be given.
    quota: Arc<Quota>,
    /// Batches of the last row group that was scanned.
    ready: VecDeque<RecordBatch>,
    is_finished: bool,
}

impl Batches {
    fn new(table: &Table, plan: &Arc<Plan>, groups: Range<usize>, quota: &Arc<Quota>) -> Self {
        let limit = plan
            .limit()
            .map_or(usize::MAX, |limit| limit.max(1) as usize);
        let batch_rows = BATCH_ROWS.min(limit);
        Self {
            scan: GroupScan::new(plan, &table.segment, &table.cache, batch_rows),
            schema: Arc::clone(plan.output_schema()),
            groups,
            quota: Arc::clone(quota),
            ready: VecDeque::new(),
            is_finished: quota.is_spent(),
        }
    }

    /// The batches' schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The counts of the row groups that were scanned so far.
    pub fn stats(&self) -> &ScanStats {
        self.scan.stats()
    }

    /// Scans the next row group, or ends the scan.
    fn step(&mut self) -> Result<(), ScanError> {
        let (ready, quota) = (&mut self.ready, &self.quota);
        let mut give = |batch| {
            ready.extend(quota.cut(batch));
            match quota.is_spent() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let given = match self.groups.next() {
            Some(group) => self.scan.scan(group, &mut give)?,
            None => {
                self.is_finished = true;
                self.scan.finish(&mut give)?
            }
        };
        self.is_finished |= given.is_break();
        Ok(())
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Some(Ok(batch));
            }
            if self.is_finished {
                return None;
            }
            if let Err(error) = self.step() {
                self.is_finished = true;
                self.ready.clear();
                return Some(Err(error));
            }
        }
    }
}

/// A part of a scan: one row group. It owns what it needs, so it may go to another thread and outlive the table that it is of.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// # use dpb_dbmods::Table;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.dpbseg");
/// let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
/// let table = Table::create(&path, "numbers", [RecordBatch::try_from_iter([("n", numbers)])?])?;
/// let query = table.query("SELECT n FROM numbers WHERE n >= 150000")?;
/// // A thread for each row group; a pool of one's own does as well.
/// let threads = table.splits(&query)?.into_iter().map(|split| {
///     std::thread::spawn(move || -> Result<usize, dpb_dbmods::scan::ScanError> {
///         let mut rows = 0;
///         for batch in split.batches()? {
///             rows += batch?.num_rows();
///         }
///         Ok(rows)
///     })
/// });
/// let threads: Vec<_> = threads.collect();
/// let mut rows = 0;
/// for thread in threads {
///     rows += thread.join().expect("no thread panics")?;
/// }
/// assert_eq!(rows, 50_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Split {
    table: Table,
    plan: Arc<Plan>,
    group: usize,
    quota: Arc<Quota>,
}

impl Split {
    /// The number of its row group.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Rows of the row group, before the query's condition.
    pub fn rows(&self) -> u64 {
        u64::from(self.table.segment.groups()[self.group].rows)
    }

    /// Scans it on the calling thread, as the iterator is asked.
    ///
    /// # Errors
    /// If the query is an aggregate, whose splits are added up: [`Split::partial`].
    pub fn batches(&self) -> Result<Batches, ScanError> {
        match self.plan.is_aggregate() {
            true => Err(ScanError::Type(
                "an aggregate's splits are added up, and have no rows of their own".to_owned(),
            )),
            false => {
                let groups = self.group..self.group + 1;
                Ok(Batches::new(&self.table, &self.plan, groups, &self.quota))
            }
        }
    }

    /// Accumulates an aggregate over it, for [`Merged::add`].
    ///
    /// # Errors
    /// If the query is no aggregate, the row group is damaged, or a sum is out of range.
    ///
    /// [`Merged::add`]: crate::scan::operator::Merged::add
    pub fn partial(&self) -> Result<Vec<u8>, ScanError> {
        let Table { segment, cache } = &self.table;
        let mut scan = GroupScan::new(&self.plan, segment, cache, BATCH_ROWS);
        match self.plan.is_aggregate() {
            true => scan.partial_of(self.group),
            false => Err(ScanError::Type("rows are not added up".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
