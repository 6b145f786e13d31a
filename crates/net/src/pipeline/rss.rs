//! Receive-side scaling: the shard of a packet, by the hash that network cards use.
//!
//! With a symmetric key both directions of a flow have one hash, so that a shard sees whole flows (S. Woo, K. Park: "Scalable TCP Session Monitoring with
//! Symmetric Receive-side Scaling", KAIST, 2012). As on network cards, fragments have no ports to hash: those of a flow may belong to another
//! shard than its whole packets.

use dpb_core::Buf;

use crate::flow::toeplitz::{INPUT_BYTES_MAX, Toeplitz};
use crate::flow::{Steering, Tuple};
use crate::packet::{Ends, Frame, Start, protocol};

/// Spreads packets over shards: by a hash, whose low bits choose an entry of a redirection table.
#[derive(Debug)]
pub struct Sharding {
    toeplitz: Toeplitz,
    table: [u16; TABLE_ENTRIES],
    shards: usize,
}

/// Says which shard a packet belongs to.
pub trait Distributor {
    /// The number of shards.
    fn shards(&self) -> usize;

    /// Appends the shard of each of `frames`, which came by port `ingress`.
    fn spread(&mut self, ingress: u16, frames: &[Buf], shards: &mut Vec<u16>);
}

impl<S: Distributor + ?Sized> Distributor for Box<S> {
    fn shards(&self) -> usize {
        (**self).shards()
    }

    fn spread(&mut self, ingress: u16, frames: &[Buf], shards: &mut Vec<u16>) {
        (**self).spread(ingress, frames, shards);
    }
}

/// The same whatever port a packet came by.
impl Distributor for Sharding {
    fn shards(&self) -> usize {
        self.shards
    }

    fn spread(&mut self, _: u16, frames: &[Buf], shards: &mut Vec<u16>) {
        shards.extend(frames.iter().map(|frame| self.of_one(frame)));
    }
}

/// Entries of the redirection table.
pub const TABLE_ENTRIES: usize = 128;

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
        }
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
}

/// So a program that chooses ports, NAT for one, knows the shard of the reply.
impl Steering for Sharding {
    fn shard(&self, tuple: &Tuple<u32>) -> usize {
        self.of_hash(self.toeplitz.hash_v4(tuple)).into()
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
