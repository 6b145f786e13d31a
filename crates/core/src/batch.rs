//! A job's input, checked: [`Batch`], the items as a kernel sees them.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

use crate::layout::{Layout, Picks};
use crate::{Buf, Items, JobError, Stride};

/// A job's input as a kernel sees it: every item lies inside its buffer.
#[derive(Clone, Copy)]
pub struct Batch<'a>(
    /// The buffers are shared for `'a`.
    Layout<'a>,
);

/// Each item in turn.
#[derive(Clone)]
pub struct BatchIter<'a>(Layout<'a>);

impl<'a> Batch<'a> {
    /// Items of any buffers.
    ///
    /// # Errors
    /// [`JobError::BadItems`] if one does not lie inside its buffer, or if items of one buffer come in several.
    #[inline]
    pub fn of(bufs: &'a [Buf], items: &'a Items) -> Result<Self, JobError> {
        if let [buf] = bufs {
            return Self::new(buf, items);
        }
        let layout = Layout::of_many(bufs, items);
        layout.map(Self).ok_or(JobError::BadItems)
    }

    /// Items of one buffer.
    ///
    /// # Errors
    /// [`JobError::BadItems`] if one does not lie inside `src`.
    #[inline]
    pub fn new(src: &'a [u8], items: &'a Items) -> Result<Self, JobError> {
        // SAFETY: the slice has so many bytes, and is shared for `'a`.
        let layout = unsafe { Layout::of_one(NonNull::from(src).cast(), src.len(), items) };
        layout.map(Self).ok_or(JobError::BadItems)
    }

    /// Items at a stride in `src`; `None` if one does not lie inside it.
    #[inline(always)]
    pub(crate) fn at_stride(src: &'a [u8], items: &Stride) -> Option<Self> {
        // SAFETY: as in `new`.
        unsafe { Layout::at_stride(NonNull::from(src).cast(), src.len(), items) }.map(Self)
    }

    /// The items `range` of these.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> Self {
        Self(self.0.part(range))
    }

    /// The items `indices` of these, each without its first `skipped` bytes; `None` if the indices do not rise, if there is no such item
    /// or it is shorter.
    pub fn pick<'b>(
        &'b self,
        indices: &[u32],
        skipped: usize,
        picks: &'b mut Picks,
    ) -> Option<Batch<'b>> {
        Layout::picked(&self.0, indices, skipped, picks).map(Batch)
    }

    /// The number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.count()
    }

    /// True if there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the longest item; zero without items.
    #[inline]
    pub fn longest(&self) -> usize {
        self.0.lens().reduce(self.len(), u32::max).unwrap_or(0)
    }

    /// Bytes of all items together; bytes that several items share count once for each.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.lens().sum(self.len())
    }

    /// All items as one slice and the length of each, if they have one length and lie one right behind another: the layout
    /// that most kernels have a fast path for.
    #[inline(always)]
    pub fn contiguous(&self) -> Option<(&'a [u8], usize)> {
        let (all, len) = self.0.contiguous()?;
        // SAFETY: see `shared`.
        Some((unsafe { shared(all) }, len))
    }

    /// The memory up to the end of the last item, and the offsets of the items in it, if they are described by offsets.
    #[inline]
    pub fn offsets(&self) -> Option<(&'a [u8], &'a [u32])> {
        let (base, offsets) = self.0.offsets()?;
        let end = offsets.last().map_or(0, |&end| end as usize);
        let all = NonNull::slice_from_raw_parts(base, end);
        // SAFETY: see `shared`; the last item ends in the buffer, whose start is `base`.
        Some((unsafe { shared(all) }, offsets))
    }

    /// Item `i`.
    ///
    /// # Panics
    /// If there is no such item.
    // Short items are over in ten nanoseconds; around a call, kernels would also save their vectors.
    #[inline(always)]
    pub fn item(&self, i: usize) -> &'a [u8] {
        // SAFETY: see `shared`.
        unsafe { shared(self.0.at(i)) }
    }

    /// See [`Layout::strided`].
    #[inline(always)]
    pub(crate) fn strided(self) -> Option<Self> {
        self.0.strided().map(Self)
    }

    /// The items, in turn.
    #[inline]
    pub fn iter(self) -> BatchIter<'a> {
        BatchIter(self.0)
    }
}

