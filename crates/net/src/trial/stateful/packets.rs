//! Packets of connections: those that begin them, those that go on, and the answers.

use crate::packet::write::{Envelope, Udp};
use crate::packet::{self, protocol};
use crate::traffic::{
    Addresses, Family, Flows, Generator, Identity, Link, Permutation, Profile, STAMP_BYTES, Stamp,
    StampKey, Traffic, TrafficError,
};

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
    /// `count` connections of this profile's lengths, addresses, ports and families.
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
    /// The initiator sends on the connections from `first` on that `order` permutes, round after round, each in another order; `sent` packets were sent before.
    Rounds {
        first: u64,
        order: &'a Permutation,
        sent: u64,
    },
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
            Sending::Rounds { first, order, sent } => {
                let i = sent + i;
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

    fn envelope(&self, met: &Met) -> Envelope {
        Envelope {
            macs: met.macs,
            tag: self.connections.link.vlan,
            ends: met.addresses,
            protocol: protocol::UDP,
        }
    }
}

/// The shortest frame with these headers and a stamp.
fn bytes_min(envelope: &Envelope) -> usize {
    envelope.bytes() + Udp::BYTES + STAMP_BYTES
}

impl Traffic for Packets<'_> {
    fn frame_bytes(&self, i: u64) -> usize {
        let bytes = self.connections.generator.frame_bytes(i);
        match self.sending {
            // A translator between versions of IP may have made headers longer.
            Sending::Answers(_) => bytes.max(bytes_min(&self.envelope(&self.headers(i)))),
            _ => bytes,
        }
    }

    fn frame_bytes_max(&self) -> usize {
        let bytes = self.connections.generator.frame_bytes_max();
        match self.sending {
            Sending::Answers(met) => {
                let envelopes = met.iter().map(|met| bytes_min(&self.envelope(met)));
                bytes.max(envelopes.max().unwrap_or(0))
            }
            _ => bytes,
        }
    }

    fn write(&self, i: u64, departure_ns: u64, key: &StampKey, frame: &mut [u8]) {
        let met = self.headers(i);
        let envelope = self.envelope(&met);
        let headers = envelope.bytes() + Udp::BYTES;
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
        let datagram = envelope.put(frame);
        let put = datagram.and_then(|datagram| Udp::new(met.ports).put(datagram, met.addresses));
        debug_assert!(put.is_ok(), "{put:?}");
    }

    fn has_filler(&self, _: u64, filler: &[u8]) -> bool {
        filler.iter().all(|byte| *byte == 0)
    }
}
