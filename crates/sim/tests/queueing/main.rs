//! The simulation beside the theory of queues: what is known exactly lies within the simulation's own confidence interval over ten seeds.
//!
//! Servers are those that cards and links are made of ([`Server`](dpb_sim::system::Server)), time is the kernel's. Seeds are fixed, so that the outcome
//! is the same in each run. An interval must be narrow, or the comparison would pass whatever the simulation does; a last test makes a service 5 % slower and
//! has the comparisons notice it.

mod parts;
mod theory;

use dpb_core::random::SplitMix64;
use dpb_sim::kernel::{ComponentId, Kernel, Plan};

use parts::{
    Customer, ONLY, Sink, Source, Station, StationPlan, Tally, Times, UNIT_PS, picoseconds,
};
use theory::{Bounded, Centre, Interval, MeanValues};

const LOADS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];
/// The latency of open queues' channels.
const LINK_PS: u64 = 10 * UNIT_PS;
/// No limit of customers who wait.
const ENDLESS: usize = usize::MAX;
/// The slowness that comparisons must notice.
const SLOWER: f64 = 1.05;

/// A quantity that is known, as ten runs saw it.
#[derive(Debug)]
struct Comparison {
    what: String,
    known: f64,
    seen: Interval,
    /// The greatest half width that is taken for narrow, as a share of what is known.
    narrow: f64,
}

impl Comparison {
    fn new(what: String, known: f64, samples: [f64; 10], narrow: f64) -> Self {
        Self {
            what,
            known,
            seen: Interval::new(samples),
            narrow,
        }
    }

    fn agrees(&self) -> bool {
        self.seen.contains(self.known)
    }

    fn is_narrow(&self) -> bool {
        self.seen.half <= self.narrow * self.known
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            what, known, seen, ..
        } = self;
        let share = 100.0 * seen.half / known;
        write!(
            f,
            "{what}: known {known:.5}, seen {:.5} ± {:.5} ({share:.1} %)",
            seen.mean, seen.half
        )
    }
}

fn check(comparisons: impl IntoIterator<Item = Comparison>) {
    let comparisons = comparisons.into_iter().inspect(|it| println!("{it}"));
    let failed = comparisons.filter(|it| !it.agrees() || !it.is_narrow());
    let failed: Vec<String> = failed.map(|it| it.to_string()).collect();
    assert!(
        failed.is_empty(),
        "outside of the interval, or not narrow:\n{}",
        failed.join("\n")
    );
}

/// An open queue: a Poisson source, a station, a sink.
#[derive(Clone, Copy, Debug)]
struct Open {
    servers: usize,
    waiting_max: usize,
    times: Times,
    load: f64,
    customers: u64,
    /// The factor by which service is slower than theory is told.
    slower: f64,
}

/// What was seen of an open queue. Times are in units.
#[derive(Clone, Copy, Debug)]
struct Seen {
    waiting: f64,
    sojourn: f64,
    lost: f64,
}

struct OpenSystem {
    kernel: Kernel<Customer>,
    station: ComponentId,
    sink: ComponentId,
}

impl Open {
    /// As many customers as make the intervals narrow: the more, the higher the load and the more uneven the service.
    fn new(servers: usize, times: Times, load: f64) -> Self {
        let base = if load < 0.6 {
            60_000.0
        } else if load < 0.8 {
            150_000.0
        } else {
            250_000.0
        };
        Self {
            servers,
            waiting_max: ENDLESS,
            times,
            load,
            customers: (base * times.second_moment() / 2.0) as u64,
            slower: 1.0,
        }
    }

    fn build(&self, seed: u64, threads: usize) -> OpenSystem {
        let mut seeds = SplitMix64::new(seed);
        let gap = 1.0 / (self.load * self.servers as f64);
        let warm_ps = picoseconds(gap * self.customers as f64 / 10.0);
        let mut plan = Plan::new();
        let source = Source {
            gap,
            left: self.customers,
            random: SplitMix64::new(seeds.next_u64()),
        };
        let station = StationPlan {
            servers: self.servers,
            waiting_max: self.waiting_max,
            times: self.times,
            mean: self.slower,
            routes: vec![(1, 1.0)],
            initial: 0,
            warm_ps,
        };
        let station = Station::new(station, SplitMix64::new(seeds.next_u64()));
        let sink = Sink {
            warm_ps,
            way_ps: 2 * LINK_PS,
            ..Sink::default()
        };
        let source = plan.add("source", 1, source);
        let station = plan.add("station", 1, station);
        let sink = plan.add("sink", 1, sink);
        plan.join((source, ONLY), (station, 0), LINK_PS)
            .expect("free ports");
        plan.join((station, 1), (sink, ONLY), LINK_PS)
            .expect("free ports");
        OpenSystem {
            kernel: plan.build(threads),
            station,
            sink,
        }
    }

