//! Frames from arbitrary bytes: both readers agree on them and on what is inside of tunnels, wherever they stand in a burst, and what can be rewritten reads as it
//! was rewritten.
//!
//! The second byte of an input says how many bytes the first frame has, the rest is another one. Checksums of noise are wrong, so a third frame is made by the writers, as
//! the first byte says, around the first one's bytes.
#![no_main]

use dpb_net::flow::Flags;
use dpb_net::packet::write::{Echo, Envelope, Tcp, Udp};
use dpb_net::packet::{
    Ends, Frame, Headers, Refusal, Rewriter, Side, Verdict, ether_type, protocol,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some(([kind, first], rest)) = input.split_first_chunk() else {
        return;
    };
    let (one, other) = rest.split_at(rest.len().min(usize::from(*first)));
    let made = made(*kind, one);
    let (mut outer, mut inner) = (Headers::new(), Headers::new());
    // The second time rows have other neighbours, and columns hold what was there before.
    for frames in [&[one, other, &made][..], &[&made[..], other, one, &made, other]] {
        outer.read(frames);
        inner.read_inner(frames, &outer);
        for (row, bytes) in frames.iter().enumerate() {
            let frame = Frame::read(bytes);
            agrees(&outer, row, Some(frame));
            agrees(&inner, row, frame.ok().and_then(|frame| frame.inner()));
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for headers in [&outer, &inner] {
            headers.seen_v4(&mut v4);
            headers.seen_v6(&mut v6);
        }
        assert_eq!(v4.len(), outer.ipv4().len() + inner.ipv4().len());
        assert_eq!(v6.len(), outer.ipv6().len() + inner.ipv6().len());
    }
    for bytes in [one, other] {
        if let Ok(frame) = Frame::read(bytes) {
            rewrite(&frame, bytes.to_vec());
        }
    }
    let frame = Frame::read(&made).expect("a frame of the writers");
    assert!(frame.has_right_checksums(), "{made:02x?}");
    rewrite(&frame, made.clone());
});

/// A frame of the writers: version, tag and transport by `kind`, addresses and ports by the first bytes, and the rest as its payload.
fn made(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        word.map_or(0, |word| u32::from_be_bytes(*word))
    };
    let (addresses, ports) = ([word(0), word(4)], [(word(8) >> 16) as u16, word(8) as u16]);
    let payload = bytes.get(12..).unwrap_or_default();
    let (is_v6, is_tagged, transport) = (kind & 1 != 0, kind & 2 != 0, kind >> 2 & 3);
    let (protocol, header_bytes) = match (transport, is_v6) {
        (0 | 1, _) => (protocol::UDP, Udp::BYTES),
        (2, _) => (protocol::TCP, Tcp::BYTES),
        (_, false) => (protocol::ICMP, Echo::BYTES),
        (_, true) => (protocol::ICMPV6, Echo::BYTES),
    };
    let ends = match is_v6 {
        false => Ends::V4(addresses),
        true => Ends::V6(addresses.map(|word| u128::from(word) << 96 | u128::from(word))),
    };
    let envelope = Envelope {
        macs: [[2; 6], [4; 6]],
        tag: is_tagged.then_some(ports[0]),
        ends,
        protocol,
    };
    let headers = envelope.bytes() + header_bytes;
    let mut frame = [&vec![0; headers][..], payload].concat();
    let rest = envelope.put(&mut frame).expect("room");
    let put = match transport {
        0 | 1 => Udp::new(ports).put(rest, ends),
        2 => Tcp::new(ports, Flags(kind >> 4)).put(rest, ends),
        _ => {
            let echo = Echo {
                is_reply: kind & 16 != 0,
                identifier: ports[0],
                sequence: ports[1],
            };
            echo.put(rest, ends)
        }
    };
    put.expect("room");
    frame
}

fn agrees(headers: &Headers, row: usize, frame: Option<Result<Frame<'_>, Refusal>>) {
    let (facts, places) = (headers.facts()[row], headers.places()[row]);
    let verdict = match frame {
        None => Verdict::Absent,
        Some(Err(refusal)) => Verdict::Refused(refusal),
        Some(Ok(frame)) => {
            assert_eq!(places, frame.places());
            assert_eq!(facts.flags(), frame.tcp_flags());
            assert_eq!(headers.tuple_v4(row), frame.tuple_v4());
            assert_eq!(headers.tuple_v6(row), frame.tuple_v6());
            // In place, and inside.
            assert!(frame.payload().len() <= frame.bytes().len());
            match frame.ends() {
                None => Verdict::Other,
                Some(Ends::V4(_)) => Verdict::Ipv4,
                Some(Ends::V6(_)) => Verdict::Ipv6,
            }
        }
    };
    assert_eq!(facts.verdict, verdict);
}

