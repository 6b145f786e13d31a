//! llvm-mca: how many cycles a core's scheduling model gives to a stretch of instructions that runs behind itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::blocks::DIGITS;
use crate::shell;

/// The release whose models are asked: another one's differ.
const ANALYSER: &str = "llvm-mca-19";
const DISASSEMBLER: &str = "llvm-mc-19";
/// The package that has both, in Debian 12 and 13.
pub(super) const PACKAGE: &str = "llvm-19";
const TARGET: [&str; 2] = ["-triple=aarch64", "-mattr=+all"];
/// Calls and returns are branches like others: both ends of a call are in the stretch. What a model does not know is left out.
const ASKED: [&str; 4] = [
    "-mtriple=aarch64",
    "-mattr=+all",
    "-call-latency=1",
    "-skip-unsupported-instructions=any",
];
/// The most instructions of stretches that are run so often, so that each answer takes some 10,000 instructions.
const ITERATIONS: [(usize, u32); 4] = [(32, 100), (128, 25), (512, 8), (usize::MAX, 4)];

/// What a model says of a stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answer {
    /// Cycles from one execution to the next, when many went before.
    pub(super) cycles: f64,
    /// Instructions of one execution that the model knows.
    pub(super) instructions: f64,
}

/// The programs, and what they have said.
pub(super) struct Mca {
    folder: PathBuf,
    texts: HashMap<String, Text>,
    answers: HashMap<(String, String), Option<Answer>>,
}

/// A stretch as llvm-mca is asked for it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Text {
    lines: String,
    /// Instructions that are left out, as a core does them as one with those before.
    fused: usize,
}

/// Total cycles and instructions of a region.
type Total = (u64, u64);

impl Mca {
    /// Finds the programs, which write to `folder`.
    ///
    /// # Errors
    /// They are missing; says the package.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        for program in [ANALYSER, DISASSEMBLER] {
            ensure!(
                shell::find(program).is_some(),
                "no {program}: apt-get install {PACKAGE}"
            );
        }
        Ok(Self {
            folder: folder.to_owned(),
            texts: HashMap::new(),
            answers: HashMap::new(),
        })
    }

    /// `model`'s answer for each stretch of `codes`; `None` where it knows none of its instructions.
    ///
    /// # Errors
    /// A program fails.
    pub(super) fn ask(&mut self, model: &str, codes: &[&str]) -> Result<Vec<Option<Answer>>> {
        let key = |code: &str| (model.to_owned(), code.to_owned());
        let is_new = |code: &&&str| !self.answers.contains_key(&key(code));
        let mut new: Vec<&str> = codes.iter().filter(is_new).copied().collect();
        new.sort_unstable();
        new.dedup();
        self.disassemble(&new)?;
        let mut longest = 0;
        for (most, iterations) in ITERATIONS {
            let fits = |code: &&str| (longest + 1..=most).contains(&(code.len() / DIGITS));
            let some: Vec<&str> = new.iter().copied().filter(fits).collect();
            longest = most;
            if some.is_empty() {
                continue;
            }
            let one = self.totals(model, &some, iterations)?;
            let two = self.totals(model, &some, 2 * iterations)?;
            for (at, code) in some.iter().enumerate() {
                let answer = one.get(&at).zip(two.get(&at)).map(|(one, two)| Answer {
                    cycles: two.0.saturating_sub(one.0) as f64 / f64::from(iterations),
                    instructions: one.1 as f64 / f64::from(iterations)
                        + self.texts[*code].fused as f64,
                });
                self.answers.insert(key(code), answer);
            }
        }
        Ok(codes.iter().map(|code| self.answers[&key(code)]).collect())
    }

    /// What llvm-mca prints of a stretch for a person.
    ///
    /// # Errors
    /// A program fails.
    pub(super) fn view(&mut self, model: &str, code: &str) -> Result<String> {
        self.disassemble(&[code])?;
        let file = self.write("view.s", &self.texts[code].lines)?;
        let mut command = Command::new(ANALYSER);
        command
            .args(ASKED)
            .arg(format!("-mcpu={model}"))
            .args(["-iterations=100", "-bottleneck-analysis"]);
        shell::output(command.arg(file))
    }

    /// Brings the text of each stretch into `texts`.
    fn disassemble(&mut self, codes: &[&str]) -> Result<()> {
        let is_new = |code: &&&str| !self.texts.contains_key(**code);
        let new: Vec<&str> = codes.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut bytes = String::new();
        for (at, code) in (1..).zip(&new) {
            add_bytes(&mut bytes, at);
            for word in 0..code.len() / DIGITS {
                let word = &code[word * DIGITS..][..DIGITS];
                add_bytes(&mut bytes, u32::from_str_radix(word, 16)?);
            }
        }
        let file = self.write("blocks.bytes", &bytes)?;
        let mut command = Command::new(DISASSEMBLER);
        command.arg("--disassemble").args(TARGET).arg(file);
        let texts = apart(&shell::output(&mut command)?);
        ensure!(
            texts.len() == new.len(),
            "{DISASSEMBLER} gives {} stretches of {}",
            texts.len(),
            new.len()
        );
        let new = new.into_iter().map(str::to_owned);
        self.texts.extend(new.zip(texts));
        Ok(())
    }

    /// What each stretch takes that runs so often, by its place in `codes`.
    fn totals(
        &self,
        model: &str,
        codes: &[&str],
        iterations: u32,
    ) -> Result<BTreeMap<usize, Total>> {
        let mut text = String::new();
        for (at, code) in codes.iter().enumerate() {
            let stretch = &self.texts[*code].lines;
            let _ = write!(
                text,
                "# LLVM-MCA-BEGIN {at}\n{stretch}# LLVM-MCA-END {at}\n"
            );
        }
        let file = self.write("blocks.s", &text)?;
        let mut command = Command::new(ANALYSER);
        command
            .args(ASKED)
            .arg(format!("-mcpu={model}"))
            .arg(format!("-iterations={iterations}"))
            .args(["-all-views=false", "-summary-view"])
            .arg(file);
        Ok(totals(&shell::output(&mut command)?))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

/// One instruction as the disassembler takes it.
fn add_bytes(text: &mut String, word: u32) {
    for byte in word.to_le_bytes() {
        let _ = write!(text, "{byte:#04x} ");
    }
    text.push('\n');
}

/// The texts of stretches, before each of which the instruction `udf` with its number stands, which nothing executes.
fn apart(text: &str) -> Vec<Text> {
    let mut texts: Vec<Text> = Vec::new();
    let mut before = "";
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let next = format!("#{}", texts.len() + 1);
        match (words.next(), words.next()) {
            (Some("udf"), Some(number)) if number == next => texts.push(Text::default()),
            // Directives.
            (Some(word), _) if word.starts_with('.') => {}
            _ => {
                if let Some(text) = texts.last_mut() {
                    text.add(before, line);
                }
            }
        }
        before = line;
    }
    texts
}

