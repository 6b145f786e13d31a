//! Flows of arbitrary packets through a recognizer with little memory: it never panics, decides a flow once, holds no more than it may, and nothing in the end.
//! And arbitrary hellos in pieces: whatever their cut and order, they get the verdict that they get whole.
//!
//! Four bytes say what a packet is: flow and kind, place, flags, length; its payload follows. Of one kind the payload is frames of QUIC, which are sealed before they
//! are sent.
#![no_main]

use std::ops::Range;

use dpb_core::random::SplitMix64;
use dpb_fuzz::{Initial, crypto_frame};
use dpb_net::flow::{Direction, Flags};
use dpb_net::recognition::{
    Applications, Limits, Mark, Outcome, Packet, Recognizer, Segment, Settings, Verdict, quic,
};
use dpb_net::traffic::application::{ClientHello, TlsOffer};
use libfuzzer_sys::fuzz_target;

/// Flows of which something may be held.
const UNDECIDED_MAX: u32 = 3;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&mode, bytes)) = input.split_first() else {
        return;
    };
    match mode >> 5 {
        7 => pieces(bytes),
        _ => flows(mode, bytes),
    }
});

fn recognizer(mode: u8) -> Recognizer {
    let settings = Settings {
        limits: Limits {
            undecided_max: UNDECIDED_MAX,
            names_max: 8,
            ..Limits::default()
        },
        has_ja4: true,
        follows_upgrades: mode & 1 == 0,
        has_rules: mode & 2 != 0,
        seed: 7,
    };
    Recognizer::new(settings, Applications::built_in())
}

fn flows(mode: u8, mut bytes: &[u8]) {
    let port = [53, 80, 443, 123, 1194, 502, 25, 9999][usize::from(mode >> 2 & 7)];
    let mut recognizer = recognizer(mode);
    let mut marks = [Mark::default(); 8];
    let mut now_ms = 0;
    while let [kind, place, flags, len, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*len) * 4));
        bytes = rest;
        now_ms += u32::from(*place);
        let flow = usize::from(kind & 7);
        let (direction, ports) = match kind & 8 {
            0 => (Direction::Up, [40_000, port]),
            _ => (Direction::Down, [port, 40_000]),
        };
        let scale = if kind & 32 == 0 { 4 } else { 400 };
        let segment = (kind & 16 == 0).then(|| Segment {
            sequence: (u32::from(*place) * scale).wrapping_sub(100),
            flags: Flags(*flags),
        });
        let sealed = match kind & 128 != 0 && segment.is_none() {
            true => sealed(*flags, flow as u8, (*place).into(), payload),
            false => Vec::new(),
        };
        let packet = Packet {
            flow: flow as u64,
            direction,
            segment,
            addresses: [1, 2],
            ports,
            payload: if sealed.is_empty() { payload } else { &sealed },
        };
        let before = marks[flow].label();
        let outcome = recognizer.packet(&mut marks[flow], &packet, now_ms);
        assert_eq!(matches!(outcome, Outcome::Known(_)), before.is_some());
        assert_eq!(
            outcome.verdict().is_some(),
            before.is_none() && marks[flow].label().is_some()
        );
        assert!(recognizer.undecided() <= UNDECIDED_MAX as usize);
        if kind & 64 != 0 {
            recognizer.candidates(|candidate| assert!(candidate.bytes.len() <= 8192));
        }
    }
    for mark in &mut marks {
        recognizer.end(mark, now_ms);
    }
    assert_eq!(recognizer.undecided(), 0);
}

/// An Initial packet around these frames.
fn sealed(version: u8, connection: u8, number: u32, frames: &[u8]) -> Vec<u8> {
    let mut frames = frames.to_vec();
    frames.resize(frames.len().max(3), 0);
    let initial = Initial {
        version: match version & 1 {
            0 => quic::Version::One,
            _ => quic::Version::Two,
        },
        destination: &[connection; 8],
        number,
        number_bytes: 4,
    };
    initial.around(&frames)
}

/// The carrier of a hello.
#[derive(Clone, Copy, PartialEq)]
enum Carrier {
    /// Records of at most so many bytes.
    Tls(usize),
    Quic(u8),
    /// All frames in one packet.
    QuicFrames(u8),
    Dtls,
}

