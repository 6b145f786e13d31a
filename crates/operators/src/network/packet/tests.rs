//! Packets read by another implementation; what the tests of packet operators share.

use etherparse::{NetHeaders, PacketHeaders, TcpHeader, TransportHeader};
use proptest::prelude::*;

use super::sample::{OPTIONS_V4, OPTIONS_V6};
use super::*;

pub(crate) const ACK: Transport = Transport::ACK;

/// Both versions, with options and without.
pub(crate) fn samples(transport: Transport) -> [Sample<'static>; 4] {
    let plain = [Version::V4, Version::V6].map(|version| Sample::new(version, transport));
    let [v4, v6] = plain;
    let with_v4 = Sample {
        options: OPTIONS_V4,
        ..v4.clone()
    };
    let with_v6 = Sample {
        options: OPTIONS_V6,
        ..v6.clone()
    };
    [v4, v6, with_v4, with_v6]
}

pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = dpb_core::random::SplitMix64::new(seed);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// Reads `packet` with another implementation, which checks lengths and, computed anew, every checksum.
pub(crate) fn received(packet: &[u8]) -> PacketHeaders<'_> {
    let headers = PacketHeaders::from_ip_slice(packet).expect("another implementation reads it");
    let payload = headers.payload.slice();
    match headers.net.as_ref().expect("IP") {
        NetHeaders::Ipv4(ip, _) => {
            assert_eq!(usize::from(ip.total_len), packet.len());
            assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
            match headers.transport.as_ref() {
                Some(TransportHeader::Tcp(tcp)) => {
                    let sum = tcp.calc_checksum_ipv4(ip, payload).expect("short");
                    assert_eq!(sum, tcp.checksum);
                }
                Some(TransportHeader::Udp(udp)) => {
                    let sum = udp.calc_checksum_ipv4(ip, payload).expect("short");
                    assert_eq!(sum, udp.checksum);
                }
                _ => {}
            }
        }
        NetHeaders::Ipv6(ip, _) => {
            assert_eq!(usize::from(ip.payload_length) + 40, packet.len());
            match headers.transport.as_ref() {
                Some(TransportHeader::Tcp(tcp)) => {
                    let sum = tcp.calc_checksum_ipv6(ip, payload).expect("short");
                    assert_eq!(sum, tcp.checksum);
                }
                Some(TransportHeader::Udp(udp)) => {
                    let sum = udp.calc_checksum_ipv6(ip, payload).expect("short");
                    assert_eq!(sum, udp.checksum);
                }
                _ => {}
            }
        }
        NetHeaders::Arp(_) => panic!("not IP"),
    }
    headers
}

/// The TCP header of a packet that another implementation read.
pub(crate) fn tcp<'a>(headers: &'a PacketHeaders<'_>) -> &'a TcpHeader {
    match headers.transport.as_ref() {
        Some(TransportHeader::Tcp(tcp)) => tcp,
        other => panic!("not TCP: {other:?}"),
    }
}

#[test]
fn samples_are_what_another_implementation_reads() {
    for transport in [ACK, Transport::Udp] {
        for sample in samples(transport) {
            for len in [0, 1, 2, 1459, 1460, 9000, 65_000] {
                let payload = bytes(len, 1);
                let packet = sample.packet(&payload);
                let headers = received(&packet);
                assert_eq!(headers.payload.slice(), payload);
                let ours = Packet::parse(&packet).expect("sound");
                assert_eq!(ours.payload().len(), packet.len() - ours.headers().len());
                assert_eq!(ours.protocol(), transport_number(transport));
                assert_eq!(ours.transport_header_bytes(), sample.transport_bytes());
            }
        }
    }
}

fn transport_number(transport: Transport) -> u8 {
    match transport {
        Transport::Tcp { .. } => TCP,
        Transport::Udp => UDP,
    }
}

impl Sample<'_> {
    fn transport_bytes(&self) -> usize {
        let ip = match self.version {
            Version::V4 => IPV4_BYTES,
            Version::V6 => IPV6_BYTES,
        };
        self.headers_bytes() - ip - self.options.len()
    }
}

