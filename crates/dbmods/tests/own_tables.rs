//! Tables of a user's own at agents: asked for rows, for an aggregate, and for partial aggregates of their parts.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, Decimal128Array, Int32Array, RecordBatch, StringArray};
use dpb_dbmods::scan::operator::Merged;
use dpb_dbmods::service::client::ClientError;
use dpb_dbmods::service::protocol::{FileFormat, Refusal};
use dpb_dbmods::{Agent, AgentOptions, Client, DataSet, Query, ScanRequest, Table};

const GROUPS: &str =
    "SELECT kind, count(*), sum(price), avg(price), min(name), max(price) FROM sales GROUP BY kind";

/// Rows `from..to` of the table: seven kinds, prices with cents, names.
fn part(from: i64, to: i64) -> RecordBatch {
    let kinds: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (from..to).map(|row| (row * row % 7) as i32),
    ));
    let prices = Decimal128Array::from_iter_values((from..to).map(price));
    let prices: ArrayRef = Arc::new(prices.with_precision_and_scale(12, 2).unwrap());
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((from..to).map(name)));
    RecordBatch::try_from_iter([("kind", kinds), ("price", prices), ("name", names)]).unwrap()
}

fn price(row: i64) -> i128 {
    i128::from(row * 1_000_003 % 9_999_991)
}

fn name(row: i64) -> String {
    format!("n{}", row * 31 % 1009)
}

/// An agent with one table, until it is dropped.
struct Served {
    table: Table,
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn new(dir: &Path, from: i64, to: i64) -> Self {
        let path = dir.join(format!("{from}.dpbseg"));
        let table = Table::create(&path, "sales", [part(from, to)]).unwrap();
        let agent = Agent::bind(AgentOptions {
            tables: vec![table.clone()],
            ..AgentOptions::new("127.0.0.1:0".parse().unwrap())
        })
        .unwrap();
        let (address, stop) = (
            agent.address().to_string(),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || agent.run(&|| stop.load(Ordering::Relaxed))
        });
        Self {
            table,
            address,
            stop,
            thread: Some(thread),
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.address, &[], 0).unwrap()
    }

    fn query(&self, sql: &str) -> Query {
        self.table.query(sql).unwrap()
    }

    fn request(&self, sql: &str) -> ScanRequest {
        ScanRequest::new(DataSet::given(), self.table.schema(), self.query(sql))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn all(client: &mut Client, request: ScanRequest) -> Result<Vec<RecordBatch>, ClientError> {
    let mut batches = Vec::new();
    client.scan(request, &mut |batch| {
        batches.push(batch.clone());
        ControlFlow::Continue(())
    })?;
    Ok(batches)
}

#[test]
fn an_agent_serves_the_tables_that_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(dir.path(), 0, 100_000);
    let mut client = served.client();
    let tables = client.describe(&DataSet::given()).unwrap();
    assert_eq!(tables.len(), 1);
    assert_eq!(
        (&tables[0].schema, tables[0].rows),
        (served.table.schema(), 100_000)
    );

    let found = all(
        &mut client,
        served.request("SELECT price FROM sales WHERE name = 'n7' AND kind = 2"),
    );
    let mut found: Vec<i128> = (found.unwrap().iter())
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<arrow_array::types::Decimal64Type>()
                .values()
                .to_vec()
        })
        .map(i128::from)
        .collect();
    found.sort_unstable();
    let mut right: Vec<i128> = (0..100_000)
        .filter(|row| name(*row) == "n7" && row * row % 7 == 2)
        .map(price)
        .collect();
    right.sort_unstable();
    assert!(!right.is_empty());
    assert_eq!(found, right);

    let mut file = tempfile::tempfile().unwrap();
    let bytes = served.table.segment().file_bytes();
    let fetched = client.fetch(
        &DataSet::given(),
        "sales",
        FileFormat::Segment,
        bytes,
        &mut file,
    );
    assert_eq!(fetched.unwrap(), bytes);
    let (_, share) = client.pick(&DataSet::given(), "sales", 0.25).unwrap();
    assert!((share - 0.25).abs() < 0.01, "{share}");
}

