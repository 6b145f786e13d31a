//! Tables of routes that change while queues look addresses up: each job answers as one committed version does, and as the newest one
//! if it was submitted after the commit. Right is what the model of each version says.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use dpb_core::random::SplitMix64;
use dpb_core::{
    Backend, Buf, ChangeError, Control, Items, Job, Material, OpSpec, Operator, View, spec,
};
use dpb_operators::cpu;
use dpb_operators::network::lpm::model::Model;
use dpb_operators::network::lpm::{
    Generated, LookupKeys, Prefix, Route, draw, write, write_change,
};

/// Addresses of a job, and of each of its items.
const ADDRESSES: usize = 256;
const PER_ITEM: usize = 64;
/// The number of addresses of which one is sent to a hop of its own by each version, so that no part of two versions' answers is alike.
const MARKED: usize = 16;
const QUEUES: usize = 2;
const DEPTH: u32 = 4;

/// A table, what becomes of it, and what is right for each of its versions.
struct Story<A> {
    spec: OpSpec,
    addresses: View,
    /// The changes before each version but version zero.
    scripts: Vec<Vec<u8>>,
    /// The hops of all addresses by version.
    answers: Vec<Vec<u8>>,
    model: Model<A>,
}

impl<A: Generated> Story<A> {
    fn new(seed: u64, commits: usize) -> Self {
        let routes = A::routes(seed, 2000, 50);
        let probes = draw(LookupKeys::RouteWeighted, seed, ADDRESSES, &routes);
        let mut bytes = Vec::new();
        probes.iter().for_each(|probe| probe.to_wire(&mut bytes));
        let mut addresses = Buf::zeroed(bytes.len()).expect("memory");
        addresses.copy_from_slice(&bytes);
        let spec = OpSpec::from(spec::Lpm {
            family: A::FAMILY,
            routes: Material::public(write(&routes)),
        });
        let mut story = Self {
            spec,
            addresses: addresses.freeze(),
            scripts: Vec::new(),
            answers: Vec::new(),
            model: Model::new(&routes),
        };
        let mut random = SplitMix64::new(seed);
        story.answer(&probes);
        for commit in 1..=commits {
            let changes = changes(&mut random, &routes, &probes, commit as u32);
            story.change(&changes);
            story.answer(&probes);
        }
        story
    }

    fn change(&mut self, changes: &[(Prefix<A>, Option<u32>)]) {
        let mut script = Vec::new();
        for (prefix, hop) in changes {
            match hop {
                Some(hop) => self.model.insert(*prefix, *hop),
                None => self.model.remove(*prefix),
            };
            write_change(*prefix, *hop, &mut script);
        }
        self.scripts.push(script);
    }

    fn answer(&mut self, probes: &[A]) {
        let hops = probes.iter().map(|probe| self.model.lookup(*probe));
        self.answers.push(hops.flat_map(u32::to_le_bytes).collect());
    }

    fn prepare(&self, backend: &str) -> Arc<dyn Operator> {
        let backend = cpu::FAMILIES.open(backend).expect("a backend");
        backend.prepare(&self.spec).expect("prepares")
    }

    /// Whether `answer` is that of a version of `versions`.
    fn is_right(&self, answer: &[u8], versions: RangeInclusive<usize>) -> bool {
        self.answers[versions].iter().any(|right| right == answer)
    }
}

/// Random changes to the routes and inside them, and each marked address to the hop of this commit.
fn changes<A: Generated>(
    random: &mut SplitMix64,
    routes: &[Route<A>],
    probes: &[A],
    commit: u32,
) -> Vec<(Prefix<A>, Option<u32>)> {
    let some = (0..random.below(60)).map(|_| {
        let prefix = routes[random.below(routes.len())].prefix;
        let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let inside = (prefix.bits() + random.below(9) as u8).min(A::BITS);
        let hop = random.below(300) as u32;
        match random.below(3) {
            0 => (prefix, None),
            1 => (prefix, Some(hop)),
            _ => (Prefix::of(prefix.fill(bits), inside), Some(hop)),
        }
    });
    let mut changes: Vec<_> = some.collect();
    let marked = probes.iter().step_by(MARKED);
    changes.extend(marked.map(|probe| (Prefix::of(*probe, A::BITS), Some(1000 + commit))));
    changes
}

/// The progress of the writer, for readers to know, and the other way round.
#[derive(Default)]
struct Progress {
    begun: AtomicUsize,
    ended: AtomicUsize,
    is_done: AtomicBool,
    /// Jobs that came home, by queue.
    jobs: [AtomicUsize; QUEUES],
}

impl Progress {
    /// Nothing was committed, and nothing will be.
    fn done() -> Self {
        Self {
            is_done: AtomicBool::new(true),
            ..Self::default()
        }
    }
}

