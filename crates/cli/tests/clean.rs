//! `dpb clean`, as a process: it removes what dpb made, and nothing else.

mod support;

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dpb_core::measure::Outcome;
use support::boxes::{dpb, files, output, plugin, printed, records, run_plugin, script, text};
use tempfile::TempDir;

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
