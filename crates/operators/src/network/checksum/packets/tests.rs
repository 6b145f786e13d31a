//! Verdicts and fields against packets that another implementation reads (etherparse, in `packet::tests::received`), on every path.

use dpb_core::{Buf, Items, Span};

use super::*;
use crate::network::packet::Transport;
use crate::network::packet::tests::{ACK, bytes, chained, received, samples};
use crate::network::packet::{FRAGMENT, Sample};

const RIGHT: u8 = Verdict::TRANSPORT_RIGHT;
const WRONG: u8 = Verdict::TRANSPORT_WRONG;

fn paths() -> impl Iterator<Item = Implementation> {
    let all = Checksum::PATHS.iter().copied();
    all.filter(|path| path.is_available())
}

/// Packets of all kinds, whose checksums another implementation has found right.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for transport in [ACK, Transport::Udp] {
        for sample in samples(transport) {
            for len in [0, 1, 7, 12, 64, 255, 1460, 65_000] {
                let packet = sample.packet(&bytes(len, len as u64));
                received(&packet);
                packets.push(packet);
            }
        }
    }
    packets
}

/// The verdicts, which are the same on each path.
fn verdicts(layers: ChecksumLayers, packets: &[Vec<u8>]) -> Vec<u8> {
    let items = Items::one_behind_another(packets.iter().map(Vec::len));
    let src = packets.concat();
    let batch = Batch::new(&src, &items).expect("inside");
    let slots = Items::fixed(1, packets.len() as u32);
    let right: Vec<_> = packets.iter().map(|item| verdict(layers, item).0).collect();
    for path in paths() {
        let (mut dst, mut none) = (vec![0xff; packets.len()], Vec::new());
        let out = BatchOut::new(&mut dst, &slots, &mut none).expect("inside");
        let kernel = ChecksumVerify::new(layers, path).expect("available");
        kernel.run(batch, out, &mut ()).expect("runs");
        assert_eq!(dst, right, "{path}");
    }
    right
}

/// The packets filled in, out of place and in place on each path.
fn fill(layers: ChecksumLayers, packets: &[Vec<u8>]) -> Vec<Result<Vec<u8>, JobError>> {
    let right: Vec<_> = packets
        .iter()
        .map(|item| filled(layers, item).map_err(PacketError::refusal))
        .collect();
    let items = Items::one_behind_another(packets.iter().map(Vec::len));
    let src = packets.concat();
    let outputs = |bytes: &[u8], outcomes: &[Result<u32, JobError>]| -> Vec<_> {
        let starts = packets.iter().scan(0, |start, packet| {
            *start += packet.len();
            Some(*start - packet.len())
        });
        let output = |(start, outcome): (usize, &Result<u32, JobError>)| {
            outcome.map(|len| bytes[start..start + len as usize].to_vec())
        };
        starts.zip(outcomes).map(output).collect()
    };
    for path in paths() {
        let kernel = ChecksumFill::new(layers, path).expect("available");
        let (mut dst, mut outcomes) = (vec![0xff; src.len()], Vec::new());
        let batch = Batch::new(&src, &items).expect("inside");
        let out = BatchOut::new(&mut dst, &items, &mut outcomes).expect("inside");
        kernel.run(batch, out, &mut ()).expect("runs");
        assert_eq!(outputs(&dst, &outcomes), right, "{path}");

        let mut bufs = [Buf::zeroed(src.len()).expect("memory")];
        bufs[0].copy_from_slice(&src);
        outcomes.clear();
        let work = InPlace::of(&mut bufs, [&items, &items], 0, &mut outcomes).expect("overlays");
        kernel.run_in_place(work, &mut ()).expect("runs");
        assert_eq!(outputs(&bufs[0], &outcomes), right, "{path}, in place");
    }
    right
}

#[test]
fn packets_of_another_implementation_are_right() {
    let packets = packets();
    let ip = |packet: &[u8]| u8::from(packet[0] >> 4 == 4) * Verdict::IP_RIGHT;
    for (layers, right) in [
        (ChecksumLayers::All, [1, RIGHT]),
        (ChecksumLayers::Ip, [1, 0]),
        (ChecksumLayers::Transport, [0, RIGHT]),
    ] {
        let verdicts = verdicts(layers, &packets);
        for (packet, verdict) in packets.iter().zip(verdicts) {
            assert_eq!(verdict, (ip(packet) * right[0]) | right[1]);
            assert!(Verdict(verdict).is_accepted());
        }
    }
}

#[test]
fn a_flipped_bit_is_found_where_it_is() {
    let mut flipped = Vec::new();
    let mut right = Vec::new();
    for packet in packets() {
        let is_v4 = packet[0] >> 4 == 4;
        // The last source address byte is summed by both; the last byte by the transport.
        let address = if is_v4 { 15 } else { 23 };
        for (at, ip, transport) in [
            (address, Verdict::IP_WRONG, WRONG),
            (packet.len() - 1, Verdict::IP_RIGHT, WRONG),
        ] {
            let mut packet = packet.clone();
            packet[at] ^= 4;
            flipped.push(packet);
            right.push(if is_v4 { ip } else { 0 } | transport);
        }
    }
    // The last byte of a UDP header without payload is half of its checksum, of a TCP header one of an option.
    assert_eq!(verdicts(ChecksumLayers::All, &flipped), right);
    assert!(right.iter().all(|verdict| !Verdict(*verdict).is_accepted()));
}

