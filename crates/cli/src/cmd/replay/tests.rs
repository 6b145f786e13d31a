//! The command lines that replay a record.

use dpb_core::measure::Evidence;
use tempfile::TempDir;

use super::*;
use crate::TASKS;

/// A record of `task` whose process had the words `command`, with these parameters.
fn record(task: &str, command: &[&str], parameters: &[(&str, &str)]) -> Record {
    let blank = Record::new(task, Evidence::Measured, 1);
    let mut record = parameters
        .iter()
        .fold(blank, |record, &(name, value)| record.with(name, value));
    let words = ["/usr/bin/dpb", "--quiet", task].into_iter();
    let words = words.chain(command.iter().copied());
    record.provenance.command = words.map(str::to_owned).collect();
    record
}

fn replayed(record: &Record, instead: &[&str]) -> Result<Vec<String>, String> {
    let instead: Vec<String> = instead.iter().map(|word| (*word).to_owned()).collect();
    words(record, TASKS, &instead).map_err(|failure| failure.message)
}

#[test]
fn a_server_on_loopback_is_started_anew() {
    let command = ["--size", "64,128", "--engine=sockets,io_uring"];
    let parameters = [
        ("server", "loopback"),
        ("size", "128"),
        ("engine", "io_uring"),
    ];
    let words = replayed(&record("tcp", &command, &parameters), &[]);
    assert_eq!(
        words.expect("words"),
        ["tcp", "--size=128", "--engine=io_uring"]
    );
    let words = replayed(&record("pushdown", &[], &[("server", "loopback")]), &[]);
    assert_eq!(words.expect("words"), ["pushdown"]);
}

#[test]
fn a_server_elsewhere_is_met_again_with_what_lets_in() {
    let folder = TempDir::new().expect("a folder");
    let pass = folder.path().join("pass");
    for (task, flag) in [
        ("tcp", "--token-file"),
        ("pushdown", "--token-file"),
        ("pushdown", "--credentials"),
    ] {
        std::fs::write(&pass, "0123456789abcdef").expect("a file");
        let given = format!("{flag}={}", pass.display());
        // A box of several machines names the server's machine, not its address.
        let record = record(
            task,
            &["--server=10.0.0.2:7500", &given],
            &[("server", "dpu")],
        );
        let words = replayed(&record, &[]).expect("words");
        assert_eq!(words.len(), 3, "{words:?}");
        for word in ["--server=10.0.0.2:7500", &given] {
            assert!(words.iter().any(|had| had == word), "{words:?}");
        }
        std::fs::remove_file(&pass).expect("it was there");
        let why = replayed(&record, &[]).expect_err("no secret");
        assert!(why.contains(&format!("-- {flag}=FILE")), "{why}");
        let other = format!("{flag}=elsewhere");
        let instead = ["--server=dpu:1", &other];
        let words = replayed(&record, &instead).expect("words");
        assert_eq!(words, [task, "--server=dpu:1", &other]);
    }
}

#[test]
fn storage_works_where_it_worked() {
    let parameters = [
        ("file", "storage.dpb"),
        ("block", "16384"),
        ("direct", "false"),
    ];
    for (command, place) in [
        (&["--block=8KiB,16KiB"][..], &[][..]),
        (
            &["--file", "/mnt/a/storage.dpb", "--keep"],
            &["--file=/mnt/a/storage.dpb", "--keep"],
        ),
        (&["--data-dir=/mnt/b"], &["--data-dir=/mnt/b"]),
    ] {
        let words = replayed(&record("storage", command, &parameters), &[]).expect("words");
        let mut expected = vec!["storage"];
        expected.extend(place);
        expected.extend(["--block=16384", "--direct=false"]);
        assert_eq!(words, expected);
    }
}
