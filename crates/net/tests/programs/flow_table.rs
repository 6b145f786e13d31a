//! The flow table as a stage against a map of etherparse's tuples, and a card with such a table in virtual time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use dpb_core::{Clock, Evidence, PacketPort, VirtualClock};
use dpb_net::flow::hardware::HardwareModel;
use dpb_net::flow::{Direction, Timeouts};
use dpb_net::pipeline::{Burst, Line, Mark, Reason, Stage};
use dpb_net::port::pair_of;
use dpb_net::programs::flow_table::{Card, FlowTable, Settings};
use dpb_net::traffic::{Flows, Generator, Mixture, Profile, Schedule};
use dpb_net::trial::{self, Between, LEAD_NS, Outcome, Plan, Pool, Validity};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::support::{buf, udp_v4, udp_v6};
use super::through;

/// Protocol and both ends of a packet in order, by etherparse; `None` if it is no IP packet.
type Key = (u8, Vec<(Vec<u8>, u16)>);

fn key(frame: &[u8]) -> Option<Key> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (from, to) = match packet.net? {
        NetSlice::Ipv4(ip) => (
            ip.header().source().to_vec(),
            ip.header().destination().to_vec(),
        ),
        NetSlice::Ipv6(ip) => (
            ip.header().source().to_vec(),
            ip.header().destination().to_vec(),
        ),
        NetSlice::Arp(_) => return None,
    };
    let (protocol, source, destination) = match packet.transport? {
        TransportSlice::Udp(udp) => (17, udp.source_port(), udp.destination_port()),
        TransportSlice::Tcp(tcp) => (6, tcp.source_port(), tcp.destination_port()),
        _ => panic!("UDP or TCP"),
    };
    let mut ends = vec![(from, source), (to, destination)];
    ends.sort();
    Some((protocol, ends))
}

/// A packet of one of few flows, in one direction or the other; or something else.
fn frame(kind: u8, flow: u8, is_back: bool) -> Vec<u8> {
    let mut ends = [[10, 0, 0, flow], [192, 0, 2, flow % 3]];
    let mut ports = [1000 + u16::from(flow), 53];
    if is_back {
        ends.reverse();
        ports.reverse();
    }
    match kind {
        0..=4 => udp_v4(ends, ports, 9, &[flow; 20]),
        5..=8 => {
            let wide = ends.map(|end| {
                let mut wide = [0x20; 16];
                wide[12..].copy_from_slice(&end);
                wide
            });
            udp_v6(wide, ports, 9, &[flow; 20])
        }
        // ARP's type, and a header that says more than there is.
        9 => [&[2; 12][..], &[8, 6], &[0; 46]].concat(),
        _ => {
            let mut frame = udp_v4(ends, ports, 9, &[0; 20]);
            frame[16] = 0xff;
            frame
        }
    }
}

