//! The advisor on records of engines that are known, and on hostile ones. The engines are simulated here, job by job, by nothing of the advisor's.

mod queues;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Check as Checked, Outcome, Record, Samples};
use dpb_core::{Evidence, Executor, Properties};

mod checks;

use super::*;
use crate::advice::application::Design;
use crate::advice::load::Load;
use crate::advice::predictor::Kind;

/// An engine: lanes, the time of a job, and of a submission.
struct Engine {
    lanes: usize,
    doorbell_ns: u64,
    job_ns: fn(&Load) -> u64,
}

const PLAIN: Engine = Engine {
    lanes: 4,
    doorbell_ns: 300,
    job_ns: |load| {
        let bytes = load.batch * load.size;
        2000 + 5 * load.batch + (bytes * 100).div_ceil(1000)
    },
};

impl Engine {
    /// The time by job of a segment of 64 jobs for each in flight: whatever is free is submitted at once, then the next jobs that come home are
    /// awaited.
    fn closed_loop_ns(&self, load: &Load) -> f64 {
        let jobs = 64 * load.depth;
        let (mut now, mut sent, mut home) = (0, 0, 0);
        let mut lanes: BinaryHeap<Reverse<u64>> = (0..self.lanes).map(|_| Reverse(0)).collect();
        let mut flying: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        while home < jobs {
            if sent < jobs && (flying.len() as u64) < load.depth {
                now += self.doorbell_ns;
                while sent < jobs && (flying.len() as u64) < load.depth {
                    let Reverse(free) = lanes.pop().expect("a lane");
                    let done = free.max(now) + (self.job_ns)(load);
                    lanes.push(Reverse(done));
                    flying.push(Reverse(done));
                    sent += 1;
                }
            }
            let Reverse(next) = *flying.peek().expect("a job");
            now = now.max(next);
            while flying.peek().is_some_and(|Reverse(done)| *done <= now) {
                flying.pop();
                home += 1;
            }
        }
        now as f64 / jobs as f64
    }
}

fn load(batch: u64, size: u64, depth: u64) -> Load {
    Load {
        batch,
        size,
        depth,
        threads: 1,
    }
}

/// A record of seven runs at a time by job. A single job's times scatter around it.
fn record(backend: &str, executor: Executor, load: &Load, job_ns: f64) -> Record {
    let mut record = Record::new("op", Evidence::Measured, 1)
        .with("operator", "deflate")
        .with("op.level", 1u64)
        .with("backend", backend)
        .with("size", load.size)
        .with("batch", load.batch)
        .with("depth", load.depth)
        .with("threads", load.threads)
        .with("mode", "closed");
    let mut properties = Properties::of_this_cpu();
    properties.made_of.executor = executor;
    record.provenance.made_of = Some(properties.made_of);
    let items_per_s = load.batch as f64 * 1e9 / job_ns;
    let runs = |value: f64| vec![value; 7];
    record.sample("items_per_s", runs(items_per_s));
    record.sample("bytes_per_s", runs(items_per_s * load.size as f64));
    record.sample(
        "host_cpu_ns_per_item",
        runs(job_ns / load.batch as f64 / 2.0),
    );
    record.counts.insert("items".into(), 1000 * load.batch);
    record
        .counts
        .insert("bytes_in".into(), 1000 * load.batch * load.size);
    // Results are as long as their items.
    record
        .counts
        .insert("bytes_out".into(), 1000 * load.batch * load.size);
    record.counts.insert("segment_jobs".into(), 64 * load.depth);
    record.check = Some(Checked {
        against: "test".into(),
        compared: 1000,
        digest: None,
    });
    let mut times = Latencies::default();
    (90..=110).for_each(|percent| times.record((job_ns * f64::from(percent) / 100.0) as u64));
    record.sample("latency_ns_p50", runs(job_ns));
    let histogram = Samples {
        values: Vec::new(),
        hdr: Some(times.to_base64()),
    };
    record.samples.insert("latency_ns".into(), histogram);
    record
}

