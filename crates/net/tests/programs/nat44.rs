//! NAT44 against a map, and against the examples and requirements of RFC 1624, 4787 and 5508, all read by etherparse.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use dpb_core::{IpFamily, PacketPort, VirtualClock};
use dpb_net::flow::nat::{Behaviour, Nat};
use dpb_net::flow::toeplitz::{SYMMETRIC_KEY, Toeplitz};
use dpb_net::flow::{Rss, Timeouts};
use dpb_net::packet::Sum;
use dpb_net::pipeline::{
    Burst, Dispatcher, Distributor, Line, Mark, Reason, Stage, Station, WhenFull, Work, ring,
};
use dpb_net::port::{Looped, pair};
use dpb_net::programs::forward::{NextHop, Router, Way};
use dpb_net::programs::nat44::{Nat44, NatSharding, Sides};
use etherparse::{
    Icmpv4Type, IpFragOffset, Ipv4Header, NetHeaders, PacketBuilder, PacketHeaders, TransportHeader,
};
use proptest::prelude::*;

use super::support::{HERE, Manner, THERE, buf, lpm, udp_v6};

const IN: u16 = 0;
const OUT: u16 = 1;
const OUTSIDE: [[u8; 4]; 2] = [[198, 51, 100, 7], [198, 51, 100, 8]];
const SHARDS: u16 = 4;

type End = ([u8; 4], u16);
type Of = Nat44<Rss>;

fn host(i: u8) -> [u8; 4] {
    [10, 0, 0, i + 1]
}

fn server(i: u8) -> [u8; 4] {
    [203, 0, 113, i + 1]
}

fn addresses() -> Vec<u32> {
    OUTSIDE.map(u32::from_be_bytes).to_vec()
}

fn toeplitz() -> Toeplitz {
    Toeplitz::new(SYMMETRIC_KEY)
}

fn stage(behaviour: Behaviour, shard: u16, shards: u16, sends: bool) -> Of {
    let steering = NatSharding::steering(toeplitz(), shards).expect("a table");
    let nat = Nat::new(behaviour, addresses(), 1000, steering, shard.into(), 7).expect("a NAT");
    let sides = Sides::new(2, 1, sends, shards > 1);
    Nat44::new(nat, sides, Arc::new(VirtualClock::new(false)))
}

fn alone() -> Of {
    stage(Behaviour::default(), 0, 1, true)
}

/// What became of each packet, which came by the port beside it: the frame and the port that it leaves by, or why it was dropped.
fn pass(
    stage: &mut dyn Stage,
    packets: Vec<(u16, Vec<u8>)>,
) -> Vec<Result<(Vec<u8>, u16), Reason>> {
    let mut burst = Burst::with_capacity(packets.len());
    for (ingress, frame) in &packets {
        burst.push(buf(frame), Mark::of(*ingress));
    }
    let (mut ready, mut done) = (VecDeque::from([burst]), Vec::new());
    assert_eq!((stage.offer(&mut ready), stage.poll(&mut done)), (1, 1));
    let of = |(frame, mark): (dpb_core::Buf, Mark)| match mark.dropped {
        Some(reason) => Err(reason),
        None => Ok((frame.to_vec(), mark.egress)),
    };
    done[0].drain().map(of).collect()
}

