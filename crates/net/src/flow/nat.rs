//! NAT44: many inside addresses behind a few outside ones. The part of one shard.
//!
//! A [`Nat`] says for each packet which addresses and ports it is to have; whoever has the packet writes them. Nothing is shared between shards:
//! the outside port of a packet is chosen so that the card gives its reply to this shard ([`Steering`]). So no two shards ever choose the same.
//!
//! * [`Mapping::EndpointIndependent`] is what RFC 4787 (REQ-1), RFC 5382 (REQ-1) and RFC 5508 (REQ-1) ask for: an inside port has one outside port,
//!   whomever it sends to. The other end of a reply can be anybody, so the card must choose the shard of packets from outside by
//!   their destination alone, and of packets from inside by their source alone ([`HashedEnds`](super::HashedEnds)). Each shard then has ports of
//!   its own, no port is given to two (RFC 4787, REQ-3).
//! * [`Mapping::AddressAndPortDependent`] (a symmetric NAT) maps each connection for itself. Cards may hash both ends, and a port serves as many
//!   connections as have different other ends, which RFC 7857 (section 3) calls port overlapping. Peers behind two such NATs do not find each other.
//!
//! An inside address has always the same outside address (RFC 4787, REQ-2): the one at its number modulo the number of them, on every shard. Inside ports
//! below 1024 get such outside ports as long as there are any (REQ-3a), even ports even ones if asked (REQ-4), the same one if asked and free; else
//! they are drawn at random (RFC 6056), from a seed. Packets in both directions keep a mapping (REQ-6); times are those of [`Timeouts`](super::Timeouts). Hairpinning shows the
//! outside address (REQ-9). Errors of ICMP are translated with the packet that they quote, whoever sends them, and neither keep nor end a
//! mapping (REQ-12; RFC 5508, REQ-3 to 6). Queries of ICMP are mapped by their identifier.
//!
//! A packet of a stranger, where [`Filtering`] lets it in, leaves nothing behind: it begins no session and keeps no mapping, so a sender with many
//! addresses cannot fill the table that inside hosts need (RFC 4787, section 11). The session begins with what the inside host answers.
//!
//! Fragments are refused, the first one too: a NAT that translates them in any order (REQ-14) has to reassemble them, which is to be done before. Protocols
//! other than TCP, UDP and ICMP are refused.

mod behaviour;
mod choice;
mod errors;
mod ports;
#[cfg(test)]
mod tests;

use dpb_core::packet::{TCP, UDP};
use dpb_core::random::SplitMix64;

use super::index::Index;
use super::{
    Direction, Flags, Flow, Found, HashKey, Seen, Slot, Steering, Table, TableError, Tuple, V4,
};
pub use behaviour::{
    Behaviour, Filtering, Mapping, NatError, NatStats, Packet, Realm, Refusal, Translated,
    TranslatedError,
};
use ports::Ports;

/// The NAT of one shard. See [the module](self).
pub struct Nat<S> {
    behaviour: Behaviour,
    addresses: Vec<u32>,
    steering: S,
    shard: usize,
    /// By the tuple that a session has inside.
    sessions: Table<2>,
    /// The mapping of each session, by its slot.
    mapping_of: Vec<u32>,
    mappings: Vec<Mapped>,
    free: Vec<u32>,
    by_inside: Index<V4>,
    by_outside: Index<V4>,
    hash_key: HashKey,
    /// Of each address those of TCP, UDP and ICMP. None where ports are not a shard's own.
    ports: Vec<[Ports; 3]>,
    random: SplitMix64,
    stats: NatStats,
    /// Memory that calls reuse.
    found: Vec<Found>,
    over: Vec<Flow<2>>,
}

/// An address and a port.
type End = (u32, u16);

/// An inside port and its outside port.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    inside: End,
    outside: End,
    /// The other end, as it is seen; nobody where the mapping does not depend on it.
    remote: End,
    protocol: u8,
    sessions: u32,
}

const NOBODY: End = (0, 0);
const ICMP: u8 = 1;

