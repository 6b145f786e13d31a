//! Agents among peers that misbehave, and processes that are killed: nothing is lost, nothing is left.

mod support;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use dpb_core::measure::Reading;
use dpb_dbmods::query::{Output, Predicate, Query};
use dpb_dbmods::service::agent::{DUCKDB_BYTES_MIN, OVERHEAD_BYTES_MAX};
use dpb_dbmods::service::client::{Client, ClientError};
use dpb_dbmods::service::protocol::{
    self, DataSet, Engine, Refusal, Request, ScanRequest, TAGS, Tag,
};
use dpb_link::agent::{CONNECTION_BYTES, KNOCKING_BYTES, KNOCKING_MAX};
use dpb_link::hello::{Hello, Open};
use dpb_link::{Header, LinkError, tag};
use support::{
    Agent, children, data_dir, dpb, finish, has_half_files, make_data, records, runs, text,
    wait_until,
};

/// What the agent says of a table that other tests may have made others beside.
fn lineitem_rows(client: &mut Client, sf: f64) -> u64 {
    let tables = client.describe(&DataSet::tpch(sf).unwrap()).unwrap();
    let lineitem = tables.iter().find(|table| table.schema.table == "lineitem");
    lineitem.expect("it was made").rows
}

fn everything(sf: f64) -> ScanRequest {
    ScanRequest {
        data: DataSet::tpch(sf).unwrap(),
        schema: dpb_dbmods::tpch::schema("lineitem").unwrap().fingerprint(),
        engine: Engine::Dpb,
        query: Query {
            table: "lineitem".to_owned(),
            predicate: Predicate::Constant(Some(true)),
            output: Output::Rows((0..16).collect()),
            limit: None,
        },
        threads: 2,
        batch_rows: 16_384,
        rows_expected: None,
        partial: false,
    }
}

fn frame(tag: impl Into<u8>, body: &[u8]) -> Vec<u8> {
    let header = Header {
        tag: tag.into(),
        len: body.len(),
    };
    [&header.to_bytes()[..], body].concat()
}

/// What a client says before its first request.
fn hello() -> Vec<u8> {
    let open = Open {
        service: protocol::SERVICE.to_owned(),
        version: protocol::VERSION,
    };
    [hello_alone(), frame(tag::OPEN, &open.to_bytes())].concat()
}

fn hello_alone() -> Vec<u8> {
    let hello = Hello {
        version: dpb_link::VERSION,
        capabilities: 0,
        link_bits_per_s: 0,
        token: Vec::new(),
    };
    frame(tag::HELLO, &hello.to_bytes())
}

/// Reads frames until the peer closes; the last error frame, if there was one.
fn last_words(stream: &mut TcpStream) -> Option<(Refusal, String)> {
    let mut words = None;
    while let Ok(Some(header)) = Header::read(stream, &TAGS) {
        let mut body = vec![0; header.len];
        stream.read_exact(&mut body).ok()?;
        if let (tag::ERROR, LinkError::Refused { refusal, text }) =
            (header.tag, dpb_link::parse_refusal(&body))
        {
            words = Some((refusal, text));
        }
    }
    words
}

