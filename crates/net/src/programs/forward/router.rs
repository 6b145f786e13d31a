//! The stages of a router.

use std::sync::Arc;

use dpb_core::packet::{Version, u16_at};
use dpb_core::{JobError, SetupError};

use crate::packet::{Change, Ends};
use crate::pipeline::{Choice, Mark, Output, Packet, Part, Reason, Stage, each};
use crate::programs::Engine;
use crate::programs::network::{self, Network};

/// The next link of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The port that it leaves by.
    pub egress: u16,
    /// The Ethernet address of the next router, or of the destination.
    pub destination: [u8; 6],
    /// That of the port.
    pub source: [u8; 6],
    /// Longest IP packet that the link takes, in bytes.
    pub mtu: u16,
}

/// The way in which a router finds the next hop of a packet.
#[derive(Clone, Debug)]
pub enum Way {
    /// By the port that it came by: hop `ways[ingress]`.
    Ports(Vec<u32>),
    /// By its destination: `lpm4` and `lpm6`, whose hops are numbers of [`Router::hops`]. Without an operator for its family a packet has no route.
    Routes {
        /// For IPv4.
        v4: Option<Engine>,
        /// For IPv6.
        v6: Option<Engine>,
    },
}

/// A router.
#[derive(Clone, Debug)]
pub struct Router {
    /// The next hops, by number.
    pub hops: Arc<[NextHop]>,
    /// The way in which a packet's is found.
    pub way: Way,
}

/// The hop of an address that has no route, as the operators give it.
const NO_ROUTE: u32 = u32::MAX;

impl Router {
    /// The checksum of an IPv4 header is wrong.
    pub const BAD_CHECKSUM: Reason = Reason("wrong checksum");
    /// Its time to live, or hop limit, is over.
    pub const EXPIRED: Reason = Reason("time to live over");
    /// No route leads to its destination, or to a hop that there is not.
    pub const NO_ROUTE: Reason = Reason("no route");
    /// It was sent to a group or to all, which a router does not forward (RFC 1812, 5.3.4).
    pub const GROUP: Reason = Reason("group address");
    /// An address that no packet on a wire between networks has (RFC 1812, 5.3.7; RFC 4291, 2.5).
    pub const MARTIAN: Reason = Reason("impossible address");
    /// The next link does not take packets so long.
    pub const TOO_LONG: Reason = Reason("longer than the next link takes");

    /// A stage that drops what must not be forwarded, for in front of stages that work on packets before they are routed. [`Router::stages`] begins with
    /// the same.
    pub fn check() -> impl Stage {
        each("check", |mut packet: Packet<'_>| check(&mut packet))
    }

    /// The stages for one shard: check, look up, rewrite. A packet that has its way out already leaves as it is.
    ///
    /// # Errors
    /// If a queue cannot be opened, or an operator is another one.
    pub fn stages(&self) -> Result<Vec<Box<dyn Stage>>, SetupError> {
        let mut stages: Vec<Box<dyn Stage>> = Vec::new();
        match self.way.clone() {
            Way::Ports(ways) => {
                stages.push(Box::new(each("check", move |mut packet: Packet<'_>| {
                    check(&mut packet);
                    let way = ways.get(usize::from(packet.mark.ingress));
                    packet.mark.value = way.copied().unwrap_or(NO_ROUTE);
                })));
            }
            Way::Routes { v4, v6 } => {
                stages.push(Box::new(each("check", |mut packet: Packet<'_>| {
                    check(&mut packet);
                    packet.mark.value = NO_ROUTE;
                })));
                for (version, name, engine) in
                    [(Version::V4, "lpm4", v4), (Version::V6, "lpm6", v6)]
                {
                    let Some(engine) = engine else { continue };
                    let spec = engine.operator.spec();
                    if spec.name() != name {
                        let why = format!("routes need {name}, and {spec} was given");
                        return Err(SetupError::Parameter(why));
                    }
                    stages.push(Box::new(engine.stage(Lookup(version), HOP_BYTES as u32)?));
                }
            }
        }
        let hops = Arc::clone(&self.hops);
        stages.push(Box::new(each(
            "rewrite",
            move |mut packet: Packet<'_>| match hops.get(packet.mark.value as usize) {
                // An earlier stage has said where it goes: to another shard, which routes it.
                _ if packet.mark.egress != Mark::NOWHERE => {}
                Some(hop) => rewrite(&mut packet, hop),
                None => packet.drop_for(Self::NO_ROUTE),
            },
        )));
        Ok(stages)
    }
}