/// Six bytes say what carries the hello, in which order its pieces come, by how much they overlap, and where it is cut; the rest is what is in the hello.
fn pieces(input: &[u8]) {
    let Some(([how, order, overlap, cuts @ ..], body)) = input.split_first_chunk::<6>() else {
        return;
    };
    let carrier = match how & 7 {
        0 => Carrier::Tls(1 << 14),
        1 => Carrier::Tls(1),
        2 => Carrier::Tls(1 + usize::from(how >> 3)),
        3 => Carrier::Tls(300),
        4 => Carrier::Quic(how >> 3),
        5 | 6 => Carrier::QuicFrames(how >> 3),
        _ => Carrier::Dtls,
    };
    // With all that is around it, it is within what is held of a flow.
    let body = &body[..body.len().min(if how & 7 < 4 { 1200 } else { 3000 })];
    // Shorter ones are no hellos.
    if body.len() < 35 {
        return;
    }
    let message = [&[1][..], &(body.len() as u32).to_be_bytes()[1..], body].concat();
    let bytes = match carrier {
        Carrier::Tls(len) => records(&message, len),
        Carrier::Quic(_) | Carrier::QuicFrames(_) => message,
        Carrier::Dtls => body.to_vec(),
    };
    let all = 0..bytes.len();
    let cut = cut(bytes.len(), *cuts, *order, (*overlap).into());
    let mut recognizer = recognizer(0);
    let whole = verdict(&mut recognizer, carrier, &bytes, &[all.clone()]);
    let in_pieces = verdict(&mut recognizer, carrier, &bytes, &cut);
    assert_eq!(in_pieces, whole, "{cut:?}");
    assert_eq!(verdict(&mut recognizer, carrier, &bytes, &[all]), whole);
    assert_eq!(recognizer.undecided(), 0);
}

/// Up to four pieces of `len` bytes, in this order, each of which may begin within the one before it.
fn cut(len: usize, cuts: [u8; 3], order: u8, overlap: usize) -> Vec<Range<usize>> {
    let mut places = cuts.map(|cut| usize::from(cut) * len / 255);
    places.sort_unstable();
    let [a, b, c] = places;
    let mut pieces = vec![0..a, a..b, b..c, c..len];
    pieces.retain(|piece| !piece.is_empty());
    let mut order = usize::from(order);
    for last in (1..pieces.len()).rev() {
        pieces.swap(last, order % (last + 1));
        order /= last + 1;
    }
    for piece in &mut pieces {
        piece.start = piece.start.saturating_sub(overlap);
    }
    pieces
}

fn records(message: &[u8], len: usize) -> Vec<u8> {
    let record =
        |piece: &[u8]| [&[22, 3, 1][..], &(piece.len() as u16).to_be_bytes(), piece].concat();
    message.chunks(len).flat_map(record).collect()
}

/// The verdict on a new flow of these pieces, but for the number of its packets; and true if a packet brought it, and not the flow's end.
fn verdict(
    recognizer: &mut Recognizer,
    carrier: Carrier,
    bytes: &[u8],
    pieces: &[Range<usize>],
) -> (Option<Verdict>, bool) {
    // Near its end, so that numbers wrap around.
    const FIRST: u32 = u32::MAX - 100;
    let segment = |at: u32, flags| {
        let sequence = FIRST.wrapping_add(at);
        Some(Segment { sequence, flags })
    };
    let mut packets: Vec<(Option<Segment>, Vec<u8>)> = Vec::new();
    match carrier {
        Carrier::Tls(_) => {
            packets.push((segment(0, Flags::SYN), Vec::new()));
            packets.extend(pieces.iter().map(|piece| {
                let at = 1 + piece.start as u32;
                (segment(at, Flags::ACK), bytes[piece.clone()].to_vec())
            }));
        }
        Carrier::Quic(version) => packets.extend(pieces.iter().zip(0..).map(|(piece, number)| {
            let frame = crypto_frame(piece.start, &bytes[piece.clone()]);
            (None, sealed(version, 5, number, &frame))
        })),
        Carrier::QuicFrames(version) => {
            let frame = |piece: &Range<usize>| crypto_frame(piece.start, &bytes[piece.clone()]);
            let frames: Vec<u8> = pieces.iter().flat_map(frame).collect();
            packets.push((None, sealed(version, 5, 0, &frames)));
        }
        Carrier::Dtls => packets.extend(pieces.iter().zip(0..).map(|(piece, number)| {
            (
                None,
                dtls(number, bytes.len(), piece.start, &bytes[piece.clone()]),
            )
        })),
    }
    let mut mark = Mark::default();
    let mut verdict = None;
    for (segment, payload) in &packets {
        let packet = Packet {
            flow: 1,
            direction: Direction::Up,
            segment: *segment,
            addresses: [1, 2],
            ports: [40_000, 443],
            payload,
        };
        let outcome = recognizer.packet(&mut mark, &packet, 5);
        verdict = verdict.or(outcome.verdict().copied());
    }
    let is_prompt = verdict.is_some();
    let verdict = verdict.or_else(|| recognizer.end(&mut mark, 5)?.verdict().copied());
    let verdict = verdict.map(|verdict| Verdict {
        packets: 0,
        ..verdict
    });
    (verdict, is_prompt)
}