fn one(stage: &mut dyn Stage, ingress: u16, frame: Vec<u8>) -> Result<(Vec<u8>, u16), Reason> {
    pass(stage, vec![(ingress, frame)]).remove(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Syn,
    Ack,
    Datagram,
    Question,
    Answer,
}

impl Kind {
    fn protocol(self) -> u8 {
        match self {
            Self::Syn | Self::Ack => 6,
            Self::Datagram => 17,
            Self::Question | Self::Answer => 1,
        }
    }
}

/// A frame from one end to another, by etherparse. Of ICMP the identifier is the port of whichever end is not zero.
fn frame(kind: Kind, from: End, to: End, payload: &[u8]) -> Vec<u8> {
    let ip = PacketBuilder::ethernet2(HERE, THERE).ipv4(from.0, to.0, 64);
    let identifier = from.1.max(to.1);
    let mut frame = Vec::new();
    match kind {
        Kind::Syn => ip
            .tcp(from.1, to.1, 1000, 4096)
            .syn()
            .write(&mut frame, payload),
        Kind::Ack => ip
            .tcp(from.1, to.1, 1000, 4096)
            .ack(9)
            .write(&mut frame, payload),
        Kind::Datagram => ip.udp(from.1, to.1).write(&mut frame, payload),
        Kind::Question => ip
            .icmpv4_echo_request(identifier, 5)
            .write(&mut frame, payload),
        Kind::Answer => ip
            .icmpv4_echo_reply(identifier, 5)
            .write(&mut frame, payload),
    }
    .expect("a Vec takes all");
    frame
}

/// The ends of a frame, and its payload; all of its checksums are right. Both ports of ICMP are its identifier.
fn read(frame: &[u8]) -> (End, End, Vec<u8>) {
    let headers = PacketHeaders::from_ethernet_slice(frame).expect("sound");
    let Some(NetHeaders::Ipv4(ip, _)) = headers.net else {
        panic!("IPv4");
    };
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    let payload = headers.payload.slice();
    let ports = match headers.transport.expect("a transport") {
        TransportHeader::Tcp(tcp) => {
            let right = tcp.calc_checksum_ipv4(&ip, payload).expect("short");
            assert_eq!(tcp.checksum, right);
            [tcp.source_port, tcp.destination_port]
        }
        TransportHeader::Udp(udp) => {
            let right = udp.calc_checksum_ipv4(&ip, payload).expect("short");
            assert!(udp.checksum == right || udp.checksum == 0);
            [udp.source_port, udp.destination_port]
        }
        TransportHeader::Icmpv4(icmp) => {
            assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload));
            match icmp.icmp_type {
                Icmpv4Type::EchoRequest(echo) | Icmpv4Type::EchoReply(echo) => [echo.id; 2],
                _ => [0; 2],
            }
        }
        other => panic!("{other:?}"),
    };
    (
        (ip.source, ports[0]),
        (ip.destination, ports[1]),
        payload.to_vec(),
    )
}

