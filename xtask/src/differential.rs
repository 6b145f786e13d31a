//! `cargo xtask differential`: random statements over all tables of TPC-H, the scan against DuckDB, row for row.

use anyhow::Result;

use crate::{setup, shell};

/// How many, of what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Random statements
    #[arg(long, default_value = "10000")]
    count: u64,
    /// Of the generator
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Scale factor of the TPC-H data
    #[arg(long, default_value = "0.01")]
    sf: String,
}

/// Builds the comparison and runs it.
pub(crate) fn run(args: &Args) -> Result<()> {
    setup::before_run(setup::Bundled::default());
    let mut cargo = shell::cargo();
    cargo.args(["run", "--release", "--package", "dpb-dbmods"]);
    cargo.args(["--example", "differential", "--", "--sf", &args.sf]);
    cargo.args(["--count", &args.count.to_string()]);
    cargo.args(["--seed", &args.seed.to_string()]);
    shell::run(&mut cargo)
}
