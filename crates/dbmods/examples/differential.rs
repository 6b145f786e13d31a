//! Compares the scan with DuckDB on many random statements over all tables of TPC-H: `differential [--count 10000] [--seed 1] [--sf 0.01] [--threads 2]
//! [--data-dir DIR]`. Exit code 0: all agreed; 1: one differed, printed with its first differing row; 2: wrong usage; 3: no
//! DuckDB here.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use dpb_dbmods::compare::differential::Differential;
use dpb_dbmods::duckdb::Library;
use dpb_dbmods::tpch;

struct Options {
    count: u64,
    seed: u64,
    scale_factor: f64,
    threads: usize,
    data_dir: PathBuf,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let library = match Library::find() {
        Ok(library) => library,
        Err(missing) => {
            eprintln!("{missing}");
            return ExitCode::from(3);
        }
    };
    match run(library, &options) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        count: 10_000,
        seed: 1,
        scale_factor: 0.01,
        threads: 2,
        data_dir: tpch::default_data_dir(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        let bad = |_| format!("{name} {value}: not a number");
        match name.as_str() {
            "--count" => options.count = value.parse().map_err(bad)?,
            "--seed" => options.seed = value.parse().map_err(bad)?,
            "--sf" => {
                options.scale_factor = value
                    .parse()
                    .map_err(|_| format!("{name} {value}: not a number"))?
            }
            "--threads" => options.threads = value.parse().map_err(bad)?,
            "--data-dir" => options.data_dir = value.into(),
            _ => {
                return Err(format!(
                    "no option {name}: --count, --seed, --sf, --threads, --data-dir"
                ));
            }
        }
    }
    if options.threads == 0 {
        return Err("--threads 0: at least one".into());
    }
    Ok(options)
}

fn run(library: Library, options: &Options) -> Result<String, Box<dyn std::error::Error>> {
    let mut bench = Differential::open(
        library,
        &options.data_dir,
        options.scale_factor,
        &tpch::TABLES,
        options.threads,
    )?;
    let started = Instant::now();
    let mut errors = std::io::stderr();
    // A terminal's line is written over; a file gets a line now and then.
    let (step, start, end) = match errors.is_terminal() {
        true => (50, "\r", ""),
        false => (1000, "", "\n"),
    };
    let report = bench.run(options.count, options.seed, |done| {
        if done % step == 0 || done == options.count {
            let _ = write!(errors, "{start}{done} of {} agree{end}", options.count);
        }
    })?;
    if end.is_empty() {
        eprintln!();
    }
    let (none, all) = report.extremes;
    Ok(format!(
        "{} statements over {} tables at scale factor {} agree with DuckDB {} ({} ask for aggregates, {} have a limit that leaves \
         rows out), {} rows in all, in {:.0} s (seed {}; {none} returned no row, {all} all rows of their table)",
        report.statements,
        tpch::TABLES.len(),
        options.scale_factor,
        library.version(),
        report.aggregates,
        report.limited,
        report.rows,
        started.elapsed().as_secs_f64(),
        options.seed,
    ))
}
