//! Jobs whose input is their output.

use super::input::{BEFORE, BEHIND, GUARD, JobInput, Layout, STALE};
use super::{BYTES_PER_JOB, Bench, Extent, Wrong};
use crate::{
    Completion, Items, Job, JobError, Memory, NotInPlace, Operator, OutputShape, Place, Span,
    Stride,
};

/// Items laid out so that outputs can be written over them.
struct Overlaid {
    /// What each buffer holds before the job.
    bufs: Vec<Vec<u8>>,
    items: Items,
    slots: Items,
}

impl Bench<'_> {
    /// Jobs whose input is their output give what is right in every layout, or are refused as such.
    pub(super) fn in_place(&mut self) -> Result<(), Wrong> {
        let offset = match self.operator.in_place() {
            Ok(offset) => offset,
            Err(why) => {
                let refused = self.not_in_place(&why);
                return refused.map_err(|what| ("in place".into(), what));
            }
        };
        let Extent {
            item_lengths,
            batches,
            depths,
            ..
        } = self.extent;
        let few = |layout| (layout, batches[1], depths[1]);
        let many = (Layout::Scattered, batches[batches.len() - 1], depths[0]);
        for &item_len in *item_lengths {
            for (layout, batch, depth) in [
                few(Layout::Strided),
                few(Layout::Spans),
                few(Layout::Scattered),
                many,
            ] {
                let batch = batch.min((BYTES_PER_JOB / item_len.max(1)).max(batches[1]));
                let case =
                    format!("in place, {batch} items of about {item_len} bytes ({layout:?})");
                let at = |what| (case.clone(), what);
                let [one, two] = self.inputs([1, 2], layout, item_len, batch).map_err(at)?;
                // Of strides all items have one length, which spoiling changes.
                let spoiled = match layout {
                    Layout::Strided => None,
                    _ => Some([&one, &two].map(|good| good.spoiled(self.workload, 1))),
                };
                for mut inputs in std::iter::once([one, two]).chain(spoiled) {
                    self.overlays(&mut inputs, offset, depth).map_err(at)?;
                }
            }
        }
        Ok(())
    }

    /// An operator that does not work in place says why, and its queues refuse such a job and go on.
    fn not_in_place(&mut self, why: &NotInPlace) -> Result<(), String> {
        if why.reason.trim().is_empty() {
            return Err("the operator does not work in place and does not say why".into());
        }
        let inputs = self.inputs([1, 2], Layout::Scattered, 9, 3)?;
        if self.is_beyond(&inputs, 1) {
            return Ok(());
        }
        let job = self.overlay(&Overlaid::of(&inputs[0], &*self.operator, 0), 0)?;
        self.refused(job, JobError::NotInPlace)
    }

    /// Drives jobs over `inputs` in turn through a queue and judges every item.
    fn overlays(
        &mut self,
        inputs: &mut [JobInput; 2],
        offset: usize,
        depth: u32,
    ) -> Result<(), String> {
        if self.is_beyond(inputs, depth) {
            return Ok(());
        }
        let laid_out = [0, 1].map(|i: usize| Overlaid::of(&inputs[i], &*self.operator, offset));
        let mut checked = self.checked_queue(depth)?;
        for tag in 0..self.jobs_over(inputs, depth) {
            checked.add(self.overlay(&laid_out[tag % 2], tag as u64)?);
        }
        for done in checked.finish()? {
            let Completion { job, result } = done;
            let tag = job.tag as usize;
            result.map_err(|e| format!("job {tag} failed: {e}"))?;
            if !laid_out[tag % 2].is_kept(&job) {
                return Err(format!("job {tag}: bytes outside of slots were written"));
            }
            inputs[tag % 2]
                .judge_outputs(&job, &*self.operator, self.workload)
                .map_err(|what| format!("job {tag}, {what}"))?;
            self.coverage.jobs += 1;
            self.coverage.items += inputs[tag % 2].items.count() as u64;
        }
        Ok(())
    }

    fn overlay(&self, laid_out: &Overlaid, tag: u64) -> Result<Job, String> {
        let copy = |bytes: &Vec<u8>| {
            let mut buf = self.alloc(bytes.len())?;
            buf.copy_from_slice(bytes);
            Ok::<_, String>(buf)
        };
        let bufs: Result<Vec<_>, _> = laid_out.bufs.iter().map(copy).collect();
        let Overlaid { items, slots, .. } = laid_out;
        let mut outcomes = Vec::with_capacity(items.count());
        outcomes.push(STALE);
        let (items, slots) = (items.clone(), slots.clone());
        Ok(Job::with_slots(
            tag,
            Memory::Output,
            items,
            bufs?,
            slots,
            outcomes,
        ))
    }
}

impl Overlaid {
    /// The items of `input`, each with a slot for the longest output that it can have.
    fn of(input: &JobInput, operator: &dyn Operator, offset: usize) -> Self {
        let (mut bufs, mut items, mut slots) = (vec![Vec::new()], Vec::new(), Vec::new());
        for item in input.contents() {
            if input.layout == Layout::Scattered && !items.is_empty() {
                bufs.push(Vec::new());
            }
            let (number, buf) = (bufs.len() - 1, bufs.last_mut().expect("one at least"));
            let slot_len = match operator.shape() {
                OutputShape::Fixed(bytes) => bytes,
                OutputShape::Variable => operator.dst_len(item.len()),
            };
            buf.resize(buf.len() + BEFORE, GUARD);
            let span = |start: usize, len: usize| Span {
                buf: number as u32,
                start: start as u32,
                len: len as u32,
            };
            items.push(span(buf.len(), item.len()));
            slots.push(span(buf.len() + offset, slot_len));
            let end = buf.len() + item.len().max(offset + slot_len);
            buf.extend_from_slice(item);
            buf.resize(end + BEHIND, GUARD);
        }
        // Of one length, so that all lie at one distance.
        let strided = |spans: &[Span]| {
            let [first, rest @ ..] = spans else {
                return Items::Spans(Vec::new());
            };
            Items::Strided(Stride {
                start: first.start,
                len: first.len,
                step: rest.first().map_or(0, |second| second.start - first.start),
                count: spans.len() as u32,
            })
        };
        let (items, slots) = match input.layout {
            Layout::Strided => (strided(&items), strided(&slots)),
            _ => (Items::Spans(items), Items::Spans(slots)),
        };
        Self { bufs, items, slots }
    }

    /// True if all bytes that are in no slot are as they were.
    fn is_kept(&self, job: &Job) -> bool {
        let mut now: Vec<Vec<u8>> = job.dst.iter().map(|buf| buf.to_vec()).collect();
        for i in 0..self.slots.count() {
            let Place { buf, start, len } = self.slots.place(i, &job.dst);
            now[buf][start..][..len].copy_from_slice(&self.bufs[buf][start..][..len]);
        }
        now == self.bufs
    }
}
