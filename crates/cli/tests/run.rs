//! `dpb run`, `dpb clean` and `dpb replay`, as processes.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dpb_core::measure::{Outcome, Reading, Record, Value};
use dpb_core::random::SplitMix64;
use tempfile::TempDir;

fn dpb(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpb"));
    command
        .current_dir(folder)
        .args(words)
        .env("DPB_DATA_DIR", folder.join("data"));
    command
}

fn output(folder: &Path, words: &[&str]) -> Output {
    dpb(folder, words).output().expect("dpb runs")
}

/// What a successful dpb printed.
fn printed(folder: &Path, words: &[&str]) -> String {
    let output = output(folder, words);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words:?}\n{out}\n{err}");
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn records(folder: &Path) -> Vec<Record> {
    let reading = Reading::of_file(&folder.join("records.jsonl")).expect("records");
    assert_eq!(reading.damaged, []);
    reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect()
}

/// The tests of records, without what differs from run to run.
fn tests(records: &[Record]) -> Vec<BTreeMap<String, Value>> {
    records
        .iter()
        .map(|record| record.parameters.clone())
        .collect()
}

const TINY: &str = r#"{ "name": "tiny", "repeats": 2, "seed": 5, "tasks": [
    { "task": "op", "metrics": ["items_per_s"], "parameters": {
        "operator": ["crc32c", "toeplitz"], "size": [64, 256], "backend": ["cpu/best", "sim/default"],
        "seconds": "10ms", "warm_up": "1ms" } } ] }"#;

/// All files under a folder, with their content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .strip_prefix(folder)
                .expect("inside")
                .display()
                .to_string();
            match path.is_dir() {
                true => {
                    all.insert(name + "/", Vec::new());
                    folders.push(path);
                }
                false => {
                    all.insert(name, fs::read(&path).expect("a file"));
                }
            }
        }
    }
    all
}

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
            if status.success() {
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

/// A plug-in whose `run` is this shell script; its folder.
fn plugin(folder: &Path, name: &str, run: &str) -> PathBuf {
    let own = folder.join("plugins").join(name);
    fs::create_dir_all(&own).expect("a folder");
    let manifest = format!(
        r#"{{ "name": "{name}", "summary": "a test", "time_limit": "2s", "run_time": "10ms",
            "parameters": [ {{ "name": "size", "type": "size", "default": 64, "meaning": "Bytes" }} ],
            "metrics": [ {{ "name": "bytes_per_s", "meaning": "bytes per second" }} ] }}"#
    );
    fs::write(own.join("plugin.json"), manifest).expect("written");
    script(&own.join("run"), run);
    own
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn run_plugin(at: &Path, name: &str) -> (Output, Record) {
    let asked = format!(
        r#"{{ "repeats": 3, "tasks": [ {{ "task": "{name}", "parameters": {{ "size": "1KiB" }} }} ] }}"#
    );
    fs::write(at.join(format!("{name}.json")), asked).expect("written");
    let output = output(
        at,
        &[
            "run",
            &format!("{name}.json"),
            "--plugins",
            "plugins",
            "--out",
            &format!("{name}-out"),
        ],
    );
    let record = records(&at.join(format!("{name}-out"))).swap_remove(0);
    (output, record)
}

#[test]
fn a_plugin_is_a_task_from_prepare_to_clean() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let result = r#"{"samples":{"bytes_per_s":[1e6,2e6,3e6]},"counts":{"bytes":7},"libraries":{"made-up":"1.0"},"parameters":{"note":"x","size":9}}"#;
    plugin(
        at,
        "good",
        &format!(
            "cat > request\n[ \"$PWD\" = \"$HOME\" ] && [ -z \"$DPB_DATA_DIR\" ] || exit 1\necho '{result}'"
        ),
    );
    let own = at.join("plugins/good");
    let state = r#"state=$(sed -n '1s/.*"state":"\([^"]*\)".*/\1/p')"#;
    script(
        &own.join("prepare"),
        &format!("{state}; echo made > $state/data"),
    );
    script(&own.join("report"), "wc -l | sed 's/^ */lines: /'");
    script(
        &own.join("clean"),
        &format!(
            "{state}; rm $state/data; echo cleaned > {}/cleaned",
            at.display()
        ),
    );
    let before = files(at);
    let (output, record) = run_plugin(at, "good");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("lines: 2"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(
        (record.task.as_str(), &record.outcome),
        ("good", &Outcome::Done)
    );
    assert_eq!(
        record.parameters["size"],
        Value::Int(1024),
        "what the test was given stands"
    );
    assert_eq!(record.parameters["note"], Value::from("x"));
    assert_eq!(record.summary["bytes_per_s"].median, 2e6);
    assert_eq!(
        (
            record.counts["bytes"],
            record.provenance.libraries["made-up"].as_str()
        ),
        (7, "1.0")
    );
    assert_eq!(
        fs::read_to_string(at.join("data/plugins/good/data")).expect("kept"),
        "made\n"
    );
    // The folder is known whatever way its name is given.
    printed(at, &["clean", "--data-dir", "data"]);
    assert!(at.join("cleaned").exists(), "its own step ran");
    let mut after = files(at);
    after.retain(|name, _| {
        !name.starts_with("good-out") && !["cleaned", "good.json"].contains(&name.as_str())
    });
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
}

