//! Hellos: of RFC 8448 and OpenSSL, in records of any length, cut at any byte.

use proptest::prelude::*;

use super::super::tls::*;
use super::*;

fn whole(stream: &[u8]) -> Option<(u8, Vec<u8>)> {
    let mut scratch = Vec::new();
    match message(stream, false, &mut scratch) {
        Reading::Whole(message) => Some((message.kind, message.body.to_vec())),
        _ => None,
    }
}

#[test]
fn the_hello_of_rfc_8448_says_what_the_rfc_says() {
    let message = hex(RFC_8448);
    let stream = records(&message, 1 << 14);
    let (kind, body) = whole(&stream).expect("a hello");
    assert_eq!((kind, &body[..]), (CLIENT_HELLO, &message[4..]));
    let hello = Hello::read(&body).expect("a hello");
    assert_eq!(hello.version, 0x0303);
    assert_eq!(hello.version_max(), 0x0304);
    assert_eq!(
        hello.random,
        hex("cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7")
    );
    assert_eq!(hello.session_id, b"");
    assert_eq!(hello.server_name, Some(&b"server"[..]));
    assert_eq!(
        hello.ciphers.iter().collect::<Vec<_>>(),
        [0x1301, 0x1303, 0x1302]
    );
    let groups: Vec<_> = hello.groups.iter().collect();
    assert_eq!(
        groups,
        [0x1d, 0x17, 0x18, 0x19, 0x100, 0x101, 0x102, 0x103, 0x104]
    );
    assert_eq!(hello.signature_algorithms.iter().count(), 15);
    let kinds: Vec<_> = hello.extensions.kinds().collect();
    assert_eq!(kinds, [0, 0xff01, 10, 35, 51, 43, 13, 45, 28]);
    assert_eq!(hello.protocols.iter().next(), None);
    assert!(!hello.is_cut && !hello.has_encrypted_hello);

    let (kind, body) = whole(&records(&hex(RFC_8448_ANSWER), 1 << 14)).expect("an answer");
    assert_eq!(kind, SERVER_HELLO);
    let answer = ServerHello::read(&body).expect("an answer");
    assert_eq!(
        (answer.version, answer.cipher, answer.protocol),
        (0x0304, 0x1301, None)
    );
}

#[test]
fn hellos_of_openssl_are_read() {
    let (_, body) = whole(&hex(OPENSSL_12)).expect("a hello");
    let hello = Hello::read(&body).expect("a hello");
    assert_eq!(hello.server_name, Some(&b"www.example.org"[..]));
    assert_eq!(hello.version_max(), 0x0303);
    assert_eq!(hello.ciphers.iter().last(), Some(0xff));

    let (_, body) = whole(&hex(OPENSSL_13)).expect("a hello");
    let hello = Hello::read(&body).expect("a hello");
    assert_eq!(hello.server_name, Some(&b"static.example.org"[..]));
    let protocols: Vec<_> = hello.protocols.iter().collect();
    assert_eq!(protocols, [&b"h2"[..], b"http/1.1"]);
    assert_eq!(hello.version_max(), 0x0304);
}

#[test]
fn a_hello_in_records_of_any_length_is_the_same() {
    for message in [hex(RFC_8448), long_hello("long.example.net")] {
        for bytes_max in 1..message.len() + 1 {
            let stream = records(&message, bytes_max);
            let (_, body) = whole(&stream).expect("a hello");
            assert_eq!(body, message[4..], "{bytes_max}");
            // What is wanted is never more than what makes it whole, and always more than there is.
            let mut scratch = Vec::new();
            let mut len = 0;
            while len < stream.len() {
                match super::super::tls::message(&stream[..len], false, &mut scratch) {
                    Reading::Partial { wanted } => {
                        assert!(wanted > len && wanted <= stream.len(), "{len} {wanted}");
                        len = wanted;
                    }
                    other => panic!("{other:?} at {len} of {}", stream.len()),
                }
            }
        }
    }
}

#[test]
fn a_hello_that_is_cut_gives_what_is_there() {
    let message = long_hello("cut.example.net");
    let name = message
        .windows(15)
        .position(|window| window == b"cut.example.net");
    let name = name.expect("the name") + 15;
    let mut scratch = Vec::new();
    for len in 5..message.len() {
        let stream = records(&message, 1 << 14);
        let reading = super::super::tls::message(&stream[..5 + len], true, &mut scratch);
        let Reading::Whole(cut) = reading else {
            continue;
        };
        let hello = Hello::read(cut.body);
        let found = hello.and_then(|hello| hello.server_name).is_some();
        assert_eq!(found, len >= name, "{len}");
        let is_cut = |hello: Hello<'_>| hello.is_cut || hello.extensions == Extensions::default();
        assert!(hello.is_none_or(is_cut));
    }
}

