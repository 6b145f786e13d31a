//! Lookups in a table of routes that changes: how many there are alone, how many while a writer makes changes at a rate, and how many
//! changes there are then.
//!
//! One queue looks bursts of 256 addresses up, each in a route drawn at random, among 900,000 IPv4 routes. On another core a writer
//! commits scripts of changes to routes drawn at random: a quarter are taken out, the others announced with a random hop. The phases of a round
//! follow one another, and what counts is the median of the rounds' ratios: lookups beside the writer to lookups alone. What the table
//! says in the end is checked against a model. No criterion: its figures are of one thread.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dpb_core::random::SplitMix64;
use dpb_core::{
    Backend, Buf, Completion, Control, IpFamily, Items, Job, Material, OpSpec, Queue, spec,
};
use dpb_operators::cpu::Cpu;
use dpb_operators::network::lpm::model::Model;
use dpb_operators::network::lpm::{
    Generated, LookupKeys, Prefix, Route, draw, write, write_change,
};

const BURST: usize = 256;
const HOPS: u32 = 100;
const DEPTH: NonZeroU32 = NonZeroU32::new(32).unwrap();

/// The sizes of a run.
struct Size {
    routes: usize,
    /// Bursts with addresses of their own.
    bursts: usize,
    /// Changes, which are made again and again.
    changes: usize,
    /// Of a commit, in turn.
    per_commit: [usize; 2],
    rounds: usize,
    phase: Duration,
}

const MEASURE: Size = Size {
    routes: 900_000,
    bursts: 4096,
    changes: 1 << 20,
    per_commit: [4096, 65_536],
    rounds: 11,
    phase: Duration::from_millis(500),
};
const TEST: Size = Size {
    routes: 2000,
    bursts: 64,
    changes: 512,
    per_commit: [16, 64],
    rounds: 1,
    phase: Duration::from_millis(5),
};

/// The rates of changes a second that the writer keeps; `None`: the writer does not pause.
const RATES: [Option<f64>; 3] = [Some(100e3), Some(1e6), None];
/// Bytes of a change in a script.
const CHANGE_BYTES: usize = 10;

type Change = (Prefix<Ipv4Addr>, Option<u32>);

fn main() {
    // As criterion does: without `--bench` this is a test, and runs once.
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let size = if measuring { MEASURE } else { TEST };
    let routes = Ipv4Addr::routes(1, size.routes, HOPS);
    let spec = OpSpec::from(spec::Lpm {
        family: IpFamily::V4,
        routes: Material::public(write(&routes)),
    });
    let operator = Cpu::best().prepare(&spec).expect("prepares");
    let control = operator.control().expect("routes can be changed");
    let queue = operator.clone().open(DEPTH).expect("opens");
    let mut lookups = Lookups::new(queue, &routes, &size);
    let mut writer = Writer::new(&*control, &routes, &size);
    // The first changes copy the table.
    (0..3).for_each(|_| writer.commit(size.per_commit[0]));

    for per_commit in size.per_commit {
        writer.per_commit = per_commit;
        let mut rounds: Vec<Round> = Vec::new();
        for _ in 0..size.rounds {
            rounds.push(Round {
                alone: lookups.per_s(size.phase),
                again: lookups.per_s(size.phase),
                beside: RATES.map(|rate| beside(&mut lookups, &mut writer, rate, size.phase)),
                updates_alone: writer.per_s(None, &stop_after(size.phase)),
            });
        }
        print(&rounds, &size, per_commit);
    }
    assert_eq!(lookups.hops(), right(&routes, &writer, &lookups.addresses));
}

/// The rates of one round, a second.
struct Round {
    alone: f64,
    again: f64,
    /// Lookups and changes, by rate.
    beside: [(f64, f64); RATES.len()],
    updates_alone: f64,
}

fn print(rounds: &[Round], size: &Size, per_commit: usize) {
    println!(
        "lpm_live: {} routes, bursts of {BURST}, {per_commit} changes a commit; medians of {} rounds of {:?} a phase",
        size.routes, size.rounds, size.phase
    );
    let alone = median(rounds, |round| round.alone);
    println!("lookups alone: {:.1} M/s", alone / 1e6);
    let again = median(rounds, |round| round.again / round.alone);
    println!("lookups alone / alone, which is 1: {again:.3}");
    for (i, rate) in RATES.iter().enumerate() {
        let rate = rate.map_or("all that can be".to_owned(), |rate| {
            format!("{:.1} M/s", rate / 1e6)
        });
        println!(
            "changes wanted: {rate}; made: {:.3} M/s; lookups: {:.1} M/s; lookups beside / alone: {:.3}",
            median(rounds, |round| round.beside[i].1) / 1e6,
            median(rounds, |round| round.beside[i].0) / 1e6,
            median(rounds, |round| round.beside[i].0 * 2.0
                / (round.alone + round.again)),
        );
    }
    let updates = median(rounds, |round| round.updates_alone);
    println!("changes alone: {:.3} M/s", updates / 1e6);
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Lookups and changes a second, at the same time.
fn beside(
    lookups: &mut Lookups,
    writer: &mut Writer<'_>,
    rate: Option<f64>,
    phase: Duration,
) -> (f64, f64) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let updates = scope.spawn(|| writer.per_s(rate, &|| is_over.load(Ordering::Relaxed)));
        let lookups = lookups.per_s(phase);
        is_over.store(true, Ordering::Relaxed);
        (lookups, updates.join().expect("the writer ends"))
    })
}

