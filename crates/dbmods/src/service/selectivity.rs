//! A predicate of a wanted selectivity: `column <= k`, with `k` a true quantile of the segment's own values.
//!
//! The column is one whose values do not follow the order of the rows: in every block they span most of the column's range,
//! so no zone map, ours or another engine's, excludes or includes a block by itself, and each value must be looked at. Of
//! such columns the one of the smallest range that comes within [`TOLERANCE`] is taken (for lineitem from scale factor 1
//! on l_partkey or a smaller one), else the one that comes nearest.
//!
//! Quantiles come from histograms of 65,536 cells, refined until a cell is one value: exact, with half a megabyte of memory.

use std::sync::Arc;

use crate::query::{CompareOp, Literal, Predicate, Scalar};
use crate::schema::ColumnType;
use crate::table::cache::Cache;
use crate::table::chunk::Chunk;
use crate::table::segment::{Segment, SegmentError};

/// The relative distance between the selectivity asked for and the true one at which another column is tried.
pub(super) const TOLERANCE: f64 = 0.01;
/// Least part of the column's range that blocks span on average.
const SPREAD_MIN: f64 = 0.5;
/// Row groups whose blocks are looked at for the spread.
const SPREAD_GROUPS: usize = 8;
const CELLS: usize = 1 << 16;

/// The reason why there is no such predicate.
#[derive(Debug, thiserror::Error)]
pub(super) enum SelectivityError {
    /// The selectivity is not between 0 and 1.
    #[error("a selectivity is between 0 and 1, not {0}")]
    OutOfRange(f64),
    /// No column of numbers or dates is spread over the rows.
    #[error("{0} has no column of numbers or dates that is independent of the order of its rows")]
    NoColumn(String),
    /// The segment cannot be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The search was asked to stop.
    #[error("stopped before a predicate was found")]
    Stopped,
}

/// The values to look at, and whether to go on.
struct Source<'a> {
    segment: &'a Segment,
    cache: &'a Cache,
    stop: &'a dyn Fn() -> bool,
}

impl Source<'_> {
    fn chunk(&self, group: usize, column: usize) -> Result<Arc<Chunk>, SelectivityError> {
        match (self.stop)() {
            true => Err(SelectivityError::Stopped),
            false => Ok(self.segment.chunk(group, column, self.cache)?),
        }
    }
}

/// A column that could serve, and its range.
struct Candidate {
    column: usize,
    min: i64,
    span: u64,
}

/// A predicate that so large a part of the rows satisfies, and the part that truly does. Reads one or a few columns whole,
/// each up to four times, and asks `stop` before each row group.
///
/// # Errors
/// [`SelectivityError`].
pub(super) fn predicate(
    segment: &Segment,
    cache: &Cache,
    wanted: f64,
    stop: &dyn Fn() -> bool,
) -> Result<(Predicate, f64), SelectivityError> {
    if !(0.0..=1.0).contains(&wanted) {
        return Err(SelectivityError::OutOfRange(wanted));
    }
    let rows = segment.rows();
    let target = (wanted * rows as f64).round() as u64;
    let source = Source {
        segment,
        cache,
        stop,
    };
    let mut best: Option<(u64, Predicate, u64)> = None;
    for candidate in candidates(&source)? {
        let (bound, selected) = quantile(&source, &candidate, target)?;
        let distance = selected.abs_diff(target);
        if best.as_ref().is_none_or(|(least, _, _)| distance < *least) {
            best = Some((
                distance,
                at_most(segment, candidate.column, bound),
                selected,
            ));
        }
        if distance as f64 <= TOLERANCE * target as f64 {
            break;
        }
    }
    let (_, predicate, selected) =
        best.ok_or_else(|| SelectivityError::NoColumn(segment.schema().table.clone()))?;
    Ok((predicate, selected as f64 / rows as f64))
}

/// Columns that are spread over the rows, those of the smallest range first.
fn candidates(source: &Source<'_>) -> Result<Vec<Candidate>, SelectivityError> {
    let segment = source.segment;
    let mut candidates = Vec::new();
    for (column, meta) in segment.schema().columns.iter().enumerate() {
        let chunks = segment.groups().iter().map(|group| group.chunks[column]);
        let (Some(min), Some(max)) = (
            chunks.clone().map(|chunk| chunk.min).min(),
            chunks.map(|chunk| chunk.max).max(),
        ) else {
            continue;
        };
        let span = max.wrapping_sub(min) as u64;
        if meta.ty != ColumnType::Text && span > 0 && spread(source, column, span)? >= SPREAD_MIN {
            candidates.push(Candidate { column, min, span });
        }
    }
    candidates.sort_by_key(|candidate| candidate.span);
    Ok(candidates)
}

/// The part of the column's range that a block spans, on average over some row groups from all over the table.
fn spread(source: &Source<'_>, column: usize, span: u64) -> Result<f64, SelectivityError> {
    let groups = source.segment.groups().len();
    let (mut sum, mut blocks) = (0.0, 0);
    for group in (0..groups).step_by(groups.div_ceil(SPREAD_GROUPS).max(1)) {
        let chunk = source.chunk(group, column)?;
        for block in chunk.blocks() {
            sum += block.max.wrapping_sub(block.min) as u64 as f64 / span as f64;
            blocks += 1;
        }
    }
    Ok(sum / f64::from(blocks.max(1)))
}