#[test]
fn garbage_ends_its_own_connection_only() {
    make_data("0.01");
    let agent = Agent::start(&[]);
    let idle_threads = agent.threads();
    let mut survivor = Client::connect(&agent.address, &[], 0).unwrap();
    let mut older = hello();
    older[8 + 4] = 9;
    let huge = [16, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f];
    let mut trailing = protocol::encode(&Request::Usage { reset_peak: false });
    trailing.push(0);
    let noise: Vec<u8> = (0..5000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut deep = everything(0.01);
    for level in 0..180 {
        let one = Predicate::Like {
            column: 15,
            pattern: "%a%".to_owned(),
            escape: None,
        };
        let both = vec![one, deep.query.predicate];
        deep.query.predicate = match level % 2 {
            0 => Predicate::And(both),
            _ => Predicate::Or(both),
        };
    }
    let deep = protocol::encode(&Request::Scan(deep));
    let cases: Vec<(&str, Vec<u8>, Refusal)> = vec![
        (
            "HTTP",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            Refusal::Protocol,
        ),
        ("noise", noise, Refusal::Protocol),
        (
            "a request first",
            frame(Tag::Request, &[0]),
            Refusal::Protocol,
        ),
        ("another version", older, Refusal::Version),
        (
            "a huge length",
            [hello(), huge.to_vec()].concat(),
            Refusal::Protocol,
        ),
        (
            "an unknown tag",
            [hello(), vec![77, 0, 0, 0, 0, 0, 0, 0]].concat(),
            Refusal::Protocol,
        ),
        (
            "bytes after the end",
            [hello(), frame(Tag::Request, &trailing)].concat(),
            Refusal::Protocol,
        ),
        (
            "a request that is none",
            [hello(), frame(Tag::Request, &[250; 100])].concat(),
            Refusal::Protocol,
        ),
        (
            "a condition nested too deep",
            [hello(), frame(Tag::Request, &deep)].concat(),
            Refusal::Protocol,
        ),
        (
            "a second hello",
            [hello(), hello()].concat(),
            Refusal::Protocol,
        ),
    ];
    for (name, bytes, refusal) in cases {
        let mut stream = agent.dial();
        stream.write_all(&bytes).unwrap();
        let words = last_words(&mut stream);
        assert_eq!(
            words.as_ref().map(|w| w.0),
            Some(refusal),
            "{name}: {words:?}"
        );
    }
    for (name, bytes) in [
        ("nothing", vec![]),
        ("half a header", hello()[..5].to_vec()),
        ("half a hello", hello()[..20].to_vec()),
        (
            "half a request",
            [&hello()[..], &frame(Tag::Request, &[1; 50])[..30]].concat(),
        ),
    ] {
        let mut stream = agent.dial();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        last_words(&mut stream);
        let mut rest = [0];
        assert!(
            matches!(stream.read(&mut rest), Ok(0)),
            "{name}: the agent closes"
        );
    }
    assert_eq!(lineitem_rows(&mut survivor, 0.01), 60_175);
    assert!(wait_until(Duration::from_secs(5), || agent.threads()
        <= idle_threads + 1));
}

#[test]
fn a_request_that_cannot_be_carried_out_leaves_the_connection() {
    make_data("0.01");
    let agent = Agent::start(&[]);
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    let (mut refusals, mut words) = (Vec::new(), String::new());
    for change in [
        |scan: &mut ScanRequest| scan.query.table = "../../etc/passwd".to_owned(),
        |scan: &mut ScanRequest| scan.query.output = Output::Rows(vec![99]),
        |scan: &mut ScanRequest| scan.data = "tpch-sfNaN".parse().unwrap(),
        |scan: &mut ScanRequest| scan.data = DataSet::tpch(7.0).unwrap(),
        |scan: &mut ScanRequest| scan.threads = 0,
        |scan: &mut ScanRequest| scan.schema ^= 1,
    ] {
        let mut scan = everything(0.01);
        change(&mut scan);
        match client.scan(scan, &mut |_| ControlFlow::Continue(())) {
            Err(ClientError::Refused { refusal, text, .. }) => {
                refusals.push(refusal);
                words = text;
            }
            other => panic!("{other:?}"),
        }
    }
    let schema = everything(0.01).schema;
    for fingerprint in [schema, schema ^ 1] {
        assert!(words.contains(&format!("{fingerprint:016x}")), "{words}");
    }
    use Refusal::{Unavailable, Usage};
    assert_eq!(refusals, [Usage, Usage, Usage, Unavailable, Usage, Usage]);
    let mut rows = 0;
    let mut count = |batch: &arrow_array::RecordBatch| {
        rows += batch.num_rows();
        ControlFlow::Continue(())
    };
    let scanned = client.scan(everything(0.01), &mut count).unwrap();
    assert_eq!((rows, scanned.end.tuples_scanned), (60_175, 60_175));
}

#[test]
fn a_condition_whose_plan_is_long_still_returns_its_rows() {
    make_data("0.01");
    let agent = Agent::start(&[]);
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    let values: Vec<String> = (2..4002).map(|i| i.to_string()).collect();
    let condition = format!("l_orderkey + 1 IN ({})", values.join(", "));
    let schema = dpb_dbmods::tpch::schema("lineitem").unwrap();
    let mut scan = everything(0.01);
    scan.query.predicate = dpb_dbmods::query::sql::parse_predicate(&schema, &condition).unwrap();
    let mut rows = 0;
    let mut count = |batch: &arrow_array::RecordBatch| {
        rows += batch.num_rows() as u64;
        ControlFlow::Continue(())
    };
    let scanned = client.scan(scan, &mut count).unwrap();
    assert_eq!(rows, scanned.end.rows);
    assert!(rows > 1000);
    assert!(scanned.end.explain.len() <= protocol::EXPLAIN_BYTES_MAX);
}

/// Stands between clients and an agent: notes every scan that is asked for, and spoils one of them.
struct Between {
    address: String,
    scans: Arc<Mutex<Vec<ScanRequest>>>,
}

impl Between {
    /// In the reply to the scan with this number, counted from 1, a count of all rows becomes one more. Its threads end
    /// with their connections, the first one with the test program.
    fn start(agent: &str, spoiled: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let scans = Arc::new(Mutex::new(Vec::new()));
        let (agent, noted) = (agent.to_owned(), Arc::clone(&scans));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, noted) = (client.unwrap(), Arc::clone(&noted));
                let agent = TcpStream::connect(&agent).unwrap();
                let (from_client, from_agent) =
                    (client.try_clone().unwrap(), agent.try_clone().unwrap());
                let asked = Arc::clone(&noted);
                std::thread::spawn(move || {
                    pass(from_client, agent, |tag, body| {
                        if tag == u8::from(Tag::Request)
                            && let Ok(Request::Scan(scan)) = protocol::decode(body)
                        {
                            asked.lock().unwrap().push(scan);
                        }
                    })
                });
                std::thread::spawn(move || {
                    pass(from_agent, client, |tag, body| {
                        if tag == u8::from(Tag::Batch) && noted.lock().unwrap().len() == spoiled {
                            let count = 60_175u64.to_le_bytes();
                            let at = body.windows(8).rposition(|bytes| bytes == count);
                            body[at.expect("a count of all rows")] += 1;
                        }
                    })
                });
            }
        });
        Self { address, scans }
    }
}

