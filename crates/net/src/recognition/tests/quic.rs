//! The sample packets of RFC 9001 and RFC 9369; hellos over datagrams in every order, behind a Retry, with other packets around them.

use std::collections::HashMap;

use dpb_core::random::SplitMix64;
use proptest::prelude::*;

use super::super::quic::*;
use super::*;
use crate::traffic::application::{InitialKeys, QuicDelivery, QuicVersion, client_initials};

/// The packets of a version's RFC.
fn samples(version: &str) -> HashMap<&'static str, Vec<u8>> {
    let mut samples = HashMap::new();
    let mut current: Option<(&str, String)> = None;
    let text = include_str!("quic_vectors.txt");
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .chain(["end end"])
    {
        if let Some(rest) = line.strip_prefix("  ") {
            current.as_mut().expect("a name").1 += rest;
            continue;
        }
        if let Some((name, bytes)) = current.take()
            && let Some(name) = name.strip_prefix(version)
        {
            samples.insert(name.trim(), hex(&bytes));
        }
        current = Some((line, String::new()));
    }
    assert_eq!(samples.len(), 5);
    samples
}

const DESTINATION: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
const VERSIONS: [(&str, Version); 2] = [("1", Version::One), ("2", Version::Two)];

#[test]
fn keys_are_those_of_the_rfcs() {
    let cases = [
        (
            Version::One,
            Side::Client,
            "1f369613dd76d5467730efcbe3b1a22d",
            "fa044b2f42a3fd3b46fb255c",
            "9f50449e04a0e810283a1e9933adedd2",
        ),
        (
            Version::One,
            Side::Server,
            "cf3a5331653c364c88f0f379b6067e37",
            "0ac1493ca1905853b0bba03e",
            "c206b8d9b9f0f37644430b490eeaa314",
        ),
        (
            Version::Two,
            Side::Client,
            "8b1a0bc121284290a29e0971b5cd045d",
            "91f73e2351d8fa91660e909f",
            "45b95e15235d6f45a6b19cbcb0294ba9",
        ),
        (
            Version::Two,
            Side::Server,
            "82db637861d55e1d011f19ea71d5d2a7",
            "dd13c276499c0249d3310652",
            "edf6d05c83121201b436e16877593c3a",
        ),
    ];
    for (version, side, key, nonce, header) in cases {
        let keys = Keys::of(version, &DESTINATION, side);
        assert_eq!(keys.key[..], hex(key));
        assert_eq!(keys.nonce[..], hex(nonce));
        assert_eq!(keys.header[..], hex(header));
    }
}

#[test]
fn the_packets_of_the_rfcs_are_opened() {
    for (number, version) in VERSIONS {
        let samples = samples(number);
        let mut plain = Vec::new();
        // The client's: a CRYPTO frame and padding.
        let packet = Packets::new(&samples["client"]).next().expect("a packet");
        assert_eq!(
            (packet.kind, packet.version),
            (Kind::Initial, Some(version))
        );
        assert_eq!(
            (packet.destination, packet.source, packet.token),
            (&DESTINATION[..], &b""[..], &b""[..])
        );
        let keys = Keys::of(version, packet.destination, Side::Client);
        let frames: Vec<_> = open(&packet, &keys, &mut plain)
            .expect("its keys")
            .collect();
        let crypto = &samples["crypto"];
        // A type, an offset of one byte, a length of two.
        assert_eq!(
            frames,
            [Frame::Crypto {
                offset: 0,
                bytes: &crypto[4..]
            }]
        );
        // The server's: an ACK, a CRYPTO frame.
        let packet = Packets::new(&samples["server"]).next().expect("a packet");
        assert_eq!((packet.destination, packet.source.len()), (&b""[..], 8));
        let keys = Keys::of(version, &DESTINATION, Side::Server);
        let frames: Vec<_> = open(&packet, &keys, &mut plain)
            .expect("its keys")
            .collect();
        let sent = &samples["server_plain"];
        assert_eq!(
            frames,
            [Frame::Crypto {
                offset: 0,
                bytes: &sent[sent.len() - 90..]
            }]
        );
        // With the other side's keys, or with a bit that is another one, neither is opened.
        let keys = Keys::of(version, &DESTINATION, Side::Client);
        assert!(open(&packet, &keys, &mut plain).is_none());
        for at in [5, 30, 300, 1199] {
            let mut spoilt = samples["client"].clone();
            spoilt[at] ^= 1;
            let packet = Packets::new(&spoilt).next();
            let opened = packet.and_then(|packet| open(&packet, &keys, &mut plain).map(|_| ()));
            assert_eq!(opened, None, "{at}");
        }
        // The Retry.
        let packet = Packets::new(&samples["retry"]).next().expect("a packet");
        assert_eq!((packet.kind, packet.token), (Kind::Retry, &b"token"[..]));
        assert!(retry_is_whole(&packet, &DESTINATION));
        assert!(!retry_is_whole(&packet, &DESTINATION[1..]));
    }
}

