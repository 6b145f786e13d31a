//! `dpb net forward`: a router or a bridge.

use super::program::{CommonFlags, ProgramFlags, ProgramName, usual};
use super::running;

/// The help's text behind the flags.
pub const HELP: &str = "Without --routes each packet goes from a port to the next, after the last to the first, as it is: a bridge of two ports. With routes it is a router: \
    headers are checked, the time to live goes down, Ethernet addresses are written; what has no route is dropped and counted.\n\
    Checksums that hosts on this machine leave to their devices are computed. A router answers no ARP and sends no ICMP: on an interface with an address of its own the kernel answers for it (sysctl net.ipv4.ip_forward=0 keeps it from forwarding too), \
    and `via` names the next link's Ethernet address. What the kernel has put together (TSO, GRO) is longer than a packet may be, and is lost: \
    `ip link set IF gso_max_segs 1` at a sender on this machine, `ethtool -K IF gro off lro off` on an interface with a wire.\n\
    Examples:\n  \
    dpb net forward --port af-packet:eth1 --port af-packet:eth2\n  \
    dpb net forward --port af-packet:eth1 --port af-packet:eth2 --routes routes.txt --threads 2 --seconds 60\n  \
    dpb net forward --port capture:in.pcap --port capture:,out.pcap --routes routes.txt --backend lpm4=cpu/portable\n\
    routes.txt:\n  \
    10.0.0.0/24      port 0 via 02:00:00:00:00:0a\n  \
    10.0.1.0/24      port 1 via 02:00:00:00:01:0b\n  \
    default          port 1 via 02:00:00:00:01:01 mtu 1400";

/// The flags of this program.
#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    common: CommonFlags,
}

impl running::Flags for Flags {
    const PROGRAM: ProgramName = ProgramName::Forward;

    fn into_flags(self) -> ProgramFlags {
        ProgramFlags {
            common: self.common,
            ..usual()
        }
    }
}
