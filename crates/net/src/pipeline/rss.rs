//! Receive-side scaling: the shard of a packet, by the hash that network cards use.
//!
//! With a symmetric key both directions of a flow have one hash, so that a shard sees whole flows (S. Woo, K. Park: "Scalable TCP Session Monitoring with
//! Symmetric Receive-side Scaling", KAIST, 2012). As on network cards, fragments have no ports to hash: those of a flow may belong to another
//! shard than its whole packets.

use std::sync::Arc;

use dpb_core::{Buf, Buffers, Operator, SetupError, Span, Stage};

use crate::flow::toeplitz::{INPUT_BYTES_MAX, Toeplitz};
use crate::flow::{Steering, Tuple};
use crate::packet::{Ends, Frame, Start, protocol};

/// Spreads packets over shards: by a hash, whose low bits choose an entry of a redirection table.
#[derive(Debug)]
pub struct Sharding {
    toeplitz: Toeplitz,
    table: [u16; TABLE_ENTRIES],
    shards: usize,
    engine: Option<Engine>,
}

/// Says which shard a packet belongs to.
pub trait Spread {
    /// The number of shards.
    fn shards(&self) -> usize;

    /// Appends the shard of each of `frames`, which came by port `ingress`.
    fn spread(&mut self, ingress: u16, frames: &[Buf], shards: &mut Vec<u16>);
}

impl<S: Spread + ?Sized> Spread for Box<S> {
    fn shards(&self) -> usize {
        (**self).shards()
    }

    fn spread(&mut self, ingress: u16, frames: &[Buf], shards: &mut Vec<u16>) {
        (**self).spread(ingress, frames, shards);
    }
}

/// The same whatever port a packet came by.
impl Spread for Sharding {
    fn shards(&self) -> usize {
        self.shards
    }

    fn spread(&mut self, _: u16, frames: &[Buf], shards: &mut Vec<u16>) {
        self.of(frames, shards);
    }
}

/// Entries of the redirection table.
pub const TABLE_ENTRIES: usize = 128;

/// An operator that hashes the tuples of a burst together.
#[derive(Debug)]
struct Engine {
    stage: Stage,
    /// Tuples of IPv4 with ports, one behind another.
    tuples: Buffers,
    /// The packets that those are of.
    packets: Vec<u32>,
}

/// Bytes of a tuple of IPv4 with ports.
const TUPLE_BYTES: usize = 12;
/// The longest input: a tuple of IPv6 with ports.
type Input = ([u8; INPUT_BYTES_MAX], usize);

impl Sharding {
    /// Over `shards` shards, by `toeplitz`; the table has them in turn.
    ///
    /// # Panics
    /// If there is no shard, or there are more than the table has entries.
    pub fn new(toeplitz: Toeplitz, shards: usize) -> Self {
        assert!((1..=TABLE_ENTRIES).contains(&shards), "1 to 128 shards");
        Self {
            toeplitz,
            table: std::array::from_fn(|i| (i % shards) as u16),
            shards,
            engine: None,
        }
    }

    /// With another table, as a controller makes one that moves load from one shard to another. Flows whose entry changes move, too.
    ///
    /// # Panics
    /// If an entry is of no shard.
    #[must_use]
    pub fn with_table(self, table: [u16; TABLE_ENTRIES]) -> Self {
        let is_shard = |shard: &u16| usize::from(*shard) < self.shards;
        assert!(table.iter().all(is_shard), "entries are of shards");
        Self { table, ..self }
    }

    /// Has `operator`, a `toeplitz` of tuples of IPv4 with ports and with the same key, hash bursts of up to `packets_max`. Packets without
    /// such a tuple are hashed here.
    ///
    /// # Errors
    /// If there is no memory, the queue cannot be opened, or the operator gives another hash than this.
    pub fn with_operator(
        mut self,
        operator: Arc<dyn Operator>,
        packets_max: usize,
        alloc: impl Fn(usize) -> Result<Buf, SetupError>,
    ) -> Result<Self, SetupError> {
        let output_bytes = u32::try_from(packets_max * 4).unwrap_or(u32::MAX);
        let name = operator.spec().to_string();
        let mut engine = Engine {
            stage: Stage::new(operator, 1, output_bytes, &alloc)?,
            tuples: alloc(packets_max * TUPLE_BYTES)?.into(),
            packets: Vec::with_capacity(packets_max),
        };
        let probe = std::array::from_fn::<u8, TUPLE_BYTES, _>(|i| (i as u8 + 1) * 19);
        if packets_max > 0 {
            engine.tuples[0][..TUPLE_BYTES].copy_from_slice(&probe);
            let right = self.toeplitz.hash(&probe).to_le_bytes();
            let is_right = engine.hashes(1).is_some_and(|hashes| hashes == right);
            if !is_right {
                let why = format!(
                    "{name} does not hash tuples of IPv4 with ports as the table's key asks: give it form=ipv4-ports, \
                     queues=0 and the key"
                );
                return Err(SetupError::Parameter(why));
            }
        }
        self.engine = Some(engine);
        Ok(self)
    }

    /// The number of shards.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The shard of one packet. What is no IP belongs to the first entry's.
    pub fn of_one(&self, frame: &[u8]) -> u16 {
        self.of_hash(hash_of(&self.toeplitz, frame))
    }

    /// The shard of a hash.
    pub fn of_hash(&self, hash: u32) -> u16 {
        self.table[hash as usize % TABLE_ENTRIES]
    }

