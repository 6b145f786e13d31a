//! A queue over a queue pair: owns jobs while operations on their items are with the device.
//!
//! A job's items become operations, which travel in bursts; a job is over when all its operations are, in whatever
//! order. The lane holds each job in a place of its own from `submit` to `poll`, takes the addresses of its slots,
//! and makes no reference to them until the device is done with it. What an item becomes is a [`Recipe`]'s to say, in
//! words that the lane checks: a recipe is safe code, and can make a wrong answer but no wild pointer.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{
    Clock, Completion, Items, Job, JobError, Limits, NotInPlace, OutputShape, Place, Queue, Region,
    Span,
};

use super::Memory;
use crate::dpdk::sys::{BURST, Done, Run};

/// How long a device that is being left may do nothing before its buffers are leaked.
const PATIENCE: Duration = Duration::from_secs(5);

/// A queue pair, with its operations.
pub(in crate::dpdk) trait Device {
    /// Whether an operation, with all places that it names, lies within what the device will read and write of an item
    /// and its slot, and is no longer than its mbufs hold.
    fn admits(&self, operation: &Operation, item_len: usize, slot_len: usize) -> bool;

    /// Gives operations to the device, from the front; says how many it took.
    ///
    /// # Safety
    /// Each is as one that `admits` approved. What it points to is valid, and its output nobody else's, until `poll` gives
    /// it back or for ever; its initialisation vector until this returns.
    unsafe fn submit(&mut self, runs: &[Run]) -> usize;

    /// Operations that are over, up to as many as there is room for; says how much of the room tells of them.
    fn poll(&mut self, done: &mut [Done]) -> usize;
}

/// An operator's part in a lane: the operations for an item, and the meaning of the device's answers.
pub(in crate::dpdk) trait Recipe {
    /// The limits that are promised.
    fn limits(&self) -> &Limits;
    /// Where outputs go.
    fn shape(&self) -> OutputShape;
    /// See [`Operator::in_place`](dpb_core::Operator::in_place).
    ///
    /// # Errors
    /// Why it does not work so.
    fn in_place(&self) -> Result<usize, NotInPlace> {
        Err(self.shape().not_in_place())
    }
    /// The next step for an item: `piece` counts the operations that the item got already.
    fn step(&self, item: &[u8], slot_len: usize, piece: u32) -> Step<'_>;
    /// Whether the device's answer means [`End::AsPlanned`] for each item that it tells of, without a look at any.
    fn is_as_planned(&self, _done: &Done) -> bool {
        false
    }
    /// The meaning of the device's answer for an item.
    fn end(&self, done: &Done, over: Over<'_>) -> End;
}

/// The next step for an item.
pub(in crate::dpdk) enum Step<'a> {
    /// Nothing: this is its output, no longer than its slot, or why it is refused.
    Known(Result<&'a [u8], JobError>),
    /// This.
    Run(Operation),
}

/// An operation on an item and its slot. Places are counted from the start of each.
#[derive(Clone, Debug)]
pub(in crate::dpdk) struct Operation {
    /// The bytes of the item that are read.
    pub(in crate::dpdk) src: Range<usize>,
    /// The bytes of the slot that may be written.
    pub(in crate::dpdk) dst: Range<usize>,
    /// The initialisation vector.
    pub(in crate::dpdk) iv: Iv,
    /// Where additional data starts in the item.
    pub(in crate::dpdk) aad: usize,
    /// Where the digest is.
    pub(in crate::dpdk) digest: Digest,
    /// The bytes in front of the output in the slot.
    pub(in crate::dpdk) head: &'static [u8],
    /// Whether the item needs another operation.
    pub(in crate::dpdk) has_more: bool,
    /// Whether every item of this length gets the same, so that one look at many is enough.
    pub(in crate::dpdk) is_alike: bool,
    /// The outcome of variable shape, if all goes well and [`End::AsPlanned`] confirms it.
    pub(in crate::dpdk) planned: u32,
}

/// Where an initialisation vector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Iv {
    /// From here on in the item, or nowhere if the device wants none.
    Item(usize),
    /// Here, with anything behind it.
    Here([u8; 16]),
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

/// Where the output of an item goes, while no operation writes there.
pub(in crate::dpdk) struct Slot<'a> {
    ptr: *mut u8,
    len: usize,
    job: PhantomData<&'a mut Job>,
}

