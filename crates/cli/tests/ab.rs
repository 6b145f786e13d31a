//! `dpb ab`: verdicts, exit codes, records, and commands that misbehave.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use dpb_core::measure::{Outcome, Reading, Record, Value};
use rustix::process::{Pid, Signal, kill_process};

fn ab(args: &[&str]) -> Output {
    let output = command(args).output();
    output.expect("dpb starts")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpb"));
    command.arg("ab").args(args);
    command
}

/// Compares what two shell scripts print.
fn printed(flags: &[&str], a: &str, b: &str) -> Output {
    let commands = ["--", "sh", "-c", a, "--", "sh", "-c", b];
    ab(&[&["--measure", "stdout"], flags, &commands[..]].concat())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn record(output: &Output) -> Record {
    serde_json::from_slice(&output.stdout).expect("a record")
}

fn verdict(output: &Output) -> String {
    match &record(output).parameters["verdict"] {
        Value::Text(verdict) => verdict.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_better_depends_on_what_is_measured() {
    let slower = printed(&[], "echo 100", "echo 103");
    assert!(slower.status.success(), "{}", text(&slower.stderr));
    assert_eq!(verdict(&slower), "worse");
    let record = record(&slower);
    assert!((record.summary["ratio"].median - 1.03).abs() < 1e-9);
    assert_eq!(record.samples["a_stdout"].values, vec![100.0; 10]);
    assert_eq!(
        record.samples["ratio"].values.len() as u64,
        record.counts["pairs"]
    );
    let faster = printed(&["--more-is-better"], "echo 100", "echo 103");
    assert_eq!(verdict(&faster), "better");
    let same = printed(&[], "echo 100", "echo 100.5");
    assert_eq!(verdict(&same), "same");
    let table = printed(&["--format", "table"], "echo 100", "echo 103");
    let table = text(&table.stdout);
    assert!(
        table.contains("B is worse than A: B/A is 1.0300"),
        "{table}"
    );
    assert!(table.contains("sh -c 'echo 103'"), "{table}");
}

#[test]
fn a_regression_is_an_exit_code() {
    let limit = |limit| {
        printed(&["--fail-on", limit], "echo 100", "echo 103")
            .status
            .code()
    };
    assert_eq!(limit("worse:2%"), Some(1));
    assert_eq!(limit("worse:5%"), Some(0));
    assert_eq!(limit("slower"), Some(2));
}

#[test]
fn a_model_beside_itself_is_the_same_and_what_it_gives_is_simulated() {
    let op = |backend: &'static str| {
        let dpb = env!("CARGO_BIN_EXE_dpb");
        let times = [
            "--seconds",
            "2ms",
            "--warm-up",
            "1ms",
            "--repeat",
            "3",
            "--batch",
            "4",
        ];
        [
            &[
                dpb,
                "op",
                "crc32c",
                "--size",
                "64",
                "--format",
                "json",
                "--backend",
                backend,
            ][..],
            &times,
        ]
        .concat()
    };
    let flags = ["--measure", "items_per_s", "--warm-up-runs", "0", "--"];
    let compare = |a, b| ab(&[&flags[..], &op(a), &["--"], &op(b)].concat());
    let same = compare("sim/default", "sim/default");
    assert_eq!(verdict(&same), "same", "{}", text(&same.stderr));
    let kind = serde_json::to_value(record(&same).evidence).expect("JSON");
    assert_eq!(kind["kind"], "simulated");
    let mixed = compare("sim/default", "cpu/portable");
    assert_eq!(mixed.status.code(), Some(2));
    assert!(
        text(&mixed.stderr).contains("different evidence"),
        "{}",
        text(&mixed.stderr)
    );
}

#[test]
fn commands_that_fail_are_named() {
    let failed = printed(&[], "echo 1", "echo lost >&2; exit 3");
    assert_eq!(failed.status.code(), Some(1));
    let why = text(&failed.stderr);
    assert!(
        why.contains("B, `sh -c") && why.contains("exit status: 3") && why.contains("lost"),
        "{why}"
    );
    let wordless = printed(&[], "echo 1", "true");
    assert!(text(&wordless.stderr).contains("printed no number"));
    let negative = printed(&[], "echo 1", "echo -1");
    assert!(text(&negative.stderr).contains("gives no ratio"));
    let missing = ab(&["--", "true", "--", "./not-there"]);
    // qemu-user does not tell a process that a program could not be started; the child ends with 127 instead.
    let why = match std::env::var_os("DPB_QEMU") {
        None => "there is no such program",
        Some(_) => "exit status: 127",
    };
    assert!(
        text(&missing.stderr).contains(why),
        "{}",
        text(&missing.stderr)
    );
    let one = ab(&["--", "true"]);
    assert_eq!(one.status.code(), Some(2));
    assert!(
        text(&one.stderr).contains("there are 1"),
        "{}",
        text(&one.stderr)
    );
    let slow = ab(&["--time-budget", "0.2", "--", "sleep", "30", "--", "true"]);
    assert_eq!(slow.status.code(), Some(1));
    assert!(
        text(&slow.stderr).contains("--time-budget"),
        "{}",
        text(&slow.stderr)
    );
}

#[test]
fn interrupted_it_leaves_a_whole_record() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("records.jsonl");
    let begun = folder.path().join("begun");
    // Values that never settle.
    let script = |path: &Path| {
        format!(
            "date +%N | sed 's/^0*/1/'; echo >> {}; sleep 0.01",
            path.display()
        )
    };
    let out = file.to_str().expect("UTF-8");
    let script = script(&begun);
    let commands = ["--", "sh", "-c", &script, "--", "sh", "-c", &script];
    let mut child = command(&[&["--measure", "stdout", "--out", out][..], &commands].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dpb starts");
    let patience = Instant::now() + Duration::from_secs(60);
    // The warm-up, and a pair.
    while std::fs::read(&begun).map_or(0, |lines| lines.len()) < 5 {
        assert!(Instant::now() < patience, "nothing runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let reading = Reading::of_file(&file).expect("records");
    assert_eq!(reading.damaged, []);
    let [line] = &reading.records[..] else {
        panic!("one record")
    };
    assert_eq!(line.record.outcome, Outcome::Interrupted);
    assert!(line.record.counts["pairs"] >= 1);
}

/// In the first record B prints 1.5 times what A does, in the second 3 times.
#[test]
fn a_larger_gain_is_the_better_one_whichever_values_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (flags, verdict) in [(&["--more-is-better"][..], "better"), (&[], "worse")] {
        let record = |name: &str, b: &str| {
            let path = folder.path().join(name);
            let _ = std::fs::remove_file(&path);
            let out = ["--out", path.to_str().expect("UTF-8")];
            let ran = printed(&[flags, &out].concat(), "echo 2", b);
            assert!(ran.status.success(), "{}", text(&ran.stderr));
            path
        };
        let (first, second) = (record("first", "echo 3"), record("second", "echo 6"));
        let names = [&first, &second].map(|path| path.to_str().expect("UTF-8"));
        let compared = Command::new(env!("CARGO_BIN_EXE_dpb"))
            .args(["compare", names[0], names[1], "--format", "json"])
            .args(["--ignore", "b,verdict", "--despite-interference"])
            .output()
            .expect("dpb starts");
        let said = text(&compared.stdout).to_owned();
        assert!(
            said.contains(&format!("\"verdict\":\"{verdict}\"")),
            "{said}"
        );
        assert!(said.contains("\"metric\":\"gain\""), "{said}");
    }
}
