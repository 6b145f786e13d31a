//! Jobs that write their outputs over their items: [`InPlace`], as a kernel sees one.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::layout::{Layout, Picks};
use crate::{Buf, Items, JobError, Place, Stride};

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
    items: Layout<'a>,
    slots: Layout<'a>,
    shortest_slot: usize,
    /// The buffers are borrowed uniquely.
    bytes: PhantomData<&'a mut [u8]>,
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
    #[inline(always)]
    pub fn of(
        bufs: &'a mut [Buf],
        [items, slots]: [&'a Items; 2],
        offset: usize,
        outcomes: &'a mut Vec<Result<u32, JobError>>,
    ) -> Result<Self, JobError> {
        let bufs = &*bufs;
        let layout = |items: &'a Items| match bufs {
            // SAFETY: the buffer has so many bytes, and is borrowed for `'a`.
            [buf] => unsafe { Layout::of_one(buf.as_non_null(), buf.len(), items) },
            bufs => Layout::of_many(bufs, items),
        };
        let of_items = layout(items).ok_or(JobError::BadItems)?;
        let of_slots = layout(slots).ok_or(JobError::DstTooShort)?;
        if of_items.count() != of_slots.count() {
            return Err(JobError::BadItems);
        }
        let shortest_slot = match (items, slots) {
            (Items::Strided(items), Items::Strided(slots)) => at_stride(items, slots, offset),
            _ => each_in_place(items, slots, offset, bufs),
        };
        let shortest_slot = shortest_slot.ok_or(JobError::BadItems)?;
        let items = Overlays {
            items: of_items,
            slots: of_slots,
            shortest_slot,
            bytes: PhantomData,
        };
        Ok(Self { items, outcomes })
    }
}

/// Bytes of the shortest slot, if each item has its slot `offset` bytes behind its start, and none overlaps what is another's.
/// Without slots no bound.
#[inline]
fn at_stride(items: &Stride, slots: &Stride, offset: usize) -> Option<usize> {
    let [item, slot] = [items, slots].map(|stride| [stride.start, stride.len].map(|n| n as usize));
    let bytes = item[1].max(offset.checked_add(slot[1])?);
    let is_right = match items.count {
        0 => return Some(usize::MAX),
        1 => true,
        _ => items.step == slots.step && bytes <= items.step as usize,
    };
    let begins = item[0].checked_add(offset) == Some(slot[0]);
    (is_right && begins).then_some(slot[1])
}

/// The same for items anywhere.
fn each_in_place(items: &Items, slots: &Items, offset: usize, bufs: &[Buf]) -> Option<usize> {
    let (mut last, mut shortest_slot) = ((0, 0), usize::MAX);
    for i in 0..items.count() {
        let [item, slot] = [items, slots].map(|items| items.place(i, bufs));
        let start = item.start.checked_add(offset);
        let is_overlay = slot.buf == item.buf && start == Some(slot.start);
        if !is_overlay || last > (item.buf, item.start) {
            return None;
        }
        last = (item.buf, end(&item).max(end(&slot)));
        shortest_slot = shortest_slot.min(slot.len);
    }
    Some(shortest_slot)
}

impl Overlays<'_> {
    /// Item `i` of those that are left.
    ///
    /// # Panics
    /// If there is no such item.
    #[inline(always)]
    pub fn item(&self, i: usize) -> &[u8] {
        // SAFETY: initialised bytes of a buffer that is borrowed uniquely, of an item that nobody was given; `self` is shared.
        unsafe { self.items.at(i).as_ref() }
    }

    /// Those that are left once more, for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Overlays<'_> {
        Overlays {
            items: self.items,
            slots: self.slots,
            ..*self
        }
    }

    /// The items `indices` of those that are left, each without its first `skipped` bytes; `None` if the indices do not rise, if there
    /// is no such item or it is shorter, or if its slot begins earlier.
    pub fn pick<'b>(
        &'b mut self,
        indices: &[u32],
        skipped: usize,
        [of_items, of_slots]: [&'b mut Picks; 2],
    ) -> Option<Overlays<'b>> {
        let items = Layout::picked(&self.items, indices, skipped, of_items)?;
        let slots = Layout::picked(&self.slots, indices, 0, of_slots)?;
        let start = |layout: &Layout<'_>, i: usize| layout.at(i).cast::<u8>();
        let is_overlay = |i: usize| start(&slots, i) >= start(&items, i);
        let are_overlays = (0..indices.len()).all(is_overlay);
        are_overlays.then_some(Overlays {
            items,
            slots,
            shortest_slot: self.shortest_slot,
            bytes: PhantomData,
        })
    }

    /// Bytes of the shortest slot; without slots no bound.
    pub(crate) fn shortest_slot(&self) -> usize {
        self.shortest_slot
    }
}

impl<'a> Iterator for Overlays<'a> {
    type Item = Overlay<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Overlay<'a>> {
        let (item, slot) = (self.items.take_first()?, self.slots.take_first()?);
        let start = item.cast::<u8>();
        // SAFETY: both lie in one buffer.
        let offset = unsafe { slot.cast::<u8>().offset_from_unsigned(start) };
        let len = item.len().max(offset + slot.len());
        let mut bytes = NonNull::slice_from_raw_parts(start, len);
        Some(Overlay {
            // SAFETY: initialised bytes of a buffer that is borrowed uniquely for `'a`. No other item or slot overlaps them, and nobody
            // gets them again.
            bytes: unsafe { bytes.as_mut() },
            item_len: item.len(),
            slot_len: slot.len(),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.items.count(), Some(self.items.count()))
    }
}

