//! Whole tests of storage, short ones: every engine, pattern and access; faults that are put into the file are found.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use dpb_core::WallClock;

use super::*;

const BYTES: u64 = 4 << 20;
const BLOCK: u64 = 16 << 10;

struct Bench {
    folder: tempfile::TempDir,
    target: Target,
}

impl Bench {
    fn new(unit: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let laying = Laying {
            bytes: BYTES,
            unit,
            seed: 3,
            stop: &AtomicBool::new(false),
        };
        let target = Target::of_file(&folder.path().join("file"), &laying, true).expect("made");
        Self { folder, target }
    }

    fn file(&self) -> fs::File {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true);
        options
            .open(self.folder.path().join("file"))
            .expect("there")
    }

    fn measured(&self, plan: &Plan) -> Result<Measured, Broken> {
        measure(
            plan,
            &self.target,
            &WallClock::default(),
            &AtomicBool::new(false),
        )
    }

    fn why(&self, plan: &Plan) -> String {
        self.measured(plan).expect_err("broken").to_string()
    }
}

fn plan(access: Access, pattern: Pattern) -> Plan {
    Plan {
        engine: Engine::Sync,
        pattern,
        access,
        block: BLOCK,
        depth: 1,
        jobs: 1,
        direct: false,
        sync: Fsync::Never,
        registered: false,
        verify: true,
        runs: Runs {
            seconds: Duration::from_millis(20),
            warm_up: Duration::from_millis(2),
            repeat: 2,
            pin: Vec::new(),
        },
        seed: 5,
    }
}

const MIXED: Access = Access::Mixed { read_share: 0.7 };

#[test]
fn every_engine_pattern_and_access_is_counted_and_checked() {
    let bench = Bench::new(4096);
    for (engine, depth, jobs) in [
        (Engine::Sync, 1, 2),
        (Engine::IoUring, 8, 1),
        (Engine::Libaio, 8, 2),
    ] {
        for pattern in [Pattern::Random, Pattern::Sequential] {
            for access in [Access::Read, Access::Write, MIXED] {
                for verify in [false, true] {
                    let plan = Plan {
                        engine,
                        depth,
                        jobs,
                        verify,
                        ..plan(access, pattern)
                    };
                    match bench.measured(&plan) {
                        Ok(measured) => judge(&plan, &measured),
                        Err(Broken::Unsupported(why)) => println!("skipped: {engine}: {why}"),
                        Err(broken) => panic!("{plan:?}: {broken}"),
                    }
                }
            }
        }
    }
}

fn judge(plan: &Plan, measured: &Measured) {
    assert_eq!(measured.runs.len(), 2);
    assert!(measured.compared > 0);
    for run in &measured.runs {
        let Handled {
            reads,
            writes,
            bytes_read,
            bytes_written,
            ..
        } = run.handled;
        assert_eq!((bytes_read, bytes_written), (reads * BLOCK, writes * BLOCK));
        assert_eq!((run.reads.count(), run.writes.count()), (reads, writes));
        assert_eq!(reads > 0, plan.access.reads(), "{plan:?}");
        assert_eq!(writes > 0, plan.access.writes(), "{plan:?}");
        assert_eq!(run.all().count(), run.handled.items());
        assert!(run.items_per_s > 0.0 && run.latency_ns > 0);
        // By hand: bytes a second are requests a second of that size.
        assert!((run.bytes_per_s / run.items_per_s / BLOCK as f64 - 1.0).abs() < 1e-9);
    }
}

#[test]
fn registered_buffers_do_the_same() {
    let bench = Bench::new(4096);
    for access in [Access::Read, MIXED] {
        let plan = Plan {
            engine: Engine::IoUring,
            depth: 4,
            registered: true,
            ..plan(access, Pattern::Random)
        };
        match bench.measured(&plan) {
            Ok(measured) => judge(&plan, &measured),
            Err(Broken::Unsupported(why)) => println!("skipped: registered buffers: {why}"),
            Err(broken) => panic!("{broken}"),
        }
    }
    let refused = Plan {
        registered: true,
        ..plan(Access::Read, Pattern::Random)
    };
    assert!(bench.why(&refused).contains("only io_uring"));
}

