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
    command.args(["--message-format", "json-render-diagnostics"]);
    let child = shell::start(command.stdout(Stdio::piped()))?;
    let output = child.wait_with_output()?;
    let kind = kinds.join(", ");
    ensure!(output.status.success(), "this does not build: {kind}");
    let mut programs = programs(&String::from_utf8(output.stdout)?, kinds)?;
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(
        !programs.is_empty(),
        "nothing of this kind was built: {kind}"
    );
    Ok(programs)
}

/// From cargo's messages, a line each.
fn programs(messages: &str, kinds: &[&str]) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("a message of cargo's")?;
        let target = &message["target"];
        let is_of_kind = target["kind"].as_array().is_some_and(|its| {
            let mut its = its.iter().filter_map(Value::as_str);
            its.any(|kind| kinds.contains(&kind))
        });
        // The unit tests of a program have its name and kind.
        let is_its_tests = target["kind"][0] == "bin" && message["profile"]["test"] == true;
        if let (true, Some(path), Some(name), Some(source)) = (
            is_of_kind && !is_its_tests,
            message["executable"].as_str(),
            target["name"].as_str(),
            target["src_path"].as_str(),
        ) {
            programs.push(Program {
                name: name.to_owned(),
                path: path.into(),
                source: source.into(),
            });
        }
    }
    Ok(programs)
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
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"dpb_core","src_path":"/core"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"seam","src_path":"/seam"},"executable":"/t/seam-1"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"dpb","src_path":"/main"},"profile":{"test":true},"executable":"/t/dpb-1"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"dpb","src_path":"/main"},"profile":{"test":false},"executable":"/t/dpb"}
{"reason":"build-finished","success":true}"#;
        let expected = Program {
            name: "seam".to_owned(),
            path: "/t/seam-1".into(),
            source: "/seam".into(),
        };
        let found = |kinds: &[&str]| programs(messages, kinds).expect("readable");
        assert_eq!(found(&["bench"]), [expected]);
        // Not its unit tests.
        let [dpb] = &found(&["bin", "test"])[..] else {
            panic!("one program");
        };
        assert_eq!(dpb.path, Path::new("/t/dpb"));
    }
}
