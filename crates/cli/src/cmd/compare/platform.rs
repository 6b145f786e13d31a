//! A platform of papers as a side of a comparison: its published numbers beside the records that they are of.

use std::collections::BTreeMap;
use std::path::Path;

use dpb_core::measure::{Record, Value};

use crate::exit::Failure;
use crate::report::published;
use crate::task::Tasks;

/// Platforms with published numbers of dpb's tasks, as a command line names them.
pub(super) const PLATFORMS: [&str; 6] = [
    "bluefield-2",
    "bluefield-3",
    "compute-server",
    "epyc-host",
    "octeon-tx2",
    "r7525-host",
];

/// The published numbers of `platform` that are of tests in `records`, and these tests. A paper says a few of a test's parameters: a number is of every
/// test that has these, and gets the test's others. Tests of which no paper has a number are left out.
///
/// # Errors
/// If there is none; `path` is the file of the records.
pub(super) fn beside(
    platform: &str,
    records: Vec<Record>,
    path: &Path,
    tasks: Tasks,
) -> Result<(Vec<Record>, Vec<Record>), Failure> {
    let numbers: Vec<Record> = tasks
        .iter()
        .flat_map(|task| published::of_task(task.name))
        .filter(|number| is_of(platform, number))
        .collect();
    let (mut found, mut tests) = (Vec::new(), Vec::new());
    for record in records {
        // Two figures of one work may have the same number.
        let number = numbers
            .iter()
            .find_map(|number| published::number_of(&record, number));
        if let Some(number) = number {
            found.push(number);
            tests.push(record);
        }
    }
    match tests.is_empty() {
        false => Ok((found, tests)),
        true => Err(Failure::usage(format!(
            "{} has no test of which a paper has a number for {platform}; `dpb run dpbento` makes records of such tests, and the page of \
             `dpb report` shows what papers have",
            path.display()
        ))),
    }
}

/// True if a published number is of the platform that a command line names so.
fn is_of(platform: &str, number: &Record) -> bool {
    let name = number.parameters.get("platform").map(ToString::to_string);
    name.is_some_and(|name| word(&name) == platform)
}

/// `BlueField-3` is `bluefield-3`, `EPYC host` is `epyc-host`.
fn word(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

/// Differences of a test of dpb's from those of papers, which bypass the page cache and have a link.
pub(super) fn apart(parameters: &BTreeMap<String, Value>) -> Vec<String> {
    let is = |name: &str, value: &str| {
        let own = parameters.get(name);
        own.is_some_and(|own| own.to_string() == value)
    };
    let notes = [
        (
            is("direct", "false"),
            "B's test went through the page cache (direct=false)",
        ),
        (
            is("link", "loopback"),
            "B's test was over loopback, the paper's over a link",
        ),
    ];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so);
    notes.map(|(_, note)| note.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use dpb_core::measure::Evidence;

    use super::*;

    #[test]
    fn every_platform_that_has_numbers_has_a_name() {
        // A simulated system of a paper is none of dpb's files, so no record is of the same test; the report draws both.
        let tasks = crate::TASKS.iter().filter(|task| task.name != "sim run");
        let numbers = tasks.flat_map(|task| published::of_task(task.name));
        let names: BTreeSet<String> = numbers
            .map(|number| word(&number.parameters["platform"].to_string()))
            .collect();
        assert_eq!(names, PLATFORMS.map(str::to_owned).into());
    }

    /// A test of figure 7a, and one of figure 4a.
    fn tests() -> Vec<Record> {
        let blank = |task| Record::new(task, Evidence::Measured, 1);
        let mut memory = blank("memory")
            .with("pattern", "random")
            .with("access", "read")
            .with("threads", 1u64)
            .with("pages", "normal")
            .with("size", 16384u64);
        memory.sample("accesses_per_s", vec![1e9; 7]);
        let mut op = blank("op")
            .with("operator", "arithmetic")
            .with("op.type", "int8")
            .with("op.operation", "add")
            .with("op.rounds", 4u64)
            .with("threads", 1u64)
            .with("backend", "cpu/best");
        op.sample("items_per_s", vec![1e6; 7]);
        vec![memory, op]
    }

    #[test]
    fn a_number_is_of_the_test_that_has_its_parameters() {
        let find = |records| beside("bluefield-3", records, "f".as_ref(), crate::TASKS);
        let (numbers, kept) = find(tests()).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(kept.len(), 2);
        for (number, test) in numbers.iter().zip(&kept) {
            assert_eq!(number.parameters, test.parameters);
            assert_eq!(number.evidence.kind(), "published");
        }
        // As the paper's repository has it: 274.92 M accesses a second in 16 KB, and 1.7 G additions of int8, of which an item has 8 a round.
        assert_eq!(numbers[0].summary["accesses_per_s"].median, 274.92e6);
        let additions = numbers[1].summary["items_per_s"].median * 8.0 * 4.0;
        assert!((additions / 1.7e9 - 1.0).abs() < 1e-9, "{additions}");
        let mut other = tests();
        for record in &mut other {
            record.parameters.insert("threads".to_owned(), 3u64.into());
            record.parameters.insert("op.type".to_owned(), "u32".into());
        }
        let failure = find(other).expect_err("no paper has it");
        assert!(failure.message.contains("dpb run dpbento"), "{failure}");
    }

    #[test]
    fn another_tool_and_an_open_loop_have_no_number() {
        let find = |records| beside("bluefield-3", records, "f".as_ref(), crate::TASKS);
        for (name, value, is_found) in [
            ("tool", "dpb", true),
            ("tool", "sysbench", false),
            ("mode", "closed", true),
            ("mode", "open", false),
        ] {
            let mut records = tests();
            for record in &mut records {
                record.parameters.insert(name.to_owned(), value.into());
            }
            assert_eq!(find(records).is_ok(), is_found, "{name}={value}");
        }
    }

    #[test]
    fn a_cache_and_a_loopback_are_said() {
        let of = |name: &str, value: Value| apart(&[(name.to_owned(), value)].into()).len();
        assert_eq!(of("direct", false.into()), 1);
        assert_eq!(of("direct", true.into()), 0);
        assert_eq!(of("link", "loopback".into()), 1);
        assert_eq!(of("link", "eth0".into()), 0);
    }
}
