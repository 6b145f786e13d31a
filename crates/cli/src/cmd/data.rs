//! `dpb data`: TPC-H tables as segment files, made once and kept.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use dpb_dbmods::duckdb::tpch_baseline::{self, BaselineError, Kept};
use dpb_dbmods::query::date;
use dpb_dbmods::schema::{self, ColumnType};
use dpb_dbmods::table::{Encoding, Segment};
use dpb_dbmods::tpch::{self, DataError, Step, TableSet};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{self, Column, Progress, Table};
use crate::{Globals, args, interrupt};

mod part;

pub use part::{Part, make_apart};

/// Make, list, check or remove TPC-H data. What is there already is read and checked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: dpb data --sf 1 --tables lineitem")]
pub struct Args {
    /// TPC-H's scale factor; fractions work
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    sf: f64,
    /// The tables to make: names with commas between, or `all`
    #[arg(long, default_value = "all", value_delimiter = ',')]
    tables: Vec<String>,
    /// Threads that make or verify the tables [default: one a CPU]
    #[arg(long, value_parser = args::threads)]
    threads: Option<u64>,
    /// Where data is kept [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Print one line a column: encodings, bytes, smallest and largest value
    #[arg(long)]
    columns: bool,
    /// List what is there, of every scale factor, also DuckDB's copies; make nothing
    #[arg(long, conflicts_with_all = ["verify", "remove"])]
    list: bool,
    /// Read every block of what is there, check it and say so; make nothing
    #[arg(long, conflicts_with = "remove")]
    verify: bool,
    /// Remove these tables, and the copies of them that any version of DuckDB made
    #[arg(long)]
    remove: bool,
    /// Make this for the process that started this one, and end with it
    #[arg(long, hide = true, requires = "parent")]
    part: Option<Part>,
    /// The process that started this one
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

/// Makes, lists, checks or removes.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let data_dir = args.data_dir.clone().unwrap_or_else(tpch::default_data_dir);
    let tables: Vec<&str> = match args.tables.as_slice() {
        [all] if all == "all" => tpch::TABLES.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cpus, |threads| threads as usize);
    if let Some(part) = args.part {
        part.end_with(args.parent)?;
        let [table] = tables[..] else {
            return Err(Failure::usage("--part is of one table"));
        };
        return part.make(&data_dir, args.sf, table, threads, globals);
    }
    if args.remove {
        let clock = dpb_core::WallClock::default();
        let freed = tpch::remove(&data_dir, args.sf, &tables, &clock).map_err(failure)?
            + tpch_baseline::remove(&data_dir, args.sf, &tables, &clock)
                .map_err(baseline_failure)?;
        output::note(&format!("removed {}B", output::short(freed as f64)));
        return Ok(());
    }
    let mut copies = Vec::new();
    let sets = if args.list {
        copies = tpch_baseline::list(&data_dir);
        let sets = tpch::list(&data_dir).map_err(failure)?;
        note_damage(&sets);
        sets
    } else if args.verify {
        let set = tpch::find(&data_dir, args.sf);
        vec![verify(&set, &tables, threads.clamp(1, cpus), globals)?]
    } else {
        let found = tpch::find(&data_dir, args.sf);
        let set = only(
            make(&data_dir, args.sf, &tables, threads, globals)?,
            &tables,
        );
        // What was there since may have changed.
        let mut kept = set.clone();
        let is_kept = |table: &tpch::TableFile| found.table(&table.name) == Some(table);
        kept.tables.retain(is_kept);
        verify_tables(&kept, threads.clamp(1, cpus), globals, &|_| ())?;
        vec![set]
    };
    if args.columns {
        print_columns(&sets, globals)
    } else {
        print_tables(&sets, &copies, globals)
    }
}

