//! Trials in virtual time, over systems that lose, copy, exchange and spoil packets as planted.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use dpb_core::port::PortStats;
use dpb_core::random::SplitMix64;
use dpb_core::{Buf, Clock, PacketPort, SetupError, VirtualClock};

use super::*;
use crate::search::{Goal, Settings, search};
use crate::traffic::application::Applications;
use crate::traffic::{
    Flows, Generator, Mixture, Profile, Read, STAMP_BYTES, Schedule, Sizes, StampKey, Traffic,
};

type Queue = Arc<Mutex<VecDeque<Buf>>>;

/// An end in memory that holds up to `room` packets for the other side.
struct End {
    out: Queue,
    into: Queue,
    room: usize,
}

fn end(room: usize) -> End {
    End {
        out: Queue::default(),
        into: Queue::default(),
        room,
    }
}

fn held(queue: &Queue) -> MutexGuard<'_, VecDeque<Buf>> {
    queue.lock().expect("nobody panics")
}

impl PacketPort for End {
    fn name(&self) -> &str {
        "end"
    }

    fn packet_bytes_max(&self) -> usize {
        2000
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let mut into = held(&self.into);
        let came = into.len().min(max);
        packets.extend(into.drain(..came));
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let mut out = held(&self.out);
        let taken = packets.len().min(self.room.saturating_sub(out.len()));
        out.extend(packets.drain(..taken));
        Ok(taken)
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }
}

fn copy(packet: &[u8]) -> Buf {
    let mut buf = Buf::zeroed(packet.len()).expect("memory");
    buf.copy_from_slice(packet);
    buf
}

/// Frames with a payload to be spoilt, in flows that come and go.
fn generator() -> Generator {
    let profile = Profile {
        sizes: Sizes::Uniform { min: 100, max: 200 },
        tcp_share: 0.5,
        flows: Flows {
            strata: 256,
            ..Flows::churning(30, Mixture::agh_campus())
        },
        ..Profile::new(6)
    };
    Generator::new(&profile).expect("a profile")
}

/// What a wire is told to do with each packet.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    Lose,
    Copy,
    /// It is sent behind the next so many packets.
    Hold(usize),
    SpoilStamp,
    SpoilPayload,
}

/// Does a trial of 10 ms at a million packets a second over a wire with these fates. The clock goes on by 100 ns a turn.
fn over_wire(
    fates: &mut dyn FnMut(u64) -> Fate,
    drops: &dyn Fn(u64) -> Drops,
) -> Result<Outcome, TrialError> {
    let generator = generator();
    let clock = VirtualClock::new(true);
    let (mut from, mut to) = (end(4096), end(4096));
    let (sent, arriving) = (from.out.clone(), to.into.clone());
    let lost = std::cell::Cell::new(0);
    let mut held_back: Vec<(usize, Buf)> = Vec::new();
    let mut seen = 0;
    let step = || {
        clock.advance_to(clock.now_ns() + 100);
        let mut sent = held(&sent);
        while let Some(mut packet) = sent.pop_front() {
            let fate = fates(seen);
            seen += 1;
            let last = packet.len() - 1;
            let mut arriving = held(&arriving);
            match fate {
                Fate::Pass => arriving.push_back(packet),
                Fate::Lose => lost.set(lost.get() + 1),
                Fate::Copy => {
                    arriving.push_back(copy(&packet));
                    arriving.push_back(packet);
                }
                Fate::Hold(packets) => {
                    held_back.push((packets, packet));
                    continue;
                }
                Fate::SpoilStamp => {
                    packet[last] ^= 0x80;
                    arriving.push_back(packet);
                }
                Fate::SpoilPayload => {
                    packet[last - 20] ^= 1;
                    arriving.push_back(packet);
                }
            }
            for (left, _) in &mut held_back {
                *left -= 1;
            }
            while let Some(at) = held_back.iter().position(|(left, _)| *left == 0) {
                arriving.push_back(held_back.remove(at).1);
            }
        }
    };
    let plan = Plan {
        settle_ns: 100_000,
        flow_order: true,
        ..Plan::new(Schedule::constant(1e6), 10_000_000, 1)
    };
    let drops = || drops(lost.get());
    let mut system = (step, drops);
    let mut between = Between {
        from: &mut from,
        to: &mut to,
        system: &mut system,
    };
    run(
        &plan,
        &generator,
        &clock,
        &mut Pool::default(),
        &mut between,
    )
}

