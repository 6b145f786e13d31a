//! Few runs, lanes that are not known, links, and devices that cannot do what is asked of them.

use super::*;

/// Records with other samples of a metric, made from their position and the first of those that they have.
fn with_runs(
    records: Vec<Record>,
    metric: &str,
    runs: impl Fn(usize, f64) -> Vec<f64>,
) -> Vec<Record> {
    let mut records = records;
    for (at, record) in records.iter_mut().enumerate() {
        let first = record.samples[metric].values[0];
        record.sample(metric, runs(at, first));
    }
    records
}

/// Two runs that differ by a tenth are a spread of it, and one run is none: times that nobody repeated are not exact ones.
#[test]
fn few_runs_have_a_spread_too() {
    let width = |runs: &dyn Fn(f64) -> Vec<f64>| {
        let engine = with_runs(of_engine(&PLAIN, &SIZES), "items_per_s", |_, rate| {
            runs(rate)
        });
        let engine = side(&engine);
        let notes = engine.notes.clone();
        assert!(engine.points.iter().all(|point| !point.is_exact));
        let advisor = Advisor::new(side(&of_host(&SIZES)), engine).expect("advice");
        let found = advisor.time(true).at(&load(1, 2048, 8)).expect("inside");
        (found.width(), notes)
    };
    let (two, notes) = width(&|rate| vec![rate * 0.95, rate * 1.05]);
    assert!(two > 0.09 && notes.is_empty(), "{two} {notes:?}");
    let (_, notes) = width(&|rate| vec![rate]);
    assert!(notes[0].contains("run once"), "{notes:?}");
    // Two records of a run each are two runs.
    let twice = [of_engine(&PLAIN, &SIZES), of_engine(&PLAIN, &SIZES)].concat();
    let twice = with_runs(twice, "items_per_s", |_, rate| vec![rate]);
    assert_eq!(side(&twice).notes, [""; 0]);
}

#[test]
fn host_time_below_zero_is_refused_and_around_it_is_open() {
    let cores = |runs: &dyn Fn(usize, f64) -> Vec<f64>| {
        let engine = with_runs(of_engine(&PLAIN, &SIZES), "host_cpu_ns_per_item", runs);
        let engine = Side::of(&engine.iter().collect::<Vec<_>>())?;
        let advisor = Advisor::new(side(&of_host(&SIZES)), engine)?;
        advisor.advise(&question(Goal::Cores))
    };
    let refused = cores(&|_, _| vec![-1e6; 7]).expect_err("no time");
    assert!(refused.0.contains("negative"), "{refused}");
    // About nothing, give or take a microsecond: software of 67 ns may be better, that of 131 µs is not, and by how much at most nobody knows.
    let noisy = |_: usize, _: f64| (-3..=3).map(|run| f64::from(run) * 50.0).collect();
    let advice = cores(&noisy).expect("advice");
    let [first, last] = [advice.at[0], advice.at[advice.at.len() - 1]];
    assert_eq!(Verdict::of(&first.gain), Verdict::TooClose, "{first:?}");
    // What is not known of large jobs is known of small ones.
    let large = |at: usize, first: f64| match SIZES[at / DEPTHS.len() % SIZES.len()] {
        262_144 => (-3..=3).map(|run| f64::from(run) * 1000.0).collect(),
        _ => vec![first; 7],
    };
    let small = cores(&large).expect("advice").at[0];
    assert!(small.device_ns.high < 1000.0, "{small:?}");
    assert_eq!(Verdict::of(&last.gain), Verdict::Move, "{last:?}");
    assert!(
        last.gain.high.is_infinite() && last.gain.low < 1000.0,
        "{last:?}"
    );
}

/// The same records without some depths.
fn at_depths(records: Vec<Record>, depths: &[u64]) -> Vec<Record> {
    let has = |record: &Record| {
        let depth = record.parameters["depth"].to_string();
        depths.iter().any(|it| it.to_string() == depth)
    };
    records.into_iter().filter(has).collect()
}

/// Lanes that were never all busy may be any number from the deepest queue on, and where no lanes were fitted any number at all.
#[test]
fn lanes_that_are_not_known_are_an_interval() {
    const WIDE: Engine = Engine { lanes: 64, ..PLAIN };
    // A law that no line is: the other predictor wins, and has no lanes.
    const CURVED: Engine = Engine {
        job_ns: |load| 2000 + ((load.batch * load.size) as f64).powf(0.6) as u64 * 10,
        ..PLAIN
    };
    let tail = |engine: &Engine, kind: Kind, busy: f64| {
        let records = at_depths(of_engine(engine, &SIZES), &[1, 2, 8]);
        let advisor = Advisor::new(side(&of_host(&SIZES)), side(&records)).expect("advice");
        assert_eq!(advisor.time(true).kind(), kind);
        let job_ns = (engine.job_ns)(&load(1, 262_144, 1)) as f64;
        let goal = Goal::Slo {
            jobs_per_s: busy * 1e9 / job_ns,
            limit_ns: 2.0 * job_ns,
        };
        let advice = advisor.advise(&question(goal)).expect("advice");
        let said = advice
            .assumptions
            .iter()
            .any(|it| it.contains("is not known"));
        (*advice.at.last().expect("sizes"), job_ns, said)
    };
    // Nine tenths of one of 64 lanes: nobody waits, and each job takes 1.1 of the mean at most.
    let (at, job_ns, said) = tail(&WIDE, Kind::Affine, 0.9);
    assert!(said && at.device_ns.high < 1.3 * job_ns, "{at:?}");
    assert_eq!(Verdict::of(&at.gain), Verdict::Move);
    let (at, job_ns, said) = tail(&CURVED, Kind::Lines, 0.9);
    assert!(said, "it has to be said");
    assert!(
        at.device_ns.low < 1.2 * job_ns && at.device_ns.high > 3.0 * job_ns,
        "{at:?}"
    );
    assert_eq!(Verdict::of(&at.gain), Verdict::TooClose, "{at:?}");
    // Known ones are as many as they are.
    let known = advisor();
    let goal = Goal::Slo {
        jobs_per_s: 1e4,
        limit_ns: 1e6,
    };
    let advice = known.advise(&question(goal)).expect("advice");
    assert!(
        !advice
            .assumptions
            .iter()
            .any(|it| it.contains("is not known"))
    );
}

