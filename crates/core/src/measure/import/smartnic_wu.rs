//! The results of Liu et al. (SmartNIC-WU on GitHub): what stress-ng wrote in a run, with the classes that the repository's own table gives each
//! stressor.

use std::collections::BTreeMap;

use super::{ImportError, Origin, Program};
use crate::measure::record::Record;

/// The classes of stressors, as `stressor_classes.txt` lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(BTreeMap<String, String>);

impl Classes {
    /// Reads the table: a line has the stressor's name, tabs, and the classes between bars. Lines that begin with `#`, the heading and lines
    /// without a tab say nothing.
    pub fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let named = lines.filter_map(|line| line.split_once('\t'));
        let named = named.filter(|(name, _)| *name != "STRESSOR");
        Self(
            named
                .map(|(name, classes)| (name.to_owned(), classes.trim().to_owned()))
                .collect(),
        )
    }

    /// The classes of a stressor, between bars; `None` if the table does not have it.
    pub fn of(&self, stressor: &str) -> Option<&str> {
        self.0.get(stressor).map(String::as_str)
    }

    /// The records of one run's file, each with its stressor's classes.
    ///
    /// # Errors
    /// If the file is none of stress-ng's, or has no result.
    pub fn run(&self, text: &str, origin: &Origin) -> Result<Vec<Record>, ImportError> {
        let mut records = Program::StressNg.records(text, origin)?;
        for record in &mut records {
            let stressor = record.parameters.get("stressor").map(ToString::to_string);
            if let Some(classes) = stressor.and_then(|name| self.of(&name)) {
                record
                    .parameters
                    .insert("classes".to_owned(), classes.into());
            }
        }
        Ok(records)
    }
}