const SIZES: [u64; 5] = [64, 1024, 4096, 65_536, 262_144];
const BATCHES: [u64; 2] = [1, 8];
const DEPTHS: [u64; 4] = [1, 2, 8, 64];

fn of_engine(engine: &Engine, sizes: &[u64]) -> Vec<Record> {
    let mut records = Vec::new();
    for batch in BATCHES {
        for &size in sizes {
            for depth in DEPTHS {
                let load = load(batch, size, depth);
                records.push(record(
                    "engine",
                    Executor::Device,
                    &load,
                    engine.closed_loop_ns(&load),
                ));
            }
        }
    }
    records
}

/// Software whose bytes cost a nanosecond each.
fn of_host(sizes: &[u64]) -> Vec<Record> {
    let mut records = Vec::new();
    for batch in BATCHES {
        for &size in sizes {
            let load = load(batch, size, 8);
            let job_ns = 50.0 + (20 * batch + batch * size) as f64;
            records.push(record("cpu/best", Executor::Caller, &load, job_ns));
        }
    }
    records
}

fn side(records: &[Record]) -> Side {
    Side::of(&records.iter().collect::<Vec<_>>()).expect("a side")
}

fn question(goal: Goal) -> Question {
    Question {
        goal,
        batch: Some(1),
        jobs_per_s: Some(1e5),
        transfer: None,
    }
}

fn advisor() -> Advisor {
    let (host, engine) = (of_host(&SIZES), of_engine(&PLAIN, &SIZES));
    Advisor::new(side(&host), side(&engine)).expect("advice")
}

#[test]
fn the_engine_s_parameters_are_found() {
    let advisor = advisor();
    let service = advisor.time(true).service().expect("the affine one");
    assert_eq!(service.lanes, Some(4), "{service:?}");
    for (found, known) in [
        (service.job_ns, 2000.0),
        (service.item_ns, 5.0),
        (service.byte_ns, 0.1),
        (service.doorbell_ns, 300.0),
    ] {
        assert!(
            (found / known - 1.0).abs() < 0.02,
            "{found} {known}: {service:?}"
        );
    }
}

#[test]
fn held_out_points_are_within_a_nanosecond_a_job() {
    // A model's times are exact; of others that agree by chance nobody knows it.
    let exact = of_engine(&PLAIN, &SIZES).into_iter().map(|mut record| {
        record.evidence = Evidence::Simulated { model: "m".into() };
        record
    });
    let exact: Vec<Record> = exact.collect();
    let advisor = Advisor::new(side(&of_host(&SIZES)), side(&exact)).expect("advice");
    for batch in [1, 4, 8] {
        for size in [64, 256, 2048, 16_384, 131_072] {
            for depth in [1, 2, 16, 32, 64] {
                let load = load(batch, size, depth);
                let known = PLAIN.closed_loop_ns(&load);
                let found = advisor.time(true).at(&load).expect("inside");
                assert!(
                    (found.value - known).abs() < 1.0,
                    "{load:?}: {found:?} {known}"
                );
                assert!(found.holds(known), "{load:?}: {found:?} {known}");
            }
        }
    }
}

/// A second byte rate above 1 MiB, which the model does not have.
const KNEE: Engine = Engine {
    lanes: 4,
    doorbell_ns: 300,
    job_ns: |load| {
        let bytes = load.batch * load.size;
        2000 + bytes / 10 + 3 * bytes.saturating_sub(1 << 20)
    },
};

