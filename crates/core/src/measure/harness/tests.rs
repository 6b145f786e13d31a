//! On backends whose time and faults are known exactly.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::*;
use crate::lift::{Inline, Pool, Pooled};
use crate::measure::{Evidence, Record};
use crate::{
    Batch, BatchOut, Buf, Clock, Completion, Exact, Job, Kernel, Limits, OpSpec, Properties, Queue,
    Right, VirtualClock, WallClock,
};

/// The sum of an item's bytes, four bytes, little endian; wrong at the calls listed.
struct Sum {
    calls: AtomicU64,
    wrong_at: u64,
}

impl Kernel for Sum {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        for (i, slot) in out.slots.into_iter().enumerate() {
            let sum = sum(batch.item(i)) + u32::from(call == self.wrong_at);
            slot.copy_from_slice(&sum.to_le_bytes());
        }
        Ok(())
    }
}

fn spec() -> OpSpec {
    OpSpec::custom("sum", [])
}

fn sum(item: &[u8]) -> u32 {
    item.iter().map(|&byte| u32::from(byte)).sum()
}

fn sums() -> impl Workload {
    Exact::new(&spec(), "sum", |item, _| {
        Ok(sum(item).to_le_bytes().to_vec())
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Inline,
    Pool,
    /// A hundred virtual nanoseconds a job.
    Virtual,
    /// A clock that ticks at each reading, and one job that stalls for ten milliseconds.
    Stalling,
}

struct Sums {
    kind: Kind,
    wall: WallClock,
    manual: Arc<VirtualClock>,
    ticking: Ticking,
    wrong_at: u64,
}

/// A microsecond passes at each reading.
struct Ticking(Arc<VirtualClock>);

impl Clock for Ticking {
    fn now_ns(&self) -> u64 {
        let now_ns = self.0.now_ns() + 1000;
        self.0.advance_to(now_ns);
        now_ns
    }

    fn kind(&self) -> ClockKind {
        ClockKind::Wall
    }
}

impl Sums {
    fn new(kind: Kind, wrong_at: u64) -> Self {
        let manual = Arc::new(VirtualClock::new(false));
        Self {
            kind,
            wall: WallClock::default(),
            ticking: Ticking(manual.clone()),
            manual,
            wrong_at,
        }
    }
}

impl Backend for Sums {
    fn name(&self) -> &str {
        "test"
    }

    fn clock(&self) -> &dyn Clock {
        match self.kind {
            Kind::Inline | Kind::Pool => &self.wall,
            Kind::Virtual => &*self.manual,
            Kind::Stalling => &self.ticking,
        }
    }

    fn properties(&self) -> Properties {
        Properties::of_this_cpu()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, _: &OpSpec) -> Result<Limits, Unsupported> {
        let mut limits = Limits::new(NonZeroU32::new(64).expect("not zero"));
        limits.item_bytes_max = 1 << 20;
        limits.items_max = 1000;
        limits.synchronous = !matches!(self.kind, Kind::Pool);
        Ok(limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let kernel = Sum {
            calls: AtomicU64::new(0),
            wrong_at: self.wrong_at,
        };
        let limits = self.limits(spec)?;
        let inline = || Inline::new(kernel, spec.clone(), limits);
        Ok(match self.kind {
            Kind::Inline => Arc::new(inline()),
            Kind::Pool => {
                let kernel = Sum {
                    calls: AtomicU64::new(0),
                    wrong_at: self.wrong_at,
                };
                let pool = Pool::shared(NonZeroU32::MIN)?;
                Arc::new(Pooled::new(kernel, spec.clone(), limits, pool))
            }
            Kind::Virtual | Kind::Stalling => Arc::new(Timed {
                inner: Arc::new(inline()),
                clock: self.manual.clone(),
                jobs: Arc::default(),
                stalls: matches!(self.kind, Kind::Stalling),
            }),
        })
    }
}

/// Moves a clock as its jobs complete.
struct Timed {
    inner: Arc<Inline<Sum>>,
    clock: Arc<VirtualClock>,
    jobs: Arc<Mutex<u64>>,
    stalls: bool,
}

impl Operator for Timed {
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
        Ok(Box::new(TimedQueue {
            queue: self.inner.clone().open(depth)?,
            operator: self,
        }))
    }
}

struct TimedQueue {
    queue: Box<dyn Queue>,
    operator: Arc<Timed>,
}

/// The job that stalls, counted from the first: well after the warm-up's.
const STALLED: u64 = 20_000;
const STALL_NS: u64 = 10_000_000;

impl Queue for TimedQueue {
    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        self.queue.submit(ready)
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let home = self.queue.poll(done);
        let mut jobs = self.operator.jobs.lock().expect("nobody panics");
        for _ in 0..home {
            *jobs += 1;
            let takes_ns = match (self.operator.stalls, *jobs) {
                (true, STALLED) => STALL_NS,
                (true, _) => 0,
                (false, _) => 100,
            };
            let clock = &self.operator.clock;
            clock.advance_to(clock.now_ns() + takes_ns);
        }
        home
    }
}

fn plan(mode: Mode) -> Plan {
    Plan {
        mode,
        threads: NonZeroU32::MIN,
        depth: NonZeroU32::new(4).expect("not zero"),
        seconds: Duration::from_millis(20),
        warm_up: Duration::from_millis(2),
        repeat: 3,
        memory_bytes: 1 << 30,
        ..Plan::default()
    }
}

fn inputs() -> Vec<Input> {
    let input = |first: u8| {
        let bytes = (0..160).map(|at| first.wrapping_add(at)).collect();
        Input::fixed("numbers", bytes, 16, 10)
    };
    (0..7).map(|at| input(at * 31)).collect()
}

fn run(backend: &Sums, plan: &Plan) -> Result<Measured, Broken> {
    let never = AtomicBool::new(false);
    measure(backend, &inputs(), &sums(), plan, &never)
}

#[test]
fn counts_agree_with_each_other_on_every_kind_of_queue() {
    for (kind, threads) in [(Kind::Inline, 1), (Kind::Inline, 3), (Kind::Pool, 1)] {
        for mode in [
            Mode::Throughput,
            Mode::Latency,
            Mode::Open { jobs_per_s: 5e4 },
        ] {
            let mut plan = plan(mode);
            plan.threads = NonZeroU32::new(threads).expect("not zero");
            let measured = run(&Sums::new(kind, u64::MAX), &plan).expect("all is right");
            assert_eq!(measured.runs.len(), 3);
            for run in &measured.runs {
                let counts = run.counts;
                assert!(counts.jobs > 0);
                assert_eq!(counts.items, counts.jobs * 10);
                assert_eq!(counts.bytes_in, counts.jobs * 160);
                assert_eq!(counts.bytes_out, counts.jobs * 40);
                let timed_one_by_one = match mode {
                    Mode::Throughput => 0,
                    _ => counts.jobs + counts.arrivals_unserved,
                };
                assert_eq!(run.latencies.count(), timed_one_by_one);
                assert!(run.items_per_s > 0.0);
            }
            assert!(measured.digest.is_some());
        }
    }
}

#[test]
fn inputs_may_differ_in_their_number_of_items() {
    let inputs = [10, 7].map(|count: u8| {
        let bytes = (0..16 * count).collect();
        Input::fixed("numbers", bytes, 16, usize::from(count))
    });
    let never = AtomicBool::new(false);
    let backend = Sums::new(Kind::Inline, u64::MAX);
    let measured = measure(&backend, &inputs, &sums(), &plan(Mode::Latency), &never);
    for run in measured.expect("all is right").runs {
        assert_eq!(run.counts.bytes_in, run.counts.items * 16);
    }
}

#[test]
fn virtual_time_is_exact() {
    let measured = run(&Sums::new(Kind::Virtual, u64::MAX), &plan(Mode::Throughput));
    for run in measured.expect("all is right").runs {
        // A job of ten items takes 100 ns.
        assert_eq!(run.items_per_s, 1e8);
    }
    let measured = run(&Sums::new(Kind::Virtual, u64::MAX), &plan(Mode::Latency));
    for run in measured.expect("all is right").runs {
        assert_eq!(run.latencies.percentile_ns(0.5), 100);
        assert_eq!(run.latencies.max_ns(), 100);
    }
    let open = plan(Mode::Open { jobs_per_s: 1e3 });
    let refused = run(&Sums::new(Kind::Virtual, u64::MAX), &open);
    assert!(
        matches!(refused, Err(Broken::Unsupported(_))),
        "{refused:?}"
    );
}

#[test]
fn one_wrong_result_in_the_timed_region_ends_the_test() {
    for at in [0, 3, 2000, 5000] {
        let broken = run(&Sums::new(Kind::Inline, at), &plan(Mode::Throughput));
        let Err(Broken::Wrong(what)) = broken else {
            panic!("call {at} was wrong and nobody noticed");
        };
        assert!(what.contains("item 0 (16 bytes)"), "{what}");
    }
}

/// Each item as it is, in a slot of its own.
struct Echo;

impl Kernel for Echo {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        for (i, slot) in out.slots.into_iter().enumerate() {
            let item = batch.item(i);
            slot[..item.len()].copy_from_slice(item);
            out.outcomes.push(Ok(item.len() as u32));
        }
        Ok(())
    }
}

