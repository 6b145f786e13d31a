//! Instructions that an emulator counted, and cycles that models of cores make of them: of a row, and the table of all cores.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dpb_core::measure::{Evidence, Record};

/// The end of a count's name in a record; the side's name stands before it.
const INSTRUCTIONS: &str = " instructions";
/// The same of cycles; the model's name stands behind it.
const CYCLES: &str = " cycles ";
/// The name of the count of lookups or tuples, where a row has such.
pub(crate) const PARTS: &str = "parts";
/// Items of fewer bytes are counted whole, longer ones by the byte.
const LONG: u64 = 1024;
/// The wanted share of the best peer's instructions in half of all rows.
const HALF: f64 = 0.7;
/// The file of the table of all cores.
pub(crate) const TABLE: &str = "emulated.md";
/// The beginning of the names of files of records.
const FILES: &str = "peers-emulated-";

/// A record's counts of instructions, or of cycles by a model, by unit.
pub(crate) struct Counts<'a> {
    record: &'a Record,
    /// The end of their names.
    end: String,
    units: f64,
    /// The unit.
    pub(crate) unit: &'static str,
}

/// The name of the count of `side`.
pub(crate) fn name(side: &str) -> String {
    format!("{side}{INSTRUCTIONS}")
}

/// The name of the count of `side`'s cycles by `model`.
pub(crate) fn name_of_cycles(side: &str, model: &str) -> String {
    format!("{side}{CYCLES}{model}")
}

/// The models that records have cycles of.
pub(crate) fn models<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeSet<&'a str> {
    let names = records.into_iter().flat_map(|record| record.counts.keys());
    let models = names.filter_map(|name| Some(name.split_once(CYCLES)?.1));
    models.collect()
}

/// The core that is emulated, if that is the evidence.
pub(crate) fn core(evidence: &Evidence) -> Option<&str> {
    let Evidence::Emulated { by } = evidence else {
        return None;
    };
    let (_, core) = by.rsplit_once(' ').unwrap_or(("", by));
    core.split(',').next()
}

/// `peers-emulated-cortex-a72`.
pub(crate) fn file_name(core: &str) -> String {
    format!("{FILES}{core}")
}

impl<'a> Counts<'a> {
    /// Instructions; `None` where nothing was counted.
    pub(crate) fn of(record: &'a Record) -> Option<Self> {
        Self::ending(record, INSTRUCTIONS.to_owned())
    }

    /// Cycles by `model`; `None` where it gives none.
    pub(crate) fn of_cycles(record: &'a Record, model: &str) -> Option<Self> {
        Self::ending(record, format!("{CYCLES}{model}"))
    }

    fn ending(record: &'a Record, end: String) -> Option<Self> {
        let count = |name: &str| record.counts.get(name).copied();
        let (items, bytes) = (count("items")?, count("bytes_in")?);
        let (units, unit) = match count(PARTS) {
            Some(parts) => (parts, "lookup or tuple"),
            None if bytes < items * LONG => (items, "item"),
            None => (bytes, "byte"),
        };
        let counts = Self {
            record,
            end,
            units: units as f64,
            unit,
        };
        counts.each(&counts.subject()).map(|_| counts)
    }

    fn subject(&self) -> String {
        let subject = self.record.parameters.get("subject");
        subject.map(ToString::to_string).unwrap_or_default()
    }

    /// The count of `side` for a unit.
    fn each(&self, side: &str) -> Option<f64> {
        let count = self.record.counts.get(&format!("{side}{}", self.end))?;
        Some(*count as f64 / self.units)
    }

    /// `12.5`, or nothing where `side` has no count.
    pub(crate) fn plain(&self, side: &str) -> String {
        self.each(side).map(digits).unwrap_or_default()
    }

    /// `12.5, 0.61 of isa-l`: dpb's, and its ratio to the best peer's.
    pub(crate) fn in_short(&self) -> String {
        let ratio = ratio(self.best());
        let comma = if ratio.is_empty() { "" } else { ", " };
        format!("{}{comma}{ratio}", self.plain(&self.subject()))
    }

