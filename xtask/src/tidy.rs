//! `cargo xtask tidy`: rules of the tree that the compiler does not know.
//!
//! * Every Rust file opens with `//!`: what it is for.
//! * `unsafe` stands only in files that `xtask/unsafe-files.txt` lists, each with its reason.
//! * Dependencies between our crates point one way; core has none that a feature does not ask for.
//! * Nothing is left to do in the code.
//! * No file is larger than a mebibyte.
//!
//! All are tests as well, so that `cargo test` sees them.

mod arrows;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Larger files belong elsewhere, or are generated.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Which files may hold `unsafe`, and why.
const UNSAFE_FILES: &str = "xtask/unsafe-files.txt";
/// Words that say something is not done. In pieces, or this file would hold them.
const UNFINISHED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
];

/// Checks everything; says all that is wrong.
pub(crate) fn run() -> Result<()> {
    let mut wrong = arrows::check()?;
    let files = files()?;
    wrong.extend(large_files(&files)?);
    wrong.extend(sources(&files)?);
    if wrong.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    bail!("not tidy:\n  {}", wrong.join("\n  "))
}

/// What git tracks, or would: paths from the root.
fn files() -> Result<Vec<String>> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let list = shell::output(Command::new("git").current_dir(shell::root()).args(list))?;
    let there = |path: &&str| shell::root().join(path).is_file();
    Ok(list.lines().filter(there).map(str::to_string).collect())
}

fn large_files(files: &[String]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for path in files {
        let bytes = absolute(path).metadata().context(path.clone())?.len();
        if bytes > FILE_BYTES_MAX {
            wrong.push(format!("{path}: {bytes} bytes, more than {FILE_BYTES_MAX}"));
        }
    }
    Ok(wrong)
}

fn sources(files: &[String]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut allowed = allowed()?;
    for path in files {
        let is = |extension| path.ends_with(extension);
        if !(is(".rs") || is(".toml") || is(".md") || is(".sh")) {
            continue;
        }
        let text = std::fs::read_to_string(absolute(path)).context(path.clone())?;
        for (line, text) in (1..).zip(text.lines()) {
            if UNFINISHED.iter().any(|word| source::has_word(text, word)) {
                wrong.push(format!("{path}:{line}: not finished: {}", text.trim()));
            }
        }
        if !is(".rs") {
            continue;
        }
        if !source::opens_with_docs(&text) {
            wrong.push(format!(
                "{path}: does not say what it is for: begin with `//!`"
            ));
        }
        let is_allowed = allowed.remove(path.as_str()).is_some();
        match source::line_of_unsafe(&text) {
            Some(line) if !is_allowed => wrong.push(format!(
                "{path}:{line}: `unsafe` in a file that {UNSAFE_FILES} does not list with its reason"
            )),
            None if is_allowed => {
                wrong.push(format!("{path}: listed in {UNSAFE_FILES}, but holds no `unsafe`"));
            }
            _ => {}
        }
    }
    for path in allowed.keys() {
        wrong.push(format!("{path}: listed in {UNSAFE_FILES}, but not there"));
    }
    Ok(wrong)
}

/// Lines `path: reason`.
fn allowed() -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(absolute(UNSAFE_FILES)).context(UNSAFE_FILES)?;
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(": ") {
            Some((path, reason)) if !reason.trim().is_empty() => {
                Ok((path.to_string(), reason.to_string()))
            }
            _ => bail!("{UNSAFE_FILES}: `{line}` is not `path: reason`"),
        })
        .collect()
}

fn absolute(path: &str) -> PathBuf {
    shell::root().join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        run().unwrap_or_else(|error| panic!("{error}"));
    }
}
