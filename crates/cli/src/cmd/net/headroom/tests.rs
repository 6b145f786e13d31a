//! Records of systems that are known, and the published rows.

use dpb_core::measure::{Evidence, Interference, Value};
use dpb_net::headroom::{Load, Speed};
use dpb_net::search::TrialOutput;

use super::*;

/// The flags of a command line.
fn args(words: &[&str]) -> Args {
    let command = TASK.command();
    let matches = command.try_get_matches_from(words).expect("flags");
    flags(&matches).expect("flags")
}

fn globals() -> Globals {
    let operators = dpb_operators::registry::Operators::DPB;
    crate::testing::globals(crate::backends::families(&[], operators))
}

/// The records of a core that spends 1 µs on a packet, and on work `slower` times its time alone.
fn records(args: &Args, slower: f64) -> Vec<Record> {
    let kinds = args.kinds(&globals()).expect("kinds");
    let group = args.groups()[0];
    let question = Question {
        goal: args.goal(),
        patience: Patience::default(),
        rate_max: 8e6,
        rates: args.rates(),
        kinds: kinds.len(),
        cores: 1,
        repeat: args.repeat as usize,
    };
    let mut records = Vec::new();
    let trial = |_: usize, load: Load| {
        let busy = load.packets_per_s * (1000.0 + slower * load.work_ns_per_packet) * 1e-9;
        let loss_ratio = (1.0 - 1.0 / busy).max(0.0);
        let effective_s = load.duration_s;
        Ok::<_, Broken>(Some(TrialOutput {
            loss_ratio,
            effective_s,
        }))
    };
    let answered = question.answer(trial, |finding| {
        let mut record = args.record(&group, &kinds[finding.kind], finding.rate);
        let found = finding.headroom.expect("numbers");
        let measured = Measured {
            found: &found,
            speed: Speed { ns_per_unit: 2.0 },
            cores: 1,
            frame_bytes: group.frame_bytes(),
        };
        measured.fill(&mut record, question.repeat);
        judged(&mut record, &found, 2, &Interference::default());
        records.push(record);
    });
    answered.expect("trials that can be done");
    records
}

fn figure(record: &Record, name: &str) -> f64 {
    record.summary[name].median
}

#[test]
fn a_record_has_the_cores_that_are_free_and_the_papers_figure() {
    let args = args(&[
        "--kind=arithmetic,memory",
        "--rate=400k",
        "--size=104",
        "--repeat=6",
    ]);
    for record in records(&args, 3.0) {
        assert!((figure(&record, "cores_free") - 0.2).abs() < 0.004);
        assert!((figure(&record, "headroom_by_rate") - 0.6).abs() < 0.01);
        let (least, most) = (
            figure(&record, "cores_free"),
            figure(&record, "cores_free_at_most"),
        );
        assert!(least < most && most < 1.02 * least, "{least} to {most}");
        assert!((figure(&record, "work_ns_per_packet") - 500.0).abs() < 10.0);
        assert!((figure(&record, "units_per_packet") - 250.0).abs() < 5.0);
        assert!((figure(&record, "bytes_per_s_max") / 1e8 - 1.0).abs() < 0.02);
        assert_eq!(figure(&record, "packets_per_s"), 4e5);
        assert_eq!(record.samples["cores_free"].values.len(), 6);
        assert!(record.stability.as_ref().expect("a verdict").stable);
        assert_eq!(record.counts["highest_rate_is_generators"], 0);
        // Every flag that a test has, but where it goes and what has no value.
        for parameter in TASK.parameters() {
            let is_other = [
                "part", "rate_max", "pin", "seed", "item", "backend", "buffer",
            ];
            let has = record.parameters.contains_key(&parameter.name);
            assert!(
                has || is_other.contains(&&*parameter.name),
                "{}",
                parameter.name
            );
        }
    }
}

#[test]
fn a_system_that_cannot_keep_up_has_nothing_free() {
    let args = args(&["--kind=arithmetic", "--rate=1500k"]);
    let record = &records(&args, 1.0)[0];
    assert_eq!(figure(record, "cores_free"), 0.0);
    assert!(figure(record, "cores_free_at_most") < 0.01);
    assert!(figure(record, "headroom_by_rate") < 0.0);
}

