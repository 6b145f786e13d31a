//! `dpb sim`, the real program: the example systems, threads, seeds, refusals, drawings.

mod support;

use std::fs;

use dpb_core::measure::{Outcome, Record, Value};
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
        assert_eq!(record.counts["payloads_wrong"], 0);
        // A frame may be flipped on both of its wires, and is found once; one with a flipped address may go to several hosts.
        let [flipped, found] = ["flipped", "digests_wrong"].map(|name| record.counts[name]);
        assert!(flipped > 20, "{:?}", record.counts);
        assert!(flipped.abs_diff(found) < flipped / 10, "{flipped}, {found}");
    }
    // Without digests nothing finds them. Half of the frames are acknowledgements, and of the others all but 66 of 1514 bytes are payload.
    let plain = run(&file("plain"), &["--seeds", "3"]);
    let [flipped, wrong] = ["flipped", "payloads_wrong"].map(|name| plain.counts[name]);
    assert!(flipped > 20, "{:?}", plain.counts);
    let share = wrong as f64 / flipped as f64;
    assert!((0.35..0.6).contains(&share), "{wrong} of {flipped}");
}

#[test]
fn records_are_kept_and_tables_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("records.jsonl");
    let out = records.to_str().expect("a name");
    let output = support::finish(&["sim", "run", "card", "--format", "table", "--out", out]);
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

/// The time of a frame of a full segment on the lanes of an engine: a call, and each byte.
fn lane_ns(job_ns: f64, byte_ns: f64, lanes: f64) -> f64 {
    // Ethernet, IP and TCP with timestamps before 1448 bytes.
    (job_ns + 1514.0 * byte_ns) / lanes
}

#[test]
fn parameters_sweep_and_an_engine_that_binds_gives_the_time() {
    let sets = [
        "--set",
        "card.stage.byte_ps=500,8000; host.connect.bytes=4MB; card.stage.waiting=4096",
    ];
    let output =
        support::finish(&[&["sim", "run", "card", "--format", "json"][..], &sets].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = support::records(&output);
    let [fast, slow] = records.as_slice() else {
        panic!("two values of one parameter")
    };
    for (record, ps) in [(fast, 500), (slow, 8000)] {
        assert_eq!(record.parameters["set.card.stage.byte_ps"], Value::Int(ps));
        assert_eq!(
            record.parameters["set.host.connect.bytes"],
            Value::Int(4_000_000)
        );
        assert_eq!(record.parameters["digest"], "sha256".into());
        assert_eq!(record.outcome, Outcome::Done);
    }
    // No queue is full, so that nothing is lost. Two transfers come to the server's card, whose two lanes take 6.2 us a frame then: that is the time, and acknowledgements besides.
    let frames = 2.0 * 4_000_000.0 / 1448.0;
    let bound_s = frames * lane_ns(200.0, 8.0, 2.0) / 1e9;
    let took_s = median(slow, "completion_s");
    assert!(
        (1.0..1.25).contains(&(took_s / bound_s)),
        "{took_s} {bound_s}"
    );
    assert!(median(slow, "busy_share_stages") > 0.9);
    // At 0.5 ns a byte they take 0.48 us, and the server's core 1.3: it binds.
    assert!(median(fast, "completion_s") < took_s / 2.0);
    assert!(median(fast, "busy_share_hosts") > 0.8);
    assert!(median(fast, "busy_share_stages") < 0.5);
}

#[test]
fn seeds_give_intervals_and_the_same_seed_the_same() {
    let args = ["--repeat", "6", "--set", "host.connect.bytes=1MB"];
    let [one, two] = [(); 2].map(|()| run("woo-chung/dumb", &args));
    assert_eq!((&one.samples, &one.counts), (&two.samples, &two.counts));
    let summary = &one.summary["completion_s"];
    let (low, high) = summary.ci95_low.zip(summary.ci95_high).expect("six runs");
    assert!(low < high, "seeds change nothing");
    // Without jitter and with one beginning they do.
    let still = "host.connect.bytes=1MB; host.jitter=0; host.connect.spread_us=0";
    let still = run("woo-chung/dumb", &["--repeat", "6", "--set", still]);
    let times = &still.samples["completion_s"].values;
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    // The tables are of all runs.
    let table = support::finish(
        &[
            &["sim", "run", "woo-chung/dumb", "--format", "table"][..],
            &args,
        ]
        .concat(),
    );
    let table = text(&table.stdout);
    let row = table
        .lines()
        .find(|line| line.starts_with("client 0, 10.0.0.1:5001"));
    assert!(row.is_some_and(|row| row.contains(" [")), "{table}");
    assert!(table.contains("a host's cores"), "{table}");
}

#[test]
fn a_record_is_run_again_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("records.jsonl");
    let out = file.to_str().expect("a name");
    run_all(&[
        "plain,card",
        "--set",
        "link.latency_ns=500,4000",
        "--set",
        "host.connect.bytes=100kB",
        "--out",
        out,
    ]);
    let kept = fs::read_to_string(&file).expect("records");
    let kept: Vec<Record> = kept
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    assert_eq!(kept.len(), 4);
    let last = &kept[3];
    let show = support::finish(&["replay", out, "--id", &last.id, "--show"]);
    let words = text(&show.stdout);
    assert!(words.contains("sim run card "), "{words}");
    assert!(
        words.contains("link.latency_ns=4000; host.connect.bytes=100000"),
        "{words}"
    );
    let again = folder.path().join("again.jsonl");
    let again_name = again.to_str().expect("a name");
    let output = support::finish(&["replay", out, "--id", &last.id, "--out", again_name]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = fs::read_to_string(again).expect("records");
    let again: Record = serde_json::from_str(again.trim()).expect("a record");
    assert_eq!(again.samples, last.samples);
}

fn run_all(more: &[&str]) {
    let output = support::finish(&[&["sim", "run", "--format", "json"], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
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
    assert!(text(&output.stderr).contains("woo-chung/dumb"));
    for (set, said) in [
        ("card.stage.byte_p=5", "unknown field `byte_p`"),
        (
            "switch[other].forward_ns=5",
            "has no `switch[other].forward_ns`",
        ),
        (
            "card.pcie_ns=5; card.pcie_ns=6",
            "card.pcie_ns is set twice",
        ),
        ("card.pcie_ns", "has no value"),
    ] {
        let output = support::finish(&["sim", "run", "card", "--set", set]);
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.contains(said), "{why}");
    }
    let output = support::finish(&["sim", "run", &example("card"), "--backend", "cpu/none"]);
    assert_ne!(output.status.code(), Some(0));
}