fn lost_by_the_wire(packets: u64) -> Drops {
    Drops {
        reasons: vec![("lost by the wire".to_owned(), packets)],
        are_complete: true,
    }
}

#[test]
fn a_wire_that_does_nothing_changes_nothing() {
    let outcome = over_wire(&mut |_| Fate::Pass, &lost_by_the_wire).expect("balanced");
    let account = &outcome.account;
    assert_eq!(
        (account.offered, account.delivered, account.received),
        (10_000, 10_000, 10_000)
    );
    assert_eq!((outcome.balance.lost, outcome.order.reordered()), (0, 0));
    assert_eq!(outcome.validity, Validity::Valid);
    // A turn or two of 100 ns.
    assert!(
        outcome
            .latency
            .percentile_ns(1.0)
            .is_some_and(|ns| ns <= 300)
    );
    assert!(outcome.schedule_errors.max_ns() <= 100);
    assert_eq!(outcome.flow_order.expect("asked for").reordered(), 0);
}

/// Whatever is planted is counted, exactly.
#[test]
fn counters_change_as_planted() {
    for seed in 0..5 {
        let mut random = SplitMix64::new(seed);
        let mut planted = [0u64; 5];
        let outcome = over_wire(
            &mut |_| {
                let (which, fate) = match random.below(1000) {
                    0..20 => (0, Fate::Lose),
                    20..30 => (1, Fate::Copy),
                    30..35 => (2, Fate::SpoilStamp),
                    35..40 => (3, Fate::SpoilPayload),
                    _ => return Fate::Pass,
                };
                planted[which] += 1;
                fate
            },
            &lost_by_the_wire,
        );
        let outcome = outcome.expect("balanced");
        let [lost, copied, spoilt_stamps, spoilt_payloads, _] = planted;
        let account = &outcome.account;
        assert!(lost > 100 && copied > 50 && spoilt_stamps > 20 && spoilt_payloads > 20);
        assert_eq!(account.duplicates, copied);
        assert_eq!(account.corrupted, spoilt_stamps + spoilt_payloads);
        assert_eq!(account.delivered, 10_000 - lost - account.corrupted);
        assert_eq!(outcome.balance.lost, lost + account.corrupted);
        assert_eq!((outcome.balance.unexplained, account.foreign), (0, 0));
        // Losses are no reordering.
        assert_eq!(outcome.order.reordered(), 0);
        assert_eq!(outcome.latency.count(), 10_000);
        let share = account.delivered as f64 / 10_000.0;
        assert!(outcome.latency.percentile_ns(share - 1e-4).is_some());
        assert_eq!(outcome.latency.percentile_ns(share + 2e-4), None);
    }
}

/// A changed byte in the message of a conversation is noticed, in its padding too.
#[test]
fn spoilt_messages_are_corrupted() {
    let profile = Profile {
        sizes: Sizes::Fixed(100),
        applications: Some(Applications::today()),
        ..Profile::new(6)
    };
    let generator = Generator::new(&profile).expect("a profile");
    let key = StampKey::new(3, 0);
    let mut receiver = Receiver::new(&generator, key, 0, false);
    let mut messages = 0;
    for i in 0..3000 {
        receiver.offered();
        let mut frame = vec![0; generator.frame_bytes(i)];
        generator.write(i, 0, &key, &mut frame);
        let Read::Stamp(stamp) = key.read(&frame) else {
            panic!("no stamp in {i}");
        };
        let filler = frame.len() - STAMP_BYTES - stamp.filler_bytes..frame.len() - STAMP_BYTES;
        messages += u32::from(frame.len() != 100);
        for at in [filler.start, filler.end.saturating_sub(1)] {
            if filler.contains(&at) {
                frame[at] ^= 1;
                assert_eq!(
                    receiver.arrive(&frame, 0),
                    Arrival::Corrupted,
                    "{i} at {at}"
                );
                frame[at] ^= 1;
            }
        }
        assert_eq!(receiver.arrive(&frame, 0), Arrival::Delivered, "{i}");
    }
    assert!(messages > 1000, "{messages}");
}

