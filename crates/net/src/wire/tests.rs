//! What a receiver counts, against what was planted.

use std::collections::HashMap;

use dpb_core::VirtualClock;
use proptest::prelude::*;

use super::*;

/// A frame that says its number.
fn numbered(number: u64) -> Buf {
    let mut frame = Buf::zeroed(60).expect("memory");
    frame[..8].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(*frame.first_chunk().expect("a number"))
}

/// Counts of a receiver that knows nothing of the plan: RFC 4737's reordering, duplicates, damaged and missing packets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Observed {
    arrived: u64,
    missing: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
}

fn observe(came: &[Buf], sent: u64) -> Observed {
    let (mut seen, mut next) = (HashMap::new(), 0);
    let mut observed = Observed::default();
    for frame in came {
        let number = number(frame);
        observed.arrived += 1;
        observed.corrupted += u64::from(frame[8..].iter().any(|byte| *byte != 0));
        let times = seen.entry(number).or_insert(0);
        *times += 1;
        if *times > 1 {
            observed.duplicated += 1;
        } else if number < next {
            observed.reordered += 1;
        }
        next = next.max(number + 1);
    }
    observed.missing = sent - seen.len() as u64;
    observed
}

/// Sends `sent` numbered packets in bursts and receives until nothing is left; moves the clock.
fn through(plan: Plan, sent: u64, bursts: &[usize]) -> (Planted, Vec<Buf>) {
    let clock = Arc::new(VirtualClock::new(false));
    let (wire, [mut one, mut two]) = Wire::new(clock.clone(), [plan, Plan::default()]);
    let (mut ready, mut came) = (VecDeque::new(), Vec::new());
    let (mut next, mut turn) = (0, 0);
    while next < sent || wire.next_ns()[0].is_some() || !ready.is_empty() {
        let burst = bursts[turn % bursts.len()] as u64;
        let end = sent.min(next + burst);
        ready.extend((next..end).map(numbered));
        next = end;
        let taken = one.send(&mut ready).expect("none is too long");
        let arrived = two.receive(&mut came, burst as usize).expect("memory");
        clock.advance_to(clock.now_ns() + 100);
        if taken + arrived == 0 {
            clock.advance_to(wire.next_ns()[0].unwrap_or(0));
        }
        turn += 1;
    }
    (wire.planted()[0], came)
}

proptest! {
    /// Counters behind the wire change exactly as planted, whatever the bursts.
    #[test]
    fn a_receiver_counts_what_was_planted(
        seed: u64, loss_ppm in 0_u32..300_000, duplicate_ppm in 0_u32..300_000, reorder_ppm in 0_u32..300_000,
        reorder_distance_max in 0_u32..20, corrupt_ppm in 0_u32..300_000, delay_ns in 0_u64..5000,
        bits_per_second in prop::option::of(1_000_000_000_u64..100_000_000_000), packets_max in 1_usize..300,
        bursts in prop::collection::vec(1_usize..65, 1..5),
    ) {
        let plan = Plan {
            seed, loss_ppm, duplicate_ppm, reorder_ppm, reorder_distance_max, corrupt_ppm, delay_ns, packets_max,
            corrupt_skips_bytes: 8,
            bits_per_second: bits_per_second.and_then(NonZeroU64::new),
            ..Plan::default()
        };
        let sent = 600;
        let (planted, came) = through(plan.clone(), sent, &bursts);
        let right = Observed {
            arrived: planted.delivered,
            missing: planted.lost,
            duplicated: planted.duplicated,
            reordered: planted.reordered,
            corrupted: planted.corrupted,
        };
        prop_assert_eq!(observe(&came, sent), right);
        prop_assert_eq!(planted.taken, sent);
        prop_assert_eq!(planted.waiting, 0);
        prop_assert_eq!(planted.taken + planted.duplicated, planted.delivered + planted.lost);
        prop_assert!(planted.reordered <= planted.held);
        // And the plan says beforehand which they are.
        let fates: Vec<Fate> = (0..sent).map(|i| plan.fate(i)).collect();
        let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count() as u64;
        prop_assert_eq!(count(|fate| fate.is_lost), planted.lost);
        prop_assert_eq!(count(|fate| fate.is_duplicated), planted.duplicated);
        prop_assert_eq!(count(|fate| fate.corruption.is_some()), planted.corrupted);
        prop_assert_eq!(count(|fate| fate.overtaken_by > 0), planted.held);
        for fate in &fates {
            prop_assert!(fate.overtaken_by <= reorder_distance_max.max(1));
        }
    }
}

