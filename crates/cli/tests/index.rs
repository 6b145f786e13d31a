//! `dpb index` as processes: splits, engines and workloads, an agent elsewhere, and a DPU's side that is killed.

mod support;

use std::os::unix::fs::OpenOptionsExt;
use std::process::{Output, Stdio};
use std::thread;
use std::time::Duration;

use dpb_core::measure::{Outcome, Record};
use rustix::process::{Pid, Signal, kill_process};
use support::{Agent, children, csv, dpb, finish, records, runs, text, wait_until};

/// As small and short as a test may be that has figures.
const SMALL: [(&str, &str); 5] = [
    ("--records", "3000"),
    ("--value-bytes", "100"),
    ("--seconds", "60ms"),
    ("--warm-up", "10ms"),
    ("--repeat", "2"),
];

/// The flags of a small test, but for those that are given.
fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let own = SMALL.iter().filter(|(flag, _)| !more.contains(flag));
    let own = own.flat_map(|&(flag, value)| [flag, value]);
    ["index"]
        .into_iter()
        .chain(own)
        .chain(more.iter().copied())
        .collect()
}

fn index(more: &[&str]) -> Output {
    finish(&small(more))
}

fn parameter(record: &Record, name: &str) -> String {
    record.parameters[name].to_string()
}

fn median(record: &Record, name: &str) -> f64 {
    let summary = record.summary.get(name);
    summary
        .unwrap_or_else(|| panic!("{name} of {:?}", record.summary))
        .median
}

/// The records of a command that went well.
fn done(more: &[&str]) -> Vec<Record> {
    let output = index(more);
    assert!(
        output.status.success(),
        "{more:?}: {}",
        text(&output.stderr)
    );
    let records = records(&output);
    for record in &records {
        assert_eq!(
            (record.task.as_str(), &record.outcome),
            ("index", &Outcome::Done),
            "{more:?}"
        );
        assert_eq!(
            record.check.as_ref().expect("checked").compared,
            record.counts["requests"]
        );
        assert!(
            record.counts["requests"] > 0 && median(record, "requests_per_s") > 0.0,
            "{more:?}"
        );
        assert_eq!(record.counts["requests_failed"], 0, "{more:?}");
    }
    records
}

#[test]
fn each_side_has_its_share_of_uniform_requests() {
    let records = done(&["--split", "10:1,1:0,0:1,1:1", "--distribution", "uniform"]);
    let expected = [
        ("10:1", 1.0 / 11.0),
        ("1:0", 0.0),
        ("0:1", 1.0),
        ("1:1", 0.5),
    ];
    assert_eq!(records.len(), expected.len());
    for (record, (split, share)) in records.iter().zip(expected) {
        assert_eq!(parameter(record, "split"), split);
        let found = median(record, "dpu_share");
        // Marks are quantiles of a sample.
        assert!((found - share).abs() < 0.04, "{split}: {found}");
        assert_eq!(
            record.counts["lookups_found"], record.counts["requests"],
            "all records are there"
        );
        let has_dpu = record.summary.contains_key("dpu_cpu_ns_per_request");
        assert_eq!(has_dpu, split != "1:0");
        assert_eq!(record.counts["dpu_index_bytes"] > 0, split != "1:0");
    }
}

#[test]
fn all_workloads_go_through_both_engines() {
    let records = done(&[
        "--workload",
        "a,b,c,d,e,f",
        "--engine",
        "tree,lmdb",
        "--split",
        "3:1",
        "--host-threads",
        "2",
    ]);
    assert_eq!(records.len(), 12);
    for record in &records {
        let is_scanned = parameter(record, "workload") == "e";
        assert_eq!(record.counts["rows"] > 0, is_scanned);
        let durability = match parameter(record, "engine").as_str() {
            "tree" => "volatile",
            _ => "none",
        };
        assert_eq!(parameter(record, "durability"), durability);
    }
}

