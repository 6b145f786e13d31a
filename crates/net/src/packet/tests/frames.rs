//! Frames to test with: one of each kind, and as many as there are seeds.

use dpb_core::packet::{DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING, put_u16};
use dpb_core::random::SplitMix64;
use proptest::prelude::*;

use crate::flow::Flags;
use crate::packet::write::{Echo, Ethernet, Geneve, Gre, Ipv4, Ipv6, Tcp, Udp, VlanTag, Vxlan};
use crate::packet::{Ends, ether_type, protocol};

pub(super) const V4: [u32; 2] = [0xc000_0201, 0xc633_6402];
pub(super) const V6: [u128; 2] = [
    0x2001_0db8_0000_0000_0000_0000_0000_0001,
    0x2001_0db8_0000_0000_0000_0000_0000_0002,
];

/// Room for a header before `rest`.
pub(super) fn before(header_bytes: usize, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header_bytes];
    bytes.extend_from_slice(rest);
    bytes
}

pub(super) fn ethernet(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = before(14, rest);
    let header = Ethernet {
        destination: [0x02, 0, 0, 0, 0, 2],
        source: [0x02, 0, 0, 0, 0, 1],
        ether_type,
    };
    header.put(&mut frame).expect("room");
    frame
}

/// What stands behind the EtherType of a tag.
pub(super) fn tag(control: u16, ether_type: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = before(4, rest);
    VlanTag {
        control,
        ether_type,
    }
    .put(&mut bytes)
    .expect("room");
    bytes
}

pub(super) fn v4(protocol: u8, options: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut packet = before(20 + options.len(), rest);
    let header = Ipv4 {
        options,
        identification: 7,
        ..Ipv4::new(V4, protocol)
    };
    header.put(&mut packet).expect("room");
    packet
}

pub(super) fn v6(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = before(40, rest);
    Ipv6::new(V6, protocol).put(&mut packet).expect("room");
    packet
}

pub(super) fn udp(ends: Ends, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut datagram = before(8, payload);
    Udp::new(ports).put(&mut datagram, ends).expect("room");
    datagram
}

pub(super) fn tcp(ends: Ends, ports: [u16; 2], options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut segment = before(20 + options.len(), payload);
    let header = Tcp {
        sequence: 0x0102_0304,
        options,
        ..Tcp::new(ports, Flags::SYN.with(Flags::ACK))
    };
    header.put(&mut segment, ends).expect("room");
    segment
}

pub(super) fn echo(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut message = before(8, payload);
    let header = Echo {
        is_reply: false,
        identifier: 0x1234,
        sequence: 1,
    };
    header.put(&mut message, ends).expect("room");
    message
}

/// An error of ICMP that quotes `packet`, with this type, without a checksum.
pub(super) fn error(kind: u8, packet: &[u8]) -> Vec<u8> {
    let mut message = before(8, packet);
    message[0] = kind;
    message
}

fn sctp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut packet = before(12, payload);
    put_u16(&mut packet, 0, ports[0]);
    put_u16(&mut packet, 2, ports[1]);
    packet
}

/// An extension header of `units` times eight bytes and eight more, all options padding or zero.
fn extension(next: u8, units: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = before(8 + 8 * usize::from(units), rest);
    bytes[..4].copy_from_slice(&[next, units, 1, 4]);
    bytes
}

fn routing(next: u8, segments_left: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = before(8, rest);
    bytes[..4].copy_from_slice(&[next, 0, 4, segments_left]);
    bytes
}

fn authentication(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = before(24, rest);
    bytes[..2].copy_from_slice(&[next, 4]);
    bytes
}

fn fragment_v6(next: u8, start: u16, more: bool, rest: &[u8]) -> Vec<u8> {
    let mut bytes = before(8, rest);
    bytes[0] = next;
    put_u16(&mut bytes, 2, start | u16::from(more));
    bytes[7] = 9;
    bytes
}

/// The same packet as a fragment. Its header's checksum is no longer right.
fn fragment_v4(mut packet: Vec<u8>, start: u16, more: bool) -> Vec<u8> {
    put_u16(&mut packet, 6, (start / 8) | (u16::from(more) << 13));
    packet
}

