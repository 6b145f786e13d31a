//! Order and conservation of the pipeline: random bursts, engines that finish out of order, rings between cores, drops.

#[path = "pipeline_support/mod.rs"]
mod support;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dpb_core::port::{PacketPort, PortStats};
use dpb_core::{Buf, JobError, SetupError, VirtualClock, WallClock};
use dpb_net::flow::toeplitz::{self, Toeplitz};
use dpb_net::pipeline::{
    Account, Burst, Choice, Dispatcher, Idle, Line, Mark, Output, Packet, Part, Reason, Remote,
    Settings, Shard, Sharding, Stage, Station, WhenFull, Whole, Work, Workers, WorkersError, each,
    ring,
};
use dpb_net::port::{Looped, pair};
use dpb_net::programs::forward::{Addresses, bridge};
use dpb_net::wire::{End, Plan, Wire};
use proptest::prelude::*;
use support::{Manner, drain, flow_of, of_flow, sum, turns};

/// Has an operator sum the payload, and writes the sum to the mark; the sum decides whether the packet is dropped.
struct Summed {
    drops_of: u32,
}

const ODD: Reason = Reason("sum is one of those");

impl Part for Summed {
    type Note = u32;

    fn item(&mut self, packet: Packet<'_>, note: &mut u32) -> Choice {
        let len = packet.frame.len() - 42;
        *note = packet.frame[42..].iter().map(|byte| u32::from(*byte)).sum();
        match packet.frame[42..].last() {
            // Some have no item, and some are dropped before.
            Some(3) => Choice::None,
            Some(4) => Choice::Drop(ODD),
            _ => Choice::Item {
                start: 42,
                len: len as u32,
                room: 0,
            },
        }
    }

    fn output(&mut self, mut packet: Packet<'_>, note: u32, output: Result<Output<'_>, JobError>) {
        match output {
            Ok(Output::Beside(bytes)) => {
                let sum = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
                assert_eq!(sum, note, "outputs belong to their packets");
                packet.mark.value = sum;
                if self.drops_of > 0 && sum.is_multiple_of(self.drops_of) {
                    packet.drop_for(ODD);
                }
            }
            Ok(Output::Within(_)) => panic!("not in place"),
            Err(_) => packet.drop_for(Reason::JOB_FAILED),
        }
    }
}

/// Port 0 and port 1 of a shard, and the ends that tests hold.
fn wires(plans: [Plan; 2]) -> ([Box<dyn PacketPort>; 2], [End; 2], [Wire; 2]) {
    let clock = Arc::new(VirtualClock::new(false));
    let [first, second] = plans.map(|plan| Wire::new(clock.clone(), [plan, Plan::default()]));
    let (one, [near_one, far_one]) = first;
    let (two, [near_two, far_two]) = second;
    (
        [Box::new(far_one), Box::new(far_two)],
        [near_one, near_two],
        [one, two],
    )
}

fn send(end: &mut End, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut ready: VecDeque<Buf> = frames.into_iter().map(|f| support::buf(&f)).collect();
    end.send(&mut ready).expect("short");
    assert!(ready.is_empty(), "the wire has room");
}

fn received(end: &mut End) -> Vec<Buf> {
    let mut came = Vec::new();
    end.receive(&mut came, usize::MAX).expect("memory");
    came
}

/// Of each flow the numbers rise, and none comes twice.
fn assert_order(frames: &[Buf]) {
    let mut last = HashMap::new();
    for frame in frames {
        let (flow, sequence) = flow_of(frame);
        let before = last.insert(flow, sequence);
        assert!(
            before < Some(sequence),
            "flow {flow}: {sequence} behind {before:?}"
        );
    }
}

fn stage(stage: impl Stage + 'static) -> Box<dyn Stage> {
    Box::new(stage)
}

/// A stage that holds bursts back and gives them in any order.
struct Scrambler {
    held: Vec<Burst>,
    random: dpb_core::random::SplitMix64,
    depth: usize,
}

