//! What a process does on a stand-in; what it prints is judged by the test that started it.

use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dpb_accel::doca::{self, Doca};
use dpb_core::{
    Backend, Completion, Families, Family, Input, Items, Job, JobError, Material, OpSpec, Operator,
    Queue, UnsupportedRules, Workload, conformance, spec,
};
use dpb_operators::registry;

use super::chained::Chained;
use super::items;

/// Operators with the parameters that engines take.
pub(crate) const OPERATORS: [(&str, &str); 8] = [
    ("copy", ""),
    ("sha1", ""),
    ("sha256", ""),
    ("sha512", ""),
    ("aes-gcm", "bits=128"),
    ("aes-gcm-decrypt", "bits=256"),
    ("rxpmatch", "set=url"),
    ("rxpmatch", "set=q13"),
];

/// Encoders and decoders of streams.
pub(crate) const STREAMS: [(&str, &str); 7] = [
    ("deflate", "level=1"),
    ("deflate", "level=1,format=zlib"),
    ("deflate", "level=1,format=gzip"),
    ("inflate", ""),
    ("inflate", "format=zlib"),
    ("inflate", "format=gzip"),
    ("unlz4", ""),
];

/// Erasure codes of few blocks and of many, and blocks lost of data, of parity, of both.
pub(crate) const ERASURE: [(&str, &str); 8] = [
    ("erasure-encode", ""),
    ("erasure-encode", "data=1,parity=1"),
    ("erasure-encode", "data=128,parity=1"),
    ("erasure-recover", ""),
    ("erasure-recover", "missing=10+13"),
    ("erasure-recover", "missing=2+9+11+13"),
    ("erasure-recover", "data=1,parity=1,missing=1"),
    ("erasure-recover", "data=128,parity=2,missing=127+128"),
];

/// Jobs of [`waits`].
pub(crate) const WAITS: u64 = 4;
/// Jobs of [`drives`], and the items of each.
const JOBS: u64 = 40;
const ITEMS: usize = 3;
const DEPTH: NonZeroU32 = NonZeroU32::new(8).expect("not zero");
/// The time for which nothing may happen to jobs in flight.
const SILENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(case: &str) {
    match case.split_once(' ').unwrap_or((case, "")) {
        ("conforms", "") => conforms(&OPERATORS),
        ("conforms", "streams") => conforms(&STREAMS),
        ("conforms", "erasure") => conforms(&ERASURE),
        ("conforms", "quickly") => conforms(&[
            ("copy", ""),
            ("inflate", "format=gzip"),
            ("rxpmatch", "set=q13"),
            ("erasure-recover", "data=3,parity=2,missing=1+4"),
        ]),
        ("conforms", "chain") => chain_conforms(),
        ("drives", operator) => drives(operator),
        ("waits", operator) => waits(operator, Duration::ZERO),
        ("oversleeps", operator) => waits(operator, Duration::from_millis(20)),
        ("refuses", "rules") => refuses_rules(),
        ("opens", "queues") => opens_queues(),
        ("opens", instance) => opens(instance),
        ("unwraps", "") => items::unwraps(&*backend()),
        ("settles", "") => items::settles(&*backend()),
        ("is", "foreign") => is_foreign(),
        ("wedges", operator) => is_wedged(operator),
        ("refuses", operator) => refuses(operator),
        ("drops", operator) => drops(operator, drop),
        ("leaks", operator) => drops(operator, keep),
        ("exits", "") => exits(),
        _ => panic!("no case `{case}`"),
    }
}

fn backend() -> Box<dyn Backend> {
    Doca.open("").unwrap_or_else(|why| panic!("{why}"))
}

pub(super) fn workload(name: &str, parameters: &str) -> Box<dyn Workload> {
    let entry = registry::find(name).expect("registered");
    let case = entry.case(parameters).expect("its parameters");
    entry.workload(case).expect("its own spec")
}

fn conforms(operators: &[(&str, &str)]) {
    let backend = backend();
    for (name, parameters) in operators {
        let workload = workload(name, parameters);
        let coverage = conformance::check(&*backend, &[&*workload]);
        let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
        match backend.limits(workload.spec()) {
            Ok(_) => {
                assert!(coverage.items > 0, "{name}: nothing compared");
                println!("conforms: {name} {parameters}");
            }
            Err(why) => println!("{name} {parameters}: {why}"),
        }
    }
}

/// The engines know no chain: by the family's name their operators run one behind another.
fn chain_conforms() {
    let families = Families::new(&[&Doca]);
    let backend = families.open("doca").expect("its name");
    let workload = Chained::of(&["copy", "sha256"]);
    let coverage = conformance::check(&*backend, &[&workload]);
    let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
    match backend.limits(workload.spec()) {
        Ok(_) => {
            assert!(coverage.items > 100, "{coverage:?}");
            println!("conforms: chain");
        }
        Err(why) => println!("no chain: {why}"),
    }
}

/// Opens a queue, and makes a job of three items for it at each call.
struct PreparedOperator {
    backend: Box<dyn Backend>,
    workload: Box<dyn Workload>,
    operator: Arc<dyn Operator>,
}