    /// Runs until all customers have gone.
    fn run(&self, seed: u64, threads: usize) -> (Tally, Tally) {
        let mut system = self.build(seed, threads);
        assert_eq!(system.kernel.threads(), threads);
        let step_ps = picoseconds(self.customers as f64 / (self.load * self.servers as f64) / 2.0);
        loop {
            let end_ps = system.kernel.now_ps() + step_ps;
            system.kernel.run_until(end_ps).expect("nothing fails");
            let station: &Station = system.kernel.component(system.station).expect("a station");
            let sink: &Sink = system.kernel.component(system.sink).expect("a sink");
            if sink.arrived + station.usage().refused == self.customers {
                return (station.tally(), sink.tally);
            }
        }
    }

    fn see(&self, seed: u64) -> Seen {
        let (station, sink) = self.run(seed, 1);
        let (came, unit) = (station.customers as f64, UNIT_PS as f64);
        Seen {
            waiting: station.waited_ps as f64 / came / unit,
            sojourn: sink.stayed_ps as f64 / sink.customers as f64 / unit,
            lost: station.lost as f64 / (came + station.lost as f64),
        }
    }

    /// The queue beside this mean waiting time, and this share of customers who are turned away if any are.
    fn compare(&self, waiting: f64, lost: Option<f64>) -> Vec<Comparison> {
        let seen: [Seen; 10] = std::array::from_fn(|seed| self.see(seed as u64 + 1));
        let narrow = if self.load < 0.8 { 0.05 } else { 0.1 };
        let Self {
            servers,
            times,
            load,
            ..
        } = self;
        let what = |quantity| format!("{times:?}, {servers} servers, load {load}: {quantity}");
        let mut comparisons = Vec::new();
        if waiting > 0.0 {
            // Of several servers few customers wait.
            let waits = seen.map(|it| it.waiting);
            comparisons.push(Comparison::new(what("waiting"), waiting, waits, 0.1));
        }
        let sojourns = seen.map(|it| it.sojourn);
        comparisons.push(Comparison::new(
            what("sojourn"),
            waiting + 1.0,
            sojourns,
            narrow,
        ));
        match lost {
            Some(lost) => {
                comparisons.push(Comparison::new(
                    what("lost"),
                    lost,
                    seen.map(|it| it.lost),
                    narrow,
                ));
            }
            None => assert!(seen.iter().all(|it| it.lost == 0.0)),
        }
        comparisons
    }
}

/// A queue of one server beside the formula of Pollaczek and Khinchine, of which the one for M/M/1 is a case.
fn one_server(times: Times, load: f64, slower: f64) -> Vec<Comparison> {
    let waiting = theory::pollaczek_khinchine(load, times.second_moment());
    let queue = Open {
        slower,
        ..Open::new(1, times, load)
    };
    queue.compare(waiting, None)
}

fn many_servers(servers: usize, load: f64, slower: f64) -> Vec<Comparison> {
    let queue = Open {
        slower,
        ..Open::new(servers, Times::Exponential, load)
    };
    queue.compare(theory::waiting_of_many_servers(load, servers), None)
}

fn bounded(room: usize, load: f64, slower: f64) -> Vec<Comparison> {
    let queue = Open {
        waiting_max: room - 1,
        customers: 100_000,
        slower,
        ..Open::new(1, Times::Exponential, load)
    };
    let known = Bounded::new(load, room);
    queue.compare(known.waiting, Some(known.lost))
}

