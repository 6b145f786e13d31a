//! The flow table as an operator behind dpb's seam, so that a device or a model of one stands beside it.
//!
//! [`FlowTable`] is the spec. A queue is a shard: it has a table of its own, which lives as long as the queue. Who has several queues gives packets of a flow to
//! one of them, as a network card does.
//!
//! * Item: a packet's tuple and what the table counts. Addresses, source first, 4 or 16 bytes each; ports, 2 bytes each; protocol; flags of TCP; bytes of
//!   the packet, 2; its arrival in milliseconds, 4. All in network order: 20 or 44 bytes. An item of another length is refused.
//! * Output, 8 bytes: what came of it ([`Verdict`]) and the number of the flow, 4 bytes each, little endian; all ones where there is no flow.
//!
//! Time is that of the packets, from the first one on, and does not go back: one that comes late counts as one of the newest time before it. Flows that are over end after each job, so far as
//! [`Timeouts::turn_ms`] asks for. Their counters go to the operator's totals ([`FlowTable::backend`]).
//!
//! With [`Missing::Report`] the table holds the flows that it was prepared with, and no others, for ever, as one that a control plane fills. What comes of a packet then
//! does not depend on others, and the conformance suite can try it.

mod workload;

use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::lift::OneKernel;
use dpb_core::measure::provenance::memory_available_bytes;
use dpb_core::packet::TCP;
use dpb_core::random::SplitMix64;
use dpb_core::{Backend, Batch, BatchOut, JobError, Kernel, Limits, OutputShape, Unsupported};

use super::ledger::{Ledger, Page};
use super::{
    Direction, Flags, Flow, Found, HashKey, Key, Seen, Slot, Stats, Table, Timeouts, Tuple,
};
pub use workload::FlowTableWorkload;

dpb_core::words! {
    /// The version of the addresses of flows.
    pub enum FlowAddresses {
        /// IPv4's.
        V4 = "ipv4",
        /// IPv6's.
        V6 = "ipv6",
    }
}

dpb_core::words! {
    /// What a packet without a flow does.
    pub enum Missing {
        /// It begins one.
        Begin = "begin",
        /// It is reported.
        Report = "report",
    }
}

dpb_core::spec! {
    /// Finds the flow of each packet, or begins one, and counts the packet there. Output: variable, eight bytes; refuses items of another length than a tuple's.
    pub struct FlowTable = "flow-table" {
        /// The version of addresses.
        addresses: FlowAddresses = "ipv4",
        /// Flows that there is room for, in each queue.
        capacity: u32 = "1048576" in 1..=1073741824,
        /// Flows that there are from the start, not more than there is room for.
        flows: u32 = "0",
        /// Chooses them, and the key of hashes.
        seed: u64 = "1",
        /// What a packet without a flow does.
        missing: Missing = "begin",
    }
}

/// What came of a packet, as outputs have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// It is part of a flow that is known.
    Known = 0,
    /// It is the first of a flow.
    New = 1,
    /// It has none, as there is no room.
    Full = 2,
    /// It has none, and begins none.
    Missing = 3,
}

/// Bytes of an output.
pub const OUTPUT_BYTES: usize = 8;

/// Counters over all queues of an operator that there are or were. Packets offered are those of flows that ended or are `left`, refused and missed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What the tables counted.
    pub stats: Stats,
    /// Packets and bytes of flows that have ended.
    pub ended: (u64, u64),
    /// Packets and bytes of flows that there were when their queue was closed.
    pub left: (u64, u64),
}

impl Totals {
    fn add(&mut self, page: &Self) {
        let (sum, of) = (&mut self.stats, &page.stats);
        sum.offered += of.offered;
        sum.refused += of.refused;
        sum.missed += of.missed;
        sum.began += of.began;
        sum.ended += of.ended;
        sum.moved += of.moved;
        for (sum, of) in [(&mut self.ended, page.ended), (&mut self.left, page.left)] {
            *sum = (sum.0 + of.0, sum.1 + of.1);
        }
    }
}

