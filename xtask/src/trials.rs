//! `cargo xtask trials`: how often `dpb ab` is right, on a machine that has other things to do.
//!
//! A program whose work is known to the last instruction is compared with itself, and with itself doing a little more, again and
//! again, while other threads come and go.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell;

/// How many comparisons, of what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Comparisons of a program with itself, and as many with a slower one
    #[arg(long, default_value = "100")]
    trials: u32,
    /// How much slower that is
    #[arg(long, default_value = "0.03")]
    slowdown: f64,
    /// What is compared: cpu or wall
    #[arg(long, default_value = "cpu")]
    measure: String,
    /// Most seconds of a comparison
    #[arg(long, default_value = "120")]
    seconds: u32,
    /// Threads that meanwhile compute and sleep for random times of up to 50 ms
    #[arg(long, default_value = "4")]
    load: u32,
    /// About how many milliseconds a run takes
    #[arg(long, default_value = "40")]
    run_ms: u64,
}

/// The program that is compared.
#[derive(clap::Args)]
pub(crate) struct Work {
    /// Steps of a chain in which each waits for the one before
    steps: u64,
}

/// Of a hundred trials, so many may call a thing different from itself, and as many may miss the slower one.
const WRONG_MAX: f64 = 0.05;
/// Longest that a load computes or sleeps.
const LOAD_MS_MAX: u64 = 50;

/// What the trials of one kind gave.
#[derive(Default)]
struct Tally {
    /// By verdict.
    same: u32,
    worse: u32,
    better: u32,
    undecided: u32,
    seconds: Vec<f64>,
    pairs: Vec<u64>,
}

/// Does the work.
pub(crate) fn work(work: &Work) {
    black_box(chain(work.steps));
}

/// A chain of dependent steps (xorshift, Marsaglia 2003).
fn chain(steps: u64) -> u64 {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

/// Builds `dpb`, runs the trials, and fails if too many of them are wrong.
pub(crate) fn run(args: &Args) -> Result<()> {
    shell::run(shell::cargo().args(["build", "--release", "--package", "dpb-cli"]))?;
    let dpb = shell::target_dir().join("release/dpb");
    let steps = steps_of(Duration::from_millis(args.run_ms));
    let slower = (steps as f64 * (1.0 + args.slowdown)) as u64;
    let stop = AtomicBool::new(false);
    let (same, different) = thread::scope(|scope| {
        for seed in 0..args.load {
            let stop = &stop;
            scope.spawn(move || load(u64::from(seed) + 1, stop));
        }
        let trials = || -> Result<(Tally, Tally)> {
            Ok((
                Tally::of(args, &dpb, steps, steps)?,
                Tally::of(args, &dpb, steps, slower)?,
            ))
        };
        let tallies = trials();
        stop.store(true, Ordering::Relaxed);
        tallies
    })?;
    println!(
        "\n{} trials each, {} of runs of about {} ms, {} threads of load on {} CPUs, at most {} s a trial",
        args.trials,
        args.measure,
        args.run_ms,
        args.load,
        thread::available_parallelism().map_or(1, usize::from),
        args.seconds
    );
    println!(
        "{:<28} {:>5} {:>6} {:>7} {:>10} {:>9} {:>9} {:>7}",
        "B", "same", "worse", "better", "too close", "median s", "longest s", "pairs"
    );
    same.print("the same as A");
    different.print(&format!("{:.1} % more work than A", args.slowdown * 100.0));
    let trials = f64::from(args.trials);
    let called_different = f64::from(same.worse + same.better);
    ensure!(
        called_different <= WRONG_MAX * trials,
        "{called_different} trials called a thing different from itself"
    );
    let missed = trials - f64::from(different.worse);
    ensure!(
        missed <= WRONG_MAX * trials,
        "{missed} trials missed the slower one"
    );
    Ok(())
}

impl Tally {
    fn of(args: &Args, dpb: &Path, a: u64, b: u64) -> Result<Self> {
        let this = std::env::current_exe()?;
        let mut tally = Self::default();
        for trial in 1..=args.trials {
            let mut command = Command::new(dpb);
            command.args([
                "ab",
                "--quiet",
                "--format",
                "json",
                "--measure",
                &args.measure,
            ]);
            command.args([
                "--time-budget",
                &format!("{}s", args.seconds),
                "--seed",
                &trial.to_string(),
                "--",
            ]);
            command.arg(&this).args(["work", &a.to_string(), "--"]);
            command.arg(&this).args(["work", &b.to_string()]);
            let start = Instant::now();
            let record: Value = serde_json::from_str(&shell::output(&mut command)?)?;
            tally.seconds.push(start.elapsed().as_secs_f64());
            tally
                .pairs
                .push(record["counts"]["pairs"].as_u64().context("pairs")?);
            let verdict = record["parameters"]["verdict"]
                .as_str()
                .context("a verdict")?;
            *match verdict {
                "same" => &mut tally.same,
                "worse" => &mut tally.worse,
                "better" => &mut tally.better,
                _ => &mut tally.undecided,
            } += 1;
            eprintln!(
                "{trial} of {}: {verdict}, {:.4}, {} pairs",
                args.trials,
                record["summary"]["ratio"]["median"]
                    .as_f64()
                    .unwrap_or(f64::NAN),
                record["counts"]["pairs"]
            );
        }
        Ok(tally)
    }

    fn print(&self, name: &str) {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        let mut pairs = self.pairs.clone();
        pairs.sort_unstable();
        println!(
            "{name:<28} {:>5} {:>6} {:>7} {:>10} {:>9.1} {:>9.1} {:>7}",
            self.same,
            self.worse,
            self.better,
            self.undecided,
            seconds.get(seconds.len() / 2).unwrap_or(&0.0),
            seconds.last().unwrap_or(&0.0),
            pairs.get(pairs.len() / 2).unwrap_or(&0),
        );
    }
}

/// About how many steps take so long here.
fn steps_of(time: Duration) -> u64 {
    let steps = 10_000_000;
    let start = Instant::now();
    black_box(chain(steps));
    (steps as f64 * time.as_secs_f64() / start.elapsed().as_secs_f64()) as u64
}

/// Computes and sleeps in turn, for times that are drawn, until told to stop.
fn load(seed: u64, stop: &AtomicBool) {
    let mut state = seed;
    while !stop.load(Ordering::Relaxed) {
        let mut drawn = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            Duration::from_millis((state >> 33) % LOAD_MS_MAX + 1)
        };
        let (computing, sleeping) = (drawn(), drawn());
        let start = Instant::now();
        while start.elapsed() < computing {
            black_box(chain(1000));
        }
        thread::sleep(sleeping);
    }
}
