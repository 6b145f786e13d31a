//! Items that are records one behind another, each of which makes four bytes.

use crate::{Batch, BatchOut, Items, JobError};

/// Runs `compute`, which makes 4 bytes of each record of so many, on the items: on all together if they are whole records
/// and their slots hold no more than is made, for then both lie without gaps. Items that end inside a record are refused, and those
/// whose slot is too short.
///
/// For a [`Kernel`](crate::Kernel) of variable shape; the items are checked to lie inside their input.
///
/// # Panics
/// If `record_bytes` is 0.
pub fn records(
    batch: Batch<'_>,
    out: BatchOut<'_>,
    record_bytes: usize,
    mut compute: impl FnMut(&[u8], &mut [[u8; 4]]),
) {
    let made = |item_len: usize| item_len / record_bytes * 4;
    if let Items::Fixed { len, count } = *batch.items() {
        let len = len as usize;
        if len.is_multiple_of(record_bytes) && out.slot == made(len) {
            compute(
                &batch.src()[..len * count as usize],
                out.dst.as_chunks_mut().0,
            );
            let outcome = Ok(out.slot as u32);
            out.outcomes.extend((0..count).map(|_| outcome));
            return;
        }
    }
    for i in 0..batch.len() {
        let item = batch.item(i);
        let slot = &mut out.dst[i * out.slot..][..out.slot];
        let outcome = match slot.get_mut(..made(item.len())) {
            _ if !item.len().is_multiple_of(record_bytes) => Err(JobError::Malformed),
            None => Err(JobError::DstTooShort),
            Some(slot) => {
                compute(item, slot.as_chunks_mut().0);
                Ok(slot.len() as u32)
            }
        };
        out.outcomes.push(outcome);
    }
}
