//! Where items lie, as addresses: what [`Batch`](crate::Batch), [`Slots`](crate::Slots) and
//! [`Overlays`](crate::Overlays) are made of.
//!
//! Some items are done in two nanoseconds, so finding the next one may cost a few instructions at most. All checks are done once, when a
//! layout is made; it is small, because it is handed from call to call.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use crate::{Buf, Items, Span, Stride};

/// Items of which it was checked that each lies inside its buffer. The maker holds a borrow of the buffers for `'a`; they
/// may be written only if it is unique.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    rule: Rule,
    /// The list that the rule points to, if it does, has as many entries; of offsets one more.
    count: usize,
    buffers: PhantomData<&'a [u8]>,
}

/// Where the next item lies, and how the one behind it is found.
#[derive(Clone, Copy)]
enum Rule {
    Strided {
        first: NonNull<u8>,
        len: usize,
        step: usize,
    },
    Offsets {
        base: NonNull<u8>,
        offsets: NonNull<u32>,
    },
    /// Items at spans of one buffer.
    Spans {
        base: NonNull<u8>,
        spans: NonNull<Span>,
    },
    /// Items at spans of several buffers.
    Scattered {
        bufs: NonNull<Buf>,
        spans: NonNull<Span>,
    },
    /// Items that each were found before.
    Listed { places: NonNull<NonNull<[u8]>> },
}

/// Room for the places of items that are picked out of others ([`Batch::pick`](crate::Batch::pick)): part of a scratch, so that
/// nothing is allocated for a job.
#[derive(Debug, Default)]
pub struct Picks(Vec<NonNull<[u8]>>);

impl Picks {
    /// Room for `items` items; for more it grows.
    pub fn with_capacity(items: usize) -> Self {
        Self(Vec::with_capacity(items))
    }
}

// SAFETY: what it holds is read through a layout alone, which borrows it and the items.
unsafe impl Send for Picks {}
// SAFETY: as above.
unsafe impl Sync for Picks {}

// SAFETY: a layout reads lists and buffers that are `Sync`, and only to say addresses.
unsafe impl Send for Layout<'_> {}
// SAFETY: as above.
unsafe impl Sync for Layout<'_> {}

impl<'a> Layout<'a> {
    /// Items of one buffer of `bytes` bytes that starts at `base`, if they lie inside it.
    ///
    /// # Safety
    /// `base` points to `bytes` bytes that are borrowed for `'a`.
    #[inline]
    pub(crate) unsafe fn of_one(base: NonNull<u8>, bytes: usize, items: &'a Items) -> Option<Self> {
        let (fits, rule) = match items {
            Items::One => {
                let (len, step) = (bytes, bytes);
                let first = base;
                (true, Rule::Strided { first, len, step })
            }
            // SAFETY: as the caller says.
            Items::Strided(stride) => return unsafe { Self::at_stride(base, bytes, stride) },
            Items::Offsets(offsets) => {
                let offsets: &[u32] = offsets;
                let fits = are_offsets(offsets, bytes);
                let offsets = NonNull::from(offsets).cast();
                (fits, Rule::Offsets { base, offsets })
            }
            Items::Spans(spans) => {
                let fits = are_inside(spans, bytes);
                let spans = NonNull::from(&**spans).cast();
                (fits, Rule::Spans { base, spans })
            }
        };
        let layout = Self {
            rule,
            count: items.count(),
            buffers: PhantomData,
        };
        fits.then_some(layout)
    }

