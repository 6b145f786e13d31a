//! The model beside runs of a queue that is computed otherwise.

use dpb_core::measure::Samples;

use super::*;

/// A run of `dpb net trial`, as the recursion of Lindley (1952) gives it: one server, a service of a microsecond, an overhead of 3 or 13 microseconds by turns.
fn run(rate: f64, program: &str) -> Record {
    let mut random = SplitMix64::new(rate as u64);
    let (mut wait, mut lost, mut latencies) = (0.0f64, 0, Latencies::default());
    let count = 400_000;
    for number in 0..count {
        let besides = if number % 2 == 0 { 3000.0 } else { 13_000.0 };
        // A port that holds 1024 is full.
        match wait > 1024.0 * 1000.0 {
            true => lost += 1,
            false => {
                latencies.record((wait + 1000.0 + besides) as u64);
                wait += 1000.0;
            }
        }
        let gap = -random.unit().ln() * 1e9 / rate;
        wait = (wait - gap).max(0.0);
    }
    let mut record = Record::new("net trial", Evidence::Measured, 1)
        .with("program", program)
        .with("schedule", "poisson")
        .with("queue", 1024u64)
        .with("threads", 1u64)
        .with("rate", rate);
    record.sample("offered_packets_per_s", vec![rate]);
    let share = 1.0 - f64::from(lost) / f64::from(count);
    record.sample("packets_per_s", vec![rate * share]);
    let hdr = Some(latencies.to_base64());
    let samples = Samples {
        values: vec![],
        hdr,
    };
    record.samples.insert("latency_ns".to_owned(), samples);
    record
}

#[test]
fn a_queue_is_found_again() {
    let rates = [1000.0, 300_000.0, 700_000.0, 900_000.0, 1_500_000.0];
    let records: Vec<Record> = rates.iter().map(|&rate| run(rate, "forward")).collect();
    let mut found = beside(&records, 7);
    assert_eq!(found.len(), 1);
    let found = found.remove(0).expect("a model");
    assert!(
        found.service_ps.abs_diff(1_000_000) < 10_000,
        "{}",
        found.service_ps
    );
    assert_eq!(
        found.calibration,
        [&records[4], &records[0]].map(|it| it.id.clone())
    );
    assert_eq!(found.pairs.len(), 3);
    for pair in &found.pairs {
        assert!(error(pair.packets_per_s).abs() < 0.01, "{pair:?}");
        // Two samples of the same law: at nine tenths of the rate a percentile of a queue's wait varies by some percent.
        assert!(error(pair.p99_ns).abs() < 0.1, "{pair:?}");
    }
    // The wait at nine tenths is seen, not the overhead alone.
    assert!(found.pairs[2].p99_ns[1] > found.pairs[0].p99_ns[1] + 5000.0);
}

/// Packets that wait before the port without bound: the backlog says the rate.
#[test]
fn a_backlog_says_the_rate() {
    let patient = |rate: f64| {
        let mut random = SplitMix64::new(rate as u64);
        let (mut wait, mut latencies) = (0.0f64, Latencies::default());
        for _ in 0..(rate * 0.2) as u64 {
            latencies.record((wait + 1000.0 + 3000.0) as u64);
            wait = (wait + 1000.0 + random.unit().ln() * 1e9 / rate).max(0.0);
        }
        let mut record = run(1000.0, "patient")
            .with("seconds", 0.2)
            .with("rate", rate);
        for name in ["offered_packets_per_s", "packets_per_s"] {
            record.sample(name, vec![rate]);
        }
        let hdr = Some(latencies.to_base64());
        let samples = Samples {
            values: vec![],
            hdr,
        };
        record.samples.insert("latency_ns".to_owned(), samples);
        record
    };
    let records = [10_000.0, 500_000.0, 2_000_000.0, 4_000_000.0].map(patient);
    let found = beside(&records, 3).remove(0).expect("a model");
    assert!(found.service_ps.abs_diff(1_000_000) < 20_000);
    assert_eq!(found.pairs.len(), 2);
    for pair in &found.pairs {
        assert!(error(pair.packets_per_s).abs() < 0.03, "{pair:?}");
        assert!(error(pair.p99_ns).abs() < 0.1, "{pair:?}");
    }
}

#[test]
fn programs_are_apart_and_what_is_missing_is_said() {
    let all = |program: &str| [1000.0, 500_000.0, 2_000_000.0].map(|rate| run(rate, program));
    let records = [all("forward"), all("nat44")].concat();
    assert_eq!(beside(&records, 1).iter().flatten().count(), 2);
    let said = |records: &[Record]| {
        let found = beside(records, 1).into_iter().find_map(Result::err);
        found.map(|it| it.to_string()).unwrap_or_default()
    };
    assert!(said(&[]).contains("no runs"));
    assert!(said(&records[..2]).contains("no run is above"));
    assert!(said(&records[2..3]).contains("no run is below"));
    let mut elsewhere = all("forward");
    elsewhere[1].provenance.cpu_model = "another".to_owned();
    assert!(said(&elsewhere).contains("several machines"));
    let mut differs = all("forward");
    differs[1] = differs[1].clone().with("mtu", 9000u64);
    assert!(said(&differs).contains("differ in mtu"));
    let mut bursts = all("forward").map(|it| it.with("schedule", "bursts"));
    assert!(said(&bursts).contains("arrivals"));
    bursts = all("forward");
    bursts[0].samples.clear();
    assert!(said(&bursts).contains("no latencies"));
}
