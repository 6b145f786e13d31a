//! `dpb net nat44`.

use super::program::{CommonFlags, FlowFlags, NatFlags, ProgramFlags, ProgramName, usual};
use super::running;

/// The help's text behind the flags.
pub const HELP: &str = "Port 0 is inside, the others are outside. An inside address has one outside address, an inside port one outside port, whomever it sends to (RFC 4787); TCP, UDP, queries of ICMP, \
    and errors about those are translated. Fragments and other protocols are dropped and counted.\n\
    The outside addresses are the program's own: no interface may have them, or the kernel answers too; the next router outside needs a route for them. \
    With --routes packets are routed behind the translation, else they leave by the other side's first port with the Ethernet addresses that they have. \
    See `dpb net forward --help` for routes, ARP, and packets that are too long.\n\
    Examples:\n  \
    dpb net nat44 --port af-packet:lan --port af-packet:wan --outside 198.51.100.7,198.51.100.8 --routes routes.txt\n  \
    dpb net nat44 --port capture:in.pcap --port capture:,out.pcap --seed 1";

/// The flags of this program.
#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    nat: NatFlags,
    #[command(flatten)]
    flows: FlowFlags,
}

impl running::Flags for Flags {
    const PROGRAM: ProgramName = ProgramName::Nat44;

    fn into_flags(self) -> ProgramFlags {
        ProgramFlags {
            common: self.common,
            nat: self.nat,
            flows: self.flows,
            ..usual()
        }
    }
}
