//! `dpb clean`: removes what was prepared for tests, and nothing else.
//!
//! What dpb made is known by its own lists: the manifest of each set of TPC-H tables, DuckDB's copies beside it, and a note for each
//! plug-in that kept something. Folders go when nothing is left in them. Results (`--out`, `NAME-results`, `records/`) stay.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dpb_core::WallClock;
use dpb_dbmods::duckdb::tpch_baseline;
use dpb_dbmods::tpch;
use serde::Serialize;

use super::data;
use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Column, Table};
use crate::plugin::{Plugin, Step, prepared, state_folder};

/// Remove what was prepared for tests: data, and what plug-ins keep. Results stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  dpb clean --dry-run\n  dpb clean")]
pub struct Args {
    /// The folder that data is kept in [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// List what would go, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// One thing that goes.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    path: String,
    bytes: u64,
}

/// Lists what there is, and removes it.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let data_dir = args.data_dir.unwrap_or_else(tpch::default_data_dir);
    let mut rows = Vec::new();
    let sets = tpch::list(&data_dir).map_err(data::failure)?;
    let copies = tpch_baseline::list(&data_dir);
    let mut scale_factors: Vec<f64> = sets.iter().map(|set| set.scale_factor).collect();
    scale_factors.extend(copies.iter().map(|kept| kept.scale_factor));
    scale_factors.sort_by(f64::total_cmp);
    scale_factors.dedup();
    for &scale_factor in &scale_factors {
        let dir = tpch::set_dir(&data_dir, scale_factor);
        rows.push(Row {
            what: format!("TPC-H tables, scale factor {scale_factor}"),
            bytes: bytes_in(&dir),
            path: dir.display().to_string(),
        });
    }
    let plugins = prepared(&state_folder(&data_dir))?;
    for kept in &plugins {
        rows.push(Row {
            what: format!("plug-in {}", kept.name),
            bytes: bytes_in(&kept.state),
            path: kept.state.display().to_string(),
        });
    }
    if !args.dry_run {
        let clock = WallClock::default();
        for &scale_factor in &scale_factors {
            tpch::remove(&data_dir, scale_factor, tpch::TABLES.as_slice(), &clock)
                .map_err(data::failure)?;
            tpch_baseline::remove(&data_dir, scale_factor, &clock)
                .map_err(data::baseline_failure)?;
            remove_if_empty(&tpch::set_dir(&data_dir, scale_factor))?;
        }
        for kept in &plugins {
            let plugin = Plugin::open(&kept.folder)?;
            if plugin.has(Step::Clean) {
                plugin.step(Step::Clean, &kept.state, &[])?;
            }
            kept.remove()
                .map_err(|error| unremovable(&kept.state, &error))?;
        }
        for folder in [data_dir.join("tpch"), state_folder(&data_dir), data_dir] {
            remove_if_empty(&folder)?;
        }
    }
    let mut table = Table::new([
        Column::left("what"),
        Column::left("where"),
        Column::right("bytes"),
    ]);
    for row in &rows {
        table.row([
            row.what.clone(),
            row.path.clone(),
            output::short(row.bytes as f64),
        ]);
    }
    output::print_rows(globals.format(), &table, &rows)?;
    let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
    let verb = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    output::note(&format!("{verb} {}B", output::short(bytes as f64)));
    Ok(())
}

/// The length of all files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_in(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Removes a folder if nothing is left in it.
fn remove_if_empty(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir(folder) {
        Ok(()) => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(unremovable(folder, &error)),
    }
}

fn unremovable(path: &Path, error: &io::Error) -> Failure {
    Failure::check(format!("cannot remove {}: {error}", path.display()))
}
