//! A client and peers that are strangers, late, gone, or lie.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use dpb_core::WallClock;
use dpb_link::hello::{Offer, Welcome, opened_bytes};
use dpb_link::{AgentDescription, Header, Stream, tag};

use super::connection::make_printable;
use super::*;
use crate::compare::{Consumer, Kept, Scheme, SchemeError, SchemeRun, SchemeSide, Test};
use crate::ipc::Encoder;
use crate::query::{CompareOp, Literal, Output, Query, Scalar};
use crate::service::agent::{Agent, AgentOptions};
use crate::service::protocol::{Description, End, Refusal, TAGS};

/// The data set of all questions.
fn data() -> DataSet {
    DataSet::tpch(0.01).unwrap()
}

const ROWS: u64 = 60_175;

mod bulk;

fn frame(tag: Tag, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let tag = tag.into();
    [&Header { tag, len }.to_bytes(), body].concat()
}

fn description() -> Description {
    Description {
        cache_bytes: 0,
        backend: "cpu/best".into(),
        emulated_by: None,
    }
}

/// Takes a client, and shakes hands with it as an agent does that can do such.
fn welcomed(listener: &TcpListener, capabilities: u64) -> Link {
    let (stream, _) = listener.accept().unwrap();
    let clock = Arc::new(WallClock::default());
    let mut link = Link::new(Stream::Plain(stream), 0, clock).unwrap();
    let heard = |link: &mut Link| {
        let header = link.receive_header().unwrap().unwrap();
        (header.tag, link.receive_body(header).unwrap())
    };
    assert_eq!(heard(&mut link).0, tag::HELLO);
    let welcome = Welcome {
        capabilities: 0,
        agent: AgentDescription::of_this_process(),
        services: vec![Offer {
            name: protocol::SERVICE.into(),
            version: protocol::VERSION,
            description: description().to_bytes(),
        }],
    };
    link.send(tag::WELCOME, &welcome.to_bytes()).unwrap();
    assert_eq!(heard(&mut link).0, tag::OPEN);
    link.send(tag::OPENED, &opened_bytes(protocol::VERSION))
        .unwrap();
    link.set_tags(TAGS);
    let (_, asked) = heard(&mut link);
    assert!(matches!(
        protocol::decode(&asked).unwrap(),
        Request::Capabilities { .. }
    ));
    let reply = Reply::Capabilities {
        capabilities,
        duckdb: Err("none here".into()),
    };
    link.send(Tag::Reply, &protocol::encode(&reply)).unwrap();
    link
}

/// A peer that welcomes a client and answers its first request, whatever it is, with these bytes.
fn stranger(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut link = welcomed(&listener, protocol::CAPABILITY_FETCH);
        let header = link.receive_header().unwrap().unwrap();
        link.receive_body(header).unwrap();
        // The client may leave before the last of it.
        let _ = link.stream().tcp().write_all(&answer);
        // Until it leaves.
        let _ = link.receive_header();
    });
    address.to_string()
}

#[test]
fn no_more_of_a_file_is_taken_than_was_announced_and_expected() {
    let fetch = |announced, pieces: &[usize], bytes_max| {
        let reply = Reply::File { bytes: announced };
        let mut answer = frame(Tag::Reply, &protocol::encode(&reply));
        for &len in pieces {
            answer.extend(frame(Tag::File, &vec![7; len]));
        }
        let end = End {
            batches: pieces.len() as u64,
            bytes_read: announced,
            ..End::default()
        };
        answer.extend(frame(Tag::End, &protocol::encode(&end)));
        let mut client = Client::connect(&stranger(answer), &[], 0).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let fetched = client.fetch(
            &data(),
            "lineitem",
            FileFormat::Parquet,
            bytes_max,
            &mut file,
        );
        (fetched, file.metadata().unwrap().len())
    };
    let (fetched, len) = fetch(3000, &[1000, 2000], 3000);
    assert_eq!((fetched.unwrap(), len), (3000, 3000));
    for (announced, pieces, bytes_max, kept) in [
        (3000, &[1000, 2001][..], u64::MAX, 1000),
        (3000, &[1000, 2000, 1], 3000, 3000),
        (3000, &[1000], 3000, 1000),
        (3001, &[3001], 3000, 0),
    ] {
        let (fetched, len) = fetch(announced, pieces, bytes_max);
        let refused = fetched.unwrap_err();
        assert!(matches!(refused, ClientError::Wire { .. }), "{refused}");
        assert_eq!(len, kept, "{refused}");
    }
}

