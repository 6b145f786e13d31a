//! `dpb net`: packets. Programs that run on ports, traffic for a system under test, and the measurements of both.

#[allow(dead_code, reason = "verbs below come one by one")]
mod ports;
#[allow(dead_code, reason = "verbs below come one by one")]
mod traffic;

pub mod app_recognition;
mod end_to_end;
pub mod flow_table;

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
    /// Measure a table of flows, in software or in a model of hardware: throughput and loss
    FlowTable(flow_table::Args),
    /// Measure application recognition: packets hashed, compressed or sent back by what their flows are
    AppRecognition(app_recognition::Args),
}

/// Runs the verb below.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    match args.verb {
        Verb::FlowTable(args) => flow_table::run(args, globals),
        Verb::AppRecognition(args) => app_recognition::run(args, globals),
    }
}