impl Stage for Scrambler {
    fn name(&self) -> &str {
        "scrambler"
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        let taken = ready.len().min(self.depth - self.held.len());
        self.held.extend(ready.drain(..taken));
        taken
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        let finished = self.random.below(self.held.len() + 1);
        for _ in 0..finished {
            let chosen = self.random.below(self.held.len());
            done.push(self.held.swap_remove(chosen));
        }
        finished
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random bursts of random flows through plain code, an engine that finishes out of order and fails now and then, and a stage that scrambles:
    /// each stage that wants order sees bursts in order, flows stay in order, and every packet is accounted for at every turn.
    #[test]
    fn flows_stay_in_order_and_packets_are_accounted_for(
        seed: u64, bursts in prop::collection::vec(0_usize..40, 1..30), depth in 1_usize..12, scrambled in 1_usize..6,
        drops_of in 0_u32..9, errors_ppm in 0_u32..100_000, in_nested_line: bool,
    ) {
        let (ports, [mut near, mut out], _) = wires([Plan::default(), Plan::default()]);
        let engine = sum(Manner { disorder: Some(seed), errors_ppm, ..Manner::default() });
        let offload = engine.stage(Summed { drops_of }, 4).expect("opens");
        let mut next = 0;
        let in_order = Whole::new("in order", move |burst: &mut Burst| {
            assert_eq!(burst.number(), next);
            next += 1;
        });
        let scrambler = Scrambler { held: Vec::new(), random: dpb_core::random::SplitMix64::new(seed), depth: scrambled };
        let inner = vec![stage(scrambler), stage(offload), stage(in_order)];
        let last = stage(bridge(vec![1, 0], Addresses::Kept));
        let stages = match in_nested_line {
            true => vec![stage(Line::new("inner", inner, depth)), last],
            false => inner.into_iter().chain([last]).collect(),
        };
        let line = Line::new("test", stages, depth).timed_by(Arc::new(WallClock::default()));
        let mut shard = Shard::new("shard", ports.into(), line, 32, WhenFull::Hold);
        let mut random = dpb_core::random::SplitMix64::new(seed);
        let mut sequences = HashMap::new();
        let (mut sent, mut came) = (0, Vec::new());
        for burst in bursts {
            let frames: Vec<_> = (0..burst).map(|_| {
                let flow = random.below(5) as u16;
                let sequence = sequences.entry(flow).or_insert(0);
                *sequence += 1;
                let mut frame = of_flow(flow, *sequence, 7 + random.below(60));
                *frame.last_mut().expect("not empty") = random.below(6) as u8;
                frame
            }).collect();
            sent += frames.len() as u64;
            send(&mut near, frames);
            turns(&mut shard, 1 + random.below(3));
            came.extend(received(&mut out));
        }
        let account = drain(&mut shard, 10_000).expect("memory");
        came.extend(received(&mut out));
        // It may not have received all of them before it was closed.
        prop_assert!(account.received.packets <= sent);
        prop_assert_eq!(account.sent.packets, came.len() as u64);
        prop_assert_eq!(account.in_flight(), 0);
        let dropped = account.dropped();
        prop_assert_eq!(account.received.packets, came.len() as u64 + dropped.total().packets);
        if errors_ppm == 0 {
            prop_assert_eq!(dropped.of(Reason::JOB_FAILED).packets, 0);
        }
        assert_order(&came);
    }
}

#[test]
fn a_stage_that_loses_a_packet_is_found_out() {
    let (ports, [mut near, _out], _) = wires([Plan::default(), Plan::default()]);
    let thief = Whole::new("thief", |burst: &mut Burst| {
        let kept: Vec<_> = burst.drain().skip(1).collect();
        for (frame, mark) in kept {
            burst.push(frame, mark);
        }
    });
    let line = Line::new(
        "test",
        vec![stage(thief), stage(bridge(vec![1, 0], Addresses::Kept))],
        4,
    );
    let mut shard = Shard::new("shard", ports.into(), line, 32, WhenFull::Hold);
    send(&mut near, (0..5).map(|i| of_flow(0, i, 10)));
    shard.turn().expect("memory");
    let imbalance = shard.account().check().expect_err("one too few");
    assert!(
        imbalance
            .to_string()
            .ends_with("sent 4, dropped 0, in flight 1"),
        "{imbalance}"
    );
}

#[test]
fn a_stage_that_makes_packets_up_does_not_balance() {
    let (ports, [mut near, _out], _) = wires([Plan::default(), Plan::default()]);
    let forger = Whole::new("forger", |burst: &mut Burst| {
        burst.push(support::buf(&of_flow(9, 9, 9)), Mark::of(0));
    });
    let line = Line::new(
        "test",
        vec![stage(forger), stage(bridge(vec![1, 0], Addresses::Kept))],
        4,
    );
    let mut shard = Shard::new("shard", ports.into(), line, 32, WhenFull::Hold);
    send(&mut near, [of_flow(0, 0, 10)]);
    shard.turn().expect("memory");
    let imbalance = shard.account().check().expect_err("one too many");
    assert!(
        imbalance
            .to_string()
            .contains("received 1, but sent 2, dropped 0, in flight -1"),
        "{imbalance}"
    );
}

/// A wire of loss, reordering and duplication changes the counters behind it exactly as planted.
#[test]
fn counters_change_as_the_wire_planted() {
    let plan = Plan {
        seed: 5,
        loss_ppm: 30_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 40_000,
        reorder_distance_max: 6,
        corrupt_ppm: 10_000,
        // Behind the sequence number: damage is seen by the checksum of UDP alone.
        corrupt_skips_bytes: 48,
        ..Plan::default()
    };
    let (ports, [mut near, mut out], [wire, _]) = wires([plan, Plan::default()]);
    let counters: Arc<[AtomicU64; 3]> = Arc::default();
    let counted = Arc::clone(&counters);
    let (mut next, mut seen) = (0, std::collections::HashSet::new());
    let observer = each("observer", move |mut packet: Packet<'_>| {
        let add = |of: usize| counted[of].fetch_add(1, Ordering::Relaxed);
        let (_, sequence) = flow_of(packet.frame);
        if !seen.insert(sequence) {
            add(0);
        } else if sequence < next {
            add(1);
        }
        next = next.max(sequence + 1);
        let headers = etherparse::PacketHeaders::from_ethernet_slice(packet.frame).expect("sound");
        let Some(etherparse::NetHeaders::Ipv4(ip, _)) = headers.net else {
            panic!("IPv4");
        };
        let udp = headers
            .transport
            .and_then(|header| header.udp())
            .expect("UDP");
        let right = udp
            .calc_checksum_ipv4(&ip, headers.payload.slice())
            .expect("short");
        if udp.checksum != right {
            add(2);
            packet.drop_for(Reason::MALFORMED);
        }
    });
    let line = Line::new(
        "test",
        vec![stage(observer), stage(bridge(vec![1, 0], Addresses::Kept))],
        4,
    );
    let mut shard = Shard::new("shard", ports.into(), line, 32, WhenFull::Hold);
    let (mut came, sent) = (0, 20_000);
    for first in (0..sent).step_by(100) {
        send(&mut near, (first..first + 100).map(|i| of_flow(1, i, 30)));
        turns(&mut shard, 5);
        came += received(&mut out).len() as u64;
    }
    let [planted, _] = wire.planted();
    let account = shard.account();
    let count = |of: usize| counters[of].load(Ordering::Relaxed);
    assert_eq!(planted.taken, u64::from(sent));
    assert_eq!(account.received.packets, planted.delivered);
    assert_eq!(
        account.received.packets + planted.lost + planted.waiting,
        planted.taken + planted.duplicated
    );
    assert_eq!(
        [count(0), count(1), count(2)],
        [planted.duplicated, planted.reordered, planted.corrupted]
    );
    assert!(planted.lost > 400 && planted.reordered > 400 && planted.duplicated > 200);
    assert_eq!(
        account.dropped().of(Reason::MALFORMED).packets,
        planted.corrupted
    );
    assert_eq!(came, planted.delivered - planted.corrupted);
}

