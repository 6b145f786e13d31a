//! Gates: systems that are cut in pieces do what they do in one, and a switch between two endpoints is as late as its parts are.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dpb_core::conformance::sample::Sample;
use dpb_core::{Backend, OpSpec, VirtualClock, WallClock, spec};
use dpb_sim::kernel::{
    Component, ComponentId, Context, Kernel, MICROSECOND_PS, MILLISECOND_PS, Plan,
};
use dpb_sim::simbricks::{Endpoint, RingShape, Sent, SyncMode, Waiting};
use dpb_sim::system::{
    Address, Application, Card, CardModel, Frame, Framing, Gate, GateError, GateWatch, Host,
    HostModel, Listening, Message, Opening, Protection, StageModel, Stream, Switch, SwitchModel,
    Times, Wire, WireFaults, WireModel, card,
};
use dpb_sim::tcp::Config;
use tempfile::tempdir;

use crate::drive::{Station, Timed, drive, pair, params};

/// The latency of each link of the network.
const LATENCY_PS: u64 = 10 * MICROSECOND_PS;
/// The end of all runs: all transfers are over, lost segments are sent again.
const END_PS: u64 = 60 * MILLISECOND_PS;
const BULK_BYTES: u64 = 400_000;
/// Station 0 is the server; the parts are the stations and the switch.
const STATIONS: usize = 3;
const SWITCH: usize = STATIONS;

/// The kernel of each part.
type Places = [usize; STATIONS + 1];

#[derive(Clone, Copy, Debug)]
struct Setting {
    /// True if cards protect frames, which are then longer than others.
    protects: bool,
    timestamps: bool,
    faults: WireFaults,
    /// Entries of each ring: with few, senders wait for room.
    entries: u64,
}

const PLAIN: Setting = Setting {
    protects: false,
    timestamps: true,
    faults: WireFaults {
        loss: 0.0,
        flip: 0.0,
        duplicate: 0.0,
    },
    entries: 256,
};

fn address(station: usize) -> Address {
    Address {
        mac: [2, 0, 0, 0, 0, station as u8 + 1],
        ip: Ipv4Addr::new(10, 0, 0, station as u8 + 1),
        port: 5001,
    }
}

fn host(number: usize, setting: &Setting) -> Host {
    let config = Config {
        timestamps: setting.timestamps,
        rto_initial_ps: 5 * MILLISECOND_PS,
        rto_min_ps: 5 * MILLISECOND_PS,
        ..Config::default()
    };
    let opening = Opening {
        at_ps: number as u64 * MICROSECOND_PS,
        port: 40_000,
        to: address(0),
        application: Application::Send { bytes: BULK_BYTES },
        config,
    };
    let listening = Listening {
        port: 5001,
        application: Application::Receive,
        config,
    };
    let (openings, listening) = match number {
        0 => (vec![], vec![listening]),
        _ => (vec![opening], vec![]),
    };
    Host::new(
        HostModel::default(),
        address(number),
        openings,
        listening,
        None,
    )
}

fn card_of(number: usize, setting: &Setting) -> Card {
    let protection = setting.protects.then(|| {
        let operator = Sample::new(None).prepare(&OpSpec::from(spec::Crc32c));
        Protection::new(operator.unwrap(), Framing::Mark).unwrap()
    });
    let times = Times::Linear {
        job_ps: 500_000,
        byte_ps: 200,
    };
    let stage = StageModel {
        lanes: 2,
        waiting_max: 64,
        latency_ps: 100_000,
        ..StageModel::new("digest", times)
    };
    let stages = Vec::from_iter(setting.protects.then_some(stage));
    let model = WireModel {
        queue_bytes: u64::MAX,
        faults: setting.faults,
        ..WireModel::default()
    };
    let wire = Wire::new(model, number as u64);
    Card::new(CardModel::default(), wire, stages, protection)
}

