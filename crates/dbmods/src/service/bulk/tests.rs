//! Large bodies past TCP, by a stand-in in this process: they are what TCP would have brought, and whatever breaks is an error
//! soon, never a wrong row and never a wait without end.

mod ring;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::compare::digest::Digest;
use crate::query::{Output, Predicate, Query};
use crate::scan::operator::OwnCores;
use crate::service::agent::{Agent, AgentOptions, TRANSPORTS_MAX};
use crate::service::bulk::{Connector, INLINE_BYTES_MAX, Offer, Ring, Transport};
use crate::service::client::{Client, ClientError};
use crate::service::link::{Interrupted, Link};
use crate::service::protocol::{
    self, AgentInfo, Engine, FileFormat, Header, Placed, Refusal, ScanRequest, Tag, Welcome,
    WireError,
};
use crate::tpch;
use dpb_core::WallClock;

use self::ring::{Device, Fault, ends};

const RING: Ring = Ring {
    pieces: 3,
    piece_bytes: 5000,
};
/// Longer than any wait here may take.
const SOON: Duration = Duration::from_secs(8);
const SF: f64 = 0.01;

/// Both ends of a connection.
fn pair() -> (Link, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    (
        Link::new(near, 0, Arc::new(WallClock::default())).unwrap(),
        Link::new(far, 0, Arc::new(WallClock::default())).unwrap(),
    )
}

/// The same with a transport between them.
fn pair_with(fault: Fault, delay: Duration) -> (Link, Link) {
    let (mut near, mut far) = pair();
    let (writer, reader) = ends(RING, fault, delay);
    near.set_writer(Box::new(writer), Arc::default());
    far.set_reader(Box::new(reader));
    (near, far)
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

fn receive(far: &mut Link) -> Result<(Tag, Vec<u8>), WireError> {
    let header = far.receive_header()?.ok_or(WireError::Closed)?;
    Ok((header.tag, far.receive_body(header)?))
}

#[test]
fn bodies_arrive_whole_whatever_their_length_and_parts() {
    let lengths = [1, 4096, 4097, 5000, 5001, 9999, 10_000, 60_000, 123_457];
    for delay in [Duration::ZERO, Duration::from_millis(3)] {
        let (mut near, mut far) = pair_with(Fault::None, delay);
        let receiver = thread::spawn(move || {
            let mut bodies = Vec::new();
            for _ in 0..2 * lengths.len() {
                bodies.push(receive(&mut far).unwrap());
            }
            (bodies, far.bytes(), far.bulk_bytes())
        });
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&body(200_000)).unwrap();
        let going = || false;
        for len in lengths {
            let whole = body(len);
            let cuts = [len / 7, len / 7, len / 3, len];
            let mut parts = vec![&whole[..cuts[0]]];
            parts.extend(cuts.windows(2).map(|cut| &whole[cut[0]..cut[1]]));
            let ended = near.send_frame(Tag::Batch, &parts, len, &going).unwrap();
            assert_eq!(ended, None);
            let ended = near.send_file_frame(&file, 7, len, &going).unwrap();
            assert_eq!(ended, None);
        }
        assert_eq!(near.settle_pieces(&going).unwrap(), None);
        let (bodies, bytes, bulk_bytes) = receiver.join().unwrap();
        for (pair, len) in bodies.chunks(2).zip(lengths) {
            assert_eq!(pair[0], (Tag::Batch, body(len)));
            assert_eq!(pair[1], (Tag::File, body(200_000)[7..7 + len].to_vec()));
        }
        // Counted alike on both sides; short ones stay on TCP.
        let large = lengths.iter().filter(|&&len| len > INLINE_BYTES_MAX);
        assert_eq!(bulk_bytes.1, 2 * large.sum::<usize>() as u64);
        assert_eq!(near.bulk_bytes().0, bulk_bytes.1);
        assert_eq!(near.bytes().0, bytes.1);
    }
}

