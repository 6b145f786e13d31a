//! `dpb memory`, the real program: single values and sweeps, refusals, formats, sysbench beside it.

mod support;

use std::process::{Command, Output};

use dpb_core::measure::{Outcome, Record};
use support::text;

const TIMES: [&str; 6] = ["--seconds", "5ms", "--warm-up", "1ms", "--repeat", "3"];

fn memory(args: &[&str]) -> Output {
    support::finish(&[&["memory"], args, &TIMES].concat())
}

/// The records of a run that went well.
fn records(args: &[&str]) -> Vec<Record> {
    let output = memory(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    support::records(&output)
}

fn of(record: &Record, name: &str) -> String {
    record
        .parameters
        .get(name)
        .map_or(String::new(), ToString::to_string)
}

#[test]
fn a_sweep_has_a_record_for_each_test_with_its_parameters() {
    let swept = records(&["--size", "16KiB,64KiB", "--threads", "1,2"]);
    let found: Vec<String> = swept
        .iter()
        .map(|record| {
            ["size", "threads", "pattern", "access"]
                .map(|name| of(record, name))
                .join(" ")
        })
        .collect();
    let mut expected = Vec::new();
    for size in ["16384", "65536"] {
        for threads in ["1", "2"] {
            for work in [
                "random read",
                "random write",
                "sequential read",
                "sequential write",
            ] {
                expected.push(format!("{size} {threads} {work}"));
            }
        }
    }
    assert_eq!(found, expected);
    for record in &swept {
        assert_eq!(
            (record.task.as_str(), &record.outcome),
            ("memory", &Outcome::Done)
        );
        assert_eq!(of(record, "tool"), "dpb");
        assert_eq!(record.evidence.kind(), "measured");
        assert_eq!(record.samples["accesses_per_s"].values.len(), 3);
        let accesses = record.counts["accesses"];
        assert_eq!(record.counts["bytes"], 8 * accesses);
        assert_eq!(record.check.as_ref().expect("checked").compared, accesses);
        assert_eq!(record.counts["huge_page_bytes"], 0);
        assert!(record.stability.is_some());
    }
}

#[test]
fn single_values_do_as_a_box_of_tests_gives_them() {
    let of_chain = records(&[
        "--size",
        "64KiB",
        "--pattern",
        "chain",
        "--access",
        "read",
        "--threads",
        "2",
        "--pages",
        "normal",
    ]);
    assert_eq!(of_chain.len(), 1);
    assert!(of_chain[0].summary["ns_per_access"].median > 0.0);
    assert!(
        !of_chain[0].summary.contains_key("bytes_per_s"),
        "a chain moves lines, not words"
    );
    let kernels = records(&["--size", "256KiB", "--kernel", "copy,scale,add,triad"]);
    let names: Vec<String> = kernels.iter().map(|record| of(record, "kernel")).collect();
    assert_eq!(names, ["copy", "scale", "add", "triad"]);
    assert!(
        kernels
            .iter()
            .all(|record| record.counts["bytes"] > 0 && of(record, "pattern").is_empty())
    );
    // Another seed is another chain, and right all the same.
    assert_eq!(
        records(&["--size", "64KiB", "--pattern", "chain", "--seed", "9"])[0]
            .provenance
            .seed,
        9
    );
}

#[test]
fn huge_pages_are_had_or_are_a_finding() {
    let output = memory(&[
        "--size",
        "4MiB",
        "--pattern",
        "sequential",
        "--access",
        "read",
        "--pages",
        "huge",
    ]);
    let records = support::records(&output);
    match &records[0].outcome {
        Outcome::Done => assert!(records[0].counts["huge_page_bytes"] > 0),
        Outcome::Unsupported { reason } => {
            println!("skipped: huge pages: {reason}");
            assert_eq!(output.status.code(), Some(3));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let refused = |args: &[&str], code: i32, why: &str| {
        let output = memory(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(output.stdout.is_empty() && said.contains(why), "{said}");
    };
    refused(&["--size", "16KiB,1024TiB"], 3, "1125899906842624 bytes");
    refused(&["--size", "1000"], 2, "multiples of 64");
    refused(
        &["--size", "16KiB", "--pin", "4095"],
        2,
        "may not use such a core",
    );
    refused(&["--pattern", "zigzag"], 2, "chain");
    // A chain is not written, and that is said.
    let output = memory(&["--size", "16KiB", "--pattern", "chain", "--access", "write"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("--access read"));
}

#[test]
fn tables_and_csv_have_a_row_for_each_test() {
    let shown = |format: &str| {
        let output = memory(&[
            "--size",
            "16KiB",
            "--pattern",
            "random,chain",
            "--access",
            "read",
            "--format",
            format,
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let table = shown("table");
    assert!(
        table.contains("random read")
            && table.contains("chain read")
            && table.contains("an access"),
        "{table}"
    );
    let csv = support::csv(&shown("csv"));
    assert_eq!(csv.len(), 3);
    let column = csv[0]
        .iter()
        .position(|title| title == "ns_per_access")
        .expect("a column");
    assert!(csv[1][column].is_empty() && csv[2][column].parse::<f64>().is_ok_and(|ns| ns > 0.0));
    assert!(shown("markdown").starts_with("| accesses |"));
}

#[test]
fn sysbench_beside_has_records_of_its_own() {
    if Command::new("sysbench").arg("--version").output().is_err() {
        println!("skipped: sysbench is not here; apt-get install sysbench");
        return;
    }
    let args = [
        "--size",
        "16KiB",
        "--pattern",
        "sequential,chain",
        "--access",
        "read",
        "--beside",
        "--repeat",
        "1",
    ];
    let output = support::finish(&[&["memory"], &args[..], &TIMES[..4]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = support::records(&output);
    let tools: Vec<String> = records.iter().map(|record| of(record, "tool")).collect();
    assert_eq!(tools, ["dpb", "sysbench", "dpb", "sysbench"]);
    let theirs = &records[1];
    assert_eq!(
        (theirs.task.as_str(), &theirs.outcome),
        ("memory", &Outcome::Done)
    );
    let figure = |name: &str| theirs.summary[name].median;
    // Its own line gives the bytes; an access is eight of them.
    assert!((figure("bytes_per_s") / figure("accesses_per_s") - 8.0).abs() < 1e-6);
    assert!(figure("bytes_per_s") > 1e6);
    assert!(
        theirs
            .provenance
            .command
            .iter()
            .any(|word| word == "--memory-block-size=16384")
    );
    assert!(theirs.provenance.libraries.contains_key("sysbench"));
    // What it does not measure is said, not left out.
    assert!(
        matches!(&records[3].outcome, Outcome::Unsupported { reason } if reason.contains("chains"))
    );
}
