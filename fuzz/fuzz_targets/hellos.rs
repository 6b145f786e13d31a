//! Hellos of TLS, DTLS and QUIC, requests of HTTP, messages of DNS from arbitrary bytes: readers never panic, say what is inside the bytes, and ask for
//! more than there is. Frames of QUIC from arbitrary bytes, sealed: they are read as they were, and with a bit changed not at all.
//!
//! The first byte of an input chooses, since what a fuzzer does to sealed bytes is noise.
#![no_main]

use dpb_fuzz::{Initial, crypto_frame};
use dpb_net::recognition::{Carrier, Ja4, Name, Reading, dns, http, quic, tls};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&mode, bytes)) = input.split_first() else {
        return;
    };
    if mode & 2 != 0 {
        return sealed(bytes);
    }
    let is_over = mode & 1 != 0;
    read_tls(bytes, is_over);
    read_quic(bytes);
    read_http(bytes, is_over);
    read_dns(bytes);
});

/// Eight bytes say version, connection, number and a bit; the rest is frames.
fn sealed(bytes: &[u8]) {
    let Some(([how, ids, a, b, c, d, at @ ..], frames)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let mut frames = frames[..frames.len().min(2000)].to_vec();
    frames.resize(frames.len().max(3), 0);
    let version = match how & 1 {
        0 => quic::Version::One,
        _ => quic::Version::Two,
    };
    let destination = [*ids; 20];
    let destination = &destination[..usize::from(ids % 21)];
    let number_bytes = 1 + usize::from(how >> 1 & 3);
    let number = u32::from_be_bytes([*a, *b, *c, *d]) >> (32 - 8 * number_bytes);
    let initial = Initial {
        version,
        destination,
        number,
        number_bytes,
    };
    let mut packet = initial.around(&frames);
    let client = quic::Keys::of(version, destination, quic::Side::Client);
    let server = quic::Keys::of(version, destination, quic::Side::Server);
    let mut plain = Vec::new();
    let read = quic::Packets::new(&packet).next().expect("a packet");
    assert_eq!(
        (read.kind, read.version),
        (quic::Kind::Initial, Some(version))
    );
    assert_eq!((read.destination, read.bytes), (destination, &packet[..]));
    assert!(quic::open(&read, &server, &mut plain).is_none());
    let opened = quic::open(&read, &client, &mut plain).expect("its keys");
    assert!(opened.eq(quic::Frames::new(&frames)));
    let bit = usize::from(u16::from_be_bytes(*at)) % (8 * packet.len());
    packet[bit / 8] ^= 1 << (bit % 8);
    for changed in quic::Packets::new(&packet) {
        assert!(quic::open(&changed, &client, &mut plain).is_none());
    }
}

fn read_tls(bytes: &[u8], is_over: bool) {
    let mut scratch = Vec::new();
    match tls::message(bytes, is_over, &mut scratch) {
        Reading::Whole(message) => {
            assert!(message.body.len() <= bytes.len());
            if let Some(hello) = tls::Hello::read(message.body) {
                Ja4::of(&hello, Carrier::Tcp, &mut Vec::new());
                Ja4::raw(&hello, Carrier::Tcp);
            }
            tls::ServerHello::read(message.body);
        }
        Reading::Partial { wanted } => assert!(wanted > bytes.len() && !is_over),
        Reading::Foreign => {}
    }
    if let Some(Ok(piece)) = tls::datagram(bytes) {
        assert!(piece.start + piece.body.len() <= piece.len);
        tls::Hello::read_datagram(piece.body);
    }
}

fn read_quic(bytes: &[u8]) {
    let mut plain = Vec::new();
    let mut len = 0;
    for packet in quic::Packets::new(bytes) {
        len += packet.bytes.len();
        let version = packet.version.unwrap_or(quic::Version::One);
        let keys = quic::Keys::of(version, packet.destination, quic::Side::Client);
        if let Some(frames) = quic::open(&packet, &keys, &mut plain) {
            frames.count();
        }
        quic::retry_is_whole(&packet, packet.source);
    }
    assert!(len <= bytes.len());
    quic::Frames::new(bytes).count();
}

fn read_http(bytes: &[u8], is_over: bool) {
    match http::request(bytes, is_over) {
        Reading::Whole(request) => assert!(request.len.is_none_or(|len| len <= bytes.len())),
        Reading::Partial { wanted } => assert!(wanted > bytes.len() && !is_over),
        Reading::Foreign => {}
    }
    let _ = http::answer(bytes);
    http::without_port(bytes);
}

fn read_dns(bytes: &[u8]) {
    let mut name = Name::EMPTY;
    if let Some(message) = dns::Message::read(bytes, &mut name) {
        message.is_plain_question();
        assert!(message.addresses().count() <= bytes.len());
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let extension = [&[0, 0, 0, 8, 0, 6, 0, 0, 3][..], b"a.b"].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0, 0, 2, 0x13, 1, 1, 0, 0, extension.len() as u8],
        &extension,
    ]
    .concat();
    let hello = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    let record = [&[22, 3, 1, 0, hello.len() as u8][..], &hello].concat();
    let frames = crypto_frame(0, &hello);
    let initial = Initial {
        version: quic::Version::One,
        destination: &[9; 8],
        number: 0,
        number_bytes: 1,
    };
    // A cookie behind the session's number.
    let datagram = [&[0xfe, 0xfd][..], &body[2..35], &[0], &body[35..]].concat();
    let len = datagram.len() as u8;
    let piece = [&[1, 0, 0, len, 0, 0, 0, 0, 0, 0, 0, len][..], &datagram].concat();
    let piece = [&[22, 0xfe, 0xfd][..], &[0; 9], &[piece.len() as u8], &piece].concat();
    let acknowledged = [&[2, 0, 0, 0, 0, 1][..], &frames, &[0, 0, 0x1c]].concat();
    let name = b"\x01a\x07example\0\0\x01\0\x01";
    let seeds = [
        record,
        initial.around(&frames),
        piece,
        b"GET http://a.b/ HTTP/1.1\r\nHost: c.d\r\n\r\n".to_vec(),
        [
            &[0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..],
            name,
            &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4],
        ]
        .concat(),
    ];
    let plain = seeds.map(|seed| [&[0][..], &seed].concat());
    // Both versions, all lengths of numbers.
    let sealed = (0..8).map(|how| [&[2, how, 8, 1, 2, 3, 4, 0, 200][..], &acknowledged].concat());
    plain.into_iter().chain(sealed).collect()
}
