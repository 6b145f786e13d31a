//! `cargo xtask test --target aarch64`: the same tests, built for 64-bit Arm and run under qemu-user.
//!
//! Such runs say right or wrong, never fast or slow. They leave out what does not depend on the target: format, lints,
//! documentation and its examples, benches, Miri.
//!
//! Where no emulated program can be started, what starts programs is left out, and the run says so. Under qemu `DPB_QEMU` is set,
//! by which tests may shrink heavy sizes; to `alone` if no emulated program can be started.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::{Outcome, Part, sum_up};
use crate::aarch64::{Emulation, Starting, Toolchain};
use crate::{setup, shell};

/// Runs the tests; `cargo` says which, all if it is empty.
pub(super) fn run(cpu: &str, cargo: &[String]) -> Result<()> {
    let toolchain = Toolchain::find()?;
    let emulation = Emulation::find(cpu)?;
    setup::run_for_aarch64();
    let mut parts = Vec::new();
    let mut part = |name: &str, arguments: &[&str]| {
        let mut skipped = Vec::new();
        let result = run_and_filter(
            &mut command(&toolchain, &emulation, arguments),
            &mut skipped,
        );
        parts.push(Part::of(name, result));
        parts.extend(skipped.into_iter().map(|(name, why)| Part {
            name,
            outcome: Outcome::Skipped(why),
        }));
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
    let independent = "documentation, lints, benches and Miri";
    parts.push(Part::skipped(independent, "cargo xtask test"));
    println!(
        "\naarch64 under {} -cpu {}: right or wrong only, its times mean nothing",
        emulation.qemu, emulation.cpu
    );
    sum_up(&parts)
}

/// Runs `cargo test ... -- --show-output`, and of what tests that passed say shows only why they skip something: the
/// test and the reason, into `skipped`.
fn run_and_filter(command: &mut Command, skipped: &mut Vec<(String, String)>) -> Result<()> {
    let mut child = shell::start(command.stdout(Stdio::piped()))?;
    let stdout = child.stdout.take().expect("was piped");
    let mut filter = Filter::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        if let Some(line) = filter.hear(&String::from_utf8_lossy(&line), skipped) {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{status}; what failed is above");
    Ok(())
}

/// `cargo test` for Arm with these arguments.
fn command(toolchain: &Toolchain, emulation: &Emulation, arguments: &[&str]) -> Command {
    let cargo = emulation.around(&shell::cargo());
    let mut command = toolchain.cargo(cargo, &[&["test", "--no-fail-fast"], arguments].concat());
    // Tests say on stdout why they skip something; whoever chose tests may have put arguments for them last.
    if !arguments.contains(&"--") {
        command.arg("--");
    }
    command.arg("--show-output");
    command
}

/// Where in the output of a test program we are.
#[derive(Default)]
struct Filter {
    is_among_passed: bool,
    test: String,
}

impl Filter {
    /// The line, if it is to be shown.
    fn hear<'a>(&mut self, line: &'a str, skipped: &mut Vec<(String, String)>) -> Option<&'a str> {
        if line == "successes:" {
            self.is_among_passed = true;
        } else if line == "failures:" || line.starts_with("test result:") {
            self.is_among_passed = false;
        } else if let Some(rest) = line.strip_prefix("---- ") {
            self.test = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some(why) = line.strip_prefix("skipped: ") {
            skipped.push((self.test.clone(), why.to_owned()));
        }
        (!self.is_among_passed).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libtest of Rust 1.95 prints, shortened.
    #[test]
    fn reasons_are_taken_from_the_output_and_the_rest_of_it_is_left_out() {
        let output = "
running 3 tests
test a::passes ... ok
test a::skips ... ok
test fails ... FAILED

successes:

---- a::skips stdout ----
chatter
skipped: no device

successes:
    a::passes
    a::skips

failures:

---- fails stdout ----
why it fails

failures:
    fails

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let mut skipped = Vec::new();
        let mut filter = Filter::default();
        let shown: Vec<&str> = output
            .lines()
            .filter_map(|line| filter.hear(line, &mut skipped))
            .collect();
        let expected = [("a::skips".to_owned(), "no device".to_owned())];
        assert_eq!(skipped, expected);
        let shown = shown.join("\n");
        assert!(!shown.contains("chatter") && !shown.contains("successes"));
        for line in [
            "test a::skips ... ok",
            "why it fails",
            "    fails",
            "test result: FAILED.",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }
}
