//! Rewritten packets are byte by byte what is written anew with the new addresses and ports.

use proptest::prelude::*;

use super::frames::{
    before, echo, error, ethernet, ipv4_frame, ipv6_frame, mutated, samples, tag, tcp, udp,
};
use super::writers::has_right_checksums;
use crate::packet::write::{Ipv4, Ipv6};
use crate::packet::{
    Ends, Frame, Headers, Rewriter, Side, Start, Sum, Unchangeable, ether_type, protocol,
};

/// What a packet is of.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Tcp,
    Udp,
    Echo,
}

/// The packet between these, with this many hops.
fn packet(kind: Kind, ends: Ends, ports: [u16; 2], hops: u8, payload: &[u8]) -> Vec<u8> {
    let rest = match kind {
        Kind::Tcp => tcp(ends, ports, &[], payload),
        Kind::Udp => udp(ends, ports, payload),
        Kind::Echo => {
            let mut message = echo(ends, payload);
            message[4..6].copy_from_slice(&ports[0].to_be_bytes());
            message[2..4].fill(0);
            let sum = match ends {
                Ends::V4(_) => Sum::of(&message),
                Ends::V6(_) => ends.pseudo(protocol::ICMPV6, message.len()) + Sum::of(&message),
            };
            message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
            message
        }
    };
    let protocol = match (kind, ends) {
        (Kind::Tcp, _) => protocol::TCP,
        (Kind::Udp, _) => protocol::UDP,
        (Kind::Echo, Ends::V4(_)) => protocol::ICMP,
        (Kind::Echo, Ends::V6(_)) => protocol::ICMPV6,
    };
    over(ends, protocol, hops, &rest)
}

fn over(ends: Ends, protocol: u8, hops: u8, rest: &[u8]) -> Vec<u8> {
    match ends {
        Ends::V4(addresses) => {
            let mut packet = before(20, rest);
            let header = Ipv4 {
                hops,
                ..Ipv4::new(addresses, protocol)
            };
            header.put(&mut packet).expect("room");
            packet
        }
        Ends::V6(addresses) => {
            let mut packet = before(40, rest);
            let header = Ipv6 {
                hops,
                ..Ipv6::new(addresses, protocol)
            };
            header.put(&mut packet).expect("room");
            packet
        }
    }
}

fn frame(packet: &[u8]) -> Vec<u8> {
    match packet[0] >> 4 {
        4 => ipv4_frame(packet),
        _ => ipv6_frame(packet),
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Tcp, Kind::Udp, Kind::Echo])
}

fn ends() -> impl Strategy<Value = [Ends; 2]> {
    prop_oneof![
        any::<[[u32; 2]; 2]>().prop_map(|both| both.map(Ends::V4)),
        any::<[[u128; 2]; 2]>().prop_map(|both| both.map(Ends::V6)),
    ]
}

/// Sets all that there is to set.
fn set(rewriter: &mut Rewriter<'_>, ends: Ends, ports: [u16; 2]) -> Result<(), Unchangeable> {
    match ends {
        Ends::V4([source, destination]) => {
            rewriter.set_address_v4(Side::Source, source)?;
            rewriter.set_address_v4(Side::Destination, destination)?;
        }
        Ends::V6([source, destination]) => {
            rewriter.set_address_v6(Side::Source, source)?;
            rewriter.set_address_v6(Side::Destination, destination)?;
        }
    }
    rewriter.set_port(Side::Destination, ports[1])?;
    rewriter.set_port(Side::Source, ports[0])
}

