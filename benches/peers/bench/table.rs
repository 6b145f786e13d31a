//! Rows as lines, as a table in Markdown, and tables of several CPUs side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use dpb_core::cpu_level;
use dpb_core::measure::{Evidence, Outcome, Record, Summary};

use crate::counts::{self, Counts};
use crate::definition::{Row, Unit};
use crate::words::{in_words, machine};

/// The beginning of a ratio's name in a record; the peer's name follows.
pub(crate) const RATIO: &str = "ratio to ";

/// All rows so far.
#[derive(Default)]
pub(crate) struct Table {
    rows: String,
    group: &'static str,
    has_cycles: bool,
}

impl Table {
    /// With `has_cycles` it has a column of cycles by models of cores.
    pub(crate) fn new(has_cycles: bool) -> Self {
        Self {
            has_cycles,
            ..Self::default()
        }
    }

    /// Takes a row in and gives what to print of it.
    pub(crate) fn add(&mut self, row: &Row, record: &Record) -> String {
        if self.group != row.group {
            self.group = row.group;
            let title = row.group.replace('-', " ");
            let _ = write!(
                self.rows,
                "\n## {title}\n\n| operator | a call | {} | beside it: {} |{}\n",
                if row.group == "harness" {
                    "subject"
                } else {
                    "dpb"
                },
                match counts::core(&record.evidence) {
                    Some(_) => "instructions | ratio to the fewest",
                    None => "speed, and the ratio | wanted",
                },
                match self.has_cycles {
                    true => " cycles, by model |\n|---|---|---|---|---|---|",
                    false => "\n|---|---|---|---|---|",
                }
            );
        }
        let (name, shape) = (name(row), shape(row));
        if let Outcome::Failed { reason } = &record.outcome {
            let more = if self.has_cycles { " |" } else { "" };
            let _ = writeln!(self.rows, "| {name} | {shape} | failed | | |{more}");
            return format!("{name:44} {shape:>18}  FAILED: {reason}");
        }
        let speed = |side: &str| speed(row, record, side);
        let Some(ours) = speed(&row.subject) else {
            let (sides, ratio) = counted(record);
            let (ours, others) = sides.split_once("; ").unwrap_or((&sides, ""));
            let _ = write!(
                self.rows,
                "| {name} | {shape} | {ours} | {others} | {ratio} |"
            );
            let cycles = cycles(record);
            if self.has_cycles {
                let _ = write!(self.rows, " {} |", cycles.join("<br>"));
            }
            self.rows.push('\n');
            let cycles: String = (cycles.iter())
                .map(|line| format!("\n{:66}cycles, {line}", ""))
                .collect();
            return format!("{name:44} {shape:>18}  checked: {sides} {ratio}{cycles}");
        };
        let build = &record.provenance.libraries[&row.subject];
        let path = match build.split_once(',') {
            Some((path, _)) if path.starts_with("cpu/") => path,
            _ => row.subject.as_str(),
        };
        let peers: Vec<String> = ratios(record)
            .map(|(peer, ratio)| {
                let speed = speed(peer).unwrap_or_default();
                format!("{peer} {speed}, {}", shown(ratio))
            })
            .collect();
        let wanted = wanted(row, record);
        let _ = writeln!(
            self.rows,
            "| {name} | {shape} | {ours} ({path}) | {} | {wanted} |",
            peers.join("; ")
        );
        let peers: Vec<String> = peers
            .iter()
            .map(|peer| format!("\n{:66}{peer}", ""))
            .collect();
        format!(
            "{name:44} {shape:>18}  {ours} ({path}); {wanted}{}",
            peers.concat()
        )
    }

    /// The whole table, below a line on the machine.
    pub(crate) fn markdown(&self, machine: &str, evidence: &Evidence) -> String {
        let evidence = match evidence {
            Evidence::Emulated { by } => {
                return format!(
                    "# Instructions of operators beside their peers\n\n`cargo xtask bench --target aarch64 --peers -- --record ../record`; evidence: \
                     emulated by {by}, so right or wrong, and no speed. {machine}.\n\nOne call behind another that set all up, every output \
                     checked. Instructions are no time, and cycles are llvm-mca's estimates by models of cores. A ratio is dpb's instructions over those of the peer that needs the fewest (of a coder: \
                     whose output is no larger), so below 1 dpb needs fewer. In square brackets behind a coder's: bytes out over bytes in. Each \
                     peer's version and build are in the record beside this file.\n{}",
                    self.rows
                );
            }
            _ => "measured",
        };
        let level = std::env::var(cpu_level::VARIABLE).ok();
        let level = level.map_or(String::new(), |level| format!(" --cpu-level {level}"));
        format!(
            "# Operators beside their peers\n\n`cargo xtask bench --peers{level} -- --record ../record`; evidence: {evidence}. {machine}.\n\n\
             One core, CPU time, sides in turn, memory placed anew in each round, every output checked. A ratio is the peer's median time over \
             dpb's, so above 1 dpb is faster, with its 95 % interval (of controls: the interval that all controls of a run together \
             leave once in a hundred runs). In brackets behind a coder's speed: bytes out over bytes in. Each peer's \
             version and build are in the record beside this file.\n{}",
            self.rows
        )
    }
}

