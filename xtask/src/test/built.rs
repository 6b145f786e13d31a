//! Built programs of tests, each run by itself.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::{Part, Tally};
use crate::bench::programs::Program;
use crate::shell;

/// Those that take longest, each by its folder and name: they start first, or a lane would wait for one of them at the end.
const LONGEST: [(&str, &str); 12] = [
    ("crates/accel", "doca"),
    ("crates/operators", "conformance"),
    ("crates/link", "operators_conformance"),
    ("crates/operators", "paths"),
    ("crates/accel", "dpdk_crypto_openssl"),
    ("crates/dbmods", "dpb_dbmods"),
    ("crates/cli", "dpb_cli"),
    ("crates/operators", "chains"),
    ("crates/cli", "data"),
    ("crates/sim", "dpb_sim"),
    ("crates/cli", "op"),
    ("crates/cli", "pushdown_interrupt"),
];

/// What became of one.
pub(super) struct Ran {
    name: String,
    tally: Tally,
    /// How it failed.
    failure: Option<String>,
    took: Duration,
}

/// What is shown of a program that has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Each of its tests, and what those that failed said.
    Tests,
    /// Nothing, unless it failed.
    Failures,
}

/// Runs its tests in the folder of its package, as `how` says; `what` is a word for this run of it.
pub(super) fn run(
    what: &str,
    program: &Program,
    shown: Shown,
    how: impl Fn(Command) -> Command,
) -> Ran {
    let mut command = Command::new(&program.path);
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder);
    let mut command = how(command);
    command.stdin(Stdio::null()).arg("--show-output");
    let start = Instant::now();
    let output = command.output();
    let took = start.elapsed();
    let mut tally = Tally::default();
    let name = name(program);
    let failure = match output {
        Err(why) => Some(why.to_string()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<&str> = said.lines().filter_map(|line| tally.hear(line)).collect();
            let has_failed = !output.status.success();
            if has_failed || shown == Shown::Tests {
                let complaints = match has_failed {
                    true => String::from_utf8_lossy(&output.stderr),
                    false => "".into(),
                };
                let lines = lines.join("\n");
                println!("\n{what}, {name}, {}\n{lines}\n{complaints}", seconds(took));
            }
            has_failed.then(|| output.status.to_string())
        }
    };
    Ran {
        name,
        tally,
        failure,
        took,
    }
}

/// A part of this name, of all these programs; what they counted.
pub(super) fn part(name: &str, programs: Vec<Ran>) -> (Part, Tally) {
    let mut tally = Tally::default();
    let (mut failed, mut took) = (Vec::new(), Duration::ZERO);
    let count = programs.len();
    for program in programs {
        took += program.took;
        if let Some(why) = program.failure {
            failed.push(format!("{}: {why}", program.name));
        }
        tally.add(program.tally);
    }
    if count == 0 {
        failed.push("there are no programs of them".to_owned());
    }
    let result = match failed.is_empty() {
        true => Ok(()),
        false => Err(anyhow!("{}", failed.join("; "))),
    };
    let name = format!("{name}: {} tests in {count} programs", tally.ran);
    (Part::of(&name, took, result), tally)
}

/// `operators conformance 41 s, …`: those that took longest, for a person who wants tests to be quicker.
pub(super) fn longest(programs: &[Ran]) -> String {
    let mut programs: Vec<&Ran> = programs.iter().collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.took));
    let longest = programs.iter().take(LONGEST.len());
    let longest = longest.map(|ran| format!("{} {}", ran.name, seconds(ran.took)));
    longest.collect::<Vec<_>>().join(", ")
}

/// The longest first.
pub(super) fn by_length(mut programs: Vec<&Program>) -> Vec<&Program> {
    programs.sort_by_key(|program| {
        let is_it = |(folder, name): &(&str, &str)| {
            program.name == *name && program.folder == shell::root().join(folder)
        };
        LONGEST.iter().position(is_it).unwrap_or(LONGEST.len())
    });
    programs
}

/// `41 s`
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

/// `operators/conformance`: names are not unique among packages.
fn name(program: &Program) -> String {
    let package = program.folder.file_name().unwrap_or_default();
    format!("{}/{}", package.to_string_lossy(), program.name)
}