impl ExactSizeIterator for Overlays<'_> {}

impl fmt::Debug for Overlays<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Overlays({} left)", self.items.count())
    }
}

fn end(place: &Place) -> usize {
    place.start + place.len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

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

    /// A kernel may walk its items twice, also those that are left after some.
    #[test]
    fn items_come_once_more() {
        let cases = [
            (&[16][..], stride(1, 3), stride(2, 5)),
            (
                &[9, 7],
                spans(&[span(0, 0, 4), span(0, 6, 1), span(1, 2, 3)]),
                spans(&[span(0, 1, 5), span(0, 7, 2), span(1, 3, 1)]),
            ),
        ];
        for (lens, items, slots) in cases {
            let (mut bufs, mut outcomes) = (bufs(lens), Vec::new());
            let work = InPlace::of(&mut bufs, [&items, &slots], 1, &mut outcomes);
            let mut left = work.expect("overlays").items;
            for (i, overlay) in left.reborrow().enumerate() {
                overlay.bytes.fill(i as u8 + 1);
            }
            let first = left.next().expect("the first");
            assert!(first.bytes.iter().all(|&byte| byte == 1));
            assert_eq!(left.reborrow().len(), items.count() - 1);
            for _ in 0..2 {
                for (i, overlay) in left.reborrow().enumerate() {
                    assert!(overlay.bytes.iter().all(|&byte| byte % 16 == i as u8 + 2));
                    let lens = [&items, &slots].map(|items| items.place(i + 1, &[]).len);
                    assert_eq!([overlay.item_len, overlay.slot_len], lens);
                    overlay.bytes.iter_mut().for_each(|byte| *byte += 16);
                }
            }
            // What was taken before is the caller's still.
            first.bytes.fill(7);
            assert_eq!(left.item(0)[0], 32 + 2);
        }
    }

    #[test]
    fn picked_items_come_with_their_slots() {
        let (mut bufs, mut outcomes) = (bufs(&[16, 9]), Vec::new());
        let items = spans(&[span(0, 0, 4), span(0, 6, 3), span(1, 1, 1), span(1, 4, 4)]);
        let slots = spans(&[span(0, 2, 2), span(0, 8, 3), span(1, 3, 0), span(1, 6, 2)]);
        let mut work = InPlace::of(&mut bufs, [&items, &slots], 2, &mut outcomes).expect("apart");
        // Shorter than what is skipped, and skipped beyond the start of a slot.
        let mut picks = [Picks::default(), Picks::default()];
        for (indices, skipped) in [([1, 2], 2), ([0, 1], 3), ([1, 0], 0)] {
            let picked = work.items.pick(&indices, skipped, picks.each_mut());
            assert!(picked.is_none());
        }
        let picked = work.items.pick(&[1, 3], 2, picks.each_mut());
        let picked = picked.expect("long enough");
        assert_eq!(picked.item(1), [0; 2]);
        for overlay in picked {
            assert_eq!(overlay.bytes.len(), overlay.item_len.max(overlay.slot_len));
            overlay.bytes.fill(7);
        }
        // The others are there still.
        work.items.next().expect("the first").bytes.fill(1);
        assert_eq!(work.items.item(0), [0, 0, 7]);
        assert_eq!(
            bufs[0][..],
            [1, 1, 1, 1, 0, 0, 0, 0, 7, 7, 7, 0, 0, 0, 0, 0]
        );
        assert_eq!(bufs[1][..], [0, 0, 0, 0, 0, 0, 7, 7, 0]);
    }

    /// Strides are looked at as a whole, other layouts item by item: both say the same of the same items.
    #[test]
    fn strides_are_judged_as_their_items_are() {
        let bufs = bufs(&[64]);
        let mut admitted = 0;
        let mut random = crate::random::SplitMix64::new(3);
        let times = if cfg!(miri) { 200 } else { 200_000 };
        for _ in 0..times {
            let mut below = |n: usize| random.below(n) as u32;
            let items = Stride {
                start: below(3),
                len: below(5),
                step: below(7),
                count: below(4),
            };
            let slots = Stride {
                start: items.start + below(3),
                len: below(5),
                step: items.step + below(8) / 7,
                count: items.count,
            };
            let offset = below(3) as usize;
            let whole = at_stride(&items, &slots, offset);
            let each = [items, slots].map(Items::Strided);
            assert_eq!(
                whole,
                each_in_place(&each[0], &each[1], offset, &bufs),
                "{items:?} {slots:?} {offset}"
            );
            admitted += u32::from(whole.is_some());
        }
        assert!(
            (times / 20..times).contains(&admitted),
            "{admitted} of {times}"
        );
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
        // An operator that says nonsense: the sum would wrap to the slot in front of the item.
        let (mut bufs, mut outcomes) = (bufs(&[8]), Vec::new());
        let [items, slots] = [[span(0, 1, 1)], [span(0, 0, 0)]].map(|list| spans(&list));
        let refused = InPlace::of(&mut bufs, [&items, &slots], usize::MAX, &mut outcomes);
        assert_eq!(refused.map(|_| ()).err(), Some(bad));
    }
}