/// One packet in a hundred is held back behind so many: each is reordered, with that extent.
#[test]
fn reordering_is_counted_with_its_extent() {
    for behind in [1, 3, 30, 99] {
        let mut fates = |i: u64| match i % 100 {
            50 if i < 9900 => Fate::Hold(behind),
            _ => Fate::Pass,
        };
        let outcome = over_wire(&mut fates, &lost_by_the_wire).expect("balanced");
        let order = &outcome.order;
        assert_eq!((outcome.balance.lost, order.reordered()), (0, 99));
        assert_eq!(
            (order.extent_max(), order.extent_percentile(0.0)),
            (behind as u64, behind as u64)
        );
        let n = behind.min(64);
        assert_eq!(order.n_reordered(n), 99);
        // Within flows only those count whose own flow went on meanwhile, as the whole history shows.
        let generator = generator();
        let expected = (0..9900u64).filter(|i| i % 100 == 50).filter(|i| {
            let flow = generator.member(*i).expect("known").flow;
            (i + 1..=i + behind as u64).any(|j| generator.member(j).expect("known").flow == flow)
        });
        let found = outcome.flow_order.expect("asked for").reordered();
        assert_eq!(found, expected.count() as u64, "behind {behind}");
        assert!(behind > 1 || found < 99);
    }
}

/// Counters that do not add up make no number.
#[test]
fn a_wire_that_lies_about_its_losses_has_no_number() {
    let one_in_ten = |i: u64| {
        if i.is_multiple_of(10) {
            Fate::Lose
        } else {
            Fate::Pass
        }
    };
    let too_few = |packets: u64| lost_by_the_wire(packets - 1);
    let error = over_wire(&mut one_in_ten.clone(), &too_few).expect_err("999 of 1000");
    assert!(
        matches!(
            error,
            TrialError::Imbalance(Imbalance::Drops {
                missing: 1000,
                dropped: 999,
                ..
            })
        ),
        "{error}"
    );
    let too_many = |packets: u64| lost_by_the_wire(packets + 1);
    assert!(over_wire(&mut one_in_ten.clone(), &too_many).is_err());
    let silent = |_| Drops::default();
    let outcome = over_wire(&mut one_in_ten.clone(), &silent).expect("counters are not known");
    assert_eq!(outcome.balance.unexplained, 1000);
}

/// A system that forwards `per_s` packets a second from a queue of `room`, in virtual time. Each turn takes `turn_ns`.
struct Forwarder {
    clock: VirtualClock,
    per_s: f64,
    room: usize,
    turn_ns: u64,
    credit: f64,
    queue: VecDeque<Buf>,
    dropped: u64,
    foreign: Option<Buf>,
}

impl Forwarder {
    fn new(per_s: f64) -> Self {
        Self {
            clock: VirtualClock::new(true),
            per_s,
            room: 64,
            turn_ns: 200,
            credit: 0.0,
            queue: VecDeque::new(),
            dropped: 0,
            foreign: None,
        }
    }

    fn turn(&mut self, sent: &Queue, arriving: &Queue) {
        self.clock.advance_to(self.clock.now_ns() + self.turn_ns);
        for packet in held(sent).drain(..) {
            match self.queue.len() < self.room {
                true => self.queue.push_back(packet),
                false => self.dropped += 1,
            }
        }
        let more = self.per_s * self.turn_ns as f64 / 1e9;
        self.credit = (self.credit + more).min(32.0 + more);
        while self.credit >= 1.0
            && let Some(packet) = self.queue.pop_front()
        {
            self.credit -= 1.0;
            held(arriving).push_back(packet);
        }
        held(arriving).extend(self.foreign.take());
    }
}

