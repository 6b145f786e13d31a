//! Several engines and a link in one simulation: times are those of a calculation by hand, and the record is the same whatever the
//! host's scheduler does.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dpb_core::conformance::sample::{Sample, workloads};
use dpb_core::measure::harness::{Mode, Plan, SILENCE, measure};
use dpb_core::measure::{Evidence, Record};
use dpb_core::{
    Backend, Buf, Clock, Completion, Input, Items, Job, Limits, OpSpec, Operator, OutputShape,
    Properties, Queue, SetupError, Unsupported, conformance, spec,
};
use dpb_sim::{Link, LinkModel, Model, Modelled, Simulation, Ways};
use serde_json::Value;

const WIRE: LinkModel = LinkModel {
    byte_ps: 1000,
    latency_ns: 100,
    ways: Ways::Both,
};

fn model(text: &str) -> Model {
    text.parse().expect("a model")
}

fn engine<B: Backend>(name: &str, text: &str, inner: B, simulation: &Simulation) -> Modelled<B> {
    Modelled::new(name, model(text), inner, simulation)
}

fn open(backend: &dyn Backend, depth: u32) -> Box<dyn Queue> {
    let operator = backend
        .prepare(&OpSpec::from(spec::Crc32c))
        .expect("supported");
    let depth = NonZeroU32::new(depth).expect("not zero");
    operator.open(depth).expect("opens")
}

/// A checksum of so many bytes; its output has four.
fn job(tag: u64, bytes: usize) -> Job {
    let src = Buf::zeroed(bytes).expect("memory").freeze();
    let dst = Buf::zeroed(4).expect("memory");
    Job::new(tag, src, Items::One, dst, OutputShape::Fixed(4))
}

fn submit(queue: &mut dyn Queue, jobs: impl IntoIterator<Item = Job>) {
    let mut ready: VecDeque<Job> = jobs.into_iter().collect();
    let count = ready.len();
    assert_eq!(queue.submit(&mut ready), count);
}

/// Polls the queues in turns until all is home; for each the tags of its jobs, and when they came home.
fn homes(simulation: &Simulation, queues: &mut [Box<dyn Queue>]) -> Vec<Vec<(u64, u64)>> {
    let mut homes = vec![Vec::new(); queues.len()];
    let mut done = Vec::new();
    while queues.iter().any(|queue| queue.in_flight() > 0) {
        for (queue, homes) in queues.iter_mut().zip(&mut homes) {
            queue.poll(&mut done);
            let now_ns = simulation.now_ns();
            homes.extend(done.drain(..).map(|done| (done.job.tag, now_ns)));
        }
    }
    homes
}

/// Two jobs to each of two engines behind one link, and the record of each engine.
///
/// | ns | job a0, 200 bytes | a1, 200 bytes | b0, 100 bytes | b1, 100 bytes |
/// |---|---|---|---|---|
/// | submitted | 0 | 0 | 10 | 10 |
/// | on the wire | 0 to 200 | 200 to 400 | 400 to 500 | 500 to 600 |
/// | at the engine | 300 | 500 | 600 | 700 |
/// | in a lane | 300 to 800 | 800 to 1300 | 600 to 800 | 800 to 1000 |
/// | on the wire home | 800 to 804 | 1300 to 1304 | 804 to 808 | 1000 to 1004 |
/// | home | 904 | 1404 | 908 | 1104 |
///
/// At 800 ns both a0 and b0 are done: a0 was taken in first, at 300 ns, and so has the wire first.
fn two_engines(inner: impl Fn() -> Sample) -> [Record; 2] {
    let simulation = Simulation::new();
    let link = Link::new(WIRE, &simulation);
    let engine = |name, text| engine(name, text, inner(), &simulation).behind(&link);
    let backends = [
        engine("a", "lanes=1,job_ns=500,byte_ps=0,doorbell_ns=0"),
        engine("b", "lanes=1,job_ns=200,byte_ps=0,doorbell_ns=10"),
    ];
    let mut queues = [open(&backends[0], 2), open(&backends[1], 2)];
    let mut submitted_ns = [0; 2];
    for (at, bytes) in [200, 100].into_iter().enumerate() {
        submit(&mut *queues[at], [job(0, bytes), job(1, bytes)]);
        submitted_ns[at] = simulation.now_ns();
    }
    let homes = homes(&simulation, &mut queues);
    [0, 1].map(|at| {
        let mut record = Record::on("simulation", &backends[at], &OpSpec::from(spec::Crc32c), 1);
        let latencies = homes[at].iter().map(|(tag, home_ns)| {
            assert!(*tag < 2);
            (home_ns - submitted_ns[at]) as f64
        });
        record.sample("latency_ns", latencies.collect());
        record.counts.insert("jobs".into(), homes[at].len() as u64);
        record
    })
}

