//! What a plug-in's manifest declares: bounds of parameters, which values of a metric are better, what the report shows; and a record of it
//! that is replayed.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use dpb_core::measure::{Reading, Record};
use serde_json::Value;
use support::{DPB, text};
use tempfile::TempDir;

/// By its name less of `moves` would be better.
const MANIFEST: &str = r#"{ "name": "sorting", "summary": "a test", "run_time": "10ms",
    "parameters": [
        { "name": "size", "type": "size", "minimum": 8, "maximum": 4096, "default": 64, "meaning": "Bytes" },
        { "name": "order", "words": ["random", "sorted"], "default": "random", "meaning": "The order before" } ],
    "metrics": [
        { "name": "moves", "meaning": "moves of a run", "better": "more" },
        { "name": "keys_per_s", "meaning": "keys sorted per second", "chart": false } ],
    "view": { "lead": ["order", "size"], "series": ["order"], "sweeps": ["size"],
        "base": { "parameter": "order", "value": "random", "metric": "moves" } } }"#;

/// Notes the request, and moves as often as the file `factor` says for each byte.
const RUN: &str = r#"#!/bin/sh
read -r request
echo "$request" >> "$DPB_PLUGIN/requests"
factor=$(cat "$DPB_PLUGIN/factor")
size=$(echo "$request" | sed 's/.*"size":\([0-9]*\).*/\1/')
case $request in *sorted*) factor=$((factor * 3)) ;; esac
moves=$((size * factor * 1000))
runs=$moves
for more in 1 2 3 4 5 6; do runs="$runs,$((moves + more))"; done
echo "{\"samples\":{\"moves\":[$runs],\"keys_per_s\":[7,7,7,7,7,7,7]}}"
"#;

const BOX: &str = r#"{ "repeats": 7, "seed": 11, "tasks": [
    { "task": "sorting", "parameters": { "size": [8, 64], "order": ["random", "sorted"] } } ] }"#;

/// A folder with the plug-in and the box.
fn place() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let own = folder.path().join("plugins/sorting");
    fs::create_dir_all(&own).expect("a folder");
    for (name, content) in [("plugin.json", MANIFEST), ("run", RUN), ("factor", "2\n")] {
        fs::write(own.join(name), content).expect("written");
    }
    fs::set_permissions(own.join("run"), fs::Permissions::from_mode(0o755)).expect("executable");
    fs::write(folder.path().join("b.json"), BOX).expect("written");
    folder
}

fn dpb(at: &Path, data: &str, words: &[&str]) -> Output {
    let mut command = Command::new(DPB);
    command
        .current_dir(at)
        .args(words)
        .env("DPB_DATA_DIR", at.join(data));
    command.output().expect("dpb runs")
}

fn printed(at: &Path, data: &str, words: &[&str]) -> String {
    let output = dpb(at, data, words);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{words:?}\n{err}");
    text(&output.stdout)
}

fn run(at: &Path, out: &str) {
    printed(
        at,
        "data",
        &["run", "b.json", "--plugins", "plugins", "--out", out],
    );
}

fn records(at: &Path, out: &str) -> Vec<Record> {
    let reading = Reading::of_file(&at.join(out).join("records.jsonl")).expect("records");
    reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect()
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn a_report_shows_a_plug_in_as_its_manifest_says() {
    let (folder, title) = (place(), "moves of a run against size");
    let at = folder.path();
    run(at, "out");
    let page = fs::read_to_string(at.join("out/report.html")).expect("a report");
    assert!(page.contains(title), "a chart");
    assert!(!page.contains("keys sorted per second against size"));
    assert!(page.contains("3.00× random"), "ratios to the base");
    let told: &[&str] = &["--plugins", "plugins"];
    for (data, more, is_drawn) in [
        ("data", &[][..], true),
        ("no", &[], false),
        ("no", told, true),
    ] {
        let words = [&["report", "out/records.jsonl", "--text"], more].concat();
        let drawn = printed(at, data, &words);
        assert_eq!(drawn.contains(title), is_drawn, "{drawn}");
        assert!(drawn.contains("keys per s"), "{drawn}");
    }
    // A manifest that has gone or broken since does not keep the report.
    fs::write(at.join("plugins/sorting/plugin.json"), "{").expect("written");
    let drawn = printed(at, "data", &["report", "out/records.jsonl", "--text"]);
    assert!(!drawn.contains(title), "{drawn}");
}

#[test]
fn which_value_is_better_is_the_manifests() {
    let folder = place();
    let at = folder.path();
    run(at, "before");
    fs::write(at.join("plugins/sorting/factor"), "4\n").expect("written");
    run(at, "after");
    let words = ["compare", "before/records.jsonl", "after/records.jsonl"];
    let words = [&words[..], &["--format", "json"]].concat();
    let compared = lines(&printed(at, "data", &words));
    assert_eq!(compared.len(), 4);
    for one in &compared {
        assert_eq!(
            (&one["metric"], &one["better"]),
            (&"moves".into(), &"more".into())
        );
        assert_eq!(one["verdict"], "better", "{one}");
    }
    // Who does not know the plug-in is told, and guesses nothing.
    let compared = lines(&printed(at, "no", &words));
    assert_eq!(compared[0]["notes"][0], "no main metric is known; name one");
}

#[test]
fn a_plug_ins_record_is_replayed() {
    let folder = place();
    let at = folder.path();
    run(at, "out");
    let last = records(at, "out").pop().expect("four");
    let words = ["replay", "out/records.jsonl", "--id", &last.id];
    let shown = printed(at, "data", &[&words[..], &["--show"]].concat());
    let (line, boxed) = shown.split_once("with BOX: ").expect("a box");
    let seed = format!(" --seed {}\n", last.provenance.seed);
    assert!(line.ends_with(&seed), "{line}");
    fs::write(at.join("shown.json"), boxed).expect("written");
    printed(
        at,
        "data",
        &[
            "run",
            "shown.json",
            "--plugins",
            "plugins",
            "--out",
            "again",
        ],
    );
    assert_eq!(records(at, "again")[0].parameters, last.parameters);
    fs::remove_file(at.join("plugins/sorting/requests")).expect("there");
    for (data, more) in [("data", &[][..]), ("no", &["--plugins", "plugins"])] {
        let words = [&words[..], &["--format", "json"], more].concat();
        let compared = lines(&printed(at, data, &words));
        assert_eq!(compared.len(), 1);
        assert_eq!(compared[0]["ratio"], 1.0, "{compared:?}");
    }
    let requests = fs::read_to_string(at.join("plugins/sorting/requests")).expect("there");
    let requests = lines(&requests);
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request["parameters"]["size"], 64);
        assert_eq!(request["parameters"]["order"], "sorted");
        assert_eq!(
            (&request["repeats"], &request["seed"]),
            (&7.into(), &11.into())
        );
    }
    let unknown = dpb(at, "other", &["replay", "out/records.jsonl"]);
    assert_eq!(unknown.status.code(), Some(2));
    let err = text(&unknown.stderr);
    assert!(err.contains("--plugins FOLDER"), "{err}");
    let flags = dpb(at, "data", &[&words[..], &["--", "--size=8"]].concat());
    assert_eq!(flags.status.code(), Some(2), "{}", text(&flags.stderr));
}