proptest! {
    #[test]
    fn every_packet_is_counted_at_its_flow(
        packets in prop::collection::vec((0_u8..11, 0_u8..40, any::<bool>()), 1..400),
        flows in prop::sample::select(vec![1_usize, 7, 30, 100]),
    ) {
        let settings = Settings { flows, ..Settings::default() };
        let clock = Arc::new(VirtualClock::new(false));
        let table = FlowTable::new(&settings, clock).expect("memory").forwarding(vec![1]);
        let counts = table.counts();
        let mut line = Line::new("test", vec![Box::new(table)], 4);
        let frames: Vec<Vec<u8>> = packets.iter().map(|(kind, flow, is_back)| frame(*kind, *flow, *is_back)).collect();
        let outcomes = through(&mut line, frames.iter().map(|frame| buf(frame)).collect());
        // A map for each version of IP, as large as the table.
        let mut known: [HashMap<Key, u64>; 2] = Default::default();
        let (mut begun, mut full, mut others, mut refused) = (0, 0, 0, 0);
        for (frame, (kind, ..)) in frames.iter().zip(&packets) {
            let (Some(key), false) = (key(frame), *kind == 10) else {
                *(if *kind == 10 { &mut refused } else { &mut others }) += 1;
                continue;
            };
            let map = &mut known[usize::from(key.1[0].0.len() == 16)];
            let room = map.len() < flows;
            match map.get_mut(&key) {
                Some(count) => *count += 1,
                None if room => {
                    map.insert(key, 1);
                    begun += 1;
                }
                None => full += 1,
            }
        }
        let sent: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let whole = frames.iter().zip(&packets).filter(|(_, (kind, ..))| *kind != 10).map(|(frame, _)| frame);
        prop_assert!(sent.iter().map(|(frame, _)| frame.to_vec()).eq(whole.cloned()));
        prop_assert!(sent.iter().all(|(_, mark)| mark.egress == 1));
        let dropped = outcomes.iter().filter(|outcome| matches!(outcome, Err(Reason::TRUNCATED))).count() as u64;
        prop_assert_eq!((dropped, outcomes.len() - sent.len()), (refused, refused as usize));
        drop(line);
        let totals = counts.read();
        totals.check().expect("conserved");
        let at_flows: u64 = known.iter().flat_map(HashMap::values).sum();
        prop_assert_eq!(
            (totals.packets, totals.others, totals.refused, totals.began, totals.full),
            (frames.len() as u64, others, refused, begun, full)
        );
        prop_assert_eq!((totals.known, totals.packets_of_left), (at_flows - begun, at_flows));
    }
}

#[test]
fn flows_end_by_the_clock_and_their_packets_stay_counted() {
    let settings = Settings {
        flows: 64,
        timeouts: Timeouts {
            datagrams_ms: 100,
            turn_ms: 10,
            ..Timeouts::default()
        },
        seed: 5,
    };
    let clock = Arc::new(VirtualClock::new(false));
    let mut table =
        FlowTable::new(&settings, Arc::clone(&clock) as Arc<dyn Clock>).expect("memory");
    let counts = table.counts();
    let mut done = Vec::new();
    for round in 0..10_u64 {
        clock.advance_to(round * 250_000_000);
        // Forty flows, which are over when they come again.
        let mut burst = Burst::with_capacity(40);
        for flow in 0..40 {
            burst.push(buf(&frame(0, flow, false)), Mark::of(0));
        }
        table.offer(&mut VecDeque::from([burst]));
        table.poll(&mut done);
    }
    let totals = counts.read();
    assert_eq!((totals.began, totals.known, totals.full), (400, 0, 0));
    assert_eq!((totals.live(), totals.packets_of_ended), (40, 360));
    // Each has the packet of the last round alone.
    let live = table.ipv4().iter(9 * 250);
    let packets = live.map(|flow| flow.packets(Direction::Up) + flow.packets(Direction::Down));
    assert_eq!(packets.collect::<Vec<_>>(), [1; 40]);
    assert!(table.ipv6().is_empty());
    drop(table);
    counts.read().check().expect("conserved");
    // Nobody said where they go.
    assert!(
        done.iter()
            .flat_map(Burst::marks)
            .all(|mark| mark.egress == Mark::NOWHERE)
    );
}

/// A trial over a card, from its start.
fn over_card(
    model: HardwareModel,
    flows: Flows,
    interval_ns: f64,
    duration_ns: u64,
) -> (Outcome, Card) {
    let profile = Profile {
        flows,
        ..Profile::new(7)
    };
    let generator = Generator::new(&profile).expect("a profile");
    let clock = Arc::new(VirtualClock::new(true));
    let [mut near, far] = pair_of(4096);
    let [far_out, mut near_back] = pair_of(4096);
    let ports: [Box<dyn PacketPort>; 2] = [Box::new(far), Box::new(far_out)];
    let settings = Settings {
        flows: 1 << 12,
        ..Settings::default()
    };
    let mut card = Card::new(model, &settings, Arc::clone(&clock), ports).expect("memory");
    let schedule = Schedule::constant(1e9 / interval_ns);
    card.expect(
        schedule.departures().expect("a schedule"),
        clock.now_ns() + LEAD_NS,
        duration_ns,
    );
    let plan = Plan {
        settle_ns: 1_000_000,
        ..Plan::new(schedule, duration_ns, 7)
    };
    let mut between = Between {
        from: &mut near,
        to: &mut near_back,
        system: &mut card,
    };
    let outcome = trial::run(
        &plan,
        &generator,
        &*clock,
        &mut Pool::default(),
        &mut between,
    );
    let outcome = outcome.expect("balanced");
    card.check().expect("conserved");
    (outcome, card)
}