/// The bound for which the number of values at or below it is nearest to `target`, and that number.
fn quantile(
    source: &Source<'_>,
    candidate: &Candidate,
    target: u64,
) -> Result<(i64, u64), SelectivityError> {
    let mut first = 0; // of the cells, from the column's smallest value
    let mut below = 0; // values before the first cell
    let mut shift = (64 - candidate.span.leading_zeros()).saturating_sub(16);
    loop {
        let cells = histogram(source, candidate, first, shift)?;
        let mut total = below;
        let mut reached = cells.len() - 1;
        for (cell, &count) in cells.iter().enumerate() {
            if total + count >= target {
                reached = cell;
                break;
            }
            total += count;
        }
        first += (reached as u64) << shift;
        below = total;
        if shift == 0 {
            let with_cell = below + cells[reached];
            let value = candidate.min.wrapping_add(first as i64);
            let without = target - below.min(target) < with_cell.abs_diff(target);
            return Ok(if without {
                (value.saturating_sub(1), below)
            } else {
                (value, with_cell)
            });
        }
        shift = shift.saturating_sub(16);
    }
}

/// Counts the values in each cell of `2^shift` values, the first cell beginning `first` above the smallest value.
fn histogram(
    source: &Source<'_>,
    candidate: &Candidate,
    first: u64,
    shift: u32,
) -> Result<Vec<u64>, SelectivityError> {
    let mut cells = vec![0; CELLS];
    let mut values = Vec::new();
    for group in 0..source.segment.groups().len() {
        let chunk = source.chunk(group, candidate.column)?;
        for block in 0..chunk.blocks().len() {
            values.clear();
            chunk.decode_numbers(block, &mut values);
            for value in &values {
                let above = value.wrapping_sub(candidate.min) as u64;
                let cell = above.checked_sub(first).map(|above| above >> shift);
                if let Some(count) = cell.and_then(|cell| cells.get_mut(cell as usize)) {
                    *count += 1;
                }
            }
        }
    }
    Ok(cells)
}

fn at_most(segment: &Segment, column: usize, bound: i64) -> Predicate {
    let ty = segment.schema().columns[column].ty;
    Predicate::Compare {
        op: CompareOp::LessOrEqual,
        left: Scalar::Column(column as u32),
        right: Scalar::Literal(Literal::of_stored(bound, ty)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ops::ControlFlow;

    use super::*;
    use crate::query::{eval, sql};
    use crate::tpch;

    /// Counted again by the evaluator, over all rows of lineitem.
    #[test]
    fn true_selectivity() {
        let dir = tempfile::tempdir().unwrap();
        let set = tpch::ensure(
            dir.path(),
            0.01,
            &["lineitem"],
            2,
            &dpb_core::WallClock::default(),
            &|_| ControlFlow::Continue(()),
        );
        let segment = set.unwrap().open("lineitem").unwrap();
        let cache = Cache::new(segment.file_bytes());
        for wanted in [0.0, 0.001, 0.01, 0.1, 0.5, 1.0] {
            let (predicate, truth) = predicate(&segment, &cache, wanted, &|| false).unwrap();
            let sql = sql::to_sql(&predicate, segment.schema());
            assert!(
                (truth - wanted).abs() <= TOLERANCE * wanted,
                "{wanted}: {truth} by {sql}"
            );
            let Predicate::Compare {
                left: Scalar::Column(column),
                ..
            } = &predicate
            else {
                panic!("a column with a bound: {sql}");
            };
            assert_eq!(
                sql::parse_predicate(segment.schema(), &sql).as_ref(),
                Ok(&predicate)
            );
            let column = *column as usize;
            let mut row = vec![Literal::Null; segment.schema().columns.len()];
            let (mut selected, mut values) = (0, Vec::new());
            for group in 0..segment.groups().len() {
                let chunk = segment.chunk(group, column, &cache).unwrap();
                (0..chunk.blocks().len())
                    .for_each(|block| chunk.decode_numbers(block, &mut values));
            }
            for &value in &values {
                row[column] = Literal::of_stored(value, segment.schema().columns[column].ty);
                selected += u64::from(eval::holds(&predicate, &row) == Ok(Some(true)));
            }
            assert_eq!(truth, selected as f64 / values.len() as f64, "{sql}");
        }
        for bad in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(
                predicate(&segment, &cache, bad, &|| false),
                Err(SelectivityError::OutOfRange(_))
            ));
        }
        // However far it has come.
        let asked = Cell::new(0);
        let count = || {
            asked.set(asked.get() + 1);
            false
        };
        predicate(&segment, &cache, 0.5, &count).unwrap();
        for at in 1..=asked.get() {
            asked.set(0);
            let stop = || {
                asked.set(asked.get() + 1);
                asked.get() == at
            };
            assert!(matches!(
                predicate(&segment, &cache, 0.5, &stop),
                Err(SelectivityError::Stopped)
            ));
            assert_eq!(asked.get(), at);
        }
    }
}
