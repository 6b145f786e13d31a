//! Micro-benchmark of memory: accesses of a pointer's size to a buffer of a given size (dpBento, "memory"), a chase along a chain of
//! cache lines, and STREAM's kernels.
//!
//! Each thread has a buffer of its own of the size that was asked for. What a pattern must leave is known without it: sums by
//! formula or from the addresses alone, contents by the address and the pass.

mod chain;
mod random;
mod sequential;
mod stream;
mod wide;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use dpb_core::Clock;
use dpb_core::measure::Interference;

use crate::crew::{self, Broken, Member, Runs, Series, Timed};
use crate::mapping::Mapping;
pub use crate::mapping::Pages;

/// Bytes of an access: a pointer's.
pub const ACCESS_BYTES: u64 = 8;
/// Bytes of a line of a chain: a cache line on the machines that dpb knows.
pub const LINE_BYTES: u64 = 64;
/// The smallest buffer.
pub const SIZE_BYTES_MIN: u64 = 1024;

/// One test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is done.
    pub work: Work,
    /// Bytes of each thread's buffer, a multiple of [`LINE_BYTES`]. STREAM's three arrays share it.
    pub size: u64,
    /// The number of threads, each with a buffer of its own.
    pub threads: u32,
    /// The pages that buffers lie in.
    pub pages: Pages,
    /// For how long, how often, on which cores.
    pub runs: Runs,
    /// The seed of addresses and chains.
    pub seed: u64,
    /// What buffers may take together; more is refused.
    pub memory_bytes: u64,
}

/// What a thread does with its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Addresses that are drawn, each without regard to the others.
    Random(Access),
    /// One word after the other.
    Sequential(Access),
    /// Reads of which each says where the next one is, once through all lines in an order that is drawn.
    Chain,
    /// A kernel of STREAM.
    Stream(Kernel),
}

/// What is done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// The kernels of STREAM (McCalpin), over arrays *a*, *b*, *c* of 64-bit floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// *c* = *a*
    Copy,
    /// *b* = *s* *c*
    Scale,
    /// *c* = *a* + *b*
    Add,
    /// *a* = *b* + *s* *c*
    Triad,
}

/// What came of it. What the accesses read and left was checked in every run.
#[derive(Debug)]
pub struct Measured {
    /// The runs that finished.
    pub runs: Vec<Run>,
    /// The number of accesses whose outcome was compared with what is right.
    pub compared: u64,
    /// Bytes of all buffers.
    pub buffer_bytes: u64,
    /// The part of them in huge pages; `None` where the kernel does not say.
    pub huge_bytes: Option<u64>,
    /// What else happened meanwhile.
    pub interference: Interference,
    /// Whether it was told to stop before the last run.
    pub interrupted: bool,
}

/// One run, over all threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Accesses, counted where they were made.
    pub handled: Handled,
    /// Accesses a second: what all threads did from the first start to the last end.
    pub accesses_per_s: f64,
    /// Bytes a second, likewise.
    pub bytes_per_s: f64,
    /// A thread's time for an access, in nanoseconds, on average over the threads.
    pub ns_per_access: f64,
}

/// What was handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// Words read or written.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Handled {
    fn words(accesses: u64) -> Self {
        Self {
            accesses,
            bytes: accesses * ACCESS_BYTES,
        }
    }

    fn add(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.bytes += other.bytes;
    }
}

/// How a thread goes through its buffer.
trait Walk: Send {
    /// Fills the buffer. Long work looks at `stop` and leaves off.
    fn lay(&mut self, memory: &mut Mapping, stop: &AtomicBool);

    /// Goes on for a while: long enough that a look at the clock is nothing beside it, short beside a run.
    fn go(&mut self, memory: &mut Mapping) -> Handled;

    /// Compares what the accesses since the last check read and left with what is right, and makes the buffer ready for more.
    ///
    /// # Errors
    /// What is wrong, and where.
    fn check(&mut self, memory: &mut Mapping) -> Result<(), String>;
}

impl Work {
    /// What was compared with what, for the record.
    pub fn against(self) -> &'static str {
        match self {
            Self::Random(Access::Read) => "the sum that the drawn addresses alone give",
            Self::Random(Access::Write) => "the contents that the drawn addresses must leave",
            Self::Sequential(Access::Read) => "the sum by formula",
            Self::Sequential(Access::Write) => "the contents by formula",
            Self::Chain => "the rank in the cycle after so many steps",
            Self::Stream(_) => "STREAM's own check: contents within 1e-13",
        }
    }

    fn walk(self, plan: &Plan, thread: u32) -> Box<dyn Walk> {
        let words = (plan.size / ACCESS_BYTES) as usize;
        let seed = plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(thread);
        match self {
            Self::Random(access) => Box::new(random::Random::new(access, words, seed)),
            Self::Sequential(access) => Box::new(sequential::Sequential::new(access, words)),
            Self::Chain => Box::new(chain::Chain::new(words, seed)),
            Self::Stream(kernel) => Box::new(stream::Stream::new(kernel, words)),
        }
    }
}