#[derive(Clone, Debug)]
struct Step {
    kind: Kind,
    is_inside: bool,
    host: u8,
    server: u8,
    port: u16,
    server_port: u16,
    /// Of packets from outside, which mapping they go to; beyond all of them: to none.
    mapping: usize,
    len: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        Just(Kind::Syn),
        Just(Kind::Ack),
        Just(Kind::Datagram),
        Just(Kind::Question),
        Just(Kind::Answer),
    ];
    let ends = (0_u8..5, 0_u8..4, 5000_u16..5006, 50_u16..53);
    let step = (kind, any::<bool>(), ends, 0_usize..40, 0_usize..60);
    let step = step.prop_map(
        |(kind, is_inside, (host, server, port, server_port), mapping, len)| Step {
            kind,
            is_inside,
            host,
            server,
            port,
            server_port,
            mapping,
            len,
        },
    );
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An inside end has one outside end and shares it with nobody; packets to it come back to the inside end, if they may; the rest of a packet stays
    /// as it is, and its checksums are right.
    #[test]
    fn it_does_what_a_map_says(steps in steps(), burst in 1_usize..40) {
        let mut stage = alone();
        // By protocol and inside end the outside one; and the sessions.
        let mut outside_of: HashMap<(u8, End), End> = HashMap::new();
        let mut mapped: Vec<(u8, End, End)> = Vec::new();
        let mut sessions: HashSet<(u8, End, End)> = HashSet::new();
        let mut unsolicited = 0;
        for steps in steps.chunks(burst) {
            let frames: Vec<(u16, Vec<u8>)> = steps.iter().map(|step| {
                let payload = vec![step.host; step.len];
                let protocol = step.kind.protocol();
                let remote = (server(step.server), if protocol == 1 { 0 } else { step.server_port });
                if step.is_inside {
                    return (IN, frame(step.kind, (host(step.host), step.port), remote, &payload));
                }
                // To a mapping of this protocol from bursts before, or to none.
                let of: Vec<_> = mapped.iter().filter(|(of, ..)| *of == protocol).collect();
                let to = of.get(step.mapping).map_or((OUTSIDE[0], 999), |(_, _, outside)| *outside);
                (OUT, frame(step.kind, remote, to, &payload))
            }).collect();
            let outcomes = pass(&mut stage, frames.clone());
            for ((step, (_, before)), outcome) in steps.iter().zip(&frames).zip(outcomes) {
                let protocol = step.kind.protocol();
                let (from, to, payload) = read(before);
                if step.is_inside {
                    let (after, egress) = outcome.expect("goes out");
                    let (outside, remote, same) = read(&after);
                    let remote_is = if protocol == 1 { (to.0, outside.1) } else { to };
                    prop_assert_eq!((remote, &same, egress), (remote_is, &payload, OUT));
                    let known = *outside_of.entry((protocol, from)).or_insert_with(|| {
                        mapped.push((protocol, from, outside));
                        outside
                    });
                    prop_assert_eq!(outside, known);
                    prop_assert!(OUTSIDE.contains(&outside.0));
                    let remote = if protocol == 1 { (to.0, 0) } else { to };
                    sessions.insert((protocol, from, remote));
                    continue;
                }
                let found = mapped.iter().find(|(of, _, outside)| *of == protocol && *outside == to);
                let remote = if protocol == 1 { (from.0, 0) } else { from };
                let right = match found {
                    None => Err(Of::UNMAPPED),
                    Some((_, inside, _)) => {
                        let is_known = sessions.contains(&(protocol, *inside, remote));
                        match is_known || step.kind != Kind::Ack {
                            true => Ok(*inside),
                            false => Err(Of::FILTERED),
                        }
                    }
                };
                match (outcome, right) {
                    (Ok((after, egress)), Ok(inside)) => {
                        let (still, goes_to, same) = read(&after);
                        let still_is = if protocol == 1 { (from.0, inside.1) } else { from };
                        prop_assert_eq!((still, goes_to, &same, egress), (still_is, inside, &payload, IN));
                        unsolicited += u64::from(!sessions.contains(&(protocol, inside, remote)));
                    }
                    (outcome, right) => prop_assert_eq!(outcome.map(|_| ()), right.map(|_| ())),
                }
            }
        }
        let ends: HashSet<_> = outside_of.iter().map(|((protocol, _), outside)| (*protocol, *outside)).collect();
        prop_assert_eq!(ends.len(), outside_of.len());
        prop_assert_eq!(stage.counts().sessions(), sessions.len() as u64);
        prop_assert_eq!(stage.counts().unsolicited(), unsolicited);
        prop_assert_eq!(stage.counts().mappings(), outside_of.len() as u64);
    }

    /// Whatever the bytes, nothing panics, and what passes has right lengths.
    #[test]
    fn damaged_packets_have_an_outcome(kind in 0_usize..5, at: prop::sample::Index, flip in 1_u8.., cut in 0_usize..50, is_outside: bool) {
        let kind = [Kind::Syn, Kind::Ack, Kind::Datagram, Kind::Question, Kind::Answer][kind];
        let mut stage = alone();
        let mut damaged = frame(kind, (host(0), 5000), (server(0), 80), &[1; 20]);
        damaged.truncate(damaged.len() - cut);
        let place = at.index(damaged.len());
        damaged[place] ^= flip;
        let len = damaged.len();
        if let Ok((after, _)) = one(&mut stage, u16::from(is_outside), damaged) {
            prop_assert_eq!(after.len(), len);
        }
    }
}

/// What RFC 792 says that quotes: an IP header and eight bytes at least of what follows.
fn error(from: [u8; 4], to: [u8; 4], kind: Icmpv4Type, quoted: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(HERE, THERE)
        .ipv4(from, to, 60)
        .icmpv4(kind);
    let mut frame = Vec::new();
    builder.write(&mut frame, quoted).expect("a Vec takes all");
    frame
}

/// The outer addresses of an error, and the packet that it quotes, whose IP header has a right checksum.
fn quoted(frame: &[u8]) -> ([[u8; 4]; 2], Ipv4Header, Vec<u8>) {
    let headers = PacketHeaders::from_ethernet_slice(frame).expect("sound");
    let Some(NetHeaders::Ipv4(ip, _)) = headers.net else {
        panic!("IPv4");
    };
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    let Some(TransportHeader::Icmpv4(icmp)) = headers.transport else {
        panic!("ICMP");
    };
    let payload = headers.payload.slice();
    assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload));
    let (inner, rest) = Ipv4Header::from_slice(payload).expect("sound");
    assert_eq!(inner.header_checksum, inner.calc_header_checksum());
    ([ip.source, ip.destination], inner, rest.to_vec())
}

