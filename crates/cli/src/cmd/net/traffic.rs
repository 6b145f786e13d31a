//! Flags that say what traffic is: lengths of frames, flows, addresses, what flows say, and when packets are due.
//!
//! Sizes on a command line and in records are those of frames **with** their check sequence, as testers say them: 64 is Ethernet's shortest
//! frame. Buffers, and [`Sizes`], have four bytes less.

mod captured;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use clap::ValueEnum;
use dpb_core::measure::{Record, Value};
use dpb_net::traffic::application::{Application, Applications};
use dpb_net::traffic::{
    Addresses, FCS_BYTES, FRAME_BYTES_MAX, Flows, Generator, Layer, Lengths, Link, Mix, Mixture,
    Profile, Schedule, Sizes, Traffic, TrafficError,
};

use crate::args::{self, List};
use crate::exit::Failure;
pub(super) use captured::captured;

/// The heading of these flags in the help.
pub(super) const TRAFFIC: &str = "The traffic";
/// The heading of departures and rates.
pub(super) const LOAD: &str = "The load";

/// Lengths of frames, as a command line and a record name them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Size {
    name: String,
    sizes: Sizes,
}

/// The traffic that is asked for: each combination of sizes and flows is a test.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TrafficFlags {
    /// Bytes of a frame on the wire, with its check sequence: 64 is Ethernet's shortest. Or a mix: imix-csit, imix-csit-older, imix-trex,
    /// imix-ip-7-4-1; imix-csit-from-84 has no frame below 84; uniform-64-1518; imix-genome-aag by RFC 6985's letters
    #[arg(long, value_name = "FRAMES", help_heading = TRAFFIC, value_parser = sizes, default_value = "64")]
    size: List<Size>,
    /// Flows that live at the same time
    #[arg(long, value_name = "COUNTS", help_heading = TRAFFIC, value_parser = args::counts, default_value = "1000")]
    flows: List<u64>,
    /// Packets of a flow: endless, agh-campus (as on a campus link: half of the flows have one packet), or a number
    #[arg(long, value_name = "NAME", help_heading = TRAFFIC, default_value = "endless")]
    lengths: FlowLengths,
    /// What flows say: none, today (a mix of TLS, QUIC, HTTP, DNS and others), or applications with weights: tls-1.3=2,dns
    #[arg(long, value_name = "NAMES", help_heading = TRAFFIC, default_value = "none")]
    application: Said,
    /// The protocol above IP, where flows say nothing; both: half of the flows each
    #[arg(long, help_heading = TRAFFIC, value_enum, default_value = "udp")]
    transport: TransportName,
    /// The part of the packets that go from server to client: 0.5, 50%
    #[arg(long, value_name = "SHARE", help_heading = TRAFFIC, value_parser = args::share, default_value = "0")]
    replies: f64,
    #[command(flatten)]
    ends: EndsFlags,
}

/// The ends of flows.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct EndsFlags {
    /// The version of IP; both: half of the flows each
    #[arg(long, help_heading = TRAFFIC, value_enum, default_value = "ipv4")]
    family: FamilyName,
    /// Clients' IPv4 addresses, as a network: those that begin flows
    #[arg(long, value_name = "TEXT", help_heading = TRAFFIC, default_value = "10.0.0.0/16")]
    clients: Network,
    /// Servers' IPv4 addresses
    #[arg(long, value_name = "TEXT", help_heading = TRAFFIC, default_value = "198.18.0.0/22")]
    servers: Network,
    /// The first client's IPv6 address; there are as many as in IPv4
    #[arg(long, value_name = "TEXT", help_heading = TRAFFIC, default_value = "2001:2:0:1::")]
    clients_ipv6: Ipv6Addr,
    /// The first server's IPv6 address; there are as many as in IPv4
    #[arg(long, value_name = "TEXT", help_heading = TRAFFIC, default_value = "2001:2:0:2::")]
    servers_ipv6: Ipv6Addr,
    /// The Ethernet address of clients
    #[arg(long, value_name = "TEXT", help_heading = TRAFFIC, default_value = "02:00:00:00:00:01")]
    client_mac: Mac,
    /// The Ethernet address of servers: of a router under test, that of its port
    #[arg(long, value_name = "TEXT", help_heading = TRAFFIC, default_value = "02:00:00:00:00:02")]
    server_mac: Mac,
    /// Tag frames with this virtual network's number (802.1Q)
    #[arg(long, value_name = "NUMBER", help_heading = TRAFFIC, value_parser = clap::value_parser!(u16).range(..4096))]
    vlan: Option<u16>,
}

