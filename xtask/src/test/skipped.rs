//! How many tests ran, and what those that passed say of what they skipped: `skipped: WHY`, on stdout.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::Part;
use crate::shell;

/// What all test programs said so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Tests that passed or failed.
    pub(super) ran: u64,
    /// Tests that were told not to run.
    ignored: u64,
    /// Tests that left all or part of their work out, and why; a test may say it more than once.
    pub(super) skipped: Vec<(String, String)>,
    is_among_passed: bool,
    test: String,
}

/// Has the tests of `cargo test` with these arguments say it.
pub(super) fn ask(command: &mut Command, arguments: &[&str]) {
    // Whoever chose tests may have put arguments for them last.
    if !arguments.contains(&"--") {
        command.arg("--");
    }
    command.arg("--show-output");
}

impl Tally {
    /// Runs `cargo test`, whose tests were asked, as a part of this name. Of what tests that passed say, only why they skip
    /// something is kept.
    pub(super) fn run(&mut self, name: &str, command: &mut Command) -> Part {
        Part::timed(name, || self.run_and_filter(command))
    }

    fn run_and_filter(&mut self, command: &mut Command) -> Result<()> {
        let mut child = shell::start(command.stdout(Stdio::piped()))?;
        let stdout = child.stdout.take().expect("was piped");
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            if let Some(line) = self.hear(&String::from_utf8_lossy(&line)) {
                println!("{line}");
            }
        }
        let status = child.wait()?;
        ensure!(status.success(), "{status}; what failed is above");
        Ok(())
    }

    /// Counts what `other` counted, too.
    pub(super) fn add(&mut self, other: Self) {
        self.ran += other.ran;
        self.ignored += other.ignored;
        self.skipped.extend(other.skipped);
    }

    /// The line, if it is to be shown.
    pub(super) fn hear<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if line == "successes:" {
            self.is_among_passed = true;
        } else if line == "failures:" {
            self.is_among_passed = false;
        } else if let Some(result) = line.strip_prefix("test result:") {
            self.is_among_passed = false;
            let count = |what: &str| {
                let (before, _) = result.split_once(what)?;
                before.split_whitespace().last()?.parse::<u64>().ok()
            };
            self.ran += count(" passed").unwrap_or(0) + count(" failed").unwrap_or(0);
            self.ignored += count(" ignored").unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("---- ") {
            self.test = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some(why) = line.strip_prefix("skipped: ") {
            self.skipped.push((self.test.clone(), why.to_owned()));
        }
        (!self.is_among_passed).then_some(line)
    }
}

/// `1834 tests ran, 12 skipped all or part of their work: 8 no DOCA headers, 4 no sshd here`: the reasons without what to do,
/// the most frequent first.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons = BTreeMap::<&str, u64>::new();
        for (_, why) in &self.skipped {
            let reason = why.split([';', '(']).next().unwrap_or(why).trim();
            *reasons.entry(reason).or_default() += 1;
        }
        if self.ignored > 0 {
            reasons.insert("ignored", self.ignored);
        }
        let mut tests: Vec<&str> = self.skipped.iter().map(|(test, _)| &**test).collect();
        tests.sort_unstable();
        tests.dedup();
        let skipped = tests.len() as u64 + self.ignored;
        write!(
            f,
            "{} tests ran, {skipped} skipped all or part of their work",
            self.ran
        )?;
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        for (i, (reason, count)) in reasons.iter().enumerate() {
            let before = if i == 0 { ":" } else { "," };
            write!(f, "{before} {count} {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cargo and libtest of Rust 1.95 print, shortened.
    #[test]
    fn reasons_are_taken_from_the_output_and_the_rest_of_it_is_left_out() {
        let output = "
     Running unittests src/lib.rs (target/debug/deps/dpb_accel-b5b74c3c1b2f6b0e)

running 3 tests
test headers ... ok
test library ... ok
test tables ... ok

successes:

---- headers stdout ----
skipped: no device (the card's, not here)

---- tables stdout ----
skipped: no compiler; install gcc
skipped: no device; buy one

successes:
    headers
    library
    tables

test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s

     Running tests/a.rs (target/debug/deps/a-0a5b74c3c1b2f6b0)

running 4 tests
test a::passes ... ok
test a::skips ... ok
test fails ... FAILED
test slow ... ignored

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

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let mut tally = Tally::default();
        let shown: Vec<&str> = output.lines().filter_map(|line| tally.hear(line)).collect();
        let expected = [
            ("headers", "no device (the card's, not here)"),
            ("tables", "no compiler; install gcc"),
            ("tables", "no device; buy one"),
            ("a::skips", "no device"),
        ];
        let expected = expected.map(|(test, why)| (test.to_owned(), why.to_owned()));
        assert_eq!(tally.skipped, expected);
        assert_eq!(
            tally.to_string(),
            "6 tests ran, 4 skipped all or part of their work: 3 no device, 1 ignored, 1 no compiler"
        );
        assert_eq!(
            Tally::default().to_string(),
            "0 tests ran, 0 skipped all or part of their work"
        );
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
