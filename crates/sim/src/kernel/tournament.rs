//! The earliest of many sources of events, found again in a few steps after one of them has changed.

/// Sources with the time of their next event each. The first is the one with the least time, and of several the one with the least number.
///
/// A tree of knock-out matches (Knuth, *The Art of Computer Programming*, volume 3, section 5.4.1): a change is one walk from a leaf to the root that
/// compares with a neighbour at each level. No event moves.
#[derive(Debug)]
pub(super) struct Tournament {
    /// The root has number 1, the children of `n` are `2 n` and `2 n + 1`, the leaves come last. Each node is its first source: the time in the upper half, the
    /// number in the lower.
    nodes: Box<[u128]>,
    leaves: usize,
}

/// The time of a source that has no event.
pub(super) const NEVER_PS: u64 = u64::MAX;

impl Tournament {
    /// A tournament of `sources` without events.
    pub(super) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two();
        let mut nodes: Box<[u128]> = (0..2 * leaves)
            .map(|at| node(NEVER_PS, at.saturating_sub(leaves)))
            .collect();
        for at in (1..leaves).rev() {
            nodes[at] = nodes[2 * at].min(nodes[2 * at + 1]);
        }
        Self { nodes, leaves }
    }

    /// The least time of all sources, and the number of the source that has it.
    #[inline]
    pub(super) fn first(&self) -> (u64, usize) {
        let first = self.nodes[1];
        ((first >> 64) as u64, first as u64 as usize)
    }

    /// The next event of a source is due at this time.
    #[inline]
    pub(super) fn set(&mut self, source: usize, due_ps: u64) {
        let mut at = self.leaves + source;
        let mut first = node(due_ps, source);
        self.nodes[at] = first;
        while at > 1 {
            first = first.min(self.nodes[at ^ 1]);
            at /= 2;
            self.nodes[at] = first;
        }
    }
}

#[inline]
fn node(due_ps: u64, source: usize) -> u128 {
    u128::from(due_ps) << 64 | source as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_least_of_a_list(
            sources in 1usize..40,
            changes in prop::collection::vec((0usize..40, prop_oneof![0u64..8, Just(NEVER_PS)]), 0..200),
        ) {
            let mut tournament = Tournament::new(sources);
            let mut list = vec![NEVER_PS; sources];
            for (source, due_ps) in changes {
                let source = source % sources;
                tournament.set(source, due_ps);
                list[source] = due_ps;
                let least = list.iter().enumerate().map(|(at, &due_ps)| (due_ps, at)).min();
                prop_assert_eq!(Some(tournament.first()), least);
            }
        }
    }
}
