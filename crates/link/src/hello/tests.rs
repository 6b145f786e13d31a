//! Bodies of the handshake survive the wire; what is malformed is refused.

use proptest::prelude::*;

use super::*;
use crate::error::Refusal;
use crate::tag::{self, Tags};

fn hello() -> Hello {
    Hello {
        version: VERSION,
        capabilities: 1,
        link_bits_per_s: 10_000_000_000,
        token: b"open sesame".to_vec(),
    }
}

fn welcome() -> Welcome {
    Welcome {
        capabilities: 2,
        agent: AgentDescription {
            dpb_version: "0.1.0".into(),
            host: "here".into(),
            cpu_model: "a CPU".into(),
            cpus: 2,
            pid: 7,
        },
        services: vec![
            Offer {
                name: "echo".into(),
                version: 1,
                description: vec![],
            },
            Offer {
                name: "pushdown-2".into(),
                version: 7,
                description: vec![1, 2, 3],
            },
        ],
    }
}

fn open() -> Open {
    Open {
        service: "echo".into(),
        version: 0x0203,
    }
}

#[test]
fn handshakes_round_trip() {
    assert_eq!(Hello::parse(&hello().to_bytes()).unwrap(), hello());
    assert_eq!(Welcome::parse(&welcome().to_bytes()).unwrap(), welcome());
    assert_eq!(Open::parse(&open().to_bytes()).unwrap(), open());
    assert_eq!(parse_opened(&opened_bytes(0x0102)).unwrap(), 0x0102);
}

#[test]
fn bodies_are_laid_out_as_documented() {
    let bytes = hello().to_bytes();
    assert_eq!(&bytes[..8], b"DPBW\x07\x00\x0b\x00");
    assert_eq!(bytes[8..16], 1u64.to_le_bytes());
    assert_eq!(bytes[16..24], 10_000_000_000u64.to_le_bytes());
    assert_eq!(&bytes[24..], b"open sesame");
    assert_eq!(
        &welcome().to_bytes()[..16],
        b"DPBW\x07\0\0\0\x02\0\0\0\0\0\0\0"
    );
    assert_eq!(open().to_bytes(), b"\x03\x02echo");
}

#[test]
fn a_token_never_reaches_a_log() {
    assert!(!format!("{:?}", hello()).contains("sesame"));
}

#[test]
fn another_version_is_named() {
    for (mut bytes, parse) in [
        (
            hello().to_bytes(),
            (|body| Hello::parse(body).map(drop)) as fn(&[u8]) -> Result<(), LinkError>,
        ),
        (welcome().to_bytes(), |body| Welcome::parse(body).map(drop)),
    ] {
        bytes[4] = 9;
        let error = parse(&bytes).unwrap_err();
        assert!(matches!(error, LinkError::Version { theirs: 9 }));
        assert_eq!(error.refusal(), Some(Refusal::Version));
        let said = error.to_string();
        assert!(said.contains("version 9") && said.contains("version 7"));
        assert!(matches!(
            parse(b"GET / HTTP/1.1\r\n\r\n"),
            Err(LinkError::Foreign)
        ));
    }
}

#[test]
fn a_wrong_token_length_is_malformed() {
    for (len, extra) in [(10u16, 0), (12, 0), (11, 1)] {
        let mut bytes = hello().to_bytes();
        bytes[6..8].copy_from_slice(&len.to_le_bytes());
        bytes.extend(std::iter::repeat_n(0, extra));
        assert!(matches!(Hello::parse(&bytes), Err(LinkError::Malformed(_))));
    }
}

#[test]
fn a_body_that_ends_early_is_no_body() {
    for (whole, parse) in [
        (
            hello().to_bytes(),
            (|body| Hello::parse(body).map(drop)) as fn(&[u8]) -> Result<(), LinkError>,
        ),
        (welcome().to_bytes(), |body| Welcome::parse(body).map(drop)),
        (opened_bytes(7).to_vec(), |body| {
            parse_opened(body).map(drop)
        }),
    ] {
        parse(&whole).unwrap();
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
    }
}