/// Drops what must not be forwarded.
fn check(packet: &mut Packet<'_>) {
    if let Err(reason) = checked(packet.frame) {
        packet.drop_for(reason);
    }
}

fn checked(bytes: &[u8]) -> Result<(), Reason> {
    let frame = network::read(bytes)?;
    let (Some(ends), Some(packet)) = (frame.ends(), frame.ip()) else {
        return Err(Reason::NOT_IP);
    };
    // The lowest bit of the first byte says that it is a group's.
    if bytes[0] & 1 != 0 {
        return Err(Router::GROUP);
    }
    // Of a frame that was read as far as IP this is IPv4's alone.
    if !frame.has_right_checksums() {
        return Err(Router::BAD_CHECKSUM);
    }
    let (hops_left, is_martian) = match ends {
        Ends::V4(addresses) => {
            let is_martian = |address: u32| matches!(address >> 24, 0 | 127 | 224..);
            (packet[8], addresses.into_iter().any(is_martian))
        }
        Ends::V6(addresses) => {
            let is_martian = |address: u128| {
                let (first, is_link_local) = ((address >> 120) as u8, address >> 118 == 0x3fa);
                address <= 1 || first == 0xff || is_link_local
            };
            (packet[7], addresses.into_iter().any(is_martian))
        }
    };
    match hops_left {
        _ if is_martian => Err(Router::MARTIAN),
        ..=1 => Err(Router::EXPIRED),
        _ => Ok(()),
    }
}

/// Writes what changes on the way to the next link. The packet has been checked.
fn rewrite(packet: &mut Packet<'_>, hop: &NextHop) {
    let headers = match Network::of(packet.frame) {
        Ok(headers) => headers,
        Err(reason) => return packet.drop_for(reason),
    };
    if headers.end - headers.start > usize::from(hop.mtu) {
        return packet.drop_for(Router::TOO_LONG);
    }
    let frame = &mut packet.frame[..];
    let header = &mut frame[headers.start..];
    match headers.version {
        Version::V4 => {
            let old = u16_at(header, 8);
            header[8] = header[8].saturating_sub(1);
            let change = Change::of(old, u16_at(header, 8));
            let sum = change.applied(u16_at(header, 10));
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Version::V6 => header[7] = header[7].saturating_sub(1),
    }
    frame[..6].copy_from_slice(&hop.destination);
    frame[6..12].copy_from_slice(&hop.source);
    packet.mark.egress = hop.egress;
}

const HOP_BYTES: usize = 4;

/// The destination of packets of one family, for a table of routes; the others pass by.
struct Lookup(Version);

impl Part for Lookup {
    type Note = ();

    fn item(&mut self, packet: Packet<'_>, (): &mut ()) -> Choice {
        let Ok(headers) = Network::of(packet.frame) else {
            return Choice::None;
        };
        if headers.version != self.0 {
            return Choice::None;
        }
        let (at, len) = match headers.version {
            Version::V4 => (16, 4),
            Version::V6 => (24, 16),
        };
        Choice::Item {
            start: (headers.start + at) as u32,
            len: len as u32,
            room: 0,
        }
    }

    fn output(&mut self, mut packet: Packet<'_>, (): (), output: Result<Output<'_>, JobError>) {
        match output {
            Ok(Output::Beside(bytes)) => match bytes.first_chunk::<HOP_BYTES>() {
                Some(hop) => packet.mark.value = u32::from_le_bytes(*hop),
                None => packet.drop_for(Reason::REFUSED),
            },
            Ok(Output::Within(_)) => packet.drop_for(Reason::REFUSED),
            Err(JobError::Malformed | JobError::DstTooShort) => packet.drop_for(Reason::REFUSED),
            Err(_) => packet.drop_for(Reason::JOB_FAILED),
        }
    }
}
