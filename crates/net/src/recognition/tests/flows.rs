//! Connections: hellos in every cut, order and overlap; other protocols; memory that ends.

use proptest::prelude::*;

use super::*;

/// The hellos that are cut: message bytes in their records, and the name in them.
fn hellos() -> Vec<(Vec<u8>, &'static str)> {
    vec![
        (records(&hex(RFC_8448), 1 << 14), "server"),
        (hex(OPENSSL_12), "www.example.org"),
        (hex(OPENSSL_13), "static.example.org"),
        (
            records(&long_hello("mail.google.com"), 1 << 14),
            "mail.google.com",
        ),
        (
            records(&long_hello("mail.google.com"), 700),
            "mail.google.com",
        ),
    ]
}

/// What a hello gives in one piece.
fn at_once(stream: &[u8], name: &str) -> Got {
    let mut wire = Wire::new(443);
    wire.open();
    let got = wire.client(0, stream);
    assert_eq!(got.host(), name);
    assert_eq!(wire.recognizer.stats().at_once, 1);
    assert!(got.verdict().ja4.is_some());
    got
}

/// Two verdicts, but for the packets that they took.
fn assert_same(got: &Got, wanted: &Got, what: &str) {
    let (got, wanted) = (got.verdict(), wanted.verdict());
    assert_eq!(got.host, wanted.host, "{what}");
    assert_eq!(got.label, wanted.label, "{what}");
    assert_eq!(got.ja4, wanted.ja4, "{what}");
    assert_eq!(got.source, wanted.source, "{what}");
    assert_eq!(got.protocol_offered, wanted.protocol_offered, "{what}");
}

#[test]
fn a_hello_cut_at_every_byte_is_found_in_every_order() {
    for (stream, name) in hellos() {
        let wanted = at_once(&stream, name);
        let mut wire = Wire::new(443);
        for cut in 1..stream.len() {
            let (head, tail) = stream.split_at(cut);
            for has_syn in [true, false] {
                // In order.
                wire.next(443);
                if has_syn {
                    wire.open();
                }
                assert_eq!(wire.client(0, head), Got::Inspect, "{cut}");
                assert_same(&wire.client(cut, tail), &wanted, "in order");
                // The end first.
                wire.next(443);
                if has_syn {
                    wire.open();
                }
                let first = wire.client(cut, tail);
                if has_syn {
                    assert_eq!(first, Got::Inspect, "{cut}");
                }
                // Without a SYN what is seen first is taken for the start, and may even look like something.
                if first == Got::Inspect {
                    assert_same(&wire.client(0, head), &wanted, "out of order");
                }
            }
            // Twice, and overlapping: the first copy counts, whatever the second one says.
            wire.next(443);
            wire.open();
            assert_eq!(wire.client(0, head), Got::Inspect);
            assert_eq!(wire.client(0, head), Got::Inspect);
            let from = cut / 2;
            let spoilt: Vec<u8> = (from..stream.len())
                .map(|at| if at < cut { 0xee } else { stream[at] })
                .collect();
            assert_same(&wire.client(from, &spoilt), &wanted, "overlapping");
            // The end first, then all of it with another end.
            wire.next(443);
            wire.open();
            assert_eq!(wire.client(cut, tail), Got::Inspect);
            let spoilt = [head, &vec![0xee; tail.len()]].concat();
            assert_same(&wire.client(0, &spoilt), &wanted, "all of it again");
        }
        assert_eq!(wire.recognizer.stats().dropped, 0);
        assert_eq!(
            wire.recognizer.stats().given_up,
            wire.recognizer.stats().reclaimed
        );
    }
}

#[test]
fn a_hello_byte_by_byte_is_found() {
    for (stream, name) in hellos() {
        let wanted = at_once(&stream, name);
        let mut wire = Wire::new(443);
        wire.open();
        let last = stream.len() - 1;
        for (at, byte) in stream[..last].iter().enumerate() {
            assert_eq!(wire.client(at, &[*byte]), Got::Inspect, "{at}");
        }
        assert_same(&wire.client(last, &stream[last..]), &wanted, "byte by byte");
        assert_eq!(wire.recognizer.undecided(), 0);
    }
}