pub(super) fn vxlan(frame: &[u8]) -> Vec<u8> {
    let mut bytes = before(8, frame);
    Vxlan { id: 0x0a0b0c }.put(&mut bytes).expect("room");
    bytes
}

fn geneve(ether_type: u16, options: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut bytes = before(8, &[options, rest].concat());
    let header = Geneve {
        id: 0x0a0b0c,
        ether_type,
    };
    header.put(&mut bytes).expect("room");
    bytes[0] |= (options.len() / 4) as u8;
    bytes
}

pub(super) fn gre(header: &Gre, rest: &[u8]) -> Vec<u8> {
    let mut bytes = before(header.header_bytes(), rest);
    header.put(&mut bytes).expect("room");
    bytes
}

pub(super) fn ipv4_frame(packet: &[u8]) -> Vec<u8> {
    ethernet(ether_type::IPV4, packet)
}

pub(super) fn ipv6_frame(packet: &[u8]) -> Vec<u8> {
    ethernet(ether_type::IPV6, packet)
}

/// A frame of each kind.
pub(super) fn samples() -> Vec<(&'static str, Vec<u8>)> {
    use ether_type::{ARP, ETHERNET, IPV4, IPV6, OLD_SERVICE_TAG, SERVICE_TAG, TAG};
    let (ends4, ends6) = (Ends::V4(V4), Ends::V6(V6));
    let (up, down) = ([1024, 53], [443, 50_000]);
    let udp4 = v4(protocol::UDP, &[], &udp(ends4, up, b"a question of DNS"));
    let tcp4 = v4(protocol::TCP, &[], &tcp(ends4, down, &[], b""));
    let udp6 = v6(protocol::UDP, &udp(ends6, up, b"a question of DNS"));
    let tcp6 = v6(protocol::TCP, &tcp(ends6, down, &[2, 4, 5, 0xb4], b"hello"));
    let options = [7, 7, 4, 0, 0, 0, 0, 1];
    let mut padded = ipv4_frame(&tcp4);
    padded.resize(60, 0xee);
    let all_gre = Gre {
        has_checksum: true,
        key: Some(77),
        sequence: Some(5),
        ..Gre::new(IPV6)
    };
    let chain = extension(
        ROUTING,
        1,
        &routing(
            DESTINATION,
            0,
            &extension(protocol::UDP, 0, &udp(ends6, up, b"deep")),
        ),
    );
    let arp = [[0, 1, 8, 0, 6, 4, 0, 1].as_slice(), &[3; 20]].concat();
    let options4 = |rest: &[u8]| v4(protocol::TCP, &options, rest);
    vec![
        ("udp", ipv4_frame(&udp4)),
        ("tcp", ipv4_frame(&tcp4)),
        ("tcp padded", padded),
        ("udp6", ipv6_frame(&udp6)),
        ("tcp6", ipv6_frame(&tcp6)),
        (
            "empty udp",
            ipv4_frame(&v4(protocol::UDP, &[], &udp(ends4, up, b""))),
        ),
        (
            "empty udp6",
            ipv6_frame(&v6(protocol::UDP, &udp(ends6, up, b""))),
        ),
        ("tag", ethernet(TAG, &tag(0x6005, IPV4, &udp4))),
        ("tag tcp6", ethernet(TAG, &tag(0x0fff, IPV6, &tcp6))),
        (
            "service tag",
            ethernet(SERVICE_TAG, &tag(0x0064, IPV4, &tcp4)),
        ),
        (
            "two tags",
            ethernet(SERVICE_TAG, &tag(0x0064, TAG, &tag(9, IPV4, &tcp4))),
        ),
        (
            "three tags",
            ethernet(
                OLD_SERVICE_TAG,
                &tag(1, TAG, &tag(2, TAG, &tag(3, IPV6, &udp6))),
            ),
        ),
        (
            "four tags",
            ethernet(
                TAG,
                &tag(1, TAG, &tag(2, TAG, &tag(3, TAG, &tag(4, IPV4, &udp4)))),
            ),
        ),
        ("arp", ethernet(ARP, &arp)),
        ("a length", ethernet(38, &[0x42, 0x42, 3].repeat(13))),
        (
            "echo",
            ipv4_frame(&v4(protocol::ICMP, &[], &echo(ends4, b"abcdefgh"))),
        ),
        (
            "echo6",
            ipv6_frame(&v6(protocol::ICMPV6, &echo(ends6, b"abcdefgh"))),
        ),
        (
            "error",
            ipv4_frame(&v4(protocol::ICMP, &[], &error(3, &udp4))),
        ),
        (
            "short error",
            ipv4_frame(&v4(protocol::ICMP, &[], &error(11, &tcp4[..28]))),
        ),
        (
            "error6",
            ipv6_frame(&v6(protocol::ICMPV6, &error(1, &tcp6))),
        ),
        (
            "options",
            ipv4_frame(&options4(&tcp(ends4, down, &[1; 12], b"data"))),
        ),
        (
            "first fragment",
            ipv4_frame(&fragment_v4(udp4.clone(), 0, true)),
        ),
        (
            "later fragment",
            ipv4_frame(&fragment_v4(udp4.clone(), 1480, false)),
        ),
        (
            "hop by hop",
            ipv6_frame(&v6(
                HOP_BY_HOP,
                &extension(
                    ROUTING,
                    0,
                    &routing(protocol::TCP, 1, &tcp(ends6, down, &[], b"x")),
                ),
            )),
        ),
        (
            "chain",
            ipv6_frame(&v6(
                HOP_BY_HOP,
                &extension(DESTINATION, 0, &extension(protocol::NONE, 0, &[])),
            )),
        ),
        ("long chain", ipv6_frame(&v6(HOP_BY_HOP, &chain))),
        (
            "first fragment6",
            ipv6_frame(&v6(
                FRAGMENT,
                &fragment_v6(protocol::UDP, 0, true, &udp6[40..]),
            )),
        ),
        (
            "later fragment6",
            ipv6_frame(&v6(
                FRAGMENT,
                &fragment_v6(protocol::UDP, 1448, false, &udp6[40..]),
            )),
        ),
        (
            "atomic fragment6",
            ipv6_frame(&v6(
                FRAGMENT,
                &fragment_v6(
                    DESTINATION,
                    0,
                    false,
                    &extension(protocol::UDP, 0, &udp6[40..]),
                ),
            )),
        ),
        (
            "authentication",
            ipv4_frame(&v4(
                protocol::AUTHENTICATION,
                &[],
                &authentication(protocol::TCP, &tcp4[20..]),
            )),
        ),
        (
            "authentication6",
            ipv6_frame(&v6(
                protocol::AUTHENTICATION,
                &authentication(DESTINATION, &extension(protocol::TCP, 0, &tcp6[40..])),
            )),
        ),
        ("esp", ipv4_frame(&v4(protocol::ESP, &[], &[0x55; 40]))),
        (
            "sctp",
            ipv4_frame(&v4(protocol::SCTP, &[], &sctp(up, &[1; 16]))),
        ),
        (
            "gre",
            ipv4_frame(&v4(protocol::GRE, &[], &gre(&Gre::new(IPV4), &udp4))),
        ),
        (
            "gre with all",
            ipv4_frame(&v4(protocol::GRE, &[], &gre(&all_gre, &tcp6))),
        ),
        (
            "gre of frames",
            ipv6_frame(&v6(
                protocol::GRE,
                &gre(
                    &Gre {
                        key: Some(1 << 8),
                        ..Gre::new(ETHERNET)
                    },
                    &ipv4_frame(&tcp4),
                ),
            )),
        ),
        (
            "pptp",
            ipv4_frame(&v4(
                protocol::GRE,
                &[],
                &[0x30, 1, 0x88, 0x0b, 0, 4, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9],
            )),
        ),
        ("ip in ip", ipv4_frame(&v4(protocol::IPV4, &[], &udp4))),
        ("6 in 4", ipv4_frame(&v4(protocol::IPV6, &[], &udp6))),
        ("4 in 6", ipv6_frame(&v6(protocol::IPV4, &tcp4))),
        (
            "vxlan",
            ipv4_frame(&v4(
                protocol::UDP,
                &[],
                &udp(ends4, [50_000, Vxlan::PORT], &vxlan(&ipv4_frame(&udp4))),
            )),
        ),
        (
            "vxlan6",
            ipv6_frame(&v6(
                protocol::UDP,
                &udp(
                    ends6,
                    [50_000, Vxlan::PORT],
                    &vxlan(&ethernet(TAG, &tag(5, IPV6, &tcp6))),
                ),
            )),
        ),
        (
            "geneve",
            ipv4_frame(&v4(
                protocol::UDP,
                &[],
                &udp(
                    ends4,
                    [50_000, Geneve::PORT],
                    &geneve(ETHERNET, &[1; 8], &ipv6_frame(&udp6)),
                ),
            )),
        ),
        (
            "geneve of ip",
            ipv4_frame(&v4(
                protocol::UDP,
                &[],
                &udp(ends4, [50_000, Geneve::PORT], &geneve(IPV4, &[], &tcp4)),
            )),
        ),
        (
            "tunnel in tunnel",
            ipv4_frame(&v4(
                protocol::UDP,
                &[],
                &udp(
                    ends4,
                    [50_000, Vxlan::PORT],
                    &vxlan(&ipv4_frame(&v4(
                        protocol::GRE,
                        &[],
                        &gre(&Gre::new(IPV4), &udp4),
                    ))),
                ),
            )),
        ),
    ]
}

