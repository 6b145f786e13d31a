//! What goes in, and whether what comes out is right.

use super::RIGHT_BYTES_MAX;
use crate::random::SplitMix64;
use crate::workload::{self, Right, Workload};
use crate::{
    Buf, Buffers, Items, Job, JobError, Limits, Memory, Operator, OutputShape, Place, Span, Stride,
};

/// What a destination holds before its job.
pub(super) const GUARD: u8 = 0xA5;
/// What a job's outcomes hold before it: to be cleared for variable outputs, to be left alone for fixed ones.
pub(super) const STALE: Result<u32, JobError> = Err(JobError::Device(i32::MIN));
/// What lies between items.
const ROOM: u8 = 0xEE;
/// At most so many bytes behind the last slot are watched, where slots lie one behind another.
const GUARDS: usize = 16;
/// Bytes before and behind items and slots that lie apart. Odd, so that they lie at odd addresses too.
pub(super) const BEFORE: usize = 5;
pub(super) const BEHIND: usize = 2;

/// How items lie in their input, and slots in their output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One item.
    One,
    /// Items of one length, one right behind another.
    Fixed,
    /// Items of one length with room before and behind each, in memory that is the job's own. Slots have room likewise.
    Strided,
    /// Items of several lengths, one right behind another.
    Offsets,
    /// Items of several lengths in one buffer, the last first. Slots are spans of one buffer, the first first.
    Spans,
    /// Items of several lengths, each in a buffer of its own, with room before and behind. So are slots.
    Scattered,
}

impl Layout {
    pub(super) const ALL: [Self; 6] = [
        Self::One,
        Self::Fixed,
        Self::Strided,
        Self::Offsets,
        Self::Spans,
        Self::Scattered,
    ];

    fn is_of_one_length(self) -> bool {
        matches!(self, Self::One | Self::Fixed | Self::Strided)
    }
}

/// One job's input and what is right for it.
pub(super) struct JobInput {
    pub(super) layout: Layout,
    /// What is in each buffer of its memory.
    bufs: Vec<Vec<u8>>,
    pub(super) items: Items,
    /// Where each item lies.
    places: Vec<Place>,
    right: Vec<Right>,
    /// Where several outputs are right: the last one that was approved, so that equal ones need no second look.
    approved: Vec<Option<Vec<u8>>>,
    /// Bytes per slot, if not what the operator suggests.
    slot: Option<usize>,
}

impl JobInput {
    /// `batch` valid items that carry about `item_len` bytes.
    pub(super) fn new(
        workload: &dyn Workload,
        layout: Layout,
        item_len: usize,
        batch: usize,
        seed: u64,
    ) -> Result<Self, String> {
        // Of the longest that are wanted; others are cut from them.
        let plain = workload.plain(seed, item_len + 1, batch);
        let plain = plain.batch().map_err(|error| error.to_string())?;
        if plain.len() != batch || (0..batch).any(|i| plain.item(i).len() != item_len + 1) {
            return Err("the workload's user data is not as long as asked for".to_owned());
        }
        let items = (0..batch).map(|i| {
            let len = match layout {
                layout if layout.is_of_one_length() => item_len,
                _ => [item_len, item_len + 1, item_len / 2, 0][i % 4],
            };
            &plain.item(i)[..len]
        });
        let mut items = workload::fed(workload, items)?;
        if layout.is_of_one_length() {
            workload::equalize_lengths(&mut items);
        }
        Ok(Self::lay_out(workload, layout, &items))
    }