    /// `12.5 (neon)`; behind a coder's, bytes out over bytes in.
    pub(crate) fn shown(&self, side: &str) -> String {
        let count = self.plain(side);
        let build = self.record.provenance.libraries.get(side);
        let path = build
            .and_then(|build| build.strip_prefix("cpu/")?.split([',', ';']).next())
            .filter(|path| side == self.subject() && *path != "harness");
        let path = path.map(|path| format!(" ({path})")).unwrap_or_default();
        match (self.is_coder(), self.bytes_out(side)) {
            (true, Some(out)) => {
                let share = out as f64 / self.record.counts["bytes_in"] as f64;
                format!("{count}{path} [{share:.3}]")
            }
            _ => count + &path,
        }
    }

    /// dpb's, or the row's own subject's.
    pub(crate) fn ours(&self) -> String {
        self.shown(&self.subject())
    }

    /// All others, the one with the lowest count first.
    pub(crate) fn peers(&self) -> Vec<&'a str> {
        let names = self.record.counts.keys();
        let subject = self.subject();
        let mut peers: Vec<&str> = names
            .filter_map(|name| name.strip_suffix(self.end.as_str()))
            .filter(|name| *name != subject)
            .collect();
        peers.sort_by_key(|name| self.record.counts[&format!("{name}{}", self.end)]);
        peers
    }

    /// The peer with the lowest count, of a coder's those alone whose output is no larger, and dpb's count over its.
    pub(crate) fn best(&self) -> Option<(&'a str, f64)> {
        let ours = self.bytes_out(&self.subject());
        let mut peers = self.peers().into_iter();
        let best = peers.find(|peer| !self.is_coder() || self.bytes_out(peer) <= ours)?;
        Some((best, self.each(&self.subject())? / self.each(best)?))
    }

    fn bytes_out(&self, side: &str) -> Option<u64> {
        let count = self.record.counts.get(&format!("{side} bytes_out"));
        count.copied()
    }

    /// True if right outputs have different sizes.
    fn is_coder(&self) -> bool {
        let ours = self.bytes_out(&self.subject());
        let peers = self.peers();
        peers.iter().any(|peer| self.bytes_out(peer) != ours)
    }

    /// True if the row says something of dpb: it is no control, and not the harness's own cost.
    fn is_judged(&self) -> bool {
        let is = |name: &str, value: &str| {
            let parameter = self.record.parameters.get(name);
            parameter.is_some_and(|it| it.to_string() == value)
        };
        !is("control", "true") && !is("group", "harness")
    }
}

/// `0.61 of isa-l`.
pub(crate) fn ratio(best: Option<(&str, f64)>) -> String {
    best.map(|(peer, ratio)| format!("{ratio:.2} of {peer}"))
        .unwrap_or_default()
}

/// Three digits that count.
fn digits(count: f64) -> String {
    match count {
        1e6.. => format!("{:.2} M", count / 1e6),
        1e5.. => format!("{:.0} k", count / 1e3),
        100.0.. => format!("{count:.0}"),
        10.0.. => format!("{count:.1}"),
        1.0.. => format!("{count:.2}"),
        _ => format!("{count:.3}"),
    }
}