#[test]
fn direct_requests_do_the_same_or_are_refused_with_the_reason() {
    let bench = Bench::new(512);
    for block in [512, BLOCK] {
        let plan = Plan {
            direct: true,
            block,
            ..plan(MIXED, Pattern::Random)
        };
        match bench.measured(&plan) {
            Ok(measured) => assert!(measured.compared > 0),
            Err(Broken::Unsupported(why)) => assert!(why.contains("direct"), "{why}"),
            Err(broken) => panic!("{broken}"),
        }
    }
}

#[test]
fn a_damaged_block_is_found_and_named() {
    let bench = Bench::new(4096);
    let offset = 37 * 4096 + 2000;
    let mut byte = [0];
    bench.file().read_exact_at(&mut byte, offset).expect("read");
    bench
        .file()
        .write_all_at(&[byte[0] ^ 4], offset)
        .expect("written");
    let mut plan = plan(Access::Read, Pattern::Sequential);
    let why = bench.why(&plan);
    assert!(
        why.contains(&format!("byte {}", 37 * 4096)) && why.contains("damaged"),
        "{why}"
    );
    // Without --verify only each block's first stamp is looked at.
    plan.verify = false;
    bench.measured(&plan).expect("not seen");
}

#[test]
fn a_block_in_the_wrong_place_is_found_without_verification() {
    let bench = Bench::new(4096);
    let mut block = vec![0; BLOCK as usize];
    bench
        .file()
        .read_exact_at(&mut block, 5 * BLOCK)
        .expect("read");
    bench
        .file()
        .write_all_at(&block, 9 * BLOCK)
        .expect("written");
    let plan = Plan {
        verify: false,
        ..plan(Access::Read, Pattern::Sequential)
    };
    let why = bench.why(&plan);
    assert!(why.contains(&format!("byte {}", 9 * BLOCK)), "{why}");
    assert!(
        why.contains(&format!("belongs to byte {}", 5 * BLOCK)),
        "{why}"
    );
}

#[test]
fn a_write_that_is_lost_is_found() {
    // Whoever takes a write back while the test runs, is a device that lies.
    let bench = Bench::new(4096);
    let mut old = vec![0; BYTES as usize];
    bench.file().read_exact_at(&mut old, 0).expect("read");
    let mut slow = plan(Access::Write, Pattern::Random);
    slow.runs.seconds = Duration::from_millis(200);
    let stop = AtomicBool::new(false);
    let why = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                bench.file().write_all_at(&old, 0).expect("written");
            }
        });
        let why = bench.why(&slow);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        why
    });
    assert!(
        why.contains("is of write 0") || why.contains("damaged"),
        "{why}"
    );
}

#[test]
fn syncs_are_made_as_asked_for() {
    let bench = Bench::new(4096);
    let synced = |sync| {
        let plan = Plan {
            sync,
            ..plan(Access::Write, Pattern::Sequential)
        };
        let measured = bench.measured(&plan).expect("done");
        let handled = measured.runs[0].handled;
        assert_eq!(measured.runs[0].syncs.count(), handled.syncs);
        (handled.writes, handled.syncs)
    };
    assert_eq!(synced(Fsync::Never).1, 0);
    assert_eq!(synced(Fsync::End).1, 1);
    let (writes, syncs) = synced(Fsync::Every(3));
    assert!(writes > 0);
    assert_eq!(syncs, writes / 3);
}

#[test]
fn what_cannot_be_is_refused() {
    let bench = Bench::new(4096);
    let refused = |change: fn(&mut Plan)| {
        let mut plan = plan(Access::Read, Pattern::Random);
        change(&mut plan);
        match bench.measured(&plan) {
            Err(Broken::Unsupported(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(|plan| plan.depth = 2).contains("one request in flight"));
    assert!(refused(|plan| plan.block = 1000).contains("multiples of 512"));
    assert!(refused(|plan| plan.block = 512).contains("units of 4096"));
    assert!(refused(|plan| plan.jobs = 1000).contains("too few"));
}

#[test]
fn a_stop_ends_it_without_a_number() {
    let bench = Bench::new(4096);
    let stop = AtomicBool::new(true);
    let plan = plan(Access::Read, Pattern::Random);
    let measured = measure(&plan, &bench.target, &WallClock::default(), &stop).expect("no failure");
    assert!(measured.interrupted && measured.runs.is_empty());
}
