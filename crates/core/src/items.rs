//! Where the items of a job lie: [`Items`]. Those of its input, checked once, are a [`Batch`](crate::Batch).
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

use std::ops::Deref;
use std::sync::Arc;

use crate::{Buf, Place};

/// The places of a job's items in its buffers. A finished job gives its list back, to be filled for the next job:
/// [`Items::into_spans`], [`Items::into_offsets`].
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
    /// The number of items.
    pub count: u32,
}

/// The place of one item.
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

/// Spare lists of spans: a caller that alternates between layouts allocates nothing.
#[derive(Debug)]
pub(crate) struct SpareLists(Vec<Vec<Span>>);

impl SpareLists {
    /// `lists` lists for up to `items` items each, and place for more of them.
    pub(crate) fn new(lists: usize, items: usize) -> Self {
        // Each of the two places of a job may bring one of its own.
        let mut spare = Vec::with_capacity(lists + 2);
        spare.extend((0..lists).map(|_| Vec::with_capacity(items)));
        Self(spare)
    }

    /// An empty list.
    pub(crate) fn take(&mut self) -> Vec<Span> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the list that `items` have, if they have one.
    pub(crate) fn keep(&mut self, items: Items) {
        let list = items.into_spans();
        if list.capacity() > 0 {
            self.0.push(list);
        }
    }
}

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

    /// The job's own list of offsets, emptied, for the next job; a new one if this is none, or one that jobs share.
    #[must_use]
    pub fn into_offsets(self) -> Vec<u32> {
        match self {
            Self::Offsets(Offsets::Own(mut offsets)) => {
                offsets.clear();
                offsets
            }
            _ => Vec::new(),
        }
    }

    /// The number of items.
    #[inline]
    pub fn count(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Strided(stride) => stride.count as usize,
            Self::Offsets(offsets) => offsets.len().saturating_sub(1),
            Self::Spans(spans) => spans.len(),
        }
    }

    /// The place of item `i` in `bufs`. For items that are checked already.
    ///
    /// # Panics
    /// It may, if there is no such item; otherwise the place is of no item.
    #[inline(always)]
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
    /// True if the last item ends within `bytes`. Items that do not exist lie nowhere.
    #[inline(always)]
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let [start, len, step, count] =
            [self.start, self.len, self.step, self.count].map(u64::from);
        // With the largest of each this is 2^64 - 2^32.
        let end = count.saturating_sub(1) * step + start + len;
        count == 0 || end <= bytes as u64
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
    /// The byte behind its last one.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.start) + u64::from(self.len)
    }
}