fn settings() -> Settings {
    Settings {
        cores: Vec::new(),
        idle: Idle::Yield,
        clock: Arc::new(WallClock::default()),
        patience: Duration::from_secs(60),
    }
}

/// Waits until what came out and what was dropped are all that was sent.
fn wait_for(workers: &Workers, out: &mut End, came: &mut Vec<Buf>, count: usize) {
    while came.len() < count {
        assert!(!workers.has_ended(), "a loop has ended");
        came.extend(received(out));
        std::thread::yield_now();
    }
}

type Loops = Vec<(
    String,
    Box<dyn FnOnce() -> Result<Box<dyn Work>, SetupError> + Send>,
)>;

/// Two shards share one engine on a third core: pipelined where an engine has fewer queues than cores.
#[test]
fn shards_share_an_engine_behind_rings() {
    let mut loops: Loops = Vec::new();
    let (mut rings, mut ends) = (Vec::new(), Vec::new());
    for shard in 0..2_u64 {
        let (ports, ends_here, _) = wires([Plan::default(), Plan::default()]);
        ends.push(ends_here);
        let (remote, ring) = ring("engine", 3);
        rings.push(ring);
        let name = format!("shard {shard}");
        loops.push((
            name.clone(),
            Box::new(move || {
                let last = stage(bridge(vec![1, 0], Addresses::Kept));
                let line = Line::new("shard", vec![stage(remote), last], 6);
                let shard = Shard::new(name, ports.into(), line, 16, WhenFull::Hold);
                Ok(Box::new(shard) as Box<dyn Work>)
            }),
        ));
    }
    loops.push((
        "engine".into(),
        Box::new(move || {
            let engine = sum(Manner {
                disorder: Some(4),
                ..Manner::default()
            });
            let offload = engine.stage(Summed { drops_of: 0 }, 4)?;
            Ok(Box::new(Station::new(stage(offload), rings)))
        }),
    ));
    let workers = Workers::start(loops, &settings()).expect("starts");
    let (count, mut came) = (3000, [Vec::new(), Vec::new()]);
    for first in (0..count).step_by(100) {
        for (of, [near, out]) in (0..).zip(&mut ends) {
            // None of these is dropped: payloads end in zero.
            let frames = (first..first + 100).map(|i| of_flow(of * 10 + i as u16 % 3, i, 20));
            send(near, frames);
            wait_for(&workers, out, &mut came[usize::from(of)], first as usize);
        }
    }
    for ([_, out], came) in ends.iter_mut().zip(&mut came) {
        wait_for(&workers, out, came, count as usize);
        assert_order(came);
    }
    let accounts = workers.stop().expect("all ended well");
    for account in &accounts[..2] {
        account.check().expect("balanced");
        assert_eq!(account.sent.packets, u64::from(count));
        assert_eq!(account.in_flight(), 0);
    }
}