fn switch(setting: &Setting, ports: usize) -> Switch {
    let model = WireModel {
        faults: setting.faults,
        ..WireModel::default()
    };
    let wires = (0..ports).map(|port| Wire::new(model.clone(), 100 + port as u64));
    Switch::new(SwitchModel::default(), wires.collect())
}

/// The ends of a link, synchronised, with the network's latency on both sides.
fn link(path: &Path, entries: u64) -> [Gate; 2] {
    // The longest frame has a digest and a mark behind 1514 bytes.
    let shape = RingShape {
        entries,
        entry_bytes: 64 + 1600,
    };
    let side = params(SyncMode::Required, LATENCY_PS, LATENCY_PS);
    pair(path, shape, [side, side]).map(|end| Gate::synchronised(end).unwrap())
}

/// The parts of a system, each in the kernel of its place.
struct Pieces {
    kernels: Vec<Kernel<Message>>,
    places: Places,
    /// Hosts and their cards.
    stations: Vec<[ComponentId; 2]>,
    switch: ComponentId,
    /// The gates at stations and at the switch.
    gates: Vec<[GateWatch; 2]>,
}

fn pieces(places: Places, setting: &Setting) -> Pieces {
    let folder = tempdir().unwrap();
    let kernels = places.iter().max().unwrap() + 1;
    let mut plans: Vec<Plan<Message>> = (0..kernels).map(|_| Plan::new()).collect();
    let switch = plans[places[SWITCH]].add("switch", 1, switch(setting, STATIONS));
    let (mut stations, mut gates) = (Vec::new(), Vec::new());
    for number in 0..STATIONS {
        let plan = &mut plans[places[number]];
        let host = plan.add(&format!("host {number}"), 2, host(number, setting));
        let card = plan.add(&format!("card {number}"), 1, card_of(number, setting));
        plan.join((host, 0), (card, card::HOST), 300_000).unwrap();
        stations.push([host, card]);
        let ends = [(card, card::WIRE), (switch, number)];
        if places[number] == places[SWITCH] {
            plan.join(ends[0], ends[1], LATENCY_PS).unwrap();
            continue;
        }
        let [near, far] = link(&folder.path().join(number.to_string()), setting.entries);
        gates.push([near.watch(), far.watch()]);
        plan.lead_out(ends[0], near).unwrap();
        plans[places[SWITCH]].lead_out(ends[1], far).unwrap();
    }
    Pieces {
        kernels: plans.into_iter().map(|plan| plan.build(1)).collect(),
        places,
        stations,
        switch,
        gates,
    }
}

impl Pieces {
    /// Runs each kernel in a thread, in two steps.
    fn run(&mut self) {
        thread::scope(|scope| {
            for kernel in &mut self.kernels {
                scope.spawn(|| {
                    kernel.run_until(END_PS / 7).unwrap();
                    kernel.run_until(END_PS).unwrap();
                });
            }
        });
    }

    fn part<C: Component<Message>>(&self, part: usize, id: ComponentId) -> &C {
        self.kernels[self.places[part]].component(id).unwrap()
    }

    /// Everything that is counted, by part, but for what frames remember and bytes do not say: their ways, and at the server, to which the
    /// connections were opened, the time at which they were.
    fn record(&self) -> Vec<String> {
        let stations = self.stations.iter().enumerate();
        let stations = stations.map(|(number, &[host, card])| {
            let (host, card): (&Host, &Card) = (self.part(number, host), self.part(number, card));
            let flows = host.flows().iter().map(|flow| {
                let endpoint = &flow.endpoint;
                let statistics = endpoint.sender().statistics();
                let bytes = endpoint.delivered_bytes();
                let opened_ps = (number != 0).then_some(flow.opened_ps);
                format!(
                    "{opened_ps:?} {:?} {bytes} {statistics:?}",
                    flow.finished_ps
                )
            });
            let flows: Vec<_> = flows.collect();
            let stages: Vec<_> = card.stages().collect();
            let (usage, wire) = (card.usage(), card.wire_usage());
            let protection = card.protection();
            format!(
                "{:?} {flows:?} {usage:?} {wire:?} {:?} {stages:?} {protection:?} {}",
                host.usage(),
                card.dma(),
                host.ways().frames,
            )
        });
        let switch: &Switch = self.part(SWITCH, self.switch);
        let wires: Vec<_> = (0..STATIONS).map(|port| switch.wire_usage(port)).collect();
        let switch = format!("{:?} {wires:?}", switch.usage());
        stations.chain([switch]).collect()
    }

