//! What reaches stdout: a table for a person, JSON lines for a pipe, CSV when asked. And progress on stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::Serialize;

use dpb_core::measure::{Durability, Outcome, Record, Store};
use dpb_core::printable;

use crate::Globals;
use crate::exit::Failure;

/// What `--format` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Asked {
    /// Aligned columns, for a person.
    Table,
    /// One JSON object a line.
    Json,
    /// A header and one line a row (RFC 4180).
    Csv,
    /// A table of GitHub-flavoured Markdown.
    Markdown,
    /// perftest's columns, of `dpb rdma`.
    Perftest,
    /// A stream of Arrow's IPC format, of `dpb query`.
    Arrow,
    /// A Parquet file, of `dpb query`.
    Parquet,
}

/// How results are written to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns, for a person.
    Table,
    /// One JSON object a line.
    Json,
    /// A header and one line a row (RFC 4180).
    Csv,
    /// A table of GitHub-flavoured Markdown.
    Markdown,
}

impl Format {
    /// What was asked for; else a table on a terminal and JSON lines to a pipe.
    pub fn choose(asked: Option<Asked>) -> Self {
        match asked {
            Some(Asked::Table) => Self::Table,
            Some(Asked::Csv) => Self::Csv,
            Some(Asked::Markdown) => Self::Markdown,
            Some(Asked::Json) => Self::Json,
            // Formats of one verb, which asks for them itself.
            Some(Asked::Perftest | Asked::Arrow | Asked::Parquet) | None => {
                match io::stdout().is_terminal() {
                    true => Self::Table,
                    false => Self::Json,
                }
            }
        }
    }
}

/// One column of a [`Table`].
#[derive(Clone, Debug)]
pub struct Column {
    title: String,
    right: bool,
    noted: bool,
}

impl Column {
    /// A column of words.
    pub fn left(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            right: false,
            noted: false,
        }
    }

    /// A column of a word and maybe a detail, `word: detail`. A person reads the details under the table.
    pub fn noted(title: impl Into<String>) -> Self {
        Self {
            noted: true,
            ..Self::left(title)
        }
    }

    /// A column of numbers.
    pub fn right(title: impl Into<String>) -> Self {
        Self {
            right: true,
            ..Self::left(title)
        }
    }
}

