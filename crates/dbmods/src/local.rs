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
use crate::scan::{self, BatchSink, GroupScan, Plan, ScanError, ScanOptions, ScanStats};
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
        self.check(query)?;
        let plan = Arc::new(Plan::new(self.schema(), query)?);
        Ok(Batches {
            scan: GroupScan::new(&plan, &self.segment, &self.cache, BATCH_ROWS),
            schema: Arc::clone(plan.output_schema()),
            groups: 0..self.segment.groups().len(),
            ready: VecDeque::new(),
            is_finished: false,
        })
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
    /// Batches of the last row group that was scanned.
    ready: VecDeque<RecordBatch>,
    is_finished: bool,
}

impl Batches {
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
        let ready = &mut self.ready;
        let mut give = |batch| {
            ready.push_back(batch);
            ControlFlow::Continue(())
        };
        let _always_continues = match self.groups.next() {
            Some(group) => self.scan.scan(group, &mut give)?,
            None => {
                self.is_finished = true;
                self.scan.finish(&mut give)?
            }
        };
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

#[cfg(test)]
mod tests;
