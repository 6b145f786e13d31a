//! What is written is what another implementation reads, every checksum right, and what is read again.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::frames::{
    V4, V6, before, echo, ethernet, gre, ipv4_frame, ipv6_frame, tag, tcp, udp, v4, v6,
};
use crate::flow::Flags;
use crate::packet::write::{Envelope, Ethernet, Gre, Ipv4, Ipv6, Tcp, Udp, Unwritable};
use crate::packet::{Ends, Frame, Sum, ether_type, protocol};

/// Checks every checksum, computed anew by another implementation.
pub(super) fn has_right_checksums(frame: &[u8]) -> bool {
    let packet = SlicedPacket::from_ethernet(frame).expect("read by another implementation");
    let (pseudo4, pseudo6) = match packet.net.as_ref().expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            if header.to_header().calc_header_checksum() != header.header_checksum() {
                return false;
            }
            (Some((header.source(), header.destination())), None)
        }
        NetSlice::Ipv6(ip) => (
            None,
            Some((ip.header().source(), ip.header().destination())),
        ),
        NetSlice::Arp(_) => panic!("not IP"),
    };
    match (
        packet.transport.as_ref().expect("a transport"),
        pseudo4,
        pseudo6,
    ) {
        (TransportSlice::Tcp(tcp), Some((from, to)), _) => {
            tcp.calc_checksum_ipv4(from, to).expect("short") == tcp.checksum()
        }
        (TransportSlice::Tcp(tcp), _, Some((from, to))) => {
            tcp.calc_checksum_ipv6(from, to).expect("short") == tcp.checksum()
        }
        (TransportSlice::Udp(udp), Some((from, to)), _) => {
            let sum = udp
                .to_header()
                .calc_checksum_ipv4_raw(from, to, udp.payload());
            sum.expect("short") == udp.checksum()
        }
        (TransportSlice::Udp(udp), _, Some((from, to))) => {
            let sum = udp
                .to_header()
                .calc_checksum_ipv6_raw(from, to, udp.payload());
            sum.expect("short") == udp.checksum()
        }
        (TransportSlice::Icmpv4(icmp), ..) => {
            let sum = etherparse::checksum::Sum16BitWords::new().add_slice(icmp.slice());
            sum.ones_complement() == 0
        }
        (TransportSlice::Icmpv6(icmp), _, Some((from, to))) => icmp.is_checksum_valid(from, to),
        other => panic!("{other:?}"),
    }
}

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

proptest! {
    #[test]
    fn packets_are_whole(
        addresses4 in any::<[u32; 2]>(),
        addresses6 in any::<[u128; 2]>(),
        ports in any::<[u16; 2]>(),
        payload in payloads(),
        kind in 0..6,
    ) {
        let (ends4, ends6) = (Ends::V4(addresses4), Ends::V6(addresses6));
        let over4 = |protocol: u8, rest: &[u8]| {
            let mut packet = before(20, rest);
            Ipv4::new(addresses4, protocol).put(&mut packet).expect("room");
            ipv4_frame(&packet)
        };
        let over6 = |protocol: u8, rest: &[u8]| {
            let mut packet = before(40, rest);
            Ipv6::new(addresses6, protocol).put(&mut packet).expect("room");
            ipv6_frame(&packet)
        };
        let options = [3, 3, 7, 1];
        let frame = match kind {
            0 => over4(protocol::UDP, &udp(ends4, ports, &payload)),
            1 => over6(protocol::UDP, &udp(ends6, ports, &payload)),
            2 => over4(protocol::TCP, &tcp(ends4, ports, &options, &payload)),
            3 => over6(protocol::TCP, &tcp(ends6, ports, &options, &payload)),
            4 => over4(protocol::ICMP, &echo(ends4, &payload)),
            _ => over6(protocol::ICMPV6, &echo(ends6, &payload)),
        };
        prop_assert!(has_right_checksums(&frame));
        let read = Frame::read(&frame).expect("sound");
        prop_assert!(read.has_right_checksums());
        prop_assert_eq!(read.payload(), &payload[..]);
        if kind < 4 {
            prop_assert_eq!(read.ports(), Some(ports));
        }
        match kind % 2 {
            0 => prop_assert_eq!(read.ends(), Some(ends4)),
            _ => prop_assert_eq!(read.ends(), Some(ends6)),
        }
        // Whoever flips a bit of IP or transport is found out; of IPv6's header only lengths and addresses are covered.
        let at = match kind % 2 {
            0 => 14 + payload.len() % (frame.len() - 14),
            _ => 22 + payload.len() % (frame.len() - 22),
        };
        let mut spoilt = frame.clone();
        spoilt[at] ^= 0x10;
        // It may say now that it has none.
        let l4 = usize::from(read.places().l4);
        prop_assume!(spoilt[l4 + 6..l4 + 8] != [0, 0]);
        if let Ok(read) = Frame::read(&spoilt) {
            prop_assert!(!read.has_right_checksums());
        }
    }
}

