//! Torn at every byte, and killed while it writes.

use std::process::{Command, Stdio};

use super::*;
use crate::Evidence;

fn record(id: &str) -> Record {
    Record {
        id: id.into(),
        ..Record::new("op", Evidence::Measured, 1).with("note", "a\nb \u{1f980}")
    }
}

fn ids(reading: &Reading) -> Vec<&str> {
    let ids = reading.records.iter().map(|line| line.record.id.as_str());
    ids.collect()
}

#[test]
fn a_file_cut_at_any_byte_keeps_its_whole_lines_and_takes_more() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let deep = folder.path().join("deep/records.jsonl");
    let missing = Store::open(&deep, Durability::Process).expect_err("no folder is made");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let path = folder.path().join("records.jsonl");
    for id in ["a", "b"] {
        let mut store = Store::open(&path, Durability::Process).expect("opens");
        store.append(&record(id)).expect("appends");
    }
    let whole = std::fs::read(&path).expect("reads");
    let first = whole
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("two lines");
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("cuts");
        Store::open(&path, Durability::Process)
            .and_then(|mut store| store.append(&record("c")))
            .expect("appends");
        let reading = Reading::of_file(&path).expect("reads");
        // A record that lacks nothing but its line feed is whole.
        let expected: &[&str] = match cut {
            _ if cut < first => &["c"],
            _ if cut < whole.len() - 1 => &["a", "c"],
            _ => &["a", "b", "c"],
        };
        assert_eq!(ids(&reading), expected, "cut at {cut}");
        let torn = ![0, first, first + 1, whole.len() - 1, whole.len()].contains(&cut);
        assert_eq!(reading.damaged.len(), usize::from(torn), "cut at {cut}");
        if let Some(damage) = reading.damaged.first() {
            assert_eq!(damage.number, expected.len(), "cut at {cut}");
        }
    }
}

/// A duration in seconds was once read as its neighbour: numbers of 17 digits are the hard ones.
#[test]
fn records_may_go_to_a_file_that_cannot_be_synchronised() {
    let mut store = Store::open("/dev/null".as_ref(), Durability::Machine).expect("opens");
    store.append(&record("a")).expect("appends");
}

#[test]
fn numbers_come_back_to_the_last_bit() {
    let mut random = crate::random::SplitMix64::new(5);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("records.jsonl");
    let mut values = vec![1.0 + 0.736027909, 0.1, f64::MIN_POSITIVE, f64::MAX];
    values.extend((0..2000).map(|_| random.unit() * 100.0));
    let mut written = record("a");
    for (n, &value) in values.iter().enumerate() {
        written = written.with(&n.to_string(), value);
    }
    let mut store = Store::open(&path, Durability::Process).expect("opens");
    store.append(&written).expect("appends");
    let reading = Reading::of_file(&path).expect("reads");
    assert_eq!(reading.records[0].record, written);
}

#[test]
fn damage_of_any_kind_is_reported_by_line() {
    let good = serde_json::to_string(&record("a")).expect("JSON");
    let newer = good.replace("\"schema_version\":2", "\"schema_version\":3");
    let mut bytes = format!("\n{good}\n{newer}\n{{\"schema_version\":4}}\n[1]\n").into_bytes();
    bytes.extend(b"\0\0\0\n\xff\xfe\n\r\n");
    bytes.extend(format!("  {good}\r\n{}", &good[..40]).bytes());
    let reading = Reading::of_bytes(&bytes);
    assert_eq!(ids(&reading), ["a", "a"]);
    let numbers: Vec<usize> = reading.damaged.iter().map(|damage| damage.number).collect();
    assert_eq!(numbers, [3, 4, 5, 6, 7, 10]);
    assert!(reading.damaged[0].reason.contains("schema version 3"));
    assert!(reading.damaged[1].reason.contains("schema version 4"));
}

#[test]
fn records_of_the_version_before_are_read() {
    let now = serde_json::to_string(&record("a")).expect("JSON");
    assert!(!now.contains("findings"), "{now}");
    let before = now.replace("\"schema_version\":2", "\"schema_version\":1");
    let reading = Reading::of_bytes(before.as_bytes());
    assert_eq!(ids(&reading), ["a"]);
    let zero = now.replace("\"schema_version\":2", "\"schema_version\":0");
    assert_eq!(Reading::of_bytes(zero.as_bytes()).damaged.len(), 1);
}

#[test]
fn a_record_that_could_not_be_read_back_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("records.jsonl");
    let mut store = Store::open(&path, Durability::Process).expect("opens");
    let mut hollow = record("hollow");
    hollow.sample("items_per_s", vec![f64::NAN]);
    let refused = store.append(&hollow).expect_err("no number");
    assert!(refused.to_string().contains("hollow"), "{refused}");
    store.append(&record("a")).expect("appends");
    let reading = Reading::of_file(&path).expect("reads");
    assert_eq!((ids(&reading), reading.damaged.len()), (vec!["a"], 0));
}

/// The child of the next test: appends until it is killed.
#[test]
fn child_that_appends() {
    let Some(path) = std::env::var_os("DPB_TEST_APPEND_TO") else {
        return;
    };
    let mut store = Store::open(Path::new(&path), Durability::Machine).expect("opens");
    for n in 0.. {
        store.append(&record(&n.to_string())).expect("appends");
    }
}

#[test]
fn a_writer_killed_thirty_times_loses_nothing_that_it_had_written() {
    if std::env::var_os("DPB_QEMU").is_some_and(|how| how == "alone") {
        println!("skipped: it starts itself, and here no emulated program can be started");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("records.jsonl");
    let mut random = crate::random::SplitMix64::new(11);
    let mut lines_before = 0;
    for round in 0..30 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "measure::store::tests::child_that_appends"])
            .env("DPB_TEST_APPEND_TO", &path)
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        // Not before the child is at work; then at no particular moment.
        let size = || std::fs::metadata(&path).map_or(0, |file| file.len());
        let at_start = size();
        while size() == at_start {
            assert!(
                child.try_wait().expect("is ours").is_none(),
                "ended by itself"
            );
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        std::thread::sleep(std::time::Duration::from_micros(random.below(5000) as u64));
        child.kill().expect("is ours");
        child.wait().expect("is ours");
        let reading = Reading::of_file(&path).expect("reads");
        assert!(reading.records.len() > lines_before, "round {round}");
        assert!(
            reading.damaged.len() <= round + 1,
            "at most one torn line a kill"
        );
        lines_before = reading.records.len();
    }
    let reading = Reading::of_file(&path).expect("reads");
    // Each child counts from zero without a gap: whatever is missing would show.
    let mut expected = 0u64;
    for line in &reading.records {
        let id: u64 = line.record.id.parse().expect("a number");
        assert!(id == expected || id == 0, "line {}", line.number);
        expected = id + 1;
    }
}
