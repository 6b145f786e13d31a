//! `cargo xtask miri`: core's buffers and lifts under Miri, which sees undefined behaviour and weak memory orders.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::shell;

/// Runs core's tests with shrunk sizes.
pub(crate) fn run() -> Result<()> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let mut cargo = shell::cargo_nightly();
    // Its own, in this checkout: from a target directory that checkouts share, Miri has run another checkout's tests.
    cargo.env("CARGO_TARGET_DIR", shell::root().join("target/miri"));
    shell::run(cargo.args([
        "miri",
        "test",
        "--package",
        "dpb-core",
        "--features",
        "conformance",
        "--lib",
    ]))
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
