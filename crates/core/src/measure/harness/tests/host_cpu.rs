//! CPU time of the host while somebody else works.

use super::*;

/// An operator whose jobs come home a while after they were done: somebody else's time, not the host's.
struct Remote(Arc<Inline<Sum>>);

struct RemoteQueue {
    inner: Box<dyn Queue>,
    flying: VecDeque<(Instant, Completion)>,
}

const FLIGHT: Duration = Duration::from_micros(200);

impl Operator for Remote {
    fn spec(&self) -> &OpSpec {
        self.0.spec()
    }

    fn shape(&self) -> OutputShape {
        self.0.shape()
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.0.dst_len(item_len)
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        Ok(Box::new(RemoteQueue {
            inner: self.0.clone().open(depth)?,
            flying: VecDeque::new(),
        }))
    }
}

impl Queue for RemoteQueue {
    fn in_flight(&self) -> usize {
        self.flying.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        if !self.flying.is_empty() {
            return 0;
        }
        let taken = self.inner.submit(ready);
        let mut done = Vec::new();
        self.inner.poll(&mut done);
        let home = Instant::now() + FLIGHT;
        self.flying.extend(done.into_iter().map(|job| (home, job)));
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        while self
            .flying
            .front()
            .is_some_and(|(home, _)| *home <= Instant::now())
        {
            done.extend(self.flying.pop_front().map(|(_, job)| job));
        }
        done.len() - before
    }
}

#[test]
fn waiting_costs_the_host_nothing_and_work_does() {
    let plan = plan(Mode::HostCpu);
    let local = run(&Sums::new(Kind::Inline, u64::MAX), &plan).expect("all is right");
    let pooled = run(&Sums::new(Kind::Pool, u64::MAX), &plan).expect("all is right");
    let kernel = Sum {
        calls: AtomicU64::new(0),
        wrong_at: u64::MAX,
    };
    let backend = Only {
        clock: Box::new(WallClock::default()),
        operator: Arc::new(Remote(Arc::new(Inline::new(kernel, spec(), LIMITS)))),
    };
    let never = AtomicBool::new(false);
    let remote = measure(&backend, &inputs(), &sums(), &plan, &never).expect("all is right");
    for run in &local.runs {
        assert_eq!(run.cpu.spare_ns, 0.0, "nothing to wait for: {run:?}");
        assert!(run.cpu.of_jobs_ns() >= run.cpu.segments_ns && run.cpu.segments_ns > 0.0);
        assert!(run.cpu.threads_ns >= run.cpu.segments_ns, "{run:?}");
    }
    // A worker's time is nobody's but the jobs'.
    assert!(pooled.runs.iter().all(|run| run.cpu.others_ns > 0.0));
    for run in &remote.runs {
        // Of four sums and 200 us of flight, by far the most is flight; a third allows for a core that changes its pace.
        assert!(
            run.cpu.spare_ns > run.cpu.segments_ns / 3.0,
            "{:?}",
            run.cpu
        );
        let wall_ns = run.counts.jobs as f64 / 4.0 * FLIGHT.as_nanos() as f64;
        // Other tests run in this process too, so other threads' time says nothing here.
        let own_ns = run.cpu.segments_ns - run.cpu.spare_ns;
        assert!(own_ns < wall_ns * 0.7, "{:?}", run.cpu);
    }

    let mut record = Record::new("test", Evidence::Measured, 1);
    remote.fill(&mut record);
    let per_item = &record.summary["host_cpu_ns_per_item"];
    assert!(per_item.samples == 3, "{per_item:?}");
    assert!(
        !record.summary.contains_key("items_per_s"),
        "slowed down by other work"
    );
    assert!(record.check.is_some_and(|check| check.compared > 0));

    let broken = run(&Sums::new(Kind::Virtual, u64::MAX), &plan).expect_err("no such clock");
    assert!(broken.to_string().contains("clock"), "{broken}");
}
