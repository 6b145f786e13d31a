//! Every path as other CPUs choose them: the tests of what has paths once more, with the instructions above a level hidden, and on cores
//! of 64-bit Arm under qemu.
//!
//! What a CPU has is read once a process, so each level is a run of its own. Only crates with kernels are run again; the rest does not know
//! what a level is.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, anyhow, ensure};

use super::{Part, Tally};
use crate::aarch64::{Emulation, Toolchain};
use crate::bench::programs::{Program, build};
use crate::shell;

/// The crates whose code is chosen by the CPU, and the folder of the tests that reach it.
const CRATES: [(&str, &str); 2] = [("crates/operators", ""), ("crates/dbmods", "src")];
/// The cores of 64-bit Arm, from BlueField-2's (Armv8.0 with AES, SHA-1, SHA-256) over Armv8.2 to all that qemu has (SHA-512, SVE2).
pub(super) const CORES: [&str; 3] = ["cortex-a72", "neoverse-n1", "max"];
/// Arguments of a `cargo test` that are those of all tests, so that nothing is built twice.
const ALL: [&str; 3] = ["test", "--workspace", "--tests"];

/// Runs them at each level below this CPU's own.
pub(super) fn below_here() -> Vec<Part> {
    let mut cargo = shell::cargo();
    let programs = match tests(cargo.args(ALL)) {
        Ok(programs) => programs,
        Err(why) => return vec![Part::of("paths at lower levels", Err(why))],
    };
    let run_at = |level: &str| {
        let how = |mut command: Command| {
            command.env("DPB_CPU_LEVEL", level);
            command
        };
        run(&format!("paths at {level}"), &programs, how)
    };
    side_by_side(lower(), run_at)
}

/// What `run` makes of each, two at a time: many of these tests keep one core busy.
fn side_by_side<T: Copy + Sync>(all: &[T], run: impl Fn(T) -> Part + Sync) -> Vec<Part> {
    let run = &run;
    let pairs = all.chunks(2).map(|pair| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (pair.iter().map(|one| scope.spawn(move || run(*one)))).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            let parts = ended.map(|end| end.unwrap_or_else(|why| std::panic::resume_unwind(why)));
            parts.collect::<Vec<_>>()
        })
    });
    pairs.flatten().collect()
}

/// The levels below this CPU's, the highest last, by the names that `DPB_CPU_LEVEL` takes.
#[cfg(target_arch = "x86_64")]
fn lower() -> &'static [&'static str] {
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
fn lower() -> &'static [&'static str] {
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
fn lower() -> &'static [&'static str] {
    &[]
}

/// Runs them on each of Arm's cores.
pub(super) fn on_arm(cores: &[&str]) -> Vec<Part> {
    match try_on_arm(cores) {
        Ok(parts) => parts,
        Err(why) => vec![Part::of("paths on other cores", Err(why))],
    }
}

fn try_on_arm(cores: &[&str]) -> Result<Vec<Part>> {
    let toolchain = Toolchain::find()?;
    let emulations: Result<Vec<_>> = cores.iter().map(|core| Emulation::find(core)).collect();
    let emulations = emulations?;
    let programs = tests(&mut toolchain.cargo(shell::cargo(), &ALL))?;
    let part = |emulation: &Emulation| {
        let how = |program: Command| {
            let mut command = Command::new(emulation.qemu);
            command.arg(program.get_program()).args(program.get_args());
            if let Some(folder) = program.get_current_dir() {
                command.current_dir(folder);
            }
            emulation.set(&mut command);
            command
        };
        run(&format!("paths on {}", emulation.cpu), &programs, how)
    };
    Ok(side_by_side(&emulations.iter().collect::<Vec<_>>(), part))
}

/// A program of tests, and the folder of its crate, in which it runs.
type Test = (Program, PathBuf);

/// Builds all tests; those of crates with paths.
fn tests(cargo: &mut Command) -> Result<Vec<Test>> {
    let programs = build(cargo, &["lib", "test"])?;
    let tests: Vec<Test> = programs
        .into_iter()
        .filter_map(|program| {
            let mut folders = CRATES.iter().map(|(name, inside)| {
                let folder = shell::root().join(name);
                (folder.join(inside), folder)
            });
            let (_, folder) = folders.find(|(inside, _)| program.source.starts_with(inside))?;
            Some((program, folder))
        })
        .collect();
    ensure!(!tests.is_empty(), "no tests of kernels were built");
    Ok(tests)
}

/// Runs all `tests`, each as `how` says; shows what those said that failed.
fn run(name: &str, tests: &[Test], how: impl Fn(Command) -> Command) -> Part {
    // What a level lacks, its tests say each time; whoever reads the sum of all wants what this machine lacks.
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for (program, folder) in tests {
        let mut command = Command::new(&program.path);
        command.current_dir(folder);
        let mut command = how(command);
        command.stderr(Stdio::piped()).arg("--show-output");
        let output = match command.output() {
            Ok(output) => output,
            Err(why) => {
                failed.push(format!("{}: {why}", program.name));
                continue;
            }
        };
        let said = String::from_utf8_lossy(&output.stdout);
        let shown: Vec<&str> = said.lines().filter_map(|line| tally.hear(line)).collect();
        if !output.status.success() {
            let complaints = String::from_utf8_lossy(&output.stderr);
            println!(
                "{name}, {}:\n{}\n{complaints}",
                program.name,
                shown.join("\n")
            );
            failed.push(format!("{}: {}", program.name, output.status));
        }
    }
    let result = match failed.is_empty() {
        true => Ok(()),
        false => Err(anyhow!("{}", failed.join("; "))),
    };
    Part::of(&format!("{name}, {} tests", tally.ran), result)
}