#[test]
fn wrong_usage_is_said() {
    for (words, said) in [
        (&["--size=63"][..], "from 64"),
        (&["--rate=100"], "fewer than 200 packets"),
        (&["--buffer=64"], "128 bytes"),
        (&["--width=0"], "must be above 0"),
        (&["--kind=nothing"], "arithmetic, memory, and the operators"),
        (&["--kind=aes-gcm:bits=7"], "--kind aes-gcm:bits=7"),
        (&["--pin=4000000"], "may not use such a core"),
    ] {
        let matches = TASK.command().try_get_matches_from(words).expect("flags");
        let why = (TASK.check)(&matches, &globals()).expect_err(said);
        assert!(why.message.contains(said), "{}", why.message);
        assert_eq!(why.exit as i32, 2);
    }
    let both = TASK
        .command()
        .try_get_matches_from(["--rate=5k", "--part=0.5"]);
    assert!(both.is_err());
}

#[test]
fn the_generator_has_the_first_core() {
    let pinned = args(&["--pin=5,7,9"]);
    let cores = pinned.cores(2);
    assert_eq!(
        (cores.tester.as_slice(), cores.system.as_slice()),
        (&[5][..], &[7, 9][..])
    );
    assert!(cores.are_own(2) && cores.count(2) == 2);
    let cores = pinned.cores(3);
    assert!(!cores.are_own(3) && cores.count(3) == 2);
    let cores = args(&["--pin=5"]).cores(1);
    assert!(!cores.are_own(1) && cores.count(1) == 1);
}

/// Liu et al., section II-B1, in the paper's words: "the maximum delay before bandwidth degradation is approximately 320 us", "22.8% of CPU time left", "75% to
/// 82%"; and 1 - 49.996/64.8, which 22.8 % is.
#[test]
fn the_published_rows_are_what_the_paper_states() {
    let rows = published::of_task("net headroom");
    let of = |metric: &str, number: &str| -> Vec<&Record> {
        let rows = rows.iter().filter(|row| row.summary.contains_key(metric));
        rows.filter(|row| matches!(&row.evidence, Evidence::Published { source } if source.contains(&format!("figure {number},")))).collect()
    };
    let by_rate = of("headroom_by_rate", "2");
    assert_eq!(by_rate.len(), 1);
    assert!((figure(by_rate[0], "headroom_by_rate") - 0.228).abs() < 1e-9);
    assert!((figure(by_rate[0], "headroom_by_rate") - (1.0 - 49.996 / 64.8)).abs() < 1e-3);
    let idle: Vec<f64> = of("cores_free_part", "6")
        .iter()
        .map(|row| figure(row, "cores_free_part"))
        .collect();
    let right = [0.75, 0.82];
    assert_eq!(idle.len(), right.len());
    assert!(
        idle.iter()
            .zip(right)
            .all(|(idle, right)| (idle - right).abs() < 1e-9),
        "{idle:?}"
    );
    // At 320 us the rate is what a burst of 25 packets of 10 KB in that time is, on 8 threads.
    let delayed = of("bytes_per_s", "2");
    assert_eq!(delayed.len(), 7);
    for row in &delayed {
        let Value::Int(delay_ns) = row.parameters["delay_ns"] else {
            panic!("{row:?}")
        };
        let paced = 8.0 * 25.0 * 10_000.0 / (delay_ns as f64 * 1e-9);
        let rate = figure(row, "bytes_per_s");
        assert!(rate <= paced * 1.001, "{delay_ns}: {rate} of {paced}");
        assert!(
            delay_ns < 320_000 || rate > paced * 0.999,
            "{delay_ns}: {rate} of {paced}"
        );
    }
    // The host saturates 100 Gbit/s with 5 threads, also with a delay of 8 us, and not with one of 16 us.
    let saturates = |row: &Record, name: &str| figure(row, name) * 8.0 > 97e9;
    for number in ["3", "5"] {
        for row in of("bytes_per_s_max", number)
            .iter()
            .filter(|row| row.parameters["size"] == Value::Int(836))
        {
            let Value::Int(threads) = row.parameters["threads"] else {
                panic!("{row:?}")
            };
            assert_eq!(saturates(row, "bytes_per_s_max"), threads >= 5, "{row:?}");
        }
    }
    for row in of("bytes_per_s", "4") {
        let Value::Int(delay_ns) = row.parameters["delay_ns"] else {
            panic!("{row:?}")
        };
        assert_eq!(saturates(row, "bytes_per_s"), delay_ns <= 8000, "{row:?}");
    }
}
