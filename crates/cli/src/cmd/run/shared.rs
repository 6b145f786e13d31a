//! Files that the tests of a box share: the first test makes one, and none is left when the run ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::boxes::{Runner, Site, Test, repeats_of};
use crate::output;
use crate::task::SharedFile;

/// The file of a test, and what decides whether another test can use it as it is.
type Contents = (PathBuf, String);

/// The files of a box's tests.
#[derive(Debug)]
pub(super) struct SharedFiles {
    /// The file of each test, in the box's order.
    tests: Vec<Option<(SharedFile, Contents)>>,
    /// What tests have been told to leave.
    left: BTreeMap<PathBuf, SharedFile>,
}

impl SharedFiles {
    /// The files of these tests, whose data is kept in `data_dir`. Tests on other machines share none.
    pub(super) fn of(tests: &[Test], seed: u64, data_dir: &Path) -> Self {
        let file = |test: &Test| {
            let Runner::Task(task) = &test.runner else {
                return None;
            };
            let shared = task.shared_file.filter(|_| test.site == Site::Here)?;
            let words = test.arguments(repeats_of(test), seed);
            let matches = task.command().try_get_matches_from(words).ok()?;
            Some((shared, (shared.of)(&matches, data_dir)?))
        };
        Self {
            tests: tests.iter().map(file).collect(),
            left: BTreeMap::new(),
        }
    }

    /// More words for the test `at`: that it leaves its file, if one of the `later` tests uses it as it is.
    pub(super) fn words(&mut self, at: usize, later: &[usize]) -> Vec<String> {
        let Some((shared, own)) = &self.tests[at] else {
            return Vec::new();
        };
        let uses = |at: &usize| matches!(&self.tests[*at], Some((_, other)) if other == own);
        if !later.iter().any(uses) {
            return Vec::new();
        }
        // An empty file that is there before the test may be a person's.
        let is_ours = fs::symlink_metadata(&own.0).map_or(true, |about| about.len() > 0);
        if is_ours {
            self.left.insert(own.0.clone(), *shared);
        }
        vec![shared.flag.to_owned()]
    }

    /// Bytes of the file of the test `at` that are on the disk already.
    pub(super) fn bytes_there(&self, at: usize) -> u64 {
        let file = self.tests[at].as_ref().map(|(_, (file, _))| file);
        let about = file.and_then(|file| fs::symlink_metadata(file).ok());
        about.map_or(0, |about| about.len())
    }
}

impl Drop for SharedFiles {
    /// The last test has removed its file, unless it failed or did not run.
    fn drop(&mut self) {
        for (file, shared) in &self.left {
            if let Err(failure) = (shared.remove)(file) {
                output::note(&format!("the tests' file stays there: {}", failure.message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boxes::{Changes, MeasurementBox};
    use crate::plugin::Plugins;
    use crate::testing;

    #[test]
    fn a_file_is_left_to_whoever_uses_it_as_it_is() {
        let families = crate::backends::families(&[], dpb_operators::registry::Operators::DPB);
        let text = r#"{ "tasks": [
            { "task": "storage", "parameters": { "block": "8KiB", "depth": [1, 2] } },
            { "task": "memory" },
            { "task": "storage", "parameters": { "block": "8KiB", "file_size": "2GiB" } },
            { "task": "storage", "parameters": { "block": "8KiB", "file": "/mnt/dpb" } },
            { "task": "storage", "parameters": { "block": "64KiB" } } ] }"#;
        let globals = testing::globals(families);
        let (plugins, changes) = (Plugins::default(), Changes::default());
        let read = MeasurementBox::read("b.json", text, &plugins, &changes, &globals);
        let mut asked = read.unwrap_or_else(|failure| panic!("{}", failure.message));
        let mut files = SharedFiles::of(&asked.tests, 1, Path::new("/nowhere/data"));
        let leaves = |files: &mut SharedFiles, order: &[usize]| {
            let each = order.iter().enumerate();
            let words = each.map(|(count, &at)| files.words(at, &order[count + 1..]));
            words.map(|words| !words.is_empty()).collect::<Vec<bool>>()
        };
        let order = [0, 1, 2, 3, 4, 5];
        assert_eq!(
            leaves(&mut files, &order),
            [true, true, false, false, false, false]
        );
        // Whatever the order, the last one leaves none.
        assert_eq!(
            leaves(&mut files, &[5, 3, 0, 1]),
            [true, false, true, false]
        );
        assert_eq!(files.bytes_there(0), 0);
        asked.tests[1].site = Site::On("dpu".to_owned());
        let mut files = SharedFiles::of(&asked.tests, 1, Path::new("/nowhere/data"));
        assert_eq!(leaves(&mut files, &[0, 1]), [false, false]);
    }
}