const UNREACHABLE: Icmpv4Type =
    Icmpv4Type::DestinationUnreachable(etherparse::icmpv4::DestUnreachableHeader::Port);

/// RFC 5508, REQ-3 and REQ-4: an error about a packet that went out finds the host that sent it, whoever noticed; so does one about a packet that came in,
/// whose sender is told the outside address.
#[test]
fn rfc5508_errors_are_translated_with_what_they_quote() {
    for (kind, ports) in [
        (Kind::Datagram, true),
        (Kind::Syn, true),
        (Kind::Question, false),
    ] {
        let mut stage = alone();
        let (inside, remote) = ((host(1), 5001), (server(2), if ports { 53 } else { 0 }));
        let sent = frame(kind, inside, remote, &[3; 30]);
        let (out, _) = one(&mut stage, IN, sent.clone()).expect("goes out");
        let (outside, ..) = read(&out);
        // A router on the way has no more time for it. It quotes all of it, or the first eight bytes.
        for len in [out.len() - 14, 28] {
            let router = [192, 0, 2, 99];
            let exceeded = Icmpv4Type::TimeExceeded(
                etherparse::icmpv4::TimeExceededCode::TtlExceededInTransit,
            );
            let came = error(router, outside.0, exceeded, &out[14..][..len]);
            let (after, egress) = one(&mut stage, OUT, came).expect("belongs to a session");
            let (addresses, inner, rest) = quoted(&after);
            assert_eq!((addresses, egress), ([router, inside.0], IN));
            assert_eq!((inner.source, inner.destination), (inside.0, remote.0));
            // As the host sent it, its checksum too where it is quoted.
            assert_eq!(rest, sent[34..][..len - 20], "{kind:?} {len}");
        }
        // The host has no use for the answer.
        let answer = match kind {
            Kind::Question => Kind::Answer,
            Kind::Syn => Kind::Ack,
            other => other,
        };
        let reply = frame(answer, remote, outside, &[4; 10]);
        let (came, _) = one(&mut stage, OUT, reply.clone()).expect("comes in");
        let refused = error(inside.0, remote.0, UNREACHABLE, &came[14..]);
        let (after, egress) = one(&mut stage, IN, refused).expect("belongs to a session");
        let (addresses, inner, rest) = quoted(&after);
        assert_eq!((addresses, egress), ([outside.0, remote.0], OUT));
        assert_eq!((inner.source, inner.destination), (remote.0, outside.0));
        assert_eq!(rest, reply[34..], "{kind:?}");
        assert_eq!(stage.counts().errors(), 3);
        // About packets that nobody sent.
        let mut stranger = out[14..].to_vec();
        stranger[15] ^= 1;
        let header = Ipv4Header::from_slice(&stranger).expect("sound").0;
        stranger[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
        let came = error([192, 0, 2, 99], outside.0, UNREACHABLE, &stranger);
        assert_eq!(one(&mut stage, OUT, came), Err(Of::NO_SESSION));
    }
}

#[test]
fn what_is_not_translated_is_dropped_by_its_reason() {
    let mut stage = alone();
    let (from, to) = ((host(0), 5000), (server(0), 80));
    let whole = frame(Kind::Datagram, from, to, &[1; 40]);
    let as_fragment = |offset: u16, more: bool| {
        let mut frame = whole.clone();
        let mut header = Ipv4Header::from_slice(&frame[14..]).expect("sound").0;
        header.fragment_offset = IpFragOffset::try_new(offset).expect("small");
        header.more_fragments = more;
        header.header_checksum = header.calc_header_checksum();
        frame[14..34].copy_from_slice(&header.to_bytes());
        frame
    };
    let of_protocol = |protocol: u8| {
        let mut frame = whole.clone();
        frame[23] = protocol;
        let header = Ipv4Header::from_slice(&frame[14..]).expect("sound").0;
        frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
        frame
    };
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let redirect = {
        let mut frame = frame(Kind::Question, from, to, &[0; 30]);
        frame[34] = 5;
        frame
    };
    for (ingress, frame, reason) in [
        (IN, as_fragment(0, true), Of::FRAGMENT),
        (IN, as_fragment(5, false), Of::FRAGMENT),
        (OUT, as_fragment(5, true), Of::FRAGMENT),
        (IN, of_protocol(50), Of::PROTOCOL),
        (
            IN,
            udp_v6([[0x20; 16], [0x21; 16]], [5, 6], 9, &[1]),
            Of::NOT_IPV4,
        ),
        (IN, arp, Of::NOT_IPV4),
        (IN, redirect, Of::ICMP_KIND),
        (
            OUT,
            frame(Kind::Datagram, to, (OUTSIDE[0], 4000), &[]),
            Of::UNMAPPED,
        ),
        (IN, whole[..60].to_vec(), Reason::TRUNCATED),
        (2, whole.clone(), Of::NO_SIDE),
    ] {
        assert_eq!(one(&mut stage, ingress, frame).map(|_| ()), Err(reason));
    }
    let counts = stage.counts();
    assert_eq!((counts.sessions(), counts.mappings()), (0, 0));
    // Room for two sessions is room for two.
    let steering = NatSharding::steering(toeplitz(), 1).expect("a table");
    let nat = Nat::new(Behaviour::default(), addresses(), 2, steering, 0, 7).expect("a NAT");
    let sides = Sides::new(2, 1, true, false);
    let mut small = Nat44::new(nat, sides, Arc::new(VirtualClock::new(false)));
    let flows = (0..3).map(|i| (IN, frame(Kind::Datagram, (host(0), 5000 + i), to, &[])));
    let outcomes = pass(&mut small, flows.collect());
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    assert_eq!(outcomes[2], Err(Of::TABLE_FULL));
}

/// RFC 768 and RFC 3022, 4.1: a datagram without a checksum stays without.
#[test]
fn a_datagram_without_a_checksum_stays_without() {
    let mut sent = frame(Kind::Datagram, (host(0), 5000), (server(0), 53), &[7; 9]);
    sent[40..42].fill(0);
    let (after, _) = one(&mut alone(), IN, sent).expect("goes out");
    assert_eq!(after[40..42], [0, 0]);
    assert_eq!(
        read(&after).0.0,
        OUTSIDE[usize::from(u32::from_be_bytes(host(0)) % 2 == 1)]
    );
}

/// Of RFC 1624, section 4: a checksum of DD2F, of which one word goes from 5555 to 3285, is 0000 then, not FFFF. Here the word is the lower half of the source address.
#[test]
fn rfc1624_the_example() {
    let mut header = [0_u8; 20];
    header[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]);
    header[12..16].copy_from_slice(&[10, 0, 0x55, 0x55]);
    header[16..20].copy_from_slice(&server(0));
    // The identification makes the checksum the example's.
    let rest = Sum::of(&header).checksum();
    let mut id = !rest;
    id = {
        // Ones' complement: the sum of all words shall be the complement of DD2F.
        let (wanted, now) = (u32::from(!0xDD2F_u16), u32::from(id));
        ((wanted + 0xFFFF - now) % 0xFFFF) as u16
    };
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[10..12].copy_from_slice(&0xDD2F_u16.to_be_bytes());
    assert_eq!(Sum::of(&header).checksum(), 0, "made right");
    let mut sent = frame(
        Kind::Datagram,
        ([10, 0, 0x55, 0x55], 5000),
        (server(0), 53),
        &[],
    );
    sent[14..34].copy_from_slice(&header);
    let (behaviour, clock) = (Behaviour::default(), Arc::new(VirtualClock::new(false)));
    let outside = u32::from_be_bytes([10, 0, 0x32, 0x85]);
    let steering = NatSharding::steering(toeplitz(), 1).expect("a table");
    let nat = Nat::new(behaviour, vec![outside], 10, steering, 0, 7).expect("a NAT");
    let mut stage = Nat44::new(nat, Sides::new(2, 1, true, false), clock);
    let (after, _) = one(&mut stage, IN, sent).expect("goes out");
    assert_eq!(after[26..30], [10, 0, 0x32, 0x85]);
    assert_eq!(after[24..26], [0, 0]);
}

