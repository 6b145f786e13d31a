//! Every path as other CPUs choose them: the tests of what has paths once more, with the instructions above a level hidden, and on cores
//! of 64-bit Arm under qemu.
//!
//! What a CPU has is read once a process, so each level is a run of its own. Only crates with kernels are run again; the rest does not know
//! what a level is.

use std::process::Command;

use anyhow::{Result, ensure};

use super::Part;
use super::built::{self, Ran, Shown};
use super::lanes::side_by_side;
use crate::aarch64::{Emulation, Toolchain};
use crate::bench::programs::{Program, build_tests};
use crate::shell;

/// A crate whose code is chosen by the CPU, the folder of the tests that reach it, and words of which one is in the names of those that do, if not all.
type Chosen = (&'static str, &'static str, &'static [&'static str]);
const CRATES: [Chosen; 2] = [
    ("crates/operators", "", &[]),
    (
        "crates/dbmods",
        "src",
        &["scan::", "index::tree::search::", "index::tests::model::"],
    ),
];
/// Programs of tests there that no level changes.
const UNCHANGED: [(&str, &str); 3] = [
    (
        "chains",
        "what ties stages together; the stages are the operators of the other programs",
    ),
    ("outside", "the build of a crate that uses this one"),
    (
        "public_keys",
        "no path of theirs is of an instruction set, but for AWS-LC's, which asks the CPU itself",
    ),
];
/// The cores of 64-bit Arm, from BlueField-2's (Armv8.0 with AES, SHA-1, SHA-256) over Armv8.2 to all that qemu has (SHA-512, SVE2).
pub(super) const CORES: [&str; 3] = ["cortex-a72", "neoverse-n1", "max"];
/// Arguments of a `cargo test` that are those of all tests, so that nothing is built twice.
const ALL: [&str; 3] = ["test", "--workspace", "--tests"];

/// True if a level may change what these tests reach.
pub(super) fn changes(program: &Program) -> bool {
    let is_unchanged = UNCHANGED.iter().any(|(name, _)| program.name == *name);
    !is_unchanged && of(program).is_some()
}

/// The line of [`CRATES`] that this program belongs to.
fn of(program: &Program) -> Option<&'static Chosen> {
    CRATES.iter().find(|(folder, inside, _)| {
        (program.source).starts_with(shell::root().join(folder).join(inside))
    })
}

/// Runs a program of tests with the instructions above `level` hidden.
pub(super) fn run_at(level: &str, program: &Program) -> Ran {
    let how = |mut command: Command| {
        command.env("DPB_CPU_LEVEL", level);
        command
    };
    run(&format!("at {level}"), program, how)
}

fn run(what: &str, program: &Program, how: impl Fn(Command) -> Command) -> Ran {
    let words = of(program).map_or(&[][..], |(_, _, words)| *words);
    let chosen = |mut command: Command| {
        command.args(words);
        how(command)
    };
    built::run(what, program, Shown::Failures, chosen)
}

/// The levels below this CPU's, the highest last, by the names that `DPB_CPU_LEVEL` takes.
#[cfg(target_arch = "x86_64")]
pub(super) fn lower() -> &'static [&'static str] {
    const NAMES: &[&str] = &["x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v3-vaes"];
    let has = [
        is_x86_feature_detected!("sse4.2"),
        is_x86_feature_detected!("avx2"),
        is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq"),
        is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl"),
    ];
    &NAMES[..has.iter().rposition(|has| *has).map_or(0, |at| at + 1)]
}

#[cfg(target_arch = "aarch64")]
pub(super) fn lower() -> &'static [&'static str] {
    use std::arch::is_aarch64_feature_detected;
    const NAMES: &[&str] = &["armv8-a", "armv8-a-crypto", "armv8.2-a"];
    let has = [
        is_aarch64_feature_detected!("aes"),
        is_aarch64_feature_detected!("dotprod"),
        is_aarch64_feature_detected!("sve2"),
    ];
    &NAMES[..has.iter().rposition(|has| *has).map_or(0, |at| at + 1)]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn lower() -> &'static [&'static str] {
    &[]
}

/// Runs them on each of Arm's cores.
pub(super) fn on_arm(cores: &[&str]) -> Vec<Part> {
    match try_on_arm(cores) {
        Ok(parts) => parts,
        Err(why) => vec![Part::timed("paths on other cores", || Err(why))],
    }
}

fn try_on_arm(cores: &[&str]) -> Result<Vec<Part>> {
    let toolchain = Toolchain::find()?;
    let emulations: Result<Vec<_>> = cores.iter().map(|core| Emulation::find(core)).collect();
    let emulations = emulations?;
    let mut programs = build_tests(&mut toolchain.cargo(shell::cargo(), &ALL))?;
    programs.retain(changes);
    ensure!(!programs.is_empty(), "no tests of kernels were built");
    let programs = built::by_length(programs.iter().collect());
    let of = |emulation| programs.iter().map(move |program| (emulation, *program));
    let mut ran = side_by_side(emulations.iter().flat_map(of).collect(), run_on).into_iter();
    let part = |emulation: &Emulation| {
        let ran = ran.by_ref().take(programs.len()).collect();
        built::part(&format!("paths on {}", emulation.cpu), ran).0
    };
    Ok(emulations.iter().map(part).collect())
}

/// Runs a program of tests for Arm.
fn run_on((emulation, program): (&Emulation, &Program)) -> Ran {
    let how = |program: Command| {
        let mut command = Command::new(emulation.qemu);
        command.arg(program.get_program()).args(program.get_args());
        if let Some(folder) = program.get_current_dir() {
            command.current_dir(folder);
        }
        let set = program
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        command.envs(set);
        emulation.set(&mut command);
        command
    };
    run(&format!("on {}", emulation.cpu), program, how)
}