#[test]
fn a_hidden_term_widens() {
    let sizes = [64, 1024, 16_384, 262_144, 1 << 20, 4 << 20];
    let host = of_host(&sizes);
    let advisor = Advisor::new(side(&host), side(&of_engine(&KNEE, &sizes))).expect("advice");
    let (mut held, mut all, mut confident) = (0, 0, 0);
    for size in [256, 4096, 65_536, 524_288, 1_500_000, 2_000_000, 3_000_000] {
        for depth in [1, 2, 8, 64] {
            let load = load(1, size, depth);
            let known = KNEE.closed_loop_ns(&load);
            let found = advisor.time(true).at(&load).expect("inside");
            all += 1;
            held += u32::from(found.holds(known));
            let verdict = |time: &Estimate| {
                Verdict::of(&Estimate::exact(50.0 + 20.0 + size as f64).over(time))
            };
            let truth = verdict(&Estimate::exact(known));
            let said = verdict(&found);
            confident += u32::from(said != Verdict::TooClose && said != truth);
        }
    }
    assert_eq!(confident, 0, "a confident wrong answer");
    assert!(held * 10 >= all * 9, "{held} of {all}");
    // Where nothing is hidden the interval is a hair; here it says that something is wrong.
    let width = |advisor: &Advisor| {
        advisor
            .time(true)
            .at(&load(1, 2048, 8))
            .expect("inside")
            .width()
    };
    assert!(
        width(&advisor) > 100.0 * width(&self::advisor()),
        "{}",
        width(&advisor)
    );
}

/// Deep queues that scatter by a fifth say nothing against what is known of jobs that are alone.
#[test]
fn an_interval_is_of_its_own_queue() {
    let mut records = of_engine(&PLAIN, &SIZES);
    let deep = records
        .iter_mut()
        .filter(|record| record.parameters["depth"].to_string() == "64");
    for (at, record) in deep.enumerate() {
        let factor = if at % 2 == 0 { 1.2 } else { 1.0 / 1.2 };
        for name in ["items_per_s", "bytes_per_s"] {
            let runs = record.samples[name].values.iter();
            let runs = runs.map(|rate| rate * factor).collect();
            record.sample(name, runs);
        }
    }
    let advisor = Advisor::new(side(&of_host(&SIZES)), side(&records)).expect("advice");
    let width = |depth: u64| {
        let found = advisor.time(true).at(&load(1, 2048, depth));
        found.expect("inside").width()
    };
    assert!(width(64) > 0.3, "{}", width(64));
    assert!(width(1) < width(64) / 2.0, "{} {}", width(1), width(64));
    // A queue that nobody measured has the misses of all.
    assert!(width(16) > width(1), "{} {}", width(16), width(1));
}

/// A backend whose jobs take this long, one at a time.
fn of_times(backend: &str, sizes: &[u64], job_ns: impl Fn(&Load) -> f64) -> Vec<Record> {
    let loads = BATCHES.iter().flat_map(|&batch| {
        let of = move |&size: &u64| load(batch, size, 1);
        sizes.iter().map(of)
    });
    loads
        .map(|load| record(backend, Executor::Caller, &load, job_ns(&load)))
        .collect()
}

/// Two sides of curves that no model has, and whose ratio is a straight line on logarithmic axes: from a loss of a tenth to none. Lines between measured ratios are
/// taken, and know it to a percent; the ratio of both models is off by more.
#[test]
fn a_smooth_ratio_is_read_off_its_own_line() {
    let sizes = [64, 256, 1024, 4096, 16_384, 65_536];
    let loss = |load: &Load| 1.1 * (load.size as f64 / 64.0).powf(-0.0137);
    let host = of_times("cpu/best", &sizes, bent);
    let device = of_times("pool/1", &sizes, |load| loss(load) * bent(load));
    let advisor = Advisor::new(side(&host), side(&device)).expect("advice");
    let (host, device) = (advisor.time(false), advisor.time(true));
    for size in [128, 512, 2048, 8192, 32_768] {
        let load = load(1, size, 1);
        let gain = host.over(&load, device, &load).expect("inside");
        assert!(gain.is_on_lines, "{gain:?}");
        assert!(gain.errors[1] < gain.errors[0], "{gain:?}");
        let truth = 1.0 / loss(&load);
        assert!(
            (gain.ratio.value / truth - 1.0).abs() < 1e-3,
            "{gain:?}, {truth}"
        );
        assert!(
            gain.ratio.holds(truth) && gain.ratio.width() < 0.02,
            "{gain:?}"
        );
    }
    let advice = advisor.advise(&question(Goal::Latency)).expect("advice");
    let said = advice
        .findings
        .iter()
        .find(|(name, _)| name == "gain_model");
    assert!(said.is_some_and(|(_, text)| text.starts_with("lines between")));
    // Where both models are exact, their ratio is taken.
    let (known, load) = (self::advisor(), load(1, 2048, 8));
    let gain = known
        .time(false)
        .over(&load.alone(), known.time(true), &load);
    assert!(!gain.expect("inside").is_on_lines);
}

