//! Messages survive the wire; what is malformed is refused.

use proptest::prelude::*;

use super::*;
use crate::query::{Output, Predicate};

#[test]
fn tags_keep_their_bounds_and_their_names() {
    for byte in 0..=255u8 {
        match Tag::of(byte) {
            Ok(tag) => {
                assert_eq!(u8::from(tag), byte);
                assert_eq!(TAGS.body_bytes_max(byte), Some(tag.body_bytes_max()));
            }
            Err(error) => {
                assert!(matches!(error, LinkError::OutOfPlace(wrong) if wrong == byte));
                let is_of_session = tag::is_of_session(byte);
                assert!(is_of_session || TAGS.body_bytes_max(byte).is_none());
            }
        }
    }
    let bulk: Vec<u8> = (0..=255).filter(|&byte| TAGS.is_bulk(byte)).collect();
    assert_eq!(bulk, [Tag::Batch, Tag::File, Tag::Compact].map(u8::from));
}

#[test]
fn the_longest_description_keeps_its_bound() {
    let long = "ö".repeat(40_000);
    let description = Description {
        cache_bytes: u64::MAX,
        backend: long.clone(),
        emulated_by: Some(long),
    };
    let bytes = description.to_bytes();
    assert!(bytes.len() <= dpb_link::hello::DESCRIPTION_BYTES_MAX);
    let read: Description = decode(&bytes).unwrap();
    assert!(read.backend.starts_with('ö') && read.cache_bytes == u64::MAX);
}

#[test]
fn trailing_bytes_are_refused() {
    let mut body = encode(&Request::Usage { reset_peak: true });
    assert!(decode::<Request>(&body).is_ok());
    body.push(0);
    assert!(matches!(
        decode::<Request>(&body),
        Err(LinkError::TrailingBytes(1))
    ));
}

#[test]
fn a_predicate_nested_without_bound_is_an_error_and_not_a_stack_overflow() {
    // `Not(Not(Not(…)))`: one byte a level.
    let not = encode(&Predicate::Not(Box::new(Predicate::Constant(None))))[0];
    let scan = Request::Scan(ScanRequest {
        data: DataSet::tpch(1.0).unwrap(),
        schema: 0,
        engine: Engine::Dpb,
        query: Query {
            table: String::new(),
            predicate: Predicate::Constant(None),
            output: Output::Rows(vec![]),
            limit: None,
        },
        threads: 1,
        batch_rows: 1,
        rows_expected: None,
        partial: false,
    });
    let shallow = encode(&scan);
    // The request's kind, the data set's name and its length, schema, engine, the table's length.
    let table_ends = 1 + (1 + "tpch-sf1".len()) + 1 + 1 + 1;
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
        let _ = decode::<Description>(&body);
        let _ = crate::ipc::decode_schema(&body);
    }
}
