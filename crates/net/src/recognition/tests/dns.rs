//! Messages of DNS, names that point at themselves, and flows that get their names from answers.

use proptest::prelude::*;

use super::super::dns::*;
use super::*;

/// An answer of 93.184.216.34 and of 2606:2800:220:1:248:1893:25c8:1946 for www.example.com, whose name is an alias.
fn answer() -> Vec<u8> {
    let mut message =
        hex("1234 8180 0001 0003 0000 0000 03777777 076578616d706c65 03636f6d 00 0001 0001");
    // An alias of the name in the question: edge.example.com.
    message.extend(hex("c00c 0005 0001 0000012c 0007 0465646765 c010"));
    let alias = 0xc000_u16 + (message.len() - 7) as u16;
    let pointer = alias.to_be_bytes();
    message.extend([&pointer[..], &hex("0001 0001 0000003c 0004 5db8d822")].concat());
    message.extend(
        [
            &pointer[..],
            &hex("001c 0001 0000003c 0010 26062800022000010248189325c81946"),
        ]
        .concat(),
    );
    message
}

#[test]
fn a_question_and_its_answer_are_read() {
    let mut name = Name::EMPTY;
    let question =
        hex("abcd 0100 0001 0000 0000 0000 03777777 076578616d706c65 03636f6d 00 0001 0001");
    let message = Message::read(&question, &mut name).expect("a question");
    assert_eq!(name.as_bytes(), b"www.example.com");
    assert!(!message.is_answer() && message.is_plain_question() && message.kind == 1);

    let bytes = answer();
    let message = Message::read(&bytes, &mut name).expect("an answer");
    assert_eq!(name.as_bytes(), b"www.example.com");
    let addresses: Vec<_> = message
        .addresses()
        .map(|one| (one.address, one.ttl_s))
        .collect();
    let v6 = "2606:2800:220:1:248:1893:25c8:1946"
        .parse::<std::net::Ipv6Addr>()
        .expect("one");
    assert_eq!(addresses, [(0xffff_5db8_d822, 60), (v6.to_bits(), 60)]);
    // Cut anywhere, it gives what is whole.
    for cut in 0..bytes.len() {
        if let Some(message) = Message::read(&bytes[..cut], &mut name) {
            assert!(message.addresses().count() <= 1);
        }
    }
}

#[test]
fn pointers_that_lead_nowhere_end_a_name() {
    let mut name = Name::EMPTY;
    let start = "1234 0100 0001 0000 0000 0000";
    for (question, what) in [
        ("c00c 0001 0001", "at itself"),
        ("c00e c00c 0001 0001", "forwards"),
        ("0161 c00c 0001 0001", "at its own start"),
        ("8161 00 0001 0001", "a label of another kind"),
        ("3f61", "behind the end"),
    ] {
        let bytes = hex(&format!("{start} {question}"));
        assert!(Message::read(&bytes, &mut name).is_none(), "{what}");
    }
    // 255 bytes are a name, more are none.
    let label = [&[63][..], &[b'a'; 63]].concat();
    for (rest, is_name) in [(61, true), (62, false)] {
        let last = [&[rest as u8][..], &vec![b'b'; rest]].concat();
        let labels = [&label[..], &label, &label, &last].concat();
        let bytes = [hex(start), labels, hex("00 0001 0001")].concat();
        assert_eq!(Message::read(&bytes, &mut name).is_some(), is_name);
    }
}