/// Makes what is missing, with progress on stderr.
///
/// # Errors
/// As [`failure`] says.
pub fn make(
    data_dir: &std::path::Path,
    sf: f64,
    tables: &[&str],
    threads: usize,
    globals: &Globals,
) -> Result<TableSet, Failure> {
    // Before anything is written.
    interrupt::flag();
    let bar = Mutex::new((Progress::new(0, globals.quiet), String::new()));
    let report = |step: Step<'_>| {
        if interrupt::is_set() {
            return ControlFlow::Break(());
        }
        let Ok(mut bar) = bar.lock() else {
            return ControlFlow::Continue(());
        };
        match step {
            Step::Waiting => bar.0.set(0, "another dpb makes this data; waiting for it"),
            Step::Damaged { table, what } => output::note(&format!(
                "{table}, scale factor {sf}: damaged ({what}), is made anew"
            )),
            Step::Making {
                table,
                rows,
                rows_expected,
            } => {
                if bar.1 != table {
                    *bar = (
                        Progress::new(rows_expected, globals.quiet),
                        table.to_owned(),
                    );
                }
                bar.0
                    .set(rows, &format!("rows of {table}, scale factor {sf}"));
            }
        }
        ControlFlow::Continue(())
    };
    tpch::ensure(
        data_dir,
        sf,
        tables,
        threads,
        &dpb_core::WallClock::default(),
        &report,
    )
    .map_err(failure)
}

/// What to do about damage.
const REMEDY: &str = "remove the table with `dpb data --remove` and make it again";

/// How a failure to have data ends the process.
pub fn failure(error: DataError) -> Failure {
    let message = error.to_string();
    match error {
        DataError::Usage(_) => Failure::usage(message),
        DataError::Space { .. } => {
            Failure::unavailable(format!("{message}; --data-dir chooses another place"))
        }
        DataError::Missing { .. } => Failure::unavailable(message),
        DataError::Write { .. } => {
            Failure::check(format!("{message}; --data-dir chooses another place"))
        }
        DataError::Segment(_) => Failure::check(format!("{message}; {REMEDY}")),
        DataError::Interrupted => Failure::interrupted(message),
    }
}

/// How a failure to have DuckDB's copy ends the process.
pub fn baseline_failure(error: BaselineError) -> Failure {
    let message = error.to_string();
    match error {
        BaselineError::ScaleFactor(_) | BaselineError::Table(_) => Failure::usage(message),
        BaselineError::NoSpace { .. } => Failure::unavailable(format!(
            "{message}; choose another place with --data-dir, or run --schemes dpb alone"
        )),
        _ => Failure::check(message),
    }
}

/// The set without tables that were not asked for.
fn only(mut set: TableSet, tables: &[&str]) -> TableSet {
    set.tables
        .retain(|table| tables.contains(&table.name.as_str()));
    set
}

/// Says which tables are damaged in header or footer, or gone.
fn note_damage(sets: &[TableSet]) {
    for set in sets {
        for table in &set.tables {
            if let Err(error) = set.open(&table.name) {
                output::note(&format!(
                    "{}, scale factor {}: {error}",
                    table.name, set.scale_factor
                ));
            }
        }
    }
}

/// Reads and checks every block of every table; says of each whether it is whole.
fn verify(
    set: &TableSet,
    tables: &[&str],
    threads: usize,
    globals: &Globals,
) -> Result<TableSet, Failure> {
    let set = only(set.clone(), tables);
    // Of all tables only some may have been made; one that was named must be there.
    let is_named = tables.len() < tpch::TABLES.len() || set.tables.is_empty();
    if let Some(name) = tables.iter().find(|name| set.table(name).is_none())
        && is_named
    {
        let path = set.path(name);
        return Err(failure(DataError::Missing { path }));
    }
    verify_tables(&set, threads, globals, &output::note)?;
    Ok(set)
}

