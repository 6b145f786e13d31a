//! Against the library that is found here; without one each test says so and checks nothing.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::source::{Feed, Page, Source};
use super::{BATCH_ROWS, Config, Connection, Database, Delivery, Error, Library, raw};

const DELIVERIES: [Delivery; 2] = [Delivery::Streamed, Delivery::Materialised];

/// The library, or a line that says why the test does not run.
pub(crate) fn library() -> Option<Library> {
    Library::find()
        .inspect_err(|missing| println!("skipped: {missing}"))
        .ok()
}

fn threads(count: usize) -> Config {
    Config {
        threads: Some(count),
        ..Config::default()
    }
}

fn memory(library: Library) -> Connection {
    Database::open(library, None, &threads(2))
        .unwrap()
        .connect()
        .unwrap()
}

fn one(connection: &mut Connection, sql: &str, delivery: Delivery) -> RecordBatch {
    let mut rows = connection.query(sql, None, delivery).unwrap();
    let batch = rows.next().expect("a row").unwrap();
    assert!(rows.next().is_none());
    batch
}

fn schema(ty: DataType, is_nullable: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("c", ty, is_nullable)]))
}

#[test]
fn every_type() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    for delivery in DELIVERIES {
        let sql = "SELECT * FROM (VALUES
            (127::TINYINT, (-32768)::SMALLINT, 2147483647::INTEGER, (-9223372036854775808)::BIGINT, 0.1::DOUBLE,
             DATE '1998-12-01', 'text', '-170141183460469231731687303715884105728'::HUGEINT),
            (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            (-128, 32767, -2147483648, 9223372036854775807, -0.0, DATE '1969-12-31', 'thirteen chars', 1)
        ) t(i8, i16, i32, i64, f64, d, t, i128)";
        let batch = one(&mut connection, sql, delivery);
        let ints = |i: usize| {
            batch
                .column(i)
                .as_primitive::<Int32Type>()
                .iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(ints(0), [Some(127), None, Some(-128)]);
        assert_eq!(ints(1), [Some(-32768), None, Some(32767)]);
        assert_eq!(ints(2), [Some(i32::MAX), None, Some(i32::MIN)]);
        let longs: Vec<_> = batch.column(3).as_primitive::<Int64Type>().iter().collect();
        assert_eq!(longs, [Some(i64::MIN), None, Some(i64::MAX)]);
        let doubles: Vec<_> = batch
            .column(4)
            .as_primitive::<Float64Type>()
            .iter()
            .collect();
        assert_eq!(doubles, [Some(0.1), None, Some(-0.0)]);
        let dates: Vec<_> = batch
            .column(5)
            .as_primitive::<Date32Type>()
            .iter()
            .collect();
        assert_eq!(dates, [Some(10_561), None, Some(-1)]);
        let texts: Vec<_> = batch.column(6).as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("text"), None, Some("thirteen chars")]);
        let wides: Vec<_> = batch
            .column(7)
            .as_primitive::<Decimal128Type>()
            .iter()
            .collect();
        assert_eq!(wides, [Some(i128::MIN), None, Some(1)]);
    }
}

