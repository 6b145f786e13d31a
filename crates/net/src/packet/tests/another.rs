//! Frames as another implementation (etherparse) reads them: where both read a frame they say the same of it, and where one refuses it there is a reason,
//! which this file lists.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::frames::{mutated, samples};
use crate::packet::{Ends, Frame, Refusal, ether_type, protocol};

const MACSEC: u16 = 0x88e5;
const IGMP: u8 = 2;

/// True if `bytes` are IPv6 behind tags, and say that the packet has no length: a jumbogram or one that segmentation is to cut. The other one takes the rest of the frame
/// for it.
fn says_no_length(frame: &Frame<'_>) -> bool {
    let l3 = usize::from(frame.places().l3);
    matches!(frame.ends(), Some(Ends::V6(_))) && frame.bytes()[l3 + 4..l3 + 6] == [0, 0]
}

/// True if a frame that was refused says so.
fn is_without_length(bytes: &[u8]) -> bool {
    let mut at = 12;
    while matches!(bytes[at..at + 2], [0x81, 0] | [0x88, 0xa8] | [0x91, 0]) {
        at += 4;
    }
    bytes[at..at + 2] == [0x86, 0xdd] && bytes[at + 6..at + 8] == [0, 0]
}

/// Compares what both say of a frame.
fn compare(bytes: &[u8]) {
    match (Frame::read(bytes), SlicedPacket::from_ethernet(bytes)) {
        (Ok(ours), Ok(theirs)) => compare_fields(&ours, &theirs),
        (Err(_), Err(_)) => {}
        (Ok(ours), Err(theirs)) => {
            let is_theirs_alone = ours.ether_type() == ether_type::ARP
                || ours.ether_type() == MACSEC
                || says_no_length(&ours)
                // It walks the headers of fragments other than the first, which are payload.
                || ours.fragment().is_some()
                // It reads IGMP, messages of fixed lengths of ICMP, and each ICMP over each version of IP.
                || matches!(ours.protocol(), Some(IGMP | protocol::ICMP | protocol::ICMPV6));
            assert!(
                is_theirs_alone,
                "refused by the other one: {theirs}; {ours:?}"
            );
        }
        (Err(ours), Ok(theirs)) => {
            let is_ours_alone = match ours {
                // It stops at its third tag, and reads no header of these protocols.
                Refusal::Tags | Refusal::Sctp | Refusal::Gre => true,
                // Of IPv4's authentication headers it reads one, and takes the next for payload.
                Refusal::Extension => theirs
                    .ip_payload()
                    .is_some_and(|payload| payload.ip_number.0 == protocol::AUTHENTICATION),
                // A length of zero is for it the rest of the packet.
                Refusal::Udp => match &theirs.transport {
                    Some(TransportSlice::Udp(udp)) => udp.length() == 0,
                    _ => false,
                },
                _ => false,
            } || is_without_length(bytes);
            assert!(is_ours_alone, "refused by us alone: {ours}; {theirs:?}");
        }
    }
}

fn compare_fields(ours: &Frame<'_>, theirs: &SlicedPacket<'_>) {
    if theirs
        .link_exts
        .iter()
        .any(|header| header.ether_payload().is_none())
        || ours.ether_type() == MACSEC
    {
        return;
    }
    let their_ids: Vec<_> = theirs.vlan_ids().iter().map(|id| id.value()).collect();
    let our_ids: Vec<_> = ours.tags().iter().map(|tag| tag.id()).collect();
    assert_eq!(our_ids, their_ids);
    let payload = theirs.ether_payload().expect("Ethernet");
    assert_eq!(ours.ether_type(), payload.ether_type.0);
    let l3 = usize::from(ours.places().l3);
    assert_eq!(ours.bytes()[l3..].as_ptr(), payload.payload.as_ptr());
    let is_same_net = match (&theirs.net, ours.ends()) {
        (None | Some(NetSlice::Arp(_)), None) => return,
        (Some(NetSlice::Ipv4(ip)), Some(Ends::V4(addresses))) => {
            let header = ip.header();
            let is_authenticated = !ip.extensions().is_empty();
            let has_options = is_authenticated || !header.options().is_empty();
            // Of a fragment it walks what is payload.
            let is_same = ip.is_payload_fragmented()
                || (ours.has_options(), ours.is_authenticated()) == (has_options, is_authenticated);
            is_same && addresses.map(u32::to_be_bytes) == [header.source(), header.destination()]
        }
        (Some(NetSlice::Ipv6(ip)), Some(Ends::V6(addresses))) => {
            let header = ip.header();
            addresses.map(u128::to_be_bytes) == [header.source(), header.destination()]
        }
        _ => false,
    };
    assert!(is_same_net, "{ours:?} {theirs:?}");
    if says_no_length(ours) {
        return;
    }
    assert_eq!(ours.fragment().is_some(), theirs.is_ip_payload_fragmented());
    if ours.fragment().is_some() {
        return;
    }
    let payload = theirs.ip_payload().expect("IP");
    let l4 = usize::from(ours.places().l4);
    let ours_behind = ours.ip().expect("IP").len() - (l4 - l3);
    assert_eq!(ours.protocol(), Some(payload.ip_number.0));
    assert_eq!(ours.bytes()[l4..].as_ptr(), payload.payload.as_ptr());
    assert_eq!(ours_behind, payload.payload.len());
    compare_transport(ours, theirs);
}

fn compare_transport(ours: &Frame<'_>, theirs: &SlicedPacket<'_>) {
    let same_payload = |payload: &[u8]| {
        assert_eq!(ours.payload().as_ptr_range(), payload.as_ptr_range());
    };
    match &theirs.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            let ports = [tcp.source_port(), tcp.destination_port()];
            assert_eq!(ours.ports(), Some(ports));
            let flags = [
                tcp.fin(),
                tcp.syn(),
                tcp.rst(),
                tcp.psh(),
                tcp.ack(),
                tcp.urg(),
                tcp.ece(),
                tcp.cwr(),
            ];
            let mut byte = 0;
            for (i, flag) in flags.into_iter().enumerate() {
                byte |= u8::from(flag) << i;
            }
            assert_eq!(ours.tcp_flags().map(|flags| flags.0), Some(byte));
            same_payload(tcp.payload());
        }
        Some(TransportSlice::Udp(udp)) => {
            let ports = [udp.source_port(), udp.destination_port()];
            assert_eq!((ours.ports(), ours.tcp_flags()), (Some(ports), None));
            same_payload(udp.payload());
        }
        Some(TransportSlice::Icmpv4(icmp)) if matches!(ours.ends(), Some(Ends::V4(_))) => {
            assert_eq!(ours.icmp(), Some([icmp.type_u8(), icmp.code_u8()]));
        }
        Some(TransportSlice::Icmpv6(icmp)) if matches!(ours.ends(), Some(Ends::V6(_))) => {
            assert_eq!(ours.icmp(), Some([icmp.type_u8(), icmp.code_u8()]));
        }
        _ => {
            let is_unread = ours.ports().is_none() || ours.protocol() == Some(protocol::SCTP);
            assert!(is_unread && ours.icmp().is_none(), "{ours:?}");
        }
    }
}

#[test]
fn samples_are_read_alike() {
    for (name, frame) in samples() {
        println!("{name}");
        compare(&frame);
        for len in 0..frame.len() {
            compare(&frame[..len]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8192))]

    #[test]
    fn frames_are_read_alike(frame in mutated()) {
        compare(&frame);
    }
}