    /// Appends the shard of each packet.
    pub fn of(&mut self, frames: &[Buf], shards: &mut Vec<u16>) {
        let Some(mut engine) = self.engine.take() else {
            shards.extend(frames.iter().map(|frame| self.of_one(frame)));
            return;
        };
        let first = shards.len();
        engine.packets.clear();
        for (i, frame) in (0..).zip(frames) {
            let shard = match input(frame) {
                Some((input, TUPLE_BYTES)) if engine.has_room() => {
                    engine.push(i, &input[..TUPLE_BYTES]);
                    0
                }
                Some((input, len)) => self.of_hash(self.toeplitz.hash(&input[..len])),
                None => self.of_hash(0),
            };
            shards.push(shard);
        }
        let packets = std::mem::take(&mut engine.packets);
        match engine.hashes(packets.len()) {
            Some(hashes) => {
                for (packet, hash) in packets.iter().zip(hashes.as_chunks().0) {
                    shards[first + *packet as usize] = self.of_hash(u32::from_le_bytes(*hash));
                }
            }
            // An engine that fails must not mix flows up: the same hash, here.
            None => {
                for packet in &packets {
                    shards[first + *packet as usize] = self.of_one(&frames[*packet as usize]);
                }
            }
        }
        engine.packets = packets;
        self.engine = Some(engine);
    }
}

/// So a program that chooses ports, NAT for one, knows the shard of the reply.
impl Steering for Sharding {
    fn shard(&self, tuple: &Tuple<u32>) -> usize {
        self.of_hash(self.toeplitz.hash_v4(tuple)).into()
    }
}

impl Engine {
    fn has_room(&self) -> bool {
        (self.packets.len() + 1) * TUPLE_BYTES <= self.tuples[0].len()
    }

    fn push(&mut self, packet: u32, tuple: &[u8]) {
        let at = self.packets.len() * TUPLE_BYTES;
        self.tuples[0][at..at + TUPLE_BYTES].copy_from_slice(tuple);
        self.packets.push(packet);
    }

    /// The hashes of the first `tuples` tuples, four bytes each.
    fn hashes(&mut self, tuples: usize) -> Option<&[u8]> {
        if tuples == 0 {
            return Some(&[]);
        }
        let item = Span {
            buf: 0,
            start: 0,
            len: (tuples * TUPLE_BYTES) as u32,
        };
        let outputs = self.stage.run_over(&mut self.tuples, &[item]).ok()?;
        let hashes = outputs.get(0).ok()?;
        (hashes.len() == tuples * 4).then_some(hashes)
    }
}

/// The hash of one packet; zero for what is no IP.
pub(crate) fn hash_of(toeplitz: &Toeplitz, frame: &[u8]) -> u32 {
    input(frame).map_or(0, |(input, len)| toeplitz.hash(&input[..len]))
}

/// The part of a packet that network cards hash: addresses, and ports if they are there and it is TCP or UDP.
fn input(frame: &[u8]) -> Option<Input> {
    let frame = Frame::read_network(frame, Start::Ethernet).ok()?;
    let mut input = [0; INPUT_BYTES_MAX];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        input[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    match frame.ends()? {
        Ends::V4(addresses) => put(addresses.map(u32::to_be_bytes).as_flattened()),
        Ends::V6(addresses) => put(addresses.map(u128::to_be_bytes).as_flattened()),
    }
    let has_ports = matches!(frame.protocol(), Some(protocol::TCP | protocol::UDP));
    if let (true, None, Some(ports)) = (
        has_ports,
        frame.fragment(),
        frame.payload().first_chunk::<4>(),
    ) {
        put(ports);
    }
    Some((input, len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::toeplitz::SYMMETRIC_KEY;

    proptest! {
        /// Both directions of a flow belong to one shard; those of many flows to all.
        #[test]
        fn directions_of_a_flow_stay_together(addresses: [u128; 2], ports: [u16; 2], is_v6: bool, shards in 1_usize..9) {
            let sharding = Sharding::new(Toeplitz::new(SYMMETRIC_KEY), shards);
            let frame = |[from, to]: [u128; 2], [source, destination]: [u16; 2]| {
                let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
                let low = |address: u128| (address as u32).to_be_bytes();
                let builder = match is_v6 {
                    true => builder.ipv6(from.to_be_bytes(), to.to_be_bytes(), 9),
                    false => builder.ipv4(low(from), low(to), 9),
                };
                let mut frame = Vec::new();
                builder.udp(source, destination).write(&mut frame, &[1; 20]).expect("a Vec takes all");
                frame
            };
            let [from, to] = addresses;
            let [source, destination] = ports;
            let frame_there = frame([from, to], [source, destination]);
            let there = sharding.of_one(&frame_there);
            let back = sharding.of_one(&frame([to, from], [destination, source]));
            prop_assert_eq!(there, back);
            if let Some(tuple) = Frame::read(&frame_there).expect("sound").tuple_v4() {
                prop_assert_eq!(sharding.shard(&tuple), usize::from(there));
            }
            prop_assert!(usize::from(there) < shards);
        }
    }

    #[test]
    fn frames_that_are_no_ip_have_a_shard() {
        let sharding = Sharding::new(Toeplitz::new(SYMMETRIC_KEY), 3);
        assert_eq!(sharding.of_one(&[0; 60]), 0);
        assert_eq!(sharding.of_one(&[]), 0);
    }
}