/// DuckDB stores decimals of up to 4, 9, 18 and 38 digits in 2, 4, 8 and 16 bytes.
#[test]
fn decimals_of_every_width() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    for (precision, scale) in [(4, 2), (9, 2), (15, 2), (18, 6), (38, 2)] {
        let sql = format!(
            "SELECT * FROM (VALUES (-12.34::DECIMAL({precision},{scale})), (NULL), (56.78)) t(c)"
        );
        let unit = 10_i64.pow(scale - 2);
        let expected = [Some(-1234 * unit), None, Some(5678 * unit)];
        for delivery in DELIVERIES {
            let inferred = one(&mut connection, &sql, delivery);
            let ty = inferred.column(0).data_type().clone();
            let is_narrow =
                matches!(ty, DataType::Decimal64(p, s) if (p, s) == (precision, scale as i8));
            assert_eq!(is_narrow, precision <= 18, "{ty}");
            let wanted = schema(DataType::Decimal128(38, scale as i8), true);
            let wide = connection
                .query(&sql, Some(wanted), delivery)
                .unwrap()
                .next()
                .unwrap()
                .unwrap();
            let wide: Vec<_> = wide
                .column(0)
                .as_primitive::<Decimal128Type>()
                .iter()
                .collect();
            assert_eq!(wide, expected.map(|v| v.map(i128::from)));
            let wanted = schema(DataType::Decimal64(18, scale as i8), true);
            let narrow = connection
                .query(&sql, Some(wanted), delivery)
                .unwrap()
                .next()
                .unwrap()
                .unwrap();
            let narrow: Vec<_> = narrow
                .column(0)
                .as_primitive::<Decimal64Type>()
                .iter()
                .collect();
            assert_eq!(narrow, expected);
        }
    }
}

/// Lengths around every way that a text is copied, in several batches, with NULLs between them.
#[test]
fn texts_of_every_length() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    let rows = 2 * BATCH_ROWS as i64 + 777;
    let sql = format!(
        "SELECT i, CASE WHEN i % 7 <> 3 THEN repeat('é', (i % 3)::INT) || left(repeat(i || '-', 80), (i % 151)::INT) END AS t
         FROM range({rows}) r(i)"
    );
    for delivery in DELIVERIES {
        let mut seen = 0;
        let mut batches = 0;
        for batch in connection.query(&sql, None, delivery).unwrap() {
            let batch = batch.unwrap();
            batches += 1;
            let keys = batch.column(0).as_primitive::<Int64Type>().values();
            for (&i, text) in keys.iter().zip(batch.column(1).as_string::<i32>()) {
                let tail: String = format!("{i}-")
                    .repeat(80)
                    .chars()
                    .take((i % 151) as usize)
                    .collect();
                let expected = (i % 7 != 3).then(|| "é".repeat((i % 3) as usize) + &tail);
                assert_eq!(text, expected.as_deref(), "row {i}");
                seen += 1;
            }
        }
        assert_eq!(seen, rows);
        assert_eq!(batches, 3);
    }
}

#[test]
fn nothing_selected_is_no_batch() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    for delivery in DELIVERIES {
        let mut rows = connection
            .query("SELECT 1 AS one WHERE false", None, delivery)
            .unwrap();
        assert_eq!(rows.schema().field(0).name(), "one");
        assert!(rows.next().is_none());
        assert!(rows.next().is_none());
    }
}

#[test]
fn errors_say_what_duckdb_says() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    for delivery in DELIVERIES {
        let refused = connection
            .query("SELECT nonsense FROM range(3)", None, delivery)
            .unwrap_err();
        assert!(refused.to_string().contains("nonsense"), "{refused}");
        assert!(matches!(refused, Error::Statement { .. }));
        let refused = connection.query("SELEKT", None, delivery).unwrap_err();
        assert!(refused.to_string().contains("SELEKT"), "{refused}");
        let refused = connection.query("SELECT '\0'", None, delivery).unwrap_err();
        assert!(refused.to_string().contains("zero byte"), "{refused}");
    }
    assert!(
        connection
            .execute("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1), (2)")
            .is_ok_and(|n| n == 2)
    );
    assert!(connection.execute("INSERT INTO t VALUES ('x')").is_err());
    // The connection is still good.
    assert_eq!(
        one(&mut connection, "SELECT * FROM t", Delivery::Streamed).num_rows(),
        2
    );
}

