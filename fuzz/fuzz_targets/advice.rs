//! Foreign input of advice: any text as an application's profile and as prices, and any bytes as the records of both sides. Each is refused with a
//! reason, or is advice whose intervals hold their values, with no decision that its interval does not carry. A zero byte parts the texts from the records;
//! without records, two sides that are known are asked.
#![no_main]

use std::sync::LazyLock;

use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Check, Evidence, Reading, Record, Samples};
use dpb_core::{Executor, Properties};
use dpb_insight::advice::{
    Advice, Advisor, Estimate, Goal, Prices, Profile, Question, Side, Verdict, advisor, side,
};
use libfuzzer_sys::fuzz_target;

static KNOWN: LazyLock<Advisor> = LazyLock::new(|| {
    let records = records();
    let [host, device] = ["cpu/best", "engine"].map(|name| of(&records, name).expect("a side"));
    Advisor::new(host, device).expect("two sides")
});

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    let parted = bytes.iter().position(|byte| *byte == 0);
    let (text, records) = bytes.split_at(parted.unwrap_or(bytes.len()));
    let text = String::from_utf8_lossy(text);
    match Prices::read(&text) {
        Ok(prices) => {
            let said = prices.sentence(0.5);
            assert!(said.contains(&prices.core_hour.to_string()), "{said}");
        }
        Err(why) => assert!(!why.is_empty()),
    }
    let profile = Profile::read(&text);
    let goal = match &profile {
        Ok(profile) => {
            check_profile(profile);
            Goal::Application(profile.clone())
        }
        Err(why) => {
            assert!(!why.is_empty());
            Goal::Latency
        }
    };
    // One question an input: a limit's is replayed, which takes a while.
    let picked = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    if parted.is_none() {
        match profile.is_ok() {
            true => ask(&KNOWN, goal, picked),
            false => ask(&KNOWN, other_goal(picked), picked),
        }
        return;
    }
    let goal = if picked % 2 == 0 { goal } else { other_goal(picked) };
    let records: Vec<Record> = Reading::of_bytes(&records[1..])
        .records
        .into_iter()
        .map(|line| line.record)
        // More take longer and are no other case.
        .take(100)
        .collect();
    let names = side::backends(&records);
    let [one, other] = [names.first(), names.get(1)].map(|name| name.and_then(|name| of(&records, name)));
    if let (Some(host), Some(device)) = (one, other) {
        for (host, device) in [(host.clone(), device.clone()), (device, host)] {
            match Advisor::new(host, device) {
                Ok(advisor) => ask(&advisor, goal.clone(), picked),
                Err(why) => assert!(!why.0.is_empty()),
            }
        }
    }
});

fn of(records: &[Record], backend: &str) -> Option<Side> {
    let is_own = |record: &&Record| {
        record.parameters.get("backend").is_some_and(|it| it.to_string() == backend)
    };
    let own: Vec<&Record> = records.iter().filter(is_own).collect();
    match Side::of(&own) {
        Ok(side) => {
            assert!(!side.points.is_empty());
            assert!(side.points.iter().all(|point| point.job_ns > 0.0));
            Some(side)
        }
        Err(why) => {
            assert!(!why.0.is_empty());
            None
        }
    }
}

/// Accelerometer's equations: nothing is faster than an offload that costs nothing, and the more it costs the slower.
fn check_profile(profile: &Profile) {
    let most = 1.0 / (1.0 - profile.share);
    let mut before = f64::INFINITY;
    for ns in [0.0, 1.0, 1e3, 1e6, 1e12] {
        let faster = profile.speed_up(ns, ns);
        assert!(faster >= 0.0 && faster <= most * (1.0 + 1e-9) && faster <= before, "{faster}");
        before = faster;
    }
    assert!(profile.kernel_ns() > 0.0);
}

/// A goal that needs no profile, by a number.
fn other_goal(picked: u8) -> Goal {
    match picked / 4 % 5 {
        0 => Goal::Latency,
        1 => Goal::Throughput,
        2 => Goal::Cores,
        3 => Goal::Split,
        _ => Goal::Slo {
            jobs_per_s: 10f64.powi(i32::from(picked % 10)),
            limit_ns: 1e5,
        },
    }
}

