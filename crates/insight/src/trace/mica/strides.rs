//! Distances between the addresses of accesses that follow one another: of one instruction (local), and of all (global).

use super::super::hash::Map;
use super::super::{Access, Direction, Tally};

/// The largest distances of the buckets, in bytes. The published set has the first five.
pub(super) const DISTANCES: [u64; 7] = [0, 8, 64, 512, 4096, 32_768, 262_144];
/// The kinds, by their names in metrics.
pub(super) const KINDS: [&str; 4] = ["local_load", "global_load", "local_store", "global_store"];
/// The counts of each kind: all distances, then those of each bucket and the smaller ones.
#[rustfmt::skip]
pub(super) const NAMES: [[&str; 8]; 4] = [
    ["local_load_strides", "local_load_stride_0", "local_load_stride_8", "local_load_stride_64", "local_load_stride_512",
     "local_load_stride_4096", "local_load_stride_32768", "local_load_stride_262144"],
    ["global_load_strides", "global_load_stride_0", "global_load_stride_8", "global_load_stride_64", "global_load_stride_512",
     "global_load_stride_4096", "global_load_stride_32768", "global_load_stride_262144"],
    ["local_store_strides", "local_store_stride_0", "local_store_stride_8", "local_store_stride_64", "local_store_stride_512",
     "local_store_stride_4096", "local_store_stride_32768", "local_store_stride_262144"],
    ["global_store_strides", "global_store_stride_0", "global_store_stride_8", "global_store_stride_64", "global_store_stride_512",
     "global_store_stride_4096", "global_store_stride_32768", "global_store_stride_262144"],
];

/// Counts distances of loads and of stores.
#[derive(Debug, Default)]
pub(super) struct Strides {
    loads: Ends,
    stores: Ends,
    counts: [[u64; 8]; 4],
}

/// The addresses of the last accesses.
#[derive(Debug, Default)]
struct Ends {
    of_instruction: Map<u64>,
    of_all: Option<u64>,
}

impl Strides {
    pub(super) fn access(&mut self, code: u32, access: &Access) {
        if access.direction != Direction::Store {
            let strides = self.loads.next(code, access.address);
            self.keep(0, strides);
        }
        if access.direction != Direction::Load {
            let strides = self.stores.next(code, access.address);
            self.keep(2, strides);
        }
    }

    fn keep(&mut self, kind: usize, strides: [Option<u64>; 2]) {
        for (counts, stride) in self.counts[kind..].iter_mut().zip(strides) {
            let Some(stride) = stride else { continue };
            counts[0] += 1;
            for (count, most) in counts[1..].iter_mut().zip(DISTANCES) {
                *count += u64::from(stride <= most);
            }
        }
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        for (counts, names) in self.counts.iter().zip(NAMES) {
            for (count, name) in counts.iter().zip(names) {
                tally.add(name, *count);
            }
        }
    }
}

impl Ends {
    /// The distances of an access, local and global, if there was one before.
    fn next(&mut self, code: u32, address: u64) -> [Option<u64>; 2] {
        let before = self.of_instruction.insert(u64::from(code), address);
        let local = before.map(|before| before.abs_diff(address));
        let global = self.of_all.replace(address);
        [local, global.map(|before| before.abs_diff(address))]
    }
}
