//! `dpb advise`, the real program: a known engine, records, refusals, and whether what it says comes true.

#[path = "advise/goals.rs"]
mod goals;
#[path = "advise/sides.rs"]
mod sides;
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use dpb_core::measure::{Reading, Record};
use dpb_insight::advice::advisor;
use support::text;

/// Software that is known: a job of one item takes 70 ns and a nanosecond a byte.
const HOST: &str = "sim/lanes=1,job_ns=50,item_ns=20,byte_ps=1000,doorbell_ns=0";
/// An engine that is known.
const ENGINE: &str = "sim/lanes=4,job_ns=2000,item_ns=5,byte_ps=100,doorbell_ns=300";

/// Short runs of the known engine; a model's times do not depend on how long it is measured.
fn known(more: &[&str]) -> Vec<String> {
    let flags = [
        "advise",
        "--operator",
        "crc32c",
        "--host",
        HOST,
        "--device",
        ENGINE,
        "--depth",
        "1,2,8,64",
        "--seconds",
        "1ms",
        "--warm-up",
        "1ms",
        "--repeat",
        "7",
        "--format",
        "json",
    ];
    flags.iter().chain(more).map(ToString::to_string).collect()
}

fn run(words: &[String]) -> std::process::Output {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    support::finish(&words)
}

