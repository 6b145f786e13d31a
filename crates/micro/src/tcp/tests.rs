//! Both ends in one process, over loopback; what lies between them spoils, stalls and lies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::protocol::{Hello, Machine, Open, Tag, VERSION, Welcome};
use super::*;

/// Long enough for a busy machine; what waits for silence says less.
const PATIENT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);
const TOKEN: &[u8] = b"a token of tests, long enough";

/// What all servers of this process said.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn has_said(words: &[&str]) -> bool {
    let is_said = || {
        let said = SAID.lock().expect("no panic");
        said.iter()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    // It says it when it has ended the connection.
    (0..400).any(|_| {
        is_said() || {
            thread::sleep(Duration::from_millis(10));
            false
        }
    })
}

struct Serving {
    target: Target,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start(patience: Duration) -> Self {
        let options = ServerOptions {
            listen: "127.0.0.1:0".parse().expect("an address"),
            token: Some(TOKEN.to_vec()),
            machine: Machine {
                host: "here".into(),
                ..Machine::default()
            },
            pin: Vec::new(),
            patience,
            say: |line| SAID.lock().expect("no panic").push(line.to_owned()),
        };
        let server = Server::bind(options).expect("loopback");
        let target = Target {
            addresses: vec![server.address()],
            token: Some(TOKEN.to_vec()),
            patience,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::spawn(move || server.run(&|| seen.load(Ordering::Relaxed)));
        Self {
            target,
            stop,
            thread: Some(thread),
        }
    }

    fn measure(&self, plan: &Plan) -> Result<Measured, Failure> {
        measure(&self.target, plan, &AtomicBool::new(false))
    }

    fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.target.addresses[0]).expect("it listens");
        stream.set_read_timeout(Some(PATIENT)).expect("a socket");
        stream
    }

    /// Whether it serves, perhaps when the session before has ended.
    fn serves(&self) -> bool {
        let plan = plan();
        (0..200).any(|_| match self.measure(&plan) {
            Ok(measured) => measured.runs.len() == 2,
            Err(Failure::Unreachable(_)) => {
                thread::sleep(Duration::from_millis(20));
                false
            }
            Err(failure) => panic!("{failure}"),
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("once").join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

fn plan() -> Plan {
    Plan {
        size_bytes: 64,
        depth: 1,
        connections: 1,
        direction: Direction::Echo,
        engine: Engine::Sockets,
        load: Load::Closed,
        nodelay: true,
        buffer_bytes: None,
        run: Duration::from_millis(20),
        warm_up: Duration::from_millis(5),
        repeat: 2,
        pin: Vec::new(),
        seed: 3,
    }
}

fn engines() -> Vec<Engine> {
    match usable(Engine::IoUring) {
        Ok(()) => vec![Engine::Sockets, Engine::IoUring],
        Err(why) => {
            println!("skipped: {why}");
            vec![Engine::Sockets]
        }
    }
}

fn frame(tag: Tag, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![tag as u8, 0, 0, 0];
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    frame
}

fn hello() -> Vec<u8> {
    let hello = Hello {
        version: VERSION,
        token: TOKEN.to_vec(),
    };
    frame(Tag::Hello, &hello.to_bytes())
}

/// All that a peer sends until it closes.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn messages_cross_whole_in_all_ways() {
    let serving = Serving::start(PATIENT);
    for engine in engines() {
        for direction in [Direction::Echo, Direction::Send, Direction::Receive] {
            for (size_bytes, depth, connections) in [
                (8, 1, 1),
                (9, 16, 1),
                (64, 1, 3),
                (1500, 7, 2),
                (100_000, 3, 2),
                (3 << 20, 4, 1),
            ] {
                let plan = Plan {
                    size_bytes,
                    depth,
                    connections,
                    direction,
                    engine,
                    ..plan()
                };
                let measured = serving.measure(&plan);
                let measured = measured.unwrap_or_else(|failure| panic!("{plan:?}: {failure}"));
                assert_eq!((measured.runs.len(), measured.interrupted), (2, false));
                assert_eq!(measured.server.host, "here");
                assert_eq!(measured.link, Link::Loopback);
                for run in &measured.runs {
                    let bytes = run.messages * size_bytes;
                    assert!(run.messages > 0, "{plan:?}");
                    let sent = if direction == Direction::Receive {
                        0
                    } else {
                        bytes
                    };
                    let received = if direction == Direction::Send {
                        0
                    } else {
                        bytes
                    };
                    assert_eq!((run.sent_bytes, run.received_bytes), (sent, received));
                    let timed = if direction == Direction::Echo {
                        run.messages
                    } else {
                        0
                    };
                    assert_eq!(run.latencies.count(), timed, "{plan:?}");
                    assert!(run.client_cpu_ns > 0 && run.server_cpu_ns > 0, "{plan:?}");
                    assert!(run.retransmissions.is_some());
                }
            }
        }
    }
}

#[test]
fn small_buffers_and_long_messages_do_not_wait_for_each_other() {
    let serving = Serving::start(PATIENT);
    for engine in engines() {
        let plan = Plan {
            size_bytes: 3 << 20,
            depth: 4,
            buffer_bytes: Some(128 << 10),
            nodelay: false,
            engine,
            ..plan()
        };
        assert_eq!(
            serving.measure(&plan).map(|measured| measured.runs.len()),
            Ok(2)
        );
    }
}

#[test]
fn an_open_loop_counts_from_the_schedule() {
    let serving = Serving::start(PATIENT);
    for engine in engines() {
        let plan = Plan {
            depth: 4,
            connections: 2,
            load: Load::Open {
                messages_per_s: 4000.0,
            },
            run: Duration::from_millis(250),
            engine,
            ..plan()
        };
        let measured = serving.measure(&plan).expect("measured");
        for run in &measured.runs {
            // 1000 arrivals, give or take five standard deviations; each is served or said to be unserved.
            let arrivals = run.messages + run.unserved;
            assert!((840..=1160).contains(&arrivals), "{arrivals}");
            assert_eq!(run.latencies.count(), arrivals);
            assert_eq!(run.delays.count(), run.messages);
        }
        // More than loopback can do with one message at a time: the queue grows, and the latencies say so.
        let flooded = Plan {
            depth: 1,
            load: Load::Open {
                messages_per_s: 1e7,
            },
            ..plan
        };
        let measured = serving.measure(&flooded).expect("measured");
        let run = &measured.runs[0];
        assert!(
            run.unserved > run.messages,
            "{} of {}",
            run.unserved,
            run.messages
        );
        assert!(run.latencies.percentile_ns(0.5) > 10_000_000);
    }
}

#[test]
fn whoever_wants_the_work_to_end_gets_what_is_done() {
    let serving = Serving::start(PATIENT);
    for direction in [Direction::Echo, Direction::Send, Direction::Receive] {
        let plan = Plan {
            direction,
            run: Duration::from_secs(600),
            ..plan()
        };
        let stop = AtomicBool::new(false);
        let measured = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(100));
                stop.store(true, Ordering::Relaxed);
            });
            measure(&serving.target, &plan, &stop)
        });
        let measured = measured.expect("no failure");
        assert!(measured.interrupted && measured.runs.is_empty());
    }
    assert!(serving.serves());
}

