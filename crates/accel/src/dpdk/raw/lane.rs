//! A queue over a queue pair: owns jobs while operations on their items are with the device.
//!
//! A job's items become operations, which travel in bursts; a job is over when all its operations are, in whatever
//! order. The lane holds each job in a place of its own from `submit` to `poll`, takes the address of its output once,
//! and makes no reference to it until the device is done with it. What an item becomes is a [`Recipe`]'s to say, in
//! words that the lane checks: a recipe is safe code, and can make a wrong answer but no wild pointer.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dpb_core::{Batch, Completion, Items, Job, JobError, Limits, OutputShape, Queue};

use super::Memory;
use crate::dpdk::sys::{BURST, Done, Item};

/// How long a device that is being left may do nothing before its buffers are leaked.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 5000 });

/// A queue pair, with its operations.
pub(in crate::dpdk) trait Device {
    /// Whether an operation lies within what the device will read and write of an item and its slot, and is no longer
    /// than its mbufs hold.
    fn admits(&self, operation: &Operation, item_len: usize, slot_len: usize) -> bool;

    /// Gives operations to the device, from the front; says how many it took.
    ///
    /// # Safety
    /// Each is one that `admits` approved. What it points to is valid, and its output nobody else's, until `poll` gives
    /// it back or for ever; its initialisation vector until this returns.
    unsafe fn submit(&mut self, items: &[Item]) -> usize;

    /// Operations that are over, up to as many as there is room for.
    fn poll(&mut self, done: &mut [Done]) -> usize;
}

/// What an operator makes of items and of the device's answers.
pub(in crate::dpdk) trait Recipe {
    /// What is promised.
    fn limits(&self) -> &Limits;
    /// Where outputs go.
    fn shape(&self) -> OutputShape;
    /// What to do for an item, or for the rest of one: `piece` counts the operations that it got already.
    fn step(&self, item: &[u8], slot_len: usize, piece: u32) -> Step<'_>;
    /// What the device's answer means for an item of this length. The slot is empty if an item got several operations.
    fn end(&self, done: &Done, item_len: usize, slot: &mut Slot) -> End;
}

/// What to do for an item.
pub(in crate::dpdk) enum Step<'a> {
    /// Nothing: this is its output, no longer than its slot, or why it is refused.
    Known(Result<&'a [u8], JobError>),
    /// This.
    Run(Operation),
}

/// An operation on an item and its slot. Places are counted from the start of each.
#[derive(Clone, Debug)]
pub(in crate::dpdk) struct Operation {
    /// Of the item: what is read.
    pub(in crate::dpdk) src: Range<usize>,
    /// Of the slot: what may be written.
    pub(in crate::dpdk) dst: Range<usize>,
    /// The initialisation vector; zeros behind it, or all zeros if there is none.
    pub(in crate::dpdk) iv: [u8; 16],
    /// Of the item: where additional data starts.
    pub(in crate::dpdk) aad: usize,
    /// Where the digest is.
    pub(in crate::dpdk) digest: Digest,
    /// What stands in front of the output in the slot.
    pub(in crate::dpdk) head: &'static [u8],
    /// Whether the item needs another operation.
    pub(in crate::dpdk) has_more: bool,
    /// The outcome of variable shape, if all goes well and [`End::AsPlanned`] confirms it.
    pub(in crate::dpdk) planned: u32,
}

/// Where a digest or a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Digest {
    /// There is none.
    Nowhere,
    /// Read, from here on in the item.
    Item(usize),
    /// Written, from here on in the slot.
    Slot(usize),
}

/// What an answer means.
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

/// Where the output of an item goes, while no operation writes there.
pub(in crate::dpdk) struct Slot {
    ptr: *mut u8,
    len: usize,
}

impl Slot {
    /// Bytes that it holds.
    pub(in crate::dpdk) fn len(&self) -> usize {
        self.len
    }

    /// Overwrites all of it with zeros.
    pub(in crate::dpdk) fn wipe(&mut self) {
        // SAFETY: of a job that the lane owns; it makes this for items that have no operation yet, or none any more.
        unsafe { self.ptr.write_bytes(0, self.len) }
    }

    /// Writes `bytes` at `at`; says where they end.
    pub(in crate::dpdk) fn write(&mut self, at: usize, bytes: &[u8]) -> u32 {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len), "within the slot");
        // SAFETY: as in `wipe`, and within it.
        unsafe {
            self.ptr
                .add(at)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        (at + bytes.len()) as u32
    }
}

/// A job and how far it is.
struct Flight {
    job: Job,
    dst: *mut u8,
    slot: usize,
    items: usize,
    /// The next item to stage, and how many operations it got already.
    next: (usize, u32),
    /// Operations that are staged or with the device.
    running: u32,
    /// Whether an item got several operations, so that a slot may still be written to when one of them is over.
    is_split: bool,
    error: Option<JobError>,
}

