//! Cycles on cores of 64-bit Arm, as llvm-mca's scheduling models have them, of what the bench of peers executes under an emulator.
//!
//! The emulator's plugin writes the blocks of instructions that a call has executed. The bench asks here, through a socket, for the cycles
//! of each side of a row, and keeps them in the row's record. A question is a line of words with tabs between them: the emulated
//! core, the row, the side, the call's instructions, `true` if the row is one that was asked for. The answer is a line for each model, its name and the cycles, until the
//! socket is closed.

mod blocks;
mod mca;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use blocks::Stretch;
use mca::{Answer, Mca};

/// The share of a call's instructions that stretches are asked for, the hottest first.
const COVERED: f64 = 0.95;
/// Below this share of instructions that a model knows there is no estimate.
const COVERED_AT_LEAST: f64 = 0.8;
/// Stretches that are shown of a side, at most.
const SHOWN: usize = 5;

/// Cores that are emulated, and the models that take what libraries and dpb choose there. LLVM has none of the Cortex-A72's or A78's own: it takes
/// the Cortex-A57's for both.
const MODELS: [(&str, &[&str]); 2] = [
    ("cortex-a72", &["cortex-a57", "neoverse-n1"]),
    ("max", &["neoverse-n2"]),
];
/// The models for what runs on any other core.
const ALL_MODELS: &[&str] = &["cortex-a57", "neoverse-n1", "neoverse-n2"];

/// Where the plugin writes, and where questions are answered.
pub(super) struct Cycles {
    /// The file of blocks.
    pub(super) blocks: PathBuf,
    /// The socket.
    pub(super) socket: PathBuf,
}

/// What answers.
struct Answerer {
    mca: Mca,
    blocks: PathBuf,
    shows_loops: bool,
}

/// A question.
struct Question {
    core: String,
    row: String,
    side: String,
    instructions: f64,
    was_asked_for: bool,
}

impl Cycles {
    /// Answers questions from now on, with `shows_loops` also on the terminal. Files lie in `folder`.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn start(folder: &Path, shows_loops: bool) -> Result<Self> {
        let blocks = folder.join("blocks");
        let mca = Mca::find(folder)?;
        // A socket's path must be short, and a checkout's may not be.
        let name = format!("dpb-cycles-{}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        // Of a process of this number that was killed.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).context(socket.display().to_string())?;
        let mut answerer = Answerer {
            mca,
            blocks: blocks.clone(),
            shows_loops,
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(why) = answerer.serve(&stream) {
                    println!("no cycles: {why:#}");
                }
            }
        });
        Ok(Self { blocks, socket })
    }
}

impl Drop for Cycles {
    fn drop(&mut self) {
        // If it stays, it is a name that nothing listens on.
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Answerer {
    fn serve(&mut self, mut stream: &UnixStream) -> Result<()> {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let question = Question::parse(&line).with_context(|| format!("no question: {line}"))?;
        let text = std::fs::read_to_string(&self.blocks)
            .with_context(|| self.blocks.display().to_string())?;
        let stretches = blocks::stretches(&text)?;
        let hottest = hottest(&stretches);
        let mut answer = String::new();
        for model in models(&question.core) {
            let codes: Vec<&str> = hottest.iter().map(|it| it.code.as_str()).collect();
            let answers = self.mca.ask(model, &codes)?;
            if self.shows_loops && question.was_asked_for {
                self.show(&question, model, &stretches, &answers)?;
            }
            match per_instruction(&stretches, &answers) {
                Ok(cycles) => {
                    let _ = writeln!(answer, "{model}\t{:.0}", cycles * question.instructions);
                }
                Err(why) => println!(
                    "no cycles of {}, {}, by {model}'s model: {why:#}",
                    question.row, question.side
                ),
            }
        }
        Ok(stream.write_all(answer.as_bytes())?)
    }

    /// Prints the stretches that take the most cycles, and what llvm-mca says of the first.
    fn show(
        &mut self,
        question: &Question,
        model: &str,
        stretches: &[Stretch],
        answers: &[Option<Answer>],
    ) -> Result<()> {
        let Question {
            core, row, side, ..
        } = question;
        println!("\n{row}, {side}, emulated {core}, by {model}'s model:");
        println!("  instructions of all  times  instructions  cycles each time  function");
        let all = executed(stretches) as f64;
        let cycles = |(stretch, answer): &(&Stretch, &Option<Answer>)| {
            answer.map_or(0.0, |answer| stretch.times() * answer.cycles)
        };
        let mut longest: Vec<_> = stretches.iter().zip(answers).collect();
        longest.sort_by(|a, b| cycles(b).total_cmp(&cycles(a)));
        for (stretch, answer) in longest.iter().take(SHOWN) {
            println!(
                "  {:17.1} %  {:5.0}  {:12}  {:>16}  {}",
                100.0 * stretch.executed as f64 / all,
                stretch.times(),
                stretch.instructions(),
                answer.map_or("?".to_owned(), |it| format!("{:.1}", it.cycles)),
                stretch.symbol
            );
        }
        if let Some((first, _)) = longest.first() {
            println!("\n{}", self.mca.view(model, &first.code)?);
        }
        Ok(())
    }
}

impl Question {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.trim_end().split('\t').collect();
        let [core, row, side, instructions, was_asked_for] = words[..] else {
            return None;
        };
        Some(Self {
            core: core.to_owned(),
            row: row.to_owned(),
            side: side.to_owned(),
            instructions: instructions.parse().ok()?,
            was_asked_for: was_asked_for.parse().ok()?,
        })
    }
}

fn models(core: &str) -> &'static [&'static str] {
    let known = MODELS.iter().find(|(name, _)| *name == core);
    known.map_or(ALL_MODELS, |(_, models)| models)
}