/// A record of DTLS with a piece of a hello.
fn dtls(number: u8, len: usize, at: usize, piece: &[u8]) -> Vec<u8> {
    let number_24 = |number: usize| [(number >> 16) as u8, (number >> 8) as u8, number as u8];
    [
        &[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number][..],
        &(piece.len() as u16 + 12).to_be_bytes(),
        &[1],
        &number_24(len),
        &[0, 0],
        &number_24(at),
        &number_24(piece.len()),
        piece,
    ]
    .concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let request = b"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n  ";
    let packet = |head: [u8; 4], payload: &[u8]| [&head[..], payload].concat();
    let mut random = SplitMix64::new(1);
    let tls = ClientHello::browser(TlsOffer::Tls13, "www.example.org").message(&mut random);
    let large = ClientHello::quic(TlsOffer::Tls13PostQuantum, "www.example.org", &[3; 8]);
    let large = large.message(&mut random);
    let small = ClientHello::quic(TlsOffer::Tls13, "www.example.org", &[3; 8]);
    let small = small.message(&mut random);
    // Of a version of DTLS, with a cookie behind the session's number.
    let behind = 35 + usize::from(tls[38]);
    let datagram = [
        &[0xfe, 0xfd][..],
        &tls[6..][..behind - 2],
        &[0],
        &tls[4 + behind..],
    ]
    .concat();
    let mut seeds = vec![
        [
            &[4][..],
            &packet([0, 25, 2, 0], b""),
            &packet([0, 26, 16, 2], &request[..8]),
            &packet([0, 28, 16, 6], &request[8..]),
        ]
        .concat(),
        [
            &[4 << 2][..],
            &packet([16, 0, 0, 5], &[0x23; 20]),
            &packet([24, 0, 0, 12], &[0x24; 48]),
        ]
        .concat(),
    ];
    // A hello of QUIC over two datagrams, the second part first, of each version.
    for version in [0, 1] {
        let mut frames = [
            crypto_frame(large.len() / 2, &large[large.len() / 2..]),
            crypto_frame(0, &large[..large.len() / 2]),
        ];
        for frames in &mut frames {
            frames.resize(frames.len().next_multiple_of(4), 0);
        }
        let each = frames.iter().zip(0..).map(|(frames, number)| {
            packet(
                [128 + 16, number, version, (frames.len() / 4) as u8],
                frames,
            )
        });
        seeds.push([&[2 << 2][..], &each.collect::<Vec<_>>().concat()].concat());
    }
    for how in 0..8 {
        let body = match how {
            0..4 => &tls[4..],
            4 | 6 => &large[4..],
            5 => &small[4..],
            _ => &datagram,
        };
        for order in [0, 23] {
            seeds.push([&[7 << 5, how, order, order, 40, 90, 200][..], body].concat());
            seeds.push([&[7 << 5, how | 8, order, 0, 1, 2, 250][..], body].concat());
        }
    }
    seeds
}