/// Reads the totals of all operators that a backend has prepared.
#[derive(Clone, Debug)]
pub struct TotalsReader(Arc<Ledger<Totals>>);

impl TotalsReader {
    /// The totals up to the last job of each queue, or the one before it.
    pub fn read(&self) -> Totals {
        let mut totals = Totals::default();
        self.0.each(|page| totals.add(page));
        totals
    }
}

impl FlowTable {
    /// Bytes of an item.
    pub fn item_bytes(&self) -> usize {
        match self.addresses {
            FlowAddresses::V4 => <u32 as Address<2>>::ITEM_BYTES,
            FlowAddresses::V6 => <u128 as Address<5>>::ITEM_BYTES,
        }
    }

    /// A backend whose only operator it is, on the core of whoever submits, and what reads its totals.
    pub fn backend(timeouts: Timeouts) -> (impl Backend, TotalsReader) {
        let ledger = Arc::new(Ledger::new());
        let reader = TotalsReader(Arc::clone(&ledger));
        let backend = OneKernel::new("cpu", move |spec: &Self| {
            if spec.flows > spec.capacity {
                let reason = format!(
                    "{} flows from the start in a table for {}; ask for a larger one",
                    spec.flows, spec.capacity
                );
                return Err(Unsupported { reason });
            }
            spec.fits(memory_available_bytes())?;
            Ok(FlowTableKernel {
                spec: *spec,
                timeouts,
                ledger: Arc::clone(&ledger),
            })
        });
        (backend.with_limits(Limits::new(NonZeroU32::MAX)), reader)
    }

    /// Checks that there is memory for a queue's table.
    fn fits(&self, available: u64) -> Result<(), Unsupported> {
        let needed = match self.addresses {
            FlowAddresses::V4 => Table::<2>::bytes(self.capacity as usize),
            FlowAddresses::V6 => Table::<5>::bytes(self.capacity as usize),
        };
        if needed <= available {
            return Ok(());
        }
        let reason = format!(
            "a table for {} flows takes {} MiB in each queue, and {} MiB of memory are available; ask for a smaller one",
            self.capacity,
            needed >> 20,
            available >> 20
        );
        Err(Unsupported { reason })
    }
}

/// A [`FlowTable`] made ready.
#[derive(Debug)]
pub struct FlowTableKernel {
    spec: FlowTable,
    timeouts: Timeouts,
    ledger: Arc<Ledger<Totals>>,
}

/// The shard of a queue.
#[derive(Debug)]
pub struct Scratch(Shard);

#[derive(Debug)]
enum Shard {
    V4(ShardOf<u32, 2>),
    V6(ShardOf<u128, 5>),
    /// Others have taken the memory that there was when the operator was prepared: each job ends with that error.
    NoMemory,
}

#[derive(Debug)]
struct ShardOf<A, const N: usize> {
    table: Table<N>,
    totals: Totals,
    page: Page<Totals>,
    /// The time of the first packet, from which the table's counts: flows that there were from the start begin with it.
    start_ms: Option<u32>,
    /// The newest time, from there.
    now_ms: u32,
    /// Packets of a job, those of one time together, each with its time; and what came of them.
    seen: Vec<Seen<N>>,
    times: Vec<u32>,
    found: Vec<Found>,
    known: Vec<Option<Slot>>,
    of: std::marker::PhantomData<fn(A)>,
}

/// Addresses that items have.
trait Address<const N: usize>: Copy + Sized {
    const BYTES: usize;
    const ITEM_BYTES: usize = 2 * Self::BYTES + 12;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut Vec<u8>);
    fn random(random: &mut SplitMix64) -> Self;
    fn key(tuple: Tuple<Self>) -> (Key<N>, Direction);
}

impl Address<2> for u32 {
    const BYTES: usize = 4;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().map_or(0, Self::from_be_bytes)
    }

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_be_bytes());
    }

    fn random(random: &mut SplitMix64) -> Self {
        random.next_u64() as Self
    }

    #[inline(always)]
    fn key(tuple: Tuple<Self>) -> (Key<2>, Direction) {
        tuple.key()
    }
}

