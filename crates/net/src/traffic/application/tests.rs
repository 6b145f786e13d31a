//! Published vectors of QUIC's Initial packets; the shape of hellos.

use super::bytes::random_bytes;
use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

/// RFC 9001, A.1, and RFC 9369, A.1.
#[test]
fn keys_are_those_of_the_rfcs() {
    let id = hex("8394c8f03e515708");
    let vectors = [
        (
            InitialKeys::client(QuicVersion::V1, &id),
            [
                "1f369613dd76d5467730efcbe3b1a22d",
                "fa044b2f42a3fd3b46fb255c",
                "9f50449e04a0e810283a1e9933adedd2",
            ],
        ),
        (
            InitialKeys::server(QuicVersion::V1, &id),
            [
                "cf3a5331653c364c88f0f379b6067e37",
                "0ac1493ca1905853b0bba03e",
                "c206b8d9b9f0f37644430b490eeaa314",
            ],
        ),
        (
            InitialKeys::client(QuicVersion::V2, &id),
            [
                "8b1a0bc121284290a29e0971b5cd045d",
                "91f73e2351d8fa91660e909f",
                "45b95e15235d6f45a6b19cbcb0294ba9",
            ],
        ),
        (
            InitialKeys::server(QuicVersion::V2, &id),
            [
                "82db637861d55e1d011f19ea71d5d2a7",
                "dd13c276499c0249d3310652",
                "edf6d05c83121201b436e16877593c3a",
            ],
        ),
    ];
    for (keys, right) in vectors {
        let found = [&keys.key[..], &keys.iv, &keys.hp];
        assert_eq!(found.map(<[u8]>::to_vec), right.map(hex));
    }
}

/// The CRYPTO frame of both RFCs' example.
const FRAME: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c\
    00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d00170018\
    0010000700 0504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171\
    fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e0403050306030203080408050806002d0002010100\
    1c00024001003900320408ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8\
    f03e51570806048000ffff";

/// RFC 9001, A.2, and RFC 9369, A.2: the protected packet of 1200 bytes. Compared are the header, the first bytes of the payload, and GCM's tag,
/// which depends on every byte between.
#[test]
fn packets_are_those_of_the_rfcs() {
    let vectors = [
        (
            QuicVersion::V1,
            "c000000001088394c8f03e5157080000449e7b9aec34",
            "d1b1c98dd7689fb8ec11d242b123dc9b",
            "e221af44860018ab0856972e194cd934",
        ),
        (
            QuicVersion::V2,
            "d76b3343cf088394c8f03e5157080000449ea0c95e82",
            "ffe67b6abcdb4298b485dd04de806071",
            "a18b2faa745b6fe189cf772a9f84cbfc",
        ),
    ];
    let id = hex("8394c8f03e515708");
    for (version, header, payload, tag) in vectors {
        let initial = Initial {
            version,
            destination_id: &id,
            source_id: &[],
            token: &[],
            number: 2,
        };
        let keys = InitialKeys::client(version, &id);
        let packet = initial.packet(&keys, &hex(FRAME), 1200);
        assert_eq!(packet.len(), 1200);
        assert_eq!(packet[..22], hex(header));
        assert_eq!(packet[22..38], hex(payload));
        assert_eq!(packet[1184..], hex(tag));
    }
}

/// The name, wherever it stands: a hello says it once.
fn occurrences(bytes: &[u8], name: &str) -> usize {
    bytes
        .windows(name.len())
        .filter(|part| *part == name.as_bytes())
        .count()
}

#[test]
fn hellos_have_lengths_that_fit_and_the_name_once() {
    let name = "cdn-17.example.net";
    for offer in [TlsOffer::Tls12, TlsOffer::Tls13, TlsOffer::Tls13PostQuantum] {
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            let hello = ClientHello::browser(offer, name).message(&mut random);
            let body = u32::from_be_bytes([0, hello[1], hello[2], hello[3]]) as usize;
            assert_eq!((hello[0], body), (1, hello.len() - 4));
            assert_eq!(occurrences(&hello, name), 1);
            let range = match offer {
                TlsOffer::Tls12 => 200..400,
                TlsOffer::Tls13 => 200..500,
                // Of a share of 1216 bytes: no segment of 1460 bytes holds it.
                TlsOffer::Tls13PostQuantum => 1461..1800,
            };
            assert!(range.contains(&hello.len()), "{offer:?}: {}", hello.len());
            let records = handshake_records(&hello, 100);
            let whole: Vec<u8> = records_of(&records).concat();
            assert_eq!(whole, hello);
        }
    }
}

