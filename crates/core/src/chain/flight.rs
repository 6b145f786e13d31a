//! A job of a chain on its way through the stages.

use std::mem::{replace, swap, take};

use super::Chain;
use crate::items::SpareLists;
use crate::{
    Buffers, Completion, Items, Job, JobError, Memory, Operator, OutputShape, Place, SetupError,
    Span,
};

/// A job of the chain on its way. Its parts move from the caller's job to that of the stages, and back.
pub(super) struct Flight {
    /// The caller's job.
    outer: Option<Job>,
    /// The job that the stages use; `None` while a stage has it.
    inner: Option<Job>,
    /// True if the chain's shape is variable.
    is_variable: bool,
    is_in_place: bool,
    /// True while the stages' job has the caller's slots.
    has_slots: bool,
    /// The memory between two stages; empty while the job that the stages use has it. Stage *k* writes to `between[k % 2]`.
    between: [Buffers; 2],
    /// Why an item was refused, of those that were.
    refused: Vec<Option<JobError>>,
    /// Lists of items or slots that are free.
    lists: SpareLists,
    /// In place: the end of each of the caller's slots, behind which no stage writes.
    ends: Vec<usize>,
}

impl Flight {
    pub(super) fn new(chain: &Chain, bytes: [usize; 2]) -> Result<Self, SetupError> {
        let items = chain.limits.items_max;
        let between = |bytes: usize| match bytes {
            0 => Ok(Buffers::default()),
            bytes => (chain.alloc)(bytes).map(Buffers::from),
        };
        let [even, odd] = bytes.map(between);
        let (none, outcomes) = (Buffers::default(), Vec::with_capacity(items));
        let [list, slots] = [0; 2].map(|_| Items::default());
        let inner = Job::with_slots(0, Memory::Output, list, none, slots, outcomes);
        Ok(Self {
            outer: None,
            inner: Some(inner),
            is_variable: chain.shape == OutputShape::Variable,
            is_in_place: false,
            has_slots: false,
            between: [even?, odd?],
            refused: Vec::with_capacity(items),
            // The items of a stage, those of the next, and slots.
            lists: SpareLists::new(3, items),
            ends: Vec::with_capacity(items),
        })
    }

    /// Takes the caller's job, which is checked.
    pub(super) fn accept(&mut self, job: Job) {
        let count = job.items.count();
        self.refused.clear();
        self.refused.resize(count, None);
        self.is_in_place = matches!(job.src, Memory::Output);
        self.ends.clear();
        if self.is_in_place {
            let slots = (0..count).map(|i| job.slots.place(i, &job.dst));
            self.ends.extend(slots.map(|slot| slot.start + slot.len));
        }
        self.outer = Some(job);
    }

    /// The stages' job, which reads what stage `k` is to read. The stage before has the shape `before`.
    pub(super) fn enter(&mut self, k: usize, before: Option<OutputShape>) -> Job {
        let outer = self.outer.as_mut().expect("on its way");
        let mut job = self.inner.take().expect("between two stages");
        let Some(before) = before else {
            swap(&mut job.items, &mut outer.items);
            match self.is_in_place {
                true => swap(&mut job.dst, &mut outer.dst),
                false => swap(&mut job.src, &mut outer.src),
            }
            return job;
        };
        let mut list = self.lists.take();
        let outputs = job.outputs(before, &mut list);
        self.lists.keep(Items::Spans(list));
        if k == 1 {
            swap(&mut job.items, &mut outer.items);
        }
        self.lists.keep(replace(&mut job.items, outputs));
        self.lists.keep(take(&mut job.slots));
        if !self.is_in_place {
            job.src = Memory::Own(take(&mut job.dst));
        }
        job
    }

    /// Says where the outputs of stage `k` go.
    ///
    /// # Errors
    /// [`JobError::TooLong`] if they may need more memory than lies between two stages.
    pub(super) fn place_outputs(
        &mut self,
        job: &mut Job,
        stage: &dyn Operator,
        k: usize,
        is_last: bool,
    ) -> Result<(), JobError> {
        if is_last {
            return self.place_last_outputs(job, stage.shape());
        }
        let mut list = self.lists.take();
        let mut places = (0..job.items.count()).map(|i| job.items.place(i, job.input()));
        let mut push = |place: Place| span(place).map(|span| list.push(span));
        let mut end = 0_usize;
        let pushed = if self.is_in_place {
            let offset = stage.in_place().unwrap_or(0);
            let mut places = places.zip(&self.ends);
            places.try_for_each(|(Place { buf, start, .. }, slot_end)| {
                let start = start + offset;
                let len = slot_end.saturating_sub(start);
                push(Place { buf, start, len })
            })
        } else if let OutputShape::Fixed(bytes) = stage.shape() {
            end = bytes.saturating_mul(places.len());
            Ok(())
        } else {
            places.try_for_each(|place| {
                let (buf, start, len) = (0, end, stage.dst_len(place.len));
                end = end.saturating_add(len);
                push(Place { buf, start, len })
            })
        };
        job.slots = Items::Spans(list);
        pushed?;
        if self.is_in_place {
            return Ok(());
        }
        let room = self.between[k % 2].first().map_or(0, |buf| buf.len());
        if end > room {
            return Err(JobError::TooLong);
        }
        if let OutputShape::Fixed(_) = stage.shape() {
            let slots = stage.shape().slots(room, job.items.count());
            self.lists.keep(replace(&mut job.slots, slots));
        }
        job.dst = take(&mut self.between[k % 2]);
        Ok(())
    }

