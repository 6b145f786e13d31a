//! Random queries over lineitem: the scan and the reference evaluator agree with DuckDB, row for row.
//!
//! Needs a DuckDB library; says so and passes where there is none. The long run is the example `differential`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use dpb_dbmods::compare::differential::Differential;
use dpb_dbmods::compare::random::{Generator, Samples};
use dpb_dbmods::duckdb::{Config, Connection, Database, Delivery, Library, tpch_baseline};
use dpb_dbmods::query::{Literal, Output, Predicate, Query};
use dpb_dbmods::query::{eval, sql};
use dpb_dbmods::scan;
use dpb_dbmods::schema::Schema;
use dpb_dbmods::tpch;

fn library() -> Option<Library> {
    match Library::find() {
        Ok(library) => Some(library),
        Err(missing) => {
            println!("skipped: {missing}");
            None
        }
    }
}

#[test]
fn scan_agrees_with_duckdb() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Differential::open(library, dir.path(), 0.01, 2).unwrap();
    let report = bench
        .run(300, 20_261_121, |_| {})
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.predicates, report.texts), (300, 75));
    let (none, all) = report.extremes;
    assert!(
        none + all < 150,
        "most predicates select some rows: {report:?}"
    );
}

/// The parser brings operands to the types that DuckDB brings them to. Constants are such that other types select other rows.
#[test]
fn texts_mean_what_they_mean_to_duckdb() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Differential::open(library, dir.path(), 0.001, 2).unwrap();
    for (condition, some) in [
        // Plain texts and dates.
        ("l_shipdate = '1995-9-1'", true),
        ("'1995-9-1' <= l_shipdate", true),
        ("l_shipdate BETWEEN '1995-9-1' AND '1995-10-1'", true),
        ("l_shipdate NOT BETWEEN '1995-9-1' AND '1995-10-1'", true),
        ("'1995-9-1' BETWEEN l_shipdate AND '1995-10-1'", true),
        ("'1995-9-1' NOT BETWEEN l_shipdate AND '1995-10-1'", true),
        ("'1995-9-1' BETWEEN l_shipdate AND '1995-08-1'", false),
        ("'1995-9-1' BETWEEN l_shipdate AND l_receiptdate", true),
        (
            "'1995-9-1' BETWEEN DATE '1995-08-01' AND l_receiptdate",
            true,
        ),
        ("l_shipdate BETWEEN l_commitdate AND '1995-9-1'", true),
        (
            "l_shipdate - 3 BETWEEN '1995-9-1' AND l_commitdate + 3",
            true,
        ),
        (
            "'1995-9-1' BETWEEN l_shipdate AND DATE '1995-09-01' + INTERVAL '1' month",
            true,
        ),
        (
            "'1995-9-1' BETWEEN DATE '1995-10-01' AND '1995-08-1'",
            false,
        ),
        ("'1995-9-1' BETWEEN DATE '1995-08-01' AND '1995-10-1'", true),
        (
            "l_shipdate IN ('1995-9-1', DATE '1995-09-02', '1995-09-3')",
            true,
        ),
        ("l_shipdate NOT IN ('1995-9-1', '1995-09-02')", true),
        ("'1995-9-1' IN ('1995-10-1', DATE '1995-09-01')", true),
        // Text stays text among itself.
        ("l_shipmode BETWEEN 'AIR' AND 'MAIL'", true),
        ("'RAIL' BETWEEN l_shipmode AND l_shipinstruct", true),
        ("'1995-9-1' BETWEEN '1995-10-1' AND '1996'", true),
        ("'1995-9-1' NOT BETWEEN '1995-10-1' AND '1996'", false),
        // A DOUBLE makes DOUBLEs of all.
        ("l_discount BETWEEN 0e0 AND 0.04999999999999999999", true),
        ("l_discount BETWEEN 0.05000000000000000001 AND 1e0", true),
        (
            "l_discount NOT BETWEEN 0e0 AND 0.04999999999999999999",
            true,
        ),
        ("l_discount BETWEEN 0 AND 0.04999999999999999999", true),
        ("l_discount BETWEEN 0 AND 0.05e0", true),
        ("0.04999999999999999999 BETWEEN l_discount AND 1e0", true),
        ("0.05000000000000000001 BETWEEN 0e0 AND l_discount", true),
        (
            "l_discount * 1.0000000000000000 BETWEEN 0e0 AND l_discount + 0.000000000000000000",
            true,
        ),
        (
            "l_discount - 0.00000000000000000001 BETWEEN l_discount AND 1e0",
            true,
        ),
        (
            "l_discount - 0.00000000000000000001 BETWEEN l_discount AND 1",
            false,
        ),
        (
            "1e0 / 4 BETWEEN 0.25000000000000000000 AND l_discount + 0.30",
            true,
        ),
        (
            "9007199254740993 BETWEEN l_orderkey AND 9007199254740992e0",
            true,
        ),
        (
            "9007199254740993 BETWEEN l_orderkey AND 9007199254740992",
            false,
        ),
        (
            "l_discount <= 0.04999999999999999999 AND l_discount >= 0e0",
            true,
        ),
        (
            "l_discount = 0.04999999999999999999 OR l_discount = 5e-2",
            true,
        ),
        ("l_discount IN (0.04999999999999999999, 1e0)", true),
        ("l_discount IN (0.04999999999999999999, 1)", false),
        (
            "0.04999999999999999999 IN (0.05, 1e0) AND l_tax = 0.01",
            true,
        ),
        // Numbers of several scales.
        ("l_quantity BETWEEN 1.5 AND l_linenumber", true),
        ("l_linenumber BETWEEN l_quantity AND 3000000000", true),
        (
            "l_extendedprice BETWEEN l_orderkey AND l_partkey * 10.005",
            true,
        ),
        // Bounds the wrong way round, and none.
        ("l_quantity BETWEEN 10 AND 5", false),
        ("l_quantity NOT BETWEEN 10 AND 5", true),
        ("l_shipdate BETWEEN '1995-10-1' AND '1995-9-1'", false),
        ("l_quantity BETWEEN NULL AND 5", false),
        ("l_quantity NOT BETWEEN NULL AND 5", true),
        ("l_shipdate NOT BETWEEN NULL AND '1995-9-1'", true),
        ("l_shipdate NOT BETWEEN '1995-9-1' AND NULL", true),
        ("'1995-9-1' NOT BETWEEN l_shipdate AND NULL", true),
        ("NULL BETWEEN l_shipdate AND '1995-9-1'", false),
        ("l_shipdate IN ('1995-9-1', NULL)", true),
        ("l_shipdate NOT IN ('1995-9-1', NULL)", false),
    ] {
        let rows = bench
            .compare_text(condition)
            .unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(rows > 0, some, "{condition}: {rows} rows");
    }
}

