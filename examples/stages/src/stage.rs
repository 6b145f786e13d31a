//! One operator on one backend, with one job.

use std::collections::VecDeque;
use std::mem::{replace, take};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use dpb_core::{
    Backend, Buf, Buffers, Completion, Items, Job, JobError, Memory, Operator, Queue, Workload,
};
use dpb_operators::registry;

use crate::{BURST, span};

/// The longest time that a job may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// An operator that the program uses.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Its name, as `dpb list operators` has it.
    pub name: &'static str,
    /// Its parameters, as for `dpb op`.
    pub parameters: &'static str,
    /// Bytes of each output; none where packets are changed in place.
    pub output_bytes: u32,
}

/// One operator, and its only job, which is sent again and again.
pub struct Stage {
    of: Use,
    operator: Arc<dyn Operator>,
    queue: Box<dyn Queue>,
    oracle: Box<dyn Workload>,
    is_checked: bool,
    /// At home between two bursts.
    job: Option<Job>,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
}

impl Stage {
    /// The operator on `backend`.
    ///
    /// # Errors
    /// If there is no such operator, or the backend does not have it.
    pub fn new(backend: &dyn Backend, of: Use) -> Result<Self> {
        let entry = registry::find(of.name).context("no such operator")?;
        let spec = entry.spec(of.parameters)?;
        let operator = backend.prepare(&spec)?;
        let queue = operator.clone().open(NonZeroU32::MIN)?;
        let dst = backend.alloc(BURST * of.output_bytes as usize)?;
        let [items, slots] = [0; 2].map(|_| Items::Spans(Vec::with_capacity(BURST)));
        let outcomes = Vec::with_capacity(BURST);
        let job = Job::with_slots(0, Memory::Output, items, dst, slots, outcomes);
        Ok(Self {
            of,
            queue,
            oracle: entry.workload(&spec)?,
            is_checked: false,
            job: Some(job),
            operator,
            ready: VecDeque::with_capacity(1),
            done: Vec::with_capacity(1),
        })
    }

    /// What the operator computes, to call the same kernel by hand.
    pub fn operator(&self) -> &dyn Operator {
        &*self.operator
    }

    /// Has the operator's oracle judge every output from now on, or not.
    pub fn check(&mut self, is_on: bool) {
        self.is_checked = is_on;
    }

    /// The outputs of the last burst, one behind another.
    pub fn outputs(&self) -> &[u8] {
        let job = self.job.as_ref().expect("at home");
        &job.dst[0][..job.items.count() * self.of.output_bytes as usize]
    }

    /// Reads a part of each of the packets `which`, where it lies.
    ///
    /// # Errors
    /// If the job cannot be carried out, or an item is refused or, where that is checked, wrong.
    pub fn reads(
        &mut self,
        packets: &mut Vec<Buf>,
        which: impl ExactSizeIterator<Item = u32>,
        part: impl Fn(&Buf) -> Range<usize>,
    ) -> Result<()> {
        let mut job = self.job.take().expect("at home");
        job.slots = Items::fixed(self.of.output_bytes, which.len() as u32);
        let mut items = take(&mut job.items).into_spans();
        items.extend(which.map(|i| span(i, part(&packets[i as usize]))));
        job.items = Items::Spans(items);
        job.src = Memory::from(take(packets));
        let (mut job, result) = self.send(job)?;
        if let Memory::Own(Buffers::Many(read)) = replace(&mut job.src, Memory::Output) {
            *packets = read;
        }
        self.job = Some(job);
        result.context(self.of.name)?;
        let job = self.job.as_ref().expect("home again");
        for (i, outcome) in job.outcomes.iter().enumerate() {
            outcome.with_context(|| format!("{}: item {i}", self.of.name))?;
        }
        if self.is_checked {
            for i in 0..job.items.count() {
                let item = job.items.place(i, packets).bytes(packets);
                let output = job.output(self.operator.shape(), i);
                self.judge(item, output, self.of.output_bytes as usize)?;
            }
        }
        Ok(())
    }

    /// Writes over a part of each of the packets `which`. The output may fill all that is behind the part.
    ///
    /// # Errors
    /// As [`Stage::reads`]; if the operator does not work in place here.
    pub fn changes(
        &mut self,
        packets: &mut Vec<Buf>,
        which: impl ExactSizeIterator<Item = u32> + Clone,
        part: impl Fn(&Buf) -> Range<usize>,
    ) -> Result<()> {
        let name = self.of.name;
        let offset = self.operator.in_place();
        let offset = offset.with_context(|| format!("{name} does not work in place here"))?;
        let before: Vec<Vec<u8>> = match self.is_checked {
            true => which
                .clone()
                .map(|i| packets[i as usize].to_vec())
                .collect(),
            false => Vec::new(),
        };
        let mut job = self.job.take().expect("at home");
        let mut items = take(&mut job.items).into_spans();
        items.extend(which.clone().map(|i| span(i, part(&packets[i as usize]))));
        let mut slots = take(&mut job.slots).into_spans();
        slots.extend(which.map(|i| {
            let packet = &packets[i as usize];
            span(i, part(packet).start + offset..packet.len())
        }));
        (job.items, job.slots) = (Items::Spans(items), Items::Spans(slots));
        let own = replace(&mut job.dst, Buffers::Many(take(packets)));
        let (mut job, result) = self.send(job)?;
        if let Buffers::Many(changed) = replace(&mut job.dst, own) {
            *packets = changed;
        }
        self.job = Some(job);
        result.context(name)?;
        let job = self.job.as_ref().expect("home again");
        for (i, outcome) in job.outcomes.iter().enumerate() {
            let len = outcome.with_context(|| format!("{name}: item {i}"))? as usize;
            if let Some(before) = before.get(i) {
                let [item, slot] = [&job.items, &job.slots].map(|items| items.place(i, packets));
                let item = &before[item.start..item.start + item.len];
                let output = &slot.bytes(packets)[..len];
                self.judge(item, Ok(output), slot.len)?;
            }
        }
        Ok(())
    }

    /// Sends the job, and waits until it is home. If it never is, its packets stay with the device.
    fn send(&mut self, job: Job) -> Result<(Job, Result<(), JobError>)> {
        self.ready.push_back(job);
        // The queue is empty, and takes the job at once.
        ensure!(
            self.queue.submit(&mut self.ready) == 1,
            "{}: not taken",
            self.of.name
        );
        let mut waits_since = None;
        while self.queue.poll(&mut self.done) == 0 {
            let since = *waits_since.get_or_insert_with(Instant::now);
            if since.elapsed() > PATIENCE {
                bail!("{}: no answer within {PATIENCE:?}", self.of.name);
            }
            self.queue.wait(PATIENCE);
        }
        let Completion { job, result } = self.done.pop().expect("polled");
        Ok((job, result))
    }

    fn judge(&self, item: &[u8], output: Result<&[u8], JobError>, slot_bytes: usize) -> Result<()> {
        let judged = self.oracle.check(item, output, slot_bytes);
        judged.map_err(|why| anyhow!("{}: {why}", self.of.name))
    }
}
