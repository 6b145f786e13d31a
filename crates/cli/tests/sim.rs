//! `dpb sim`, the real program: the example systems, threads, seeds, refusals, drawings.

mod support;

use std::fs;

use dpb_core::measure::{Outcome, Record};
use support::text;

/// An example system.
fn example(name: &str) -> String {
    format!("{}/../sim/systems/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

fn run(system: &str, more: &[&str]) -> Record {
    let args = [&["sim", "run", system, "--format", "json"], more].concat();
    let output = support::finish(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = support::records(&output);
    assert_eq!(records.len(), 1);
    records.into_iter().next().expect("a record")
}

fn median(record: &Record, name: &str) -> f64 {
    record.summary[name].median
}

#[test]
fn the_card_saves_what_software_costs() {
    let [plain, software, card] =
        ["plain", "software", "card"].map(|name| run(&example(name), &[]));
    for record in [&plain, &software, &card] {
        assert_eq!(record.outcome, Outcome::Done);
        assert_eq!(record.evidence.kind(), "simulated");
        assert_eq!(record.counts["payloads_wrong"], 0);
        // Two transfers of 20 million bytes, in segments of at most 1448.
        assert!(record.counts["payload_frames"] >= 2 * 20_000_000 / 1448);
        let check = record.check.as_ref().expect("a check");
        assert_eq!(check.compared, record.counts["payload_frames"]);
    }
    let times = [&plain, &software, &card].map(|it| median(it, "completion_s"));
    assert!(times[0] <= times[2] && times[2] < times[1], "{times:?}");
    assert_eq!(plain.counts["host_digest_busy_ns"], 0);
    assert_eq!(card.counts["host_digest_busy_ns"], 0);
    // 40 million bytes at two nanoseconds each at either end, and headers.
    assert!(software.counts["host_digest_busy_ns"] > 2 * 40_000_000 * 2);
}

#[test]
fn threads_change_nothing() {
    let [one, two] = ["1", "2"].map(|threads| {
        let record = run(&example("card"), &["--threads", threads, "--seeds", "2"]);
        (record.counts, record.samples, record.summary)
    });
    assert_eq!(one, two);
    assert_eq!(one.1["completion_s"].values.len(), 2);
}

#[test]
fn flipped_bits_are_found_by_digests_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| {
        let text = fs::read_to_string(example(name)).expect("an example");
        let text = text.replace("latency_ns = 500\n", "latency_ns = 500\nflip = 0.002\n");
        let text = text.replace("[[host]]\n", "[[host]]\nchecksums = false\n");
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a name").to_owned()
    };
    for name in ["software", "card"] {
        let record = run(&file(name), &["--seeds", "3"]);
        assert!(record.counts["flipped"] > 20, "{:?}", record.counts);
        assert_eq!(record.counts["payloads_wrong"], 0);
        assert!(record.counts["digests_wrong"] > 20);
    }
    // A flipped header may confuse TCP for good, as nothing finds it: such a run fails, and its counts are kept.
    let output = support::finish(&[
        "sim",
        "run",
        &file("plain"),
        "--format",
        "json",
        "--seeds",
        "3",
    ]);
    assert!(matches!(output.status.code(), Some(0 | 1)));
    let plain = support::records(&output).pop().expect("a record");
    assert!(plain.counts["payloads_wrong"] > 20);
    assert_eq!(plain.counts["digests_wrong"], 0);
}

#[test]
fn records_are_kept_and_tables_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("records.jsonl");
    let out = records.to_str().expect("a name");
    let system = example("card");
    let output = support::finish(&["sim", "run", &system, "--format", "table", "--out", out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for word in [
        "client 0",
        "sha256",
        "wire to server",
        "engine work",
        "simulated",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let kept = fs::read_to_string(records).expect("records");
    assert_eq!(kept.lines().count(), 1);
}

#[test]
fn a_system_is_drawn() {
    let output = support::finish(&["sim", "describe", &example("card")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let drawing = text(&output.stdout);
    assert!(drawing.starts_with("graph system {"));
    assert!(
        drawing.contains("\"client 1\" -- \"switch\" [label=\"10 Gbit/s\"]"),
        "{drawing}"
    );
    assert!(drawing.contains("card: 2 x sha256"));
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let card = fs::read_to_string(example("card")).expect("an example");
    for (from, to, code, said) in [
        ("rate_gbps", "rate", 2, "unknown field `rate`"),
        ("\"sha256\" }", "\"rot13\" }", 2, "no operator `rot13`"),
        ("ends = [\"server\"", "ends = [\"nobody\"", 2, "`nobody`"),
        (
            "# The system",
            "limit_s = 0.001\n# The system",
            1,
            "limit_s",
        ),
    ] {
        let path = folder.path().join("system.toml");
        fs::write(&path, card.replacen(from, to, 1)).expect("a file");
        let output = support::finish(&["sim", "run", path.to_str().expect("a name")]);
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{why}");
        assert!(why.contains(said), "{why}");
    }
    let idle = folder.path().join("idle.toml");
    fs::write(&idle, "[[host]]\nname = \"a\"\n").expect("a file");
    let output = support::finish(&["sim", "run", idle.to_str().expect("a name")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no host connects"));
    let output = support::finish(&["sim", "run", "no-such-file.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let output = support::finish(&["sim", "run", &example("card"), "--backend", "cpu/none"]);
    assert_ne!(output.status.code(), Some(0));
}
