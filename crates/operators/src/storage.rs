//! Operators that stored data needs.

pub mod deflate;
pub mod erasure;
pub mod huffman;
pub mod lz4;
mod prefix_code;
pub mod snappy;
mod streams;

use dpb_core::{Batch, BatchOut, JobError};

/// Runs `code` on each item and its slot, and notes each outcome.
fn each(
    batch: Batch<'_>,
    out: BatchOut<'_>,
    mut code: impl FnMut(&[u8], &mut [u8]) -> Result<usize, JobError>,
) {
    out.each_outcome(batch, |item, slot| {
        // A slot longer than 4 GiB can hold more than an outcome can say; nothing here makes one.
        code(item, slot).and_then(|len| u32::try_from(len).map_err(|_| JobError::TooLong))
    });
}

/// A slot that fills from the front; each format adds its own ways to write.
struct Out<'a> {
    slot: &'a mut [u8],
    len: usize,
}

impl<'a> Out<'a> {
    fn new(slot: &'a mut [u8]) -> Self {
        Self { slot, len: 0 }
    }

    /// Appends `bytes`, all of them or none.
    fn push(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        let room = self.slot[self.len..].get_mut(..bytes.len());
        room.ok_or(JobError::DstTooShort)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }
}