/// Packets of a session come to one shard, from both sides, and so do errors about them.
#[test]
fn replies_land_on_the_shard_of_the_session() {
    let sides = Sides::new(2, 1, true, true);
    let mut sharding = NatSharding::new(toeplitz(), SHARDS, addresses(), sides).expect("a table");
    let mut of = |ingress: u16, frame: &[u8]| {
        let mut shards = Vec::new();
        sharding.spread(ingress, &[buf(frame)], &mut shards);
        shards[0]
    };
    let mut stages: Vec<Of> = (0..SHARDS)
        .map(|shard| stage(Behaviour::default(), shard, SHARDS, true))
        .collect();
    let mut used = HashSet::new();
    for i in 0..400_u16 {
        let kind = [Kind::Syn, Kind::Datagram, Kind::Question][usize::from(i % 3)];
        let remote = (
            server(i as u8 % 7),
            if kind == Kind::Question { 0 } else { 53 },
        );
        let inside = (host(i as u8 % 50), 5000 + i);
        let sent = frame(kind, inside, remote, &[1; 20]);
        let shard = of(IN, &sent);
        let (out, _) = one(&mut stages[usize::from(shard)], IN, sent).expect("goes out");
        let (outside, ..) = read(&out);
        let answer = match kind {
            Kind::Question => Kind::Answer,
            Kind::Syn => Kind::Ack,
            other => other,
        };
        let reply = frame(answer, remote, outside, &[2; 20]);
        assert_eq!(of(OUT, &reply), shard, "{kind:?}");
        let (came, egress) = one(&mut stages[usize::from(shard)], OUT, reply).expect("comes in");
        assert_eq!((read(&came).1, egress), (inside, IN));
        let about = error([192, 0, 2, 1], outside.0, UNREACHABLE, &out[14..]);
        assert_eq!(of(OUT, &about), shard);
        one(&mut stages[usize::from(shard)], OUT, about).expect("is translated");
        let about = error(inside.0, remote.0, UNREACHABLE, &came[14..]);
        assert_eq!(of(IN, &about), shard);
        one(&mut stages[usize::from(shard)], IN, about).expect("is translated");
        used.insert((kind == Kind::Question, shard));
    }
    // Identifiers of one outside address are one shard's.
    let of_kind = |is_question| used.iter().filter(|of| of.0 == is_question).count();
    assert_eq!(of_kind(false), usize::from(SHARDS));
    assert!((1..=OUTSIDE.len()).contains(&of_kind(true)));
}