#[test]
fn what_is_no_hello_is_told_early() {
    let mut scratch = Vec::new();
    let mut is_foreign = |stream: &[u8]| message(stream, false, &mut scratch) == Reading::Foreign;
    // An alert, encrypted data, another version, an empty record, a server's certificate, HTTP.
    for stream in [
        &b"\x15\x03\x03\x00\x02"[..],
        b"\x17\x03\x03",
        b"\x16\x02",
        b"\x16\x03\x01\x00\x00\x01\x00\x00\xff",
        b"\x16\x03\x01\x01\x00\x0b\x00\x00\xff",
        b"\x16\x03\x01\x01\x00\x01\x00\x00\x03",
        b"GET / HTTP/1.1\r\n",
    ] {
        assert!(is_foreign(stream), "{stream:?}");
    }
    assert!(!is_foreign(b"\x16\x03"));
}

#[test]
fn the_hello_of_ssl_2_is_known() {
    // Version 3.1, three ciphers of three bytes, no session, a challenge of 16.
    let hello = [
        &[0x80, 9 + 9 + 16, 1, 3, 1, 0, 9, 0, 0, 0, 16][..],
        &[5; 25],
    ]
    .concat();
    let mut scratch = Vec::new();
    let Reading::Whole(message) = message(&hello, false, &mut scratch) else {
        panic!("none");
    };
    assert!(message.is_ssl2);
    let mut wire = Wire::new(443);
    wire.open();
    let got = wire.client(0, &hello);
    assert_eq!(
        (got.protocol(), got.verdict().tls_version),
        (Protocol::Tls, 0x0301)
    );
}

#[test]
fn a_hello_of_dtls_is_read_whole_and_in_pieces() {
    let body = {
        let message = hello(&[0xc02b], &[server_name("dtls.example.net")]);
        // DTLS' version, and an empty cookie behind the session.
        let mut body = message[4..].to_vec();
        body[..2].copy_from_slice(&[0xfe, 0xfd]);
        body.insert(2 + 32 + 33, 0);
        body
    };
    let record = |start: usize, end: usize, number: u8| {
        let len = |len: usize| (len as u32).to_be_bytes();
        let piece = &body[start..end];
        let message = [
            &[1][..],
            &len(body.len())[1..],
            &[0, number],
            &len(start)[1..],
            &len(piece.len())[1..],
            piece,
        ]
        .concat();
        [
            &[22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &vector_16(&message),
        ]
        .concat()
    };
    let mut wire = Wire::new(4433);
    let got = wire.datagram(Direction::Up, &record(0, body.len(), 0));
    assert_eq!(
        (got.protocol(), got.host().as_str()),
        (Protocol::Dtls, "dtls.example.net")
    );
    assert_eq!(&got.verdict().ja4.expect("whole").as_str()[..4], "dd2d");
    for cut in 1..body.len() {
        wire.next(4433);
        let late = wire.datagram(Direction::Up, &record(cut, body.len(), 0));
        assert_eq!(late, Got::Inspect);
        let got = wire.datagram(Direction::Up, &record(0, cut, 0));
        assert_eq!(got.host(), "dtls.example.net", "{cut}");
    }
}

proptest! {
    #[test]
    fn readers_take_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600), is_over: bool) {
        let mut scratch = Vec::new();
        // More than there is is wanted, and only where more may come; nothing is a stream, too.
        for stream in [&bytes[..], &[]] {
            if let Reading::Partial { wanted } = message(stream, is_over, &mut scratch) {
                prop_assert!(wanted > stream.len() && !is_over);
            }
        }
        let _ = datagram(&bytes);
        if let Some(hello) = Hello::read(&bytes).or_else(|| Hello::read_datagram(&bytes)) {
            Ja4::of(&hello, Carrier::Tcp, &mut Vec::new());
        }
        let _ = ServerHello::read(&bytes);
    }

    /// A byte of a hello that is another one does no harm, and what is read is inside the message.
    #[test]
    fn a_spoilt_hello_is_read_or_not(at: prop::sample::Index, value: u8, cut: prop::sample::Index) {
        let mut stream = records(&long_hello("spoilt.example.net"), 300);
        let at = at.index(stream.len());
        stream[at] = value;
        let stream = &stream[..cut.index(stream.len() + 1)];
        let mut scratch = Vec::new();
        if let Reading::Whole(message) = message(stream, true, &mut scratch)
            && let Some(hello) = Hello::read(message.body)
        {
            prop_assert!(hello.server_name.is_none_or(|name| name.len() < stream.len()));
            Ja4::of(&hello, Carrier::Tcp, &mut Vec::new());
        }
    }
}
