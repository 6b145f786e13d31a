//! Records and models as inputs of a system.

use std::fs;

use dpb_core::conformance::sample::Sample;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Samples, Summary};
use dpb_core::random::SplitMix64;
use dpb_core::{Backend, OpSpec, spec};

use super::super::description::Description;
use super::super::{System, report};
use super::*;

/// A record of `dpb op`, of so many items a second.
fn record(backend: &str, size: u64, items_per_s: f64) -> Record {
    let mut record = Record::new("op", Evidence::Measured, 1)
        .with("operator", "crc32c")
        .with("backend", backend)
        .with("size", size)
        .with("threads", 1u64)
        .with("batch", 256u64)
        .with("depth", 8u64)
        .with("mode", "closed");
    record.sample("items_per_s", vec![items_per_s]);
    record
}

fn write(folder: &Path, records: &[Record]) {
    let lines: Vec<String> = records
        .iter()
        .map(|record| serde_json::to_string(record).expect("a record"))
        .collect();
    fs::write(folder.join("records.jsonl"), lines.join("\n") + "\n").expect("a file");
}

fn text() -> InputText {
    InputText {
        record: Some("records.jsonl".to_owned()),
        ..InputText::default()
    }
}

fn read(text: &InputText, folder: &Path) -> Result<(Times, Input), String> {
    match text.read(folder, Some("crc32c")) {
        Ok(Some((Given::Times(times), input))) => Ok((times, input)),
        Ok(other) => panic!("{other:?}"),
        Err(wrong) => Err(wrong.to_string()),
    }
}

#[test]
fn times_are_those_of_the_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut two = record("cpu/a", 1024, 2e5);
    two.parameters.insert("threads".to_owned(), Value::Int(1));
    let records = [record("cpu/a", 64, 1e6), two];
    write(folder.path(), &records);
    let (times, input) = read(&text(), folder.path()).expect("times");
    let mut random = SplitMix64::new(1);
    assert_eq!(times.cost_ps(64, &mut random), 1_000_000);
    assert_eq!(times.cost_ps(1024, &mut random), 5_000_000);
    // Halfway between two sizes on a logarithmic scale, the time is the geometric mean.
    let between = times.cost_ps(256, &mut random);
    assert!(between.abs_diff(2_236_068) < 2, "{between}");
    assert_eq!(input.records, records.map(|it| it.id));
    let said = input.to_string();
    for word in ["crc32c on cpu/a", "measured", "records.jsonl"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn latencies_are_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut latencies = Latencies::default();
    (1..=1000u64).for_each(|it| latencies.record(it * 1000));
    let mut of_one = record("cpu/a", 64, 1e6);
    for name in ["batch", "depth"] {
        of_one.parameters.insert(name.to_owned(), Value::Int(1));
    }
    let without = of_one.clone();
    let hdr = Some(latencies.to_base64());
    let samples = Samples {
        values: vec![],
        hdr,
    };
    of_one.samples.insert("latency_ns".to_owned(), samples);
    let drawing = InputText {
        draw: true,
        ..text()
    };
    write(folder.path(), &[of_one]);
    let (times, _) = read(&drawing, folder.path()).expect("times");
    let mut random = SplitMix64::new(8);
    let drawn: Vec<u64> = (0..20_000)
        .map(|_| times.cost_ps(64, &mut random))
        .collect();
    let mean = drawn.iter().sum::<u64>() as f64 / 20_000.0;
    // Uniform up to a millisecond: the mean within five standard errors, and what HDR rounds.
    let error = 5.0 * 1e9 / 12f64.sqrt() / 20_000f64.sqrt() + 1e6;
    assert!((mean - 500.5e6).abs() < error, "{mean}");
    write(folder.path(), &[without]);
    assert!(read(&drawing, folder.path()).is_err_and(|it| it.contains("no latencies")));
    write(folder.path(), &[record("cpu/a", 64, 1e6)]);
    assert!(read(&drawing, folder.path()).is_err_and(|it| it.contains("batch 256")));
}

#[test]
fn records_that_make_no_server_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |records: &[Record], text: &InputText| {
        write(folder.path(), records);
        read(text, folder.path()).err().unwrap_or_default()
    };
    let here = record("cpu/a", 64, 1e6);
    let mut elsewhere = record("cpu/a", 128, 1e6);
    elsewhere.provenance.cpu_model = "another".to_owned();
    let mut emulated = record("cpu/a", 128, 1e6);
    emulated.evidence = Evidence::Emulated {
        by: "qemu".to_owned(),
    };
    let mut empty = record("cpu/a", 128, 1e6);
    empty.summary.clear();
    let mut failed = record("cpu/a", 64, 1e6);
    failed.outcome = Outcome::Failed {
        reason: String::new(),
    };
    let mut twice = record("cpu/a", 64, 2e6);
    twice.summary.insert(
        "items_per_s".to_owned(),
        Summary::clone(&here.summary["items_per_s"]),
    );
    let mut open = record("cpu/a", 64, 1e6);
    open.parameters
        .insert("mode".to_owned(), Value::Text("open".to_owned()));
    let other = InputText {
        operator: Some("sha256".to_owned()),
        ..text()
    };
    let backend = InputText {
        backend: Some("cpu/b".to_owned()),
        ..text()
    };
    for (records, text, expected) in [
        (vec![here.clone(), elsewhere], text(), "several machines"),
        (
            vec![here.clone(), emulated],
            text(),
            "several kinds of evidence",
        ),
        (
            vec![here.clone(), record("cpu/b", 64, 1e6)],
            text(),
            "several backends",
        ),
        (
            vec![here.clone()],
            other,
            "no record of `sha256`; it has crc32c",
        ),
        (vec![here.clone()], backend, "on cpu/b has numbers"),
        (vec![empty], text(), "no times"),
        (vec![failed], text(), "has numbers"),
        (vec![here.clone(), twice], text(), "two times of 64 bytes"),
        (vec![open], text(), "open loop"),
        (vec![], text(), "no record of an operator"),
    ] {
        let said = said(&records, &text);
        assert!(said.contains(expected), "{expected}: {said}");
    }
    // The backend that is named decides.
    let both = [here, record("cpu/b", 64, 4e6)];
    let of_b = InputText {
        backend: Some("cpu/b".to_owned()),
        ..text()
    };
    write(folder.path(), &both);
    let (times, _) = read(&of_b, folder.path()).expect("times");
    assert_eq!(times.cost_ps(64, &mut SplitMix64::new(1)), 250_000);
}

