//! Arbitrary bytes as frames and as every kind of body: an error or a value, no panic, no allocation beyond the bounds.
#![no_main]

use dpb_dbmods::pushdown::wire::{self, End, Header, Hello, Reply, Request, Tag, Welcome, batch};
use libfuzzer_sys::fuzz_target;

/// A schema of every type that a scan returns, for batches.
fn schema() -> arrow_schema::SchemaRef {
    use arrow_schema::{DataType, Field, Schema};
    let types = [
        DataType::Int32,
        DataType::Int64,
        DataType::Decimal64(15, 2),
        DataType::Decimal128(38, 4),
        DataType::Date32,
        DataType::Float64,
        DataType::Utf8,
    ];
    let fields = types.into_iter().enumerate();
    let fields = fields.map(|(at, ty)| Field::new(format!("c{at}"), ty, true));
    std::sync::Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fuzz_target!(|bytes: &[u8]| {
    // As a stream of frames.
    let mut stream = bytes;
    while let Ok(Some(header)) = Header::read(&mut stream) {
        let Some((body, rest)) = stream.split_at_checked(header.len) else {
            break;
        };
        decode(header.tag, body);
        stream = rest;
    }
    // As one body of each kind, since few inputs have a right header.
    if let Some((&tag, body)) = bytes.split_first()
        && let Some(tag) = Tag::of(tag)
    {
        decode(tag, body);
    }
});

fn decode(tag: Tag, body: &[u8]) {
    match tag {
        Tag::Hello => drop(Hello::parse(body)),
        Tag::Welcome => drop(Welcome::parse(body)),
        Tag::Request => {
            if let Ok(request) = wire::decode::<Request>(body) {
                // What decodes encodes to something that decodes to the same length.
                let again = wire::encode(&request);
                assert!(wire::decode::<Request>(&again).is_ok());
                if let Request::Scan(scan) = request
                    && let Some(schema) = dpb_dbmods::tpch::schema(&scan.query.table)
                {
                    drop(scan.query.check(&schema));
                }
            }
        }
        Tag::Reply => drop(wire::decode::<Reply>(body)),
        Tag::End => drop(wire::decode::<End>(body)),
        Tag::Error => drop(wire::parse_refusal(body)),
        Tag::Schema => drop(batch::decode_schema(body)),
        Tag::Batch => {
            let aligned = arrow_buffer::Buffer::from(body);
            if let Ok(batch) = batch::decode_batch(&aligned, &schema()) {
                // Everything in it can be looked at.
                assert_eq!(batch.num_columns(), 7);
                for column in batch.columns() {
                    assert!(column.to_data().validate_full().is_ok());
                }
            }
        }
        Tag::Stop | Tag::File => {}
    }
}
