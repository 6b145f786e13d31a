//! `cargo xtask tidy`: rules of the tree that the compiler does not know.
//!
//! * Every Rust file opens with `//!`: what it is for.
//! * `unsafe` stands only in files that `xtask/unsafe-files.txt` lists, each with its reason.
//! * The host's clock, sleep and random numbers are used directly only in files that `xtask/time-files.txt` lists, each with its
//!   reason: elsewhere in the crates time and seeds are arguments.
//! * No files need each other in a loop.
//! * Dependencies between our crates point one way; core has none that a feature does not ask for.
//! * Nothing is left to do in the code.
//! * No doc comment is a bare question word, in the crates that are free of them so far.
//! * No file is larger than a mebibyte.
//!
//! All are tests as well, so that `cargo test` sees them.

mod arrows;
mod circles;
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
/// Which files of the crates may use the host's time and random numbers directly, and why.
const TIME_FILES: &str = "xtask/time-files.txt";
/// What they may use and others may not.
const HOST_TIME: [&str; 9] = [
    "Instant::now",
    "SystemTime::now",
    "thread::sleep",
    "getrandom",
    "RandomState",
    "SysRng",
    "SystemRandom",
    "OsRng",
    "thread_rng",
];
/// Doc comments that leave the reader to guess their subject.
const BARE_DOCS: [&str; 7] = [
    "Which.",
    "Where.",
    "Why.",
    "What.",
    "Of what.",
    "How many.",
    "How.",
];
/// Where there are none of them, nor is one to come: folders are added as they become clean.
const CLEAN_OF_BARE_DOCS: [&str; 2] = ["crates/core/", "crates/sim/"];
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
    wrong.extend(loops(&files)?);
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
    let mut unsafe_files = Listed::read(UNSAFE_FILES, "`unsafe`")?;
    let mut time_files = Listed::read(TIME_FILES, "the host's time or random numbers")?;
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
        if CLEAN_OF_BARE_DOCS
            .iter()
            .any(|clean| path.starts_with(clean))
        {
            let bare = lines_of_bare_docs(&text);
            wrong
                .extend(bare.map(|line| format!("{path}:{line}: a doc comment without a subject")));
        }
        let found = source::line_of_unsafe(&text).map(|line| (line, "unsafe"));
        wrong.extend(unsafe_files.judge(path, found));
        if is_of_a_crate(path) {
            let found = source::line_of(&text, &HOST_TIME);
            wrong.extend(time_files.judge(path, found));
        }
    }
    wrong.extend(unsafe_files.rest());
    wrong.extend(time_files.rest());
    Ok(wrong)
}

/// The lines of doc comments that are one bare question word.
fn lines_of_bare_docs(text: &str) -> impl Iterator<Item = usize> {
    let is_bare = |line: &str| {
        let doc = line.trim().strip_prefix("/// ");
        doc.is_some_and(|doc| BARE_DOCS.contains(&doc))
    };
    (1..)
        .zip(text.lines())
        .filter_map(move |(number, line)| is_bare(line).then_some(number))
}

/// Files that need each other in a loop, those of tests and fuzzers aside.
fn loops(files: &[String]) -> Result<Vec<String>> {
    let is_code = |path: &&String| {
        let parts: Vec<&str> = path.split('/').collect();
        path.ends_with(".rs")
            && !parts.contains(&"tests")
            && !path.ends_with("/tests.rs")
            && parts.first() != Some(&"fuzz")
    };
    let read = |path: &String| {
        let text = std::fs::read_to_string(absolute(path)).context(path.clone())?;
        Ok((path.clone(), text))
    };
    let code = files.iter().filter(is_code).map(read);
    let code = code.collect::<Result<Vec<(String, String)>>>()?;
    let code = code
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    Ok(circles::find(code))
}

/// Whether it is code of one of our crates, and not of its tests.
fn is_of_a_crate(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_source = parts.first() == Some(&"crates") && parts.get(2) == Some(&"src");
    is_source && !parts.contains(&"tests") && parts.last() != Some(&"tests.rs")
}

/// Files that may do what others must not. Lines `path: reason`.
struct Listed {
    /// The list itself.
    list: &'static str,
    /// What its files hold.
    what: &'static str,
    reasons: BTreeMap<String, String>,
}

impl Listed {
    fn read(list: &'static str, what: &'static str) -> Result<Self> {
        let text = std::fs::read_to_string(absolute(list)).context(list)?;
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let reasons = lines.map(|line| match line.split_once(": ") {
            Some((path, reason)) if !reason.trim().is_empty() => {
                Ok((path.to_string(), reason.to_string()))
            }
            _ => bail!("{list}: `{line}` is not `path: reason`"),
        });
        Ok(Self {
            list,
            what,
            reasons: reasons.collect::<Result<_>>()?,
        })
    }

    /// What is wrong with `path`, in which the word that was found stands in that line.
    fn judge(&mut self, path: &str, found: Option<(usize, &str)>) -> Option<String> {
        let is_listed = self.reasons.remove(path).is_some();
        let list = self.list;
        match found {
            Some((line, word)) if !is_listed => Some(format!(
                "{path}:{line}: `{word}` in a file that {list} does not list with its reason"
            )),
            None if is_listed => Some(format!(
                "{path}: listed in {list}, but holds no {}",
                self.what
            )),
            _ => None,
        }
    }

    /// Files that were not judged.
    fn rest(&self) -> impl Iterator<Item = String> {
        let paths = self.reasons.keys();
        paths.map(|path| format!("{path}: listed in {}, but not there", self.list))
    }
}

fn absolute(path: &str) -> PathBuf {
    shell::root().join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_question_word_is_no_doc_comment() {
        let text = "/// The number of items.\n/// How many.\n    /// Why.\nlet a = 1; // How.\n/// Why it is.\n";
        assert!(lines_of_bare_docs(text).eq([2, 3]));
    }

    #[test]
    fn the_tree_is_tidy() {
        run().unwrap_or_else(|error| panic!("{error}"));
    }
}
