//! `dpb clean`: removes what was prepared for tests, and nothing else.
//!
//! What dpb made is known by the names and marks that it gives: TPC-H tables, also half made ones of a process that was killed, DuckDB's
//! copies beside them, its files for `dpb dbms`, what it spilled if it was killed, a note for each plug-in that kept something, and the marked file of `dpb storage --keep` in the data folder.
//! Folders go when nothing is left in them. Results (`--out`, `NAME-results`, `records/`) and files that a person named (`--file`) stay.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dpb_core::WallClock;
use dpb_dbmods::dbms::database;
use dpb_dbmods::duckdb::{spill, tpch_baseline};
use dpb_dbmods::tpch;
use dpb_micro::storage::Target;
use serde::Serialize;

use super::{data, dbms, storage};
use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Column, Table};
use crate::plugin::{Kept, Plugin, Step, prepared, state_folder, unfinished_notes};

/// Remove what was prepared for tests: data, what plug-ins keep, the file of `dpb storage --keep`. Results stay, and files that --file named.
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

/// What a row is of.
enum Thing {
    /// Tables of a scale factor.
    Tables(f64),
    /// DuckDB's copies of a scale factor.
    Copies(f64),
    /// DuckDB's file with all tables of a scale factor.
    Database(f64),
    /// What a plug-in keeps.
    Plugin(Kept),
    /// A note of a plug-in that was not finished.
    Note(PathBuf),
    /// The file of `dpb storage --keep`.
    StorageFile(PathBuf),
    /// What a DuckDB spilled that was killed.
    Spill(PathBuf),
}

/// Lists what there is, and removes it.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let data_dir = args.data_dir.unwrap_or_else(tpch::default_data_dir);
    // Plug-ins are told their folder, and work in another one.
    let data_dir = std::path::absolute(data_dir).map_err(anyhow::Error::from)?;
    let (found, mut failures) = found(&data_dir)?;
    let mut rows = Vec::new();
    for (row, thing) in found {
        let removed = match args.dry_run {
            true => Ok(()),
            false => remove(&thing, &data_dir),
        };
        match removed {
            Ok(()) => rows.push(row),
            Err(failure) => failures.push(failure.message),
        }
    }
    if !args.dry_run {
        for folder in [data_dir.join("tpch"), state_folder(&data_dir), data_dir] {
            remove_if_empty(&folder);
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
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::check(format!("it stays: {}", failures.join("; ")))),
    }
}

/// What there is to remove, each with its row of the table.
type Found = Vec<(Row, Thing)>;

/// All that there is to remove, and what is wrong with what cannot be.
fn found(data_dir: &Path) -> Result<(Found, Vec<String>), Failure> {
    let mut found = Vec::new();
    let mut push = |what: String, path: &Path, bytes, thing| {
        let path = path.display().to_string();
        found.push((Row { what, path, bytes }, thing));
    };
    for (scale_factor, files) in tpch::files(data_dir).map_err(data::failure)? {
        push(
            format!("TPC-H tables, scale factor {scale_factor}"),
            &tpch::set_dir(data_dir, scale_factor),
            files.iter().map(|file| bytes_of(file)).sum(),
            Thing::Tables(scale_factor),
        );
    }
    let copies = tpch_baseline::paths(data_dir);
    for of_one in copies.chunk_by(|a, b| a.0 == b.0) {
        let scale_factor = of_one[0].0;
        push(
            format!("DuckDB's copies, scale factor {scale_factor}"),
            &of_one[0].1,
            of_one.iter().map(|(_, path)| bytes_of(path)).sum(),
            Thing::Copies(scale_factor),
        );
    }
    let databases = database::paths(data_dir);
    for of_one in databases.chunk_by(|a, b| a.0 == b.0) {
        let scale_factor = of_one[0].0;
        push(
            format!("DuckDB's file of dpb dbms, scale factor {scale_factor}"),
            &of_one[0].1,
            of_one.iter().map(|(_, path)| bytes_of(path)).sum(),
            Thing::Database(scale_factor),
        );
    }
    let plugins = state_folder(data_dir);
    let (kept, failures) = prepared(&plugins);
    for kept in kept {
        push(
            format!("plug-in {}", kept.name),
            &kept.state.clone(),
            bytes_of(&kept.state),
            Thing::Plugin(kept),
        );
    }
    for note in unfinished_notes(&plugins) {
        push(
            "unfinished note of a plug-in".to_owned(),
            &note.clone(),
            bytes_of(&note),
            Thing::Note(note),
        );
    }
    let file = storage::kept_file(data_dir);
    if let Some(bytes) = Target::kept_bytes(&file) {
        push(
            "file of dpb storage".to_owned(),
            &file.clone(),
            bytes,
            Thing::StorageFile(file),
        );
    }
    for folder in spill::abandoned(data_dir) {
        push(
            "spill of a DuckDB that was killed".to_owned(),
            &folder.clone(),
            bytes_of(&folder),
            Thing::Spill(folder),
        );
    }
    Ok((found, failures))
}

/// Removes one thing.
fn remove(thing: &Thing, data_dir: &Path) -> Result<(), Failure> {
    let clock = WallClock::default();
    match thing {
        Thing::Tables(scale_factor) => {
            tpch::remove(data_dir, *scale_factor, tpch::TABLES.as_slice(), &clock)
                .map_err(data::failure)?;
        }
        Thing::Copies(scale_factor) => {
            tpch_baseline::remove(data_dir, *scale_factor, &tpch::TABLES, &clock)
                .map_err(data::baseline_failure)?;
        }
        Thing::Database(scale_factor) => {
            database::remove(data_dir, *scale_factor, &clock).map_err(dbms::database_failure)?;
        }
        Thing::Plugin(kept) => remove_plugin(kept)?,
        Thing::Spill(folder) => spill::remove(folder),
        Thing::Note(note) => fs::remove_file(note).map_err(|error| unremovable(note, &error))?,
        Thing::StorageFile(file) => {
            let removed = match Target::kept_bytes(file) {
                Some(0) => Target::remove_empty(file),
                _ => Target::remove_kept(file).map(drop),
            };
            removed.map_err(|error| Failure::check(error.to_string()))?;
        }
    }
    Ok(())
}

/// Lets a plug-in remove what it made, then removes its folder. A plug-in that is gone cannot do its part, which is said.
fn remove_plugin(kept: &Kept) -> Result<(), Failure> {
    if kept.folder.exists() {
        let plugin = Plugin::open(&kept.folder)?;
        if plugin.has(Step::Clean) {
            plugin.step(Step::Clean, &kept.state, &[])?;
        }
    } else {
        output::note(&format!(
            "dpb: plug-in {}: {} is gone, and with it the plug-in's own `clean`; its folder {} is removed all the same",
            kept.name,
            kept.folder.display(),
            kept.state.display()
        ));
    }
    kept.remove()
        .map_err(|error| unremovable(&kept.state, &error))
}

/// The length of a file, or of all files in a folder; 0 if it is not there. Links are not followed.
fn bytes_of(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| bytes_of(&entry.path())).sum()
        }
        Ok(about) => about.len(),
        Err(_) => 0,
    }
}

/// Removes a folder if nothing is left in it. One that cannot be removed, such as a mount point, is no loss: it is empty or holds what is
/// not dpb's.
fn remove_if_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

fn unremovable(path: &Path, error: &io::Error) -> Failure {
    Failure::check(format!("cannot remove {}: {error}", path.display()))
}