/// The bytes that all buffers of such a test take; `None` if nobody has so many.
pub fn bytes_needed(size: u64, threads: u32) -> Option<u64> {
    const HUGE_PAGE: u64 = 2 << 20;
    // A huge page may hold a buffer that is smaller than it.
    size.checked_next_multiple_of(HUGE_PAGE)?
        .checked_mul(u64::from(threads))
}

/// Does what the plan says, until done or `stop` is set.
///
/// # Errors
/// [`Broken`]; then nothing that was timed counts.
pub fn measure(plan: &Plan, clock: &dyn Clock, stop: &AtomicBool) -> Result<Measured, Broken> {
    check(plan)?;
    let pages_seen = Mutex::new(Vec::new());
    let threads = 0..plan.threads;
    let members = threads.map(|number| Thread {
        plan,
        clock,
        stop,
        walk: plan.work.walk(plan, number),
        memory: None,
        pages_seen: &pages_seen,
        handled: 0,
    });
    let series = crew::run(members.collect(), &plan.runs, clock, stop)?;
    let pages_seen = pages_seen.into_inner().unwrap_or_default();
    Ok(Measured::of(plan, series, &pages_seen))
}

fn check(plan: &Plan) -> Result<(), Broken> {
    let unsupported = |why: String| Err(Broken::Unsupported(why));
    let (size, threads) = (plan.size, plan.threads);
    if size < SIZE_BYTES_MIN || !size.is_multiple_of(LINE_BYTES) {
        return unsupported(format!(
            "a buffer of {size} bytes: it takes {SIZE_BYTES_MIN} at least, in multiples of {LINE_BYTES}"
        ));
    }
    let available = plan.memory_bytes;
    match bytes_needed(size, threads).filter(|&needed| needed <= available) {
        None => unsupported(format!(
            "{threads} buffers of {size} bytes do not fit the {available} bytes that are available"
        )),
        Some(_) if matches!(plan.work, Work::Random(_)) && size > random::SIZE_BYTES_MAX => {
            unsupported(format!(
                "random addresses reach {} bytes at most; take more threads, each has a buffer of its own",
                random::SIZE_BYTES_MAX
            ))
        }
        Some(_) => Ok(()),
    }
}

/// One thread and its buffer.
struct Thread<'a> {
    plan: &'a Plan,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    walk: Box<dyn Walk>,
    memory: Option<Mapping>,
    pages_seen: &'a Mutex<Vec<Option<u64>>>,
    handled: u64,
}

impl Member for Thread<'_> {
    type Part = Handled;

    fn prepare(&mut self) -> Result<(), Broken> {
        let memory = Mapping::new(self.plan.size as usize, self.plan.pages);
        let mut memory = memory.map_err(Broken::Unsupported)?;
        self.walk.lay(&mut memory, self.stop);
        let huge_bytes = memory.huge_bytes();
        if self.plan.pages == Pages::Huge && huge_bytes == Some(0) {
            return Err(Broken::Unsupported(
                "the kernel gave no huge page; reserve some (sysctl vm.nr_hugepages=N), or allow them on request \
                 (echo madvise > /sys/kernel/mm/transparent_hugepage/enabled)"
                    .into(),
            ));
        }
        if let Ok(mut seen) = self.pages_seen.lock() {
            seen.push(huge_bytes);
        }
        self.memory = Some(memory);
        Ok(())
    }

    fn work(&mut self, until_ns: u64) -> Result<Handled, Broken> {
        let memory = self.memory.as_mut().expect("prepared");
        let mut handled = Handled::default();
        // A chain that was left half laid has no end.
        while !self.stop.load(Ordering::Relaxed) && self.clock.now_ns() < until_ns {
            handled.add(self.walk.go(memory));
        }
        self.handled = handled.accesses;
        Ok(handled)
    }

    fn check(&mut self) -> Result<u64, Broken> {
        let memory = self.memory.as_mut().expect("prepared");
        if self.handled == 0 {
            return Ok(0);
        }
        self.walk.check(memory).map_err(Broken::Wrong)?;
        Ok(self.handled)
    }
}

impl Measured {
    fn of(plan: &Plan, series: Series<Handled>, pages_seen: &[Option<u64>]) -> Self {
        Self {
            runs: series.runs.iter().map(Run::of).collect(),
            compared: series.compared,
            buffer_bytes: plan.size * u64::from(plan.threads),
            huge_bytes: pages_seen.iter().copied().sum(),
            interference: series.interference,
            interrupted: series.interrupted,
        }
    }
}

impl Run {
    fn of(timed: &Timed<Handled>) -> Self {
        let (mut handled, mut thread_ns) = (Handled::default(), 0);
        for (part, ns) in &timed.parts {
            handled.add(*part);
            thread_ns += ns;
        }
        Self {
            handled,
            accesses_per_s: timed.per_s(handled.accesses),
            bytes_per_s: timed.per_s(handled.bytes),
            ns_per_access: thread_ns as f64 / handled.accesses.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests;