/// What a record says, but for the machine, the program, and when it was.
fn told(record: &Record) -> String {
    let mut told = serde_json::to_value(record).expect("a record is JSON");
    told["id"] = Value::Null;
    let provenance = told["provenance"].as_object_mut().expect("a record's");
    provenance.retain(|name, _| ["libraries", "made_of", "seed"].contains(&name.as_str()));
    serde_json::to_string_pretty(&told).expect("JSON") + "\n"
}

#[test]
fn two_engines_and_a_link_give_the_record_that_was_calculated() {
    let records = two_engines(|| Sample::new(None));
    let said: String = records.iter().map(told).collect();
    assert_eq!(said, include_str!("data/two_engines.json"));
}

#[test]
fn the_record_is_the_same_whatever_the_scheduler_does() {
    let expected = include_str!("data/two_engines.json");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // More threads than cores, so that those that simulate are interrupted anywhere.
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
        }
        let simulate = || {
            for _ in 0..50 {
                let records = two_engines(|| Sample::new(None));
                let said: String = records.iter().map(told).collect();
                assert_eq!(said, expected);
            }
        };
        let simulations = [(); 4].map(|()| scope.spawn(simulate));
        let ended = simulations.map(thread::ScopedJoinHandle::join);
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("the same"));
    });
}

/// Workers compute when they like; a doorbell of 10 ns passes at 0 ns, before the first job is done.
#[test]
fn results_that_come_late_change_no_time() {
    let inline = two_engines(|| Sample::new(None));
    for _ in 0..100 {
        let pooled = two_engines(|| Sample::new(NonZeroU32::new(2)));
        for (inline, pooled) in inline.iter().zip(&pooled) {
            assert_eq!(inline.samples, pooled.samples);
            assert_eq!(inline.counts, pooled.counts);
        }
    }
}

/// The harness on an engine behind a link: nothing of the host is in the record.
#[test]
fn the_harness_gives_the_same_record_twice() {
    let run = |warm_up| {
        let simulation = Simulation::new();
        let link = Link::new(WIRE, &simulation);
        let other = engine("other", "", Sample::new(None), &simulation).behind(&link);
        let backend = engine(
            "engine",
            "lanes=2,poll_ns=40",
            Sample::new(None),
            &simulation,
        );
        let backend = backend.behind(&link);
        let plan = Plan {
            mode: Mode::Latency,
            threads: NonZeroU32::MIN,
            depth: NonZeroU32::new(3).expect("not zero"),
            seconds: Duration::from_millis(1),
            warm_up,
            repeat: 6,
            pin: Vec::new(),
            seed: 1,
            silence: SILENCE,
            memory_bytes: 1 << 30,
        };
        let input = |bytes: usize| Input::fixed("sevens", vec![7; bytes], bytes, 1);
        let inputs = [64, 5000, 300].map(input);
        let never = AtomicBool::new(false);
        let measure = |backend: &dyn Backend| {
            let mut record = Record::on("op", backend, &OpSpec::from(spec::Crc32c), 1);
            let measured = measure(backend, &inputs, workloads()[0], &plan, &never);
            measured.expect("all is right").fill(&mut record);
            told(&record)
        };
        [measure(&other), measure(&backend)]
    };
    let first = run(Duration::ZERO);
    assert!(first[1].contains("latency_ns_p99"), "{}", first[1]);
    assert_eq!(first, run(Duration::from_millis(20)));
}