fn echoes() -> impl Workload {
    Exact::new(&OpSpec::custom("echo", []), "echo", |item, _| {
        Ok(item.to_vec())
    })
}

#[test]
fn a_stall_delays_all_who_came_meanwhile() {
    // Twenty readings' worth of time a job: the queue keeps up but for the stall, during which a hundred arrive.
    let mut plan = plan(Mode::Open { jobs_per_s: 1e4 });
    plan.seconds = Duration::from_secs(4);
    plan.warm_up = Duration::from_nanos(1);
    plan.repeat = 1;
    let measured = run(&Sums::new(Kind::Stalling, u64::MAX), &plan).expect("all is right");
    let run = &measured.runs[0];
    let share_late = |ns: u64| {
        let late = (0..10_000).filter(|&at| run.latencies.percentile_ns(f64::from(at) / 1e4) > ns);
        late.count() as f64 / 1e4 * run.counts.jobs as f64
    };
    assert!(
        (38_000..42_000).contains(&run.counts.jobs),
        "{:?}",
        run.counts
    );
    assert!(run.latencies.max_ns() > 9_000_000);
    // About half of those who came during the stall waited for more than half of it.
    let waited_half = share_late(STALL_NS / 2);
    assert!((30.0..75.0).contains(&waited_half), "{waited_half}");
}