/// Reads and checks every block, and tells of each table that is whole.
fn verify_tables(
    set: &TableSet,
    threads: usize,
    globals: &Globals,
    tell: &dyn Fn(&str),
) -> Result<(), Failure> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failure::unavailable(error.to_string()))?;
    let mut damaged = Vec::new();
    for table in &set.tables {
        let started = Instant::now();
        match pool.install(|| verify_table(set, &table.name, globals)) {
            Ok(()) => tell(&format!(
                "{}: every block is as it was written ({:.1} s)",
                table.name,
                started.elapsed().as_secs_f64()
            )),
            Err(DataError::Interrupted) => return Err(Failure::interrupted("interrupted")),
            Err(error) => damaged.push(error.to_string()),
        }
    }
    match damaged.as_slice() {
        [] => Ok(()),
        damaged => Err(Failure::check(format!("{}; {REMEDY}", damaged.join("\n")))),
    }
}

fn verify_table(set: &TableSet, table: &str, globals: &Globals) -> Result<(), DataError> {
    let segment = set.open(table)?;
    let groups = segment.groups().len();
    let progress = Mutex::new((0, Progress::new(groups as u64, globals.quiet)));
    let check = |group| {
        for column in 0..segment.schema().columns.len() {
            if interrupt::is_set() {
                return Err(DataError::Interrupted);
            }
            segment
                .read_chunk(group, column)
                .map_err(DataError::Segment)?;
        }
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.0 += 1;
        progress
            .1
            .set(progress.0, &format!("row groups of {table}"));
        Ok(())
    };
    // The first damage in the file, whichever is found first.
    let found = (0..groups).into_par_iter().map(check);
    found.find_map_first(Result::err).map_or(Ok(()), Err)
}

#[derive(Serialize)]
struct TableRow<'a> {
    scale_factor: f64,
    table: &'a str,
    /// `segment`, or DuckDB and its version.
    kind: String,
    rows: Option<u64>,
    bytes: u64,
    crc32c: Option<u32>,
    made_in_s: Option<f64>,
    path: PathBuf,
}

fn print_tables(sets: &[TableSet], copies: &[Kept], globals: &Globals) -> Result<(), Failure> {
    let mut table = Table::new([
        Column::right("sf"),
        Column::left("table"),
        Column::left("kind"),
        Column::right("rows"),
        Column::right("MB"),
        Column::right("bytes/row"),
        Column::right("made in s"),
        Column::left("file"),
    ]);
    let segments = sets.iter().flat_map(|set| {
        set.tables.iter().map(|entry| TableRow {
            scale_factor: set.scale_factor,
            table: &entry.name,
            kind: "segment".to_owned(),
            rows: Some(entry.rows),
            bytes: entry.bytes,
            crc32c: Some(entry.crc32c),
            made_in_s: Some(entry.made_in_s),
            path: set.path(&entry.name),
        })
    });
    let copies = copies.iter().map(|copy| TableRow {
        scale_factor: copy.scale_factor,
        table: &copy.table,
        kind: format!("duckdb {}", copy.duckdb_version),
        rows: copy.rows,
        bytes: copy.bytes,
        crc32c: None,
        made_in_s: None,
        path: copy.dir.clone(),
    });
    let rows: Vec<TableRow<'_>> = segments.chain(copies).collect();
    for row in &rows {
        let bytes_a_row = row.rows.map(|rows| row.bytes as f64 / rows as f64);
        let tenths = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.1}"));
        table.row([
            row.scale_factor.to_string(),
            row.table.to_owned(),
            row.kind.clone(),
            row.rows.map_or_else(String::new, |rows| rows.to_string()),
            format!("{:.1}", row.bytes as f64 / 1e6),
            tenths(bytes_a_row),
            tenths(row.made_in_s),
            row.path.display().to_string(),
        ]);
    }
    output::print_rows(globals.format(), &table, &rows)
}

#[derive(Serialize)]
struct ColumnRow {
    scale_factor: f64,
    table: String,
    column: String,
    #[serde(rename = "type")]
    ty: String,
    /// Encoding → row groups that have it.
    encodings: BTreeMap<&'static str, usize>,
    bytes: u64,
    bytes_per_row: f64,
    min: Option<String>,
    max: Option<String>,
}