#[test]
fn what_an_agent_was_not_given_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(dir.path(), 0, 100);
    let mut client = served.client();
    let mut refused = |request: ScanRequest| match all(&mut client, request).unwrap_err() {
        ClientError::Refused {
            refusal: Refusal::Usage,
            text,
            ..
        } => text,
        other => panic!("{other}"),
    };
    let mut other = served.request("SELECT name FROM sales");
    other.query.table = "salaries".to_owned();
    let told = refused(other);
    assert!(
        told.contains("no table `salaries`; there are sales"),
        "{told}"
    );
    let mut foreign = served.request("SELECT name FROM sales");
    foreign.schema ^= 1;
    let told = refused(foreign);
    assert!(told.contains("another one"), "{told}");
    let twice = Agent::bind(AgentOptions {
        tables: vec![served.table.clone(), served.table.clone()],
        ..AgentOptions::new("127.0.0.1:0".parse().unwrap())
    });
    assert!(
        twice
            .err()
            .unwrap()
            .to_string()
            .contains("two tables are called sales")
    );
}

#[test]
fn partial_aggregates_of_two_agents_are_the_aggregate_of_the_whole_table() {
    let dir = tempfile::tempdir().unwrap();
    // Parts of different lengths: an average of averages would be wrong.
    let parts = [
        Served::new(dir.path(), 0, 90_000),
        Served::new(dir.path(), 90_000, 100_001),
    ];
    let query = parts[0].query(GROUPS);
    let mut merged = Merged::of_query(parts[0].table.schema(), &query, 1 << 20).unwrap();
    let mut tuples = 0;
    for part in &parts {
        let scanned = part
            .client()
            .scan_partial(part.request(GROUPS), &mut merged);
        tuples += scanned.unwrap().end.tuples_scanned;
    }
    assert_eq!(tuples, 100_001);
    let result = merged.finish().unwrap();

    // As one table gives it, in process.
    let whole = Table::create(&dir.path().join("whole"), "sales", [part(0, 100_001)]).unwrap();
    let whole: Vec<RecordBatch> = whole.scan(&query).unwrap().map(Result::unwrap).collect();
    assert_eq!(whole, std::slice::from_ref(&result));

    // As arithmetic gives it.
    for (at, &kind) in result
        .column(0)
        .as_primitive::<Int32Type>()
        .values()
        .iter()
        .enumerate()
    {
        let rows = || (0..100_001i64).filter(move |row| row * row % 7 == i64::from(kind));
        let (count, sum) = (rows().count(), rows().map(price).sum::<i128>());
        assert_eq!(
            result.column(1).as_primitive::<Int64Type>().value(at),
            count as i64
        );
        assert_eq!(
            result.column(2).as_primitive::<Decimal128Type>().value(at),
            sum
        );
        let average = sum as f64 / 100.0 / count as f64;
        let found = result.column(3).as_primitive::<Float64Type>().value(at);
        assert!((found / average - 1.0).abs() < 1e-15, "{found} {average}");
        let least = rows().map(name).min().unwrap();
        assert_eq!(result.column(4).as_string::<i32>().value(at), least);
    }
    assert_eq!(
        result.num_rows(),
        4,
        "squares leave four remainders by seven"
    );
}

#[test]
fn partial_aggregates_that_do_not_fit_are_refused_and_the_connection_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(dir.path(), 0, 1000);
    let mut client = served.client();
    let merged_of = |sql: &str, bytes| {
        let query = served.query(sql);
        Merged::of_query(served.table.schema(), &query, bytes).unwrap()
    };
    // Of another query.
    let mut other = merged_of("SELECT count(*) FROM sales", 1 << 20);
    let failed = client
        .scan_partial(served.request(GROUPS), &mut other)
        .unwrap_err();
    assert!(matches!(failed, ClientError::Merge(_)), "{failed}");
    // More groups than there is memory for.
    let mut small = merged_of(GROUPS, 10);
    let failed = client
        .scan_partial(served.request(GROUPS), &mut small)
        .unwrap_err();
    assert!(matches!(failed, ClientError::Merge(_)), "{failed}");
    // Rows are no aggregate.
    let mut merged = merged_of(GROUPS, 1 << 20);
    let rows = served.request("SELECT name FROM sales");
    let failed = client.scan_partial(rows, &mut merged).unwrap_err();
    assert!(matches!(failed, ClientError::Refused { .. }), "{failed}");
    // No rows at all are an aggregate too.
    let none = "SELECT count(*), avg(price) FROM sales WHERE kind > 100";
    let mut merged = merged_of(none, 1 << 20);
    client
        .scan_partial(served.request(none), &mut merged)
        .unwrap();
    let result = merged.finish().unwrap();
    assert_eq!(result.column(0).as_primitive::<Int64Type>().value(0), 0);
    assert!(result.column(1).is_null(0));
    let bytes = client.bytes();
    assert!(bytes.0 > 0 && bytes.1 > 0);
}
