//! `dpb sim`: systems of hosts, cards and a network on virtual time, in one process or several, and on the wall clock with real hosts.

mod beside;
mod counts;
mod describe;
mod join;
mod live;
mod plugin;
pub mod run;
mod samples;
mod settings;
mod source;
mod tables;
mod traces;

use clap::Subcommand;

use crate::Globals;
use crate::exit::Failure;

pub(crate) use settings::names_file;

/// Simulate a system of hosts, cards and a network
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dpb sim run card")]
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
    /// Run the parts of a system that this process has, joined to other simulators over SimBricks' protocol
    Join(join::Args),
    /// Run a system with real hosts, whose packets pass modelled cards as the wall clock goes
    Live(live::Args),
    /// Print the source of the plugin by which QEMU's guests run on virtual time
    Plugin(plugin::Args),
}

/// Runs the verb.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    match args.verb {
        Verb::Run(args) => run::run(&args, globals),
        Verb::Describe(args) => describe::run(&args, globals),
        Verb::Beside(args) => beside::run(&args, globals),
        Verb::Join(args) => join::run(&args, globals),
        Verb::Live(args) => live::run(&args, globals),
        Verb::Plugin(args) => plugin::run(&args),
    }
}