proptest! {
    #[test]
    fn rewritten_is_written_anew(
        kind in kinds(),
        [before, after] in ends(),
        ports in any::<[[u16; 2]; 2]>(),
        hops in 2_u8..,
        payload in prop::collection::vec(any::<u8>(), 0..100),
        is_tagged in any::<bool>(),
        by_row in any::<bool>(),
    ) {
        let [old, new] = [(before, ports[0], hops), (after, ports[1], hops - 1)].map(|(ends, ports, hops)| {
            let packet = packet(kind, ends, ports, hops, &payload);
            let frame = frame(&packet);
            match is_tagged {
                true => ethernet(ether_type::TAG, &[&[0, 5], &frame[12..]].concat()),
                false => frame,
            }
        });
        let mut bytes = old.clone();
        let mut headers = Headers::new();
        headers.read(&[&old[..]]);
        let mut rewriter = match by_row {
            true => Rewriter::of_row(&headers, 0, &mut bytes),
            false => Rewriter::of_frame(&mut bytes),
        }.expect("may be changed");
        set(&mut rewriter, after, ports[1]).expect("its own version");
        prop_assert!(rewriter.take_hop());
        prop_assert_eq!(&bytes, &new);
        prop_assert!(has_right_checksums(&bytes));
    }

    #[test]
    fn quoted_packets_are_rewritten(
        kind in prop::sample::select(vec![Kind::Tcp, Kind::Udp]),
        addresses in any::<[[u32; 2]; 2]>(),
        ports in any::<[[u16; 2]; 2]>(),
        payload in prop::collection::vec(any::<u8>(), 0..60),
        quoted_bytes in 28_usize..80,
        outer in any::<[u32; 2]>(),
    ) {
        // Half of TCP's checksum is quoted, which does not follow.
        prop_assume!(quoted_bytes != 37);
        let message = |i: usize| {
            let packet = packet(kind, Ends::V4(addresses[i]), ports[i], 9, &payload);
            let mut message = error(3, &packet[..quoted_bytes.min(packet.len())]);
            let sum = Sum::of(&message).checksum();
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            ipv4_frame(&over(Ends::V4(outer), protocol::ICMP, 64, &message))
        };
        let (mut bytes, new) = (message(0), message(1));
        let mut rewriter = Rewriter::of_frame(&mut bytes).expect("may be changed");
        rewriter.set_quoted_address_v4(Side::Source, addresses[1][0]).expect("IPv4");
        rewriter.set_quoted_port(Side::Source, ports[1][0]).expect("ports");
        rewriter.set_quoted_address_v4(Side::Destination, addresses[1][1]).expect("IPv4");
        rewriter.set_quoted_port(Side::Destination, ports[1][1]).expect("ports");
        prop_assert_eq!(&bytes, &new);
        let quoted = Frame::read(&bytes).expect("sound").quoted().expect("one");
        let tuple = quoted.tuple_v4().expect("IPv4");
        prop_assert_eq!((tuple.addresses, tuple.ports), (addresses[1], ports[1]));
    }

    #[test]
    fn whatever_can_be_changed_reads_as_it_was_changed(
        frame in mutated(),
        address in any::<u32>(),
        wide in any::<u128>(),
        port in any::<u16>(),
    ) {
        let before = Frame::read(&frame).ok();
        let was_right = before.is_some_and(|frame| frame.has_right_checksums());
        let mut bytes = frame.clone();
        let Ok(mut rewriter) = Rewriter::of_frame(&mut bytes) else {
            return Ok(());
        };
        let before = before.expect("it was read");
        let is_v4 = matches!(before.ends(), Some(Ends::V4(_)));
        prop_assert_eq!(rewriter.set_address_v4(Side::Source, address).is_ok(), is_v4);
        prop_assert_eq!(rewriter.set_address_v6(Side::Destination, wide).is_ok(), !is_v4);
        let has_port = rewriter.set_port(Side::Destination, port).is_ok();
        // The same of whatever is quoted.
        let quoted = rewriter.set_quoted_address_v4(Side::Destination, address);
        let _ = rewriter.set_quoted_port(Side::Source, port);
        let after = Frame::read(&bytes).expect("as readable as it was");
        // A datagram that becomes one of a tunnel, or none any more, may do with or without a checksum.
        if before.tunnel().is_some() == after.tunnel().is_some() {
            // A message of ICMP that is nothing but zeroes has the other zero for a checksum, which a change takes for this one.
            let is_zero = after.icmp() == Some([0; 2]) && (port == 0 || !was_right);
            prop_assert!(after.has_right_checksums() == was_right || is_zero);
        }
        prop_assert_eq!(after.places(), before.places());
        match after.ends().expect("IP") {
            Ends::V4([source, _]) => prop_assert_eq!(source, address),
            Ends::V6([_, destination]) => prop_assert_eq!(destination, wide),
        }
        if let (true, Some(ports)) = (has_port, after.ports()) {
            prop_assert_eq!(ports[1], port);
        }
        if quoted.is_ok() {
            let Some(Ends::V4(addresses)) = after.quoted().expect("one").ends() else {
                return Err(TestCaseError::fail("of IPv4"));
            };
            prop_assert_eq!(addresses[1], address);
        }
    }
}