#[test]
fn an_offered_load_beyond_reach_is_not_hidden() {
    // The clock ticks a microsecond a reading, so a million a second cannot be served.
    let mut plan = plan(Mode::Open { jobs_per_s: 1e6 });
    plan.seconds = Duration::from_millis(50);
    plan.repeat = 1;
    let measured = run(&Sums::new(Kind::Stalling, u64::MAX), &plan).expect("all is right");
    let run = &measured.runs[0];
    assert!(run.counts.arrivals_unserved > 10_000, "{:?}", run.counts);
    assert!(run.latencies.percentile_ns(0.5) > 10_000_000);
    let mut record = crate::measure::Record::new("op", crate::measure::Evidence::Measured, 1);
    measured.fill(&mut record);
    let verdict = record.stability.expect("judged");
    assert!(!verdict.stable);
    assert!(
        verdict
            .reasons
            .iter()
            .any(|reason| reason.contains("fell behind"))
    );
}

#[test]
fn told_to_stop_it_keeps_the_runs_that_finished() {
    let stop = AtomicBool::new(false);
    let mut long = plan(Mode::Throughput);
    long.repeat = 1000;
    let measured = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
        });
        let backend = Sums::new(Kind::Inline, u64::MAX);
        measure(&backend, &inputs(), &sums(), &long, &stop)
    });
    let measured = measured.expect("all is right");
    assert!(measured.interrupted);
    assert!(measured.runs.len() < 1000);
}

