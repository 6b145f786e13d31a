//! How many instructions something takes, by the word of the emulator that runs us, and how many cycles, by that of `cargo xtask bench`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Pid, getpgid};

/// Asking for the group of a process that cannot be, above what the kernel numbers them to, is what the emulator's plugin waits for. Each of these has it write
/// its count of instructions, but the last.
#[derive(Clone, Copy)]
enum Mark {
    /// Nothing else.
    Count = 0x0dbb_0b5e,
    /// Recording of what is executed begins.
    Begin,
    /// It ends.
    End,
    /// What was recorded is written.
    Write,
}

/// Where counts come from.
pub(crate) struct Counter {
    /// The file that the plugin writes to.
    pub(crate) instructions: PathBuf,
    /// The socket that is asked for cycles.
    pub(crate) cycles: Option<PathBuf>,
}

/// What is counted, as `cargo xtask bench` is told.
pub(crate) struct Subject<'a> {
    /// The emulated core.
    pub(crate) core: &'a str,
    /// The row.
    pub(crate) row: &'a str,
    /// The side of it.
    pub(crate) side: &'a str,
    /// True if the row is no control.
    pub(crate) was_asked_for: bool,
}

/// Calls at most until what something learns from its data is learnt.
const CALLS: usize = 16;
/// The share of a call's instructions that the next one may save if it has settled.
const SETTLED: f64 = 0.01;

impl Counter {
    /// Instructions of a call of `run` behind others, when they no longer get fewer: automata make their states as data lead to them.
    ///
    /// # Errors
    /// The file has not got the counts.
    pub(crate) fn of_settled(&self, mut run: impl FnMut()) -> Result<u64> {
        let mut count = self.of(&mut run)?;
        for _ in 1..CALLS {
            let next = self.of(&mut run)?;
            let is_settled = next as f64 >= count as f64 * (1.0 - SETTLED);
            count = next;
            if is_settled {
                break;
            }
        }
        Ok(count)
    }

    /// Instructions of one call of `run`, without those of the calls of the kernel that mark its ends.
    ///
    /// # Errors
    /// The file has not got the three counts, of eight bytes each.
    fn of(&self, run: impl FnOnce()) -> Result<u64> {
        let file = &self.instructions;
        mark(Mark::Count);
        mark(Mark::Begin);
        run();
        mark(Mark::End);
        let mut counts = Vec::new();
        File::open(file)
            .and_then(|mut file| file.read_to_end(&mut counts))
            .with_context(|| file.display().to_string())?;
        let (counts, _) = counts.as_chunks::<8>();
        let [.., first, second, third] = *counts else {
            anyhow::bail!("{}: the emulator has counted nothing", file.display());
        };
        let [first, second, third] = [first, second, third].map(u64::from_le_bytes);
        Ok((third - second).saturating_sub(second - first))
    }

    /// Cycles of the last call that was counted, which took so many instructions, by the models of cores that suit. Without
    /// llvm-mca there are none.
    ///
    /// # Errors
    /// Nobody answers.
    pub(crate) fn cycles(
        &self,
        subject: &Subject<'_>,
        instructions: u64,
    ) -> Result<Vec<(String, u64)>> {
        let Some(socket) = &self.cycles else {
            return Ok(Vec::new());
        };
        mark(Mark::Write);
        let mut answers = String::new();
        ask(socket, subject, instructions, &mut answers)
            .with_context(|| format!("cycles from {}", socket.display()))?;
        let answer = |line: &str| {
            let (model, cycles) = line.split_once('\t')?;
            Some((model.to_owned(), cycles.parse().ok()?))
        };
        let answers = answers.lines().map(answer);
        answers.collect::<Option<_>>().context("no cycles")
    }
}

/// Puts the question that `xtask/src/bench/cycles.rs` says.
fn ask(
    socket: &Path,
    subject: &Subject<'_>,
    instructions: u64,
    answers: &mut String,
) -> std::io::Result<()> {
    let Subject {
        core,
        row,
        side,
        was_asked_for,
    } = subject;
    let mut stream = UnixStream::connect(socket)?;
    writeln!(
        stream,
        "{core}\t{row}\t{side}\t{instructions}\t{was_asked_for}"
    )?;
    stream.read_to_string(answers)?;
    Ok(())
}

/// Not inlined, so that all marks take the same instructions.
#[inline(never)]
fn mark(mark: Mark) {
    // There is no such process; that is the point.
    let _ = getpgid(Pid::from_raw(mark as i32));
}
