//! The limits that are modelled, one by one; every packet is accounted for.

use dpb_core::random::SplitMix64;

use super::super::Tuple;
use super::*;

fn packet(flow: u32, flags: Option<Flags>) -> Seen<2> {
    let tuple = Tuple {
        addresses: [flow, !flow],
        ports: [1000, 80],
        protocol: if flags.is_some() { 6 } else { 17 },
    };
    let (key, direction) = tuple.key();
    Seen {
        key,
        direction,
        bytes: 64,
        flags,
    }
}

fn hardware(model: HardwareModel, timeouts: Timeouts) -> Hardware<2> {
    Hardware::new(model, 1000, HashKey::new(1), timeouts).expect("a model")
}

const NONE: fn(&Flow<2>) = |_| panic!("none is over");

#[test]
fn packets_miss_until_their_entry_is_made() {
    let model = HardwareModel::default();
    let mut card = hardware(model.clone(), Timeouts::default());
    let mut now_ns = 0;
    let mut ways = Vec::new();
    for _ in 0..80 {
        ways.push(card.packet(&packet(1, None), now_ns, NONE));
        now_ns += 100;
    }
    // The second packet asks, at 100 ns; the entry is there 3000 ns later.
    let by_hardware = |way: &Passage| matches!(way, Passage::Hardware { .. });
    let first = ways.iter().position(by_hardware);
    assert_eq!(first, Some(31));
    assert!(ways[31..].iter().all(by_hardware));
    assert_eq!(ways[31], Passage::Hardware { done_ns: 3107 });
    assert!(
        matches!(ways[30], Passage::Software { done_ns, found: Found::Known(_) } if done_ns == 3107)
    );
    let stats = card.stats();
    assert_eq!(
        (stats.by_software, stats.by_hardware, stats.made),
        (31, 49, 1)
    );
    assert_eq!(card.held(), (80, 80 * 64));
}

#[test]
fn entries_are_made_one_behind_another_and_are_few() {
    let model = HardwareModel {
        capacity: 3,
        packets_before: 1,
        changes_waiting_max: 2,
        ..HardwareModel::default()
    };
    let mut card = hardware(model, Timeouts::default());
    // Two may wait; the third is refused so, and asks again with its next packet.
    (0..3).for_each(|flow| _ = card.packet(&packet(flow, None), 0, NONE));
    assert_eq!((card.entries(), card.stats().refused_busy), (2, 1));
    card.packet(&packet(9, None), 3000, NONE);
    assert_eq!((card.stats().made, card.entries()), (1, 3));
    card.packet(&packet(2, None), 6000, NONE);
    assert_eq!((card.stats().made, card.stats().refused_full), (2, 1));
}

#[test]
fn too_many_packets_at_once_are_dropped_and_counted() {
    let model = HardwareModel {
        waiting_max: 10,
        misses_waiting_max: 4,
        ..HardwareModel::default()
    };
    let mut card = hardware(model, Timeouts::default());
    let ways: Vec<Passage> = (0..20)
        .map(|flow| card.packet(&packet(flow, None), 0, NONE))
        .collect();
    let stats = card.stats();
    let busy = |which| ways.iter().filter(|way| **way == which).count() as u64;
    assert_eq!(busy(Passage::TableBusy), stats.table_busy);
    assert_eq!(busy(Passage::SoftwareBusy), stats.software_busy);
    // One is served, ten wait.
    assert_eq!(stats.table_busy, 9);
    // They come to software 7 ns apart, each of which takes 100: one is served, four wait.
    assert_eq!((stats.by_software, stats.software_busy), (5, 6));
    assert_eq!(stats.offered, 20);
}

