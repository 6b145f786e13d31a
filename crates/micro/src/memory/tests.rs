//! Whole tests of memory, short ones: counts, refusals, stops.

use std::time::Duration;

use dpb_core::WallClock;

use super::*;

fn plan(work: Work, size: u64, threads: u32) -> Plan {
    Plan {
        work,
        size,
        threads,
        pages: Pages::Normal,
        runs: Runs {
            seconds: Duration::from_millis(3),
            warm_up: Duration::from_millis(1),
            repeat: 3,
            pin: Vec::new(),
        },
        seed: 1,
        memory_bytes: 64 << 20,
    }
}

fn measured(plan: &Plan) -> Result<Measured, Broken> {
    measure(plan, &WallClock::default(), &AtomicBool::new(false))
}

const ALL: [Work; 9] = [
    Work::Random(Access::Read),
    Work::Random(Access::Write),
    Work::Sequential(Access::Read),
    Work::Sequential(Access::Write),
    Work::Chain,
    Work::Stream(Kernel::Copy),
    Work::Stream(Kernel::Scale),
    Work::Stream(Kernel::Add),
    Work::Stream(Kernel::Triad),
];

#[test]
fn every_pattern_is_checked_on_several_threads_and_sizes() {
    for work in ALL {
        for size in [SIZE_BYTES_MIN, 16 << 10, 1_000_000 / 64 * 64] {
            let measured = measured(&plan(work, size, 2)).expect("done");
            assert_eq!(measured.runs.len(), 3, "{work:?}");
            assert_eq!(measured.buffer_bytes, 2 * size);
            assert_eq!(measured.huge_bytes, Some(0));
            let accesses: u64 = measured.runs.iter().map(|run| run.handled.accesses).sum();
            assert_eq!(measured.compared, accesses, "{work:?}");
            for run in &measured.runs {
                assert_eq!(run.handled.bytes, 8 * run.handled.accesses);
                assert!(run.accesses_per_s > 0.0 && run.ns_per_access > 0.0);
                // Both by the same clock: what each thread took is within what all took together.
                let ratio = run.bytes_per_s / run.accesses_per_s;
                assert!((ratio - 8.0).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_figure() {
    let refused = |plan: &Plan| match measured(plan) {
        Err(Broken::Unsupported(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(&plan(Work::Chain, 40 << 20, 2));
    assert!(
        why.contains("41943040") && why.contains("67108864"),
        "{why}"
    );
    assert!(refused(&plan(Work::Chain, 1000, 1)).contains("1024"));
    assert!(refused(&plan(Work::Chain, u64::MAX / 64 * 64, 3)).contains("do not fit"));
    let mut huge = plan(Work::Random(Access::Read), 1 << 40, 1);
    huge.memory_bytes = u64::MAX;
    assert!(refused(&huge).contains("random addresses"));
}

#[test]
fn a_stop_ends_it_without_a_number() {
    let stop = AtomicBool::new(true);
    let measured = measure(&plan(Work::Chain, 4096, 1), &WallClock::default(), &stop);
    let measured = measured.expect("no failure");
    assert!(measured.interrupted && measured.runs.is_empty());
}

#[test]
fn huge_pages_are_had_or_missed_with_the_remedy() {
    let mut plan = plan(Work::Sequential(Access::Read), 4 << 20, 1);
    plan.pages = Pages::Huge;
    match measured(&plan) {
        Ok(measured) => assert!(measured.huge_bytes > Some(0)),
        Err(Broken::Unsupported(why)) => assert!(why.contains("nr_hugepages"), "{why}"),
        Err(broken) => panic!("{broken}"),
    }
}
