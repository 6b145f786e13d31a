//! Woo and Chung's system (`dpb run woo-chung`), the real program: effects that follow from the model's parameters by hand, the box, and
//! its report beside the paper's numbers.

mod support;

use std::fs;

use dpb_core::measure::{Outcome, Record, Value};
use support::text;

/// Bytes of each of both clients, and frames with them: Ethernet, IP and TCP with timestamps take 66 of 1514 bytes.
const CLIENT_BYTES: f64 = 8e6;
const FRAMES: f64 = 2.0 * CLIENT_BYTES / 1448.0;
const FRAME_BYTES: f64 = 1514.0;

fn run(variant: &str, settings: &str) -> Record {
    let system = format!("woo-chung/{variant}");
    let args = [
        "sim", "run", &system, "--format", "json", "--repeat", "6", "--set", settings,
    ];
    let output = support::finish(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = support::records(&output).pop().expect("a record");
    assert_eq!(record.outcome, Outcome::Done);
    assert_eq!(record.evidence.kind(), "simulated");
    assert_eq!(record.counts["digests_wrong"], 0);
    // The systems have rings and queues for two whole windows.
    for (name, &count) in &record.counts {
        assert!(
            count == 0 || !name.starts_with("dropped"),
            "{name}: {count}"
        );
    }
    record
}

fn bulk(variant: &str, settings: &str) -> Record {
    run(variant, &format!("host.connect.bytes=8MB; {settings}"))
}

fn asking(variant: &str, settings: &str) -> Record {
    let ask = "card.interrupt_gap_us=0; host.listen.application=answer; host.listen.request_bytes=128; host.listen.answer_bytes=1024; \
               host.connect.application=ask; host.connect.requests=400; host.connect.request_bytes=128; host.connect.answer_bytes=1024";
    run(variant, &format!("{ask}; {settings}"))
}

fn median(record: &Record, metric: &str) -> f64 {
    record.summary[metric].median
}

fn time_s(record: &Record) -> f64 {
    median(record, "completion_s")
}

#[test]
fn software_costs_the_server_its_digests_and_a_card_saves_them() {
    let [dumb, software, card] = ["dumb", "software", "card"].map(|variant| bulk(variant, ""));
    // The server's core takes 1.2 us and 50 ps a byte for each frame: it binds, at more than half of the link's rate.
    let stack_s = FRAMES * (1.2e-6 + 1448.0 * 50e-12);
    assert!(
        time_s(&dumb) > stack_s && time_s(&dumb) < 1.6 * stack_s,
        "{}",
        time_s(&dumb)
    );
    assert!(median(&dumb, "busy_share_hosts") > 0.75);
    // A digest of each frame more, and of at most one acknowledgement of 60 bytes for each.
    let digests_s = FRAMES * (100.0 + FRAME_BYTES * 0.682) * 1e-9;
    let acknowledgements_s = FRAMES * (100.0 + 60.0 * 0.682) * 1e-9;
    let more_s = time_s(&software) - time_s(&dumb);
    assert!(
        more_s > 0.85 * digests_s && more_s < 1.15 * (digests_s + acknowledgements_s),
        "{more_s} {digests_s}"
    );
    // Four lanes take a frame each 0.8 us, the core takes longer: the card adds little. What it delays may come in longer runs of one connection,
    // of which the core merges more and acknowledges less.
    let over = time_s(&card) / time_s(&dumb);
    assert!((0.95..1.12).contains(&over), "{over}");
    // All that software costs is saved.
    assert!(time_s(&card) < time_s(&software) - 0.7 * digests_s);
    assert_eq!(card.counts["host_digest_busy_ns"], 0);
    assert_eq!(dumb.counts["host_digest_busy_ns"], 0);
}

#[test]
fn sha512_costs_a_core_more_and_an_engine_less() {
    let sha512 = bulk(
        "software",
        "host.digest.operator=sha512; host.digest.byte_ps=1542",
    );
    let sha256 = bulk("software", "");
    let more_s = FRAMES * FRAME_BYTES * (1.542 - 0.682) * 1e-9;
    let came_s = time_s(&sha512) - time_s(&sha256);
    assert!(
        (0.85..1.25).contains(&(came_s / more_s)),
        "{came_s} {more_s}"
    );
    let card = bulk(
        "card",
        "card.digest.operator=sha512; card.stage.byte_ps=1250; card.stage.job_ns=260",
    );
    assert_eq!(card.parameters["digest"], "sha512".into());
    let card256 = bulk("card", "");
    assert!(median(&card, "busy_share_stages") < median(&card256, "busy_share_stages"));
}

#[test]
fn an_engine_that_is_slow_enough_makes_a_card_worse_than_software() {
    // A frame takes four lanes 3.1 us then, more than a core with its digest, 2.4 us.
    let slow = bulk("card", "card.stage.waiting=4096; card.stage.byte_ps=8000");
    let engine_s = FRAMES * (228.0 + FRAME_BYTES * 8.0) / 4.0 * 1e-9;
    let over = time_s(&slow) / engine_s;
    assert!((1.0..1.3).contains(&over), "{over}");
    assert!(median(&slow, "busy_share_stages") > 0.85);
    assert!(time_s(&slow) > time_s(&bulk("software", "")));
}

#[test]
fn framing_and_keys_cost_what_they_add() {
    // Of a slow link the server's wire binds: a frame takes it as long as its bytes, which are those of the digest's framing too.
    let bound = "link.rate_gbps=0.5; host.connect.spread_us=0";
    let [length, mark] = ["length", "mark"].map(|framing| {
        let card = bulk(
            "card-hmac",
            &format!("{bound}; card.digest.framing={framing}"),
        );
        assert_eq!(card.parameters["framing"], framing.into());
        assert_eq!(card.parameters["digest"], "hmac-sha256".into());
        assert_eq!(card.counts["payloads_wrong"], 0);
        time_s(&card)
    });
    // Preamble, check sequence and gap are 24 bytes; SHA-256 has 32, the mark six.
    let wire_s = |trailer: f64| FRAMES * (FRAME_BYTES + 24.0 + trailer) * 8.0 / 0.5e9;
    for (took_s, bytes) in [(length, 32.0), (mark, 38.0)] {
        let over = took_s / wire_s(bytes);
        assert!((1.0..1.01).contains(&over), "{took_s} {over}");
    }
    let more = (mark - length) / (wire_s(38.0) - wire_s(32.0));
    assert!((0.9..1.1).contains(&more), "{more}");
    // A key costs two blocks more at each end: in a transaction, four times, as the engine's file has it.
    let alone = |variant: &str| asking(variant, "host[client 1].connect.at_us=500000");
    let each_us = |variant: &str| 2e6 / median(&alone(variant), "transactions_per_s");
    let added_us = each_us("card-hmac") - each_us("card");
    let expected_us = 4.0 * (0.484 - 0.228);
    assert!(
        (added_us / expected_us - 1.0).abs() < 0.05,
        "{added_us} {expected_us}"
    );
}

#[test]
fn a_transaction_takes_the_stages_time_four_times() {
    // The second client begins when the first has finished, so that nothing waits for anything.
    let alone = |variant: &str| asking(variant, "host[client 1].connect.at_us=500000");
    let [dumb, software, card, tls] = ["dumb", "software", "card", "tls-card"].map(alone);
    // A client's time for a transaction; the rates of both are summed.
    let each_us = |record: &Record| 2e6 / median(record, "transactions_per_s");
    // Request and answer, 66 bytes of headers before each, at either end.
    let four = |job_us: f64, byte_us: f64| 4.0 * job_us + 2.0 * (194.0 + 1090.0) * byte_us;
    for (record, job_us, byte_us) in [
        (&software, 0.1, 682e-6),
        (&card, 0.228, 2e-3),
        // A core of the card, then the engine.
        (&tls, 1.5 + 0.3, 250e-6),
    ] {
        let added_us = each_us(record) - each_us(&dumb);
        let expected_us = four(job_us, byte_us);
        // The bytes of digests on buses and wires come to it.
        let over = added_us / expected_us;
        assert!((0.97..1.15).contains(&over), "{added_us} {expected_us}");
        assert_eq!(record.parameters["application"], "ask".into());
        assert_eq!(record.parameters["clients"], Value::Int(2));
    }
}

#[test]
fn the_box_gives_a_report_beside_the_papers_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("results");
    let name = dir.to_str().expect("a name");
    let output = support::finish(&["run", "woo-chung", "--repeat", "1", "--out", name]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = fs::read_to_string(dir.join("records.jsonl")).expect("records");
    let records: Vec<Record> = records
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    let of = |system: &str, application: &str| {
        let system = format!("woo-chung/{system}");
        let fitting = records.iter().filter(|record| {
            record.parameters["system"] == system.as_str().into()
                && record.parameters["application"] == application.into()
        });
        fitting.count()
    };
    for system in [
        "dumb",
        "software",
        "card",
        "card-hmac",
        "tls-card",
        "off-path",
    ] {
        assert!(of(system, "send") > 0 && of(system, "ask") > 0, "{system}");
    }
    let page = fs::read_to_string(dir.join("report.html")).expect("a report");
    for said in [
        "As in Woo and Chung",
        "Transactions a second, as figure 3",
        // The paper's section 3: 8497, 8395, 8397 and 6300 transactions a second.
        "8.50 k",
        "8.40 k",
        "6.30 k",
        "The paper has about -20 %",
        "The paper has about -2 %",
        "Two kinds of evidence on one axis: simulated and published",
        "the paper does not say whether its hosts with dumb cards compute the digest",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn sweeps_have_an_elasticity_and_the_part_that_binds() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("records.jsonl");
    let page = folder.path().join("report.html");
    let [records, page] = [&records, &page].map(|path| path.to_str().expect("a name"));
    let swept = [
        "card.stage.waiting=4096; card.stage.byte_ps=16000..64000",
        "switch.buffer_bytes=4MiB..16MiB",
    ];
    for swept in swept {
        let set = format!("host.connect.bytes=1MB; {swept}");
        let run = ["sim", "run", "woo-chung/card", "--set", &set];
        let args = [&run[..], &["--out", records, "--format", "json"]].concat();
        assert!(support::finish(&args).status.success());
    }
    let output = support::finish(&["report", records, "--out", page]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = fs::read_to_string(page).expect("a report");
    let table = &page[page
        .find("What the completion time hangs on")
        .expect("a section")..];
    let row = |place: &str| {
        let at = table.find(&format!("<td>{place}</td>")).expect(place);
        &table[at..at + table[at..].find("</tr>").expect("a row ends")]
    };
    // The engine binds throughout: twice the time of a byte is twice the time, but for the call. A buffer that is never full changes nothing.
    let engine = row("card.stage.byte_ps");
    let elasticity = engine.split("<td>").nth(5).expect("a cell");
    let elasticity: f64 = elasticity
        .split("</td>")
        .next()
        .and_then(|it| it.trim().parse().ok())
        .expect("a number");
    assert!((0.85..=1.0).contains(&elasticity), "{engine}");
    assert!(engine.contains("stages"), "{engine}");
    assert!(
        row("switch.buffer_bytes").contains("0.000"),
        "{}",
        row("switch.buffer_bytes")
    );
}
