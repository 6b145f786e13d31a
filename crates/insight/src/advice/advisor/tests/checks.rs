//! Checks measure what was predicted: the same system, jobs and figures; and what is written before they run says all of it.

use super::*;

impl Engine {
    /// The 99th percentile of jobs that arrive at a fixed gap, of which no more than `depth` are in flight, on virtual time.
    fn open_loop_p99_ns(&self, load: &Load, gap_ns: u64) -> f64 {
        const JOBS: usize = 20_000;
        let mut lanes: BinaryHeap<Reverse<u64>> = (0..self.lanes).map(|_| Reverse(0)).collect();
        let mut flying: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let mut times: Vec<u64> = Vec::new();
        for at in 0..JOBS as u64 {
            let due = at * gap_ns;
            let mut start = due;
            if flying.len() as u64 == load.depth {
                let Reverse(home) = flying.pop().expect("one flies");
                start = start.max(home);
            }
            let Reverse(free) = lanes.pop().expect("a lane");
            let done = free.max(start + self.doorbell_ns) + (self.job_ns)(load);
            lanes.push(Reverse(done));
            flying.push(Reverse(done));
            times.push(done - due);
        }
        times.sort_unstable();
        times[JOBS * 99 / 100] as f64
    }
}

/// Four lanes at 0.6 of what they can, which is 2.4 times what one can: a check with one job in flight would measure a queue without an end.
#[test]
fn a_limit_is_checked_with_all_lanes_and_threads() {
    let sizes = SIZES;
    let mut host = of_host(&sizes);
    let more = of_host(&sizes)
        .into_iter()
        .map(|record| record.with("threads", 3u64));
    host.extend(more);
    let engine = of_engine(&PLAIN, &sizes);
    let advisor = Advisor::new(side(&host), side(&engine)).expect("two sides");
    let goal = Goal::Slo {
        jobs_per_s: 1.5e5,
        limit_ns: 1e6,
    };
    let advice = advisor.advise(&question(goal)).expect("advice");
    assert!(!advice.checks.is_empty());
    for check in &advice.checks {
        assert_eq!(check.metric, Metric::P99);
        assert!(check.device_load.in_flight() >= 4, "{check:?}");
        assert_eq!(check.host_load.threads, 3);
    }
    let last = advice.checks.last().expect("checks");
    assert_eq!(last.device_load.size, 131_072);
    // Gaps of one length wait less than those of the prediction, which are drawn.
    let measured = PLAIN.open_loop_p99_ns(&last.device_load, 6_667);
    assert!(
        measured <= last.device.high && measured > last.device.low / 4.0,
        "{measured} {last:?}"
    );
    let alone = PLAIN.open_loop_p99_ns(&last.device_load.alone(), 6_667);
    assert!(alone > 100.0 * last.device.high, "{alone} {last:?}");
}

/// An application's jobs have its own number of items, whatever the question's is.
#[test]
fn an_application_is_checked_at_its_own_jobs() {
    let mut own = profile(0.5);
    own.batch = 8;
    // The mean of 50 + 160 + 8 g nanoseconds of software.
    own.share = 10_000.0 * (210.0 + 8.0 * 34_816.0) / 1e9;
    own.cores = 4.0;
    own.share /= own.cores;
    own.sizes = vec![(4096, 0.5), (65_536, 0.5)];
    let advice = advisor().advise(&question(Goal::Application(own)));
    let checks = advice.expect("advice").checks;
    let sizes: Vec<u64> = checks.iter().map(|check| check.host_load.size).collect();
    assert!(
        sizes.contains(&4096) && sizes.contains(&65_536),
        "{sizes:?}"
    );
    for check in &checks {
        assert_eq!((check.host_load.batch, check.device_load.batch), (8, 8));
    }
}

#[test]
fn the_frozen_lines_have_each_prediction_once_and_as_records_have_it() {
    let advisor = advisor();
    let advice = advisor.advise(&question(Goal::Throughput)).expect("advice");
    let all = advisor.predictions(&advice);
    let hash = |all: &[Prediction]| frozen(all.iter().map(|one| one.line.as_str()));
    assert_eq!(hash(&all).len(), 64);
    assert_eq!(hash(&all), hash(&advisor.predictions(&advice)));
    // Each device's load has a check of its own; the host's one load of a size is in two of them.
    let of = |of_device: bool| all.iter().filter(|it| it.of_device == of_device).count();
    assert_eq!(of(true), advice.checks.len());
    assert_eq!(of(false) * 2, advice.checks.len());
    for (at, one) in all.iter().enumerate() {
        let again = all[..at].iter();
        let mut again = again.filter(|it| (it.of_device, it.load) == (one.of_device, one.load));
        assert_eq!(again.next(), None);
        assert_eq!(one.figure, "items_per_s");
        assert!(one.estimate.low <= one.estimate.value && one.estimate.value <= one.estimate.high);
        let figure = format!(" items_per_s={:e} ", one.estimate.value);
        assert!(one.line.contains(&figure), "{}", one.line);
        assert_eq!(one.verdict.is_some(), one.of_device);
    }
    let first = &advice.checks[0];
    let known = first.host_load.batch as f64 * 1e9 / first.host.value;
    assert!((all[0].estimate.value / known - 1.0).abs() < 1e-12);
    let mut changed = advice.clone();
    changed.checks[0].device.value *= 1.0 + 1e-12;
    assert_ne!(hash(&all), hash(&advisor.predictions(&changed)));
    let mut changed = advice;
    changed.checks[0].verdict = Verdict::TooClose;
    assert_ne!(hash(&all), hash(&advisor.predictions(&changed)));
}