impl Mapped {
    fn inside_key(&self) -> V4 {
        V4::of_ends(self.inside, self.remote, self.protocol)
    }

    fn outside_key(&self) -> V4 {
        V4::of_ends(self.outside, self.remote, self.protocol)
    }
}

impl<S: Steering> Nat<S> {
    /// The NAT of shard number `shard`, for so many `sessions` behind `addresses`. `steering` is that of the card that packets from outside come by. All
    /// shards have the same addresses in the same order, and each a `seed` of its own.
    ///
    /// # Errors
    /// [`NatError`].
    pub fn new(
        behaviour: Behaviour,
        addresses: Vec<u32>,
        sessions: usize,
        steering: S,
        shard: usize,
        seed: u64,
    ) -> Result<Self, NatError> {
        if addresses.is_empty() {
            return Err(NatError::NoAddress);
        }
        let mut random = SplitMix64::new(seed);
        let (of_sessions, hash_key) = (
            HashKey::new(random.next_u64()),
            HashKey::new(random.next_u64()),
        );
        let table = Table::new(sessions, of_sessions, behaviour.timeouts)?;
        let index = || Index::new(sessions).ok_or(TableError::Memory(sessions));
        let ports_of = |address: u32, protocol| {
            Ports::new(|port| {
                let reply = reply_to((address, port), NOBODY, protocol);
                behaviour.ports.contains(&port) && steering.shard(&reply) == shard
            })
        };
        let ports = match behaviour.mapping {
            Mapping::AddressAndPortDependent => Vec::new(),
            Mapping::EndpointIndependent => (addresses.iter())
                .map(|address| [TCP, UDP, ICMP].map(|protocol| ports_of(*address, protocol)))
                .collect(),
        };
        let unused = Mapped {
            inside: NOBODY,
            outside: NOBODY,
            remote: NOBODY,
            protocol: 0,
            sessions: 0,
        };
        Ok(Self {
            by_inside: index()?,
            by_outside: index()?,
            sessions: table,
            mapping_of: vec![0; sessions],
            mappings: vec![unused; sessions],
            free: (0..sessions as u32).rev().collect(),
            ports,
            behaviour,
            addresses,
            steering,
            shard,
            hash_key,
            random,
            stats: NatStats::default(),
            found: Vec::new(),
            over: Vec::new(),
        })
    }

    /// What was counted.
    pub fn stats(&self) -> NatStats {
        self.stats
    }

    /// The sessions. The key of each has its inside end first: [`Direction::Up`] is outwards, and the key's tuple is that of a packet from inside.
    pub fn sessions(&self) -> &Table<2> {
        &self.sessions
    }

    /// The outside address and port of a session that lives.
    pub fn outside(&self, slot: Slot) -> (u32, u16) {
        self.mappings[self.mapping_of[slot.number()] as usize].outside
    }

    /// Mappings that there are.
    pub fn mappings(&self) -> usize {
        self.mappings.len() - self.free.len()
    }

    /// Says what becomes of each packet from `realm`; appended to `translated`. `ended` gets each session that a packet ends, with its outside end, as
    /// [`Table::burst`] does.
    pub fn burst(
        &mut self,
        realm: Realm,
        packets: &[Packet],
        now_ms: u32,
        translated: &mut Vec<Translated>,
        mut ended: impl FnMut(&Flow<2>, (u32, u16)),
    ) {
        for packet in packets {
            let (own, remote) = ends(realm, &packet.tuple);
            let key = self.mapping_key(own, remote, packet.tuple.protocol);
            let index = match realm {
                Realm::Inside => &self.by_inside,
                Realm::Outside => &self.by_outside,
            };
            index.prefetch(self.hash_key.hash(&key));
        }
        translated.reserve(packets.len());
        for packet in packets {
            let out = match realm {
                _ if packet.is_fragment => Translated::Refused(Refusal::Fragment),
                _ if protocol_index(packet.tuple.protocol).is_none() => {
                    Translated::Refused(Refusal::Protocol)
                }
                Realm::Inside => self.outbound(packet, now_ms, &mut ended),
                Realm::Outside => self.inbound(packet, now_ms, &mut ended),
            };
            match out {
                Translated::To(_) => self.stats.translated += 1,
                Translated::ByShard { .. } => self.stats.by_shard += 1,
                Translated::Refused(why) => self.stats.refused[why as usize] += 1,
            }
            translated.push(out);
        }
        self.stats.offered += packets.len() as u64;
    }