/// Two hosts with a card of which this is in the client's.
fn system(stage: &str) -> String {
    format!(
        r#"
        [[host]]
        name = "server"
        serve = [{{ port = 9 }}]
        [[host]]
        name = "client"
        offer = [{{ to = "server", port = 9, rate_per_s = 1000, count = 100, bytes = 22 }}]
        [[card]]
        host = "client"
        {stage}
        [[link]]
        ends = ["server", "client"]
        "#
    )
}

#[test]
fn a_system_takes_times_from_files() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &[record("cpu/a", 64, 1e6)]);
    let model =
        "lanes = 3\njob_ns = 400\nitem_ns = 100\nbyte_ps = 0\ndoorbell_ns = 250\ndepth_max = 7\n";
    fs::write(folder.path().join("engine.toml"), model).expect("a file");
    let mean_ps = |stage: &str| {
        let mut description: Description = system(stage).parse().expect("a description");
        description.load(folder.path()).expect("files");
        let inputs = description.inputs.len();
        let prepare = |_: &str| Sample::new(None).prepare(&OpSpec::from(spec::Crc32c));
        let mut system = System::assemble(&description, &prepare, 1, 1).expect("a system");
        assert!(system.run().expect("nothing fails"));
        let flows = report::datagram_flows(&system);
        let received = flows[0].received.expect("they came");
        let lanes: Vec<usize> = report::parts(&system)
            .iter()
            .filter(|it| it.name.ends_with("engine"))
            .map(|it| it.lanes)
            .collect();
        (received.latency_ps / 100, inputs, lanes)
    };
    let (none, ..) = mean_ps("");
    let (recorded, inputs, lanes) = mean_ps(
        "stage = [{ name = \"engine\", record = \"records.jsonl\", operator = \"crc32c\" }]",
    );
    assert_eq!((recorded - none, inputs, lanes), (1_000_000, 1, vec![1]));
    let (modelled, inputs, lanes) =
        mean_ps("stage = [{ name = \"engine\", model = \"engine.toml\" }]");
    assert_eq!((modelled - none, inputs, lanes), (750_000, 1, vec![3]));
    for (stage, expected) in [
        ("record = \"records.jsonl\"", "name the operator"),
        (
            "record = \"none.jsonl\", operator = \"crc32c\"",
            "none.jsonl",
        ),
        ("model = \"records.jsonl\"", "records.jsonl"),
        (
            "model = \"engine.toml\", record = \"records.jsonl\"",
            "not from both",
        ),
        ("draw = true", "name a record"),
        ("operator = \"crc32c\"", "name a record"),
        (
            "model = \"engine.toml\", operator = \"crc32c\"",
            "no records to choose from",
        ),
    ] {
        let stage = format!("stage = [{{ name = \"engine\", {stage} }}]");
        let mut description: Description = system(&stage).parse().expect("a description");
        let said = description
            .load(folder.path())
            .err()
            .map(|it| it.to_string());
        assert!(
            said.as_ref().is_some_and(|it| it.contains(expected)),
            "{stage}: {said:?}"
        );
    }
    // What a model says is held to the same bounds as what a system's file says.
    for (line, said) in [
        ("job_ns = 9223372036854775807", "job_ns and item_ns"),
        ("byte_ps = 9223372036854775807", "byte_ps"),
        ("doorbell_ns = 9223372036854775807", "doorbell_ns"),
        ("lanes = 4294967295", "lanes"),
    ] {
        fs::write(folder.path().join("engine.toml"), line).expect("a file");
        let text = system("stage = [{ name = \"engine\", model = \"engine.toml\" }]");
        let mut description: Description = text.parse().expect("a description");
        description.load(folder.path()).expect("a model");
        let prepare = |_: &str| Sample::new(None).prepare(&OpSpec::from(spec::Crc32c));
        let why = System::assemble(&description, &prepare, 1, 1).err();
        let why = why.expect(line).to_string();
        assert!(why.contains("engine") && why.contains(said), "{why}");
    }
    fs::write(folder.path().join("engine.toml"), "lanes = 2\nspeed = 3\n").expect("a file");
    let mut description: Description =
        system("stage = [{ name = \"engine\", model = \"engine.toml\" }]")
            .parse()
            .expect("a description");
    let said = description
        .load(folder.path())
        .expect_err("no such parameter");
    assert!(said.to_string().contains("speed"), "{said}");
}
