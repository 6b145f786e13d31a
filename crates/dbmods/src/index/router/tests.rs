//! The router against a map, and under threads, moves and failures against the ledger.

mod failures;
mod gate;
mod limits;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dpb_core::random::SplitMix64;
use dpb_core::{Timer, WallClock};
use dpb_link::{Agent, AgentOptions, Connect};
use proptest::prelude::*;

use super::mover::Mover;
use super::{Receive, Router, RouterError, RouterOptions};
use crate::index::drive::{self, Driven, Load, Records};
use crate::index::router::Lane;
use crate::index::service::{IndexService, IndexServiceOptions};
use crate::index::ycsb::{KeyForm, Spec, Workload};
use crate::index::{Durability, EngineKind, Plan};

const PATIENCE: Duration = Duration::from_secs(20);

/// An agent with the service, in this process.
struct Served {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
        let service = IndexService::new(IndexServiceOptions {
            memory_bytes_max: 4 << 30,
            folder: folder.path().to_owned(),
            threads: 2,
            idle_patience: None,
            clock,
        });
        let options = AgentOptions::new("127.0.0.1:0".parse().expect("an address"));
        let agent = Agent::bind(options, vec![Arc::new(service)]).expect("a port is free");
        let address = agent.address().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || agent.run(&|| told.load(Ordering::Relaxed)));
        Self {
            address,
            stop,
            thread: Some(thread),
            _folder: folder,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn plan(engine: EngineKind, records: u64) -> Plan {
    Plan {
        engine,
        durability: Durability::None,
        records_max: records,
        key_bytes: 23,
        value_bytes: 200,
        sessions_max: 16,
    }
}

/// A router whose host has `engine`, and whose DPU's side is `served`.
fn router(
    engine: EngineKind,
    served: &Served,
    marks: Vec<Box<[u8]>>,
    mirror: bool,
    folder: &Path,
) -> Arc<Router> {
    router_to(engine, &served.address, marks, mirror, PATIENCE, folder)
}

/// The same with the DPU's side at an address, which has so long for a burst.
fn router_to(
    engine: EngineKind,
    address: &str,
    marks: Vec<Box<[u8]>>,
    mirror: bool,
    patience: Duration,
    folder: &Path,
) -> Arc<Router> {
    let host = plan(engine, 10_000)
        .make(&folder.join("host"))
        .expect("a host's index");
    let boundary = marks.len() / 2;
    let options = RouterOptions {
        dpu: Some((Connect::new(address), plan(engine, 10_000))),
        marks,
        boundary,
        value_room: 200,
        burst_requests: 8,
        depth: 3,
        connections: 2,
        patience,
        mirror,
        clock: Arc::new(WallClock::default()),
    };
    Router::new(host, options).expect("an agent")
}

/// A key and its value.
type Row = (Vec<u8>, Vec<u8>);

/// What the model's requests gave.
#[derive(Default)]
struct Seen {
    values: BTreeMap<u64, Option<Vec<u8>>>,
    written: Vec<u64>,
    rows: BTreeMap<u64, Vec<Row>>,
    scanned: Vec<u64>,
    failed: Vec<String>,
}

impl Receive for Seen {
    fn looked_up(&mut self, request: u64, value: Option<&[u8]>) {
        assert!(
            self.values
                .insert(request, value.map(<[u8]>::to_vec))
                .is_none(),
            "one answer"
        );
    }

    fn written(&mut self, request: u64) {
        self.written.push(request);
    }

    fn row(&mut self, request: u64, key: &[u8], value: &[u8]) {
        self.rows
            .entry(request)
            .or_default()
            .push((key.to_vec(), value.to_vec()));
    }

    fn scanned(&mut self, request: u64) {
        self.scanned.push(request);
    }

    fn failed(&mut self, _: u64, error: &RouterError) {
        self.failed.push(error.to_string());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u16, u8),
    Delete(u16),
    Get(u16),
    Scan(u16, u32),
    MoveTo(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..120_u16;
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        1 => key.clone().prop_map(Step::Delete),
        4 => key.clone().prop_map(Step::Get),
        2 => (key, 0..40_u32).prop_map(|(key, rows)| Step::Scan(key, rows)),
        1 => (0..=6_usize).prop_map(Step::MoveTo),
    ]
}

fn key(number: u16) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

/// One lane, step by step, with the boundary moving between them.
fn follows_a_map(engine: EngineKind, mirror: bool, steps: &[Step]) {
    let served = Served::start();
    let folder = tempfile::tempdir().expect("a folder");
    let marks = (0..6).map(|at| key(20 * at).into()).collect();
    let router = router(engine, &served, marks, mirror, folder.path());
    let mut lane = Lane::new(&router).expect("a session");
    let mut mover = Mover::new(&router).expect("a session");
    let (mut model, mut seen) = (BTreeMap::new(), Seen::default());
    for (request, step) in (0_u64..).zip(steps) {
        match *step {
            Step::Put(number, byte) => {
                let value = vec![byte; usize::from(byte)];
                let value = &value[..value.len().min(200)];
                lane.put(request, &key(number), value, &mut seen);
                model.insert(key(number), value.to_vec());
            }
            Step::Delete(number) => {
                lane.delete(request, &key(number), &mut seen);
                model.remove(&key(number));
            }
            Step::Get(number) => lane.lookup(request, &key(number), &mut seen),
            Step::Scan(number, rows) => lane.scan(request, &key(number), rows, &mut seen),
            Step::MoveTo(mark) => mover
                .move_to(mark, &|| false)
                .expect("both sides are there"),
        }
        lane.finish(&mut seen);
        assert_eq!(seen.failed, Vec::<String>::new());
        match *step {
            Step::Put(..) | Step::Delete(_) => assert_eq!(seen.written.pop(), Some(request)),
            Step::Get(number) => assert_eq!(
                seen.values.get(&request),
                Some(&model.get(&key(number)).cloned()),
                "{number}"
            ),
            Step::Scan(number, rows) => {
                let expected: Vec<_> = (model.range(key(number)..))
                    .take(rows as usize)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                assert_eq!(seen.rows.remove(&request).unwrap_or_default(), expected);
                assert_eq!(seen.scanned.pop(), Some(request));
            }
            Step::MoveTo(mark) => assert_eq!(router.boundary(), mark),
        }
    }
    // Each key lies on one side alone, or in the mirror too.
    let remote = router.dpu_usage().expect("a side").expect("it answers");
    let host = router.host().usage().expect("the host's").keys;
    match mirror {
        true => assert_eq!(host as usize, model.len()),
        false => assert_eq!((host + remote.keys) as usize, model.len()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_lane_follows_a_map(steps in prop::collection::vec(step(), 1..80), mirror: bool, lmdb: bool) {
        let engine = if lmdb { EngineKind::Lmdb } else { EngineKind::Tree };
        follows_a_map(engine, mirror, &steps);
    }
}

/// Requests of several lanes while the boundary moves to and fro; what went wrong, if anything did.
fn driven(workload: Workload, mirror: bool, requests: u64) -> (Driven, u64) {
    let served = Served::start();
    let folder = tempfile::tempdir().expect("a folder");
    let spec = Spec::new(workload, 2000, requests);
    let records = Records::new(spec, KeyForm::Ycsb, 64).expect("a spec");
    let router = router(
        EngineKind::Tree,
        &served,
        records.marks(16),
        mirror,
        folder.path(),
    );
    let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
    let stop = AtomicBool::new(false);
    let mut lane = Lane::new(&router).expect("a session");
    drive::load(&records, 0, 1, 64, &mut lane, &stop).expect("it loads");
    drop(lane);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let mut mover = Mover::new(&router).expect("a session");
            let mut random = SplitMix64::new(7);
            while !done.load(Ordering::Relaxed) {
                mover
                    .move_to(random.below(17), &|| done.load(Ordering::Relaxed))
                    .ok();
            }
            mover.moved().pieces
        });
        let lanes: Vec<_> = (0..3)
            .map(|thread| {
                let (router, records, clock, stop) = (&router, &records, &clock, &stop);
                scope.spawn(move || {
                    let mut lane = Lane::new(router).expect("a session");
                    let load = Load {
                        window: 24,
                        rate: None,
                        requests: Some(requests / 3),
                    };
                    drive::drive(records, load, 11, thread, &mut lane, clock, stop).expect("a spec")
                })
            })
            .collect();
        let mut all = Driven::default();
        for lane in lanes {
            all.add(lane.join().expect("no panic"));
        }
        done.store(true, Ordering::Relaxed);
        (all, moving.join().expect("no panic"))
    })
}

#[test]
fn nothing_is_lost_or_stale_while_the_boundary_moves() {
    for workload in [Workload::A, Workload::E, Workload::F, Workload::D] {
        for mirror in [false, true] {
            let (driven, moved) = driven(workload, mirror, 6000);
            assert_eq!(
                (driven.wrong, driven.failure),
                (None, None),
                "{workload:?}, mirror: {mirror}"
            );
            assert_eq!(driven.requests, 6000);
            assert!(moved > 0, "no piece moved under {workload:?}");
        }
    }
}