/// What stands between client and server and changes what passes: the bytes behind a data connection's join, and where in the stream they are.
type Spoil = fn(&mut Vec<u8>, u64);

/// A proxy before `server`; `up` and `down` see the data connections alone.
fn between(server: &Target, up: Spoil, down: Spoil) -> Target {
    const JOIN_BYTES: u64 = 8 + 28;
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let target = Target {
        addresses: vec![listener.local_addr().expect("bound")],
        ..server.clone()
    };
    let address = server.addresses[0];
    // The threads end with their connections, and the listener with the tests.
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection");
            let server = TcpStream::connect(address).expect("it listens");
            let copy = |mut from: TcpStream, mut to: TcpStream, spoil: Spoil, is_up: bool| {
                thread::spawn(move || {
                    let (mut bytes, mut at, mut is_data) = (vec![0; 16 << 10], 0u64, !is_up);
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        if at == 0 && is_up {
                            is_data = bytes[0] == Tag::Join as u8;
                        }
                        let mut passed = bytes[..read].to_vec();
                        let head = if is_up { JOIN_BYTES } else { 0 };
                        if is_data && at >= head {
                            spoil(&mut passed, at - head);
                        }
                        at += read as u64;
                        if to.write_all(&passed).is_err() {
                            break;
                        }
                    }
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            };
            let (again, back) = (
                client.try_clone().expect("a socket"),
                server.try_clone().expect("a socket"),
            );
            copy(client, server, up, true);
            copy(back, again, down, false);
        }
    });
    target
}

