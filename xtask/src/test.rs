//! `cargo xtask test`: every test there is, and what was skipped and why.
//!
//! `--target aarch64` runs the same tests for 64-bit Arm under emulation.

use anyhow::{Context, Result, ensure};

use crate::{asan, miri, setup, shell, tidy, vm};

mod aarch64;
mod levels;
mod skipped;

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
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Part {
    fn of(name: &str, result: Result<()>) -> Self {
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        let name = name.to_owned();
        Self { name, outcome }
    }

    fn skipped(name: &str, why: impl Into<String>) -> Self {
        let name = name.to_owned();
        let outcome = Outcome::Skipped(why.into());
        Self { name, outcome }
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
    setup::before_test();
    let mut parts = Vec::new();
    let mut tally = Tally::default();
    let mut part = |name: &str, result| parts.push(Part::of(name, result));
    part("format", cargo(&["fmt", "--all", "--check"]));
    part("tidy", tidy::run());
    part(
        "core on the standard library alone",
        cargo(&["check", "-p", "dpb-core"]),
    );
    part("operators feature by feature", features());
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
    let miri = match miri::missing() {
        None => Ok(miri::Aside::start()),
        Some(why) => Err(why),
    };
    let chosen: Vec<&str> = match args.cargo.as_slice() {
        [] => vec!["--workspace"],
        some => some.iter().map(String::as_str).collect(),
    };
    let mut tests = shell::cargo();
    tests.args(["test", "--no-fail-fast"]).args(&chosen);
    tests.args(all_operators(&chosen));
    skipped::ask(&mut tests, &chosen);
    parts.push(tally.run("tests, and examples in the documentation", &mut tests));
    parts.extend(match args.cargo.is_empty() {
        true => levels::below_here(),
        false => vec![Part::skipped(
            "paths at lower levels",
            "not all was asked for",
        )],
    });
    // Apart, since benches do not read the arguments of tests.
    let benches = ["test", "--no-fail-fast", "--workspace", "--bench", "*"];
    parts.push(match args.cargo.is_empty() {
        true => Part::of("each bench once", cargo(&benches)),
        // What was chosen may have none, which cargo takes for an error.
        false => Part::skipped("each bench once", "not all was asked for"),
    });
    let mut part = |name: &str, result| parts.push(Part::of(name, result));
    let mut rustdoc = shell::cargo();
    rustdoc.args(["doc", "--workspace", "--no-deps"]);
    part(
        "documentation",
        shell::run(rustdoc.env("RUSTDOCFLAGS", "-D warnings")),
    );
    match miri {
        Ok(started) => part("Miri on core", started.and_then(miri::Aside::finish)),
        Err(why) => parts.push(Part::skipped("Miri on core", why)),
    }
    const ENDS: &str = "devices that end or break, under AddressSanitizer";
    const GUEST: &str = "RDMA on soft-RoCE, in a guest";
    let ends = || match asan::missing() {
        None => Part::of(ENDS, asan::run_ends()),
        Some(why) => Part::skipped(ENDS, why),
    };
    let guest = || match vm::missing() {
        None => Part::of(GUEST, vm::test(args.cargo.is_empty())),
        Some(why) => Part::skipped(GUEST, why),
    };
    // Each keeps one core busy for minutes.
    let (ends, guest) = std::thread::scope(|scope| {
        let ends = scope.spawn(ends);
        let guest = guest();
        (ends.join(), guest)
    });
    parts.push(ends.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    parts.push(guest);
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
    sum_up(&parts, &tally)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    shell::run(shell::cargo().args(arguments))
}

fn sum_up(parts: &[Part], tally: &Tally) -> Result<()> {
    println!();
    let mut failed = Vec::new();
    for Part { name, outcome } in parts {
        match outcome {
            Outcome::Passed => println!("passed   {name}"),
            Outcome::Skipped(why) => println!("skipped  {name}: {why}"),
            Outcome::Failed(why) => {
                println!("FAILED   {name}: {why}");
                failed.push(name.as_str());
            }
        }
    }
    for (test, why) in &tally.skipped {
        println!("skipped  {test}: {why}");
    }
    println!("{tally}");
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}
