//! `cargo xtask test`: every test there is, and what was skipped and why.
//!
//! `--target aarch64` builds for 64-bit Arm and runs the same tests under qemu-user. Such runs say right or wrong, never fast or
//! slow. They leave out what does not depend on the target: format, lints, documentation and its examples, benches, Miri. Under
//! qemu `DPB_QEMU=1` is set, by which tests may shrink heavy sizes.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::{miri, setup, shell, tidy};

/// Where to.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Test for another machine under emulation
    #[arg(long, value_parser = ["aarch64"])]
    target: Option<String>,
    /// The core that qemu emulates: `max`, or `cortex-a72` as in BlueField-2
    #[arg(long, default_value = "max", requires = "target")]
    cpu: String,
    /// Passed on to `cargo test`, for example `-p dpb-core`; the whole workspace if nothing is given
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// One part of the tests.
struct Part {
    name: &'static str,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Runs everything, also after a failure, and sums up.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.target.is_some() {
        return cross(args);
    }
    setup::run(&setup::Options::default())?;
    let mut parts = Vec::new();
    let mut part = |name, result: Result<()>| {
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        parts.push(Part { name, outcome });
    };
    part("format", cargo(&["fmt", "--all", "--check"]));
    part("tidy", tidy::run());
    part(
        "core on the standard library alone",
        cargo(&["check", "-p", "dpb-core"]),
    );
    part(
        "lints",
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    );
    let chosen: Vec<&str> = match args.cargo.as_slice() {
        [] => vec!["--workspace"],
        some => some.iter().map(String::as_str).collect(),
    };
    part(
        "tests, and each bench once",
        cargo(
            &[
                &["test", "--no-fail-fast", "--all-targets"],
                chosen.as_slice(),
            ]
            .concat(),
        ),
    );
    part(
        "examples in the documentation",
        cargo(&[&["test", "--no-fail-fast", "--doc"], chosen.as_slice()].concat()),
    );
    let mut rustdoc = shell::cargo();
    rustdoc.args(["doc", "--workspace", "--no-deps"]);
    part(
        "documentation",
        shell::run(rustdoc.env("RUSTDOCFLAGS", "-D warnings")),
    );
    match miri::missing() {
        None => part("Miri on core", miri::run()),
        Some(why) => parts.push(Part {
            name: "Miri on core",
            outcome: Outcome::Skipped(why),
        }),
    }
    for (name, why) in [
        (
            "10,000 random queries against DuckDB",
            "cargo xtask differential",
        ),
        ("fuzzing", "cargo xtask fuzz"),
        ("64-bit Arm", "cargo xtask test --target aarch64"),
    ] {
        parts.push(Part {
            name,
            outcome: Outcome::Skipped(format!("takes long; {why}")),
        });
    }
    sum_up(&parts)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    shell::run(shell::cargo().args(arguments))
}

fn sum_up(parts: &[Part]) -> Result<()> {
    println!();
    let mut failed = Vec::new();
    for Part { name, outcome } in parts {
        match outcome {
            Outcome::Passed => println!("passed   {name}"),
            Outcome::Skipped(why) => println!("skipped  {name}: {why}"),
            Outcome::Failed(why) => {
                println!("FAILED   {name}: {why}");
                failed.push(*name);
            }
        }
    }
    println!(
        "Tests that need a library or a device that is not here said so above, with what to do."
    );
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

const TRIPLE: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// Where the distribution keeps the other machine's C library.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// The tests under emulation.
fn cross(args: &Args) -> Result<()> {
    if cfg!(target_arch = "aarch64") {
        bail!("this machine is aarch64 itself: cargo xtask test");
    }
    let mut missing = Vec::new();
    let rustc = compiler();
    if rustc.is_none() {
        missing.push(format!(
            "no standard library for {TRIPLE}: rustup target add {TRIPLE}; or, where rustup cannot fetch: dpkg \
             --add-architecture arm64 && apt-get update && apt-get install rustc-web libstd-rust-web-dev:arm64"
        ));
    }
    if shell::find(LINKER).is_none() || !Path::new(SYSROOT).is_dir() {
        missing.push(format!(
            "no {LINKER}: apt-get install gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross"
        ));
    }
    let qemu = ["qemu-aarch64-static", "qemu-aarch64"]
        .into_iter()
        .find(|name| shell::find(name).is_some());
    if qemu.is_none() {
        missing.push("no qemu-aarch64-static: apt-get install qemu-user-static".into());
    }
    let (Some(rustc), Some(qemu)) = (rustc, qemu.filter(|_| missing.is_empty())) else {
        bail!("cannot test for aarch64 here:\n  {}", missing.join("\n  "));
    };
    let emulated = |chosen: &[&str]| -> Result<()> {
        let mut cargo = emulated_cargo(&rustc, qemu, &args.cpu);
        shell::run(cargo.args(chosen))
    };
    let mut parts = Vec::new();
    let mut part = |name, result: Result<()>| {
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        parts.push(Part { name, outcome });
    };
    if args.cargo.is_empty() {
        let libraries = ["--workspace", "--exclude", "dpb-cli"];
        part(
            "the libraries",
            emulated(&[&libraries[..], &["--lib", "--bins", "--tests"]].concat()),
        );
        part(
            "the program's own modules",
            emulated(&["-p", "dpb-cli", "--bins"]),
        );
        parts.push(Part {
            name: "the program from outside",
            outcome: Outcome::Skipped(
                "its tests start it, and this kernel starts no other machine's programs".into(),
            ),
        });
    } else {
        let chosen = args.cargo.iter().map(String::as_str);
        let chosen: Vec<&str> = ["--lib", "--bins", "--tests"]
            .into_iter()
            .chain(chosen)
            .collect();
        part("what was chosen", emulated(&chosen));
    }
    parts.push(Part {
        name: "documentation, lints, benches and Miri",
        outcome: Outcome::Skipped("cargo xtask test".into()),
    });
    println!(
        "\naarch64 under {qemu} -cpu {}: right or wrong only, its times mean nothing",
        args.cpu
    );
    sum_up(&parts)
}

/// `cargo test` for the other machine, without a choice of tests.
fn emulated_cargo(rustc: &Compiler, qemu: &str, cpu: &str) -> Command {
    let mut cargo = shell::cargo();
    cargo
        .args(["test", "--no-fail-fast", "--target", TRIPLE])
        // Another compiler, another set of artefacts.
        .arg("--target-dir")
        .arg(shell::target_dir().join("aarch64"))
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            // The library path too: where the distribution's own arm64 C library is installed as well, the loader of one
            // would load the other, and the first thread that is started spins for ever.
            format!("{qemu} -cpu {cpu} -L {SYSROOT} -E LD_LIBRARY_PATH={SYSROOT}/lib"),
        )
        .env("DPB_QEMU", "1");
    if let Compiler::Distribution(path) = rustc {
        cargo.env("RUSTC", path);
    }
    cargo
}

/// Whose standard library for aarch64 there is.
enum Compiler {
    Rustup,
    Distribution(&'static str),
}

fn compiler() -> Option<Compiler> {
    if has_target("rustc") {
        return Some(Compiler::Rustup);
    }
    let debian = "/usr/bin/rustc";
    has_target(debian).then_some(Compiler::Distribution(debian))
}

fn has_target(rustc: &str) -> bool {
    let sysroot = shell::output(Command::new(rustc).args(["--print", "sysroot"]));
    sysroot.is_ok_and(|path| {
        Path::new(path.trim())
            .join("lib/rustlib")
            .join(TRIPLE)
            .join("lib")
            .is_dir()
    })
}
