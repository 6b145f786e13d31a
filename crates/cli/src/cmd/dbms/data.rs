//! The data of engines on disk: our segments, DuckDB's file with all tables, and its files of each table.

use std::ops::ControlFlow;

use dpb_core::WallClock;
use dpb_dbmods::dbms::database::{self, DatabaseError, DatabaseStep, TpchDatabase};
use dpb_dbmods::duckdb::{Library, tpch_baseline};
use dpb_dbmods::tpch;

use super::{Args, EngineName};
use crate::cmd::data::{self, Part};
use crate::exit::Failure;
use crate::output::{self, Progress};
use crate::{Globals, interrupt};

/// Makes what is missing for these engines. Gives DuckDB's file with all tables, if one of them needs it.
pub(super) fn make(
    args: &Args,
    engines: &[EngineName],
    library: Library,
    globals: &Globals,
) -> Result<Option<TpchDatabase>, Failure> {
    let (dir, sf) = (args.dir(), args.sf);
    let has = |engine| engines.contains(&engine);
    let segments = tpch::bytes_to_make(&dir, sf, &tpch::TABLES).map_err(data::failure)?;
    let whole = match has(EngineName::Duckdb) {
        true => database::bytes_to_make(library, &dir, sf),
        false => 0,
    };
    let copies: Vec<(&str, u64)> = tpch::TABLES
        .into_iter()
        .filter(|_| has(EngineName::DuckdbFetch))
        .map(|table| {
            (
                table,
                tpch_baseline::bytes_to_make(library, &dir, sf, table),
            )
        })
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let of_copies: u64 = copies.iter().map(|(_, bytes)| bytes).sum();
    // Of all, before any is made.
    let all = segments.saturating_add(whole).saturating_add(of_copies);
    tpch::check_space(&dir, sf, all).map_err(data::failure)?;
    // Each by a process of its own: the generator's memory is not counted as the run's.
    for table in tpch::TABLES {
        let missing = tpch::bytes_to_make(&dir, sf, &[table]).map_err(data::failure)?;
        if missing > 0 {
            data::make_apart(Part::Segment, Some(library), &dir, (sf, table), globals)?;
        }
    }
    for (table, _) in copies {
        data::make_apart(Part::Duckdb, Some(library), &dir, (sf, table), globals)?;
    }
    match has(EngineName::Duckdb) {
        true => whole_database(args, library, globals).map(Some),
        false => Ok(None),
    }
}

/// DuckDB's file with all tables, made if it is missing or damaged.
fn whole_database(
    args: &Args,
    library: Library,
    globals: &Globals,
) -> Result<TpchDatabase, Failure> {
    let set = tpch::find(&args.dir(), args.sf);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = Progress::new(0, globals.quiet);
    let mut told = |step: DatabaseStep<'_>| {
        match step {
            DatabaseStep::Waiting => bar.set(0, "another dpb makes DuckDB's file"),
            DatabaseStep::Damaged { what } => {
                output::note(&format!(
                    "DuckDB's file is damaged ({what}), and is made anew"
                ));
            }
            DatabaseStep::Loading { table, rows, .. } => {
                bar.set(rows, &format!("rows of {table} into DuckDB's file"));
            }
        }
        match interrupt::is_set() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let clock = WallClock::default();
    database::ensure(library, &args.dir(), &set, cpus, &clock, &mut told).map_err(failure)
}

/// The end of the process after a failure to have the file.
pub(in crate::cmd) fn failure(error: DatabaseError) -> Failure {
    let message = error.to_string();
    match error {
        DatabaseError::NoSpace { .. } => {
            Failure::unavailable(format!("{message}; --data-dir chooses another place"))
        }
        DatabaseError::Segments(error) => data::failure(error),
        DatabaseError::Interrupted => Failure::interrupted(message),
        _ => Failure::check(message),
    }
}