/// Software whose curve no model has: a third more for items of a few hundred bytes.
fn bent(load: &Load) -> f64 {
    let items = load.batch as f64;
    let bump = match load.size {
        200..=2000 => 1.33,
        _ => 1.0,
    };
    bump * (100.0 + items * (2600.0 + 2.3 * load.size as f64))
}

/// Both sides run the same code, and one of them is slower by a tenth: what their models miss alike does not hide that.
#[test]
fn what_both_sides_miss_alike_is_no_error_of_the_gain() {
    let sizes = [64, 256, 1024, 4096, 16_384, 65_536];
    let host = of_times("cpu/best", &sizes, bent);
    let device = of_times("pool/1", &sizes, |load| 1.1 * bent(load));
    let advisor = Advisor::new(side(&host), side(&device)).expect("advice");
    let advice = advisor.advise(&question(Goal::Latency)).expect("advice");
    for check in &advice.checks {
        assert_eq!(check.verdict, Verdict::Stay, "{check:?}");
        assert!(check.gain.holds(1.0 / 1.1), "{check:?}");
        // Each side's own interval holds the other one's time.
        assert!(check.host.holds(check.device.value), "{check:?}");
    }
    assert!(!advice.checks.is_empty());
}

/// The same curve on one side alone is an error of the gain, and no confident answer comes of it.
#[test]
fn what_one_side_misses_alone_is_an_error_of_the_gain() {
    let sizes = [64, 256, 1024, 4096, 16_384, 65_536];
    let host = of_times("cpu/best", &sizes, bent);
    let straight =
        |load: &Load| 1.1 * (100.0 + load.batch as f64 * (2600.0 + 2.3 * load.size as f64));
    let device = of_times("pool/1", &sizes, straight);
    let advisor = Advisor::new(side(&host), side(&device)).expect("advice");
    let advice = advisor.advise(&question(Goal::Latency)).expect("advice");
    for check in &advice.checks {
        let truth = bent(&check.host_load) / straight(&check.device_load);
        let truth = Verdict::of(&Estimate::exact(truth));
        let is_wrong = check.verdict != Verdict::TooClose && check.verdict != truth;
        assert!(!is_wrong, "{truth:?}: {check:?}");
        assert!(check.gain.width() > 0.2, "{check:?}");
    }
    assert!(!advice.checks.is_empty());
}

/// A machine that is slower by a quarter in one minute than in the next. Runs of both minutes know it, runs of one do not. A slow minute of three changes no median.
#[test]
fn what_changes_between_rounds_is_in_the_interval() {
    let slow = 1.25;
    let round = |slower: f64| {
        let mut records = of_engine(&PLAIN, &SIZES);
        for samples in records.iter_mut().flat_map(|it| it.samples.values_mut()) {
            samples.values.iter_mut().for_each(|rate| *rate /= slower);
        }
        records
    };
    let host = side(&of_host(&SIZES));
    let advisor = |rounds: &[f64]| {
        let records: Vec<Record> = rounds.iter().flat_map(|&slower| round(slower)).collect();
        Advisor::new(host.clone(), side(&records)).expect("advice")
    };
    let held = |advisor: &Advisor| {
        let loads = [256, 2048, 16_384, 131_072].map(|size| load(1, size, 8));
        let truths =
            loads.map(|load| [1.0, slow].map(|by| (load, by * PLAIN.closed_loop_ns(&load))));
        let held = |(load, known): &(Load, f64)| {
            advisor.time(true).at(load).expect("inside").holds(*known)
        };
        truths.as_flattened().iter().filter(|it| held(it)).count()
    };
    assert_eq!(held(&advisor(&[1.0, slow])), 8);
    assert_eq!(held(&advisor(&[1.0])), 4);
    let three = advisor(&[1.0, slow, 1.0]);
    assert_eq!(held(&three), 8);
    let point = three
        .device
        .points
        .iter()
        .find(|it| it.load == load(1, 4096, 8));
    let point = point.expect("measured");
    assert_eq!((point.runs_ns.len(), point.ids.len()), (21, 3));
    assert!((point.job_ns / PLAIN.closed_loop_ns(&point.load) - 1.0).abs() < 1e-9);
}