impl Text {
    fn add(&mut self, before: &str, line: &str) {
        if is_fused(before, line) {
            self.fused += 1;
            return;
        }
        self.lines.push_str(&repaired(line));
        self.lines.push('\n');
    }
}

/// True for `aese v0.16b, v1.16b` and `aesmc v0.16b, v0.16b` behind it, and for their counterparts that decrypt: all these cores do such a pair as one instruction, with the
/// latency of the first (LLVM's feature `fuse-aes` of each of them), and llvm-mca does not know it.
fn is_fused(before: &str, line: &str) -> bool {
    let parts = |line: &str| -> Option<[String; 3]> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, to, from] = words[..] else {
            return None;
        };
        Some([name, to.trim_end_matches(','), from].map(str::to_owned))
    };
    let (Some([first, state, _]), Some([second, to, from])) = (parts(before), parts(line)) else {
        return false;
    };
    let is_pair = matches!(
        (first.as_str(), second.as_str()),
        ("aese", "aesmc") | ("aesd", "aesimc")
    );
    is_pair && state == to && to == from
}

/// `ldr q0, [x1], #16` as `ldr q0, [x1, #16]!`, which does the same work: the models of the Cortex-A57 and the Neoverse N2 have the address of the first
/// only when the load ends, of registers for vectors alone, so that loops with it would take five times as long as they do.
fn repaired(line: &str) -> Cow<'_, str> {
    let is_of_vectors = |to: &str| to.starts_with(['b', 'h', 's', 'd', 'q']);
    let parts = line.split_once("], #").and_then(|(before, by)| {
        let loaded = before.trim_start().strip_prefix("ldr\t")?;
        is_of_vectors(loaded).then_some((before, by))
    });
    match parts {
        Some((before, by)) => format!("{before}, #{by}]!").into(),
        None => line.into(),
    }
}