#[test]
fn what_must_stay_is_left() {
    let sample = |name: &str| {
        let mut samples = samples().into_iter();
        samples.find(|(other, _)| *other == name).expect("there").1
    };
    let refused = |name: &str| Rewriter::of_frame(&mut sample(name)).err();
    assert_eq!(refused("arp"), Some(Unchangeable::NotIp));
    assert_eq!(refused("authentication"), Some(Unchangeable::Authenticated));
    assert_eq!(refused("hop by hop"), Some(Unchangeable::Routed));
    assert!(matches!(
        refused("four tags"),
        Some(Unchangeable::Refused(_))
    ));

    // Fragments: the first one has the checksum, the others nothing of the transport.
    for name in ["first fragment", "later fragment", "sctp", "esp"] {
        let mut bytes = sample(name);
        let old = bytes.clone();
        let mut rewriter = Rewriter::of_frame(&mut bytes).expect("has addresses");
        assert_eq!(
            rewriter.set_port(Side::Source, 1),
            Err(Unchangeable::NoPorts)
        );
        rewriter
            .set_address_v4(Side::Source, 0x0102_0304)
            .expect("IPv4");
        let checksum_at = 34 + 6;
        assert_eq!(
            bytes[checksum_at..][..2] != old[checksum_at..][..2],
            name == "first fragment"
        );
    }
    // An authentication header covers the addresses of a whole datagram, however it is cut.
    for field in [[0x20, 0], [0x20, 9], [0, 9]] {
        let mut bytes = sample("authentication");
        bytes[20..22].copy_from_slice(&field);
        let refused = Rewriter::of_frame(&mut bytes).err();
        assert_eq!(refused, Some(Unchangeable::Authenticated));
        let mut headers = Headers::new();
        headers.read(&[&bytes[..]]);
        let refused = Rewriter::of_row(&headers, 0, &mut bytes).err();
        assert_eq!(refused, Some(Unchangeable::Authenticated));
    }
    let mut bytes = sample("first fragment6");
    bytes[54] = protocol::AUTHENTICATION;
    let refused = Rewriter::of_frame(&mut bytes).err();
    assert_eq!(refused, Some(Unchangeable::Authenticated));
    let mut tiny = sample("first fragment");
    tiny[16..18].copy_from_slice(&[0, 24]);
    let tiny = Rewriter::of_frame(&mut tiny).err();
    assert_eq!(tiny, Some(Unchangeable::ChecksumCut));

    // No checksum stays none, and a wrong one stays wrong.
    let mut bytes = sample("udp");
    bytes[40..42].fill(0);
    let mut rewriter = Rewriter::of_frame(&mut bytes).expect("may be changed");
    rewriter.set_address_v4(Side::Source, 1).expect("IPv4");
    rewriter.set_port(Side::Source, 1).expect("UDP");
    assert_eq!(
        rewriter.set_address_v6(Side::Source, 1),
        Err(Unchangeable::Version)
    );
    assert_eq!(
        rewriter.set_quoted_port(Side::Source, 1),
        Err(Unchangeable::NothingQuoted)
    );
    assert_eq!(bytes[40..42], [0, 0]);
    assert!(Frame::read(&bytes).expect("sound").has_right_checksums());

    // The last hop.
    let mut bytes = sample("udp6");
    bytes[21] = 1;
    let old = bytes.clone();
    assert!(!Rewriter::of_frame(&mut bytes).expect("IPv6").take_hop());
    assert_eq!(bytes, old);
    // Of a TUN device.
    let mut packet = sample("udp")[14..].to_vec();
    let mut rewriter = Rewriter::of_frame_from(&mut packet, Start::Ipv4).expect("IPv4");
    rewriter.set_address_v4(Side::Source, 7).expect("IPv4");
    assert!(
        Frame::read_from(&packet, Start::Ipv4)
            .expect("sound")
            .has_right_checksums()
    );
}

#[test]
fn a_quoted_checksum_that_is_not_quoted_is_no_matter() {
    // Eight bytes of a segment do not reach its checksum.
    let packet = packet(Kind::Tcp, Ends::V4([1, 2]), [3, 4], 9, b"");
    let mut message = error(11, &packet[..28]);
    let sum = Sum::of(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = ethernet(
        ether_type::TAG,
        &tag(
            1,
            ether_type::IPV4,
            &over(Ends::V4([5, 6]), protocol::ICMP, 9, &message),
        ),
    );
    let mut rewriter = Rewriter::of_frame(&mut bytes).expect("may be changed");
    rewriter
        .set_quoted_port(Side::Destination, 77)
        .expect("it has ports");
    let frame = Frame::read(&bytes).expect("sound");
    assert!(frame.has_right_checksums());
    assert_eq!(frame.quoted().expect("one").ports(), Some([3, 77]));
}