/// A row that cannot be computed comes after good ones: the error follows them, and is not taken for the end.
#[test]
fn an_error_in_the_middle_is_not_the_end() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    let sql =
        "SELECT CASE WHEN i = 900000 THEN 'x' ELSE '1' END::INTEGER AS c FROM range(1000000) r(i)";
    let outcome: Result<Vec<_>, _> = match connection.query(sql, None, Delivery::Streamed) {
        Ok(rows) => rows.collect(),
        Err(early) => Err(early),
    };
    let refused = outcome.expect_err("a conversion fails");
    assert!(refused.to_string().contains("Conversion"), "{refused}");
    assert!(connection.query(sql, None, Delivery::Materialised).is_err());
}

#[test]
fn what_does_not_fit_the_schema_is_refused() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    let mut shape = |sql: &str, schema: SchemaRef| -> String {
        let rows = connection.query(sql, Some(schema), Delivery::Streamed);
        let refused = match rows {
            Ok(rows) => rows.collect::<Result<Vec<_>, _>>().expect_err(sql),
            Err(refused) => refused,
        };
        assert!(matches!(refused, Error::Shape { .. }), "{refused}");
        refused.to_string()
    };
    let many = "SELECT 1, 2";
    assert!(shape(many, schema(DataType::Int32, true)).contains("2 columns"));
    assert!(shape("SELECT 'x' AS t", schema(DataType::Int32, true)).contains("column t"));
    assert!(
        shape("SELECT 1.25 AS t", schema(DataType::Decimal64(18, 4), true)).contains("column t")
    );
    assert!(shape("SELECT NULL::INTEGER", schema(DataType::Int32, false)).contains("null"));
    let large = "SELECT 9223372036854775808::HUGEINT";
    assert!(shape(large, schema(DataType::Int64, true)).contains("9223372036854775808"));
    let small = connection
        .query(
            "SELECT sum(i) FROM range(4) r(i)",
            Some(schema(DataType::Int64, false)),
            Delivery::Streamed,
        )
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(small.column(0).as_primitive::<Int64Type>().values(), &[6]);
    let unread = connection
        .query("SELECT TIME '12:00:00' AS at", None, Delivery::Streamed)
        .unwrap_err();
    assert!(unread.to_string().contains("column at"), "{unread}");
}

/// Streamed, a result that fits no memory starts at once and ends when it is dropped.
#[test]
fn a_stream_is_not_computed_ahead() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    let sql = "SELECT i, 'row ' || i AS t FROM range(1000000000000) r(i)";
    let rows = connection.query(sql, None, Delivery::Streamed).unwrap();
    let taken: usize = rows.take(3).map(|batch| batch.unwrap().num_rows()).sum();
    assert!((3 * BATCH_ROWS..4 * BATCH_ROWS).contains(&taken));
    assert_eq!(
        one(&mut connection, "SELECT 1", Delivery::Streamed).num_rows(),
        1
    );
}

#[test]
fn an_interrupt_ends_a_statement() {
    let Some(library) = library() else { return };
    let mut connection = memory(library);
    let interrupt = connection.interrupt_handle();
    let endless =
        "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range + b.range = 17";
    let stopped = interrupt.watch(|| true, || connection.execute(endless));
    let stopped = stopped.unwrap_err();
    assert!(matches!(stopped, Error::Interrupted { .. }), "{stopped}");
    assert_eq!(
        one(&mut connection, "SELECT 1", Delivery::Streamed).num_rows(),
        1
    );
}

#[test]
fn two_threads_two_connections() {
    let Some(library) = library() else { return };
    let database = Database::open(library, None, &threads(2)).unwrap();
    let mut connection = database.connect().unwrap();
    connection
        .execute("CREATE TABLE t AS SELECT range AS i FROM range(300000)")
        .unwrap();
    std::thread::scope(|scope| {
        for delivery in DELIVERIES {
            let mut connection = database.connect().unwrap();
            scope.spawn(move || {
                for modulus in 1..6 {
                    let sql = format!("SELECT i FROM t WHERE i % {modulus} = 0");
                    let rows = connection.query(&sql, None, delivery).unwrap();
                    let sum: i64 = rows
                        .map(|batch| {
                            batch
                                .unwrap()
                                .column(0)
                                .as_primitive::<Int64Type>()
                                .values()
                                .iter()
                                .sum::<i64>()
                        })
                        .sum();
                    assert_eq!(sum, (0..300_000).step_by(modulus).sum::<i64>());
                }
            });
        }
    });
}

