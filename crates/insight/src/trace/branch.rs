//! A predictor of conditional branches: gshare (McFarling, WRL TN-36, 1993).

use super::Tally;

/// Bits of history, and of the table's index.
const BITS: u32 = 14;

/// Two-bit counters, chosen by the branch's address and the outcomes of the last branches.
#[derive(Debug)]
pub(super) struct Gshare {
    counters: Vec<u8>,
    history: usize,
    branches: u64,
    taken: u64,
    wrong: u64,
}

impl Gshare {
    pub(super) fn new() -> Self {
        Self {
            counters: vec![1; 1 << BITS],
            history: 0,
            branches: 0,
            taken: 0,
            wrong: 0,
        }
    }

    /// A conditional branch at `address` was taken or not.
    pub(super) fn branch(&mut self, address: u64, is_taken: bool) {
        let mask = (1 << BITS) - 1;
        let at = (address as usize ^ self.history) & mask;
        let counter = &mut self.counters[at];
        self.branches += 1;
        self.taken += u64::from(is_taken);
        self.wrong += u64::from((*counter >= 2) != is_taken);
        *counter = match is_taken {
            true => (*counter + 1).min(3),
            false => counter.saturating_sub(1),
        };
        self.history = (self.history << 1 | usize::from(is_taken)) & mask;
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        tally.add("conditional_branches", self.branches);
        tally.add("conditional_branches_taken", self.taken);
        tally.add("branch_mispredictions", self.wrong);
    }
}