#[test]
fn headers_are_byte_by_byte_what_the_rfcs_draw() {
    // RFC 2784, 2; RFC 2890, 2: checksum, key and sequence, in this order.
    let header = Gre {
        has_checksum: true,
        key: Some(0x0102_0304),
        sequence: Some(5),
        ..Gre::new(ether_type::IPV4)
    };
    let bytes = gre(&header, &[0xab, 0xcd]);
    assert_eq!(bytes[..4], [0xb0, 0, 8, 0]);
    assert_eq!(bytes[6..], [0, 0, 1, 2, 3, 4, 0, 0, 0, 5, 0xab, 0xcd]);
    assert_eq!(Sum::of(&bytes).checksum(), 0);
    // RFC 7348, 5: the mark that the number counts, and the number.
    assert_eq!(super::frames::vxlan(&[]), [8, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0]);
    // RFC 791, 3.1: example 1 is the shortest header; its marks and offset, and the checksum over it.
    let mut packet = before(20, &[1]);
    let header = Ipv4 {
        identification: 111,
        hops: 123,
        traffic_class: 0xb8,
        dont_fragment: true,
        ..Ipv4::new(V4, 1)
    };
    header.put(&mut packet).expect("room");
    assert_eq!(packet[..10], [0x45, 0xb8, 0, 21, 0, 111, 0x40, 0, 123, 1]);
    assert_eq!(Sum::of(&packet[..20]).checksum(), 0);
    // RFC 8200, 3.
    let mut packet = before(40, &[0; 3]);
    let header = Ipv6 {
        traffic_class: 0xb8,
        flow_label: 0xfff1_2345,
        ..Ipv6::new(V6, 59)
    };
    header.put(&mut packet).expect("room");
    assert_eq!(packet[..8], [0x6b, 0x81, 0x23, 0x45, 0, 3, 59, 64]);
    let frame = ethernet(ether_type::TAG, &tag(0x6005, ether_type::ARP, &[]));
    assert_eq!(frame[12..], [0x81, 0, 0x60, 5, 8, 6]);
}

#[test]
fn a_checksum_of_zero_is_written_as_ones() {
    // The checksum that RFC 768 forbids: find the payload that gives it.
    let ends = Ends::V4(V4);
    let datagram = udp(ends, [1, 2], &[0, 0]);
    let rest = u16::from_be_bytes([datagram[6], datagram[7]]);
    let datagram = udp(ends, [1, 2], &rest.to_be_bytes());
    assert_eq!(datagram[6..8], [0xff, 0xff]);
    assert!(has_right_checksums(&ipv4_frame(&v4(
        protocol::UDP,
        &[],
        &datagram
    ))));
    let mut without = before(8, b"data");
    let header = Udp {
        has_checksum: false,
        ..Udp::new([1, 2])
    };
    header.put(&mut without, ends).expect("room");
    assert_eq!(without[6..8], [0, 0]);
    let frame = ipv4_frame(&v4(protocol::UDP, &[], &without));
    assert!(Frame::read(&frame).expect("sound").has_right_checksums());
    // Over IPv6 only in tunnels.
    let frame = ipv6_frame(&v6(protocol::UDP, &without));
    assert!(!Frame::read(&frame).expect("sound").has_right_checksums());
}

#[test]
fn what_does_not_fit_is_not_written() {
    let ends = Ends::V4(V4);
    let ethernet = Ethernet {
        destination: [0; 6],
        source: [0; 6],
        ether_type: 0,
    };
    let too_short = |header_bytes, len| Err(Unwritable::TooShort { header_bytes, len });
    let len = |rest: Result<&mut [u8], Unwritable>| rest.map(|rest| rest.len());
    assert_eq!(len(ethernet.put(&mut [0; 13])), too_short(14, 13));
    assert_eq!(len(ethernet.put(&mut [0; 20])), Ok(6));
    assert_eq!(len(Ipv4::new(V4, 0).put(&mut [0; 19])), too_short(20, 19));
    assert_eq!(
        len(Udp::new([0; 2]).put(&mut [0; 7], ends)),
        too_short(8, 7)
    );
    let options = Tcp {
        options: &[1; 4],
        ..Tcp::new([0; 2], Flags::ACK)
    };
    assert_eq!(len(options.put(&mut [0; 23], ends)), too_short(24, 23));
    let mut large = vec![0; 65_536 + 40];
    let too_long = |len| {
        Err(Unwritable::TooLong {
            len,
            len_max: 0xffff,
        })
    };
    assert_eq!(
        len(Ipv4::new(V4, 0).put(&mut large[..65_536])),
        too_long(65_536)
    );
    assert_eq!(len(Ipv6::new(V6, 0).put(&mut large)), too_long(65_536));
    assert_eq!(
        len(Udp::new([0; 2]).put(&mut large[..65_536], ends)),
        too_long(65_536)
    );
    let wrong = Ipv4 {
        options: &[0; 3],
        ..Ipv4::new(V4, 0)
    };
    assert_eq!(
        len(wrong.put(&mut large[..100])),
        Err(Unwritable::Options(3))
    );
    assert!(!Unwritable::Options(3).to_string().is_empty());
}

/// All headers in front of a datagram are those that are put one by one.
#[test]
fn an_envelope_is_its_headers() {
    for ends in [Ends::V4([1, 2]), Ends::V6([3, 4])] {
        for vlan in [None, Some(0x2005)] {
            let envelope = Envelope {
                macs: [[2; 6], [4; 6]],
                tag: vlan,
                ends,
                protocol: protocol::UDP,
            };
            let mut frame = vec![0; envelope.bytes() + Udp::BYTES + 5];
            let datagram = envelope.put(&mut frame).expect("room");
            assert_eq!(datagram.len(), Udp::BYTES + 5);
            Udp::new([7, 9]).put(datagram, ends).expect("room");
            assert!(has_right_checksums(&frame));
            let read = Frame::read(&frame).expect("a frame");
            assert_eq!(read.ends(), Some(ends));
            assert_eq!(read.link_addresses(), Some([[2; 6], [4; 6]]));
            assert_eq!(
                (read.ports(), read.tags().len()),
                (Some([7, 9]), usize::from(vlan.is_some()))
            );
            assert!(read.tags().iter().all(|tag| Some(tag.control) == vlan));
            let short = envelope.bytes() - 1;
            assert!(envelope.put(&mut frame[..short]).is_err());
        }
    }
}
