//! A job while operations on its items are with a device: where its items and slots lie, as addresses.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use dpb_core::{Items, Job, JobError, Place, Span};

/// A job and how far it is.
pub(super) struct Flight {
    pub(super) job: Job,
    pub(super) items: usize,
    /// The next item to stage, and how many operations it got already.
    pub(super) next: (usize, u32),
    /// Operations that are staged or with the device.
    pub(super) running: u32,
    /// Whether an item got several operations, so that a slot may still be written to when one of them is over.
    pub(super) is_split: bool,
    pub(super) error: Option<JobError>,
}

impl Flight {
    /// A job of which `items` items are to be carried out, or that has failed.
    pub(super) fn new(job: Job, admitted: Result<usize, JobError>) -> Self {
        Self {
            job,
            items: admitted.unwrap_or_default(),
            next: (0, 0),
            running: 0,
            is_split: false,
            error: admitted.err(),
        }
    }

    /// The slot of item `i`.
    #[inline]
    pub(super) fn slot(&self, i: usize) -> Slot<'_> {
        let Place { buf, start, len } = self.job.slots.place(i, &self.job.dst);
        let dst = self.job.dst[buf].as_non_null();
        Slot {
            // SAFETY: `admit` found that each slot lies inside its buffer, which is the flight's own.
            ptr: unsafe { dst.add(start) }.as_ptr(),
            len,
            job: PhantomData,
        }
    }

    /// The place of item `i`, which was checked when the job came.
    #[inline]
    fn place(&self, i: usize) -> Place {
        self.job.items.place(i, self.job.input())
    }

    /// The first byte of item `i`, and its length. In place its buffer is written to while operations on its neighbours run.
    #[inline]
    fn item_at(&self, i: usize) -> (NonNull<u8>, usize) {
        let Place { buf, start, len } = self.place(i);
        let src = self.job.input()[buf].as_non_null();
        // SAFETY: `admit` found that each item lies inside its buffer, which is the flight's own or shared.
        (unsafe { src.add(start) }, len)
    }

    /// Item `i`.
    ///
    /// # Safety
    /// No operation that may write to it is with the device.
    #[inline]
    pub(super) unsafe fn item(&self, i: usize) -> &[u8] {
        let (first, len) = self.item_at(i);
        // SAFETY: initialised bytes of a buffer that the flight holds; as the caller says, nobody writes to them.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
    }

    /// Enters the outcome of item `i`, for which there is no operation, and goes on to the next.
    pub(super) fn settle(&mut self, i: usize, outcome: Result<&[u8], JobError>, is_variable: bool) {
        let mut slot = self.slot(i);
        match outcome.map(|output| slot.write(0, output)) {
            outcome if is_variable => self.job.outcomes.push(outcome),
            Ok(_) => {}
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self.next = (i + 1, 0);
    }

    /// The number of items from `i` on, up to `most`, that are as long as it is and lie at equal distances in its buffer, and whose slots
    /// do; and both distances.
    #[inline]
    pub(super) fn alike(&self, i: usize, most: usize) -> (usize, Steps) {
        let most = most.min(self.items - i);
        let (count, item) = alike(&self.job.items, i, most);
        let (count, slot) = match count {
            1 => (1, 0),
            count => alike(&self.job.slots, i, count),
        };
        (count, Steps { item, slot })
    }
}

/// The number of `items` from `i` on, up to `most`, that are as long as it is and lie at equal distances in its buffer; and the distance.
#[inline(always)]
fn alike(items: &Items, i: usize, most: usize) -> (usize, usize) {
    match items {
        Items::One => (1, 0),
        Items::Strided(stride) => (most, stride.step as usize),
        Items::Offsets(offsets) => {
            let len = offsets[i + 1] - offsets[i];
            let items = offsets[i..=i + most].windows(2);
            let count = items.take_while(|item| item[1] - item[0] == len).count();
            (count, len as usize)
        }
        Items::Spans(spans) => {
            let spans = &spans[i..][..most];
            let distance = |pair: &[Span]| {
                let is_alike = (pair[0].buf, pair[0].len) == (pair[1].buf, pair[1].len);
                pair[1]
                    .start
                    .checked_sub(pair[0].start)
                    .filter(|_| is_alike)
            };
            let Some(step) = spans.get(..2).and_then(distance) else {
                return (1, 0);
            };
            let pairs = spans.windows(2);
            let count = pairs
                .take_while(|pair| distance(pair) == Some(step))
                .count();
            (1 + count, step as usize)
        }
    }
}

/// Bytes from one item of a run to the next, and from one slot to the next.
#[derive(Clone, Copy, Default)]
pub(super) struct Steps {
    pub(super) item: usize,
    pub(super) slot: usize,
}

/// An item whose operation is over.
pub(in crate::dpdk) struct Over<'a> {
    pub(super) flight: &'a Flight,
    pub(super) i: usize,
}

impl Over<'_> {
    /// Bytes of the item.
    pub(in crate::dpdk) fn item_len(&self) -> usize {
        self.flight.place(self.i).len
    }

    /// The item's slot; empty if the item got several operations, of which another may still run.
    pub(in crate::dpdk) fn slot(&mut self) -> Slot<'_> {
        let mut slot = self.flight.slot(self.i);
        if self.flight.is_split {
            slot.len = 0;
        }
        slot
    }
}

/// The slot of an item, while no operation writes there.
pub(in crate::dpdk) struct Slot<'a> {
    pub(super) ptr: *mut u8,
    pub(super) len: usize,
    job: PhantomData<&'a mut Job>,
}

impl Slot<'_> {
    /// Bytes that it holds.
    pub(in crate::dpdk) fn len(&self) -> usize {
        self.len
    }

    /// Overwrites all of it with zeros.
    pub(in crate::dpdk) fn wipe(&mut self) {
        // SAFETY: of a job that the queue owns; it makes this for items that have no operation yet, or none any more.
        unsafe { self.ptr.write_bytes(0, self.len) }
    }

    /// Writes `bytes` at `at`; says where they end.
    pub(in crate::dpdk) fn write(&mut self, at: usize, bytes: &[u8]) -> u32 {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len), "within the slot");
        // SAFETY: as in `wipe`, and within it.
        unsafe {
            self.ptr
                .add(at)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        (at + bytes.len()) as u32
    }
}
