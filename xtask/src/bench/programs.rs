//! Benches and others as programs: built by cargo, run here, elsewhere, or under an emulator.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell;

/// The bench that compares with peers; the others are criterion's.
pub(super) const PEERS: &str = "peers";

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// As cargo calls it.
    pub(crate) name: String,
    /// The file.
    pub(crate) path: PathBuf,
    /// The file that it begins in.
    pub(crate) source: PathBuf,
    /// The folder of its package, in which cargo runs tests.
    pub(crate) folder: PathBuf,
}

/// How one is run.
pub(super) enum How<'a> {
    /// On hardware.
    Timed {
        /// Fewer turns.
        quick: bool,
    },
    /// Under an emulator: all is checked, nothing is timed.
    Checked {
        /// Which emulator.
        by: &'a str,
        /// Where counts come from, if it counts.
        counts: Option<Counts<'a>>,
    },
}

/// What an emulated bench of peers is told of counts.
pub(super) struct Counts<'a> {
    /// The file that the emulator writes counts of instructions to.
    pub(super) instructions: &'a Path,
    /// The socket that is asked for cycles.
    pub(super) cycles: Option<&'a Path>,
}

impl Program {
    /// Its arguments; `records` is the folder for what it keeps, as it sees it.
    pub(super) fn arguments(&self, how: &How<'_>, records: &str, rest: &[String]) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |some: &[&str]| arguments.extend(some.iter().map(ToString::to_string));
        match how {
            How::Timed { quick } => {
                add(&["--bench"]);
                if *quick {
                    add(&["--quick"]);
                }
            }
            How::Checked { by, counts } if self.name == PEERS => {
                add(&["--emulated", by]);
                if let Some(counts) = counts {
                    add(&["--instructions", &counts.instructions.to_string_lossy()]);
                    if let Some(socket) = counts.cycles {
                        add(&["--cycles", &socket.to_string_lossy()]);
                    }
                }
            }
            How::Checked { .. } => add(&["--test"]),
        }
        if self.name == PEERS {
            add(&["--record", records]);
            arguments.extend(rest.iter().cloned());
        } else {
            arguments.extend(of_criterion(rest));
        }
        arguments
    }
}

/// What a person passes on, as criterion takes it: one filter, a regular expression. The words before the first option are filters.
pub(super) fn of_criterion(rest: &[String]) -> Vec<String> {
    let is_filter = |word: &&String| !word.starts_with('-');
    let filters = rest.iter().take_while(is_filter).count();
    let (filters, options) = rest.split_at(filters);
    let mut arguments = options.to_vec();
    if !filters.is_empty() {
        arguments.insert(0, filters.join("|"));
    }
    arguments
}

/// Runs cargo as `command` says; what it built of these kinds (`bench`, `bin`, `test`), by name.
pub(crate) fn build(command: &mut Command, kinds: &[&str]) -> Result<Vec<Program>> {
    if kinds != ["bin"] {
        command.arg("--no-run");
    }
    built(command, &kinds.join(", "), |message| is_of(kinds, message))
}

/// Runs `cargo test` as `command` says, but no test; the programs that hold tests, by name.
pub(crate) fn build_tests(command: &mut Command) -> Result<Vec<Program>> {
    built(command.arg("--no-run"), "tests", holds_tests)
}

/// Runs cargo; the programs whose messages are wanted, which are called `what`.
fn built(
    command: &mut Command,
    what: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<Vec<Program>> {
    command.args(["--message-format", "json-render-diagnostics"]);
    let child = shell::start(command.stdout(Stdio::piped()))?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "this does not build: {what}");
    let mut programs = programs(&String::from_utf8(output.stdout)?, is_wanted)?;
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(
        !programs.is_empty(),
        "nothing of this kind was built: {what}"
    );
    Ok(programs)
}

/// From cargo's messages, a line each.
fn programs(messages: &str, is_wanted: impl Fn(&Value) -> bool) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("a message of cargo's")?;
        let target = &message["target"];
        if let (true, Some(path), Some(name), Some(source), Some(manifest)) = (
            is_wanted(&message),
            message["executable"].as_str(),
            target["name"].as_str(),
            target["src_path"].as_str(),
            message["manifest_path"].as_str(),
        ) {
            programs.push(Program {
                name: name.to_owned(),
                path: path.into(),
                source: source.into(),
                folder: Path::new(manifest).parent().unwrap_or(Path::new("")).into(),
            });
        }
    }
    Ok(programs)
}

/// True if cargo's message is of a target of one of `kinds`.
fn is_of(kinds: &[&str], message: &Value) -> bool {
    let mut its = message["target"]["kind"].as_array().into_iter().flatten();
    // The unit tests of a program have its name and kind.
    let is_its_tests = message["target"]["kind"][0] == "bin" && holds_tests(message);
    its.any(|kind| kind.as_str().is_some_and(|kind| kinds.contains(&kind))) && !is_its_tests
}

fn holds_tests(message: &Value) -> bool {
    message["profile"]["test"] == true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criterion_gets_one_filter_and_peers_get_all() {
        let program = |name: &str| Program {
            name: name.to_owned(),
            path: PathBuf::new(),
            source: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let how = How::Checked {
            by: "an emulator",
            counts: None,
        };
        let rest = ["crc32", "toeplitz", "--save-baseline", "before"].map(str::to_owned);
        let given = |name: &str, rest: &[String]| program(name).arguments(&how, "records", rest);
        assert_eq!(
            given("operators", &rest),
            ["--test", "crc32|toeplitz", "--save-baseline", "before"]
        );
        assert_eq!(
            given("operators", &rest[2..]),
            ["--test", "--save-baseline", "before"]
        );
        assert!(given(PEERS, &rest).ends_with(&rest));
    }

    #[test]
    fn programs_are_found_in_what_cargo_says_of_a_build() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/core/Cargo.toml","target":{"kind":["lib"],"name":"dpb_core","src_path":"/core"},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/b/Cargo.toml","target":{"kind":["bench"],"name":"seam","src_path":"/seam"},"profile":{"test":false},"executable":"/t/seam-1"}
{"reason":"compiler-artifact","manifest_path":"/c/Cargo.toml","target":{"kind":["bin"],"name":"dpb","src_path":"/main"},"profile":{"test":true},"executable":"/t/dpb-1"}
{"reason":"compiler-artifact","manifest_path":"/c/Cargo.toml","target":{"kind":["bin"],"name":"dpb","src_path":"/main"},"profile":{"test":false},"executable":"/t/dpb"}
{"reason":"build-finished","success":true}"#;
        let expected = Program {
            name: "seam".to_owned(),
            path: "/t/seam-1".into(),
            source: "/seam".into(),
            folder: "/b".into(),
        };
        let found =
            |kinds: &[&str]| programs(messages, |message| is_of(kinds, message)).expect("readable");
        assert_eq!(found(&["bench"]), [expected]);
        // Not its unit tests.
        let [dpb] = &found(&["bin", "test"])[..] else {
            panic!("one program");
        };
        assert_eq!(dpb.path, Path::new("/t/dpb"));
        // Its unit tests, and no bench.
        let tests = programs(messages, holds_tests).expect("readable");
        let [dpb] = &tests[..] else {
            panic!("one program of tests");
        };
        assert_eq!(dpb.path, Path::new("/t/dpb-1"));
    }
}
