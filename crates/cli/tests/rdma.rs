//! `dpb rdma` where there is no device: what is wrong is said, with the right exit code. What it measures is tested where there
//! is one, by `cargo xtask vm rdma`.

use std::process::{Command, Output};

fn dpb(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_dpb")).args(args).output();
    output.expect("dpb starts")
}

fn assert_ends(args: &[&str], code: i32, says: &str) {
    let output = dpb(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn a_device_that_is_not_there_is_not_available() {
    let away = ["rdma", "lat", "--verb", "read", "--device", "no-such"];
    // With the library, the device is missing; without it, the library is.
    assert_ends(&[&away[..], &["127.0.0.1"]].concat(), 3, "; ");
    assert_ends(&[&away[..], &["--server"]].concat(), 3, "; ");
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let rdma = |rest: &[&'static str]| [&["rdma"], rest, &["--device", "no-such"]].concat();
    let cases: [(&[&str], &str); 7] = [
        (&["lat", "--verb", "read"], "--server"),
        (&["lat", "--verb", "read", "host", "--server"], "--server"),
        (&["lat", "host"], "--verb"),
        (
            &["lat", "--verb", "send", "host", "--depth", "4"],
            "one request in flight",
        ),
        (&["bw", "--verb", "send", "host", "--chain", "200"], "chain"),
        (
            &[
                "bw",
                "--verb",
                "read",
                "host",
                "--iterations",
                "1000000",
                "--repeat",
                "200",
            ],
            "200000000 messages",
        ),
        (
            &["bw", "--verb", "send", "host", "--size", "64,2"],
            "sizes ascend",
        ),
    ];
    for (rest, says) in cases {
        assert_ends(&rdma(rest), 2, says);
    }
}

#[test]
fn perftests_columns_are_of_this_verb_alone() {
    assert_ends(&["list", "--format", "perftest"], 2, "dpb rdma");
}
