//! The definition, written down: one map for each length, asked from the longest down. Slow, and plainly right.

use std::collections::BTreeMap;

use super::NO_ROUTE;
use super::route::{Address, Prefix, Route};

/// A table of routes that says what is right.
#[derive(Clone, Debug)]
pub struct Model<A> {
    /// The hops by prefix, for each length; no map is empty.
    lengths: BTreeMap<u8, BTreeMap<A, u32>>,
}

impl<A: Address> Model<A> {
    /// A model of these routes; of equal prefixes the last counts.
    pub fn new(routes: &[Route<A>]) -> Self {
        let mut model = Self {
            lengths: BTreeMap::new(),
        };
        for route in routes {
            model.insert(route.prefix, route.hop);
        }
        model
    }

    /// Sends `prefix` to `hop`; gives the hop it had.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: u32) -> Option<u32> {
        let hops = self.lengths.entry(prefix.bits()).or_default();
        hops.insert(prefix.address(), hop)
    }

    /// Takes `prefix` out; gives the hop it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<u32> {
        let hops = self.lengths.get_mut(&prefix.bits())?;
        let hop = hops.remove(&prefix.address());
        if hops.is_empty() {
            self.lengths.remove(&prefix.bits());
        }
        hop
    }

    /// The hop of exactly this prefix.
    pub fn exact(&self, prefix: Prefix<A>) -> Option<u32> {
        let hops = self.lengths.get(&prefix.bits())?;
        hops.get(&prefix.address()).copied()
    }

    /// The hop of the longest prefix that `address` lies in, or [`NO_ROUTE`].
    pub fn lookup(&self, address: A) -> u32 {
        let longest_first = self.lengths.iter().rev();
        longest_first
            .filter_map(|(len, hops)| hops.get(&Prefix::of(address, *len).address()))
            .next()
            .copied()
            .unwrap_or(NO_ROUTE)
    }
}