impl Address<5> for u128 {
    const BYTES: usize = 16;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().map_or(0, Self::from_be_bytes)
    }

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_be_bytes());
    }

    fn random(random: &mut SplitMix64) -> Self {
        Self::from(random.next_u64()) << 64 | Self::from(random.next_u64())
    }

    #[inline(always)]
    fn key(tuple: Tuple<Self>) -> (Key<5>, Direction) {
        tuple.key()
    }
}

/// The tuple of flow number `i` of those that there are from the start: TCP or UDP.
fn flow_of<A: Address<N>, const N: usize>(seed: u64, i: u32) -> Tuple<A> {
    let mut random = SplitMix64::new(seed ^ u64::from(i).wrapping_mul(0xd134_2543_de82_ef95));
    let addresses = [A::random(&mut random), A::random(&mut random)];
    let rest = random.next_u64();
    Tuple {
        addresses,
        ports: [rest as u16, (rest >> 16) as u16],
        protocol: [6, 17][(rest >> 32) as usize % 2],
    }
}

/// An item: a packet's tuple, its flags of TCP or zero, its bytes and its arrival.
fn write_item<A: Address<N>, const N: usize>(
    item: &mut Vec<u8>,
    tuple: &Tuple<A>,
    flags: Flags,
    bytes: u16,
    time_ms: u32,
) {
    tuple.addresses.into_iter().for_each(|it| it.write(item));
    (tuple.ports.iter()).for_each(|port| item.extend(port.to_be_bytes()));
    item.extend([tuple.protocol, flags.0]);
    item.extend(bytes.to_be_bytes());
    item.extend(time_ms.to_be_bytes());
}

impl FlowTable {
    /// Appends an item of a packet over IPv4; see [the module](self).
    pub fn write_v4(
        item: &mut Vec<u8>,
        tuple: &Tuple<u32>,
        flags: Flags,
        bytes: u16,
        time_ms: u32,
    ) {
        write_item::<u32, 2>(item, tuple, flags, bytes, time_ms);
    }
}

/// The packet of an item, and its time.
#[inline(always)]
fn read_item<A: Address<N>, const N: usize>(item: &[u8]) -> Option<(Seen<N>, u32)> {
    if item.len() != A::ITEM_BYTES {
        return None;
    }
    let (addresses, rest) = item.split_at(2 * A::BYTES);
    let (from, to) = addresses.split_at(A::BYTES);
    let &[s0, s1, d0, d1, protocol, flags, b0, b1, ref time @ ..] = rest else {
        return None;
    };
    let tuple = Tuple {
        addresses: [A::read(from), A::read(to)],
        ports: [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])],
        protocol,
    };
    let (key, direction) = A::key(tuple);
    let seen = Seen {
        key,
        direction,
        bytes: u32::from(u16::from_be_bytes([b0, b1])),
        flags: (protocol == TCP).then_some(Flags(flags)),
    };
    Some((seen, <u32 as Address<2>>::read(time)))
}

impl<A: Address<N>, const N: usize> ShardOf<A, N> {
    /// `None` if there is no memory for the table.
    fn new(kernel: &FlowTableKernel) -> Option<Self> {
        let FlowTableKernel {
            spec,
            timeouts,
            ledger,
        } = kernel;
        let table = Table::new(spec.capacity as usize, HashKey::new(spec.seed), *timeouts);
        let mut shard = Self {
            table: table.ok()?,
            totals: Totals::default(),
            page: ledger.open(),
            start_ms: None,
            now_ms: 0,
            seen: Vec::new(),
            times: Vec::new(),
            found: Vec::new(),
            known: Vec::new(),
            of: std::marker::PhantomData,
        };
        for i in 0..spec.flows {
            let (key, direction) = A::key(flow_of::<A, N>(spec.seed, i));
            shard.table.put(key, direction, 0);
        }
        Some(shard)
    }