/// One combination of the traffic that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen<'a> {
    /// Lengths of frames.
    pub size: &'a Size,
    /// Flows that live at the same time.
    pub flows: u64,
}

/// When packets are due.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ScheduleFlags {
    /// When packets are due: at equal distances, at random (as from many senders), or in bursts
    #[arg(long, help_heading = LOAD, value_enum, default_value = "constant")]
    schedule: ScheduleName,
    /// Packets of a burst
    #[arg(long, value_name = "COUNT", help_heading = LOAD, value_parser = args::count, default_value = "32")]
    schedule_burst: u64,
    /// The rate inside a burst, in the unit of --rate [default: packets of a burst are due at once]
    #[arg(long, value_name = "RATE", help_heading = LOAD, value_parser = args::rate)]
    schedule_peak: Option<f64>,
    /// What a rate counts a second: packets; bits of all that the wire carries, as a link's rate does; bits of frames with check
    /// sequence, as interfaces count; bits of frames without
    #[arg(long, help_heading = LOAD, value_enum, default_value = "packets")]
    unit: Unit,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Unit {
    /// Packets
    Packets,
    /// Bits on the wire: frames, preambles and gaps (layer 1)
    WireBits,
    /// Bits of frames with check sequence (layer 2)
    FrameBits,
    /// Bits of frames without check sequence
    BufferBits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScheduleName {
    Constant,
    Poisson,
    Bursts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FamilyName {
    Ipv4,
    Ipv6,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TransportName {
    Udp,
    Tcp,
    Both,
}

/// Packets of flows, by name.
#[derive(Clone, Debug, PartialEq)]
struct FlowLengths(String, Lengths);

/// Applications of flows, by name.
#[derive(Clone, Debug, PartialEq)]
struct Said(String, Option<Applications>);

/// A network of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    first: u32,
    bits: u32,
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mac([u8; 6]);

impl TrafficFlags {
    /// Each combination, flows innermost.
    pub(super) fn each(&self) -> Vec<Chosen<'_>> {
        let of = |size| self.flows.iter().map(move |&flows| Chosen { size, flows });
        self.size.iter().flat_map(of).collect()
    }

    /// The only combination, for a verb that takes one.
    ///
    /// # Errors
    /// Wrong usage: there are several.
    pub(super) fn one(&self) -> Result<Chosen<'_>, Failure> {
        match self.each()[..] {
            [one] => Ok(one),
            _ => Err(Failure::usage(
                "--size and --flows take one value each here; a mix of sizes has a name, as imix-csit",
            )),
        }
    }

    /// The profile of a combination.
    pub(super) fn profile(&self, seed: u64, chosen: Chosen<'_>) -> Profile {
        Profile {
            flows: Flows {
                lengths: self.lengths.1.clone(),
                ..Flows::endless(chosen.flows)
            },
            tcp_share: match self.transport {
                TransportName::Udp => 0.0,
                TransportName::Tcp => 1.0,
                TransportName::Both => 0.5,
            },
            reply_share: self.replies,
            applications: self.application.1.clone(),
            ..self.ends.profile(seed, chosen.size)
        }
    }

    /// The generator of a combination.
    ///
    /// # Errors
    /// Wrong usage: there is no such traffic.
    pub(super) fn generator(&self, seed: u64, chosen: Chosen<'_>) -> Result<Generator, Failure> {
        let generator = Generator::new(&self.profile(seed, chosen));
        generator.map_err(|error| chosen.size.refused(error))
    }

    /// The record with the parameters of a combination.
    pub(super) fn note(&self, record: Record, chosen: Chosen<'_>) -> Record {
        let record = record
            .with("size", chosen.size.value())
            .with("flows", chosen.flows)
            .with("lengths", self.lengths.0.as_str())
            .with("application", self.application.0.as_str())
            .with("transport", word(self.transport))
            .with("replies", self.replies);
        self.ends.note(record)
    }
}

impl EndsFlags {
    /// A profile of flows with these ends, in frames of this length.
    pub(super) fn profile(&self, seed: u64, size: &Size) -> Profile {
        Profile {
            sizes: size.sizes.clone(),
            addresses: Addresses {
                clients_v4: self.clients.first,
                servers_v4: self.servers.first,
                clients_v6: self.clients_ipv6.to_bits(),
                servers_v6: self.servers_ipv6.to_bits(),
                client_bits: self.clients.bits,
                server_bits: self.servers.bits,
            },
            ipv6_share: match self.family {
                FamilyName::Ipv4 => 0.0,
                FamilyName::Ipv6 => 1.0,
                FamilyName::Both => 0.5,
            },
            link: Link {
                macs: [self.client_mac.0, self.server_mac.0],
                vlan: self.vlan,
            },
            ..Profile::new(seed)
        }
    }

    /// The record with the parameters of the ends.
    pub(super) fn note(&self, record: Record) -> Record {
        let mut record = record
            .with("family", word(self.family))
            .with("clients", self.clients.to_string())
            .with("servers", self.servers.to_string())
            .with("clients_ipv6", self.clients_ipv6.to_string())
            .with("servers_ipv6", self.servers_ipv6.to_string())
            .with("client_mac", self.client_mac.to_string())
            .with("server_mac", self.server_mac.to_string());
        if let Some(vlan) = self.vlan {
            record = record.with("vlan", u64::from(vlan));
        }
        record
    }
}

impl ScheduleFlags {
    /// Departures at `rate`, in the unit that is asked for, of frames that have so many bytes on average, without check sequence.
    pub(super) fn schedule(&self, rate: f64, frame_bytes: f64, seed: u64) -> Schedule {
        let packets_per_s = self.unit.packets_per_s(rate, frame_bytes);
        match self.schedule {
            ScheduleName::Constant => Schedule::constant(packets_per_s),
            ScheduleName::Poisson => Schedule::Poisson {
                packets_per_s,
                seed,
            },
            ScheduleName::Bursts => Schedule::Bursts {
                packets_per_s,
                burst: self.schedule_burst,
                peak_packets_per_s: self.schedule_peak.map_or(f64::INFINITY, |peak| {
                    self.unit.packets_per_s(peak, frame_bytes)
                }),
            },
        }
    }

    /// The record with these parameters.
    pub(super) fn note(&self, record: Record) -> Record {
        let record = record
            .with("schedule", word(self.schedule))
            .with("unit", word(self.unit));
        if self.schedule != ScheduleName::Bursts {
            return record;
        }
        let record = record.with("schedule_burst", self.schedule_burst);
        match self.schedule_peak {
            Some(peak) => record.with("schedule_peak", peak),
            None => record,
        }
    }
}

impl Unit {
    /// A rate in packets a second, of frames that have so many bytes on average, without check sequence.
    pub(super) fn packets_per_s(self, rate: f64, frame_bytes: f64) -> f64 {
        match self.layer() {
            Some(layer) => layer.packets_per_s(rate, frame_bytes),
            None => rate,
        }
    }

    fn layer(self) -> Option<Layer> {
        Some(match self {
            Self::Packets => return None,
            Self::WireBits => Layer::Wire,
            Self::FrameBits => Layer::Frame,
            Self::BufferBits => Layer::Buffer,
        })
    }
}

/// The mean length of the first frames, without check sequence: exact where all are alike, and to a few parts in a thousand for mixes and messages.
pub(super) fn frame_bytes_mean(traffic: &dyn Traffic) -> f64 {
    const FRAMES: u64 = 48 << 10;
    let sum: usize = (0..FRAMES).map(|i| traffic.frame_bytes(i)).sum();
    sum as f64 / FRAMES as f64
}

impl Size {
    /// As records have it: a number of bytes, or a name.
    pub(super) fn value(&self) -> Value {
        match self.name.parse::<u64>() {
            Ok(bytes) => bytes.into(),
            Err(_) => self.name.as_str().into(),
        }
    }

    /// The failure of a command line that asks for traffic in frames of this length, and there is none.
    pub(super) fn refused(&self, error: TrafficError) -> Failure {
        Failure::usage(match error {
            TrafficError::TooShort { kind, needed, .. } => format!(
                "--size {self}: headers and stamp of {kind} take {} bytes with the check sequence; take longer frames, or of a mix its form \
                 with the shortest length, as imix-csit-from-{0}",
                needed + FCS_BYTES
            ),
            TrafficError::Size(bytes) => wrong_length(bytes),
            error => error.to_string(),
        })
    }

    fn fixed(bytes: u64) -> Result<Self, String> {
        Ok(Self {
            name: bytes.to_string(),
            sizes: Sizes::Fixed(without_fcs(bytes)?),
        })
    }

    fn named(name: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| unknown(name));
        let sizes = if let Some(letters) = name.strip_prefix("imix-genome-") {
            Sizes::genome(letters, 1514).map_err(|error| error.to_string())?
        } else if let Some(range) = name.strip_prefix("uniform-") {
            let (min, max) = range.split_once('-').ok_or_else(|| unknown(name))?;
            let (min, max) = (without_fcs(number(min)?)?, without_fcs(number(max)?)?);
            if min > max {
                return Err(format!("`{name}`: the first is the shortest"));
            }
            Sizes::Uniform { min, max }
        } else {
            let (mix, from) = match name.split_once("-from-") {
                Some((mix, from)) => (mix, Some(without_fcs(number(from)?)?)),
                None => (name, None),
            };
            let known = Mix::all().into_iter().find(|known| known.name() == mix);
            let sizes = Sizes::Mix(known.ok_or_else(|| unknown(name))?);
            match from {
                Some(bytes) => sizes.at_least(bytes),
                None => sizes,
            }
        };
        Ok(Self {
            name: name.to_owned(),
            sizes,
        })
    }
}