#[test]
fn bounds_and_views_of_a_manifest_are_checked() {
    let folder = place();
    let at = folder.path();
    let refused = |said: &str| {
        let words = ["run", "b.json", "--plugins", "plugins", "--dry-run"];
        let err = text(&dpb(at, "data", &words).stderr);
        assert!(err.contains(said), "{err}\nnot: {said}");
    };
    for (value, said) in [
        ("\"4\"", "4 is too little; at least 8"),
        ("8192", "8192 is too much; at most 4096"),
        ("\"64..8KiB\"", "8192 is too much"),
    ] {
        let asked = BOX.replace("[8, 64]", value);
        fs::write(at.join("b.json"), asked).expect("written");
        refused(said);
    }
    fs::write(at.join("b.json"), BOX).expect("written");
    for (now, then, said) in [
        (
            "\"default\": 64",
            "\"default\": 4",
            "default: 4 is too little",
        ),
        ("\"minimum\": 8", "\"minimum\": 9e9", "is above maximum"),
        (
            "[\"size\"]",
            "[\"sise\"]",
            "view: sweeps: no parameter `sise`",
        ),
        (
            "\"parameter\": \"order\"",
            "\"parameter\": \"size\"",
            "is not among `series`",
        ),
        (
            "\"metric\": \"moves\"",
            "\"metric\": \"moods\"",
            "no metric `moods`",
        ),
        (
            "\"better\": \"more\"",
            "\"better\": \"most\"",
            "unknown variant `most`",
        ),
        (
            "\"name\": \"keys_per_s\"",
            "\"name\": \"moves\"",
            "metric moves: it is there twice",
        ),
        (
            "\"words\": [\"random\", \"sorted\"]",
            "\"words\": [\"random\", \"sorted\"], \"maximum\": 3",
            "are of numbers",
        ),
    ] {
        let changed = MANIFEST.replace(now, then);
        assert_ne!(changed, MANIFEST, "{now}");
        fs::write(at.join("plugins/sorting/plugin.json"), changed).expect("written");
        refused(said);
    }
}

#[test]
fn tasks_are_listed_with_parameters_and_metrics() {
    let folder = place();
    let at = folder.path();
    let words = ["list", "tasks", "--plugins", "plugins", "--format"];
    let rows = lines(&printed(at, "data", &[&words[..], &["json"]].concat()));
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("listed");
    let sorting = row("sorting");
    assert_eq!(sorting["parameters"][0]["maximum"], 4096.0);
    assert_eq!(sorting["parameters"][1]["values"], "random|sorted");
    assert_eq!(sorting["metrics"][0]["better"], "more");
    let of = |row: &Value, list: &str, name: &str| {
        let own = row[list].as_array().expect("a list").clone();
        own.into_iter().find(|one| one["name"] == name)
    };
    let memory = row("memory");
    let size = of(memory, "parameters", "size").expect("a parameter");
    assert_eq!(
        (&size["values"], &size["default"]),
        (&"size".into(), &"16KiB,4MiB,1GiB".into())
    );
    // The bound is the one that the verb itself has.
    let threads = of(memory, "parameters", "threads").expect("a parameter");
    let most = threads["maximum"].as_f64().expect("a bound") as u64;
    let asked = format!("--threads={}", most + 1);
    let beyond = dpb(at, "data", &["memory", "--size=16KiB", &asked]);
    assert_eq!(beyond.status.code(), Some(2));
    let said = format!("at most {most} on this machine");
    assert!(
        text(&beyond.stderr).contains(&said),
        "{}",
        text(&beyond.stderr)
    );
    let time = of(memory, "metrics", "ns_per_access").expect("a metric");
    assert_eq!(time["better"], "less");
    let table = printed(at, "data", &[&words[..], &["table"]].concat());
    assert!(table.contains("parameters: size, pattern"), "{table}");
}