fn dispatch(when_full: WhenFull, count: u32) -> (Vec<Account>, Vec<Buf>, Vec<Vec<u16>>) {
    let (ports, [mut near, mut out], _) = wires([Plan::default(), Plan::default()]);
    let cores = 3;
    let (remotes, rings): (Vec<Remote>, Vec<_>) =
        (0..cores).map(|i| ring(format!("core {i}"), 4)).unzip();
    let seen: Vec<Arc<std::sync::Mutex<Vec<u16>>>> = (0..cores).map(|_| Arc::default()).collect();
    let mut loops: Loops = Vec::new();
    loops.push((
        "dispatcher".into(),
        Box::new(move || {
            let sharding = Sharding::new(Toeplitz::new(toeplitz::SYMMETRIC_KEY), cores);
            let ports = ports.into();
            let dispatcher = Dispatcher::new("dispatcher", ports, sharding, remotes, 32, when_full);
            Ok(Box::new(dispatcher) as Box<dyn Work>)
        }),
    ));
    for (ring, seen) in rings.into_iter().zip(seen.clone()) {
        loops.push((
            "core".into(),
            Box::new(move || {
                let engine = sum(Manner {
                    disorder: Some(9),
                    ..Manner::default()
                });
                let flows = each("flows", move |packet: Packet<'_>| {
                    let (flow, _) = flow_of(packet.frame);
                    seen.lock().expect("nobody panics").push(flow);
                });
                let stages = vec![
                    stage(flows),
                    stage(engine.stage(Summed { drops_of: 7 }, 4)?),
                    stage(bridge(vec![1, 0], Addresses::Kept)),
                ];
                let line = Line::new("core", stages, 4);
                Ok(Box::new(Station::new(stage(line), vec![ring])))
            }),
        ));
    }
    let workers = Workers::start(loops, &settings()).expect("starts");
    let mut came = Vec::new();
    for first in (0..count).step_by(50) {
        send(
            &mut near,
            (first..first + 50).map(|i| of_flow(i as u16 % 37, i, 20)),
        );
        // The wire has room for 4096.
        while workers.live().next().expect("a loop").1.received() + 2000 < u64::from(first) {
            came.extend(received(&mut out));
            std::thread::yield_now();
        }
        came.extend(received(&mut out));
    }
    while workers.live().next().expect("a loop").1.received() < u64::from(count) {
        came.extend(received(&mut out));
        std::thread::yield_now();
    }
    // What comes out late has room on the wire: 4096 at least.
    let accounts = workers.stop().expect("all ended well");
    came.extend(received(&mut out));
    let seen = seen
        .iter()
        .map(|seen| seen.lock().expect("nobody panics").clone());
    (accounts, came, seen.collect())
}