fn records(words: &[String]) -> Vec<Record> {
    let output = run(words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    support::records(&output)
}

fn advice(records: &[Record]) -> &Record {
    let last = records.last().expect("records");
    assert_eq!(last.task, "advise");
    last
}

/// Three rounds over all sizes, each size on both sides before the next one: sides and checks alike.
#[test]
fn a_size_is_measured_on_both_sides_before_the_next_one() {
    let records = records(&known(&[
        "--size",
        "64,1KiB,16KiB",
        "--batch",
        "1,4,16",
        "--verify",
    ]));
    let mut order: Vec<(String, String)> = Vec::new();
    for record in records
        .iter()
        .filter(|it| it.evidence.kind() == "simulated")
    {
        let of = |name: &str| record.parameters[name].to_string();
        let place = (of("size"), of("backend"));
        if order.last() != Some(&place) {
            order.push(place);
        }
    }
    let both = |size: &str| [HOST, ENGINE].map(|side| (size.to_owned(), side.to_owned()));
    let sides = ["64", "1024", "16384"].map(both).concat();
    let rounds: Vec<_> = std::iter::repeat_n(&sides, 3).flatten().cloned().collect();
    assert_eq!(order[..18], rounds);
    let checks = records
        .iter()
        .filter(|it| it.evidence.kind() == "simulated");
    let checks =
        checks.filter(|it| !["64", "1024", "16384"].contains(&&*it.parameters["size"].to_string()));
    let mut by_load = std::collections::BTreeMap::new();
    for record in checks {
        let of = |name: &str| record.parameters[name].to_string();
        let load = (of("backend"), of("size"), of("depth"));
        *by_load.entry(load).or_insert(0) += 1;
    }
    assert!(
        by_load.len() >= 4 && by_load.values().all(|&rounds| rounds == 3),
        "{by_load:?}"
    );
}

#[test]
fn a_known_engine_is_found_and_predicted_to_the_nanosecond() {
    let records = records(&known(&["--verify"]));
    let advice = advice(&records);
    assert_eq!(advice.evidence.kind(), "predicted");
    let model = &advice.findings["device_model"];
    for part in ["4 lanes", "0.1000 ns a byte", "doorbell 300"] {
        assert!(model.contains(part), "{part}: {model}");
    }
    // 70 + g against 2305 + g/10.
    let threshold = advice.summary["threshold_bytes"].median;
    assert!((threshold / 2483.0 - 1.0).abs() < 0.05, "{threshold}");
    assert!(
        advice.summary["worst_off_ns"].median <= 1.0,
        "{:?}",
        advice.summary
    );
    assert!(
        advice.summary["coverage"].median >= 0.9,
        "{:?}",
        advice.findings.get("misses")
    );
    assert_eq!(advice.counts["right"], advice.counts["spoken"]);
    assert!(advice.counts["spoken"] > 0);
    // What was predicted came before what was measured, under the same tests.
    let predicted: Vec<usize> = (0..records.len())
        .filter(|&at| records[at].task == "op" && records[at].evidence.kind() == "predicted")
        .collect();
    assert!(!predicted.is_empty());
    let last = predicted.last().expect("one");
    let after = &records[last + 1..records.len() - 1];
    assert!(!after.is_empty() && after.iter().all(|it| it.evidence.kind() == "simulated"));
    for &at in &predicted {
        assert!(records[at].provenance.command.len() > 2);
    }
    assert_frozen(&records);
}

/// The hash can be computed again, from the records alone.
fn assert_frozen(records: &[Record]) {
    let hash = &advice(records).findings["sha256"];
    let lines = records.iter().filter_map(|it| {
        let line = it.findings.get("frozen")?;
        assert_eq!(it.evidence.kind(), "predicted");
        assert_eq!(&it.findings["sha256"], hash, "{line}");
        Some(line.as_str())
    });
    let lines: Vec<&str> = lines.collect();
    assert!(!lines.is_empty());
    assert_eq!(&advisor::frozen(lines), hash);
}

/// Records of the task that were predicted.
fn predicted<'a>(records: &'a [Record], task: &'a str) -> impl Iterator<Item = &'a Record> {
    let is_predicted = |it: &&Record| it.evidence.kind() == "predicted";
    records
        .iter()
        .filter(is_predicted)
        .filter(move |it| it.task == task)
}

/// Records of the known engine in a file.
fn kept(folder: &Path, more: &[&str]) -> PathBuf {
    let file = folder.join("records.jsonl");
    let flag = format!("--out={}", file.display());
    let made = run(&known(&[&[flag.as_str()], more].concat()));
    assert!(made.status.success(), "{}", text(&made.stderr));
    file
}

#[test]
fn records_make_the_same_advice_as_measuring() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path(), &[]);
    let all = Reading::of_file(&file).expect("records").records;
    let all: Vec<Record> = all.into_iter().map(|line| line.record).collect();
    let first = advice(&all).clone();
    let words = [
        "advise",
        file.to_str().expect("a name"),
        "--host",
        HOST,
        "--batch",
        "1",
        "--format",
        "json",
    ];
    let again = records(&words.map(str::to_owned));
    for name in ["verdict", "device_model", "bound"] {
        assert_eq!(
            advice(&again).findings[name],
            first.findings[name],
            "{name}"
        );
    }
    // The file has what was predicted too, which is left out and said.
    let assumed = &advice(&again).findings["assumes"];
    assert!(
        assumed.contains("predictions among the records"),
        "{assumed}"
    );
    let shown = support::finish(&[&words[..6], &["--format", "table"]].concat());
    let shown = text(&shown.stdout);
    for part in [
        "move from",
        "would prove it wrong",
        "dpb op crc32c",
        "rests on:",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn hostile_records_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path(), &[]);
    let good = fs::read_to_string(&file).expect("records");
    let ops: Vec<&str> = good
        .lines()
        .filter(|line| line.contains("\"task\":\"op\"") && !line.contains("predicted"))
        .collect();
    type Change = fn(&str) -> String;
    let cases: [(Change, &str); 4] = [
        (
            |line| {
                line.replace(
                    "{\"kind\":\"simulated\"",
                    "{\"kind\":\"emulated\",\"by\":\"a stand-in\"",
                )
            },
            "emulated",
        ),
        (
            |line| {
                line.replace(
                    "{\"status\":\"done\"}",
                    "{\"status\":\"failed\",\"reason\":\"wrong bytes\"}",
                )
            },
            "wrong bytes",
        ),
        (
            |line| line.replace("\"host\":\"", "\"host\":\"another-"),
            "machine",
        ),
        (|line| line[..line.len() / 2].to_owned(), "damaged"),
    ];
    for (change, said) in cases {
        let mut lines: Vec<String> = ops.iter().map(ToString::to_string).collect();
        let last = lines.len() - 1;
        lines[last] = change(&lines[last]);
        fs::write(&file, lines.join("\n") + "\n").expect("written");
        let output = support::finish(&["advise", file.to_str().expect("a name"), "--host", HOST]);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{said}: {}",
            text(&output.stdout)
        );
        let why = text(&output.stderr);
        assert!(why.contains(said), "{said}: {why}");
        assert!(!text(&output.stdout).contains("verdict"), "{said}");
    }
    // Three sizes are too few.
    let few = run(&known(&["--size", "64,1KiB,64KiB"]));
    assert_eq!(few.status.code(), Some(1));
    assert!(
        text(&few.stderr).contains("6 shapes"),
        "{}",
        text(&few.stderr)
    );
}

