//! What tests that passed say of what they skipped: `skipped: WHY`, on stdout.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::{Outcome, Part};
use crate::shell;

/// Has the tests of `cargo test` with these arguments say it.
pub(super) fn ask(command: &mut Command, arguments: &[&str]) {
    // Whoever chose tests may have put arguments for them last.
    if !arguments.contains(&"--") {
        command.arg("--");
    }
    command.arg("--show-output");
}

/// Runs `cargo test`, whose tests were asked; as a part of this name, and one for each thing that was skipped.
pub(super) fn run(name: &str, command: &mut Command) -> Vec<Part> {
    let mut skipped = Vec::new();
    let result = run_and_filter(command, &mut skipped);
    let skipped = skipped.into_iter().map(|(name, why)| Part {
        name,
        outcome: Outcome::Skipped(why),
    });
    [Part::of(name, result)]
        .into_iter()
        .chain(skipped)
        .collect()
}

/// Runs it, and of what tests that passed say shows only why they skip something: the
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
