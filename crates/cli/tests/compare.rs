//! `dpb compare`: files of records that `dpb op` wrote, paired and judged; exit codes; every format.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dpb_core::measure::{Durability, Outcome, Record, Store};
use serde_json::Value;
use support::schema::misfit;

fn dpb(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_dpb")).args(args).output();
    output.expect("dpb starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Records of a model, whose times are the same everywhere, of two sizes.
fn simulated(folder: &Path, file: &str, backend: &str) -> PathBuf {
    let path = folder.join(file);
    let flags = [
        "--size",
        "64,1KiB",
        "--batch",
        "4",
        "--repeat",
        "7",
        "--seconds",
        "2ms",
    ];
    let out = ["--backend", backend, "--out", name(&path)];
    let output = dpb(&[&["op", "crc32c", "--quiet"][..], &flags, &out].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    path
}

/// The same records with all rates multiplied.
fn scaled(from: &Path, file: &str, factor: f64) -> PathBuf {
    let path = from.with_file_name(file);
    let mut store = Store::open(&path, Durability::Process).expect("a file");
    for mut record in records(from) {
        for name in ["items_per_s", "bytes_per_s"] {
            let values = record.samples[name].values.clone();
            record.sample(name, values.iter().map(|value| value * factor).collect());
        }
        store.append(&record).expect("written");
    }
    path
}

fn records(path: &Path) -> Vec<Record> {
    let reading = dpb_core::measure::Reading::of_file(path).expect("records");
    reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect()
}

#[test]
fn a_file_beside_itself_is_the_same_and_a_slower_one_is_worse() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = simulated(folder.path(), "a.jsonl", "sim/default");
    let slower = scaled(&a, "b.jsonl", 0.96);
    let schema: Value =
        serde_json::from_slice(&dpb(&["schema", "comparison"]).stdout).expect("JSON");
    let verdicts = |b: &Path| -> Vec<String> {
        let output = dpb(&["compare", name(&a), name(b)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines = text(&output.stdout).lines();
        let lines = lines.map(|line| serde_json::from_str(line).expect("JSON"));
        let lines: Vec<Value> = lines.collect();
        for line in &lines {
            assert_eq!(misfit(line, &schema, &schema), None);
        }
        lines
            .iter()
            .map(|line| line["verdict"].as_str().expect("text").to_owned())
            .collect()
    };
    assert_eq!(verdicts(&a), ["same", "same"]);
    assert_eq!(verdicts(&slower), ["worse", "worse"]);
    let limit = |b: &Path, limit| {
        dpb(&["compare", name(&a), name(b), "--fail-on", limit])
            .status
            .code()
    };
    assert_eq!(limit(&slower, "worse:3%"), Some(1));
    assert_eq!(limit(&slower, "worse:5%"), Some(0));
    assert_eq!(limit(&a, "worse:0%"), Some(0));
}

#[test]
fn what_fails_is_a_regression() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = simulated(folder.path(), "a.jsonl", "sim/default");
    let b = folder.path().join("b.jsonl");
    let mut store = Store::open(&b, Durability::Process).expect("a file");
    for record in records(&a) {
        let reason = "a wrong bit".to_owned();
        let failed = record.without_numbers(Outcome::Failed { reason });
        store.append(&failed).expect("written");
    }
    let output = dpb(&["compare", name(&a), name(&b), "--fail-on", "worse:50%"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("2 failed"),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).contains("B failed: a wrong bit"));
}

#[test]
fn tables_name_what_varies_and_count_the_verdicts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = simulated(folder.path(), "a.jsonl", "sim/default");
    let b = scaled(&a, "b.jsonl", 1.5);
    let table = dpb(&["compare", name(&a), name(&b), "--format", "table"]);
    let table = text(&table.stdout).to_owned();
    assert!(
        table.contains("op crc32c size=64 ") && table.contains("1.500"),
        "{table}"
    );
    assert!(!table.contains("threads="), "{table}");
    assert!(table.ends_with("\n2 better\n"), "{table}");
    let markdown = dpb(&["compare", name(&a), name(&b), "--format", "markdown"]);
    let markdown = text(&markdown.stdout);
    assert!(
        markdown.starts_with("| test | metric | A | B | B/A | interval | verdict |\n| --- |"),
        "{markdown}"
    );
    let both = dpb(&[
        "compare",
        name(&a),
        name(&b),
        "--format",
        "csv",
        "--metric",
        "items_per_s,bytes_per_s",
    ]);
    assert_eq!(text(&both.stdout).lines().count(), 5);
}

#[test]
fn kinds_of_evidence_meet_only_where_asked_to() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = simulated(folder.path(), "a.jsonl", "cpu/portable");
    let b = simulated(folder.path(), "b.jsonl", "sim/default");
    let unpaired = dpb(&["compare", name(&a), name(&b)]);
    assert_eq!(unpaired.status.code(), Some(2));
    let why = text(&unpaired.stderr);
    assert!(
        why.contains("backend: cpu/portable and sim/default"),
        "{why}"
    );
    let refused = dpb(&["compare", name(&a), name(&b), "--ignore", "backend"]);
    let refused = text(&refused.stdout);
    assert!(
        refused.contains("not_comparable") && refused.contains("B simulated"),
        "{refused}"
    );
    // The machine that runs the tests has other things to do.
    let across = [
        "--ignore",
        "backend",
        "--across-evidence",
        "--despite-interference",
    ];
    let across = dpb(&[&["compare", name(&a), name(&b)][..], &across].concat());
    let across = text(&across.stdout);
    assert!(
        across.contains("across evidence") && !across.contains("not_comparable"),
        "{across}"
    );
}

#[test]
fn one_file_may_be_both_sides() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = simulated(folder.path(), "a.jsonl", "sim/default");
    let flags = ["--where", "size=64,1024", "--ignore", "size"];
    let output = dpb(&[&["compare", name(&file), name(&file)][..], &flags].concat());
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 1, "{}", text(&output.stderr));
    let found: Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_ne!(found["a"]["id"], found["b"]["id"]);
}

