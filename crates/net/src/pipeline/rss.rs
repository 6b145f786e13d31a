//! Receive-side scaling: the shard of a packet, by the hash that network cards use.
//!
//! With a symmetric key both directions of a flow have one hash, so that a shard sees whole flows (S. Woo, K. Park: "Scalable TCP Session Monitoring with
//! Symmetric Receive-side Scaling", KAIST, 2012). As on network cards, fragments have no ports to hash: those of a flow may belong to another
//! shard than its whole packets.

use std::sync::Arc;

use dpb_core::{Buf, Buffers, Operator, SetupError, Span, Stage};

use super::headers::{Fragment, Headers, TCP, UDP, Version};

/// The Toeplitz hash with one key: each bit of the input that is set adds 32 bits of the key, those that start where the bit stands.
#[derive(Clone)]
pub struct Toeplitz {
    key: [u8; KEY_BYTES],
    /// The sum that each value of each half byte of an input adds.
    halves: Box<[[u32; 16]]>,
}

/// Bytes of a key: enough for two IPv6 addresses and two ports.
pub const KEY_BYTES: usize = 40;
/// Bytes of the longest input.
const INPUT_BYTES_MAX: usize = 36;

/// The key of Woo and Park, of which every sixteenth bit is the same.
pub const SYMMETRIC_KEY: [u8; KEY_BYTES] = {
    let mut key = [0x6d; KEY_BYTES];
    let mut i = 1;
    while i < KEY_BYTES {
        key[i] = 0x5a;
        i += 2;
    }
    key
};

/// The key of Microsoft's verification suite ("Verifying the RSS Hash Calculation").
pub const MICROSOFTS_KEY: [u8; KEY_BYTES] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

impl Toeplitz {
    /// The hash with `key`.
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        // The 32 bits of the key that start at bit `at`.
        let window = |at: usize| {
            let byte = |i: usize| u64::from(*key.get(at / 8 + i).unwrap_or(&0));
            let bits = (0..5).fold(0, |bits, i| bits << 8 | byte(i));
            (bits >> (8 - at % 8)) as u32
        };
        let half = |at: usize| {
            let adds = |value: usize| {
                let set = (0..4).filter(|bit| value & (8 >> bit) != 0);
                set.fold(0, |sum, bit| sum ^ window(at * 4 + bit))
            };
            std::array::from_fn(adds)
        };
        Self {
            key,
            halves: (0..INPUT_BYTES_MAX * 2).map(half).collect(),
        }
    }

    /// The hash of `input`.
    ///
    /// # Panics
    /// If that is longer than 36 bytes.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        assert!(input.len() <= INPUT_BYTES_MAX, "as long as a key is for");
        let mut hash = 0;
        for (byte, halves) in input.iter().zip(self.halves.as_chunks::<2>().0) {
            hash ^= halves[0][usize::from(byte >> 4)] ^ halves[1][usize::from(byte & 15)];
        }
        hash
    }

    /// The key.
    pub fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Toeplitz({:02x?})", self.key)
    }
}

/// Spreads packets over shards: by a hash, whose low bits choose an entry of a redirection table.
#[derive(Debug)]
pub struct Sharding {
    toeplitz: Toeplitz,
    table: [u16; TABLE_ENTRIES],
    shards: usize,
    engine: Option<Engine>,
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
        let hash = input(frame).map_or(0, |(input, len)| self.toeplitz.hash(&input[..len]));
        self.of_hash(hash)
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

/// The part of a packet that network cards hash: addresses, and ports if they are there and it is TCP or UDP.
fn input(frame: &[u8]) -> Option<Input> {
    let headers = Headers::of(frame).ok()?;
    let mut input = [0; INPUT_BYTES_MAX];
    let (at, addresses) = match headers.version {
        Version::V4 => (headers.network + 12, 8),
        Version::V6 => (headers.network + 8, 32),
    };
    input[..addresses].copy_from_slice(&frame[at..at + addresses]);
    let has_ports = matches!(headers.protocol, TCP | UDP)
        && headers.fragment == Fragment::Whole
        && headers.end - headers.transport >= 4;
    if !has_ports {
        return Some((input, addresses));
    }
    let ports = &frame[headers.transport..headers.transport + 4];
    input[addresses..addresses + 4].copy_from_slice(ports);
    Some((input, addresses + 4))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn v4(destination: &str, source: &str, ports: Option<[u16; 2]>) -> Vec<u8> {
        let address = |text: &str| text.parse::<Ipv4Addr>().expect("an address").octets();
        let mut input = [address(source), address(destination)].concat();
        let [to, from] = ports.unwrap_or_default();
        if ports.is_some() {
            input.extend([from, to].map(u16::to_be_bytes).concat());
        }
        input
    }

    fn v6(destination: &str, source: &str, ports: Option<[u16; 2]>) -> Vec<u8> {
        let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address").octets();
        let mut input = [address(source), address(destination)].concat();
        let [to, from] = ports.unwrap_or_default();
        if ports.is_some() {
            input.extend([from, to].map(u16::to_be_bytes).concat());
        }
        input
    }

    #[test]
    fn microsofts_verification_suite_holds() {
        let hash = Toeplitz::new(MICROSOFTS_KEY);
        // Destination and its port, source and its port, the hash of addresses, the hash with ports.
        for (destination, to, source, from, addresses, all) in [
            (
                "161.142.100.80",
                1766,
                "66.9.149.187",
                2794,
                0x323e_8fc2,
                0x51cc_c178,
            ),
            (
                "65.69.140.83",
                4739,
                "199.92.111.2",
                14230,
                0xd718_262a,
                0xc626_b0ea,
            ),
            (
                "12.22.207.184",
                38024,
                "24.19.198.95",
                12898,
                0xd2d0_a5de,
                0x5c2b_394a,
            ),
            (
                "209.142.163.6",
                2217,
                "38.27.205.30",
                48228,
                0x8298_9176,
                0xafc7_327f,
            ),
            (
                "202.188.127.2",
                1303,
                "153.39.163.191",
                44251,
                0x5d18_09c5,
                0x10e8_28a2,
            ),
        ] {
            assert_eq!(hash.hash(&v4(destination, source, None)), addresses);
            assert_eq!(hash.hash(&v4(destination, source, Some([to, from]))), all);
        }
        for (destination, to, source, from, addresses, all) in [
            (
                "3ffe:2501:200:3::1",
                1766,
                "3ffe:2501:200:1fff::7",
                2794,
                0x2cc1_8cd5,
                0x4020_7d3d,
            ),
            (
                "ff02::1",
                4739,
                "3ffe:501:8::260:97ff:fe40:efab",
                14230,
                0x0f0c_461c,
                0xdde5_1bbf,
            ),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ] {
            assert_eq!(hash.hash(&v6(destination, source, None)), addresses);
            assert_eq!(hash.hash(&v6(destination, source, Some([to, from]))), all);
        }
    }

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
            let there = sharding.of_one(&frame([from, to], [source, destination]));
            let back = sharding.of_one(&frame([to, from], [destination, source]));
            prop_assert_eq!(there, back);
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