#[test]
fn an_interrupt_ends_the_wait_for_a_frame() {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    let half = frame(Tag::Reply, &[0; 100])[..50].to_vec();
    for answer in [vec![], half] {
        INTERRUPTED.store(false, Ordering::Relaxed);
        let mut client = Client::connect(&stranger(answer), &[], 0).unwrap();
        client.set_interrupted(|| INTERRUPTED.load(Ordering::Relaxed));
        let (tell, told) = channel();
        thread::spawn(move || tell.send(client.usage(false)));
        assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
        INTERRUPTED.store(true, Ordering::Relaxed);
        let told = told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(told, Err(ClientError::Interrupted)), "{told:?}");
    }
}

/// An agent without data, until `stop` is set.
fn agent(listen: SocketAddr, cache_bytes: u64, stop: &Arc<AtomicBool>) -> SocketAddr {
    let agent = Agent::bind(AgentOptions {
        data_dir: "/nowhere".into(),
        cache_bytes,
        idle_patience: Some(Duration::from_millis(50)),
        ..AgentOptions::new(listen)
    });
    let agent = agent.unwrap();
    let (address, stop) = (agent.address(), Arc::clone(stop));
    thread::spawn(move || agent.run(&|| stop.load(Ordering::Relaxed)));
    address
}

#[test]
fn a_connection_that_was_idle_for_too_long_is_made_anew_to_the_same_agent() {
    let stop = Arc::new(AtomicBool::new(false));
    let address = agent("127.0.0.1:0".parse().unwrap(), 0, &stop);
    let mut client = Client::connect(&address.to_string(), &[], 0).unwrap();
    let wait_for_the_end = |client: &Client| {
        let until = Instant::now() + Duration::from_secs(10);
        while !client.link.peer_gone() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(client.link.peer_gone());
    };
    let mut bytes = (0, 0);
    for _ in 0..3 {
        client.usage(false).unwrap();
        let after = client.bytes();
        assert!(after.0 > bytes.0 && after.1 > bytes.1);
        bytes = after;
        wait_for_the_end(&client);
    }
    stop.store(true, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_ok() && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    let gone = client.usage(false).unwrap_err();
    let source = match gone {
        ClientError::Wire { source, .. } => source,
        other => panic!("{other}"),
    };
    assert!(matches!(source, LinkError::Closed), "{source}");
    // Another cache: another agent.
    let stop = Arc::new(AtomicBool::new(false));
    agent(address, 1 << 20, &stop);
    let replaced = client.usage(false).unwrap_err();
    assert!(
        matches!(replaced, ClientError::Replaced { .. }),
        "{replaced}"
    );
    stop.store(true, Ordering::Relaxed);
}

/// A peer that welcomes whoever comes and then does this for each request, until the client has left.
fn hostile(act: impl Fn(&mut Link) -> Result<(), LinkError> + Send + 'static) -> String {
    answering(move |_, link| act(link))
}

fn answering(act: impl Fn(Request, &mut Link) -> Result<(), LinkError> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut link = welcomed(&listener, protocol::CAPABILITY_FETCH);
        while let Ok(Some(header)) = link.receive_header() {
            // Also a stop that came after its scan.
            let Ok(body) = link.receive_body(header) else {
                break;
            };
            if header.tag == u8::from(Tag::Request)
                && act(protocol::decode(&body).unwrap(), &mut link).is_err()
            {
                break;
            }
        }
    });
    address.to_string()
}

fn patient(address: &str) -> Client {
    Client::connect(address, &[], 0).unwrap()
}

/// A client that is soon tired of waiting, for the tests that want it to be.
fn impatient(address: &str) -> Client {
    let mut client = patient(address);
    client.set_patience(Patience {
        silence: Duration::from_millis(300),
        rows_per_s: u32::MAX,
    });
    client
}