#[test]
fn what_cannot_be_run_says_why() {
    let mut deep = plan(Mode::Throughput);
    deep.depth = NonZeroU32::new(65).expect("not zero");
    let broken = run(&Sums::new(Kind::Inline, u64::MAX), &deep).expect_err("64 at most");
    assert!(matches!(broken, Broken::Setup(SetupError::TooDeep { .. })));
    let input = |bytes: usize, count: usize| Input {
        what: "zeros".into(),
        bytes: vec![0; bytes],
        items: Items::Offsets((0..=count).map(|at| (at * bytes / count) as u32).collect()),
        slot_bytes: None,
    };
    for (input, said) in [
        (
            input((1 << 20) + 1, 1),
            "1048576 bytes in an item at most, and these are 1048577",
        ),
        (
            input(5000, 1001),
            "1000 items in a job at most, and these are 1001",
        ),
    ] {
        let backend = Sums::new(Kind::Inline, u64::MAX);
        let plan = plan(Mode::Throughput);
        let never = AtomicBool::new(false);
        let broken = measure(&backend, &[input], &sums(), &plan, &never);
        let reason = format!("test takes {said}");
        assert_eq!(
            broken.expect_err(said),
            Broken::Unsupported(Unsupported { reason })
        );
    }
    let huge = Input {
        slot_bytes: Some(1 << 40),
        ..input(16, 1)
    };
    let operator = Arc::new(Inline::new(Echo, spec(), LIMITS));
    let backend = Only {
        clock: Box::new(WallClock::default()),
        operator,
    };
    let mut two = plan(Mode::Throughput);
    two.threads = NonZeroU32::new(2).expect("not zero");
    let never = AtomicBool::new(false);
    let broken = measure(&backend, &[huge], &echoes(), &two, &never);
    // One that is kept, and four in flight on each of two threads.
    let too_little = SetupError::TooLittleMemory {
        needed_bytes: 16 + (1 << 40) + 2 * 4 * (1 << 40),
        available_bytes: 1 << 30,
    };
    assert_eq!(broken.expect_err("9 TiB"), Broken::Setup(too_little));
    let mut pinned = plan(Mode::Throughput);
    pinned.pin = vec![100_000];
    let broken = run(&Sums::new(Kind::Inline, u64::MAX), &pinned).expect_err("no such core");
    assert!(broken.to_string().contains("100000"), "{broken}");
}

#[test]
fn a_thread_that_the_system_refuses_is_an_error() {
    // No address space has room for such a stack. The standard library reads its size once, so this needs a process.
    const STACK: (&str, &str) = ("RUST_MIN_STACK", "1125899906842624");
    const NAME: &str = "measure::harness::tests::a_thread_that_the_system_refuses_is_an_error";
    if std::env::var(STACK.0).is_ok_and(|bytes| bytes == STACK.1) {
        let broken = run(&Sums::new(Kind::Inline, u64::MAX), &plan(Mode::Throughput));
        let said = broken.expect_err("no thread").to_string();
        assert!(said.contains("cannot start a worker thread"), "{said}");
        assert!(said.contains("(number 1 of 1)"), "{said}");
        return;
    }
    if std::env::var_os("DPB_QEMU").is_some() {
        println!("skipped: under an emulator this program cannot start itself");
        return;
    }
    let this = std::env::current_exe().expect("Linux knows");
    let child = std::process::Command::new(this)
        .args(["--exact", NAME, "--test-threads=1"])
        .env(STACK.0, STACK.1)
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// One engine behind all queues: a job has it to itself for [`ENGINE_NS`], and its output was never seen before.
struct Engine(Mutex<u64>);

const ENGINE_NS: u64 = 20_000;

impl Kernel for Engine {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(8)
    }

    fn dst_len(&self, _: usize) -> usize {
        8
    }

    fn run(&self, _: Batch<'_>, mut out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let mut jobs = self.0.lock().expect("nobody panics");
        let started = Instant::now();
        while started.elapsed() < Duration::from_nanos(ENGINE_NS) {
            std::hint::spin_loop();
        }
        *jobs += 1;
        out.slots[0].copy_from_slice(&jobs.to_le_bytes());
        Ok(())
    }
}

/// Takes any output, and as long as several jobs.
struct Slow(OpSpec);

/// Takes any output, and a millisecond of the backend's clock.
struct OnTheClock {
    spec: OpSpec,
    clock: Arc<VirtualClock>,
    approved: AtomicU64,
}