/// The frame that is `seed`'s: layers on layers, lengths right.
pub(super) fn generated(seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let mut frame = generated_frame(&mut random, 2);
    if random.below(3) == 0 {
        let padded = frame.len() + random.below(30);
        frame.resize(padded, 0xa5);
    }
    frame
}

fn generated_frame(random: &mut SplitMix64, depth: usize) -> Vec<u8> {
    let is_v6 = random.below(3) == 0;
    let (mut kind, mut rest) = match is_v6 {
        false => (ether_type::IPV4, generated_v4(random, depth)),
        true => (ether_type::IPV6, generated_v6(random, depth)),
    };
    if random.below(20) == 0 {
        kind = [ether_type::ARP, 0x88cc, 60, 0x88e5][random.below(4)];
    }
    let tags = [0, 0, 0, 0, 1, 1, 1, 2, 3, 4][random.below(10)];
    for _ in 0..tags {
        rest = tag(random.next_u64() as u16, kind, &rest);
        kind = match random.below(4) {
            0 => ether_type::SERVICE_TAG,
            1 => ether_type::OLD_SERVICE_TAG,
            _ => ether_type::TAG,
        };
    }
    ethernet(kind, &rest)
}

fn ends(random: &mut SplitMix64, is_v6: bool) -> Ends {
    let mut word = || random.next_u64() as u32;
    match is_v6 {
        false => Ends::V4([word(), word()]),
        true => Ends::V6([0; 2].map(|_: u8| u128::from(word()) << 96 | u128::from(word() & 1))),
    }
}