/// The fragments of records.
fn records_of(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut fragments = Vec::new();
    while let [kind, 3, 1, high, low, rest @ ..] = bytes {
        assert_eq!(*kind, HANDSHAKE);
        let (fragment, rest) = rest.split_at(usize::from(*high) << 8 | usize::from(*low));
        fragments.push(fragment.to_vec());
        bytes = rest;
    }
    assert!(bytes.is_empty());
    fragments
}

/// FIPS 203, 7.2: a public key whose coefficients are not below 3329 is refused.
#[test]
fn post_quantum_shares_pass_the_check_of_their_coefficients() {
    let mut random = SplitMix64::new(4);
    let hello = ClientHello::browser(TlsOffer::Tls13PostQuantum, "a.example").message(&mut random);
    // Group and length of the share.
    let at = hello
        .windows(4)
        .position(|part| part == [0x11, 0xec, 0x04, 0xc0]);
    let share = &hello[at.expect("a share") + 4..][..1216];
    for bytes in share[..1152].chunks(3) {
        let pair = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        assert!(pair & 0xfff < 3329 && pair >> 12 < 3329);
    }
}

/// GREASE values have their form, one extension does not come twice, and without GREASE there is none.
#[test]
fn reserved_values_are_in_their_places() {
    for seed in 0..50 {
        let mut random = SplitMix64::new(seed);
        let hello = ClientHello::browser(TlsOffer::Tls13, "a.example").message(&mut random);
        let kinds = extension_kinds(&hello);
        let is_grease = |kind: &u16| kind & 0x0f0f == 0x0a0a && kind >> 8 == kind & 0xff;
        assert!(is_grease(&kinds[0]) && kinds.last().is_some_and(is_grease));
        let distinct: std::collections::HashSet<_> = kinds.iter().collect();
        assert_eq!(distinct.len(), kinds.len());
        let plain = ClientHello {
            grease: false,
            shuffled: false,
            ..ClientHello::browser(TlsOffer::Tls13, "a.example")
        };
        let kinds = extension_kinds(&plain.message(&mut random));
        assert!(!kinds.iter().any(is_grease));
        assert_eq!(kinds[0], 0);
    }
}

fn extension_kinds(hello: &[u8]) -> Vec<u16> {
    let half = |at: usize| usize::from(hello[at]) << 8 | usize::from(hello[at + 1]);
    let mut at = 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 2 + half(at);
    at += 1 + usize::from(hello[at]);
    assert_eq!(at + 2 + half(at), hello.len());
    at += 2;
    let mut kinds = Vec::new();
    while at < hello.len() {
        kinds.push(half(at) as u16);
        at += 4 + half(at + 2);
    }
    kinds
}

/// Datagrams have the length that a server asks for, and a post-quantum hello takes two.
#[test]
fn initials_take_as_many_datagrams_as_they_need() {
    for (offer, delivery, datagrams) in [
        (TlsOffer::Tls13, QuicDelivery::Whole, 1),
        (TlsOffer::Tls13, QuicDelivery::Scattered(6), 1),
        (TlsOffer::Tls13, QuicDelivery::Backwards(3), 3),
        (TlsOffer::Tls13PostQuantum, QuicDelivery::Whole, 2),
        (TlsOffer::Tls13PostQuantum, QuicDelivery::Frames(9), 2),
    ] {
        let mut random = SplitMix64::new(5);
        let id = random_bytes(&mut random, 8);
        let hello = ClientHello::quic(offer, "a.example", &id).message(&mut random);
        let (sent, destination_id) =
            client_initials(QuicVersion::V1, &hello, delivery, &id, &mut random);
        assert_eq!(sent.len(), datagrams, "{offer:?} {delivery:?}");
        for datagram in sent {
            assert_eq!(datagram.len(), DATAGRAM_BYTES);
            assert_eq!(datagram[6..14], destination_id);
            // The name is encrypted.
            assert_eq!(occurrences(&datagram, "a.example"), 0);
        }
    }
}

/// A query's fields, by RFC 1035, 4.1.
#[test]
fn names_are_asked_in_labels() {
    let [query, response] = dns_exchange("www-3.example.org", &mut SplitMix64::new(6));
    assert_eq!(query[2..12], [1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    assert_eq!(query[12..31], *b"\x05www-3\x07example\x03org\0");
    assert_eq!(response[..2], query[..2]);
    assert_eq!(response[2..12], [0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 1]);
}
