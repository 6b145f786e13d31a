//! `dpb sim run`: a system runs, with one seed after the other.

use std::path::PathBuf;

use dpb_core::Evidence;
use dpb_core::measure::{Check, Durability, Outcome, Record};

use super::samples::Samples;
use super::source::{BACKEND, assemble, read};
use super::tables::print_tables;
use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Format};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Operators compute for real: a frame that passes a digest's stage carries that digest, and the receiver checks it. Only time is modelled, so every figure is \
                  `simulated`. The same file and seed give the same results, however many threads.\n\
                  Times are the model's: what a file does not name has a usual value, which is no measurement.\n\
                  Examples:\n  dpb sim run crates/sim/systems/card.toml\n  dpb sim run system.toml --seeds 10 --threads 2 --out records.jsonl"
)]
pub(super) struct Args {
    /// The system: a TOML file; crates/sim/systems has examples
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The seed of the first run: faults of links depend on it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The number of runs, each with the next seed
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Threads of the simulation; they change its duration alone
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// The backend that computes digests
    #[arg(long, value_name = "NAME", default_value = BACKEND)]
    backend: String,
    /// Append the record to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the system.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let description = read(&args.file)?;
    if description.host.iter().all(|host| host.connect.is_empty()) {
        let name = args.file.display();
        return Err(Failure::usage(format!(
            "{name}: no host connects to another, so nothing would happen"
        )));
    }
    let model = format!("the system {}", args.file.display());
    let mut record = Record::new("sim", Evidence::Simulated { model }, args.seed)
        .with("system", args.file.display().to_string())
        .with("seeds", args.seeds)
        .with("threads", args.threads)
        .with("backend", args.backend.as_str());
    let mut samples = Samples::default();
    let mut first = None;
    let mut unfinished = None;
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let mut system = assemble(
            &description,
            &args.file,
            &args.backend,
            seed,
            args.threads,
            globals,
        )?;
        let finished = system.run();
        let finished = finished.map_err(|why| Failure::check(format!("seed {seed}: {why}")))?;
        samples.add(&system, &mut record)?;
        if !finished {
            unfinished.get_or_insert_with(|| {
                format!(
                    "seed {seed}: after {} virtual seconds (limit_s) not all applications have finished",
                    description.limit_s
                )
            });
        }
        first.get_or_insert(system);
    }
    record.check = Some(Check {
        against: "each payload byte, by the function of seed and offset that its sender had"
            .to_owned(),
        compared: record.counts.get("payload_frames").copied().unwrap_or(0),
        digest: None,
    });
    for (name, values) in samples.0 {
        record.sample(name, values);
    }
    // What was counted until then is kept: it says why.
    if let Some(reason) = &unfinished {
        let reason = reason.clone();
        record = record.without_numbers(Outcome::Failed { reason });
    }
    if let Some(out) = &args.out {
        let mut store = output::open_records(out, Durability::Machine)?;
        store
            .append(&record)
            .map_err(|why| output::unwritable(&why))?;
    }
    match (globals.format(), first) {
        (Format::Json, _) | (_, None) => output::print_json(&record)?,
        (format, Some(system)) => print_tables(format, &system, &record)?,
    }
    unfinished.map_or(Ok(()), |reason| Err(Failure::check(reason)))
}
