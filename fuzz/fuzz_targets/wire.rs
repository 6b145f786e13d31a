//! Arbitrary bytes as frames and as every kind of body: an error or a value, no panic, no allocation beyond the bounds.
#![no_main]

use dpb_dbmods::ipc;
use dpb_dbmods::query::sql::parse_predicate;
use dpb_dbmods::query::{Output, Query};
use dpb_dbmods::scan::operator::Merged;
use dpb_dbmods::service::compact;
use dpb_dbmods::service::protocol::{
    self, DataSet, Description, End, Engine, FileFormat, Refusal, Reply, Request, ScanRequest,
    TAGS, TableInfo, Tag, Usage,
};
use dpb_dbmods::tpch;
use dpb_link::hello::{Hello, Offer, Open, Welcome, opened_bytes, parse_opened};
use dpb_link::{AgentDescription, Header, Placed, tag};
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

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    // As a stream of frames.
    let mut stream = bytes;
    while let Ok(Some(header)) = Header::read(&mut stream, &TAGS) {
        let Some((body, rest)) = stream.split_at_checked(header.len) else {
            break;
        };
        decode(header.tag, body);
        stream = rest;
    }
    // As one body of each kind, since few inputs have a right header.
    if let Some((&tag, body)) = bytes.split_first() {
        decode(tag, body);
    }
});

fn decode(tag: u8, body: &[u8]) {
    match tag {
        tag::HELLO => {
            if let Ok(hello) = Hello::parse(body) {
                assert_eq!(hello.to_bytes(), body);
            }
        }
        tag::OPEN => {
            if let Ok(open) = Open::parse(body) {
                assert_eq!(open.to_bytes(), body);
            }
        }
        tag::OPENED => drop(parse_opened(body)),
        tag::WELCOME => {
            for offer in Welcome::parse(body)
                .into_iter()
                .flat_map(|welcome| welcome.services)
            {
                drop(protocol::decode::<Description>(&offer.description));
            }
        }
        tag::CREDIT => drop(dpb_link::parse_credit(body)),
        tag::PLACED => {
            if let Ok(placed) = Placed::parse(body, &TAGS) {
                assert!(Some(placed.len) <= TAGS.body_bytes_max(placed.of));
                assert_eq!(placed.to_bytes(), body);
            }
        }
        _ => decode_of_service(tag, body),
    }
}

fn decode_of_service(tag: u8, body: &[u8]) {
    let Ok(tag) = Tag::of(tag) else {
        return;
    };
    match tag {
        Tag::Request => {
            if let Ok(request) = protocol::decode::<Request>(body) {
                // What decodes encodes to something that decodes to the same length.
                let again = protocol::encode(&request);
                assert!(protocol::decode::<Request>(&again).is_ok());
                if let Request::Scan(scan) = request
                    && let Some(schema) = tpch::schema(&scan.query.table)
                {
                    drop(scan.query.check(&schema));
                }
            }
        }
        Tag::Reply => drop(protocol::decode::<Reply>(body)),
        Tag::End => drop(protocol::decode::<End>(body)),
        Tag::Error => drop(dpb_link::parse_refusal(body)),
        Tag::Schema => drop(ipc::decode_schema(body)),
        Tag::Batch => {
            let aligned = arrow_buffer::Buffer::from(body);
            if let Ok(batch) = ipc::decode_batch(&aligned, &schema()) {
                // Everything in it can be looked at.
                assert_eq!(batch.num_columns(), 7);
                for column in batch.columns() {
                    assert!(column.to_data().validate_full().is_ok());
                }
            }
        }
        Tag::Partial => drop(aggregate().add(body)),
        Tag::Compact => {
            let mut expander = compact::Expander::default();
            let mut compactor = compact::Compactor::default();
            if let Ok((message, bytes)) = expander.expand(body)
                && let Some(body) = compactor.compact(&[&message[..bytes]])
            {
                let (again, length) = expander.expand(body).expect("our own");
                assert_eq!(again[..length], message[..bytes]);
            }
        }
        Tag::Stop | Tag::File => {}
    }
}

/// An aggregate with keys and states of all kinds, to be added up.
fn aggregate() -> Merged {
    let lineitem = tpch::schema("lineitem").expect("a table of TPC-H");
    let sql = "SELECT l_returnflag, l_linenumber, count(*), sum(l_tax), min(l_comment) FROM lineitem \
               GROUP BY l_returnflag, l_linenumber";
    let query = Query::parse(&lineitem, sql).expect("a statement is valid");
    Merged::of_query(&lineitem, &query, 1 << 20).expect("an aggregate")
}

/// Every kind of body, each alone behind its tag, then all as one stream of frames.
fn seeds() -> Vec<Vec<u8>> {
    let bodies = bodies();
    let mut seeds: Vec<Vec<u8>> = bodies
        .iter()
        .map(|(tag, body)| [&[*tag], &body[..]].concat())
        .collect();
    let frame = |(tag, body): &(u8, Vec<u8>)| {
        let header = Header::checked(*tag, body.len(), &TAGS).expect("a seed is short");
        [&header.to_bytes()[..], body].concat()
    };
    seeds.push(bodies.iter().flat_map(frame).collect());
    seeds
}

