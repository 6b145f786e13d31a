//! Next hops by code: small numbers for 32-bit hops, so that a table stores a byte where few hops are in use.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::NO_ROUTE;

/// The code of [`NO_ROUTE`].
pub(super) const NONE: u32 = 0;

/// Codes and the hops they stand for.
#[derive(Clone, Debug)]
pub(super) struct Hops {
    /// By code.
    hops: Vec<u32>,
    /// The first of them, as many as a byte can say, without a bound to check.
    frequent: Box<[u32; 256]>,
    /// The number of routes that use each code.
    uses: Vec<u32>,
    codes: HashMap<u32, u32>,
    /// Codes out of use, to be given out smallest first.
    free: BinaryHeap<Reverse<u32>>,
}

impl Hops {
    /// Codes for `hops`, as often as they come: the frequent ones get the small codes. Nothing uses them yet.
    pub(super) fn new(hops: impl Iterator<Item = u32>) -> Self {
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for hop in hops {
            *counts.entry(hop).or_default() += 1;
        }
        let mut by_count: Vec<(u32, u32)> = counts.into_iter().collect();
        by_count.sort_unstable_by_key(|(hop, count)| (Reverse(*count), *hop));
        let mut known = Self {
            hops: vec![NO_ROUTE],
            frequent: Box::new([NO_ROUTE; 256]),
            uses: vec![0],
            codes: HashMap::with_capacity(by_count.len()),
            free: BinaryHeap::new(),
        };
        for (hop, _) in by_count {
            known.add(hop);
        }
        known
    }

    /// The hops by code.
    #[inline]
    pub(super) fn by_code(&self) -> &[u32] {
        &self.hops
    }

    /// The hops of the codes below 256; where there is none, it means nothing.
    #[inline]
    pub(super) fn frequent(&self) -> &[u32; 256] {
        &self.frequent
    }

    /// The hop of `code`.
    pub(super) fn hop(&self, code: u32) -> u32 {
        self.hops[code as usize]
    }

    /// The code of `hop`, used once more.
    pub(super) fn take(&mut self, hop: u32) -> u32 {
        let code = match self.codes.get(&hop) {
            Some(code) => *code,
            None => self.add(hop),
        };
        self.uses[code as usize] += 1;
        code
    }

    /// `code` is used once less. The last use must be out of the table: the code may stand for another hop next.
    pub(super) fn release(&mut self, code: u32) {
        let uses = &mut self.uses[code as usize];
        *uses -= 1;
        if *uses == 0 {
            self.codes.remove(&self.hops[code as usize]);
            self.free.push(Reverse(code));
        }
    }

    fn add(&mut self, hop: u32) -> u32 {
        let code = match self.free.pop() {
            Some(Reverse(code)) => {
                self.hops[code as usize] = hop;
                code
            }
            None => {
                self.hops.push(hop);
                self.uses.push(0);
                self.hops.len() as u32 - 1
            }
        };
        if let Some(frequent) = self.frequent.get_mut(code as usize) {
            *frequent = hop;
        }
        self.codes.insert(hop, code);
        code
    }
}