fn unknown(name: &str) -> String {
    format!(
        "`{name}` is no length of frames; lengths look like 64, 64..1024, imix-csit, imix-csit-from-84, uniform-64-1518, imix-genome-aag; \
         `dpb net generate --help` has the mixes"
    )
}

fn wrong_length(bytes: usize) -> String {
    format!(
        "frames of {} bytes; from 64 to {} with check sequence",
        bytes + FCS_BYTES,
        FRAME_BYTES_MAX + FCS_BYTES
    )
}

/// The length of a frame in a buffer.
fn without_fcs(bytes: u64) -> Result<usize, String> {
    let range = 64..=(FRAME_BYTES_MAX + FCS_BYTES) as u64;
    match range.contains(&bytes) {
        true => Ok(bytes as usize - FCS_BYTES),
        false => Err(format!(
            "a frame of {bytes} bytes; from 64 to {} with check sequence",
            range.end()
        )),
    }
}

/// A list of lengths of frames: bytes, doubling ranges of bytes, and names.
///
/// # Errors
/// A sentence that says which part is wrong.
pub(super) fn sizes(text: &str) -> Result<List<Size>, String> {
    let mut sizes = Vec::new();
    for part in text.split(',').map(str::trim) {
        if part.starts_with(|c: char| c.is_ascii_digit()) {
            for &bytes in &args::sizes(part)? {
                sizes.push(Size::fixed(bytes)?);
            }
        } else {
            sizes.push(Size::named(part)?);
        }
    }
    Ok(List(sizes))
}