proptest! {
    /// Any pieces in any order, some again.
    #[test]
    fn a_hello_in_any_pieces_is_found(
        which in 0..5_usize,
        cuts in proptest::collection::btree_set(1..300_usize, 0..6),
        order in Just((0..7_usize).collect::<Vec<_>>()).prop_shuffle(),
        overlaps in proptest::collection::vec(0..40_usize, 7),
        again: bool,
    ) {
        let (stream, name) = hellos().swap_remove(which);
        let wanted = at_once(&stream, name);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut * stream.len() / 300).collect();
        ends.push(stream.len());
        ends.dedup();
        ends.retain(|end| *end > 0);
        let starts: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).collect();
        let mut wire = Wire::new(443);
        wire.open();
        let mut got = Got::Inspect;
        for number in order.into_iter().filter(|number| *number < ends.len()) {
            let start = starts[number].saturating_sub(overlaps[number]);
            let end = (ends[number] + overlaps[number] / 2).min(stream.len());
            for _ in 0..=usize::from(again) {
                if got == Got::Inspect {
                    got = wire.client(start, &stream[start..end]);
                }
            }
        }
        assert_same(&got, &wanted, "pieces");
    }

    #[test]
    fn a_recognizer_takes_any_packets(
        packets in proptest::collection::vec(
            (any::<bool>(), any::<u16>(), 0..64_u8, proptest::collection::vec(any::<u8>(), 0..80), any::<bool>()),
            0..60,
        ),
        port in prop::sample::select(vec![53_u16, 80, 88, 123, 443, 502, 1194, 9999]),
        has_rules: bool,
        datagrams: bool,
    ) {
        let mut wire = Wire::with(port, Settings { has_rules, ..Settings::default() });
        for (is_up, offset, flags, mut payload, is_text) in packets {
            let direction = if is_up { Direction::Up } else { Direction::Down };
            if is_text {
                payload.iter_mut().for_each(|byte| *byte = b"GET \r\nHost:STARTLS220-/x"[usize::from(*byte) % 24]);
            }
            match datagrams {
                true => wire.datagram(direction, &payload),
                false => wire.send(direction, i64::from(offset % 300) - 20, Flags(flags), &payload),
            };
        }
        wire.end();
        prop_assert_eq!(wire.recognizer.undecided(), 0);
    }
}

/// Odd segments come before even ones, so each but the last leaves a gap.
#[test]
fn a_hello_with_many_gaps_is_found() {
    for (stream, name) in hellos() {
        let wanted = at_once(&stream, name);
        for segments in [14, 40] {
            let mut wire = Wire::new(443);
            wire.open();
            let bytes = stream.len().div_ceil(segments);
            let segments: Vec<(usize, &[u8])> = stream.chunks(bytes).enumerate().collect();
            let (odd, even): (Vec<_>, Vec<_>) =
                segments.into_iter().partition(|one| one.0 % 2 == 1);
            let mut got = Got::Inspect;
            for (number, segment) in odd.into_iter().chain(even) {
                assert_eq!(got, Got::Inspect, "{number}");
                got = wire.client(number * bytes, segment);
            }
            assert_same(&got, &wanted, "many gaps");
            assert_eq!(wire.recognizer.stats().dropped, 0);
        }
    }
}

#[test]
fn after_the_verdict_no_packet_is_looked_at() {
    let mut wire = Wire::new(443);
    wire.open();
    let label = wire.client(0, &hex(OPENSSL_13)).verdict().label;
    assert_eq!(wire.mark.label(), Some(label));
    let inspected = wire.recognizer.stats().inspected;
    for _ in 0..10 {
        assert_eq!(
            wire.server(0, &records(&hex(RFC_8448_ANSWER), 99)),
            Got::Known(label)
        );
    }
    assert_eq!(wire.recognizer.stats().inspected, inspected);
    assert_eq!(wire.recognizer.stats().known, 10);
}

#[test]
fn an_application_follows_from_the_name() {
    let mut wire = Wire::new(443);
    wire.open();
    let got = wire.client(0, &records(&long_hello("rr2.googlevideo.com"), 1 << 14));
    let list = Applications::built_in();
    assert_eq!(got.verdict().label.application, list.named("youtube"));
    // Its hello carries an encrypted one, or pretends to.
    assert_eq!(got.verdict().source, Some(NameSource::OuterSni));
    assert_eq!(got.verdict().protocol_offered.as_bytes(), b"h2");
    assert_eq!(
        &got.verdict().ja4.expect("whole").as_str()[..10],
        "t13d0507h2"
    );
}

#[test]
fn data_on_a_syn_counts() {
    let mut wire = Wire::new(443);
    let stream = hex(OPENSSL_13);
    assert_eq!(
        wire.send(Direction::Up, 0, Flags::SYN, &stream[..100]),
        Got::Inspect
    );
    assert_eq!(
        wire.client(100, &stream[100..]).host(),
        "static.example.org"
    );
    wire.next(443);
    assert_eq!(
        wire.send(Direction::Up, 0, Flags::SYN, &stream).host(),
        "static.example.org"
    );
}