    /// Lends the stages' job the caller's slots and, unless it has them already, the buffers.
    ///
    /// A last stage of a fixed shape fails a job that has a slot too short. If the chain's shape is variable, such an item is refused
    /// alone, and the stage gets the others.
    fn place_last_outputs(&mut self, job: &mut Job, shape: OutputShape) -> Result<(), JobError> {
        let outer = self.outer.as_mut().expect("on its way");
        if !self.is_in_place {
            swap(&mut job.dst, &mut outer.dst);
        }
        let bytes = match shape {
            OutputShape::Fixed(bytes) if self.is_variable => bytes,
            _ => 0,
        };
        let slot = |i: usize| outer.slots.place(i, &job.dst);
        let mut all = 0..outer.slots.count();
        self.has_slots = all.all(|i| slot(i).len >= bytes);
        if self.has_slots {
            swap(&mut job.slots, &mut outer.slots);
            return Ok(());
        }
        let [mut items, mut slots] = [0; 2].map(|_| self.lists.take());
        let mut filled = Ok(());
        for (i, refused) in self.refused.iter_mut().enumerate() {
            let slot = slot(i);
            if slot.len < bytes {
                *refused = refused.or(Some(JobError::DstTooShort));
                continue;
            }
            match (span(job.items.place(i, job.input())), span(slot)) {
                (Ok(item), Ok(slot)) => {
                    items.push(item);
                    slots.push(slot);
                }
                (Err(error), _) | (_, Err(error)) => filled = Err(error),
            }
        }
        job.slots = Items::Spans(slots);
        self.lists
            .keep(replace(&mut job.items, Items::Spans(items)));
        filled
    }

    /// Takes the stages' job back from stage `k`, and what it read and, of the last stage, wrote from the job.
    pub(super) fn leave(
        &mut self,
        done: Completion,
        k: usize,
        is_last: bool,
        shape: OutputShape,
    ) -> Result<(), JobError> {
        let Completion { mut job, result } = done;
        let outer = self.outer.as_mut().expect("on its way");
        if !self.is_in_place {
            match k.checked_sub(1) {
                None => swap(&mut job.src, &mut outer.src),
                Some(before) => {
                    if let Memory::Own(buffers) = replace(&mut job.src, Memory::Output) {
                        self.between[before % 2] = buffers;
                    }
                }
            }
        }
        if is_last {
            if take(&mut self.has_slots) {
                swap(&mut job.slots, &mut outer.slots);
            }
            if !self.is_in_place {
                swap(&mut job.dst, &mut outer.dst);
            }
        }
        if shape == OutputShape::Variable && result.is_ok() {
            for (refused, outcome) in self.refused.iter_mut().zip(&job.outcomes) {
                *refused = refused.or(outcome.err());
            }
        }
        self.inner = Some(job);
        result
    }

    /// The caller's job, behind stage `k`, which has the shape `of_stage`: the last one, or the one that failed.
    pub(super) fn finish(
        &mut self,
        k: usize,
        shape: OutputShape,
        of_stage: OutputShape,
        result: &Result<(), JobError>,
    ) -> Job {
        let mut outer = self.outer.take().expect("on its way");
        let mut job = self.inner.take().expect("back from its stage");
        if k == 0 {
            swap(&mut job.items, &mut outer.items);
        }
        if self.is_in_place {
            swap(&mut job.dst, &mut outer.dst);
        } else if !job.dst.is_empty() {
            self.between[k % 2] = take(&mut job.dst);
        }
        self.lists.keep(take(&mut job.items));
        self.lists.keep(take(&mut job.slots));
        if shape == OutputShape::Variable && result.is_ok() {
            let outcome = |(i, refused): (usize, &Option<JobError>)| match (refused, of_stage) {
                (Some(error), _) => Err(*error),
                (None, OutputShape::Fixed(bytes)) => Ok(bytes as u32),
                (None, OutputShape::Variable) => job.outcomes[i],
            };
            outer.outcomes.clear();
            let outcomes = self.refused.iter().enumerate().map(outcome);
            outer.outcomes.extend(outcomes);
        }
        self.inner = Some(job);
        outer
    }
}

/// # Errors
/// [`JobError::TooLong`] at 4 GiB or beyond.
fn span(place: Place) -> Result<Span, JobError> {
    let small = |n: usize| u32::try_from(n).map_err(|_| JobError::TooLong);
    Ok(Span {
        buf: small(place.buf)?,
        start: small(place.start)?,
        len: small(place.len)?,
    })
}