/// Calls `use_it` with everything that a trial over a forwarder needs.
fn with_forwarder<R>(
    forwarder: Forwarder,
    room: usize,
    use_it: impl FnOnce(&dyn Clock, Between<'_, End, End>) -> R,
) -> R {
    /// The clock of a forwarder that is in use elsewhere.
    struct Shared(Mutex<Forwarder>);
    impl Clock for Shared {
        fn now_ns(&self) -> u64 {
            self.0.lock().expect("nobody panics").clock.now_ns()
        }

        fn kind(&self) -> dpb_core::ClockKind {
            self.0.lock().expect("nobody panics").clock.kind()
        }
    }
    let shared = Shared(Mutex::new(forwarder));
    let (mut from, mut to) = (end(room), end(1 << 20));
    let (sent, arriving) = (from.out.clone(), to.into.clone());
    let step = || {
        shared
            .0
            .lock()
            .expect("nobody panics")
            .turn(&sent, &arriving)
    };
    let drops = || Drops {
        reasons: vec![(
            "queue full".to_owned(),
            std::mem::take(&mut shared.0.lock().expect("nobody panics").dropped),
        )],
        are_complete: true,
    };
    let mut system = (step, drops);
    let between = Between {
        from: &mut from,
        to: &mut to,
        system: &mut system,
    };
    use_it(&shared, between)
}

fn short(packets_per_s: f64) -> Plan {
    Plan {
        settle_ns: 1_000_000,
        ..Plan::new(Schedule::constant(packets_per_s), 2_000_000, 3)
    }
}

/// The non-drop and the partial-drop rate of a system whose limit is known.
#[test]
fn a_search_finds_the_limit_of_a_system() {
    let generator = generator();
    let limit = 400_000.0;
    let goal = |loss_ratio| Goal {
        loss_ratio,
        final_trial_s: 0.01,
        initial_trial_s: 0.01,
        duration_sum_s: 0.02,
        width: 0.02,
        ..Goal::NDR
    };
    let found = with_forwarder(Forwarder::new(limit), 4096, |clock, between| {
        let mut trials = Trials::new(short(1.0), &generator, clock, between);
        let settings = Settings::between(1e4, 2e6);
        search(&[goal(0.0), goal(0.1)], &settings, &mut trials).expect("found")
    });
    // A queue of 64 and credit for 32 hide what is too much in 10 ms: about a hundred packets in four thousand.
    let hidden = 100.0 / 0.01;
    for (result, loss) in found.results.iter().zip([0.0, 0.1]) {
        assert_eq!(result.irregular, None, "{result:?}");
        let highest = (limit + hidden) / (1.0 - loss) * 1.02;
        let lowest = limit / (1.0 - loss) * 0.97;
        let lower = result.lower.expect("regular");
        assert!(
            (lowest..highest).contains(&lower),
            "{lower}, {lowest} to {highest}"
        );
    }
}

/// Latency runs from the intended departure: a system at twice its limit shows the queue, and packets that are lost took for ever.
#[test]
fn overload_shows_in_latency_and_loss() {
    let generator = generator();
    let outcome = with_forwarder(Forwarder::new(500_000.0), 4096, |clock, mut between| {
        run(
            &short(1e6),
            &generator,
            clock,
            &mut Pool::default(),
            &mut between,
        )
        .expect("balanced")
    });
    let ratio = outcome.balance.loss_ratio();
    assert!((ratio - 0.5).abs() < 0.06, "{ratio}");
    // 64 packets at 2 µs each.
    let median_ns = outcome.latency.of_arrived().percentile_ns(0.5);
    assert!((100_000..140_000).contains(&median_ns), "{median_ns}");
    assert_eq!(outcome.latency.percentile_ns(0.6), None);
    assert_eq!(outcome.validity, Validity::Valid);
}

/// What a port has no room for is refused, and counts as lost.
#[test]
fn a_port_without_room_refuses() {
    let generator = generator();
    let forwarder = Forwarder {
        turn_ns: 40_000,
        ..Forwarder::new(1e9)
    };
    // Four packets fit, and forty are due in a turn of 40 µs.
    let outcome = with_forwarder(forwarder, 4, |clock, mut between| {
        let plan = Plan {
            tolerance_ns: 1_000_000,
            ..short(1e6)
        };
        run(&plan, &generator, clock, &mut Pool::default(), &mut between).expect("balanced")
    });
    let account = &outcome.account;
    assert_eq!(account.offered, 2000);
    assert!(account.refused > 1000, "{account:?}");
    assert_eq!(account.refused + account.delivered, 2000);
    assert_eq!(outcome.balance.lost, account.refused);
}

/// A generator that is late makes a trial invalid, and the search does it again or gives up: it never counts as loss.
#[test]
fn a_late_generator_is_no_lossy_system() {
    let generator = generator();
    let slow = || Forwarder {
        turn_ns: 50_000,
        ..Forwarder::new(1e9)
    };
    let outcome = with_forwarder(slow(), 4096, |clock, mut between| {
        run(
            &short(1e6),
            &generator,
            clock,
            &mut Pool::default(),
            &mut between,
        )
        .expect("balanced")
    });
    assert_eq!(outcome.balance.lost, 0);
    // Of each 50 µs, the packets of the first 40 are later than 10; ten packets may be.
    let Validity::Late {
        packets,
        allowed: 10,
    } = outcome.validity
    else {
        panic!("{:?}", outcome.validity)
    };
    assert!((1500..1700).contains(&packets), "{packets}");
    assert!(outcome.schedule_errors.percentile_ns(0.99) > 45_000);
    let error = with_forwarder(slow(), 4096, |clock, between| {
        let mut trials = Trials::new(short(1.0), &generator, clock, between);
        search(&[Goal::NDR], &Settings::between(1e5, 1e6), &mut trials).expect_err("always late")
    });
    assert!(
        error.to_string().contains("of 3 one after another"),
        "{error}"
    );
}

/// A trial in which one more packet arrives.
fn among(generator: &Generator, more: Buf) -> Result<Outcome, TrialError> {
    let forwarder = Forwarder {
        foreign: Some(more),
        ..Forwarder::new(1e9)
    };
    with_forwarder(forwarder, 4096, |clock, mut between| {
        let mut pool = Pool::default();
        run(&short(1e6), generator, clock, &mut pool, &mut between)
    })
}

/// Packets of others, and those that a trial before has left under way, are foreign.
#[test]
fn what_is_left_over_is_foreign() {
    let generator = generator();
    let mut left = Buf::zeroed(generator.frame_bytes(5)).expect("memory");
    generator.write(5, 0, &StampKey::new(3, 99), &mut left);
    let outcome = among(&generator, left).expect("balanced");
    assert_eq!(
        (outcome.account.foreign, outcome.account.delivered),
        (1, 2000)
    );
}

/// A packet of this trial that was never sent is an error of somebody's.
#[test]
fn what_was_never_sent_has_no_place() {
    let generator = generator();
    let mut invented = Buf::zeroed(generator.frame_bytes(5000)).expect("memory");
    generator.write(5000, 0, &StampKey::new(3, 0), &mut invented);
    let error = among(&generator, invented).expect_err("invented");
    assert!(
        matches!(error, TrialError::Imbalance(Imbalance::Impossible(1))),
        "{error}"
    );
}

/// Buffers go round: a trial asks for no more than are under way.
#[test]
fn buffers_are_used_again() {
    let profile = Profile::new(1);
    let generator = Generator::new(&profile).expect("a profile");
    let mut pool = Pool::default();
    with_forwarder(Forwarder::new(1e9), 4096, |clock, mut between| {
        for trial in 0..3 {
            let plan = Plan {
                trial,
                ..short(1e6)
            };
            let outcome = run(&plan, &generator, clock, &mut pool, &mut between).expect("balanced");
            assert_eq!(outcome.account.delivered, 2000);
        }
    });
    assert!(pool.allocated() < 200, "{}", pool.allocated());
}

#[test]
fn trials_that_cannot_be_are_refused() {
    let long = Generator::new(&Profile {
        sizes: Sizes::Fixed(3000),
        ..Profile::new(1)
    });
    let long = long.expect("a profile");
    with_forwarder(Forwarder::new(1e9), 4096, |clock, mut between| {
        let mut pool = Pool::default();
        let error = run(&short(1e6), &long, clock, &mut pool, &mut between).expect_err("too long");
        assert!(
            error
                .to_string()
                .contains("3000 bytes, and port end takes up to 2000"),
            "{error}"
        );
        let generator = generator();
        let ages = Plan {
            duration_ns: 1 << 46,
            ..short(1e6)
        };
        assert!(run(&ages, &generator, clock, &mut pool, &mut between).is_err());
        assert!(run(&short(0.0), &generator, clock, &mut pool, &mut between).is_err());
    });
}