impl Slot<'_> {
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
    fn slot(&self, i: usize) -> Slot<'_> {
        let Place { buf, start, len } = self.job.slots.place(i, &self.job.dst);
        let dst = self.job.dst[buf].as_non_null();
        Slot {
            // SAFETY: `admit` found that each slot lies inside its buffer, which is the flight's own.
            ptr: unsafe { dst.add(start) }.as_ptr(),
            len,
            job: PhantomData,
        }
    }

    /// Where item `i` lies, which was checked when the job came.
    fn place(&self, i: usize) -> Place {
        self.job.items.place(i, self.job.input())
    }

    /// The first byte of item `i`, and its length. In place its buffer is written to while operations on its neighbours run.
    fn item_at(&self, i: usize) -> (NonNull<u8>, usize) {
        let Place { buf, start, len } = self.place(i);
        let src = self.job.input()[buf].as_non_null();
        // SAFETY: `admit` found that each item lies inside its buffer, which is the flight's own or shared.
        (unsafe { src.add(start) }, len)
    }

    /// Item `i`.
    ///
    /// # Safety
    /// No operation that may write to it is with the device.
    unsafe fn item(&self, i: usize) -> &[u8] {
        let (first, len) = self.item_at(i);
        // SAFETY: initialised bytes of a buffer that the flight holds; as the caller says, nobody writes to them.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
    }

    /// How many items from `i` on, up to `most`, are as long as it is and lie at equal distances in its buffer, and whose slots
    /// do; and both distances.
    fn alike(&self, i: usize, most: usize) -> (usize, Steps) {
        let most = most.min(self.items - i);
        let (count, item) = alike(&self.job.items, i, most);
        let (count, slot) = match count {
            1 => (1, 0),
            count => alike(&self.job.slots, i, count),
        };
        (count, Steps { item, slot })
    }
}

/// How many of `items` from `i` on, up to `most`, are as long as it is and lie at equal distances in its buffer; and the distance.
#[inline(always)]
fn alike(items: &Items, i: usize, most: usize) -> (usize, usize) {
    match items {
        Items::One => (1, 0),
        Items::Strided(stride) => (most, stride.step as usize),
        Items::Offsets(offsets) => {
            let len = offsets[i + 1] - offsets[i];
            let items = offsets[i..=i + most].windows(2);
            let count = items.take_while(|item| item[1] - item[0] == len).count();
            (count, len as usize)
        }
        Items::Spans(spans) => {
            let spans = &spans[i..][..most];
            let distance = |pair: &[Span]| {
                let is_alike = (pair[0].buf, pair[0].len) == (pair[1].buf, pair[1].len);
                pair[1]
                    .start
                    .checked_sub(pair[0].start)
                    .filter(|_| is_alike)
            };
            let Some(step) = spans.get(..2).and_then(distance) else {
                return (1, 0);
            };
            let pairs = spans.windows(2);
            let count = pairs
                .take_while(|pair| distance(pair) == Some(step))
                .count();
            (1 + count, step as usize)
        }
    }
}

/// Bytes from one item of a run to the next, and from one slot to the next.
#[derive(Clone, Copy, Default)]
struct Steps {
    item: usize,
    slot: usize,
}

/// An item whose operation is over.
pub(in crate::dpdk) struct Over<'a> {
    flight: &'a Flight,
    i: usize,
}

impl Over<'_> {
    /// Bytes of the item.
    pub(in crate::dpdk) fn item_len(&self) -> usize {
        self.flight.place(self.i).len
    }

    /// Where its output is; empty if it got several operations, of which another may still run.
    pub(in crate::dpdk) fn slot(&mut self) -> Slot<'_> {
        let mut slot = self.flight.slot(self.i);
        if self.flight.is_split {
            slot.len = 0;
        }
        slot
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
    /// Jobs with items that are not staged, in the order of their submission.
    waiting: VecDeque<u32>,
    /// Jobs that are over.
    finished: VecDeque<u32>,
    /// Operations that are made, up to a burst.
    staged: Vec<Run>,
    /// The runs that are one operation with a vector of its own, each with its vector.
    ivs: Vec<(usize, [u8; 16])>,
    /// The first run that the device has not taken, or not all of it.
    untaken: usize,
    /// Operations with the device.
    flying: usize,
    /// Room for what comes back.
    done: [Done; BURST],
    /// By which its patience with the device is counted.
    clock: Arc<dyn Clock>,
}