/// Operator and parameters.
pub(crate) fn name(row: &Row) -> String {
    format!("{} {}", row.operator, row.parameters)
        .trim()
        .to_owned()
}

/// `peers-amd-epyc-25-17.x86-64-v4.debian-13`: one for each CPU by name, family and model, level, and system.
pub(crate) fn file_name(record: &Record) -> String {
    let slug = |text: &str| {
        let words = text.to_lowercase();
        let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("-")
    };
    let here = &record.provenance;
    if let Some(core) = counts::core(&record.evidence) {
        return format!("{}.{}", counts::file_name(&slug(core)), slug(&system()));
    }
    let number = |name: &str| {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let of = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| format!("-{}", value.trim()))
        };
        cpuinfo.lines().find_map(of).unwrap_or_default()
    };
    let (family, model) = (number("cpu family"), number("model"));
    let (cpu, level) = (slug(&here.cpu_model), slug(&here.cpu_level));
    format!("peers-{cpu}{family}{model}.{level}.{}", slug(&system()))
}

/// `debian-13`, as /etc/os-release has it.
fn system() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let of = |name: &str| {
        let value = release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or("unknown").trim_matches('"').to_owned()
    };
    format!("{}-{}", of("ID"), of("VERSION_ID"))
}

/// The peers that a record has a ratio to.
pub(crate) fn ratios(record: &Record) -> impl Iterator<Item = (&str, &Summary)> {
    let ratios = record.summary.iter();
    ratios.filter_map(|(name, ratio)| Some((name.strip_prefix(RATIO)?, ratio)))
}

/// The ratio to the fastest peer whose output is no larger; of all but coders the outputs are equal.
fn least(record: &Record) -> Option<(&str, &Summary)> {
    let subject = record.parameters.get("subject").map(ToString::to_string);
    let out = |side: &str| record.counts.get(&format!("{side} bytes_out"));
    let ours = subject.as_deref().and_then(out);
    ratios(record)
        .filter(|(peer, _)| out(peer) <= ours)
        .min_by(|a, b| a.1.median.total_cmp(&b.1.median))
}

/// Whether the goal is met, in a few words.
fn wanted(row: &Row, record: &Record) -> String {
    match row.control {
        Some(0.0) => return "1".to_owned(),
        Some(within) => return format!("1, within {within}"),
        None => {}
    }
    let peers = ratios(record).count();
    let Some((_, ratio)) = least(record).filter(|_| !row.is_coder) else {
        return match better(row, record) {
            _ if peers == 0 => "no peer here".to_owned(),
            Some(peer) => format!("{peer} is faster and no larger"),
            None => "nobody is faster and no larger".to_owned(),
        };
    };
    if row.group == "harness" {
        return "what the harness costs".to_owned();
    }
    let goal = row.shape.goal;
    match ratio.median >= goal {
        true => format!("{goal} met"),
        false => format!("{goal} missed"),
    }
}

/// Of a coder: a peer that is faster, beyond doubt, and whose output is no larger.
fn better<'a>(row: &Row, record: &'a Record) -> Option<&'a str> {
    let out = |side: &str| record.counts[&format!("{side} bytes_out")];
    let mut ratios = ratios(record);
    let is_better = |(peer, ratio): &(&str, &Summary)| {
        ratio.ci95_high.unwrap_or(ratio.median) < 1.0 && out(peer) <= out(&row.subject)
    };
    ratios.find(is_better).map(|(peer, _)| peer)
}

/// `32 x 1500 B`, `8192 calls of 1 x 256 B`.
fn shape(row: &Row) -> String {
    let shape = &row.shape;
    let call = format!("{} x {}", shape.items, bytes(shape.bytes));
    match (shape.calls, row.unit) {
        (1, _) => call,
        (_, Unit::Parts { part_bytes }) => format!("{} lookups", shape.bytes / part_bytes),
        _ => call,
    }
}

/// The amount of work in one run, in the row's unit.
fn units(row: &Row, record: &Record) -> f64 {
    let bytes = record.counts["bytes_in"] as f64;
    match row.unit {
        Unit::Bytes => bytes,
        Unit::Items => record.counts["items"] as f64,
        Unit::Parts { part_bytes } => bytes / part_bytes as f64,
    }
}

/// All sides, the subject first, with the instructions that an emulator counted, if it did; and the subject's over the best other one's.
fn counted(record: &Record) -> (String, String) {
    let Some(counts) = Counts::of(record) else {
        let sides = record.provenance.libraries.keys().cloned();
        return (sides.collect::<Vec<_>>().join("; "), String::new());
    };
    let ours = format!("{} per {}", counts.ours(), counts.unit);
    let peers = counts.peers().into_iter();
    let peers = peers.map(|peer| format!("{peer} {}", counts.shown(peer)));
    let sides: Vec<String> = std::iter::once(ours).chain(peers).collect();
    (sides.join("; "), counts::ratio(counts.best()))
}