    /// Checks that all bytes came, and that gates carried what was sent.
    fn check(&self) {
        let server: &Host = self.part(0, self.stations[0][0]);
        assert_eq!(server.flows().len(), STATIONS - 1);
        for flow in server.flows() {
            assert_eq!(flow.endpoint.delivered_bytes(), BULK_BYTES);
            assert!(flow.finished_ps.is_some());
        }
        for [near, far] in &self.gates {
            let (near, far) = (near.usage(), far.usage());
            assert_eq!([near.sent, far.sent], [far.received, near.received]);
            assert!(near.sent > 0 && far.sent > 0);
            assert!(near.sent + far.sent > BULK_BYTES / 1460, "{near:?} {far:?}");
            let lost = near.too_long + near.too_short + near.after_end;
            assert_eq!(lost + far.too_long + far.too_short + far.after_end, 0);
        }
    }
}

/// One kernel, a client that is cut off, all parts apart, the switch alone.
const CUTS: [Places; 4] = [[0, 0, 0, 0], [0, 0, 1, 0], [1, 2, 3, 0], [1, 1, 1, 0]];

fn check_cuts(setting: Setting) {
    let records = CUTS.map(|places| {
        let mut pieces = pieces(places, &setting);
        pieces.run();
        pieces.check();
        pieces.record()
    });
    for (cut, record) in CUTS.iter().zip(&records).skip(1) {
        for (part, whole) in record.iter().zip(&records[0]) {
            assert_eq!(part, whole, "{cut:?}, {setting:?}");
        }
    }
}

#[test]
fn a_system_in_pieces_does_what_it_does_in_one() {
    check_cuts(PLAIN);
}

/// Acknowledgements without options have 54 bytes: padded ones would take longer behind the gate.
#[test]
fn short_frames_are_not_padded() {
    check_cuts(Setting {
        timestamps: false,
        ..PLAIN
    });
}

#[test]
fn frames_with_digests_and_faults_are_the_same_in_pieces() {
    check_cuts(Setting {
        protects: true,
        faults: WireFaults {
            loss: 0.002,
            flip: 0.002,
            duplicate: 0.002,
        },
        ..PLAIN
    });
}

/// Without digests, frames whose headers are damaged reach connections: the headers that bytes have behind a gate are those that they have before it.
#[test]
fn damaged_headers_are_the_same_in_pieces() {
    check_cuts(Setting {
        faults: WireFaults {
            flip: 0.02,
            ..PLAIN.faults
        },
        ..PLAIN
    });
}

/// A window of frames is many times what the rings hold, so kernels wait for each other to take.
#[test]
fn full_rings_change_nothing() {
    check_cuts(Setting {
        entries: 2,
        ..PLAIN
    });
}

/// A frame with Ethernet addresses.
fn frame(to: u8, from: u8, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.extend((14..bytes).map(|at| (at * 7 + bytes) as u8));
    frame
}

/// The arrivals of frames behind a switch, by its definition: store and forward, one frame on the wire at a time.
fn behind_switch(sent: &[Timed], into_ps: u64, out_ps: u64) -> Vec<Timed> {
    let model = SwitchModel::default();
    let mut free_ps = 0;
    let arrivals = sent.iter().map(|(at_ps, frame)| {
        let ready_ps = at_ps + into_ps + model.forward_ps;
        // Ten gigabits a second are 800 ps a byte; 24 bytes of framing, and never less than 60 of the frame.
        let bits_ps = (frame.len().max(60) as u64 + 24) * 800;
        free_ps = ready_ps.max(free_ps) + bits_ps;
        (free_ps + out_ps, frame.clone())
    });
    arrivals.collect()
}