fn without_room_to_wait(servers: usize, times: Times, load: f64, slower: f64) -> Vec<Comparison> {
    let queue = Open {
        waiting_max: 0,
        customers: 100_000,
        slower,
        ..Open::new(servers, times, load)
    };
    let lost = theory::erlang_b(load * servers as f64, servers);
    queue.compare(0.0, Some(lost))
}

#[test]
fn exponential_service() {
    check(
        LOADS
            .into_iter()
            .flat_map(|load| one_server(Times::Exponential, load, 1.0)),
    );
}

#[test]
fn constant_service() {
    check(
        LOADS
            .into_iter()
            .flat_map(|load| one_server(Times::Constant, load, 1.0)),
    );
}

#[test]
fn service_of_two_lengths() {
    check(
        LOADS
            .into_iter()
            .flat_map(|load| one_server(Times::TwoPoint, load, 1.0)),
    );
}

#[test]
fn hyperexponential_service() {
    check(
        LOADS
            .into_iter()
            .flat_map(|load| one_server(Times::Hyperexponential, load, 1.0)),
    );
}

#[test]
fn two_servers() {
    check(
        LOADS
            .into_iter()
            .flat_map(|load| many_servers(2, load, 1.0)),
    );
}

#[test]
fn five_servers() {
    check(
        LOADS
            .into_iter()
            .flat_map(|load| many_servers(5, load, 1.0)),
    );
}

#[test]
fn bounded_queues_lose_customers() {
    check(
        [0.5, 0.7, 0.9, 1.5]
            .into_iter()
            .flat_map(|load| bounded(4, load, 1.0)),
    );
    for times in [Times::Exponential, Times::Constant, Times::Hyperexponential] {
        // What is lost depends on no more than the mean of the service.
        check(
            [0.5, 0.7, 0.9]
                .into_iter()
                .flat_map(|load| without_room_to_wait(5, times, load, 1.0)),
        );
    }
}

/// A closed network: people at terminals think, then have a processor of two cores work for them, which on its way asks two disks.
#[derive(Clone, Copy, Debug)]
struct Closed {
    customers: usize,
    /// The factor by which the processor is slower than theory is told.
    slower: f64,
}

impl Closed {
    const LINK_PS: u64 = UNIT_PS / 2;
    /// The port of the processor towards the terminals; those towards the disks follow.
    const TERMINALS: usize = 0;
    /// Probabilities of the ways from the processor.
    const WAYS: [f64; 3] = [0.4, 0.35, 0.25];
    /// Rounds that are measured, and before them the rounds of warm-up.
    const ROUNDS: f64 = 20_000.0;
    const WARM_ROUNDS: f64 = 1_000.0;

    /// Terminals, processor, disks: as many visits as the ways give.
    fn centres(&self) -> [Centre; 4] {
        let visits = 1.0 / Self::WAYS[0];
        let centre = |visits, mean, servers| Centre {
            visits,
            mean,
            servers,
        };
        [
            centre(1.0, 6.0, self.customers),
            centre(visits, 1.0, 2),
            centre(visits * Self::WAYS[1], 1.2, 1),
            centre(visits * Self::WAYS[2], 2.0, 1),
        ]
    }

    fn known(&self) -> MeanValues {
        let centres = self.centres();
        // A channel is a place where nobody waits: two for the terminals, two for each visit of a disk.
        let channels = 2.0 * (1.0 + centres[2].visits + centres[3].visits);
        let delay = channels * Self::LINK_PS as f64 / UNIT_PS as f64;
        MeanValues::new(&centres, delay, self.customers)
    }

