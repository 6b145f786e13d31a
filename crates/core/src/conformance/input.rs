//! What goes in, and whether what comes out is right.

use super::RIGHT_BYTES_MAX;
use crate::random::SplitMix64;
use crate::workload::{self, Right, Workload};
use crate::{Buf, Items, Job, JobError, Operator, OutputShape, View};

/// What a destination holds before its job.
pub(super) const GUARD: u8 = 0xA5;
/// What a job's outcomes hold before it: to be cleared for variable outputs, to be left alone for fixed ones.
pub(super) const STALE: Result<u32, JobError> = Err(JobError::Device(i32::MIN));
/// At most so many bytes behind the last slot are watched.
const GUARDS: usize = 16;

/// How items lie in their input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    One,
    Fixed,
    Offsets,
}

impl Layout {
    pub(super) const ALL: [Self; 3] = [Self::One, Self::Fixed, Self::Offsets];
}

/// One job's input and what is right for it.
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    pub(super) items: Items,
    ranges: Vec<std::ops::Range<usize>>,
    right: Vec<Right>,
    /// Where several outputs are right: the last one that was approved, so that equal ones need no second look.
    approved: Vec<Option<Vec<u8>>>,
    /// Bytes per slot, if not what the operator suggests.
    slot: Option<usize>,
}

impl Input {
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
                Layout::One | Layout::Fixed => item_len,
                Layout::Offsets => [item_len, item_len + 1, item_len / 2, 0][i % 4],
            };
            &plain.item(i)[..len]
        });
        let mut items = workload::fed(workload, items)?;
        if layout == Layout::Fixed {
            workload::equalize_lengths(&mut items);
        }
        Ok(Self::lay_out(workload, layout, &items))
    }

    /// Of four items the first as it is, the others made worse.
    pub(super) fn spoiled(&self, workload: &dyn Workload, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed + ((self.bytes.len() as u64) << 8));
        let spoil = |(i, range): (usize, &std::ops::Range<usize>)| {
            let mut item = self.bytes[range.clone()].to_vec();
            if i % 4 != 0 {
                workload.spoil(&mut item, random.next_u64());
            }
            item
        };
        let items: Vec<_> = self.ranges.iter().enumerate().map(spoil).collect();
        Self::lay_out(workload, Layout::Offsets, &items)
    }

    /// The same with slots of `slot` bytes.
    pub(super) fn with_slot(self, slot: usize) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    fn lay_out(workload: &dyn Workload, layout: Layout, items: &[Vec<u8>]) -> Self {
        // Offsets start at an odd address, and the input ends behind the last item.
        let mut bytes = vec![0xEE; usize::from(layout == Layout::Offsets)];
        let mut ranges = Vec::new();
        for item in items {
            ranges.push(bytes.len()..bytes.len() + item.len());
            bytes.extend_from_slice(item);
        }
        let items_of_layout = match layout {
            Layout::One => Items::One,
            Layout::Fixed => Items::Fixed {
                len: items[0].len() as u32,
                count: items.len() as u32,
            },
            Layout::Offsets => {
                let ends = ranges.iter().map(|r| r.end as u32);
                Items::Offsets(std::iter::once(1).chain(ends).collect())
            }
        };
        if layout != Layout::One {
            bytes.extend_from_slice(&[0xEE; 3]);
        }
        let right = |item: &Vec<u8>| workload.right(item, RIGHT_BYTES_MAX);
        Self {
            bytes,
            items: items_of_layout,
            approved: vec![None; ranges.len()],
            ranges,
            right: items.iter().map(right).collect(),
            slot: None,
        }
    }

    /// A job over it, whose outcomes hold something that is not its.
    pub(super) fn job(&self, tag: u64, src: View, dst: Buf) -> Job {
        let mut outcomes = Vec::with_capacity(self.ranges.len());
        outcomes.push(STALE);
        let items = self.items.clone();
        Job {
            tag,
            src,
            items,
            dst,
            outcomes,
        }
    }

    /// Bytes of a destination, guards included.
    pub(super) fn dst_len(&self, operator: &dyn Operator) -> usize {
        let count = self.ranges.len();
        match operator.shape() {
            OutputShape::Fixed(bytes) => count * bytes + GUARDS,
            // Fewer guards than items, or they would make the slots longer.
            OutputShape::Variable => count * self.slot(operator) + GUARDS.min(count - 1),
        }
    }

    /// Bytes per slot of a variable output: enough for every item that is not refused.
    fn slot(&self, operator: &dyn Operator) -> usize {
        let lens = self.ranges.iter().map(|range| range.len());
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
        let shape = operator.shape();
        let count = self.ranges.len();
        let slot = shape.slot(job.dst.len(), count);
        if job.dst[count * slot..].iter().any(|&b| b != GUARD) {
            return Err("bytes behind the last slot were written".into());
        }
        let is_fixed = matches!(shape, OutputShape::Fixed(_));
        if job.check_outcomes(shape).is_err() || is_fixed && job.outcomes != [STALE] {
            return Err(format!(
                "{count} items of {shape:?} in slots of {slot} bytes left the outcomes {:?}",
                job.outcomes
            ));
        }
        for i in 0..count {
            let got = job.output(shape, i);
            self.judge_item(i, got, slot, operator, workload)
                .map_err(|what| format!("item {i} of {} bytes: {what}", self.ranges[i].len()))?;
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
        let item = &self.bytes[self.ranges[i].clone()];
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