impl Flight {
    /// Where the output of item `i` goes.
    fn slot(&self, i: usize) -> Slot {
        debug_assert!(i < self.items, "one of its items");
        Slot {
            // SAFETY: slot `i` of as many as `admit` found to fit the output, which is the flight's own.
            ptr: unsafe { self.dst.add(i * self.slot) },
            len: self.slot,
        }
    }
}

/// A queue of the seam.
pub(in crate::dpdk) struct Lane<D: Device, R: Recipe> {
    memory: Arc<Memory>,
    name: String,
    recipe: R,
    device: ManuallyDrop<D>,
    flights: ManuallyDrop<Vec<Option<Flight>>>,
    /// Places in `flights` without a job.
    free: Vec<u32>,
    /// Those with items that are not staged, in the order of their submission.
    waiting: VecDeque<u32>,
    /// Those that are over.
    finished: VecDeque<u32>,
    /// Operations that are made, and of these the range that the device has not taken.
    staged: Vec<Item>,
    ivs: [[u8; 16]; BURST],
    untaken: usize,
    /// Operations with the device.
    flying: usize,
}

impl<D: Device, R: Recipe> Lane<D, R> {
    /// A queue on `device`, named after it, at most `depth` jobs deep, for jobs in this memory.
    pub(in crate::dpdk) fn new(
        memory: Arc<Memory>,
        name: &str,
        recipe: R,
        device: D,
        depth: NonZeroU32,
    ) -> Self {
        let depth = depth.get();
        Self {
            memory,
            name: name.to_owned(),
            recipe,
            device: ManuallyDrop::new(device),
            flights: ManuallyDrop::new((0..depth).map(|_| None).collect()),
            free: (0..depth).rev().collect(),
            waiting: VecDeque::with_capacity(depth as usize),
            finished: VecDeque::with_capacity(depth as usize),
            staged: Vec::with_capacity(BURST),
            ivs: [[0; 16]; BURST],
            untaken: 0,
            flying: 0,
        }
    }

    /// Slots' length and number, for a job that may be carried out. Its outcomes are cleared.
    fn admit(&self, job: &mut Job) -> Result<(usize, usize), JobError> {
        let batch = Batch::new(&job.src, &job.items)?;
        self.recipe.limits().check(batch)?;
        let (items, shape) = (batch.len(), self.recipe.shape());
        if !self.memory.is_home_of(job.src.home()) || !self.memory.is_home_of(job.dst.home()) {
            return Err(JobError::ForeignBuffer);
        }
        let slot = shape.slot(job.dst.len(), items);
        let dst_bytes = slot.checked_mul(items);
        if dst_bytes.is_none_or(|bytes| bytes > job.dst.len()) {
            return Err(JobError::DstTooShort);
        }
        if shape == OutputShape::Variable {
            if job.outcomes.capacity() < items {
                return Err(JobError::BadItems);
            }
            job.outcomes.clear();
        }
        Ok((slot, items))
    }

    /// Takes a job in.
    fn take(&mut self, mut job: Job, place: u32) {
        let admitted = self.admit(&mut job);
        let dst = job.dst.as_mut_ptr();
        let (slot, items) = admitted.unwrap_or_default();
        self.flights[place as usize] = Some(Flight {
            job,
            dst,
            slot,
            items,
            next: (0, 0),
            running: 0,
            is_split: false,
            error: admitted.err(),
        });
        match items {
            0 => self.finished.push_back(place),
            _ => self.waiting.push_back(place),
        }
    }

    /// Makes operations of what waits, up to a burst.
    fn stage(&mut self) {
        self.staged.clear();
        self.untaken = 0;
        let is_variable = self.recipe.shape() == OutputShape::Variable;
        while let Some(&place) = self.waiting.front() {
            let flight = self.flights[place as usize].as_mut().expect("it waits");
            while flight.next.0 < flight.items {
                if self.staged.len() == BURST {
                    return;
                }
                let (i, piece) = flight.next;
                let item = &flight.job.src[range(&flight.job, i)];
                let operation = match self.recipe.step(item, flight.slot, piece) {
                    Step::Run(operation) => operation,
                    Step::Known(outcome) => {
                        let mut slot = flight.slot(i);
                        let outcome = outcome.map(|output| slot.write(0, output));
                        match outcome {
                            outcome if is_variable => flight.job.outcomes.push(outcome),
                            Ok(_) => {}
                            Err(error) => flight.error = flight.error.or(Some(error)),
                        }
                        flight.next = (i + 1, 0);
                        continue;
                    }
                };
                assert!(
                    self.device.admits(&operation, item.len(), flight.slot),
                    "an operation within its item and its slot"
                );
                flight.next = match operation.has_more {
                    true => (i, piece + 1),
                    false => (i + 1, 0),
                };
                flight.is_split |= operation.has_more;
                if is_variable && piece == 0 {
                    flight.job.outcomes.push(Ok(operation.planned));
                }
                flight.running += 1;
                self.ivs[self.staged.len()] = operation.iv;
                let user = u64::from(place) << 32 | i as u64;
                let slot = flight.slot(i).ptr;
                self.staged.push(item_of(&operation, item, slot, user));
            }
            self.waiting.pop_front();
            if flight.running == 0 {
                self.finished.push_back(place);
            }
        }
    }

