//! The DPU's side dies, hangs and comes back at random moments: what it had fails with an error or is the host's, and no value is ever wrong.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use dpb_core::random::SplitMix64;
use dpb_core::{Timer, WallClock};

use super::super::mover::Mover;
use super::gate::Gate;
use super::{Served, router_to};
use crate::index::EngineKind;
use crate::index::drive::{self, Driven, Load, Records};
use crate::index::router::{Lane, Router};
use crate::index::ycsb::{KeyForm, Spec, Workload};

/// Moments that are tried; `DPB_INDEX_MOMENTS` asks for others.
const MOMENTS: u64 = 9;
const RECORDS: u64 = 400;
const REQUESTS: u64 = 3000;
const PIECES: usize = 8;
const LANES: u32 = 2;

/// What becomes of the DPU's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its connections end.
    Dies,
    /// It says nothing more.
    Hangs,
    /// It dies, and another one comes to its place.
    ComesBack,
}

/// Lanes that each make a share of the requests.
fn drive_all(
    router: &Arc<Router>,
    records: &Records,
    seed: u64,
    beside: impl FnOnce() + Send,
) -> Driven {
    let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|thread| {
                let (clock, stop) = (&clock, &stop);
                scope.spawn(move || {
                    let mut lane = Lane::new(router).expect("a session");
                    let load = Load {
                        window: 16,
                        rate: None,
                        requests: Some(REQUESTS / u64::from(LANES)),
                    };
                    drive::drive(records, load, seed, thread, &mut lane, clock, stop)
                        .expect("a spec")
                })
            })
            .collect();
        beside();
        let mut all = Driven::default();
        lanes
            .into_iter()
            .for_each(|lane| all.add(lane.join().expect("no panic")));
        all
    })
}

/// One moment of one fate.
fn at_a_moment(seed: u64, fate: Fate, mirror: bool) {
    let context = format!("seed {seed}, {fate:?}, mirror: {mirror}");
    let mut random = SplitMix64::new(seed);
    let served = Served::start();
    let gate = Gate::before(&served.address);
    let workload = [Workload::A, Workload::E, Workload::F][random.below(3)];
    let records = Records::new(
        Spec::new(workload, RECORDS, 4 * REQUESTS),
        KeyForm::Ycsb,
        64,
    )
    .expect("a spec");
    let folder = tempfile::tempdir().expect("a folder");
    let patience = Duration::from_millis(400);
    let router = router_to(
        EngineKind::Tree,
        &gate.address,
        records.marks(PIECES),
        mirror,
        patience,
        folder.path(),
    );
    let mut lane = Lane::new(&router).expect("a session");
    drive::load(&records, 0, 1, 64, &mut lane, &AtomicBool::new(false)).expect("it loads");
    drop(lane);
    let moment = Duration::from_micros(random.below(30_000) as u64);
    let back = Served::start();
    let all = drive_all(&router, &records, seed, || {
        thread::sleep(moment);
        match fate {
            Fate::Dies => gate.cut(),
            Fate::Hangs => gate.hang(),
            Fate::ComesBack => {
                gate.lead_to(&back.address);
                // A lane notices it, or nobody has asked the DPU's side since.
                let mut mover = Mover::new(&router).expect("a session");
                let _ = mover.come_back(PIECES / 2, &|| false);
            }
        }
    });
    assert_eq!(all.wrong, None, "{context}");
    // Requests after the failure: the host's range goes on, whatever became of the other.
    let after = drive_all(&router, &records, seed + 1, || {});
    assert_eq!(after.wrong, None, "{context}");
    assert!(after.requests > 0, "{context}: the host's range stopped");
    let was_noticed = router.failures() > 0;
    match (mirror, was_noticed) {
        (true, _) | (_, false) => assert_eq!(
            (all.failure, after.failure, after.failed),
            (None, None, 0),
            "{context}"
        ),
        (false, true) => {
            let why = after
                .failure
                .expect("requests for a range that is lost fail");
            assert!(
                why.starts_with("the DPU's side is gone"),
                "{context}: {why}"
            );
            assert!(after.failed > 0, "{context}");
        }
    }
    if fate == Fate::ComesBack && mirror && was_noticed {
        let mut mover = Mover::new(&router).expect("a session");
        mover
            .come_back(PIECES / 2, &|| false)
            .expect("it is there again");
        assert_eq!(router.boundary(), PIECES / 2, "{context}");
        let again = drive_all(&router, &records, seed + 2, || {});
        assert_eq!((again.wrong, again.failure), (None, None), "{context}");
        assert!(router.work().dpu_requests > 0, "{context}");
    }
}

#[test]
fn no_value_is_wrong_whenever_the_dpu_side_fails() {
    let moments = std::env::var("DPB_INDEX_MOMENTS")
        .ok()
        .and_then(|text| text.parse().ok());
    let moments = moments.unwrap_or(MOMENTS);
    for moment in 0..moments {
        let fate = [Fate::Dies, Fate::Hangs, Fate::ComesBack][moment as usize % 3];
        at_a_moment(1000 + moment, fate, moment % 2 == 0);
    }
}