/// By region: its totals. A region of nothing but unknown instructions is not there.
fn totals(said: &str) -> BTreeMap<usize, Total> {
    let mut totals = BTreeMap::new();
    let (mut at, mut instructions) = (None, 0);
    for line in said.lines() {
        if let Some((_, name)) = line.split_once("Code Region - ") {
            at = name.trim().parse::<usize>().ok();
        }
        let number = |line: &str, name| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        if let Some(count) = number(line, "Instructions:") {
            instructions = count;
        }
        if let (Some(cycles), Some(at)) = (number(line, "Total Cycles:"), at) {
            totals.insert(at, (cycles, instructions));
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_told_apart() {
        let text = "\t.text\n\tudf\t#1\n\tadd\tx0, x0, x1\n\tret\n\tudf\t#2\n\tudf\t#49439\n";
        let texts = apart(text);
        let lines: Vec<&str> = texts.iter().map(|text| text.lines.as_str()).collect();
        assert_eq!(lines, ["\tadd\tx0, x0, x1\n\tret\n", "\tudf\t#49439\n"]);
    }

    #[test]
    fn a_round_of_aes_is_one_instruction() {
        let round = |second: &str| {
            let text = format!("\tudf\t#1\n\taese\tv0.16b, v1.16b\n\t{second}\n");
            apart(&text).remove(0).fused
        };
        assert_eq!(round("aesmc\tv0.16b, v0.16b"), 1);
        for second in [
            "aesmc\tv2.16b, v2.16b",
            "aesmc\tv2.16b, v0.16b",
            "aesimc\tv0.16b, v0.16b",
        ] {
            assert_eq!(round(second), 0, "{second}");
        }
    }

    #[test]
    fn a_load_of_a_vector_has_its_address_at_once() {
        assert_eq!(repaired("\tldr\tq0, [x1], #16"), "\tldr\tq0, [x1, #16]!");
        for line in [
            "\tldr\tx0, [x1], #16",
            "\tldr\tq0, [x1, #16]",
            "\tldrsw\tx0, [x1], #4",
            "\tldp\tq0, q1, [x1], #32",
        ] {
            assert_eq!(repaired(line), line);
        }
    }

    #[test]
    fn a_chain_takes_its_latency_and_work_beside_it_its_throughput() {
        let folder = tempfile::tempdir().expect("a folder");
        let Ok(mut mca) = Mca::find(folder.path()) else {
            println!("skipped: no {ANALYSER}; apt-get install {PACKAGE}");
            return;
        };
        // `mul x0, x0, x1` twice; `add` of registers that nothing else writes, three times; no instruction at all; `ldr q0, [x0], #16`;
        // `aese v0.16b, v1.16b` with `aesmc v0.16b, v0.16b`.
        let codes = [
            "9b017c009b017c00",
            "8b02002a8b02002b8b02002c",
            "ffffffff",
            "3cc10400",
            "4e2848204e286800",
        ];
        let answers = mca.ask("neoverse-n1", &codes).expect("answers");
        // Arm's optimisation guide of the N1: 64 bits multiplied in 4 cycles; three units for whole numbers.
        let near = |answer: Option<Answer>, cycles: f64| {
            answer.is_some_and(|answer| (answer.cycles - cycles).abs() < 0.1)
        };
        assert!(near(answers[0], 8.0), "{answers:?}");
        assert!(near(answers[1], 1.0), "{answers:?}");
        assert_eq!(answers[2], None);
        for model in ["cortex-a57", "neoverse-n1", "neoverse-n2"] {
            let others = mca.ask(model, &codes[3..]).expect("answers");
            assert!(near(others[0], 1.0), "{model}: {others:?}");
            // Its guide has 3 cycles for the A57's, and 2 for the others'.
            let round = if model == "cortex-a57" { 3.0 } else { 2.0 };
            assert!(near(others[1], round), "{model}: {others:?}");
            assert!(others[1].is_some_and(|round| round.instructions == 2.0));
        }
        assert_eq!(answers, mca.ask("neoverse-n1", &codes).expect("as before"));
        let view = mca.view("neoverse-n1", codes[0]).expect("a view");
        assert!(view.contains("mul"), "{view}");
    }
}