    /// What each station saw, and the measured time in units.
    fn run(&self, seed: u64, threads: usize) -> ([Tally; 4], f64) {
        let mut seeds = SplitMix64::new(seed);
        let round = 1.0 / self.known().throughput;
        let warm_ps = picoseconds(round * Self::WARM_ROUNDS);
        let end_ps = warm_ps + picoseconds(round * Self::ROUNDS);
        let mut plan = Plan::new();
        let mut number = 0;
        let stations = self.centres().map(|centre| {
            let is_terminals = number == 0;
            let is_processor = number == 1;
            let routes = match is_processor {
                true => Self::WAYS.into_iter().enumerate().collect(),
                false => vec![(ONLY, 1.0)],
            };
            let station = StationPlan {
                servers: centre.servers,
                waiting_max: ENDLESS,
                // Where nobody waits, nothing but the mean matters.
                times: if is_terminals {
                    Times::Constant
                } else {
                    Times::Exponential
                },
                mean: centre.mean * if is_processor { self.slower } else { 1.0 },
                routes,
                initial: if is_terminals { self.customers } else { 0 },
                warm_ps,
            };
            number += 1;
            let random = SplitMix64::new(seeds.next_u64());
            plan.add("station", 1, Station::new(station, random))
        });
        let [terminals, processor, disks @ ..] = stations;
        let mut join = |to, port| {
            plan.join((to, ONLY), (processor, port), Self::LINK_PS)
                .expect("free ports");
        };
        join(terminals, Self::TERMINALS);
        join(disks[0], Self::TERMINALS + 1);
        join(disks[1], Self::TERMINALS + 2);
        let mut kernel = plan.build(threads);
        assert_eq!(kernel.threads(), threads);
        kernel.run_until(end_ps).expect("nothing fails");
        let tallies = stations.map(|id| {
            let station: &Station = kernel.component(id).expect("a station");
            station.tally()
        });
        (tallies, (end_ps - warm_ps) as f64 / UNIT_PS as f64)
    }

    fn compare(&self) -> Vec<Comparison> {
        let known = self.known();
        let seen: [_; 10] = std::array::from_fn(|seed| self.run(seed as u64 + 1, 1));
        let what = |quantity| format!("{} customers: {quantity}", self.customers);
        let throughput = seen.map(|(tallies, length)| tallies[0].customers as f64 / length);
        let throughput = Comparison::new(what("throughput"), known.throughput, throughput, 0.02);
        let names = ["processor", "first disk", "second disk"];
        let stays = names.into_iter().zip(1..).map(|(name, at)| {
            let stays = seen.map(|(tallies, _)| {
                let tally: Tally = tallies[at];
                tally.stayed_ps as f64 / tally.customers as f64 / UNIT_PS as f64
            });
            Comparison::new(what(name), known.stays[at], stays, 0.05)
        });
        std::iter::once(throughput).chain(stays).collect()
    }
}

#[test]
fn a_closed_network_has_the_means_of_the_analysis() {
    for customers in [1, 2, 5, 12] {
        let network = Closed {
            customers,
            slower: 1.0,
        };
        check(network.compare());
    }
}

/// Holds that each comparison notices that service is slower.
fn check_noticed(comparisons: &[Comparison]) {
    for comparison in comparisons {
        assert!(!comparison.agrees(), "not noticed: {comparison}");
    }
}

#[test]
fn a_service_that_is_five_percent_slower_is_noticed() {
    // At higher loads it is plain: the queue becomes longer by half and more.
    for load in [0.3, 0.5, 0.7] {
        for times in [
            Times::Exponential,
            Times::Constant,
            Times::TwoPoint,
            Times::Hyperexponential,
        ] {
            check_noticed(&one_server(times, load, SLOWER));
        }
        check_noticed(&many_servers(5, load, SLOWER));
        check_noticed(&bounded(4, load, SLOWER));
        check_noticed(&without_room_to_wait(5, Times::Exponential, load, SLOWER));
    }
}

#[test]
fn a_processor_that_is_five_percent_slower_is_noticed() {
    for customers in [1, 2, 5, 12] {
        let network = Closed {
            customers,
            slower: SLOWER,
        };
        // The throughput and the processor. The disks may not notice.
        check_noticed(&network.compare()[..2]);
    }
}

#[test]
fn the_same_on_one_thread_and_on_several() {
    let queues = [(1, ENDLESS), (3, ENDLESS), (2, 3)].map(|(servers, waiting_max)| Open {
        waiting_max,
        customers: 3000,
        ..Open::new(servers, Times::Hyperexponential, 0.8)
    });
    for queue in queues {
        let alone = queue.run(7, 1);
        assert!(alone.0.customers > 2000 && alone.0.waited_ps > 0);
        for threads in [2, 3] {
            assert_eq!(queue.run(7, threads), alone);
        }
    }
    let network = Closed {
        customers: 5,
        slower: 1.0,
    };
    let alone = network.run(7, 1);
    assert!(alone.0[3].customers > 5000);
    assert_eq!(network.run(7, 2), alone);
}