#[test]
fn names_that_nobody_has_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let a = simulated(folder.path(), "a.jsonl", "sim/default");
    let code = |flags: &[&str]| {
        let output = dpb(&[&["compare", name(&a), name(&a)], flags].concat());
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let (exit, why) = code(&["--ignore", "colour"]);
    assert!(
        exit == Some(2) && why.contains("there are backend"),
        "{why}"
    );
    let (exit, why) = code(&["--metric", "watts"]);
    assert!(exit == Some(2) && why.contains("items_per_s"), "{why}");
    let (exit, _) = code(&["--where", "size=7"]);
    assert_eq!(exit, Some(2));
    let missing = dpb(&["compare", name(&a), "/not/there.jsonl"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_platform_of_papers_is_a_side_and_marked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("memory.jsonl");
    let words = [
        "memory",
        "--quiet",
        "--size",
        "16KiB,32KiB",
        "--out",
        name(&path),
    ];
    let words = [&words[..], &["--seconds", "5ms", "--repeat", "7"]].concat();
    let ran = dpb(&words);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let words = ["compare", "--published", "bluefield-3", name(&path)];
    let refused = dpb(&words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("--across-evidence"),
        "{}",
        text(&refused.stderr)
    );
    let flags = ["--across-evidence", "--despite-interference"];
    let compared = dpb(&[&words[..], &flags].concat());
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    assert!(
        text(&compared.stderr).contains("4 of 8 tests are left out"),
        "{}",
        text(&compared.stderr)
    );
    let rows = text(&compared.stdout).lines().map(serde_json::from_str);
    let rows: Vec<Value> = rows.collect::<Result<_, _>>().expect("JSON");
    // Random and sequential, read and written, of 16 KiB: figures 7a to 7d.
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(row["metric"], "accesses_per_s");
        assert_eq!(row["a"]["evidence"]["kind"], "published");
        let source = row["a"]["evidence"]["source"].as_str().expect("a source");
        assert!(
            source.contains("figure 7") || source.contains("figure 8"),
            "{source}"
        );
        let ratio = row["ratio"].as_f64().expect("a ratio");
        let median = |side: &str| row[side]["median"].as_f64().expect("a median");
        assert!(
            (ratio / (median("b") / median("a")) - 1.0).abs() < 1e-9,
            "{row}"
        );
        let notes = row["notes"].to_string();
        assert!(notes.contains("across evidence: A is published"), "{notes}");
        assert!(row["ratio_low"].is_null(), "one number has no interval");
    }
    let gate = ["--fail-on", "worse:5%"];
    let gated = dpb(&[&words[..], &flags, &gate].concat());
    assert_eq!(gated.status.code(), Some(2), "nothing to judge");
    let unknown = dpb(&["compare", "--published", "bluefield-9", name(&path)]);
    assert!(
        text(&unknown.stderr).contains("octeon-tx2"),
        "{}",
        text(&unknown.stderr)
    );
    let script = dpb(&["completions", "bash"]);
    assert!(text(&script.stdout).contains("bluefield-2 bluefield-3 compute-server"));
}
