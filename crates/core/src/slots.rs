//! Where the outputs of a job go, as a kernel sees it: [`Slots`] over the job's buffers, and with the outcomes [`BatchOut`].
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::ptr::NonNull;

use crate::layout::{Layout, Picks};
use crate::{Batch, Buf, Items, JobError, Stride};

/// The destination of a kernel: a slot for each item, and one outcome for each item if the shape is variable.
#[derive(Debug)]
pub struct BatchOut<'a> {
    /// The slots; item *i* writes to slot *i*.
    pub slots: Slots<'a>,
    /// If the shape is variable: empty, with room for one entry for each item; the kernel pushes one for each. If it is fixed,
    /// a kernel leaves the list alone.
    pub outcomes: &'a mut Vec<Result<u32, JobError>>,
}

/// Slots, one for each item. Each lies inside its buffer, and none overlaps another.
pub struct Slots<'a> {
    /// The slots lie apart.
    layout: Layout<'a>,
    /// The buffers are borrowed uniquely.
    bytes: PhantomData<&'a mut [u8]>,
}

/// Each slot in turn.
pub struct SlotIter<'a>(
    /// The slots that are left.
    Slots<'a>,
);

/// Room for the outputs of some items, to be written one right behind another and moved to their slots.
const GATHERED_BYTES: usize = 2048;

impl<'a> BatchOut<'a> {
    /// Slots in any buffers.
    ///
    /// # Errors
    /// [`JobError::DstTooShort`] if one does not lie inside its buffer, or if slots of one buffer come in several.
    /// [`JobError::BadItems`] if they are not in the order of their addresses, or overlap.
    #[inline]
    pub fn of(
        bufs: &'a mut [Buf],
        slots: &'a Items,
        outcomes: &'a mut Vec<Result<u32, JobError>>,
    ) -> Result<Self, JobError> {
        if let [buf] = bufs {
            return Self::new(buf, slots, outcomes);
        }
        let layout = Layout::of_many(bufs, slots).ok_or(JobError::DstTooShort)?;
        let slots = Slots::new(layout)?;
        Ok(Self { slots, outcomes })
    }

    /// Slots in one buffer.
    ///
    /// # Errors
    /// As [`BatchOut::of`].
    #[inline]
    pub fn new(
        dst: &'a mut [u8],
        slots: &'a Items,
        outcomes: &'a mut Vec<Result<u32, JobError>>,
    ) -> Result<Self, JobError> {
        let bytes = dst.len();
        // SAFETY: the slice has so many bytes, and is borrowed uniquely for `'a`.
        let layout = unsafe { Layout::of_one(NonNull::from(dst).cast(), bytes, slots) };
        let slots = Slots::new(layout.ok_or(JobError::DstTooShort)?)?;
        Ok(Self { slots, outcomes })
    }

    /// Calls `write` with each item and its slot.
    ///
    /// # Panics
    /// If there are not as many slots as items.
    #[inline(always)]
    pub fn each(self, batch: Batch<'_>, write: impl FnMut(&[u8], &mut [u8])) {
        self.slots.each(batch, write);
    }

    /// For outputs of variable length: calls `write` with each item and its slot, and notes the outcome that it returns.
    ///
    /// # Panics
    /// If there are not as many slots as items.
    #[inline(always)]
    pub fn each_outcome(
        self,
        batch: Batch<'_>,
        mut write: impl FnMut(&[u8], &mut [u8]) -> Result<u32, JobError>,
    ) {
        let before = self.outcomes.len();
        // At once, so that the list is not asked for room at each item.
        self.outcomes.resize(before + batch.len(), Ok(0));
        let mut outcomes = self.outcomes[before..].iter_mut();
        self.slots.each(batch, |item, slot| {
            if let Some(outcome) = outcomes.next() {
                *outcome = write(item, slot);
            }
        });
    }

