//! `dpb net app-recognition`: measured, or with `run` between ports as the other programs are.
//!
//! The two share hardly a flag: one has traffic, loads and sides, the other ports and threads. So the second is a verb of its own below the first.

use clap::Subcommand;

use super::program::{CommonFlags, FlowFlags, ProgramFlags, ProgramName, RecognitionFlags, usual};
use super::{app_recognition, ports, running};
use crate::Globals;
use crate::exit::Failure;

const HELP: &str = "Flows are recognised by what they say, and packets go from a port to the next, after the last to the first, as they came: their hashes and what compressing their payloads gives are counted, and \
    put into no packet, so that whoever talks through the program hears what was said. The account has the flows by application and by server's name, packets and bytes that were hashed and compressed, and packets that were sent \
    back. At the end packets that were hashed and compressed are compared with those whose verdict says so, and one output in 61 of the operators is checked.\n\
    A policy has lines KIND=ACTION. A kind is a protocol (tls, quic, http, dns, …), an application (youtube, …), rule, undecided or other; an action is\n  \
    pass      the packet goes on, and nothing else\n  \
    hash      the whole frame is hashed (sha256), and goes on\n  \
    compress  the payload is compressed, and the packet goes on\n  \
    back      the packet leaves by the port that it came by, with its Ethernet addresses exchanged\n  \
    drop      the packet is dropped\n\
    A flow is undecided until enough of it was seen: undecided=back or undecided=drop lets no connection begin, nor ARP. \
    See `dpb net forward --help` for routes, ARP, and packets that are too long.\n\
    Examples:\n  \
    dpb net app-recognition run --port af-packet:lan --port af-packet:wan\n  \
    dpb net app-recognition run --port af-packet:lan --port af-packet:wan --policy tls=hash,youtube=drop,other=pass --rules my.rules --threads 2\n  \
    dpb net app-recognition run --port capture:in.pcap --port capture:,out.pcap --compression lz4 --backend rxpmatch=pool/2";

/// The two ways.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Verb {
    #[command(flatten)]
    measured: app_recognition::Args,
    #[command(subcommand)]
    on_ports: Option<OnPorts>,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
enum OnPorts {
    /// Recognise what goes between ports, until an interrupt, with an account of every packet
    #[command(after_help = format!("{HELP}\n{}", ports::PORTS_HELP))]
    Run(running::Args<Flags>),
}

/// The flags on ports.
#[derive(Debug, clap::Args)]
struct Flags {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    recognition: RecognitionFlags,
    #[command(flatten)]
    flows: FlowFlags,
}

impl running::Flags for Flags {
    const PROGRAM: ProgramName = ProgramName::AppRecognition;

    fn verb() -> String {
        "net app-recognition run".to_owned()
    }

    fn into_flags(self) -> ProgramFlags {
        ProgramFlags {
            common: self.common,
            recognition: self.recognition,
            flows: self.flows,
            ..usual()
        }
    }
}

/// Measures, or runs.
pub fn run(verb: Verb, globals: &Globals) -> Result<(), Failure> {
    match verb.on_ports {
        Some(OnPorts::Run(args)) => running::run(args, globals),
        None => app_recognition::run(verb.measured, globals),
    }
}
