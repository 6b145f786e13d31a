//! Development commands of dpb, as Rust: `cargo xtask help`.
#![forbid(unsafe_code)]

mod aarch64;
mod asan;
mod bench;
mod demo;
mod differential;
mod fuzz;
mod install;
mod miri;
mod setup;
mod shell;
mod test;
mod tidy;
mod trials;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development commands of dpb.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find, fetch or compile what is optional, and say what was done
    Setup(setup::Options),
    /// Set up, build, run the pushdown at scale factor 1 and write its report
    Demo(demo::Args),
    /// Every test there is, and what was skipped and why
    Test(test::Args),
    /// What a change must pass; the same as `test`
    Ci,
    /// Rules of the tree that the compiler does not know
    Tidy,
    /// Put `dpb` on the PATH
    Install(install::Args),
    /// Run the benches: criterion's, or operators beside their peers; here, under qemu or over ssh
    Bench(bench::Args),
    /// Run devices' tests under AddressSanitizer
    Asan,
    /// Run core's tests under Miri, or those of the index's tree
    Miri(miri::Args),
    /// Compare the scan with DuckDB on random queries, row for row
    Differential(differential::Args),
    /// How often `dpb ab` is right, on a busy machine
    Trials(trials::Args),
    /// The program that the trials compare
    #[command(hide = true)]
    Work(trials::Work),
    /// Tests in a guest of their own, emulated by QEMU
    Vm(vm::Args),
    /// Run the fuzz targets
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Setup(args) => {
            setup::run(&args);
            Ok(())
        }
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Ci => test::run(&test::Args::default()),
        Command::Tidy => tidy::run(),
        Command::Install(args) => install::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Asan => asan::run(),
        Command::Miri(args) => miri::run(&args),
        Command::Differential(args) => differential::run(&args),
        Command::Trials(args) => trials::run(&args),
        Command::Work(args) => {
            trials::work(&args);
            Ok(())
        }
        Command::Vm(args) => vm::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