    fn run(&mut self, batch: Batch<'_>, out: BatchOut<'_>, missing: Missing) {
        self.seen.clear();
        self.times.clear();
        for i in 0..batch.len() {
            if let Some((mut seen, time_ms)) = read_item::<A, N>(batch.item(i)) {
                if missing == Missing::Report {
                    // Flows that end with their connection would be begun anew.
                    seen.flags = None;
                }
                let start_ms = *self.start_ms.get_or_insert(time_ms);
                let time_ms = time_ms.wrapping_sub(start_ms);
                let is_later = time_ms.wrapping_sub(self.now_ms) <= u32::MAX / 2;
                self.now_ms = if is_later { time_ms } else { self.now_ms };
                self.seen.push(seen);
                self.times.push(self.now_ms);
            }
        }
        match missing {
            Missing::Begin => self.begin(out, batch),
            Missing::Report => self.report(out, batch),
        }
        self.totals.stats = self.table.stats();
        self.page.write(self.totals);
    }

    fn begin(&mut self, out: BatchOut<'_>, batch: Batch<'_>) {
        let Self {
            table,
            totals,
            found,
            ..
        } = self;
        let mut ended = |flow: &Flow<N>| count(flow, &mut totals.ended);
        found.clear();
        let mut rest = &self.seen[..];
        for times in self.times.chunk_by(|a, b| a == b) {
            let (now, later) = rest.split_at(times.len());
            table.burst(now, times[0], found, &mut ended);
            rest = later;
        }
        table.expire(self.now_ms, &mut ended);
        let mut found = found.iter();
        write_each::<A, N>(batch, out, || match found.next() {
            Some(Found::Known(slot)) => (Verdict::Known, Some(*slot)),
            Some(Found::New(slot)) => (Verdict::New, Some(*slot)),
            Some(Found::Full) | None => (Verdict::Full, None),
        });
    }

    fn report(&mut self, out: BatchOut<'_>, batch: Batch<'_>) {
        self.known.clear();
        // At one time, so that none is ever over.
        self.table.known(&self.seen, 0, &mut self.known, |_| {});
        let mut known = self.known.iter();
        write_each::<A, N>(batch, out, || match known.next() {
            Some(Some(slot)) => (Verdict::Known, Some(*slot)),
            _ => (Verdict::Missing, None),
        });
    }
}

/// The counters of flows that there still are belong to the totals.
impl<A, const N: usize> Drop for ShardOf<A, N> {
    fn drop(&mut self) {
        for flow in self.table.all() {
            count(flow, &mut self.totals.left);
        }
        self.page.write(self.totals);
    }
}

fn count<const N: usize>(flow: &Flow<N>, (packets, bytes): &mut (u64, u64)) {
    for direction in [Direction::Up, Direction::Down] {
        *packets += flow.packets(direction);
        *bytes += flow.bytes(direction);
    }
}

/// Writes what `next` says of each item that is a packet.
#[inline(always)]
fn write_each<A: Address<N>, const N: usize>(
    batch: Batch<'_>,
    out: BatchOut<'_>,
    mut next: impl FnMut() -> (Verdict, Option<Slot>),
) {
    out.each_outcome(batch, |item, slot| {
        if item.len() != A::ITEM_BYTES {
            return Err(JobError::Malformed);
        }
        let (verdict, flow) = next();
        let number = flow.map_or(u32::MAX, |slot| slot.0);
        let Some(output) = slot.first_chunk_mut::<OUTPUT_BYTES>() else {
            return Err(JobError::DstTooShort);
        };
        *output = (u64::from(number) << 32 | verdict as u64).to_le_bytes();
        Ok(OUTPUT_BYTES as u32)
    });
}

impl Kernel for FlowTableKernel {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        let shard = match self.spec.addresses {
            FlowAddresses::V4 => ShardOf::new(self).map(Shard::V4),
            FlowAddresses::V6 => ShardOf::new(self).map(Shard::V6),
        };
        Scratch(shard.unwrap_or(Shard::NoMemory))
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        OUTPUT_BYTES
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), JobError> {
        match &mut scratch.0 {
            Shard::V4(shard) => shard.run(batch, out, self.spec.missing),
            Shard::V6(shard) => shard.run(batch, out, self.spec.missing),
            Shard::NoMemory => return Err(JobError::Device(-libc::ENOMEM)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
