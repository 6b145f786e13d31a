//! What random constants are drawn from, read off a segment.

use super::{ColumnSample, Random, Samples};
use crate::pushdown::cache::Cache;
use crate::pushdown::chunk::Chunk;
use crate::pushdown::query::Literal;
use crate::pushdown::schema::ColumnType;
use crate::pushdown::segment::{Segment, SegmentError};

/// Blocks that are looked at.
const BLOCKS: usize = 12;
/// Values that are kept of each.
const VALUES_A_BLOCK: usize = 48;

impl Samples {
    /// Values from random blocks of a segment, and its bounds.
    ///
    /// A segment without rows gives no values, and so no [`super::Generator`].
    ///
    /// # Errors
    /// If the segment cannot be read.
    pub fn of_segment(segment: &Segment, cache: &Cache, seed: u64) -> Result<Self, SegmentError> {
        let mut random = Random::new(seed);
        let groups = segment.groups();
        let columns = segment
            .schema()
            .columns
            .iter()
            .enumerate()
            .map(|(column, meta)| {
                let chunks = groups.iter().map(|group| group.chunks[column]);
                let low = chunks.clone().map(|chunk| chunk.min).min().unwrap_or(0);
                let high = chunks.map(|chunk| chunk.max).max().unwrap_or(0);
                let mut values = Vec::new();
                for _ in 0..if groups.is_empty() { 0 } else { BLOCKS } {
                    let group = random.below(groups.len());
                    let chunk = segment.chunk(group, column, cache)?;
                    let block = random.below(chunk.blocks().len());
                    let decoded = decode(&chunk, block, meta.ty);
                    values.extend((0..VALUES_A_BLOCK).map(|_| random.of(&decoded).clone()));
                }
                Ok(ColumnSample {
                    values,
                    bounds: (low, high),
                })
            });
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
        })
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
