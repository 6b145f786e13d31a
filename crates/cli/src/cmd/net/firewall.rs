//! `dpb net firewall`.

use super::program::{CommonFlags, FirewallFlags, FlowFlags, ProgramFlags, ProgramName, usual};
use super::running;

/// The help's text behind the flags.
pub const HELP: &str = "The first rule that a packet matches decides; a flow that was allowed passes both ways without being looked at again, until it ends or is silent for too long. \
    Frames that are not IP pass, so that neighbours find each other by ARP; IPv6 needs `allow icmp6` for that. Packets leave as with `dpb net forward`.\n\
    Examples:\n  \
    dpb net firewall --port af-packet:outside --port af-packet:inside --rules rules.txt\n  \
    dpb net firewall --port capture:in.pcap --port capture:,out.pcap --rules rules.txt\n\
    rules.txt:\n  \
    allow tcp from any to 192.0.2.0/24 port 443\n  \
    allow udp from 10.0.0.0/8 to any port 53\n  \
    allow icmp\n  \
    default deny";

/// The flags of this program.
#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    firewall: FirewallFlags,
    #[command(flatten)]
    flows: FlowFlags,
}

impl running::Flags for Flags {
    const PROGRAM: ProgramName = ProgramName::Firewall;

    fn into_flags(self) -> ProgramFlags {
        ProgramFlags {
            common: self.common,
            firewall: self.firewall,
            flows: self.flows,
            ..usual()
        }
    }
}
