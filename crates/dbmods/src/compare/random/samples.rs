//! What random constants are drawn from, read off a segment.

use super::{Random, Samples};
use crate::query::Literal;
use crate::schema::ColumnType;
use crate::table::cache::Cache;
use crate::table::chunk::Chunk;
use crate::table::segment::{Segment, SegmentError};

/// Blocks that are looked at.
const BLOCKS: usize = 12;
/// Rows that are kept of each.
const ROWS_A_BLOCK: usize = 48;

impl Samples {
    /// Rows from random blocks of a segment, and its bounds. A segment without rows gives none, and so no
    /// [`super::Generator`].
    ///
    /// # Errors
    /// If the segment cannot be read.
    pub fn of_segment(segment: &Segment, cache: &Cache, seed: u64) -> Result<Self, SegmentError> {
        let mut random = Random::new(seed);
        let (schema, groups) = (segment.schema(), segment.groups());
        let bounds = (0..schema.columns.len()).map(|column| {
            let chunks = groups.iter().map(|group| group.chunks[column]);
            let low = chunks.clone().map(|chunk| chunk.min).min().unwrap_or(0);
            (low, chunks.map(|chunk| chunk.max).max().unwrap_or(0))
        });
        let bounds = bounds.collect();
        let mut rows = Vec::new();
        for _ in 0..if groups.is_empty() { 0 } else { BLOCKS } {
            let group = random.below(groups.len());
            let block = random.below(segment.chunk(group, 0, cache)?.blocks().len());
            let mut columns = Vec::new();
            for (column, meta) in schema.columns.iter().enumerate() {
                columns.push(decode(
                    &*segment.chunk(group, column, cache)?,
                    block,
                    meta.ty,
                ));
            }
            rows.extend((0..ROWS_A_BLOCK).map(|_| {
                let row = random.below(columns[0].len());
                columns.iter().map(|column| column[row].clone()).collect()
            }));
        }
        Ok(Self { rows, bounds })
    }
}

/// A block's values.
fn decode(chunk: &Chunk, block: usize, ty: ColumnType) -> Vec<Literal> {
    if ty == ColumnType::Text {
        let mut texts = Vec::new();
        chunk.decode_texts(block, |text| texts.push(Literal::Text(text.to_owned())));
        return texts;
    }
    let mut numbers = Vec::new();
    chunk.decode_numbers(block, &mut numbers);
    (numbers.into_iter())
        .map(|number| Literal::of_stored(number, ty))
        .collect()
}
