//! `cargo xtask install`: `dpb` on the PATH, so that it runs from any folder.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::shell;

/// Where to.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder whose `bin` gets the program [default: cargo's own]
    #[arg(long)]
    root: Option<PathBuf>,
}

/// Builds and copies it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.args(["install", "--path", "crates/cli", "--locked", "--force"]);
    if let Some(root) = &args.root {
        cargo.arg("--root").arg(std::path::absolute(root)?);
        return shell::run(&mut cargo);
    }
    shell::run(&mut cargo)?;
    ensure!(
        shell::find("dpb").is_some(),
        "dpb is installed, but its folder is not on the PATH: add `export PATH=\"$HOME/.cargo/bin:$PATH\"` to your \
         shell's start file"
    );
    Ok(())
}
