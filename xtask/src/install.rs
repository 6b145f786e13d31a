//! `cargo xtask install`: `dpb` on the PATH, so that it runs from any folder; or on another machine.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

use crate::aarch64::{TRIPLE, Toolchain};
use crate::bench::remote::Ssh;
use crate::shell;

/// Where to.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder whose `bin` gets the program [default: cargo's own; for another machine target/aarch64/install]
    #[arg(long, conflicts_with = "ssh")]
    root: Option<PathBuf>,
    /// Build for 64-bit Arm
    #[arg(long, value_parser = ["aarch64"])]
    target: Option<String>,
    /// With it `dpb` is put into ~/.local/bin there
    #[command(flatten)]
    ssh: Ssh,
}

/// Builds and copies it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let is_for_arm = args.target.is_some() && cfg!(not(target_arch = "aarch64"));
    if let Some(machine) = args.ssh.machine()? {
        let (program, architecture) = match is_for_arm {
            true => (built_for_arm()?, "aarch64"),
            false => (built_here()?, std::env::consts::ARCH),
        };
        if machine.architecture != architecture {
            bail!(
                "this dpb is for {architecture}, and there it is {}: --target says for which to build",
                machine.architecture
            );
        }
        let folder = machine.install(&program)?;
        println!(
            "dpb is in {folder} there; if that is not on its PATH, add it to the shell's start file"
        );
        return Ok(());
    }
    if is_for_arm {
        let root = args.root.clone();
        let root = root.unwrap_or_else(|| Toolchain::target_dir().join("install"));
        let bin = std::path::absolute(root)?.join("bin");
        std::fs::create_dir_all(&bin)?;
        std::fs::copy(built_for_arm()?, bin.join("dpb"))?;
        println!("dpb for 64-bit Arm: {}", bin.join("dpb").display());
        return Ok(());
    }
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

const BUILD: [&str; 5] = ["build", "--release", "--locked", "-p", "dpb-cli"];

fn built_for_arm() -> Result<PathBuf> {
    let toolchain = Toolchain::find()?;
    shell::run(&mut toolchain.cargo(shell::cargo(), &BUILD))?;
    Ok(Toolchain::target_dir().join(TRIPLE).join("release/dpb"))
}

fn built_here() -> Result<PathBuf> {
    shell::run(shell::cargo().args(BUILD))?;
    Ok(shell::target_dir().join("release/dpb"))
}
