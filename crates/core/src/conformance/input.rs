//! What goes in, and whether what comes out is right.

use super::Oracle;
use crate::{Buf, Items, Job, JobError, OpSpec, Operator, OutputShape, View};

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
    spec: OpSpec,
    pub(super) bytes: Vec<u8>,
    pub(super) items: Items,
    ranges: Vec<std::ops::Range<usize>>,
    /// For operators with one right answer.
    expected: Vec<Result<Vec<u8>, JobError>>,
    /// For the others: the last output that the way back approved, so that equal ones need no second look.
    approved: Vec<Option<Vec<u8>>>,
    /// Bytes per slot, if not what the operator suggests.
    slot: Option<usize>,
}

impl Input {
    /// `batch` valid items of about `item_len` bytes (before encoding, for decoders).
    pub(super) fn new(
        spec: &OpSpec,
        oracle: Oracle<'_>,
        layout: Layout,
        item_len: usize,
        batch: usize,
        seed: u64,
    ) -> Self {
        let items = (0..batch).map(|i| match layout {
            Layout::One => plain(item_len, seed),
            // A decoder's items are as long as each other only if they are the same.
            Layout::Fixed if spec.fed_by().is_some() => plain(item_len, seed),
            Layout::Fixed => plain(item_len, seed ^ (i as u64) << 32),
            Layout::Offsets => {
                let len = [item_len, item_len + 1, item_len / 2, 0][i % 4];
                plain(len, seed ^ (i as u64) << 32)
            }
        });
        let items = items.map(|item| match spec.fed_by() {
            Some(encoder) => oracle(&encoder, &item).expect("the oracle encodes"),
            None => item,
        });
        Self::lay_out(spec, oracle, layout, items.collect())
    }

    /// Valid items between random, cut and flipped ones.
    pub(super) fn spoiled(
        spec: &OpSpec,
        oracle: Oracle<'_>,
        item_len: usize,
        batch: usize,
        seed: u64,
    ) -> Self {
        let good = Self::new(spec, oracle, Layout::Offsets, item_len, 4 * batch, seed);
        let spoil = |(i, range): (usize, &std::ops::Range<usize>)| {
            let mut item = good.bytes[range.clone()].to_vec();
            match i % 4 {
                1 => item = plain(item_len, seed + i as u64),
                2 => item.truncate(item.len() / 2),
                3 if !item.is_empty() => {
                    let at = seed as usize * 31 % item.len();
                    item[at] ^= 0x10;
                }
                _ => {}
            }
            item
        };
        let items = good.ranges.iter().enumerate().map(spoil).collect();
        Self::lay_out(spec, oracle, Layout::Offsets, items)
    }

    /// The same with slots of `slot` bytes.
    pub(super) fn with_slot(self, slot: usize) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    fn lay_out(spec: &OpSpec, oracle: Oracle<'_>, layout: Layout, items: Vec<Vec<u8>>) -> Self {
        // Offsets start at an odd address, and the input ends behind the last item.
        let mut bytes = vec![0xEE; usize::from(layout == Layout::Offsets)];
        let mut ranges = Vec::new();
        for item in &items {
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
        let expected = match spec.undone_by() {
            Some(_) => Vec::new(),
            None => items.iter().map(|item| oracle(spec, item)).collect(),
        };
        Self {
            spec: spec.clone(),
            bytes,
            items: items_of_layout,
            approved: vec![None; ranges.len()],
            ranges,
            expected,
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
    pub(super) fn dst_len(&self, shape: OutputShape, operator: &dyn Operator) -> usize {
        let count = self.ranges.len();
        match shape {
            OutputShape::Fixed(bytes) => count * bytes + GUARDS,
            // Fewer guards than items, or they would make the slots longer.
            OutputShape::Variable => count * self.slot(operator) + GUARDS.min(count - 1),
        }
    }

    /// Bytes per slot of a variable output.
    fn slot(&self, operator: &dyn Operator) -> usize {
        let longest = self.ranges.iter().map(|r| r.len()).max().unwrap_or(0);
        let known = self.expected.iter().flatten().map(Vec::len).max();
        self.slot
            .or(known)
            .unwrap_or_else(|| operator.dst_len(longest))
    }

    /// Whether everything in a finished job is right.
    pub(super) fn judge(
        &mut self,
        job: &Job,
        shape: OutputShape,
        operator: &dyn Operator,
        oracle: Oracle<'_>,
    ) -> Result<(), String> {
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
            self.judge_item(i, got, slot, operator, oracle)
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
        oracle: Oracle<'_>,
    ) -> Result<(), String> {
        let item = &self.bytes[self.ranges[i].clone()];
        if let Some(way_back) = self.spec.undone_by() {
            return match got {
                Ok(output) if self.approved[i].as_deref() == Some(output) => Ok(()),
                Ok(output) => match oracle(&way_back, output) {
                    Ok(again) if again == item => {
                        self.approved[i] = Some(output.to_vec());
                        Ok(())
                    }
                    other => Err(format!("the way back gives {}", brief(&other))),
                },
                Err(JobError::DstTooShort) if slot < operator.dst_len(item.len()) => Ok(()),
                Err(e) => Err(format!("refused with {e:?}, slot of {slot}")),
            };
        }
        let right = match (&self.expected[i], got) {
            (Ok(output), Err(JobError::DstTooShort)) => output.len() > slot,
            (Ok(output), got) => got == Ok(output),
            (Err(_), got) => got.is_err(),
        };
        if right {
            return Ok(());
        }
        let got = got.map(<[u8]>::to_vec);
        let expected = brief(&self.expected[i]);
        Err(format!("expected {expected}, got {}", brief(&got)))
    }
}

/// A result, cut to what fits a line.
fn brief(result: &Result<Vec<u8>, JobError>) -> String {
    match result {
        Ok(bytes) if bytes.len() <= 40 => format!("{bytes:02x?}"),
        Ok(bytes) => format!("{} bytes, {:02x?} …", bytes.len(), &bytes[..40]),
        Err(e) => format!("{e:?}"),
    }
}

/// `len` bytes, half of them random and half a run, so that encoders have something to find.
fn plain(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    let run = next();
    (0..len)
        .map(|i| if i / 16 % 2 == 0 { next() } else { run })
        .collect()
}
