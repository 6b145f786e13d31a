//! What a router makes of packets, by etherparse, and which ones it drops.

use std::sync::Arc;

use dpb_core::IpFamily;
use dpb_net::pipeline::{Line, Mark, Reason};
use dpb_net::programs::forward::{Addresses, NextHop, Router, Way, bridge};
use etherparse::{NetHeaders, PacketBuilder, PacketHeaders, VlanId};
use proptest::prelude::*;

use super::support::{HERE, Manner, THERE, lpm, udp_v4, udp_v6};
use super::{one, through};

fn hop(egress: u16) -> NextHop {
    NextHop {
        egress,
        destination: [4, 0, 0, 0, 0, egress as u8],
        source: [6, 0, 0, 0, 0, egress as u8],
        mtu: 1500,
    }
}

fn router(way: Way) -> Router {
    Router {
        hops: Arc::new([hop(0), hop(1), hop(2)]),
        way,
    }
}

/// What a router made of `before`, by etherparse: one hop less, a right checksum, new addresses of Ethernet, and nothing else.
fn assert_forwarded(before: &[u8], after: &[u8], hop: &NextHop) {
    let [was, is] =
        [before, after].map(|frame| PacketHeaders::from_ethernet_slice(frame).expect("sound"));
    let link = is.link.and_then(|link| link.ethernet2()).expect("Ethernet");
    assert_eq!(
        (link.destination, link.source),
        (hop.destination, hop.source)
    );
    match (was.net.expect("IP"), is.net.expect("IP")) {
        (NetHeaders::Ipv4(mut was, _), NetHeaders::Ipv4(is, _)) => {
            assert_eq!(is.header_checksum, is.calc_header_checksum());
            was.time_to_live -= 1;
            was.header_checksum = is.header_checksum;
            assert_eq!(is, was);
        }
        (NetHeaders::Ipv6(mut was, _), NetHeaders::Ipv6(is, _)) => {
            was.hop_limit -= 1;
            assert_eq!(is, was);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(was.transport, is.transport);
    assert_eq!(was.payload.slice(), is.payload.slice());
    assert_eq!(before.len(), after.len());
}

proptest! {
    #[test]
    fn packets_go_to_their_longest_prefix(
        seed: u64, disorder: Option<u64>,
        routes in prop::collection::vec((any::<u32>(), 0_u32..33, 0_u32..4), 0..12),
        packets in prop::collection::vec((any::<u32>(), any::<bool>(), 1_u8..=255, 0_usize..60, any::<bool>()), 1..100),
    ) {
        let mut random = dpb_core::random::SplitMix64::new(seed);
        let masked = |address: u32, bits: u32| match bits {
            0 => 0,
            _ => address & (u32::MAX << (32 - bits)),
        };
        let routes: Vec<_> = routes.into_iter().map(|(address, bits, hop)| (masked(address, bits), bits, hop)).collect();
        let manner = Manner { disorder, ..Manner::default() };
        let v4 = routes.iter().map(|(address, bits, hop)| (u128::from(*address), *bits, *hop)).collect();
        // The same routes in the first 32 bits of an IPv6 address.
        let v6 = routes.iter().map(|(address, bits, hop)| (u128::from(*address) << 96, *bits, *hop)).collect();
        let way = Way::Routes {
            v4: Some(lpm(IpFamily::V4, v4, manner)),
            v6: Some(lpm(IpFamily::V6, v6, manner)),
        };
        let router = router(way);
        let mut line = Line::new("router", router.stages().expect("opens"), 4);
        let frames: Vec<Vec<u8>> = packets.iter().map(|(address, near_route, ttl, len, is_v6)| {
            // A public address, mostly inside a route.
            let address = match routes.get(random.below(routes.len().max(1))) {
                Some((prefix, bits, _)) if *near_route => prefix | address & !masked(u32::MAX, *bits),
                _ => *address,
            };
            let address = if matches!(address >> 24, 0 | 127 | 224..) { 0x0808_0808 } else { address };
            let (ttl, payload) = ((*ttl).max(2), vec![7; *len]);
            match is_v6 {
                false => udp_v4([[9, 1, 2, 3], address.to_be_bytes()], [5, 6], ttl, &payload),
                true => {
                    let mut destination = [0x11; 16];
                    destination[..4].copy_from_slice(&address.to_be_bytes());
                    udp_v6([[0x20; 16], destination], [5, 6], ttl, &payload)
                }
            }
        }).collect();
        let outcomes = through(&mut line, frames.iter().map(|frame| super::support::buf(frame)).collect());
        let destination = |frame: &[u8]| {
            let at = if frame[12] == 8 { 30 } else { 38 };
            u32::from_be_bytes(*frame[at..].first_chunk().expect("an address"))
        };
        // Which of equal prefixes wins is the kernel's: the last.
        let right_hop = |frame: &[u8]| {
            let fits = routes.iter().filter(|(of, bits, _)| masked(destination(frame), *bits) == *of);
            fits.max_by_key(|route| route.1).map(|route| route.2)
        };
        let mut came = outcomes.into_iter();
        let mut unrouted = 0;
        for frame in &frames {
            match right_hop(frame).filter(|hop| *hop < 3) {
                Some(hop) => {
                    let (after, mark) = came.next().expect("one more").expect("forwarded");
                    assert_forwarded(frame, &after, &self::hop(hop as u16));
                    prop_assert_eq!(u32::from(mark.egress), hop);
                }
                None => unrouted += 1,
            }
        }
        let rest: Vec<_> = came.collect();
        prop_assert_eq!(rest.len(), unrouted);
        prop_assert!(rest.iter().all(|outcome| outcome.as_ref().is_err_and(|reason| *reason == Router::NO_ROUTE)));
    }
}

#[test]
fn what_must_not_be_forwarded_is_dropped_by_reason() {
    let route = |frame: &[u8]| {
        let stages = router(Way::Ports(vec![1])).stages().expect("opens");
        one(stages, frame).map(|(_, mark)| mark.egress)
    };
    let (from, to) = ([10, 0, 0, 1], [192, 0, 2, 1]);
    let good = udp_v4([from, to], [1, 2], 2, &[0; 20]);
    assert_eq!(route(&good), Ok(1));
    let changed = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    for (frame, reason) in [
        (udp_v4([from, to], [1, 2], 1, &[]), Router::EXPIRED),
        (udp_v4([from, to], [1, 2], 0, &[]), Router::EXPIRED),
        (
            udp_v4([from, [127, 0, 0, 1]], [1, 2], 9, &[]),
            Router::MARTIAN,
        ),
        (udp_v4([[0; 4], to], [1, 2], 9, &[]), Router::MARTIAN),
        (
            udp_v4([from, [239, 1, 1, 1]], [1, 2], 9, &[]),
            Router::MARTIAN,
        ),
        (udp_v4([from, to], [1, 2], 9, &[0; 1473]), Router::TOO_LONG),
        (changed(0, 1), Router::GROUP),
        (changed(20, 0xff), Router::BAD_CHECKSUM),
        (changed(14, 0x44), Reason::MALFORMED),
        (changed(12, 9), Reason::NOT_IP),
        (good[..40].to_vec(), Reason::TRUNCATED),
        (good[..13].to_vec(), Reason::TRUNCATED),
        (Vec::new(), Reason::TRUNCATED),
        (
            udp_v6([[0x20; 16], [0x20; 16]], [1, 2], 1, &[]),
            Router::EXPIRED,
        ),
        (
            udp_v6([[0x20; 16], [0xff; 16]], [1, 2], 9, &[]),
            Router::MARTIAN,
        ),
        (
            udp_v6([[0; 16], [0x20; 16]], [1, 2], 9, &[]),
            Router::MARTIAN,
        ),
        (
            udp_v6(
                [
                    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                    [0x20; 16],
                ],
                [1, 2],
                9,
                &[],
            ),
            Router::MARTIAN,
        ),
    ] {
        assert_eq!(route(&frame), Err(reason), "{frame:02x?}");
    }
    // 1500 bytes from the IP header on are not too long.
    assert_eq!(route(&udp_v4([from, to], [1, 2], 9, &[0; 1472])), Ok(1));
    // Without an operator for its family, and by a port without a way.
    let none = Way::Routes { v4: None, v6: None };
    let outcome = one(router(none).stages().expect("opens"), &good);
    assert_eq!(outcome.map(|_| ()), Err(Router::NO_ROUTE));
    let outcome = one(
        router(Way::Ports(Vec::new())).stages().expect("opens"),
        &good,
    );
    assert_eq!(outcome.map(|_| ()), Err(Router::NO_ROUTE));
}

#[test]
fn tags_and_options_stay() {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(HERE, THERE)
        .single_vlan(VlanId::try_new(9).expect("small"))
        .ip(etherparse::IpHeaders::Ipv4(
            {
                let mut header =
                    etherparse::Ipv4Header::new(0, 7, etherparse::IpNumber::UDP, [9; 4], [8; 4])
                        .expect("short");
                header.options = [1; 4].into();
                header
            },
            Default::default(),
        ))
        .udp(1, 2);
    builder
        .write(&mut frame, &[3; 30])
        .expect("a Vec takes all");
    let (after, _) =
        one(router(Way::Ports(vec![2])).stages().expect("opens"), &frame).expect("forwarded");
    assert_forwarded(&frame, &after, &hop(2));
    assert_eq!(after[12..18], frame[12..18]);
}

#[test]
fn a_bridge_changes_nothing_or_turns_addresses_around() {
    let frame = udp_v4([[1; 4], [2; 4]], [3, 4], 1, &[5; 9]);
    let (after, mark) =
        one(vec![Box::new(bridge(vec![7], Addresses::Kept))], &frame).expect("passes");
    assert_eq!((after, mark.egress), (frame.clone(), 7));
    let (after, _) =
        one(vec![Box::new(bridge(vec![7], Addresses::Swapped))], &frame).expect("passes");
    assert_eq!(
        (&after[..6], &after[6..12], &after[12..]),
        (&frame[6..12], &frame[..6], &frame[12..])
    );
    let (short, mark) = one(
        vec![Box::new(bridge(Vec::new(), Addresses::Swapped))],
        &[1; 7],
    )
    .expect("passes");
    assert_eq!((short, mark.egress), (vec![1; 7], Mark::NOWHERE));
}