/// Passes frames on until a side closes; `change` may change a body's bytes.
fn pass(mut from: TcpStream, mut to: TcpStream, change: impl Fn(u8, &mut [u8])) {
    while let Ok(Some(header)) = Header::read(&mut from, &TAGS) {
        let mut body = vec![0; header.len];
        if from.read_exact(&mut body).is_err() {
            break;
        }
        change(header.tag, &mut body);
        if to.write_all(&frame(header.tag, &body)).is_err() {
            break;
        }
    }
    // Whoever has gone already needs no shutdown.
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_value_that_changes_in_a_timed_run_fails_the_test() {
    make_data("0.01");
    let agent = Agent::start(&[]);
    let count = |spoiled| {
        let between = Between::start(&agent.address, spoiled);
        let ran = finish(&[
            "pushdown",
            "--server",
            &between.address,
            "--sf",
            "0.01",
            "--schemes",
            "dpb",
            "--where",
            "true",
            "--aggregate",
            "count(*)",
            "--threads",
            "1",
            "--repeat",
            "2",
            "--format",
            "json",
            "--out",
            "/dev/null",
        ]);
        (ran, between.scans.lock().unwrap().len())
    };
    let (ran, scans) = count(0);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(scans >= 3, "a check and two timed runs");
    // The last scan is a timed run.
    let (ran, _) = count(scans);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("a timed run returned other values than the check"),
        "{said}"
    );
    let records = records(&ran);
    assert!(records[0].summary.is_empty(), "no number");
}