#[test]
fn one_request_at_a_time_an_open_loop_and_integer_keys() {
    let alone = &done(&["--batch", "1", "--split", "1:1"])[0];
    assert_eq!(parameter(alone, "window"), "1");
    let open = &done(&[
        "--mode",
        "open",
        "--rate",
        "5k",
        "--keys",
        "integer",
        "--workload",
        "b",
    ])[0];
    let rate = median(open, "requests_per_s");
    // 300 requests are due in a run, and their gaps are exponential.
    assert!((3000.0..=7000.0).contains(&rate), "{rate}");
    let table = index(&["--split", "1:0,1:1", "--format", "csv"]);
    let rows = csv(&text(&table.stdout));
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!(rows[0][0], "engine");
}

#[test]
fn an_adaptive_split_moves_and_loses_nothing() {
    let record = &done(&[
        "--adaptive",
        "--split",
        "1:1",
        "--workload",
        "a",
        "--seconds",
        "0.5",
    ])[0];
    assert!(record.counts["pieces_moved"] > 0, "{:?}", record.counts);
}

#[test]
fn an_agent_elsewhere_serves_who_shows_its_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&token)
        .expect("a file");
    std::io::Write::write_all(&mut file, b"a token of enough bytes\n").expect("written");
    let token = token.to_str().expect("a path");
    let agent = Agent::start(&["--token-file", token, "--index-memory", "80MB"]);
    let records = done(&["--server", &agent.address, "--token-file", token]);
    assert_eq!(parameter(&records[0], "server"), agent.address);
    assert!(records[0].provenance.libraries["dpu"].contains(&agent.address));
    let without = index(&["--server", &agent.address]);
    assert_eq!(without.status.code(), Some(3), "{}", text(&without.stderr));
    // What does not fit there is refused with both figures, before anything is loaded.
    let too_large = index(&[
        "--server",
        &agent.address,
        "--token-file",
        token,
        "--split",
        "1:99",
        "--records",
        "1000000",
    ]);
    let said = text(&too_large.stderr);
    assert_eq!(too_large.status.code(), Some(3), "{said}");
    assert!(said.contains("--index-memory"), "{said}");
}

/// A run whose DPU's process is killed in the middle of it.
fn killed(more: &[&str]) -> Output {
    let longer = [&["--seconds", "1", "--repeat", "3", "--split", "1:1"], more].concat();
    let mut command = dpb(&small(&longer));
    let run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dpb starts");
    let pid = run.id();
    assert!(
        wait_until(Duration::from_secs(20), || children(pid).len() == 1),
        "a process for the DPU's side"
    );
    let dpu = children(pid)[0];
    thread::sleep(Duration::from_millis(1200));
    assert!(runs(dpu), "it serves");
    kill_process(Pid::from_raw(dpu as i32).expect("a process"), Signal::KILL).expect("it is ours");
    run.wait_with_output().expect("it ends")
}

#[test]
fn a_dpu_side_that_is_killed_is_an_error_or_the_hosts() {
    let output = killed(&[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the DPU's side is gone") && said.contains("--failover"),
        "{said}"
    );
    let output = killed(&["--failover", "--workload", "a"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = &records(&output)[0];
    assert_eq!(
        (&record.outcome, record.counts["requests_failed"]),
        (&Outcome::Done, 0)
    );
    assert_eq!(record.counts["dpu_failures"], 1);
    assert!(median(record, "dpu_share") < 0.5);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_loaded() {
    for (args, code, says) in [
        (&["--records", "100000000000"][..], 2, "records"),
        (
            &["--records", "2000000000", "--value-bytes", "1MB"],
            3,
            "of memory",
        ),
        (
            &[
                "--records",
                "10000000",
                "--value-bytes",
                "1MB",
                "--engine",
                "lmdb",
            ],
            3,
            "are free",
        ),
        (&["--value-bytes", "8"], 2, "24"),
        (&["--split", "ten"], 2, "10:1"),
        (&["--split", "0:0"], 2, "10:1"),
        (&["--rate", "5k"], 2, "--mode open"),
        (&["--adaptive", "--split", "1:0"], 2, "10:1"),
        (&["--batch", "100000"], 2, "4096"),
    ] {
        let output = index(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
}