/// Shares are as asked: within five standard deviations of a binomial distribution.
#[test]
fn shares_are_as_planned() {
    let plan = Plan {
        seed: 11,
        loss_ppm: 10_000,
        duplicate_ppm: 20_000,
        corrupt_ppm: 30_000,
        reorder_ppm: 40_000,
        reorder_distance_max: 8,
        ..Plan::default()
    };
    let n = 200_000;
    let count = |is: fn(&Fate) -> bool| (0..n).filter(|i| is(&plan.fate(*i))).count() as f64;
    let lost = 0.01;
    for (share, seen) in [
        (lost, count(|fate| fate.is_lost)),
        (0.02 * (1.0 - lost), count(|fate| fate.is_duplicated)),
        (0.03 * (1.0 - lost), count(|fate| fate.corruption.is_some())),
        (
            0.04 * 0.98 * (1.0 - lost),
            count(|fate| fate.overtaken_by > 0),
        ),
        (
            0.04 * 0.98 * 0.99 / 8.0,
            count(|fate| fate.overtaken_by == 8),
        ),
    ] {
        let n = n as f64;
        let deviation = (n * share * (1.0 - share)).sqrt();
        let right = n * share;
        assert!(
            (seen - right).abs() < 5.0 * deviation,
            "{seen}, not {right}"
        );
    }
}

#[test]
fn a_packet_is_overtaken_by_as_many_as_planned() {
    let plan = Plan {
        seed: 3,
        reorder_ppm: 20_000,
        reorder_distance_max: 5,
        ..Plan::default()
    };
    let (planted, came) = through(plan.clone(), 5000, &[32]);
    assert!(planted.held > 50);
    let places: HashMap<u64, usize> = (came.iter().map(|frame| number(frame))).zip(0..).collect();
    for (number, place) in &places {
        let fate = plan.fate(*number);
        let later = came[..*place]
            .iter()
            .filter(|frame| self::number(frame) > *number);
        // Those that were released in the meantime are in front, too, and not counted as overtaking.
        let in_order = later.filter(|frame| plan.fate(self::number(frame)).overtaken_by == 0);
        let (overtaken, at_end) = (in_order.count(), *number + 10 > 5000);
        assert!(
            overtaken == fate.overtaken_by as usize || at_end,
            "packet {number}: {overtaken}, {fate:?}"
        );
    }
}

#[test]
fn packets_arrive_when_line_and_delay_allow() {
    let clock = Arc::new(VirtualClock::new(false));
    let plan = Plan {
        bits_per_second: NonZeroU64::new(10_000_000_000),
        delay_ns: 1000,
        packets_max: 3,
        ..Plan::default()
    };
    let (wire, [mut one, mut two]) = Wire::new(clock.clone(), [plan, Plan::default()]);
    let mut ready: VecDeque<Buf> = (0..5).map(numbered).collect();
    assert_eq!(one.send(&mut ready).expect("room"), 3);
    assert_eq!(ready.len(), 2, "the sender keeps what does not fit");
    let mut came = Vec::new();
    // 60 bytes and 24 around them at 10 Gbit/s: 67.2 ns each.
    for (now_ns, arrived) in [
        (1067, 0),
        (1068, 1),
        (1134, 1),
        (1135, 2),
        (1201, 2),
        (1202, 3),
    ] {
        clock.advance_to(now_ns);
        two.receive(&mut came, 9).expect("memory");
        assert_eq!(came.len(), arrived, "at {now_ns} ns");
    }
    assert_eq!(wire.next_ns(), [None, None]);
    // The line was idle since: the next one starts now.
    one.send(&mut ready).expect("room");
    assert_eq!(wire.next_ns()[0], Some(1202 + 68 + 1000));
}

#[test]
fn a_packet_that_nothing_overtakes_arrives_in_the_end() {
    let plan = Plan {
        reorder_ppm: 1_000_000,
        reorder_distance_max: 4,
        reorder_hold_ns: 500,
        ..Plan::default()
    };
    let (planted, came) = through(plan, 1, &[1]);
    assert_eq!((came.len(), planted.held, planted.reordered), (1, 1, 0));
}

#[test]
fn what_is_too_long_stays_in_front() {
    let clock = Arc::new(VirtualClock::new(false));
    let plan = Plan {
        packet_bytes_max: 60,
        ..Plan::default()
    };
    let (_, [mut one, _two]) = Wire::new(clock, [plan, Plan::default()]);
    let long = || Buf::zeroed(61).expect("memory");
    let mut ready = VecDeque::from([numbered(0), long()]);
    assert_eq!(one.send(&mut ready).expect("the first"), 1);
    let error = one.send(&mut ready).expect_err("too long");
    assert_eq!(
        (error.kind(), ready.len()),
        (io::ErrorKind::InvalidInput, 1)
    );
    assert!(one.alloc(61).is_err() && one.alloc(60).is_ok());
}
