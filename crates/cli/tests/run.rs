//! `dpb run` and `dpb replay`, as processes.

mod support;

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dpb_core::measure::{Outcome, Reading, Record};
use dpb_core::random::SplitMix64;
use support::boxes::{TINY, dpb, files, output, plugin, printed, records, script, tests, text};
use tempfile::TempDir;

#[test]
fn a_box_is_measured_and_reported() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    fs::write(at.join("tiny.json"), TINY).expect("written");
    let dry = output(at, &["run", "tiny.json", "--dry-run", "--format", "table"]);
    assert!(text(&dry.stdout).contains("op") && text(&dry.stderr).contains("8 tests, about"));
    assert!(!at.join("tiny-results").exists(), "a dry run makes nothing");
    let table = printed(at, &["run", "tiny.json", "--format", "table"]);
    assert!(
        table.contains("items per s") && !table.contains("bytes per s"),
        "{table}"
    );
    let results = at.join("tiny-results");
    let measured = records(&results);
    assert_eq!(measured.len(), 8);
    for record in &measured {
        assert_eq!(record.outcome, Outcome::Done);
        assert_eq!(record.provenance.seed, 5);
        assert_eq!(record.samples["items_per_s"].values.len(), 2);
        assert_eq!(
            record.provenance.run, measured[0].provenance.run,
            "one run of a box"
        );
    }
    assert!(
        fs::read_to_string(results.join("report.html"))
            .expect("a report")
            .contains("toeplitz")
    );
    // The next run has a folder of its own, unless one is named that is complete.
    printed(
        at,
        &[
            "run",
            "tiny.json",
            "--filter",
            "size=64",
            "--filter",
            "operator=crc32c",
        ],
    );
    assert_eq!(records(&at.join("tiny-results-2")).len(), 2);
    let again = output(at, &["run", "tiny.json", "--out", "tiny-results"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("has all results"),
        "{}",
        text(&again.stderr)
    );
    let unknown = output(at, &["run", "tiny.json", "--filter", "colour=red"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn a_budget_chooses_the_number_of_runs() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    fs::write(at.join("tiny.json"), TINY).expect("written");
    printed(
        at,
        &[
            "run",
            "tiny.json",
            "--time-budget",
            "1ms",
            "--shuffle",
            "--out",
            "few",
        ],
    );
    for record in records(&at.join("few")) {
        assert_eq!(record.samples["items_per_s"].values.len(), 3, "the fewest");
    }
    let dry = printed(
        at,
        &[
            "run",
            "tiny.json",
            "--time-budget",
            "10h",
            "--dry-run",
            "--format",
            "json",
        ],
    );
    assert!(dry.contains("\"repeats\":31"), "{dry}");
}

#[test]
fn what_was_killed_goes_on_to_the_same_records() {
    const KILLS: usize = 50;
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    // Tests of tasks, two of which make data, and of a plug-in that prepares something.
    let own = plugin(
        at,
        "slow",
        r#"sleep 0.05; echo '{"samples":{"bytes_per_s":[1e6,2e6]}}'"#,
    );
    let state = r#"state=$(sed -n '1s/.*"state":"\([^"]*\)".*/\1/p')"#;
    let prepare = format!("{state}; sleep 0.05; echo made > $state/data");
    script(&own.join("prepare"), &prepare);
    script(&own.join("clean"), &format!("{state}; rm -f $state/data"));
    let slow = r#", { "task": "slow", "parameters": { "size": [1, 2, 3] } },
        { "task": "storage", "parameters": { "file_size": "4MiB", "engine": "sync", "access": "read", "pattern": "random", "block": "4KiB", "depth": 1,
            "seconds": "10ms", "warm_up": "1ms" } },
        { "task": "pushdown", "parameters": { "sf": 0.01, "schemes": "dpb", "threads": 1, "selectivity": 0.1 } } ] }"#;
    let asked = TINY
        .strip_suffix(" ] }")
        .expect("its last brackets")
        .to_owned()
        + slow;
    fs::write(at.join("tiny.json"), asked).expect("written");
    let run = |out: &str| {
        dpb(
            at,
            &["run", "tiny.json", "--plugins", "plugins", "--out", out],
        )
    };
    let whole = run("whole").output().expect("dpb runs");
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let expected = tests(&records(&at.join("whole")));
    assert_eq!(expected.len(), 8 + 3 + 2);
    let mut random = SplitMix64::new(11);
    let (mut kills, mut boxes) = (0, 0);
    while kills < KILLS {
        let out = format!("killed-{boxes}");
        loop {
            let mut child = run(&out)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("dpb runs");
            if kills < KILLS {
                sleep(Duration::from_millis(random.next_u64() % 500));
                child.kill().expect("it can be killed");
            }
            let status = child.wait().expect("it ended");
            // One that was killed behind its last test is complete, and refuses to go on.
            if status.success() || (kills > 0 && status.code() == Some(2)) {
                break;
            }
            assert_eq!(status.code(), None, "it ended by itself");
            kills += 1;
        }
        assert_eq!(tests(&records(&at.join(&out))), expected);
        let left: Vec<String> = files(&at.join(&out)).into_keys().collect();
        assert!(left.iter().all(|name| !name.ends_with(".tmp")), "{left:?}");
        boxes += 1;
    }
    printed(at, &["clean"]);
    assert!(!at.join("data").exists(), "{:?}", files(&at.join("data")));
}

