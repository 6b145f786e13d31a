//! A queue over a queue pair: owns jobs while operations on their items are with the device.
//!
//! A job's items become operations, which travel in bursts; a job is over when all its operations are, in whatever
//! order. The queue holds each job in a place of its own from `submit` to `poll`, takes the addresses of its slots,
//! and makes no reference to them until the device is done with it. With the job it holds the version of the operator's table that the
//! job is carried out with, so that a session lasts as long as an operation that has it.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{Clock, Completion, Job, JobError, OutputShape, Queue, Region};

use super::Memory;
use super::burst::{Burst, skip};
use super::flight::{Flight, Over};
use super::operation::{Device, End, Recipe};
use crate::dpdk::sys::{BURST, Done, Run};

/// The time that a device that is being left may do nothing before its buffers are leaked.
const PATIENCE: Duration = Duration::from_secs(5);

/// A place for a job, with the version of the operator's table that the job is carried out with.
type FlightPlace<R> = Option<(Flight, <R as Recipe>::Version)>;

/// A queue of the seam.
pub(in crate::dpdk) struct OperationQueue<D: Device, R: Recipe> {
    memory: Arc<Memory>,
    name: String,
    recipe: R,
    device: ManuallyDrop<D>,
    flights: ManuallyDrop<Vec<FlightPlace<R>>>,
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
    /// The clock by which its patience with the device is counted.
    clock: Arc<dyn Clock>,
}

impl<D: Device, R: Recipe> OperationQueue<D, R> {
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

    /// The number of items of a job that may be carried out. Its outcomes are cleared.
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
        let flight = Flight::new(job, admitted);
        let items = flight.items;
        self.flights[place as usize] = Some((flight, self.recipe.version()));
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
            let (flight, version) = self.flights[place as usize].as_mut().expect("it waits");
            if !burst.take(flight, version, place, &self.recipe, &*self.device) {
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
        // last of them, or for ever if the queue is dropped before; `ivs` stays until all are taken.
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
        let (flight, _) = self.flights[place as usize].as_mut().expect("it flies");
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

impl<D: Device, R: Recipe> Queue for OperationQueue<D, R> {
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
            let (flight, _) = self.flights[place as usize].take().expect("it is over");
            self.free.push(place);
            done.push(Completion {
                job: flight.job,
                result: flight.error.map_or(Ok(()), Err),
            });
        }
        finished
    }
}

impl<D: Device, R: Recipe> Drop for OperationQueue<D, R> {
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

#[cfg(test)]
mod tests;