#[test]
fn a_server_that_is_seen_alone_is_of_tls() {
    let mut wire = Wire::new(443);
    wire.open();
    let got = wire.server(0, &records(&hex(RFC_8448_ANSWER), 1 << 14));
    assert_eq!(
        (got.protocol(), got.verdict().tls_version),
        (Protocol::Tls, 0x0304)
    );
    // With the end of the client's hello lost, its name is found all the same, when the flow is given up or ends.
    wire.next(443);
    wire.open();
    let hello = records(&long_hello("lost.example.net"), 1 << 14);
    assert_eq!(wire.client(0, &hello[..hello.len() - 9]), Got::Inspect);
    assert_eq!(
        wire.server(0, &records(&hex(RFC_8448_ANSWER), 1 << 14)),
        Got::Inspect
    );
    let verdict = wire.end().expect("a verdict");
    assert_eq!(
        (verdict.host.to_string().as_str(), verdict.ja4),
        ("lost.example.net", None)
    );
}

#[test]
fn a_reset_ends_a_flow_if_its_number_is_near() {
    for (offset, is_near) in [(0, true), (60_000, true), (900_000, false), (-50, false)] {
        let mut wire = Wire::new(443);
        wire.open();
        assert_eq!(wire.client(0, &hex(OPENSSL_13)[..50]), Got::Inspect);
        let got = wire.send(Direction::Up, offset, Flags::RST, b"");
        match is_near {
            true => assert_eq!(got.protocol(), Protocol::Tls),
            false => assert_eq!(got, Got::Inspect),
        }
    }
}

#[test]
fn a_fin_lets_a_short_stream_be_read_as_it_is() {
    let mut wire = Wire::new(80);
    wire.open();
    let fin = Flags::FIN.with(Flags::ACK);
    let got = wire.send(Direction::Up, 0, fin, b"GET /a HTTP/1.0\r\nAccept: x\r\n");
    assert_eq!((got.protocol(), got.host().as_str()), (Protocol::Http, ""));
}

#[test]
fn noise_is_given_up_and_its_port_is_a_guess() {
    let noise: Vec<u8> = (0..200_u32)
        .map(|at| ((at * at) >> 3 | 1) as u8 ^ 0x55)
        .collect();
    let mut wire = Wire::new(443);
    wire.open();
    assert_eq!(wire.client(0, &noise), Got::Inspect);
    let got = wire.server(0, &noise);
    let Got::GaveUp(GiveUp::Foreign, verdict) = got else {
        panic!("{got:?}");
    };
    assert_eq!(
        (verdict.label.protocol, verdict.label.evidence),
        (Protocol::Tls, Evidence::Port)
    );
    assert_eq!(wire.recognizer.undecided(), 0);
    // A side that says nothing more is waited for, but not for ever.
    wire.next(50_505);
    wire.open();
    let mut packets = 0;
    let got = loop {
        match wire.client(200 * packets, &noise) {
            Got::Inspect => packets += 1,
            got => break got,
        }
    };
    assert!(matches!(got, Got::GaveUp(GiveUp::Limit, _)));
    assert_eq!(got.verdict().label, Label::UNKNOWN);
    assert!(packets < 32);
}

#[test]
fn first_bytes_tell_protocols_apart() {
    let cases: [(&[u8], u16, Protocol); 16] = [
        (b"SSH-2.0-OpenSSH_9.6\r\n", 2222, Protocol::Ssh),
        (
            b"\x13BitTorrent protocol\0\0\0\0",
            9999,
            Protocol::BitTorrent,
        ),
        (
            b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd",
            9999,
            Protocol::Mqtt,
        ),
        (b"RFB 003.008\n", 9999, Protocol::Vnc),
        (b"\0\0\0\x55\xfeSMB\x40\0\0\0", 9999, Protocol::Smb),
        (b"*1\r\n$4\r\nPING\r\n", 9999, Protocol::Redis),
        (
            b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00",
            9999,
            Protocol::Ldap,
        ),
        (b"AMQP\x00\x00\x09\x01", 9999, Protocol::Amqp),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\x1d\x01\x04",
            9999,
            Protocol::Bgp,
        ),
        (
            b"OPTIONS rtsp://a/ RTSP/1.0\r\nCSeq: 1\r\n\r\n",
            9999,
            Protocol::Rtsp,
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 9999, Protocol::Http2),
        (b"NICK someone\r\n", 9999, Protocol::Irc),
        (
            b"0032git-upload-pack /project.git\0host=x\0",
            9999,
            Protocol::Git,
        ),
        (
            b"\x05\0\x0b\x03\x10\0\0\0\x48\0\0\0\x01\0\0\0",
            9999,
            Protocol::DceRpc,
        ),
        (b"\0\x0a\0\0\0\x06\x01\x03\0\0\0\x01", 502, Protocol::Modbus),
        (b"\xff\xfd\x18\xff\xfd\x20", 9999, Protocol::Telnet),
    ];
    for (bytes, port, protocol) in cases {
        let mut wire = Wire::new(port);
        wire.open();
        let got = wire.client(0, bytes);
        assert_eq!(got.protocol(), protocol, "{bytes:?}");
        // In pieces it is the same.
        for cut in 1..bytes.len().min(8) {
            wire.next(port);
            wire.open();
            let mut got = wire.client(0, &bytes[..cut]);
            if got == Got::Inspect {
                got = wire.client(cut, &bytes[cut..]);
            }
            let got = match got {
                Got::Inspect => wire.end().expect("held").label.protocol,
                got => got.protocol(),
            };
            assert_eq!(got, protocol, "{bytes:?} at {cut}");
        }
    }
}