#[test]
fn a_flow_gets_its_name_from_an_answer_before() {
    let mut wire = Wire::new(53);
    let got = wire.datagram(
        Direction::Up,
        &hex("abcd 0100 0001 0000 0000 0000 03777777 076578616d706c65 03636f6d 00 0001 0001"),
    );
    assert_eq!(
        (got.protocol(), got.host().as_str()),
        (Protocol::Dns, "www.example.com")
    );
    assert_eq!(got.verdict().source, Some(NameSource::DnsQuestion));
    // The answer comes when the flow is decided, and is read all the same; but not if it comes from the wrong side, has another identifier, or answers for another name.
    let mut answer = answer();
    let v4 = answer
        .windows(4)
        .position(|window| window == [0x5d, 0xb8, 0xd8, 0x22]);
    answer[v4.expect("there")..][..4].copy_from_slice(&0xc000_0202_u32.to_be_bytes());
    wire.datagram(Direction::Down, &answer);
    answer[..2].copy_from_slice(&[0xab, 0xcd]);
    wire.datagram(Direction::Up, &answer);
    let mut other = answer.clone();
    other[13] = b'v';
    wire.datagram(Direction::Down, &other);
    assert_eq!(wire.recognizer.stats().names, 0);
    assert!(matches!(
        wire.datagram(Direction::Down, &answer),
        Got::Known(_)
    ));
    assert_eq!(wire.recognizer.stats().names, 2);
    // A question has one answer.
    wire.datagram(Direction::Down, &answer);
    assert_eq!(wire.recognizer.stats().names, 2);
    // 192.0.2.2 is the server of a flow that says nothing that is known.
    let noise: Vec<u8> = (0..60_u8).map(|at| 0x81 ^ at.wrapping_mul(7)).collect();
    wire.next(9999);
    let got = loop {
        match wire.datagram(Direction::Up, &noise) {
            Got::Inspect => {}
            got => break got,
        }
    };
    assert_eq!(
        (got.host().as_str(), got.verdict().label.evidence),
        ("www.example.com", Evidence::Name)
    );
    assert_eq!(got.verdict().source, Some(NameSource::DnsAnswer));
    // A protocol that is known has the name too.
    wire.next(2222);
    wire.open();
    let got = wire.server(0, b"SSH-2.0-OpenSSH_9.6\r\n");
    assert_eq!(
        (got.host().as_str(), got.verdict().label.evidence),
        ("www.example.com", Evidence::Bytes)
    );
    // After a minute it has ended.
    wire.now_ms += 60_000;
    wire.next(2222);
    wire.open();
    assert_eq!(wire.server(0, b"SSH-2.0-OpenSSH_9.6\r\n").host(), "");
}

/// A message with this identifier for www.example.com; with an address it is an answer.
fn message(id: u16, kind: u16, address: Option<&str>) -> Vec<u8> {
    let (flags, answers) = match address {
        Some(_) => (0x8180, 1),
        None => (0x0100, 0),
    };
    let mut message = codes(&[id, flags, 1, answers, 0, 0]);
    message.extend(b"\x03www\x07example\x03com\0");
    message.extend(codes(&[kind, 1]));
    if let Some(address) = address {
        message.extend(codes(&[0xc00c, kind, 1, 0, 300]));
        message.extend(vector_16(&hex(address)));
    }
    message
}

#[test]
fn answers_that_nobody_asked_for_name_nothing() {
    let (v4, v6) = ("c0000202", "20010db8000000000000000000000002");
    // The first packet of its flow, and again when the flow is known.
    let mut wire = Wire::new(53);
    for _ in 0..2 {
        wire.datagram(Direction::Down, &message(7, 1, Some(v4)));
    }
    // Over TCP too.
    wire.next(53);
    wire.open();
    let unasked = vector_16(&message(7, 1, Some(v4)));
    for part in 0..2 {
        wire.server(part * unasked.len(), &unasked);
    }
    assert_eq!(wire.recognizer.stats().names, 0);

    // Both questions of a client that asks for addresses of both kinds at once have their answers.
    wire.next(53);
    for (id, kind) in [(8, 1), (9, 28)] {
        wire.datagram(Direction::Up, &message(id, kind, None));
    }
    wire.datagram(Direction::Down, &message(8, 1, Some(v4)));
    assert_eq!(wire.recognizer.stats().names, 1);
    // Servers may change the case.
    let shouted = message(9, 28, Some(v6)).to_ascii_uppercase();
    wire.datagram(Direction::Down, &shouted);
    assert_eq!(wire.recognizer.stats().names, 2);
    // An answer that comes too late is none.
    for wait_ms in [9_999, 10_000] {
        wire.datagram(Direction::Up, &message(8, 1, None));
        wire.now_ms += wait_ms;
        wire.datagram(Direction::Down, &message(8, 1, Some(v4)));
        assert_eq!(wire.recognizer.stats().names, 3);
    }
}

