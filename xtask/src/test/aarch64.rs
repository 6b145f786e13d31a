//! `cargo xtask test --target aarch64`: the same tests, built for 64-bit Arm and run under qemu-user.
//!
//! Such runs say right or wrong, never fast or slow. They leave out what does not depend on the target: format, lints,
//! documentation and its examples, benches, Miri.
//!
//! Where no emulated program can be started, what starts programs is left out, and the run says so. Under qemu `DPB_QEMU` is set,
//! by which tests may shrink heavy sizes; to `alone` if no emulated program can be started.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::{Part, Tally, levels, skipped, sum_up};
use crate::aarch64::{self, Emulation, Starting, Toolchain};
use crate::{setup, shell};

/// Runs the tests; `cargo` says which, all if it is empty.
pub(super) fn run(cpu: Option<&str>, cargo: &[String]) -> Result<()> {
    let start = Instant::now();
    let (all, others) = levels::CORES.split_last().expect("there are cores");
    let toolchain = Toolchain::find()?;
    let emulation = Emulation::find(cpu.unwrap_or(all))?;
    setup::run_for_aarch64();
    let mut parts = Vec::new();
    let mut tally = Tally::default();
    let mut part = |name: &str, arguments: &[&str]| {
        let mut command = command(&toolchain, &emulation, arguments);
        parts.push(tally.run(name, &mut command));
    };
    let chosen: Vec<&str> = cargo.iter().map(String::as_str).collect();
    // All but what documentation says.
    let kinds = ["--tests"];
    if chosen
        .iter()
        .any(|word| word.starts_with("--test") || *word == "--lib")
    {
        part("what was chosen", &chosen);
    } else if !chosen.is_empty() {
        part("what was chosen", &[&kinds, &chosen[..]].concat());
    } else if let Starting::Never(why) = &emulation.starting {
        // Always with the workspace's features, so that nothing is built twice.
        let inside = ["--workspace", "--lib", "--bins"];
        part("everything from inside", &inside);
        let outside = ["--workspace", "--exclude", "dpb-cli", "--test", "*"];
        part("the libraries from outside", &outside);
        let why = format!("its tests start it, and here no Arm program can be started: {why}");
        parts.push(Part::skipped("the program from outside", why));
    } else {
        part("every test", &[&["--workspace"], &kinds[..]].concat());
    }
    if cpu.is_none() && cargo.is_empty() {
        parts.extend(levels::on_arm(others));
    }
    let independent = "documentation, lints, benches and Miri";
    parts.push(Part::skipped(independent, "cargo xtask test"));
    println!(
        "\naarch64 under {} -cpu {}: right or wrong only, its times mean nothing",
        emulation.qemu, emulation.cpu
    );
    sum_up(&parts, &tally, start)
}

/// `cargo test` for Arm with these arguments.
fn command(toolchain: &Toolchain, emulation: &Emulation, arguments: &[&str]) -> Command {
    let cargo = emulation.around(&shell::cargo());
    let mut command = toolchain.cargo(cargo, &[&["test", "--no-fail-fast"], arguments].concat());
    skipped::ask(&mut command, arguments);
    // Tests compile a library for themselves.
    command.env("DPB_STAND_IN_CC", aarch64::LINKER);
    command
}
