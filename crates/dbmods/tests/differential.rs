//! Random queries over lineitem: the scan and the reference evaluator agree with DuckDB, row for row.
//!
//! Needs a DuckDB library; says so and passes where there is none. The long run is the example `differential`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use dpb_dbmods::duckdb::{Config, Connection, Database, Delivery, Library, tpch_baseline};
use dpb_dbmods::pushdown::differential::Bench;
use dpb_dbmods::pushdown::query::{Literal, Output, Predicate, Query};
use dpb_dbmods::pushdown::random::{Generator, Samples};
use dpb_dbmods::pushdown::schema::Schema;
use dpb_dbmods::pushdown::{eval, scan, sql};
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
    let mut bench = Bench::open(library, dir.path(), 0.01, 2).unwrap();
    let report = bench
        .run(300, 20_261_121, |_| {})
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.predicates, 300);
    let (none, all) = report.extremes;
    assert!(
        none + all < 150,
        "most predicates select some rows: {report:?}"
    );
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
        let folded = sql::to_sql(
            &Predicate::In {
                value: right,
                list: vec![Literal::Null],
            },
            &schema,
        );
        let folded = folded.strip_suffix(" IN (NULL)").unwrap();
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
        let mut go_on = |_| std::ops::ControlFlow::Continue(());
        let baseline = tpch_baseline::ensure(library, dir, 0.001, 2, &mut go_on).unwrap();
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