    fn outbound(
        &mut self,
        packet: &Packet,
        now_ms: u32,
        ended: &mut impl FnMut(&Flow<2>, End),
    ) -> Translated {
        let tuple = packet.tuple;
        let (inside, remote) = ends(Realm::Inside, &tuple);
        let is_hairpin = self.addresses.contains(&remote.0);
        // A query to an outside address is for the NAT itself: it names no inside host.
        if is_hairpin && tuple.protocol == ICMP {
            return Translated::Refused(Refusal::Unmapped);
        }
        let key = self.mapping_key(inside, remote, tuple.protocol);
        let mapping = match self.mapping_with_inside(&key) {
            Some(mapping) => mapping,
            None => match self.map(inside, remote, &tuple) {
                Ok(mapping) => mapping,
                Err(instead) => return instead,
            },
        };
        let session = session_of(Realm::Inside, &tuple);
        if !self.count(packet, session, mapping, now_ms, ended) {
            return Translated::Refused(Refusal::Full);
        }
        let outside = self.mappings[mapping as usize].outside;
        let out = with_source(tuple, outside);
        match is_hairpin {
            true => self.hairpin(packet, out, now_ms, ended),
            false => Translated::To(out),
        }
    }

    /// A packet to an outside address comes in again, as if from there.
    fn hairpin(
        &mut self,
        packet: &Packet,
        tuple: Tuple<u32>,
        now_ms: u32,
        ended: &mut impl FnMut(&Flow<2>, End),
    ) -> Translated {
        let shard = self.steering.shard(&tuple);
        if shard != self.shard {
            let realm = Realm::Outside;
            return Translated::ByShard {
                shard,
                realm,
                tuple,
            };
        }
        let again = Packet { tuple, ..*packet };
        let out = self.inbound(&again, now_ms, ended);
        self.stats.hairpinned += u64::from(matches!(out, Translated::To(_)));
        out
    }

    fn inbound(
        &mut self,
        packet: &Packet,
        now_ms: u32,
        ended: &mut impl FnMut(&Flow<2>, End),
    ) -> Translated {
        let (outside, remote) = ends(Realm::Outside, &packet.tuple);
        let key = self.mapping_key(outside, remote, packet.tuple.protocol);
        let Some(mapping) = self.mapping_with_outside(&key) else {
            return Translated::Refused(Refusal::Unmapped);
        };
        let tuple = with_destination(packet.tuple, self.mappings[mapping as usize].inside);
        let session = session_of(Realm::Outside, &tuple);
        if self.sessions.get(&session.0, now_ms).is_some() {
            let is_counted = self.count(packet, session, mapping, now_ms, ended);
            debug_assert!(is_counted, "the session is there");
            return Translated::To(tuple);
        }
        let asks = match packet.flags {
            Some(flags) => flags.has(Flags::SYN) && !flags.has(Flags::ACK),
            None => true,
        };
        if !(self.lets_strangers_in() && asks) {
            return Translated::Refused(Refusal::Filtered);
        }
        self.stats.unsolicited += 1;
        Translated::To(tuple)
    }

    /// True if anybody may send to a mapping.
    fn lets_strangers_in(&self) -> bool {
        self.behaviour.filtering == Filtering::EndpointIndependent
            && self.behaviour.mapping == Mapping::EndpointIndependent
    }

