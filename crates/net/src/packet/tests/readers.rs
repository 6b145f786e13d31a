//! Both readers on every input: they agree, refuse what is cut short, and never panic.

use proptest::prelude::*;

use super::frames::{V4, ethernet, generated, ipv4_frame, mutated, samples, tag, udp, v4, vxlan};
use crate::flow::{Direction, Key};
use crate::packet::{
    Ends, Facts, Frame, Headers, Marks, Places, Refusal, Start, TunnelKind, Verdict, ether_type,
    plain, protocol,
};

fn sample(name: &str) -> Vec<u8> {
    let mut samples = samples().into_iter();
    samples.find(|(other, _)| *other == name).expect("there").1
}

fn read(frame: &[u8]) -> Frame<'_> {
    Frame::read(frame).expect("sound")
}

/// Read as far as IP, a frame is what it is when all is read, and no transport can be why it is refused.
fn network_agrees(frame: &[u8]) {
    let (all, network) = (
        Frame::read(frame),
        Frame::read_network(frame, Start::Ethernet),
    );
    let network = match (all, network) {
        (Err(refusal), Err(other)) => return assert_eq!(refusal, other),
        (Ok(_), Err(other)) => panic!("{other}"),
        (_, Ok(network)) => network,
    };
    assert!(!network.has_transport() && network.tunnel().is_none());
    let Some(packet) = network.ip() else {
        return;
    };
    let places = network.places();
    assert_eq!(places.l4, places.payload);
    assert_eq!(
        usize::from(places.payload_bytes),
        packet.len() - usize::from(places.l4 - places.l3)
    );
    if let Ok(all) = all {
        assert_eq!((places.l3, places.l4), (all.places().l3, all.places().l4));
        assert_eq!((network.ip(), network.ends()), (all.ip(), all.ends()));
        assert_eq!(
            (network.protocol(), network.fragment()),
            (all.protocol(), all.fragment())
        );
        assert_eq!(network.has_options(), all.has_options());
        assert_eq!(network.is_authenticated(), all.is_authenticated());
    }
}

/// What a row must say, by the reader of single frames.
fn agrees(headers: &Headers, row: usize, frame: Option<Result<Frame<'_>, Refusal>>) {
    let (facts, places) = (headers.facts()[row], headers.places()[row]);
    let frame = match frame {
        Some(Ok(frame)) => frame,
        other => {
            let verdict = match other {
                Some(Err(refusal)) => Verdict::Refused(refusal),
                _ => Verdict::Absent,
            };
            assert_eq!((facts.verdict, places), (verdict, Places::default()));
            assert_eq!(
                (facts.protocol, facts.marks, facts.flags()),
                (0, Marks(0), None)
            );
            assert!(headers.addresses(row).is_none());
            return;
        }
    };
    assert_eq!(places, frame.places());
    let verdict = match frame.ends() {
        None => Verdict::Other,
        Some(Ends::V4(_)) => Verdict::Ipv4,
        Some(Ends::V6(_)) => Verdict::Ipv6,
    };
    assert_eq!(facts.verdict, verdict);
    assert_eq!(facts.protocol, frame.protocol().unwrap_or(0));
    assert_eq!(facts.flags(), frame.tcp_flags());
    assert_eq!(headers.tuple_v4(row), frame.tuple_v4());
    assert_eq!(headers.tuple_v6(row), frame.tuple_v6());
    assert_eq!(headers.addresses(row), frame.addresses());
    let direction = (frame.tuple_v4().map(|tuple| tuple.key().1))
        .or_else(|| frame.tuple_v6().map(|tuple| tuple.key().1));
    for (mark, is_set) in [
        (Marks::TRANSPORT, frame.has_transport()),
        (Marks::REVERSED, direction == Some(Direction::Down)),
        (Marks::TAGGED, !frame.tags().is_empty()),
        (Marks::OPTIONS, frame.has_options()),
        (Marks::FRAGMENT, frame.fragment().is_some()),
        (Marks::TUNNEL, frame.tunnel().is_some()),
        (Marks::AUTHENTICATED, frame.is_authenticated()),
        (Marks::ROUTED, frame.is_routed_on()),
    ] {
        assert_eq!(facts.marks.has(mark), is_set, "{mark:?}");
    }
}

