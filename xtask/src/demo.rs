//! `cargo xtask demo`: from a fresh clone to the first table and report.

use std::process::Command;

use anyhow::Result;

use crate::{setup, shell};

/// Takes what `dpb pushdown` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Scale factor of the TPC-H data
    #[arg(long, default_value = "1")]
    sf: String,
    #[command(flatten)]
    bundled: setup::Bundled,
    /// Passed on to `dpb pushdown`
    #[arg(last = true)]
    pushdown: Vec<String>,
}

/// Sets up, builds, runs, reports.
pub(crate) fn run(args: &Args) -> Result<()> {
    setup::before_run(args.bundled);
    shell::run(shell::cargo().args(["build", "--release", "--package", "dpb-cli"]))?;
    let folder = shell::target_dir().join("demo");
    std::fs::create_dir_all(&folder)?;
    let (records, report) = (folder.join("records.jsonl"), folder.join("report.html"));
    let dpb = shell::target_dir().join("release/dpb");
    shell::run(
        Command::new(&dpb)
            .args(["pushdown", "--sf", &args.sf, "--format", "table"])
            .arg("--out")
            .arg(&records)
            .arg("--report")
            .arg(&report)
            .args(&args.pushdown),
    )?;
    println!("report:  {}", report.display());
    println!("records: {}", records.display());
    println!(
        "again, from any folder, after `cargo xtask install`: dpb pushdown --sf {}",
        args.sf
    );
    Ok(())
}
