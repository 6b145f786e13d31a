//! `dpb tied`: becomes another program that dies with the process that started it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::Globals;
use crate::exit::Failure;

/// Become another program that dies with the process that started this one.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process that started this one
    #[arg(long)]
    parent: i32,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    words: Vec<String>,
}

/// Becomes the program.
pub fn run(args: Args, _: &Globals) -> Result<(), Failure> {
    // Kept over an exec, unless the program changes its user.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if Pid::as_raw(getppid()) != args.parent {
        return Err(Failure::interrupted(
            "the process that asked for this one has ended",
        ));
    }
    let (program, rest) = args.words.split_first().expect("clap asks for one");
    let error = Command::new(program).args(rest).exec();
    Err(Failure::unavailable(format!(
        "cannot start {program}: {error}"
    )))
}
