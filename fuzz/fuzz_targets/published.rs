//! Any text as a data file of published numbers: an error, or records that say where they stand, have names of their own, and are the
//! same when they are read from a file.
#![no_main]

use std::collections::BTreeSet;

use dpb_core::measure::Reading;
use libfuzzer_sys::fuzz_target;

macro_rules! files {
    ($($name:literal),+) => {
        [$(include_str!(concat!("../../crates/cli/published/", $name))),+]
    };
}

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(records) = dpb_cli::testing::published(text) else {
        return;
    };
    let mut names = BTreeSet::new();
    for record in records {
        assert_eq!(record.evidence.kind(), "published");
        assert!(record.samples.is_empty() && record.summary.len() == 1);
        let line = serde_json::to_vec(&record).expect("a record is JSON");
        let read = Reading::of_bytes(&line);
        assert_eq!(read.damaged, [], "{}", String::from_utf8_lossy(&line));
        assert_eq!(read.records[0].record, record);
        assert!(names.insert(record.id.clone()), "{}", record.id);
    }
});

/// The files, each cut into its tables too, and a small one.
fn seeds() -> Vec<Vec<u8>> {
    let small = r#"
source = { work = "A paper", short = "paper" }
platform = [{ name = "card", cpu = "8 cores", place = "t1" }]
statement = [{ platform = "card", text = "it is", place = "s2" }]
[[figure]]
number = "3"
place = "s2"
task = "memory"
metric = "accesses_per_s"
unit = 1e6
axis = "size"
parameters = { pattern = "random", n = 3, x = 1.5, y = true }
platforms = ["card"]
rows = [[16384, 2.5], [4096, nan]]
"#;
    let files = files!["dpbento.toml", "dpubench.toml", "liu.toml", "woo.toml"];
    let mut seeds = vec![small.as_bytes().to_vec()];
    for file in files {
        let first = file.find("[[figure]]").unwrap_or(file.len());
        let (head, figures) = file.split_at(first);
        // One figure at a time keeps an input short.
        for figure in figures
            .split("[[figure]]")
            .filter(|text| !text.trim().is_empty())
        {
            seeds.push(format!("{head}[[figure]]{figure}").into_bytes());
        }
        seeds.push(file.as_bytes().to_vec());
    }
    seeds
}