#[test]
fn latency_throughput_and_cores_have_their_thresholds() {
    let advisor = advisor();
    // 70 + g against 2305 + g/10: 2483 B.
    let advice = advisor.advise(&question(Goal::Latency)).expect("advice");
    let Threshold::From(place) = advice.threshold else {
        panic!("{:?}", advice.threshold);
    };
    assert!((place.at / 2483.0 - 1.0).abs() < 0.1, "{place:?}");
    assert!(
        advice.verdict().starts_with("move from"),
        "{}",
        advice.verdict()
    );
    assert!(!advice.checks.is_empty());
    // Four lanes: 70 + g against (2005 + g/10)/4: 444 B.
    let advice = advisor.advise(&question(Goal::Throughput)).expect("advice");
    let Threshold::From(place) = advice.threshold else {
        panic!("{:?}", advice.threshold);
    };
    assert!((place.at / 444.0 - 1.0).abs() < 0.1, "{place:?}");
    assert_eq!(advice.at.last().expect("sizes").bound, Bound::Lanes);
    let advice = advisor.advise(&question(Goal::Cores)).expect("advice");
    assert!(advice.cores_freed.is_some());
    assert!(
        advice
            .findings
            .iter()
            .any(|(name, _)| name == "cores_freed")
    );
}

#[test]
fn a_limit_at_a_rate_is_replayed() {
    let advisor = advisor();
    let slo = |jobs_per_s: f64, limit_ns: f64| {
        let goal = Goal::Slo {
            jobs_per_s,
            limit_ns,
        };
        advisor.advise(&question(goal)).expect("advice")
    };
    // 262 µs of software at 10,000 a second need more than a core; the engine takes 28.5 µs.
    let advice = slo(1e4, 100_000.0);
    let last = advice.at.last().expect("sizes");
    assert!(last.host_ns.value.is_infinite(), "{last:?}");
    assert!(
        last.device_ns.value > 28_000.0 && last.device_ns.value < 60_000.0,
        "{last:?}"
    );
    assert_eq!(Verdict::of(&last.gain), Verdict::Move);
    // Software meets a microsecond at 64 B, the engine nowhere; where neither does, neither is better.
    let advice = slo(1e4, 1000.0);
    assert_eq!(Verdict::of(&advice.at[0].gain), Verdict::Stay);
    let last = advice.at.last().expect("sizes");
    assert_eq!(Verdict::of(&last.gain), Verdict::TooClose, "{last:?}");
    let limit = &advice.findings.iter().find(|(name, _)| name == "limit");
    let said = &limit.expect("who meets it").1;
    assert!(
        said.starts_with("64 B: the host meets it, the device misses it;"),
        "{said}"
    );
    assert!(
        said.ends_with("the host misses it, the device misses it"),
        "{said}"
    );
    // Both meet a second; software is ten times sooner at 64 B.
    assert_eq!(Verdict::of(&slo(1e3, 1e9).at[0].gain), Verdict::Stay);
    // More than the engine serves, whatever the size, and software at 64 B still can.
    let advice = slo(5e6, 100_000.0);
    for at in &advice.at {
        assert!(
            at.gain.low <= at.gain.value && at.gain.value <= at.gain.high,
            "{at:?}"
        );
    }
    assert_eq!(
        Verdict::of(&advice.at[0].gain),
        Verdict::Stay,
        "{:?}",
        advice.at[0]
    );
}