/// Turns one bit, far behind what frames of the control connection have.
#[allow(clippy::ptr_arg, reason = "a `Spoil` as the others")]
fn spoil(bytes: &mut Vec<u8>, at: u64) {
    const PLACE: u64 = 20_011;
    if (at..at + bytes.len() as u64).contains(&PLACE) {
        bytes[(PLACE - at) as usize] ^= 4;
    }
}

/// Loses a byte there.
fn lose(bytes: &mut Vec<u8>, at: u64) {
    const PLACE: u64 = 20_011;
    if (at..at + bytes.len() as u64).contains(&PLACE) {
        bytes.remove((PLACE - at) as usize);
    }
}

/// From there on nothing passes.
fn stall(bytes: &mut Vec<u8>, at: u64) {
    if at > 20_000 {
        bytes.clear();
    }
}

fn pass(_: &mut Vec<u8>, _: u64) {}

#[test]
fn a_byte_that_changes_on_the_way_leaves_no_figure() {
    let serving = Serving::start(PATIENT);
    let corrupt: [(Direction, Spoil, Spoil); 4] = [
        (Direction::Echo, spoil, pass),
        (Direction::Echo, pass, spoil),
        (Direction::Send, spoil, pass),
        (Direction::Receive, pass, spoil),
    ];
    for (direction, up, down) in corrupt {
        let target = between(&serving.target, up, down);
        for (engine, size_bytes) in engines().into_iter().zip([1000, 64]) {
            let plan = Plan {
                direction,
                engine,
                size_bytes,
                depth: 4,
                run: Duration::from_millis(200),
                ..plan()
            };
            let failed = measure(&target, &plan, &AtomicBool::new(false));
            let failed = failed.map(|measured| measured.runs.len());
            assert!(
                matches!(failed, Err(Failure::Wrong(_))),
                "{direction:?}, {engine:?}: {failed:?}"
            );
        }
    }
    assert!(serving.serves());
}

#[test]
fn a_byte_that_is_lost_or_a_link_that_stalls_ends_the_test() {
    let serving = Serving::start(Duration::from_secs(1));
    for direction in [Direction::Echo, Direction::Send, Direction::Receive] {
        for (up, down) in [
            (lose as Spoil, lose as Spoil),
            (stall, stall),
            (pass, stall),
        ] {
            let target = between(&serving.target, up, down);
            let plan = Plan {
                direction,
                size_bytes: 1000,
                run: Duration::from_millis(100),
                ..plan()
            };
            let failed = measure(&target, &plan, &AtomicBool::new(false))
                .map(|measured| measured.runs.len());
            // One way to the server nothing comes down but what the control connection carries.
            let is_untouched =
                direction == Direction::Send && std::ptr::fn_addr_eq(up, pass as Spoil);
            let is_failure = matches!(failed, Err(Failure::Wrong(_) | Failure::Broken(_)));
            assert!(
                is_failure || is_untouched && failed == Ok(2),
                "{direction:?}: {failed:?}"
            );
        }
    }
    assert!(serving.serves());
}

