//! `dpb net`: packets. Programs that run on ports, traffic for a system under test, and the measurements of both.

#[allow(dead_code, reason = "verbs below come one by one")]
mod ports;
#[allow(dead_code, unused_imports, reason = "verbs below come one by one")]
mod program;

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
enum Verb {}

/// Runs the verb below.
pub fn run(args: Args, _globals: &Globals) -> Result<(), Failure> {
    match args.verb {}
}