/// Rows under titles, for a person or as CSV.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. What a terminal would act on in a cell is escaped.
    ///
    /// # Panics
    /// If it has more or fewer cells than there are columns.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells = cells.into_iter().map(Into::into);
        let row: Vec<String> = cells.map(|cell| printable(&cell, usize::MAX)).collect();
        assert_eq!(row.len(), self.columns.len(), "one cell a column");
        self.rows.push(row);
    }

    /// Each column's title, and if it is one of numbers; and the rows: for forms that are not this module's.
    pub fn parts(&self) -> (Vec<(&str, bool)>, &[Vec<String>]) {
        let titles = self.columns.iter();
        let titles = titles.map(|column| (column.title.as_str(), column.right));
        (titles.collect(), &self.rows)
    }

    /// The table in this format; of JSON, which has none, as text.
    pub fn to(&self, format: Format) -> String {
        match format {
            Format::Markdown => self.to_markdown(),
            Format::Csv => self.to_csv(),
            Format::Table | Format::Json => self.to_text(),
        }
    }

    /// Aligned text; two spaces between columns, no trailing blanks.
    pub fn to_text(&self) -> String {
        let (rows, notes) = self.with_notes();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = rows.iter().map(|row| width(&row[at]));
                cells
                    .chain([width(&self.columns[at].title)])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&rows) {
            let mut line = String::new();
            for ((cell, column), &wide) in row.iter().zip(&self.columns).zip(&widths) {
                let blank = " ".repeat(wide - width(cell));
                match column.right {
                    true => line.extend([&blank, cell.as_str(), "  "]),
                    false => line.extend([cell.as_str(), &blank, "  "]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for (number, note) in (1..).zip(notes) {
            text.push_str(&format!("[{number}] {note}\n"));
        }
        text
    }

    /// The rows, with the details of [`Column::noted`] cells replaced by numbers, and these details.
    fn with_notes(&self) -> (Vec<Vec<String>>, Vec<String>) {
        let mut notes: Vec<String> = Vec::new();
        let mut rows = self.rows.clone();
        for row in &mut rows {
            for (cell, _) in row.iter_mut().zip(&self.columns).filter(|(_, c)| c.noted) {
                let Some((word, detail)) = cell.split_once(": ") else {
                    continue;
                };
                let number = notes
                    .iter()
                    .position(|note| note == detail)
                    .unwrap_or_else(|| {
                        notes.push(detail.to_owned());
                        notes.len() - 1
                    });
                *cell = format!("{word} [{}]", number + 1);
            }
        }
        (rows, notes)
    }

    /// A table of GitHub-flavoured Markdown, and the details under it as a list.
    pub fn to_markdown(&self) -> String {
        let (rows, notes) = self.with_notes();
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| markdown_cell(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.clone()).collect();
        let rules = self.columns.iter().map(|column| match column.right {
            true => "---:".to_owned(),
            false => "---".to_owned(),
        });
        let mut text = line(&titles) + &line(&rules.collect::<Vec<_>>());
        text.extend(rows.iter().map(|row| line(row)));
        for (number, note) in (1..).zip(notes) {
            text.push_str(&format!("\n[{number}] {}\n", markdown_cell(&note)));
        }
        text
    }

    /// RFC 4180, with `\n` as the end of a line.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.clone()).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| csv_cell(cell)).collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }
}

/// Writes to stdout. A reader that went away (`dpb … | head`) is no failure of ours.
///
/// # Errors
/// If stdout cannot be written for another reason, such as a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::check(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes one JSON line to stdout.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value)
        .map_err(|error| Failure::check(format!("cannot write JSON: {error}")))?;
    print(&(line + "\n"))
}

/// Writes a finished table: `rows` as JSON lines, or the table as text or CSV.
///
/// # Errors
/// As [`print()`].
pub fn print_rows(format: Format, table: &Table, rows: &[impl Serialize]) -> Result<(), Failure> {
    match format {
        Format::Table => print(&table.to_text()),
        Format::Csv => print(&table.to_csv()),
        Format::Markdown => print(&table.to_markdown()),
        Format::Json => rows.iter().try_for_each(print_json),
    }
}

/// A bar on stderr: only on a terminal, and only once the work has taken more than a second.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    steps: Arc<Mutex<Steps>>,
    /// Dropped to end the thread that draws.
    drawn: Option<Sender<()>>,
}

/// How far the work is, for an estimate of the time that is left.
#[derive(Clone, Copy, Debug)]
struct Steps {
    total: u64,
    done: u64,
    /// From the start until the last step was done.
    took: Duration,
    /// The time of all steps, as far as it was known before; `None` where nothing is said of time.
    estimate: Option<Duration>,
}

impl Steps {
    /// The time that is left after `elapsed`: by the steps that are done, and before the first one by the estimate.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let estimate = self.estimate?;
        let whole = match self.done {
            0 => estimate,
            done => self.took.mul_f64(self.total as f64 / done as f64),
        };
        // A step that takes longer than those before says nothing until it is done.
        (whole > elapsed).then(|| whole.saturating_sub(elapsed))
    }
}

/// The interval at which a bar is drawn again; it is shown from the first one on.
const DRAW: Duration = Duration::from_secs(1);

impl Progress {
    /// A bar over `total` steps; `quiet` keeps it hidden.
    pub fn new(total: u64, quiet: bool) -> Self {
        Self::estimated(total, quiet, None)
    }

    /// The same for a task that was called by its verb: it says how much time is left.
    pub fn of_task(total: u64, globals: &Globals) -> Self {
        Self::estimated(total, globals.quiet, Some(globals.estimate))
    }

