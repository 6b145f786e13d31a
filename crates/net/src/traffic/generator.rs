//! The generator: a profile, and the frames that follow from it.

use crate::packet::Sum;

use super::application::{ACK, Applications, Catalogue, FIN, PSH, SYN, Segment, Transport};
use super::draw::{draw, threshold};
use super::ends::Plan;
use super::filler::Pad;
use super::frame::{self, Fields, HEADER_BYTES_MAX, Tcp, Template};
use super::stamp::{self, STAMP_BYTES};
use super::{
    Addresses, Ends, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Family, Flows, Link, Member, Population,
    Sizes, Stamp, StampKey, Traffic, TrafficError,
};

/// A segment's payload with the longest headers and the stamp behind them: a frame of 1514 bytes.
const SEGMENT_BYTES_MAX: usize = 1514 - HEADER_BYTES_MAX - STAMP_BYTES;

/// What UDP packets over IPv4 have in place of a checksum; over IPv6 they must have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpChecksum {
    /// The right one.
    #[default]
    Computed,
    /// None: zero.
    Zero,
}

/// Traffic, as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Determines all that is drawn.
    pub seed: u64,
    /// Lengths of frames. With applications, of those that carry no message of a conversation.
    pub sizes: Sizes,
    /// Flows.
    pub flows: Flows,
    /// Where they lead.
    pub addresses: Addresses,
    /// The share of flows that are TCP, if there are no applications.
    pub tcp_share: f64,
    /// The share that is over IPv6.
    pub ipv6_share: f64,
    /// Servers' ports, of which each flow has one, if there are no applications.
    pub ports: Vec<u16>,
    /// The share of packets that go from server to client; of TCP's handshake the second one does, if it is above 0. With applications,
    /// conversations say it, and this share is that of the packets behind them.
    pub reply_share: f64,
    /// UDP's checksum over IPv4.
    pub udp_checksum: UdpChecksum,
    /// Link addresses and a tag.
    pub link: Link,
    /// What flows say, if it means something.
    pub applications: Option<Applications>,
}

impl Profile {
    /// A thousand endless flows of UDP over IPv4, in frames of 60 bytes, one way.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            sizes: Sizes::Fixed(FRAME_BYTES_MIN),
            flows: Flows::endless(1000),
            addresses: Addresses::default(),
            tcp_share: 0.0,
            ipv6_share: 0.0,
            ports: vec![443, 53, 123, 4500, 51_820],
            reply_share: 0.0,
            udp_checksum: UdpChecksum::default(),
            link: Link::default(),
            applications: None,
        }
    }
}

/// Makes the frames of a profile. It is shared by all threads that send and receive.
///
/// A frame ends with a stamp ([`StampKey`]). In most frames the stamp is the end of the payload. The message of a conversation has no room for it: there it lies
/// behind the datagram, as Ethernet's padding does, so a system that trims frames to their datagrams takes it away.
///
/// TCP's sequence numbers go up by the longest payload of a frame with each packet of a flow, so a stream has gaps where frames differ in length.
#[derive(Clone, Debug)]
pub struct Generator {
    sizes: Sizes,
    population: Population,
    plan: Plan,
    ports: Vec<u16>,
    udp_checksum: UdpChecksum,
    catalogue: Option<Catalogue>,
    pad: Pad,
    /// By family, transport and direction, see [`template`].
    templates: Box<[Template; 8]>,
    frame_bytes_max: usize,
    /// Numbers below which a draw has the property. Draws have 32 bits for TCP, 16 for IPv6, 64 for replies.
    tcp_below: u64,
    ipv6_below: u64,
    reply_below: u64,
    keys: Keys,
}

/// What each kind of draw depends on.
#[derive(Clone, Copy, Debug)]
struct Keys {
    sizes: u64,
    flows: u64,
    sequence: u64,
    reply: u64,
}

/// Who sends a packet to whom: what a receiver may hold against what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The packet's place among the flows.
    pub member: Member,
    /// Version of IP.
    pub family: Family,
    /// Layer 4.
    pub transport: Transport,
    /// The two ends of the flow.
    pub ends: Ends,
    /// The server's port.
    pub server_port: u16,
    /// True if the client sends it.
    pub is_from_client: bool,
}

/// The index of a template.
#[inline(always)]
fn template(family: Family, transport: Transport, is_from_client: bool) -> usize {
    usize::from(family == Family::V6) << 2
        | usize::from(transport == Transport::Tcp) << 1
        | usize::from(!is_from_client)
}

