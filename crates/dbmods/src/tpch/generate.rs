//! One table into one segment file, by several threads: they make row groups side by side, and one writes them in order.
//!
//! Memory: a thread holds one row group as values (some 15 MB), and for each thread at most [`AHEAD`] encoded ones (some 2 MB
//! each) wait to be written; the generator's text pool takes 300 MB once.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use super::error::DataError;
use super::rows::{self, Cut, Cuts};
use super::schema;
use crate::table::chunk::GROUP_ROWS;
use crate::table::encode::{self, EncodedChunk};
use crate::table::segment::{Finished, Segment, SegmentWriter};

/// Row groups that each thread makes before they are written.
const AHEAD: usize = 4;

/// Hears how many rows are written; breaks to give up.
pub(super) type RowsWritten<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// Generates `table` into the file `path`, in row groups of `group_rows` rows.
pub(super) fn generate(
    table: &str,
    scale_factor: f64,
    group_rows: usize,
    path: &Path,
    threads: usize,
    progress: RowsWritten<'_>,
) -> Result<Finished, DataError> {
    let schema = schema(table).expect("a table of TPC-H");
    let failed = |source| DataError::Write {
        path: path.to_owned(),
        source,
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| failed(io::Error::other(error)))?;
    let mut writer = SegmentWriter::create(path, schema.clone()).map_err(failed)?;
    let mut cuts = Cuts::new(table, scale_factor, group_rows);
    let part_count = cuts.part_count();
    let encoded = |columns: &mut Vec<_>, cut: Cut| -> Vec<EncodedChunk> {
        rows::fill(table, scale_factor, part_count, cut, columns);
        let columns = columns.iter().enumerate();
        columns
            .map(|(i, values)| encode::encode(i as u16, cut.group, values))
            .collect()
    };
    let mut written = 0;
    loop {
        let batch: Vec<Cut> = cuts.by_ref().take(AHEAD * threads).collect();
        if batch.is_empty() {
            return writer.finish().map_err(failed);
        }
        let groups: Vec<_> = pool.install(|| {
            let batch = batch.into_par_iter();
            batch.map_init(|| encode::empty(&schema), encoded).collect()
        });
        for chunks in groups {
            writer.append(&chunks).map_err(failed)?;
            written += chunks[0].rows as u64;
            if progress(written).is_break() {
                return Err(DataError::Interrupted);
            }
        }
    }
}

/// A small table for tests and for whoever has no data: in row groups of `group_rows` rows, in a file that is gone when the
/// segment is. The same for the same arguments.
///
/// # Errors
/// If the file cannot be written.
///
/// # Panics
/// If TPC-H has no such table, or a row group would be empty or larger than a segment's may be.
pub fn sample(table: &str, scale_factor: f64, group_rows: usize) -> Result<Segment, DataError> {
    assert!(
        (1..=GROUP_ROWS).contains(&group_rows),
        "rows of a row group"
    );
    let failed = |source| DataError::Write {
        path: std::env::temp_dir(),
        source,
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    let path = folder.path().join(table);
    let go_on: RowsWritten<'_> = &|_| ControlFlow::Continue(());
    generate(table, scale_factor, group_rows, &path, 1, go_on)?;
    Segment::open(&path).map_err(|error| failed(io::Error::other(error.to_string())))
}

#[cfg(test)]
mod tests;