/// One table of all cores that have records in `folder`; of parts of all rows, those of such.
///
/// # Errors
/// A record that cannot be read.
pub(crate) fn all_cores(folder: &Path, is_whole: bool) -> Result<String> {
    let mut cores = Vec::new();
    for file in files(folder, is_whole)? {
        let text = std::fs::read_to_string(&file)?;
        let records = text.lines().map(serde_json::from_str::<Record>);
        let records: Vec<Record> = records
            .collect::<Result<_, _>>()
            .with_context(|| file.display().to_string())?;
        cores.push((file, records));
    }
    let mut text = "# Instructions of operators beside their peers on 64-bit Arm\n\nEmulated: counted by a plugin of qemu-user, on no \
                    hardware. Instructions are no time. Per item, per byte of items of 1 KiB and more, per lookup, or per tuple; one call \
                    behind another that set all up. The ratio is dpb's instructions over those of the peer that needs the fewest, so below \
                    1 dpb needs fewer. In square brackets: bytes out over bytes in, of coders, whose ratio is to the peers whose output is \
                    no larger. Cycles are llvm-mca's estimate by its model of the core that is named, of the same calls: dpb's, and the ratio to the \
                    peer with the fewest. A model knows no caches, and every branch as if it were foreseen; METHODOLOGY.md says more. Written by `cargo xtask bench \
                    --target aarch64 --peers -- --record ../record`; all peers are in each core's file.\n\n"
        .to_owned();
    let mut rows: Vec<(String, BTreeMap<usize, String>)> = Vec::new();
    for (at, (file, records)) in cores.iter().enumerate() {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let first = records.first().context("a file without records")?;
        let core = core(&first.evidence).unwrap_or_default();
        let _ = writeln!(
            text,
            "* [{core}]({name}.md): {}. {}",
            crate::words::machine(first),
            summary(records)
        );
        let models = models(records);
        for record in records {
            let Some(counts) = Counts::of(record) else {
                continue;
            };
            let best = counts.best();
            let peer = best.or(counts.peers().first().map(|peer| (*peer, f64::NAN)));
            let mut cell = format!(
                " {} | {} | {} |",
                counts.ours(),
                peer.map_or(String::new(), |(peer, _)| format!(
                    "{peer} {}",
                    counts.shown(peer)
                )),
                best.map_or(String::new(), |(_, ratio)| format!("{ratio:.2}"))
            );
            for model in &models {
                let cycles = Counts::of_cycles(record, model);
                let cycles = cycles.map_or(String::new(), |cycles| cycles.in_short());
                let _ = write!(cell, " {cycles} |");
            }
            let name = format!("{} | {}", in_words(record), counts.unit);
            match rows.iter_mut().find(|(known, _)| *known == name) {
                Some((_, cells)) => drop(cells.insert(at, cell)),
                None => rows.push((name, BTreeMap::from([(at, cell)]))),
            }
        }
    }
    let mut heads = String::new();
    let mut empty = Vec::new();
    for (_, records) in &cores {
        let first = records.first().context("a file without records")?;
        let core = core(&first.evidence).unwrap_or_default();
        let _ = write!(heads, " {core}: dpb | best peer | ratio |");
        let models = models(records);
        for model in &models {
            let _ = write!(heads, " cycles, model of {model} |");
        }
        empty.push(" |".repeat(3 + models.len()));
    }
    let lines: String = empty.iter().map(|it| it.replace(" |", "---|")).collect();
    let _ = write!(
        text,
        "\n| operator, a call | each |{heads}\n|---|---|{lines}\n"
    );
    for (name, cells) in rows {
        let cells: String = (empty.iter().enumerate())
            .map(|(at, empty)| cells.get(&at).unwrap_or(empty).as_str())
            .collect();
        let _ = writeln!(text, "| {name} |{cells}");
    }
    Ok(text)
}

/// In how many rows dpb needs no more than the best peer: instructions, and cycles by each model.
fn summary(records: &[Record]) -> String {
    let sums = |counts: &mut dyn Iterator<Item = Counts<'_>>| {
        let ratios: Vec<f64> = counts
            .filter(Counts::is_judged)
            .filter_map(|counts| Some(counts.best()?.1))
            .collect();
        let of = |most: f64| ratios.iter().filter(|ratio| **ratio <= most).count();
        (ratios.len(), of(1.0), of(HALF))
    };
    let (rows, one, half) = sums(&mut records.iter().filter_map(Counts::of));
    let mut text = format!(
        "Of {rows} rows with a peer dpb needs at most its instructions in {one}, at most {HALF} of them in {half}"
    );
    for model in models(records) {
        let cycles = |record| Counts::of_cycles(record, model);
        let (rows, one, half) = sums(&mut records.iter().filter_map(cycles));
        let _ = write!(
            text,
            "; by the model of {model}, of {rows} rows at most its cycles in {one}, at most {HALF} of them in {half}"
        );
    }
    text
}

fn files(folder: &Path, is_whole: bool) -> Result<Vec<PathBuf>> {
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_part = name.ends_with(".part.jsonl");
        name.starts_with(FILES) && name.ends_with(".jsonl") && is_part != is_whole
    };
    let files = std::fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(is_one).collect();
    files.sort();
    Ok(files)
}

/// `crc32, 32 x 1500 B`.
pub(crate) fn in_words(record: &Record) -> String {
    let words = crate::words::in_words(record).replace(" ,", ",");
    match words.strip_suffix(" x 1") {
        Some(of_one_call) => of_one_call.to_owned(),
        None => words.replace(" x 1, control", ", control"),
    }
}