impl Generator {
    /// The generator of a profile.
    ///
    /// # Errors
    /// [`TrafficError`].
    pub fn new(profile: &Profile) -> Result<Self, TrafficError> {
        let Profile { seed, sizes, .. } = profile;
        sizes.check()?;
        let key = |n: u64| draw(*seed, n);
        let population = Population::new(&profile.flows, key(0))?;
        let plan = Plan::new(&profile.addresses, population.numbers(), key(1))?;
        for (what, share) in [
            ("TCP", profile.tcp_share),
            ("IPv6", profile.ipv6_share),
            ("replies", profile.reply_share),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(TrafficError::Share { what, share });
            }
        }
        if profile.ports.is_empty() {
            return Err(TrafficError::Ports);
        }
        if let Some(vlan) = profile.link.vlan.filter(|vlan| *vlan >= 1 << 12) {
            return Err(TrafficError::Vlan(vlan));
        }
        let kinds = [Family::V4, Family::V6].into_iter().flat_map(|family| {
            let transports = [Transport::Udp, Transport::Tcp].into_iter();
            transports.flat_map(move |l4| [true, false].map(|client| (family, l4, client)))
        });
        let templates: Vec<Template> = kinds
            .map(|(family, l4, client)| Template::new(&profile.link, family, l4, client))
            .collect();
        let templates: Box<[Template; 8]> = match templates.try_into() {
            Ok(templates) => templates,
            Err(_) => unreachable!("two families, two transports, two directions"),
        };
        let catalogue = match &profile.applications {
            Some(mix) => Some(Catalogue::new(mix, SEGMENT_BYTES_MAX, key(2))?),
            None => None,
        };
        let messages = catalogue.as_ref().map_or(0, |catalogue| {
            catalogue.payload_bytes_max() + HEADER_BYTES_MAX + STAMP_BYTES
        });
        let generator = Self {
            frame_bytes_max: sizes.max().max(messages),
            sizes: sizes.clone(),
            population,
            plan,
            ports: profile.ports.clone(),
            udp_checksum: profile.udp_checksum,
            catalogue,
            pad: Pad::new(key(3)),
            templates,
            tcp_below: (profile.tcp_share * 2f64.powi(32)) as u64,
            ipv6_below: (profile.ipv6_share * 2f64.powi(16)) as u64,
            reply_below: threshold(profile.reply_share),
            keys: Keys {
                sizes: key(4),
                flows: key(5),
                sequence: key(6),
                reply: key(7),
            },
        };
        generator.check_room(profile)?;
        Ok(generator)
    }

    /// Headers and stamp have to fit the shortest frame of every kind of flow that there is.
    fn check_room(&self, profile: &Profile) -> Result<(), TrafficError> {
        let transports = |transport: Transport| match &profile.applications {
            Some(mix) => {
                (mix.shares.iter()).any(|(application, _)| application.transport() == transport)
            }
            None if transport == Transport::Tcp => profile.tcp_share > 0.0,
            None => profile.tcp_share < 1.0,
        };
        let families = |family: Family| match family {
            Family::V4 => profile.ipv6_share < 1.0,
            Family::V6 => profile.ipv6_share > 0.0,
        };
        let bytes = self.sizes.min();
        for (kind, family, transport) in [
            ("UDP over IPv4", Family::V4, Transport::Udp),
            ("TCP over IPv4", Family::V4, Transport::Tcp),
            ("UDP over IPv6", Family::V6, Transport::Udp),
            ("TCP over IPv6", Family::V6, Transport::Tcp),
        ] {
            let template = &self.templates[template(family, transport, true)];
            let needed = template.payload_at() + STAMP_BYTES;
            if families(family) && transports(transport) && bytes < needed {
                return Err(TrafficError::TooShort {
                    kind,
                    bytes,
                    needed,
                });
            }
        }
        Ok(())
    }

    /// Who sends packet `i` to whom.
    #[inline(always)]
    pub fn identity(&self, i: u64) -> Identity {
        self.of(i).0
    }

    /// The conversations of flows, if they have any.
    pub fn catalogue(&self) -> Option<&Catalogue> {
        self.catalogue.as_ref()
    }

    /// Who sends packet `i`, the message of a conversation that it carries, if any, and TCP's numbers.
    #[inline(always)]
    fn of(&self, i: u64) -> (Identity, Option<(&[u8], &Segment)>, Tcp) {
        let member = self.population.of(i);
        let Member { flow, sequence, .. } = member;
        // One draw a flow: 32 bits for the protocol, 16 for the version of IP, 16 for the port.
        let bits = draw(self.keys.flows, flow);
        let family = match bits >> 32 & 0xffff < self.ipv6_below {
            true => Family::V6,
            false => Family::V4,
        };
        let ends = self.plan.ends(flow);
        if let Some(catalogue) = &self.catalogue {
            return self.in_conversation(catalogue, member, family, ends, i);
        }
        let is_tcp = bits & 0xffff_ffff < self.tcp_below;
        let port = ((bits >> 48) * self.ports.len() as u64) >> 16;
        let mut identity = Identity {
            member,
            family,
            transport: Transport::Udp,
            ends,
            server_port: self.ports[port as usize],
            is_from_client: true,
        };
        let is_reply = self.reply_below > 0 && draw(self.keys.reply, i) < self.reply_below;
        let mut tcp = Tcp::default();
        if is_tcp {
            identity.transport = Transport::Tcp;
            let is_answer = self.reply_below > 0 && sequence == 1;
            tcp.flags = match (sequence, member.is_last()) {
                (0, _) => SYN,
                (1, false) if is_answer => SYN | ACK,
                (_, true) => FIN | ACK,
                (_, false) => PSH | ACK,
            };
            // The handshake's three packets have their directions.
            identity.is_from_client = match sequence {
                0 | 2 => true,
                1 => !is_answer,
                _ => !is_reply,
            };
            self.number(&mut tcp, flow, sequence, identity.is_from_client);
        } else {
            // Whoever begins a flow is its client.
            identity.is_from_client = sequence == 0 || !is_reply;
        }
        (identity, None, tcp)
    }

    /// Sequence numbers of TCP behind those of a handshake.
    #[inline(always)]
    fn number(&self, tcp: &mut Tcp, flow: u64, sequence: u64, is_from_client: bool) {
        let [own, other] = self.initial_numbers(flow, is_from_client);
        let step = (self.sizes.max() - self.templates[2].payload_at()) as u32;
        // The first packet counts itself besides its bytes.
        let before = (sequence as u32)
            .wrapping_mul(step)
            .wrapping_add(u32::from(sequence > 0));
        tcp.sequence = own.wrapping_add(before);
        if tcp.flags & ACK != 0 {
            tcp.acknowledgement = other.wrapping_add(before);
        }
    }

    /// Where the sequence numbers of the sender and of the other side begin.
    #[inline(always)]
    fn initial_numbers(&self, flow: u64, is_from_client: bool) -> [u32; 2] {
        let bits = draw(self.keys.sequence, flow);
        let [client, server] = [bits as u32, (bits >> 32) as u32];
        match is_from_client {
            true => [client, server],
            false => [server, client],
        }
    }

    fn in_conversation<'a>(
        &'a self,
        catalogue: &'a Catalogue,
        member: Member,
        family: Family,
        ends: Ends,
        i: u64,
    ) -> (Identity, Option<(&'a [u8], &'a Segment)>, Tcp) {
        let Member { flow, sequence, .. } = member;
        let conversation = catalogue.of(flow);
        let application = conversation.application();
        let segments = conversation.segments();
        let segment = segments.get(usize::try_from(sequence).unwrap_or(usize::MAX));
        let is_reply = self.reply_below > 0 && draw(self.keys.reply, i) < self.reply_below;
        let is_from_client = segment.map_or(!is_reply, |segment| segment.is_from_client);
        let mut tcp = Tcp::default();
        if application.transport() == Transport::Tcp {
            let [own, other] = self.initial_numbers(flow, is_from_client);
            let (at, acknowledged);
            match segment {
                Some(segment) => {
                    tcp.flags = segment.flags;
                    (at, acknowledged) = (segment.sequence, segment.acknowledgement);
                }
                None => {
                    let mut sides = conversation.ends();
                    if !is_from_client {
                        sides.reverse();
                    }
                    let step = (self.sizes.max() - self.templates[2].payload_at()) as u32;
                    let before = ((sequence - segments.len() as u64) as u32).wrapping_mul(step);
                    tcp.flags = if member.is_last() {
                        FIN | ACK
                    } else {
                        PSH | ACK
                    };
                    at = sides[0].wrapping_add(before);
                    acknowledged = sides[1].wrapping_add(before);
                }
            }
            tcp.sequence = own.wrapping_add(at);
            if tcp.flags & ACK != 0 {
                tcp.acknowledgement = other.wrapping_add(acknowledged);
            }
        }
        let identity = Identity {
            member,
            family,
            transport: application.transport(),
            ends,
            server_port: application.port(),
            is_from_client,
        };
        let message = segment.map(|segment| (conversation.payload(segment), segment));
        (identity, message, tcp)
    }

    /// The bytes of a frame that carries a message of a conversation, its padding included.
    #[inline(always)]
    fn message_bytes(template: &Template, segment: &Segment) -> usize {
        let datagram = template.payload_at() + segment.payload.len();
        (datagram + STAMP_BYTES).max(FRAME_BYTES_MIN)
    }
}