#[test]
fn software_learns_of_packets_by_asking() {
    let timeouts = Timeouts {
        datagrams_ms: 10,
        turn_ms: 1,
        ..Timeouts::default()
    };
    let mut card = hardware(HardwareModel::default(), timeouts);
    for now_ns in [0, 1000, 2 * MS] {
        card.packet(&packet(1, None), now_ns, NONE);
    }
    card.packet(&packet(1, None), 9 * MS, NONE);
    assert_eq!(card.stats().by_hardware, 2);
    // By its own counters it would be over.
    card.expire(12 * MS, NONE);
    assert_eq!((card.len(), card.stats().queried), (1, 1));
    let mut ended = Vec::new();
    card.expire(20 * MS, |flow| ended.push(*flow));
    assert!(ended.is_empty(), "its entry is still there");
    // A packet that comes while it goes counts.
    let way = card.packet(&packet(1, None), 20 * MS + 100, |flow| ended.push(*flow));
    assert!(matches!(way, Passage::Hardware { .. }));
    card.expire(21 * MS, |flow| ended.push(*flow));
    let [flow] = ended[..] else {
        panic!("{ended:?}")
    };
    let (first_ms, last_ms) = flow.seen_ms();
    assert_eq!((first_ms, last_ms), (0, 20));
    assert_eq!(
        flow.packets(Direction::Up) + flow.packets(Direction::Down),
        5
    );
    assert_eq!((card.entries(), card.held()), (0, (0, 0)));
}

#[test]
fn packets_of_control_go_to_software() {
    let model = HardwareModel {
        packets_before: 1,
        ..HardwareModel::default()
    };
    let mut card = hardware(model, Timeouts::default());
    let ack = Some(Flags::ACK);
    card.packet(&packet(1, Some(Flags::SYN)), 0, NONE);
    let way = card.packet(&packet(1, ack), 10_000, NONE);
    assert!(matches!(way, Passage::Hardware { .. }));
    let fin = Some(Flags::FIN.with(Flags::ACK));
    let way = card.packet(&packet(1, fin), 20_000, NONE);
    assert!(matches!(way, Passage::Software { .. }));
    assert_eq!(card.stats().queried, 1);
    assert_eq!(card.held(), (3, 3 * 64));
}

/// Random packets at random times: what was offered is at a flow, in an entry, in a record, refused or dropped; nothing is counted twice.
#[test]
fn every_packet_is_accounted_for() {
    for seed in 0..10 {
        let mut random = SplitMix64::new(seed);
        let model = HardwareModel {
            capacity: 50,
            change_ns: 20_000,
            changes_waiting_max: 20,
            misses_waiting_max: 5,
            waiting_max: 20,
            ..HardwareModel::default()
        };
        let timeouts = Timeouts {
            datagrams_ms: 3,
            transitory_ms: 4,
            established_ms: 6,
            closed_ms: 2,
            turn_ms: 1,
            ..Timeouts::default()
        };
        let mut card =
            Hardware::<2>::new(model, 100, HashKey::new(seed), timeouts).expect("a model");
        let (mut now_ns, mut records, mut flows) = (0, 0, 0);
        let mut record = |flow: &Flow<2>| {
            records += flow.packets(Direction::Up) + flow.packets(Direction::Down);
            flows += 1;
        };
        for i in 0..50_000u64 {
            // Bursts and pauses.
            now_ns += match random.below(100) {
                0 => 500_000,
                1..20 => 1000,
                _ => 10,
            };
            let flow = random.below(random.clone().below(300) + 1) as u32;
            let flags = [0x02, 0x12, 0x10, 0x10, 0x10, 0x11, 0x04];
            let flags = flow
                .is_multiple_of(2)
                .then(|| Flags(flags[random.below(7)]));
            card.packet(&packet(flow, flags), now_ns, &mut record);
            if i % 64 == 0 {
                card.expire(now_ns, &mut record);
            }
        }
        let stats = card.stats();
        let through = stats.by_hardware + stats.by_software;
        assert_eq!(
            stats.offered,
            through + stats.table_busy + stats.software_busy
        );
        let software = card.software_stats();
        assert_eq!(software.offered, stats.by_software);
        let held = card.held().0;
        assert_eq!(through, held + records + software.refused, "{stats:?}");
        assert!(
            flows > 100 && stats.by_hardware > 1000 && stats.removed > 5,
            "{stats:?}"
        );
        assert!(software.refused + stats.software_busy > 0, "{stats:?}");
        assert_eq!(software.began - software.ended, card.len() as u64);
    }
}
