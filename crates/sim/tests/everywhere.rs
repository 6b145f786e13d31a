//! The same file gives the same record everywhere: on x86-64 and on Arm, on one thread and on several.
//!
//! Each system's counters, flows and ways are written out and digested. The digests below were computed once; every machine and every number of threads must
//! give them. `cargo xtask test --target aarch64` runs this test under emulation. A change of the models changes the digests: the failed test prints the record, and
//! whether the new one is right is for the model's own tests to say.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Evidence, Record, Samples};
use dpb_core::{Backend, Operator, SetupError};
use dpb_operators::cpu::Cpu;
use dpb_operators::registry::Operators;
use dpb_sim::system::{Description, System, report};

/// The numbers of threads.
const THREADS: [usize; 3] = [1, 2, 4];

fn prepare(name: &str) -> Result<Arc<dyn Operator>, SetupError> {
    let spec = Operators::DPB.spec_from(name, &[])?;
    Cpu::best().prepare(&spec)
}

/// Runs a system, whose files are in this folder, and writes down everything that it counts.
fn record(text: &str, folder: &Path, seed: u64, threads: usize) -> String {
    let mut description: Description = text.parse().expect("a system");
    description.load(folder).expect("files");
    let assembled = System::assemble(&description, &prepare, seed, threads);
    let mut system = assembled.expect("the parts fit together");
    assert!(system.run().expect("nothing fails"), "it does not finish");
    let mut record = String::new();
    let kernel = system.kernel();
    writeln!(record, "{} ps, {} events", kernel.now_ps(), kernel.events()).expect("memory");
    for (name, host) in system.hosts() {
        let counts = (host.usage(), host.ways(), host.protection());
        writeln!(record, "{name}: {counts:?}").expect("memory");
        for flow in host.flows() {
            let times = (flow.own, flow.peer, flow.opened_ps, flow.finished_ps);
            let sent = flow.endpoint.sender().statistics();
            let delivered = (flow.answers, flow.endpoint.delivered_bytes());
            let received = flow.endpoint.receiver().statistics();
            writeln!(record, "  {times:?} {delivered:?} {sent:?} {received:?}").expect("memory");
            if let Some(asking) = &flow.asking {
                let latencies = shares(&asking.latencies);
                let asked = (asking.asked(), asking.latency_ps);
                writeln!(record, "  {asked:?} {latencies:?}").expect("memory");
            }
        }
    }
    for (name, card) in system.cards() {
        let counts = (
            card.usage(),
            card.wire_usage(),
            card.dma(),
            card.protection(),
        );
        let stages: Vec<_> = card.stages().collect();
        writeln!(record, "card of {name}: {counts:?} {stages:?}").expect("memory");
    }
    for flow in report::datagram_flows(&system) {
        let (from, to) = (flow.from, flow.to);
        let sent = (flow.offered, flow.refused, flow.copied, &flow.dropped);
        writeln!(record, "{from} to {to}: {sent:?}").expect("memory");
        if let Some(received) = flow.received {
            let counts = (received.delivered, received.bytes, received.duplicates);
            let times = (received.reordered, received.latency_ps, received.last_ps);
            let latencies = shares(&received.latencies);
            writeln!(record, "  {counts:?} {times:?} {latencies:?}").expect("memory");
        }
    }
    for (name, switch, ports) in system.switches() {
        let wires: Vec<_> = (0..ports.len())
            .map(|port| switch.wire_usage(port))
            .collect();
        writeln!(record, "{name}: {:?} {wires:?}", switch.usage()).expect("memory");
    }
    record
}

/// Hundredths of a distribution, and its end.
fn shares(latencies: &Latencies) -> Vec<u64> {
    let shares = (0..100).map(|it| latencies.percentile_ns(f64::from(it) / 100.0));
    shares.chain([latencies.max_ns()]).collect()
}

