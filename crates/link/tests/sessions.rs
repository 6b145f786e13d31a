//! Agents and clients of which one is a stranger, late, gone, of another version, or lies; in clear and encrypted.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dpb_link::hello::{Hello, Welcome};
use dpb_link::tag::{ERROR, HELLO, OPEN, STOP, WELCOME};
use dpb_link::{
    Access, Agent, AgentDescription, AgentOptions, BindError, ClientInfo, Connect, ConnectError,
    HEADER_BYTES, Header, Link, LinkError, Offer, Pass, Refusal, Service, Tags, Token, VERSION,
    echo,
};
use support::{Serving, echoing, frame, hello, last_words, loopback, open, soon, token};

#[test]
fn bodies_come_back_as_they_were_and_are_counted() {
    for access in support::accesses() {
        let serving = Serving::start(access.clone());
        let mut link = echoing(&serving.address, support::pass(&access)).unwrap();
        let before = link.bytes();
        let mut bytes = 0;
        for len in [0, 1, 9, 4096, 16_384, 16_385, 100_000, echo::BODY_BYTES_MAX] {
            let body: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
            echo::round_trip(&mut link, &body).unwrap();
            bytes += (len + HEADER_BYTES) as u64;
        }
        let after = link.bytes();
        assert_eq!((after.0 - before.0, after.1 - before.1), (bytes, bytes));
        let long = echo::round_trip(&mut link, &vec![0; echo::BODY_BYTES_MAX + 1]);
        assert!(matches!(long, Err(LinkError::TooLong { .. })));
    }
}

#[test]
fn an_agent_says_what_it_is_and_offers() {
    for access in support::accesses() {
        let serving = Serving::start(access.clone());
        let connect = Connect {
            pass: support::pass(&access),
            ..Connect::new(&*serving.address)
        };
        let session = connect.session().unwrap();
        assert_eq!(session.agent(), &AgentDescription::of_this_process());
        let names: Vec<&str> = session.services().iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["echo", "telling", "raw"]);
        assert_eq!(session.services()[1].description, b"what it has to say");
    }
}

#[test]
fn a_service_may_take_the_stream_over() {
    for access in support::accesses() {
        let serving = Serving::start(access.clone());
        let connect = Connect {
            pass: support::pass(&access),
            ..Connect::new(&*serving.address)
        };
        let link = connect.session().unwrap().open("raw", 3, Tags::NONE);
        let mut stream = link.unwrap().into_stream();
        assert_eq!(stream.is_encrypted(), serving.is_encrypted);
        // More at once than any buffer has, while the other side already sends.
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 253) as u8).collect();
        let back = support::exchange(&mut stream, &bytes);
        assert!(back.iter().zip(&bytes).all(|(back, sent)| *back == !sent));
        assert_eq!(back.len(), bytes.len());
    }
}

#[test]
fn what_is_not_offered_is_refused_with_what_is() {
    let serving = Serving::start(Access::Anyone);
    let open = |name: &str, version| {
        let session = Connect::new(&*serving.address).session().unwrap();
        match session.open(name, version, echo::TAGS) {
            Err(LinkError::Refused { refusal, text }) => (refusal, text),
            other => panic!("{other:?}"),
        }
    };
    let (refusal, text) = open("pushdown", 1);
    assert_eq!(refusal, Refusal::Unavailable);
    assert!(
        text.contains("pushdown") && text.contains("echo, telling, raw"),
        "{text}"
    );
    let (refusal, text) = open("echo", 9);
    assert_eq!(refusal, Refusal::Version);
    assert!(
        text.contains("version 9") && text.contains("version 1"),
        "{text}"
    );
    assert!(serving.said(&["pushdown", "version 9"]));
}

