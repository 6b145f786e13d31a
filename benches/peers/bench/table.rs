//! Rows as lines, and as a table in Markdown.

use std::fmt::Write as _;

use dpb_core::measure::{Evidence, Outcome, Record, Summary};

use crate::rows::{Row, Unit};
use crate::units;

/// All rows so far.
#[derive(Default)]
pub(crate) struct Table(String);

impl Table {
    /// Takes a row in; what to print of it.
    pub(crate) fn add(&mut self, row: &Row, record: &Record) -> String {
        let what = match row.parameters {
            "" => row.operator.to_owned(),
            parameters => format!("{} {parameters}", row.operator),
        };
        let shape = format!("{} x {}", row.count, bytes(row.len));
        if let Outcome::Failed { reason } = &record.outcome {
            let _ = writeln!(self.0, "| {what} | {shape} | failed | | | |");
            return format!("{what:44} {shape:>14}  FAILED: {reason}");
        }
        let speeds: Vec<(String, String)> = record
            .provenance
            .libraries
            .keys()
            .filter_map(|name| Some((name.clone(), speed(row, record, name)?)))
            .collect();
        if speeds.is_empty() {
            let counted = |name: &String| match record.counts.get(&format!("{name} instructions")) {
                Some(&count) => {
                    let per_unit = count as f64 / units(row, record);
                    format!("{name} {per_unit:.2} instructions/{}", unit(row))
                }
                None => name.clone(),
            };
            let sides: Vec<_> = record.provenance.libraries.keys().map(counted).collect();
            let sides = sides.join(", ");
            let _ = writeln!(self.0, "| {what} | {shape} | checked | {sides} | | |");
            return format!("{what:44} {shape:>14}  checked: {sides}");
        }
        let of = |name: &str| speeds.iter().find(|(side, _)| side == name);
        let ours = of("dpb").map_or("", |(_, speed)| speed.as_str());
        let path = record.provenance.libraries["dpb"].split(',').next();
        let path = path.unwrap_or_default();
        let peers = speeds.iter().filter(|(name, _)| name != "dpb");
        let peers: Vec<_> = peers
            .map(|(name, speed)| format!("{name} {speed}"))
            .collect();
        let peers = peers.join(", ");
        let (ratio, verdict) = match record.summary.get("ratio") {
            Some(ratio) => (shown(ratio), verdict(ratio, row.target)),
            None => ("no comparable peer here".to_owned(), ""),
        };
        let best = record.parameters.get("best_peer");
        let best = best.map(|best| format!(" of {best}")).unwrap_or_default();
        let target = row.target;
        let _ = writeln!(
            self.0,
            "| {what} | {shape} | {ours} ({path}) | {peers} | {ratio}{best} | {target} {verdict} |"
        );
        format!(
            "{what:44} {shape:>14}  {ours:>12}  {ratio}{best}; wanted {target} {verdict}\n{:62}{peers}",
            ""
        )
    }

    /// The whole, below what it was measured on.
    pub(crate) fn markdown(&self, machine: &str, evidence: &Evidence) -> String {
        let evidence = match evidence {
            Evidence::Emulated { by } => format!("emulated by {by}: right or wrong, no speed"),
            _ => "measured".to_owned(),
        };
        format!(
            "# Operators beside their peers\n\n`cargo xtask bench --peers -- --record ../record`; evidence: {evidence}. {machine}.\n\n\
             One core, CPU time, sides in turn, every output checked. Ratio: dpb's speed over that of the fastest peer whose output \
             is at most 5 % larger, median over the rounds with the exact 95 % interval of the median. In brackets behind a coder's speed: bytes out over bytes in.\n\n\
             | operator | items | dpb | peers | ratio | wanted |\n|---|---|---|---|---|---|\n{}",
            self.0
        )
    }
}

/// What is counted, in a word.
fn unit(row: &Row) -> &'static str {
    match row.unit {
        Unit::Bytes => "byte",
        Unit::Items => "item",
        Unit::Parts(_) => "part",
    }
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
        Unit::Items | Unit::Parts(_) if per_ns < 1e-3 => format!("{:.2} k/s", per_ns * 1e6),
        Unit::Items | Unit::Parts(_) => format!("{:.1} M/s", per_ns * 1e3),
    };
    let is_coder = matches!(row.operator, "deflate" | "lz4" | "snappy" | "huffman");
    if !is_coder {
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

fn verdict(ratio: &Summary, target: f64) -> &'static str {
    if ratio.median >= target {
        "met"
    } else {
        "missed"
    }
}
