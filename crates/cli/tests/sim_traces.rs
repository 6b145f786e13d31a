//! `dpb sim run` with traces, the real program: captures that other readers understand, timelines, tables that say where time went; times from records.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use dpb_core::measure::Record;
use support::text;

/// An example system with transfers that are a hundred times shorter.
fn example(folder: &Path, name: &str) -> String {
    let path = format!("{}/../sim/systems/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("an example");
    let text = text.replace("0_000_000", "00_000");
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, text).expect("a file");
    path.to_str().expect("a name").to_owned()
}

fn run(words: &[&str]) -> Record {
    let output = support::finish(&[&["sim", "run"], words, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    support::records(&output).pop().expect("a record")
}

#[test]
fn captures_are_read_by_our_reader_and_by_tshark() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("frames.pcapng");
    let file = capture.to_str().expect("a name");
    let system = example(folder.path(), "plain");
    let record = run(&[&system, "--pcapng", file, "--ports", "server"]);
    let bytes = fs::read(&capture).expect("a capture");
    let packets = dpb_net::port::capture::packets(&bytes).expect("pcapng");
    let lengths: Vec<usize> = packets.map(|it| it.expect("a packet").len()).collect();
    // Each frame of the system goes to the server or comes from it, and so passes its port once.
    assert_eq!(record.counts["dropped: switch queues"], 0);
    assert_eq!(lengths.len() as u64, record.counts["frames_sent"]);
    assert!(lengths.contains(&1514));
    let tshark = Command::new("tshark")
        .args([
            "-r",
            file,
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "ip.check_checksum:TRUE",
        ])
        .args([
            "-T",
            "fields",
            "-e",
            "frame.interface_name",
            "-e",
            "frame.time_epoch",
        ])
        .args([
            "-e",
            "tcp.checksum.status",
            "-e",
            "ip.checksum.status",
            "-e",
            "_ws.malformed",
        ])
        .output();
    let Ok(tshark) = tshark else {
        eprintln!("tshark is not installed: not checked with it");
        return;
    };
    assert!(tshark.status.success(), "{}", text(&tshark.stderr));
    let lines = text(&tshark.stdout);
    assert_eq!(lines.lines().count(), lengths.len());
    let mut last = 0.0;
    for line in lines.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields[0], "server", "{line}");
        let time: f64 = fields[1].parse().expect("seconds");
        assert!(time >= last && time < 1.0, "{line}");
        last = time;
        // One is good.
        assert_eq!((fields[2], fields[3]), ("1", "1"), "{line}");
        assert_eq!(fields.get(4).copied().unwrap_or(""), "", "{line}");
    }
}

#[test]
fn timelines_and_tables_say_where_time_went() {
    let folder = tempfile::tempdir().expect("a folder");
    let timeline = folder.path().join("timeline.json");
    let file = timeline.to_str().expect("a name");
    let system = example(folder.path(), "off-path");
    let words = [
        "sim",
        "run",
        &system,
        "--timeline",
        file,
        "--format",
        "table",
    ];
    let output = support::finish(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for word in [
        "end to end",
        "100.0 %",
        "engine work",
        "mean queue",
        "port 53 (answers)",
        "busiest",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let bytes = fs::read(&timeline).expect("a timeline");
    let timeline: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let events = timeline["traceEvents"].as_array().expect("events");
    assert!(
        events
            .iter()
            .any(|it| it["args"]["name"] == "card of server: cores")
    );
    // The record has the same sums, and its flows of datagrams add up.
    let record = run(&[&system]);
    let spent: BTreeMap<&String, &u64> = record
        .counts
        .iter()
        .filter(|it| it.0.starts_with("spent_ns"))
        .collect();
    assert!(spent.len() > 20, "{spent:?}");
    let counts = &record.counts;
    for of in ["datagrams", "answers"] {
        let dropped = counts
            .iter()
            .filter(|it| it.0.starts_with(&format!("{of}_dropped")));
        let ended = counts[&format!("{of}_refused")]
            + counts[&format!("{of}_delivered")]
            + counts[&format!("{of}_duplicates")]
            + dropped.map(|it| it.1).sum::<u64>();
        assert_eq!(
            counts[&format!("{of}_offered")] + counts[&format!("{of}_copied")],
            ended
        );
    }
    assert!(record.summary["answer_latency_ns_p99"].median > 0.0);
    assert!(record.summary["request_latency_ns_p50"].median > 0.0);
}

#[test]
fn traces_refuse_what_they_cannot_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = example(folder.path(), "plain");
    for (words, said) in [
        (vec!["--timeline", "t.json", "--threads", "2"], "one thread"),
        (
            vec!["--pcapng", "/nowhere/frames", "--ports", "server"],
            "cannot write",
        ),
        (
            vec!["--pcapng", "frames", "--ports", "nobody"],
            "no port `nobody`; there are server",
        ),
        (vec!["--ports", "server"], "--pcapng"),
        (
            vec!["--timeline", "t.json", "--set", "link.latency_ns=500,1000"],
            "of one system, not of 2",
        ),
    ] {
        let output = support::dpb(&[&["sim", "run", system.as_str()], words.as_slice()].concat())
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        let why = text(&output.stderr);
        assert!(why.contains(said), "{words:?}: {why}");
    }
}

#[test]
fn times_come_from_records_that_dpb_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("records.jsonl");
    let out = records.to_str().expect("a name");
    let words = [
        "op",
        "sha256",
        "--backend",
        "cpu/best",
        "--size",
        "64,1024",
        "--batch",
        "64",
        "--seconds",
        "0.01",
        "--warm-up",
        "1ms",
        "--repeat",
        "2",
        "--out",
        out,
    ];
    let output = support::finish(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let system = example(folder.path(), "card");
    let text_of = fs::read_to_string(&system).expect("a file");
    let stage = text_of.replace("job_ns = 200, byte_ps = 500", "record = \"records.jsonl\"");
    fs::write(&system, stage).expect("a file");
    let record = run(&[&system]);
    let dpb_core::Evidence::Simulated { model } = &record.evidence else {
        panic!("{:?}", record.evidence);
    };
    let kept = fs::read_to_string(&records).expect("records");
    for line in kept.lines() {
        let measured: Record = serde_json::from_str(line).expect("a record");
        assert!(model.contains(&measured.id), "{model}");
        assert!(model.contains(measured.evidence.kind()), "{model}");
    }
    fs::remove_file(&records).expect("a file");
    let output = support::finish(&["sim", "run", &system]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("records.jsonl"));
}