#[test]
fn the_generator_of_traffic_seals_the_packets_of_the_rfcs() {
    for (number, version) in VERSIONS {
        let samples = samples(number);
        let keys = client_keys(version, &DESTINATION);
        let mut frames = samples["crypto"].clone();
        frames.resize(1162, 0);
        let start = match version {
            Version::One => "c300000001088394c8f03e5157080000449e00000002",
            _ => "d36b3343cf088394c8f03e5157080000449e00000002",
        };
        assert_eq!(keys.seal(&hex(start), 2, 4, &frames), samples["client"]);
    }
}

#[test]
fn a_flow_of_the_rfcs_packets_has_its_name() {
    for (number, _) in VERSIONS {
        let mut wire = Wire::new(443);
        let got = wire.datagram(Direction::Up, &samples(number)["client"]);
        let verdict = got.verdict();
        assert_eq!(
            (got.protocol(), got.host().as_str()),
            (Protocol::Quic, "example.com")
        );
        assert_eq!(verdict.label.evidence, Evidence::Quic);
        assert_eq!(verdict.protocol_offered.as_bytes(), b"alpn");
        assert_eq!(&verdict.ja4.expect("whole").as_str()[..10], "q13d0211an");
    }
}

/// The keys by which the generator of traffic seals, which shares no code with the reader.
fn client_keys(version: Version, destination: &[u8]) -> InitialKeys {
    let version = match version {
        Version::Two => QuicVersion::V2,
        _ => QuicVersion::V1,
    };
    InitialKeys::client(version, destination)
}

/// An Initial packet of the client with these frames, filled up to a datagram of 1200 bytes.
fn initial(
    version: Version,
    destination: &[u8],
    keys_from: &[u8],
    number: u32,
    frames: &[u8],
) -> Vec<u8> {
    let keys = client_keys(version, keys_from);
    let (first, wire) = match version {
        Version::Two => (0xd3_u8, 0x6b33_43cf_u32),
        _ => (0xc3, 1),
    };
    let start = [
        &[first][..],
        &wire.to_be_bytes(),
        &[destination.len() as u8],
        destination,
        &[0, 0],
    ]
    .concat();
    let mut frames = frames.to_vec();
    frames.resize(frames.len().max(1200 - start.len() - 2 - 4 - 16), 0);
    let len = 0x4000 | (4 + frames.len() + 16) as u16;
    let header = [&start[..], &len.to_be_bytes(), &number.to_be_bytes()].concat();
    keys.seal(&header, number, 4, &frames)
}

fn crypto(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let number = |number: usize| (0x4000 | number as u16).to_be_bytes();
    [&[6][..], &number(offset), &number(bytes.len()), bytes].concat()
}

#[test]
fn a_hello_over_two_datagrams_is_found_in_either_order() {
    let message = long_hello("quic.example.net");
    for version in [Version::One, Version::Two] {
        let datagrams = [
            initial(
                version,
                &DESTINATION,
                &DESTINATION,
                0,
                &crypto(0, &message[..1000]),
            ),
            initial(
                version,
                &DESTINATION,
                &DESTINATION,
                1,
                &crypto(1000, &message[1000..]),
            ),
        ];
        for order in [[0, 1], [1, 0]] {
            let mut wire = Wire::new(443);
            assert_eq!(
                wire.datagram(Direction::Up, &datagrams[order[0]]),
                Got::Inspect
            );
            // Again, and something of the server's that cannot be read.
            assert_eq!(
                wire.datagram(Direction::Up, &datagrams[order[0]]),
                Got::Inspect
            );
            assert_eq!(
                wire.datagram(Direction::Down, &samples("1")["server"]),
                Got::Inspect
            );
            let got = wire.datagram(Direction::Up, &datagrams[order[1]]);
            assert_eq!(
                (got.protocol(), got.host().as_str()),
                (Protocol::Quic, "quic.example.net")
            );
            assert_eq!(wire.recognizer.undecided(), 0);
        }
    }
}