#[test]
fn a_body_is_read_in_any_steps() {
    let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
    let sender = thread::spawn(move || {
        let whole = body(40_000);
        let sent = near.send_frame(Tag::File, &[&whole], whole.len(), &|| false);
        (sent.unwrap(), near)
    });
    let header = far.receive_header().unwrap().unwrap();
    assert_eq!((header.tag, header.len), (Tag::File, 40_000));
    let mut read = Vec::new();
    for step in [1, 4999, 5000, 7000, 3, 17_997, 5000] {
        let mut bytes = vec![0; step];
        far.receive_exact(&mut bytes).unwrap();
        read.extend(bytes);
    }
    assert_eq!(read, body(40_000));
    assert_eq!(sender.join().unwrap().0, None);
}

#[test]
fn a_client_that_gives_no_room_back_is_given_up_stopped_or_gone() {
    let (mut near, far) = pair_with(Fault::None, Duration::ZERO);
    near.set_patience(Duration::from_millis(100));
    let whole = body(20_000);
    let mut send = |stop: bool| near.send_frame(Tag::Batch, &[&whole], whole.len(), &|| stop);
    assert_eq!(send(false).unwrap(), Some(Interrupted::Stalled));
    assert_eq!(send(true).unwrap(), Some(Interrupted::Stopped));
    drop(far);
    match send(false) {
        Ok(ended) => assert_eq!(ended, Some(Interrupted::Stopped)),
        Err(error) => assert!(matches!(error, WireError::Closed | WireError::Io(_))),
    }
}

#[test]
fn room_that_nobody_took_is_not_given_back() {
    for (pieces, is_right) in [(3, false), (2, false), (1, true)] {
        let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
        let whole = body(5000);
        near.send_frame(Tag::Batch, &[&whole], 5000, &|| false)
            .unwrap();
        far.send(Tag::Credit, &protocol::credit_bytes(pieces))
            .unwrap();
        far.send(Tag::Stop, &[]).unwrap();
        let heard = near.receive_header();
        match is_right {
            true => assert_eq!(heard.unwrap().unwrap().tag, Tag::Stop),
            false => assert!(matches!(heard, Err(WireError::Malformed(_))), "{heard:?}"),
        }
    }
}

#[test]
fn frames_of_a_way_that_is_not_there_are_out_of_place() {
    let (mut near, mut far) = pair();
    far.send(Tag::Credit, &protocol::credit_bytes(1)).unwrap();
    let credit = near.receive_header();
    assert!(matches!(credit, Err(WireError::OutOfPlace(Tag::Credit))));
    let placed = Placed {
        of: Tag::Batch,
        len: 9,
    };
    near.send(Tag::Placed, &placed.to_bytes()).unwrap();
    let announced = far.receive_header();
    assert!(matches!(announced, Err(WireError::OutOfPlace(Tag::Placed))));
    // One after another.
    let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
    near.send(Tag::Placed, &placed.to_bytes()).unwrap();
    near.send(Tag::Placed, &placed.to_bytes()).unwrap();
    assert_eq!(far.receive_header().unwrap().unwrap().len, 9);
    assert!(matches!(
        far.receive_header(),
        Err(WireError::OutOfPlace(Tag::Placed))
    ));
}

#[test]
fn what_does_not_arrive_as_announced_is_an_error() {
    for (fault, says) in [
        (Fault::Lost(4), "went down"),
        (Fault::Skipped(0), "piece 1 came, not 0"),
        (Fault::Skipped(5), "piece 6 came, not 5"),
        (Fault::Short(2), "4999 bytes arrived where 5000 were due"),
    ] {
        let (mut near, mut far) = pair_with(fault, Duration::ZERO);
        let sender = thread::spawn(move || {
            let whole = body(50_000);
            // The other side breaks off.
            let _ = near.send_frame(Tag::Batch, &[&whole], whole.len(), &|| false);
            near
        });
        let began = Instant::now();
        let error = receive(&mut far).unwrap_err();
        assert!(matches!(error, WireError::Bulk(_)), "{error}");
        assert!(error.to_string().contains(says), "{fault:?}: {error}");
        assert!(began.elapsed() < SOON, "{fault:?}");
        drop(far);
        sender.join().unwrap();
    }
}

