//! Hellos of TLS, DTLS and QUIC, requests of HTTP, messages of DNS from arbitrary bytes: readers never panic, say what is inside the bytes, and ask for
//! more than there is.
#![no_main]

use dpb_net::recognition::{Carrier, Ja4, Name, Reading, dns, http, quic, tls};
use dpb_net::traffic::application::{InitialKeys, QuicVersion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&mode, bytes)) = input.split_first() else {
        return;
    };
    let is_over = mode & 1 != 0;
    read_tls(bytes, is_over);
    read_quic(bytes);
    read_http(bytes, is_over);
    read_dns(bytes);
});

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
    let keys = InitialKeys::client(QuicVersion::V1, &[9; 8]);
    let frames = [&[6, 0, 0x40, hello.len() as u8][..], &hello].concat();
    let header = [
        &[0xc0, 0, 0, 0, 1, 8][..],
        &[9; 8],
        &[0, 0, 0x40, (frames.len() + 17) as u8, 0],
    ]
    .concat();
    let name = b"\x01a\x07example\0\0\x01\0\x01";
    let seeds = [
        record,
        keys.seal(&header, 0, 1, &frames),
        b"GET http://a.b/ HTTP/1.1\r\nHost: c.d\r\n\r\n".to_vec(),
        [
            &[0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..],
            name,
            &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4],
        ]
        .concat(),
    ];
    seeds
        .into_iter()
        .map(|seed| [&[0][..], &seed].concat())
        .collect()
}
