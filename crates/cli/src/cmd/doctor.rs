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

/// One thing that was looked for, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// `platform`, `kernel`, `library`, `device`, or a family of backends: `dpdk`.
    section: &'static str,
    #[serde(flatten)]
    found: dpb_core::Finding,
}

/// Looks, and prints.
pub fn run(_args: Args, globals: &Globals) -> Result<(), Failure> {
    let mut findings = platform::findings();
    findings.extend(devices::findings(globals.families));
    match globals.format() {
        Format::Json => findings.iter().try_for_each(output::print_json),
        Format::Csv => output::print(&whole(&findings).to_csv()),
        Format::Markdown => output::print(&whole(&findings).to_markdown()),
        Format::Table => output::print(&for_people(&findings)),
    }
}

/// The remedies stand below: beside the findings they would make the lines too long to read.
fn for_people(findings: &[Finding]) -> String {
    let mut table = Table::new(["", "what", "state", "detail"].map(Column::left));
    let mut last = "";
    for Finding { section, found } in findings {
        let shown = if *section == last { "" } else { section };
        last = section;
        table.row([shown, &found.what, found.state.word(), &found.detail]);
    }
    let mut text = table.to_text();
    let remedies = findings
        .iter()
        .filter(|finding| !finding.found.remedy.is_empty());
    let remedies: Vec<String> = remedies
        .map(|Finding { section, found }| {
            format!("  {section}, {}: {}\n", found.what, found.remedy)
        })
        .collect();
    if !remedies.is_empty() {
        text.push_str("\nWhat would add rows or steadier numbers:\n");
        text.extend(remedies);
    }
    text
}

fn whole(findings: &[Finding]) -> Table {
    let mut table = Table::new(["section", "what", "state", "detail", "remedy"].map(Column::left));
    for Finding { section, found } in findings {
        table.row([
            section,
            found.what.as_str(),
            found.state.word(),
            found.detail.as_str(),
            found.remedy.as_str(),
        ]);
    }
    table
}

impl Finding {
    fn found(section: &'static str, what: &str, detail: impl Into<String>) -> Self {
        let found = dpb_core::Finding::found(what, detail);
        Self { section, found }
    }

    fn limited(section: &'static str, what: &str, detail: impl Into<String>, remedy: &str) -> Self {
        let found = dpb_core::Finding::limited(what, detail, remedy);
        Self { section, found }
    }

    fn missing(section: &'static str, what: &str, detail: impl Into<String>, remedy: &str) -> Self {
        let found = dpb_core::Finding::missing(what, detail, remedy);
        Self { section, found }
    }
}

/// The trimmed content of a small file of the kernel's.
fn kernel_says(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}
