//! From a synchronous [`Kernel`] to an [`Operator`]: [`Inline`] runs it on the caller's core, [`Pooled`] on workers.
//!
//! Both check each job once, in `carry_out`, before and after the kernel sees it; both send it home whatever happens.

mod one_kernel;
mod pool;

pub use one_kernel::OneKernel;
pub use pool::{Pool, Pooled, threads_max};

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Completion, Control, Job, JobError, Kernel, Limits, Memory, NotInPlace, OpSpec, Operator,
    OutputShape, Queue, SetupError,
};

/// A kernel on the caller's own core: `submit` computes, `poll` hands back.
#[derive(Debug)]
pub struct Inline<K> {
    prepared: Arc<Prepared<K>>,
}

impl<K: Kernel> Inline<K> {
    /// Lifts `kernel`, which computes `spec` within `limits`.
    pub fn new(kernel: K, spec: OpSpec, limits: Limits) -> Self {
        Self {
            prepared: Arc::new(Prepared::new(kernel, spec, limits)),
        }
    }
}

impl<K: Kernel> Operator for Inline<K> {
    fn spec(&self) -> &OpSpec {
        &self.prepared.spec
    }

    fn shape(&self) -> OutputShape {
        self.prepared.shape
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.prepared.kernel.dst_len(item_len)
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.prepared.in_place.clone()
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        self.prepared.kernel.control()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let depth = self.prepared.admit(depth)?;
        Ok(Box::new(InlineQueue {
            scratch: Some(self.prepared.kernel.scratch()),
            finished: Vec::with_capacity(depth),
            depth,
            prepared: self.prepared.clone(),
        }))
    }
}

struct InlineQueue<K: Kernel> {
    prepared: Arc<Prepared<K>>,
    /// `None` after a panic, until the next job.
    scratch: Option<K::Scratch>,
    finished: Vec<Completion>,
    depth: usize,
}

impl<K: Kernel> Queue for InlineQueue<K> {
    fn in_flight(&self) -> usize {
        self.finished.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let Self {
            prepared,
            scratch,
            finished,
            depth,
        } = self;
        let before = finished.len();
        let end = before + ready.len().min(*depth - before);
        // Caught once a burst: to catch the panics of each job by itself takes a call more for each.
        while finished.len() < end {
            let _panicked = caught(scratch, |scratch| {
                let mut next = take(ready, finished, end);
                let scratch = scratch.get_or_insert_with(|| prepared.kernel.scratch());
                while let Some(Completion { job, result }) = next {
                    *result = carry_out(prepared, job, scratch);
                    next = take(ready, finished, end);
                }
            });
        }
        end - before
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let finished = self.finished.len();
        let room = self.depth..=self.finished.capacity();
        if done.is_empty() && room.contains(&done.capacity()) {
            // Nothing is copied, and `done` has the room that it had.
            std::mem::swap(done, &mut self.finished);
        } else {
            done.append(&mut self.finished);
        }
        finished
    }

    /// All that is in flight has finished.
    fn wait(&mut self, _: Duration) {}
}

/// Moves the next job to the finished ones, until there are `end` of those. Its result is that of a job whose kernel panics.
#[inline(always)]
fn take<'a>(
    ready: &mut VecDeque<Job>,
    finished: &'a mut Vec<Completion>,
    end: usize,
) -> Option<&'a mut Completion> {
    if finished.len() == end {
        return None;
    }
    let job = ready.pop_front()?;
    finished.push(Completion {
        job,
        result: Err(JobError::Panicked),
    });
    finished.last_mut()
}

/// What both lifts share: the kernel and what is known about it.
#[derive(Debug)]
struct Prepared<K> {
    kernel: K,
    spec: OpSpec,
    limits: Limits,
    shape: OutputShape,
    in_place: Result<usize, NotInPlace>,
}

impl<K: Kernel> Prepared<K> {
    fn new(kernel: K, spec: OpSpec, limits: Limits) -> Self {
        Self {
            spec,
            limits,
            shape: kernel.shape(),
            in_place: kernel.in_place(),
            kernel,
        }
    }

    /// `depth`, unless it is beyond the limit.
    fn admit(&self, depth: NonZeroU32) -> Result<usize, SetupError> {
        if depth > self.limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: self.limits.depth_max.get(),
            });
        }
        Ok(depth.get() as usize)
    }
}

/// Checks one job, runs the kernel on it, and checks what it claims. Panics if the kernel does.
#[inline]
fn carry_out<K: Kernel>(
    prepared: &Prepared<K>,
    job: &mut Job,
    scratch: &mut K::Scratch,
) -> Result<(), JobError> {
    let (shape, limits) = (prepared.shape, &prepared.limits);
    let kernel = &prepared.kernel;
    match job.open_strided(shape, limits) {
        Some((batch, out)) => kernel.run(batch, out, scratch)?,
        None => carry_out_any(prepared, job, scratch)?,
    }
    job.check_outcomes(shape)
}

/// [`carry_out`] but for the check of outcomes, for jobs of any layout.
#[inline(never)]
fn carry_out_any<K: Kernel>(
    prepared: &Prepared<K>,
    job: &mut Job,
    scratch: &mut K::Scratch,
) -> Result<(), JobError> {
    let (shape, limits) = (prepared.shape, &prepared.limits);
    let kernel = &prepared.kernel;
    if let Memory::Output = job.src {
        let Ok(offset) = prepared.in_place else {
            return Err(JobError::NotInPlace);
        };
        let items = job.open_in_place(shape, limits, offset)?;
        return kernel.run_in_place(items, scratch);
    }
    let (batch, out) = job.open(shape, limits)?;
    kernel.run(batch, out, scratch)
}

/// Calls `run`. If that panics, the scratch goes: it is half changed, and the next job builds its own.
#[inline]
fn caught<S, R>(
    scratch: &mut Option<S>,
    run: impl FnOnce(&mut Option<S>) -> R,
) -> Result<R, JobError> {
    catch_unwind(AssertUnwindSafe(|| run(scratch))).map_err(|panic| {
        // Dropping it, or what was thrown, may panic once more.
        let dropped = [
            catch_unwind(AssertUnwindSafe(|| drop(panic))),
            catch_unwind(AssertUnwindSafe(|| *scratch = None)),
        ];
        for thrown in dropped {
            thrown.unwrap_or_else(std::mem::forget);
        }
        JobError::Panicked
    })
}
