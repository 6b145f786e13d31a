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
use dpb_core::{Families, HashTuple, JobError, Span, Stage, View};
use dpb_operators::cpu::{self, CPU, POOLS};
use dpb_operators::network::checksum::Verdict;
use dpb_operators::network::packet::{Packet, Version, in_frame};
use dpb_operators::registry;
use dpb_sim::{Faultiness, Models};

/// Packets of a burst.
pub const BURST: usize = 64;
/// Queues that packets are spread over.
pub const QUEUES: u32 = 16;
/// Rules that one payload may match; with more it is [refused](Found::refused).
const RULES_MAX: u32 = 32;

static MODELS: Models = Models::new(&cpu::best);
static FAULTINESS: Faultiness = Faultiness::new(&cpu::best);

/// The backends that the program knows: `cpu`, `cpu/portable`, `pool/2`, `sim/default`, `faulty/`, `doca/`, `dpdk/`.
pub static FAMILIES: Families = Families::new(&[&CPU, &POOLS, &MODELS, &FAULTINESS, &Doca, &Dpdk]);

/// The findings so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Frames without an IP packet in them.
    pub not_ip: u64,
    /// Packets with a wrong checksum or a wrong length.
    pub damaged: u64,
    /// The other packets, by their queue.
    pub by_queue: BTreeMap<u32, u64>,
    /// The same packets by their next hop; all ones: there is no route.
    pub by_hop: BTreeMap<u32, u64>,
    /// The number of payloads that each rule matched, by the rule's id.
    pub by_rule: BTreeMap<u32, u64>,
    /// Payloads that an engine refused, because more rules matched than it can report, say.
    pub refused: u64,
    /// Bytes of payloads that matched, and of their DEFLATE streams.
    pub bytes: [u64; 2],
}

/// The steps that a burst goes through.
pub struct Inspector {
    verify: Step,
    /// One for each kind of tuple.
    hashes: [Step; 4],
    /// One for each version of IP.
    routes: [Step; 2],
    rules: Step,
    digest: Step,
    compress: Step,
}

/// An operator, and the places of its items in the capture.
struct Step {
    stage: Stage,
    places: Vec<Span>,
}

impl Inspector {
    /// The steps on these backends: checksums, hashes, routes, rules, digests and compression. `routes` and `rules` are the
    /// parameters of `lpm4` and `rxpmatch`, as for `dpb op`.
    ///
    /// # Errors
    /// If a backend is not there, or does not have the operator.
    pub fn new(backends: [&str; 6], routes: &str, rules: &str) -> Result<Self> {
        let [sums, hashes, hops, matches, digests, streams] = backends;
        let hash = |tuple: HashTuple| {
            let parameters = format!("form={},queues={QUEUES}", tuple.name());
            Step::new(hashes, "toeplitz", &parameters, 4)
        };
        let [ipv4, ipv4_ports, ipv6, ipv6_ports] = HashTuple::ALL.map(hash);
        let lpm4 = Step::new(hops, "lpm4", routes, 4)?;
        let lpm6 = Step::new(hops, "lpm6", "", 4)?;
        Ok(Self {
            verify: Step::new(sums, "checksum-verify", "", 1)?,
            hashes: [ipv4?, ipv4_ports?, ipv6?, ipv6_ports?],
            routes: [lpm4, lpm6],
            rules: Step::new(matches, "rxpmatch", rules, 8 * RULES_MAX)?,
            digest: Step::new(digests, "sha256", "", 32)?,
            // A payload that does not shrink has 5 bytes more for each 64 KiB.
            compress: Step::new(streams, "deflate", "level=1", (1 << 16) + 64)?,
        })
    }