#[test]
fn a_dispatcher_keeps_flows_together_and_in_order() {
    let count = 6000;
    let (accounts, came, seen) = dispatch(WhenFull::Hold, count);
    assert_order(&came);
    let own = &accounts[0];
    own.check().expect("balanced");
    assert_eq!(own.received.packets, u64::from(count));
    assert_eq!(own.sent.packets, came.len() as u64);
    let dropped: u64 = accounts.iter().map(|a| a.dropped().total().packets).sum();
    assert_eq!(own.received.packets, own.sent.packets + dropped);
    assert!(dropped > 0 && own.dropped().total().packets == 0);
    // Each flow was seen by one core, and each core saw some.
    let mut cores = HashMap::new();
    for (core, flows) in seen.iter().enumerate() {
        assert!(!flows.is_empty(), "core {core} had nothing to do");
        for flow in flows {
            assert_eq!(*cores.entry(*flow).or_insert(core), core, "flow {flow}");
        }
    }
    assert_eq!(cores.len(), 37);
}

#[test]
fn a_dispatcher_that_drops_counts_it() {
    let count = 6000;
    let (accounts, came, _) = dispatch(WhenFull::Drop, count);
    assert_order(&came);
    let own = &accounts[0];
    own.check().expect("balanced");
    let dropped: u64 = accounts.iter().map(|a| a.dropped().total().packets).sum();
    assert_eq!(own.received.packets, u64::from(count));
    assert_eq!(own.received.packets, own.sent.packets + dropped);
    assert_eq!(own.sent.packets, came.len() as u64);
}