fn split(host: &[Record], device: &[Record], batch: Option<u64>) -> Result<Advice, Refusal> {
    let advisor = Advisor::new(side(host), side(device)).expect("two sides");
    let goal = question(Goal::Split);
    advisor.advise(&Question { batch, ..goal })
}

#[test]
fn a_job_s_items_are_shared_out_so_that_both_finish_together() {
    // Three nanoseconds for ten bytes.
    const ENGINE: Engine = Engine {
        job_ns: |load| 2000 + 3 * load.batch * load.size / 10,
        ..PLAIN
    };
    let (host, engine) = (of_host(&SIZES), of_engine(&ENGINE, &SIZES));
    let advice = split(&host, &engine, None).expect("advice");
    assert_eq!(advice.batch, 8, "there is nothing to share out of one item");
    // Of eight items of 256 KiB the engine has six, and is done before the host's two: 50 + 2·(20 + g).
    let g = 262_144.0;
    assert_eq!(advice.device_share, Some(0.75));
    let last = advice.at.last().expect("sizes");
    let known = 90.0 + 2.0 * g;
    assert!(
        (last.device_ns.value / known - 1.0).abs() < 0.01,
        "{last:?}"
    );
    let gain = (50.0 + 8.0 * (20.0 + g)) / known;
    assert!(
        (last.gain.value / gain - 1.0).abs() < 0.01,
        "{last:?} {gain}"
    );
    assert_eq!(Verdict::of(&last.gain), Verdict::Move);
    let small = advice.at[0];
    assert_eq!(Verdict::of(&small.gain), Verdict::Stay, "{small:?}");
    assert!(
        advice
            .assumptions
            .iter()
            .any(|it| it.contains("both at once"))
    );
    // What is checked are the parts, and whole items.
    let check = advice.checks.last().expect("checks");
    let items = [check.host_load.batch, check.device_load.batch];
    assert_eq!(items, [2, 6]);
    let one = split(&host, &engine, Some(1)).expect_err("one item");
    assert!(one.0.contains("several items"), "{one}");
}

#[test]
fn nothing_is_split_with_a_device_that_is_slower_than_all_the_rest() {
    const SLOW: Engine = Engine {
        lanes: 1,
        doorbell_ns: 300,
        job_ns: |load| 2000 + 100 * load.batch * load.size,
    };
    let advice = split(&of_host(&SIZES), &of_engine(&SLOW, &SIZES), None).expect("advice");
    assert_eq!(advice.verdict(), "stay");
    // Eight items alone say nothing of fewer.
    let eight = |records: Vec<Record>| {
        let eight = records
            .into_iter()
            .filter(|it| it.parameters["batch"].to_string() == "8");
        eight.collect::<Vec<Record>>()
    };
    let sizes = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];
    let (host, engine) = (eight(of_host(&sizes)), eight(of_engine(&PLAIN, &sizes)));
    let refused = split(&host, &engine, None).expect_err("no part is known");
    assert!(refused.0.contains("smaller number"), "{refused}");
}

fn profile(share: f64) -> Profile {
    Profile {
        share,
        offloads_per_s: 10_000.0,
        cores: 1.0,
        design: Design::Sync,
        switch_ns: 0.0,
        sizes: vec![(4096, 0.5), (65_536, 0.5)],
        batch: 1,
    }
}

#[test]
fn an_application_is_as_much_faster_as_accelerometer_says() {
    let advisor = advisor();
    // Means: software 70 + 34816 ns, the engine 2305 + 3481.6 ns; alpha of 10,000 offloads a second.
    let share = 10_000.0 * 34_886.0 / 1e9;
    let advice = advisor
        .advise(&question(Goal::Application(profile(share))))
        .expect("advice");
    let known = 1.0 / ((1.0 - share) + 10_000.0 * (2305.0 + 3481.6) / 1e9);
    let gain = advice.at[0].gain;
    assert!((gain.value - known).abs() < 0.002, "{gain:?} {known}");
    assert_eq!(advice.verdict(), "move");
    // Another kernel than the one that was measured.
    for wrong in [0.05, 0.9] {
        let refused = advisor.advise(&question(Goal::Application(profile(wrong))));
        assert!(
            refused
                .expect_err("refused")
                .0
                .contains("not the same work")
        );
    }
    let nonsense = Goal::Application(profile(f64::NAN));
    assert!(advisor.advise(&question(nonsense)).is_err());
    let mut outside = profile(share);
    outside.sizes = vec![(1 << 30, 1.0)];
    assert!(
        advisor
            .advise(&question(Goal::Application(outside)))
            .is_err()
    );
}