impl PreparedOperator {
    /// An operator, with parameters behind a space, or as it is listed.
    fn new(operator: &str) -> Self {
        let listed = OPERATORS.iter().find(|(name, _)| *name == operator);
        let (name, parameters) = listed
            .copied()
            .or_else(|| operator.split_once(' '))
            .unwrap_or((operator, ""));
        let (backend, workload) = (backend(), workload(name, parameters));
        let operator = backend
            .prepare(workload.spec())
            .unwrap_or_else(|why| panic!("{why}"));
        Self {
            backend,
            workload,
            operator,
        }
    }

    fn open(&self) -> Box<dyn Queue> {
        self.operator
            .clone()
            .open(DEPTH)
            .unwrap_or_else(|why| panic!("{why}"))
    }

    fn job(&self, tag: u64) -> Job {
        let input = Input::of(&*self.workload, tag, 100, ITEMS).expect("items");
        let mut src = self.backend.alloc(input.bytes.len()).expect("memory");
        src.copy_from_slice(&input.bytes);
        let longest = input.batch().expect("whole items").longest();
        let dst = self.backend.alloc(ITEMS * self.operator.dst_len(longest));
        let dst = dst.expect("memory");
        Job::new(tag, src.freeze(), input.items, dst, self.operator.shape())
    }

    /// The reason that a job is not right; `None` if it is.
    fn fault(&self, completion: &Completion) -> Option<JobError> {
        let Completion { job, result } = completion;
        let shape = self.operator.shape();
        let faults = result.err().into_iter().chain(result.iter().flat_map(|()| {
            (0..ITEMS).filter_map(|i| {
                let output = job.output(shape, i);
                let batch = job.batch().expect("whole items");
                if output.is_ok() {
                    let slot = job.slots.place(i, &job.dst).len;
                    let wrong = self.workload.check(batch.item(i), output, slot);
                    wrong.unwrap_or_else(|wrong| panic!("job {}, item {i}: {wrong}", job.tag));
                }
                output.err()
            })
        }));
        let faults: Vec<JobError> = faults.collect();
        assert!(
            faults.len() <= 1 || faults.windows(2).all(|pair| pair[0] == pair[1]),
            "{faults:?}"
        );
        faults.first().copied()
    }
}

/// Sends jobs through a queue; every one comes home once, right or refused.
fn drives(name: &str) {
    let bench = PreparedOperator::new(name);
    let mut queue = bench.open();
    let mut ready: VecDeque<Job> = (0..JOBS).map(|tag| bench.job(tag)).collect();
    let mut done = Vec::new();
    let mut last = Instant::now();
    while (done.len() as u64) < JOBS {
        if queue.submit(&mut ready) + queue.poll(&mut done) > 0 {
            last = Instant::now();
        }
        assert!(
            last.elapsed() < SILENCE,
            "{} of {JOBS} jobs are home",
            done.len()
        );
    }
    assert_eq!(queue.in_flight(), 0);
    let mut tags: Vec<u64> = done.iter().map(|completion| completion.job.tag).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..JOBS), "each job once");
    let refused: Vec<JobError> = done
        .iter()
        .filter_map(|completion| bench.fault(completion))
        .collect();
    println!(
        "{JOBS} jobs: {} right, refused {refused:?}",
        JOBS as usize - refused.len()
    );
    if let Some(JobError::Device(code)) = refused.first() {
        println!("{}", doca::describe(*code).expect("a library is loaded"));
    }
}

/// Sends jobs one at a time, turns to something else for a while, and waits for each; says how often it polled. A wait that missed the
/// end of its job would last for an hour.
fn waits(name: &str, elsewhere: Duration) {
    let bench = PreparedOperator::new(name);
    let mut queue = bench.open();
    let (mut done, mut polls) = (Vec::new(), 0);
    for tag in 0..WAITS {
        queue.submit(&mut VecDeque::from([bench.job(tag)]));
        std::thread::sleep(elsewhere);
        while done.len() as u64 == tag {
            queue.wait(Duration::from_secs(3600));
            queue.poll(&mut done);
            polls += 1;
        }
    }
    assert!(done.iter().all(|done| bench.fault(done).is_none()));
    let has_file = queue.file().is_some();
    println!("{WAITS} jobs were waited for with {polls} polls; a file: {has_file}");
}

fn opens(instance: &str) {
    for finding in Doca.findings() {
        println!(
            "{}: {:?}: {} [{}]",
            finding.what, finding.state, finding.detail, finding.remedy
        );
    }
    for listed in Doca.backends() {
        println!(
            "`{}`: {} {} ({})",
            listed.instance, listed.is_here, listed.summary, listed.details
        );
    }
    match Doca.open(instance) {
        Err(why) => println!("not opened: {why}"),
        Ok(backend) => {
            println!(
                "opened {}: {:?}",
                backend.name(),
                backend.properties().evidence
            );
            let others = [OpSpec::from(spec::Md5)].into_iter();
            let operators = OPERATORS.iter().chain(&STREAMS).chain(&ERASURE);
            let specs =
                operators.map(|(name, parameters)| workload(name, parameters).spec().clone());
            for spec in specs.chain(others) {
                match backend.limits(&spec) {
                    Ok(limits) => println!("{spec}: {limits:?}"),
                    Err(why) => println!("{spec}: {why}"),
                }
            }
        }
    }
}