fn generated_v4(random: &mut SplitMix64, depth: usize) -> Vec<u8> {
    let ends = ends(random, false);
    let Ends::V4(addresses) = ends else {
        unreachable!("of IPv4")
    };
    let (mut protocol, mut rest) = generated_transport(random, ends, depth);
    if random.below(12) == 0 {
        rest = authentication(protocol, &rest);
        protocol = protocol::AUTHENTICATION;
    }
    let options = [&[][..], &[], &[], &[1; 4], &[1; 40]][random.below(5)];
    let mut packet = before(20 + options.len(), &rest);
    let header = Ipv4 {
        options,
        identification: random.next_u64() as u16,
        dont_fragment: random.below(2) == 0,
        ..Ipv4::new(addresses, protocol)
    };
    header.put(&mut packet).expect("room");
    match random.below(12) {
        0 => fragment_v4(packet, 0, true),
        1 => fragment_v4(packet, 8 * random.below(8000) as u16, random.below(2) == 0),
        _ => packet,
    }
}

fn generated_v6(random: &mut SplitMix64, depth: usize) -> Vec<u8> {
    let ends = ends(random, true);
    let Ends::V6(addresses) = ends else {
        unreachable!("of IPv6")
    };
    let (mut protocol, mut rest) = generated_transport(random, ends, depth);
    let headers = [0, 0, 0, 0, 1, 2, 3][random.below(7)];
    for _ in 0..headers {
        let header = match random.below(5) {
            0 => (ROUTING, routing(protocol, random.below(2) as u8, &rest)),
            1 => (protocol::AUTHENTICATION, authentication(protocol, &rest)),
            2 => {
                let start = 8 * random.below(3) as u16;
                let more = random.below(2) == 0;
                (FRAGMENT, fragment_v6(protocol, start, more, &rest))
            }
            3 => (HOP_BY_HOP, extension(protocol, 0, &rest)),
            _ => (
                DESTINATION,
                extension(protocol, random.below(3) as u8, &rest),
            ),
        };
        (protocol, rest) = header;
    }
    let mut packet = before(40, &rest);
    Ipv6::new(addresses, protocol)
        .put(&mut packet)
        .expect("room");
    packet
}