#[test]
fn a_file_is_kept_and_read_only_is_kept_too() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("it's.duckdb");
    let config = Config {
        storage_version: Some("v1.0.0"),
        ..threads(1)
    };
    let database = Database::open(library, Some(&path), &config).unwrap();
    database
        .connect()
        .unwrap()
        .execute("CREATE TABLE t AS SELECT 42 AS c")
        .unwrap();
    drop(database);
    let config = Config {
        read_only: true,
        any_order: true,
        memory_bytes_max: Some(100 << 20),
        temp_dir: Some(dir.path().join("spill")),
        ..threads(1)
    };
    let first = Database::open(library, Some(&path), &config).unwrap();
    let second = Database::open(library, Some(&path), &config).unwrap();
    let mut connection = first.connect().unwrap();
    assert!(connection.execute("DROP TABLE t").is_err());
    for database in [first, second] {
        let batch = one(
            &mut database.connect().unwrap(),
            "SELECT c FROM t",
            Delivery::Materialised,
        );
        assert_eq!(batch.column(0).as_primitive::<Int32Type>().values(), &[42]);
    }
    let settings = one(
        &mut connection,
        "SELECT current_setting('threads')::BIGINT, current_setting('memory_limit'),
                current_setting('autoinstall_known_extensions')::VARCHAR,
                current_setting('preserve_insertion_order')::VARCHAR",
        Delivery::Materialised,
    );
    assert_eq!(
        settings.column(0).as_primitive::<Int64Type>().values(),
        &[1]
    );
    assert_eq!(settings.column(1).as_string::<i32>().value(0), "100.0 MiB");
    assert_eq!(settings.column(2).as_string::<i32>().value(0), "false");
    assert_eq!(settings.column(3).as_string::<i32>().value(0), "false");
}

#[test]
fn only_a_table_by_itself_is_read_out_of_a_database() {
    let Some(library) = library() else { return };
    let table = "CREATE TABLE \"it's\" AS SELECT 1 AS c";
    let view = "CREATE VIEW \"it's\" AS SELECT 1 AS c";
    let sum = "CREATE MACRO sum(x) AS 42";
    let catalogue = "CREATE MACRO duckdb_tables() AS TABLE \
                     SELECT 'it''s' AS table_name, 'main' AS schema_name, false AS internal";
    for (statements, is_table) in [
        (&[table][..], true),
        (&[view], false),
        (&[], false),
        (&[table, "CREATE VIEW other AS SELECT 1"], false),
        (&[table, sum], false),
        (&[view, catalogue], false),
        (
            &["CREATE SCHEMA s; CREATE TABLE s.\"it's\" AS SELECT 1 AS c"],
            false,
        ),
    ] {
        let database = Database::open(library, None, &threads(1)).unwrap();
        let mut connection = database.connect().unwrap();
        for statement in statements {
            connection.execute(statement).unwrap();
        }
        let checked = database.require_base_table("it's");
        assert_eq!(checked.is_ok(), is_table, "{statements:?}: {checked:?}");
        if let Err(refused) = checked {
            assert!(
                refused.to_string().contains("it's as a table by itself"),
                "{refused}"
            );
        }
    }
}