    fn estimated(total: u64, quiet: bool, estimate: Option<Duration>) -> Self {
        let steps = Arc::new(Mutex::new(Steps {
            total,
            done: 0,
            took: Duration::ZERO,
            estimate,
        }));
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let seen = steps.clone();
        let left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let steps = *seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(left) = steps.left(state.elapsed()) {
                // A terminal that cannot be written has no use for it.
                let _ = write!(out, "{} left: ", short_time(left));
            }
        };
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {left}{msg}");
        bar.set_style(style.expect("a literal template").with_key("left", left));
        let is_shown = !quiet && io::stderr().is_terminal();
        Self {
            drawn: is_shown.then(|| draw(bar.clone())),
            bar,
            steps,
        }
    }

    /// Says how far the work is, and what it does now.
    pub fn set(&self, done: u64, what: &str) {
        // Asked before the lock is taken: whoever draws has the bar locked, and takes this lock then.
        let elapsed = self.bar.elapsed();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if done > steps.done {
            (steps.done, steps.took) = (done, elapsed);
        }
        drop(steps);
        self.bar.set_message(what.to_owned());
        self.bar.set_position(done);
    }
}

/// Draws the bar on a thread of its own, from a second on: one step alone may take minutes. It ends with the sender.
fn draw(bar: ProgressBar) -> Sender<()> {
    let (sender, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let mut is_first = true;
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(DRAW) {
            if std::mem::take(&mut is_first) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            bar.tick();
        }
    });
    sender
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.drawn = None;
        self.bar.finish_and_clear();
    }
}

/// `40 s`, `12 min`, `3.5 h`.
pub fn short_time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Opens the file of records that `--out` names. No folder is made for it: a mistyped path would be one.
///
/// # Errors
/// Wrong usage, with what to do about it.
pub fn open_records(path: &Path, durability: Durability) -> Result<Store, Failure> {
    Store::open(path, durability).map_err(|error| unwritable(&error))
}

/// Why a file cannot be written: wrong usage if its path is to blame.
pub fn unwritable(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::usage(format!("{error}; make its folder first (mkdir -p)"))
        }
        io::ErrorKind::IsADirectory => Failure::usage(format!("{error}; name a file in it")),
        io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
            Failure::usage(error.to_string())
        }
        _ => Failure::check(error.to_string()),
    }
}

/// What kind of numbers a record has.
pub fn evidence(record: &Record) -> &'static str {
    if record.summary.is_empty() {
        return "-";
    }
    record.evidence.kind()
}

/// In a few words whether a record's numbers can be trusted; after a colon, why not.
pub fn verdict(record: &Record) -> String {
    match &record.outcome {
        Outcome::Failed { reason } => format!("failed: {reason}"),
        Outcome::Unsupported { reason } => format!("unsupported: {reason}"),
        Outcome::Interrupted => "interrupted".into(),
        Outcome::Done => match &record.stability {
            Some(stability) if stability.stable => "stable".into(),
            Some(stability) => format!("unstable: {}", stability.reasons.join("; ")),
            None => "-".into(),
        },
    }
}

/// A warning or a note on stderr. Characters that a terminal would act on are escaped; lines stay lines.
pub fn note(message: &str) {
    // A closed stderr is nobody's loss.
    let _ = writeln!(io::stderr(), "{}", lines(message));
}

fn lines(message: &str) -> String {
    let lines = message.split('\n');
    let lines: Vec<String> = lines.map(|line| printable(line, usize::MAX)).collect();
    lines.join("\n")
}

/// A figure with three significant digits and a prefix: `1.23 G`, `456 M`.
pub fn short(value: f64) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    const STEPS: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scaled, prefix) = STEPS
        .iter()
        .find(|(step, _)| value.abs() >= *step * 0.9995)
        .map_or((value, ""), |(step, prefix)| (value / step, *prefix));
    let digits = match scaled.abs() {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{prefix}")
}

/// Nanoseconds in a unit that reads well.
pub fn short_ns(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{} s", short(ns / 1e9)),
    }
}

/// The form of a metric's values, by the unit in its name. With `_per_` it is a rate, unless nanoseconds stand before.
pub fn text_of(metric: &str) -> fn(f64) -> String {
    let (of, is_rate) = match metric.split_once("_per_") {
        Some((of, _)) => (of, true),
        None => (metric, false),
    };
    match () {
        () if of.contains("_ns") => short_ns,
        () if of.ends_with("_s") && !is_rate => |seconds| short_ns(seconds * 1e9),
        () => short,
    }
}

