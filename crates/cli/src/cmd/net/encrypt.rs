//! `dpb net encrypt` and `dpb net decrypt`: the ends of a connection that is encrypted both ways.

use super::program::{CommonFlags, EspFlags, ProgramFlags, ProgramName, usual};
use super::running;

/// The help's text behind the flags.
pub const HELP: &str = "`encrypt` and `decrypt` are the two ends: packets of encrypt's port 0 come out of decrypt's port 1 as they were, and the other way around; between encrypt's port 1 and \
    decrypt's port 0 they are ESP (RFC 4303) with AES-GCM (RFC 4106). ARP passes in the clear, all else that is not encrypted is dropped there.\n\
    ESP makes a packet up to 37 bytes longer, with a tunnel over IPv4 57, over IPv6 77: hosts need a lower MTU than the link between (ip link set IF mtu 1400), for what is too long is dropped and counted. Nothing negotiates keys: \
    both ends are given the same file, and are started anew together, as sequence numbers start anew. IVs count on from the nanoseconds since 1970 at the start: none comes twice with a key, if an end is one process at a time and the machine's clock does not go back.\n\
    Examples:\n  \
    (umask 077; head -c 20 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' > key)\n  \
    dpb net encrypt --port af-packet:near --port af-packet:far --key key\n  \
    dpb net decrypt --port af-packet:far --port af-packet:near --key key --backend aes-gcm=pool/2";

/// The flags of `encrypt`.
#[derive(Debug, clap::Args)]
pub struct Encrypt {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    esp: EspFlags,
}

/// The flags of `decrypt`.
#[derive(Debug, clap::Args)]
pub struct Decrypt {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    esp: EspFlags,
}

impl running::Flags for Encrypt {
    const PROGRAM: ProgramName = ProgramName::Encrypt;

    fn into_flags(self) -> ProgramFlags {
        of(self.common, self.esp)
    }
}

impl running::Flags for Decrypt {
    const PROGRAM: ProgramName = ProgramName::Decrypt;

    fn into_flags(self) -> ProgramFlags {
        of(self.common, self.esp)
    }
}

fn of(common: CommonFlags, esp: EspFlags) -> ProgramFlags {
    ProgramFlags {
        common,
        esp,
        ..usual()
    }
}