#[test]
fn models_share_time_and_only_the_simulation_moves_it() {
    let simulation = Simulation::new();
    let slow = engine(
        "slow",
        "job_ns=500,byte_ps=0,doorbell_ns=0",
        Sample::new(None),
        &simulation,
    );
    let fast = engine(
        "fast",
        "job_ns=200,byte_ps=0,doorbell_ns=0",
        Sample::new(None),
        &simulation,
    );
    let (mut slow_queue, mut fast_queue) = (open(&slow, 1), open(&fast, 1));
    let mut done = Vec::new();
    submit(&mut *slow_queue, [job(0, 8)]);
    assert_eq!(
        (fast_queue.poll(&mut done), simulation.now_ns()),
        (0, 0),
        "nothing in flight"
    );
    submit(&mut *fast_queue, [job(1, 8)]);
    // The poll of one stops where a job of the other comes home.
    assert_eq!((slow_queue.poll(&mut done), simulation.now_ns()), (0, 200));
    assert_eq!(slow.clock().now_ns(), fast.clock().now_ns());
    assert_eq!((fast_queue.poll(&mut done), simulation.now_ns()), (1, 200));
    assert_eq!((slow_queue.poll(&mut done), simulation.now_ns()), (1, 500));
    assert_eq!((slow_queue.poll(&mut done), simulation.now_ns()), (0, 500));
}

#[test]
fn a_poll_that_costs_time_ends_where_a_job_of_another_queue_comes_home() {
    let simulation = Simulation::new();
    let models = [
        "job_ns=70,byte_ps=0,doorbell_ns=0",
        "job_ns=500,byte_ps=0,doorbell_ns=0,poll_ns=100",
    ];
    let [brief, polled] = models.map(|text| engine("e", text, Sample::new(None), &simulation));
    let mut queues = [open(&brief, 1), open(&polled, 1)];
    submit(&mut *queues[0], [job(0, 8)]);
    submit(&mut *queues[1], [job(1, 8)]);
    let mut done = Vec::new();
    for now_ns in [70, 170, 270, 370, 470] {
        assert_eq!(
            (queues[1].poll(&mut done), simulation.now_ns()),
            (0, now_ns)
        );
    }
    assert_eq!((queues[1].poll(&mut done), simulation.now_ns()), (1, 500));
    assert_eq!(
        (queues[0].poll(&mut done), simulation.now_ns()),
        (1, 500),
        "late, for it was not polled"
    );
}

#[test]
fn outputs_cross_a_link_only_where_it_goes_both_ways() {
    for (ways, home_ns) in [
        (Ways::Forth, 50 + 100 + 500),
        (Ways::Both, 50 + 100 + 500 + 4 + 100),
    ] {
        let simulation = Simulation::new();
        let link = Link::new(LinkModel { ways, ..WIRE }, &simulation);
        let text = "job_ns=500,byte_ps=0,doorbell_ns=0";
        let backend = engine("engine", text, Sample::new(None), &simulation).behind(&link);
        let mut queues = [open(&backend, 1)];
        submit(&mut *queues[0], [job(7, 50)]);
        assert_eq!(homes(&simulation, &mut queues), [[(7, home_ns)]]);
        let Evidence::Simulated { model } = backend.properties().evidence else {
            panic!("a model");
        };
        assert!(
            model.contains("behind a link of byte_ps=1000,latency_ns=100"),
            "{model}"
        );
    }
}

#[test]
fn one_thread_drives_and_another_may_take_over() {
    let simulation = Simulation::new();
    let backend = engine("engine", "", Sample::new(None), &simulation);
    let operator = backend
        .prepare(&OpSpec::from(spec::Crc32c))
        .expect("supported");
    let elsewhere = || {
        let operator = operator.clone();
        let open = move || operator.open(NonZeroU32::MIN).map(drop);
        thread::scope(|scope| scope.spawn(open).join().expect("no panic"))
    };
    let queue = operator.clone().open(NonZeroU32::MIN).expect("opens");
    let refused = elsewhere().expect_err("two threads").to_string();
    assert!(
        refused.contains("one thread drives a simulation"),
        "{refused}"
    );
    drop(queue);
    elsewhere().expect("nobody else has a queue");
}

