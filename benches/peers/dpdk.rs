//! DPDK's libraries, called as its own applications call them: bulk where there is a bulk call, addresses in the CPU's byte order,
//! packets in mbufs that exist before the run.

use std::hint::black_box;

use dpb_accel::dpdk::libraries::{Hashes, Libraries, Packets, PrefixMatch, Routes, Sums, Tuples};
use dpb_core::{BatchOut, HashTuple, IpFamily, Items, JobError, Kernel, OpSpec, spec};

use crate::bound::Bound;
use crate::work::{Placed, Shifted, Work};

/// The version of DPDK, if DPDK is here.
pub(crate) fn version() -> Option<String> {
    Libraries::load().ok().map(|libraries| libraries.version())
}

/// The library called `name` on `work`; `None` if it does not do this.
pub(crate) fn peer<'a>(name: &str, spec: &OpSpec, work: &Work<'a>) -> Option<Box<dyn Bound + 'a>> {
    let libraries = Libraries::load().ok()?;
    Some(match name {
        "rte_cksum" | "rte_net_crc" | "rte_hash_crc" => Box::new(Checksums {
            sums: libraries.sums(spec).ok()?,
            dst: work.slots(),
            work: *work,
        }),
        // Without AVX-512 and GFNI it hashes bit by bit: all that DPDK has there, so a peer by another name.
        "rte_thash" | "rte_softrss" if (libraries.level() == "avx512") == (name == "rte_thash") => {
            let form = spec.get::<spec::Toeplitz>()?.form;
            let hashes = libraries.hashes(spec).ok()?;
            Box::new(Tupled::new(hashes, form, work))
        }
        "rte_lpm" | "rte_fib" | "rte_fib6" => {
            let family = spec.get::<spec::Lpm>()?.family;
            let way = match name {
                "rte_lpm" => PrefixMatch::Lpm,
                _ => PrefixMatch::Fib,
            };
            let routes = libraries.routes(spec, way).ok()?;
            Box::new(Lookups::new(routes, way, family, work))
        }
        "rte_gso" | "rte_ip_frag" => Box::new(libraries.packets(spec, work.batch, work.slot).ok()?),
        _ => return None,
    })
}

/// A checksum or CRC of each item.
struct Checksums<'a> {
    sums: Sums,
    work: Work<'a>,
    dst: Placed,
}

impl Bound for Checksums<'_> {
    fn run(&mut self) {
        self.sums.compute(self.work.batch, &mut self.dst);
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.dst.fill(byte);
    }

    fn outputs(&mut self) -> Vec<Result<&[u8], JobError>> {
        self.dst.chunks_exact(self.work.slot).map(Ok).collect()
    }
}

/// Hashes of tuples whose addresses are known before the run.
struct Tupled<'a> {
    hashes: Hashes,
    tuples: Tuples<'a>,
    done: Shifted<u32>,
    tuple_bytes: usize,
    work: Work<'a>,
    dst: Placed,
}

impl<'a> Tupled<'a> {
    fn new(hashes: Hashes, form: HashTuple, work: &Work<'a>) -> Self {
        let batch = work.batch;
        let tuple_bytes = form.bytes();
        let count = (0..batch.len()).map(|i| batch.item(i).len() / tuple_bytes);
        Self {
            tuples: hashes.tuples(batch),
            done: Shifted::new((0..count.sum()).map(|_| 0), work.place),
            hashes,
            tuple_bytes,
            dst: work.slots(),
            work: *work,
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

    fn outputs(&mut self) -> Vec<Result<&[u8], JobError>> {
        let slot = self.work.slot;
        let mut done = self.done.iter();
        let mut lens = Vec::new();
        for (i, slot) in self.dst.chunks_exact_mut(slot).enumerate() {
            let count = self.work.batch.item(i).len() / self.tuple_bytes;
            for (place, hash) in slot.chunks_exact_mut(4).zip(done.by_ref().take(count)) {
                place.copy_from_slice(&hash.to_le_bytes());
            }
            lens.push(count * 4);
        }
        let slots = self.dst.chunks_exact(slot).zip(lens);
        slots.map(|(slot, len)| Ok(&slot[..len])).collect()
    }
}

/// Lookups, in as many calls as the work says, each call's hops behind the last one's.
struct Lookups<'a> {
    routes: Routes,
    way: PrefixMatch,
    addresses: Addresses,
    hops: Shifted<u64>,
    work: Work<'a>,
    dst: Placed,
    outcomes: Vec<Result<u32, JobError>>,
}

/// Of all items, as DPDK takes them.
enum Addresses {
    V4(Shifted<u32>),
    V6(Shifted<[u8; 16]>),
}

impl<'a> Lookups<'a> {
    fn new(routes: Routes, way: PrefixMatch, family: IpFamily, work: &Work<'a>) -> Self {
        let batch = work.batch;
        let items = (0..batch.len()).map(|i| batch.item(i));
        let addresses = match family {
            IpFamily::V4 => {
                let addresses = items.flat_map(|item| item.as_chunks().0);
                let addresses = addresses.map(|word| u32::from_be_bytes(*word));
                Addresses::V4(Shifted::new(addresses, work.place))
            }
            IpFamily::V6 => {
                let addresses = items.flat_map(|item| item.as_chunks().0).copied();
                Addresses::V6(Shifted::new(addresses, work.place))
            }
        };
        Self {
            routes,
            way,
            hops: Shifted::new((0..addresses.len()).map(|_| 0), work.place),
            addresses,
            dst: work.slots(),
            work: *work,
            outcomes: Vec::with_capacity(batch.len()),
        }
    }
}

impl Addresses {
    fn len(&self) -> usize {
        match self {
            Self::V4(addresses) => addresses.len(),
            Self::V6(addresses) => addresses.len(),
        }
    }
}

impl Bound for Lookups<'_> {
    fn run(&mut self) {
        let burst = self.hops.len().div_ceil(self.work.calls.len()).max(1) as u32;
        match &self.addresses {
            Addresses::V4(addresses) => self.routes.bursts_v4(addresses, burst, &mut self.hops),
            Addresses::V6(addresses) => self.routes.bursts_v6(addresses, burst, &mut self.hops),
        }
        black_box(&self.hops);
    }

    fn spoil_outputs(&mut self, byte: u8) {
        self.hops.fill(u64::from_ne_bytes([byte; 8]));
        self.dst.fill(byte);
    }

    /// The hops that the calls wrote, in the bytes that the operator has. What they wrote where there is no route is the table's own
    /// affair: there the backend's lookup, which knows it, says so.
    fn outputs(&mut self) -> Vec<Result<&[u8], JobError>> {
        let slot = self.work.slot;
        self.outcomes.clear();
        let slots = Items::fixed(slot as u32, self.work.batch.len() as u32);
        let out = BatchOut::new(&mut self.dst, &slots, &mut self.outcomes).expect("its slots");
        self.routes
            .run(self.work.batch, out, &mut ())
            .expect("runs");
        let lens = self
            .outcomes
            .iter()
            .map(|len| len.map_or(0, |len| len as usize));
        let mut at = 0;
        for (slot, len) in self.dst.chunks_exact_mut(slot).zip(lens) {
            for place in slot[..len].as_chunks_mut().0 {
                if *place != [0xff; 4] {
                    *place = self.way.hop(&self.hops, at).to_le_bytes();
                }
                at += 1;
            }
        }
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

    fn outputs(&mut self) -> Vec<Result<&[u8], JobError>> {
        Packets::outputs(self).into_iter().map(Ok).collect()
    }
}
