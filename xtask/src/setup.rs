//! `cargo xtask setup`: finds or fetches what is optional, and says what it did, a line each.
//!
//! Nothing here is needed to build or to pass the tests: what is missing leaves rows out, and the run says which. A second
//! run finds everything and takes no network.

use std::path::PathBuf;

use anyhow::{Result, bail};

mod duckdb;
mod shell;
mod system;

/// What `cargo xtask setup` takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Also install system packages and toolchain parts, where this user may.
    #[arg(long)]
    pub(crate) install: bool,
    /// Use nothing but what is on this machine.
    #[arg(long)]
    pub(crate) offline: bool,
    /// If no DuckDB can be had, compile it: about 25 minutes on 2 cores.
    #[arg(long)]
    pub(crate) bundled: bool,
}

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What it is.
    pub(crate) what: &'static str,
    /// Whether it is there now.
    pub(crate) is_there: bool,
    /// Where it is, or what is done without it and how to get it.
    pub(crate) note: String,
}

impl Finding {
    fn there(what: &'static str, note: impl Into<String>) -> Self {
        Self {
            what,
            is_there: true,
            note: note.into(),
        }
    }

    fn missing(what: &'static str, note: impl Into<String>) -> Self {
        Self {
            what,
            is_there: false,
            note: note.into(),
        }
    }

    fn print(&self) {
        let mark = if self.is_there { "found  " } else { "missing" };
        println!("{mark}  {:<24} {}", self.what, self.note);
    }
}

/// Looks for everything optional, fetches what may be fetched, and prints what it did.
///
/// # Errors
/// Only if something that was asked for by name fails (`--bundled`); what is merely missing is a line.
pub(crate) fn run(options: &Options) -> Result<()> {
    let duckdb = duckdb::find_or_fetch(options);
    duckdb.print();
    if options.bundled && !duckdb.is_there {
        build_bundled()?;
    }
    for finding in system::find_or_install(options) {
        finding.print();
    }
    Ok(())
}

/// Finds or fetches what programs for 64-bit Arm want beside them, and prints what it did.
pub(crate) fn run_for_aarch64() {
    duckdb::find_or_fetch_for_aarch64().print();
}

/// Builds `dpb` with DuckDB compiled in.
fn build_bundled() -> Result<()> {
    println!("compiling DuckDB into dpb: about 25 minutes on 2 cores");
    let mut cargo = shell::command("cargo");
    cargo.args([
        "build",
        "--release",
        "--package",
        "dpb-cli",
        "--features",
        "duckdb-bundled",
    ]);
    if !cargo.status()?.success() {
        bail!("`cargo build --features duckdb-bundled` failed; its output is above");
    }
    Ok(())
}

/// `$XDG_CACHE_HOME/dpb`, or `~/.cache/dpb`: the same place that `dpb` looks in.
fn cache_dir() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("dpb"))
}
