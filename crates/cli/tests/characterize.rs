//! `dpb characterize`, the real program: operators on their paths by several sources, programs, refusals. What sources count of known
//! programs is tested in `dpb-insight`. Sources that are not installed are skipped, with the reason.

mod support;

use std::process::Output;

use dpb_core::measure::{Outcome, Record};
use support::text;

fn characterize(args: &[&str]) -> Output {
    support::finish(&[&["characterize"], args, &["--format", "json"]].concat())
}

fn records(args: &[&str]) -> Vec<Record> {
    support::records(&characterize(args))
}

fn of(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or(String::new(), ToString::to_string)
}

fn figure(record: &Record, name: &str) -> f64 {
    let summary = record.summary.get(name);
    summary
        .unwrap_or_else(|| panic!("no {name}: {record:?}"))
        .median
}

/// The record, if the source is here; prints why not.
fn counted(record: &Record) -> Option<&Record> {
    match &record.outcome {
        Outcome::Done => Some(record),
        Outcome::Unsupported { reason } if reason.contains("apt-get install") => {
            println!("skipped: {reason}");
            None
        }
        other => panic!("{other:?}"),
    }
}

const SMALL: [&str; 4] = ["--work", "16KiB", "--backend", "cpu/portable"];

#[test]
fn sources_agree_on_an_operator() {
    let by = |source: &str| {
        let args = [&["crc32c", "--source", source][..], &SMALL].concat();
        let mut records = records(&args);
        assert_eq!(records.len(), 1);
        records.remove(0)
    };
    let both = ["qemu", "lackey"].map(by);
    for (record, source) in both.iter().zip(["qemu", "lackey"]) {
        let Some(record) = counted(record) else {
            return;
        };
        assert_eq!(record.task, "characterize");
        assert_eq!(record.evidence.kind(), "emulated");
        assert_eq!(of(record, "operator"), "crc32c");
        assert_eq!(of(record, "backend"), "cpu/portable");
        assert_eq!(of(record, "source"), source);
        assert_eq!(of(record, "size"), "64");
        assert!(
            record
                .check
                .as_ref()
                .is_some_and(|check| check.compared == 256)
        );
        assert_eq!(record.counts["undecoded"], 0);
        assert!(figure(record, "integer_share") <= 1.0);
        // A table lookup for some bytes, and little else.
        assert!(figure(record, "load_store_share") > 0.05);
    }
    let [qemu, lackey] = &both;
    for name in [
        "instructions",
        "scalar_integer",
        "vector_integer",
        "branch",
        "load_store",
        "loads",
        "stores",
        "conditional_branches",
    ] {
        let [one, two] = [qemu, lackey].map(|record| record.counts[name]);
        // Libraries choose other code where they see another CPU; the kernel's is dpb's own.
        let allowed = 1e-3 * one as f64 + 4.0;
        assert!(
            (one.abs_diff(two) as f64) < allowed,
            "{name}: {one} and {two}"
        );
    }
}

#[test]
fn counts_are_of_the_jobs_alone() {
    let of_work = |work: &str| {
        let args = [
            "toeplitz",
            "--source",
            "qemu",
            "--backend",
            "cpu/portable",
            "--work",
            work,
        ];
        records(&args).remove(0)
    };
    let [one, two] = ["64KiB", "256KiB"].map(of_work);
    let (Some(one), Some(two)) = (counted(&one), counted(&two)) else {
        return;
    };
    let [one, two] = [one, two].map(|record| figure(record, "instructions_per_item"));
    assert!(
        (one / two - 1.0).abs() < 1e-3,
        "{one} and {two} instructions an item"
    );
}