/// RFC 4787, REQ-9: hosts of the inside reach each other by their outside addresses, on whatever shards they are, behind a router too; every packet is accounted for.
#[test]
fn rfc4787_req9_hairpins_cross_shards() {
    let hop = |egress: u16, last| NextHop {
        egress,
        destination: [4, 0, 0, 0, 0, last],
        source: [6, 0, 0, 0, 0, last],
        mtu: 1500,
    };
    for is_routed in [false, true] {
        let routes = vec![
            (u128::from(u32::from_be_bytes([10, 0, 0, 0])), 8, 0),
            (0, 0, 1),
        ];
        let router = Router {
            hops: Arc::new([hop(IN, 9), hop(OUT, 8)]),
            way: Way::Routes {
                v4: Some(lpm(IpFamily::V4, routes, Manner::default())),
                v6: None,
            },
        };
        let ([mut inside, near], [mut outside, far]) = (pair(), pair());
        let ports: Vec<Box<dyn PacketPort>> =
            vec![Box::new(near), Box::new(far), Box::new(Looped::new(10_000))];
        let (mut remotes, mut stations) = (Vec::new(), Vec::new());
        for shard in 0..SHARDS {
            let (remote, ring) = ring("shard", 8);
            remotes.push(remote);
            let nat = stage(Behaviour::default(), shard, SHARDS, !is_routed);
            let mut stages: Vec<Box<dyn Stage>> = vec![Box::new(nat)];
            if is_routed {
                stages.insert(0, Box::new(Router::check()));
                stages.extend(router.stages().expect("opens"));
            }
            let line = Line::new("line", stages, 4);
            stations.push(Station::new(Box::new(line), vec![ring]));
        }
        let sides = Sides::new(2, 1, !is_routed, true);
        let sharding = NatSharding::new(toeplitz(), SHARDS, addresses(), sides).expect("a table");
        let mut dispatcher =
            Dispatcher::new("dispatcher", ports, sharding, remotes, 8, WhenFull::Hold);
        // What comes out of the inside port, and of the outside one.
        let mut turn = |sent: Vec<Vec<u8>>| {
            let mut ready: VecDeque<_> = sent.iter().map(|frame| buf(frame)).collect();
            inside.send(&mut ready).expect("room");
            let (mut back, mut out) = (Vec::new(), Vec::new());
            for _ in 0..100 {
                dispatcher.turn().expect("memory");
                stations.iter_mut().for_each(|station| {
                    station.turn();
                });
                inside.receive(&mut back, 1000).expect("memory");
                outside.receive(&mut out, 1000).expect("memory");
            }
            let account = dispatcher.account();
            account.check().expect("balanced");
            let bytes = |frames: Vec<dpb_core::Buf>| -> Vec<Vec<u8>> {
                frames.iter().map(|frame| frame.to_vec()).collect()
            };
            (bytes(back), bytes(out), account)
        };
        // Each host sends to a server, so that it has an outside end.
        let hosts: Vec<End> = (0..60).map(|i| (host(i), 7000 + u16::from(i))).collect();
        let to_server =
            |(i, from): (usize, &End)| frame(Kind::Datagram, *from, (server(0), 53), &[i as u8]);
        let (back, out, _) = turn(hosts.iter().enumerate().map(to_server).collect());
        assert_eq!((back.len(), out.len()), (0, 60));
        let mut outside_of = [([0; 4], 0); 60];
        for frame in &out {
            let (from, _, payload) = read(frame);
            outside_of[usize::from(payload[0])] = from;
        }
        // Then all send to the outside end of one.
        let to_host =
            |(i, from): (usize, &End)| frame(Kind::Datagram, *from, outside_of[7], &[i as u8]);
        let (back, out, account) = turn(hosts.iter().enumerate().map(to_host).collect());
        assert_eq!((back.len(), out.len()), (60, 0), "{account}");
        for frame in &back {
            let (from, goes_to, payload) = read(frame);
            // REQ-9a: it shows the sender's outside end.
            assert_eq!(from, outside_of[usize::from(payload[0])]);
            assert_eq!(goes_to, hosts[7]);
            // Routed once, whether it crossed or not.
            assert_eq!(frame[22], if is_routed { 63 } else { 64 });
        }
        assert_eq!(account.dropped().total().packets, 0);
        // Some came to the dispatcher a second time.
        assert!((121..180).contains(&account.received.packets), "{account}");
    }
}

/// RFC 4787, REQ-5 and REQ-6: a mapping ends when nobody has sent for long enough, and gives its port back.
#[test]
fn mappings_end_by_the_clock() {
    let clock = Arc::new(VirtualClock::new(false));
    let steering = NatSharding::steering(toeplitz(), 1).expect("a table");
    let nat = Nat::new(Behaviour::default(), addresses(), 100, steering, 0, 7).expect("a NAT");
    let mut stage = Nat44::new(nat, Sides::new(2, 1, true, false), clock.clone());
    let sent = frame(Kind::Datagram, (host(0), 5000), (server(0), 53), &[]);
    let (out, _) = one(&mut stage, IN, sent).expect("goes out");
    let reply = frame(Kind::Datagram, (server(0), 53), read(&out).0, &[]);
    one(&mut stage, OUT, reply.clone()).expect("comes in");
    let times = Timeouts::default();
    let over_ms = u64::from(times.datagrams_ms + times.turn_ms + 1);
    clock.advance_to((over_ms + 1) * 1_000_000);
    // The first burst ends it, and so does not find it.
    assert_eq!(one(&mut stage, OUT, reply), Err(Of::UNMAPPED));
    assert_eq!(stage.counts().mappings(), 0);
}