#[test]
fn datagrams_tell_protocols_apart() {
    let dhcp = [
        &[1, 1, 6, 0][..],
        &[0; 232],
        &[0x63, 0x82, 0x53, 0x63, 53, 1, 1],
    ]
    .concat();
    let ntp = [&[0x23][..], &[0; 47]].concat();
    let wireguard = [&[1, 0, 0, 0][..], &[7; 144]].concat();
    let cases: [(&[u8], u16, Protocol); 9] = [
        (b"\0\x01\0\0\x21\x12\xa4\x42abcdefghijkl", 9999, Protocol::Stun),
        (&dhcp, 67, Protocol::Dhcp),
        (&ntp, 123, Protocol::Ntp),
        (&wireguard, 9999, Protocol::WireGuard),
        (b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe", 9999, Protocol::BitTorrent),
        (b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\n", 1900, Protocol::Ssdp),
        (b"REGISTER sip:example.org SIP/2.0\r\nVia: x\r\n", 9999, Protocol::Sip),
        (b"<34>Oct 11 22:14:15 host su: failed", 514, Protocol::Syslog),
        (b"\x30\x1a\x02\x01\x01\x04\x06public\xa0\x0d\x02\x01\x01\x02\x01\0\x02\x01\0\x30\x02\x05\0", 161, Protocol::Snmp),
    ];
    for (bytes, port, protocol) in cases {
        let mut wire = Wire::new(port);
        assert_eq!(
            wire.datagram(Direction::Up, bytes).protocol(),
            protocol,
            "{bytes:?}"
        );
    }
    // RTP needs two packets of one source.
    let mut wire = Wire::new(9999);
    let rtp = |number: u8| {
        [
            &[0x80, 0, 0, number, 0, 0, 0, 1, 9, 9, 9, 9][..],
            &[0x7f; 160],
        ]
        .concat()
    };
    assert_eq!(wire.datagram(Direction::Up, &rtp(7)), Got::Inspect);
    assert_eq!(
        wire.datagram(Direction::Up, &rtp(8)).protocol(),
        Protocol::Rtp
    );
}

#[test]
fn mail_that_goes_over_to_tls_is_followed() {
    let mut wire = Wire::new(25);
    wire.open();
    let (greeting, capabilities) = (
        &b"220 mx.example.org ESMTP\r\n"[..],
        &b"250 STARTTLS\r\n"[..],
    );
    let (hello, asked) = (&b"EHLO client\r\n"[..], &b"STARTTLS\r\n"[..]);
    let tls = hex(OPENSSL_12);
    assert_eq!(wire.server(0, greeting), Got::Inspect);
    assert_eq!(wire.client(0, hello), Got::Inspect);
    assert_eq!(wire.server(greeting.len(), capabilities), Got::Inspect);
    assert_eq!(wire.client(hello.len(), asked), Got::Inspect);
    assert_eq!(
        wire.server(greeting.len() + capabilities.len(), b"220 go\r\n"),
        Got::Inspect
    );
    let start = hello.len() + asked.len();
    assert_eq!(wire.client(start, &tls[..30]), Got::Inspect);
    let got = wire.client(start + 30, &tls[30..]);
    assert_eq!(
        (got.protocol(), got.host().as_str()),
        (Protocol::Smtp, "www.example.org")
    );
    assert_eq!(got.verdict().label.evidence, Evidence::Tls);
    // Mail in clear is known with its sender's command.
    wire.next(25);
    wire.open();
    assert_eq!(wire.server(0, greeting), Got::Inspect);
    assert_eq!(wire.client(0, hello), Got::Inspect);
    let got = wire.client(hello.len(), b"MAIL FROM:<a@example.org>\r\n");
    assert_eq!(
        (got.protocol(), got.verdict().label.evidence),
        (Protocol::Smtp, Evidence::Bytes)
    );
}

#[test]
fn proxies_and_databases_that_go_over_to_tls_are_followed() {
    let tls = hex(OPENSSL_12);
    let connect = b"CONNECT www.example.org:443 HTTP/1.1\r\nHost: www.example.org:443\r\n\r\n";
    let socks = b"\x05\x01\0\x05\x01\0\x03\x0fwww.example.org\x01\xbb";
    let postgresql = b"\0\0\0\x08\x04\xd2\x16\x2f";
    let rdp = b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0";
    let cases: [(&[u8], Protocol); 4] = [
        (connect, Protocol::Http),
        (socks, Protocol::Socks),
        (postgresql, Protocol::PostgreSql),
        (rdp, Protocol::Rdp),
    ];
    for (start, protocol) in cases {
        for cut in [0, 1, 40, tls.len() - 1] {
            let mut wire = Wire::new(9999);
            wire.open();
            let first = start
                .len()
                .min(if protocol == Protocol::Socks { 3 } else { 99 });
            assert_eq!(wire.client(0, &start[..first]), Got::Inspect, "{protocol}");
            if first < start.len() {
                assert_eq!(
                    wire.client(first, &start[first..]),
                    Got::Inspect,
                    "{protocol}"
                );
            }
            let (head, tail) = tls.split_at(cut);
            if !head.is_empty() {
                assert_eq!(
                    wire.client(start.len(), head),
                    Got::Inspect,
                    "{protocol} {cut}"
                );
            }
            let got = wire.client(start.len() + cut, tail);
            assert_eq!(
                (got.protocol(), got.host().as_str()),
                (protocol, "www.example.org")
            );
            assert_eq!(got.verdict().label.evidence, Evidence::Tls);
        }
    }
    // Without TLS the proxy's target is the name.
    let mut wire = Wire::new(3128);
    wire.open();
    assert_eq!(wire.client(0, connect), Got::Inspect);
    let got = wire.client(connect.len(), b"SSH-2.0-x\r\n");
    assert_eq!(
        (got.protocol(), got.host().as_str()),
        (Protocol::Http, "www.example.org")
    );
    assert_eq!(got.verdict().source, Some(NameSource::Proxy));
}

#[test]
fn memory_that_is_gone_is_an_outcome() {
    let limits = Limits {
        undecided_max: 2,
        idle_ms: 1000,
        ..Limits::default()
    };
    let settings = Settings {
        limits,
        ..Settings::default()
    };
    let mut wire = Wire::with(443, settings);
    let half = hex(OPENSSL_13)[..50].to_vec();
    let mut marks = [Mark::default(); 3];
    for mark in &mut marks[..2] {
        wire.next(443);
        wire.open();
        assert_eq!(wire.client(0, &half), Got::Inspect);
        *mark = wire.mark;
        assert!(mark.holds_memory());
    }
    // Nobody is idle: a third flow gets what its port says.
    wire.next(443);
    wire.open();
    let got = wire.client(0, &half);
    assert!(matches!(got, Got::GaveUp(GiveUp::NoRoom, _)));
    assert_eq!(
        (got.protocol(), got.verdict().label.evidence),
        (Protocol::Tls, Evidence::Port)
    );
    // A second later the oldest makes room, and learns of it with its next packet.
    wire.now_ms += 1000;
    wire.next(443);
    wire.open();
    assert_eq!(wire.client(0, &half), Got::Inspect);
    marks[2] = wire.mark;
    wire.mark = marks[0];
    let got = wire.client(50, &hex(OPENSSL_13)[50..]);
    assert!(matches!(got, Got::GaveUp(GiveUp::Reclaimed, _)), "{got:?}");
    // The others go on.
    for mark in &marks[1..] {
        wire.mark = *mark;
        assert_eq!(
            wire.client(50, &hex(OPENSSL_13)[50..]).host(),
            "static.example.org"
        );
    }
    assert_eq!(wire.recognizer.undecided(), 0);
    let stats = wire.recognizer.stats();
    assert_eq!((stats.refused, stats.reclaimed, stats.verdicts), (1, 1, 2));
}