impl<D: Device, R: Recipe> Lane<D, R> {
    /// A queue on `device`, named after it, at most `depth` jobs deep, for jobs in this memory.
    pub(in crate::dpdk) fn new(
        memory: Arc<Memory>,
        name: &str,
        recipe: R,
        device: D,
        depth: NonZeroU32,
        clock: Arc<dyn Clock>,
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
            ivs: Vec::with_capacity(BURST),
            untaken: 0,
            flying: 0,
            done: [Done::default(); BURST],
            clock,
        }
    }

    /// How many items a job has that may be carried out. Its outcomes are cleared.
    fn admit(&self, job: &mut Job) -> Result<usize, JobError> {
        let (shape, limits) = (self.recipe.shape(), self.recipe.limits());
        let items = match job.src {
            dpb_core::Memory::Output => {
                let offset = self.recipe.in_place();
                let offset = offset.map_err(|_| JobError::NotInPlace)?;
                job.admit_in_place(shape, limits, offset)?
            }
            _ => job.admit(shape, limits)?,
        };
        let is_mine = |region: &dyn Region| self.memory.is_home_of(region);
        let is_reached = job.all_regions(is_mine);
        is_reached.then_some(items).ok_or(JobError::ForeignBuffer)
    }

    /// Takes a job in.
    fn take(&mut self, mut job: Job, place: u32) {
        let admitted = self.admit(&mut job);
        let items = admitted.unwrap_or_default();
        self.flights[place as usize] = Some(Flight {
            job,
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
        let mut burst = Burst {
            runs: &mut self.staged,
            ivs: &mut self.ivs,
            room: BURST,
        };
        burst.runs.clear();
        burst.ivs.clear();
        self.untaken = 0;
        while let Some(&place) = self.waiting.front() {
            let flight = self.flights[place as usize].as_mut().expect("it waits");
            if !burst.take(flight, place, &self.recipe, &*self.device) {
                return;
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
            if self.waiting.is_empty() {
                return 0;
            }
            self.stage();
        }
        // Their addresses are taken now, when none is written any more.
        for (i, iv) in &self.ivs {
            self.staged[*i].iv = iv.as_ptr();
        }
        let untaken = &self.staged[self.untaken..];
        if untaken.is_empty() {
            return 0;
        }
        // SAFETY: `stage` had each admitted; the jobs that they are of stay in `flights` until `settle` has seen the
        // last of them, or for ever if the lane is dropped before; `ivs` stays until all are taken.
        let taken = unsafe { self.device.submit(untaken) };
        self.flying += taken;
        let mut left = taken;
        while left > 0 {
            let run = &mut self.staged[self.untaken];
            if left < run.n as usize {
                skip(run, left);
                break;
            }
            left -= run.n as usize;
            self.untaken += 1;
        }
        taken
    }

    /// Takes a burst back; says how much came.
    fn pull(&mut self) -> usize {
        if self.flying == 0 {
            return 0;
        }
        let came = self.device.poll(&mut self.done);
        for i in 0..came {
            self.settle(i);
        }
        came
    }

    /// Enters what became of the operations that `done[i]` tells of.
    fn settle(&mut self, i: usize) {
        let Self { recipe, done, .. } = self;
        let done = &done[i];
        let (place, first) = ((done.user >> 32) as u32, done.user as u32 as usize);
        let is_variable = recipe.shape() == OutputShape::Variable;
        let flight = self.flights[place as usize].as_mut().expect("it flies");
        let untold = match recipe.is_as_planned(done) {
            true => 0,
            false => done.n as usize,
        };
        for i in first..first + untold {
            match recipe.end(done, Over { flight, i }) {
                End::AsPlanned => {}
                End::Output(len) => flight.job.outcomes[i] = Ok(len),
                End::Refused(error) if is_variable => flight.job.outcomes[i] = Err(error),
                // Of a fixed output no item can be refused, whatever a device says.
                End::Refused(error) | End::Failed(error) => {
                    flight.error = flight.error.or(Some(error));
                }
            }
        }
        self.flying -= done.n as usize;
        flight.running -= done.n;
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
        let mut silence = Silence::default();
        while self.flying > 0 {
            if self.pull() > 0 {
                silence.end();
            } else if silence.lasts(&*self.clock) > PATIENCE {
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

/// A burst that is being made.
struct Burst<'a> {
    runs: &'a mut Vec<Run>,
    ivs: &'a mut Vec<(usize, [u8; 16])>,
    /// How many operations may join it.
    room: usize,
}

impl Burst<'_> {
    /// Makes operations of a job's items; says whether of all of them, or the burst is full.
    fn take<D: Device, R: Recipe>(
        &mut self,
        flight: &mut Flight,
        place: u32,
        recipe: &R,
        device: &D,
    ) -> bool {
        let is_variable = recipe.shape() == OutputShape::Variable;
        while flight.next.0 < flight.items {
            if self.room == 0 {
                return false;
            }
            let (i, piece) = flight.next;
            // SAFETY: the item has no operation yet, or one that is staged in this burst and not submitted.
            let item = unsafe { flight.item(i) };
            let slot = flight.slot(i);
            // Looked at where it lies: to move what was just written in parts waits for all that came before.
            let step = recipe.step(item, slot.len, piece);
            let operation = match &step {
                Step::Run(operation) => operation,
                &Step::Known(outcome) => {
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
                device.admits(operation, item.len(), slot.len),
                "an operation within its item and its slot"
            );
            // Both operations of an item are in one burst: while the device has the first one, which in place writes to the item,
            // no reference to the item may be made.
            assert!(
                piece == 0 || !operation.has_more,
                "at most two operations for an item"
            );
            if operation.has_more && self.room == 1 {
                return false;
            }
            // Of a vector of its own, or of several operations, there is one.
            let is_whole = piece == 0 && !operation.has_more && matches!(operation.iv, Iv::Item(_));
            let (alike, steps) = match operation.is_alike && is_whole {
                true => flight.alike(i, self.room),
                false => (1, Steps::default()),
            };
            let at = At {
                item: item.as_ptr(),
                slot: slot.ptr,
                steps,
                user: u64::from(place) << 32 | i as u64,
                n: alike,
            };
            if !operation.head.is_empty() {
                for i in i..i + alike {
                    flight.slot(i).write(0, operation.head);
                }
            }
            flight.next = match operation.has_more {
                true => (i, piece + 1),
                false => (i + alike, 0),
            };
            flight.is_split |= operation.has_more;
            if is_variable && piece == 0 {
                let planned = std::iter::repeat_n(Ok(operation.planned), alike);
                flight.job.outcomes.extend(planned);
            }
            flight.running += alike as u32;
            self.room -= alike;
            if let Iv::Here(iv) = operation.iv {
                self.ivs.push((self.runs.len(), iv));
            }
            self.runs.push(run(operation, at));
        }
        true
    }
}

/// Items and their slots, for a run.
struct At {
    /// The first byte of the first item; and of its slot.
    item: *const u8,
    slot: *mut u8,
    steps: Steps,
    /// The job's place, and the first item.
    user: u64,
    /// How many.
    n: usize,
}

/// Addresses for an operation that was admitted for the first of these items, which are alike; an initialisation vector of its own is
/// to be filled in.
#[inline(always)]
fn run(operation: &Operation, at: At) -> Run {
    let Operation { src, dst, .. } = operation;
    let At {
        item, slot, steps, ..
    } = at;
    // SAFETY: all places were admitted, so they lie in the item or in the slot, or at the end of it.
    unsafe {
        let (digest, digest_step) = match operation.digest {
            Digest::Nowhere => (std::ptr::null_mut(), 0),
            Digest::Item(at) => (item.add(at).cast_mut(), steps.item),
            Digest::Slot(at) => (slot.add(at), steps.slot),
        };
        Run {
            src: item.add(src.start),
            dst: slot.add(dst.start),
            iv: match operation.iv {
                Iv::Item(at) => item.add(at),
                Iv::Here(_) => std::ptr::null(),
            },
            aad: item.add(operation.aad),
            digest,
            user: at.user,
            item_step: steps.item as u64,
            slot_step: steps.slot as u64,
            digest_step: digest_step as u64,
            src_len: src.len() as u32,
            dst_len: dst.len() as u32,
            n: at.n as u32,
            unused: 0,
        }
    }
}

/// Leaves out the first operations of a run that has more.
fn skip(run: &mut Run, n: usize) {
    let item = n * run.item_step as usize;
    // Of addresses that are none, and are not looked at, this makes others.
    run.src = run.src.wrapping_add(item);
    run.iv = run.iv.wrapping_add(item);
    run.aad = run.aad.wrapping_add(item);
    run.dst = run.dst.wrapping_add(n * run.slot_step as usize);
    run.digest = run.digest.wrapping_add(n * run.digest_step as usize);
    run.user += n as u64;
    run.n -= n as u32;
}

#[cfg(test)]
mod tests;
