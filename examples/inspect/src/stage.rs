//! One operator on one backend, with one job that is sent again and again.

use std::collections::VecDeque;
use std::mem::take;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dpb_core::{Backend, Completion, Items, Job, JobError, Memory, Operator, Queue, Span, View};
use dpb_operators::registry;

use crate::BURST;

/// The longest time that a job may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// One operator, and its only job.
pub struct Stage {
    operator: Arc<dyn Operator>,
    queue: Box<dyn Queue>,
    slot_bytes: u32,
    /// At home between two bursts.
    job: Option<Job>,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
}

impl Stage {
    /// The operator `name` with `parameters`, as for `dpb op`, on `backend`; outputs of up to `slot_bytes`.
    ///
    /// # Errors
    /// If there is no such operator, or the backend does not have it.
    pub fn new(
        backend: &dyn Backend,
        name: &str,
        parameters: &str,
        slot_bytes: u32,
    ) -> Result<Self> {
        let entry = registry::find(name).context("no such operator")?;
        let operator = backend
            .prepare(&entry.spec(parameters)?)
            .with_context(|| format!("{name} on {}", backend.name()))?;
        let dst = backend.alloc(BURST * slot_bytes as usize)?;
        let [items, slots] = [0; 2].map(|_| Items::Spans(Vec::with_capacity(BURST)));
        let outcomes = Vec::with_capacity(BURST);
        Ok(Self {
            queue: operator.clone().open(NonZeroU32::MIN)?,
            operator,
            slot_bytes,
            job: Some(Job::with_slots(
                0,
                Memory::Output,
                items,
                dst,
                slots,
                outcomes,
            )),
            ready: VecDeque::with_capacity(1),
            done: Vec::with_capacity(1),
        })
    }

    /// Runs over `items`, which lie in `src`. Sleeps until the job is home.
    ///
    /// # Errors
    /// If the job cannot be carried out, or takes too long: then its memory stays with the device.
    pub fn run(&mut self, src: &View, items: &[Span]) -> Result<()> {
        let mut job = self.job.take().context("an earlier job is lost")?;
        let mut spans = take(&mut job.items).into_spans();
        spans.extend(items);
        job.slots = Items::fixed(self.slot_bytes, items.len() as u32);
        job.items = Items::Spans(spans);
        job.src = src.clone().into();
        self.ready.push_back(job);
        let taken = self.queue.submit(&mut self.ready);
        ensure!(taken == 1, "the queue is empty, and took no job");
        let since = Instant::now();
        while self.queue.poll(&mut self.done) == 0 {
            ensure!(since.elapsed() < PATIENCE, "no answer within {PATIENCE:?}");
            self.queue.wait(PATIENCE);
        }
        let Completion { job, result } = self.done.pop().context("polled")?;
        self.job = Some(job);
        result.with_context(|| self.operator.spec().to_string())
    }

    /// What came of each item of the last burst.
    pub fn outputs(&self) -> impl Iterator<Item = Result<&[u8], JobError>> {
        let job = self.job.as_ref().expect("home again");
        (0..job.items.count()).map(|i| job.output(self.operator.shape(), i))
    }
}