/// For each model the cycles of all sides, and the subject's over the best other one's.
fn cycles(record: &Record) -> Vec<String> {
    let line = |model| {
        let counts = Counts::of_cycles(record, model)?;
        let peers = counts.peers().into_iter();
        let peers: String = peers
            .map(|peer| format!("; {peer} {}", counts.plain(peer)))
            .collect();
        Some(format!("model of {model}: {}{peers}", counts.in_short()))
    };
    let models = counts::models([record]).into_iter();
    models.filter_map(line).collect()
}

/// `1500 B`, `64 KiB`.
fn bytes(bytes: usize) -> String {
    match bytes {
        4096.. if bytes.is_multiple_of(1024) => format!("{} KiB", bytes / 1024),
        _ => format!("{bytes} B"),
    }
}

fn speed(row: &Row, record: &Record, side: &str) -> Option<String> {
    let ns = record.summary.get(&format!("{side} run_ns"))?.median;
    let per_ns = units(row, record) / ns;
    let speed = match row.unit {
        Unit::Bytes => format!("{per_ns:.3} GB/s"),
        _ if row.group == "harness" && row.control.is_none() => {
            format!("{:.2} ns an item", 1.0 / per_ns)
        }
        _ if per_ns < 1e-3 => format!("{:.2} k/s", per_ns * 1e6),
        _ => format!("{:.1} M/s", per_ns * 1e3),
    };
    if !row.is_coder {
        return Some(speed);
    }
    let out = record.counts[&format!("{side} bytes_out")] as f64;
    Some(format!(
        "{speed} ({:.3})",
        out / record.counts["bytes_in"] as f64
    ))
}

/// `1.52x [1.49, 1.55]`.
fn shown(ratio: &Summary) -> String {
    match (ratio.ci95_low, ratio.ci95_high) {
        (Some(low), Some(high)) => format!("{:.2}x [{low:.2}, {high:.2}]", ratio.median),
        _ => format!("{:.2}x", ratio.median),
    }
}

/// The ratio to the fastest peer on every CPU that has records in `folder`.
///
/// # Errors
/// A record that cannot be read.
pub(crate) fn side_by_side(folder: &Path) -> Result<String> {
    let mut machines: Vec<(String, String)> = Vec::new();
    let mut rows: Vec<(String, BTreeMap<usize, String>)> = Vec::new();
    let files = std::fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let records = text.lines().map(serde_json::from_str::<Record>);
        let records: Vec<Record> = records
            .collect::<Result<_, _>>()
            .with_context(|| file.display().to_string())?;
        // Of runs that timed nothing there is nothing to show.
        let first = records
            .iter()
            .find(|record| ratios(record).next().is_some());
        let Some(first) = first else {
            continue;
        };
        let at = machines.len();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        machines.push((name.into_owned(), machine(first)));
        for record in &records {
            let cell = match least(record) {
                Some((peer, ratio)) => format!("{} of {peer}", shown(ratio)),
                None if ratios(record).next().is_some() => "the smallest output".to_owned(),
                None => continue,
            };
            let name = in_words(record);
            match rows.iter_mut().find(|(known, _)| *known == name) {
                Some((_, cells)) => drop(cells.insert(at, cell)),
                None => rows.push((name, BTreeMap::from([(at, cell)]))),
            }
        }
    }
    let mut text = "# Operators beside their peers, CPU by CPU\n\nMeasured. A cell is the ratio to the fastest peer whose output is no larger: above 1 dpb is faster. A column is one CPU at one \
                    level; its command, dpb's revision and the peers' versions are in its files. These differ between columns, so compare within a column. \
                    At a masked level of a CPU of AMD's, libraries that ask the CPU themselves are left out, so the peers are fewer there. Written by \
                    `cargo xtask bench --peers -- --record ../record`.\n\n"
        .to_owned();
    for (number, (file, machine)) in (1..).zip(&machines) {
        let _ = writeln!(text, "{number}. [{file}]({file}.md): {machine}");
    }
    if folder.join(counts::TABLE).is_file() {
        let _ = writeln!(
            text,
            "\n64-bit Arm, emulated: [instructions]({}), no times.",
            counts::TABLE
        );
    }
    let heads: String = (1..=machines.len())
        .map(|number| format!(" {number} |"))
        .collect();
    let _ = write!(
        text,
        "\n| operator, a call |{heads}\n|---|{}\n",
        "---|".repeat(machines.len())
    );
    for (name, cells) in rows {
        let cells: String = (0..machines.len())
            .map(|at| format!(" {} |", cells.get(&at).map_or("", String::as_str)))
            .collect();
        let _ = writeln!(text, "| {name} |{cells}");
    }
    Ok(text)
}