/// A file that another machine sent may hold a view or a macro over files of this one.
#[test]
fn a_file_reaches_nothing_outside_itself() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside, 'it]s.csv");
    std::fs::write(&outside, "secret\n1\n").unwrap();
    let path = dir.path().join("sent.duckdb");
    let read = format!("read_csv({})", super::literal(outside.display()));
    let open = |config: &Config| Database::open(library, Some(&path), config).unwrap();
    let allowed = Config {
        allowed_paths: vec![outside.clone()],
        ..threads(1)
    };
    open(&allowed)
        .connect()
        .unwrap()
        .execute(&format!(
            "CREATE VIEW lineitem AS SELECT * FROM {read}; CREATE TABLE \"it's\" AS SELECT 1 AS c"
        ))
        .unwrap();
    let read_only = Config {
        read_only: true,
        ..threads(1)
    };
    let database = open(&read_only);
    let other = dir.path().join("other");
    let statements = [
        "SELECT * FROM lineitem".to_owned(),
        format!("SELECT * FROM {read}"),
        format!("COPY (SELECT 1) TO {}", super::literal(other.display())),
        format!("ATTACH {}", super::literal(other.display())),
        "SET enable_external_access = true".to_owned(),
        "SET lock_configuration = false".to_owned(),
        "SET threads = 3".to_owned(),
    ];
    for sql in &statements {
        assert!(database.connect().unwrap().execute(sql).is_err(), "{sql}");
    }
    drop(database);
    // What is allowed is all that is.
    for sql in &statements[2..] {
        assert!(
            open(&allowed).connect().unwrap().execute(sql).is_err(),
            "{sql}"
        );
    }
    open(&allowed)
        .connect()
        .unwrap()
        .execute(&statements[0])
        .unwrap();
    assert!(!other.exists());
}

#[test]
fn what_cannot_be_opened_is_named() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign.duckdb");
    std::fs::write(&foreign, vec![b'x'; 10_000]).unwrap();
    let missing = dir.path().join("none").join("file.duckdb");
    let refused = |path: &Path, config: &Config| {
        let refused = Database::open(library, Some(path), config).unwrap_err();
        assert!(matches!(refused, Error::Open { .. }));
        assert!(
            refused.to_string().contains(path.to_str().unwrap()),
            "{refused}"
        );
    };
    refused(&foreign, &threads(1));
    refused(&missing, &threads(1));
    refused(&dir.path().join("new"), &threads(0));
}

/// A table that breaks at its third page.
struct Breaking {
    breaks: Breaks,
}

#[derive(Clone, Copy)]
enum Breaks {
    Ends,
    Panics,
    /// Says more rows than it wrote.
    Skips,
}

impl Source for Breaking {
    fn columns(&self) -> &[(&'static str, raw::Physical)] {
        &[("c", raw::Physical::I64)]
    }

    fn threads_max(&self) -> usize {
        2
    }

    fn open(&self) -> Box<dyn Feed> {
        Box::new(BreakingFeed {
            pages: 0,
            breaks: self.breaks,
        })
    }
}

struct BreakingFeed {
    pages: usize,
    breaks: Breaks,
}

impl Feed for BreakingFeed {
    fn fill(&mut self, page: &mut Page<'_>) -> Result<usize, String> {
        self.pages += 1;
        match self.pages {
            ..3 => {
                page.set(0, std::iter::repeat(7_i64));
                Ok(page.rows_max())
            }
            _ => match self.breaks {
                Breaks::Panics => panic!("on purpose"),
                Breaks::Ends => Err("out of pages".to_owned()),
                Breaks::Skips => {
                    page.set(0, std::iter::repeat_n(7_i64, 10));
                    Ok(11)
                }
            },
        }
    }
}

#[test]
fn a_source_that_breaks_ends_the_statement() {
    let Some(library) = library() else { return };
    for (breaks, why) in [
        (Breaks::Ends, "out of pages"),
        (Breaks::Panics, "panicked"),
        (Breaks::Skips, "fewer rows than it says"),
    ] {
        let mut connection = memory(library);
        connection
            .register("breaking", Box::new(Breaking { breaks }))
            .unwrap();
        let refused = connection
            .execute("CREATE TABLE t AS SELECT * FROM breaking()")
            .unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(connection.execute("SELECT * FROM t").is_err());
    }
}