#[test]
fn nothing_is_said_outside_of_what_was_measured() {
    let advisor = advisor();
    for (batch, size, depth) in [(1, 63, 1), (1, 300_000, 1), (9, 64, 1), (1, 64, 65)] {
        assert!(advisor.time(true).at(&load(batch, size, depth)).is_err());
    }
    let mut other = question(Goal::Latency);
    other.batch = Some(5);
    assert!(advisor.advise(&other).is_err());
    assert_eq!(advisor.time(true).kind(), Kind::Affine);
}

#[test]
fn too_few_points_carry_no_advice() {
    let sizes = &SIZES[..4];
    let refused = Advisor::new(side(&of_host(sizes)), side(&of_engine(&PLAIN, sizes)));
    let why = refused.expect_err("eight shapes").0;
    assert!(why.contains("8 shapes"), "{why}");
}

/// On a busy machine a few jobs wait for milliseconds: the mean is long, the median short, and the units fit.
#[test]
fn a_long_tail_is_no_wrong_unit() {
    let read = |p99: f64| {
        let mut record = record("engine", Executor::Device, &load(1, 64, 1), 1e6);
        record.sample("latency_ns_p50", vec![1000.0; 7]);
        record.sample("latency_ns_p99", vec![p99; 7]);
        Side::of(&[&record]).map(|side| side.points[0].job_ns)
    };
    assert_eq!(read(4e6).map(f64::round), Ok(1e6));
    assert!(read(1100.0).expect_err("no tail").0.contains("units"));
}

#[test]
fn hostile_records_are_refused() {
    type Change = fn(&mut Record);
    let cases: [(Change, &str); 17] = [
        (
            |it| {
                it.evidence = Evidence::Emulated {
                    by: "a stand-in".into(),
                }
            },
            "emulated (a stand-in)",
        ),
        (
            |it| {
                it.evidence = Evidence::Published {
                    source: "a paper".into(),
                }
            },
            "paper",
        ),
        (
            |it| it.evidence = Evidence::Simulated { model: "m".into() },
            "evidence is `simulated`",
        ),
        (
            |it| {
                it.outcome = Outcome::Failed {
                    reason: "wrong bytes".into(),
                }
            },
            "wrong bytes",
        ),
        (|it| it.check = None, "checked"),
        (
            |it| it.provenance.host = "another".into(),
            "machine is `another",
        ),
        (|it| it.provenance.kernel = "7.0".into(), "kernel is `7.0`"),
        (
            |it| it.provenance.cpu_level = "x86-64-v2 (masked)".into(),
            "CPU level",
        ),
        (|it| it.provenance.made_of = None, "who carries out"),
        (|it| it.sample("items_per_s", vec![1e6, f64::NAN]), "NaN"),
        (
            |it| it.sample("items_per_s", vec![0.0; 7]),
            "has 0 items_per_s",
        ),
        (|it| it.sample("items_per_s", vec![-1e6; 7]), "-1000000"),
        // A rate by the millisecond beside one by the second.
        (
            |it| {
                let slower = it.samples["items_per_s"]
                    .values
                    .iter()
                    .map(|rate| rate / 1e3);
                it.sample("items_per_s", slower.collect());
            },
            "units",
        ),
        // Microseconds that are called nanoseconds.
        (|it| it.sample("latency_ns_p50", vec![1.0; 7]), "units"),
        (
            |it| it.sample("host_cpu_ns_per_item", vec![1e12; 7]),
            "cores",
        ),
        (
            |it| {
                it.parameters.insert("size".into(), 0u64.into());
            },
            "`size` is 0",
        ),
        (
            |it| {
                it.parameters.insert("op.level".into(), 9u64.into());
            },
            "other work",
        ),
    ];
    for (change, said) in cases {
        let mut records = of_engine(&PLAIN, &SIZES);
        change(&mut records[4]);
        // The first record has one in flight, as the changed one has.
        let records: Vec<&Record> = records.iter().collect();
        let why = Side::of(&records).expect_err(said).0;
        assert!(why.contains(said), "{why}");
        assert!(why.contains(&records[4].id), "{why}");
    }
    assert!(Side::of(&[]).is_err());
}

