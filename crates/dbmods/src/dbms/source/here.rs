//! Segments of this process.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Queue, ScanCounts, Source};
use crate::Table;
use crate::query::Query;
use crate::schema::Schema;
use crate::tpch::{DataError, TABLES, TableSet};

/// All eight tables, scanned here.
#[derive(Debug)]
pub struct OwnSource {
    tables: BTreeMap<String, Table>,
    threads: usize,
}

impl OwnSource {
    /// Opens the segments of a set, for scans on so many threads.
    ///
    /// # Errors
    /// If one is missing or damaged.
    pub fn open(set: &TableSet, threads: usize) -> Result<Self, DataError> {
        let tables = TABLES.into_iter().map(|name| {
            let segment = Arc::new(set.open(name)?);
            Ok((name.to_owned(), Table::of(segment)))
        });
        Ok(Self {
            tables: tables.collect::<Result<_, DataError>>()?,
            threads,
        })
    }
}

impl Source for OwnSource {
    fn tables(&self) -> Vec<(Schema, u64)> {
        let tables = self.tables.values();
        tables
            .map(|table| (table.schema().clone(), table.rows()))
            .collect()
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn scan(&self, schema: &Schema, query: Query, queue: &Queue) -> Result<ScanCounts, String> {
        let table = self.tables.get(&schema.table);
        let table = table.ok_or_else(|| format!("there is no table {}", schema.table))?;
        let sent = AtomicU64::new(0);
        let stats = table.scan_with_threads(&query, self.threads, &|batch| {
            sent.fetch_add(batch.num_rows() as u64, Relaxed);
            match queue.put(batch) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        Ok(ScanCounts {
            rows_scanned: stats.map_err(|error| error.to_string())?.tuples_scanned,
            rows_sent: sent.into_inner(),
            link_bytes: 0,
        })
    }
}