    /// Gives the device a burst; says how many operations it took.
    fn push(&mut self) -> usize {
        if self.untaken == self.staged.len() {
            self.stage();
        }
        // Their addresses are taken now: this may lie elsewhere than when they were made.
        let ivs = &self.ivs[self.untaken..];
        for (item, iv) in self.staged[self.untaken..].iter_mut().zip(ivs) {
            item.iv = iv.as_ptr();
        }
        let untaken = &self.staged[self.untaken..];
        if untaken.is_empty() {
            return 0;
        }
        // SAFETY: `stage` had each admitted; the jobs that they are of stay in `flights` until `settle` has seen the
        // last of them, or for ever if the lane is dropped before; `ivs` stays until all are taken.
        let taken = unsafe { self.device.submit(untaken) };
        self.untaken += taken;
        self.flying += taken;
        taken
    }

    /// Takes a burst back; says how many operations came.
    fn pull(&mut self) -> usize {
        if self.flying == 0 {
            return 0;
        }
        let mut done = [Done::default(); BURST];
        let came = self.device.poll(&mut done);
        self.flying -= came;
        for done in &done[..came] {
            self.settle(done);
        }
        came
    }

    /// Enters what became of an operation.
    fn settle(&mut self, done: &Done) {
        let (place, i) = ((done.user >> 32) as u32, done.user as u32 as usize);
        let is_variable = self.recipe.shape() == OutputShape::Variable;
        let flight = self.flights[place as usize].as_mut().expect("it flies");
        flight.running -= 1;
        let mut slot = flight.slot(i);
        if flight.is_split {
            slot.len = 0;
        }
        let item_len = range(&flight.job, i).len();
        match self.recipe.end(done, item_len, &mut slot) {
            End::AsPlanned => {}
            End::Output(len) => flight.job.outcomes[i] = Ok(len),
            End::Refused(error) if is_variable => flight.job.outcomes[i] = Err(error),
            // Of a fixed output no item can be refused, whatever a device says.
            End::Refused(error) | End::Failed(error) => {
                flight.error = flight.error.or(Some(error));
            }
        }
        if flight.running == 0 && flight.next.0 == flight.items {
            self.finished.push_back(place);
        }
    }
}

impl<D: Device, R: Recipe> Queue for Lane<D, R> {
    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.free.len());
        for job in ready.drain(..taken) {
            let place = self.free.pop().expect("counted above");
            self.take(job, place);
        }
        while self.push() > 0 {}
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        while self.pull() + self.push() > 0 {}
        let finished = self.finished.len();
        for place in self.finished.drain(..) {
            let flight = self.flights[place as usize].take().expect("it is over");
            self.free.push(place);
            done.push(Completion {
                job: flight.job,
                result: flight.error.map_or(Ok(()), Err),
            });
        }
        finished
    }
}

impl<D: Device, R: Recipe> Drop for Lane<D, R> {
    fn drop(&mut self) {
        let mut heard = Instant::now();
        while self.flying > 0 {
            if self.pull() > 0 {
                heard = Instant::now();
            } else if heard.elapsed() > PATIENCE {
                eprintln!(
                    "dpb: {} does not answer: {} operations are left with it, and the buffers of their jobs leaked",
                    self.name, self.flying
                );
                return;
            } else {
                std::thread::yield_now();
            }
        }
        // SAFETY: neither is used again. The device holds no operation any more, so no address in a job.
        unsafe {
            ManuallyDrop::drop(&mut self.device);
            ManuallyDrop::drop(&mut self.flights);
        }
    }
}

/// Where item `i` of a job lies, which was checked when the job came.
fn range(job: &Job, i: usize) -> Range<usize> {
    match &job.items {
        Items::One => 0..job.src.len(),
        Items::Fixed { len, .. } => i * *len as usize..(i + 1) * *len as usize,
        Items::Offsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
    }
}

/// Addresses for an operation that was admitted, but for that of its initialisation vector.
fn item_of(operation: &Operation, item: &[u8], slot: *mut u8, user: u64) -> Item {
    let Operation { src, dst, head, .. } = operation;
    let text = &item[src.clone()];
    // SAFETY: admitted, so within the slot, which no operation writes to yet.
    unsafe { slot.copy_from_nonoverlapping(head.as_ptr(), head.len()) };
    Item {
        src: text.as_ptr(),
        // SAFETY: within the slot.
        dst: unsafe { slot.add(dst.start) },
        src_len: text.len() as u32,
        dst_len: dst.len() as u32,
        iv: std::ptr::null(),
        aad: item[operation.aad..].as_ptr(),
        digest: match operation.digest {
            Digest::Nowhere => std::ptr::null_mut(),
            Digest::Item(at) => item[at..].as_ptr().cast_mut(),
            // SAFETY: within the slot.
            Digest::Slot(at) => unsafe { slot.add(at) },
        },
        user,
    }
}

#[cfg(test)]
mod tests;