/// TRUE, FALSE or NULL for every row of a small lineitem.
#[test]
fn evaluator_agrees_with_duckdb() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let lineitem = Lineitem::open(library, dir.path());
    let Lineitem {
        schema,
        rows,
        mut connection,
    } = lineitem;
    let samples = samples(&schema, &rows);
    let mut generator = Generator::new(&schema, &samples, 4);
    let truth = Arc::new(ArrowSchema::new(vec![Field::new(
        "truth",
        DataType::Int32,
        true,
    )]));
    for _ in 0..400 {
        let predicate = generator.predicate();
        let condition = sql::to_sql(&predicate, &schema);
        let query = format!("SELECT CAST(({condition}) AS INTEGER) FROM lineitem");
        let batches = connection.query(&query, Some(truth.clone()), Delivery::Materialised);
        let batches: Vec<RecordBatch> = batches
            .and_then(Iterator::collect)
            .unwrap_or_else(|error| panic!("{error}\n{condition}"));
        let expected = batches.iter().flat_map(|batch| {
            let column = batch.column(0).as_primitive::<Int32Type>();
            (0..column.len()).map(|i| column.is_valid(i).then(|| column.value(i) == 1))
        });
        let mut compared = 0;
        for (row, expected) in rows.iter().zip(expected) {
            let found =
                eval::holds(&predicate, row).unwrap_or_else(|error| panic!("{error}: {condition}"));
            assert_eq!(found, expected, "{condition}\n{predicate:?}\n{row:?}");
            compared += 1;
        }
        assert_eq!(compared, rows.len());
    }
}

/// Aggregates, down to the last bit of an average.
#[test]
fn evaluator_aggregates_as_duckdb() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Lineitem {
        schema,
        rows,
        mut connection,
    } = Lineitem::open(library, dir.path());
    let samples = samples(&schema, &rows);
    let mut generator = Generator::new(&schema, &samples, 5);
    for _ in 0..60 {
        let query = Query {
            table: "lineitem".into(),
            predicate: generator.predicate(),
            output: Output::Aggregate(generator.aggregate(&[8, 9, 3, 14])),
            limit: None,
        };
        let text = sql::query_to_sql(&query, &schema, "lineitem");
        let output = scan::output_schema(&schema, &query).unwrap();
        let batches = connection.query(&text, Some(output), Delivery::Materialised);
        let batches: Vec<RecordBatch> = batches
            .and_then(Iterator::collect)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut expected: Vec<_> = batches
            .iter()
            .flat_map(|batch| eval::rows(batch).unwrap())
            .map(|row| format!("{row:?}"))
            .collect();
        let mut found: Vec<_> = eval::run(&query, &rows)
            .unwrap_or_else(|error| panic!("{error}: {text}"))
            .iter()
            .map(|row| format!("{row:?}"))
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{text}");
    }
}