/// Reads a burst, and what is inside of tunnels, and compares each row.
fn all_agree(frames: &[Vec<u8>], outer: &mut Headers, inner: &mut Headers) {
    outer.read(frames);
    inner.read_inner(frames, outer);
    assert_eq!((outer.len(), inner.len()), (frames.len(), frames.len()));
    for (row, frame) in frames.iter().enumerate() {
        network_agrees(frame);
        let single = Frame::read(frame);
        agrees(outer, row, Some(single));
        assert_eq!(outer.facts()[row].bytes as usize, frame.len());
        let inside = single.ok().and_then(|frame| frame.inner());
        agrees(inner, row, inside);
    }
    for headers in [&*outer, inner] {
        lists_agree(headers);
    }
}

/// Lists, keys and hash inputs are the rows'.
fn lists_agree(headers: &Headers) {
    let rows = |verdict| {
        let of =
            move |(row, facts): (usize, &Facts)| (facts.verdict == verdict).then_some(row as u32);
        headers
            .facts()
            .iter()
            .enumerate()
            .filter_map(of)
            .collect::<Vec<_>>()
    };
    assert_eq!(headers.ipv4(), rows(Verdict::Ipv4));
    assert_eq!(headers.ipv6(), rows(Verdict::Ipv6));
    let (mut seen, mut input) = (Vec::new(), Vec::new());
    headers.seen_v4(&mut seen);
    headers.hash_input_v4(&mut input);
    assert_eq!(
        (seen.len(), input.len()),
        (headers.ipv4().len(), 12 * seen.len())
    );
    for ((row, seen), input) in headers
        .ipv4()
        .iter()
        .zip(&seen)
        .zip(input.as_chunks::<12>().0)
    {
        let facts = headers.facts()[*row as usize];
        let tuple = headers.tuple_v4(*row as usize).expect("of IPv4");
        assert_eq!((seen.key, seen.direction), tuple.key());
        assert_eq!((seen.bytes, seen.flags), (facts.bytes, facts.flags()));
        let addresses = tuple.addresses.map(u32::to_be_bytes);
        assert_eq!(input[..8], *addresses.as_flattened());
        assert_eq!(input[8..], hashed(facts, tuple.ports));
    }
    let (mut seen, mut input) = (Vec::new(), Vec::new());
    headers.seen_v6(&mut seen);
    headers.hash_input_v6(&mut input);
    assert_eq!(
        (seen.len(), input.len()),
        (headers.ipv6().len(), 36 * seen.len())
    );
    for ((row, seen), input) in headers
        .ipv6()
        .iter()
        .zip(&seen)
        .zip(input.as_chunks::<36>().0)
    {
        let facts = headers.facts()[*row as usize];
        let tuple = headers.tuple_v6(*row as usize).expect("of IPv6");
        assert_eq!((seen.key, seen.direction), tuple.key());
        assert_eq!((seen.bytes, seen.flags), (facts.bytes, facts.flags()));
        let addresses = tuple.addresses.map(u128::to_be_bytes);
        assert_eq!(input[..32], *addresses.as_flattened());
        assert_eq!(input[32..], hashed(facts, tuple.ports));
    }
}

fn hashed(facts: Facts, ports: [u16; 2]) -> [u8; 4] {
    let is_hashed = facts.marks.has(Marks::TRANSPORT)
        && matches!(facts.protocol, protocol::TCP | protocol::UDP);
    let ports = if is_hashed { ports } else { [0; 2] };
    let [[a, b], [c, d]] = ports.map(u16::to_be_bytes);
    [a, b, c, d]
}

#[test]
fn samples_agree_whole_and_at_every_truncation() {
    let (mut outer, mut inner) = (Headers::new(), Headers::new());
    for (name, frame) in samples() {
        println!("{name}");
        let cuts: Vec<_> = (0..=frame.len()).map(|len| frame[..len].to_vec()).collect();
        all_agree(&cuts, &mut outer, &mut inner);
        let Ok(whole) = Frame::read(&frame) else {
            assert_eq!(name, "four tags");
            continue;
        };
        // Bytes that must be there: all of an IP packet, of other frames the headers.
        let l3 = usize::from(whole.places().l3);
        let needed = l3 + whole.ip().map_or(0, <[u8]>::len);
        for (len, cut) in cuts.iter().enumerate() {
            assert_eq!(Frame::read(cut).is_ok(), len >= needed, "{len} bytes");
        }
    }
}