/// The same backend on two machines: both sides have their predictions.
#[test]
fn one_backend_on_two_machines_has_predictions_of_both() {
    let host = of_host(&SIZES);
    let mut other = of_host(&SIZES);
    for record in &mut other {
        record.provenance.host = "dpu".into();
        record.provenance.cpu_model = "Cortex-A78".into();
        record.provenance.kernel = "another".into();
        for name in ["items_per_s", "bytes_per_s"] {
            let halved = record.samples[name].values.iter().map(|rate| rate / 2.0);
            record.sample(name, halved.collect());
        }
        record.sample("latency_ns_p50", Vec::new());
        record.summary.remove("latency_ns_p50");
    }
    let advisor = Advisor::new(side(&host), side(&other)).expect("two machines");
    let advice = advisor.advise(&question(Goal::Latency)).expect("advice");
    let all = advisor.predictions(&advice);
    let of = |of_device: bool| all.iter().filter(move |it| it.of_device == of_device);
    assert!(of(true).count() > 0);
    assert_eq!(of(true).count(), of(false).count());
    for (host, device) in of(false).zip(of(true)) {
        assert_eq!(host.load, device.load);
        let factor = host.estimate.value / device.estimate.value;
        assert!((factor - 2.0).abs() < 1e-6, "{factor}");
    }
    assert!(
        advice
            .assumptions
            .iter()
            .any(|it| it.contains("two machines"))
    );
}

#[test]
fn one_machine_in_two_states_is_refused() {
    type Change = fn(&mut Record);
    let changes: [(Change, &str); 4] = [
        (
            |it| it.provenance.governor = Some("powersave".into()),
            "governor",
        ),
        (
            |it| it.provenance.cpu_level = "x86-64-v2 (masked)".into(),
            "CPU level",
        ),
        (|it| it.provenance.kernel = "7.0".into(), "kernel"),
        (|it| it.provenance.cpus += 1, "CPUs"),
    ];
    let host = of_host(&SIZES);
    for (change, said) in changes {
        let mut engine = of_engine(&PLAIN, &SIZES);
        engine.iter_mut().for_each(change);
        let refused = Advisor::new(side(&host), side(&engine));
        let why = refused.expect_err(said).0;
        assert!(why.contains(said), "{why}");
        // Of another machine that is its own affair.
        for record in &mut engine {
            record.provenance.host = "dpu".into();
        }
        assert!(Advisor::new(side(&host), side(&engine)).is_ok());
    }
}

/// A file that advice was written to has what was measured and what was predicted.
#[test]
fn predictions_among_records_are_left_out_and_said() {
    let measured = of_engine(&PLAIN, &SIZES);
    let mut predicted = record("engine", Executor::Device, &load(1, 64, 1), 1.0);
    predicted.evidence = Evidence::Predicted {
        model: "m".into(),
        from: Vec::new(),
    };
    predicted.provenance.made_of = None;
    let all = [&[predicted.clone()][..], &measured, &[predicted.clone()]].concat();
    let read = side(&all);
    assert_eq!(read.points, side(&measured).points);
    assert!(
        read.notes.iter().any(|note| note.contains("2 predictions")),
        "{:?}",
        read.notes
    );
    let why = Side::of(&[&predicted]).expect_err("nothing was measured").0;
    assert!(why.contains("predictions themselves"), "{why}");
}

/// Host's time is asked for at the queue that the goal uses.
#[test]
fn cores_are_freed_at_the_goal_s_own_queue() {
    let advisor = advisor();
    for goal in [
        Goal::Latency,
        Goal::Throughput,
        Goal::Slo {
            jobs_per_s: 1e4,
            limit_ns: 1e6,
        },
    ] {
        let advice = advisor.advise(&question(goal.clone())).expect("advice");
        assert!(advice.cores_freed.is_some(), "{goal:?}");
    }
    // What cannot be answered is said.
    let mut host = of_host(&SIZES);
    for record in &mut host {
        record.samples.remove("host_cpu_ns_per_item");
    }
    let advisor = Advisor::new(side(&host), side(&of_engine(&PLAIN, &SIZES))).expect("sides");
    let advice = advisor.advise(&question(Goal::Latency)).expect("advice");
    assert_eq!(advice.cores_freed, None);
    let mut findings = advice.findings.iter();
    let said = findings.find(|(name, _)| name == "cores_freed");
    assert!(
        said.is_some_and(|(_, text)| text.contains("--host-cpu")),
        "{said:?}"
    );
}