#[test]
fn a_queue_that_is_dropped_takes_its_jobs_along() {
    let simulation = Simulation::new();
    let link = Link::new(WIRE, &simulation);
    let text = "lanes=1,job_ns=500,byte_ps=0,doorbell_ns=0";
    let backend = engine("engine", text, Sample::new(None), &simulation).behind(&link);
    let mut queues = [open(&backend, 2)];
    let mut dropped = open(&backend, 2);
    submit(&mut *dropped, [job(0, 100), job(1, 100)]);
    submit(&mut *queues[0], [job(2, 100)]);
    drop(dropped);
    // The wire was theirs until 200 ns, the engine never was: 300 + 100 + 500 + 4 + 100.
    assert_eq!(homes(&simulation, &mut queues), [[(2, 1004)]]);
}

#[test]
fn engines_behind_a_link_conform() {
    for ways in [Ways::Forth, Ways::Both] {
        for workers in [None, NonZeroU32::new(2)] {
            let simulation = Simulation::new();
            let link = Link::new(LinkModel { ways, ..WIRE }, &simulation);
            let backend = engine("engine", "", Sample::new(workers), &simulation).behind(&link);
            let coverage = conformance::check(&backend, workloads());
            let skipped = coverage
                .unwrap_or_else(|failure| panic!("{failure}"))
                .skipped;
            let is_thread = |why: &String| why.contains("one thread drives a simulation");
            assert!(
                !skipped.is_empty() && skipped.iter().all(is_thread),
                "{skipped:?}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "is a model, and would compute for a model")]
fn a_model_inside_a_model_is_refused() {
    let simulation = Simulation::new();
    let inner = engine("inner", "", Sample::new(None), &simulation);
    engine("outer", "", inner, &Simulation::new());
}

#[test]
#[should_panic(expected = "live in different simulations")]
fn a_link_of_another_simulation_is_refused() {
    let link = Link::new(WIRE, &Simulation::new());
    let backend = engine("engine", "", Sample::new(None), &Simulation::new());
    let _ = backend.behind(&link);
}

/// Virtual time waits for a result, whichever queue is polled, and however late it comes.
#[test]
fn time_waits_for_a_result_that_is_not_computed() {
    let simulation = Simulation::new();
    let is_ready = Arc::new(AtomicBool::new(false));
    let late = Late {
        sample: Sample::new(None),
        is_ready: is_ready.clone(),
    };
    let late = engine(
        "late",
        "job_ns=100,byte_ps=0,doorbell_ns=0",
        late,
        &simulation,
    );
    let prompt = engine(
        "prompt",
        "job_ns=300,byte_ps=0,doorbell_ns=0",
        Sample::new(None),
        &simulation,
    );
    let mut queues = [open(&prompt, 1), open(&late, 1)];
    for (tag, queue) in queues.iter_mut().enumerate() {
        submit(&mut **queue, [job(tag as u64, 8)]);
    }
    let mut done = Vec::new();
    for _ in 0..3 {
        for queue in &mut queues {
            assert_eq!((queue.poll(&mut done), simulation.now_ns()), (0, 0));
        }
    }
    is_ready.store(true, Ordering::Relaxed);
    assert_eq!(homes(&simulation, &mut queues), [[(0, 300)], [(1, 100)]]);
}

/// The sample, whose results nobody gets before they are ready.
struct Late {
    sample: Sample,
    is_ready: Arc<AtomicBool>,
}

struct LateOperator {
    inner: Arc<dyn Operator>,
    is_ready: Arc<AtomicBool>,
}

struct LateQueue {
    inner: Box<dyn Queue>,
    is_ready: Arc<AtomicBool>,
}

impl Backend for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn clock(&self) -> &dyn Clock {
        self.sample.clock()
    }

    fn properties(&self) -> Properties {
        self.sample.properties()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.sample.alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        self.sample.limits(spec)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Ok(Arc::new(LateOperator {
            inner: self.sample.prepare(spec)?,
            is_ready: self.is_ready.clone(),
        }))
    }
}

impl Operator for LateOperator {
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
        Ok(Box::new(LateQueue {
            inner: self.inner.clone().open(depth)?,
            is_ready: self.is_ready.clone(),
        }))
    }
}

impl Queue for LateQueue {
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        self.inner.submit(ready)
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        match self.is_ready.load(Ordering::Relaxed) {
            true => self.inner.poll(done),
            false => 0,
        }
    }
}
