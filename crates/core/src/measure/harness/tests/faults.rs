//! Queues that work for a while, and then do not.

use super::*;

/// Carries out so many jobs.
struct Failing {
    inner: Arc<dyn Operator>,
    works: u64,
    then: Then,
}

/// What it does with the others.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Hands them back as they came, and says that they are done.
    Nothing,
    /// Takes one and never gives it back; cannot be dropped.
    Silence,
    /// Takes one, and carries it out when it has been polled for long.
    Late,
}

/// More than are made before the core is offered to others.
const LATE_POLLS: u32 = 300;

struct FailingQueue {
    inner: Box<dyn Queue>,
    works: u64,
    then: Then,
    undone: VecDeque<Job>,
    polls: u32,
}

impl Operator for Failing {
    fn spec(&self) -> &OpSpec {
        self.inner.spec()
    }

    fn shape(&self) -> OutputShape {
        self.inner.shape()
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.inner.dst_len(item_len)
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        Ok(Box::new(FailingQueue {
            inner: self.inner.clone().open(depth)?,
            works: self.works,
            then: self.then,
            undone: VecDeque::new(),
            polls: 0,
        }))
    }
}

impl Queue for FailingQueue {
    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.undone.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        if self.works == 0 {
            // One deep, that is.
            let taken = ready.len().min(1 - self.undone.len());
            self.undone.extend(ready.drain(..taken));
            return taken;
        }
        let taken = self.inner.submit(ready);
        self.works = self.works.saturating_sub(taken as u64);
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        if self.then == Then::Late && !self.undone.is_empty() {
            self.polls += 1;
            if self.polls == LATE_POLLS {
                self.polls = 0;
                self.inner.submit(&mut self.undone);
            }
        }
        self.inner.poll(done);
        if self.then == Then::Nothing {
            let result = Ok(());
            let undone = self.undone.drain(..);
            done.extend(undone.map(|job| Completion { job, result }));
        }
        done.len() - before
    }
}

impl Drop for FailingQueue {
    fn drop(&mut self) {
        assert!(self.undone.is_empty(), "would wait for ever");
    }
}

#[test]
fn a_result_that_was_never_written_is_not_the_last_one() {
    let sum = Sum {
        calls: AtomicU64::new(0),
        wrong_at: u64::MAX,
    };
    let fixed: Arc<dyn Operator> = Arc::new(Inline::new(sum, spec(), LIMITS));
    let variable: Arc<dyn Operator> =
        Arc::new(Inline::new(Echo, OpSpec::custom("echo", []), LIMITS));
    // Of one input, so that each job gets the same again.
    let inputs = &inputs()[..1];
    let never = AtomicBool::new(false);
    for mode in [
        Mode::Throughput,
        Mode::Latency,
        Mode::Open { jobs_per_s: 5e4 },
    ] {
        for (inner, workload) in [(&fixed, &sums() as &dyn Workload), (&variable, &echoes())] {
            let tiring = Failing {
                inner: inner.clone(),
                works: 5000,
                then: Then::Nothing,
            };
            let backend = Only {
                clock: Box::new(WallClock::default()),
                operator: Arc::new(tiring),
            };
            let mut plan = plan(mode);
            plan.seconds = Duration::from_millis(200);
            let broken = measure(&backend, inputs, workload, &plan, &never);
            assert!(
                matches!(&broken, Err(Broken::Wrong(_))),
                "{mode:?}, {}: {broken:?}",
                inner.spec()
            );
        }
    }
}

fn run_wedging(mode: Mode, works: u64, silence: Duration) -> Result<Measured, Broken> {
    let sum = Sum {
        calls: AtomicU64::new(0),
        wrong_at: u64::MAX,
    };
    let inner = Arc::new(Inline::new(sum, spec(), LIMITS));
    let backend = Only {
        clock: Box::new(WallClock::default()),
        operator: Arc::new(Failing {
            inner,
            works,
            then: Then::Silence,
        }),
    };
    let mut plan = plan(mode);
    plan.threads = NonZeroU32::new(2).expect("not zero");
    plan.repeat = u32::MAX;
    plan.silence = silence;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        measure(&backend, &inputs(), &sums(), &plan, &stop)
    })
}

#[test]
fn a_wedged_device_is_a_failure_and_is_left_alone() {
    let open = Mode::Open { jobs_per_s: 1e5 };
    for mode in [Mode::Throughput, Mode::Latency, open] {
        // In the warm-up, and later.
        for works in [0, 10_000] {
            let broken = run_wedging(mode, works, Duration::from_millis(10));
            let Err(Broken::Wrong(what)) = broken else {
                // Slow machines are told to stop before they come so far.
                assert!(works > 0 && broken.is_ok_and(|measured| measured.interrupted));
                continue;
            };
            assert!(
                what.starts_with("1 jobs in flight and "),
                "{mode:?}: {what}"
            );
        }
    }
}

/// One job at a time, between which there is nothing to wait for: each wait is short, and all together are not.
#[test]
fn a_device_that_answers_is_not_wedged_however_long_the_run() {
    let sum = Sum {
        calls: AtomicU64::new(0),
        wrong_at: u64::MAX,
    };
    let backend = Only {
        clock: Box::new(WallClock::default()),
        operator: Arc::new(Failing {
            inner: Arc::new(Inline::new(sum, spec(), LIMITS)),
            works: 0,
            then: Then::Late,
        }),
    };
    let mut plan = plan(Mode::Open { jobs_per_s: 1e3 });
    plan.depth = NonZeroU32::MIN;
    plan.seconds = Duration::from_millis(2500);
    plan.repeat = 1;
    plan.silence = Duration::from_secs(1);
    let never = AtomicBool::new(false);
    let measured = measure(&backend, &inputs(), &sums(), &plan, &never);
    let polls = measured.expect("nothing was wrong").runs[0]
        .counts
        .polls_empty;
    assert!(polls > u64::from(LATE_POLLS), "{polls}");
}

#[test]
fn told_to_stop_it_does_not_wait_for_a_wedged_device() {
    let measured = run_wedging(Mode::Throughput, 0, Duration::from_secs(3600));
    assert!(measured.expect("nothing was wrong").interrupted);
}