#[test]
fn most_packets_take_the_short_way() {
    for name in ["udp", "tcp", "tcp padded", "tag"] {
        let frame = sample(name);
        let (kind, l3) = plain::link(&frame).expect("Ethernet");
        assert_eq!(kind, ether_type::IPV4);
        assert!(plain::v4(&frame, l3).is_some(), "{name}");
    }
    for name in ["udp6", "tcp6", "tag tcp6"] {
        let frame = sample(name);
        let (kind, l3) = plain::link(&frame).expect("Ethernet");
        assert_eq!(kind, ether_type::IPV6);
        assert!(plain::v6(&frame, l3).is_some(), "{name}");
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let change = |name: &str, at: usize, bytes: &[u8]| {
        let mut frame = sample(name);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        Frame::read(&frame).err()
    };
    let cut = |name: &str, len: usize| Frame::read(&sample(name)[..len]).err();
    assert_eq!(cut("udp", 13), Some(Refusal::Ethernet));
    assert_eq!(cut("tag", 17), Some(Refusal::Tag));
    assert_eq!(cut("four tags", 60), Some(Refusal::Tags));
    assert_eq!(change("udp", 14, &[0x65]), Some(Refusal::Version));
    assert_eq!(change("udp6", 14, &[0x45]), Some(Refusal::Version));
    assert_eq!(cut("udp", 14), Some(Refusal::IpHeader));
    assert_eq!(cut("udp", 33), Some(Refusal::IpHeader));
    assert_eq!(change("udp", 14, &[0x44]), Some(Refusal::IpHeader));
    assert_eq!(cut("udp6", 53), Some(Refusal::IpHeader));
    assert_eq!(cut("udp", 50), Some(Refusal::IpLength));
    assert_eq!(change("udp", 16, &[0, 19]), Some(Refusal::IpLength));
    assert_eq!(cut("udp6", 60), Some(Refusal::IpLength));
    assert_eq!(change("hop by hop", 55, &[9]), Some(Refusal::Extension));
    assert_eq!(change("hop by hop", 54, &[0]), Some(Refusal::Extension));
    assert_eq!(change("authentication", 35, &[0]), Some(Refusal::Extension));
    // The header's length, in units of four bytes.
    assert_eq!(change("tcp", 46, &[4 << 4]), Some(Refusal::Tcp));
    assert_eq!(change("tcp", 46, &[6 << 4]), Some(Refusal::Tcp));
    assert_eq!(change("udp", 38, &[0, 7]), Some(Refusal::Udp));
    assert_eq!(change("udp", 38, &[0, 200]), Some(Refusal::Udp));
    assert_eq!(change("sctp", 16, &[0, 31]), Some(Refusal::Sctp));
    assert_eq!(change("echo", 16, &[0, 27]), Some(Refusal::Icmp));
    assert_eq!(change("gre with all", 16, &[0, 32]), Some(Refusal::Gre));
    // A jumbogram (RFC 2675) says that it has no length.
    assert_eq!(change("long chain", 18, &[0, 0]), Some(Refusal::Extension));
    let long = ethernet(0x88cc, &vec![0; 65_536]);
    assert_eq!(Frame::read(&long).err(), Some(Refusal::TooLong));
    for (i, refusal) in Refusal::ALL.into_iter().enumerate() {
        assert_eq!(refusal as usize, i);
        assert!(!refusal.to_string().is_empty());
    }
}

#[test]
fn the_largest_packets_are_read() {
    let datagram = udp(Ends::V4(V4), [1, 2], &vec![7; 65_535 - 28]);
    let frame = ipv4_frame(&v4(protocol::UDP, &[], &datagram));
    let (mut outer, mut inner) = (Headers::new(), Headers::new());
    all_agree(std::slice::from_ref(&frame), &mut outer, &mut inner);
    assert_eq!(read(&frame).payload().len(), 65_535 - 28);
    // A tunnel around it, whose inside ends beyond 64 KiB.
    let datagram = udp(Ends::V4(V4), [1, 2], &vec![7; 65_535 - 28 - 8 - 14 - 28]);
    let inside = ipv4_frame(&v4(protocol::UDP, &[], &datagram));
    let around = udp(Ends::V4(V4), [1, 4789], &vxlan(&inside));
    let frame = ipv4_frame(&v4(protocol::UDP, &[], &around));
    assert_eq!(frame.len(), 14 + 65_535);
    all_agree(&[frame], &mut outer, &mut inner);
    assert_eq!(inner.facts()[0].verdict, Verdict::Ipv4);
}

#[test]
fn fields_are_read() {
    let frame = sample("two tags");
    let read_frame = read(&frame);
    let ids: Vec<_> = read_frame.tags().iter().map(|tag| tag.id()).collect();
    assert_eq!(ids, [100, 9]);
    assert_eq!(read_frame.tags()[0].ether_type, ether_type::SERVICE_TAG);
    let priority = sample("tag");
    assert_eq!(
        (
            read(&priority).tags()[0].priority(),
            read(&priority).tags()[0].id()
        ),
        (3, 5)
    );
    let addresses = read_frame.link_addresses().expect("Ethernet");
    assert_eq!(addresses, [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]]);

    let frame = sample("later fragment");
    let fragment = read(&frame).fragment().expect("one");
    assert_eq!(
        (fragment.identification, fragment.start, fragment.more),
        (7, 1480, false)
    );
    assert_eq!(
        (read(&frame).ports(), read(&frame).protocol()),
        (None, Some(protocol::UDP))
    );
    let frame = sample("first fragment6");
    let fragment = read(&frame).fragment().expect("one");
    assert_eq!(
        (fragment.identification, fragment.start, fragment.more),
        (9, 0, true)
    );
    assert!(read(&sample("atomic fragment6")).fragment().is_none());
    assert_eq!(read(&sample("atomic fragment6")).ports(), Some([1024, 53]));
    assert!(read(&sample("hop by hop")).is_routed_on());
    assert!(read(&sample("authentication6")).is_authenticated());
    assert_eq!(
        read(&sample("authentication6")).ports(),
        Some([443, 50_000])
    );
    assert_eq!(read(&sample("echo")).icmp(), Some([8, 0]));
    assert_eq!(read(&sample("esp")).payload().len(), 40);

    // Of ICMP the identifier is the port of both ends, so that question and answer are of one flow.
    let question = sample("echo");
    let tuple = read(&question).tuple_v4().expect("IPv4");
    assert_eq!(tuple.ports, [0x1234; 2]);
    let error = sample("short error");
    assert_eq!(read(&error).tuple_v4().expect("IPv4").ports, [0; 2]);
}