#[test]
fn a_path_that_is_hidden_is_unsupported() {
    let args = ["sha256", "--backend", "cpu/sha-ni", "--source"];
    for source in ["qemu", "lackey"] {
        let output = characterize(&[&args[..], &[source]].concat());
        let records = support::records(&output);
        let Outcome::Unsupported { reason } = &records[0].outcome else {
            panic!("{:?}", records[0]);
        };
        assert!(!reason.is_empty());
        assert!(records[0].summary.is_empty());
        assert_eq!(of(&records[0], "backend"), "cpu/sha-ni");
        assert_eq!(output.status.code(), Some(3));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn single_steps_see_what_emulators_hide() {
    let args = [
        "sha256",
        "--backend",
        "cpu/sha-ni",
        "--source",
        "step",
        "--batch",
        "16",
    ];
    let record = records(&args).remove(0);
    match &record.outcome {
        Outcome::Done => {
            assert!(figure(&record, "crypto_share") > 0.1, "{record:?}");
            assert_eq!(record.counts["items"], 16);
        }
        Outcome::Unsupported { reason } => println!("skipped: {reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn counters_of_the_cpu_count_or_say_why_not() {
    let record = records(&[&["crc32c", "--source", "pmu"][..], &SMALL].concat()).remove(0);
    match &record.outcome {
        Outcome::Done => {
            assert_eq!(record.evidence.kind(), "measured");
            assert!(figure(&record, "instructions_per_cycle") > 0.0);
        }
        Outcome::Unsupported { reason } => {
            assert!(reason.contains("counter"), "{reason}");
            println!("skipped: {reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_are_the_same_in_both_lengths() {
    let args = ["rsa-verify", "--source", "qemu", "--mica", "--work", "64"];
    let record = records(&args).remove(0);
    let Some(record) = counted(&record) else {
        return;
    };
    // A product of 2048 bits takes some thousand instructions, and sixteen or more of them are one verification.
    let instructions = figure(record, "instructions_per_item");
    assert!(
        (10_000.0..10_000_000.0).contains(&instructions),
        "{instructions}"
    );
    assert!(figure(record, "mica_ilp_256") >= figure(record, "mica_ilp_32"));
    assert!(figure(record, "mica_multiply_share") > 0.01);
}

#[test]
fn programs_are_counted_by_the_byte() {
    let args = [
        "--program",
        "sha256sum {input}",
        "--program",
        "no-such-program",
        "--work",
        "16KiB",
    ];
    let records = records(&[&args[..], &["--source", "qemu"]].concat());
    assert_eq!(records.len(), 2);
    let Outcome::Unsupported { reason } = &records[1].outcome else {
        panic!("{:?}", records[1]);
    };
    if !reason.contains("apt-get install") {
        assert!(reason.contains("not installed"), "{reason}");
    }
    let Some(record) = counted(&records[0]) else {
        return;
    };
    assert_eq!(record.counts["items"], 16 << 10);
    // SHA-256 has 64 steps for 64 bytes; each takes some instructions.
    let instructions = figure(record, "instructions_per_item");
    assert!((1.0..200.0).contains(&instructions), "{instructions}");
}

#[test]
fn programs_on_packets_get_a_capture() {
    let ports = "--port capture:{capture} --port capture:,/dev/null";
    let [forward, encrypt] =
        ["forward", "encrypt --seed 1"].map(|name| format!("dpb net {name} {ports}"));
    let programs = ["--program", &forward, "--program", &encrypt];
    let rest = ["--work", "16KiB", "--source", "qemu"];
    let records = records(&[&programs[..], &rest].concat());
    let counted: Vec<&Record> = records.iter().filter_map(counted).collect();
    let [forward, encrypt] = counted[..] else {
        return;
    };
    // 32 frames of 512 bytes, of which those that open a connection are shorter.
    assert!((8 << 10..17 << 10).contains(&forward.counts["items"]));
    let instructions = [forward, encrypt].map(|record| figure(record, "instructions_per_item"));
    assert!(instructions[0] > 0.1 && instructions[1] > 2.0 * instructions[0]);
}

#[test]
fn what_cannot_be_is_refused() {
    for (args, code, why) in [
        (&["no-such-operator"][..], 2, "no operator"),
        (&["crc32c", "--backend", "no/such"], 2, "dpb list backends"),
        (&["crc32c", "--l1d", "1,2"], 2, "SIZE,ASSOCIATIVITY,LINE"),
        (&["crc32c", "--batch", "4000000000"], 2, "64 MiB"),
        (&["crc32c", "--input", "/dev/null"], 2, "--longer"),
        (&["crc32c", "--backend", "pool/2"], 3, "no path of this CPU"),
        (&[], 2, "required"),
    ] {
        let output = characterize(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let output = support::finish(&["characterized", "{}"]);
    assert_eq!(output.status.code(), Some(2));
}