#[test]
fn a_full_way_out_holds_packets_or_drops_them() {
    for when_full in [WhenFull::Hold, WhenFull::Drop] {
        let narrow = Plan::default();
        let clock = Arc::new(VirtualClock::new(false));
        let (_, [mut near, far]) = Wire::new(clock.clone(), [narrow.clone(), narrow.clone()]);
        // The shard's end of the second wire has room for ten packets.
        let ten = Plan {
            packets_max: 10,
            ..narrow
        };
        let (_, [out, mut sink]) = Wire::new(clock, [ten, Plan::default()]);
        let ports: Vec<Box<dyn PacketPort>> = vec![Box::new(far), Box::new(out)];
        let line = Line::new("test", vec![stage(bridge(vec![1, 0], Addresses::Kept))], 4);
        let mut shard = Shard::new("shard", ports, line, 8, when_full);
        send(&mut near, (0..200).map(|i| of_flow(0, i, 10)));
        turns(&mut shard, 100);
        let account = shard.account();
        let dropped = account.dropped().of(Reason::EGRESS_FULL).packets;
        match when_full {
            // Four bursts of eight for the port, and those that were on their way.
            WhenFull::Hold => {
                assert_eq!((account.sent.packets, dropped), (10, 0));
                assert!((32..=64).contains(&account.in_flight()), "{account}");
                assert!(account.received.packets < 100);
            }
            WhenFull::Drop => {
                assert_eq!(account.received.packets, 200);
                assert_eq!(account.sent.packets + account.in_flight() + dropped, 200);
                assert_eq!(account.in_flight(), 32);
            }
        }
        let mut came = Vec::new();
        for _ in 0..100 {
            came.extend(received(&mut sink));
            turns(&mut shard, 1);
        }
        came.extend(received(&mut sink));
        assert_eq!(came.len() as u64 + dropped, 200);
        assert_order(&came);
    }
}

/// Each packet crosses from one core to another by a port that gives back what it takes, holds few, and gets packets of two others faster than it is received from.
#[test]
fn a_full_crossing_does_not_wait_for_itself() {
    const OUT: u16 = 2;
    const CROSSING: u16 = 3;
    let [(mut left, near_0), (mut right, near_1), (mut out, near_2)] =
        [pair(), pair(), pair()].map(|[near, far]| (near, far));
    let ports: Vec<Box<dyn PacketPort>> = vec![
        Box::new(near_0),
        Box::new(near_1),
        Box::new(near_2),
        Box::new(Looped::new(64)),
    ];
    let (remotes, rings): (Vec<Remote>, Vec<_>) = (0..4).map(|_| ring("core", 4)).unzip();
    let mut stations: Vec<Station> = (rings.into_iter())
        .map(|ring| {
            let crossing = each("crossing", |packet: Packet<'_>| {
                packet.mark.egress = match packet.mark.ingress {
                    CROSSING => OUT,
                    _ => CROSSING,
                };
            });
            Station::new(stage(crossing), vec![ring])
        })
        .collect();
    let sharding = Sharding::new(Toeplitz::new(toeplitz::SYMMETRIC_KEY), 4);
    let mut dispatcher =
        Dispatcher::new("dispatcher", ports, sharding, remotes, 32, WhenFull::Hold);
    for (end, flows) in [(&mut left, 0..20), (&mut right, 20..40)] {
        let frames = (0..50).flat_map(|i| flows.clone().map(move |flow| of_flow(flow, i, 20)));
        let mut ready: VecDeque<Buf> = frames.map(|frame| support::buf(&frame)).collect();
        assert_eq!(end.send(&mut ready).expect("short"), 1000);
    }
    let mut came = Vec::new();
    for _ in 0..500 {
        dispatcher.turn().expect("memory");
        let account = dispatcher.account();
        account.check().expect("balanced");
        // What has no room stays in front of the ports: a list holds four bursts, and as many are on the way to and at each core.
        assert!(account.in_flight() < 1300, "{account}");
        stations.iter_mut().for_each(|station| {
            station.turn();
        });
        out.receive(&mut came, 2000).expect("memory");
    }
    assert_eq!(came.len(), 2000, "{}", dispatcher.account());
    assert_order(&came);
    let account = dispatcher.account();
    assert_eq!((account.received.packets, account.in_flight()), (4000, 0));
    assert_eq!(account.dropped().total().packets, 0);
}