    /// Of four items the first as it is, the others made worse.
    pub(super) fn spoiled(&self, workload: &dyn Workload, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed + ((self.bytes() as u64) << 8));
        let spoil = |i: usize| {
            let mut item = self.item(i).to_vec();
            if !i.is_multiple_of(4) {
                workload.spoil(&mut item, random.next_u64());
            }
            item
        };
        let items: Vec<_> = (0..self.places.len()).map(spoil).collect();
        Self::lay_out(workload, self.layout, &items)
    }

    /// The same with slots of `slot` bytes.
    pub(super) fn with_slot(self, slot: usize) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    fn lay_out(workload: &dyn Workload, layout: Layout, items: &[Vec<u8>]) -> Self {
        let (mut bufs, mut places) = (vec![Vec::new()], Vec::new());
        let is_scattered = layout == Layout::Scattered;
        let (before, behind) = match layout {
            Layout::One | Layout::Fixed | Layout::Offsets => (0, 0),
            Layout::Strided | Layout::Spans | Layout::Scattered => (BEFORE, BEHIND),
        };
        if layout == Layout::Offsets {
            bufs[0].push(ROOM);
        }
        let put = |item: &Vec<u8>| {
            if is_scattered && !places.is_empty() {
                bufs.push(Vec::new());
            }
            let (number, buf) = (bufs.len() - 1, bufs.last_mut().expect("one at least"));
            buf.extend(std::iter::repeat_n(ROOM, before));
            places.push(Place {
                buf: number,
                start: buf.len(),
                len: item.len(),
            });
            buf.extend_from_slice(item);
            buf.extend(std::iter::repeat_n(ROOM, behind));
        };
        match layout {
            // What a kernel takes for one behind another is not.
            Layout::Spans => {
                items.iter().rev().for_each(put);
                places.reverse();
            }
            _ => items.iter().for_each(put),
        }
        let span = |place: &Place| Span {
            buf: place.buf as u32,
            start: place.start as u32,
            len: place.len as u32,
        };
        let len = items[0].len() as u32;
        let items_of_layout = match layout {
            Layout::One => Items::One,
            Layout::Fixed => Items::fixed(len, items.len() as u32),
            Layout::Strided => Items::Strided(Stride {
                start: before as u32,
                len,
                step: len + (before + behind) as u32,
                count: items.len() as u32,
            }),
            Layout::Offsets => {
                let ends = places.iter().map(|place| (place.start + place.len) as u32);
                Items::Offsets(std::iter::once(1).chain(ends).collect())
            }
            Layout::Spans | Layout::Scattered => Items::Spans(places.iter().map(span).collect()),
        };
        if layout != Layout::One {
            bufs[0].extend_from_slice(&[ROOM; 3]);
        }
        let right = |item: &Vec<u8>| workload.right(item, RIGHT_BYTES_MAX);
        Self {
            layout,
            bufs,
            items: items_of_layout,
            approved: vec![None; places.len()],
            places,
            right: items.iter().map(right).collect(),
            slot: None,
        }
    }

    /// The input in memory that `alloc` gives.
    pub(super) fn source(
        &self,
        mut alloc: impl FnMut(usize) -> Result<Buf, String>,
    ) -> Result<Memory, String> {
        let mut copy = |bytes: &Vec<u8>| {
            let mut buf = alloc(bytes.len())?;
            buf.copy_from_slice(bytes);
            Ok::<_, String>(buf)
        };
        Ok(match self.layout {
            Layout::Scattered => {
                let bufs: Result<Vec<_>, _> = self.bufs.iter().map(copy).collect();
                bufs?.into()
            }
            Layout::Strided => copy(&self.bufs[0])?.into(),
            _ => copy(&self.bufs[0])?.freeze().into(),
        })
    }

    /// Room for the outputs, in memory that `alloc` gives, with bytes around the slots that must stay as they are.
    pub(super) fn destination(
        &self,
        operator: &dyn Operator,
        mut alloc: impl FnMut(usize) -> Result<Buf, String>,
    ) -> Result<(Buffers, Items), String> {
        let mut guarded = |len: usize| {
            let mut buf = alloc(len)?;
            buf.fill(GUARD);
            Ok::<_, String>(buf)
        };
        let (shape, count) = (operator.shape(), self.places.len());
        let len = match shape {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => self.slot(operator),
        };
        let step = len + BEFORE + BEHIND;
        let span = |buf: usize, start: usize| Span {
            buf: buf as u32,
            start: start as u32,
            len: len as u32,
        };
        Ok(match self.layout {
            Layout::One | Layout::Fixed | Layout::Offsets => {
                // Fewer guards than items, or they would make the slots longer.
                let guards = match shape {
                    OutputShape::Fixed(_) => GUARDS,
                    OutputShape::Variable => GUARDS.min(count - 1),
                };
                let dst = guarded(count * len + guards)?;
                let slots = shape.slots(dst.len(), count);
                (dst.into(), slots)
            }
            Layout::Strided => {
                let stride = Stride {
                    start: BEFORE as u32,
                    len: len as u32,
                    step: step as u32,
                    count: count as u32,
                };
                (guarded(count * step)?.into(), Items::Strided(stride))
            }
            Layout::Spans => {
                let slots = (0..count).map(|i| span(0, BEFORE + i * step)).collect();
                (guarded(count * step)?.into(), Items::Spans(slots))
            }
            Layout::Scattered => {
                let bufs: Result<Vec<_>, _> = (0..count).map(|_| guarded(step)).collect();
                let slots = (0..count).map(|i| span(i, BEFORE)).collect();
                (bufs?.into(), Items::Spans(slots))
            }
        })
    }

    /// True if the memory that a job brought home holds what it held.
    fn is_untouched(&self, memory: &Memory) -> bool {
        memory
            .iter()
            .map(|buf| &buf[..])
            .eq(self.bufs.iter().map(|buf| &buf[..]))
    }

    /// Bytes of all buffers.
    pub(super) fn bytes(&self) -> usize {
        self.bufs.iter().map(Vec::len).sum()
    }

    /// Bytes of all items.
    pub(super) fn item_bytes(&self) -> usize {
        self.places.iter().map(|place| place.len).sum()
    }

    /// True if `limits` promises to take it.
    pub(super) fn is_within(&self, limits: &Limits) -> bool {
        let longest = self.places.iter().map(|place| place.len).max();
        self.item_bytes() <= limits.input_bytes_max
            && longest.unwrap_or(0) <= limits.item_bytes_max
            && self.places.len() <= limits.items_max
    }

    /// The items, in turn.
    pub(super) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.places.len()).map(|i| self.item(i))
    }

    fn item(&self, i: usize) -> &[u8] {
        let place = self.places[i];
        &self.bufs[place.buf][place.start..][..place.len]
    }

    /// A job over it, whose outcomes hold something that is not its.
    pub(super) fn job(&self, tag: u64, src: Memory, (dst, slots): (Buffers, Items)) -> Job {
        let mut outcomes = Vec::with_capacity(self.places.len());
        outcomes.push(STALE);
        Job::with_slots(tag, src, self.items.clone(), dst, slots, outcomes)
    }

    /// Bytes per slot of a variable output: enough for every item that is not refused.
    fn slot(&self, operator: &dyn Operator) -> usize {
        let lens = self.places.iter().map(|place| place.len);
        let needed = lens
            .clone()
            .zip(&self.right)
            .filter_map(|(len, right)| match right {
                Right::Only(output) => Some(output.len()),
                Right::AnyValid => Some(operator.dst_len(len)),
                Right::Refused(_) => None,
            });
        // Not so long that something fits which was refused as too long.
        let suggested = || {
            operator
                .dst_len(lens.max().unwrap_or(0))
                .min(RIGHT_BYTES_MAX)
        };
        self.slot.or(needed.max()).unwrap_or_else(suggested)
    }

    /// Whether everything in a finished job is right.
    pub(super) fn judge(
        &mut self,
        job: &Job,
        operator: &dyn Operator,
        workload: &dyn Workload,
    ) -> Result<(), String> {
        if !self.is_untouched(&job.src) {
            return Err("the input was written to".into());
        }
        if !are_guards_untouched(job) {
            return Err("bytes outside of slots were written".into());
        }
        self.judge_outputs(job, operator, workload)
    }

    /// Whether every output in a finished job is right.
    pub(super) fn judge_outputs(
        &mut self,
        job: &Job,
        operator: &dyn Operator,
        workload: &dyn Workload,
    ) -> Result<(), String> {
        let (shape, count) = (operator.shape(), self.places.len());
        let is_fixed = matches!(shape, OutputShape::Fixed(_));
        if job.check_outcomes(shape).is_err() || is_fixed && job.outcomes != [STALE] {
            return Err(format!(
                "{count} items of {shape:?} in the slots {:?} left the outcomes {:?}",
                job.slots, job.outcomes
            ));
        }
        for i in 0..count {
            let got = job.output(shape, i);
            let slot = job.slots.place(i, &job.dst).len;
            self.judge_item(i, got, slot, operator, workload)
                .map_err(|what| format!("item {i} of {} bytes: {what}", self.places[i].len))?;
        }
        Ok(())
    }

    fn judge_item(
        &mut self,
        i: usize,
        got: Result<&[u8], JobError>,
        slot: usize,
        operator: &dyn Operator,
        workload: &dyn Workload,
    ) -> Result<(), String> {
        let Place { buf, start, len } = self.places[i];
        let item = &self.bufs[buf][start..][..len];
        let right = &self.right[i];
        if let (Right::AnyValid, Err(JobError::DstTooShort)) = (right, got)
            && slot < operator.dst_len(item.len())
        {
            // It need not have gone into so short a slot.
            return Ok(());
        }
        let approved = &mut self.approved[i];
        right.check(got, slot, |output| {
            if approved.as_deref() != Some(output) {
                workload.approve(item, output)?;
                *approved = Some(output.to_vec());
            }
            Ok(())
        })
    }
}

/// True if all bytes that are in no slot are as they were.
fn are_guards_untouched(job: &Job) -> bool {
    let mut bufs: Vec<Vec<u8>> = job.dst.iter().map(|buf| buf.to_vec()).collect();
    for i in 0..job.slots.count() {
        let Place { buf, start, len } = job.slots.place(i, &job.dst);
        bufs[buf][start..][..len].fill(GUARD);
    }
    // Bytes of slices are compared quickly in a debug build too: all are like the first.
    bufs.iter().all(|buf| match &buf[..] {
        [] => true,
        [first, rest @ ..] => *first == GUARD && *rest == buf[..rest.len()],
    })
}