#[test]
fn wrong_usage_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let hostile = folder.path().join("profile.toml");
    fs::write(&hostile, "share = 7\noffloads_per_s = 1\ncores = 1\ndesign = \"sync\"\nbatch = 1\nsizes = [[64, 1.0]]\n").expect("written");
    let hostile = hostile.to_str().expect("a name");
    let measured = ["--operator", "crc32c", "--device", "pool/1"];
    let cases: [(&[&str], &str); 16] = [
        // Flags that would change nothing.
        (&[&measured[..], &["--limit", "1ms"]].concat(), "--limit"),
        (&[&measured[..], &["--sf", "1"]].concat(), "--sf"),
        (&["none.jsonl", "--size", "64"], "--size"),
        (&["none.jsonl", "--depth", "4"], "--depth"),
        (
            &["--goal", "pushdown", "--link", "1G", "--operator", "crc32c"],
            "--operator",
        ),
        (
            &["--goal", "pushdown", "--link", "1G", "--host", "cpu/best"],
            "--host",
        ),
        (
            &["--goal", "pushdown", "--link", "1G", "--seconds", "1s"],
            "--seconds",
        ),
        (&[], "--operator"),
        (&["--operator", "crc32c"], "--device"),
        (
            &["--operator", "nothing", "--device", "pool/1"],
            "no operator",
        ),
        (&["--operator", "crc32c", "--device", "gpu/x"], "gpu/x"),
        (
            &[&measured[..], &["--goal", "slo"]].concat(),
            "--rate and --limit",
        ),
        (
            &[&measured[..], &["--goal", "application"]].concat(),
            "--profile",
        ),
        (
            &[
                &measured[..],
                &["--goal", "application", "--profile", hostile],
            ]
            .concat(),
            "share",
        ),
        (
            &[&measured[..], &["--link", "1G", "--verify"]].concat(),
            "--link",
        ),
        (
            &[&measured[..], &["--goal", "split", "--verify"]].concat(),
            "both sides at once",
        ),
    ];
    for (flags, said) in cases {
        let output = support::finish(&[&["advise"], flags].concat());
        assert_eq!(
            output.status.code(),
            Some(2),
            "{flags:?}: {}",
            text(&output.stderr)
        );
        assert!(
            text(&output.stderr).contains(said),
            "{flags:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_prediction_shares_a_ratio_with_its_own_test_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(folder.path(), &["--verify"]);
    let all = fs::read_to_string(&file).expect("records");
    let of = |kind: &str| {
        let lines = all.lines().filter(|line| {
            line.contains("\"task\":\"op\"") && line.contains(&format!("\"kind\":\"{kind}\""))
        });
        let path = folder.path().join(kind);
        fs::write(&path, lines.collect::<Vec<_>>().join("\n") + "\n").expect("written");
        path.to_str().expect("a name").to_owned()
    };
    let (predicted, measured) = (of("predicted"), of("simulated"));
    let count = fs::read_to_string(&predicted)
        .expect("records")
        .lines()
        .count();
    let compare = |more: &[&str]| {
        let words = [
            &["compare", &predicted, &measured, "--format", "json"],
            more,
        ]
        .concat();
        let said = text(&support::finish(&words).stdout);
        let rows = said
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        let rows = rows.filter(|row| row["a"].is_object() && row["b"].is_object());
        rows.collect::<Vec<_>>()
    };
    let apart = compare(&[]);
    assert_eq!(apart.len(), count);
    for row in &apart {
        assert!(row["ratio"].is_null(), "{row}");
        assert_eq!(row["verdict"], "not_comparable");
    }
    let across = compare(&["--across-evidence"]);
    assert_eq!(across.len(), count);
    for row in &across {
        let ratio = row["ratio"].as_f64().expect("the prediction's error");
        assert!((ratio - 1.0).abs() < 0.01, "{row}");
        let notes = row["notes"].to_string();
        assert!(
            notes.contains("the ratio is the prediction's error"),
            "{row}"
        );
    }
}

/// The other goals of the known engine, each asked once.
#[test]
fn each_goal_of_a_known_engine_has_its_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kept(
        folder.path(),
        &["--goal", "slo", "--rate", "1e4", "--limit", "1ms"],
    );
    let profile = folder.path().join("profile.toml");
    // 65,606 ns of software by offload.
    fs::write(&profile, "share = 0.656\noffloads_per_s = 10000\ncores = 1\ndesign = \"sync\"\nbatch = 1\nsizes = [[65536, 1.0]]\n").expect("written");
    let ask = |more: &[&str]| {
        let file = file.to_str().expect("a name");
        let words = [&["advise", file, "--host", HOST, "--format", "json"], more].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        advice(&records(&words)).clone()
    };
    let slo = ask(&[
        "--goal", "slo", "--rate", "1e4", "--limit", "1ms", "--batch", "1",
    ]);
    assert!(
        slo.findings["limit"].contains("the device meets it"),
        "{:?}",
        slo.findings
    );
    let split = ask(&["--goal", "split"]);
    assert!(
        split.findings["split"].contains("of 16 items"),
        "{:?}",
        split.findings
    );
    let profile = profile.to_str().expect("a name");
    let application = ask(&[
        "--goal",
        "application",
        "--profile",
        profile,
        "--batch",
        "1",
    ]);
    assert_eq!(application.findings["verdict"], "move");
    assert!(application.findings["capacity"].contains("the profile has 10000"));
    // A millisecond of way for each of 64 in flight.
    let far = [
        "--goal",
        "throughput",
        "--link",
        "25G",
        "--round-trip",
        "1ms",
        "--batch",
        "1",
    ];
    let here = ask(&far[..2]);
    assert!(ask(&far).summary["gain"].median < here.summary["gain"].median);
}