/// Endpoints that speak the protocol themselves on both sides of our switch.
fn check_switch(gap_ps: u64) {
    let folder = tempdir().unwrap();
    // Each side has a latency of its own.
    let latencies = [[700_000, 500_000], [1_300_000, 900_000]];
    let mut plan = Plan::new();
    let id = plan.add("switch", 1, switch(&PLAIN, 2));
    let mut watches = Vec::new();
    let mut ends = latencies.iter().enumerate().map(|(port, sides)| {
        let sides = sides.map(|latency_ps| params(SyncMode::Required, latency_ps, latency_ps));
        let path = folder.path().join(port.to_string());
        let [end, gate] = pair(&path, RingShape::ETHERNET, sides);
        let gate = Gate::synchronised(gate).unwrap();
        watches.push(gate.watch());
        plan.lead_out((id, port), gate).unwrap();
        end
    });
    let [mut a, mut b] = [ends.next().unwrap(), ends.next().unwrap()];
    drop(ends);
    let frames = |to, from, start_ps: u64| -> Vec<Timed> {
        let lengths = (14..=1536).step_by(3).enumerate();
        let sent = lengths.map(|(i, len)| (start_ps + i as u64 * gap_ps, frame(to, from, len)));
        sent.collect()
    };
    let (forth, back) = (frames(2, 1, 5), frames(1, 2, 12_345));
    // The last frame is on the wire for all that came before it, at the most.
    let end_ps = forth.len() as u64 * (gap_ps + 1_300_000) + 10 * MICROSECOND_PS;
    let mut kernel = plan.build(1);
    let received = thread::scope(|scope| {
        let ends = [(&mut a, &forth, back.len()), (&mut b, &back, forth.len())];
        let threads = ends.map(|(end, to_send, expected)| {
            scope.spawn(move || {
                let mut station = Station::new(to_send, expected);
                drive(std::slice::from_mut(end), &mut station).unwrap();
                station.received
            })
        });
        kernel.run_until(end_ps).unwrap();
        threads.map(|thread| thread.join().unwrap())
    });
    let [[a_ps, to_a_ps], [b_ps, to_b_ps]] = latencies;
    assert!(received[0] == behind_switch(&back, b_ps, to_a_ps));
    assert!(received[1] == behind_switch(&forth, a_ps, to_b_ps));
    for watch in watches {
        let usage = watch.usage();
        assert_eq!(
            (usage.sent, usage.received),
            (forth.len() as u64, back.len() as u64)
        );
    }
}

/// Links and the switch add up: no frame waits for another.
#[test]
fn a_switch_between_endpoints_is_as_late_as_its_parts() {
    check_switch(1_350_001);
}

/// Frames come faster than the wire takes them.
#[test]
fn frames_wait_for_the_switch_s_wire() {
    check_switch(333_333);
}

/// Sends a frame of some length each microsecond, and writes down when frames come.
struct Ticker {
    bytes: usize,
    received: Vec<(u64, usize)>,
}

impl Component<Message> for Ticker {
    fn start(&mut self, context: &mut Context<'_, Message>) {
        context.wake_at(0, 0);
    }

    fn receive(&mut self, _: usize, message: Message, context: &mut Context<'_, Message>) {
        if let Message::Frame(frame) = message {
            self.received.push((context.now_ps(), frame.bytes()));
        }
    }

    fn wake(&mut self, _: u64, context: &mut Context<'_, Message>) {
        let frame = frame(1, 2, self.bytes);
        let frame = dpb_sim::system::Frame::from_bytes(&frame, context.now_ps()).unwrap();
        context.send(0, Message::Frame(frame));
        context.wake_at(context.now_ps() + MICROSECOND_PS, 0);
    }
}

