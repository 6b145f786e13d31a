//! Any bytes as a records file: no panic, every line is accounted for, and a good record behind them is not lost.
#![no_main]

use std::sync::LazyLock;

use dpb_core::measure::{Check, Evidence, Outcome, Reading, Record};
use libfuzzer_sys::fuzz_target;

static GOOD: LazyLock<(String, Vec<u8>)> = LazyLock::new(|| {
    let record = Record::new("fuzz", Evidence::Measured, 1);
    let line = serde_json::to_vec(&record).expect("a record is JSON");
    (record.id, line)
});

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    let (id, good) = &*GOOD;
    let alone = Reading::of_bytes(bytes);
    let lines = bytes.split(|&byte| byte == b'\n');
    let filled = lines.filter(|line| !line.trim_ascii().is_empty()).count();
    assert_eq!(alone.records.len() + alone.damaged.len(), filled);
    // As the store appends: after a line feed of its own if the last line is torn.
    let mut file = bytes.to_vec();
    if file.last().is_some_and(|&last| last != b'\n') {
        file.push(b'\n');
    }
    file.extend_from_slice(good);
    file.push(b'\n');
    let after = Reading::of_bytes(&file);
    assert_eq!(after.records.len(), alone.records.len() + 1);
    assert_eq!(after.damaged, alone.damaged);
    assert_eq!(after.records.last().map(|line| &line.record.id), Some(id));
    // What was read can be written and read again.
    for line in &alone.records {
        let json = serde_json::to_vec(&line.record).expect("a record is JSON");
        let again = Reading::of_bytes(&json);
        assert_eq!(again.records.len(), 1, "{}", String::from_utf8_lossy(&json));
    }
});

/// Records of every outcome and evidence, each alone, then all in one file whose last line is torn.
fn seeds() -> Vec<Vec<u8>> {
    let model = "m".to_owned();
    let source = "s".to_owned();
    let reason = "r".to_owned();
    let mut measured = Record::new("fuzz", Evidence::Measured, 1).with("sf", 0.5);
    measured.sample("run_ns", vec![1.0, 2.5, 1e9]);
    measured.counts.insert("rows".to_owned(), u64::MAX);
    measured.check = Some(Check {
        against: "cpu/portable".to_owned(),
        compared: 3,
        digest: Some("0f".to_owned()),
    });
    let records = [
        measured,
        Record::new("fuzz", Evidence::Simulated { model }, 2).with("size", 64u64),
        Record::new("fuzz", Evidence::Predicted { model: source.clone(), from: vec![source.clone()] }, 6),
        Record::new("fuzz", Evidence::Published { source }, 3).with("query", "q1".to_owned()),
        Record::new("fuzz", Evidence::Measured, 4).without_numbers(Outcome::Failed {
            reason: reason.clone(),
        }),
        Record::new("fuzz", Evidence::Measured, 5).without_numbers(Outcome::Unsupported { reason }),
    ];
    let line = |record| serde_json::to_vec(record).expect("a record is JSON");
    let mut seeds: Vec<Vec<u8>> = records.iter().map(line).collect();
    let mut file = seeds.join(&b'\n');
    file.truncate(file.len() - 10);
    seeds.push(file);
    seeds
}