fn generated_transport(random: &mut SplitMix64, ends: Ends, depth: usize) -> (u8, Vec<u8>) {
    let payload = vec![0x5a; [0, 1, 3, 6, 7, 8, 12, 100][random.below(8)]];
    let ports = [0; 2].map(|_: u8| random.next_u64() as u16);
    let is_v6 = matches!(ends, Ends::V6(_));
    match random.below(16) {
        0..=4 => (
            protocol::TCP,
            tcp(
                ends,
                ports,
                [&[][..], &[1; 12], &[1; 40]][random.below(3)],
                &payload,
            ),
        ),
        5..=8 => (protocol::UDP, udp(ends, ports, &payload)),
        9 if is_v6 => (protocol::ICMPV6, echo(ends, &payload)),
        9 => (protocol::ICMP, echo(ends, &payload)),
        10 => {
            let quoted = match random.below(2) {
                0 => generated_v4(random, 0),
                _ => generated_v6(random, 0),
            };
            let len = quoted.len().min(28 + random.below(60));
            let (protocol, kind) = match is_v6 {
                true => (protocol::ICMPV6, 1),
                false => (protocol::ICMP, 3),
            };
            (protocol, error(kind, &quoted[..len]))
        }
        11 => (protocol::SCTP, sctp(ports, &payload)),
        12 if depth > 0 => {
            let frame = generated_frame(random, depth - 1);
            let data = match random.below(2) {
                0 => udp(ends, [ports[0], Vxlan::PORT], &vxlan(&frame)),
                _ => udp(
                    ends,
                    [ports[0], Geneve::PORT],
                    &geneve(ether_type::ETHERNET, &[1; 4], &frame),
                ),
            };
            (protocol::UDP, data)
        }
        13 if depth > 0 => {
            let header = Gre {
                has_checksum: random.below(2) == 0,
                key: (random.below(2) == 0).then_some(9),
                sequence: (random.below(2) == 0).then_some(1),
                ..Gre::new(ether_type::IPV4)
            };
            (
                protocol::GRE,
                gre(&header, &generated_v4(random, depth - 1)),
            )
        }
        14 if depth > 0 => (protocol::IPV6, generated_v6(random, depth - 1)),
        15 if depth > 0 => (protocol::IPV4, generated_v4(random, depth - 1)),
        _ => (
            [protocol::ESP, 2, 47, 89, 103, 1, 58][random.below(7)],
            payload,
        ),
    }
}

/// Frames that are generated, or one of the samples, and then perhaps cut, or changed in places that matter.
pub(super) fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let samples: Vec<_> = samples().into_iter().map(|(_, frame)| frame).collect();
    let start = prop_oneof![
        3 => any::<u64>().prop_map(generated),
        1 => prop::sample::select(samples),
        1 => (prop::collection::vec(any::<u8>(), 0..120), any::<bool>()).prop_map(|(bytes, is_v6)| {
            match is_v6 {
                false => ethernet(ether_type::IPV4, &bytes),
                true => ethernet(ether_type::IPV6, &bytes),
            }
        }),
    ];
    let byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(vec![
            0, 1, 4, 6, 8, 17, 41, 43, 44, 47, 50, 51, 58, 60, 0x45, 0x46, 0x60, 0xff
        ]),
    ];
    let changes = prop_oneof![
        2 => Just(Vec::new()),
        3 => prop::collection::vec((any::<prop::sample::Index>(), byte), 1..4),
    ];
    let cut = prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    (start, changes, cut).prop_map(|(mut frame, changes, cut)| {
        for (at, byte) in changes {
            // Headers rather than payload.
            let end = frame.len().min(90);
            if end > 0 {
                frame[at.index(end)] = byte;
            }
        }
        if let Some(cut) = cut {
            frame.truncate(cut.index(frame.len() + 1));
        }
        frame
    })
}
