//! Where rows go, and in which format.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::output::Asked;

/// The place that rows go to.
#[derive(Clone, Debug)]
pub(super) enum Destination {
    /// This process's stdout.
    Stdout,
    /// A file, which appears once it is whole.
    File(PathBuf),
}

/// The format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
    Arrow,
    Parquet,
}

impl Destination {
    pub(super) fn of(path: Option<&Path>) -> Self {
        match path {
            Some(path) => Self::File(path.to_owned()),
            None => Self::Stdout,
        }
    }

    /// True if a person reads the rows as they come.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Stdout) && io::stdout().is_terminal()
    }
}

impl Format {
    /// The format that was asked for, or that the file's name says, or that fits the destination.
    ///
    /// # Errors
    /// One that is no format of rows; a binary one for a terminal.
    pub(super) fn choose(asked: Option<Asked>, to: &Destination) -> Result<Self, Failure> {
        let format = match (asked, to) {
            (Some(Asked::Table), _) => Self::Table,
            (Some(Asked::Json), _) => Self::Json,
            (Some(Asked::Csv), _) => Self::Csv,
            (Some(Asked::Arrow), _) => Self::Arrow,
            (Some(Asked::Parquet), _) => Self::Parquet,
            (Some(Asked::Markdown | Asked::Perftest), _) => {
                return Err(Failure::usage(
                    "rows have --format table, json, csv, arrow or parquet",
                ));
            }
            (None, Destination::File(path)) => Self::by_name(path),
            (None, Destination::Stdout) if to.is_terminal() => Self::Table,
            (None, Destination::Stdout) => Self::Json,
        };
        match (format, to.is_terminal()) {
            (Self::Arrow | Self::Parquet, true) => Err(Failure::usage(
                "arrow and parquet are no text for a terminal: write to a file with --output FILE, or to a pipe",
            )),
            _ => Ok(format),
        }
    }

    fn by_name(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Self::Csv,
            Some("arrow" | "arrows") => Self::Arrow,
            Some("parquet") => Self::Parquet,
            Some("txt") => Self::Table,
            _ => Self::Json,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_says_its_format_unless_one_is_asked_for() {
        let chosen = |asked, name: &str| Format::choose(asked, &Destination::File(name.into()));
        for (name, format) in [
            ("a.csv", Format::Csv),
            ("a.PARQUET", Format::Parquet),
            ("a.arrows", Format::Arrow),
            ("a.ndjson", Format::Json),
            ("a", Format::Json),
        ] {
            assert_eq!(chosen(None, name).ok(), Some(format), "{name}");
        }
        let asked = chosen(Some(Asked::Csv), "a.parquet");
        assert_eq!(asked.ok(), Some(Format::Csv));
        assert!(chosen(Some(Asked::Markdown), "a.md").is_err());
    }
}
