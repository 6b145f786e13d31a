//! Virtual time that follows a clock which the test moves, over ports that are lists.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use dpb_core::conformance::sample::Sample;
use dpb_core::{Backend, OpSpec, Operator, SetupError, VirtualClock, spec};

use super::super::description::Description;
use super::super::{Leg, System, WaysOut, report};
use super::*;

/// A port of which the test has the other side.
#[derive(Clone, Default)]
struct List(Arc<Mutex<Lists>>);

#[derive(Default)]
struct Lists {
    to_receive: VecDeque<Buf>,
    sent: Vec<Vec<u8>>,
    stats: PortStats,
    is_full: bool,
}

impl List {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().expect("nobody panics")
    }
}

impl PacketPort for List {
    fn name(&self) -> &str {
        "a list"
    }

    fn packet_bytes_max(&self) -> usize {
        1514
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let mut lists = self.lists();
        let came = lists.to_receive.len().min(max);
        packets.extend(lists.to_receive.drain(..came));
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let mut lists = self.lists();
        if lists.is_full {
            return Ok(0);
        }
        let taken = packets.len();
        lists.sent.extend(packets.drain(..).map(|it| it.to_vec()));
        Ok(taken)
    }

    fn stats(&mut self) -> PortStats {
        self.lists().stats
    }
}

/// Two real hosts whose cards compute digests; the link takes 3 ms.
const SYSTEM: &str = r#"
    [[real]]
    name = "a"
    [[real]]
    name = "b"
    [[card]]
    host = "a"
    interrupt_gap_us = 0
    stage = [{ name = "crc", job_ns = 1000 }]
    digest = { operator = "crc32c" }
    [[card]]
    host = "b"
    interrupt_gap_us = 0
    stage = [{ name = "crc", job_ns = 1000 }]
    digest = { operator = "crc32c" }
    [[link]]
    ends = ["a", "b"]
    latency_ns = 3_000_000
"#;

fn prepare(_: &str) -> Result<Arc<dyn Operator>, SetupError> {
    Sample::new(None).prepare(&OpSpec::from(spec::Crc32c))
}

struct Bench {
    system: System,
    live: Arc<Live>,
    clock: Arc<VirtualClock>,
    ports: [List; 2],
}

fn bench(text: &str) -> Bench {
    let description: Description = text.parse().expect("a system");
    let clock = Arc::new(VirtualClock::new(false));
    let ports = [List::default(), List::default()];
    let boxed = ports.each_ref().map(|it| Box::new(it.clone()) as _);
    let live = Live::new(clock.clone(), Vec::from(boxed));
    let mut ways = WaysOut::default();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let way = Box::new(live.end(number));
        ways.real.insert(name.to_owned(), way);
    }
    let system = System::assemble_part(&description, &prepare, 1, 1, ways);
    Bench {
        system: system.expect("a system"),
        live,
        clock,
        ports,
    }
}

/// An IPv4 packet of so many bytes with its header, not padded.
fn ipv4(bytes: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(bytes.to_be_bytes());
    frame.resize(14 + usize::from(bytes), 7);
    frame
}

/// Runs up to this time, while the clock is moved from beside by steps of a microsecond.
fn run(bench: &mut Bench, end_ns: u64) {
    let Bench { system, clock, .. } = bench;
    let now_ns = AtomicU64::new(clock.now_ns());
    thread::scope(|scope| {
        let running = scope.spawn(|| system.run_until(end_ns * NANOSECOND_PS));
        while !running.is_finished() {
            clock.advance_to(now_ns.fetch_add(1000, Ordering::Relaxed));
            thread::yield_now();
        }
        running.join().expect("no panic").expect("nothing fails");
    });
}

