//! Any text as a condition, a list of columns and an aggregate; any bytes as a query from a stranger: an answer or an error,
//! and what is understood is written as SQL that means the same, and is scanned for in a segment.
#![no_main]

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use dpb_dbmods::compare::tpch_predicates::PRESETS;
use dpb_dbmods::query::eval;
use dpb_dbmods::query::sql::{
    parse_aggregate, parse_columns, parse_predicate, query_to_sql, to_sql,
};
use dpb_dbmods::query::{Literal, Output, Query};
use dpb_dbmods::scan::{self, ScanOptions};
use dpb_dbmods::schema::{Column, ColumnType, Schema};
use dpb_dbmods::table::{Cache, Segment, SegmentWriter, Texts, Values};
use dpb_dbmods::tpch;
use libfuzzer_sys::fuzz_target;

/// Two rows that differ in every column, so that zone maps decide nothing.
static SEGMENT: LazyLock<Arc<Segment>> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("dpb-fuzz-sql-{}", std::process::id()));
    let values = |column: &Column| match column.ty {
        ColumnType::Text => {
            let mut texts = Texts::default();
            texts.push("carefully final");
            texts.push("even");
            Values::Texts(texts)
        }
        _ => Values::Numbers(vec![9000, 9001]),
    };
    let columns: Vec<Values> = SCHEMA.columns.iter().map(values).collect();
    let mut writer = SegmentWriter::create(&dir, SCHEMA.clone()).expect("a temporary file");
    writer.write_group(&columns).expect("a temporary file");
    writer.finish().expect("a temporary file");
    let segment = Segment::open(&dir).expect("it was just written");
    std::fs::remove_file(&dir).expect("it was just written");
    Arc::new(segment)
});

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| tpch::schema("lineitem").expect("a table of TPC-H"));

fuzz_target!(init: dpb_fuzz::plant(seeds()), |data: &[u8]| {
    let schema = &*SCHEMA;
    if let Ok(text) = std::str::from_utf8(data) {
        match parse_predicate(schema, text) {
            Ok(predicate) => {
                assert_eq!(predicate.check(schema), Ok(()));
                let sql = to_sql(&predicate, schema);
                match parse_predicate(schema, &sql) {
                    Ok(again) => assert_eq!(to_sql(&again, schema), sql),
                    // Parentheses that precedence made unnecessary are written again.
                    Err(error) => {
                        assert!(error.message.contains("nested deeper"), "{sql}\n{error}")
                    }
                }
                let _ = eval::holds(&predicate, &row(schema));
                find(&Query {
                    table: "lineitem".to_owned(),
                    predicate,
                    output: Output::Rows(vec![0, 15]),
                    limit: None,
                });
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let _ = parse_columns(schema, text);
        let _ = parse_aggregate(schema, text, Some(text));
    }
    if let Ok(query) = postcard::from_bytes::<Query>(data)
        && query.check(schema).is_ok()
    {
        let _ = query_to_sql(&query, schema, "lineitem");
        let _ = eval::run(&query, [row(schema)]);
        find(&query);
    }
});

/// Scans for the query's rows, as an agent does.
fn find(query: &Query) {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let options = ScanOptions {
        threads: 1,
        stop: &NEVER,
        batch_rows: 64,
        memory_bytes: 32 << 20,
        sink_batches: 0,
        slots: None,
    };
    let cache = Arc::new(Cache::new(1 << 20));
    let _ = scan::scan(&SEGMENT, &cache, query, &options, &|_| {
        ControlFlow::Continue(())
    });
}

/// Some row.
fn row(schema: &Schema) -> Vec<Literal> {
    let value = |ty| match ty {
        ColumnType::Text => Literal::Text("carefully final".into()),
        other => Literal::of_stored(9000, other),
    };
    schema
        .columns
        .iter()
        .map(|column| value(column.ty))
        .collect()
}

/// Conditions that between them have every operator, TPC-H's conditions and aggregates, a list of columns; and a query a
/// condition as a stranger would send it.
fn seeds() -> Vec<Vec<u8>> {
    let conditions = [
        "l_comment LIKE '%special%requests%' AND NOT l_comment NOT LIKE '_a%'",
        "l_shipmode IN ('AIR', 'RAIL') OR l_shipmode NOT IN ('it''s')",
        "l_receiptdate > l_commitdate AND l_commitdate NOT BETWEEN DATE '1994-01-01' AND DATE '1994-12-31'",
        "l_extendedprice * (1 - l_discount) / 2 >= -0.5e3 + l_tax AND l_quantity <> 24",
        "l_comment IS NOT NULL AND (l_partkey IS NULL OR NULL = 1)",
    ];
    let conditions = conditions
        .into_iter()
        .chain(PRESETS.map(|preset| preset.predicate));
    let mut seeds = vec![b"l_orderkey, l_comment".to_vec(), b"*".to_vec()];
    for preset in &PRESETS {
        seeds.extend(preset.aggregate.map(|text| text.as_bytes().to_vec()));
    }
    for condition in conditions {
        seeds.push(condition.as_bytes().to_vec());
        let predicate = parse_predicate(&SCHEMA, condition).expect("a seed is valid");
        let query = Query {
            table: "lineitem".to_owned(),
            predicate,
            output: Output::Rows(vec![0, 15]),
            limit: None,
        };
        seeds.push(postcard::to_stdvec(&query).expect("a query is plain data"));
    }
    for preset in &PRESETS {
        let Some(aggregate) = preset.aggregate else {
            continue;
        };
        let parsed = parse_aggregate(&SCHEMA, aggregate, preset.group_by);
        let query = Query {
            table: "lineitem".to_owned(),
            predicate: parse_predicate(&SCHEMA, preset.predicate).expect("a seed is valid"),
            output: Output::Aggregate(parsed.expect("a seed is valid")),
            limit: None,
        };
        seeds.push(postcard::to_stdvec(&query).expect("a query is plain data"));
    }
    seeds
}
