//! `dpb net`: packets. Programs that run on ports, traffic for a system under test, and the measurements of both.

pub mod app_recognition;
mod bench;
pub mod connections;
mod encrypt;
mod end_to_end;
mod firewall;
pub mod flow_table;
mod forward;
mod generate;
pub mod headroom;
mod nat44;
mod ports;
mod program;
mod recognise;
mod replay;
mod running;
mod sent;
mod traffic;
pub mod trial;

use clap::Subcommand;

use crate::Globals;
use crate::exit::Failure;

/// Packets: programs on ports, traffic, trials, headroom.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: dpb net forward --port af-packet:eth1 --port af-packet:eth2")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs below `net`, one file each in `net/`, in the order of the help.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
enum Verb {
    /// Send packets on, by route or from port to port
    #[command(after_help = format!("{}\n{}", forward::HELP, ports::PORTS_HELP))]
    Forward(running::Args<forward::Flags>),
    /// Translate many inside addresses to a few outside ones
    #[command(after_help = format!("{}\n{}", nat44::HELP, ports::PORTS_HELP))]
    Nat44(running::Args<nat44::Flags>),
    /// Encrypt packets of one port, decrypt those of the other: one end of a connection
    #[command(after_help = format!("{}\n{}", encrypt::HELP, ports::PORTS_HELP))]
    Encrypt(running::Args<encrypt::Encrypt>),
    /// The other end of `encrypt`
    #[command(after_help = format!("{}\n{}", encrypt::HELP, ports::PORTS_HELP))]
    Decrypt(running::Args<encrypt::Decrypt>),
    /// Let packets through by rules, and by the flows that were let through
    #[command(after_help = format!("{}\n{}", firewall::HELP, ports::PORTS_HELP))]
    Firewall(running::Args<firewall::Flags>),
    /// Measure how many cores a system has free for other work while it forwards packets
    Headroom(headroom::Args),
    /// Measure a table of flows, in software or in a model of hardware: throughput and loss
    FlowTable(flow_table::Args),
    /// Measure application recognition: packets hashed, compressed or sent back by what their flows are; `run` does so between ports
    AppRecognition(recognise::Verb),
    /// Send traffic at a rate
    Generate(generate::Args),
    /// Send a capture, at its own times or at a rate
    Replay(replay::Args),
    /// Packets through a system under test: loss and latency at a load, or the highest load without loss
    Trial(trial::Args),
    /// Connections of a NAT or firewall (RFC 9693): how many, how fast they are made and torn down
    Connections(connections::Args),
}

/// Runs the verb below.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    match args.verb {
        Verb::Forward(args) => running::run(args, globals),
        Verb::Nat44(args) => running::run(args, globals),
        Verb::Encrypt(args) => running::run(args, globals),
        Verb::Decrypt(args) => running::run(args, globals),
        Verb::Firewall(args) => running::run(args, globals),
        Verb::Headroom(args) => headroom::run(args, globals),
        Verb::FlowTable(args) => flow_table::run(args, globals),
        Verb::AppRecognition(verb) => recognise::run(verb, globals),
        Verb::Generate(args) => generate::run(args, globals),
        Verb::Replay(args) => replay::run(args, globals),
        Verb::Trial(args) => trial::run(args, globals),
        Verb::Connections(args) => connections::run(args, globals),
    }
}
