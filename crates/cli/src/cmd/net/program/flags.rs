//! The flags of programs: [`ProgramFlags`].

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Command, ValueEnum};
use dpb_net::programs::esp::Tunnel;

use super::backends::{Backends, USUAL};
use crate::args;
use crate::cmd::net::app_recognition::operators::Compression;

const PROGRAM: &str = "The program";

/// What programs take, all of them.
#[derive(Clone, Debug, clap::Args)]
pub struct ProgramFlags {
    /// Of every program.
    #[command(flatten)]
    pub common: CommonFlags,
    /// Of `encrypt` and `decrypt`.
    #[command(flatten)]
    pub esp: EspFlags,
    /// Of `nat44`.
    #[command(flatten)]
    pub nat: NatFlags,
    /// Of `firewall`.
    #[command(flatten)]
    pub firewall: FirewallFlags,
    /// Flags of `nat44`, `firewall` and `app-recognition`.
    #[command(flatten)]
    pub flows: FlowFlags,
    /// Flags of `app-recognition`, whose --rules are others than the firewall's.
    #[arg(skip = usual::<RecognitionFlags>())]
    pub recognition: RecognitionFlags,
}

/// What every program takes.
#[derive(Clone, Debug, clap::Args)]
pub struct CommonFlags {
    /// The backend of the operators that stages use: one for all, OPERATOR=NAME for one (lpm4, lpm6, aes-gcm, aes-gcm-decrypt, sha256, deflate, lz4, rxpmatch), with commas between
    #[arg(long, value_name = "TEXT", help_heading = PROGRAM, default_value = USUAL)]
    pub backend: Backends,
    /// Routes, one a line: PREFIX port NUMBER via ETHERNET-ADDRESS [from ETHERNET-ADDRESS] [mtu BYTES]; or generated:N routes, all to the last port
    #[arg(long, value_name = "FILE", help_heading = PROGRAM)]
    pub routes: Option<String>,
    /// Longest IP packet that leaves, in bytes
    #[arg(long, value_name = "COUNT", help_heading = PROGRAM, default_value = "1500", value_parser = args::count)]
    pub mtu: u64,
    /// Packets of a burst, at most
    #[arg(long, value_name = "COUNT", help_heading = PROGRAM, default_value = "32", value_parser = args::count)]
    pub burst: u64,
    /// Bursts in flight on each queue of an operator
    #[arg(long, value_name = "COUNT", help_heading = PROGRAM, default_value = "4", value_parser = args::count)]
    pub depth: u64,
}

/// What `encrypt` and `decrypt` take.
#[derive(Clone, Debug, clap::Args)]
pub struct EspFlags {
    /// ESP's key and salt, 40 or 72 hexadecimal digits; without a file they are made of the seed, which is for measurements alone
    #[arg(long, value_name = "FILE", help_heading = PROGRAM)]
    pub key: Option<PathBuf>,
    /// The first of 256 numbers by which ESP's packets are known
    #[arg(long, value_name = "COUNT", help_heading = PROGRAM, default_value = "4096", value_parser = args::count)]
    pub spi: u64,
    /// The ends of a tunnel, this one first, as 192.0.2.1,198.51.100.1: ESP packs whole packets; without it what stands behind their IP header
    #[arg(long, value_name = "TEXT", help_heading = PROGRAM)]
    pub tunnel: Option<TunnelEnds>,
}

/// What `nat44` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct NatFlags {
    /// The NAT's outside addresses, with commas between [default: 198.51.100.1]
    #[arg(long, value_name = "TEXT", help_heading = PROGRAM, value_delimiter = ',')]
    pub outside: Vec<Ipv4Addr>,
    /// Who may send to an outside port of the NAT
    #[arg(long, help_heading = PROGRAM, value_enum, default_value = "endpoint-independent")]
    pub filtering: FilteringName,
    /// Give inside ports the same outside port where that is free
    #[arg(long, help_heading = PROGRAM)]
    pub keep_ports: bool,
}

/// What `firewall` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct FirewallFlags {
    /// The firewall's rules, one a line: allow|deny PROTOCOL [from PREFIX [port RANGE]] [to PREFIX [port RANGE]], and one `default`; without a file all is allowed
    #[arg(long, value_name = "FILE", help_heading = PROGRAM)]
    pub rules: Option<PathBuf>,
}

/// Flags of `app-recognition`.
#[derive(Clone, Debug, clap::Args)]
pub struct RecognitionFlags {
    /// What is done with packets, by what their flows are: KIND=ACTION, with commas between. What is not named passes
    #[arg(long, value_name = "TEXT", help_heading = PROGRAM, default_value = "tls=hash,http=compress,rule=compress,other=pass")]
    pub policy: String,
    /// The operator that compresses payloads
    #[arg(long, help_heading = PROGRAM, value_enum, default_value = "deflate")]
    pub compression: Compression,
    /// Regular expressions for flows that no reader knows, as Hyperscan's tools have them [default: a few of dpb's own]
    #[arg(long, value_name = "FILE", help_heading = PROGRAM)]
    pub rules: Option<PathBuf>,
}

/// What programs take that know flows.
#[derive(Clone, Debug, clap::Args)]
pub struct FlowFlags {
    /// Flows that a shard's firewall, NAT or recognition knows at most
    #[arg(long, value_name = "COUNT", help_heading = PROGRAM, default_value = "65536", value_parser = args::count)]
    pub flows: u64,
}

/// Flags as they are where none of them is given.
pub fn usual<F: clap::Args>() -> F {
    let matches = F::augment_args(Command::new("dpb")).get_matches_from(["dpb"]);
    F::from_arg_matches(&matches).expect("all of them have a default")
}

/// Who may send to an outside port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FilteringName {
    /// Everybody, while its mapping lives
    EndpointIndependent,
    /// Whoever was sent to
    AddressAndPortDependent,
}

/// The ends of a tunnel, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnds(pub Tunnel);

impl FromStr for TunnelEnds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}`: two addresses of one family, as 192.0.2.1,198.51.100.1");
        let (here, there) = text.split_once(',').ok_or_else(wrong)?;
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| wrong());
        match (address(here)?, address(there)?) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(Self(Tunnel::V4 {
                source,
                destination,
            })),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Self(Tunnel::V6 {
                source,
                destination,
            })),
            _ => Err(wrong()),
        }
    }
}