    /// Items at a stride in one buffer, as [`Layout::of_one`] has them.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn at_stride(
        base: NonNull<u8>,
        bytes: usize,
        stride: &Stride,
    ) -> Option<Self> {
        let [start, len, step] = [stride.start, stride.len, stride.step].map(|n| n as usize);
        let first = wrapping_add(base, if stride.count == 0 { 0 } else { start });
        let layout = Self {
            rule: Rule::Strided { first, len, step },
            count: stride.count as usize,
            buffers: PhantomData,
        };
        stride.fits(bytes).then_some(layout)
    }

    /// Items of `bufs`, of which there are several or none, if they lie inside them. What the buffers hold may be borrowed uniquely: only
    /// their addresses are read.
    pub(crate) fn of_many(bufs: &'a [Buf], items: &'a Items) -> Option<Self> {
        let Items::Spans(spans) = items else {
            return None;
        };
        let lies_inside = |span: &Span| {
            let buf = bufs.get(span.buf as usize);
            buf.is_some_and(|buf| span.end() <= buf.len() as u64)
        };
        let fits = spans.iter().all(lies_inside);
        let layout = Self {
            count: spans.len(),
            rule: Rule::Scattered {
                bufs: NonNull::from(bufs).cast(),
                spans: NonNull::from(&**spans).cast(),
            },
            buffers: PhantomData,
        };
        fits.then_some(layout)
    }

    /// The items `indices` of `from`, each without its first `skipped` bytes; `None` if the indices do not rise, if there is no such item
    /// or it is shorter.
    pub(crate) fn picked(
        from: &'a Layout<'_>,
        indices: &[u32],
        skipped: usize,
        picks: &'a mut Picks,
    ) -> Option<Self> {
        let Picks(places) = picks;
        places.clear();
        let mut next = 0;
        for &i in indices {
            let i = i as usize;
            if i < next || i >= from.count {
                return None;
            }
            next = i + 1;
            let item = from.at(i);
            let len = item.len().checked_sub(skipped)?;
            // SAFETY: the item has so many bytes.
            let start = unsafe { item.cast::<u8>().add(skipped) };
            places.push(NonNull::slice_from_raw_parts(start, len));
        }
        Some(Self {
            count: places.len(),
            rule: Rule::Listed {
                places: NonNull::from(&places[..]).cast(),
            },
            buffers: PhantomData,
        })
    }

    /// The number of items.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Where item `i` lies.
    ///
    /// # Panics
    /// If there is no such item.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> NonNull<[u8]> {
        assert!(i < self.count, "item {i} of {}", self.count);
        // SAFETY: there is such an item.
        unsafe { self.at_unchecked(i) }
    }

    /// Where the first item lies, which is taken off.
    #[inline(always)]
    pub(crate) fn take_first(&mut self) -> Option<NonNull<[u8]>> {
        if self.count == 0 {
            return None;
        }
        // SAFETY: there is a first item.
        let first = unsafe { self.at_unchecked(0) };
        self.skip(1);
        Some(first)
    }

    /// The same layout if its items lie at a stride. The compiler then knows the rule, and a loop over the items steps by one addition.
    #[inline(always)]
    pub(crate) fn strided(self) -> Option<Self> {
        match self.rule {
            Rule::Strided { first, len, step } => Some(Self {
                rule: Rule::Strided { first, len, step },
                ..self
            }),
            _ => None,
        }
    }

    /// The items `range` of these.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub(crate) fn part(mut self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.count,
            "items {range:?} of {}",
            self.count
        );
        self.count = range.end;
        self.skip(range.start);
        self
    }

    /// All bytes and the length of an item, if all have one length and lie one right behind another.
    #[inline(always)]
    pub(crate) fn contiguous(&self) -> Option<(NonNull<[u8]>, usize)> {
        match self.rule {
            Rule::Strided { first, len, step } if len == step || self.count <= 1 => {
                let all = NonNull::slice_from_raw_parts(first, len * self.count);
                Some((all, len))
            }
            _ => None,
        }
    }

    /// Where offsets count from, and the offsets, if these describe the items.
    #[inline]
    pub(crate) fn offsets(&self) -> Option<(NonNull<u8>, &'a [u32])> {
        match self.rule {
            Rule::Offsets { base, offsets } => {
                // SAFETY: a list of one more than items, borrowed for `'a`.
                Some((base, unsafe { list(offsets, self.count + 1) }))
            }
            _ => None,
        }
    }

    /// The lengths of all items: one that all have, or each.
    #[inline]
    pub(crate) fn lens(&self) -> Lens<'a> {
        match self.rule {
            Rule::Strided { len, .. } => Lens::Equal(len),
            Rule::Offsets { offsets, .. } => {
                // SAFETY: a list of one more than items, borrowed for `'a`.
                Lens::Between(unsafe { list(offsets, self.count + 1) })
            }
            Rule::Spans { spans, .. } | Rule::Scattered { spans, .. } => {
                // SAFETY: a list of as many as items, borrowed for `'a`.
                Lens::Each(unsafe { list(spans, self.count) })
            }
            Rule::Listed { places } => {
                // SAFETY: a list of as many as items, borrowed for `'a`.
                Lens::Of(unsafe { list(places, self.count) })
            }
        }
    }

    /// True if each item ends before the next one begins, in this buffer or an earlier one: no item overlaps another.
    #[inline]
    pub(crate) fn lie_apart(&self) -> bool {
        match self.rule {
            Rule::Strided { len, step, .. } => self.count <= 1 || len <= step,
            Rule::Offsets { .. } => true,
            Rule::Spans { spans, .. } | Rule::Scattered { spans, .. } => {
                // SAFETY: a list of as many as items, borrowed for `'a`.
                lie_apart(unsafe { list(spans, self.count) })
            }
            Rule::Listed { places } => {
                // SAFETY: a list of as many as items, borrowed for `'a`.
                let places = unsafe { list(places, self.count) };
                let end = |place: &NonNull<[u8]>| place.addr().get() + place.len();
                let pairs = places.windows(2);
                let mut pairs = pairs.map(|pair| (end(&pair[0]), pair[1].addr().get()));
                pairs.all(|(end, start)| end <= start)
            }
        }
    }

    /// Where item `i` lies, as [`Items::place`] says it too: what is checked by one is used by the other.
    ///
    /// # Safety
    /// There is an item `i`.
    #[inline(always)]
    unsafe fn at_unchecked(&self, i: usize) -> NonNull<[u8]> {
        // SAFETY: the lists have an entry for each item, and each item lies inside its buffer, as was checked.
        let (start, len) = unsafe {
            match self.rule {
                Rule::Strided { first, len, step } => (first.add(i * step), len),
                Rule::Offsets { base, offsets } => {
                    let [start, end] = offsets.add(i).cast::<[u32; 2]>().read();
                    (base.add(start as usize), (end - start) as usize)
                }
                Rule::Spans { base, spans } => {
                    let span = spans.add(i).read();
                    (base.add(span.start as usize), span.len as usize)
                }
                Rule::Scattered { bufs, spans } => {
                    let span = spans.add(i).read();
                    let buf = bufs.add(span.buf as usize).as_ref();
                    let base = buf.as_non_null();
                    (base.add(span.start as usize), span.len as usize)
                }
                Rule::Listed { places } => return places.add(i).read(),
            }
        };
        NonNull::slice_from_raw_parts(start, len)
    }

    /// Leaves out the first `count` items, which there are.
    #[inline(always)]
    fn skip(&mut self, count: usize) {
        self.count -= count;
        match &mut self.rule {
            // Behind the last item there may be no memory.
            Rule::Strided { first, step, .. } => *first = wrapping_add(*first, count * *step),
            // SAFETY: the list has one more than there are items.
            Rule::Offsets { offsets, .. } => *offsets = unsafe { offsets.add(count) },
            Rule::Spans { spans, .. } | Rule::Scattered { spans, .. } => {
                // SAFETY: the list has as many as there are items.
                *spans = unsafe { spans.add(count) };
            }
            // SAFETY: as above.
            Rule::Listed { places } => *places = unsafe { places.add(count) },
        }
    }
}

