//! `dpb query` as a real process, of agents and of its own: rows in every format are DuckDB's, a reader that leaves ends the scan, and what
//! cannot be had is said.

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, SchemaRef};
use dpb_dbmods::compare::digest::{Digest, first_surplus};
use dpb_dbmods::compare::random::{Generator, Samples};
use dpb_dbmods::duckdb::{Config, Connection, Database, Delivery, Library, tpch_baseline};
use dpb_dbmods::query::Query;
use dpb_dbmods::{Table, scan, tpch};
use support::{Agent, dpb, finish, text, wait_until};

/// The data of these tests, apart from that of others.
fn data_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("query-data")
}

/// `dpb query` with the tests' data.
fn query(args: &[&str]) -> Output {
    let dir = data_dir();
    let dir = dir.to_str().unwrap();
    finish(&[&["query", "--data-dir", dir][..], args].concat())
}

/// The stdout of a query that succeeds.
fn rows(args: &[&str]) -> String {
    let ran = query(args);
    assert!(ran.status.success(), "{args:?}: {}", text(&ran.stderr));
    text(&ran.stdout)
}

/// What a query that cannot be carried out says, and its exit code.
fn refused(args: &[&str]) -> (Option<i32>, String) {
    let ran = query(args);
    assert!(ran.stdout.is_empty(), "{args:?}: {}", text(&ran.stdout));
    (ran.status.code(), text(&ran.stderr))
}

/// Makes tables at this scale factor, unless they are there.
fn make(sf: &str, tables: &str) {
    let dir = data_dir();
    let dir = dir.to_str().unwrap();
    let made = finish(&["data", "--sf", sf, "--tables", tables, "--data-dir", dir]);
    assert!(made.status.success(), "{}", text(&made.stderr));
}

fn agent() -> Agent {
    let dir = data_dir();
    Agent::start(&["--data-dir", dir.to_str().unwrap()])
}

fn library() -> Option<Library> {
    match Library::find() {
        Ok(library) => Some(library),
        Err(missing) => {
            println!("skipped: {missing}");
            None
        }
    }
}

/// DuckDB with its own copy of a table.
fn duckdb(library: Library, sf: f64, table: &str) -> Connection {
    let clock = dpb_core::WallClock::default();
    let copy = tpch_baseline::ensure(library, &data_dir(), sf, table, 2, &clock, &mut |_| ());
    let config = Config {
        threads: Some(2),
        read_only: true,
        ..Config::default()
    };
    let database = Database::open(library, Some(&copy.unwrap().duckdb_path), &config).unwrap();
    database.connect().unwrap()
}

/// DuckDB that may read this file and nothing else.
fn reader(library: Library, path: &Path) -> Connection {
    let config = Config {
        allowed_paths: vec![path.to_owned()],
        ..Config::default()
    };
    let database = Database::open(library, None, &config).unwrap();
    database.connect().unwrap()
}

fn batches(duckdb: &mut Connection, sql: &str, schema: Option<&SchemaRef>) -> Vec<RecordBatch> {
    let rows = duckdb.query(sql, schema.cloned(), Delivery::Materialised);
    let batches = rows.and_then(Iterator::collect);
    batches.unwrap_or_else(|error| panic!("{error}\n{sql}"))
}

/// Rows as texts, and how often each is there.
type Bag = BTreeMap<Vec<Option<String>>, usize>;

fn bag(rows: impl IntoIterator<Item = Vec<Option<String>>>) -> Bag {
    let mut bag = Bag::new();
    for row in rows {
        *bag.entry(row).or_default() += 1;
    }
    bag
}

/// The rows of columns that are texts.
fn texts(batches: &[RecordBatch]) -> Bag {
    bag(batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| {
            let columns = batch.columns().iter();
            let cell = |column: &ArrayRef| {
                let column = column.as_string::<i32>();
                column.is_valid(row).then(|| column.value(row).to_owned())
            };
            columns.map(cell).collect()
        })
    }))
}

