//! `dpb op` on devices: on a stand-in for DOCA's libraries, sound and unplugged, and where there is none.

// Parts of it are for the tests of the devices themselves.
#[allow(dead_code)]
#[path = "../../accel/tests/doca_support/stand_in.rs"]
mod stand_in;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Copies of a few sizes, on the software and on the device.
fn copies(libraries: &Path, faults: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dpb"))
        .args(["op", "copy", "--size", "64,1024", "--repeat", "2"])
        .args(["--seconds", "10ms", "--warm-up", "1ms", "--backend"])
        .args(arguments)
        .env("DPB_DOCA_LIB_DIR", libraries)
        .env("DPB_STAND_IN", faults)
        .output()
        .expect("dpb runs")
}

fn records(output: &Output) -> Vec<Value> {
    let lines = std::str::from_utf8(&output.stdout).expect("text").lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The newest release's libraries, or why they are not here.
fn libraries() -> Option<PathBuf> {
    let newest = stand_in::FLAVOURS.last().expect("three of them");
    match newest.libraries() {
        Ok(libraries) => Some(libraries),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

#[test]
fn a_stand_in_is_checked_like_any_device_and_compared_with_nothing() {
    let Some(libraries) = libraries() else { return };
    let output = copies(&libraries, "shuffle=1", &["cpu,doca", "--format", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    let records = records(&output);
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_eq!(record["outcome"]["status"], "done", "{record}");
        assert!(record["check"]["compared"].as_u64() > Some(0), "{record}");
        let is_device = record["parameters"]["backend"] == "doca";
        let library = record["provenance"]["libraries"]
            .as_object()
            .expect("by backend");
        assert_eq!(library.len(), 1, "{record}");
        assert_eq!(
            record["evidence"]["kind"] == "emulated",
            is_device || std::env::var_os("DPB_QEMU").is_some(),
            "{record}"
        );
    }

    let output = copies(&libraries, "", &["cpu,doca", "--format", "table"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("emulated"), "{table}");
    assert!(!table.contains("pays"), "emulated beside measured: {table}");
}

#[test]
fn unplugged_in_the_middle_it_is_a_failure_and_nothing_hangs() {
    let Some(libraries) = libraries() else { return };
    for faults in ["unplugged=5000", "unplugged=5000,delay=2,shuffle=1"] {
        let started = Instant::now();
        let output = copies(&libraries, faults, &["doca", "--format", "json"]);
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "{faults}: as good as hung"
        );
        assert_eq!(output.status.code(), Some(1), "{faults}: {}", said(&output));
        let records = records(&output);
        assert!(!records.is_empty(), "{faults}");
        for record in &records {
            assert_eq!(record["outcome"]["status"], "failed", "{faults}: {record}");
            let is_empty = record["summary"]
                .as_object()
                .is_some_and(|it| it.is_empty());
            assert!(is_empty, "{faults}: {record}");
        }
    }
}

#[test]
fn a_device_that_is_not_here_is_a_row_that_says_why() {
    let nowhere = tempfile::tempdir().expect("a temporary folder");
    let arguments = [
        "cpu,doca,dpdk/no_such_device,rdma/no_such_device",
        "--format",
        "json",
    ];
    let output = copies(nowhere.path(), "", &arguments);
    assert!(
        output.status.success(),
        "what could be measured was: {}",
        said(&output)
    );
    for record in records(&output) {
        let backend = record["parameters"]["backend"].as_str().expect("a name");
        let outcome = &record["outcome"];
        match backend {
            "cpu/best" => assert_eq!(outcome["status"], "done", "{record}"),
            _ => {
                assert_eq!(outcome["status"], "unsupported", "{record}");
                assert!(
                    outcome["reason"].as_str().expect("text").len() > 10,
                    "{record}"
                );
            }
        }
    }
    let output = copies(nowhere.path(), "", &["doca", "--format", "json"]);
    assert_eq!(
        output.status.code(),
        Some(3),
        "nothing was there: {}",
        said(&output)
    );
}
