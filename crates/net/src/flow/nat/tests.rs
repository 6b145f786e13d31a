//! The requirements of RFC 4787, 5382 and 5508 by name; random packets against a model; shards; CSIT's sizes. Every packet is accounted for.

use std::collections::{HashMap, HashSet};

use super::super::toeplitz::{MICROSOFTS_KEY, Toeplitz};
use super::super::{HashedEnds, Rss, State, Timeouts};
use super::*;

const OUT: u32 = 0xc633_6401;
const HOST: u32 = 0x0a00_0005;
const OTHER_HOST: u32 = 0x0a00_0006;
const SERVER: u32 = 0xcb00_7101;
const OTHER_SERVER: u32 = 0xcb00_7102;
const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;

fn alone(_: &Tuple<u32>) -> usize {
    0
}

fn nat(behaviour: Behaviour) -> Nat<fn(&Tuple<u32>) -> usize> {
    Nat::new(behaviour, vec![OUT], 1000, alone as _, 0, 7).expect("a NAT")
}

fn symmetric() -> Behaviour {
    Behaviour {
        mapping: Mapping::AddressAndPortDependent,
        filtering: Filtering::AddressAndPortDependent,
        ..Behaviour::default()
    }
}

fn tuple(protocol: u8, from: End, to: End) -> Tuple<u32> {
    Tuple {
        addresses: [from.0, to.0],
        ports: [from.1, to.1],
        protocol,
    }
}

fn packet(tuple: Tuple<u32>, flags: Option<Flags>) -> Packet {
    Packet {
        tuple,
        bytes: 100,
        flags,
        is_fragment: false,
    }
}

fn datagram(from: End, to: End) -> Packet {
    packet(tuple(UDP, from, to), None)
}

fn query(from: u32, to: u32, identifier: u16) -> Packet {
    packet(tuple(ICMP, (from, identifier), (to, identifier)), None)
}

impl<S: Steering> Nat<S> {
    fn one(&mut self, realm: Realm, packet: Packet, now_ms: u32) -> Translated {
        let mut out = Vec::new();
        self.burst(realm, &[packet], now_ms, &mut out, |_, _| {});
        self.assert_sums();
        out[0]
    }