#[test]
fn hostile_plugins_are_contained() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let pids = at.join("pids");
    let leave = format!(
        "setsid sh -c 'echo $$ >> {}; sleep 1000' >/dev/null 2>&1 &\nsleep 0.3",
        pids.display()
    );
    let good = r#"echo '{"samples":{"bytes_per_s":[1]}}'"#;
    for (name, run, said) in [
        ("silent", "exit 0", "it printed no result"),
        (
            "failing",
            "echo no luck >&2; exit 3",
            "exit status: 3: no luck",
        ),
        (
            "endless",
            "trap '' TERM; sleep 1000; sleep 1000",
            "it took more than 2s",
        ),
        ("huge", "yes", "it printed more than"),
        ("garbled", "echo '{\"samples\": '", "line 1 of its output"),
        (
            "lying",
            r#"echo '{"samples":{"beauty":[1]}}'"#,
            "no metric beauty",
        ),
        (
            "infinite",
            r#"echo '{"samples":{"bytes_per_s":[1e999]}}'"#,
            "line 1 of its output",
        ),
        ("leaving", &format!("{leave}\n{good}"), ""),
        ("killed", &format!("{leave}\nkill -9 $$"), "signal: 9"),
        (
            "lingering",
            &format!("{leave}\nsleep 1000"),
            "it took more than 2s",
        ),
        ("stopped", "kill -STOP $$", "it took more than 2s"),
        (
            "complaining",
            &format!("yes no luck | head -c 50000000 >&2\n{good}"),
            "",
        ),
        ("deaf", &format!("exec <&-\n{good}"), ""),
        ("removing", &format!("rm -rf \"$HOME\"\n{good}"), ""),
    ] {
        plugin(at, name, run);
        assert_contained(at, name, said);
    }
    let pids = fs::read_to_string(&pids).expect("they were started");
    assert_eq!(pids.lines().count(), 3);
    for pid in pids.lines() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(
            stat.is_empty() || stat.contains(") Z"),
            "{pid} lives: {stat}"
        );
    }
}

/// The plug-in's record says `said` of why it failed, or has numbers where that is empty; nothing of its work is left.
fn assert_contained(at: &Path, name: &str, said: &str) {
    let (output, record) = run_plugin(at, name);
    match &record.outcome {
        Outcome::Done => assert_eq!(said, "", "{name}"),
        Outcome::Failed { reason } => {
            assert!(
                !said.is_empty() && reason.contains(said),
                "{name}: {reason}"
            );
            assert_eq!(output.status.code(), Some(1), "{name}");
            assert!(record.summary.is_empty());
        }
        other => panic!("{name}: {other:?}"),
    }
    let left = files(&at.join("data")).into_keys();
    let work: Vec<String> = left.filter(|name| name.contains(".work-")).collect();
    assert!(work.is_empty(), "{name}: {work:?}");
}

#[test]
fn a_plugin_that_locks_its_folders_leaves_nothing() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let run = r#"mkdir -p outer/inner && chmod 000 outer; echo '{"samples":{"bytes_per_s":[1]}}'"#;
    plugin(at, "locking", run);
    let asked = r#"{ "repeats": 1, "tasks": [ { "task": "locking" } ] }"#;
    fs::write(at.join("b.json"), asked).expect("written");
    let words = ["run", "b.json", "--plugins", "plugins", "--out", "out"];
    let ran = support::bound_by_permissions(&words)
        .current_dir(at)
        .env("DPB_DATA_DIR", at.join("data"))
        .output();
    let Ok(ran) = ran else {
        println!(
            "skipped: permissions do not bind root, and there is no setpriv (Debian: util-linux)"
        );
        return;
    };
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(records(&at.join("out"))[0].outcome, Outcome::Done);
    let left = files(&at.join("data")).into_keys();
    let work: Vec<String> = left.filter(|name| name.contains(".work-")).collect();
    assert!(work.is_empty(), "{work:?}");
}