/// IPv6 with hop-by-hop options, destination options, a routing header, destination options, and then `protocol`.
pub(crate) fn chained(protocol: u8, segments_left: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Sample::new(Version::V6, Transport::Udp).packet(&[]);
    packet.truncate(IPV6_BYTES);
    packet[6] = HOP_BY_HOP;
    packet.extend([DESTINATION, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend([ROUTING, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend([DESTINATION, 0, 4, segments_left, 0, 0, 0, 0]);
    packet.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend(payload);
    let len = (packet.len() - IPV6_BYTES) as u16;
    put_u16(&mut packet, 4, len);
    packet
}

#[test]
fn extension_headers_are_walked() {
    let packet = chained(UDP, 0, &[0; 8]);
    let ours = Packet::parse(&packet).expect("sound");
    assert_eq!(ours.headers().len(), 40 + 8 + 16 + 8 + 8);
    // Up to the routing header (RFC 8200, 4.5), which says that destination options follow.
    assert_eq!(ours.per_fragment_bytes(), 40 + 8 + 16 + 8);
    assert_eq!(ours.next_header_at(), 40 + 8 + 16);
    assert!(!ours.is_routed_on());
    let routed = chained(UDP, 1, &[0; 8]);
    assert!(Packet::parse(&routed).expect("sound").is_routed_on());
    let another = etherparse::SlicedPacket::from_ip(&packet).expect("sound");
    assert_eq!(another.ip_payload().expect("IP").payload.len(), 8);
}

#[test]
fn what_cannot_be_read_is_refused() {
    let packet = Sample::new(Version::V4, ACK).packet(b"payload");
    for len in 0..packet.len() {
        assert_eq!(
            Packet::parse(&packet[..len]).err(),
            Some(PacketError::Malformed)
        );
    }
    let mut longer = packet.clone();
    longer.push(0);
    assert!(Packet::parse(&longer).is_err());
    // A length of zero stands for one that cannot be said, and for no other.
    longer[2..4].fill(0);
    assert!(Packet::parse_send(&longer).is_err());
    let send = Sample::new(Version::V4, ACK).packet(&bytes(70_000, 1));
    assert!(Packet::parse_send(&send).is_ok());
    assert!(Packet::parse(&send).is_err());
    let mut short_header = packet.clone();
    short_header[0] = 0x44;
    assert!(Packet::parse(&short_header).is_err());
    let second = chained(HOP_BY_HOP, 0, &[UDP, 0, 1, 4, 0, 0, 0, 0]);
    assert!(Packet::parse(&second).is_err());
}

#[test]
fn a_burst_ends_where_it_cannot_be_read() {
    let packet = Sample::new(Version::V6, Transport::Udp).packet(b"one");
    let mut burst = packet.repeat(3);
    assert_eq!(
        Burst::new(&burst).collect::<Vec<_>>(),
        vec![Ok(&packet[..]); 3]
    );
    burst.extend([0x60, 0]);
    let last = Burst::new(&burst).last();
    assert_eq!(last, Some(Err(PacketError::Malformed)));
    assert_eq!(Burst::new(&[]).next(), None);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), fix in any::<bool>()) {
        if fix && bytes.len() >= 40 {
            bytes[0] = 0x60;
            let len = bytes.len() as u16 - 40;
            put_u16(&mut bytes, 4, len);
            bytes[6] = [HOP_BY_HOP, ROUTING, DESTINATION, FRAGMENT][usize::from(bytes[7] & 3)];
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!([packet.headers(), packet.payload()].concat(), bytes.clone());
            prop_assert!(packet.per_fragment_bytes() <= packet.headers().len());
        }
        let total: usize = Burst::new(&bytes).filter_map(Result::ok).map(<[u8]>::len).sum();
        prop_assert!(total <= bytes.len());
    }
}

#[test]
fn frames_tuples_and_payloads_are_found_where_another_implementation_put_them() {
    use etherparse::{PacketBuilder, VlanId};
    let ethernet = || PacketBuilder::ethernet2([2; 6], [4; 6]);
    let tagged = || ethernet().single_vlan(VlanId::try_new(5).expect("twelve bits"));
    let (v4, v6) = (([1; 4], [2; 4]), ([1; 16], [2; 16]));
    let mut frames = [const { Vec::new() }; 4];
    let [udp, tcp, padded, icmp] = &mut frames;
    let data = b"user data";
    let built = [
        ethernet()
            .ipv4(v4.0, v4.1, 9)
            .udp(258, 772)
            .write(udp, data),
        tagged()
            .ipv6(v6.0, v6.1, 9)
            .tcp(258, 772, 5, 6)
            .write(tcp, data),
        ethernet()
            .ipv4(v4.0, v4.1, 9)
            .tcp(258, 772, 5, 6)
            .write(padded, &[]),
        ethernet()
            .ipv4(v4.0, v4.1, 9)
            .icmpv4_echo_request(1, 2)
            .write(icmp, data),
    ];
    for built in built {
        built.expect("fits");
    }
    padded.resize(60, 0);
    let ports = &[1, 2, 3, 4][..];
    let rights: [(Vec<u8>, Option<&[u8]>); 4] = [
        ([&v4.0, &v4.1, ports].concat(), Some(data)),
        ([&v6.0, &v6.1, ports].concat(), Some(data)),
        ([&v4.0, &v4.1, ports].concat(), Some(&[])),
        ([v4.0, v4.1].concat(), None),
    ];
    for (frame, (tuple, user_data)) in frames.iter().zip(rights) {
        let packet = Packet::parse_padded(in_frame(frame).expect("IP")).expect("whole");
        assert_eq!(
            (packet.tuple(), packet.user_data()),
            (&tuple[..], user_data)
        );
    }
    // A first fragment: more follow.
    let mut fragment = frames[0].clone();
    fragment[14 + 6] |= 0x20;
    let packet = Packet::parse(&fragment[14..]).expect("whole");
    assert_eq!(
        (packet.tuple(), packet.user_data()),
        (packet.addresses(), None)
    );
    let arp = [[2; 12].as_slice(), &[0x08, 0x06], &[0; 46]].concat();
    for other in [&arp[..], &arp[..13], &[]] {
        assert_eq!(in_frame(other), None);
    }
}