fn scan_of(output: Output) -> ScanRequest {
    let query = Query {
        table: "lineitem".into(),
        predicate: Predicate::Constant(Some(true)),
        output,
        limit: None,
    };
    ScanRequest {
        batch_rows: 1000,
        ..ScanRequest::new(data(), &crate::tpch::schema("lineitem").unwrap(), query)
    }
}

type Question = fn(&mut Client) -> Result<(), ClientError>;

/// What a client may ask.
const QUESTIONS: [Question; 6] = [
    |client| client.describe(&data()).map(drop),
    |client| client.pick(&data(), "lineitem", 0.1).map(drop),
    |client| client.usage(true).map(drop),
    |client| client.make_cold(&data(), "lineitem", FileFormat::Segment),
    |client| scan_all(client).map(drop),
    |client| {
        let mut file = tempfile::tempfile().unwrap();
        let fetched = client.fetch(&data(), "lineitem", FileFormat::Parquet, 1 << 30, &mut file);
        fetched.map(drop)
    },
];

/// Scans two columns; says how many rows came, and how many batches.
fn scan_all(client: &mut Client) -> Result<(u64, u64, Scanned), ClientError> {
    let (mut rows, mut batches) = (0, 0);
    let scanned = client.scan(scan_of(Output::Rows(vec![0, 15])), &mut |batch| {
        rows += batch.num_rows() as u64;
        batches += 1;
        ControlFlow::Continue(())
    })?;
    Ok((rows, batches, scanned))
}

/// Those two columns.
fn batch(rows: usize, text: &str) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(vec![text; rows]));
    let query = scan_of(Output::Rows(vec![0, 15])).query;
    let schema = crate::scan::output_schema(&tpch::schema("lineitem").unwrap(), &query);
    RecordBatch::try_new(schema.unwrap(), vec![keys, texts]).unwrap()
}

/// The frames of a schema and of this batch.
fn frames(batch: &RecordBatch) -> (Vec<u8>, Vec<u8>) {
    let (mut encoder, schema) = Encoder::new(&batch.schema()).unwrap();
    let body: Vec<u8> = encoder
        .encode(batch)
        .unwrap()
        .parts
        .iter()
        .flat_map(|p| p.to_vec())
        .collect();
    (frame(Tag::Schema, &schema), frame(Tag::Batch, &body))
}

fn write(link: &Link, bytes: &[u8]) -> Result<(), LinkError> {
    Ok(link.stream().tcp().write_all(bytes)?)
}

/// Asks in a thread of its own: a client that waits for ever must not keep the test.
fn soon<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    thread::spawn(move || tell.send(ask()));
    told.recv_timeout(Duration::from_secs(30))
        .expect("an end of the wait")
}

fn is_late(error: &ClientError) -> bool {
    matches!(error, ClientError::Wire { source: LinkError::Io(io), .. } if io.kind() == io::ErrorKind::TimedOut)
}

