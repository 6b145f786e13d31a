//! Where the items of a job lie: [`Items`]. Those of its input, checked once, are a [`Batch`].
//!
//! Items may lie anywhere: one behind another, a stride apart with room before and behind, or in buffers of their own, as
//! packets do. Outputs are described alike (see [`BatchOut`](crate::BatchOut)), so the output of one job is the input of the
//! next where it lies:
//!
//! ```
//! use dpb_core::{Batch, Buf, Items, Span};
//!
//! // Two packets, each in a buffer of its own with 4 bytes before it.
//! let packet = |byte: u8| {
//!     let mut buf = Buf::zeroed(12).expect("memory");
//!     buf[4..].fill(byte);
//!     buf
//! };
//! let packets = [packet(1), packet(2)];
//! let payload = |buf: u32| Span { buf, start: 4, len: 8 };
//! let items = Items::Spans(vec![payload(0), payload(1)]);
//! let batch = Batch::of(&packets, &items)?;
//! assert_eq!(batch.item(1), [2; 8]);
//! # Ok::<(), dpb_core::JobError>(())
//! ```

#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::layout::{Layout, Lens};
use crate::{Buf, JobError, Place};

/// Where the items of a job lie in its buffers. A finished job gives its list back, to be filled for the next job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Items {
    /// The only buffer is one item.
    One,
    /// Items of one length at equal distances, in one buffer.
    Strided(Stride),
    /// Item *i* is `offsets[i]..offsets[i + 1]` of one buffer: one more offset than items, none decreasing.
    Offsets(Offsets),
    /// Items anywhere in the buffers, in any order; they may overlap.
    Spans(Vec<Span>),
}

/// `count` items of `len` bytes; item *i* starts at `start + i * step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    /// Bytes before the first item.
    pub start: u32,
    /// Bytes of an item.
    pub len: u32,
    /// Bytes from the start of an item to the start of the next.
    pub step: u32,
    /// How many items.
    pub count: u32,
}

/// Where one item lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The number of its buffer.
    pub buf: u32,
    /// Its first byte in that buffer.
    pub start: u32,
    /// Its bytes.
    pub len: u32,
}

/// A list of offsets: of one job, or shared by many that read the same items.
#[derive(Clone, Debug)]
pub enum Offsets {
    /// To be written anew for the next job.
    Own(Vec<u32>),
    /// Cloned without an allocation.
    Shared(Arc<[u32]>),
}

/// A job's input as a kernel sees it: every item lies inside its buffer.
#[derive(Clone, Copy)]
pub struct Batch<'a>(
    /// The buffers are shared for `'a`.
    Layout<'a>,
);

/// Each item in turn.
#[derive(Clone)]
pub struct BatchIter<'a>(Layout<'a>);

impl Items {
    /// `count` items of `len` bytes, one right behind another from the start of one buffer.
    pub const fn fixed(len: u32, count: u32) -> Self {
        Self::Strided(Stride {
            start: 0,
            len,
            step: len,
            count,
        })
    }

    /// Items one right behind another, from the start of one buffer, by the lengths of each.
    ///
    /// # Panics
    /// If they are 4 GiB or more together.
    pub fn one_behind_another(lens: impl IntoIterator<Item = usize>) -> Self {
        let mut end = 0_u32;
        let ends = lens.into_iter().map(|len| {
            let len = u32::try_from(len).expect("below 4 GiB");
            end = end.checked_add(len).expect("below 4 GiB");
            end
        });
        Self::Offsets(std::iter::once(0).chain(ends).collect())
    }

    /// The list of spans, emptied, for the next job; a new one if this is none.
    #[must_use]
    pub fn into_spans(self) -> Vec<Span> {
        match self {
            Self::Spans(mut spans) => {
                spans.clear();
                spans
            }
            _ => Vec::new(),
        }
    }

    /// How many items.
    #[inline]
    pub fn count(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Strided(stride) => stride.count as usize,
            Self::Offsets(offsets) => offsets.len().saturating_sub(1),
            Self::Spans(spans) => spans.len(),
        }
    }

    /// Where item `i` lies in `bufs`. For items that are checked already.
    ///
    /// # Panics
    /// It may, if there is no such item; otherwise the place is of no item.
    #[inline]
    pub fn place(&self, i: usize, bufs: &[Buf]) -> Place {
        let [buf, start, len] = match self {
            Self::One => [0, 0, bufs[0].len()],
            Self::Strided(stride) => {
                let [start, len, step] =
                    [stride.start, stride.len, stride.step].map(|n| n as usize);
                [0, start + i * step, len]
            }
            Self::Offsets(offsets) => {
                let [start, end] = [offsets[i], offsets[i + 1]].map(|n| n as usize);
                [0, start, end - start]
            }
            Self::Spans(spans) => {
                let span = spans[i];
                [span.buf, span.start, span.len].map(|n| n as usize)
            }
        };
        Place { buf, start, len }
    }
}

impl Default for Items {
    /// None.
    fn default() -> Self {
        Self::Spans(Vec::new())
    }
}

impl Stride {
    /// Whether the last item ends within `bytes`. Items that do not exist lie nowhere.
    #[inline]
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let Some(before) = self.count.checked_sub(1) else {
            return true;
        };
        let end = (before as usize)
            .checked_mul(self.step as usize)
            .and_then(|last| last.checked_add(self.start as usize))
            .and_then(|last| last.checked_add(self.len as usize));
        end.is_some_and(|end| end <= bytes)
    }
}

impl Deref for Offsets {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::Own(list) => list,
            Self::Shared(list) => list,
        }
    }
}

impl PartialEq for Offsets {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Offsets {}

impl FromIterator<u32> for Offsets {
    /// To be shared.
    fn from_iter<T: IntoIterator<Item = u32>>(offsets: T) -> Self {
        Self::Shared(offsets.into_iter().collect())
    }
}

impl<const N: usize> From<[u32; N]> for Offsets {
    fn from(offsets: [u32; N]) -> Self {
        Self::Shared(offsets.into())
    }
}

impl From<Vec<u32>> for Offsets {
    fn from(offsets: Vec<u32>) -> Self {
        Self::Own(offsets)
    }
}

impl Span {
    /// Where it ends in its buffer.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.start) + u64::from(self.len)
    }
}

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

    /// The items `range` of these.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> Self {
        Self(self.0.part(range))
    }

    /// How many items.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.count()
    }

    /// Whether there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the longest item; zero without items.
    #[inline]
    pub fn longest(&self) -> usize {
        self.0.lens().reduce(self.len(), u32::max).unwrap_or(0)
    }

    /// Bytes of all items together; what several share counts for each.
    #[inline]
    pub fn bytes(&self) -> usize {
        match self.0.lens() {
            Lens::Equal(len) => len * self.len(),
            Lens::Between(offsets) => match offsets {
                [first, .., last] => (last - first) as usize,
                _ => 0,
            },
            Lens::Each(spans) => spans.iter().map(|span| span.len as usize).sum(),
        }
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
            let places = (0..items.count()).map(|i| items.place(i, &bufs).bytes(&bufs));
            assert!(places.eq(right.iter().copied()), "{items:?}");
            for first in 0..=right.len() {
                let part = batch.part(first..right.len());
                assert!(part.iter().eq(right[first..].iter().copied()), "{items:?}");
            }
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