    fn sent_on(&mut self, realm: Realm, packet: Packet, now_ms: u32) -> Tuple<u32> {
        match self.one(realm, packet, now_ms) {
            Translated::To(tuple) => tuple,
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    /// The outside end that a packet from inside gets.
    fn outside_of(&mut self, packet: Packet, now_ms: u32) -> End {
        let tuple = self.sent_on(Realm::Inside, packet, now_ms);
        (tuple.addresses[0], tuple.ports[0])
    }

    fn refusal(&mut self, realm: Realm, packet: Packet, now_ms: u32) -> Refusal {
        match self.one(realm, packet, now_ms) {
            Translated::Refused(why) => why,
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    fn assert_sums(&self) {
        let stats = self.stats();
        let sum = stats.translated + stats.by_shard + stats.refused_in_all();
        assert_eq!(stats.offered, sum, "{stats:?}");
        let sessions: u32 = self.mappings.iter().map(|mapping| mapping.sessions).sum();
        assert_eq!(sessions as usize, self.sessions.len());
        let held = self.mappings.iter().filter(|mapping| mapping.sessions > 0);
        assert_eq!(held.count(), self.mappings(), "a mapping without a session");
    }
}

#[test]
fn rfc4787_req1_one_mapping_whoever_is_sent_to() {
    let mut nat = nat(Behaviour::default());
    let first = nat.outside_of(datagram((HOST, 5000), (SERVER, 53)), 0);
    assert_eq!(first.0, OUT);
    for to in [(SERVER, 54), (OTHER_SERVER, 53), (OTHER_SERVER, 9)] {
        assert_eq!(nat.outside_of(datagram((HOST, 5000), to), 0), first);
    }
    assert_ne!(
        nat.outside_of(datagram((HOST, 5001), (SERVER, 53)), 0),
        first
    );
    let tcp = packet(tuple(TCP, (HOST, 5000), (SERVER, 53)), Some(SYN));
    nat.outside_of(tcp, 0);
    assert_eq!((nat.mappings(), nat.sessions().len()), (3, 6));
}

#[test]
fn a_symmetric_nat_maps_each_connection() {
    let mut nat = nat(symmetric());
    let ends: HashSet<(End, End)> = (0..500)
        .map(|i| {
            let to = (SERVER + i % 5, 53 + (i / 5) as u16);
            (nat.outside_of(datagram((HOST, 5000), to), 0), to)
        })
        .collect();
    assert_eq!((ends.len(), nat.mappings()), (500, 500));
    let ports: HashSet<End> = ends.iter().map(|(outside, _)| *outside).collect();
    assert!(ports.len() > 400, "drawn, not one for all");
    for (outside, to) in ends {
        let reply = nat.sent_on(Realm::Outside, datagram(to, outside), 0);
        assert_eq!((reply.addresses[1], reply.ports[1]), (HOST, 5000));
        let stranger = datagram((to.0, to.1 + 1000), outside);
        assert_eq!(nat.refusal(Realm::Outside, stranger, 0), Refusal::Unmapped);
    }
}

#[test]
fn rfc4787_req2_an_inside_address_has_one_outside_address() {
    let addresses = vec![OUT, OUT + 1, OUT + 2];
    let mut nat = Nat::new(Behaviour::default(), addresses, 1000, alone, 0, 7).expect("a NAT");
    let mut of_host: HashMap<u32, u32> = HashMap::new();
    for i in 0..300 {
        let host = HOST + i % 10;
        let outside = nat.outside_of(datagram((host, i as u16), (SERVER, 53)), 0);
        assert_eq!(*of_host.entry(host).or_insert(outside.0), outside.0);
    }
    let used: HashSet<u32> = of_host.into_values().collect();
    assert_eq!(used.len(), 3);
}

#[test]
fn rfc4787_req3_no_port_for_two_and_ranges_are_kept() {
    let ports = 0..=u16::MAX;
    let mut nat = nat(Behaviour {
        ports,
        ..Behaviour::default()
    });
    let mut taken = HashSet::new();
    for i in 0..500 {
        let from = (
            HOST + i % 7,
            if i % 2 == 0 {
                i as u16
            } else {
                2000 + i as u16
            },
        );
        let outside = nat.outside_of(datagram(from, (SERVER, 53)), 0);
        assert_eq!(outside.1 < 1024, from.1 < 1024);
        assert!(taken.insert(outside));
    }
}

#[test]
fn rfc4787_req4_parity_is_kept() {
    let mut nat = nat(Behaviour::default());
    for port in 4000..4500 {
        let outside = nat.outside_of(datagram((HOST, port), (SERVER, 53)), 0);
        assert_eq!(outside.1 % 2, port % 2);
    }
}

#[test]
fn ports_are_kept_where_they_are_free() {
    let keeps_ports = true;
    for behaviour in [Behaviour::default(), symmetric()] {
        let mut nat = nat(Behaviour {
            keeps_ports,
            ..behaviour
        });
        let to = (SERVER, 53);
        assert_eq!(nat.outside_of(datagram((HOST, 4444), to), 0), (OUT, 4444));
        let other = nat.outside_of(datagram((OTHER_HOST, 4444), to), 0);
        assert_ne!(other, (OUT, 4444));
    }
}

#[test]
fn rfc4787_req5_and_rfc5382_req5_times() {
    let mut nat = nat(Behaviour::default());
    let times = Timeouts::default();
    assert!(times.datagrams_ms >= 120_000, "two minutes at least");
    assert!(times.established_ms >= (2 * 60 + 4) * 60_000);
    assert!(times.transitory_ms >= 4 * 60_000);
    assert!(times.icmp_ms >= 60_000, "RFC 5508, REQ-2");
    let sent = datagram((HOST, 5000), (SERVER, 53));
    let outside = nat.outside_of(sent, 0);
    let reply = datagram((SERVER, 53), outside);
    nat.sent_on(Realm::Outside, reply, times.datagrams_ms);
    // REQ-6: what comes and what goes keeps it.
    nat.sent_on(Realm::Inside, sent, 2 * times.datagrams_ms);
    let end_ms = 3 * times.datagrams_ms;
    let mut ended = Vec::new();
    nat.expire(end_ms, |flow, outside| ended.push((*flow, outside)));
    assert!(ended.is_empty());
    nat.expire(end_ms + 1 + times.turn_ms, |flow, outside| {
        ended.push((*flow, outside));
    });
    let [(flow, end)] = ended[..] else {
        panic!("{ended:?}")
    };
    assert_eq!((end, nat.mappings(), nat.sessions().len()), (outside, 0, 0));
    let (key, out) = session_of(Realm::Inside, &sent.tuple);
    assert_eq!(flow.key(), key);
    assert_eq!((flow.packets(out), flow.packets(out.reverse())), (2, 1));
    assert_eq!(
        nat.refusal(Realm::Outside, reply, end_ms + 1 + times.turn_ms),
        Refusal::Unmapped
    );
}

/// Hosts of the inside that send to each other by their inside addresses: each has a session, so that no mapping is without one and outlives all.
#[test]
fn two_inside_ends_have_a_session_each() {
    let mut nat = nat(Behaviour::default());
    for port in 0..500 {
        let (one, two) = ((HOST, 1000 + port), (OTHER_HOST, 1000 + port));
        let out = nat.outside_of(datagram(one, two), 0);
        let back = nat.outside_of(datagram(two, one), 0);
        assert_ne!(out, back);
    }
    assert_eq!((nat.mappings(), nat.sessions().len()), (1000, 1000));
    let more = datagram((HOST, 9), (OTHER_HOST, 9));
    assert_eq!(nat.refusal(Realm::Inside, more, 0), Refusal::Full);
    nat.expire_all(Timeouts::default().datagrams_ms + 1, |_, _| {});
    assert_eq!((nat.mappings(), nat.sessions().len()), (0, 0));
}

#[test]
fn rfc4787_req8_filtering() {
    let from = (HOST, 5000);
    let stranger = (OTHER_SERVER, 1000);
    let mut open = nat(Behaviour::default());
    let outside = open.outside_of(datagram(from, (SERVER, 53)), 0);
    let inside = open.sent_on(Realm::Outside, datagram(stranger, outside), 0);
    assert_eq!(inside, tuple(UDP, stranger, from));
    let mut closed = nat(Behaviour {
        filtering: Filtering::AddressAndPortDependent,
        ..Behaviour::default()
    });
    let outside = closed.outside_of(datagram(from, (SERVER, 53)), 0);
    let refused = closed.refusal(Realm::Outside, datagram(stranger, outside), 0);
    assert_eq!(refused, Refusal::Filtered);
    let inside = closed.sent_on(Realm::Outside, datagram((SERVER, 53), outside), 0);
    assert_eq!(inside, tuple(UDP, (SERVER, 53), from));
    let nobody = datagram(stranger, (OUT, outside.1 ^ 1));
    for nat in [&mut open, &mut closed] {
        assert_eq!(nat.refusal(Realm::Outside, nobody, 0), Refusal::Unmapped);
    }
}

#[test]
fn rfc5382_req2_and_req3_connections_open_from_both_sides() {
    let mut nat = nat(Behaviour::default());
    let (from, to) = ((HOST, 5000), (SERVER, 80));
    let send = |flags| packet(tuple(TCP, from, to), Some(flags));
    let outside = nat.outside_of(send(SYN), 0);
    let reply = |flags| packet(tuple(TCP, to, outside), Some(flags));
    // Simultaneous opening: both ask.
    nat.sent_on(Realm::Outside, reply(SYN), 0);
    nat.sent_on(Realm::Outside, reply(SYN.with(ACK)), 0);
    nat.sent_on(Realm::Inside, send(ACK), 0);
    let session = (nat.sessions()).get(&session_of(Realm::Inside, &tuple(TCP, from, to)).0, 0);
    assert_eq!(session.map(Flow::state), Some(State::Established));
    // A stranger may ask, not go on with what was never begun.
    let stranger = (OTHER_SERVER, 1234);
    let strange = |flags| packet(tuple(TCP, stranger, outside), Some(flags));
    assert_eq!(
        nat.refusal(Realm::Outside, strange(ACK), 0),
        Refusal::Filtered
    );
    nat.sent_on(Realm::Outside, strange(SYN), 0);
    // The inside host grants it, which begins the session; the stranger goes on.
    let granted = packet(tuple(TCP, from, stranger), Some(SYN.with(ACK)));
    assert_eq!(nat.outside_of(granted, 0), outside);
    nat.sent_on(Realm::Outside, strange(ACK), 0);
    let key = session_of(Realm::Inside, &tuple(TCP, from, stranger)).0;
    let session = nat.sessions().get(&key, 0);
    assert_eq!(session.map(Flow::state), Some(State::Established));
}

/// More strangers than there are sessions send to one mapping: all are let in, and inside hosts have the room that they had.
#[test]
fn rfc4787_section_11_strangers_fill_no_table() {
    let mut nat = nat(Behaviour::default());
    let outside = nat.outside_of(datagram((HOST, 5000), (SERVER, 53)), 0);
    let asks = packet(tuple(TCP, (HOST, 5000), (SERVER, 80)), Some(SYN));
    let outside_tcp = nat.outside_of(asks, 0);
    for i in 0..3000 {
        let stranger = (OTHER_SERVER + i, 1000);
        let to = tuple(UDP, stranger, (HOST, 5000));
        assert_eq!(
            nat.sent_on(Realm::Outside, datagram(stranger, outside), 0),
            to
        );
        let asks = packet(tuple(TCP, stranger, outside_tcp), Some(SYN));
        nat.sent_on(Realm::Outside, asks, 0);
    }
    assert_eq!((nat.mappings(), nat.sessions().len()), (2, 2));
    let stats = nat.stats();
    assert_eq!((stats.counted, stats.unsolicited), (2, 6000));
    for port in 0..998 {
        nat.outside_of(datagram((OTHER_HOST, port), (SERVER, 53)), 0);
    }
    // Nor do they keep a mapping: its port is free once the host is silent for long enough.
    let end_ms = Timeouts::default().datagrams_ms;
    nat.sent_on(
        Realm::Outside,
        datagram((OTHER_SERVER, 1000), outside),
        end_ms,
    );
    nat.expire_all(end_ms + 1, |_, _| {});
    let late = datagram((OTHER_SERVER, 1000), outside);
    assert_eq!(
        nat.refusal(Realm::Outside, late, end_ms + 1),
        Refusal::Unmapped
    );
}

/// An inside host that does not want a stranger's packet says so.
#[test]
fn errors_about_packets_of_strangers_go_out() {
    let stranger = (OTHER_SERVER, 1000);
    let mut open = nat(Behaviour::default());
    let outside = open.outside_of(datagram((HOST, 5000), (SERVER, 53)), 0);
    let came = open.sent_on(Realm::Outside, datagram(stranger, outside), 0);
    let error = open.error(Realm::Inside, [HOST, OTHER_SERVER], came, 0);
    let right = TranslatedError {
        by_shard: None,
        addresses: [OUT, OTHER_SERVER],
        quoted: tuple(UDP, stranger, outside),
    };
    assert_eq!(error, Some(right));
    let mut closed = nat(Behaviour {
        filtering: Filtering::AddressAndPortDependent,
        ..Behaviour::default()
    });
    closed.outside_of(datagram((HOST, 5000), (SERVER, 53)), 0);
    let error = closed.error(Realm::Inside, [HOST, OTHER_SERVER], came, 0);
    assert_eq!(error, None, "it never came in");
}

#[test]
fn rfc4787_req9_hairpins_show_the_outside_address() {
    for behaviour in [Behaviour::default(), symmetric()] {
        let mut nat = nat(behaviour.clone());
        let (a, b) = ((HOST, 5000), (OTHER_HOST, 6000));
        let outside_b = nat.outside_of(datagram(b, (SERVER, 53)), 0);
        let to_b = datagram(a, outside_b);
        match behaviour.mapping {
            Mapping::EndpointIndependent => {
                let outside_a = nat.outside_of(datagram(a, (SERVER, 53)), 0);
                let seen = nat.sent_on(Realm::Inside, to_b, 0);
                assert_eq!(seen, tuple(UDP, outside_a, b));
                let back = nat.sent_on(Realm::Inside, datagram(b, outside_a), 0);
                assert_eq!(back, tuple(UDP, outside_b, a));
                assert_eq!(nat.stats().hairpinned, 2);
            }
            // B sent to the server alone, so it is nobody's else.
            Mapping::AddressAndPortDependent => {
                assert_eq!(nat.refusal(Realm::Inside, to_b, 0), Refusal::Unmapped);
            }
        }
    }
}

#[test]
fn rfc5508_req1_queries_are_mapped_by_their_identifier() {
    for behaviour in [Behaviour::default(), symmetric()] {
        let mut nat = nat(behaviour);
        let asked = nat.sent_on(Realm::Inside, query(HOST, SERVER, 77), 0);
        let other = nat.sent_on(Realm::Inside, query(OTHER_HOST, SERVER, 77), 0);
        assert_eq!(asked.ports[0], asked.ports[1]);
        assert_ne!(asked.ports, other.ports);
        let answer = query(SERVER, OUT, asked.ports[0]);
        let inside = nat.sent_on(Realm::Outside, answer, 0);
        assert_eq!(inside, tuple(ICMP, (SERVER, 77), (HOST, 77)));
        let itself = nat.refusal(Realm::Inside, query(HOST, OUT, 1), 0);
        assert_eq!(itself, Refusal::Unmapped);
    }
}

#[test]
fn rfc5508_req4_errors_from_outside_quote_what_was_sent() {
    const ROUTER: u32 = 0xc000_0201;
    for behaviour in [Behaviour::default(), symmetric()] {
        let mut nat = nat(behaviour);
        let sent = datagram((HOST, 5000), (SERVER, 33434));
        let quoted = nat.sent_on(Realm::Inside, sent, 0);
        let error = nat.error(Realm::Outside, [ROUTER, OUT], quoted, 10);
        let right = TranslatedError {
            by_shard: None,
            addresses: [ROUTER, HOST],
            quoted: sent.tuple,
        };
        assert_eq!(error, Some(right));
        let asked = nat.sent_on(Realm::Inside, query(HOST, SERVER, 9), 0);
        let error = nat.error(Realm::Outside, [ROUTER, OUT], asked, 10);
        assert_eq!(error.map(|error| error.quoted.ports), Some([9, 9]));
        // To somebody who was never sent to.
        let strange = tuple(UDP, (OUT, quoted.ports[0]), (SERVER, 1));
        assert_eq!(nat.error(Realm::Outside, [ROUTER, OUT], strange, 10), None);
        assert_eq!((nat.stats().errors, nat.stats().errors_refused), (2, 1));
    }
}

#[test]
fn rfc5508_req5_errors_from_inside_quote_what_came() {
    const ROUTER: u32 = 0x0a00_00fe;
    let mut nat = nat(Behaviour::default());
    let outside = nat.outside_of(datagram((HOST, 5000), (SERVER, 53)), 0);
    let came = tuple(UDP, (SERVER, 53), outside);
    let quoted = nat.sent_on(Realm::Outside, packet(came, None), 0);
    for sender in [HOST, ROUTER] {
        let error = nat.error(Realm::Inside, [sender, SERVER], quoted, 0);
        let right = TranslatedError {
            by_shard: None,
            addresses: [OUT, SERVER],
            quoted: came,
        };
        assert_eq!(error, Some(right));
    }
}

#[test]
fn rfc5508_req6_errors_neither_keep_nor_end_a_session() {
    let mut nat = nat(Behaviour::default());
    let sent = datagram((HOST, 5000), (SERVER, 53));
    let quoted = nat.sent_on(Realm::Inside, sent, 0);
    let end_ms = Timeouts::default().datagrams_ms;
    assert!(
        nat.error(Realm::Outside, [SERVER, OUT], quoted, end_ms)
            .is_some()
    );
    assert_eq!(nat.sessions().len(), 1);
    nat.expire_all(end_ms + 1, |flow, _| assert_eq!(flow.seen_ms(), (0, 0)));
    assert_eq!(nat.sessions().len(), 0);
    assert!(
        nat.error(Realm::Outside, [SERVER, OUT], quoted, end_ms + 1)
            .is_none()
    );
}

#[test]
fn rfc5508_req7_errors_come_back_by_a_hairpin() {
    let mut nat = nat(Behaviour::default());
    let (a, b) = ((HOST, 5000), (OTHER_HOST, 6000));
    let outside_a = nat.outside_of(datagram(a, (SERVER, 53)), 0);
    let outside_b = nat.outside_of(datagram(b, (SERVER, 53)), 0);
    let quoted = nat.sent_on(Realm::Inside, datagram(a, outside_b), 0);
    assert_eq!(quoted, tuple(UDP, outside_a, b));
    let error = nat.error(Realm::Inside, [OTHER_HOST, OUT], quoted, 0);
    let right = TranslatedError {
        by_shard: None,
        addresses: [OUT, HOST],
        quoted: tuple(UDP, a, outside_b),
    };
    assert_eq!(error, Some(right));
}

#[test]
fn fragments_and_other_protocols_are_refused() {
    let mut nat = nat(Behaviour::default());
    let fragment = Packet {
        is_fragment: true,
        ..datagram((HOST, 1), (SERVER, 2))
    };
    let gre = packet(tuple(47, (HOST, 0), (SERVER, 0)), None);
    for realm in [Realm::Inside, Realm::Outside] {
        assert_eq!(nat.refusal(realm, fragment, 0), Refusal::Fragment);
        assert_eq!(nat.refusal(realm, gre, 0), Refusal::Protocol);
    }
    assert_eq!(nat.mappings(), 0);
}

/// A NAT without addresses, and one without sessions.
#[test]
fn nats_that_cannot_be() {
    let new = |addresses, sessions| {
        Nat::new(Behaviour::default(), addresses, sessions, alone, 0, 7).err()
    };
    assert_eq!(new(vec![], 10), Some(NatError::NoAddress));
    let none = NatError::Table(TableError::Capacity(0));
    assert_eq!(new(vec![OUT], 0), Some(none));
}

/// FD.io's CSIT: 63 ports of 1024 hosts fill an address, 64,512 sessions; of 4096 hosts four.
#[test]
fn csit_sizes_fill_their_addresses() {
    for hosts in [1024, 4096] {
        let sessions = hosts as usize * 63;
        let addresses: Vec<u32> = (0..hosts / 1024).map(|i| OUT + i).collect();
        let behaviour = Behaviour {
            keeps_parity: false,
            ..Behaviour::default()
        };
        let mut nat = Nat::new(behaviour, addresses, sessions + 100, alone, 0, 7).expect("a NAT");
        let packets: Vec<Packet> = (0..sessions as u32)
            .map(|i| datagram((HOST + i % hosts, 1024 + (i / hosts) as u16), (SERVER, 53)))
            .collect();
        let mut out = Vec::new();
        for burst in packets.chunks(256) {
            nat.burst(Realm::Inside, burst, 0, &mut out, |_, _| panic!());
        }
        let ends: HashSet<End> = (out.iter())
            .map(|out| match out {
                Translated::To(tuple) => (tuple.addresses[0], tuple.ports[0]),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ends.len(), sessions);
        for host in 0..hosts {
            assert_eq!(nat.ports_left(HOST + host, UDP), Some(0));
        }
        // Exhaustion is an outcome, and ends with the sessions that hold the ports.
        let one_more = datagram((HOST, 9), (SERVER, 53));
        assert_eq!(nat.refusal(Realm::Inside, one_more, 0), Refusal::NoPort);
        let end_ms = Timeouts::default().datagrams_ms + 1;
        let mut ended = 0;
        nat.expire_all(end_ms, |flow, end| {
            assert!(ends.contains(&end));
            ended += flow.packets(flow.initiator());
        });
        assert_eq!(ended, nat.stats().counted);
        assert_eq!(
            (nat.mappings(), nat.ports_left(HOST, UDP)),
            (0, Some(64_512))
        );
        nat.sent_on(Realm::Inside, one_more, end_ms);
    }
}

/// All ports of an address are taken for one server, nearly: no packet is worth looking through them all.
#[test]
fn a_port_is_drawn_in_bounded_time() {
    use std::cell::Cell;
    let steps = Cell::new(0);
    let counting = |_: &Tuple<u32>| {
        steps.set(steps.get() + 1);
        0
    };
    let behaviour = Behaviour {
        keeps_parity: false,
        ..symmetric()
    };
    let mut nat = Nat::new(behaviour, vec![OUT], 100_000, counting, 0, 7).expect("a NAT");
    let (mut mapped, mut refused, mut most) = (0, 0, 0);
    for i in 0..66_000 {
        let sent = datagram((HOST + i / 60_000, i as u16), (SERVER, 53));
        steps.set(0);
        let mut out = Vec::new();
        nat.burst(Realm::Inside, &[sent], 0, &mut out, |_, _| {});
        match out[0] {
            Translated::To(_) => mapped += 1,
            Translated::Refused(Refusal::NoPort) => refused += 1,
            other => panic!("{other:?}"),
        }
        most = most.max(steps.get());
        assert!(
            refused == 0 || mapped > 62_000,
            "the first is refused at {mapped}"
        );
    }
    assert!(refused > 0 && mapped <= 64_512);
    assert!((100..=512).contains(&most), "{most} ports were looked at");
}

#[test]
fn strides_lead_everywhere() {
    let mut random = SplitMix64::new(5);
    for count in [1, 2, 40, 63, 64_512, 1 << 16] {
        let stride = super::choice::stride(count, &mut random);
        let places: HashSet<usize> = (0..count).map(|i| i * stride % count).collect();
        assert_eq!(places.len(), count);
    }
}

#[test]
fn a_full_table_of_sessions_is_an_outcome() {
    let mut nat = Nat::new(Behaviour::default(), vec![OUT], 3, alone, 0, 7).expect("a NAT");
    let to = |i| datagram((HOST, 5000), (SERVER, i));
    for i in 0..3 {
        nat.sent_on(Realm::Inside, to(i), 0);
    }
    assert_eq!(nat.refusal(Realm::Inside, to(3), 0), Refusal::Full);
    let other = datagram((OTHER_HOST, 1), (SERVER, 1));
    assert_eq!(nat.refusal(Realm::Inside, other, 0), Refusal::Full);
    assert_eq!(nat.mappings(), 1);
    nat.sent_on(Realm::Inside, to(2), 0);
}

/// Four shards behind a card: each reply comes to the shard that has its session, and no outside end is two shards'.
#[test]
fn replies_come_to_the_shard_of_their_session() {
    const SHARDS: u16 = 4;
    for (behaviour, ends) in [
        (Behaviour::default(), HashedEnds::Destination),
        (symmetric(), HashedEnds::Both),
    ] {
        let rss = |ends| {
            let toeplitz = Toeplitz::new(MICROSOFTS_KEY);
            Rss::new(toeplitz, Rss::evenly(SHARDS, 128), ends).expect("a power of two")
        };
        let of_inside = match ends {
            HashedEnds::Both => rss(HashedEnds::Both),
            _ => rss(HashedEnds::Source),
        };
        let outside = rss(ends);
        let addresses = vec![OUT, OUT + 1];
        let mut shards: Vec<Nat<Rss>> = (0..SHARDS)
            .map(|shard| {
                let (seed, shard) = (u64::from(shard), usize::from(shard));
                let card = outside.clone();
                Nat::new(
                    behaviour.clone(),
                    addresses.clone(),
                    10_000,
                    card,
                    shard,
                    seed,
                )
                .expect("a NAT")
            })
            .collect();
        let mut random = SplitMix64::new(3);
        let mut taken = HashMap::new();
        for _ in 0..4000 {
            let from = (HOST + random.below(50) as u32, random.below(9000) as u16);
            let to = (SERVER + random.below(20) as u32, 1 + random.below(3) as u16);
            let sent = match random.below(4) {
                0 => query(from.0, to.0, from.1),
                _ => datagram(from, to),
            };
            let mut shard = of_inside.shard(&sent.tuple);
            let mut out = shards[shard].one(Realm::Inside, sent, 0);
            if let Translated::ByShard {
                shard: other,
                realm,
                tuple,
            } = out
            {
                assert_eq!(
                    (sent.tuple.protocol, realm, tuple),
                    (ICMP, Realm::Inside, sent.tuple)
                );
                shard = other;
                out = shards[shard].one(Realm::Inside, sent, 0);
            }
            let Translated::To(tuple) = out else {
                panic!("{out:?}")
            };
            let (end, remote) = super::ends(Realm::Inside, &tuple);
            let reply = reply_to(end, remote, tuple.protocol);
            assert_eq!(outside.shard(&reply), shard);
            let back = shards[shard].sent_on(Realm::Outside, packet(reply, None), 0);
            let own = super::ends(Realm::Outside, &back).0;
            assert_eq!(own, (from.0, from.1));
            let whose = match behaviour.mapping {
                Mapping::EndpointIndependent => (end, NOBODY, tuple.protocol),
                Mapping::AddressAndPortDependent => (end, remote, tuple.protocol),
            };
            assert_eq!(*taken.entry(whose).or_insert((shard, own)), (shard, own));
        }
        for nat in &shards {
            assert!(nat.sessions().len() > 100);
        }
        let by_shard: u64 = shards.iter().map(|nat| nat.stats().by_shard).sum();
        assert!(by_shard > 0, "queries whose answers no identifier steers");
    }
}

/// A hairpin between two shards goes on where the other host's mapping is, and so does an error about it.
#[test]
fn hairpins_between_shards() {
    let steering = |tuple: &Tuple<u32>| usize::from(tuple.ports[1] >= 30_000);
    let new = |shard| Nat::new(Behaviour::default(), vec![OUT], 100, steering, shard, 5);
    let mut shards = [0, 1].map(|shard| new(shard).expect("a NAT"));
    let (a, b) = ((HOST, 5000), (OTHER_HOST, 6000));
    let outside_a = shards[0].outside_of(datagram(a, (SERVER, 53)), 0);
    let outside_b = shards[1].outside_of(datagram(b, (SERVER, 53)), 0);
    let halfway = tuple(UDP, outside_a, outside_b);
    let right = Translated::ByShard {
        shard: 1,
        realm: Realm::Outside,
        tuple: halfway,
    };
    assert_eq!(
        shards[0].one(Realm::Inside, datagram(a, outside_b), 0),
        right
    );
    let seen = shards[1].sent_on(Realm::Outside, packet(halfway, None), 0);
    assert_eq!(seen, tuple(UDP, outside_a, b));
    let error = shards[1].error(Realm::Inside, [OTHER_HOST, OUT], seen, 0);
    let error = error.expect("of a session");
    let half = TranslatedError {
        by_shard: Some(0),
        addresses: [OUT, OUT],
        quoted: halfway,
    };
    assert_eq!(error, half);
    let error = shards[0].error(Realm::Outside, error.addresses, error.quoted, 0);
    let whole = TranslatedError {
        by_shard: None,
        addresses: [OUT, HOST],
        quoted: tuple(UDP, a, outside_b),
    };
    assert_eq!(error, Some(whole));
}

/// The model of a NAT: the sessions with the time of their last packet, those that are over until they are looked at, and the outside end of each mapping, which it learns from the first packet.
#[derive(Default)]
struct Model {
    sessions: HashMap<Tuple<u32>, u32>,
    outside: HashMap<(End, End), End>,
}

impl Model {
    fn mapping(behaviour: &Behaviour, inside: &Tuple<u32>) -> (End, End) {
        let (own, remote) = super::ends(Realm::Inside, inside);
        match behaviour.mapping {
            Mapping::EndpointIndependent => (own, NOBODY),
            Mapping::AddressAndPortDependent => (own, remote),
        }
    }

    fn is_over(behaviour: &Behaviour, last_ms: u32, now_ms: u32) -> bool {
        now_ms - last_ms > behaviour.timeouts.datagrams_ms
    }

    fn lives(&self, behaviour: &Behaviour, session: &Tuple<u32>, now_ms: u32) -> bool {
        let last_ms = self.sessions.get(session);
        last_ms.is_some_and(|last_ms| !Self::is_over(behaviour, *last_ms, now_ms))
    }

    fn expire(&mut self, behaviour: &Behaviour, now_ms: u32) -> usize {
        let before = self.sessions.len();
        self.sessions
            .retain(|_, last_ms| !Self::is_over(behaviour, *last_ms, now_ms));
        let live: HashSet<_> = (self.sessions.keys())
            .map(|tuple| Self::mapping(behaviour, tuple))
            .collect();
        self.outside.retain(|mapping, _| live.contains(mapping));
        before - self.sessions.len()
    }
}

/// Random datagrams in both directions on a virtual clock, few ports, few sessions, which are looked at now and then: every outcome is the model's, but for
/// which port is drawn.
#[test]
fn as_a_model_has_it() {
    let mut all = [0; 8];
    for seed in 0..20 {
        let behaviour = Behaviour {
            ports: 5000..=5039,
            timeouts: Timeouts {
                datagrams_ms: 200,
                ..Timeouts::default()
            },
            ..match seed % 2 {
                0 => Behaviour::default(),
                _ => symmetric(),
            }
        };
        let mut random = SplitMix64::new(seed);
        let addresses = vec![OUT, OUT + 1];
        let mut nat =
            Nat::new(behaviour.clone(), addresses.clone(), 100, alone, 0, seed).expect("a NAT");
        let mut model = Model::default();
        let (mut now_ms, mut exported) = (0, 0);
        let mut seen = [0; 8];
        let packets = |flow: &Flow<2>| {
            flow.packets(flow.initiator()) + flow.packets(flow.initiator().reverse())
        };
        for _ in 0..5000 {
            now_ms += random.below(3) as u32;
            if random.below(10) == 0 {
                let mut ended = 0;
                nat.expire_all(now_ms, |flow, _| {
                    ended += 1;
                    exported += packets(flow);
                });
                assert_eq!(ended, model.expire(&behaviour, now_ms));
            }
            let mut one = |realm, packet| {
                let mut out = Vec::new();
                let ended = |flow: &Flow<2>, _| exported += packets(flow);
                nat.burst(realm, &[packet], now_ms, &mut out, ended);
                nat.assert_sums();
                out[0]
            };
            let remote = (SERVER + random.below(4) as u32, 50 + random.below(2) as u16);
            let is_full = model.sessions.len() == 100;
            if random.below(3) > 0 {
                let from = (HOST + random.below(30) as u32, random.below(6) as u16);
                let sent = datagram(from, remote);
                let mapping = Model::mapping(&behaviour, &sent.tuple);
                let (has_session, has_mapping) = (
                    model.sessions.contains_key(&sent.tuple),
                    model.outside.contains_key(&mapping),
                );
                match one(Realm::Inside, sent) {
                    Translated::To(tuple) => {
                        assert!(has_session || !is_full);
                        let (end, _) = super::ends(Realm::Inside, &tuple);
                        assert!(addresses.contains(&end.0) && behaviour.ports.contains(&end.1));
                        let is_others =
                            |other: &(End, End)| other.1 == mapping.1 && *other != mapping;
                        let mut others = model.outside.iter();
                        assert!(others.all(|(other, taken)| !is_others(other) || *taken != end));
                        assert_eq!(*model.outside.entry(mapping).or_insert(end), end);
                        let lived = model.lives(&behaviour, &sent.tuple, now_ms);
                        model.sessions.insert(sent.tuple, now_ms);
                        seen[0] += 1;
                        // Over, not looked at, and begun anew with the mapping that it had.
                        seen[5] += u32::from(has_session && !lived);
                    }
                    Translated::Refused(Refusal::Full) => {
                        assert!(is_full && !has_session);
                        seen[1] += 1;
                    }
                    Translated::Refused(Refusal::NoPort) => {
                        assert!(!has_mapping);
                        let at = addresses[from.0 as usize % 2];
                        let taken = model
                            .outside
                            .iter()
                            .filter(|(other, end)| end.0 == at && other.1 == mapping.1);
                        assert_eq!(taken.count(), 40, "all ports of the address");
                        seen[2] += 1;
                    }
                    other => panic!("{other:?}"),
                }
                continue;
            }
            let to = (addresses[random.below(2)], 5000 + random.below(40) as u16);
            let came = datagram(remote, to);
            let whose = model
                .outside
                .iter()
                .find(|((_, other), end)| **end == to && (*other == NOBODY || *other == remote));
            let whose = whose.map(|((inside, _), _)| *inside);
            let is_open = behaviour.mapping == Mapping::EndpointIndependent;
            match (one(Realm::Outside, came), whose) {
                (Translated::To(tuple), Some(inside)) => {
                    assert_eq!(tuple, with_destination(came.tuple, inside));
                    let session = self::tuple(UDP, inside, remote);
                    if model.lives(&behaviour, &session, now_ms) {
                        model.sessions.insert(session, now_ms);
                        seen[3] += 1;
                    } else {
                        assert!(is_open, "it is a stranger's");
                        seen[6] += 1;
                    }
                }
                (Translated::Refused(Refusal::Unmapped), None) => seen[4] += 1,
                // Its only session is over.
                (Translated::Refused(Refusal::Filtered), Some(inside)) => {
                    let session = self::tuple(UDP, inside, remote);
                    assert!(!is_open && !model.lives(&behaviour, &session, now_ms));
                    seen[7] += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(nat.mappings(), model.outside.len());
        assert_eq!(nat.stats().unsolicited, u64::from(seen[6]));
        nat.expire_all(u32::MAX / 2, |flow, _| exported += packets(flow));
        assert_eq!(exported, nat.stats().counted);
        assert!(seen[0] > 100 && seen[3] + seen[4] > 100, "{seen:?}");
        all.iter_mut().zip(seen).for_each(|(sum, of)| *sum += of);
    }
    assert!(all.iter().all(|count| *count > 0), "{all:?}");
}
