//! What an offload costs the host's cores: the CPU time that its jobs take, less what is left for other work meanwhile.
//!
//! Who polls is always busy, so a core's load says nothing about what an engine saves. Here each poll that brings nothing is
//! followed by a piece of other work, whose cost was measured before the run: what a program would get done there that has
//! something else to do. Whatever CPU time is not that, was spent on the jobs: submission, polls that bring something, the
//! work itself where it is done by software, on this thread or on threads of the backend's.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Dependent steps in a piece of work: a fraction of a microsecond, so that jobs that are home do not wait for long.
const STEPS: u64 = 256;
/// How often the cost of a piece is measured, over how many pieces.
const TRIALS: usize = 31;
const PIECES: u32 = 64;

/// One thread's account.
#[derive(Default)]
pub(super) struct Account {
    /// CPU time of a piece of other work; zero where none is done.
    piece_ns: f64,
    pieces: u64,
    /// CPU time of this thread's segments.
    segments_ns: u64,
    started_ns: u64,
}

/// CPU time of one run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// The time of the measuring threads while their clocks ran.
    pub segments_ns: f64,
    /// The part of it that other work had.
    pub spare_ns: f64,
    /// The time of the measuring threads, with checks and with waiting for each other.
    pub threads_ns: f64,
    /// Of all other threads: a backend's own.
    pub others_ns: f64,
}

impl Account {
    /// Forgets what was counted: a run begins. With other work, whose cost is measured anew for each run, so that what a change of
    /// the core's pace does to the figure differs from run to run and shows in its interval.
    pub(super) fn start(&mut self, has_other_work: bool) {
        let trial = || {
            let started_ns = thread_ns();
            for _ in 0..PIECES {
                piece();
            }
            (thread_ns() - started_ns) as f64 / f64::from(PIECES)
        };
        *self = Self::default();
        if has_other_work {
            let mut trials = [(); TRIALS].map(|()| trial());
            trials.sort_unstable_by(f64::total_cmp);
            self.piece_ns = trials[TRIALS / 2];
        }
        self.started_ns = thread_ns();
    }

    /// Does a piece of other work.
    pub(super) fn spend(&mut self) {
        piece();
        self.pieces += 1;
    }

    /// Adds a segment that started when the thread's CPU clock said so.
    pub(super) fn add_segment(&mut self, started_ns: u64) {
        self.segments_ns += thread_ns() - started_ns;
    }

    /// Since the run began; what other threads took is not known here.
    pub(super) fn read(&self) -> CpuTime {
        CpuTime {
            segments_ns: self.segments_ns as f64,
            spare_ns: self.piece_ns * self.pieces as f64,
            threads_ns: (thread_ns() - self.started_ns) as f64,
            others_ns: 0.0,
        }
    }
}

impl CpuTime {
    /// Adds another thread's.
    pub(super) fn add(&mut self, other: &Self) {
        self.segments_ns += other.segments_ns;
        self.spare_ns += other.spare_ns;
        self.threads_ns += other.threads_ns;
        self.others_ns += other.others_ns;
    }

    /// What the jobs took. Where they take next to nothing, a core that changed its pace may make it negative: that little.
    pub fn of_jobs_ns(&self) -> f64 {
        self.segments_ns - self.spare_ns + self.others_ns
    }
}

/// CPU time of the calling thread.
pub(super) fn thread_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process.
pub(super) fn process_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Each step needs the last one's result, so that it takes the same time on any core that multiplies as fast.
fn piece() {
    let mut value = black_box(1u64);
    for step in 0..STEPS {
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step;
    }
    black_box(value);
}
