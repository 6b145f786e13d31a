//! `dpb sim`: systems of hosts, cards and a network on virtual time.

mod beside;
mod describe;
mod observed;
mod run;
mod samples;
mod source;
mod tables;

use clap::Subcommand;

use crate::Globals;
use crate::exit::Failure;

/// Simulate a system of hosts, cards and a network
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dpb sim run crates/sim/systems/card.toml")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a system, and say what its applications got and where the time went
    Run(run::Args),
    /// Draw a system, as Graphviz's dot reads it
    Describe(describe::Args),
    /// Lay measured programs on packets beside a model that their own records were fed to
    Beside(beside::Args),
}

/// Runs the verb.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    match args.verb {
        Verb::Run(args) => run::run(&args, globals),
        Verb::Describe(args) => describe::run(&args, globals),
        Verb::Beside(args) => beside::run(&args, globals),
    }
}
