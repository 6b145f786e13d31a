//! The real program: exit codes, formats, records that match their schema, and Ctrl-C.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use dpb_core::measure::{Outcome, Reading};
use dpb_core::spec::{Domain, Parameter};
use dpb_operators::registry::OPERATORS;
use serde_json::Value;
use support::schema::misfit;

fn dpb(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_dpb")).args(args).output();
    output.expect("dpb starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

const TIMES: [&str; 6] = ["--seconds", "2ms", "--warm-up", "1ms", "--repeat", "3"];

fn quick(args: &[&str]) -> Output {
    dpb(&[args, &TIMES, &["--size", "64,1KiB"]].concat())
}

/// How many operators `dpb` has.
fn operators() -> usize {
    OPERATORS.len() + dpb_cli::DATABASE.len()
}

#[test]
fn a_level_masks_a_whole_command() {
    let lowest = match cfg!(target_arch = "aarch64") {
        true => "armv8-a",
        false => "x86-64-v1",
    };
    let output = quick(&["--cpu-level", lowest, "op", "crc32c", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for line in text(&output.stdout).lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let level = record["provenance"]["cpu_level"].as_str();
        let level = level.expect("a level");
        assert!(level.starts_with(lowest), "{level}");
    }
    let refused = quick(&["op", "crc32c", "--cpu-level", "x87"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains(lowest), "{refused:?}");
}

#[test]
fn records_match_the_schema_on_stdout_and_in_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("records.jsonl");
    let out = file.to_str().expect("UTF-8");
    let all = ["op", "all", "--backend", "cpu/best,sim/default"];
    let little = ["--size", "64", "--batch", "16", "--depth", "2"];
    let recorded = ["--latency", "--out", out];
    let output = dpb(&[&all[..], &TIMES, &little, &recorded].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let schema: Value = serde_json::from_slice(&dpb(&["schema", "record"]).stdout).expect("JSON");
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), operators() * 2);
    let mut runs = BTreeSet::new();
    for line in &lines {
        let record: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(misfit(&record, &schema, &schema), None);
        assert_eq!(record["outcome"]["status"], "done", "{record}");
        let rate = &record["summary"]["items_per_s"];
        assert_eq!(rate["samples"], 3);
        assert!(rate["median"].as_f64().expect("a number") > 0.0);
        assert!(
            record["summary"]["latency_ns_p99"]["median"]
                .as_f64()
                .expect("a number")
                > 0.0
        );
        assert!(record["check"]["compared"].as_u64() >= record["counts"]["items"].as_u64());
        runs.insert(
            record["provenance"]["run"]
                .as_str()
                .expect("text")
                .to_owned(),
        );
        let simulated = record["parameters"]["backend"] == "sim/default";
        let kind = &record["evidence"]["kind"];
        assert_eq!(*kind == "simulated", simulated, "{kind}");
    }
    assert!(
        runs.len() == 1 && !runs.contains(""),
        "one process, one run: {runs:?}"
    );
    // A record that lacks something does not match: the check above can fail.
    let mut broken: Value = serde_json::from_str(lines[0]).expect("JSON");
    broken["check"]["compared"] = Value::from("many");
    assert!(misfit(&broken, &schema, &schema).is_some());
    let reading = Reading::of_file(&file).expect("reads");
    assert_eq!(reading.records.len(), lines.len());
    assert!(reading.damaged.is_empty());
}

#[test]
fn equal_outputs_have_equal_digests() {
    let backends = "cpu/portable,cpu/best,sim/default";
    let output = quick(&["op", "crc32c", "--backend", backends]);
    let digest = |line: &str| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        record["check"]["digest"]
            .as_str()
            .expect("a digest")
            .to_owned()
    };
    let digests: Vec<String> = text(&output.stdout).lines().map(digest).collect();
    let [short, long] = [&digests[..3], &digests[3..]];
    assert!(short.iter().all(|digest| *digest == short[0]), "{short:?}");
    assert!(long.iter().all(|digest| *digest == long[0]), "{long:?}");
    assert_eq!(long.len(), 3);
    assert_ne!(short[0], long[0]);
}

#[test]
fn a_table_and_csv_have_a_row_for_each_test() {
    let table = quick(&[
        "op",
        "crc32c",
        "--format",
        "table",
        "--backend",
        "cpu/portable,cpu/best",
    ]);
    let rows = |shown: &str| shown.lines().filter(|line| !line.starts_with('[')).count();
    assert_eq!(rows(text(&table.stdout)), 1 + 2 * 2);
    assert!(text(&table.stdout).contains("vs portable"));
    assert!(!text(&table.stdout).contains("depth"), "all are alike");
    let depths = ["op", "crc32c", "--format", "table", "--depth", "1,8"];
    let depths = quick(&[&depths[..], &["--backend", "cpu/best"]].concat());
    let shown = text(&depths.stdout);
    assert!(shown.lines().any(|line| line.contains("depth")), "{shown}");
    let csv = quick(&[
        "op",
        "crc32c",
        "--format",
        "csv",
        "--backend",
        "cpu/portable,cpu/best",
    ]);
    assert_eq!(text(&csv.stdout).lines().count(), 1 + 2 * 2);
    assert!(csv.stderr.is_empty(), "{}", text(&csv.stderr));
}

#[test]
fn inputs_come_from_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("words");
    std::fs::write(&file, "the quick brown fox ".repeat(200)).expect("writes");
    let path = file.to_str().expect("UTF-8");
    for operator in ["deflate", "inflate", "sha256"] {
        let output = quick(&["op", operator, "--backend", "cpu/best", "--input", path]);
        assert!(
            output.status.success(),
            "{operator}: {}",
            text(&output.stderr)
        );
    }
    std::fs::write(&file, "short").expect("writes");
    let output = quick(&["op", "crc32c", "--input", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("5 bytes"));
}

/// However it is written, it is one test, and all of it is in the record beside the harness's own parameters.
#[test]
fn an_operators_parameters_are_recorded_whole_and_typed() {
    let output = quick(&[
        "op",
        "deflate",
        "--backend",
        "cpu/best",
        "--parameters",
        "",
        "--parameters",
        "level=6",
        "--parameters",
        "format=raw,level=06",
        "--parameters",
        "level=1",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let parameters: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["parameters"].clone())
        .collect();
    let levels: Vec<&Value> = parameters.iter().map(|of| &of["op.level"]).collect();
    assert_eq!(levels, [6, 6, 1, 1], "two sizes of two specs");
    for of in parameters {
        assert_eq!(of["op.format"], "raw");
        assert_eq!(of["mode"], "closed");
        assert!(of["level"].is_null());
    }
}

/// Nothing is measured for a sweep that cannot be finished.
#[test]
fn what_can_be_known_to_be_wrong_is_said_before_the_first_test() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("short");
    std::fs::write(&file, [7; 100]).expect("writes");
    let path = file.to_str().expect("UTF-8");
    let cases: [(&[&str], &str); 4] = [
        (&["--backend", "cpu/best,gpu/x"], "no backend `gpu/x`"),
        (&["--backend", "cpu/best,sim/wings=2"], "wings"),
        (&["--backend", "cpu/best", "--input", path], "100 bytes"),
        (
            &[
                "--backend",
                "cpu/best",
                "--parameters",
                "level=1",
                "--parameters",
                "level=10",
            ],
            "level=10",
        ),
    ];
    for (args, message) in cases {
        let output = quick(&[&["op", "deflate"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        let said = text(&output.stderr);
        assert!(said.contains(message), "{args:?}: {said}");
    }
}

#[test]
fn libraries_have_versions() {
    let output = quick(&[
        "op",
        "deflate",
        "--backend",
        "cpu/libdeflate,cpu/portable,sim/default",
    ]);
    for line in text(&output.stdout).lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let backend = record["parameters"]["backend"].as_str().expect("text");
        let library = record["provenance"]["libraries"][backend]
            .as_str()
            .expect(backend);
        let expected = match backend {
            "cpu/portable" => "portable, miniz_oxide ",
            _ => "libdeflate, libdeflater ",
        };
        let version = library.strip_prefix(expected).expect(library);
        assert_eq!(version.split('.').count(), 3, "{library}");
        assert!(
            version.starts_with(|c: char| c.is_ascii_digit()),
            "{library}"
        );
    }
}

#[test]
fn wrong_usage_is_two_and_absence_is_three() {
    let beyond_memory =
        "op deflate --backend cpu/best --size 1MiB --batch 256 --depth 1024 --threads 1024";
    let beyond_memory: Vec<&str> = beyond_memory.split(' ').collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let default_route = folder.path().join("default");
    std::fs::write(&default_route, "0.0.0.0/0 1\n").expect("writes");
    let default_route = format!("routes={}", default_route.display());
    let hostile = folder.path().join("hostile");
    std::fs::write(&hostile, format!("\x1b[31m{}", "a".repeat(1 << 20))).expect("writes");
    let hostile = format!("routes={}", hostile.display());
    let cases: [(&[&str], i32, &str); 21] = [
        (&["op", "crc32c", "--threads", "4294967295"], 2, "at most"),
        (&["data", "--threads", "4294967295"], 2, "at most"),
        (&["pushdown", "--threads", "1,4294967295"], 2, "at most"),
        (
            &["op", "crc32c", "--backend", "pool/99999999"],
            2,
            "at most",
        ),
        (&["op", "crc32c", "--pin", "9999"], 2, "--pin 9999"),
        (&["op", "crc32c", "--out", "."], 2, "name a file in it"),
        (&["op", "crc32c", "--out", "/no/such/x"], 2, "folder first"),
        (&["pushdown", "--server", "127.0.0.1"], 2, "host and a port"),
        (
            &["op", "lpm4-update", "--parameters", "routes=/dev/null"],
            2,
            "no script of changes",
        ),
        (
            &["op", "lpm4-update", "--parameters", &default_route],
            2,
            "no script of changes",
        ),
        (
            &["op", "lpm4", "--parameters", &hostile],
            2,
            "`\\u{1b}[31maaa",
        ),
        (&beyond_memory, 3, "GB of memory"),
        (&["op", "crc33"], 2, "there are: crc32c"),
        (&["op", "crc32c", "--threads", "0"], 2, "at least 1"),
        (&["op", "crc32c", "--size", "4K"], 2, "4KiB"),
        (
            &["op", "crc32c", "--backend", "gpu/best"],
            2,
            "pool/N, sim/default",
        ),
        (&["op", "crc32c", "--mode", "open"], 2, "--rate"),
        (&["op", "crc32c", "--rate", "5"], 2, "--mode open"),
        (&["op", "deflate", "--parameters", "level=10"], 2, "level"),
        (
            &["op", "crc32c", "--backend", "cpu/libdeflate"],
            3,
            "crc32c has no libdeflate path",
        ),
        (
            &["report", "/nonexistent/records.jsonl"],
            2,
            "/nonexistent/records.jsonl",
        ),
    ];
    for (args, code, message) in cases {
        let output = dpb(args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            text(&output.stderr)
        );
        let said = text(&output.stderr);
        assert!(said.contains(message), "{args:?}: {said}");
        assert!(said.len() < 2000, "{args:?}: {} bytes", said.len());
    }
}

#[test]
fn more_threads_than_cores_is_said_before_the_run() {
    let cores = std::thread::available_parallelism()
        .expect("Linux knows")
        .get();
    let threads = (cores + 1).to_string();
    let output = quick(&[
        "op",
        "crc32c",
        "--backend",
        "cpu/best",
        "--threads",
        &threads,
    ]);
    let said = format!("{threads} threads share {cores} cores");
    assert!(
        text(&output.stderr).contains(&said),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn every_verb_has_an_example() {
    let help = dpb(&["--help"]);
    let listed = text(&help.stdout)
        .split("Commands:\n")
        .nth(1)
        .expect("a list");
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let verbs = listed.filter_map(|line| line.split_whitespace().next());
    let verbs: Vec<&str> = verbs.filter(|verb| *verb != "help").collect();
    for known in ["doctor", "op", "data", "serve", "pushdown", "report"] {
        assert!(verbs.contains(&known), "{known} in {verbs:?}");
    }
    for verb in verbs {
        let help = dpb(&[verb, "--help"]);
        let shown = text(&help.stdout);
        let example = shown.split("Example").nth(1).unwrap_or_default();
        assert!(example.contains(&format!("dpb {verb}")), "{verb}: {shown}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            text(&dpb(&["completions", shell]).stdout).contains("doctor"),
            "{shell}"
        );
    }
}

#[test]
fn doctor_and_list_say_what_there_is() {
    let findings: Vec<Value> = text(&dpb(&["doctor", "--format", "json"]).stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for what in ["CPU", "DuckDB", "io_uring", "hardware counters"] {
        let found = findings
            .iter()
            .find(|finding| finding["what"] == what)
            .expect(what);
        if found["state"] == "missing" {
            assert!(
                !found["remedy"].as_str().expect("text").is_empty(),
                "{what}"
            );
        }
    }
    for family in ["doca", "dpdk", "rdma"] {
        let mut own = findings
            .iter()
            .filter(|finding| finding["section"] == family);
        let library = own.next().expect(family);
        // What is not there is said once, with what to do.
        if library["state"] == "missing" {
            let remedy = library["remedy"].as_str().expect("text");
            assert!(!remedy.is_empty(), "{family}: {library}");
        }
    }
    let listed = dpb(&["list", "operators", "--format", "csv"]);
    assert_eq!(text(&listed.stdout).lines().count(), 1 + operators());
    let backends = dpb(&["list", "backends", "--format", "csv"]);
    let shown = text(&backends.stdout);
    for name in [
        "cpu/best",
        "cpu/portable",
        "pool/N",
        "sim/default",
        "sim/NAME=VALUE",
        "faulty/NAME=VALUE",
    ] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
}

#[test]
fn parameters_are_described_once_for_people_and_programs() {
    let schema: Value =
        serde_json::from_slice(&dpb(&["schema", "operators"]).stdout).expect("JSON");
    let misfit = |value: &Value| misfit(value, &schema, &schema);
    let mut parameters = 0;
    for entry in OPERATORS {
        let name = entry.name;
        for case in entry.cases() {
            let mut value = serde_json::json!({ "operator": name });
            for (parameter, chosen) in case.parameters() {
                let of = |p: &&Parameter| p.name == parameter;
                let of = entry.all_parameters().find(of).expect(parameter);
                value[parameter] = match of.values {
                    Domain::File => of.default.into(),
                    Domain::Number(..) => {
                        chosen.to_string().parse::<u64>().expect("a number").into()
                    }
                    _ => chosen.to_string().into(),
                };
            }
            assert_eq!(misfit(&value), None, "{value}");
            for parameter in entry.all_parameters() {
                let mut wrong = value.clone();
                wrong[parameter.name] = Value::Null;
                assert!(misfit(&wrong).is_some(), "{wrong}");
                match parameter.values {
                    Domain::Number(_, u64::MAX) => continue,
                    Domain::Number(_, last) => wrong[parameter.name] = (last + 1).into(),
                    _ => wrong[parameter.name] = 7.into(),
                }
                assert!(misfit(&wrong).is_some(), "{wrong}");
            }
            value["nonsense"] = 1.into();
            assert!(misfit(&value).is_some(), "{value}");
        }
        parameters += entry.all_parameters().count();
        assert!(
            entry.all_parameters().all(|p| !p.meaning.is_empty()),
            "{name}"
        );
    }
    let listed = dpb(&["list", "parameters", "--format", "csv"]);
    let of_scan: usize = dpb_cli::DATABASE
        .iter()
        .map(|entry| entry.all_parameters().count())
        .sum();
    assert_eq!(
        text(&listed.stdout).lines().count(),
        1 + parameters + of_scan
    );
    assert!(
        text(&listed.stdout).contains("deflate level,default 6,"),
        "{}",
        text(&listed.stdout)
    );
}

#[test]
fn one_wrong_bit_fails_every_operator_and_leaves_no_number() {
    for entry in OPERATORS {
        let output = dpb(&[
            "op",
            entry.name,
            "--backend",
            "faulty/flips_ppm=1000000",
            "--size",
            "64",
            "--repeat",
            "1",
            "--seconds",
            "1ms",
            "--warm-up",
            "1ms",
            "--format",
            "json",
        ]);
        let name = entry.name;
        assert_eq!(output.status.code(), Some(1), "{name}");
        let said = text(&output.stderr);
        assert!(said.contains("there is no number for it"), "{name}: {said}");
        let record: Value = serde_json::from_str(text(&output.stdout)).expect("one record");
        assert_eq!(record["outcome"]["status"], "failed", "{name}: {record}");
        let is_empty = |part: &str| record[part].as_object().is_some_and(|it| it.is_empty());
        assert!(
            is_empty("samples") && is_empty("summary"),
            "{name}: {record}"
        );
    }
}

#[cfg(unix)]
#[test]
fn interrupted_it_leaves_whole_records() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("records.jsonl");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dpb"))
        .args([
            "op",
            "crc32c",
            "--backend",
            "cpu/best",
            "--seconds",
            "0.1",
            "--repeat",
            "100000",
            "--out",
        ])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_millis(700));
    interrupt(child.id());
    let asked = Instant::now();
    while child.try_wait().expect("is ours").is_none() {
        assert!(asked.elapsed() < Duration::from_secs(20), "does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_one_interrupted(&file);
}

fn assert_one_interrupted(file: &Path) {
    let reading = Reading::of_file(file).expect("reads");
    assert!(reading.damaged.is_empty());
    let last = &reading.records.last().expect("one record").record;
    assert_eq!(last.outcome, Outcome::Interrupted);
    let runs = last.samples["items_per_s"].values.len();
    assert!(runs < 100_000);
    assert!(
        last.stability
            .as_ref()
            .is_some_and(|stability| !stability.stable)
    );
}

fn interrupt(id: u32) {
    let id =
        rustix::process::Pid::from_raw(i32::try_from(id).expect("a process id")).expect("not zero");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("is ours");
}
