//! Any text as the table of stressors' classes and the file of a run, of the repository of Liu et al.: an error that says something, or records with the
//! classes that the table gives, which join another run's and are the same when they are read from a file. A zero byte parts the two texts.
#![no_main]

use dpb_core::measure::import::{Classes, Origin, merge};
use dpb_core::measure::{Evidence, Reading};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (table, run) = text.split_once('\0').unwrap_or(("", &text));
    let classes = Classes::read(table);
    let origin = Origin {
        host: Some("card".to_owned()),
        evidence: Evidence::Published {
            source: "a work, a place".to_owned(),
        },
    };
    let records = match classes.run(run, &origin) {
        Ok(records) => records,
        Err(why) => return assert!(!why.to_string().is_empty()),
    };
    assert!(!records.is_empty());
    for record in &records {
        let stressor = record.parameters["stressor"].to_string();
        let told = record.parameters.get("classes").map(ToString::to_string);
        assert_eq!(told.as_deref(), classes.of(&stressor));
        // The last line of that name, by a search of another kind.
        let line = table.lines().rev().find(|line| {
            line.strip_prefix(&stressor).is_some_and(|rest| rest.starts_with('\t'))
        });
        let is_named = line.is_some() && !stressor.starts_with('#') && stressor != "STRESSOR";
        assert_eq!(told.is_some(), is_named, "{stressor}");
        assert_eq!((record.evidence.kind(), record.provenance.host.as_str()), ("published", "card"));
        let mut samples = record.samples.values().flat_map(|samples| &samples.values);
        assert!(samples.all(|value| value.is_finite() && *value > 0.0));
    }
    let runs = classes.run(run, &origin).expect("it was read");
    let values = |records: &[dpb_core::measure::Record]| -> usize {
        let samples = records.iter().flat_map(|record| record.samples.values());
        samples.map(|samples| samples.values.len()).sum()
    };
    let once = values(&records);
    let merged = merge(records.into_iter().chain(runs).collect());
    assert_eq!(values(&merged), 2 * once);
    for record in merged {
        let line = serde_json::to_vec(&record).expect("a record is JSON");
        let reading = Reading::of_bytes(&line);
        assert_eq!(reading.damaged, []);
        assert_eq!(reading.records[0].record, record);
    }
});

/// A file as stress-ng writes it, with and without classes, and what it prints.
fn seeds() -> Vec<Vec<u8>> {
    let run = include_str!("../../crates/core/src/measure/import/testdata/stress-ng.yaml");
    let printed = include_str!("../../crates/core/src/measure/import/testdata/stress-ng.txt");
    let table = "# Number of stressors: 250\nSTRESSOR\tCLASSES\n\nbranch\t\tCPU\nmemrate\t\tMEMORY\ncpu\t\tCPU | OS\n";
    let joined = |run: &str| [table.as_bytes(), b"\0", run.as_bytes()].concat();
    vec![joined(run), joined(printed), run.as_bytes().to_vec()]
}