/// The rows of a stream of Arrow's, as arrow-ipc reads it.
fn arrow(bytes: &[u8]) -> Bag {
    let mut found = Vec::new();
    for batch in StreamReader::try_new(bytes, None).unwrap() {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| {
                let text = match column.data_type() {
                    DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
                    DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
                    DataType::Float64 => {
                        format!("{:?}", column.as_primitive::<Float64Type>().value(row))
                    }
                    DataType::Date32 => {
                        let column = column.as_primitive::<Date32Type>();
                        column.value_as_date(row).unwrap().to_string()
                    }
                    DataType::Decimal128(..) => {
                        column.as_primitive::<Decimal128Type>().value_as_string(row)
                    }
                    DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
                    other => panic!("{other}"),
                };
                column.is_valid(row).then_some(text)
            };
            found.push(batch.columns().iter().map(cell).collect());
        }
    }
    bag(found)
}

/// The rows of JSON lines, as serde_json reads them.
fn json(lines: &str, names: &[&str]) -> Bag {
    bag(lines.lines().map(|line| {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(object.len(), names.len());
        let cell = |name: &&str| match &object[*name] {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.clone()),
            number => Some(number.to_string()),
        };
        names.iter().map(cell).collect()
    }))
}

#[test]
fn every_format_has_duckdbs_rows() {
    let Some(library) = library() else { return };
    make("0.01", "orders,part");
    let agent = agent();
    let folder = tempfile::tempdir().unwrap();
    for (table, statement, names) in [
        (
            "orders",
            "SELECT o_orderkey, o_totalprice, o_orderdate, o_comment FROM orders WHERE o_comment LIKE '%,%'",
            &["o_orderkey", "o_totalprice", "o_orderdate", "o_comment"][..],
        ),
        (
            "part",
            "SELECT p_size, count(*) AS parts, sum(p_retailprice) AS price, min(p_name) AS name, avg(p_partkey) AS a FROM part \
             WHERE p_size < 20 GROUP BY p_size",
            &["p_size", "parts", "price", "name", "a"],
        ),
        (
            "orders",
            "SELECT count(*) AS n, sum(o_totalprice) AS s, max(o_orderdate) AS d, min(o_clerk) AS c FROM orders WHERE o_orderkey < 0",
            &["n", "s", "d", "c"],
        ),
    ] {
        let mut peer = duckdb(library, 0.01, table);
        let all_texts = |from: &str| format!("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {from}");
        let expected = texts(&batches(
            &mut peer,
            &all_texts(&format!("({statement})")),
            None,
        ));
        assert!(!expected.is_empty());
        for to in [
            &["--server", &agent.address, "--sf", "0.01"][..],
            &["--sf", "0.01"],
        ] {
            let path = |name: &str| folder.path().join(name);
            let asked = |more: &[&str]| query(&[&[statement][..], to, more].concat());
            let ran = asked(&["--format", "json"]);
            assert!(ran.status.success(), "{}", text(&ran.stderr));
            assert_eq!(json(&text(&ran.stdout), names), expected, "{statement}");

            let ran = asked(&["--format", "arrow"]);
            assert!(ran.status.success(), "{}", text(&ran.stderr));
            assert_eq!(arrow(&ran.stdout), expected, "{statement}");

            let csv = path("rows.csv");
            let ran = asked(&["--output", csv.to_str().unwrap()]);
            assert!(
                ran.status.success() && ran.stdout.is_empty(),
                "{}",
                text(&ran.stderr)
            );
            let sql = format!(
                "SELECT * FROM read_csv('{}', header=true, all_varchar=true, allow_quoted_nulls=false)",
                csv.display()
            );
            let found = batches(&mut reader(library, &csv), &sql, None);
            assert_eq!(texts(&found), expected, "{statement}");
            let found = found[0].schema();
            let found: Vec<&str> = found.fields().iter().map(|f| f.name().as_str()).collect();
            assert_eq!(found, names);

            let parquet = path("rows.parquet");
            let ran = asked(&["--output", parquet.to_str().unwrap()]);
            assert!(
                ran.status.success() && ran.stdout.is_empty(),
                "{}",
                text(&ran.stderr)
            );
            let sql = all_texts(&format!("read_parquet('{}')", parquet.display()));
            let found = batches(&mut reader(library, &parquet), &sql, None);
            assert_eq!(texts(&found), expected, "{statement}");
        }
    }
    // Nothing half made is left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

fn type_of(ty: &DataType) -> String {
    match ty {
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => format!("DECIMAL({p},{s})"),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        _ => "VARCHAR".to_owned(),
    }
}

/// Random statements, each a process that asks an agent; DuckDB reads what was written, and compares it with its own rows.
#[test]
fn random_statements_have_duckdbs_rows() {
    let Some(library) = library() else { return };
    make("0.001", "all");
    let agent = agent();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let set = tpch::find(&data_dir(), 0.001);
    for (seed, table) in (7..).zip(tpch::TABLES) {
        let table = Table::of(Arc::new(set.open(table).unwrap()));
        let schema = table.schema();
        let samples = Samples::of_segment(table.segment(), table.cache(), seed).unwrap();
        let mut generator = Generator::new(schema, &samples, seed);
        let mut peer = duckdb(library, 0.001, &schema.table);
        for _ in 0..16 {
            let statement = generator.statement(&[1]);
            let query_read = Query::parse(schema, &statement.text).unwrap();
            let output = scan::output_schema(schema, &query_read).unwrap();
            let ran = query(&[
                &statement.text,
                "--server",
                &agent.address,
                "--sf",
                "0.001",
                "--output",
                path.to_str().unwrap(),
            ]);
            assert!(
                ran.status.success(),
                "{}\n{}",
                statement.text,
                text(&ran.stderr)
            );
            let fields = output.fields().iter().enumerate();
            let (columns, casts): (Vec<String>, Vec<String>) = fields
                .map(|(at, field)| {
                    let ty = type_of(field.data_type());
                    (format!("c{at}: 'VARCHAR'"), format!("CAST(c{at} AS {ty})"))
                })
                .unzip();
            let sql = format!(
                "SELECT {} FROM read_csv('{}', auto_detect=false, header=true, allow_quoted_nulls=false, delim=',', quote='\"', \
                 escape='\"', columns={{{}}})",
                casts.join(", "),
                path.display(),
                columns.join(", ")
            );
            let found = batches(&mut reader(library, &path), &sql, Some(&output));
            let expected = batches(&mut peer, &statement.whole, Some(&output));
            let digest = |batches: &[RecordBatch]| Digest::of(batches).unwrap();
            let (came, whole) = (digest(&found), digest(&expected));
            match statement.limit {
                None => assert_eq!(came, whole, "{}", statement.text),
                Some(limit) => {
                    assert_eq!(came.rows, limit.min(whole.rows), "{}", statement.text);
                    let surplus = first_surplus("dpb", &found, "DuckDB", &expected).unwrap();
                    assert_eq!(surplus, None, "{}", statement.text);
                }
            }
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_the_scan_without_a_word() {
    make("0.1", "lineitem");
    let agent = agent();
    let idle_threads = agent.threads();
    let dir = data_dir();
    let here = ["--sf", "0.1", "--data-dir", dir.to_str().unwrap()];
    let there = ["--sf", "0.1", "--server", &agent.address];
    for (statement, read) in [
        ("SELECT * FROM lineitem", 1000),
        // Rows so few that the next one may never come.
        (
            "SELECT * FROM lineitem WHERE l_comment LIKE '%no%such%comment%'",
            0,
        ),
    ] {
        for format in ["csv", "json", "table", "arrow", "parquet"] {
            for to in [&here[..], &there] {
                let args = [&["query", statement, "--format", format][..], to].concat();
                let mut child = dpb(&args)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut stdout = child.stdout.take().unwrap();
                if read > 0 && format != "parquet" {
                    stdout.read_exact(&mut vec![0; read]).unwrap();
                    // Rows of some 90 MB come, for which no pipe and no socket has room, so nothing ends by itself.
                    assert!(child.try_wait().unwrap().is_none(), "{args:?}");
                    let is_there = to.contains(&"--server");
                    assert!(!is_there || agent.threads() > idle_threads, "{args:?}");
                }
                drop(stdout);
                let ended = child.wait_with_output().unwrap();
                assert!(ended.status.success(), "{args:?}: {:?}", ended.status);
                assert_eq!(text(&ended.stderr), "", "{args:?}");
            }
            assert!(wait_until(Duration::from_secs(20), || agent.threads() <= idle_threads));
        }
    }
}

#[test]
fn a_limit_ends_the_scan_early_and_the_plan_is_said() {
    make("0.1", "lineitem");
    let agent = agent();
    let statement = "SELECT l_orderkey, l_tax FROM lineitem WHERE l_quantity < 40 LIMIT 7";
    for to in [&["--server", &agent.address][..], &[]] {
        let args = [
            statement,
            "--sf",
            "0.1",
            "--threads",
            "1",
            "--explain",
            "--format",
            "csv",
        ];
        let ran = query(&[&args[..], to].concat());
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        assert_eq!(text(&ran.stdout).lines().count(), 8);
        let said = text(&ran.stderr);
        for words in [
            "lineitem: reads 3 of 16 columns (l_orderkey, l_quantity, l_tax); gives rows: l_orderkey, l_tax, 7 rows at most",
            "sampled rows pass",
        ] {
            assert!(said.contains(words), "{said}");
        }
        let scanned = said
            .split(" rows (")
            .next()
            .unwrap()
            .rsplit(' ')
            .next()
            .unwrap();
        let scanned: u64 = scanned.parse().unwrap_or_else(|_| panic!("{said}"));
        assert!((7..=65_536).contains(&scanned), "{said}");
    }
    let counted = |limit: &str| {
        let statement =
            format!("SELECT l_shipmode, count(*) FROM lineitem GROUP BY l_shipmode {limit}");
        rows(&[&statement, "--sf", "0.1", "--format", "csv"])
            .lines()
            .count()
    };
    assert_eq!(
        (counted(""), counted("LIMIT 3"), counted("LIMIT 0")),
        (8, 4, 1)
    );
}

/// Rows `from..to` of a table of a user's own.
fn sales(dir: &Path, name: &str, from: i32, to: i32) -> PathBuf {
    let kinds: ArrayRef = Arc::new(Int32Array::from_iter_values((from..to).map(|row| row % 5)));
    let prices = (from..to).map(|row| i64::from(row) * 1_000_003 % 9973);
    let prices: ArrayRef = Arc::new(Int64Array::from_iter_values(prices));
    let names = (from..to).map(|row| format!("n\"{}", row % 97));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let batch = RecordBatch::try_from_iter([("kind", kinds), ("price", prices), ("name", names)]);
    let path = dir.join(name);
    Table::create(&path, "sales", [batch.unwrap()]).unwrap();
    path
}

#[test]
fn parts_at_several_agents_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    // Parts of different lengths: an average of averages would be wrong.
    let parts = [
        ("a", 0, 70_000),
        ("b", 70_000, 71_000),
        ("c", 71_000, 150_001),
    ];
    let agents = parts.map(|(name, from, to)| {
        let path = sales(folder.path(), name, from, to);
        Agent::start(&["--table", path.to_str().unwrap()])
    });
    let whole = sales(folder.path(), "whole", 0, 150_001);
    let whole = whole.to_str().unwrap();
    let servers = agents.iter().map(|agent| agent.address.as_str());
    let servers = servers.collect::<Vec<_>>().join(",");
    let sorted = |args: &[&str]| {
        let csv = rows(&[args, &["--format", "csv"]].concat());
        let mut lines: Vec<String> = csv.lines().map(str::to_owned).collect();
        lines[1..].sort();
        lines
    };
    for statement in [
        "SELECT kind, count(*), sum(price), avg(price), min(name), max(price) FROM sales GROUP BY kind",
        "SELECT avg(price) AS a FROM sales WHERE kind > 9",
        "SELECT price, name FROM sales WHERE price < 40 AND kind = 3",
        "SELECT name FROM sales WHERE price < 0",
    ] {
        let there = sorted(&[statement, "--server", &servers]);
        assert_eq!(there, sorted(&[statement, "--table", whole]), "{statement}");
    }
    let limited = |limit: &str| {
        let statement = format!("SELECT * FROM sales LIMIT {limit}");
        sorted(&[&statement, "--server", &servers]).len() - 1
    };
    assert_eq!(
        (limited("0"), limited("11"), limited("140000")),
        (0, 11, 140_000)
    );
    // Each has all of TPC-H's tables, so their rows would come several times.
    make("0.001", "nation");
    let dir = data_dir();
    let both = [(); 2].map(|()| Agent::start(&["--data-dir", dir.to_str().unwrap()]));
    let servers = format!("{},{}", both[0].address, both[1].address);
    let (code, said) = refused(&[
        "SELECT * FROM nation",
        "--sf",
        "0.001",
        "--server",
        &servers,
    ]);
    assert_eq!(code, Some(2));
    assert!(said.contains("dpb serve --table"), "{said}");
    // An agent without the part.
    let servers = format!("{},{}", agents[0].address, both[1].address);
    let (code, said) = refused(&["SELECT * FROM sales", "--server", &servers]);
    assert_eq!(code, Some(3));
    assert!(said.contains("no table `sales`"), "{said}");
}

#[test]
fn what_cannot_be_had_is_said() {
    make("0.001", "nation");
    make("0.01", "nation");
    let agent = agent();
    let server = agent.address.as_str();
    let both: [&[&str]; 2] = [&["--sf", "0.001"], &["--sf", "0.001", "--server", server]];
    let twice = format!("{server},{server}");
    let count = "SELECT count(*) FROM nation";
    let (code, said) = refused(&[count, "--sf", "0.001", "--server", &twice]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("twice"), "{said}");
    for to in both {
        for (statement, code, words) in [
            (
                "SELECT n_name FROM nations",
                if to.len() > 2 { 3 } else { 2 },
                "no table `nations`",
            ),
            ("SELECT n_nam FROM nation", 2, "did you mean `n_name`?"),
            (
                "SELECT n_name FROM nation WHERE n_name = 7",
                2,
                "do not compare",
            ),
            (
                "SELECT n_name FROM nation ORDER BY 1",
                2,
                "ORDER BY cannot be pushed down",
            ),
            (
                "SELECT n_name FROM nation JOIN region ON TRUE",
                2,
                "JOIN cannot be pushed down",
            ),
            (
                "SELECT n_name FROM (SELECT 1)",
                2,
                "a subquery cannot be pushed down",
            ),
            ("DROP TABLE nation", 2, "DROP cannot be pushed down"),
            ("", 2, "expected SELECT"),
            (
                "SELECT n_name, n_name FROM nation",
                2,
                "two columns are called n_name",
            ),
        ] {
            let (found, said) = refused(&[&[statement][..], to].concat());
            assert_eq!(found, Some(code), "{statement}: {said}");
            assert!(said.contains(words), "{statement}: {said}");
        }
    }
    let nation = "SELECT n_name FROM nation";
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--server", server], 2, "choose one with --sf or --data"),
        (
            &["--server", server, "--sf", "3"],
            3,
            "no table `nation` in tpch-sf3",
        ),
        (&["--server", server, "--data", "given"], 3, "in given"),
        (
            &["--server", server, "--data", "a/b"],
            2,
            "a data set's name",
        ),
        (&["--server", "127.0.0.1:1"], 3, "dpb serve"),
        (&["--sf", "-1"], 2, "scale factor"),
        (&["--format", "markdown"], 2, "arrow or parquet"),
        (&["--table", "/nowhere/at.all"], 2, "/nowhere/at.all"),
        (
            &["--sf", "0.001", "--output", "/nowhere/rows.csv"],
            1,
            "/nowhere/rows.csv",
        ),
    ];
    for (more, code, words) in cases {
        let (found, said) = refused(&[&[nation][..], more].concat());
        assert_eq!(found, Some(code), "{more:?}: {said}");
        assert!(said.contains(words), "{more:?}: {said}");
    }
    let other = finish(&["list", "--format", "parquet"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("dpb query"));
    // The agent's own choice where there is one.
    let named = rows(&[
        nation,
        "--server",
        server,
        "--data",
        "tpch-sf0.01",
        "--format",
        "csv",
    ]);
    assert_eq!(named.lines().count(), 26);
}

#[test]
fn a_scan_that_fails_leaves_no_file_and_a_file_is_replaced_whole() {
    make("0.001", "region");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.arrow");
    let output = ["--sf", "0.001", "--output", path.to_str().unwrap()];
    std::fs::write(&path, "old").unwrap();
    let (code, _) = refused(&[&["SELECT r_nam FROM region"][..], &output].concat());
    assert_eq!(
        (code, std::fs::read(&path).unwrap()),
        (Some(2), b"old".to_vec())
    );
    rows(&[&["SELECT r_name FROM region"][..], &output].concat());
    let mut read = Vec::new();
    BufReader::new(File::open(&path).unwrap())
        .read_to_end(&mut read)
        .unwrap();
    assert_eq!(arrow(&read).len(), 5);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
