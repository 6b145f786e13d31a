//! One table into one segment file, by several threads: each makes whole row groups, and they are written in order.
//!
//! Memory: a thread holds one row group as values (some 15 MB) and at most [`AHEAD`] encoded ones (some 2 MB each) wait for
//! those before them; the generator's text pool takes 300 MB once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use super::rows::{self, Cut, Cuts};
use super::schema;
use super::store::DataError;
use crate::pushdown::encode::{self, EncodedChunk};
use crate::pushdown::segment::{Finished, SegmentWriter};

/// Row groups that a thread may be ahead of the one that is written next.
const AHEAD: u32 = 4;

/// Hears how many rows are written; breaks to give up.
pub(super) type RowsWritten<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// Generates `table` into the file `path`.
pub(super) fn generate(
    table: &str,
    scale_factor: f64,
    path: &Path,
    threads: usize,
    progress: RowsWritten<'_>,
) -> Result<Finished, DataError> {
    let schema = schema(table).expect("a table of TPC-H");
    let failed = |source| DataError::Write {
        path: path.to_owned(),
        source,
    };
    let writer = SegmentWriter::create(path, schema).map_err(failed)?;
    let cuts = Cuts::new(table, scale_factor);
    let job = Job {
        table,
        scale_factor,
        part_count: cuts.part_count(),
        ahead: AHEAD * threads as u32,
        state: Mutex::new(State {
            cuts,
            writer,
            next: 0,
            written: 0,
            waiting: BTreeMap::new(),
            ended: None,
        }),
        moved: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| job.work(progress));
        }
    });
    let state = job
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match state.ended {
        None => state.writer.finish().map_err(failed),
        Some(Ended::GivenUp) => Err(DataError::Interrupted),
        Some(Ended::Failed(source)) => Err(failed(source)),
    }
}

struct Job<'a> {
    table: &'a str,
    scale_factor: f64,
    part_count: i32,
    ahead: u32,
    state: Mutex<State>,
    /// A row group was written, or all is over.
    moved: Condvar,
}

struct State {
    cuts: Cuts,
    writer: SegmentWriter,
    /// The row group to be written next.
    next: u32,
    /// Rows written.
    written: u64,
    /// Encoded, but not their turn.
    waiting: BTreeMap<u32, Vec<EncodedChunk>>,
    ended: Option<Ended>,
}

enum Ended {
    GivenUp,
    Failed(std::io::Error),
}

impl Job<'_> {
    fn work(&self, progress: RowsWritten<'_>) {
        let _watch = Watch(self);
        let mut columns = encode::empty(&schema(self.table).expect("a table of TPC-H"));
        while let Some(cut) = self.take() {
            rows::fill(
                self.table,
                self.scale_factor,
                self.part_count,
                cut,
                &mut columns,
            );
            let encode = |(i, values)| encode::encode(i as u16, cut.group, values);
            self.hand_in(
                cut,
                columns.iter().enumerate().map(encode).collect(),
                progress,
            );
        }
    }

    /// The next row group to be made; waits while too many are ahead.
    fn take(&self) -> Option<Cut> {
        let mut state = self.state.lock().ok()?;
        loop {
            if state.ended.is_some() {
                return None;
            }
            if state.next + self.ahead > state.cuts.group() {
                return state.cuts.next();
            }
            state = self.moved.wait(state).ok()?;
        }
    }

    /// Writes the row group if it is its turn, and those that waited for it.
    fn hand_in(&self, cut: Cut, chunks: Vec<EncodedChunk>, progress: RowsWritten<'_>) {
        let Ok(mut guard) = self.state.lock() else {
            return;
        };
        let state = &mut *guard;
        state.waiting.insert(cut.group, chunks);
        while state.ended.is_none() {
            let Some(chunks) = state.waiting.remove(&state.next) else {
                break;
            };
            if let Err(error) = state.writer.append(&chunks) {
                state.ended = Some(Ended::Failed(error));
                break;
            }
            state.next += 1;
            state.written += chunks[0].rows as u64;
            if progress(state.written).is_break() {
                state.ended = Some(Ended::GivenUp);
            }
        }
        self.moved.notify_all();
    }
}

/// Ends the job if its thread panics, so that no other waits for a row group that never comes.
struct Watch<'a>(&'a Job<'a>);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Ok(mut state) = self.0.state.lock() {
                state.ended = Some(Ended::GivenUp);
            }
            self.0.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
