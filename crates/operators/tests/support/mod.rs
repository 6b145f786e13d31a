//! A kernel of the registry on one batch, each output checked.

use std::fmt::Display;

use dpb_core::{Batch, BatchOut, JobError, OutputShape, Workload};
use dpb_operators::direct::Direct;

/// Bytes of a slot for the batch's longest item; a decoder's input says itself.
pub(crate) fn slot_bytes(kernel: &dyn Direct, batch: Batch<'_>, of_input: Option<usize>) -> usize {
    match kernel.shape() {
        OutputShape::Fixed(bytes) => bytes,
        OutputShape::Variable => of_input.unwrap_or_else(|| kernel.dst_len(batch.longest())),
    }
}

/// Runs the batch into `dst`, which is its slots and nothing more, and has the workload judge each item's output.
///
/// # Panics
/// If one is wrong; `who` says on which path.
pub(crate) fn assert_right(
    workload: &dyn Workload,
    kernel: &mut dyn Direct,
    batch: Batch<'_>,
    dst: &mut [u8],
    who: &dyn Display,
) {
    let shape = kernel.shape();
    let slot = shape.slot(dst.len(), batch.len());
    let mut outcomes: Vec<Result<u32, JobError>> = Vec::with_capacity(batch.len());
    let out = BatchOut {
        dst: &mut *dst,
        slot,
        outcomes: &mut outcomes,
    };
    kernel.run(batch, out).expect("runs");
    for i in 0..batch.len() {
        let len = match shape {
            OutputShape::Fixed(bytes) => Ok(bytes),
            OutputShape::Variable => outcomes[i].map(|len| len as usize),
        };
        let output = len.map(|len| &dst[i * slot..][..len]);
        if let Err(wrong) = workload.check(batch.item(i), output, slot) {
            let len = batch.item(i).len();
            panic!(
                "{:?} on {who}: item {i} of {}, {len} bytes: {wrong}",
                workload.spec(),
                batch.len()
            );
        }
    }
}
