//! Programs that are run to be watched: by qemu-user and a plugin, by Valgrind's lackey, by single steps, by the CPU's counters.
//!
//! Each source runs a program to its end and gives what it counted. To know what a part of a program does, run two lengths of it and
//! [subtract](crate::trace::Tally::since). No source sees the kernel or, but for the counters, other processes that the program starts.

mod lackey;
mod mapped;
mod pmu;
mod process;
mod qemu;
mod step;
mod sys;

use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::AtomicBool;

use crate::trace::{Isa, Options, Tally, TraceError};
use process::Process;

/// A way to watch a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The counters of the CPU.
    Pmu,
    /// qemu-user with a plugin, which is compiled when it is needed.
    Qemu,
    /// Valgrind's tool lackey.
    Lackey,
    /// One instruction after another, natively (`ptrace`). Programs of x86-64 alone.
    Step,
}

/// A program, its arguments, and what the environment has besides.
#[derive(Clone, Debug)]
pub struct Program {
    /// The path.
    pub path: OsString,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// Variables beside those of this process.
    pub variables: Vec<(OsString, OsString)>,
    /// The instructions that it consists of.
    pub isa: Isa,
    /// True if it sends itself `SIGUSR1` where single steps are to begin. Without them that would end it.
    pub says_begin: bool,
}

/// The outcome of a program.
#[derive(Debug)]
pub struct Watched {
    /// The counts.
    pub tally: Tally,
    /// The first 64 KiB of what the program wrote to its standard output.
    pub stdout: Vec<u8>,
    /// The source that counted, with its version.
    pub by: String,
}

/// The reason why a program was not watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Something is missing here; what to do about it.
    #[error("{0}")]
    Missing(String),
    /// The program did not end as it should.
    #[error("{0}")]
    Ended(String),
    /// The trace is none.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Somebody said that it is to end.
    #[error("interrupted")]
    Stopped,
}

impl Source {
    /// All of them, the best first: what is measured before what is emulated, what is fast before what is slow.
    pub const ALL: [Self; 4] = [Self::Pmu, Self::Qemu, Self::Lackey, Self::Step];

    /// The name: `pmu`, `qemu`, `lackey`, `step`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pmu => "pmu",
            Self::Qemu => "qemu",
            Self::Lackey => "lackey",
            Self::Step => "step",
        }
    }

    /// Refuses what this source cannot watch here, without running the program.
    ///
    /// # Errors
    /// [`WatchError::Missing`].
    pub fn check(self, isa: Isa) -> Result<(), WatchError> {
        match self {
            Self::Pmu => pmu::check(isa),
            Self::Qemu => qemu::check(isa),
            Self::Lackey => lackey::check(isa),
            Self::Step => step::check(isa),
        }
    }

    /// Runs the program to its end. `stop` is looked at while it runs.
    ///
    /// # Errors
    /// [`WatchError`].
    pub fn watch(
        self,
        program: &Program,
        options: Options,
        stop: &AtomicBool,
    ) -> Result<Watched, WatchError> {
        self.check(program.isa)?;
        match self {
            Self::Pmu => pmu::watch(program, stop),
            Self::Qemu => qemu::watch(program, options, stop),
            Self::Lackey => lackey::watch(program, options, stop),
            Self::Step => step::watch(program, options, stop),
        }
    }

    /// Runs the program as it is when this source watches it, but watches nothing, which takes a tenth of the time: the first 64 KiB of what it writes to
    /// its standard output, from which it is known whether the emulated CPU has what the program needs. `None` where nothing is emulated.
    ///
    /// # Errors
    /// [`WatchError`].
    pub fn rehearse(self, program: &Program) -> Result<Option<Vec<u8>>, WatchError> {
        self.check(program.isa)?;
        let words = match self {
            Self::Pmu | Self::Step => return Ok(None),
            Self::Qemu => qemu::words(program.isa),
            Self::Lackey => lackey::REHEARSED.to_vec(),
        };
        let ended = Process::start(&mut process::command(&words, program))?.end()?;
        ended.check()?;
        Ok(Some(ended.stdout))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
