//! Against a map and sorted times; full to the last flow; conservation in every test; connections as the RFCs have them.

use std::collections::{BTreeSet, HashMap};

use dpb_core::random::SplitMix64;
use proptest::prelude::*;

use super::*;

/// A flow of the model: who began it, how far it has come, packets and bytes of each direction, when it was last seen.
type Counted = (Direction, State, [u64; 2], [u64; 2], u32);

/// What a table should be: a map, and the times at which flows end.
struct Model {
    flows: HashMap<V4, Counted>,
    ends: BTreeSet<(u32, V4)>,
    capacity: usize,
    timeouts: Timeouts,
}

/// Packets and bytes that were counted somewhere.
#[derive(Default, Debug, PartialEq, Eq)]
struct Sum {
    packets: u64,
    bytes: u64,
}

impl Sum {
    fn add<const N: usize>(&mut self, flow: &Flow<N>) {
        for direction in [Direction::Up, Direction::Down] {
            self.packets += flow.packets(direction);
            self.bytes += flow.bytes(direction);
        }
    }
}

/// What a model says of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Known,
    New,
    Full,
}

impl Kind {
    fn of(found: Found) -> Self {
        match found {
            Found::Known(_) => Self::Known,
            Found::New(_) => Self::New,
            Found::Full => Self::Full,
        }
    }
}

impl Model {
    fn new(capacity: usize, timeouts: Timeouts) -> Self {
        Self {
            flows: HashMap::new(),
            ends: BTreeSet::new(),
            capacity,
            timeouts,
        }
    }

    /// Flows whose time has come by `now_ms`.
    fn expire(&mut self, now_ms: u32) -> Vec<V4> {
        let mut over = Vec::new();
        while let Some(first) = self.ends.first().copied().filter(|(end, _)| *end < now_ms) {
            self.ends.remove(&first);
            self.flows.remove(&first.1);
            over.push(first.1);
        }
        over
    }

    fn packet(&mut self, packet: &Seen<2>, now_ms: u32) -> Kind {
        let direction = packet.direction as usize;
        let mut kind = Kind::Known;
        if let Some((initiator, state, ..)) = self.flows.get(&packet.key)
            && (state.after(packet.flags, packet.direction == *initiator)).is_none()
        {
            let (.., last) = self.flows.remove(&packet.key).expect("there");
            self.ends
                .remove(&(last + self.timeouts.closed_ms, packet.key));
        }
        if !self.flows.contains_key(&packet.key) {
            if self.flows.len() == self.capacity {
                return Kind::Full;
            }
            let (state, is_by_initiator) = State::first(packet.key.tuple().protocol, packet.flags);
            let initiator = match is_by_initiator {
                true => packet.direction,
                false => packet.direction.reverse(),
            };
            self.flows
                .insert(packet.key, (initiator, state, [0; 2], [0; 2], now_ms));
            kind = Kind::New;
        }
        let (initiator, state, packets, bytes, last) =
            self.flows.get_mut(&packet.key).expect("there");
        self.ends
            .remove(&(*last + self.timeouts.of(*state), packet.key));
        if kind == Kind::Known {
            let after = state.after(packet.flags, packet.direction == *initiator);
            *state = after.expect("no new one");
        }
        packets[direction] += 1;
        bytes[direction] += u64::from(packet.bytes);
        *last = now_ms;
        self.ends
            .insert((now_ms + self.timeouts.of(*state), packet.key));
        kind
    }
}

const SHORT: Timeouts = Timeouts {
    datagrams_ms: 50,
    icmp_ms: 10,
    established_ms: 300,
    transitory_ms: 40,
    closed_ms: 20,
    turn_ms: 5,
};

