//! `cargo xtask miri`: core's buffers, lifts and versions under Miri, which sees undefined behaviour and weak memory orders; with `--tree` the index's tree.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// Whose tests.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index's tree instead of core; what its crate depends on is compiled first, so it takes long
    #[arg(long)]
    tree: bool,
}

/// The packages, and the tests in them.
const CORE: [&str; 4] = [
    "--package=dpb-core",
    "--features=conformance",
    "--lib",
    "--test=versions",
];
const TREE: [&str; 5] = [
    "--package=dpb-dbmods",
    "--lib",
    "--",
    "index::tree",
    "index::tests",
];

/// Runs the tests with shrunk sizes.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    match args.tree {
        true => shell::run(&mut tests(&TREE)),
        false => shell::run(&mut tests(&CORE)),
    }
}

/// The same beside other work: it keeps one core busy for minutes.
pub(crate) struct Aside {
    child: Child,
    said: PathBuf,
}

impl Aside {
    /// Starts it; what it says is kept in a file.
    pub(crate) fn start() -> Result<Self> {
        let folder = folder();
        let said = folder.join("said.txt");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let file =
            File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
        let mut command = tests(&CORE);
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = shell::start(&mut command)?;
        Ok(Self { child, said })
    }

    /// Waits for its end, and shows what it said.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        io::copy(&mut File::open(&self.said)?, &mut io::stdout())?;
        ensure!(status.success(), "Miri: {status}");
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // In vain if it has ended.
        drop(self.child.kill());
    }
}

/// Its own, in this checkout: from a target directory that checkouts share, Miri has run another checkout's tests.
fn folder() -> PathBuf {
    shell::root().join("target/miri")
}

fn tests(of: &[&str]) -> Command {
    let mut cargo = shell::cargo_nightly();
    cargo.env("CARGO_TARGET_DIR", folder());
    cargo.args(["miri", "test"]).args(of);
    cargo
}

/// Why Miri cannot run here, and what to do.
pub(crate) fn missing() -> Option<String> {
    let works = |command: &mut Command| {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if works(shell::cargo_nightly().args(["miri", "--version"])) {
        return None;
    }
    Some(
        "no Miri: rustup toolchain install nightly --profile minimal --component miri,rust-src"
            .into(),
    )
}