/// How long items are.
pub(crate) enum Lens<'a> {
    /// All of them.
    Equal(usize),
    /// Each from an offset to the next.
    Between(&'a [u32]),
    /// Each as its span says.
    Each(&'a [Span]),
    /// Each by itself.
    Of(&'a [NonNull<[u8]>]),
}

impl Lens<'_> {
    /// The length of all together. `count` is how many there are.
    #[inline]
    pub(crate) fn sum(&self, count: usize) -> usize {
        match self {
            Self::Equal(len) => len * count,
            Self::Between([first, .., last]) => (last - first) as usize,
            Self::Between(_) => 0,
            Self::Each(spans) => spans.iter().map(|span| span.len as usize).sum(),
            Self::Of(places) => places.iter().map(|place| place.len()).sum(),
        }
    }

    /// The length of each, one combined with the next by `combine`; `None` without items. `count` is how many there are.
    #[inline]
    pub(crate) fn reduce(&self, count: usize, combine: impl Fn(u32, u32) -> u32) -> Option<usize> {
        match self {
            Self::Equal(len) => (count > 0).then_some(*len),
            _ => self.reduce_list(combine),
        }
    }

    #[inline(never)]
    fn reduce_list(&self, combine: impl Fn(u32, u32) -> u32) -> Option<usize> {
        let len = match self {
            Self::Equal(_) => None,
            Self::Between(offsets) => {
                let lens = offsets.windows(2).map(|pair| pair[1] - pair[0]);
                lens.reduce(combine)
            }
            Self::Each(spans) => spans.iter().map(|span| span.len).reduce(combine),
            Self::Of(places) => {
                // Below 4 GiB, as offsets and spans are.
                let lens = places.iter().map(|place| place.len() as u32);
                lens.reduce(combine)
            }
        };
        len.map(|len| len as usize)
    }
}

// Lists are walked out of line, and without an early exit, so that the compiler vectorises that: it happens for every job that has one.

/// True if offsets never fall, and the last one lies within `bytes`.
#[inline(never)]
fn are_offsets(offsets: &[u32], bytes: usize) -> bool {
    let pairs = offsets.windows(2);
    let falls = pairs.fold(false, |falls, pair| falls | (pair[0] > pair[1]));
    !falls && offsets.last().is_some_and(|&end| end as usize <= bytes)
}

/// True if all spans lie in one buffer of `bytes` bytes.
#[inline(never)]
fn are_inside(spans: &[Span], bytes: usize) -> bool {
    let outside = |span: &Span| (span.buf != 0) | (span.end() > bytes as u64);
    !spans.iter().fold(false, |any, span| any | outside(span))
}

/// True if each span ends before the next one begins.
#[inline(never)]
fn lie_apart(spans: &[Span]) -> bool {
    let is_before =
        |a: &Span, b: &Span| (a.buf < b.buf) | ((a.buf == b.buf) & (a.end() <= u64::from(b.start)));
    let pairs = spans.windows(2);
    pairs.fold(true, |all, pair| all & is_before(&pair[0], &pair[1]))
}

#[inline(always)]
fn wrapping_add(base: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    // Beyond the buffer only where there is no item, and then nobody asks.
    NonNull::new(base.as_ptr().wrapping_add(bytes)).unwrap_or(base)
}

/// # Safety
/// `count` values lie at `first` and are borrowed for `'a`.
#[inline(always)]
unsafe fn list<'a, T>(first: NonNull<T>, count: usize) -> &'a [T] {
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(first.as_ptr(), count) }
}