#[test]
fn duckdb_is_checked_with_the_delivery_that_is_timed() {
    // Makes DuckDB's files too, where there is a DuckDB.
    let sweep = [&SWEEP[..], &["--out", "/dev/null"]].concat();
    assert!(finish(&sweep).status.success());
    let agent = Agent::start(&[]);
    if !Client::connect(&agent.address, &[], 0).is_ok_and(|client| client.agent().duckdb.is_ok()) {
        println!("skipped: no DuckDB");
        return;
    }
    // Ours counts the rows first; without ours it takes a run that is not checked.
    for (schemes, counting) in [("duckdb-at-dpu,dpb", 0), ("duckdb-at-dpu", 1)] {
        let between = Between::start(&agent.address, 0);
        let ran = finish(
            &[
                &sweep[..],
                &["--server", &between.address, "--schemes", schemes],
            ]
            .concat(),
        );
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let rows = records(&ran)[0].check.as_ref().unwrap().compared;
        let scans = between.scans.lock().unwrap();
        let told: Vec<_> = scans
            .iter()
            .filter(|scan| scan.engine == Engine::DuckDb)
            .map(|scan| scan.rows_expected)
            .collect();
        // Then at least the check and three timed runs.
        assert!(told.len() >= counting + 4, "{schemes}: {told:?}");
        let (first, rest) = told.split_at(counting);
        assert!(first.iter().all(|told| told.is_none()), "{told:?}");
        assert!(rest.iter().all(|told| *told == Some(rows)), "{told:?}");
    }
}

#[test]
fn a_pace_that_would_put_the_agent_to_sleep_is_refused() {
    let agent = Agent::start(&[]);
    match Client::connect(&agent.address, &[], 1_000) {
        Err(ClientError::Wire { .. } | ClientError::Refused { .. }) => {}
        other => panic!("{other:?}"),
    }
    let hello = Hello {
        version: dpb_link::VERSION,
        capabilities: 0,
        link_bits_per_s: 1,
        token: Vec::new(),
    };
    let mut stream = TcpStream::connect(&agent.address).unwrap();
    stream
        .write_all(&frame(tag::HELLO, &hello.to_bytes()))
        .unwrap();
    let (refusal, words) = last_words(&mut stream).expect("the agent says why");
    assert_eq!(refusal, Refusal::Usage);
    assert!(words.contains("pace"), "{words}");
}