#[test]
fn packets_without_a_way_and_too_long_ones_are_dropped_by_reason() {
    let clock = Arc::new(VirtualClock::new(false));
    let (_, [mut near, far]) = Wire::new(clock.clone(), [Plan::default(), Plan::default()]);
    let short = Plan {
        packet_bytes_max: 100,
        ..Plan::default()
    };
    let (_, [out, mut sink]) = Wire::new(clock, [short, Plan::default()]);
    let ports: Vec<Box<dyn PacketPort>> = vec![Box::new(far), Box::new(out)];
    let chooser = each("chooser", |packet: Packet<'_>| {
        let (flow, _) = flow_of(packet.frame);
        packet.mark.egress = flow;
    });
    let line = Line::new("test", vec![stage(chooser)], 4);
    let mut shard = Shard::new("shard", ports, line, 32, WhenFull::Hold);
    let frames = [(1, 10), (2, 10), (1, 90), (1, 20), (u16::MAX - 2000, 10)];
    send(
        &mut near,
        (0..)
            .zip(frames)
            .map(|(i, (flow, len))| of_flow(flow, i, len)),
    );
    turns(&mut shard, 3);
    let account = shard.account();
    assert_eq!(account.dropped().of(Reason::NO_EGRESS).packets, 2);
    assert_eq!(account.dropped().of(Reason::TOO_LONG).packets, 1);
    assert_eq!(received(&mut sink).len(), 2);
    assert_eq!(account.in_flight(), 0);
}

#[test]
fn frames_that_are_too_short_are_dropped_by_their_reason() {
    /// As an interface of Linux: no frame ends before its header does.
    struct Interface(VecDeque<Buf>);
    impl PacketPort for Interface {
        fn name(&self) -> &str {
            "interface"
        }
        fn packet_bytes_max(&self) -> usize {
            100
        }
        fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
            Err(SetupError::OutOfMemory { len })
        }
        fn receive(&mut self, packets: &mut Vec<Buf>, _: usize) -> io::Result<usize> {
            packets.extend(self.0.drain(..));
            Ok(packets.len())
        }
        fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
            match packets.pop_front() {
                Some(frame) if (14..=100).contains(&frame.len()) => Ok(1),
                None => Ok(0),
                Some(frame) => {
                    packets.push_front(frame);
                    Err(io::ErrorKind::InvalidInput.into())
                }
            }
        }
        fn stats(&mut self) -> PortStats {
            PortStats::default()
        }
    }
    let frames = [60, 13, 100, 0, 101].map(|len| Buf::zeroed(len).expect("memory"));
    let ports: Vec<Box<dyn PacketPort>> = vec![
        Box::new(Interface(frames.into())),
        Box::new(Interface(VecDeque::new())),
    ];
    let line = Line::new("test", vec![stage(bridge(vec![1, 0], Addresses::Kept))], 4);
    let mut shard = Shard::new("shard", ports, line, 32, WhenFull::Hold);
    turns(&mut shard, 9);
    let account = shard.account();
    let dropped = account.dropped();
    assert_eq!(dropped.of(Reason::TRUNCATED).packets, 2, "{account}");
    assert_eq!(dropped.of(Reason::TOO_LONG).packets, 1);
    assert_eq!((account.sent.packets, account.in_flight()), (2, 0));
}

#[test]
fn bursts_for_a_core_that_is_gone_are_dropped_and_counted() {
    let (ports, [mut near, _out], _) = wires([Plan::default(), Plan::default()]);
    let (remote, ring) = ring("gone", 4);
    drop(ring);
    let line = Line::new("test", vec![stage(remote)], 4);
    let mut shard = Shard::new("shard", ports.into(), line, 32, WhenFull::Hold);
    send(&mut near, (0..50).map(|i| of_flow(0, i, 10)));
    turns(&mut shard, 3);
    let account = shard.account();
    assert_eq!(account.dropped().of(Reason::CORE_GONE).packets, 50);
    assert_eq!(account.in_flight(), 0);
}