#[test]
fn a_question_over_tcp_has_its_answer_wherever_it_is_cut() {
    let question = vector_16(&message(7, 1, None));
    let answer = vector_16(&message(7, 1, Some("c0000202")));
    for cut in 0..question.len() {
        let mut wire = Wire::new(53);
        wire.open();
        for (at, part) in [(0, &question[..cut]), (cut, &question[cut..])] {
            wire.client(at, part);
        }
        wire.server(0, &answer);
        assert_eq!(wire.recognizer.stats().names, 1, "{cut}");
    }
}

/// What is asked is answered once, as long as few questions share a set; what was not is not.
#[test]
fn questions_wait_for_their_answers_and_the_clock_may_wrap_around() {
    let mut questions = Questions::new(1024, 5);
    let start = u32::MAX - 5_000;
    let question = |id: u16| Question {
        addresses: [1, 2],
        ports: [40_000, 53],
        id,
        name: b"a.example",
    };
    for id in 0..100 {
        questions.ask(&question(id), start);
    }
    for id in 0..200 {
        let now_ms = start.wrapping_add(9_999);
        assert_eq!(questions.answer(&question(id), now_ms), id < 100, "{id}");
        assert!(!questions.answer(&question(id), now_ms));
    }
    questions.ask(&question(7), start);
    assert!(!questions.answer(&question(7), start.wrapping_add(10_000)));
    // A table without room forgets, and does not fail.
    let mut none = Questions::new(0, 5);
    none.ask(&question(7), start);
    assert!(!none.answer(&question(7), start));
}

#[test]
fn dns_over_tcp_is_read_when_its_length_is_there() {
    let question =
        hex("abcd 0100 0001 0000 0000 0000 03777777 076578616d706c65 03636f6d 00 0001 0001");
    let stream = vector_16(&question);
    for cut in 1..stream.len() {
        let mut wire = Wire::new(53);
        wire.open();
        let mut got = wire.client(0, &stream[..cut]);
        if got == Got::Inspect {
            got = wire.client(cut, &stream[cut..]);
        }
        assert_eq!(
            (got.protocol(), got.host().as_str()),
            (Protocol::Dns, "www.example.com"),
            "{cut}"
        );
    }
}

#[test]
fn names_end_with_their_time_and_the_clock_may_wrap_around() {
    let mut names = Names::new(64, 9);
    let start = u32::MAX - 100_000;
    names.insert(5, b"a.example", 300, start);
    assert_eq!(
        names.find(5, start.wrapping_add(299_999)),
        Some(&b"a.example"[..])
    );
    assert_eq!(names.find(5, start.wrapping_add(300_000)), None);
    names.insert(5, b"b.example", 0, start);
    assert_eq!(
        names.find(5, start.wrapping_add(59_999)),
        Some(&b"b.example"[..])
    );
    assert_eq!(names.find(6, start), None);
    assert_eq!(Names::new(0, 0).find(5, 0), None);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), questions in 0..3_u8) {
        let mut bytes = bytes;
        if bytes.len() > 12 {
            bytes[2..6].copy_from_slice(&[0x81, 0x80, 0, questions]);
        }
        let mut name = Name::EMPTY;
        if let Some(message) = Message::read(&bytes, &mut name) {
            prop_assert!(name.as_bytes().len() <= 255);
            prop_assert!(message.addresses().count() <= bytes.len());
            message.is_plain_question();
        }
    }

    /// A table finds the last name of each address, as long as few addresses share a set; and never another one's.
    #[test]
    fn names_are_those_of_their_addresses(
        inserted in proptest::collection::vec((0..40_u128, 0..100_u32, 60..600_u32), 1..60),
        capacity in prop::sample::select(vec![8_usize, 64, 1024]),
        seed: u64,
    ) {
        let mut names = Names::new(capacity, seed);
        let mut model = std::collections::HashMap::new();
        for (address, name, ttl_s) in inserted {
            let text = format!("{name}.example");
            names.insert(address, text.as_bytes(), ttl_s, 7);
            model.insert(address, (text, ttl_s));
        }
        for address in 0..40 {
            for now_ms in [7, 60_006, 300_007, 700_000] {
                let wanted = model.get(&address).filter(|(_, ttl_s)| now_ms - 7 < ttl_s * 1000);
                let found = names.find(address, now_ms);
                match found {
                    Some(found) => prop_assert_eq!(Some(found), wanted.map(|(text, _)| text.as_bytes())),
                    None => prop_assert!(capacity < 1024 || wanted.is_none()),
                }
            }
        }
    }
}