#[test]
fn insides_of_tunnels_are_read() {
    let cases = [
        ("gre", TunnelKind::Gre, None, "udp"),
        ("gre with all", TunnelKind::Gre, Some(77), "tcp6"),
        ("gre of frames", TunnelKind::Gre, Some(256), "tcp"),
        ("ip in ip", TunnelKind::Ip, None, "udp"),
        ("6 in 4", TunnelKind::Ip, None, "udp6"),
        ("4 in 6", TunnelKind::Ip, None, "tcp"),
        ("vxlan", TunnelKind::Vxlan, Some(0x0a0b0c), "udp"),
        ("vxlan6", TunnelKind::Vxlan, Some(0x0a0b0c), "tag tcp6"),
        ("geneve", TunnelKind::Geneve, Some(0x0a0b0c), "udp6"),
        ("geneve of ip", TunnelKind::Geneve, Some(0x0a0b0c), "tcp"),
    ];
    for (name, kind, id, inside) in cases {
        let frame = sample(name);
        let tunnel = read(&frame).tunnel().expect(name);
        assert_eq!((tunnel.kind, tunnel.id), (kind, id), "{name}");
        let inner = read(&frame).inner().expect(name).expect(name);
        let alone = sample(inside);
        let alone = read(&alone);
        assert_eq!(inner.ip(), alone.ip(), "{name}");
        assert_eq!(
            (inner.ports(), inner.payload()),
            (alone.ports(), alone.payload())
        );
        assert_eq!(inner.ether_type(), alone.ether_type());
        assert_eq!(
            inner.link_addresses().is_some(),
            tunnel.start == Start::Ethernet
        );
    }
    assert!(read(&sample("pptp")).tunnel().is_none());
    // A tunnel in a tunnel.
    let frame = sample("tunnel in tunnel");
    let inner = read(&frame).inner().expect("VXLAN").expect("sound");
    let innermost = inner.inner().expect("GRE").expect("sound");
    assert_eq!(innermost.payload(), b"a question of DNS");
    assert!(innermost.inner().is_none());
    // Without the mark that its number counts, it is a datagram and nothing more.
    let mut frame = sample("vxlan");
    frame[42] = 0;
    assert!(read(&frame).tunnel().is_none());
    // What is inside can be refused while the packet itself is not.
    let mut frame = sample("vxlan");
    frame[50 + 14] = 0x65;
    assert_eq!(
        read(&frame).inner().expect("VXLAN").err(),
        Some(Refusal::Version)
    );
}

