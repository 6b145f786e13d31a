//! Any text as a condition, a list of columns and an aggregate; any bytes as a query from a stranger: an answer or an error,
//! and what is understood is written as SQL that means the same.
#![no_main]

use std::sync::LazyLock;

use dpb_dbmods::pushdown::eval;
use dpb_dbmods::pushdown::query::{Literal, Query};
use dpb_dbmods::pushdown::schema::{ColumnType, Schema};
use dpb_dbmods::pushdown::sql::{
    parse_aggregate, parse_columns, parse_predicate, query_to_sql, to_sql,
};
use dpb_dbmods::tpch;
use libfuzzer_sys::fuzz_target;

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| tpch::schema("lineitem").expect("a table of TPC-H"));

fuzz_target!(|data: &[u8]| {
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
    }
});

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