fn ask(advisor: &Advisor, goal: Goal, picked: u8) {
    let question = Question {
        goal,
        batch: None,
        jobs_per_s: Some(1000.0),
        transfer: (picked / 2 % 2 == 1).then_some((1e8, 1e4)),
    };
    match advisor.advise(&question) {
        Ok(advice) => check(advisor, &advice),
        Err(why) => assert!(!why.0.is_empty()),
    }
}

fn check(advisor: &Advisor, advice: &Advice) {
    let holds = |it: &Estimate| {
        assert!(it.value >= 0.0 && it.low <= it.value && it.value <= it.high, "{it:?}");
    };
    for at in &advice.at {
        holds(&at.host_ns);
        holds(&at.device_ns);
        holds(&at.gain);
    }
    for check in &advice.checks {
        holds(&check.host);
        holds(&check.device);
        let is_clear = check.gain.low > 1.0 || check.gain.high < 1.0;
        assert_eq!(check.verdict != Verdict::TooClose, is_clear);
    }
    assert!(!advice.verdict().is_empty());
    let predictions = advisor.predictions(advice);
    assert!(predictions.len() <= 2 * advice.checks.len());
    let lines = predictions.iter().map(|one| one.line.as_str());
    assert_eq!(advisor::frozen(lines).len(), 64);
}

/// Software whose bytes cost a nanosecond each, and an engine whose jobs cost 2000.
fn records() -> Vec<Record> {
    let mut records = Vec::new();
    for (backend, executor) in [("cpu/best", Executor::Caller), ("engine", Executor::Device)] {
        for (batch, size) in [1u64, 8].into_iter().flat_map(|batch| {
            [64u64, 512, 4096, 16384, 65536].map(|size| (batch, size))
        }) {
            let job_ns = match executor {
                Executor::Caller => (50 + 20 * batch + batch * size) as f64,
                _ => 2300.0 + (batch * size) as f64 / 10.0,
            };
            let mut record = Record::new("op", Evidence::Measured, 1)
                .with("operator", "deflate")
                .with("backend", backend)
                .with("size", size)
                .with("batch", batch)
                .with("depth", 1u64)
                .with("threads", 1u64)
                .with("mode", "closed");
            let mut properties = Properties::of_this_cpu();
            properties.made_of.executor = executor;
            record.provenance.made_of = Some(properties.made_of);
            record.provenance.cpus = 2;
            let items_per_s = batch as f64 * 1e9 / job_ns;
            record.sample("items_per_s", (0..7).map(|run| items_per_s * (1.0 + 0.01 * f64::from(run))).collect());
            record.sample("host_cpu_ns_per_item", vec![job_ns / batch as f64 / 2.0; 7]);
            let mut times = Latencies::default();
            (90..=110).for_each(|percent| times.record((job_ns * f64::from(percent) / 100.0) as u64));
            let histogram = Samples {
                values: Vec::new(),
                hdr: Some(times.to_base64()),
            };
            record.samples.insert("latency_ns".to_owned(), histogram);
            record.counts.insert("items".to_owned(), batch);
            record.counts.insert("bytes_out".to_owned(), batch * size / 2);
            record.check = Some(Check {
                against: "fuzz".to_owned(),
                compared: 1,
                digest: None,
            });
            records.push(record);
        }
    }
    records
}

/// Profiles of each design, prices, and records of both sides behind a profile and alone.
fn seeds() -> Vec<Vec<u8>> {
    let profile = |design: &str| {
        format!("share = 0.17\noffloads_per_s = 100000\ncores = 2\ndesign = \"{design}\"\nbatch = 1\nsizes = [[512, 0.4], [4096, 0.6]]\nswitch_ns = 5\n")
    };
    let prices = "currency = \"EUR\"\ncore_hour = 0.04\ndevice_hour = 0.1\ncore_watts = 5\n";
    let lines: Vec<Vec<u8>> = records()
        .iter()
        .map(|record| serde_json::to_vec(record).expect("a record is JSON"))
        .collect();
    let lines = lines.join(&b'\n');
    let mut seeds: Vec<Vec<u8>> = ["sync", "sync-os", "async"].map(|design| profile(design).into_bytes()).into();
    seeds.push(prices.as_bytes().to_vec());
    seeds.push([profile("async").as_bytes(), b"\0", &lines].concat());
    seeds.push([b"\0".as_slice(), &lines].concat());
    seeds
}
