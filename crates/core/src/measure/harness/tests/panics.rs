//! Threads that take turns, and threads that panic.

use super::*;

/// How a queue ends a test.
#[derive(Clone, Copy)]
enum Panics {
    Never,
    WhenOpened,
    WhenPolled(u64),
}

/// An operator whose second queue panics.
struct Fragile {
    inner: Arc<Inline<Engine>>,
    opened: AtomicU64,
    panics: Panics,
}

struct FragileQueue {
    inner: Box<dyn Queue>,
    polls_left: u64,
}

impl Operator for Fragile {
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
        let is_second = self.opened.fetch_add(1, Ordering::Relaxed) == 1;
        let polls_left = match self.panics {
            Panics::WhenOpened if is_second => panic!("cannot be opened"),
            Panics::WhenPolled(polls) if is_second => polls,
            _ => u64::MAX,
        };
        let inner = self.inner.clone().open(depth)?;
        Ok(Box::new(FragileQueue { inner, polls_left }))
    }
}

impl Queue for FragileQueue {
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        self.inner.submit(ready)
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        assert!(self.polls_left > 0, "cannot be polled");
        self.polls_left -= 1;
        self.inner.poll(done)
    }
}

fn run_engine(panics: Panics, mode: Mode) -> Result<Measured, Broken> {
    let spec = OpSpec::custom("engine", []);
    let engine = Inline::new(Engine(Mutex::new(0)), spec.clone(), LIMITS);
    let backend = Only {
        clock: Box::new(WallClock::default()),
        operator: Arc::new(Fragile {
            inner: Arc::new(engine),
            opened: AtomicU64::new(0),
            panics,
        }),
    };
    let input = Input::fixed("sevens", vec![7; 16], 16, 1);
    let mut plan = plan(mode);
    plan.threads = NonZeroU32::new(2).expect("not zero");
    if !matches!(panics, Panics::Never) {
        // Until it does.
        plan.repeat = u32::MAX;
    }
    let never = AtomicBool::new(false);
    measure(&backend, &[input], &Slow(spec), &plan, &never)
}

#[test]
fn threads_that_take_turns_are_not_counted_as_if_at_once() {
    for mode in [Mode::Throughput, Mode::Latency] {
        let measured = run_engine(Panics::Never, mode).expect("all is right");
        assert_eq!(measured.digest, None, "several outputs are right");
        for run in &measured.runs {
            // A bound by construction, however busy the machine is: the engine never does more.
            assert!(run.items_per_s > 0.0);
            assert!(run.items_per_s <= 1e9 / ENGINE_NS as f64, "{run:?}");
        }
    }
}

#[test]
fn a_panic_in_a_thread_is_a_failure_and_not_the_end() {
    for (panics, says) in [
        (Panics::WhenOpened, "cannot be opened"),
        // In the warm-up, and long after.
        (Panics::WhenPolled(2), "cannot be polled"),
        (Panics::WhenPolled(300), "cannot be polled"),
    ] {
        let broken = run_engine(panics, Mode::Throughput).expect_err("it panicked");
        assert_eq!(broken, Broken::Wrong(format!("a thread panicked: {says}")));
    }
}
