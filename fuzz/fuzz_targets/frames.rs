//! Frames from arbitrary bytes: both readers agree on them and on what is inside of tunnels, and what can be rewritten reads as it was rewritten.
//!
//! The first byte of an input says how many bytes the first frame has, the rest is another one.
#![no_main]

use dpb_net::packet::{Ends, Frame, Headers, Refusal, Rewriter, Side, Verdict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else {
        return;
    };
    let (one, other) = rest.split_at(rest.len().min(first.into()));
    let frames = [one, other];
    let (mut outer, mut inner) = (Headers::new(), Headers::new());
    outer.read(&frames);
    inner.read_inner(&frames, &outer);
    for (row, bytes) in frames.into_iter().enumerate() {
        let frame = Frame::read(bytes);
        agrees(&outer, row, Some(frame));
        agrees(&inner, row, frame.ok().and_then(|frame| frame.inner()));
        if let Ok(frame) = frame {
            rewrite(&frame, bytes.to_vec());
        }
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for headers in [&outer, &inner] {
        headers.seen_v4(&mut v4);
        headers.seen_v6(&mut v6);
    }
});

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
    let _ = rewriter.set_address_v4(Side::Source, 0x0102_0304);
    let _ = rewriter.set_address_v6(Side::Source, 0x0102_0304);
    let _ = rewriter.set_port(Side::Source, 7);
    let _ = rewriter.set_quoted_address_v4(Side::Destination, 0x0102_0304);
    let _ = rewriter.set_quoted_port(Side::Destination, 7);
    let after = Frame::read(&bytes).expect("lengths are as they were");
    assert_eq!(after.places(), frame.places());
    // Some that were wrong are right now: a message of ICMP that was nothing but zeroes.
    assert!(after.has_right_checksums() || !was_right);
}

/// A datagram, and one in VXLAN.
fn seeds() -> Vec<Vec<u8>> {
    use dpb_net::packet::write::{Ethernet, Ipv4, Udp, Vxlan};
    use dpb_net::packet::{ether_type, protocol};
    let datagram = |ports: [u16; 2], payload: &[u8]| {
        let mut frame = [&[0; 42][..], payload].concat();
        let ethernet = Ethernet {
            destination: [2; 6],
            source: [4; 6],
            ether_type: ether_type::IPV4,
        };
        let ip = Ipv4::new([0xc000_0201, 0xc633_6402], protocol::UDP);
        let packet = ethernet.put(&mut frame).expect("room");
        let datagram = ip.put(packet).expect("room");
        Udp::new(ports).put(datagram, ip.ends()).expect("room");
        frame
    };
    let plain = datagram([5000, 53], b"a question");
    let mut tunnelled = [&[0; 8][..], &plain].concat();
    Vxlan { id: 5 }.put(&mut tunnelled).expect("room");
    let tunnelled = datagram([5000, Vxlan::PORT], &tunnelled);
    vec![
        [&[plain.len() as u8][..], &plain, &tunnelled].concat(),
        [&[0][..], &tunnelled].concat(),
    ]
}