#[test]
fn results_of_another_form_than_the_manifests_are_failures() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let deep = r#"awk 'BEGIN { printf "{\"parameters\":{\"x\":"; while (i++ < 100000) printf "["; print "" }'"#;
    let line = "line 1 of its output";
    for (name, run, said) in [
        ("binary", r"printf '\377\376\000\n'", line),
        ("nested", deep, line),
        ("a-list", "echo '[1]'", line),
        ("empty", "echo '{}'", "neither samples nor an outcome"),
        (
            "newer",
            r#"echo '{"samples":{"bytes_per_s":[1]},"colour":"red"}'"#,
            "unknown field `colour`",
        ),
        (
            "wordy",
            r#"echo '{"samples":{"bytes_per_s":["fast"]}}'"#,
            line,
        ),
        (
            "without",
            r#"echo '{"samples":{"bytes_per_s":[]}}'"#,
            "bytes_per_s has 0 values",
        ),
        (
            "negative",
            r#"echo '{"samples":{"bytes_per_s":[1]},"counts":{"rows":-1}}'"#,
            line,
        ),
        (
            "late",
            r#"echo '{"samples":{"bytes_per_s":[1]}}'; echo oops"#,
            "line 2 of its output",
        ),
        (
            "crowded",
            r#"yes '{"samples":{"bytes_per_s":[1]}}' | head -n 10001"#,
            "more than 10000 results",
        ),
    ] {
        plugin(at, name, run);
        assert_contained(at, name, said);
    }
}

#[test]
fn manifests_are_checked() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    plugin(at, "one", "exit 0");
    fs::write(
        at.join("b.json"),
        r#"{ "tasks": [ { "task": "one", "parameters": { "size": "big" } } ] }"#,
    )
    .expect("written");
    let refused = |said: &str| {
        let output = output(at, &["run", "b.json", "--plugins", "plugins", "--dry-run"]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(said), "{err}\nnot: {said}");
    };
    refused("b.json: tasks[0].parameters.size: `big` is not a size");
    let manifest = at.join("plugins/one/plugin.json");
    let good = fs::read_to_string(&manifest).expect("there");
    for (now, then, said) in [
        ("\"one\"", "\"op\"", "`op` is a task of dpb"),
        ("\"one\"", "\"fio\"", "`dpb import` makes are called `fio`"),
        (
            "\"one\"",
            "\"criterion\"",
            "`dpb import` makes are called `criterion`",
        ),
        ("\"one\"", "\"../x\"", "lower-case letters"),
        (
            "\"size\", \"type\": \"size\"",
            "\"size\", \"type\": \"colour\"",
            "no type `colour`",
        ),
        ("\"default\": 64", "\"default\": \"much\"", "default: "),
        ("\"summary\"", "\"sumary\"", "unknown field `sumary`"),
        ("2s", "never", "time_limit: "),
    ] {
        fs::write(&manifest, good.replace(now, then)).expect("written");
        refused(said);
    }
    fs::write(&manifest, good).expect("written");
    let run = at.join("plugins/one/run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o644)).expect("its mode");
    refused("plugins/one/run: is not executable");
    fs::remove_file(&run).expect("removed");
    refused("plugins/one/run: cannot be found");
}

#[test]
fn the_plugins_that_dpb_ships_work() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let shipped = shipped.to_str().expect("a path");
    let asked = r#"{ "repeats": 1, "tasks": [
        { "task": "openssl-speed", "parameters": { "algorithm": "sha256", "size": 1024 } },
        { "task": "python-zlib", "parameters": { "operation": ["compress", "decompress"], "size": 4096 } },
        { "task": "perftest-client", "parameters": { "program": ["ib_write_bw", "ib_read_lat"], "host": "peer" } } ] }"#;
    fs::write(at.join("b.json"), asked).expect("written");
    // Stand-ins for perftest's programs, which print what these print.
    let programs = at.join("bin");
    fs::create_dir(&programs).expect("a folder");
    script(
        &programs.join("ib_write_bw"),
        "echo ' #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]'\necho ' 65536      5000             1204.51            1203.77   \t\t   0.019260'",
    );
    script(
        &programs.join("ib_read_lat"),
        "echo ' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]'\necho ' 64      1000          1.50           9.00         2.00     \t       2.10        \t0.30   \t\t3.25    \t\t8.00'",
    );
    let path = format!(
        "{}:{}",
        programs.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let ran = dpb(at, &["run", "b.json", "--plugins", shipped, "--out", "out"])
        .env("PATH", path)
        .output()
        .expect("dpb runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let records = records(&at.join("out"));
    for record in &records {
        match (&record.outcome, record.task.as_str()) {
            (Outcome::Done, "perftest-client")
                if record.parameters["program"] == Value::from("ib_write_bw") =>
            {
                assert_eq!(
                    record.summary["bytes_per_s"].median,
                    1203.77 * f64::from(1 << 20)
                );
            }
            (Outcome::Done, "perftest-client") => {
                assert_eq!(record.summary["latency_ns"].median, 2000.0);
                assert_eq!(record.summary["latency_ns_p99"].median, 3250.0);
            }
            (Outcome::Done, _) => assert!(record.summary["bytes_per_s"].median > 1e5, "{record:?}"),
            (Outcome::Unsupported { reason }, "openssl-speed") => println!("skipped: {reason}"),
            (other, task) => panic!("{task}: {other:?}"),
        }
    }
    assert_eq!(records.len(), 5);
}

#[test]
fn cleaning_removes_what_was_prepared_and_nothing_else() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let asked = r#"{ "repeats": 1, "tasks": [ { "task": "pushdown", "parameters": { "sf": 0.01, "schemes": "dpb", "threads": 1 } } ] }"#;
    fs::write(at.join("b.json"), asked).expect("written");
    fs::create_dir(at.join("data")).expect("a folder");
    fs::write(at.join("data/mine"), "a person's own").expect("written");
    let before = files(at);
    printed(at, &["run", "b.json", "--out", "out"]);
    assert_eq!(records(&at.join("out"))[0].outcome, Outcome::Done);
    assert!(
        at.join("data/tpch").exists(),
        "prepared data stays for the next box"
    );
    let dry = printed(at, &["clean", "--dry-run", "--format", "json"]);
    assert!(
        dry.contains("scale factor 0.01") && at.join("data/tpch").exists(),
        "{dry}"
    );
    printed(at, &["clean"]);
    let mut after = files(at);
    after.retain(|name, _| !name.starts_with("out"));
    assert_eq!(after, before);
    // Nothing left is no failure.
    printed(at, &["clean"]);
}