impl Workload for OnTheClock {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        "on the clock"
    }

    fn right(&self, _: &[u8], _: usize) -> Right {
        Right::AnyValid
    }

    fn approve(&self, _: &[u8], _: &[u8]) -> Result<(), String> {
        self.approved.fetch_add(1, Ordering::Relaxed);
        self.clock.advance_to(self.clock.now_ns() + 1_000_000);
        Ok(())
    }
}

#[test]
fn an_open_loop_checks_every_result_and_none_on_the_clock() {
    // Room for all results of a run, and for few: then the schedule stands still while they are checked.
    for memory_bytes in [1 << 30, 10_000] {
        let clock = Arc::new(VirtualClock::new(false));
        let workload = OnTheClock {
            spec: OpSpec::custom("engine", []),
            clock: clock.clone(),
            approved: AtomicU64::new(0),
        };
        let engine = Inline::new(Engine(Mutex::new(0)), workload.spec.clone(), LIMITS);
        let backend = Only {
            clock: Box::new(Ticking(clock)),
            operator: Arc::new(engine),
        };
        let mut plan = plan(Mode::Open { jobs_per_s: 1e4 });
        plan.seconds = Duration::from_millis(100);
        plan.memory_bytes = memory_bytes;
        let never = AtomicBool::new(false);
        let input = [Input::random(1, 16, 1)];
        let measured = measure(&backend, &input, &workload, &plan, &never).expect("all is right");
        let mut jobs = 0;
        for run in measured.runs {
            assert!((800..1200).contains(&run.counts.jobs), "{:?}", run.counts);
            let longest_ns = run.latencies.max_ns();
            assert!(longest_ns < 1_000_000, "{longest_ns} ns: a check was timed");
            jobs += run.counts.jobs;
        }
        assert!(workload.approved.into_inner() >= jobs);
    }
}

#[test]
fn a_clock_says_itself_whether_a_model_moves_it() {
    /// Moves in steps that are longer than any look at it.
    struct Coarse;
    impl Clock for Coarse {
        fn now_ns(&self) -> u64 {
            static START: OnceLock<Instant> = OnceLock::new();
            START.get_or_init(Instant::now).elapsed().as_secs() * 1_000_000_000
        }

        fn kind(&self) -> ClockKind {
            ClockKind::Wall
        }
    }
    let backend = Only {
        clock: Box::new(Coarse),
        operator: Arc::new(Inline::new(Echo, spec(), LIMITS)),
    };
    let mut plan = plan(Mode::Throughput);
    plan.threads = NonZeroU32::new(2).expect("not zero");
    let never = AtomicBool::new(false);
    let measured = measure(&backend, &inputs(), &echoes(), &plan, &never);
    assert_eq!(measured.expect("not a model").threads, 2);
}

impl Workload for Slow {
    fn spec(&self) -> &OpSpec {
        &self.0
    }

    fn name(&self) -> &str {
        "slow"
    }

    fn right(&self, _: &[u8], _: usize) -> Right {
        Right::AnyValid
    }

    fn approve(&self, _: &[u8], _: &[u8]) -> Result<(), String> {
        thread::sleep(Duration::from_nanos(3 * ENGINE_NS));
        Ok(())
    }
}

/// A backend with one operator.
struct Only {
    clock: Box<dyn Clock>,
    operator: Arc<dyn Operator>,
}

impl Backend for Only {
    fn name(&self) -> &str {
        "only"
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn properties(&self) -> Properties {
        Properties::of_this_cpu()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, _: &OpSpec) -> Result<Limits, Unsupported> {
        Ok(LIMITS)
    }

    fn prepare(&self, _: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Ok(self.operator.clone())
    }
}

const LIMITS: Limits = {
    let mut limits = Limits::new(NonZeroU32::MAX);
    limits.synchronous = true;
    limits
};

#[test]
fn common_time_counts_gaps_within_a_round_and_none_between() {
    let span = |start_ns, end_ns| Some(Span { start_ns, end_ns });
    let threads = [
        vec![span(0, 10), span(100, 120), None],
        vec![span(15, 20), None, None],
    ];
    assert_eq!(team::common_ns(&threads), 20 + 20);
}

mod faults;
mod host_cpu;
mod panics;