#[test]
fn what_a_packet_lacks_is_not_judged() {
    let tcp = Sample::new(Version::V4, ACK).packet(b"data");
    let put_header = |packet: &mut Vec<u8>| {
        put_u16(packet, HEADER_FIELD, 0);
        let sum = Checksum::best(ChecksumForm::Ipv4).of(packet).expect("IPv4");
        put_u16(packet, HEADER_FIELD, sum);
    };
    let mut fragment = tcp.clone();
    fragment[6] = 0x20;
    put_header(&mut fragment);
    let mut other = tcp.clone();
    other[9] = 89;
    put_header(&mut other);
    let mut absent = Sample::new(Version::V4, Transport::Udp).packet(b"data");
    put_u16(&mut absent, 26, 0);
    let mut forbidden = Sample::new(Version::V6, Transport::Udp).packet(b"data");
    put_u16(&mut forbidden, 46, 0);
    let routed = chained(UDP, 1, &[0, 0, 0, 0, 0, 8, 0, 0]);
    let mut v6_fragment = Sample::new(Version::V6, Transport::Udp).packet(b"more than eight bytes");
    v6_fragment[6] = FRAGMENT;
    let short_tcp = {
        let mut packet = tcp.clone();
        packet[32] = 0x40;
        packet
    };
    let cases = [
        (fragment, Verdict::IP_RIGHT),
        (other, Verdict::IP_RIGHT),
        (absent, Verdict::IP_RIGHT),
        (forbidden, WRONG),
        (routed, 0),
        (v6_fragment, 0),
        (short_tcp, Verdict::NO_PACKET),
        (tcp[..tcp.len() - 1].to_vec(), Verdict::NO_PACKET),
        (vec![], Verdict::NO_PACKET),
        (
            b"neither version of IP, and long enough to be one".to_vec(),
            Verdict::NO_PACKET,
        ),
    ];
    let (items, right): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    assert_eq!(verdicts(ChecksumLayers::All, &items), right);
}

#[test]
fn padding_counts_for_nothing() {
    let packets: Vec<_> = packets()
        .into_iter()
        .filter(|packet| packet.len() < 60)
        .collect();
    let padded: Vec<_> = packets
        .iter()
        .map(|packet| [packet, &[0x5a; 60][packet.len()..]].concat())
        .collect();
    assert!(packets.len() > 8);
    let layers = ChecksumLayers::All;
    assert_eq!(verdicts(layers, &padded), verdicts(layers, &packets));
    let filled: Vec<_> = packets.into_iter().map(Ok).collect();
    assert_eq!(fill(layers, &padded), filled);
}

#[test]
fn filling_makes_what_another_implementation_finds_right() {
    let packets = packets();
    let mut spoilt = packets.clone();
    for packet in &mut spoilt {
        let parsed = Packet::parse(packet).expect("a packet");
        let is_v4 = parsed.version() == Version::V4;
        let at = parsed.headers().len() + if parsed.protocol() == TCP { 16 } else { 6 };
        put_u16(packet, at, 0x1234);
        if is_v4 {
            put_u16(packet, HEADER_FIELD, 0x5678);
        }
    }
    let right: Vec<_> = packets.iter().cloned().map(Ok).collect();
    assert_eq!(fill(ChecksumLayers::All, &spoilt), right);
    // One after the other is both at once.
    let halfway = fill(ChecksumLayers::Ip, &spoilt);
    let halfway: Vec<_> = halfway
        .into_iter()
        .map(|filled| filled.expect("a packet"))
        .collect();
    assert_ne!(halfway, packets);
    assert_eq!(fill(ChecksumLayers::Transport, &halfway), right);
}

/// RFC 768: a sum whose complement is zero is written as all ones.
#[test]
fn a_udp_checksum_of_zero_is_written_as_all_ones() {
    let mut packet = Sample::new(Version::V4, Transport::Udp).packet(&[0, 0]);
    let field = u16_at(&packet, 26);
    put_u16(&mut packet, 28, field);
    let [filled] = fill(ChecksumLayers::All, &[packet])
        .try_into()
        .expect("one");
    let filled = filled.expect("a packet");
    assert_eq!(u16_at(&filled, 26), 0xffff);
    assert_eq!(verdicts(ChecksumLayers::Transport, &[filled]), [RIGHT]);
}

#[test]
fn what_is_no_packet_is_refused_and_a_slot_may_be_as_short_as_its_packet() {
    let packet = Sample::new(Version::V4, Transport::Udp).packet(b"");
    let (len, short) = (packet.len() as u32, packet[..27].to_vec());
    let mut wrong = packet.clone();
    put_u16(&mut wrong, 26, 7);
    let padded = [&wrong[..], &[0x5a; 18]].concat();
    assert_eq!(
        fill(ChecksumLayers::All, &[short]),
        [Err(JobError::Malformed)]
    );
    for path in paths() {
        let kernel = ChecksumFill::new(ChecksumLayers::All, path).expect("available");
        for (slot_len, outcome) in [(len, Ok(len)), (len - 1, Err(JobError::DstTooShort))] {
            let span = |len: u32| {
                let (buf, start) = (0, 0);
                Items::Spans(vec![Span { buf, start, len }])
            };
            let (items, slots) = (span(padded.len() as u32), span(slot_len));
            let mut bufs = [Buf::zeroed(padded.len()).expect("memory")];
            bufs[0].copy_from_slice(&padded);
            let mut outcomes = Vec::new();
            let work = InPlace::of(&mut bufs, [&items, &slots], 0, &mut outcomes);
            kernel
                .run_in_place(work.expect("overlays"), &mut ())
                .expect("runs");
            assert_eq!(outcomes, [outcome], "{path}");
            let written = if outcome.is_ok() { &packet } else { &wrong };
            assert_eq!(bufs[0][..packet.len()], written[..]);
        }
    }
}