#[test]
fn the_agent_tells_what_threads_waited_that_have_ended() {
    make_data("0.1");
    let agent = Agent::start(&["--threads", "8"]);
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    let before = client.usage(false).unwrap().core_wait_s;
    let mut scan = everything(0.1);
    scan.threads = 8;
    client
        .scan(scan, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    // The scan's threads end before the next answer.
    let while_alive = agent.core_wait_s();
    let told = client.usage(false).unwrap().core_wait_s;
    let (Some(before), Some(while_alive), Some(told)) = (before, while_alive, told) else {
        assert_eq!((before, while_alive, told), (None, None, None));
        println!("skipped: this kernel does not count waits for a core");
        return;
    };
    assert!(told > before && told > while_alive, "{told} {while_alive}");
}

#[test]
fn a_scan_that_is_stopped_ends_early_and_the_connection_goes_on() {
    make_data("0.1");
    let agent = Agent::start(&[]);
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    let mut batches = 0;
    let stopped = client
        .scan(everything(0.1), &mut |_| {
            batches += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(batches, 1);
    assert!(stopped.end.stopped);
    assert!(stopped.end.rows < 600_572);
    assert_eq!(lineitem_rows(&mut client, 0.1), 600_572);
}

#[test]
fn readers_that_read_nothing_cost_bounded_memory_and_block_nobody() {
    make_data("0.3");
    // A tenth of the table.
    let cache: u64 = 4 << 20;
    let agent = Agent::start(&["--cache", "4MiB", "--threads", "16"]);
    let idle_threads = agent.threads();
    // 250 MB a result, twelve of them, and chunks of 1.6 MB in use by each thread: many times what the agent may hold.
    let mut hungry = everything(0.3);
    hungry.threads = 16;
    let stalled: Vec<TcpStream> = (0..12).map(|_| asks(&agent, &hungry)).collect();
    let mut peak = 0;
    let mut reader = Client::connect(&agent.address, &[], 0).unwrap();
    let mut small = everything(0.3);
    small.threads = 1;
    small.batch_rows = 1024;
    small.query.output = Output::Rows(vec![0]);
    let until = Instant::now() + Duration::from_secs(2);
    let mut scans = 0;
    while Instant::now() < until || scans == 0 {
        let mut rows = 0;
        reader
            .scan(small.clone(), &mut |batch| {
                rows += batch.num_rows();
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(rows, 1_800_093);
        scans += 1;
        peak = peak.max(agent.resident_bytes());
    }
    assert!(
        agent.threads() >= idle_threads + 10,
        "the stalled scans wait"
    );
    assert!(peak < cache + (256 << 20), "{peak} bytes");
    // They vanish, and so do their scans.
    drop(stalled);
    assert!(wait_until(Duration::from_secs(10), || agent.threads()
        <= idle_threads + 1));
    assert_eq!(lineitem_rows(&mut reader, 0.3), 1_800_093);
}

/// A connection that asks for this scan and reads nothing yet.
fn asks(agent: &Agent, scan: &ScanRequest) -> TcpStream {
    let mut stream = agent.dial();
    let scan = protocol::encode(&Request::Scan(scan.clone()));
    stream
        .write_all(&[hello(), frame(Tag::Request, &scan)].concat())
        .unwrap();
    stream
}

#[test]
fn long_patterns_cost_bounded_memory() {
    make_data("0.01");
    let cache: u64 = 64 << 20;
    let agent = Agent::start(&["--cache", "64MiB"]);
    let mut scan = everything(0.01);
    scan.query.predicate = Predicate::Like {
        column: 15,
        pattern: format!("%{}%", "ab".repeat(30_000)),
        escape: None,
    };
    let mut asked: Vec<TcpStream> = (0..63).map(|_| asks(&agent, &scan)).collect();
    let peak = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            for stream in &mut asked {
                // The welcome, then a scan's schema: its plan is made.
                for tag in [tag::WELCOME, tag::OPENED, Tag::Schema.into()] {
                    let header = Header::read(stream, &TAGS).unwrap().unwrap();
                    assert_eq!(header.tag, tag);
                    stream.read_exact(&mut vec![0; header.len]).unwrap();
                }
            }
        });
        let mut peak = 0;
        while !reading.is_finished() {
            peak = peak.max(agent.resident_bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
        peak
    });
    assert!(peak < cache + OVERHEAD_BYTES_MAX, "{peak} bytes");
}

#[test]
fn all_scans_together_have_the_threads_of_one() {
    make_data("0.3");
    let agent = Agent::start(&["--threads", "4"]);
    let idle_threads = agent.threads();
    let mut scan = everything(0.3);
    scan.threads = 4;
    let asked: Vec<TcpStream> = (0..8).map(|_| asks(&agent, &scan)).collect();
    // A connection's thread, its scan's, and four that scan beside those.
    let all = idle_threads + 2 * asked.len();
    assert!(wait_until(Duration::from_secs(10), || agent.threads() >= all));
    std::thread::sleep(Duration::from_millis(200));
    assert!(agent.threads() <= all + 4, "{} of {all}", agent.threads());
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    let mut rows = 0;
    let mut small = scan;
    small.query.output = Output::Rows(vec![0]);
    let mut count = |batch: &RecordBatch| {
        rows += batch.num_rows();
        ControlFlow::Continue(())
    };
    let scanned = client.scan(small, &mut count).unwrap();
    assert_eq!(rows, 1_800_093);
    assert_eq!(scanned.end.threads, 1, "the others have all four");
}

#[test]
fn stalled_scans_make_room_for_one_whose_client_reads() {
    make_data("0.3");
    let agent = Agent::start(&["--cache", "4MiB"]);
    let scan = everything(0.3);
    // More than find memory: some of them wait, as the next one does.
    let _stalled: Vec<TcpStream> = (0..24).map(|_| asks(&agent, &scan)).collect();
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let mut rows = 0;
    let mut count = |batch: &RecordBatch| {
        rows += batch.num_rows();
        ControlFlow::Continue(())
    };
    client.scan(scan, &mut count).unwrap();
    assert_eq!(rows, 1_800_093);
}

#[test]
fn strangers_who_say_nothing_keep_nobody_out_and_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "sixteen or more letters").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let said = folder.path().join("said");
    let mut agent = Agent::start_saying(
        &[
            "--max-connections",
            "2",
            "--token-file",
            file.to_str().unwrap(),
        ],
        std::fs::File::create(&said).unwrap(),
    );
    let (idle_threads, idle_bytes) = (agent.threads(), agent.resident_bytes());
    let mut strangers: Vec<TcpStream> = Vec::new();
    for _ in 0..20 {
        strangers.extend((0..20).map(|_| agent.dial()));
        // None of them has the agent load DuckDB, which takes memory too.
        let client = Client::connect_for(&agent.address, b"sixteen or more letters", 0, 0);
        assert!(client.is_ok(), "{client:?}");
    }
    let most = idle_threads + KNOCKING_MAX + 3;
    let is_bounded = wait_until(Duration::from_secs(5), || agent.threads() <= most);
    assert!(is_bounded, "{} threads", agent.threads());
    let bytes = agent.resident_bytes() - idle_bytes;
    let bytes_max = KNOCKING_MAX as u64 * KNOCKING_BYTES + 2 * CONNECTION_BYTES;
    assert!(bytes <= bytes_max, "{bytes} bytes more");
    let refused = Client::connect(&agent.address, b"sixteen or more lettert", 0).unwrap_err();
    assert!(refused.to_string().contains("token"), "{refused}");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("refused 127.0.0.1:"), "{said}");
    assert!(said.lines().count() < 40, "{said}");
}