    /// Counts a packet at its session, which it may begin; false if there is no room for that.
    fn count(
        &mut self,
        packet: &Packet,
        (key, direction): (V4, Direction),
        mapping: u32,
        now_ms: u32,
        ended: &mut impl FnMut(&Flow<2>, End),
    ) -> bool {
        let seen = Seen {
            key,
            direction,
            bytes: packet.bytes,
            flags: packet.flags,
        };
        self.found.clear();
        let outside = self.mappings[mapping as usize].outside;
        let mut is_anew = false;
        let on_end = |flow: &Flow<2>| {
            // The same session has the same mapping, which the new session goes on with.
            is_anew = true;
            ended(flow, outside);
        };
        (self.sessions).burst(&[seen], now_ms, &mut self.found, on_end);
        match self.found[..] {
            [Found::Known(_)] => {}
            [Found::New(slot)] => {
                self.mapping_of[slot.number()] = mapping;
                self.mappings[mapping as usize].sessions += u32::from(!is_anew);
            }
            _ => return false,
        }
        self.stats.counted += 1;
        true
    }

    /// Makes a mapping for `inside`; says what becomes of the packet where there can be none.
    fn map(&mut self, inside: End, remote: End, tuple: &Tuple<u32>) -> Result<u32, Translated> {
        let refused = |why| Err(Translated::Refused(why));
        // A mapping without a session would hold a port for nobody.
        if self.sessions.len() == self.sessions.capacity() {
            return refused(Refusal::Full);
        }
        let at = inside.0 as usize % self.addresses.len();
        let chosen = match self.behaviour.mapping {
            Mapping::EndpointIndependent => self.own_port(at, inside.1, tuple.protocol),
            Mapping::AddressAndPortDependent => {
                self.shared_port(at, inside.1, remote, tuple.protocol)
            }
        };
        let outside = match chosen {
            Ok(port) => (self.addresses[at], port),
            Err(None) => return refused(Refusal::NoPort),
            Err(Some(shard)) => {
                return Err(Translated::ByShard {
                    shard,
                    realm: Realm::Inside,
                    tuple: *tuple,
                });
            }
        };
        let remote = self.remote(remote);
        let number = self.free.pop().expect("as many as sessions");
        let mapped = Mapped {
            inside,
            outside,
            remote,
            protocol: tuple.protocol,
            sessions: 0,
        };
        self.mappings[number as usize] = mapped;
        let (inside, outside) = (mapped.inside_key(), mapped.outside_key());
        (self.by_inside).add(self.hash_key.hash(&inside), inside, number);
        (self.by_outside).add(self.hash_key.hash(&outside), outside, number);
        Ok(number)
    }

    /// The other end, as far as mappings depend on it.
    fn remote(&self, remote: End) -> End {
        match self.behaviour.mapping {
            Mapping::EndpointIndependent => NOBODY,
            Mapping::AddressAndPortDependent => remote,
        }
    }

    fn mapping_key(&self, own: End, remote: End, protocol: u8) -> V4 {
        V4::of_ends(own, self.remote(remote), protocol)
    }

    fn mapping_with_inside(&self, key: &V4) -> Option<u32> {
        let is = |number: u32| self.mappings[number as usize].inside_key() == *key;
        self.by_inside.find(self.hash_key.hash(key), key, is)
    }

    fn mapping_with_outside(&self, key: &V4) -> Option<u32> {
        let is = |number: u32| self.mappings[number as usize].outside_key() == *key;
        self.by_outside.find(self.hash_key.hash(key), key, is)
    }

    /// Ends sessions whose time has come, as [`Table::expire`] does, and gives their ports back.
    pub fn expire(&mut self, now_ms: u32, ended: impl FnMut(&Flow<2>, (u32, u16))) {
        let mut over = std::mem::take(&mut self.over);
        self.sessions.expire(now_ms, |flow| over.push(*flow));
        self.release(over, ended);
    }

    /// Looks at all sessions at once.
    pub fn expire_all(&mut self, now_ms: u32, ended: impl FnMut(&Flow<2>, (u32, u16))) {
        let mut over = std::mem::take(&mut self.over);
        self.sessions.expire_all(now_ms, |flow| over.push(*flow));
        self.release(over, ended);
    }