#[test]
fn records_without_numbers_are_left_out_and_said() {
    let mut records = of_engine(&PLAIN, &SIZES);
    records[3].outcome = Outcome::Unsupported {
        reason: "too deep".into(),
    };
    let stability = dpb_core::measure::statistics::judge(&[1.0; 7], 7, 1, &Default::default());
    records[5].stability = Some(dpb_core::measure::Stability {
        disturbed: true,
        ..stability
    });
    let side = side(&records);
    assert_eq!(side.points.len(), records.len() - 1);
    assert!(side.notes.iter().any(|note| note.contains("too deep")));
    assert!(side.notes.iter().any(|note| note.contains("disturbed")));
}

#[test]
fn noise_widens_what_is_said() {
    let mut noisy = of_engine(&PLAIN, &SIZES);
    for (at, record) in noisy.iter_mut().enumerate() {
        // A tenth up or down, by the record, and as much between its runs.
        let sign = if at % 3 == 0 { 1.1 } else { 0.95 };
        for name in ["items_per_s", "bytes_per_s"] {
            let runs = record.samples[name].values.iter().enumerate();
            let runs = runs
                .map(|(run, rate)| rate * sign * (1.0 + 0.01 * run as f64))
                .collect();
            record.sample(name, runs);
        }
    }
    let advisor = Advisor::new(side(&of_host(&SIZES)), side(&noisy)).expect("advice");
    let advice = advisor.advise(&question(Goal::Latency)).expect("advice");
    let clear = self::advisor()
        .advise(&question(Goal::Latency))
        .expect("advice");
    let width = |advice: &Advice| advice.at[0].gain.width();
    assert!(width(&advice) > width(&clear) + 0.05);
    let next = advice.decision.measure_next();
    assert!(
        next.is_some_and(|size| size > 1000.0 && size < 6000.0),
        "{next:?}"
    );
}

#[test]
fn sides_must_do_the_same_work_and_not_be_one() {
    let host = side(&of_host(&SIZES));
    let again = Advisor::new(host.clone(), host.clone());
    assert!(again.expect_err("one side").0.contains("both sides"));
    let mut other = side(&of_engine(&PLAIN, &SIZES));
    other.work[0].1 = "9".into();
    assert!(
        Advisor::new(host, other)
            .expect_err("other work")
            .0
            .contains("different work")
    );
}

#[test]
fn what_its_jobs_cost_the_host_limits_a_device_and_no_pool() {
    let bound = |executor: Executor| {
        let engine = of_engine(&PLAIN, &SIZES).into_iter().map(|mut record| {
            record.provenance.made_of.as_mut().expect("made").executor = executor;
            let cpu = record.samples["host_cpu_ns_per_item"].values.iter();
            let cpu = cpu.map(|ns| ns * 3.0).collect();
            record.sample("host_cpu_ns_per_item", cpu);
            record
        });
        let engine: Vec<Record> = engine.collect();
        let advisor = Advisor::new(side(&of_host(&SIZES)), side(&engine)).expect("advice");
        let advice = advisor.advise(&question(Goal::Throughput)).expect("advice");
        advice.at.last().expect("sizes").bound
    };
    let workers = Executor::Workers {
        threads: NonZeroU32::new(2).expect("two"),
    };
    // Its workers' time is no bound of the thread that submits.
    assert_eq!(bound(workers), Bound::Lanes);
    assert_eq!(bound(Executor::Device), Bound::Host);
}