impl Traffic for Generator {
    #[inline(always)]
    fn frame_bytes(&self, i: u64) -> usize {
        if self.catalogue.is_some()
            && let (identity, Some((_, segment)), _) = self.of(i)
        {
            let Identity {
                family,
                transport,
                is_from_client,
                ..
            } = identity;
            let template = &self.templates[template(family, transport, is_from_client)];
            return Self::message_bytes(template, segment);
        }
        self.sizes.frame_bytes(self.keys.sizes, i)
    }

    fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    #[inline(always)]
    fn write(&self, i: u64, departure_ns: u64, key: &StampKey, frame: &mut [u8]) {
        let (identity, message, tcp) = self.of(i);
        let Identity {
            family,
            transport,
            ends,
            server_port,
            is_from_client,
            ..
        } = identity;
        let template = &self.templates[template(family, transport, is_from_client)];
        let at = template.payload_at();
        let mut ports = [ends.port, server_port];
        let addresses = match family {
            Family::V4 => {
                let mut both = self.plan.v4(ends);
                if !is_from_client {
                    both.reverse();
                }
                frame::Addresses::V4(both)
            }
            Family::V6 => {
                let mut both = self.plan.v6(ends);
                if !is_from_client {
                    both.reverse();
                }
                frame::Addresses::V6(both)
            }
        };
        if !is_from_client {
            ports.reverse();
        }
        let has_sum = transport == Transport::Tcp
            || family == Family::V6
            || self.udp_checksum == UdpChecksum::Computed;
        let mut stamp = Stamp {
            number: i,
            departure_ns,
            filler_bytes: 0,
        };
        let mut fields = Fields {
            addresses,
            ports,
            tcp,
            payload_sum: None,
        };
        if let Some((payload, segment)) = message {
            let end = at + payload.len();
            fields.payload_sum = has_sum.then_some(segment.sum);
            template.write(frame, end, &fields);
            frame[at..end].copy_from_slice(payload);
            // Padding in front of the stamp, in frames that are short.
            let stamped = frame.len() - STAMP_BYTES;
            frame[end..stamped].fill(0);
            stamp.filler_bytes = stamped - at;
            key.write(stamp, frame);
            return;
        }
        let filler = frame.len() - at - STAMP_BYTES;
        stamp.filler_bytes = filler;
        let words @ (low, high, last) = key.words(stamp);
        if has_sum {
            let mut sum = Sum::of_le(low) + Sum::of_le(high) + Sum::of_le(last.into());
            if filler > 0 {
                if filler % 2 == 1 {
                    sum = sum.at_odd();
                }
                sum = sum + self.pad.payload_sum(i, filler);
            }
            fields.payload_sum = Some(sum);
        }
        let end = frame.len();
        template.write(frame, end, &fields);
        if filler > 0 {
            frame[at..][..filler].copy_from_slice(self.pad.payload(i, filler));
        }
        stamp::put(words, frame);
    }

    #[inline]
    fn has_filler(&self, i: u64, filler: &[u8]) -> bool {
        if self.catalogue.is_some()
            && let (_, Some((payload, _)), _) = self.of(i)
        {
            let parts = filler.split_at_checked(payload.len());
            return parts.is_some_and(|(message, padding)| {
                message == payload && padding.iter().all(|byte| *byte == 0)
            });
        }
        filler.len() <= FRAME_BYTES_MAX && filler == self.pad.payload(i, filler.len())
    }

    fn member(&self, i: u64) -> Option<Member> {
        Some(self.population.of(i))
    }

    fn population(&self) -> Option<&Population> {
        Some(&self.population)
    }
}
