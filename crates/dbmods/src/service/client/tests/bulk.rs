//! Large bodies past TCP, by a stand-in in this process: rows and files are what TCP would have brought, and whatever breaks is an
//! error soon, never a wrong row and never another way without a word.

use std::net::TcpListener;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dpb_link::bulk::{Connector, Offer, Ring, Transport};
use dpb_link::testing::{Device, Fault};
use dpb_link::{LinkError, Refusal};

use super::{data, welcomed};
use crate::compare::digest::Digest;
use crate::query::{Output, Predicate, Query};
use crate::service::agent::{Agent, AgentOptions, TRANSPORTS_MAX};
use crate::service::client::{Client, ClientError};
use crate::service::protocol::{self, Engine, FileFormat, ScanRequest};
use crate::tpch;

const RING: Ring = Ring {
    pieces: 3,
    piece_bytes: 5000,
};
/// Longer than any wait here may take.
const SOON: Duration = Duration::from_secs(8);
const SF: f64 = 0.01;

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
        data: data(),
        engine: Engine::Dpb,
        query: Query {
            table: "lineitem".into(),
            predicate: Predicate::Constant(Some(true)),
            output: Output::Rows((0..16).collect()),
            limit: None,
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
    let bytes = client.fetch(&data(), "lineitem", format, u64::MAX, &mut file);
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

/// An agent without the capability is not asked.
#[test]
fn an_agent_that_knows_no_way_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let agent = thread::spawn(move || {
        let capabilities = protocol::CAPABILITY_FETCH | protocol::CAPABILITY_DUCKDB;
        let mut link = welcomed(&listener, capabilities);
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
                assert!(matches!(source, LinkError::Bulk(_)), "{fault:?}: {error}");
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
