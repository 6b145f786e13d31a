//! Jobs that write their outputs over their items: [`InPlace`], as a kernel sees one.

use std::fmt;

use crate::items::Layout;
use crate::slots::Parts;
use crate::{Buf, Items, JobError, Place};

/// The items of a job that works in place, and their outcomes if the shape is variable.
#[derive(Debug)]
pub struct InPlace<'a> {
    /// Each item with its slot, in the order of their addresses.
    pub items: Overlays<'a>,
    /// See [`BatchOut::outcomes`](crate::BatchOut::outcomes).
    pub outcomes: &'a mut Vec<Result<u32, JobError>>,
}

/// Each item with its slot, in turn. None overlaps another.
pub struct Overlays<'a> {
    parts: Parts<'a>,
    items: Layout<'a>,
    slots: Layout<'a>,
    next: usize,
    count: usize,
    shortest_slot: usize,
}

/// An item and its slot, which begins as far behind the item's start as [`Operator::in_place`](crate::Operator::in_place) says.
#[derive(Debug)]
pub struct Overlay<'a> {
    /// From the start of the item to its end, or to that of its slot if this is further.
    pub bytes: &'a mut [u8],
    /// Bytes of the item.
    pub item_len: usize,
    /// Bytes of the slot.
    pub slot_len: usize,
}

impl<'a> InPlace<'a> {
    /// Items and slots of any buffers; each slot begins `offset` bytes behind the start of its item.
    ///
    /// # Errors
    /// [`JobError::BadItems`] if they are not as many, if one does not begin where it should, or if an item or its slot overlaps
    /// another's or comes before it. [`JobError::DstTooShort`] if a slot does not lie inside its buffer.
    pub fn of(
        bufs: &'a mut [Buf],
        [items, slots]: [&'a Items; 2],
        offset: usize,
        outcomes: &'a mut Vec<Result<u32, JobError>>,
    ) -> Result<Self, JobError> {
        let count = items.count();
        let layout = |items: &'a Items| match &*bufs {
            [buf] => Layout::of_one(items, buf.len()),
            bufs => Layout::of_many(items, bufs),
        };
        let items = layout(items).ok_or(JobError::BadItems)?;
        let counted = slots.count();
        let slots = layout(slots).ok_or(JobError::DstTooShort)?;
        if counted != count {
            return Err(JobError::BadItems);
        }
        let (mut last, mut shortest_slot) = ((0, 0), usize::MAX);
        for i in 0..count {
            let (item, slot) = (items.place(i), slots.place(i));
            let is_overlay = (slot.buf, slot.start) == (item.buf, item.start + offset);
            if !is_overlay || last > (item.buf, item.start) {
                return Err(JobError::BadItems);
            }
            last = (item.buf, end(&item).max(end(&slot)));
            shortest_slot = shortest_slot.min(slot.len);
        }
        let parts = match bufs {
            [buf] => Parts::new(buf, &mut []),
            bufs => Parts::new(&mut [], bufs),
        };
        let items = Overlays {
            parts,
            items,
            slots,
            next: 0,
            count,
            shortest_slot,
        };
        Ok(Self { items, outcomes })
    }
}

impl Overlays<'_> {
    /// Bytes of the shortest slot; without slots no bound.
    pub(crate) fn shortest_slot(&self) -> usize {
        self.shortest_slot
    }
}

impl<'a> Iterator for Overlays<'a> {
    type Item = Overlay<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Overlay<'a>> {
        let i = self.next;
        if i == self.count {
            return None;
        }
        self.next = i + 1;
        let (item, slot) = (self.items.place(i), self.slots.place(i));
        let range = item.start..end(&item).max(end(&slot));
        Some(Overlay {
            bytes: self.parts.next(item.buf, range),
            item_len: item.len,
            slot_len: slot.len,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.next, Some(self.count - self.next))
    }
}

impl ExactSizeIterator for Overlays<'_> {}

impl fmt::Debug for Overlays<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Overlays({} of {})", self.next, self.count)
    }
}

fn end(place: &Place) -> usize {
    place.start + place.len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Span, Stride};

    fn span(buf: u32, start: u32, len: u32) -> Span {
        Span { buf, start, len }
    }

    fn spans(list: &[Span]) -> Items {
        Items::Spans(list.to_vec())
    }

    fn stride(start: u32, len: u32) -> Items {
        Items::Strided(Stride {
            start,
            len,
            step: 8,
            count: 2,
        })
    }

    fn bufs(lens: &[usize]) -> Vec<Buf> {
        let buf = |len: &usize| Buf::zeroed(*len).expect("memory");
        lens.iter().map(buf).collect()
    }

    #[test]
    fn each_item_comes_with_its_slot() {
        let cases = [
            (&[16][..], stride(1, 3), stride(2, 5)),
            (&[16], stride(1, 5), stride(2, 1)),
            (
                &[9, 0, 7],
                spans(&[span(0, 0, 4), span(0, 6, 1), span(2, 2, 3)]),
                spans(&[span(0, 1, 5), span(0, 7, 2), span(2, 3, 0)]),
            ),
            (&[4, 4], spans(&[]), spans(&[])),
        ];
        for (lens, items, slots) in cases {
            let (mut written, mut right, mut outcomes) = (bufs(lens), bufs(lens), Vec::new());
            for i in 0..items.count() {
                let (item, slot) = (items.place(i, &right), slots.place(i, &right));
                let end = end(&item).max(end(&slot));
                right[item.buf][item.start..end].fill(i as u8 + 1);
            }
            let work = InPlace::of(&mut written, [&items, &slots], 1, &mut outcomes);
            for (i, overlay) in work.expect("overlays").items.enumerate() {
                let lens = [&items, &slots].map(|items| items.place(i, &right).len);
                assert_eq!([overlay.item_len, overlay.slot_len], lens);
                overlay.bytes.fill(i as u8 + 1);
            }
            for (written, right) in written.iter().zip(&right) {
                assert_eq!(written[..], right[..], "{items:?} {slots:?}");
            }
        }
    }

    #[test]
    fn what_is_no_overlay_is_refused() {
        let bad = JobError::BadItems;
        for (lens, items, slots, error) in [
            (&[16][..], stride(0, 3), stride(2, 3), bad),
            (&[18], stride(1, 3), stride(2, 8), bad),
            (&[16], stride(0, 9), stride(1, 3), bad),
            (&[17], stride(0, 3), Items::fixed(3, 1), bad),
            (&[16], stride(0, 3), stride(1, 8), JobError::DstTooShort),
            (
                &[16],
                spans(&[span(0, 16, 1)]),
                spans(&[span(0, 0, 0)]),
                bad,
            ),
            (
                &[8, 8],
                spans(&[span(0, 0, 1)]),
                spans(&[span(1, 1, 1)]),
                bad,
            ),
            (
                &[8, 8],
                spans(&[span(1, 0, 1), span(0, 0, 1)]),
                spans(&[span(1, 1, 1), span(0, 1, 1)]),
                bad,
            ),
        ] {
            let (mut bufs, mut outcomes) = (bufs(lens), Vec::new());
            let refused = InPlace::of(&mut bufs, [&items, &slots], 1, &mut outcomes).map(|_| ());
            assert_eq!(refused, Err(error), "{items:?} {slots:?}");
        }
    }
}
