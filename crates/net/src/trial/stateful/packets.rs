//! Packets of connections: those that begin them, those that go on, and the answers.

use crate::packet::write::{Ethernet, Ipv4, Ipv6, Udp, VlanTag};
use crate::packet::{self, ether_type, protocol};
use crate::traffic::{
    Addresses, Family, Flows, Generator, Identity, Link, Permutation, Profile, STAMP_BYTES, Stamp,
    StampKey, Traffic, TrafficError,
};

/// Bytes of Ethernet's header.
const ETHERNET_BYTES: usize = 14;
/// Bytes of a tag behind it.
const TAG_BYTES: usize = 4;

/// A packet as it came to the responder: its answer is the same with both ends exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Met {
    /// The Ethernet addresses, the destination's first.
    pub(super) macs: [[u8; 6]; 2],
    pub(super) addresses: packet::Ends,
    pub(super) ports: [u16; 2],
}

/// All connections, by their numbers: UDP between addresses and ports that a permutation gives (RFC 4814).
#[derive(Debug)]
pub(super) struct Connections {
    generator: Generator,
    addresses: Addresses,
    link: Link,
}

impl Connections {
    /// So many, of this profile's lengths, addresses, ports and families.
    pub(super) fn new(profile: &Profile, count: u64) -> Result<Self, TrafficError> {
        let mut profile = profile.clone();
        profile.flows = Flows::endless(count);
        (profile.tcp_share, profile.reply_share) = (0.0, 0.0);
        profile.applications = None;
        Ok(Self {
            generator: Generator::new(&profile)?,
            addresses: profile.addresses,
            link: profile.link,
        })
    }

    /// The first packet of a connection, as the initiator sends it.
    fn first(&self, connection: u64) -> Met {
        let Identity {
            family,
            ends,
            server_port,
            ..
        } = self.generator.identity(connection);
        let Addresses {
            clients_v4,
            servers_v4,
            clients_v6,
            servers_v6,
            ..
        } = self.addresses;
        let [client, server] = self.link.macs;
        Met {
            macs: [server, client],
            addresses: match family {
                Family::V4 => {
                    packet::Ends::V4([clients_v4 | ends.client, servers_v4 | ends.server])
                }
                Family::V6 => packet::Ends::V6([
                    clients_v6 | u128::from(ends.client),
                    servers_v6 | u128::from(ends.server),
                ]),
            },
            ports: [ends.port, server_port],
        }
    }
}

/// Which packet belongs to which connection, and who sends it.
pub(super) enum Sending<'a> {
    /// The initiator sends one on each connection from this number on.
    Each(u64),
    /// The initiator sends on so many connections from this number on, round after round, each in another order.
    Rounds(u64, &'a Permutation),
    /// The responder answers on these connections.
    Answers(&'a [Met]),
}

/// The packets of one phase.
pub(super) struct Packets<'a> {
    pub(super) connections: &'a Connections,
    pub(super) sending: Sending<'a>,
}

impl Packets<'_> {
    fn headers(&self, i: u64) -> Met {
        match self.sending {
            Sending::Each(first) => self.connections.first(first + i),
            Sending::Rounds(first, order) => {
                let (round, at) = (i / order.len(), i % order.len());
                self.connections.first(first + order.apply(at, round))
            }
            Sending::Answers(met) => {
                let met = met[i as usize];
                let ([to, from], [a, b]) = (met.macs, met.ports);
                Met {
                    macs: [from, to],
                    addresses: match met.addresses {
                        packet::Ends::V4([a, b]) => packet::Ends::V4([b, a]),
                        packet::Ends::V6([a, b]) => packet::Ends::V6([b, a]),
                    },
                    ports: [b, a],
                }
            }
        }
    }

    /// Writes headers around a payload that is there; `None` if there is no room.
    fn put(&self, met: &Met, frame: &mut [u8]) -> Option<()> {
        let inside = match met.addresses {
            packet::Ends::V4(_) => ether_type::IPV4,
            packet::Ends::V6(_) => ether_type::IPV6,
        };
        let vlan = self.connections.link.vlan;
        let ethernet = Ethernet {
            destination: met.macs[0],
            source: met.macs[1],
            ether_type: vlan.map_or(inside, |_| ether_type::TAG),
        };
        let mut rest = ethernet.put(frame).ok()?;
        if let Some(control) = vlan {
            let tag = VlanTag {
                control,
                ether_type: inside,
            };
            rest = tag.put(rest).ok()?;
        }
        let rest = match met.addresses {
            packet::Ends::V4(addresses) => Ipv4::new(addresses, protocol::UDP).put(rest),
            packet::Ends::V6(addresses) => Ipv6::new(addresses, protocol::UDP).put(rest),
        };
        Udp::new(met.ports)
            .put(rest.ok()?, met.addresses)
            .ok()
            .map(|_| ())
    }
}

/// Bytes of the headers of a packet between these ends.
fn header_bytes(addresses: packet::Ends, vlan: Option<u16>) -> usize {
    let ip = match addresses {
        packet::Ends::V4(_) => 20,
        packet::Ends::V6(_) => 40,
    };
    ETHERNET_BYTES + TAG_BYTES * usize::from(vlan.is_some()) + ip + Udp::BYTES
}

impl Traffic for Packets<'_> {
    fn frame_bytes(&self, i: u64) -> usize {
        self.connections.generator.frame_bytes(i)
    }

    fn frame_bytes_max(&self) -> usize {
        self.connections.generator.frame_bytes_max()
    }

    fn write(&self, i: u64, departure_ns: u64, key: &StampKey, frame: &mut [u8]) {
        let met = self.headers(i);
        let headers = header_bytes(met.addresses, self.connections.link.vlan);
        let end = frame.len() - STAMP_BYTES;
        // The generator has refused frames that are too short.
        let filler = &mut frame[headers..end];
        filler.fill(0);
        let stamp = Stamp {
            number: i,
            departure_ns,
            filler_bytes: filler.len(),
        };
        key.write(stamp, frame);
        let put = self.put(&met, frame);
        debug_assert!(put.is_some(), "{} bytes", frame.len());
    }

    fn has_filler(&self, _: u64, filler: &[u8]) -> bool {
        filler.iter().all(|byte| *byte == 0)
    }
}