#[test]
fn what_a_killed_first_generation_left_is_cleaned() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let set = at.join("data/tpch/sf1");
    let mut child = dpb(at, &["data", "--sf", "1", "--tables", "lineitem"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dpb runs");
    let is_half_made = || {
        let files = fs::read_dir(&set).into_iter().flatten().flatten();
        let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.any(|name| name.ends_with(".tmp"))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_half_made() {
        assert!(Instant::now() < deadline, "nothing is being made");
        sleep(Duration::from_millis(1));
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ended");
    assert!(is_half_made(), "killed in the making");
    // Not a name that dpb gives.
    fs::write(set.join(".notes.tmp"), "a person's own").expect("written");
    let dry = printed(at, &["clean", "--dry-run", "--format", "json"]);
    assert!(dry.contains("scale factor 1"), "{dry}");
    assert!(is_half_made());
    printed(at, &["clean"]);
    let left: Vec<String> = files(&at.join("data")).into_keys().collect();
    assert_eq!(left, ["tpch/", "tpch/sf1/", "tpch/sf1/.notes.tmp"]);
}

#[test]
fn the_file_that_storage_keeps_is_cleaned_and_nobody_elses() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let kept = at.join("data/storage.dpb");
    let keep = [
        "storage",
        "--keep",
        "--file-size",
        "4MiB",
        "--engine",
        "sync",
        "--access",
        "read",
        "--block",
        "4KiB",
        "--depth",
        "1",
        "--seconds",
        "10ms",
        "--warm-up",
        "1ms",
        "--repeat",
        "1",
        "--out",
        "r.jsonl",
    ];
    printed(at, &keep);
    assert!(kept.exists());
    // One that --file named is the person's.
    printed(at, &[&keep[..], &["--file", "data/named"]].concat());
    printed(at, &["clean"]);
    let left: Vec<String> = files(&at.join("data")).into_keys().collect();
    assert_eq!(left, ["named"]);
    fs::write(&kept, "a person's own").expect("written");
    printed(at, &["clean"]);
    assert!(kept.exists(), "it has no mark of dpb");
}

#[test]
fn a_plugin_that_is_gone_or_fails_does_not_keep_the_rest() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    for name in ["gone", "failing"] {
        plugin(at, name, r#"echo '{"samples":{"bytes_per_s":[1e6,2e6]}}'"#);
        let (output, _) = run_plugin(at, name);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    fs::remove_dir_all(at.join("plugins/gone")).expect("it was there");
    let clean = at.join("plugins/failing/clean");
    script(&clean, "echo no way >&2; exit 1");
    let failed = output(at, &["clean"]);
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("plugins/gone is gone"), "{said}");
    assert!(
        said.contains("failing") && said.contains("no way"),
        "{said}"
    );
    assert!(!at.join("data/plugins/gone").exists() && !at.join("data/plugins/gone.json").exists());
    assert!(
        at.join("data/plugins/failing.json").exists(),
        "for the next time"
    );
    // A note whose writer was killed; no process has this number.
    let unfinished = at.join("data/plugins/other.json.4194305.tmp");
    fs::write(unfinished, "{").expect("written");
    script(&clean, "exit 0");
    printed(at, &["clean"]);
    assert!(!at.join("data").exists(), "{:?}", files(&at.join("data")));
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