fn bodies() -> Vec<(u8, Vec<u8>)> {
    let data = DataSet::tpch(0.01).expect("a scale factor");
    let table = "lineitem".to_owned();
    let lineitem = tpch::schema(&table).expect("a table of TPC-H");
    let condition = "l_quantity < 24 AND l_comment LIKE '%special%'";
    let predicate = parse_predicate(&lineitem, condition).expect("a seed is valid");
    let scan = ScanRequest {
        data: data.clone(),
        schema: lineitem.fingerprint(),
        engine: Engine::Dpb,
        query: Query {
            table: table.clone(),
            predicate: predicate.clone(),
            output: Output::Rows(vec![0, 15]),
            limit: None,
        },
        threads: 2,
        batch_rows: 1024,
        rows_expected: Some(7),
        partial: false,
    };
    let requests = [
        Request::Capabilities { wanted: 15 },
        Request::Describe {
            data: Some(DataSet::given()),
        },
        Request::Describe { data: None },
        Request::Pick {
            data: data.clone(),
            table: table.clone(),
            selectivity: 0.5,
        },
        Request::Scan(scan),
        Request::Fetch {
            data: data.clone(),
            table: table.clone(),
            format: FileFormat::Parquet,
        },
        Request::Cold {
            data: data.clone(),
            table,
            format: FileFormat::Segment,
        },
        Request::Usage { reset_peak: true },
        Request::Bulk {
            offer: b"a ring".to_vec(),
        },
    ];
    let replies = [
        Reply::Capabilities {
            capabilities: 15,
            duckdb: Err("none".to_owned()),
        },
        Reply::Tables(vec![TableInfo {
            data,
            schema: lineitem,
            rows: 60_175,
            segment_bytes: 1 << 20,
            duckdb_bytes: Some(1 << 21),
            parquet_bytes: None,
        }]),
        Reply::Predicate {
            predicate,
            selectivity: 0.25,
        },
        Reply::File { bytes: 9 },
        Reply::Dropped,
        Reply::Usage(Usage::default()),
        Reply::Bulk(Ok(b"an end".to_vec())),
        Reply::Bulk(Err("no device".to_owned())),
    ];
    let hello = Hello {
        version: dpb_link::VERSION,
        capabilities: 1,
        link_bits_per_s: 10_000_000_000,
        token: b"token".to_vec(),
    };
    let description = Description {
        cache_bytes: 1 << 30,
        backend: "cpu".to_owned(),
        emulated_by: None,
    };
    let welcome = Welcome {
        capabilities: 1,
        agent: AgentDescription {
            dpb_version: "0".to_owned(),
            host: "h".to_owned(),
            cpu_model: "c".to_owned(),
            cpus: 2,
            pid: 1,
        },
        services: vec![Offer {
            name: protocol::SERVICE.to_owned(),
            version: protocol::VERSION,
            description: description.to_bytes(),
        }],
    };
    let open = Open {
        service: protocol::SERVICE.to_owned(),
        version: protocol::VERSION,
    };
    let mut bodies = vec![
        (tag::HELLO, hello.to_bytes()),
        (tag::WELCOME, welcome.to_bytes()),
        (tag::OPEN, open.to_bytes()),
        (tag::OPENED, opened_bytes(protocol::VERSION).to_vec()),
        (tag::STOP, Vec::new()),
        (Tag::File.into(), b"a piece".to_vec()),
        (Tag::End.into(), protocol::encode(&End::default())),
        (tag::ERROR, dpb_link::refusal_bytes(Refusal::Damaged, "why")),
        (tag::CREDIT, dpb_link::credit_bytes(4).to_vec()),
        // No groups; and one: AIR, 3; two rows; a sum of 5; a text.
        (Tag::Partial.into(), vec![0]),
        (
            Tag::Compact.into(),
            compact::Compactor::default().compact(&[&[7; 4096]]).expect("it becomes shorter").to_vec(),
        ),
        (
            Tag::Partial.into(),
            vec![1, 2, 1, 1, b'R', 0, 6, 2, 2, 1, 10, 3, 1, b'a'],
        ),
    ];
    let placed = Placed {
        of: Tag::Batch.into(),
        len: 1 << 20,
    };
    bodies.push((tag::PLACED, placed.to_bytes().to_vec()));
    bodies.extend(
        requests
            .iter()
            .map(|r| (Tag::Request.into(), protocol::encode(r))),
    );
    bodies.extend(
        replies
            .iter()
            .map(|r| (Tag::Reply.into(), protocol::encode(r))),
    );
    let schema = schema();
    let (mut encoder, message) = ipc::Encoder::new(&schema).expect("a seed is valid");
    bodies.push((Tag::Schema.into(), message));
    let columns = schema.fields().iter();
    let columns = columns.map(|field| arrow_array::new_null_array(field.data_type(), 3));
    let nulls = arrow_array::RecordBatch::try_new(schema.clone(), columns.collect());
    let encoded = encoder.encode(&nulls.expect("a seed is valid"));
    let parts = encoded.expect("a seed is valid").parts;
    bodies.push((
        Tag::Batch.into(),
        parts.iter().flat_map(|part| part.to_vec()).collect(),
    ));
    bodies
}
