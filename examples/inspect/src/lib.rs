//! Captures through the operators of an intrusion detection system:
//!
//! 1. `checksum-verify` drops packets that were damaged.
//! 2. `toeplitz` gives each packet's queue for receive-side scaling.
//! 3. `lpm4` and `lpm6` give the next hop of its destination.
//! 4. `rxpmatch` looks for rules in its payload.
//! 5. `sha256` and `deflate` keep the payloads that match.
//!
//! A capture lies in memory whole. Every stage reads its part of each packet there, so that no packet is copied; after the first
//! bursts nothing is allocated, and a stage that works elsewhere is waited for asleep.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use dpb_accel::{doca::Doca, dpdk::Dpdk};
use dpb_core::{Backend, Families, Span, Stage, View};
use dpb_operators::cpu::{Cpu, CpuPaths, Pools};
use dpb_operators::network::checksum::Verdict;
use dpb_operators::network::packet::{Packet, TCP, UDP, Version};
use dpb_operators::registry::{self, Operators};
use dpb_sim::{Faultiness, Models};

/// Packets of a burst.
pub const BURST: usize = 64;
/// Queues that packets are spread over.
pub const QUEUES: usize = 16;
/// Rules that one payload may match; with more it is [refused](Found::refused).
const RULES_MAX: u32 = 32;
/// What is hashed: the addresses, and the ports where they follow.
const TUPLES: [&str; 4] = ["ipv4", "ipv4-ports", "ipv6", "ipv6-ports"];

static CPU: CpuPaths = CpuPaths::new(Operators::DPB);
static POOLS: Pools = Pools::new(Operators::DPB);
static MODELS: Models = Models::new(&best);
static FAULTINESS: Faultiness = Faultiness::new(&best);

/// The backends that the program knows: `cpu`, `cpu/portable`, `pool/2`, `sim/default`, `faulty/`, `doca/`, `dpdk/`.
pub static FAMILIES: Families = Families::new(&[&CPU, &POOLS, &MODELS, &FAULTINESS, &Doca, &Dpdk]);

/// What models and faults take their results from.
fn best() -> Box<dyn Backend> {
    Box::new(Cpu::best())
}

/// What was found so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Packets seen.
    pub packets: u64,
    /// Those without an IP packet in them, or with a broken one.
    pub not_ip: u64,
    /// Those with a wrong checksum.
    pub damaged: u64,
    /// The others, by their queue.
    pub by_queue: [u64; QUEUES],
    /// The same by their next hop; `None`: there is no route.
    pub by_hop: BTreeMap<Option<u32>, u64>,
    /// How many payloads each rule matched, by its id.
    pub by_rule: BTreeMap<u32, u64>,
    /// Payloads that an engine refused, because more rules matched than it can report, say.
    pub refused: u64,
    /// Bytes of payloads that matched, and of their DEFLATE streams.
    pub bytes: [u64; 2],
}

/// The stages, and the places in the capture that they read in a burst.
pub struct Inspector {
    verify: Stage,
    hashes: [Stage; 4],
    routes: [Stage; 2],
    rules: Stage,
    digest: Stage,
    compress: Stage,
    ip: Vec<Span>,
    tuples: [Vec<Span>; 4],
    destinations: [Vec<Span>; 2],
    payloads: Vec<Span>,
    matched: Vec<Span>,
}

impl Inspector {
    /// The stages on these backends: of checksums, hashes, routes, rules, digests and compression. `parameters` are those of `lpm4`,
    /// `lpm6` and `rxpmatch`, as for `dpb op`.
    ///
    /// # Errors
    /// If a backend is not there, or does not have the operator.
    pub fn new(backends: [&str; 6], parameters: [&str; 3]) -> Result<Self> {
        let stage = |at: usize, name, parameters: &str, slot_bytes| -> Result<Stage> {
            let backend = FAMILIES.open(backends[at])?;
            let entry = registry::find(name).context("no such operator")?;
            let operator = backend.prepare(&entry.spec(parameters)?);
            let operator = operator.with_context(|| format!("{name} on {}", backend.name()))?;
            let alloc = |len| backend.alloc(len);
            Ok(Stage::new(operator, BURST, slot_bytes, alloc)?)
        };
        let hash = |form| stage(1, "toeplitz", &format!("form={form},queues={QUEUES}"), 4);
        let [ipv4, ipv4_ports, ipv6, ipv6_ports] = TUPLES.map(hash);
        let list = || Vec::with_capacity(BURST);
        Ok(Self {
            verify: stage(0, "checksum-verify", "", 1)?,
            hashes: [ipv4?, ipv4_ports?, ipv6?, ipv6_ports?],
            routes: [
                stage(2, "lpm4", parameters[0], 4)?,
                stage(2, "lpm6", parameters[1], 4)?,
            ],
            rules: stage(3, "rxpmatch", parameters[2], 8 * RULES_MAX)?,
            digest: stage(4, "sha256", "", 32)?,
            // A payload that does not shrink has 5 bytes more for each 64 KiB.
            compress: stage(5, "deflate", "level=1", (1 << 16) + 64)?,
            ip: list(),
            tuples: [(); 4].map(|()| list()),
            destinations: [list(), list()],
            payloads: list(),
            matched: list(),
        })
    }