    /// For kernels whose outputs all have `bytes` bytes: calls `compute` with some of the items and with room for as many outputs, one
    /// right behind another; with all items at once where slots lie so.
    ///
    /// # Panics
    /// If a slot is shorter than `bytes`.
    // The items are handed on by reference, and what is rarely needed is out of line: a batch that is copied is read as a whole just after
    // it was written in parts, and that waits until all that came before has been written to the cache, the last job's outputs too.
    #[inline(always)]
    pub fn fixed(
        mut self,
        batch: &Batch<'_>,
        bytes: usize,
        mut compute: impl FnMut(&Batch<'_>, &mut [u8]),
    ) {
        match self.slots.contiguous() {
            Some((dst, len)) if len == bytes => compute(batch, dst),
            _ => self.gather(batch, bytes, &mut compute),
        }
    }

    /// [`BatchOut::fixed`] for slots that do not lie one right behind another.
    #[inline(never)]
    fn gather(
        mut self,
        batch: &Batch<'_>,
        bytes: usize,
        compute: &mut dyn FnMut(&Batch<'_>, &mut [u8]),
    ) {
        let together = GATHERED_BYTES / bytes.max(1);
        if together <= 1 {
            for i in 0..batch.len() {
                compute(&batch.part(i..i + 1), &mut self.slots[i][..bytes]);
            }
            return;
        }
        let mut gathered = [0; GATHERED_BYTES];
        for first in (0..batch.len()).step_by(together) {
            let items = first..batch.len().min(first + together);
            let outputs = &mut gathered[..items.len() * bytes];
            compute(&batch.part(items.clone()), outputs);
            for (i, output) in items.zip(outputs.chunks_exact(bytes.max(1))) {
                self.slots[i][..bytes].copy_from_slice(output);
            }
        }
    }
}

impl<'a> Slots<'a> {
    /// Slots over `layout`, whose buffers are borrowed uniquely for `'a`.
    #[inline]
    fn new(layout: Layout<'a>) -> Result<Self, JobError> {
        let bytes = PhantomData;
        let slots = Self { layout, bytes };
        let lie_apart = slots.layout.lie_apart();
        lie_apart.then_some(slots).ok_or(JobError::BadItems)
    }

    /// Slots at a stride in `dst`; `None` if one does not lie inside it, or if they overlap.
    #[inline(always)]
    pub(crate) fn at_stride(dst: &'a mut [u8], slots: &Stride) -> Option<Self> {
        let bytes = dst.len();
        // SAFETY: the slice has so many bytes, and is borrowed uniquely for `'a`.
        let layout = unsafe { Layout::at_stride(NonNull::from(dst).cast(), bytes, slots) };
        Self::new(layout?).ok()
    }

    #[inline(always)]
    fn each(self, batch: Batch<'_>, write: impl FnMut(&[u8], &mut [u8])) {
        assert_eq!(batch.len(), self.len(), "a slot for each item");
        let Self { layout, bytes } = self;
        match (batch.strided(), layout.strided()) {
            (Some(batch), Some(layout)) => each_of(batch, Slots { layout, bytes }, write),
            _ => each_of(batch, Slots { layout, bytes }, write),
        }
    }

    /// The slots `indices` of these; `None` if the indices do not rise, or there is no such slot.
    pub fn pick<'b>(&'b mut self, indices: &[u32], picks: &'b mut Picks) -> Option<Slots<'b>> {
        let layout = Layout::picked(&self.layout, indices, 0, picks)?;
        let bytes = PhantomData;
        Some(Slots { layout, bytes })
    }

    /// The same slots once more, for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Slots<'_> {
        Slots {
            layout: self.layout,
            bytes: PhantomData,
        }
    }

    /// The number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.layout.count()
    }

    /// True if there is no slot.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the shortest slot; without slots no bound.
    #[inline]
    pub fn shortest(&self) -> usize {
        let shortest = self.layout.lens().reduce(self.len(), u32::min);
        shortest.unwrap_or(usize::MAX)
    }

    /// All slots as one slice and the length of each, if they have one length and lie one right behind another: the layout
    /// that most kernels have a fast path for.
    #[inline(always)]
    pub fn contiguous(&mut self) -> Option<(&mut [u8], usize)> {
        let (mut all, len) = self.layout.contiguous()?;
        // SAFETY: initialised bytes of a buffer that is borrowed uniquely; `self` is, so that nobody has another slot.
        Some((unsafe { all.as_mut() }, len))
    }
}

/// The loop, inlined once for strides and once for other layouts.
#[inline(always)]
fn each_of(batch: Batch<'_>, slots: Slots<'_>, mut write: impl FnMut(&[u8], &mut [u8])) {
    for (item, slot) in batch.iter().zip(slots) {
        write(item, slot);
    }
}

impl Index<usize> for Slots<'_> {
    type Output = [u8];

    #[inline(always)]
    fn index(&self, i: usize) -> &[u8] {
        // SAFETY: as for `contiguous`; `self` is shared.
        unsafe { self.layout.at(i).as_ref() }
    }
}

impl IndexMut<usize> for Slots<'_> {
    #[inline(always)]
    fn index_mut(&mut self, i: usize) -> &mut [u8] {
        // SAFETY: as for `contiguous`.
        unsafe { self.layout.at(i).as_mut() }
    }
}

