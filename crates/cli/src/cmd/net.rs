//! `dpb net`: packets. Programs that run on ports, traffic for a system under test, and the measurements of both.

mod generate;
#[allow(dead_code, reason = "verbs below come one by one")]
mod ports;
mod replay;
mod sent;
mod traffic;
pub mod trial;

use clap::Subcommand;

use crate::Globals;
use crate::exit::Failure;

/// Packets: programs on ports, traffic, trials, headroom.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs below `net`, one file each in `net/`, in the order of the help.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
enum Verb {
    /// Send traffic at a rate
    Generate(generate::Args),
    /// Send a capture, at its own times or at a rate
    Replay(replay::Args),
    /// Packets through a system under test: loss and latency at a load, or the highest load without loss
    Trial(trial::Args),
}

/// Runs the verb below.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    match args.verb {
        Verb::Generate(args) => generate::run(args, globals),
        Verb::Replay(args) => replay::run(args, globals),
        Verb::Trial(args) => trial::run(args, globals),
    }
}