impl FromStr for FlowLengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let agh = Mixture::agh_campus();
        let lengths = match text {
            "endless" => Lengths::Endless,
            name if name == agh.name() => Lengths::Mixture(agh),
            number => {
                let packets = args::count(number);
                Lengths::Fixed(packets.map_err(|_| {
                    format!("`{text}` is not endless, agh-campus or a number of packets")
                })?)
            }
        };
        Ok(Self(text.to_owned(), lengths))
    }
}

impl FromStr for Said {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let applications = match text {
            "none" => None,
            "today" => Some(Applications::today()),
            list => Some(Applications {
                name: list.to_owned(),
                shares: list.split(',').map(weighted).collect::<Result<_, _>>()?,
                ..Applications::today()
            }),
        };
        Ok(Self(text.to_owned(), applications))
    }
}

/// An application and its weight: `dns`, `tls-1.3=2`.
fn weighted(text: &str) -> Result<(Application, f64), String> {
    let (name, weight) = text.split_once('=').unwrap_or((text, "1"));
    let known = Application::ALL
        .into_iter()
        .find(|application| application.name() == name.trim());
    let application = known.ok_or_else(|| {
        let names = Application::ALL.map(Application::name).join(", ");
        format!("`{name}` is no application; it may be none, today, or of {names}")
    })?;
    match weight.trim().parse::<f64>() {
        Ok(weight) if weight > 0.0 && weight.is_finite() => Ok((application, weight)),
        _ => Err(format!("`{text}`: a weight is a number above 0")),
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, "32"));
        let address = address.parse::<Ipv4Addr>();
        match (address, prefix.parse::<u32>()) {
            (Ok(address), Ok(prefix @ 8..=32)) => {
                let (first, bits) = (address.to_bits(), 32 - prefix);
                match u64::from(first) & ((1 << bits) - 1) {
                    0 => Ok(Self { first, bits }),
                    _ => Err(format!(
                        "`{text}`: the address has bits behind the first {prefix}"
                    )),
                }
            }
            _ => Err(format!(
                "`{text}` is not a network of up to 2^24 addresses, as 10.0.0.0/16"
            )),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.first), 32 - self.bits)
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let byte = |part: &&str| match part.len() {
            2 => u8::from_str_radix(part, 16).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = parts.iter().map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes
            .ok_or_else(|| format!("`{text}` is not an Ethernet address, as 02:00:00:00:00:01"))?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The word that a command line has for a value.
pub(super) fn word(value: impl ValueEnum) -> String {
    let possible = value.to_possible_value();
    possible.map_or(String::new(), |value| value.get_name().to_owned())
}