#[test]
fn no_question_waits_for_ever_for_a_silent_or_trickling_agent() {
    let trickle = |link: &mut Link, bytes: &[u8]| {
        for byte in bytes.iter().cycle() {
            write(link, &[*byte])?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    for ask in QUESTIONS {
        let silent = hostile(|_| Ok(()));
        // The length of a body that never comes, and one that comes byte by byte.
        let announced = |tag: Tag, len| {
            let tag = tag.into();
            Header { tag, len }.to_bytes()
        };
        let empty = hostile(move |link| write(link, &announced(Tag::Reply, 1 << 20)));
        let slow = hostile(move |link| {
            write(link, &announced(Tag::Reply, 1 << 20))?;
            trickle(link, &[0])
        });
        for address in [silent, empty, slow] {
            let late = soon(move || ask(&mut impatient(&address))).unwrap_err();
            let is_wrong = matches!(
                late,
                ClientError::Wire {
                    source: LinkError::OutOfPlace(_),
                    ..
                }
            );
            // A reply is no answer to a scan.
            assert!(is_late(&late) || is_wrong, "{late}");
        }
    }
    // A scan that has begun, and a file that has.
    let (schema, one) = frames(&batch(1, "x"));
    let reply = frame(
        Tag::Reply,
        &protocol::encode(&Reply::File { bytes: 1 << 20 }),
    );
    let [scan, fetch] = [QUESTIONS[4], QUESTIONS[5]];
    let half = |of: &[u8]| of[..of.len() / 2].to_vec();
    for (ask, begin, rest) in [
        (scan, schema.clone(), vec![]),
        (scan, [schema.clone(), half(&one)].concat(), vec![]),
        (
            scan,
            [
                schema.clone(),
                Header {
                    tag: Tag::Batch.into(),
                    len: 64 << 20,
                }
                .to_bytes()
                .to_vec(),
            ]
            .concat(),
            vec![0],
        ),
        (fetch, reply.clone(), vec![]),
        (
            fetch,
            [
                reply.clone(),
                Header {
                    tag: Tag::File.into(),
                    len: 1 << 20,
                }
                .to_bytes()
                .to_vec(),
            ]
            .concat(),
            vec![0],
        ),
    ] {
        let address = hostile(move |link| {
            write(link, &begin)?;
            trickle(link, &rest)
        });
        let late = soon(move || ask(&mut impatient(&address))).unwrap_err();
        assert!(is_late(&late), "{late}");
    }
}

#[test]
fn batches_and_pieces_that_bring_nothing_come_to_an_end() {
    let (schema, none) = frames(&batch(0, ""));
    let (_, one) = frames(&batch(1, "x"));
    let (_, many) = frames(&batch(1000, "x"));
    let endless = |begin: &Vec<u8>, each: &Vec<u8>, pause_ms| {
        let (begin, each) = (begin.clone(), each.clone());
        hostile(move |link| {
            write(link, &begin)?;
            loop {
                write(link, &each)?;
                thread::sleep(Duration::from_millis(pause_ms));
            }
        })
    };
    for (address, is_disbelieved) in [
        (endless(&schema, &none, 0), false),
        // Each is valid, and earns less time than it takes.
        (endless(&schema, &one, 150), false),
        (endless(&schema, &many, 0), true),
    ] {
        let client = if is_disbelieved { patient } else { impatient };
        let error = soon(move || scan_all(&mut client(&address))).unwrap_err();
        let found = matches!(
            error,
            ClientError::Wire {
                source: LinkError::Disbelieved(_),
                ..
            }
        );
        assert_eq!(
            (found, is_late(&error)),
            (is_disbelieved, !is_disbelieved),
            "{error}"
        );
    }
    let reply = frame(
        Tag::Reply,
        &protocol::encode(&Reply::File { bytes: 1 << 20 }),
    );
    let address = endless(&reply, &frame(Tag::File, &[]), 0);
    let error = soon(move || QUESTIONS[5](&mut patient(&address))).unwrap_err();
    assert!(error.to_string().contains("empty piece"), "{error}");
}

#[test]
fn a_long_scan_that_shows_signs_of_life_is_waited_for() {
    let (schema, none) = frames(&batch(0, ""));
    let (_, three) = frames(&batch(3, "x"));
    let end = End {
        tuples_scanned: ROWS,
        rows: 3,
        batches: 6,
        ..End::default()
    };
    let end = frame(Tag::End, &protocol::encode(&end));
    let address = hostile(move |link| {
        write(link, &schema)?;
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(700));
            write(link, &none)?;
        }
        write(link, &three)?;
        write(link, &end)
    });
    let mut client = patient(&address);
    // Ten seconds of work, and signs of it for longer than silence is borne.
    client.set_patience(Patience {
        silence: Duration::from_secs(3),
        rows_per_s: 6000,
    });
    let (rows, batches, _) = soon(move || scan_all(&mut client)).unwrap();
    assert_eq!((rows, batches), (3, 1));
}