/// Writes a file that is there whole or not at all.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let named = format!("cannot write {}: {error}", path.display());
        unwritable(&std::io::Error::new(error.kind(), named))
    };
    if path.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        // Best effort: the first error is the one to tell.
        let _ = std::fs::remove_file(&temporary);
        failed(error)
    })
}

/// A number as it is.
pub fn number(value: f64) -> String {
    value.to_string()
}

/// A share in percent.
pub fn percent(value: f64) -> String {
    format!("{} %", (value * 1e5).round() / 1e3)
}

/// Bytes with a binary prefix where that is exact.
pub fn bytes(value: f64) -> String {
    let steps = [
        (f64::from(1 << 30), " Gi"),
        (f64::from(1 << 20), " Mi"),
        (1024.0, " Ki"),
    ];
    let exact = steps
        .iter()
        .find(|(step, _)| value >= *step && value % step == 0.0);
    match exact {
        Some((step, prefix)) => format!("{}{prefix}", value / step),
        None => value.to_string(),
    }
}

/// Columns that `text` takes; all that we print is one column a character.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// What Markdown would read as its own is escaped.
fn markdown_cell(cell: &str) -> String {
    let escape = |c: char| "\\`*_[]<>|#~".contains(c).then(|| format!("\\{c}"));
    cell.chars()
        .map(|c| escape(c).unwrap_or_else(|| c.to_string()))
        .collect()
}

fn csv_cell(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_csv_is_quoted() {
        let mut table = Table::new([Column::left("name"), Column::right("n")]);
        table.row(["a", "1"]);
        table.row(["b, \"c\"", "1000"]);
        assert_eq!(
            table.to_text(),
            "name       n\na          1\nb, \"c\"  1000\n"
        );
        assert_eq!(
            table.to_markdown(),
            "| name | n |\n| --- | ---: |\n| a | 1 |\n| b, \"c\" | 1000 |\n"
        );
        assert_eq!(markdown_cell("a|b_c"), "a\\|b\\_c");
        assert_eq!(table.to_csv(), "name,n\na,1\n\"b, \"\"c\"\"\",1000\n");
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_leaves() {
        assert_eq!(lines("a 'b'\n  ^\u{1b}[2J"), "a 'b'\n  ^\\u{1b}[2J");
        let mut table = Table::new([Column::left("file")]);
        table.row(["\u{1b}]0;owned\u{7}\n"]);
        let (text, csv) = (table.to_text(), table.to_csv());
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
        assert!(!csv.contains(['\u{1b}', '\u{7}']), "{csv}");
        assert_eq!((text.lines().count(), csv.lines().count()), (2, 2));
    }

    #[test]
    fn figures_keep_three_digits() {
        for (value, text) in [
            (0.0, "0.00"),
            (999.4, "999"),
            (999.96, "1.00 k"),
            (12_345.0, "12.3 k"),
            (1.5e9, "1.50 G"),
            (-2.0e6, "-2.00 M"),
            (1e308, "1.00e308"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(short_ns(1500.0), "1.5 us");
        for (metric, text) in [
            ("latency_ns_p99", "1.5 us"),
            ("cpu_ns_per_message", "1.5 us"),
            ("run_s", "1.50 k s"),
            ("items_per_s", "1.50 k"),
            ("bogo_ops_per_cpu_s", "1.50 k"),
        ] {
            assert_eq!(text_of(metric)(1500.0), text, "{metric}");
        }
    }

    #[test]
    fn the_time_that_is_left_follows_the_steps_that_are_done() {
        let second = Duration::from_secs;
        let mut steps = Steps {
            total: 4,
            done: 0,
            took: Duration::ZERO,
            estimate: Some(second(100)),
        };
        // Before the first step the task's own estimate counts, until it is over.
        assert_eq!(steps.left(second(30)), Some(second(70)));
        assert_eq!(steps.left(second(101)), None);
        // Two of four took 20 s, and 5 s have gone since.
        (steps.done, steps.took) = (2, second(20));
        assert_eq!(steps.left(second(25)), Some(second(15)));
        steps.estimate = None;
        assert_eq!(steps.left(second(25)), None);
    }
}