/// FNV-1a, 64 bits (RFC 9923).
fn digest(record: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    record.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn check(text: &str, seed: u64, threads: &[usize], expected: u64) {
    check_in(Path::new("."), text, seed, threads, expected);
}

/// As [`check`], of a system whose files are in this folder.
fn check_in(folder: &Path, text: &str, seed: u64, threads: &[usize], expected: u64) {
    for &threads in threads {
        let record = record(text, folder, seed, threads);
        let found = digest(&record);
        assert!(
            found == expected,
            "the digest on {threads} threads is {found:#018x}, not {expected:#018x}, of this record:\n{record}"
        );
    }
}

/// A file as it is on one thread; and with transfers of a twentieth on several too, as more threads than cores take turns at each microsecond.
fn check_file(text: &str, whole: u64, brief: u64) {
    check(text, 1, &[1], whole);
    let shorter = text.replace("bytes = 20_000_000", "bytes = 1_000_000");
    assert_ne!(shorter, text);
    check(&shorter, 1, &THREADS, brief);
}

#[test]
fn the_hash_is_fnv_1a() {
    // RFC 9923's vectors.
    assert_eq!(digest(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(digest("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(digest("foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn dumb_cards() {
    check_file(
        include_str!("../systems/plain.toml"),
        0xc50b_2332_5db0_cefc,
        0x1b34_b97b_1c65_79bb,
    );
}

#[test]
fn digests_on_the_cards() {
    check_file(
        include_str!("../systems/card.toml"),
        0xc5ce_a182_b32e_df87,
        0x1505_0cf9_68ae_0c22,
    );
}

#[test]
fn digests_by_the_hosts() {
    check_file(
        include_str!("../systems/software.toml"),
        0xedb9_aad5_7d7c_0d8b,
        0xc09e_39f7_821e_4d4a,
    );
}

/// Memories and buses that stages share, doorbells, the same order in both directions; Poisson arrivals, sizes that are drawn, exponential times of thinking.
#[test]
fn cards_off_the_path() {
    let text = include_str!("../systems/off-path.toml");
    let text = text.replace("bytes = 10_000_000", "bytes = 1_000_000");
    check(&text, 2, &THREADS, 0x5515_4355_6bfb_7086);
}

/// Jitter of cores, late beginnings, merged frames.
#[test]
fn woo_and_chung() {
    let text = include_str!("../systems/woo-chung/card.toml");
    let text = text.replace("bytes = 20_000_000", "bytes = 1_000_000");
    check(&text, 4, &THREADS, 0xefce_206d_3161_7254);
}

/// A record of latencies of single digests.
fn of_single(size: u64, latencies_ns: impl Iterator<Item = u64>) -> Record {
    let mut record = Record::new("op", Evidence::Measured, 1)
        .with("operator", "sha256")
        .with("backend", "cpu/a")
        .with("size", size)
        .with("threads", 1u64)
        .with("batch", 1u64)
        .with("depth", 1u64)
        .with("mode", "closed");
    record.sample("items_per_s", vec![1e6]);
    let mut latencies = Latencies::default();
    latencies_ns.for_each(|it| latencies.record(it));
    let samples = Samples {
        values: vec![],
        hdr: Some(latencies.to_base64()),
    };
    record.samples.insert("latency_ns".to_owned(), samples);
    record
}

/// Times of a card's stage and of a host's cores that are drawn from records, open and closed loops of requests, and wires that lose, spoil and double frames.
#[test]
fn times_that_are_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = [
        of_single(64, (1..=1000).map(|it| 200 + it)),
        of_single(1500, (1..=1000).map(|it| 900 + it * it / 500)),
    ];
    let lines = records.map(|it| serde_json::to_string(&it).expect("a record"));
    fs::write(folder.path().join("records.jsonl"), lines.join("\n")).expect("a file");
    let text = r#"
        [[host]]
        name = "server"
        jitter = 0.2
        digest = { operator = "sha256", record = "records.jsonl", draw = true }
        listen = [{ port = 80, application = "answer", request_bytes = 300, answer_bytes = 3000 }]
        serve = [{ port = 9, answer_bytes = 200 }]
        [[host]]
        name = "client"
        cores = 2
        jitter = 0.2
        connect = [
            { to = "server", port = 80, application = "ask", spread_us = 100, requests = 200, request_bytes = 300, answer_bytes = 3000, rate_per_s = 20_000, gaps = "poisson" },
            { to = "server", port = 80, application = "ask", spread_us = 100, requests = 200, request_bytes = 300, answer_bytes = 3000, think_us = 30, think = "exponential" },
        ]
        offer = [{ to = "server", port = 9, rate_per_s = 30_000, gaps = "poisson", sizes = "mixed", count = 500, answered = true }]
        [[card]]
        host = "client"
        order = "same"
        digest = { operator = "sha256" }
        shared = [{ name = "memory", byte_ps = 300, latency_ns = 90 }]
        stage = [{ name = "sha256", lanes = 2, record = "records.jsonl", draw = true, crosses = [{ over = "memory", times = 1.7 }] }]
        [[sizes]]
        name = "mixed"
        choices = [[22, 7], [548, 4], [1400, 1]]
        [[switch]]
        name = "switch"
        [[link]]
        ends = ["server", "switch"]
        rate_gbps = 2.7
        loss = 0.003
        flip = 0.003
        duplicate = 0.003
        [[link]]
        ends = ["switch", "client"]
    "#;
    check_in(folder.path(), text, 5, &THREADS, 0xc4e0_0dee_9a61_0505);
}

/// Four racks of four hosts, which send across the racks and ask within them, over wires that lose, spoil and double frames.
#[test]
fn four_racks() {
    let mut text = String::from("limit_s = 5\n");
    for host in 0..16 {
        let (far, near) = ((host + 5) % 16, host ^ 1);
        let cost = 300 + 50 * host;
        write!(
            text,
            r#"
[[host]]
name = "host {host}"
cores = {cores}
send_ns = {cost}
listen = [
    {{ port = 5001, application = "receive" }},
    {{ port = 5002, application = "answer", request_bytes = 100, answer_bytes = 2000 }},
]
connect = [
    {{ to = "host {far}", port = 5001, at_us = {host}, application = "send", bytes = 700_000 }},
    {{ to = "host {near}", port = 5002, application = "ask", requests = 40, request_bytes = 100, answer_bytes = 2000 }},
]
[[card]]
host = "host {host}"
digest = {{ operator = "sha256", framing = "mark" }}
stage = [{{ name = "sha256", lanes = 2, job_ns = 200, byte_ps = 500, latency_ns = 100 }}]
[[link]]
ends = ["host {host}", "switch {rack}"]
latency_ns = 700
loss = 0.001
flip = 0.0005
duplicate = 0.0005
"#,
            cores = 1 + host % 2,
            rack = host / 4,
        )
        .expect("memory");
    }
    for rack in 0..4 {
        write!(text, "[[switch]]\nname = \"switch {rack}\"\n").expect("memory");
    }
    for rack in 1..4 {
        let ends = format!("[\"switch {rack}\", \"switch 0\"]");
        write!(
            text,
            "[[link]]\nends = {ends}\nrate_gbps = 40\nqueue_bytes = 200_000\n"
        )
        .expect("memory");
    }
    check(&text, 3, &THREADS, 0xcfe0_a4a4_9ab2_857b);
}