/// The round trip limits few jobs in flight, the link the bytes of jobs and of results.
#[test]
fn a_link_limits_queues_and_carries_results_too() {
    let (host, engine) = (of_host(&SIZES), of_engine(&PLAIN, &SIZES));
    let ask = |goal: Goal, bytes_out: Option<u64>, transfer: (f64, f64)| {
        let mut engine = engine.clone();
        for record in &mut engine {
            let items = record.counts["items"];
            match bytes_out {
                Some(bytes) => record.counts.insert("bytes_out".into(), items * bytes),
                None => record.counts.remove("bytes_out"),
            };
        }
        let advisor = Advisor::new(side(&host), side(&engine)).expect("two sides");
        advisor.advise(&Question {
            transfer: Some(transfer),
            ..question(goal)
        })
    };
    // 64 in flight for a millisecond and 2.3 µs.
    let far = (25e9 / 8.0, 1e6);
    let advice = ask(Goal::Throughput, Some(4), far).expect("advice");
    let first = advice.at[0];
    assert!(
        (first.device_ns.value / (1_002_331.0 / 64.0) - 1.0).abs() < 0.01,
        "{first:?}"
    );
    assert_eq!(
        (first.bound, Verdict::of(&first.gain)),
        (Bound::InFlight, Verdict::Stay)
    );
    // 4 KiB for each item come back, of 64 B that went: 3.9 µs at a gigabyte a second.
    let near = (1e9, 0.0);
    let advice = ask(Goal::Throughput, Some(4096), near).expect("advice");
    let first = advice.at[0];
    assert!((first.device_ns.value - 4096.0).abs() < 1.0, "{first:?}");
    assert_eq!(first.bound, Bound::Bytes);
    // One at a time both ways and the round trip add up: 64 + 4096 + 5000 + 2311.
    let advice = ask(Goal::Latency, Some(4096), (1e9, 5000.0)).expect("advice");
    let first = advice.at[0];
    assert!((first.device_ns.value - 11_471.0).abs() < 3.0, "{first:?}");
    // Four lanes have one link: at 10,000 jobs a second of 256 KiB and a gigabyte a second it is too slow.
    let slo = Goal::Slo {
        jobs_per_s: 1e4,
        limit_ns: 1e7,
    };
    let advice = ask(slo, Some(4), near).expect("advice");
    let last = advice.at.last().expect("sizes");
    assert!(last.device_ns.value.is_infinite(), "{last:?}");
    let uncounted = ask(Goal::Latency, None, near).expect_err("results are not counted");
    assert!(uncounted.0.contains("bytes of results"), "{uncounted}");
}

/// One lane of 5.8 µs does 172,000 offloads a second, and 400,000 are wanted, or a billion.
#[test]
fn nothing_is_offloaded_that_the_device_cannot_do() {
    const ONE: Engine = Engine {
        lanes: 1,
        job_ns: |_| 5800,
        ..PLAIN
    };
    let host = side(&of_host(&SIZES));
    let advisor = Advisor::new(host, side(&of_engine(&ONE, &SIZES))).expect("two sides");
    let application = |design: Design, cores: f64| {
        let asked = Profile {
            design,
            cores,
            offloads_per_s: cores * 20_000.0,
            ..profile(20_000.0 * 34_886.0 / 1e9)
        };
        let advice = advisor.advise(&question(Goal::Application(asked)));
        advice.expect("advice")
    };
    for design in [Design::Sync, Design::SyncOs, Design::Async] {
        let advice = application(design, 20.0);
        assert_eq!(
            advice.verdict(),
            "stay",
            "{design:?}: {:?}",
            advice.at[0].gain
        );
        let said = &advice.findings.iter().find(|(name, _)| name == "capacity");
        assert!(said.expect("a limit").1.contains("400000"), "{said:?}");
    }
    // Two cores wait for one lane: the closed queue is between none and a whole job.
    let two = application(Design::Sync, 2.0).at[0].gain;
    let share = 20_000.0 * 34_886.0 / 1e9;
    let by = |whole_ns: f64| 1.0 / (1.0 - share + 20_000.0 * whole_ns / 1e9);
    assert!(
        two.value < by(6100.0) * 0.99 && two.value > by(11_900.0),
        "{two:?}"
    );
    // One core never waits for another.
    let one = application(Design::Sync, 1.0).at[0].gain;
    assert!((one.value / by(6100.0) - 1.0).abs() < 0.01, "{one:?}");
    // A billion jobs a second: those that the lane does are moved.
    let rate = Question {
        jobs_per_s: Some(1e9),
        ..question(Goal::Cores)
    };
    let freed = advisor.advise(&rate).expect("advice");
    let cores = freed.cores_freed.expect("at a rate");
    // Half of 262 µs less half of 5.8 µs, 172,000 times.
    assert!(
        (cores / (172_414.0 * (131_107.0 - 2900.0) / 1e9) - 1.0).abs() < 0.02,
        "{cores}"
    );
    let said = freed
        .findings
        .iter()
        .find(|(name, _)| name == "cores_freed");
    assert!(said.expect("cores").1.contains("all that engine does"));
}