/// A kernel with a ticker behind the gate.
fn ticking(gate: Gate, bytes: usize) -> (Kernel<Message>, ComponentId, GateWatch) {
    let mut plan = Plan::new();
    let received = Vec::new();
    let ticker = plan.add("ticker", 1, Ticker { bytes, received });
    let watch = gate.watch();
    plan.lead_out((ticker, 0), gate).unwrap();
    (plan.build(1), ticker, watch)
}

/// Ends of a link with the protocol's usual latency.
fn ends(sync: SyncMode) -> [Endpoint; 2] {
    let folder = tempdir().unwrap();
    let side = params(sync, 500_000, 500_000);
    pair(
        &folder.path().join("link"),
        RingShape::ETHERNET,
        [side, side],
    )
}

#[test]
fn a_peer_that_leaves_fails_the_run_where_its_promise_ends() {
    let [mut peer, gate] = ends(SyncMode::Required);
    let gate = Gate::synchronised(gate).unwrap();
    let (mut kernel, ticker, watch) = ticking(gate, 60);
    assert_eq!(
        peer.send(4_200_000, &frame(2, 1, 77)).unwrap(),
        Sent::Queued
    );
    assert_eq!(peer.send(4_200_000, &[1; 13]).unwrap(), Sent::Queued);
    assert!(peer.out_sync(9_500_000).unwrap());
    drop(peer);
    // All of that was promised. With so many steps it is long noticed that the peer has left.
    for step in 0..3000 {
        kernel.run_until(6_000_000 + step).unwrap();
    }
    kernel.run_until(9_999_999).unwrap();
    let failed = kernel.run_until(20 * MICROSECOND_PS).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "`ticker` failed at 4700000 ps: SimBricks, of which the peer's time was 10000000 ps: the peer closed its socket without having sent TERMINATE"
    );
    let ticker: &Ticker = kernel.component(ticker).unwrap();
    assert_eq!(ticker.received, [(4_700_000, 77)]);
    let usage = watch.usage();
    assert_eq!((usage.received, usage.too_short), (1, 1));
}

#[test]
fn a_run_ends_when_the_peer_knows_how_far_it_came() {
    let folder = tempdir().unwrap();
    let side = params(SyncMode::Required, 500_000, 500_000);
    let shape = RingShape {
        entries: 2,
        entry_bytes: 64 + 64,
    };
    let [mut peer, gate] = pair(&folder.path().join("link"), shape, [side, side]);
    let (mut kernel, _, watch) = ticking(Gate::synchronised(gate).unwrap(), 60);
    assert!(peer.out_sync(1_100_000).unwrap());
    thread::scope(|scope| {
        scope.spawn(move || kernel.run_until(1_500_000).unwrap());
        let mut waiting = Waiting::new(true);
        while watch.usage().sent < 2 {
            waiting.pause();
        }
        // The frames of 0 and 1 µs fill the ring, and the last promise waits for room.
        for _ in 0..1000 {
            thread::yield_now();
        }
        for due_ps in [500_000, 1_500_000] {
            let tick = peer.poll(u64::MAX).unwrap().unwrap();
            assert_eq!(tick.timestamp_ps, due_ps);
        }
        while peer.input_timestamp_ps() < 2_000_000 {
            waiting.pause();
            assert!(peer.poll(u64::MAX).unwrap().is_none());
        }
    });
}

#[test]
fn a_peer_that_says_so_may_leave() {
    let [mut peer, gate] = ends(SyncMode::Required);
    let (mut kernel, ticker, watch) = ticking(Gate::synchronised(gate).unwrap(), 60);
    assert_eq!(
        peer.send(4_200_000, &frame(2, 1, 77)).unwrap(),
        Sent::Queued
    );
    assert_eq!(peer.terminate().unwrap(), Sent::Queued);
    drop(peer);
    kernel.run_until(20 * MICROSECOND_PS).unwrap();
    let ticker: &Ticker = kernel.component(ticker).unwrap();
    assert_eq!(ticker.received, [(4_700_000, 77)]);
    let usage = watch.usage();
    assert_eq!(usage.sent + usage.after_end, 21);
    assert!(usage.after_end > 0);
}

