//! Any bytes as the output of each program whose results are imported: an error that says something, or records that are the same when they
//! are read from a file. Each input goes to every importer, so a minute of this target is a minute of each.
#![no_main]

use dpb_core::measure::import::{Origin, Program, merge, of_criterion};
use dpb_core::measure::{Evidence, Reading, Record};
use libfuzzer_sys::fuzz_target;

macro_rules! outputs {
    ($($name:literal),+) => {
        [$(include_str!(concat!("../../crates/core/src/measure/import/testdata/", $name))),+]
    };
}

fn origin() -> Origin {
    Origin {
        host: None,
        evidence: Evidence::Measured,
    }
}

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut records: Vec<Record> = Vec::new();
    for program in Program::ALL {
        match program.records(&text, &origin()) {
            Ok(read) => {
                assert!(!read.is_empty() && read.iter().all(|record| record.task == program.name()));
                records.extend(read);
            }
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
    // Both files of a benchmark, one behind the other.
    if let Some((benchmark, sample)) = text.split_once('\n') {
        records.extend(of_criterion(benchmark, sample, &origin()));
    }
    for record in merge(records) {
        let line = serde_json::to_vec(&record).expect("a record is JSON");
        let reading = Reading::of_bytes(&line);
        assert_eq!(reading.damaged, []);
        assert_eq!(reading.records.len(), 1);
        assert_eq!(reading.records[0].record, record);
    }
});

fn seeds() -> Vec<Vec<u8>> {
    let outputs = outputs![
        "fio.json",
        "iperf3.json",
        "iperf3-udp.json",
        "sysbench.txt",
        "stress-ng.txt",
        "perftest.txt",
        "doca-bench.txt"
    ];
    let [benchmark, sample] = outputs!["criterion/benchmark.json", "criterion/sample.json"];
    let benchmark = format!("{}\n{}", benchmark.trim(), sample.trim());
    let outputs = outputs.map(|output| output.as_bytes().to_vec());
    outputs
        .into_iter()
        .chain([benchmark.into_bytes()])
        .collect()
}