#[test]
fn frames_in_any_order_with_others_between_them_are_put_together() {
    let message = long_hello("shuffled.example.net");
    let message = &message[..];
    let mut frames = Vec::new();
    // The last piece first, a PING, an ACK with a range, padding, an overlap.
    frames.extend(crypto(900, &message[900..1000]));
    frames.push(1);
    frames.extend([2, 9, 0, 1, 0, 1, 2]);
    frames.extend([0; 20]);
    frames.extend(crypto(0, &message[..400]));
    frames.extend(crypto(350, &message[350..900]));
    let first = initial(Version::One, &DESTINATION, &DESTINATION, 0, &frames);
    let second = initial(
        Version::One,
        &DESTINATION,
        &DESTINATION,
        1,
        &crypto(1000, &message[1000..]),
    );
    let mut wire = Wire::new(443);
    assert_eq!(wire.datagram(Direction::Up, &first), Got::Inspect);
    assert_eq!(
        wire.datagram(Direction::Up, &second).host(),
        "shuffled.example.net"
    );
}

/// Packets with as many frames as fit, in any order, as Chromium sends them.
#[test]
fn a_hello_in_scattered_frames_is_found() {
    for frames in 6..=64 {
        let mut random = SplitMix64::new(frames as u64);
        let (message, delivery) = (
            long_hello("scattered.example"),
            QuicDelivery::Scattered(frames),
        );
        let (datagrams, _) =
            client_initials(QuicVersion::V1, &message, delivery, b"1234", &mut random);
        assert!(datagrams.len() > 1);
        for is_backwards in [false, true] {
            let mut datagrams = datagrams.clone();
            if is_backwards {
                datagrams.reverse();
            }
            let mut wire = Wire::new(443);
            let mut got = Got::Inspect;
            for datagram in &datagrams {
                assert_eq!(got, Got::Inspect, "{frames}");
                got = wire.datagram(Direction::Up, datagram);
            }
            assert_eq!(
                (got.protocol(), got.host().as_str()),
                (Protocol::Quic, "scattered.example")
            );
            assert_eq!(wire.recognizer.stats().dropped, 0);
        }
    }
}

/// What lies behind 8 KiB is counted.
#[test]
fn pieces_that_find_no_room_are_counted() {
    let message = long_hello("beyond.example.net");
    let mut frames = crypto(8192, b"beyond");
    frames.extend(crypto(0, &message[..900]));
    let mut wire = Wire::new(443);
    let datagram = initial(Version::One, &DESTINATION, &DESTINATION, 0, &frames);
    assert_eq!(wire.datagram(Direction::Up, &datagram), Got::Inspect);
    assert_eq!(wire.recognizer.stats().dropped, 1);
}

#[test]
fn a_retry_changes_the_keys() {
    let message = long_hello("retry.example.net");
    let mut wire = Wire::new(443);
    // A part of a hello, a Retry, and all of it with the server's number.
    let first = initial(
        Version::One,
        &DESTINATION,
        &DESTINATION,
        0,
        &crypto(0, &message[..800]),
    );
    assert_eq!(wire.datagram(Direction::Up, &first), Got::Inspect);
    assert_eq!(
        wire.datagram(Direction::Down, &samples("1")["retry"]),
        Got::Inspect
    );
    let chosen = hex("f067a5502a4262b5");
    let again = initial(
        Version::One,
        &chosen,
        &chosen,
        1,
        &crypto(0, &message[..900]),
    );
    assert_eq!(wire.datagram(Direction::Up, &again), Got::Inspect);
    let rest = initial(
        Version::One,
        &chosen,
        &chosen,
        2,
        &crypto(900, &message[900..]),
    );
    assert_eq!(
        wire.datagram(Direction::Up, &rest).host(),
        "retry.example.net"
    );

    // Without a Retry a client's later packets have the server's number and the first packet's keys.
    wire.next(443);
    assert_eq!(wire.datagram(Direction::Up, &first), Got::Inspect);
    let later = initial(
        Version::One,
        &chosen,
        &DESTINATION,
        1,
        &crypto(800, &message[800..]),
    );
    assert_eq!(
        wire.datagram(Direction::Up, &later).host(),
        "retry.example.net"
    );
}