fn packet(random: &mut SplitMix64, flows: usize) -> Seen<2> {
    let flow = random.below(flows) as u32;
    let protocol = [6, 17, 1][flow as usize % 3];
    let tuple = Tuple {
        addresses: [0x0a00_0000 + flow, 0x0a80_0000 + flow / 7],
        ports: [flow as u16, 443],
        protocol,
    };
    let tuple = match random.below(2) {
        0 => tuple,
        _ => Tuple {
            addresses: [tuple.addresses[1], tuple.addresses[0]],
            ports: [tuple.ports[1], tuple.ports[0]],
            protocol,
        },
    };
    let (key, direction) = tuple.key();
    let flags = [0x02, 0x12, 0x10, 0x10, 0x18, 0x11, 0x04];
    Seen {
        key,
        direction,
        bytes: 40 + random.below(1460) as u32,
        flags: (protocol == 6).then(|| Flags(flags[random.below(flags.len())])),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Bursts of any length, time in steps, every flow looked through after each step.
    #[test]
    fn as_a_map_with_sorted_times(seed: u64, capacity in 1..300usize, flows in 1..600usize) {
        let mut random = SplitMix64::new(seed);
        let mut table = Table::<2>::new(capacity, HashKey::new(seed), SHORT).expect("a table");
        let mut model = Model::new(capacity, SHORT);
        let (mut offered, mut ended, mut refused) = (Sum::default(), Sum::default(), Sum::default());
        let (mut now_ms, mut found) = (1000, Vec::new());
        for _ in 0..40 {
            now_ms += random.below(15) as u32;
            let mut over = Vec::new();
            table.expire_all(now_ms, |flow| {
                over.push(flow.key());
                ended.add(flow);
            });
            let mut right = model.expire(now_ms);
            over.sort();
            right.sort();
            prop_assert_eq!(over, right);
            let burst: Vec<_> = (0..random.below(100)).map(|_| packet(&mut random, flows)).collect();
            found.clear();
            table.burst(&burst, now_ms, &mut found, |flow| ended.add(flow));
            for (packet, found) in burst.iter().zip(&found) {
                prop_assert_eq!(Kind::of(*found), model.packet(packet, now_ms));
                offered.packets += 1;
                offered.bytes += u64::from(packet.bytes);
                if *found == Found::Full {
                    refused.packets += 1;
                    refused.bytes += u64::from(packet.bytes);
                }
            }
            prop_assert_eq!(table.len(), model.flows.len());
            for (key, (initiator, state, packets, bytes, last)) in &model.flows {
                let flow = table.get(key, now_ms).expect("in the model");
                prop_assert_eq!(flow.state(), *state);
                prop_assert_eq!(flow.initiator(), *initiator);
                prop_assert_eq!(flow.seen_ms().1, *last);
                for direction in [Direction::Up, Direction::Down] {
                    prop_assert_eq!(flow.packets(direction), packets[direction as usize]);
                    prop_assert_eq!(flow.bytes(direction), bytes[direction as usize]);
                }
            }
        }
        let mut live = Sum::default();
        table.iter(now_ms).for_each(|flow| live.add(flow));
        prop_assert_eq!(offered.packets, live.packets + ended.packets + refused.packets);
        prop_assert_eq!(offered.bytes, live.bytes + ended.bytes + refused.bytes);
        let stats = table.stats();
        prop_assert_eq!((stats.offered, stats.refused), (offered.packets, refused.packets));
        prop_assert_eq!(stats.began - stats.ended, table.len() as u64);
    }

    /// Both directions have one key, and the key gives the tuple back.
    #[test]
    fn both_directions_have_one_key(from: u128, to: u128, ports: [u16; 2], protocol: u8) {
        let there = Tuple { addresses: [from, to], ports, protocol };
        let back = Tuple { addresses: [to, from], ports: [ports[1], ports[0]], protocol };
        let ((key, direction), (same, other)) = (there.key(), back.key());
        prop_assert_eq!(key, same);
        prop_assert!(there == back || direction == other.reverse());
        prop_assert_eq!(key.tuple(), if direction == Direction::Up { there } else { back });
        let short = |tuple: Tuple<u128>| Tuple {
            addresses: tuple.addresses.map(|address| address as u32),
            ports: tuple.ports,
            protocol,
        };
        let (key, direction) = short(there).key();
        prop_assert_eq!(key, short(back).key().0);
        let up = if direction == Direction::Up { short(there) } else { short(back) };
        prop_assert_eq!(key.tuple(), up);
    }
}

fn datagram(flow: u32) -> Seen<2> {
    let tuple = Tuple {
        addresses: [flow, !flow],
        ports: [53, 5353],
        protocol: 17,
    };
    let (key, direction) = tuple.key();
    Seen {
        key,
        direction,
        bytes: 100,
        flags: None,
    }
}

/// Every flow that a table is for has room, whatever its hash; the next one is told that there is none; and what there was is untouched.
#[test]
fn full_to_the_last_flow() {
    for (seed, capacity) in [(1, 1), (2, 14), (3, 15), (4, 1000), (5, 100_000)] {
        let mut table =
            Table::<2>::new(capacity, HashKey::new(seed), Timeouts::default()).expect("a table");
        let packets: Vec<_> = (0..capacity as u32 + 50).map(datagram).collect();
        let mut found = Vec::new();
        table.burst(&packets, 0, &mut found, |_| panic!("none is over"));
        let new = found
            .iter()
            .take_while(|found| matches!(found, Found::New(_)));
        assert_eq!(new.count(), capacity, "seed {seed}");
        assert!(found[capacity..].iter().all(|found| *found == Found::Full));
        assert_eq!(table.stats().refused, 50);
        found.clear();
        table.burst(&packets[..capacity], 1, &mut found, |_| {
            panic!("none is over")
        });
        assert!(found.iter().all(|found| matches!(found, Found::Known(_))));
        for packet in &packets[..capacity] {
            let flow = table.get(&packet.key, 1).expect("there");
            assert_eq!(flow.packets(packet.direction), 2);
        }
    }
}

/// New flows for old ones at a full table, ten times over: places that were spilled to are given back.
#[test]
fn churn_at_a_full_table() {
    let capacity = 20_000;
    let mut table =
        Table::<2>::new(capacity, HashKey::new(9), Timeouts::default()).expect("a table");
    let mut found = Vec::new();
    let live = capacity as u32;
    let first: Vec<_> = (0..live).map(datagram).collect();
    table.burst(&first, 0, &mut found, |_| panic!("none is over"));
    for flow in 0..10 * live {
        let old = table.end(&datagram(flow).key).expect("it was there");
        assert_eq!(old.packets(Direction::Up) + old.packets(Direction::Down), 1);
        found.clear();
        table.burst(&[datagram(flow + live)], 0, &mut found, |_| panic!());
        assert!(matches!(found[..], [Found::New(_)]), "{flow}: {table:?}");
    }
    assert!(table.stats().moved > 0);
    (10 * live..11 * live).for_each(|flow| assert!(table.end(&datagram(flow).key).is_some()));
    assert!(table.is_empty());
    assert_eq!(table.iter(0).count(), 0);
}

/// A flow is over when its time has come, whether it was looked at or not; its room is free one turn later.
#[test]
fn time_ends_flows_before_they_are_looked_at() {
    let mut table = Table::<2>::new(1000, HashKey::new(3), SHORT).expect("a table");
    let packets: Vec<_> = (0..1000).map(datagram).collect();
    let mut found = Vec::new();
    table.burst(&packets, 0, &mut found, |_| panic!("none is over"));
    assert!(table.get(&packets[0].key, 50).is_some());
    assert!(table.get(&packets[0].key, 51).is_none());
    assert_eq!(table.iter(51).count(), 0);
    let mut ended = Vec::new();
    found.clear();
    table.burst(&packets[..1], 51, &mut found, |flow| ended.push(flow.key()));
    assert!(matches!(found[..], [Found::New(_)]));
    assert_eq!(ended, [packets[0].key]);
    // One turn in small steps.
    for now_ms in 51..=56 {
        table.expire(now_ms, |flow| ended.push(flow.key()));
    }
    assert_eq!((table.len(), ended.len()), (1, 1000));
}

/// RFC 9293's exchange at opening and closing; a closed tuple may be used again.
#[test]
fn a_connection_from_its_start_to_the_next() {
    let there = Tuple {
        addresses: [2u32, 1],
        ports: [50_000, 80],
        protocol: 6,
    };
    let (key, asks) = there.key();
    let (ack, syn, fin) = (Flags::ACK, Flags::SYN, Flags::FIN);
    let answers = asks.reverse();
    let mut table = Table::<2>::new(10, HashKey::new(1), Timeouts::default()).expect("a table");
    let mut found = Vec::new();
    let exchange = [
        (asks, syn, State::Opening),
        (answers, syn.with(ack), State::Answered),
        (asks, ack, State::Established),
        (answers, ack, State::Established),
        (answers, fin.with(ack), State::ClosingByResponder),
        (asks, ack, State::ClosingByResponder),
        (asks, fin.with(ack), State::Closed),
        (answers, ack, State::Closed),
        (asks, syn, State::Opening),
        (answers, Flags::RST.with(ack), State::Closed),
    ];
    let mut ended = Vec::new();
    for (direction, flags, right) in exchange {
        let packet = Seen {
            key,
            direction,
            bytes: 40,
            flags: Some(flags),
        };
        table.burst(&[packet], 0, &mut found, |flow| ended.push(*flow));
        assert_eq!(table.get(&key, 0).map(Flow::state), Some(right));
    }
    let [first] = ended[..] else {
        panic!("one ended")
    };
    assert_eq!((first.packets(asks), first.packets(answers)), (4, 4));
    assert_eq!(first.initiator(), asks);
    let new = (found.iter()).filter(|found| matches!(found, Found::New(_)));
    assert_eq!(new.count(), 2);
}

/// A packet that may not begin a flow leaves all flows as they are, one that its connection's end was forged for too.
#[test]
fn packets_that_may_not_begin_a_flow_change_none() {
    let mut table = Table::<2>::new(1, HashKey::new(1), Timeouts::default()).expect("a table");
    let tuple = Tuple {
        addresses: [2u32, 1],
        ports: [50_000, 80],
        protocol: 6,
    };
    let (key, direction) = tuple.key();
    let segment = |flags| Seen {
        key,
        direction,
        bytes: 40,
        flags: Some(flags),
    };
    let burst = [Flags::SYN, Flags::RST, Flags::SYN, Flags::SYN].map(segment);
    let mut found = Vec::new();
    let mut asked = Vec::new();
    let may_begin = |at| {
        asked.push(at);
        at != 2
    };
    let mut ended = 0;
    table.burst_if(&burst, 0, &mut found, may_begin, |_| ended += 1);
    assert_eq!((asked, ended), (vec![0, 2, 3], 1));
    let slot = Slot(0);
    let known = Some(Found::Known(slot));
    let new = Some(Found::New(slot));
    assert_eq!(found, [new, known, None, new]);
    found.clear();
    table.burst_if(
        &[datagram(1), datagram(2)],
        0,
        &mut found,
        |at| at == 1,
        |_| panic!(),
    );
    assert_eq!(found, [None, Some(Found::Full)]);
    let stats = table.stats();
    assert_eq!((stats.offered, stats.missed, stats.refused), (6, 2, 1));
}

/// The clock may wrap around.
#[test]
fn a_clock_that_wraps_around() {
    let mut table = Table::<2>::new(10, HashKey::new(1), SHORT).expect("a table");
    let mut found = Vec::new();
    table.burst(&[datagram(1)], u32::MAX - 10, &mut found, |_| panic!());
    assert!(table.get(&datagram(1).key, 39).is_some());
    assert!(table.get(&datagram(1).key, 40).is_none());
}

#[test]
fn tables_for_none_and_for_too_many() {
    for wrong in [0, usize::MAX] {
        assert!(Table::<2>::new(wrong, HashKey::new(1), SHORT).is_err());
    }
}

/// A place is a line of the cache, or two.
#[test]
fn flows_fill_lines() {
    assert_eq!((size_of::<Flow<2>>(), size_of::<Flow<5>>()), (64, 128));
}

/// Flows of which a hash that only tests know says that all are in one bucket.
fn of_one_bucket(hash_key: &HashKey, count: usize) -> Vec<Seen<2>> {
    let meet = |packet: &Seen<2>| hash_key.hash(&packet.key) >> 52 == 0;
    (0..).map(datagram).filter(meet).take(count).collect()
}

/// Whoever knew the key could have all flows meet. Then there is room for each still, in the overflow at last, and each is found and ended.
#[test]
fn flows_that_meet_have_room() {
    let hash_key = HashKey::new(77);
    let capacity = 300;
    let packets = of_one_bucket(&hash_key, capacity + 1);
    let mut table = Table::<2>::new(capacity, hash_key, Timeouts::default()).expect("a table");
    let mut found = Vec::new();
    for round in 0..3 {
        found.clear();
        table.burst(&packets[..capacity], 0, &mut found, |_| panic!());
        assert!(found.iter().all(|found| matches!(found, Found::New(_))));
        assert!(
            table.overflowed() > 0,
            "one bucket and the others of its tags hold fewer"
        );
        table.burst(&packets[capacity..], 0, &mut found, |_| panic!());
        assert_eq!(found.pop(), Some(Found::Full));
        table.burst(&packets[..capacity], 1, &mut found, |_| panic!());
        assert!(
            found[capacity..]
                .iter()
                .all(|found| matches!(found, Found::Known(_)))
        );
        // Backwards, forwards, and in no order.
        let mut keys: Vec<V4> = packets[..capacity]
            .iter()
            .map(|packet| packet.key)
            .collect();
        let mut random = SplitMix64::new(round);
        match round {
            0 => keys.reverse(),
            1 => {}
            _ => (1..capacity).for_each(|i| keys.swap(i, random.below(i + 1))),
        }
        let mut ended = 0;
        assert_eq!(
            table.end_burst(&keys, |flow| ended +=
                flow.packets(Direction::Up) + flow.packets(Direction::Down)),
            capacity
        );
        assert_eq!(ended, 2 * capacity as u64);
        assert_eq!((table.len(), table.overflowed()), (0, 0));
        assert_eq!(table.end_burst(&keys, |_| panic!()), 0);
    }
}

/// A flow's slot is its own from its first packet to its end, whatever comes and goes around it.
#[test]
fn a_slot_is_kept() {
    let mut table = Table::<2>::new(500, HashKey::new(5), Timeouts::default()).expect("a table");
    let mut random = SplitMix64::new(5);
    let mut slots: HashMap<V4, Slot> = HashMap::new();
    let mut found = Vec::new();
    for _ in 0..2000 {
        let burst: Vec<_> = (0..10)
            .map(|_| datagram(random.below(700) as u32))
            .collect();
        found.clear();
        table.burst(&burst, 0, &mut found, |_| panic!("none is over"));
        for (packet, found) in burst.iter().zip(&found) {
            match found {
                Found::Known(slot) => assert_eq!(slots[&packet.key], *slot),
                Found::New(slot) => {
                    assert!(slot.number() < 500);
                    assert!(slots.values().all(|other| other != slot));
                    slots.insert(packet.key, *slot);
                }
                Found::Full => assert_eq!(slots.len(), 500),
            }
        }
        let ending: Vec<V4> = slots.keys().copied().take(random.below(12)).collect();
        let mut ended = Vec::new();
        table.end_burst(&ending, |flow| ended.push((flow.key(), flow.slot())));
        assert_eq!(ended.len(), ending.len());
        for (key, slot) in ended {
            assert_eq!(slots.remove(&key), Some(slot));
        }
        assert_eq!(table.len(), slots.len());
        for (key, slot) in &slots {
            assert_eq!(table.flow(*slot).key(), *key);
        }
    }
}

/// Packets that may not begin a flow count at those that there are, and are missed else.
#[test]
fn packets_that_begin_nothing() {
    let mut table = Table::<2>::new(10, HashKey::new(5), SHORT).expect("a table");
    let [here, gone] = [datagram(1), datagram(2)];
    for packet in [here, gone] {
        let put = table.put(packet.key, packet.direction, 0);
        assert!(matches!(put, Found::New(_)));
        let again = table.put(packet.key, packet.direction, 0);
        assert!(matches!(again, Found::Known(_)));
    }
    assert!(table.end(&gone.key).is_some());
    let mut known = Vec::new();
    table.known(&[here, gone, here], 10, &mut known, |_| {
        panic!("none is over")
    });
    let slot = table.get(&here.key, 10).map(Flow::slot);
    assert_eq!(known, [slot, None, slot]);
    let stats = table.stats();
    assert_eq!((stats.offered, stats.missed, stats.refused), (3, 1, 0));
    let flow = table.get(&here.key, 10).expect("there");
    assert_eq!(flow.packets(here.direction), 2);
}

/// Half of all flows have one packet, as on a campus's uplink; flows end by time. Every packet is at a flow that lives, at one that has ended, or refused, and no flow
/// outlives its time by more than a turn.
#[test]
fn churn_with_flows_of_one_packet() {
    let mut table = Table::<2>::new(2000, HashKey::new(6), SHORT).expect("a table");
    let mut random = SplitMix64::new(6);
    let (mut ended, mut found) = (Sum::default(), Vec::new());
    let (mut offered, mut refused) = (0, 0);
    let mut next_flow = 0;
    for now_ms in 0..2000 {
        let burst: Vec<_> = (0..64)
            .map(|_| match random.below(2) {
                0 => {
                    next_flow += 1;
                    datagram(next_flow)
                }
                _ => datagram(next_flow - random.below(1 + next_flow.min(500) as usize) as u32),
            })
            .collect();
        found.clear();
        table.burst(&burst, now_ms, &mut found, |flow| ended.add(flow));
        offered += burst.len() as u64;
        refused += found.iter().filter(|found| **found == Found::Full).count() as u64;
        table.expire(now_ms, |flow| {
            let over_ms = flow.seen_ms().1 + SHORT.datagrams_ms;
            assert!((over_ms + 1..=over_ms + 1 + SHORT.turn_ms).contains(&now_ms));
            ended.add(flow);
        });
    }
    let mut live = Sum::default();
    // Those that are over and were not looked at yet, too.
    table.all().for_each(|flow| live.add(flow));
    assert_eq!(offered, live.packets + ended.packets + refused);
    let stats = table.stats();
    assert_eq!(
        (stats.offered, stats.refused, stats.missed),
        (offered, refused, 0)
    );
    assert!(stats.began > 30_000 && refused < offered / 10, "{stats:?}");
}

/// IPv6's flows are two lines, and as exact.
#[test]
fn flows_of_ipv6_come_and_go() {
    let mut table = Table::<5>::new(100, HashKey::new(8), SHORT).expect("a table");
    let packet = |i: u32| {
        let tuple = Tuple {
            addresses: [u128::from(i) << 64 | 1, 2],
            ports: [1000, 53],
            protocol: 17,
        };
        let (key, direction) = tuple.key();
        Seen {
            key,
            direction,
            bytes: 60,
            flags: None,
        }
    };
    let packets: Vec<_> = (0..150).map(packet).collect();
    let mut found = Vec::new();
    for now_ms in [0, 10] {
        table.burst(&packets, now_ms, &mut found, |_| panic!("none is over"));
    }
    assert_eq!(table.stats().refused, 100);
    let mut ended = Sum::default();
    table.expire_all(61, |flow| ended.add(flow));
    assert_eq!(
        ended,
        Sum {
            packets: 200,
            bytes: 12_000
        }
    );
    assert!(table.is_empty());
}