fn print_columns(sets: &[TableSet], globals: &Globals) -> Result<(), Failure> {
    let mut table = Table::new([
        Column::right("sf"),
        Column::left("column"),
        Column::left("type"),
        Column::left("encoding"),
        Column::right("MB"),
        Column::right("bytes/row"),
        Column::right("min"),
        Column::right("max"),
    ]);
    let mut rows = Vec::new();
    for set in sets {
        for entry in &set.tables {
            let segment = set.open(&entry.name).map_err(failure)?;
            rows.extend(columns(&segment, set.scale_factor));
        }
    }
    for row in &rows {
        let encodings: Vec<&str> = row.encodings.keys().copied().collect();
        table.row([
            row.scale_factor.to_string(),
            row.column.clone(),
            row.ty.clone(),
            encodings.join("+"),
            format!("{:.2}", row.bytes as f64 / 1e6),
            format!("{:.2}", row.bytes_per_row),
            row.min.clone().unwrap_or_default(),
            row.max.clone().unwrap_or_default(),
        ]);
    }
    output::print_rows(globals.format(), &table, &rows)
}

fn columns(segment: &Segment, scale_factor: f64) -> Vec<ColumnRow> {
    let describe = |(i, column): (usize, &schema::Column)| {
        let chunks = || segment.groups().iter().map(|group| &group.chunks[i]);
        let mut encodings = BTreeMap::new();
        for chunk in chunks() {
            let name = match chunk.encoding {
                Encoding::Numbers => "packed",
                Encoding::Dictionary => "dictionary",
                Encoding::Text => "fsst",
            };
            *encodings.entry(name).or_insert(0) += 1;
        }
        let bytes: u64 = chunks().map(|chunk| chunk.len as u64).sum();
        let min = chunks().map(|chunk| chunk.min).min();
        let max = chunks().map(|chunk| chunk.max).max();
        ColumnRow {
            scale_factor,
            table: segment.schema().table.clone(),
            column: column.name.clone(),
            ty: type_name(column.ty),
            encodings,
            bytes,
            bytes_per_row: bytes as f64 / segment.rows().max(1) as f64,
            min: min.and_then(|value| shown(column.ty, value)),
            max: max.and_then(|value| shown(column.ty, value)),
        }
    };
    segment
        .schema()
        .columns
        .iter()
        .enumerate()
        .map(describe)
        .collect()
}

/// As in SQL.
fn type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Integer => "INTEGER".to_owned(),
        ColumnType::BigInt => "BIGINT".to_owned(),
        ColumnType::Decimal { precision, scale } => format!("DECIMAL({precision},{scale})"),
        ColumnType::Date => "DATE".to_owned(),
        ColumnType::Text => "VARCHAR".to_owned(),
    }
}

/// A stored value as SQL shows it; nothing for text, whose zone map has no values.
fn shown(ty: ColumnType, value: i64) -> Option<String> {
    match ty {
        ColumnType::Integer | ColumnType::BigInt => Some(value.to_string()),
        ColumnType::Decimal { scale: 0, .. } => Some(value.to_string()),
        ColumnType::Decimal { scale, .. } => {
            let one = 10u64.pow(scale as u32);
            let sign = if value < 0 { "-" } else { "" };
            let (whole, part) = (value.unsigned_abs() / one, value.unsigned_abs() % one);
            Some(format!(
                "{sign}{whole}.{part:0width$}",
                width = scale as usize
            ))
        }
        ColumnType::Date => Some(date::text(value as i32)),
        ColumnType::Text => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_sql_shows_them() {
        let money = ColumnType::Decimal {
            precision: 15,
            scale: 2,
        };
        assert_eq!(shown(money, -7).unwrap(), "-0.07");
        assert_eq!(shown(money, 90100).unwrap(), "901.00");
        assert_eq!(shown(ColumnType::Date, 10_561).unwrap(), "1998-12-01");
        assert_eq!(shown(ColumnType::Text, 0), None);
    }
}
