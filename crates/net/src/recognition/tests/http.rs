//! Requests as RFC 9112 has them; httparse says the same of method, target and host.

use proptest::prelude::*;

use super::super::http::*;
use super::*;

fn host_of(stream: &[u8]) -> Option<Vec<u8>> {
    match request(stream, false) {
        Reading::Whole(request) => request.host.map(|host| without_port(host).to_vec()),
        _ => None,
    }
}

#[test]
fn the_examples_of_rfc_9112_have_their_hosts() {
    // Sections 2.1, 3.2.1, 3.2.2, 3.2.3, 3.2.4.
    let cases: [(&[u8], Option<&[u8]>); 6] = [
        (
            b"GET /hello.txt HTTP/1.1\r\nUser-Agent: curl/7.64.1\r\nHost: www.example.com\r\nAccept-Language: en, mi\r\n\r\n",
            Some(b"www.example.com"),
        ),
        (b"GET /where?q=now HTTP/1.1\r\nHost: www.example.org\r\n\r\n", Some(b"www.example.org")),
        (
            b"GET http://www.example.org/pub/WWW/TheProject.html HTTP/1.1\r\nHost: other.example\r\n\r\n",
            Some(b"www.example.org"),
        ),
        (b"CONNECT www.example.com:80 HTTP/1.1\r\nHost: www.example.com\r\n\r\n", Some(b"www.example.com")),
        (b"OPTIONS * HTTP/1.1\r\nhOsT:\twww.example.org:8001 \r\n\r\n", Some(b"www.example.org")),
        (b"GET / HTTP/1.0\r\n\r\n", None),
    ];
    for (stream, host) in cases {
        assert_eq!(host_of(stream).as_deref(), host);
        assert!(matches!(request(stream, false), Reading::Whole(_)));
    }
}

#[test]
fn authorities_lose_port_brackets_and_dot() {
    let cases: [(&[u8], &[u8]); 7] = [
        (b"a.example:80", b"a.example"),
        (b"[2001:db8::1]:443", b"2001:db8::1"),
        (b"[2001:db8::1]", b"2001:db8::1"),
        (b"a.example.", b"a.example"),
        (b"a.example:", b"a.example"),
        (b"a:b", b"a:b"),
        (b"", b""),
    ];
    for (host, bare) in cases {
        assert_eq!(without_port(host), bare);
    }
    let target = b"GET http://user:word@a.example:81?q HTTP/1.1\r\n";
    assert_eq!(host_of(target).as_deref(), Some(&b"a.example"[..]));
}

#[test]
fn a_request_cut_at_every_byte_is_waited_for() {
    let text = b"POST /x HTTP/1.1\r\nA: b\r\nHost: split.example\r\n\r\n";
    let end = text.len() - 2;
    for cut in 0..text.len() {
        match request(&text[..cut], false) {
            Reading::Partial { wanted } => assert!(wanted > cut && cut < end),
            Reading::Whole(request) => {
                assert!(cut >= end);
                assert_eq!(request.host, Some(&b"split.example"[..]));
            }
            Reading::Foreign => panic!("{cut}"),
        }
    }
    for cut in 1..end {
        let mut wire = Wire::new(8080);
        wire.open();
        assert_eq!(wire.client(cut, &text[cut..]), Got::Inspect);
        let got = wire.client(0, &text[..cut]);
        assert_eq!(
            (got.protocol(), got.host().as_str()),
            (Protocol::Http, "split.example")
        );
    }
}

/// Single bytes do not bring a pass over all that is held each, whichever packets come; and a request in single bytes is found all the same.
#[test]
fn a_request_in_single_bytes_costs_few_passes() {
    let mut wire = Wire::new(80);
    wire.open();
    let mut line = b"GET /".to_vec();
    line.resize(8191, b'a');
    for (at, byte) in line.iter().enumerate() {
        assert_eq!(wire.client(at, &[*byte]), Got::Inspect);
    }
    let readings = wire.recognizer.stats().readings;
    assert!(readings < 100, "{readings}");
    // The last byte that is held, and acknowledgements behind it, which say nothing.
    assert_eq!(wire.client(8191, b"a"), Got::Inspect);
    for _ in 0..1000 {
        assert_eq!(wire.client(8192, b""), Got::Inspect);
    }
    assert!(wire.recognizer.stats().readings <= readings + 1);

    // Known with its last byte; a long one with the server's answer.
    for path_bytes in [5, 500] {
        let path = "x".repeat(path_bytes);
        let request = format!("GET /{path} HTTP/1.1\r\nHost: bytes.example\r\n\r\n");
        wire.next(80);
        wire.open();
        let mut got = Got::Inspect;
        for (at, byte) in request.bytes().enumerate() {
            if got == Got::Inspect {
                got = wire.client(at, &[byte]);
            }
        }
        if path_bytes == 500 {
            assert_eq!(got, Got::Inspect);
            got = wire.server(0, b"HTTP/1.1 200 OK\r\n");
        }
        assert_eq!(
            (got.protocol(), got.host().as_str()),
            (Protocol::Http, "bytes.example")
        );
    }
}

#[test]
fn what_is_no_request_is_told() {
    for stream in [
        &b"\x16\x03\x01"[..],
        b"GET\r\n",
        b"GET / FTP/1.1\r\n",
        b"GET /\x00 HTTP/1.1\r\n",
        b" GET / HTTP/1.1\r\n",
        b"SSH-2.0-x\r\n",
        b"EHLO example.org\r\n",
        b"AMETHODTHATISLONGERTHANANY / HTTP/1.1\r\n",
    ] {
        assert_eq!(request(stream, false), Reading::Foreign, "{stream:?}");
    }
    assert_eq!(
        answer(b"HTTP/1.1 200 OK\r\n"),
        Reading::Whole(Dialect::Http1)
    );
    assert_eq!(answer(b"HTTP"), Reading::Partial { wanted: 7 });
    assert_eq!(answer(b"HTTP/2"), Reading::Foreign);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), is_over: bool) {
        let _ = (request(&bytes, is_over), answer(&bytes), without_port(&bytes).len());
    }

    #[test]
    fn httparse_reads_the_same(
        method in "[A-Z]{1,10}",
        path in "/[a-z0-9/?&=.%-]{0,30}",
        headers in proptest::collection::vec(("(X-)?[A-Za-z-]{1,12}|Host|host", "[ -~]{0,20}"), 0..8),
        version in 0..2_u8,
        cut: prop::sample::Index,
    ) {
        let mut text = format!("{method} {path} HTTP/1.{version}\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let text = &text.as_bytes()[..cut.index(text.len() + 1)];
        let mut places = [httparse::EMPTY_HEADER; 16];
        let mut oracle = httparse::Request::new(&mut places);
        let parsed = oracle.parse(text);
        prop_assume!(parsed.is_ok());
        match request(text, false) {
            Reading::Whole(got) => {
                prop_assert_eq!(Some(got.method), oracle.method.map(str::as_bytes));
                prop_assert_eq!(Some(got.target), oracle.path.map(str::as_bytes));
                let host = (oracle.headers.iter())
                    .find(|header| header.name.eq_ignore_ascii_case("host") && !header.value.trim_ascii().is_empty());
                if parsed.is_ok_and(|status| status.is_complete()) {
                    prop_assert_eq!(got.host, host.map(|header| header.value.trim_ascii()));
                }
            }
            Reading::Partial { .. } => prop_assert!(parsed.is_ok_and(|status| status.is_partial())),
            Reading::Foreign => prop_assert!(false, "{:?}", text),
        }
    }
}
