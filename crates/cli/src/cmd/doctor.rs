//! `dpb doctor`: what this machine has, what it lacks, and what to do about it. DuckDB and the devices' libraries are loaded if
//! they are there; nothing is changed, and nothing missing is an error.

mod devices;
mod platform;

use serde::Serialize;

use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};

/// Takes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  dpb doctor\n  dpb doctor --format json")]
pub struct Args {}

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// `platform`, `kernel`, `library`, `device`, or a family of devices: `dpdk`.
    section: &'static str,
    /// What.
    what: String,
    state: State,
    /// What it is, or why it is not there.
    detail: String,
    /// What a person can do; empty if nothing need be done.
    remedy: String,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// There.
    Found,
    /// There, but timings will suffer or rights are missing.
    Limited,
    /// Not there.
    Missing,
}

/// Looks, and prints.
pub fn run(_args: Args, globals: &Globals) -> Result<(), Failure> {
    let mut findings = platform::findings();
    findings.extend(devices::findings());
    match globals.format() {
        Format::Json => findings.iter().try_for_each(output::print_json),
        Format::Csv => output::print(&whole(&findings).to_csv()),
        Format::Table => output::print(&for_people(&findings)),
    }
}

/// The remedies stand below: beside the findings they would make the lines too long to read.
fn for_people(findings: &[Finding]) -> String {
    let mut table = Table::new(["", "what", "state", "detail"].map(Column::left));
    let mut last = "";
    for finding in findings {
        let section = if finding.section == last {
            ""
        } else {
            finding.section
        };
        last = finding.section;
        table.row([
            section,
            &finding.what,
            finding.state.word(),
            &finding.detail,
        ]);
    }
    let mut text = table.to_text();
    let remedies = findings.iter().filter(|finding| !finding.remedy.is_empty());
    let remedies: Vec<String> = remedies
        .map(
            |Finding {
                 section,
                 what,
                 remedy,
                 ..
             }| format!("  {section}, {what}: {remedy}\n"),
        )
        .collect();
    if !remedies.is_empty() {
        text.push_str("\nWhat would add rows or steadier numbers:\n");
        text.extend(remedies);
    }
    text
}

fn whole(findings: &[Finding]) -> Table {
    let mut table = Table::new(["section", "what", "state", "detail", "remedy"].map(Column::left));
    for Finding {
        section,
        what,
        state,
        detail,
        remedy,
    } in findings
    {
        table.row([
            section,
            what.as_str(),
            state.word(),
            detail.as_str(),
            remedy.as_str(),
        ]);
    }
    table
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

impl Finding {
    fn found(section: &'static str, what: &str, detail: impl Into<String>) -> Self {
        Self {
            section,
            what: what.to_owned(),
            state: State::Found,
            detail: detail.into(),
            remedy: String::new(),
        }
    }

    fn limited(section: &'static str, what: &str, detail: impl Into<String>, remedy: &str) -> Self {
        Self {
            state: State::Limited,
            remedy: remedy.to_owned(),
            ..Self::found(section, what, detail)
        }
    }

    fn missing(section: &'static str, what: &str, detail: impl Into<String>, remedy: &str) -> Self {
        Self {
            state: State::Missing,
            remedy: remedy.to_owned(),
            ..Self::found(section, what, detail)
        }
    }
}

/// The trimmed content of a small file of the kernel's.
fn kernel_says(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}