#[test]
fn an_end_that_contradicts_what_came_is_no_end() {
    let ends = |sent: u64, end: End| {
        let (schema, batch) = frames(&batch(302, "x"));
        let address = hostile(move |link| {
            write(link, &schema)?;
            (0..sent).try_for_each(|_| write(link, &batch))?;
            write(link, &frame(Tag::End, &protocol::encode(&end)))
        });
        soon(move || scan_all(&mut patient(&address)))
    };
    let right = End {
        tuples_scanned: ROWS,
        rows: 604,
        batches: 2,
        blocks_scanned: 59,
        ..End::default()
    };
    assert_eq!(ends(2, right.clone()).unwrap().0, 604);
    type Lie = fn(&mut End);
    let lies: [(u64, Lie); 9] = [
        // Dropped, doubled.
        (0, |_| {}),
        (4, |_| {}),
        (2, |end| end.rows = u64::MAX),
        (2, |end| end.batches = 1),
        (2, |end| end.tuples_scanned = u64::MAX),
        (2, |end| end.tuples_scanned = ROWS + 1),
        (2, |end| end.blocks_scanned = u64::MAX),
        (2, |end| end.blocks_skipped = u64::MAX),
        (2, |end| end.stopped = true),
    ];
    for (sent, lie) in lies {
        let mut end = right.clone();
        lie(&mut end);
        let error = ends(sent, end.clone()).unwrap_err();
        let found = matches!(
            error,
            ClientError::Wire {
                source: LinkError::Disbelieved(_),
                ..
            }
        );
        assert!(found, "{end:?}: {error}");
    }
}

#[test]
fn rows_that_nobody_asked_for_are_refused() {
    let long = "x".repeat(100_000);
    let other = RecordBatch::try_from_iter([("l_orderkey", batch(1, "").column(0).clone())]);
    for batch in [other.unwrap(), batch(1, &long)] {
        let (schema, batch) = frames(&batch);
        let address = hostile(move |link| {
            write(link, &schema)?;
            write(link, &batch)
        });
        let error = soon(move || scan_all(&mut patient(&address))).unwrap_err();
        let found = matches!(
            error,
            ClientError::Wire {
                source: LinkError::Disbelieved(_),
                ..
            }
        );
        assert!(found, "{error}");
    }
}

fn lineitem() -> TableInfo {
    TableInfo {
        data: data(),
        schema: tpch::schema("lineitem").unwrap(),
        rows: ROWS,
        segment_bytes: 1,
        duckdb_bytes: None,
        parquet_bytes: None,
    }
}

#[test]
fn a_run_whose_figures_contradict_each_other_gives_no_numbers() {
    // CPU time, and time without a core.
    let run =
        |tuples_scanned, threads, used: [(f64, f64); 3], kept| -> Result<SchemeRun, SchemeError> {
            let (schema, batch) = frames(&batch(300, "x"));
            let end = End {
                tuples_scanned,
                rows: 300,
                batches: 1,
                threads,
                ..End::default()
            };
            let rest = [schema, batch, frame(Tag::End, &protocol::encode(&end))].concat();
            let asked = AtomicUsize::new(0);
            let address = answering(move |request, link| match request {
                Request::Usage { .. } => {
                    let (cpu_s, wait_s) = used[asked.fetch_add(1, Ordering::Relaxed)];
                    let usage = Usage {
                        cpu_s,
                        core_wait_s: Some(wait_s),
                        ..Usage::default()
                    };
                    link.send(Tag::Reply, &protocol::encode(&Reply::Usage(usage)))
                }
                _ => write(link, &rest),
            });
            let test = Test {
                data: data(),
                query: scan_of(Output::Rows(vec![0, 15])).query,
                threads: 2,
                batch_rows: 1000,
                cold: false,
                rows_expected: None,
            };
            soon(move || {
                let mut side = SchemeSide::new(Scheme::Dpb, patient(&address), lineitem());
                side.run(&test, &mut Consumer::Keep(Kept::new(kept)))
            })
        };
    let same = [(1.0, 1.0); 3];
    let right = run(ROWS, 2, [(1.0, 1.0), (1.5, 1.0), (2.5, 2.0)], 1 << 20).unwrap();
    assert_eq!((right.rows, right.agent_cpu_s), (300, 1.0));
    for (tuples, used) in [
        (7, same),
        (ROWS, [same[0], same[1], (0.5, 1.0)]),
        (ROWS, [same[0], same[1], (1.0, 0.5)]),
    ] {
        let error = run(tuples, 2, used, 1 << 20).unwrap_err();
        assert!(matches!(error, SchemeError::Disbelieved(_)), "{error}");
    }
    let error = run(ROWS, 1, same, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("1 of 2 threads"), "{error}");
    let error = run(ROWS, 2, same, 1000).unwrap_err();
    assert!(matches!(error, SchemeError::TooMuchToKeep(1000)), "{error}");
}

