//! Reuse distances: how many other blocks were accessed since a block was accessed last (Mattson et al., IBM Systems Journal 9(2), 1970).
//!
//! A tree of sums (Fenwick) over time has a one where each block was accessed last; the distance is the sum behind that time. When
//! time reaches the tree's end, it begins again with the blocks in their order.

use super::super::Tally;
use super::super::hash::Map;

/// All accesses.
pub(super) const ALL: &str = "reuses";
/// Accesses whose distance is below 1, 2, 4 … 2^19, each without the smaller ones. Others lie further, or are a block's first.
#[rustfmt::skip]
pub(super) const NAMES: [&str; 20] = [
    "reuse_0", "reuse_1", "reuse_2", "reuse_3", "reuse_4", "reuse_5", "reuse_6", "reuse_7", "reuse_8", "reuse_9", "reuse_10",
    "reuse_11", "reuse_12", "reuse_13", "reuse_14", "reuse_15", "reuse_16", "reuse_17", "reuse_18", "reuse_19",
];

/// The distances of accesses so far.
#[derive(Debug)]
pub(super) struct Reuse {
    /// When each block was accessed last.
    last: Map<u64>,
    tree: Vec<u32>,
    now: usize,
    accesses: u64,
    counts: [u64; 20],
}

impl Default for Reuse {
    fn default() -> Self {
        Self::with_times(1 << 16)
    }
}

impl Reuse {
    /// Begins with so many times until blocks are moved.
    fn with_times(times: usize) -> Self {
        Self {
            last: Map::default(),
            tree: vec![0; times + 1],
            now: 0,
            accesses: 0,
            counts: [0; 20],
        }
    }

    /// A block is accessed. Gives its distance, unless it is its first access.
    pub(super) fn access(&mut self, block: u64) -> Option<u64> {
        if self.now + 1 == self.tree.len() {
            self.restart();
        }
        self.now += 1;
        self.accesses += 1;
        let now = self.now;
        let before = self.last.insert(block, now as u64);
        let distance = before.map(|before| {
            let before = before as usize;
            let behind = self.last.len() as u64 - self.sum(before);
            self.add(before, u32::MAX);
            behind
        });
        self.add(now, 1);
        let bucket = distance.map(|distance| (u64::BITS - distance.leading_zeros()) as usize);
        if let Some(count) = bucket.and_then(|bucket| self.counts.get_mut(bucket)) {
            *count += 1;
        }
        distance
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        tally.add(ALL, self.accesses);
        for (name, count) in NAMES.iter().zip(self.counts) {
            tally.add(name, count);
        }
    }

    /// Time begins again, with room for as many accesses as there are blocks.
    fn restart(&mut self) {
        let mut order: Vec<(u64, u64)> =
            self.last.iter().map(|(&block, &at)| (at, block)).collect();
        order.sort_unstable();
        let times = (2 * order.len()).max(self.tree.len() - 1);
        self.tree = vec![0; times + 1];
        self.now = 0;
        for (_, block) in order {
            self.now += 1;
            self.last.insert(block, self.now as u64);
            self.add(self.now, 1);
        }
    }

    /// Adds at a time; `u32::MAX` takes one away.
    fn add(&mut self, at: usize, value: u32) {
        let mut at = at;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(value);
            at += at & at.wrapping_neg();
        }
    }

    /// The blocks that were accessed last at this time or earlier.
    fn sum(&self, at: usize) -> u64 {
        let (mut at, mut sum) = (at, 0);
        while at > 0 {
            sum += u64::from(self.tree[at]);
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;

    use super::*;

    #[test]
    fn distances_are_those_of_a_stack() {
        let mut random = SplitMix64::new(3);
        for (times, blocks) in [(4, 1), (4, 3), (64, 40), (1 << 10, 900)] {
            let mut reuse = Reuse::with_times(times);
            let mut stack: Vec<u64> = Vec::new();
            for _ in 0..5000 {
                let near = 1 + random.below(blocks);
                let block = random.below(near) as u64;
                let at = stack.iter().rev().position(|&held| held == block);
                if let Some(depth) = at {
                    stack.remove(stack.len() - 1 - depth);
                }
                stack.push(block);
                assert_eq!(reuse.access(block), at.map(|depth| depth as u64));
            }
        }
    }
}