#[test]
fn a_kernel_says_farewell_if_it_is_told_to() {
    for says_it in [false, true] {
        let [a, b] = ends(SyncMode::Required).map(|end| Gate::synchronised(end).unwrap());
        let ((mut first, _, watch), (mut second, ticker, _)) = (ticking(a, 60), ticking(b, 60));
        let outcome = thread::scope(|scope| {
            scope.spawn(move || {
                first.run_until(5 * MICROSECOND_PS).unwrap();
                if says_it {
                    watch.farewell();
                }
            });
            second.run_until(20 * MICROSECOND_PS)
        });
        assert_eq!(outcome.is_ok(), says_it, "{outcome:?}");
        let ticker: &Ticker = second.component(ticker).unwrap();
        let sent = (0..=5).map(|number| (number * MICROSECOND_PS + 500_000, 60));
        let arrived = Vec::from_iter(sent);
        // What the last promise did not cover does not happen.
        let common = ticker.received.len();
        assert_eq!(ticker.received, arrived[..common]);
        assert!(common == 6 || !says_it && common == 5);
    }
}

#[test]
fn frames_longer_than_a_slot_are_counted() {
    let [mut peer, gate] = ends(SyncMode::Required);
    let (mut kernel, _, watch) = ticking(Gate::synchronised(gate).unwrap(), 1537);
    assert_eq!(peer.terminate().unwrap(), Sent::Queued);
    kernel.run_until(3 * MICROSECOND_PS).unwrap();
    assert_eq!((watch.usage().too_long, watch.usage().sent), (4, 0));
    assert!(peer.poll(u64::MAX).unwrap().is_none());
}

#[test]
fn each_kind_of_gate_refuses_links_of_the_other() {
    let clock = || Arc::new(VirtualClock::new(false));
    let [a, b] = ends(SyncMode::Required);
    assert_eq!(
        Gate::paced(a, clock()).unwrap_err(),
        GateError::Synchronised
    );
    assert!(Gate::synchronised(b).is_ok());
    let [a, b] = ends(SyncMode::Disabled);
    assert_eq!(
        Gate::synchronised(a).unwrap_err(),
        GateError::NotSynchronised
    );
    assert!(Gate::paced(b, clock()).is_ok());
}

#[test]
fn a_paced_kernel_follows_the_clock() {
    const START_NS: u64 = 1_000;
    const ELAPSED_NS: [u64; 5] = [0, 3_500, 3_600, 12_000, 20_001];
    let [mut peer, gate] = ends(SyncMode::Disabled);
    let clock = Arc::new(VirtualClock::new(false));
    clock.advance_to(START_NS);
    let gate = Gate::paced(gate, clock.clone()).unwrap();
    let (mut kernel, ticker, watch) = ticking(gate, 60);
    thread::scope(|scope| {
        scope.spawn(|| kernel.run_until(20 * MICROSECOND_PS).unwrap());
        let mut waiting = Waiting::new(true);
        let mut ticks: u64 = 0;
        for (number, &elapsed_ns) in ELAPSED_NS.iter().enumerate() {
            clock.advance_to(START_NS + elapsed_ns);
            while ticks < elapsed_ns.div_ceil(1000).min(21) {
                match peer.poll(0).unwrap() {
                    Some(tick) => {
                        assert_eq!(tick.timestamp_ps, ticks * MICROSECOND_PS + 500_000);
                        ticks += 1;
                    }
                    None => waiting.pause(),
                }
            }
            if number + 1 == ELAPSED_NS.len() {
                break;
            }
            // The clock stands still: this frame comes now, and nothing goes out.
            assert_eq!(
                peer.send(0, &frame(2, 1, 100 + number)).unwrap(),
                Sent::Queued
            );
            while watch.usage().received <= number as u64 {
                waiting.pause();
            }
            assert!(peer.poll(0).unwrap().is_none());
        }
    });
    let ticker: &Ticker = kernel.component(ticker).unwrap();
    let came = ELAPSED_NS.iter().enumerate().take(4);
    let came = came.map(|(number, &elapsed_ns)| (elapsed_ns * 1000, 100 + number));
    assert_eq!(ticker.received, Vec::from_iter(came));
}

