//! Data for `dpb pushdown`, each part made by a process of its own: memory that the making leaves behind is then not
//! counted as the run's, and DuckDB, which an interrupt may leave waiting for itself for ever, can be killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use dpb_dbmods::duckdb::Library;
use dpb_dbmods::duckdb::tpch_baseline;
use rustix::process::{Pid, Signal};

use super::{baseline_failure, make};
use crate::exit::Failure;
use crate::output::Progress;
use crate::{Globals, interrupt};

/// How often the process is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What a process makes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The segment.
    Segment,
    /// The copies for DuckDB.
    Duckdb,
}

impl Part {
    /// What asks the process to end. The segment's maker tidies up; DuckDB's is killed and tidied up after.
    fn end(self) -> Signal {
        match self {
            Self::Segment => Signal::TERM,
            Self::Duckdb => Signal::KILL,
        }
    }

    /// Has this process end with `parent`, the one that started it.
    ///
    /// # Errors
    /// If the parent has ended already.
    pub fn end_with(self, parent: Option<i32>) -> Result<(), Failure> {
        // A kernel that cannot do so lets this process end by itself, when the part is made.
        let _ = rustix::process::set_parent_process_death_signal(Some(self.end()));
        // The signal does not come for a parent that ended before it was asked for.
        if Pid::as_raw(rustix::process::getppid()) == parent.unwrap_or_default() {
            return Ok(());
        }
        Err(Failure::interrupted(
            "the process that asked for this part has ended",
        ))
    }

    /// Makes the part in this process.
    pub fn make(
        self,
        data_dir: &Path,
        sf: f64,
        table: &str,
        threads: usize,
        globals: &Globals,
    ) -> Result<(), Failure> {
        match self {
            Self::Segment => make(data_dir, sf, &[table], threads, globals).map(drop),
            Self::Duckdb => {
                let library =
                    Library::find().map_err(|missing| Failure::unavailable(missing.to_string()))?;
                let bar = Progress::new(0, globals.quiet);
                let mut report = |progress| match progress {
                    tpch_baseline::BaselineStep::Waiting => {
                        bar.set(0, "another dpb makes DuckDB's files")
                    }
                    tpch_baseline::BaselineStep::Loading { rows, .. } => {
                        bar.set(rows, "rows into DuckDB's file")
                    }
                    tpch_baseline::BaselineStep::WritingParquet => {
                        bar.set(0, "writing the Parquet file")
                    }
                };
                tpch_baseline::ensure(
                    library,
                    data_dir,
                    sf,
                    table,
                    threads,
                    &dpb_core::WallClock::default(),
                    &mut report,
                )
                .map(drop)
                .map_err(baseline_failure)
            }
        }
    }
}

/// Has a process make the part of `table`, and ends it if this one is interrupted. `library` is the DuckDB that makes copies.
///
/// # Errors
/// As the process ended, which has said why; an interrupt, after which nothing half made is left.
pub fn make_apart(
    part: Part,
    library: Option<Library>,
    data_dir: &Path,
    (sf, table): (f64, &str),
    globals: &Globals,
) -> Result<(), Failure> {
    let status = run(part, data_dir, (sf, table), globals)
        .map_err(|why| Failure::check(format!("cannot start the making of data: {why}")))?;
    if interrupt::has_ended(status) {
        if let Some(library) = library {
            tpch_baseline::remove_unfinished(library, data_dir, sf, table)
                .map_err(baseline_failure)?;
        }
        return Err(Failure::interrupted(
            "interrupted while data were made; nothing half made is left",
        ));
    }
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::said(code)),
        None => Err(Failure::check(format!(
            "the process that makes data broke: {status}"
        ))),
    }
}

fn run(
    part: Part,
    data_dir: &Path,
    (sf, table): (f64, &str),
    globals: &Globals,
) -> io::Result<ExitStatus> {
    let name = match part {
        Part::Segment => "segment",
        Part::Duckdb => "duckdb",
    };
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([
            "data",
            "--part",
            name,
            "--sf",
            &sf.to_string(),
            "--tables",
            table,
            "--parent",
            &std::process::id().to_string(),
            "--data-dir",
        ])
        .arg(data_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Ctrl-C in a terminal is for this process. A second signal would end the other before it has tidied up.
        .process_group(0);
    if globals.quiet {
        command.arg("--quiet");
    }
    let mut child = command.spawn()?;
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupt::is_set() && !is_told {
            rustix::process::kill_process(Pid::from_child(&child), part.end())?;
            is_told = true;
        }
        std::thread::sleep(LOOK);
    }
}
