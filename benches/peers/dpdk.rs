//! DPDK's libraries, called as its own applications call them: bulk where there is a bulk call, addresses in the CPU's byte order,
//! packets in mbufs that exist before the run.

use std::hint::black_box;

use dpb_accel::dpdk::libraries::{Hashes, Libraries, Packets, PrefixMatch, Routes, Sums, Tuples};
use dpb_core::{Batch, BatchOut, Buf, HashTuple, IpFamily, JobError, Kernel, OpSpec, OutputShape};

use crate::native::Bound;

/// Addresses of one call.
const BURST: usize = 64;

/// If it is here.
pub(crate) fn version() -> Option<String> {
    Libraries::load().ok().map(|libraries| libraries.version())
}

/// The library called `name` on `batch`, with slots of `slot` bytes; `None` if it does not do this.
pub(crate) fn peer<'a>(
    name: &str,
    spec: &OpSpec,
    batch: Batch<'a>,
    slot: usize,
) -> Option<Box<dyn Bound + 'a>> {
    let libraries = Libraries::load().ok()?;
    let dst = || Buf::zeroed(slot * batch.len()).expect("memory");
    Some(match (name, spec) {
        ("rte_cksum" | "rte_net_crc" | "rte_hash_crc", _) => Box::new(Checksums {
            sums: libraries.sums(spec).ok()?,
            batch,
            dst: dst(),
        }),
        // Without GFNI it hashes bit by bit, which no program would have it do.
        ("rte_thash", OpSpec::Toeplitz { form, .. }) if libraries.level() == "avx512" => {
            let hashes = libraries.hashes(spec).ok()?;
            Box::new(Tupled::new(hashes, *form, batch, dst()))
        }
        ("rte_lpm" | "rte_fib" | "rte_fib6", OpSpec::Lpm { family, .. }) => {
            let way = match name {
                "rte_lpm" => PrefixMatch::Lpm,
                _ => PrefixMatch::Fib,
            };
            let routes = libraries.routes(spec, way).ok()?;
            Box::new(Lookups::new(routes, *family, batch, dst()))
        }
        ("rte_gso" | "rte_ip_frag", _) => Box::new(libraries.packets(spec, batch, slot).ok()?),
        _ => return None,
    })
}

/// A checksum or CRC of each item.
struct Checksums<'a> {
    sums: Sums,
    batch: Batch<'a>,
    dst: Buf,
}

impl Bound for Checksums<'_> {
    fn run(&mut self) {
        self.sums.compute(self.batch, &mut self.dst);
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.dst.fill(byte);
    }

    fn outputs(&mut self, _shape: OutputShape) -> Vec<Result<&[u8], JobError>> {
        let slot = self.dst.len() / self.batch.len().max(1);
        self.dst.chunks_exact(slot).map(Ok).collect()
    }
}

/// Hashes of tuples whose addresses are known before the run.
struct Tupled<'a> {
    hashes: Hashes,
    tuples: Tuples<'a>,
    done: Vec<u32>,
    tuple_bytes: usize,
    batch: Batch<'a>,
    dst: Buf,
}

impl<'a> Tupled<'a> {
    fn new(hashes: Hashes, form: HashTuple, batch: Batch<'a>, dst: Buf) -> Self {
        let tuple_bytes = form.bytes();
        let count = (0..batch.len()).map(|i| batch.item(i).len() / tuple_bytes);
        Self {
            tuples: hashes.tuples(batch),
            done: vec![0; count.sum()],
            hashes,
            tuple_bytes,
            batch,
            dst,
        }
    }
}

impl Bound for Tupled<'_> {
    fn run(&mut self) {
        self.hashes.bulk(&self.tuples, &mut self.done);
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.done.fill(u32::from_ne_bytes([byte; 4]));
    }

    fn outputs(&mut self, _shape: OutputShape) -> Vec<Result<&[u8], JobError>> {
        let slot = self.dst.len() / self.batch.len().max(1);
        let mut done = self.done.iter();
        let mut lens = Vec::new();
        for (i, slot) in self.dst.chunks_exact_mut(slot).enumerate() {
            let count = self.batch.item(i).len() / self.tuple_bytes;
            for (place, hash) in slot.chunks_exact_mut(4).zip(done.by_ref().take(count)) {
                place.copy_from_slice(&hash.to_le_bytes());
            }
            lens.push(count * 4);
        }
        let slots = self.dst.chunks_exact(slot).zip(lens);
        slots.map(|(slot, len)| Ok(&slot[..len])).collect()
    }
}

/// Lookups, in bursts whose hops nobody keeps while they are timed.
struct Lookups<'a> {
    routes: Routes,
    addresses: Addresses,
    batch: Batch<'a>,
    dst: Buf,
    outcomes: Vec<Result<u32, JobError>>,
}

/// Of all items, as DPDK takes them.
enum Addresses {
    V4(Vec<u32>),
    V6(Vec<[u8; 16]>),
}

impl<'a> Lookups<'a> {
    fn new(routes: Routes, family: IpFamily, batch: Batch<'a>, dst: Buf) -> Self {
        let items = (0..batch.len()).map(|i| batch.item(i));
        let addresses = match family {
            IpFamily::V4 => {
                let addresses = items.flat_map(|item| item.as_chunks().0);
                Addresses::V4(addresses.map(|word| u32::from_be_bytes(*word)).collect())
            }
            IpFamily::V6 => {
                Addresses::V6(items.flat_map(|item| item.as_chunks().0).copied().collect())
            }
        };
        Self {
            routes,
            addresses,
            batch,
            dst,
            outcomes: Vec::with_capacity(batch.len()),
        }
    }
}

impl Bound for Lookups<'_> {
    fn run(&mut self) {
        let mut hops = [0; BURST];
        match &self.addresses {
            Addresses::V4(addresses) => self.routes.bursts_v4(addresses, &mut hops),
            Addresses::V6(addresses) => self.routes.bursts_v6(addresses, &mut hops),
        }
        black_box(&hops);
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.dst.fill(byte);
    }

    /// All hops, by the same calls, in the bytes that the operator has.
    fn outputs(&mut self, _shape: OutputShape) -> Vec<Result<&[u8], JobError>> {
        let slot = self.dst.len() / self.batch.len().max(1);
        self.outcomes.clear();
        let out = BatchOut {
            dst: &mut self.dst,
            slot,
            outcomes: &mut self.outcomes,
        };
        self.routes.run(self.batch, out, &mut ()).expect("runs");
        let output = |(i, outcome): (usize, &Result<u32, JobError>)| {
            outcome.map(|len| &self.dst[i * slot..][..len as usize])
        };
        self.outcomes.iter().enumerate().map(output).collect()
    }
}

impl Bound for Packets<'_> {
    fn run(&mut self) {
        Packets::run(self);
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.fill(byte);
    }

    fn outputs(&mut self, _shape: OutputShape) -> Vec<Result<&[u8], JobError>> {
        Packets::outputs(self).into_iter().map(Ok).collect()
    }
}