fn rewrite(frame: &Frame<'_>, mut bytes: Vec<u8>) {
    let was_right = frame.has_right_checksums();
    let Ok(mut rewriter) = Rewriter::of_frame(&mut bytes) else {
        return;
    };
    let has_v4 = rewriter.set_address_v4(Side::Source, 0x0102_0304).is_ok();
    let has_v6 = rewriter.set_address_v6(Side::Source, 0x0102_0304).is_ok();
    let _ = rewriter.set_port(Side::Source, 7);
    let _ = rewriter.set_quoted_address_v4(Side::Destination, 0x0102_0304);
    let _ = rewriter.set_quoted_port(Side::Destination, 7);
    let after = Frame::read(&bytes).expect("lengths are as they were");
    assert_eq!(after.places(), frame.places());
    let source = match after.ends() {
        Some(Ends::V4([source, _])) => source.into(),
        Some(Ends::V6([source, _])) => source,
        None => 0,
    };
    assert_eq!(has_v4 || has_v6, source == 0x0102_0304);
    // Some that were wrong are right now: a message of ICMP that was nothing but zeroes.
    assert!(after.has_right_checksums() || !was_right);
}

/// A frame of each kind that the writers make; tunnels; headers of extension, fragments and a quoted packet.
fn seeds() -> Vec<Vec<u8>> {
    use dpb_net::packet::write::{Geneve, Gre, Vxlan};
    let ends = |ports: [u16; 2], payload: &[u8]| {
        let (hosts, ports) = ([0xc000_0201_u32, 0xc633_6402], ports.map(u16::to_be_bytes));
        [
            hosts.map(u32::to_be_bytes).as_flattened(),
            ports.as_flattened(),
            payload,
        ]
        .concat()
    };
    let datagram = |kind: u8, ports: [u16; 2], payload: &[u8]| made(kind, &ends(ports, payload));
    // A packet of IP whose payload is of another protocol.
    let of = |kind: u8, protocol: u8, payload: &[u8]| {
        let mut frame = datagram(kind, [0, 0], payload);
        match kind & 1 {
            0 => frame[23] = protocol,
            _ => frame[20] = protocol,
        }
        // Without UDP's header.
        let l4 = if kind & 1 == 0 { 34 } else { 54 };
        frame.drain(l4..l4 + 8);
        let len = frame.len() as u16;
        match kind & 1 {
            0 => {
                frame[16..18].copy_from_slice(&(len - 14).to_be_bytes());
                frame[24..26].fill(0);
                let sum = frame[14..34].as_chunks().0.iter().fold(0_u32, |sum, pair| {
                    sum + u32::from(u16::from_be_bytes(*pair))
                });
                let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            _ => frame[18..20].copy_from_slice(&(len - 54).to_be_bytes()),
        }
        frame
    };
    let plain = datagram(0, [5000, 53], b"a question");
    let mut vxlan = [&[0; 8][..], &plain].concat();
    Vxlan { id: 5 }.put(&mut vxlan).expect("room");
    let mut geneve = [&[0; 8][..], &plain].concat();
    let header = Geneve {
        id: 5,
        ether_type: ether_type::ETHERNET,
    };
    header.put(&mut geneve).expect("room");
    let gre = Gre::new(ether_type::IPV4);
    let mut routed = [&vec![0; gre.header_bytes()][..], &plain[14..]].concat();
    gre.put(&mut routed).expect("room");
    let udp = &datagram(1, [5000, 53], b"a question")[54..];
    // Hop by hop, then a fragment's header, then UDP.
    let extended = [
        &[44, 0, 5, 2, 0, 0, 0, 0][..],
        &[17, 0, 0, 0, 0, 0, 0, 9],
        udp,
    ]
    .concat();
    let later = [&[17, 0, 0, 9, 0, 0, 0, 9][..], b"the rest"].concat();
    let unreachable = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &plain[14..]].concat();
    let others = [
        datagram(0, [5000, Vxlan::PORT], &vxlan),
        datagram(1, [5000, Geneve::PORT], &geneve),
        of(0, protocol::GRE, &routed),
        of(0, protocol::IPV4, &plain[14..]),
        of(1, 0, &extended),
        of(1, 44, &later),
        of(0, protocol::ICMP, &unreachable),
    ];
    let mut seeds = Vec::new();
    for kind in 0..16 {
        let one = ends([5000, 443], b"said");
        let other = &others[usize::from(kind) % others.len()];
        seeds.push([&[kind, one.len() as u8][..], &one, other].concat());
        let one = made(kind, &one);
        seeds.push([&[kind, one.len() as u8][..], &one, other].concat());
    }
    seeds
}