#[test]
fn packets_that_errors_quote_are_read() {
    let frame = sample("error");
    let quoted = read(&frame).quoted().expect("one");
    assert_eq!(quoted.tuple_v4(), read(&sample("udp")).tuple_v4());
    assert_eq!(quoted.ports(), Some([1024, 53]));
    // Eight bytes of the segment are enough, but its flags are not there.
    let frame = sample("short error");
    let quoted = read(&frame).quoted().expect("one");
    assert_eq!(quoted.tuple_v4(), read(&sample("tcp")).tuple_v4());
    assert_eq!((quoted.payload().len(), quoted.tcp_flags()), (8, None));
    let frame = sample("error6");
    let quoted = read(&frame).quoted().expect("one");
    assert_eq!(quoted.tuple_v6(), read(&sample("tcp6")).tuple_v6());
    for name in ["echo", "echo6", "udp", "arp"] {
        assert!(read(&sample(name)).quoted().is_none());
    }
    // Less than a header is quoted.
    let short = ipv4_frame(&v4(
        protocol::ICMP,
        &[],
        &super::frames::error(3, &[0x45; 19]),
    ));
    assert!(read(&short).quoted().is_none());
}

#[test]
fn a_reader_starts_where_it_is_told() {
    let frame = sample("udp6");
    let packet = Frame::read_from(&frame[14..], Start::Ipv6).expect("sound");
    assert_eq!(packet.tuple_v6(), read(&frame).tuple_v6());
    assert_eq!(packet.link_addresses(), None);
    assert_eq!(
        Frame::read_from(&frame[14..], Start::Ipv4).err(),
        Some(Refusal::Version)
    );
    assert_eq!(
        Frame::read_from(&[], Start::Ipv4).err(),
        Some(Refusal::IpHeader)
    );
}

#[test]
fn columns_are_used_again() {
    let mut headers = Headers::new();
    let frames: Vec<_> = (0..256).map(generated).collect();
    headers.read(&frames);
    let facts = headers.facts().as_ptr();
    headers.read(&frames[..10]);
    assert_eq!((headers.len(), headers.facts().len()), (10, 10));
    headers.read::<Vec<u8>>(&[]);
    assert!(headers.is_empty() && headers.ipv4().is_empty());
    headers.read(&frames);
    assert_eq!(headers.facts().as_ptr(), facts);
}

#[test]
fn both_directions_have_one_key() {
    let frame = ethernet(
        ether_type::TAG,
        &tag(1, ether_type::IPV4, &sample("tcp")[14..]),
    );
    let mut back = frame.clone();
    let (source, destination) = (18 + 12, 18 + 16);
    for i in 0..4 {
        back.swap(source + i, destination + i);
    }
    for i in 0..2 {
        back.swap(38 + i, 40 + i);
    }
    let mut headers = Headers::new();
    headers.read(&[frame, back]);
    let mut seen = Vec::new();
    headers.seen_v4(&mut seen);
    let keys: Vec<Key<2>> = seen.iter().map(|seen| seen.key).collect();
    assert_eq!(keys[0], keys[1]);
    assert_eq!(seen[0].direction, seen[1].direction.reverse());
}

#[test]
fn frames_that_were_not_read_have_no_inside() {
    let frames = [sample("vxlan"), sample("gre")];
    let (mut outer, mut inner) = (Headers::new(), Headers::new());
    outer.read(&frames);
    inner.read_inner(&[&frames[0][..40]], &outer);
    assert_eq!(inner.len(), 1);
    assert_eq!(inner.facts()[0].verdict, Verdict::Absent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn readers_agree(frames in prop::collection::vec(mutated(), 0..40)) {
        let (mut outer, mut inner) = (Headers::new(), Headers::new());
        // Rows of a burst before must not shine through.
        outer.read(&samples().into_iter().map(|(_, frame)| frame).collect::<Vec<_>>());
        all_agree(&frames, &mut outer, &mut inner);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for start in [Start::Ethernet, Start::Ipv4, Start::Ipv6] {
            if let Ok(frame) = Frame::read_from(&bytes, start) {
                let _ = (frame.quoted(), frame.inner(), frame.has_right_checksums(), frame.payload());
            }
        }
    }
}