#[test]
fn batches_that_never_end_after_a_stop_are_not_taken_for_ever() {
    let (schema, many) = frames(&batch(60_000, "x"));
    let address = hostile(move |link| {
        write(link, &schema)?;
        loop {
            write(link, &many)?;
        }
    });
    let request = scan_of(Output::Rows(vec![0, 15]));
    let stopped = soon(move || {
        let mut client = patient(&address);
        client.scan(request, &mut |_| ControlFlow::Break(()))
    });
    let error = stopped.unwrap_err();
    assert!(error.to_string().contains("out of place"), "{error}");
}

#[test]
fn what_an_agent_says_of_itself_is_checked_where_it_enters() {
    let told = |reply: Reply, ask: Question| {
        let body = protocol::encode(&reply);
        let address = hostile(move |link| link.send(Tag::Reply, &body));
        soon(move || ask(&mut patient(&address)))
    };
    let described = |lie: &dyn Fn(&mut TableInfo)| {
        let mut table = lineitem();
        lie(&mut table);
        told(Reply::Tables(vec![table]), QUESTIONS[0])
    };
    let picked = |column, selectivity| {
        let predicate = Predicate::Compare {
            op: CompareOp::LessOrEqual,
            left: Scalar::Column(column),
            right: Scalar::Literal(Literal::Number {
                unscaled: 7,
                scale: 0,
            }),
        };
        told(
            Reply::Predicate {
                predicate,
                selectivity,
            },
            QUESTIONS[1],
        )
    };
    let used = |lie: &dyn Fn(&mut Usage)| {
        let mut usage = Usage {
            core_wait_s: Some(0.5),
            ..Usage::default()
        };
        lie(&mut usage);
        told(Reply::Usage(usage), QUESTIONS[2])
    };
    described(&|_| {}).unwrap();
    picked(1, 0.1).unwrap();
    used(&|_| {}).unwrap();
    let refused = [
        described(&|table| table.rows = 0),
        described(&|table| table.rows = u64::MAX),
        described(&|table| table.rows = ROWS - 1),
        described(&|table| table.schema.columns.clear()),
        described(&|table| table.schema.columns.truncate(3)),
        described(&|table| table.schema.columns.swap(4, 5)),
        described(&|table| table.schema.table = "part".into()),
        described(&|table| table.data = DataSet::tpch(1.0).unwrap()),
        described(&|table| table.data = DataSet::given()),
        picked(99, 0.1),
        picked(15, 0.1),
        picked(1, f64::NAN),
        picked(1, -0.1),
        picked(1, 2.0),
        used(&|usage| usage.cpu_s = f64::NAN),
        used(&|usage| usage.cpu_s = -1.0),
        used(&|usage| usage.cpu_s = 1e308),
        used(&|usage| usage.core_wait_s = Some(f64::INFINITY)),
        used(&|usage| usage.peak_bytes = u64::MAX),
        used(&|usage| usage.resident_bytes = u64::MAX),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        let error = refused.expect_err(&at.to_string());
        let found = matches!(
            error,
            ClientError::Wire {
                source: LinkError::Disbelieved(_),
                ..
            }
        );
        assert!(found, "{at}: {error}");
    }
}

#[test]
fn words_of_an_agent_reach_nobody_raw() {
    let address = hostile(|link| {
        let text = "\u{1b}]0;owned\u{7}\nall is well\u{202e}".to_owned() + &"x".repeat(60_000);
        link.send(
            tag::ERROR,
            &dpb_link::refusal_bytes(Refusal::Damaged, &text),
        )
    });
    let error = soon(move || QUESTIONS[0](&mut patient(&address))).unwrap_err();
    let said = error.to_string();
    assert!(
        !said.contains(|c: char| c.is_control() || c == '\u{202e}'),
        "{said}"
    );
    assert!(said.len() < 5000 && said.contains("all is well"), "{said}");
    assert!(said.contains("dpb data --remove"), "{said}");
    let mut agent = AgentInfo::new(
        &AgentDescription::of_this_process(),
        description(),
        Ok(String::new()),
    );
    agent.host = "\u{1b}[2J".into();
    agent.duckdb = Err("\u{1b}[2J".into());
    make_printable(&mut agent);
    assert_eq!(agent.host, "\\u{1b}[2J");
    assert_eq!(agent.duckdb, Err(agent.host));
}