/// Looks addresses up until a job was submitted after the last commit.
fn look_up<A: Generated>(
    story: &Story<A>,
    operator: &Arc<dyn Operator>,
    progress: &Progress,
    number: usize,
) {
    let depth = NonZeroU32::new(DEPTH).expect("not zero");
    let mut queue = operator.clone().open(depth).expect("opens");
    let shape = operator.shape();
    let job = |tag: u32| {
        let items = Items::fixed((PER_ITEM * A::BYTES) as u32, (ADDRESSES / PER_ITEM) as u32);
        let dst = Buf::zeroed(ADDRESSES * 4).expect("memory");
        Job::new(tag.into(), story.addresses.clone(), items, dst, shape)
    };
    let mut ready: VecDeque<Job> = (0..DEPTH).map(job).collect();
    let mut done = Vec::new();
    // What was committed when each job was submitted, by tag.
    let mut least = [0; DEPTH as usize];
    loop {
        let is_last = progress.is_done.load(Ordering::Acquire);
        for job in &ready {
            least[job.tag as usize] = progress.ended.load(Ordering::Acquire);
        }
        queue.submit(&mut ready);
        assert!(ready.is_empty(), "as deep as there are jobs");
        queue.poll(&mut done);
        while done.is_empty() || is_last && queue.in_flight() > 0 {
            queue.wait(Duration::from_secs(1));
            queue.poll(&mut done);
        }
        let most = progress.begun.load(Ordering::Acquire);
        for completion in done.drain(..) {
            completion.result.expect("carried out");
            let mut job = completion.job;
            let answer = answer(&job, shape);
            let versions = least[job.tag as usize]..=most;
            assert!(
                story.is_right(&answer, versions.clone()),
                "not of {versions:?}"
            );
            job.dst[0].fill(0xee);
            ready.push_back(job);
            progress.jobs[number].fetch_add(1, Ordering::Release);
        }
        if is_last {
            return;
        }
    }
}

fn answer(job: &Job, shape: dpb_core::OutputShape) -> Vec<u8> {
    let items = 0..job.items.count();
    let outputs = items.map(|item| job.output(shape, item).expect("whole addresses"));
    outputs.collect::<Vec<_>>().concat()
}

/// Two queues and a writer.
fn tell<A: Generated>(backend: &str, seed: u64, commits: usize) {
    let story = &Story::<A>::new(seed, commits);
    let (operator, other) = (&story.prepare(backend), story.prepare(backend));
    let control = operator.control().expect("routes can be changed");
    let progress = &Progress::default();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..QUEUES)
            .map(|number| scope.spawn(move || look_up(story, operator, progress, number)))
            .collect();
        for (version, script) in (1..).zip(&story.scripts) {
            control.change(script).expect("fits");
            progress.begun.store(version, Ordering::Release);
            assert_eq!(control.commit(), Ok(version as u64));
            progress.ended.store(version, Ordering::Release);
            // Now and then every queue gets to see it.
            let had = progress
                .jobs
                .each_ref()
                .map(|jobs| jobs.load(Ordering::Acquire));
            let lags = || {
                let mut queues = readers.iter().zip(&progress.jobs).zip(had);
                queues.any(|((reader, jobs), had)| {
                    !reader.is_finished() && jobs.load(Ordering::Acquire) == had
                })
            };
            while version % 8 == 0 && lags() {
                thread::yield_now();
            }
        }
        progress.is_done.store(true, Ordering::Release);
    });
    assert!(
        progress
            .jobs
            .iter()
            .all(|jobs| jobs.load(Ordering::Acquire) > 0)
    );
    let untouched = Progress::done();
    look_up(story, &other, &untouched, 0);
    assert_eq!(untouched.jobs[0].load(Ordering::Acquire), DEPTH as usize);
}

#[test]
fn each_job_sees_one_version_on_the_callers_core() {
    tell::<Ipv4Addr>("cpu/best", 1, 400);
    tell::<Ipv4Addr>("cpu/portable", 2, 100);
    tell::<Ipv6Addr>("cpu/best", 3, 200);
}

#[test]
fn each_job_sees_one_version_on_a_pool() {
    tell::<Ipv4Addr>("pool/2", 4, 400);
    tell::<Ipv6Addr>("pool/2", 5, 100);
}

#[test]
fn malformed_scripts_are_refused_as_a_whole() {
    let story = Story::<Ipv4Addr>::new(6, 3);
    let operator = story.prepare("cpu/best");
    let control = operator.control().expect("routes can be changed");
    let good = &story.scripts[0];
    let change = 10;
    for (what, at, byte) in [
        ("neither comes nor goes", 0, 2),
        ("33 bits", 1, 33),
        ("bits behind the prefix", 1, 0),
    ] {
        let mut bad = good.clone();
        // The last change sends a marked address somewhere, which has bits set.
        let last = bad.len() - change;
        bad[last + at] = byte;
        let refused = control.change(&bad);
        assert_eq!(refused, Err(ChangeError::Malformed { at: last }), "{what}");
    }
    let short = control.change(&good[..change + 3]);
    assert_eq!(short, Err(ChangeError::Malformed { at: change }));
    assert_eq!(control.change(&[]), Ok(()));
    assert_eq!(control.commit(), Ok(0), "nothing was taken");

    // Another handle is the same one.
    let again = operator.control().expect("as before");
    assert_eq!(control.change(good), Ok(()));
    assert_eq!(again.change(&story.scripts[1]), Ok(()));
    let progress = Progress::done();
    look_up(&story, &operator, &progress, 0);
    assert_eq!(again.commit(), Ok(1), "of both");
    progress.begun.store(2, Ordering::Release);
    progress.ended.store(2, Ordering::Release);
    look_up(&story, &operator, &progress, 0);
}

#[test]
fn a_control_outlives_its_operator() {
    let story = Story::<Ipv4Addr>::new(7, 2);
    let control: Arc<dyn Control> = story.prepare("pool/2").control().expect("has one");
    assert_eq!(control.change(&story.scripts[0]), Ok(()));
    assert_eq!(control.commit(), Ok(1));
}
