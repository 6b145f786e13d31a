//! What threads agree on: when a segment starts and ends, and whether there is another.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The start line, and who calls a round over.
///
/// Rounds are counted from one and never used again, so nothing said about one can be taken for another.
pub(super) struct Team {
    threads: usize,
    arrived: AtomicUsize,
    /// From this round on nobody runs.
    off_from: AtomicUsize,
    /// The last round in which somebody had no more jobs.
    ended: AtomicUsize,
    /// Somebody will not come to the line again.
    is_broken: AtomicBool,
}

/// When a thread started and when it was done, on the backend's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

/// One round's end: whoever runs out of jobs calls it.
#[derive(Clone, Copy)]
pub(super) struct Finish<'a> {
    round: usize,
    ended: &'a AtomicUsize,
}

/// Tells the others when its thread is gone, in whatever way.
pub(super) struct Member<'a>(pub(super) &'a Team);

impl Team {
    pub(super) fn new(threads: NonZeroU32) -> Self {
        Self {
            threads: threads.get() as usize,
            arrived: AtomicUsize::new(0),
            off_from: AtomicUsize::new(usize::MAX),
            ended: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Waits until all have come: spinning, because a wake-up would start some late. `false` if one never will.
    pub(super) fn line_up(&self, round: usize) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < round * self.threads {
            if self.is_broken.load(Ordering::Acquire) {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    /// Says, before lining up for `round`, that it shall not be run.
    pub(super) fn call_off(&self, round: usize) {
        self.off_from.fetch_min(round, Ordering::AcqRel);
    }

    /// True if `round` is not to be run; the same for all who lined up for it.
    pub(super) fn is_off(&self, round: usize) -> bool {
        self.off_from.load(Ordering::Acquire) <= round
    }

    /// Forgets that rounds were called off. The leader's to say, while no thread runs.
    pub(super) fn call_on(&self) {
        self.off_from.store(usize::MAX, Ordering::Release);
    }

    pub(super) fn finish(&self, round: usize) -> Finish<'_> {
        Finish::new(round, &self.ended)
    }
}

impl<'a> Finish<'a> {
    pub(super) fn new(round: usize, ended: &'a AtomicUsize) -> Self {
        Self { round, ended }
    }

    pub(super) fn call(self) {
        self.ended.fetch_max(self.round, Ordering::Relaxed);
    }

    pub(super) fn is_called(self) -> bool {
        self.ended.load(Ordering::Relaxed) >= self.round
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.0.is_broken.store(true, Ordering::Release);
    }
}

/// From the first start to the last end, round by round, over all threads that did something in it.
pub(super) fn common_ns(threads: &[Vec<Option<Span>>]) -> u64 {
    let rounds = threads.iter().map(Vec::len).max().unwrap_or(0);
    let common = |round: usize| {
        let spans = || threads.iter().filter_map(move |spans| *spans.get(round)?);
        let start_ns = spans().map(|span| span.start_ns).min()?;
        let end_ns = spans().map(|span| span.end_ns).max()?;
        Some(end_ns - start_ns)
    };
    (0..rounds).filter_map(common).sum()
}
