//! Messages survive the wire; what is malformed is refused.

use proptest::prelude::*;

use super::*;
use crate::query::{Output, Predicate};

fn hello() -> Hello {
    Hello {
        version: VERSION,
        capabilities: CAPABILITY_DUCKDB,
        link_bits_per_s: 10_000_000_000,
        token: b"open sesame".to_vec(),
    }
}

fn welcome() -> Welcome {
    Welcome {
        capabilities: CAPABILITY_FETCH,
        agent: AgentInfo {
            dpb_version: "0.1.0".into(),
            pid: 7,
            cpus: 2,
            cpu_model: "a CPU".into(),
            host: "here".into(),
            cache_bytes: 1 << 30,
            backend: "pool/2".into(),
            emulated_by: None,
            duckdb: Err("none found".into()),
        },
    }
}

#[test]
fn handshakes_round_trip() {
    assert_eq!(Hello::parse(&hello().to_bytes()).unwrap(), hello());
    assert_eq!(Welcome::parse(&welcome().to_bytes()).unwrap(), welcome());
}

#[test]
fn hello_is_laid_out_as_documented() {
    let bytes = hello().to_bytes();
    assert_eq!(&bytes[..8], b"DPBW\x06\x00\x0b\x00");
    assert_eq!(bytes[8..16], 1u64.to_le_bytes());
    assert_eq!(bytes[16..24], 10_000_000_000u64.to_le_bytes());
    assert_eq!(&bytes[24..], b"open sesame");
}

#[test]
fn a_token_never_reaches_a_log() {
    assert!(!format!("{:?}", hello()).contains("sesame"));
}

#[test]
fn another_version_is_named() {
    let mut bytes = hello().to_bytes();
    bytes[4] = 9;
    let error = Hello::parse(&bytes).unwrap_err();
    assert!(matches!(error, WireError::Version { theirs: 9 }));
    assert_eq!(error.refusal(), Some(Refusal::Version));
    assert!(matches!(
        Hello::parse(b"GET / HTTP/1.1\r\n\r\n"),
        Err(WireError::Foreign)
    ));
}

#[test]
fn a_wrong_token_length_is_malformed() {
    for (len, extra) in [(10u16, 0), (12, 0), (11, 1)] {
        let mut bytes = hello().to_bytes();
        bytes[6..8].copy_from_slice(&len.to_le_bytes());
        bytes.extend(std::iter::repeat_n(0, extra));
        assert!(matches!(Hello::parse(&bytes), Err(WireError::Malformed(_))));
    }
}

#[test]
fn headers_keep_their_bounds() {
    for byte in 0..=255u8 {
        let Some(tag) = Tag::of(byte) else {
            assert!(matches!(
                Header::parse([byte, 0, 0, 0, 0, 0, 0, 0]),
                Err(WireError::UnknownTag(b)) if b == byte
            ));
            continue;
        };
        assert_eq!(tag as u8, byte);
        let header = Header {
            tag,
            len: tag.body_bytes_max(),
        };
        assert_eq!(Header::parse(header.to_bytes()).unwrap(), header);
        let mut longer = header.to_bytes();
        longer[4..].copy_from_slice(&(tag.body_bytes_max() as u32 + 1).to_le_bytes());
        assert!(matches!(
            Header::parse(longer),
            Err(WireError::TooLong { .. })
        ));
    }
    assert!(Header::parse([2, 1, 0, 0, 0, 0, 0, 0]).is_err());
}

#[test]
fn a_stream_that_ends_inside_a_header_is_torn() {
    let bytes = Header {
        tag: Tag::Reply,
        len: 5,
    }
    .to_bytes();
    assert!(Header::read(&mut &bytes[..0]).unwrap().is_none());
    for end in 1..HEADER_BYTES {
        assert!(matches!(
            Header::read(&mut &bytes[..end]),
            Err(WireError::Torn)
        ));
    }
    assert!(Header::read(&mut &bytes[..]).unwrap().is_some());
}

#[test]
fn trailing_bytes_are_refused() {
    let mut body = encode(&Request::Usage { reset_peak: true });
    assert!(decode::<Request>(&body).is_ok());
    body.push(0);
    assert!(matches!(
        decode::<Request>(&body),
        Err(WireError::TrailingBytes(1))
    ));
}

#[test]
fn refusals_carry_their_code_and_text() {
    for refusal in [
        Refusal::Protocol,
        Refusal::Version,
        Refusal::Token,
        Refusal::Usage,
        Refusal::Unavailable,
        Refusal::Busy,
        Refusal::Damaged,
        Refusal::Internal,
    ] {
        let error = parse_refusal(&refusal_bytes(refusal, "why"));
        assert_eq!(error.refusal(), Some(refusal));
        assert_eq!(error.to_string(), "why");
    }
    let long = "ö".repeat(40_000);
    let welcome = Welcome {
        capabilities: 0,
        agent: AgentInfo {
            dpb_version: "1".to_owned(),
            pid: 1,
            cpus: 1,
            cpu_model: long.clone(),
            host: long.clone(),
            cache_bytes: 0,
            backend: long.clone(),
            emulated_by: Some(long.clone()),
            duckdb: Err(long.clone()),
        },
    };
    let bytes = welcome.to_bytes();
    assert!(bytes.len() <= Tag::Welcome.body_bytes_max());
    assert!(Welcome::parse(&bytes).unwrap().agent.host.starts_with('ö'));
    assert!(refusal_bytes(Refusal::Usage, &long).len() <= Tag::Error.body_bytes_max());
}

#[test]
fn a_predicate_nested_without_bound_is_an_error_and_not_a_stack_overflow() {
    // `Not(Not(Not(…)))`: one byte a level.
    let not = encode(&Predicate::Not(Box::new(Predicate::Constant(None))))[0];
    let scan = Request::Scan(ScanRequest {
        data: DataSet::Tpch(1.0),
        schema: 0,
        engine: Engine::Dpb,
        query: Query {
            table: String::new(),
            predicate: Predicate::Constant(None),
            output: Output::Rows(vec![]),
        },
        threads: 1,
        batch_rows: 1,
        rows_expected: None,
        partial: false,
    });
    let shallow = encode(&scan);
    // The request's kind, the data set's kind and number, schema, engine, the name's length.
    let table_ends = 1 + (1 + 8) + 1 + 1 + 1;
    let mut deep = shallow[..table_ends].to_vec();
    deep.extend(std::iter::repeat_n(not, 60_000));
    deep.extend_from_slice(&shallow[table_ends..]);
    assert!(decode::<Request>(&deep).is_err());
    let mut fine = shallow[..table_ends].to_vec();
    fine.extend(std::iter::repeat_n(not, 30));
    fine.extend_from_slice(&shallow[table_ends..]);
    assert!(decode::<Request>(&fine).is_ok());
}

proptest! {
    #[test]
    fn arbitrary_bytes_give_a_message_or_an_error(body in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode::<Request>(&body);
        let _ = decode::<Reply>(&body);
        let _ = decode::<End>(&body);
        let _ = Hello::parse(&body);
        let _ = Welcome::parse(&body);
        let _ = parse_refusal(&body);
        let _ = crate::ipc::decode_schema(&body);
    }
}
