//! The packets that all sides get, and what is right for them.

use std::collections::HashMap;

use dpb_core::random::SplitMix64;
use dpb_net::flow::{Seen, Tuple};
use serde::Deserialize;

/// What a burst does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    Count,
    Churn,
    OnePacket,
    Program,
}

impl Work {
    /// As the definitions and the command line have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Churn => "churn",
            Self::OnePacket => "one-packet",
            Self::Program => "program",
        }
    }
}

/// A key as peers have it: addresses, ports, protocol, zeroes.
pub(crate) type Key = [u8; KEY_BYTES];
pub(crate) const KEY_BYTES: usize = 16;
/// Bytes of every packet.
pub(crate) const BYTES: u32 = 64;

/// A burst, and the flows that end after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packets {
    pub(crate) seen: Vec<Seen<2>>,
    pub(crate) keys: Vec<Key>,
    pub(crate) ending: Vec<Seen<2>>,
    pub(crate) ending_keys: Vec<Key>,
}

impl Packets {
    fn push(&mut self, flow: u32) {
        self.seen.push(seen(flow));
        self.keys.push(key(flow));
    }

    fn end(&mut self, flow: u32) {
        self.ending.push(seen(flow));
        self.ending_keys.push(key(flow));
    }
}

/// Flows, of which those from `oldest` to `next` live.
pub(crate) struct Traffic {
    oldest: u32,
    next: u32,
    work: Work,
    random: SplitMix64,
    counted: HashMap<u32, u64>,
}

impl Traffic {
    /// With 95 of a hundred flows.
    pub(crate) fn new(flows: usize, work: Work) -> Self {
        let next = (flows * 95 / 100) as u32;
        Self {
            oldest: 0,
            next,
            work,
            random: SplitMix64::new(1),
            counted: (0..next).map(|flow| (flow, 1)).collect(),
        }
    }

    /// A packet of each flow that there is from the start.
    pub(crate) fn first(&self) -> Packets {
        let mut packets = Packets::default();
        (self.oldest..self.next).for_each(|flow| packets.push(flow));
        packets
    }

    /// The next bursts, of so many packets together.
    pub(crate) fn bursts(&mut self, packets: usize, burst: usize) -> Vec<Packets> {
        (0..packets / burst).map(|_| self.burst(burst)).collect()
    }

    fn burst(&mut self, len: usize) -> Packets {
        let mut packets = Packets::default();
        for i in 0..len {
            let begins = match self.work {
                // A program's packets are frames, made elsewhere.
                Work::Count | Work::Program => false,
                Work::Churn => true,
                Work::OnePacket => i % 2 == 0,
            };
            let flow = match begins {
                true => {
                    self.next += 1;
                    self.next - 1
                }
                // Not of those that end with this burst.
                false => {
                    let first = self.oldest + len as u32;
                    first + self.random.below((self.next - first) as usize) as u32
                }
            };
            *self.counted.entry(flow).or_default() += 1;
            packets.push(flow);
            if begins {
                packets.end(self.oldest);
                self.counted.remove(&self.oldest);
                self.oldest += 1;
            }
        }
        packets
    }

    /// The packets of each flow that lives.
    pub(crate) fn counted(&self) -> Vec<(Key, u64)> {
        let live = self.oldest..self.next;
        live.map(|flow| (key(flow), self.counted[&flow])).collect()
    }
}

fn tuple(flow: u32) -> Tuple<u32> {
    let mut random = SplitMix64::new(u64::from(flow));
    let (hosts, ports) = (random.next_u64(), random.next_u64());
    Tuple {
        addresses: [0x0a00_0000 | hosts as u32 & 0xff_ffff, (hosts >> 32) as u32],
        ports: [ports as u16, (ports >> 16) as u16],
        protocol: 17,
    }
}

fn seen(flow: u32) -> Seen<2> {
    let (key, direction) = tuple(flow).key();
    Seen {
        key,
        direction,
        bytes: BYTES,
        flags: None,
    }
}

fn key(flow: u32) -> Key {
    let tuple = tuple(flow);
    let mut key = [0; KEY_BYTES];
    let parts = (tuple.addresses.iter().flat_map(|it| it.to_be_bytes()))
        .chain(tuple.ports.iter().flat_map(|it| it.to_be_bytes()))
        .chain([tuple.protocol]);
    for (byte, part) in key.iter_mut().zip(parts) {
        *byte = part;
    }
    key
}

/// The packet of a flow that has this key.
pub(crate) fn seen_of(key: &Key) -> Seen<2> {
    let word = |at: usize| u32::from_be_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
    let tuple = Tuple {
        addresses: [word(0), word(4)],
        ports: [(word(8) >> 16) as u16, word(8) as u16],
        protocol: key[12],
    };
    let (key, direction) = tuple.key();
    Seen {
        key,
        direction,
        bytes: BYTES,
        flags: None,
    }
}