/// An agent with DuckDB's file at scale factor 0.1; `None` where there is no DuckDB.
fn agent_with_duckdb(args: &[&str]) -> Option<Agent> {
    let run = ["pushdown", "--sf", "0.1", "--threads", "1", "--repeat", "1"];
    let asked = ["--schemes", "duckdb-at-dpu", "--aggregate", "count(*)"];
    let made = finish(&[&run[..], &asked, &["--quiet", "--out", "/dev/null"]].concat());
    if made.status.code() == Some(3) {
        println!("skipped: {}", text(&made.stderr));
        return None;
    }
    assert!(made.status.success(), "{}", text(&made.stderr));
    Some(Agent::start(args))
}

fn everything_by_duckdb() -> ScanRequest {
    ScanRequest {
        engine: Engine::DuckDb,
        threads: 1,
        ..everything(0.1)
    }
}

#[test]
fn readers_that_read_nothing_of_duckdbs_cost_bounded_memory_too() {
    const STALLED: usize = 50;
    let cache: u64 = 16 << 20;
    let Some(agent) = agent_with_duckdb(&["--cache", "16MiB"]) else {
        return;
    };
    // Once it has opened its database, which may bring threads of its own.
    let mut reader = Client::connect(&agent.address, &[], 0).unwrap();
    let stop = &mut |_: &RecordBatch| ControlFlow::Break(());
    reader.scan(everything_by_duckdb(), stop).unwrap();
    let idle_threads = agent.threads();
    let scan = everything_by_duckdb();
    let stalled: Vec<TcpStream> = (0..STALLED).map(|_| asks(&agent, &scan)).collect();
    // A thread for each connection; one more for those that found memory, the others wait for some.
    assert!(wait_until(Duration::from_secs(10), || {
        agent.threads() > idle_threads + STALLED
    }));
    let until = Instant::now() + Duration::from_secs(3);
    let mut peak = 0;
    while Instant::now() < until {
        peak = peak.max(agent.resident_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Their batches alone, whole, would take 800 MB.
    let duckdb = DUCKDB_BYTES_MIN + DUCKDB_BYTES_MIN / 2;
    assert!(peak < cache + OVERHEAD_BYTES_MAX + duckdb, "{peak} bytes");
    drop(stalled);
    let is_idle = wait_until(Duration::from_secs(20), || agent.threads() <= idle_threads);
    assert!(is_idle, "{} threads", agent.threads() - idle_threads);
    assert_eq!(lineitem_rows(&mut reader, 0.1), 600_572);
}

#[test]
fn a_client_that_expects_less_than_there_is_gets_no_memory_for_the_rest() {
    let Some(agent) = agent_with_duckdb(&["--cache", "16MiB"]) else {
        return;
    };
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    let mut rows = 0;
    let mut scan = |rows_expected| {
        rows = 0;
        let request = ScanRequest {
            rows_expected,
            ..everything_by_duckdb()
        };
        let scanned = client.scan(request, &mut |batch| {
            rows += batch.num_rows();
            ControlFlow::Continue(())
        });
        (scanned, rows)
    };
    let (lied, rows) = scan(Some(1));
    match lied {
        Err(ClientError::Refused {
            refusal: Refusal::Usage,
            text,
            ..
        }) => assert!(text.contains("more than the 1 rows"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!((1..600_572).contains(&rows));
    // More than a quarter of the table is streamed, whatever is expected.
    for expected in [None, Some(600_572)] {
        let (scanned, rows) = scan(expected);
        assert_eq!((scanned.unwrap().end.rows, rows), (600_572, 600_572));
    }
}

#[test]
fn a_client_that_vanishes_stops_its_scan() {
    make_data("0.1");
    let agent = Agent::start(&[]);
    let idle_threads = agent.threads();
    for wait_ms in [0, 1, 5, 20] {
        let mut stream = agent.dial();
        // A condition that nothing meets, so that there is nothing to send while it runs; and one that sends much.
        let mut scan = everything(0.1);
        if wait_ms % 2 == 0 {
            scan.query.predicate = Predicate::Like {
                column: 15,
                pattern: "%no%such%comment%".to_owned(),
                escape: None,
            };
        }
        let scan = protocol::encode(&Request::Scan(scan));
        stream
            .write_all(&[hello(), frame(Tag::Request, &scan)].concat())
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        drop(stream);
        assert!(wait_until(Duration::from_secs(5), || agent.threads() <= idle_threads));
    }
    let mut client = Client::connect(&agent.address, &[], 0).unwrap();
    assert_eq!(lineitem_rows(&mut client, 0.1), 600_572);
}

#[test]
fn too_many_connections_are_told_so() {
    let agent = Agent::start(&["--max-connections", "2"]);
    let first = Client::connect(&agent.address, &[], 0).unwrap();
    let _second = Client::connect(&agent.address, &[], 0).unwrap();
    let third = Client::connect(&agent.address, &[], 0);
    assert!(
        matches!(
            third,
            Err(ClientError::Refused {
                refusal: Refusal::Busy,
                ..
            })
        ),
        "{third:?}"
    );
    drop(first);
    assert!(wait_until(Duration::from_secs(5), || {
        Client::connect(&agent.address, &[], 0).is_ok()
    }));
}

/// Numbers that look random, the same in every run.
fn moments(count: u64, most_ms: u64) -> impl Iterator<Item = Duration> {
    (0..count).map(move |i| {
        let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        Duration::from_millis(mixed % most_ms)
    })
}

const SWEEP: [&str; 12] = [
    "pushdown",
    "--sf",
    "0.01",
    "--threads",
    "1",
    "--repeat",
    "3",
    "--format",
    "json",
    "--quiet",
    "--link-gbps",
    "1",
];

#[test]
fn a_client_killed_at_any_moment_leaves_no_agent_and_no_half_file() {
    make_data("0.01");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("records.jsonl");
    let out_text = out.to_str().unwrap();
    for after in moments(30, 400) {
        let mut client = dpb(&SWEEP)
            .args(["--out", out_text])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(after);
        let agents = children(client.id());
        client.kill().unwrap();
        client.wait().unwrap();
        assert!(
            wait_until(Duration::from_secs(5), || agents
                .iter()
                .all(|&pid| !runs(pid))),
            "agents outlive their client, killed after {after:?}"
        );
        assert!(!has_half_files(&data_dir().join("records")));
    }
    let last = finish(&[&SWEEP[..], &["--out", out_text]].concat());
    assert!(last.status.success(), "{}", text(&last.stderr));
    let reading = Reading::of_file(&out).unwrap();
    assert!(reading.records.len() >= 4);
    assert!(reading.damaged.len() <= 30);
}

#[test]
fn an_agent_killed_at_any_moment_ends_the_run_with_a_word() {
    make_data("0.01");
    // DuckDB's files too, so that all agents are started.
    assert!(
        finish(&[&SWEEP[..], &["--out", "/dev/null"]].concat())
            .status
            .success()
    );
    let mut ended_early = 0;
    for after in moments(20, 300) {
        let client = dpb(&SWEEP)
            .args(["--out", "/dev/null"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = client.id();
        wait_until(Duration::from_secs(5), || {
            !children(pid).is_empty() || !runs(pid)
        });
        std::thread::sleep(after);
        let agents = children(pid);
        if let Some(&victim) = agents.last() {
            let victim = rustix::process::Pid::from_raw(victim as i32).unwrap();
            // It may have ended by itself meanwhile.
            let _ = rustix::process::kill_process(victim, rustix::process::Signal::KILL);
        }
        let ended = client.wait_with_output().unwrap();
        let said = text(&ended.stderr);
        match ended.status.code() {
            Some(0) => {}
            Some(1 | 3) => {
                ended_early += 1;
                assert!(said.contains("agent"), "{said}");
            }
            other => panic!("{other:?}: {said}"),
        }
        assert!(wait_until(Duration::from_secs(5), || agents
            .iter()
            .all(|&pid| !runs(pid))));
    }
    assert!(ended_early > 0, "no kill hit a run");
    let last = finish(&[&SWEEP[..], &["--out", "/dev/null"]].concat());
    assert!(last.status.success(), "{}", text(&last.stderr));
}

#[test]
fn an_interrupt_leaves_complete_records_and_no_agent() {
    make_data("0.01");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("records.jsonl");
    let client = dpb(&[
        "pushdown",
        "--sf",
        "0.01",
        "--threads",
        "1",
        "--repeat",
        "100000",
    ])
    .args(["--format", "json", "--out", out.to_str().unwrap()])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let pid = client.id();
    wait_until(Duration::from_secs(10), || children(pid).len() >= 4);
    std::thread::sleep(Duration::from_millis(700));
    let agents = children(pid);
    let signalled = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(signalled, rustix::process::Signal::INT).unwrap();
    let ended = client.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(agents.iter().all(|&pid| !runs(pid)));
    let reading = Reading::of_file(&out).unwrap();
    assert!(reading.damaged.is_empty());
    assert!(!reading.records.is_empty());
}