#[test]
fn a_card_that_is_fast_enough_takes_its_times_and_nothing_else() {
    let model = HardwareModel {
        hit_ns: 50,
        miss_ns: 300,
        change_ns: 400,
        packets_before: 2,
        ..HardwareModel::default()
    };
    let (outcome, card) = over_card(model.clone(), Flows::endless(10), 1000.0, 2_000_000);
    assert_eq!(outcome.validity, Validity::Valid);
    assert_eq!(
        (outcome.balance.offered, outcome.balance.delivered),
        (2000, 2000)
    );
    // Of each flow two packets miss; then it has an entry. Nothing waits, as a packet comes each microsecond.
    let stats = card.stats();
    assert_eq!(
        (stats.by_software, stats.by_hardware, stats.made),
        (20, 1980, 10)
    );
    let latency = &outcome.latency;
    assert_eq!(latency.percentile_ns(0.5), Some(50));
    assert_eq!(latency.percentile_ns(0.99), Some(50));
    assert_eq!(latency.percentile_ns(1.0), Some(350));
    // The simulation alone moves time, so nothing is late. The histogram has one nanosecond for none.
    assert_eq!(outcome.schedule_errors.max_ns(), 1);
    let Evidence::Simulated { model: said } = card.evidence() else {
        panic!("a model's figures are simulated");
    };
    assert!(said.contains(&model.to_string()), "{said}");
}

#[test]
fn a_card_that_is_too_slow_drops_and_says_why() {
    // The table does ten million packets a second, software one.
    let model = HardwareModel {
        capacity: 4,
        hit_ns: 100,
        waiting_max: 8,
        miss_ns: 1000,
        misses_waiting_max: 8,
        ..HardwareModel::default()
    };
    let (outcome, card) = over_card(model, Flows::endless(100), 80.0, 1_000_000);
    let stats = card.stats();
    assert!(
        stats.table_busy > 0 && stats.software_busy > 0 && stats.by_hardware > 0,
        "{stats:?}"
    );
    let reason = |reason: Reason| {
        let reasons = &outcome.account.drops.reasons;
        let found = reasons.iter().find(|(name, _)| *name == reason.to_string());
        found.map_or(0, |(_, packets)| *packets)
    };
    assert_eq!(reason(Card::TABLE_BUSY), stats.table_busy);
    assert_eq!(reason(Card::SOFTWARE_BUSY), stats.software_busy);
    assert_eq!(outcome.balance.lost, stats.table_busy + stats.software_busy);
    assert_eq!(outcome.balance.unexplained, 0);
    // The table takes one packet each 100 ns, so of packets each 80 ns a fifth is lost there.
    let share = stats.table_busy as f64 / stats.offered as f64;
    assert!((share - 0.2).abs() < 0.01, "{share}");
    // Software takes one each microsecond.
    assert!((990..=1020).contains(&stats.by_software), "{stats:?}");
}

#[test]
fn a_simulation_is_the_same_each_time() {
    let once = || {
        let model = HardwareModel {
            capacity: 64,
            ..HardwareModel::default()
        };
        let flows = Flows {
            strata: 256,
            ..Flows::churning(200, Mixture::agh_campus())
        };
        let (outcome, card) = over_card(model, flows, 90.0, 2_000_000);
        (outcome.account, outcome.latency, card.stats())
    };
    assert_eq!(once(), once());
}