    /// Sends a burst through: `frames` of the capture `file`, [`BURST`] at most. `each` hears of every payload that matched: its
    /// place, its SHA-256, and it as a raw DEFLATE stream.
    ///
    /// # Errors
    /// If a step cannot carry out its job.
    pub fn inspect(
        &mut self,
        file: &View,
        frames: &[Range<usize>],
        found: &mut Found,
        mut each: impl FnMut(Range<usize>, &[u8], &[u8]),
    ) -> Result<()> {
        for frame in frames {
            match in_frame(&file[frame.clone()]) {
                Some(packet) => self.verify.add(file, packet),
                None => found.not_ip += 1,
            }
        }
        for (verdict, place) in self.verify.run(file)? {
            if !Verdict(verdict?[0]).is_accepted() {
                found.damaged += 1;
                continue;
            }
            let packet = Packet::parse_padded(&file[range(place)])?;
            let (tuple, addresses) = (packet.tuple(), packet.addresses());
            let kinds = HashTuple::ALL.map(HashTuple::bytes);
            let kind = kinds.iter().position(|bytes| *bytes == tuple.len());
            self.hashes[kind.context("no such tuple")?].add(file, tuple);
            let version = usize::from(packet.version() == Version::V6);
            self.routes[version].add(file, &addresses[addresses.len() / 2..]);
            if let Some(payload @ [_, ..]) = packet.user_data() {
                self.rules.add(file, payload);
            }
        }
        count(&mut self.hashes, file, &mut found.by_queue)?;
        count(&mut self.routes, file, &mut found.by_hop)?;
        for (output, payload) in self.rules.run(file)? {
            let Ok(matches) = output else {
                found.refused += 1;
                continue;
            };
            for id in matches.chunks(8).map(number) {
                *found.by_rule.entry(id).or_default() += 1;
            }
            if !matches.is_empty() {
                self.digest.places.push(payload);
                self.compress.places.push(payload);
            }
        }
        for ((digest, place), (stream, _)) in self.digest.run(file)?.zip(self.compress.run(file)?) {
            let (digest, stream) = (digest?, stream?);
            found.bytes[0] += u64::from(place.len);
            found.bytes[1] += stream.len() as u64;
            each(range(place), digest, stream);
        }
        Ok(())
    }
}

impl Step {
    /// The operator called `name` on a backend, with room for a burst.
    fn new(backend: &str, name: &str, parameters: &str, slot_bytes: u32) -> Result<Self> {
        let backend = FAMILIES.open(backend)?;
        let entry = registry::find(name).context("no such operator")?;
        let operator = backend.prepare(&entry.spec(parameters)?);
        let operator = operator.with_context(|| format!("{name} on {}", backend.name()))?;
        let alloc = |len| backend.alloc(len);
        Ok(Self {
            stage: Stage::new(operator, BURST, slot_bytes, alloc)?,
            places: Vec::with_capacity(BURST),
        })
    }

    /// Makes `item`, a part of the capture `file`, one of the items.
    fn add(&mut self, file: &View, item: &[u8]) {
        let start = (item.as_ptr().addr() - file.as_ptr().addr()) as u32;
        let (buf, len) = (0, item.len() as u32);
        self.places.push(Span { buf, start, len });
    }

    /// Carries the items out: the output of each, and its place.
    fn run(
        &mut self,
        file: &View,
    ) -> Result<impl Iterator<Item = (Result<&[u8], JobError>, Span)>> {
        let outputs = self.stage.run(file, &self.places)?;
        Ok(outputs.iter().zip(self.places.drain(..)))
    }
}

/// Carries some steps out, whose outputs are numbers, and counts these.
fn count(steps: &mut [Step], file: &View, counts: &mut BTreeMap<u32, u64>) -> Result<()> {
    for step in steps {
        for (output, _) in step.run(file)? {
            *counts.entry(number(output?)).or_default() += 1;
        }
    }
    Ok(())
}

fn range(place: Span) -> Range<usize> {
    place.start as usize..place.start as usize + place.len as usize
}

/// The number that four bytes begin with.
fn number(bytes: &[u8]) -> u32 {
    let first = bytes.first_chunk();
    first.map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
}