impl<'a> BatchIter<'a> {
    /// The same items if they lie at a stride. The compiler then knows that, and a loop over them steps by one addition.
    #[inline(always)]
    pub fn strided(&self) -> Option<Self> {
        self.0.strided().map(Self)
    }

    /// The item that comes `ahead` items behind the next one, if there is one.
    #[inline(always)]
    pub fn peek(&self, ahead: usize) -> Option<&'a [u8]> {
        match ahead < self.0.count() {
            // SAFETY: see `shared`.
            true => Some(unsafe { shared(self.0.at(ahead)) }),
            false => None,
        }
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        // SAFETY: see `shared`.
        self.0.take_first().map(|item| unsafe { shared(item) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.count(), Some(self.0.count()))
    }
}

impl ExactSizeIterator for BatchIter<'_> {}

/// Bytes of a batch.
///
/// # Safety
/// They lie in buffers that are shared for `'a`, as those of a layout do that a [`Batch`] was made of.
#[inline(always)]
unsafe fn shared<'a>(bytes: NonNull<[u8]>) -> &'a [u8] {
    // SAFETY: as the caller says; buffers are initialised.
    unsafe { bytes.as_ref() }
}

impl fmt::Debug for BatchIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchIter({} items)", self.0.count())
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} items, {} bytes)", self.len(), self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Offsets, Span};

    fn bufs(lens: &[usize]) -> Vec<Buf> {
        let mut byte = 0;
        let buf = |len: &usize| {
            let mut buf = Buf::zeroed(*len).expect("memory");
            buf.fill_with(|| {
                byte += 1;
                byte
            });
            buf
        };
        lens.iter().map(buf).collect()
    }

    fn stride(start: u32, len: u32, step: u32, count: u32) -> Items {
        Items::Strided(Stride {
            start,
            len,
            step,
            count,
        })
    }

    fn span(buf: u32, start: u32, len: u32) -> Span {
        Span { buf, start, len }
    }

    #[test]
    fn items_are_found_however_they_are_described() {
        /// Lengths of the buffers, the items in them, and what these hold.
        type Case<'a> = (&'a [usize], Items, &'a [&'a [u8]]);
        let spans = |list: &[Span]| Items::Spans(list.to_vec());
        let cases: [Case<'_>; 9] = [
            (&[3], Items::One, &[&[1, 2, 3]]),
            (&[0], Items::One, &[&[]]),
            (&[6], Items::fixed(2, 2), &[&[1, 2], &[3, 4]]),
            (&[6], stride(1, 1, 2, 3), &[&[2], &[4], &[6]]),
            // Distances shorter than items: they overlap.
            (&[4], stride(0, 3, 1, 2), &[&[1, 2, 3], &[2, 3, 4]]),
            (&[4], stride(9, 9, 9, 0), &[]),
            (&[5], Items::Offsets([1, 1, 4].into()), &[&[], &[2, 3, 4]]),
            (
                &[4],
                spans(&[span(0, 2, 2), span(0, 0, 3)]),
                &[&[3, 4], &[1, 2, 3]],
            ),
            (
                &[2, 3],
                spans(&[span(1, 1, 2), span(0, 0, 2), span(1, 3, 0)]),
                &[&[4, 5], &[1, 2], &[]],
            ),
        ];
        for (lens, items, right) in cases {
            let bufs = bufs(lens);
            let batch = Batch::of(&bufs, &items).unwrap_or_else(|_| panic!("{items:?}"));
            assert!(batch.iter().eq(right.iter().copied()), "{items:?}");
            let strided = batch.iter().strided();
            let are_strided = matches!(items, Items::One | Items::Strided(_));
            assert_eq!(strided.is_some(), are_strided, "{items:?}");
            if let Some(strided) = strided {
                assert!(strided.eq(right.iter().copied()), "{items:?}");
            }
            let mut left = batch.iter();
            left.next();
            let peeked: Vec<_> = (0..right.len()).map_while(|i| left.peek(i)).collect();
            assert_eq!(peeked, right[right.len().min(1)..], "{items:?}");
            let places = (0..items.count()).map(|i| items.place(i, &bufs).bytes(&bufs));
            assert!(places.eq(right.iter().copied()), "{items:?}");
            for first in 0..=right.len() {
                let part = batch.part(first..right.len());
                assert!(part.iter().eq(right[first..].iter().copied()), "{items:?}");
            }
            // All of them, the last alone, none; then without their first byte those that have one.
            let all: Vec<u32> = (0..right.len() as u32).collect();
            let last = all.last().map_or(&[][..], std::slice::from_ref);
            for indices in [&all[..], last, &[]] {
                let mut picks = [Picks::default(), Picks::default()];
                let [picks, shorter] = &mut picks;
                let picked = batch.pick(indices, 0, picks).expect("they rise");
                let right: Vec<&[u8]> = indices.iter().map(|&i| right[i as usize]).collect();
                assert!(picked.iter().eq(right.iter().copied()), "{items:?}");
                assert_eq!(picked.bytes(), right.concat().len(), "{items:?}");
                let long: Vec<u32> = (0..right.len() as u32)
                    .filter(|&i| !right[i as usize].is_empty())
                    .collect();
                let shorter = picked.pick(&long, 1, shorter).expect("a byte each");
                let right = long.iter().map(|&i| &right[i as usize][1..]);
                assert!(shorter.iter().eq(right.clone()), "{items:?}");
                let longest = right.map(<[u8]>::len).max();
                assert_eq!(shorter.longest(), longest.unwrap_or(0), "{items:?}");
                assert_eq!(shorter.contiguous(), None);
            }
            let picks = &mut Picks::default();
            assert!(batch.pick(&[right.len() as u32], 0, picks).is_none());
            assert!(right.is_empty() || batch.pick(&[0, 0], 0, picks).is_none());
            let too_long = right.iter().any(|item| item.len() < 4);
            assert_eq!(batch.pick(&all, 4, picks).is_none(), too_long, "{items:?}");
            assert_eq!(batch.bytes(), right.concat().len(), "{items:?}");
            let longest = right.iter().map(|item| item.len()).max();
            assert_eq!(batch.longest(), longest.unwrap_or(0), "{items:?}");
        }
    }

    #[test]
    fn only_items_of_one_length_without_gaps_are_one_slice() {
        let bytes = [1, 2, 3, 4, 5, 6];
        for (items, right) in [
            (Items::fixed(2, 3), Some((&bytes[..], 2))),
            (stride(1, 2, 2, 2), Some((&bytes[1..5], 2))),
            (stride(1, 2, 5, 1), Some((&bytes[1..3], 2))),
            (stride(1, 1, 2, 2), None),
            (stride(7, 1, 1, 0), Some((&bytes[..0], 1))),
            (Items::One, Some((&bytes[..], 6))),
            (Items::Offsets([0, 3, 6].into()), None),
        ] {
            let batch = Batch::new(&bytes, &items).expect("inside");
            assert_eq!(batch.contiguous(), right, "{items:?}");
        }
    }

    #[test]
    fn offsets_are_equal_whoever_has_them() {
        let shared: Offsets = [0, 4].into();
        assert_eq!(shared, Offsets::from(vec![0, 4]));
        assert_eq!(
            Items::one_behind_another([4]),
            Items::Offsets(Offsets::from(vec![0, 4]))
        );
    }
}
