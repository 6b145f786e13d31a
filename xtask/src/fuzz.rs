//! `cargo xtask fuzz`: the fuzz targets of `fuzz/`, with or without cargo-fuzz installed.
//!
//! Builds them with the coverage and address sanitizers of nightly rustc, as cargo-fuzz does, and runs each for a while. What was
//! found lies in `fuzz/artifacts/TARGET/`; what was learnt in `fuzz/corpus/TARGET/`, into which each target first puts a
//! few valid inputs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// Coverage as libFuzzer reads it, checks, and the address sanitizer.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Zsanitizer=address \
    -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

/// Which, and how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Targets by name; all if none is given
    targets: Vec<String>,
    /// Minutes for each target; 0 only builds
    #[arg(long, default_value = "1")]
    minutes: u64,
}

/// Builds and runs them, one after another.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known = targets()?;
    let chosen = if args.targets.is_empty() {
        known.clone()
    } else {
        args.targets.clone()
    };
    for name in &chosen {
        ensure!(
            known.contains(name),
            "no fuzz target `{name}`; there are: {}",
            known.join(", ")
        );
    }
    let host = shell::nightly_host()?;
    build(&chosen, &host)?;
    if args.minutes == 0 {
        return Ok(());
    }
    let mut failed = Vec::new();
    for name in &chosen {
        match fuzz(name, &host, args.minutes) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                println!("{name}: {error:#}");
                failed.push(name.as_str());
            }
        }
    }
    ensure!(failed.is_empty(), "found something: {}", failed.join(", "));
    Ok(())
}

/// Names of the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let folder = shell::root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in folder
        .read_dir()
        .with_context(|| folder.display().to_string())?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

fn build(targets: &[String], host: &str) -> Result<()> {
    let mut cargo = shell::cargo_nightly();
    cargo
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        // With a target, the flags are not for build scripts.
        .args(["--target", host, "--target-dir", "fuzz/target"])
        .env("RUSTFLAGS", RUSTFLAGS);
    for name in targets {
        cargo.args(["--bin", name]);
    }
    shell::run(&mut cargo)
}

/// Runs one target; a line that says what was done.
fn fuzz(name: &str, host: &str, minutes: u64) -> Result<String> {
    let root = shell::root();
    let program = root.join(format!("fuzz/target/{host}/release/{name}"));
    let corpus = root.join(format!("fuzz/corpus/{name}"));
    let artifacts = root.join(format!("fuzz/artifacts/{name}"));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let log = artifacts.join("log");
    let mut command = Command::new(program);
    command
        .arg(format!("-max_total_time={}", 60 * minutes))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=4096"])
        // No reader takes so much at once, whatever length its input claims.
        .arg("-malloc_limit_mb=256")
        .arg(&corpus)
        // C libraries compile one template several times, each with tables of the same name.
        .env("ASAN_OPTIONS", "detect_odr_violation=0")
        .env("DPB_FUZZ_SEEDS", &corpus);
    if name == "session" {
        // Its agents' threads end whenever they do; what the C library keeps for one that just ends looks like a leak.
        command.arg("-detect_leaks=0");
    }
    eprintln!("fuzzing {name} for {minutes} min; log in {}", log.display());
    let start = Instant::now();
    let status = command
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log)?)
        .status()?;
    let inputs = inputs_of(&log)?;
    if !status.success() {
        bail!("{status} after {inputs} inputs; see {}", log.display());
    }
    let took = Duration::from_secs(start.elapsed().as_secs());
    Ok(format!(
        "{name}: {inputs} inputs in {took:?}, nothing found"
    ))
}

/// How many inputs libFuzzer says it ran.
fn inputs_of(log: &Path) -> Result<u64> {
    let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    let stat = text
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    Ok(stat.and_then(|n| n.trim().parse().ok()).unwrap_or(0))
}