    /// Sends a burst through: `packets` of the capture `file`, [`BURST`] at most. `each` hears of every payload that matched: its
    /// place, its SHA-256, and it as a raw DEFLATE stream.
    ///
    /// # Errors
    /// If a stage cannot carry out its job.
    pub fn inspect(
        &mut self,
        file: &View,
        packets: &[Range<usize>],
        found: &mut Found,
        mut each: impl FnMut(Range<usize>, &[u8], &[u8]),
    ) -> Result<()> {
        let lists = [&mut self.ip, &mut self.payloads, &mut self.matched].into_iter();
        let lists = lists.chain(&mut self.tuples).chain(&mut self.destinations);
        lists.for_each(Vec::clear);
        found.packets += packets.len() as u64;
        self.ip
            .extend(packets.iter().filter_map(|frame| ip(file, frame)));
        found.not_ip += (packets.len() - self.ip.len()) as u64;

        let verdicts = self.verify.run(file, &self.ip)?;
        for (verdict, place) in verdicts.iter().zip(&self.ip) {
            let verdict = Verdict(verdict?[0]);
            if verdict.is_accepted() {
                let Span { start, len, .. } = *place;
                let packet = Packet::parse_padded(&file[start as usize..][..len as usize])?;
                let [tuples, destinations] = [&mut self.tuples[..], &mut self.destinations[..]];
                sort(file, &packet, tuples, destinations, &mut self.payloads);
            } else if verdict.0 & Verdict::NO_PACKET == 0 {
                found.damaged += 1;
            } else {
                found.not_ip += 1;
            }
        }
        for (stage, tuples) in self.hashes.iter_mut().zip(&self.tuples) {
            for queue in stage.run(file, tuples)?.iter() {
                found.by_queue[number(queue?) as usize] += 1;
            }
        }
        for (stage, destinations) in self.routes.iter_mut().zip(&self.destinations) {
            for hop in stage.run(file, destinations)?.iter() {
                let hop = Some(number(hop?)).filter(|hop| *hop != u32::MAX);
                *found.by_hop.entry(hop).or_default() += 1;
            }
        }
        let rules = self.rules.run(file, &self.payloads)?;
        for (output, payload) in rules.iter().zip(&self.payloads) {
            match output {
                Ok([]) => {}
                Ok(rules) => {
                    let ids = rules.chunks(8).map(number);
                    ids.for_each(|id| *found.by_rule.entry(id).or_default() += 1);
                    self.matched.push(*payload);
                }
                Err(_) => found.refused += 1,
            }
        }
        let digests = self.digest.run(file, &self.matched)?;
        let streams = self.compress.run(file, &self.matched)?;
        let outputs = digests.iter().zip(streams.iter());
        for ((digest, compressed), span) in outputs.zip(&self.matched) {
            let (digest, compressed, start) = (digest?, compressed?, span.start as usize);
            found.bytes[0] += u64::from(span.len);
            found.bytes[1] += compressed.len() as u64;
            each(start..start + span.len as usize, digest, compressed);
        }
        Ok(())
    }
}

/// Notes where a packet's tuple, destination and payload lie.
fn sort(
    file: &View,
    packet: &Packet<'_>,
    tuples: &mut [Vec<Span>],
    destinations: &mut [Vec<Span>],
    payloads: &mut Vec<Span>,
) {
    let (addresses, behind) = (packet.addresses(), packet.payload());
    let is_v6 = usize::from(packet.version() == Version::V6);
    destinations[is_v6].push(place(file, &addresses[addresses.len() / 2..]));
    // A fragment is hashed without ports, as all of its datagram are, and its payload is a part of one.
    let header = match (packet.protocol(), packet.is_fragment()) {
        (TCP, false) => behind.get(12).map(|offset| usize::from(offset >> 4) * 4),
        (UDP, false) => Some(8),
        _ => None,
    };
    let mut tuple = place(file, addresses);
    let ports = header
        .and_then(|_| behind.get(..4))
        .map(|ports| place(file, ports));
    // Options and extension headers stand between.
    let ports = ports.filter(|ports| ports.start == tuple.start + tuple.len);
    tuple.len += ports.map_or(0, |ports| ports.len);
    tuples[2 * is_v6 + usize::from(ports.is_some())].push(tuple);
    let payload = header.and_then(|header| behind.get(header..));
    payloads.extend(
        payload
            .filter(|payload| !payload.is_empty())
            .map(|payload| place(file, payload)),
    );
}

/// Where the IP packet of an Ethernet frame lies, and what pads it; behind tags of IEEE 802.1Q, if there are any.
fn ip(file: &View, frame: &Range<usize>) -> Option<Span> {
    let bytes = &file[frame.clone()];
    let mut at = 12;
    while matches!(bytes.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
        at += 4;
    }
    let is_ip = matches!(bytes.get(at..at + 2)?, [0x08, 0x00] | [0x86, 0xdd]);
    is_ip.then(|| place(file, &bytes[at + 2..]))
}

/// Where `part` lies in `file`, of which it is one.
fn place(file: &View, part: &[u8]) -> Span {
    let start = part.as_ptr().addr() - file.as_ptr().addr();
    Span {
        buf: 0,
        start: start as u32,
        len: part.len() as u32,
    }
}

/// The number that four bytes begin with.
fn number(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
}
