//! The choice of a partition for each component.

/// A channel between two components, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) ends: [usize; 2],
    /// The least time from an event at one end to the arrival of a message of it at the other; zero if both ends must stay together.
    pub(super) lookahead_ps: u64,
}

/// The partition of each component. Partitions are numbered from zero without gaps; there are at most `partitions`.
///
/// The least latency between two partitions is how far one may run ahead of the other, so it is made as great as can be while there are enough
/// groups of components; then groups go to partitions, the heaviest first, each to the partition that has the least.
pub(super) fn place(weights: &[u64], edges: &[Edge], partitions: usize) -> Vec<usize> {
    let mut cuts: Vec<u64> = edges.iter().map(|edge| edge.lookahead_ps).collect();
    cuts.retain(|&lookahead_ps| lookahead_ps > 0);
    cuts.sort_unstable_by(|a, b| b.cmp(a));
    cuts.dedup();
    // Without a cut, what hangs together stays together.
    let thresholds = std::iter::once(u64::MAX).chain(cuts);
    let groupings = thresholds.map(|threshold_ps| group(weights.len(), edges, threshold_ps));
    let mut groups = Vec::new();
    for grouping in groupings {
        groups = grouping;
        if count(&groups) >= partitions {
            break;
        }
    }
    pack(weights, &groups, partitions.max(1))
}

/// Groups of components that are joined by channels of less than this latency: for each its least member.
fn group(components: usize, edges: &[Edge], threshold_ps: u64) -> Vec<usize> {
    let mut parents: Vec<usize> = (0..components).collect();
    let root = |parents: &[usize], mut at: usize| {
        while parents[at] != at {
            at = parents[at];
        }
        at
    };
    for edge in edges.iter().filter(|edge| edge.lookahead_ps < threshold_ps) {
        let [a, b] = edge.ends.map(|end| root(&parents, end));
        parents[a.max(b)] = a.min(b);
    }
    (0..components).map(|at| root(&parents, at)).collect()
}

fn count(groups: &[usize]) -> usize {
    let roots = groups.iter().enumerate();
    roots.filter(|&(at, &group)| at == group).count()
}

fn pack(weights: &[u64], groups: &[usize], partitions: usize) -> Vec<usize> {
    let mut heavy: Vec<(u64, usize)> = Vec::new();
    for (group, _) in groups.iter().enumerate().filter(|&(at, &it)| at == it) {
        let members = groups.iter().zip(weights).filter(|&(&it, _)| it == group);
        heavy.push((members.map(|(_, weight)| weight).sum(), group));
    }
    heavy.sort_unstable_by_key(|&(weight, group)| (std::cmp::Reverse(weight), group));
    let mut loads = vec![0u64; partitions.min(heavy.len()).max(1)];
    let mut places = vec![0; groups.len()];
    for (weight, group) in heavy {
        let lightest = (0..loads.len()).min_by_key(|&at| (loads[at], at));
        let lightest = lightest.expect("there is a partition");
        // A group without weight is a part of the load too, or all of them would share a partition.
        loads[lightest] += weight.max(1);
        for (place, _) in places
            .iter_mut()
            .zip(groups)
            .filter(|(_, it)| **it == group)
        {
            *place = lightest;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(a: usize, b: usize, lookahead_ps: u64) -> Edge {
        Edge {
            ends: [a, b],
            lookahead_ps,
        }
    }

    #[test]
    fn the_longest_latencies_are_cut() {
        // Two hosts with their cards, and a switch: PCIe is short, wires are long.
        let edges = [
            edge(0, 1, 300),
            edge(1, 2, 1000),
            edge(2, 3, 1000),
            edge(3, 4, 300),
        ];
        assert_eq!(place(&[1; 5], &edges, 1), [0; 5]);
        assert_eq!(place(&[1; 5], &edges, 2), [0, 0, 0, 1, 1]);
        assert_eq!(place(&[5, 5, 1, 5, 5], &edges, 3), [0, 0, 2, 1, 1]);
        let five = place(&[1; 5], &edges, 5);
        assert_eq!(five, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn channels_without_latency_are_never_cut() {
        let edges = [edge(0, 1, 0), edge(1, 2, 0), edge(3, 2, 50)];
        assert_eq!(place(&[1; 4], &edges, 4), [0, 0, 0, 1]);
        assert_eq!(place(&[1; 3], &edges[..2], 2), [0, 0, 0]);
        assert_eq!(place(&[], &[], 2), [0usize; 0]);
    }
}