/// Rule sets that the engine does not take.
fn refuses_rules() {
    let backend = backend();
    let why = |spec: &OpSpec| backend.limits(spec).expect_err("refused");
    println!("ips: {}", why(workload("rxpmatch", "").spec()));
    for rules in ["3:/a*/", "4:/(?=a)b/"] {
        let spec = OpSpec::from(spec::RxpMatch {
            rules: Material::public(rules.as_bytes()),
            unsupported: UnsupportedRules::Refuse,
        });
        println!("{rules}: {}", why(&spec));
    }
}

/// Two queues at a time, and one when they are gone.
fn opens_queues() {
    let bench = PreparedOperator::new("copy");
    let open = || bench.operator.clone().open(DEPTH);
    let both = [open(), open()];
    for why in both.iter().filter_map(|queue| queue.as_ref().err()) {
        println!("{why}");
    }
    drop(both);
    if open().is_ok() {
        println!("opened again");
    }
}

/// A job whose input or output is another device's.
fn is_foreign() {
    let [one, other] = ["mlx5_0", "mlx5_1"].map(|name| Doca.open(name).expect("a device"));
    let operator = one.prepare(workload("copy", "").spec()).expect("copies");
    let mut queue = operator.clone().open(DEPTH).expect("opens");
    let alloc = |backend: &dyn Backend| backend.alloc(64).expect("memory");
    let job = |src: &dyn Backend, dst: &dyn Backend| {
        Job::new(
            0,
            alloc(src).freeze(),
            Items::One,
            alloc(dst),
            operator.shape(),
        )
    };
    let mut ready = VecDeque::from([job(&*other, &*one), job(&*one, &*other)]);
    let mut done = Vec::new();
    assert_eq!(queue.submit(&mut ready), 2);
    assert_eq!(queue.poll(&mut done), 2);
    assert!(
        done.iter()
            .all(|completion| completion.result == Err(JobError::ForeignBuffer))
    );
    println!("refused as foreign, each way");
}

/// Two queues whose tasks do not end: what ended is right, and dropping them takes seconds.
fn is_wedged(name: &str) {
    let bench = PreparedOperator::new(name);
    for _ in 0..2 {
        let mut queue = bench.open();
        let mut ready: VecDeque<Job> = (0..8).map(|tag| bench.job(tag)).collect();
        let mut done = Vec::new();
        queue.submit(&mut ready);
        for _ in 0..1000 {
            queue.poll(&mut done);
        }
        assert!(done.len() < 8 && queue.in_flight() == 8 - done.len());
        for completion in &done {
            assert_eq!(bench.fault(completion), None);
        }
    }
    println!("dropped two queues");
}

/// A queue that is not opened.
fn refuses(name: &str) {
    let bench = PreparedOperator::new(name);
    match bench.operator.clone().open(DEPTH) {
        Ok(_) => println!("opened"),
        Err(why) => println!("{why}"),
    }
}

/// Lets backend, operator, a queue that is busy or not, and buffers go, in every order. One of them, or none, goes as `gone` says.
fn drops(operator: &str, gone: impl Fn(Box<dyn Any>)) {
    for order in orders() {
        for polls in [0, 1, 100] {
            for odd in 0..=order.len() {
                let bench = PreparedOperator::new(operator);
                let mut queue = bench.open();
                let mut ready: VecDeque<Job> = (0..12).map(|tag| bench.job(tag)).collect();
                let mut done = Vec::new();
                queue.submit(&mut ready);
                for _ in 0..polls {
                    queue.poll(&mut done);
                }
                let PreparedOperator {
                    backend, operator, ..
                } = bench;
                let buffers = (ready, done);
                let mut things: [Option<Box<dyn Any>>; 4] = [
                    Some(Box::new(backend)),
                    Some(Box::new(operator)),
                    Some(Box::new(queue)),
                    Some(Box::new(buffers)),
                ];
                for i in order {
                    let thing = things[i].take().expect("each once");
                    match i == odd {
                        true => gone(thing),
                        false => drop(thing),
                    }
                }
            }
        }
    }
}

/// Never drops it, and knows where it is: leak checkers look for what nobody knows.
fn keep(thing: Box<dyn Any>) {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let at = Box::into_raw(thing).cast::<()>() as usize;
    KEPT.lock().expect("nobody panics").push(at);
}

/// The 24 orders of four things.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for code in 0..256 {
        let order = [code / 64, code / 16 % 4, code / 4 % 4, code % 4];
        if (0..4).all(|i| order.contains(&i)) {
            orders.push(order);
        }
    }
    orders
}

/// Ends in the middle of everything.
fn exits() {
    let bench = PreparedOperator::new("copy");
    let mut queue = bench.open();
    let mut ready: VecDeque<Job> = (0..12).map(|tag| bench.job(tag)).collect();
    queue.submit(&mut ready);
    queue.poll(&mut Vec::new());
    std::process::exit(3);
}