#[test]
fn a_client_with_another_token_or_version_is_refused_and_told_why() {
    let serving = Serving::start(PATIENT);
    for token in [None, Some(b"another token of tests, as long".to_vec())] {
        let target = Target {
            token,
            ..serving.target.clone()
        };
        let failure = measure(&target, &plan(), &AtomicBool::new(false)).map(drop);
        let Err(Failure::Unreachable(why)) = failure else {
            panic!("{failure:?}")
        };
        assert!(why.contains("--token-file"), "{why}");
    }
    let mut old = serving.dial();
    let hello = Hello {
        version: VERSION + 1,
        token: TOKEN.to_vec(),
    };
    old.write_all(&frame(Tag::Hello, &hello.to_bytes()))
        .expect("it reads");
    let port = old.local_addr().expect("bound").port().to_string();
    let told = String::from_utf8_lossy(&rest(old)).into_owned();
    assert!(told.contains("version 2"), "{told}");
    assert!(has_said(&[&port, "version 2"]));
    assert!(serving.serves());
}

#[test]
fn clients_come_one_after_the_other() {
    let serving = Serving::start(PATIENT);
    let mut first = serving.dial();
    first.write_all(&hello()).expect("it reads");
    let mut header = [0; 8];
    first.read_exact(&mut header).expect("a welcome");
    assert_eq!(header[0], Tag::Welcome as u8);
    let failure = serving.measure(&plan()).map(drop);
    let Err(Failure::Unreachable(why)) = failure else {
        panic!("{failure:?}")
    };
    let address = first.local_addr().expect("bound").to_string();
    assert!(why.contains(&address), "{why}");
    drop(first);
    assert!(serving.serves());
}

#[test]
fn strangers_hold_nobody_up() {
    let serving = Serving::start(SHORT);
    // Silent ones, at the door and in a session.
    let silent = serving.dial();
    let mut inside = serving.dial();
    inside.write_all(&hello()).expect("it reads");
    assert!(rest(silent).is_empty());
    let told = rest(inside);
    assert!(String::from_utf8_lossy(&told).contains("no answer within"));
    // One that trickles: each byte comes in time, the frame never.
    let mut trickling = serving.dial();
    let port = trickling.local_addr().expect("bound").port().to_string();
    for byte in hello() {
        if trickling.write_all(&[byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(has_said(&[&port, "no answer within"]));
    // Words of another protocol, a length that nobody has memory for, and a join to no session.
    let mut long = frame(Tag::Hello, &[]);
    long[4..].copy_from_slice(&u32::MAX.to_le_bytes());
    let join = protocol::Join {
        session: [0; 16],
        connection: 0,
    };
    for (bytes, says) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "does not speak"),
        (long, "4294967295"),
        (frame(Tag::Join, &join.to_bytes()), "no session"),
        (frame(Tag::Phase, &[0; 8]), "Phase first"),
    ] {
        let mut stranger = serving.dial();
        stranger.write_all(&bytes).expect("it reads");
        let port = stranger.local_addr().expect("bound").port().to_string();
        rest(stranger);
        assert!(has_said(&[&port, says]), "{says}");
    }
    // Tests that nobody can carry out.
    for (size_bytes, depth, connections) in [
        (u64::MAX, 1, 1),
        (64, u64::MAX, 1),
        (64, 1, 1 << 40),
        (16 << 20, 60_000, 256),
    ] {
        let plan = Plan {
            size_bytes,
            depth,
            connections,
            ..plan()
        };
        let mut greedy = serving.dial();
        greedy.write_all(&hello()).expect("it reads");
        let open = Open::of(&plan);
        greedy
            .write_all(&frame(Tag::Open, &open.to_bytes()))
            .expect("it reads");
        let told = rest(greedy);
        assert!(
            told.windows(10).any(|at| at[0] == Tag::Refused as u8),
            "{plan:?}"
        );
    }
    // One that announces connections and opens none.
    let mut alone = serving.dial();
    alone.write_all(&hello()).expect("it reads");
    alone
        .write_all(&frame(Tag::Open, &Open::of(&plan()).to_bytes()))
        .expect("it reads");
    assert!(String::from_utf8_lossy(&rest(alone)).contains("no answer within"));
    let patient = Target {
        patience: PATIENT,
        ..serving.target.clone()
    };
    let measured = measure(&patient, &plan(), &AtomicBool::new(false));
    assert_eq!(measured.map(|measured| measured.runs.len()), Ok(2));
}

/// A server that says `words` to the first that comes, and then nothing.
fn liar(words: Vec<u8>) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let addresses = vec![listener.local_addr().expect("bound")];
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let _ = client.write_all(&words);
        rest(client);
    });
    Target {
        addresses,
        token: None,
        patience: SHORT,
    }
}

