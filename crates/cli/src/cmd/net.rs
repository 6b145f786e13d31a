//! `dpb net`: packets. Programs that run on ports, traffic for a system under test, and the measurements of both.

pub mod headroom;
#[allow(dead_code, reason = "verbs below come one by one")]
mod ports;

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
    /// Measure how many cores a system has free for other work while it forwards packets
    Headroom(headroom::Args),
}

/// Runs the verb below.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    match args.verb {
        Verb::Headroom(args) => headroom::run(args, globals),
    }
}