#[test]
fn frames_are_held_for_their_modelled_time_and_digests_stay_inside() {
    let mut bench = bench(SYSTEM);
    bench.system.observe(true, None);
    let frames = [ipv4(40), ipv4(1500), ipv4(777)];
    for frame in &frames {
        let mut packet = Buf::zeroed(frame.len()).expect("memory");
        packet.copy_from_slice(frame);
        bench.ports[0].lists().to_receive.push_back(packet);
    }
    // The frames are found within the first step, and none can be there before the link's latency.
    run(&mut bench, 2_900_000);
    assert!(bench.ports[1].lists().sent.is_empty());
    run(&mut bench, 20_000_000);
    assert_eq!(bench.ports[1].lists().sent, frames);
    let (from, to) = (0..2)
        .map(|number| bench.live.usage(number).expect("a port").0)
        .fold((0, 0), |(from, to), it| (from + it.received, to + it.sent));
    assert_eq!((from, to), (3, 3));
    let (usage, _) = bench.live.usage(1).expect("a port");
    assert_eq!(usage.late.count(), 3);
    let [a, b] = {
        let cards: Vec<_> = bench.system.cards().map(|(_, card)| card).collect();
        [0, 1].map(|at| cards[at].protection().expect("it computes digests"))
    };
    assert_eq!((a.protected, b.right, b.wrong), (3, 3, 0));
    let real: Vec<_> = bench.system.real().map(|(_, real)| real.usage()).collect();
    assert_eq!((real[0].sent, real[1].received), (3, 3));
    // Each frame had the latency of the link on its way, and the stage of either card.
    let leg = |leg: Leg| real[1].legs_ps[leg as usize];
    assert_eq!(leg(Leg::Propagation), 3 * 3_000_000_000);
    assert_eq!(leg(Leg::EngineWork), 3 * 2_000_000);
    // So says the account, which knows the parts too, and leaves nothing out.
    let account = report::account(&bench.system);
    let spent = report::spent(&bench.system);
    let sum_ps: u64 = spent.iter().map(|it| it.sum_ps).sum();
    assert_eq!((account.frames, account.end_to_end_ps), (3, sum_ps));
    for (part, leg, expected_ps) in [
        ("card of a: wire", Leg::Propagation, 3 * 3_000_000_000),
        ("card of a: crc", Leg::EngineWork, 3_000_000),
        ("card of b: crc", Leg::EngineWork, 3_000_000),
    ] {
        let found = spent.iter().find(|it| it.part == part && it.leg == leg);
        assert_eq!(found.map(|it| it.sum_ps), Some(expected_ps), "{part}");
    }
    let parts = report::parts(&bench.system);
    let names = bench.system.tracks();
    assert!(
        names
            .iter()
            .map(|it| &it.name)
            .eq(parts.iter().map(|it| &it.name))
    );
}

#[test]
fn what_finds_no_room_is_counted() {
    let mut bench = bench(SYSTEM);
    bench.ports[1].lists().is_full = true;
    for bytes in [13, 60, 60] {
        let packet = Buf::zeroed(bytes).expect("memory");
        bench.ports[0].lists().to_receive.push_back(packet);
    }
    run(&mut bench, 10_000_000);
    let usage = [0, 1].map(|number| bench.live.usage(number).expect("a port").0);
    assert_eq!((usage[0].received, usage[0].too_short), (2, 1));
    assert_eq!((usage[1].sent, usage[1].no_room), (0, 2));
    assert_eq!(bench.live.usage(2), None);
}

#[test]
fn flips_on_the_wire_are_found() {
    let text = SYSTEM.replace("latency_ns = 3_000_000", "latency_ns = 100\nflip = 1.0");
    let mut bench = bench(&text);
    for _ in 0..20 {
        let frame = ipv4(1000);
        let mut packet = Buf::zeroed(frame.len()).expect("memory");
        packet.copy_from_slice(&frame);
        bench.ports[0].lists().to_receive.push_back(packet);
    }
    run(&mut bench, 10_000_000);
    assert!(bench.ports[1].lists().sent.is_empty());
    let card = bench.system.cards().nth(1).expect("two cards").1;
    assert_eq!((card.usage().received, card.usage().refused), (20, 20));
}

#[test]
fn a_real_host_needs_the_clock() {
    let description: Description = SYSTEM.parse().expect("a system");
    let refused = System::assemble(&description, &prepare, 1, 1).err();
    let why = refused.expect("it has real hosts").to_string();
    assert!(why.contains("`a` is a real host"), "{why}");
    for (from, to, said) in [
        ("name = \"b\"", "name = \"a\"", "two parts are called `a`"),
        ("ends = [\"a\", \"b\"]", "ends = [\"a\", \"a\"]", "one link"),
        ("name = \"b\"", "name = \"b\"\nwifi = 1", "unknown field"),
    ] {
        let text = SYSTEM.replacen(from, to, 1);
        let assembled = text.parse::<Description>().and_then(|description| {
            System::assemble_part(&description, &prepare, 1, 1, WaysOut::default())
        });
        let why = assembled.err().expect("it is wrong").to_string();
        assert!(why.contains(said), "{why}");
    }
}
