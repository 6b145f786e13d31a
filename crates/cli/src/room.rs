//! The memory and the disk that this machine has for a test, of its own or of a client.

use std::path::{Path, PathBuf};

use dpb_core::measure::provenance::memory_available_bytes;
use dpb_micro::storage::available_bytes;

use crate::boxes::{Site, Test};
use crate::output::short;
use crate::task::Cost;

/// What is free here.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes of main memory.
    pub memory_bytes: u64,
    /// Bytes on the disk that the test's data lies on.
    pub disk_bytes: u64,
}

impl Room {
    /// What is free now, for a test that keeps its data in `data_dir` unless it names a file. Where the system does not say, there is no limit.
    pub fn of(test: &Test, data_dir: &Path) -> Self {
        let place = test.value("file").map(PathBuf::from);
        let place = place.as_deref().unwrap_or(data_dir);
        // It need not be there yet.
        let there = place.ancestors().find(|folder| folder.is_dir());
        let disk = available_bytes(there.unwrap_or(Path::new(".")));
        Self {
            memory_bytes: memory_available_bytes(),
            disk_bytes: disk.unwrap_or(u64::MAX),
        }
    }

    /// The reason why the test cannot run here, if it takes more than there is. Other machines look for themselves.
    pub fn shortage(&self, test: &Test, cost: &Cost) -> Option<String> {
        if matches!(test.site, Site::On(_)) {
            return None;
        }
        // The data of a test that has its server elsewhere is there.
        let disk_bytes = match test.site {
            Site::To(_) => 0,
            _ => cost.disk_bytes,
        };
        let needs = [
            ("of memory", cost.memory_bytes, self.memory_bytes),
            ("on disk", disk_bytes, self.disk_bytes),
        ];
        let (what, needed, free) = needs.into_iter().find(|(_, needed, free)| needed > free)?;
        let (needed, free) = (short(needed as f64), short(free as f64));
        Some(format!("it needs about {needed}B {what}, {free}B are free"))
    }
}

#[cfg(test)]
mod tests {
    use crate::boxes::{Changes, MeasurementBox, SHIPPED};
    use crate::plugin::Plugins;
    use crate::testing;

    use super::*;

    fn boxed(text: &str) -> MeasurementBox {
        let families = crate::backends::families(&[], dpb_operators::registry::Operators::DPB);
        let globals = testing::globals(families);
        let (plugins, changes) = (Plugins::default(), Changes::default());
        let read = MeasurementBox::read("b.json", text, &plugins, &changes, &globals);
        read.unwrap_or_else(|failure| panic!("{}", failure.message))
    }

    /// A data folder that nothing is in.
    const NOWHERE: &str = "/nowhere/data";

    /// A DPU of 16 GB, of which its system has one, and a small flash disk.
    const DPU: Room = Room {
        memory_bytes: 15_000_000_000,
        disk_bytes: 20_000_000_000,
    };

    #[test]
    fn every_test_that_dpb_ships_fits_a_dpu() {
        for shipped in SHIPPED {
            for test in boxed(shipped.text).tests {
                let why = DPU.shortage(&test, &test.cost(NOWHERE.as_ref()));
                assert_eq!(why, None, "{}: {}", shipped.name, test.title());
            }
        }
    }

    #[test]
    fn what_is_short_is_said() {
        let asked = boxed(
            r#"{ "tasks": [ { "task": "memory", "parameters": { "size": "1GiB", "threads": 16 } },
                { "task": "storage", "parameters": { "file_size": "32GiB" } } ] }"#,
        );
        let why = |at: usize| {
            let test: &Test = &asked.tests[at];
            DPU.shortage(test, &test.cost(NOWHERE.as_ref()))
                .expect("it does not fit")
        };
        assert!(why(0).contains("of memory"), "{}", why(0));
        assert!(why(1).contains("on disk"), "{}", why(1));
        let mut elsewhere = asked.tests[0].clone();
        elsewhere.site = Site::On("dpu".to_owned());
        assert_eq!(
            DPU.shortage(&elsewhere, &elsewhere.cost(NOWHERE.as_ref())),
            None
        );
    }
}
