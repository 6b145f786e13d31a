//! `cargo xtask bench`: the criterion benches.

use anyhow::Result;

use crate::shell;

/// Names and filters.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this one, for example `seam`; all if not given
    #[arg(long)]
    bench: Option<String>,
    /// Passed on to criterion: a filter, --save-baseline, --baseline
    #[arg(last = true)]
    criterion: Vec<String>,
}

/// Runs them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.args(["bench", "--package", "dpb-benches"]);
    match &args.bench {
        Some(name) => cargo.args(["--bench", name]),
        None => cargo.arg("--benches"),
    };
    cargo.arg("--").args(&args.criterion);
    shell::run(&mut cargo)
}
