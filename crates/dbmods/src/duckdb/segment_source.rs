//! A table of ours as a table function: its segment is scanned on DuckDB's thread, in the order of its rows.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};

use super::layout::physical_columns;
use super::raw::Physical;
use super::source::{Feed, Page, Source};
use crate::query::{Output, Predicate, Query};
use crate::{Batches, Table};

/// A segment of TPC-H as a source of rows.
pub(super) struct SegmentSource {
    table: Table,
    columns: Vec<(&'static str, Physical)>,
    handed: Arc<AtomicU64>,
}

/// The rows in order.
struct Rows {
    batches: Result<Batches, String>,
    batch: Option<RecordBatch>,
    taken: usize,
    handed: Arc<AtomicU64>,
}

impl SegmentSource {
    /// `handed` counts the rows that were handed over. The table is one of TPC-H's.
    pub(super) fn new(table: Table, handed: Arc<AtomicU64>) -> Self {
        let columns = physical_columns(&table.schema().table);
        Self {
            columns: columns.unwrap_or_default(),
            table,
            handed,
        }
    }
}

impl Source for SegmentSource {
    fn columns(&self) -> &[(&'static str, Physical)] {
        &self.columns
    }

    /// One, because this API has no way to say which rows come before which.
    fn threads_max(&self) -> usize {
        1
    }

    fn open(&self) -> Box<dyn Feed> {
        let schema = self.table.schema();
        let all = Query {
            table: schema.table.clone(),
            predicate: Predicate::Constant(Some(true)),
            output: Output::Rows((0..schema.columns.len() as u32).collect()),
            limit: None,
        };
        Box::new(Rows {
            batches: self.table.scan(&all).map_err(|error| error.to_string()),
            batch: None,
            taken: 0,
            handed: Arc::clone(&self.handed),
        })
    }
}

impl Rows {
    /// Returns rows that were not yet handed over; none at the end.
    fn pending(&mut self, rows_max: usize) -> Result<Option<RecordBatch>, String> {
        loop {
            if let Some(batch) = &self.batch
                && self.taken < batch.num_rows()
            {
                let rows = rows_max.min(batch.num_rows() - self.taken);
                let pending = batch.slice(self.taken, rows);
                self.taken += rows;
                return Ok(Some(pending));
            }
            let batches = self.batches.as_mut().map_err(|why| why.clone())?;
            match batches.next() {
                Some(batch) => {
                    self.batch = Some(batch.map_err(|error| error.to_string())?);
                    self.taken = 0;
                }
                None => return Ok(None),
            }
        }
    }
}

impl Feed for Rows {
    fn fill(&mut self, page: &mut Page<'_>) -> Result<usize, String> {
        let Some(rows) = self.pending(page.rows_max())? else {
            return Ok(0);
        };
        for (i, column) in rows.columns().iter().enumerate() {
            write(i, column.as_ref(), page)?;
        }
        self.handed.fetch_add(rows.num_rows() as u64, Relaxed);
        Ok(rows.num_rows())
    }
}

/// Writes a column without NULLs.
fn write(i: usize, column: &dyn Array, page: &mut Page<'_>) -> Result<(), String> {
    use arrow_schema::DataType;
    match column.data_type() {
        DataType::Int32 => {
            page.set(
                i,
                column.as_primitive::<Int32Type>().values().iter().copied(),
            );
        }
        DataType::Date32 => {
            page.set(
                i,
                column.as_primitive::<Date32Type>().values().iter().copied(),
            );
        }
        DataType::Int64 => {
            page.set(
                i,
                column.as_primitive::<Int64Type>().values().iter().copied(),
            );
        }
        DataType::Decimal64(..) => {
            page.set(
                i,
                column
                    .as_primitive::<Decimal64Type>()
                    .values()
                    .iter()
                    .copied(),
            );
        }
        DataType::Utf8 => {
            let texts = column.as_string::<i32>();
            page.set_texts(i, (0..texts.len()).map(|row| texts.value(row)));
        }
        other => return Err(format!("a segment gave a column of {other}")),
    }
    Ok(())
}