impl<'a> IntoIterator for Slots<'a> {
    type Item = &'a mut [u8];
    type IntoIter = SlotIter<'a>;

    #[inline]
    fn into_iter(self) -> SlotIter<'a> {
        SlotIter(self)
    }
}

impl SlotIter<'_> {
    /// The same slots if they lie at a stride, as [`BatchIter::strided`](crate::BatchIter::strided) gives items.
    ///
    /// # Errors
    /// Themselves, if they lie elsewhere.
    #[inline(always)]
    pub fn strided(self) -> Result<Self, Self> {
        let Slots { layout, bytes } = self.0;
        match layout.strided() {
            Some(layout) => Ok(Self(Slots { layout, bytes })),
            None => Err(Self(Slots { layout, bytes })),
        }
    }
}

impl<'a> Iterator for SlotIter<'a> {
    type Item = &'a mut [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a mut [u8]> {
        let mut slot = self.0.layout.take_first()?;
        // SAFETY: initialised bytes of a buffer that is borrowed uniquely for `'a`. No other slot overlaps this one, and nobody gets it
        // again.
        Some(unsafe { slot.as_mut() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for SlotIter<'_> {}

impl fmt::Debug for Slots<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slots({})", self.len())
    }
}

impl fmt::Debug for SlotIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotIter({} left)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Span, Stride};

    fn span(buf: u32, start: u32, len: u32) -> Span {
        Span { buf, start, len }
    }

    fn bufs(lens: &[usize]) -> Vec<Buf> {
        let buf = |len: &usize| Buf::zeroed(*len).expect("memory");
        lens.iter().map(buf).collect()
    }

    fn cases() -> Vec<(Vec<usize>, Items)> {
        let spaced = Stride {
            start: 1,
            len: 2,
            step: 5,
            count: 3,
        };
        let spans = |list: &[Span]| Items::Spans(list.to_vec());
        // One slot lies at no distance from another.
        let alone = Stride {
            start: 2,
            len: 3,
            step: 0,
            count: 1,
        };
        vec![
            (vec![5], Items::One),
            (vec![6], Items::Strided(alone)),
            (vec![9], Items::fixed(3, 3)),
            (vec![20], Items::Strided(spaced)),
            (vec![9], Items::Offsets([1, 1, 4, 8].into())),
            (
                vec![9],
                spans(&[span(0, 1, 2), span(0, 3, 0), span(0, 5, 4)]),
            ),
            (
                vec![4, 0, 6, 5],
                spans(&[span(0, 0, 1), span(0, 2, 2), span(2, 1, 3), span(3, 5, 0)]),
            ),
            (vec![4, 4], spans(&[])),
        ]
    }

    #[test]
    fn slots_are_where_items_would_be() {
        for (lens, items) in cases() {
            let (mut by_index, mut by_turn, mut outcomes) = (bufs(&lens), bufs(&lens), Vec::new());
            let mut out = BatchOut::of(&mut by_index, &items, &mut outcomes).expect("inside");
            for i in 0..out.slots.len() {
                out.slots[i].fill(i as u8 + 1);
            }
            let out = BatchOut::of(&mut by_turn, &items, &mut outcomes).expect("inside");
            for (i, slot) in out.slots.into_iter().enumerate() {
                slot.fill(i as u8 + 1);
            }
            let batch = Batch::of(&by_index, &items).expect("inside");
            for (i, item) in batch.iter().enumerate() {
                assert!(item.iter().all(|&byte| byte == i as u8 + 1), "{items:?}");
            }
            let written = |bufs: &[Buf]| bufs.iter().map(|buf| buf.to_vec()).collect::<Vec<_>>();
            assert_eq!(written(&by_index), written(&by_turn), "{items:?}");
            let count = written(&by_index)
                .concat()
                .iter()
                .filter(|&&byte| byte > 0)
                .count();
            assert_eq!(count, batch.bytes(), "{items:?}");
        }
    }

    #[test]
    fn picked_slots_are_those_of_their_items() {
        for (lens, items) in cases() {
            let (mut bufs, mut outcomes) = (bufs(&lens), Vec::new());
            let mut out = BatchOut::of(&mut bufs, &items, &mut outcomes).expect("inside");
            let odd: Vec<u32> = (1..out.slots.len() as u32).step_by(2).collect();
            let mut picks = [Picks::default(), Picks::default()];
            let [picks, more] = &mut picks;
            let mut picked = out.slots.pick(&odd, picks).expect("they rise");
            assert!(picked.contiguous().is_none());
            for i in 0..odd.len() {
                picked[i].fill(7);
            }
            assert!(picked.pick(&[odd.len() as u32], more).is_none());
            for (i, slot) in out.slots.into_iter().enumerate() {
                let right = if i % 2 == 1 { 7 } else { 0 };
                assert!(slot.iter().all(|&byte| byte == right), "{items:?}");
            }
        }
    }

    #[test]
    fn slots_are_handed_out_once_more_and_at_their_stride() {
        for (lens, items) in cases() {
            let (mut bufs, mut outcomes) = (bufs(&lens), Vec::new());
            let is_one_rule = lens.len() == 1 && matches!(items, Items::One | Items::Strided(_));
            let mut out = BatchOut::of(&mut bufs, &items, &mut outcomes).expect("inside");
            for (i, slot) in out.slots.reborrow().into_iter().enumerate() {
                slot.fill(i as u8 + 1);
            }
            // As they lie, some and all of them.
            for taken in 0..=items.count().min(2) {
                let mut slots = out.slots.reborrow().into_iter();
                for _ in 0..taken {
                    slots.next();
                }
                let slots = slots.strided();
                assert_eq!(slots.is_ok(), is_one_rule, "{items:?}");
                let slots = slots.unwrap_or_else(|elsewhere| elsewhere);
                assert_eq!(slots.len(), items.count() - taken, "{items:?}");
                for (i, slot) in slots.enumerate() {
                    let before = (16 * taken + taken + i) as u8 + 1;
                    assert!(slot.iter().all(|&byte| byte == before), "{items:?}");
                    slot.fill(before + 16);
                }
            }
            let batch = Batch::of(&bufs, &items).expect("inside");
            for (i, item) in batch.iter().enumerate() {
                let times = items.count().min(2).min(i) + 1;
                let right = (16 * times + i) as u8 + 1;
                assert!(item.iter().all(|&byte| byte == right), "{items:?}");
            }
        }
    }

    #[test]
    fn fixed_outputs_reach_their_slots_however_these_lie() {
        let src: Vec<u8> = (1..=200).collect();
        let items = Items::fixed(1, 200);
        let batch = Batch::new(&src, &items).expect("inside");
        // More than are gathered at a time, and outputs too long to be gathered.
        for (bytes, step) in [(3, 3), (32, 32), (32, 40), (1500, 1500), (1500, 1501)] {
            let slots = Items::Strided(Stride {
                start: 2,
                len: step.min(bytes + 5),
                step,
                count: 200,
            });
            let mut dst = vec![0; 2 + 200 * step as usize];
            let mut outcomes = Vec::new();
            let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("inside");
            out.fixed(&batch, bytes as usize, |batch, outputs| {
                let outputs = outputs.chunks_exact_mut(bytes as usize);
                assert_eq!(outputs.len(), batch.len());
                for (item, output) in batch.iter().zip(outputs) {
                    output.fill(item[0]);
                }
            });
            for (i, slot) in dst[2..].chunks(step as usize).enumerate() {
                let (output, room) = slot.split_at(bytes as usize);
                assert!(output.iter().all(|&byte| byte == i as u8 + 1));
                assert!(room.iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn slots_that_overlap_or_lie_outside_are_refused() {
        let stride = |len, step| {
            Items::Strided(Stride {
                start: 0,
                len,
                step,
                count: 2,
            })
        };
        let spans = |list: &[Span]| Items::Spans(list.to_vec());
        for (lens, items, error) in [
            (&[8][..], Items::fixed(3, 3), JobError::DstTooShort),
            (&[8], stride(3, 2), JobError::BadItems),
            (
                &[8],
                spans(&[span(0, 0, 3), span(0, 2, 1)]),
                JobError::BadItems,
            ),
            (
                &[8],
                spans(&[span(0, 4, 1), span(0, 2, 1)]),
                JobError::BadItems,
            ),
            (&[8], spans(&[span(0, 4, 5)]), JobError::DstTooShort),
            (&[8], spans(&[span(1, 0, 0)]), JobError::DstTooShort),
            (
                &[4, 4],
                spans(&[span(1, 0, 1), span(0, 0, 1)]),
                JobError::BadItems,
            ),
            (&[4, 4], spans(&[span(1, 4, 1)]), JobError::DstTooShort),
            (&[4, 4], Items::fixed(1, 1), JobError::DstTooShort),
        ] {
            let (mut bufs, mut outcomes) = (bufs(lens), Vec::new());
            let refused = BatchOut::of(&mut bufs, &items, &mut outcomes).map(|_| ());
            assert_eq!(refused, Err(error), "{items:?}");
        }
    }
}