/// DuckDB takes no condition that the check refuses as text, and the scan's parser takes all that DuckDB is given.
#[test]
fn constants_fold_as_in_duckdb() {
    let Some(library) = library() else { return };
    let mut connection = Database::open(library, None, &Config::default())
        .unwrap()
        .connect()
        .unwrap();
    let schema = tpch::schema("lineitem").unwrap();
    connection
        .execute("CREATE TABLE lineitem (l_tax DECIMAL(15,2), l_shipdate DATE, l_orderkey BIGINT)")
        .unwrap();
    for (column, constant) in [
        ("l_tax", "1 - 0.05"),
        ("l_tax", "0.06 + 0.01"),
        ("l_tax", "1.5 * 2.25 - 3"),
        ("l_tax", "-(2 + 3) * 4"),
        ("l_tax", "7 / 2"),
        ("l_tax", "1.0 / 3"),
        ("l_tax", "-1 / 0"),
        ("l_tax", "1e3 - 0.1"),
        ("l_orderkey", "3000000000 * 2"),
        ("l_shipdate", "DATE '1996-02-29' + INTERVAL '1' year"),
        ("l_shipdate", "DATE '1996-01-31' + INTERVAL 1 month"),
        ("l_shipdate", "DATE '1998-12-01' - INTERVAL '90' day"),
        ("l_shipdate", "DATE '1998-12-01' - 90"),
    ] {
        let predicate = sql::parse_predicate(&schema, &format!("{column} = {constant}")).unwrap();
        let Predicate::Compare { right, .. } = predicate else {
            panic!("a comparison")
        };
        let folded = sql::scalar_to_sql(&right, &schema);
        let query = format!("SELECT CAST({constant} = {folded} AS INTEGER)");
        let batches: Vec<RecordBatch> = connection
            .query(&query, None, Delivery::Materialised)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(
            batches[0].column(0).as_primitive::<Int32Type>().value(0),
            1,
            "{constant} is not {folded}"
        );
    }
}

/// A small lineitem in DuckDB and as plain rows, in the same order.
struct Lineitem {
    schema: Schema,
    rows: Vec<Vec<Literal>>,
    connection: Connection,
}

impl Lineitem {
    fn open(library: Library, dir: &std::path::Path) -> Self {
        let schema = tpch::schema("lineitem").unwrap();
        let baseline = tpch_baseline::ensure(
            library,
            dir,
            0.001,
            "lineitem",
            2,
            &dpb_core::WallClock::default(),
            &mut |_| (),
        )
        .unwrap();
        let config = Config {
            threads: Some(1),
            read_only: true,
            ..Config::default()
        };
        let database = Database::open(library, Some(&baseline.duckdb_path), &config).unwrap();
        let mut connection = database.connect().unwrap();
        let all = Query {
            table: "lineitem".into(),
            predicate: Predicate::Constant(Some(true)),
            output: Output::Rows((0..16).collect()),
            limit: None,
        };
        let output = scan::output_schema(&schema, &all).unwrap();
        let text = sql::query_to_sql(&all, &schema, "lineitem");
        let batches = connection
            .query(&text, Some(output), Delivery::Materialised)
            .unwrap();
        let rows = batches
            .flat_map(|batch| eval::rows(&batch.unwrap()).unwrap())
            .collect();
        Self {
            schema,
            rows,
            connection,
        }
    }
}

fn samples(schema: &Schema, rows: &[Vec<Literal>]) -> Samples {
    let bounds = (0..schema.columns.len()).map(|column| {
        let stored = |row: &Vec<Literal>| match row[column] {
            Literal::Number { unscaled, .. } => unscaled as i64,
            Literal::Date(days) => days.into(),
            _ => 0,
        };
        let values = rows.iter().map(stored);
        (values.clone().min().unwrap(), values.max().unwrap())
    });
    Samples {
        bounds: bounds.collect(),
        rows: rows.iter().step_by(13).cloned().collect(),
    }
}
