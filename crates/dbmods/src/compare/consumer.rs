//! Rows that come back: counted, digested or kept.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;

use super::error::SchemeError;
use crate::compare::digest::Digest;

/// Most memory for rows that are kept to be compared: a result that is longer is not one that a person reads.
pub const KEPT_BYTES_MAX: u64 = 1 << 30;

/// The use that is made of the rows that come back.
#[derive(Debug)]
pub enum Consumer {
    /// They are counted.
    Count,
    /// They are digested.
    Digest(Digest),
    /// They are kept.
    Keep(Kept),
}

/// Rows that are kept, in bounded memory.
#[derive(Debug)]
pub struct Kept {
    /// The rows.
    pub batches: Vec<RecordBatch>,
    bytes_left: u64,
    bytes_max: u64,
}

impl Kept {
    /// Nothing yet, in so much memory at most.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            batches: Vec::new(),
            bytes_left: bytes_max,
            bytes_max,
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<(), SchemeError> {
        let left = self.bytes_left.checked_sub(held_bytes(batch));
        self.bytes_left = left.ok_or(SchemeError::TooMuchToKeep(self.bytes_max))?;
        self.batches.push(batch.clone());
        Ok(())
    }
}

/// Memory that a batch keeps: whole allocations, however little of them is its own, and each once.
fn held_bytes(batch: &RecordBatch) -> u64 {
    let mut held = BTreeMap::new();
    for column in batch.columns() {
        let data = column.to_data();
        let validity = data.nulls().map(|nulls| nulls.buffer());
        for buffer in data.buffers().iter().chain(validity) {
            held.insert(buffer.data_ptr(), buffer.capacity() as u64);
        }
    }
    held.values().sum()
}

impl Consumer {
    /// Keeps rows, in [`KEPT_BYTES_MAX`].
    pub fn keep() -> Self {
        Self::Keep(Kept::new(KEPT_BYTES_MAX))
    }

    pub(super) fn take(&mut self, batch: &RecordBatch) -> Result<(), SchemeError> {
        match self {
            Self::Count => Ok(()),
            Self::Digest(digest) => Ok(digest.update(batch)?),
            Self::Keep(kept) => kept.take(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn rows_are_kept_in_bounded_memory_that_is_counted_whole() {
        let column: arrow_array::ArrayRef =
            Arc::new(arrow_array::Int64Array::from_iter_values(0..1024));
        let whole = RecordBatch::try_from_iter([("a", column.clone()), ("b", column)]).unwrap();
        // Two columns share their memory, and a slice holds all of it.
        assert_eq!(held_bytes(&whole), 8192);
        assert_eq!(held_bytes(&whole.slice(3, 1)), 8192);
        let mut consumer = Consumer::Keep(Kept::new(3 * 8192));
        for _ in 0..3 {
            consumer.take(&whole.slice(5, 1)).unwrap();
        }
        let full = consumer.take(&whole.slice(5, 1));
        assert!(
            matches!(full, Err(SchemeError::TooMuchToKeep(_))),
            "{full:?}"
        );
    }
}