/// An agent over made data, with this device to write by.
struct Serving {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start(device: Option<Arc<Device>>) -> Self {
        static DATA: OnceLock<tempfile::TempDir> = OnceLock::new();
        let data = DATA.get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            let going = |_: tpch::Step<'_>| ControlFlow::Continue(());
            tpch::ensure(
                dir.path(),
                SF,
                &["lineitem"],
                2,
                &dpb_core::WallClock::default(),
                &going,
            )
            .unwrap();
            dir
        });
        let agent = Agent::bind(AgentOptions {
            data_dir: data.path().into(),
            cache_bytes: 64 << 20,
            threads_max: 2,
            connections_max: 32,
            bulk: match device {
                Some(device) => Ok(device),
                None => Err("there is no such device".into()),
            },
            ..AgentOptions::new("127.0.0.1:0".parse().unwrap())
        });
        let agent = agent.unwrap();
        let (address, stop) = (
            agent.address().to_string(),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = thread::spawn({
            let stop = stop.clone();
            move || agent.run(&|| stop.load(Ordering::Relaxed))
        });
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }

    fn client(&self, offers: &Arc<Device>) -> Client {
        let mut client = Client::connect(&self.address, &[], 0).unwrap();
        let transport = client.use_bulk(offers.clone()).unwrap();
        assert_eq!((transport.name(), transport.fallback()), ("memory", None));
        assert_eq!(transport.emulated_by(), Some("a stand-in"));
        client
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn everything() -> ScanRequest {
    ScanRequest {
        schema: tpch::schema("lineitem").unwrap().fingerprint(),
        data: SF.into(),
        engine: Engine::Dpb,
        query: Query {
            table: "lineitem".into(),
            predicate: Predicate::Constant(Some(true)),
            output: Output::Rows((0..16).collect()),
        },
        threads: 2,
        batch_rows: 2000,
        rows_expected: None,
        partial: false,
    }
}

/// Every row, also those of the batches that are kept until the end.
fn scan(client: &mut Client) -> Result<Digest, ClientError> {
    let mut batches = Vec::new();
    client.scan(everything(), &mut |batch| {
        batches.push(batch.clone());
        ControlFlow::Continue(())
    })?;
    Ok(Digest::of(&batches).unwrap())
}

fn fetch(client: &mut Client) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    let format = FileFormat::Segment;
    let bytes = client.fetch(SF, "lineitem", format, u64::MAX, &mut file);
    let mut read = vec![0; bytes.unwrap() as usize];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut read, 0).unwrap();
    read
}

#[test]
fn a_scan_and_a_file_are_the_same_by_either_way() {
    // As a device has it, and so small that every batch goes around several times.
    for (pieces, piece_bytes) in [(16, 256 << 10), (2, 10_000)] {
        let ring = Ring {
            pieces,
            piece_bytes,
        };
        let device = Device::new(ring, &[Fault::None]);
        let serving = Serving::start(Some(device.clone()));
        let mut by_tcp = Client::connect(&serving.address, &[], 0).unwrap();
        let mut by_ring = serving.client(&device);
        let (expected, file) = (scan(&mut by_tcp).unwrap(), fetch(&mut by_tcp));
        assert_eq!(expected.rows, 60_175);
        for _ in 0..3 {
            assert_eq!(scan(&mut by_ring).unwrap(), expected);
            assert!(fetch(&mut by_ring) == file);
        }
        assert_eq!(by_tcp.transport(), &Transport::Tcp { fallback: None });
        assert_eq!(by_tcp.bulk_bytes(), 0);
        let (total, bulk) = (by_ring.bytes().1, by_ring.bulk_bytes());
        assert!(
            bulk > 3 * file.len() as u64 && bulk < total,
            "{bulk} of {total}"
        );
        // But for what announces it, as much as over TCP.
        assert!(total < 3 * by_tcp.bytes().1 + (64 << 10));
    }
}

