//! `cargo xtask setup`: finds, fetches or compiles what is optional, and says what it did, a line each.
//!
//! Nothing here is needed to build or to pass the tests: what is missing leaves rows out, and the run says which. A second
//! run finds everything and takes no network. What could not be had is not looked for again within a day, but by `cargo
//! xtask setup` itself.

use std::path::PathBuf;

pub(crate) mod arm64;
mod bundled;
mod duckdb;
mod failures;
mod kept;
mod shell;
mod system;

/// What `cargo xtask setup` takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Also install system packages and toolchain parts, where this user may.
    #[arg(long)]
    pub(crate) install: bool,
    /// Use nothing but what is on this machine.
    #[arg(long)]
    pub(crate) offline: bool,
    #[command(flatten)]
    pub(crate) bundled: Bundled,
}

/// Whether what takes long may be done.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Bundled {
    /// If no DuckDB can be fetched, do without; otherwise it is compiled, about 25 minutes on 2 cores, once
    #[arg(long)]
    no_bundled: bool,
}

/// How far to go for what is not on this machine.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    /// Use no network.
    offline: bool,
    /// Compile what cannot be fetched.
    compile: bool,
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
        println!("{mark}  {:<26} {}", self.what, self.note);
    }
}

/// Looks for everything optional, fetches or compiles what may be, also what failed before, and prints what it did. What
/// is missing is a line.
pub(crate) fn run(options: &Options) {
    duckdb::forget_failures();
    let effort = Effort {
        offline: options.offline,
        compile: !options.bundled.no_bundled,
    };
    // First what DuckDB may be fetched and unpacked with.
    let may_install = options.install && !options.offline;
    for finding in system::find_or_install(may_install) {
        finding.print();
    }
    if may_install {
        fetch_sources().print();
    }
    if cfg!(target_arch = "x86_64") {
        arm64::find_or_fetch(may_install).print();
    }
    duckdb::find_or_make(effort).print();
}

/// Fetches the sources of every crate, those of features that are off too: a test compares DuckDB's declarations with its header.
fn fetch_sources() -> Finding {
    let what = "sources of crates";
    match crate::shell::run(crate::shell::cargo().args(["fetch", "--locked", "--quiet"])) {
        Ok(()) => Finding::there(what, "fetched"),
        Err(error) => Finding::missing(what, format!("cargo fetch: {error}")),
    }
}

/// Finds, fetches or compiles DuckDB alone; what failed within a day is not tried again.
pub(crate) fn before_run(bundled: Bundled) {
    let effort = Effort {
        offline: false,
        compile: !bundled.no_bundled,
    };
    duckdb::find_or_make(effort).print();
}

/// As [`before_run`], and compiles nothing: the tests that compare with DuckDB then say that they were skipped.
pub(crate) fn before_test() {
    duckdb::find_or_make(Effort::default()).print();
}

/// Finds or fetches what programs for 64-bit Arm want beside them, and prints what it did.
pub(crate) fn run_for_aarch64() {
    duckdb::find_or_fetch_for_aarch64().print();
}

/// `$XDG_CACHE_HOME/dpb`, or `~/.cache/dpb`: the same place that `dpb` looks in.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("dpb"))
}