/// Nobody takes back what a station has worked on: its account says so.
#[test]
fn bursts_of_a_core_that_is_gone_are_dropped_and_counted() {
    let (mut remote, ring) = ring("gone", 4);
    let mut burst = Burst::with_capacity(50);
    for i in 0..50 {
        burst.push(support::buf(&of_flow(0, i, 10)), Mark::of(0));
    }
    assert_eq!(remote.offer(&mut VecDeque::from([burst])), 1);
    drop(remote);
    let nothing = each("nothing", |_: Packet<'_>| {});
    let mut station = Station::new(stage(nothing), vec![ring]);
    station.turn();
    let account = station.account();
    account.check().expect("balanced");
    let gone = account.dropped().of(Reason::CORE_GONE);
    assert_eq!((gone.packets, gone.bytes), (50, 50 * 52));
    station.turn();
    assert!(station.is_done());
}

#[test]
fn loops_that_cannot_start_say_why_and_the_others_stop() {
    let (ports, _ends, _) = wires([Plan::default(), Plan::default()]);
    let loops: Loops = vec![
        (
            "good".into(),
            Box::new(move || {
                let line = Line::new("line", Vec::new(), 2);
                let shard = Shard::new("good", ports.into(), line, 8, WhenFull::Hold);
                Ok(Box::new(shard) as Box<dyn Work>)
            }),
        ),
        (
            "bad".into(),
            Box::new(|| Err(SetupError::OutOfMemory { len: 77 })),
        ),
    ];
    let error = Workers::start(loops, &settings()).expect_err("one cannot start");
    assert_eq!(error.to_string(), "bad: no memory for 77 bytes");
}

#[test]
fn a_port_that_fails_ends_its_loop_with_its_error() {
    struct Broken;
    impl PacketPort for Broken {
        fn name(&self) -> &str {
            "broken"
        }
        fn packet_bytes_max(&self) -> usize {
            1500
        }
        fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
            Err(SetupError::OutOfMemory { len })
        }
        fn receive(&mut self, _: &mut Vec<Buf>, _: usize) -> io::Result<usize> {
            Err(io::Error::other("the cable was pulled"))
        }
        fn send(&mut self, _: &mut VecDeque<Buf>) -> io::Result<usize> {
            Ok(0)
        }
        fn stats(&mut self) -> PortStats {
            PortStats::default()
        }
    }
    let loops: Loops = vec![(
        "loop".into(),
        Box::new(|| {
            let line = Line::new("line", Vec::new(), 2);
            let ports: Vec<Box<dyn PacketPort>> = vec![Box::new(Broken)];
            let shard = Shard::new("loop", ports, line, 8, WhenFull::Hold);
            Ok(Box::new(shard) as Box<dyn Work>)
        }),
    )];
    let workers = Workers::start(loops, &settings()).expect("starts");
    while !workers.has_ended() {
        std::thread::yield_now();
    }
    match workers.stop() {
        Err(WorkersError::Io { name, error }) => {
            assert_eq!(
                (&*name, &*error.to_string()),
                ("loop", "the cable was pulled")
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_are_pinned_to_cores_that_there_are() {
    let loops = |name: &str| -> Loops {
        let name = name.to_owned();
        vec![(
            name.clone(),
            Box::new(move || {
                let line = Line::new("line", Vec::new(), 2);
                let shard = Shard::new(name, Vec::new(), line, 8, WhenFull::Hold);
                Ok(Box::new(shard) as Box<dyn Work>)
            }),
        )]
    };
    let cores = |core: u32| Settings {
        cores: vec![core],
        ..settings()
    };
    // A core that this thread may use.
    let mine = rustix::thread::sched_getaffinity(None).expect("Linux");
    let core = (0..).find(|core| mine.is_set(*core)).expect("one at least");
    let workers = Workers::start(loops("pinned"), &cores(core as u32)).expect("pins");
    workers.stop().expect("ends");
    let error = Workers::start(loops("far"), &cores(1_000_000)).expect_err("no such core");
    assert_eq!(error.to_string(), "far: there is no core 1000000");
}