#[test]
fn packets_in_one_datagram_are_told_apart() {
    let message = hex(RFC_8448);
    let keys = client_keys(Version::One, &DESTINATION);
    let frames = crypto(0, &message);
    let start = [&[0xc0, 0, 0, 0, 1, 8][..], &DESTINATION, &[0, 0]].concat();
    let len = 0x4000 | (1 + frames.len() + 16) as u16;
    let header = [&start[..], &len.to_be_bytes(), &[0]].concat();
    let packet = keys.seal(&header, 0, 1, &frames);
    // 0-RTT before it, a Handshake packet and a short header behind it.
    let other = |first: u8| {
        [
            &[first, 0, 0, 0, 1, 8][..],
            &DESTINATION,
            &[0, 30],
            &[7; 30],
        ]
        .concat()
    };
    let datagram = [&other(0xd0)[..], &packet, &other(0xe0), &[0x41; 40]].concat();
    let kinds: Vec<_> = Packets::new(&datagram).map(|packet| packet.kind).collect();
    assert_eq!(kinds, [Kind::ZeroRtt, Kind::Initial, Kind::Handshake]);
    let mut wire = Wire::new(443);
    assert_eq!(wire.datagram(Direction::Up, &datagram).host(), "server");
}

#[test]
fn versions_that_are_not_known_and_negotiations_are_no_noise() {
    let negotiation = [
        &[0x80, 0, 0, 0, 0, 8][..],
        &DESTINATION,
        &[0],
        &hex("00000001 6b3343cf 1a2a3a4a"),
    ]
    .concat();
    let packet = Packets::new(&negotiation).next().expect("a packet");
    assert_eq!(packet.kind, Kind::VersionNegotiation);
    let mut wire = Wire::new(9999);
    assert_eq!(wire.datagram(Direction::Up, &negotiation), Got::Inspect);
    let verdict = wire.end();
    assert_eq!(
        verdict.map(|verdict| verdict.label.protocol),
        Some(Protocol::Quic)
    );
    let google = [&[0xc3][..], b"Q050", &[8], &DESTINATION, &[0; 1180]].concat();
    wire.next(9999);
    assert_eq!(
        wire.datagram(Direction::Up, &google).protocol(),
        Protocol::GoogleQuic
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), first in 0x80_u8.., version in 0..3_usize) {
        let mut bytes = bytes;
        if bytes.len() > 6 {
            bytes[0] = first;
            bytes[1..5].copy_from_slice(&[1_u32, 0x6b33_43cf, 0][version].to_be_bytes());
            bytes[5] %= 21;
        }
        let mut plain = Vec::new();
        for packet in Packets::new(&bytes) {
            let keys = Keys::of(Version::One, packet.destination, Side::Client);
            prop_assert!(open(&packet, &keys, &mut plain).is_none());
        }
        for frame in Frames::new(&bytes) {
            if let Frame::Crypto { bytes: inner, .. } = frame {
                prop_assert!(inner.len() <= bytes.len());
            }
        }
    }

    /// Frames of any cuts in any order over three datagrams.
    #[test]
    fn a_hello_in_any_frames_is_found(
        cuts in proptest::collection::btree_set(1..1700_usize, 0..5),
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let message = long_hello("frames.example.net");
        let mut ends: Vec<usize> = cuts.into_iter().filter(|cut| *cut < message.len()).collect();
        ends.push(message.len());
        let starts: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).collect();
        let mut wire = Wire::new(443);
        let mut got = Got::Inspect;
        let mut number = 0;
        for piece in order.into_iter().filter(|piece| *piece < ends.len()) {
            // A piece of more than a datagram holds goes in two.
            for bytes in message[starts[piece]..ends[piece]].chunks(1000).enumerate() {
                let (at, bytes) = bytes;
                prop_assert_eq!(&got, &Got::Inspect);
                let frames = crypto(starts[piece] + at * 1000, bytes);
                got = wire.datagram(Direction::Up, &initial(Version::One, &DESTINATION, &DESTINATION, number, &frames));
                number += 1;
            }
        }
        prop_assert_eq!(got.host(), "frames.example.net");
    }
}
