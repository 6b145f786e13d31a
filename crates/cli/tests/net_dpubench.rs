//! `dpb net flow-table` and `dpb net app-recognition`, the real program with tiny trials. No test takes a time for its verdict: generators may be as late as they like.

mod support;

use std::process::Output;

use dpb_core::measure::{Evidence, Outcome, Record};
use support::text;

/// On a loaded machine packets are offered late, by up to a second here.
const TIMES: [&str; 8] = [
    "--seconds",
    "20ms",
    "--warm-up",
    "5ms",
    "--repeat",
    "2",
    "--tolerance",
    "1s",
];

fn dpb(verb: &str, args: &[&str]) -> Output {
    support::finish(&[&["net", verb], args, &TIMES].concat())
}

/// The records of a run; of another one if a program had no core for the whole of a trial, so that nothing arrived in time.
fn records(verb: &str, args: &[&str]) -> Vec<Record> {
    let run = || {
        let output = dpb(verb, args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        support::records(&output)
    };
    let mut records = run();
    for _ in 0..3 {
        let has_none = |record: &Record| record.counts.get("delivered") == Some(&0);
        if !records.iter().any(has_none) {
            break;
        }
        records = run();
    }
    records
}

fn of(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or(String::new(), ToString::to_string)
}

fn count(record: &Record, name: &str) -> u64 {
    record.counts.get(name).copied().unwrap_or(0)
}

fn median(record: &Record, name: &str) -> f64 {
    let summary = record.summary.get(name);
    summary
        .unwrap_or_else(|| panic!("no {name}: {:?}", record.summary))
        .median
}

/// Every packet is refused, delivered or dropped by reason.
fn assert_conserved(record: &Record) {
    assert_eq!(record.outcome, Outcome::Done, "{:?}", record.parameters);
    assert_eq!(of(record, "link"), "memory");
    let dropped: u64 = (record.counts.iter())
        .filter(|(name, _)| name.starts_with("dropped: "))
        .map(|(_, packets)| packets)
        .sum();
    let sum = count(record, "refused") + count(record, "delivered") + dropped;
    assert_eq!(count(record, "offered"), sum, "{:?}", record.counts);
    assert!(count(record, "delivered") > 0);
    let check = record.check.as_ref().expect("checked");
    assert_eq!(check.compared, count(record, "delivered"));
    assert_eq!(count(record, "corrupted") + count(record, "duplicates"), 0);
}

#[test]
fn a_flow_table_has_a_record_for_each_size_interval_and_table() {
    let swept = records(
        "flow-table",
        &[
            "--size",
            "64,512",
            "--interval",
            "50us,20us",
            "--flows",
            "100",
            "--table",
            "software,hardware",
        ],
    );
    let found: Vec<String> = (swept.iter())
        .map(|record| {
            ["size", "interval", "table"]
                .map(|name| of(record, name))
                .join(" ")
        })
        .collect();
    let mut expected = Vec::new();
    for size in ["64", "512"] {
        for interval in ["0.00005", "0.00002"] {
            expected
                .extend(["software", "hardware"].map(|table| format!("{size} {interval} {table}")));
        }
    }
    assert_eq!(found, expected);
    for record in &swept {
        assert_conserved(record);
        let is_model = of(record, "table") == "hardware";
        assert_eq!(
            matches!(record.evidence, Evidence::Simulated { .. }),
            is_model
        );
        // A hundred flows that never end, each with a first packet.
        // Of the model what happened behind its trial to warm up, in which they all have begun.
        let least = u64::from(!is_model);
        assert!((least..=100).contains(&record.counts["flows_begun"]));
        assert_eq!(record.counts["table_full"], 0);
    }
}

#[test]
fn a_model_says_what_its_parameters_ask_for() {
    let one = |args: &[&str]| {
        records(
            "flow-table",
            &[&["--table", "hardware", "--size", "64"], args].concat(),
        )
        .remove(0)
    };
    // As fast as it is asked: every packet takes the time of a hit.
    let fast = one(&[
        "--interval",
        "1us",
        "--flows",
        "10",
        "--hit",
        "0.05us",
        "--miss",
        "0.3us",
    ]);
    assert_conserved(&fast);
    assert_eq!(
        (median(&fast, "latency_ns_p50"), median(&fast, "loss_ratio")),
        (50.0, 0.0)
    );
    assert_eq!(median(&fast, "packets_per_s"), 1e6);
    let Evidence::Simulated { model } = &fast.evidence else {
        panic!("a model");
    };
    assert!(
        model.contains("hit_ns=50") && model.contains("miss_ns=300"),
        "{model}"
    );
    // Too slow by a half: a table with room for no flow to speak of, and software behind it that takes two microseconds.
    let slow = one(&[
        "--interval",
        "1us",
        "--flows",
        "1000",
        "--capacity",
        "1",
        "--miss",
        "2us",
    ]);
    assert_conserved(&slow);
    let loss = median(&slow, "loss_ratio");
    assert!((0.4..0.5).contains(&loss), "{loss}");
    assert_eq!(count(&slow, "dropped: software busy"), count(&slow, "lost"));
    assert!(median(&slow, "missed_ratio") > 0.4);
    // The same seed, the same simulation.
    let again = one(&[
        "--interval",
        "1us",
        "--flows",
        "1000",
        "--capacity",
        "1",
        "--miss",
        "2us",
    ]);
    assert_eq!((again.counts, again.summary), (slow.counts, slow.summary));
}

#[test]
fn a_full_table_is_counted_and_loses_nothing() {
    let full = records(
        "flow-table",
        &[
            "--table",
            "software",
            "--size",
            "64",
            "--interval",
            "20us",
            "--flows",
            "1000",
            "--capacity",
            "50",
        ],
    );
    assert_conserved(&full[0]);
    // A program that has no core for a while lets its port fill up, and no more.
    let counts = &full[0].counts;
    assert_eq!(counts["dropped"], count(&full[0], "dropped: late"));
    assert_eq!(count(&full[0], "flows_begun"), 50);
    assert!(count(&full[0], "table_full") > 500, "{:?}", full[0].counts);
}

#[test]
fn flows_that_come_and_go_end() {
    for table in ["software", "hardware"] {
        let churn = records(
            "flow-table",
            &[
                "--table",
                table,
                "--size",
                "64",
                "--interval",
                "5us",
                "--flows",
                "50",
                "--lengths",
                "agh-campus",
                "--timeout",
                "2ms",
            ],
        );
        assert_conserved(&churn[0]);
        assert!(
            count(&churn[0], "flows_ended") > 10,
            "{table} {:?}",
            churn[0].counts
        );
    }
}

#[test]
fn threads_share_the_packets_and_an_embedded_program_has_none() {
    let both = records(
        "flow-table",
        &[
            "--table",
            "software",
            "--size",
            "64",
            "--interval",
            "20us",
            "--flows",
            "200",
            "--threads",
            "1,2",
        ],
    );
    both.iter().for_each(assert_conserved);
    assert_eq!(both.len(), 2);
    let embedded = records(
        "flow-table",
        &[
            "--table",
            "software",
            "--size",
            "64",
            "--interval",
            "20us",
            "--place",
            "inline",
        ],
    );
    assert_conserved(&embedded[0]);
}

#[test]
fn a_closed_loop_has_the_program_and_its_stages() {
    let closed = records(
        "flow-table",
        &[
            "--mode", "closed", "--size", "64", "--flows", "500", "--table", "software",
        ],
    );
    let [record] = &closed[..] else {
        panic!("one test")
    };
    assert_eq!(record.outcome, Outcome::Done);
    assert_eq!(
        (of(record, "mode").as_str(), of(record, "link").as_str()),
        ("closed", "memory")
    );
    for name in [
        "program_ns_per_packet",
        "parse_ns_per_packet",
        "table_ns_per_packet",
        "port_ns_per_packet",
        "stages_ratio",
    ] {
        assert!(median(record, name) > 0.0, "{name}");
    }
    assert_eq!(
        (count(record, "flows_begun"), count(record, "table_full")),
        (500, 0)
    );
}

#[test]
fn what_is_not_here_says_why() {
    for (table, said) in [("doca-flow", "DOCA Flow"), ("rte-flow", "rte_flow")] {
        let output = dpb(
            "flow-table",
            &["--table", table, "--size", "64", "--interval", "20us"],
        );
        assert_eq!(output.status.code(), Some(3));
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
        let record = support::records(&output).remove(0);
        assert!(
            matches!(&record.outcome, Outcome::Unsupported { reason } if reason.contains(said))
        );
        assert!(record.summary.is_empty());
    }
    let output = dpb(
        "app-recognition",
        &["--backend", "sim/default", "--interval", "1ms"],
    );
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    for args in [
        &["--size", "10"][..],
        &["--interval", "0"],
        &["--interval", "1us", "--rate", "5"],
        &["--lengths", "short"],
    ] {
        let output = dpb("flow-table", args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?} {}",
            text(&output.stderr)
        );
    }
    for args in [
        &["--policy", "tls=burn"][..],
        &["--side", "moon"],
        &["--capture", "/no/such.pcap"],
    ] {
        let output = dpb("app-recognition", args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?} {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn applications_are_recognised_on_each_side() {
    let sides = records(
        "app-recognition",
        &[
            "--size",
            "64",
            "--interval",
            "20us",
            "--flows",
            "50",
            "--side",
            "host,dpu,dpu-all",
        ],
    );
    let names: Vec<String> = sides.iter().map(|record| of(record, "side")).collect();
    assert_eq!(names, ["host", "dpu", "dpu-all"]);
    for record in &sides {
        assert_conserved(record);
        assert_eq!(count(record, "verdicts_wrong"), 0, "{:?}", record.counts);
        assert!(count(record, "verdicts_right") > 10, "{:?}", record.counts);
        assert!(count(record, "flows_by_rule") > 0, "{:?}", record.counts);
        for name in [
            "packets_back",
            "packets_hashed",
            "packets_compressed",
            "hashed_bytes",
            "compressed_bytes_out",
        ] {
            assert!(count(record, name) > 0, "{name} {:?}", record.counts);
        }
        let against = &record.check.as_ref().expect("checked").against;
        assert!(against.contains("outputs of operators"), "{against}");
        let side = of(record, "side");
        assert_eq!(
            median(record, "server_cpu_share") > 0.0,
            side != "dpu-all",
            "{side}"
        );
        assert_eq!(record.summary.contains_key("dpu_cpu_share"), side != "host");
        assert_eq!(
            record.summary.contains_key("server_cpu_saved"),
            side != "host"
        );
    }
}

#[test]
fn every_backend_and_compression_does_the_same() {
    let args = [
        "--size",
        "300",
        "--interval",
        "50us",
        "--flows",
        "30",
        "--side",
        "host",
    ];
    for more in [
        &["--compression", "lz4"][..],
        &["--backend", "cpu/portable"],
        &["--backend", "pool/1"],
        &["--policy", "other=hash,undecided=drop"],
    ] {
        let [record] = &records("app-recognition", &[&args[..], more].concat())[..] else {
            panic!("one test")
        };
        assert_conserved(record);
        assert_eq!(
            count(record, "verdicts_wrong"),
            0,
            "{more:?} {:?}",
            record.counts
        );
        assert!(count(record, "verdicts_right") > 10, "{:?}", record.counts);
        assert!(count(record, "hashed_bytes") > 0, "{:?}", record.counts);
        // The threads of a pool work for the server, and no meter counts their time.
        let has_own_threads = more.contains(&"pool/1");
        assert_eq!(
            record.summary.contains_key("server_cpu_share"),
            !has_own_threads
        );
    }
}

#[test]
fn a_capture_is_played_and_its_rules_are_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("in.pcap");
    // A capture with one conversation that only the rule knows.
    let mut file = dpb_net_capture::header();
    for i in 0..20_u8 {
        dpb_net_capture::datagram(&mut file, i, b"\x91\x92 open sesame, again and again");
    }
    std::fs::write(&capture, file).expect("written");
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "11:/open sesame/\n").expect("written");
    let (capture, rules) = (capture.display().to_string(), rules.display().to_string());
    let played = records(
        "app-recognition",
        &[
            "--capture",
            &capture,
            "--rules",
            &rules,
            "--rate",
            "20k",
            "--side",
            "host",
            "--policy",
            "rule=hash",
        ],
    );
    assert_conserved(&played[0]);
    assert!(
        count(&played[0], "flows_by_rule") > 0,
        "{:?}",
        played[0].counts
    );
    assert!(count(&played[0], "packets_hashed") > 0);
}

/// A capture file, written by the format's description (pcap, IETF's draft-ietf-opsawg-pcap).
mod dpb_net_capture {
    pub(super) fn header() -> Vec<u8> {
        let fields = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65535, 1];
        fields
            .iter()
            .flat_map(|field| field.to_le_bytes())
            .collect()
    }

    /// UDP over IPv4 from a host of its own.
    pub(super) fn datagram(file: &mut Vec<u8>, host: u8, payload: &[u8]) {
        let udp_bytes = 8 + payload.len() as u16;
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + udp_bytes).to_be_bytes());
        frame.extend([0, 0, 0, 0, 9, 17, 0, 0, 10, 1, 2, host, 10, 9, 9, 9]);
        frame.extend([0x27, 0x0f, 0x27, 0x10]);
        frame.extend(udp_bytes.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        let len = frame.len() as u32;
        let fields = [1_700_000_000, u32::from(host) * 100, len, len];
        file.extend(fields.iter().flat_map(|field: &u32| field.to_le_bytes()));
        file.extend(frame);
    }
}