    /// Gives back the mappings of sessions that were their last ones.
    fn release(&mut self, mut over: Vec<Flow<2>>, mut ended: impl FnMut(&Flow<2>, End)) {
        for flow in &over {
            let number = self.mapping_of[flow.slot().number()];
            let mapping = &mut self.mappings[number as usize];
            ended(flow, mapping.outside);
            mapping.sessions -= 1;
            if mapping.sessions == 0 {
                let mapped = *mapping;
                let (inside, outside) = (mapped.inside_key(), mapped.outside_key());
                (self.by_inside).remove(self.hash_key.hash(&inside), &inside, number);
                (self.by_outside).remove(self.hash_key.hash(&outside), &outside, number);
                self.give_back(mapped);
                self.free.push(number);
            }
        }
        over.clear();
        self.over = over;
    }

    fn give_back(&mut self, mapped: Mapped) {
        let (address, port) = mapped.outside;
        let at = mapped.inside.0 as usize % self.addresses.len();
        debug_assert_eq!(self.addresses[at], address);
        if let (Some(ports), Some(of)) = (self.ports.get_mut(at), protocol_index(mapped.protocol)) {
            ports[of].put(port);
        }
    }

    /// Outside ports that are free for inside addresses that share one with `inside`; `None` where ports are not a shard's own.
    pub fn ports_left(&self, inside: u32, protocol: u8) -> Option<u32> {
        let ports = self.ports.get(inside as usize % self.addresses.len())?;
        Some(ports[protocol_index(protocol)?].left())
    }
}

impl<S> std::fmt::Debug for Nat<S> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut nat = to.debug_struct("Nat");
        nat.field("behaviour", &self.behaviour);
        nat.field("shard", &self.shard);
        nat.field("sessions", &self.sessions);
        nat.field("stats", &self.stats).finish_non_exhaustive()
    }
}

/// The end of a packet that is the NAT's side, and the other one. ICMP has an identifier in place of ports, which is of the NAT's side.
fn ends(realm: Realm, tuple: &Tuple<u32>) -> (End, End) {
    let [source, destination] = [0, 1].map(|i| (tuple.addresses[i], tuple.ports[i]));
    let (own, remote) = match realm {
        Realm::Inside => (source, destination),
        Realm::Outside => (destination, source),
    };
    match tuple.protocol {
        ICMP => (own, (remote.0, 0)),
        _ => (own, remote),
    }
}

/// The session of a packet from `realm` that has this tuple inside, and its direction there. The inside end comes first: where two inside ends send to each
/// other, each of them has a session of its own.
fn session_of(realm: Realm, tuple: &Tuple<u32>) -> (V4, Direction) {
    let [source, destination] = [0, 1].map(|i| (tuple.addresses[i], tuple.ports[i]));
    match realm {
        Realm::Inside => (
            V4::of_ends(source, destination, tuple.protocol),
            Direction::Up,
        ),
        Realm::Outside => (
            V4::of_ends(destination, source, tuple.protocol),
            Direction::Down,
        ),
    }
}

fn with_source(tuple: Tuple<u32>, (address, port): End) -> Tuple<u32> {
    Tuple {
        addresses: [address, tuple.addresses[1]],
        ports: match tuple.protocol {
            ICMP => [port; 2],
            _ => [port, tuple.ports[1]],
        },
        ..tuple
    }
}

fn with_destination(tuple: Tuple<u32>, (address, port): End) -> Tuple<u32> {
    Tuple {
        addresses: [tuple.addresses[0], address],
        ports: match tuple.protocol {
            ICMP => [port; 2],
            _ => [tuple.ports[0], port],
        },
        ..tuple
    }
}

/// A packet to `outside` from `remote`.
fn reply_to(outside: End, remote: End, protocol: u8) -> Tuple<u32> {
    let from_remote = Tuple {
        addresses: [remote.0, 0],
        ports: [remote.1, 0],
        protocol,
    };
    with_destination(from_remote, outside)
}

/// The number of a protocol that is translated.
fn protocol_index(protocol: u8) -> Option<usize> {
    [TCP, UDP, ICMP].iter().position(|it| *it == protocol)
}
