//! `cargo xtask test`: every test there is, and what was skipped and why.
//!
//! `--target aarch64` runs the same tests for 64-bit Arm under emulation.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{miri, setup, shell, tidy};

mod aarch64;
mod built;
mod lanes;
mod levels;
mod skipped;
mod whole;

use skipped::Tally;

/// Where to.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Test for another machine under emulation
    #[arg(long, value_parser = ["aarch64"])]
    target: Option<String>,
    /// The core that qemu emulates, for example `cortex-a72` as in BlueField-2; if it is not given, `max`, and every path
    /// also on cortex-a72 and neoverse-n1
    #[arg(long, requires = "target")]
    cpu: Option<String>,
    /// Passed on to `cargo test`, for example `-p dpb-core`; the whole workspace if nothing is given
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// One part of the tests.
struct Part {
    name: String,
    outcome: Outcome,
    took: Duration,
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Part {
    fn of(name: &str, took: Duration, result: Result<()>) -> Self {
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        let name = name.to_owned();
        Self {
            name,
            outcome,
            took,
        }
    }

    /// Does what `work` says, and how long it takes.
    fn timed(name: &str, work: impl FnOnce() -> Result<()>) -> Self {
        let start = Instant::now();
        let result = work();
        Self::of(name, start.elapsed(), result)
    }

    fn skipped(name: &str, why: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            outcome: Outcome::Skipped(why.into()),
            took: Duration::ZERO,
        }
    }
}

/// What turns all operators on where their crate is chosen by itself; the workspace turns them on anyway.
pub(crate) fn all_operators(chosen: &[&str]) -> &'static [&'static str] {
    match chosen.contains(&"dpb-operators") {
        true => &["--features", "dpb-operators/all"],
        false => &[],
    }
}

/// Checks `dpb-operators` with each of its features by itself, as a prototype builds it.
fn features() -> Result<()> {
    let manifest = std::fs::read_to_string(shell::root().join("crates/operators/Cargo.toml"))?;
    let (_, table) = manifest.split_once("[features]").context("no features")?;
    let (table, _) = table.split_once("\n[").context("no end of features")?;
    let names = table.lines().filter_map(|line| line.split_once(" = ["));
    // AWS-LC takes minutes to build, and is a path and no operator.
    for (name, _) in names.filter(|(name, _)| *name != "aws-lc") {
        let mut clippy = shell::cargo();
        clippy.args(["clippy", "--quiet", "-p", "dpb-operators"]);
        clippy.args([
            "--no-default-features",
            "--features",
            name,
            "--",
            "-D",
            "warnings",
        ]);
        shell::run(&mut clippy)?;
    }
    Ok(())
}

/// Runs everything, also after a failure, and sums up.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.target.is_some() {
        return aarch64::run(args.cpu.as_deref(), &args.cargo);
    }
    let start = Instant::now();
    setup::before_test();
    // Beside all that is built: it keeps one core busy for minutes.
    let miri = match miri::missing() {
        None => Ok(miri::Aside::start()),
        Some(why) => Err(why),
    };
    let mut parts = vec![
        Part::timed("format", || cargo(&["fmt", "--all", "--check"])),
        Part::timed("tidy", tidy::run),
        Part::timed("core on the standard library alone", || {
            cargo(&["check", "-p", "dpb-core"])
        }),
        Part::timed("operators feature by feature", features),
        Part::timed("lints", || {
            let what = ["clippy", "--workspace", "--all-targets"];
            cargo(&[&what[..], &["--", "-D", "warnings"]].concat())
        }),
    ];
    let mut tally = Tally::default();
    parts.extend(match args.cargo.is_empty() {
        true => whole::run(&mut tally),
        false => some(&args.cargo, &mut tally),
    });
    parts.push(match miri {
        Ok(started) => Part::timed(
            "Miri on core, beside the others; here the wait for it",
            || started.and_then(miri::Aside::finish),
        ),
        Err(why) => Part::skipped("Miri on core", why),
    });
    for (name, why) in [
        (
            "10,000 random queries against DuckDB",
            "cargo xtask differential",
        ),
        ("fuzzing", "cargo xtask fuzz"),
        ("64-bit Arm", "cargo xtask test --target aarch64"),
    ] {
        parts.push(Part::skipped(name, format!("takes long; {why}")));
    }
    sum_up(&parts, &tally, start)
}

/// The tests that a person chose, and what is run besides whatever is chosen.
fn some(chosen: &[String], tally: &mut Tally) -> Vec<Part> {
    let chosen: Vec<&str> = chosen.iter().map(String::as_str).collect();
    let mut tests = shell::cargo();
    tests.args(["test", "--no-fail-fast"]).args(&chosen);
    tests.args(all_operators(&chosen));
    skipped::ask(&mut tests, &chosen);
    let mut parts = vec![tally.run("tests, and examples in the documentation", &mut tests)];
    // Of benches, what was chosen may have none, which cargo takes for an error.
    let left_out = ["paths at lower levels", "each bench once"];
    parts.extend(left_out.map(|name| Part::skipped(name, "not all was asked for")));
    parts.extend([
        whole::documentation(),
        whole::ends(),
        whole::guest(false),
        whole::guests(false),
    ]);
    parts
}

fn cargo(arguments: &[&str]) -> Result<()> {
    shell::run(shell::cargo().args(arguments))
}

/// Says what became of all since `start`.
fn sum_up(parts: &[Part], tally: &Tally, start: Instant) -> Result<()> {
    println!();
    let mut failed = Vec::new();
    for part in parts {
        let (name, took) = (&part.name, built::seconds(part.took));
        match &part.outcome {
            Outcome::Passed => println!("passed   {name} ({took})"),
            Outcome::Skipped(why) => println!("skipped  {name}: {why}"),
            Outcome::Failed(why) => {
                println!("FAILED   {name} ({took})");
                failed.push(format!("{name}: {why}"));
            }
        }
    }
    for (test, why) in &tally.skipped {
        println!("skipped  {test}: {why}");
    }
    println!("all of it took {}", built::seconds(start.elapsed()));
    println!("{tally}");
    // The reasons are the last words, which are read first.
    ensure!(failed.is_empty(), "failed:\n{}", failed.join("\n"));
    Ok(())
}