fn executed(stretches: &[Stretch]) -> u64 {
    stretches.iter().map(|stretch| stretch.executed).sum()
}

/// The hottest stretches, up to [`COVERED`] of all.
fn hottest(stretches: &[Stretch]) -> &[Stretch] {
    let wanted = COVERED * executed(stretches) as f64;
    let mut so_far = 0;
    let is_needed = |stretch: &&Stretch| {
        let is_needed = (so_far as f64) < wanted;
        so_far += stretch.executed;
        is_needed
    };
    let count = stretches.iter().take_while(is_needed).count();
    &stretches[..count]
}

/// Cycles of an instruction of the call, by the answers for the first of `stretches`: what the model does not know, and what was not
/// asked for, takes as long as the rest.
///
/// # Errors
/// The model knows too little.
fn per_instruction(stretches: &[Stretch], answers: &[Option<Answer>]) -> Result<f64> {
    let (mut cycles, mut instructions) = (0.0, 0.0);
    for (stretch, answer) in stretches.iter().zip(answers) {
        if let Some(answer) = answer {
            cycles += stretch.times() * answer.cycles;
            instructions += stretch.times() * answer.instructions;
        }
    }
    let share = instructions / executed(stretches) as f64;
    if share < COVERED_AT_LEAST || share.is_nan() {
        bail!("it knows {:.0} % of the instructions", 100.0 * share);
    }
    Ok(cycles / instructions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(code: &str, executed: u64) -> Stretch {
        Stretch {
            symbol: "f".to_owned(),
            code: code.to_owned(),
            executed,
        }
    }

    #[test]
    fn the_hottest_stretches_stand_for_all() {
        let stretches = [
            stretch("0000000100000002", 900),
            stretch("00000003", 60),
            stretch("00000004", 40),
        ];
        assert_eq!(hottest(&stretches), &stretches[..2]);
        let answer = |cycles, instructions| {
            Some(Answer {
                cycles,
                instructions,
            })
        };
        // 450 times 3 cycles and 60 times 1.
        let each = per_instruction(&stretches, &[answer(3.0, 2.0), answer(1.0, 1.0)]);
        assert!((each.expect("known") - 1410.0 / 960.0).abs() < 1e-9);
        // Half of the hottest one's instructions are unknown.
        assert!(per_instruction(&stretches, &[answer(3.0, 1.0), answer(1.0, 1.0)]).is_err());
        assert!(per_instruction(&stretches, &[None, None]).is_err());
        assert!(per_instruction(&[], &[]).is_err());
    }

    #[test]
    fn a_question_has_five_words() {
        let question = Question::parse("max\tcrc32, 1 x 64 B\tisa-l\t120\ttrue\n");
        assert!(question.is_some_and(|it| it.side == "isa-l" && it.was_asked_for));
        assert!(Question::parse("max\tcrc32").is_none());
        assert_eq!(models("max"), ["neoverse-n2"]);
        assert_eq!(models("cortex-a76"), ALL_MODELS);
    }
}
