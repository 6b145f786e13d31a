//! Words between operators and devices: operations on items, in places that are counted from the start of each. What an item becomes is
//! a [`Recipe`]'s to say, in words that the queue checks: a recipe is safe code, and can make a wrong answer but no wild pointer.
#![allow(unsafe_code)]

use std::ops::Range;

use dpb_core::{JobError, Limits, NotInPlace, OutputShape};

use super::cipher::SessionRef;
use super::flight::Over;
use crate::dpdk::sys::{Done, Run};

/// A queue pair, with its operations.
pub(in crate::dpdk) trait Device {
    /// Whether an operation, with all places that it names, lies within what the device will read and write of an item
    /// and its slot, and is no longer than its mbufs hold.
    fn admits(&self, operation: &Operation<'_>, item_len: usize, slot_len: usize) -> bool;

    /// Gives operations to the device, from the front; says how many it took.
    ///
    /// # Safety
    /// Each is as one that `admits` approved. What it points to is valid, and its output nobody else's, until `poll` gives
    /// it back or for ever; its initialisation vector until this returns.
    unsafe fn submit(&mut self, runs: &[Run]) -> usize;

    /// Operations that are over, up to as many as there is room for; says how much of the room tells of them.
    fn poll(&mut self, done: &mut [Done]) -> usize;
}

/// An operator's part in a queue: the operations for an item, and the meaning of the device's answers.
pub(in crate::dpdk) trait Recipe {
    /// The version of the operator's table that a job is carried out with; `()` of an operator that has no table.
    type Version;
    /// The version for a job that is submitted now. Neither waits nor allocates; nor does dropping it, when the job is over.
    fn version(&mut self) -> Self::Version;
    /// The limits that are promised.
    fn limits(&self) -> &Limits;
    /// The shape of outputs.
    fn shape(&self) -> OutputShape;
    /// See [`Operator::in_place`](dpb_core::Operator::in_place).
    ///
    /// # Errors
    /// Why it does not work so.
    fn in_place(&self) -> Result<usize, NotInPlace> {
        Err(self.shape().not_in_place())
    }
    /// The next step for an item: `piece` counts the operations that the item got already.
    fn step<'a>(
        &'a self,
        version: &'a Self::Version,
        item: &[u8],
        slot_len: usize,
        piece: u32,
    ) -> Step<'a>;
    /// Whether the device's answer means [`End::AsPlanned`] for each item that it tells of, without a look at any.
    fn is_as_planned(&self, _done: &Done) -> bool {
        false
    }
    /// The meaning of the device's answer for an item.
    fn end(&self, done: &Done, over: Over<'_>) -> End;
}

/// The next step for an item.
pub(in crate::dpdk) enum Step<'a> {
    /// No operation: this is its output, no longer than its slot, or why it is refused.
    Known(Result<&'a [u8], JobError>),
    /// An operation.
    Run(Operation<'a>),
}

/// An operation on an item and its slot. Places are counted from the start of each.
#[derive(Clone, Debug)]
pub(in crate::dpdk) struct Operation<'a> {
    /// The bytes of the item that are read.
    pub(in crate::dpdk) src: Range<usize>,
    /// The bytes of the slot that may be written.
    pub(in crate::dpdk) dst: Range<usize>,
    /// The initialisation vector.
    pub(in crate::dpdk) iv: Iv,
    /// The place of additional data in the item.
    pub(in crate::dpdk) aad: usize,
    /// The place of the digest.
    pub(in crate::dpdk) digest: Digest,
    /// The session, of a queue that is not bound to one.
    pub(in crate::dpdk) session: Option<SessionRef<'a>>,
    /// The bytes in front of the output in the slot.
    pub(in crate::dpdk) head: &'static [u8],
    /// Whether the item needs another operation.
    pub(in crate::dpdk) has_more: bool,
    /// Whether every item of this length gets the same, so that one look at many is enough.
    pub(in crate::dpdk) is_alike: bool,
    /// The outcome of variable shape, if all goes well and [`End::AsPlanned`] confirms it.
    pub(in crate::dpdk) planned: u32,
}

/// The place of an initialisation vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Iv {
    /// In the item, from this place on; nowhere if the device wants none.
    Item(usize),
    /// These bytes, with anything behind the vector.
    Here([u8; 16]),
}

/// The place of a digest or a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Digest {
    /// There is none.
    Nowhere,
    /// Read, from here on in the item.
    Item(usize),
    /// Written, from here on in the slot.
    Slot(usize),
}

/// The meaning of an answer.
pub(in crate::dpdk) enum End {
    /// The item's outcome is what was planned.
    AsPlanned,
    /// The item's output has this length.
    Output(u32),
    /// The item is refused.
    Refused(JobError),
    /// The job has failed.
    Failed(JobError),
}
