//! What the tests of boxes, plug-ins and cleaning share: the program in a folder of its own, its records and files, plug-ins that are shell scripts.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dpb_core::measure::{Reading, Record, Value};

pub fn dpb(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpb"));
    command
        .current_dir(folder)
        .args(words)
        .env("DPB_DATA_DIR", folder.join("data"));
    command
}

pub fn output(folder: &Path, words: &[&str]) -> Output {
    dpb(folder, words).output().expect("dpb runs")
}

/// What a successful dpb printed.
pub fn printed(folder: &Path, words: &[&str]) -> String {
    let output = output(folder, words);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words:?}\n{out}\n{err}");
    out
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn records(folder: &Path) -> Vec<Record> {
    let reading = Reading::of_file(&folder.join("records.jsonl")).expect("records");
    assert_eq!(reading.damaged, []);
    reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect()
}

/// The tests of records, without what differs from run to run.
pub fn tests(records: &[Record]) -> Vec<BTreeMap<String, Value>> {
    records
        .iter()
        .map(|record| record.parameters.clone())
        .collect()
}

pub const TINY: &str = r#"{ "name": "tiny", "repeats": 2, "seed": 5, "tasks": [
    { "task": "op", "metrics": ["items_per_s"], "parameters": {
        "operator": ["crc32c", "toeplitz"], "size": [64, 256], "backend": ["cpu/best", "sim/default"],
        "seconds": "10ms", "warm_up": "1ms" } } ] }"#;

/// All files under a folder, with their content.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
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

/// A plug-in whose `run` is this shell script; its folder.
pub fn plugin(folder: &Path, name: &str, run: &str) -> PathBuf {
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

pub fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

pub fn run_plugin(at: &Path, name: &str) -> (Output, Record) {
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