#[test]
fn a_scan_that_is_stopped_leaves_a_way_that_works() {
    let device = Device::new(RING, &[Fault::None]);
    let serving = Serving::start(Some(device.clone()));
    let mut client = serving.client(&device);
    let whole = scan(&mut client).unwrap();
    for stop_after in [1, 2, 5] {
        let mut seen = 0;
        let scanned = client.scan(everything(), &mut |_| {
            seen += 1;
            match seen == stop_after {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let end = scanned.unwrap().end;
        assert!(end.stopped && end.rows < whole.rows);
        assert_eq!(scan(&mut client).unwrap(), whole);
    }
}

#[test]
fn whoever_cannot_have_a_way_stays_on_tcp_and_knows_why() {
    let device = Device::new(RING, &[Fault::None]);
    let serving = Serving::start(Some(device.clone()));
    let expected = scan(&mut Client::connect(&serving.address, &[], 0).unwrap()).unwrap();
    let without = Serving::start(None);
    // On its own the agent has nothing to do with rings that nobody offered it.
    #[derive(Debug)]
    struct Foreign;
    impl Connector for Foreign {
        fn offer(&self) -> Result<(Vec<u8>, Box<dyn Offer>), String> {
            Device::new(RING, &[Fault::None])
                .offer()
                .map(|(_, offer)| (vec![9; 3], offer))
        }
    }
    let refusing = Device::new(RING, &[Fault::None]);
    *refusing.refuses.lock().unwrap() = Some("on second thoughts".into());
    let serving_it = Serving::start(Some(refusing.clone()));
    let cases: [(&Serving, Arc<dyn Connector>, u64, &str); 4] = [
        (
            &without,
            device.clone(),
            0,
            "at the agent: there is no such device",
        ),
        (
            &serving,
            Arc::new(Foreign),
            0,
            "at the agent: no offer of ours",
        ),
        (&serving_it, refusing, 0, "on second thoughts"),
        (&serving, device, 20_000_000_000, "pace"),
    ];
    for (serving, offers, pace, says) in cases {
        let mut client = Client::connect(&serving.address, &[], pace).unwrap();
        let transport = client.use_bulk(offers).unwrap().clone();
        assert_eq!(transport.name(), "tcp");
        let reason = transport.fallback().unwrap();
        assert!(reason.contains(says), "{reason}");
        assert_eq!(scan(&mut client).unwrap(), expected);
        assert_eq!((client.bulk_bytes(), client.transport()), (0, &transport));
    }
}

/// An agent as it was before: it says so in its welcome, and is not asked.
#[test]
fn an_agent_that_knows_no_way_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let agent = thread::spawn(move || {
        let mut link = Link::new(
            listener.accept().unwrap().0,
            0,
            Arc::new(WallClock::default()),
        )
        .unwrap();
        assert_eq!(receive(&mut link).unwrap().0, Tag::Hello);
        let welcome = Welcome {
            capabilities: protocol::CAPABILITY_FETCH | protocol::CAPABILITY_DUCKDB,
            agent: AgentInfo::of_this_process(0, &OwnCores::default()),
        };
        link.send(Tag::Welcome, &welcome.to_bytes()).unwrap();
        link.receive_header().unwrap()
    });
    let mut client = Client::connect(&address, &[], 0).unwrap();
    let transport = client.use_bulk(Device::new(RING, &[Fault::None])).unwrap();
    let reason = transport.fallback().unwrap();
    assert!(reason.contains("install"), "{reason}");
    drop(client);
    assert_eq!(agent.join().unwrap(), None);
}

#[test]
fn a_way_that_breaks_ends_the_scan_soon_and_does_not_become_tcp() {
    for fault in [
        Fault::Breaks(0),
        Fault::Breaks(30),
        Fault::Lost(20),
        Fault::Unanswered(10),
        Fault::Skipped(7),
        Fault::Short(12),
    ] {
        // What comes behind is sound again.
        let device = Device::new(RING, &[fault, Fault::None]);
        let serving = Serving::start(Some(device.clone()));
        let mut client = serving.client(&device);
        let began = Instant::now();
        let error = scan(&mut client).unwrap_err();
        assert!(began.elapsed() < SOON, "{fault:?}: {error}");
        match &error {
            ClientError::Wire { source, .. } => {
                assert!(matches!(source, WireError::Bulk(_)), "{fault:?}: {error}");
            }
            // The agent found it first.
            ClientError::Refused { refusal, .. } => assert_eq!(*refusal, Refusal::Internal),
            other => panic!("{fault:?}: {other}"),
        }
        let is_agents = matches!(fault, Fault::Breaks(_) | Fault::Unanswered(_));
        let is_refusal = matches!(error, ClientError::Refused { .. });
        assert_eq!(is_agents, is_refusal, "{fault:?}: {error}");
        assert_eq!(scan(&mut client).unwrap().rows, 60_175);
        assert_eq!(client.transport().name(), "memory");
        assert!(client.bulk_bytes() > 5_000_000);
    }
    // Nor on a new connection.
    let device = Device::new(RING, &[Fault::Breaks(3), Fault::None]);
    let serving = Serving::start(Some(device.clone()));
    let mut client = serving.client(&device);
    scan(&mut client).unwrap_err();
    *device.refuses.lock().unwrap() = Some("it is gone".into());
    for _ in 0..2 {
        let error = scan(&mut client).unwrap_err().to_string();
        assert!(error.contains("it is gone"), "{error}");
    }
    *device.refuses.lock().unwrap() = None;
    assert_eq!(scan(&mut client).unwrap().rows, 60_175);
}

#[test]
fn an_agent_that_ends_ends_the_wait_for_a_piece() {
    let (mut near, mut far) = pair_with(Fault::Unanswered(1), Duration::ZERO);
    let whole = body(9000);
    near.send_frame(Tag::Batch, &[&whole], 9000, &|| false)
        .unwrap();
    let last = protocol::refusal_bytes(Refusal::Unavailable, "the agent is ending");
    near.send(Tag::Error, &last).unwrap();
    drop(near);
    let began = Instant::now();
    let error = receive(&mut far).unwrap_err();
    assert!(matches!(error, WireError::Refused { .. }), "{error}");
    assert!(began.elapsed() < SOON);
}

#[test]
fn ways_are_as_many_as_the_agent_has_memory_for() {
    let device = Device::new(RING, &[Fault::None]);
    let serving = Serving::start(Some(device.clone()));
    let mut clients: Vec<Client> = (0..TRANSPORTS_MAX)
        .map(|_| serving.client(&device))
        .collect();
    let told = |serving: &Serving| {
        let mut client = Client::connect(&serving.address, &[], 0).unwrap();
        client
            .use_bulk(device.clone())
            .unwrap()
            .fallback()
            .map(str::to_owned)
    };
    let reason = told(&serving).expect("there is none left");
    assert!(reason.contains("taken"), "{reason}");
    clients.pop();
    let until = Instant::now() + SOON;
    while told(&serving).is_some() {
        assert!(Instant::now() < until, "none was given back");
        thread::sleep(Duration::from_millis(10));
    }
    for client in &mut clients {
        assert_eq!(scan(client).unwrap().rows, 60_175);
    }
}

/// Of a body that is announced there is no header to be forged: lengths keep their tags' bounds.
#[test]
fn a_placed_body_keeps_its_bound() {
    let (mut near, mut far) = pair_with(Fault::None, Duration::ZERO);
    let mut placed = Placed {
        of: Tag::File,
        len: 1,
    }
    .to_bytes();
    placed[7] = 1;
    near.send(Tag::Placed, &placed).unwrap();
    assert!(matches!(
        far.receive_header(),
        Err(WireError::TooLong { tag: Tag::File, .. })
    ));
    assert!(Header::checked(Tag::Placed, 9).is_err());
}