#[test]
fn a_peer_that_says_nothing_is_given_up() {
    let [peer, gate] = ends(SyncMode::Required);
    let clock = Arc::new(WallClock::default());
    let gate = Gate::synchronised(gate).unwrap();
    let gate = gate.with_patience(clock, Duration::from_millis(250), || false);
    let (mut kernel, _, _) = ticking(gate, 60);
    let failed = kernel.run_until(20 * MICROSECOND_PS).unwrap_err();
    assert!(
        failed.reason.contains("has said nothing for 0.25 s"),
        "{failed}"
    );
    drop(peer);
}

#[test]
fn a_run_beside_a_peer_ends_when_it_is_told_to() {
    let [peer, gate] = ends(SyncMode::Required);
    let clock = Arc::new(WallClock::default());
    let gate = Gate::synchronised(gate).unwrap();
    let gate = gate.with_patience(clock, Duration::from_secs(3600), || true);
    let (mut kernel, _, _) = ticking(gate, 60);
    let failed = kernel.run_until(20 * MICROSECOND_PS).unwrap_err();
    assert_eq!(failed.reason, "interrupted");
    drop(peer);
}

/// Sends a frame each 100 ns, or fails at a time.
enum Part {
    Talker,
    Fragile { at_ps: u64 },
}

impl Component<Message> for Part {
    fn start(&mut self, context: &mut Context<'_, Message>) {
        match self {
            Self::Talker => context.wake_at(0, 0),
            Self::Fragile { at_ps } => context.wake_at(*at_ps, 0),
        }
    }

    fn receive(&mut self, _: usize, _: Message, _: &mut Context<'_, Message>) {}

    fn wake(&mut self, _: u64, context: &mut Context<'_, Message>) {
        match self {
            Self::Talker => {
                let stream = Stream { seed: 0, offset: 0 };
                let frame = Frame::new(&[2; 14], stream, 100, context.now_ps());
                context.send(0, Message::Frame(frame));
                context.wake_at(context.now_ps() + 100_000, 0);
            }
            Self::Fragile { .. } => context.fail("as planned"),
        }
    }
}

/// The peer never reads, so the ring is full after four frames, and the sender waits for room for ever, unless it sees that another partition has failed.
#[test]
fn a_failure_elsewhere_ends_the_wait_for_a_peer_that_never_reads() {
    let folder = tempdir().unwrap();
    let shape = RingShape {
        entries: 4,
        entry_bytes: 64 + 1600,
    };
    let side = params(SyncMode::Required, LATENCY_PS, LATENCY_PS);
    let [near, mut deaf] = pair(&folder.path().join("deaf"), shape, [side, side]);
    // Its one promise lets the sender begin.
    assert!(deaf.out_sync(0).unwrap());
    let mut plan = Plan::new();
    let talker = plan.add("talker", 1, Part::Talker);
    let at_ps = MICROSECOND_PS;
    let fragile = plan.add("fragile", 1, Part::Fragile { at_ps });
    plan.join((talker, 1), (fragile, 0), MICROSECOND_PS)
        .unwrap();
    let gate = Gate::synchronised(near).unwrap();
    plan.lead_out((talker, 0), gate).unwrap();
    let mut kernel = plan.build(2);
    assert_eq!(kernel.threads(), 2);
    let failed = kernel.run_until(MILLISECOND_PS).unwrap_err();
    let said = "`fragile` failed at 1000000 ps: as planned";
    assert_eq!(failed.to_string(), said);
}
