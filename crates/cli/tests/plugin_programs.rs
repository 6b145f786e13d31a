//! Plug-ins' programs: what they are told, what they may print, and what becomes of hostile ones.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use dpb_core::measure::{Outcome, Value};
use support::boxes::{dpb, files, output, plugin, printed, records, run_plugin, script, text};
use tempfile::TempDir;

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