#[test]
fn a_server_that_is_none_cannot_hold_its_client() {
    let welcome = Welcome {
        session: [1; 16],
        machine: Machine::default(),
    };
    let mut long = frame(Tag::Welcome, &[]);
    long[4..].copy_from_slice(&(1u32 << 30).to_le_bytes());
    let mut other = welcome.to_bytes();
    other[4] = 9;
    for (words, says) in [
        (Vec::new(), "no answer within"),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "does not speak"),
        (long, "1073741824"),
        (frame(Tag::Welcome, &other), "version 9"),
        (frame(Tag::Welcome, &welcome.to_bytes()), "no answer within"),
        (frame(Tag::Refused, &[77]), "a refusal that is none"),
    ] {
        let failure = measure(&liar(words), &plan(), &AtomicBool::new(false)).map(drop);
        let Err(Failure::Broken(why)) = &failure else {
            panic!("{says}: {failure:?}")
        };
        assert!(why.contains(says), "{why}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let target = Target {
        addresses: vec![nobody.expect("loopback")],
        token: None,
        patience: SHORT,
    };
    let failure = measure(&target, &plan(), &AtomicBool::new(false)).map(drop);
    assert!(
        matches!(&failure, Err(Failure::Unreachable(why)) if why.contains("--serve")),
        "{failure:?}"
    );
}

#[test]
fn a_server_that_others_can_reach_needs_a_token() {
    let options = |listen: &str, token: Option<&[u8]>| ServerOptions {
        listen: listen.parse().expect("an address"),
        token: token.map(<[u8]>::to_vec),
        machine: Machine::default(),
        pin: Vec::new(),
        patience: SHORT,
        say: |_| {},
    };
    let bind = |listen, token| Server::bind(options(listen, token)).map(drop);
    assert!(matches!(
        bind("0.0.0.0:0", None),
        Err(BindError::NoToken(_))
    ));
    assert!(matches!(
        bind("127.0.0.1:0", Some(b"short")),
        Err(BindError::Token(5))
    ));
    assert!(bind("127.0.0.1:0", None).is_ok());
}

#[test]
fn plans_that_make_no_sense_say_why() {
    let of = |change: fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        plan.check().unwrap_err()
    };
    assert!(of(|plan| plan.size_bytes = 7).contains("7 bytes"));
    assert!(of(|plan| plan.depth = 0).contains("depth"));
    assert!(of(|plan| plan.connections = 1000).contains("1000 connections"));
    assert!(of(|plan| (plan.size_bytes, plan.depth) = (16 << 20, 1000)).contains("lower"));
    assert!(of(|plan| plan.run = Duration::from_secs(4000)).contains("hour"));
    let open = of(|plan| {
        plan.direction = Direction::Send;
        plan.load = Load::Open {
            messages_per_s: 1.0,
        };
    });
    assert!(open.contains("--direction echo"));
    assert_eq!(plan().check(), Ok(()));
}