#[test]
fn services_keep_their_bounds() {
    let with = |change: &dyn Fn(&mut Vec<Offer>)| {
        let mut welcome = welcome();
        change(&mut welcome.services);
        Welcome::parse(&welcome.to_bytes()).map(|welcome| welcome.services.len())
    };
    let many = |count: usize| {
        move |services: &mut Vec<Offer>| {
            *services = (0..count)
                .map(|i| Offer {
                    name: format!("s{i}"),
                    version: 1,
                    description: vec![7; DESCRIPTION_BYTES_MAX],
                })
                .collect();
        }
    };
    assert_eq!(with(&many(SERVICES_MAX)).unwrap(), SERVICES_MAX);
    assert!(with(&many(SERVICES_MAX + 1)).is_err());
    assert!(with(&|s| s[0].description = vec![0; DESCRIPTION_BYTES_MAX + 1]).is_err());
    assert!(with(&|s| s[1].name = "echo".into()).is_err());
    for name in ["", "Echo", "e cho", "\u{1b}[2J", &"e".repeat(33)] {
        assert!(with(&|s| s[0].name = name.into()).is_err(), "{name}");
        assert!(Open::parse(&[&[1, 0], name.as_bytes()].concat()).is_err());
    }
}

#[test]
fn the_largest_welcome_keeps_its_frames_bound_and_its_words_are_printable() {
    let long = "ö".repeat(40_000);
    let mut welcome = welcome();
    welcome.agent.host = long.clone();
    welcome.agent.cpu_model = long.clone();
    welcome.agent.dpb_version = "\u{1b}[2J".to_owned() + &long;
    welcome.services = (0..SERVICES_MAX)
        .map(|i| Offer {
            name: format!("{i:032}"),
            version: u16::MAX,
            description: vec![255; DESCRIPTION_BYTES_MAX],
        })
        .collect();
    let bytes = welcome.to_bytes();
    assert!(bytes.len() <= Tags::NONE.body_bytes_max(tag::WELCOME).unwrap());
    let agent = Welcome::parse(&bytes).unwrap().agent;
    assert!(agent.host.starts_with('ö') && agent.host.len() <= TEXT_BYTES_MAX);
    assert!(agent.dpb_version.starts_with("\\u{1b}[2J"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_give_a_message_or_an_error(
        body in prop::collection::vec(any::<u8>(), 0..400),
        is_of_this_version in any::<bool>(),
    ) {
        let mut body = body;
        if is_of_this_version && body.len() >= 8 {
            body[..8].copy_from_slice(b"DPBW\x07\0\0\0");
        }
        if let Ok(welcome) = Welcome::parse(&body) {
            prop_assert!(welcome.services.len() <= SERVICES_MAX);
        }
        if let Ok(open) = Open::parse(&body) {
            prop_assert_eq!(open.to_bytes(), &body[..]);
        }
        if let Ok(hello) = Hello::parse(&body) {
            prop_assert_eq!(hello.to_bytes(), &body[..]);
        }
        let _ = parse_opened(&body);
        let _ = crate::error::parse_refusal(&body);
    }

    #[test]
    fn any_hello_and_open_round_trip(
        capabilities in any::<u64>(), link_bits_per_s in any::<u64>(), version in any::<u16>(),
        token in prop::collection::vec(any::<u8>(), 0..=TOKEN_BYTES_MAX), service in "[a-z0-9-]{1,32}",
    ) {
        let hello = Hello { version: VERSION, capabilities, link_bits_per_s, token };
        prop_assert_eq!(Hello::parse(&hello.to_bytes()).unwrap(), hello);
        let open = Open { service, version };
        prop_assert_eq!(Open::parse(&open.to_bytes()).unwrap(), open);
    }
}