#[test]
fn an_interrupt_leaves_whole_tests() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let slow = TINY.replace("10ms", "2s");
    fs::write(at.join("tiny.json"), slow).expect("written");
    let mut child = dpb(at, &["run", "tiny.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dpb runs");
    let patience = Instant::now() + Duration::from_secs(60);
    while !at.join("tiny-results/box.json").exists() {
        assert!(Instant::now() < patience, "it does not begin");
        sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signalled");
    assert_eq!(child.wait().expect("it ended").code(), Some(130));
    for record in records(&at.join("tiny-results")) {
        assert_eq!(record.outcome, Outcome::Done);
    }
}

#[test]
fn a_box_that_another_version_began_says_so() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    fs::write(at.join("b.json"), TINY).expect("written");
    printed(at, &["run", "b.json", "--out", "out"]);
    let (first, second) = (
        at.join("out/tests/000000.jsonl"),
        at.join("out/tests/000001.jsonl"),
    );
    let line = fs::read_to_string(&first).expect("there");
    let mut record: serde_json::Value = serde_json::from_str(line.trim()).expect("JSON");
    record["provenance"]["dpb_version"] = "0.0.1-before".into();
    fs::write(&first, format!("{record}\n")).expect("written");
    fs::remove_file(second).expect("there");
    let output = output(at, &["run", "b.json", "--out", "out"]);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(err.contains("begun by dpb 0.0.1-before"), "{err}");
    let marked = |record: &Record| {
        let begun_by = record.provenance.libraries.get("box begun by");
        begun_by.is_some_and(|by| by == "dpb 0.0.1-before")
    };
    let marked: Vec<bool> = records(&at.join("out")).iter().map(marked).collect();
    assert_eq!(marked.iter().filter(|is_marked| **is_marked).count(), 1);
    assert!(marked[1], "the test that ran now");
}

#[test]
fn a_record_is_replayed() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    printed(
        at,
        &[
            "op",
            "deflate",
            "--parameters",
            "level=1",
            "--parameters",
            "level=6",
            "--size",
            "64,1KiB",
            "--backend",
            "cpu/best",
            "--seconds",
            "10ms",
            "--repeat",
            "2",
            "--out",
            "records.jsonl",
            "--format",
            "json",
        ],
    );
    let all = records(at);
    assert_eq!(all.len(), 4);
    let last = &all[3];
    let shown = printed(at, &["replay", "records.jsonl", "--id", &last.id, "--show"]);
    assert!(
        shown.contains("--parameters=format=raw,level=6 --size=1024"),
        "{shown}"
    );
    let words: Vec<&str> = shown.split_whitespace().skip(1).collect();
    assert!(
        words.contains(&"--repeat=2") && words.contains(&"deflate"),
        "{shown}"
    );
    printed(
        at,
        &[
            "replay",
            "records.jsonl",
            "--id",
            &last.id,
            "--out",
            "again.jsonl",
        ],
    );
    let again = Reading::of_file(&at.join("again.jsonl"))
        .expect("records")
        .records;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].record.parameters, last.parameters);
    let none = output(at, &["replay", "records.jsonl", "--id", "nothing"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn records_of_every_loop_are_replayed() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let runs = ["--seconds=10ms", "--warm-up=1ms", "--repeat=2"];
    let quick = |words: &[&str]| {
        let to = ["--out=records.jsonl", "--quiet"];
        printed(at, &[words, &runs, &to].concat());
    };
    quick(&[
        "memory",
        "--size=16KiB,1KiB",
        "--pattern=chain,random",
        "--access=write,read",
    ]);
    quick(&[
        "storage",
        "--file-size=1MiB",
        "--block=4KiB,8KiB",
        "--engine=sync",
        "--access=mixed",
        "--read-share=30%,60%",
        "--fsync=end",
    ]);
    quick(&[
        "tcp",
        "--size=64,128",
        "--depth=1,2",
        "--direction=echo,send",
    ]);
    let all = records(at);
    for task in ["memory", "storage", "tcp"] {
        // A chain that is written is no test.
        let mut own = all
            .iter()
            .filter(|record| record.task == task && record.outcome == Outcome::Done);
        let last = own.next_back().expect("a record");
        let _ = fs::remove_file(at.join("again.jsonl"));
        printed(
            at,
            &[
                "replay",
                "records.jsonl",
                "--id",
                &last.id,
                "--out=again.jsonl",
            ],
        );
        let again = Reading::of_file(&at.join("again.jsonl")).expect("records");
        let again: Vec<Record> = again.records.into_iter().map(|line| line.record).collect();
        assert_eq!(
            tests(&again),
            std::slice::from_ref(&last.parameters),
            "{task}"
        );
    }
    // The file of storage was in the data directory, and is gone.
    let mut names: Vec<String> = files(at).into_keys().collect();
    names.sort();
    assert_eq!(names, ["again.jsonl", "data/", "records.jsonl"]);
}

#[test]
fn tests_of_storage_share_one_file() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let text = r#"{ "tasks": [ { "task": "storage", "parameters": { "file_size": "1MiB", "engine": "sync",
        "block": ["4KiB", "8KiB"], "access": ["write", "read"], "pattern": "random", "seconds": "10ms" } } ] }"#;
    fs::write(at.join("b.json"), text).expect("written");
    printed(at, &["run", "b.json", "--repeat=2"]);
    let all = records(&at.join("b-results"));
    let leaves = all.iter().map(|record| {
        assert_eq!(record.outcome, Outcome::Done);
        let words = &record.provenance.command;
        words.iter().any(|word| word == "--keep-for-next")
    });
    assert_eq!(leaves.collect::<Vec<_>>(), [true, true, true, false]);
    assert!(!at.join("data/storage.dpb").exists());
    // Its replay leaves nothing either.
    printed(at, &["replay", "b-results/records.jsonl"]);
    assert!(!at.join("data/storage.dpb").exists());
}