fn stop_after(phase: Duration) -> impl Fn() -> bool {
    let start = Instant::now();
    move || start.elapsed() >= phase
}

/// Bursts that go through a queue again and again.
struct Lookups {
    queue: Box<dyn Queue>,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
    addresses: Vec<Ipv4Addr>,
}

impl Lookups {
    fn new(queue: Box<dyn Queue>, routes: &[Route<Ipv4Addr>], size: &Size) -> Self {
        let addresses = draw(LookupKeys::RouteWeighted, 7, size.bursts * BURST, routes);
        let jobs = addresses.chunks(BURST).enumerate().map(|(tag, addresses)| {
            let mut src = Buf::zeroed(BURST * 4).expect("memory");
            for (bytes, address) in src.chunks_exact_mut(4).zip(addresses) {
                bytes.copy_from_slice(&address.octets());
            }
            let dst = Buf::zeroed(BURST * 4).expect("memory");
            let shape = dpb_core::OutputShape::Variable;
            let items = Items::fixed(4, BURST as u32);
            Job::new(tag as u64, src.freeze(), items, dst, shape)
        });
        Self {
            queue,
            ready: jobs.collect(),
            done: Vec::with_capacity(DEPTH.get() as usize),
            addresses,
        }
    }

    fn turn(&mut self) -> usize {
        self.queue.submit(&mut self.ready);
        let home = self.queue.poll(&mut self.done);
        for completion in self.done.drain(..) {
            completion.result.expect("carried out");
            self.ready.push_back(completion.job);
        }
        home
    }

    fn per_s(&mut self, phase: Duration) -> f64 {
        let start = Instant::now();
        let mut jobs = 0;
        while start.elapsed() < phase {
            jobs += self.turn();
        }
        (jobs * BURST) as f64 / start.elapsed().as_secs_f64()
    }

    /// The hops of all addresses.
    fn hops(&mut self) -> Vec<u32> {
        let mut home = 0;
        while home < self.ready.len() {
            home += self.turn();
        }
        let mut jobs: Vec<&Job> = self.ready.iter().collect();
        jobs.sort_by_key(|job| job.tag);
        let bytes = jobs.iter().flat_map(|job| job.dst[0].as_chunks::<4>().0);
        bytes.map(|hop| u32::from_le_bytes(*hop)).collect()
    }
}

/// Changes that are committed again and again.
struct Writer<'a> {
    control: &'a dyn Control,
    changes: Vec<Change>,
    /// All changes as bytes.
    script: Vec<u8>,
    per_commit: usize,
    /// The number of changes made so far.
    made: usize,
}

impl<'a> Writer<'a> {
    fn new(control: &'a dyn Control, routes: &[Route<Ipv4Addr>], size: &Size) -> Self {
        let mut random = SplitMix64::new(3);
        let mut change = || {
            let prefix = routes[random.below(routes.len())].prefix;
            let is_taken_out = random.below(4) == 0;
            let hop = random.below(HOPS as usize) as u32;
            (prefix, (!is_taken_out).then_some(hop))
        };
        let changes: Vec<Change> = (0..size.changes).map(|_| change()).collect();
        let mut script = Vec::new();
        for (prefix, hop) in &changes {
            write_change(*prefix, *hop, &mut script);
        }
        assert_eq!(script.len(), changes.len() * CHANGE_BYTES);
        Self {
            control,
            changes,
            script,
            per_commit: size.per_commit[0],
            made: 0,
        }
    }

    /// Makes and commits `count` changes, or as many as are left before they begin again.
    fn commit(&mut self, count: usize) {
        let first = self.made % self.changes.len();
        let end = self.changes.len().min(first + count);
        let script = &self.script[first * CHANGE_BYTES..end * CHANGE_BYTES];
        self.control.change(script).expect("fits");
        self.control.commit().expect("commits");
        self.made += end - first;
    }

    /// Commits until `is_over`, each script when it is due; changes a second.
    fn per_s(&mut self, rate: Option<f64>, is_over: &dyn Fn() -> bool) -> f64 {
        let (start, before) = (Instant::now(), self.made);
        while !is_over() {
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64((self.made - before) as f64 / rate);
                thread::sleep((start + due).saturating_duration_since(Instant::now()));
            }
            self.commit(self.per_commit);
        }
        (self.made - before) as f64 / start.elapsed().as_secs_f64()
    }
}

/// The hops that the model gives after the same changes.
fn right(routes: &[Route<Ipv4Addr>], writer: &Writer<'_>, addresses: &[Ipv4Addr]) -> Vec<u32> {
    let mut model = Model::new(routes);
    let count = writer.changes.len();
    // What was made before the last round through all changes was made again in it.
    for number in writer.made.saturating_sub(count)..writer.made {
        let (prefix, hop) = writer.changes[number % count];
        match hop {
            Some(hop) => model.insert(prefix, hop),
            None => model.remove(prefix),
        };
    }
    let hops = addresses.iter().map(|address| model.lookup(*address));
    hops.collect()
}