#[test]
fn only_who_has_the_token_is_let_in_and_the_wrong_one_waits() {
    for access in support::accesses() {
        if matches!(access, Access::Anyone) {
            continue;
        }
        let serving = Serving::start(access.clone());
        echoing(&serving.address, support::pass(&access)).unwrap();
        let began = Instant::now();
        let refused = echoing(&serving.address, support::pass_with_wrong_token(&access));
        match refused {
            Err(LinkError::Refused {
                refusal: Refusal::Token,
                text,
            }) => {
                assert!(text.contains("--credentials"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed() >= Duration::from_secs(1));
        assert!(serving.said(&["token"]));
        echoing(&serving.address, support::pass(&access)).unwrap();
    }
}

#[test]
fn garbage_in_the_handshake_ends_its_own_connection_with_a_word() {
    let serving = Serving::start(Access::Anyone);
    let mut survivor = echoing(&serving.address, Pass::None).unwrap();
    let mut older = hello();
    older[HEADER_BYTES + 4] = 6;
    let noise: Vec<u8> = (0..5000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let slow = Hello {
        version: VERSION,
        capabilities: 0,
        link_bits_per_s: 1,
        token: vec![],
    };
    let huge = [16, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f];
    let opened = || [hello(), open("echo", 1)].concat();
    for (name, bytes, refusal) in [
        (
            "HTTP",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            Refusal::Protocol,
        ),
        ("noise", noise, Refusal::Protocol),
        ("a stop first", frame(STOP, &[]), Refusal::Protocol),
        ("a service's frame first", frame(16, &[]), Refusal::Protocol),
        ("another version", older, Refusal::Version),
        (
            "a hello beyond its bound",
            frame(HELLO, &[0; 2000]),
            Refusal::Protocol,
        ),
        ("no pace", frame(HELLO, &slow.to_bytes()), Refusal::Usage),
        (
            "a second hello",
            [hello(), hello()].concat(),
            Refusal::Protocol,
        ),
        (
            "a stop for open",
            [hello(), frame(STOP, &[])].concat(),
            Refusal::Protocol,
        ),
        (
            "an open without a name",
            [hello(), frame(OPEN, &[1, 0])].concat(),
            Refusal::Protocol,
        ),
        (
            "a second open",
            [opened(), open("echo", 1)].concat(),
            Refusal::Protocol,
        ),
        (
            "a huge length",
            [opened(), huge.to_vec()].concat(),
            Refusal::Protocol,
        ),
        (
            "an unknown tag",
            [opened(), frame(99, &[])].concat(),
            Refusal::Protocol,
        ),
        (
            "a tag of the session's",
            [opened(), frame(9, &[])].concat(),
            Refusal::Protocol,
        ),
        (
            "a credit",
            [opened(), frame(4, &[1, 0, 0, 0])].concat(),
            Refusal::Protocol,
        ),
    ] {
        let mut stream = serving.dial();
        stream.write_all(&bytes).unwrap();
        let words = last_words(&mut stream);
        assert_eq!(
            words.as_ref().map(|w| w.0),
            Some(refusal),
            "{name}: {words:?}"
        );
    }
    echo::round_trip(&mut survivor, b"still there").unwrap();
}

#[test]
fn a_handshake_that_ends_anywhere_ends_its_connection() {
    let serving = Serving::start(Access::Anyone);
    let whole = [hello(), open("echo", 1), frame(16, b"a body")].concat();
    for end in 0..=whole.len() {
        let mut stream = serving.dial();
        stream.write_all(&whole[..end]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        last_words(&mut stream);
        assert!(matches!(stream.read(&mut [0]), Ok(0)), "{end}");
    }
    assert!(echoing(&serving.address, Pass::None).is_ok());
}

#[test]
fn a_client_that_sends_a_byte_now_and_then_is_given_up() {
    for access in support::accesses() {
        let mut options = AgentOptions::new(loopback());
        options.access = access;
        options.handshake_patience = Duration::from_millis(400);
        let serving = Serving::with(options);
        for bytes in [vec![], hello(), vec![22, 3, 1, 0, 200]] {
            let mut stream = serving.dial();
            let began = Instant::now();
            let gone = bytes.iter().chain([&0; 1000]).any(|byte| {
                thread::sleep(Duration::from_millis(50));
                stream.write_all(&[*byte]).is_err()
            });
            assert!(gone && began.elapsed() < Duration::from_secs(30));
        }
    }
}

#[test]
fn a_client_of_a_hostile_agent_gets_an_error_soon() {
    let welcome = Welcome {
        capabilities: 0,
        agent: AgentDescription::of_this_process(),
        services: vec![Offer {
            name: "echo".into(),
            version: 1,
            description: vec![],
        }],
    };
    let welcome = welcome.to_bytes();
    let mut newer = welcome.clone();
    newer[4] = 99;
    let good = [frame(WELCOME, &welcome), frame(130, &[1, 0])].concat();
    let long = Header {
        tag: WELCOME,
        len: 80 << 10,
    }
    .to_bytes()
    .to_vec();
    let refusal = [&[2, 0], &b"\x1b[2J go away"[..]].concat();
    type Right = fn(&LinkError) -> bool;
    let cases: Vec<(&str, Vec<u8>, Right)> = vec![
        ("nothing", vec![], |e| matches!(e, LinkError::Closed)),
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), |e| {
            matches!(e, LinkError::UnknownTag(b'H'))
        }),
        ("another version", frame(WELCOME, &newer), |e| {
            matches!(e, LinkError::Version { theirs: 99 })
        }),
        ("a welcome cut short", long, |e| {
            matches!(e, LinkError::Torn)
        }),
        ("opened without a welcome", frame(130, &[1, 0]), |e| {
            matches!(e, LinkError::OutOfPlace(130))
        }),
        ("a refusal", frame(ERROR, &refusal), |e| match e {
            LinkError::Refused {
                refusal: Refusal::Version,
                text,
            } => !text.contains('\x1b'),
            _ => false,
        }),
        (
            "another service's version",
            [frame(WELCOME, &welcome), frame(130, &[2, 0])].concat(),
            |e| matches!(e, LinkError::Disbelieved(_)),
        ),
    ];
    for (name, bytes, is_right) in cases {
        let address = support::saying(bytes);
        let error = soon(move || echoing(&address, Pass::None)).unwrap_err();
        assert!(is_right(&error), "{name}: {error}");
    }
    // Whatever is missing of a good answer.
    for end in 0..good.len() {
        let address = support::saying(good[..end].to_vec());
        soon(move || echoing(&address, Pass::None)).unwrap_err();
    }
    let address = support::saying(good);
    soon(move || echoing(&address, Pass::None)).unwrap();
}

#[test]
fn a_silent_agent_is_waited_for_as_long_as_was_said() {
    let listener = TcpListener::bind(loopback()).unwrap();
    let connect = Connect {
        patience: Duration::from_millis(200),
        ..Connect::new(listener.local_addr().unwrap().to_string())
    };
    let late = soon(move || connect.session()).unwrap_err();
    match late {
        ConnectError::Link {
            source: LinkError::Io(e),
            ..
        } => {
            assert_eq!(e.kind(), std::io::ErrorKind::TimedOut);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn strangers_take_nobodys_place_and_clients_are_as_many_as_may_be() {
    let mut options = AgentOptions::new(loopback());
    options.access = Access::Token(token());
    options.connections_max = 2;
    let serving = Serving::with(options);
    let strangers: Vec<TcpStream> = (0..300).map(|_| serving.dial()).collect();
    let connect = || echoing(&serving.address, Pass::Token(token()));
    let (first, _second) = (connect().unwrap(), connect().unwrap());
    match connect() {
        Err(LinkError::Refused { refusal, .. }) => assert_eq!(refusal, Refusal::Busy),
        other => panic!("{other:?}"),
    }
    drop(first);
    assert!(support::wait_until(|| connect().is_ok()));
    drop(strangers);
}

#[test]
fn an_agent_that_ends_ends_its_connections_and_says_so_to_its_services() {
    static STOPPED: AtomicU32 = AtomicU32::new(0);
    struct Stopping;
    impl Service for Stopping {
        fn name(&self) -> &str {
            "stopping"
        }
        fn version(&self) -> u16 {
            1
        }
        fn tags(&self) -> Tags {
            Tags::NONE
        }
        fn serve(&self, link: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
            link.receive_header().map(drop)
        }
        fn stop(&self) {
            STOPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    let agent = Agent::bind(AgentOptions::new(loopback()), vec![Arc::new(Stopping)]).unwrap();
    let serving = Serving::of(agent, false);
    let session = Connect::new(&*serving.address).session().unwrap();
    let mut link = session.open("stopping", 1, Tags::NONE).unwrap();
    drop(serving);
    assert_eq!(STOPPED.load(Ordering::Relaxed), 1);
    let ended = link.receive_header();
    assert!(
        !matches!(ended, Ok(Some(Header { tag, .. })) if tag != ERROR),
        "{ended:?}"
    );
}

#[test]
fn an_agent_that_cannot_be_is_refused_with_the_remedy() {
    let exposed = AgentOptions {
        access: Access::Token(token()),
        ..AgentOptions::new("0.0.0.0:0".parse().unwrap())
    };
    let error = Agent::bind(exposed, vec![]).err().unwrap();
    assert!(matches!(error, BindError::Exposed(_)));
    assert!(error.to_string().contains("dpb serve init"), "{error}");
    let crowded = AgentOptions {
        connections_max: 129,
        ..AgentOptions::new(loopback())
    };
    let error = Agent::bind(crowded, vec![]).err().unwrap();
    assert!(matches!(error, BindError::Connections(129)));
    let clock: Arc<dyn dpb_core::Timer> = Arc::new(dpb_core::WallClock::default());
    let twice: Vec<Arc<dyn Service>> = vec![
        Arc::new(echo::Echo::new(None, &clock)),
        Arc::new(echo::Echo::new(None, &clock)),
    ];
    let error = Agent::bind(AgentOptions::new(loopback()), twice)
        .err()
        .unwrap();
    assert!(error.to_string().contains("two are called echo"), "{error}");
}

#[test]
fn a_client_shows_nothing_in_clear_to_another_machine() {
    for pass in [Pass::None, Pass::Token(Token::new([b'x'; 16]).unwrap())] {
        // A documentation address (RFC 5737): nobody has it, and nobody is asked.
        let connect = Connect {
            pass,
            ..Connect::new("192.0.2.1:7400")
        };
        let error = connect.session().unwrap_err();
        assert!(matches!(error, ConnectError::Unprotected { .. }), "{error}");
        assert!(error.to_string().contains("--credentials"), "{error}");
    }
}
