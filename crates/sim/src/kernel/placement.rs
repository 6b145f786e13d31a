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
/// The least lookahead between two partitions is how far one may run ahead of the other, so it is made as great as can be while there are enough
/// groups of components; then groups go to partitions, so that the one that has most to do has as little as can be ([`Graph::cost`]).
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
    let graph = Graph::new(weights, edges, &groups);
    let partitions = partitions.min(graph.weights.len()).max(1);
    let starts = [graph.by_weight(partitions), graph.by_way(partitions)];
    let placed = starts.map(|start| graph.improve(start, partitions));
    let best = placed.iter().min_by_key(|it| graph.cost(it, partitions));
    let best = best.map_or(&[][..], Vec::as_slice);
    // The partition of the first component is the first.
    let mut numbers = vec![None; partitions];
    let mut next = 0;
    let numbered = graph.group_of.iter().map(|&group| {
        *numbers[best[group]].get_or_insert_with(|| {
            next += 1;
            next - 1
        })
    });
    numbered.collect()
}

/// The part of an event's work that a message costs which crosses over to another partition, on either side: one in so many.
const CROSSING: u64 = 4;
/// Groups up to which exchanges of two are tried, besides moves of one.
const EXCHANGED: usize = 40;

/// Groups of components that stay together.
struct Graph {
    /// The group of each component.
    group_of: Vec<usize>,
    /// The work of each group, twice [`CROSSING`] for each unit of weight: so what crosses is whole numbers.
    weights: Vec<u64>,
    /// Channels between groups, and what each would cost if it were cut. A channel carries about half of what the lesser of its ends handles.
    ways: Vec<([usize; 2], u64)>,
}

impl Graph {
    /// The graph of groups that are told by their least members.
    fn new(weights: &[u64], edges: &[Edge], groups: &[usize]) -> Self {
        let roots = groups.iter().enumerate();
        let roots: Vec<usize> = roots
            .filter(|&(at, &root)| at == root)
            .map(|(at, _)| at)
            .collect();
        let group_of = groups
            .iter()
            .map(|root| roots.partition_point(|it| it < root));
        let group_of: Vec<usize> = group_of.collect();
        let mut sums = vec![0; roots.len()];
        for (&group, weight) in group_of.iter().zip(weights) {
            sums[group] += weight * 2 * CROSSING;
        }
        // A group without weight is a part of the load too, or all of them would share a partition.
        for sum in &mut sums {
            *sum = (*sum).max(1);
        }
        let ways = edges.iter().map(|edge| {
            let [a, b] = edge.ends;
            (
                edge.ends.map(|end| group_of[end]),
                weights[a].min(weights[b]),
            )
        });
        let ways = ways.filter(|([a, b], _)| a != b).collect();
        Self {
            group_of,
            weights: sums,
            ways,
        }
    }

    /// The work of the partition that has most, with what crosses; then all that crosses.
    fn cost(&self, places: &[usize], partitions: usize) -> (u64, u64) {
        let mut loads = vec![0; partitions];
        let mut crossing = 0;
        for (&place, weight) in places.iter().zip(&self.weights) {
            loads[place] += weight;
        }
        for &(ends, cost) in &self.ways {
            let [a, b] = ends.map(|end| places[end]);
            if a != b {
                loads[a] += cost;
                loads[b] += cost;
                crossing += cost;
            }
        }
        (loads.into_iter().max().unwrap_or(0), crossing)
    }

    /// The heaviest first, each to the partition that has the least.
    fn by_weight(&self, partitions: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.weights.len()).collect();
        order.sort_by_key(|&group| std::cmp::Reverse(self.weights[group]));
        let mut loads = vec![0; partitions];
        let mut places = vec![0; order.len()];
        for group in order {
            let lightest = (0..partitions).min_by_key(|&at| (loads[at], at));
            places[group] = lightest.unwrap_or(0);
            loads[places[group]] += self.weights[group];
        }
        places
    }

    /// Along the ways, so that neighbours share a partition until it has its share.
    fn by_way(&self, partitions: usize) -> Vec<usize> {
        let mut places = vec![usize::MAX; self.weights.len()];
        let (mut place, mut load) = (0, 0);
        let share = self.weights.iter().sum::<u64>() / partitions as u64;
        let mut left = places.len();
        for start in 0..places.len() {
            let mut stack = vec![start];
            while let Some(group) = stack.pop() {
                if places[group] != usize::MAX {
                    continue;
                }
                let is_full = load + self.weights[group] / 2 > share || left < partitions - place;
                if load > 0 && is_full && place + 1 < partitions {
                    (place, load) = (place + 1, 0);
                }
                places[group] = place;
                load += self.weights[group];
                left -= 1;
                let ends = self.ways.iter().map(|(ends, _)| ends);
                stack.extend(ends.filter(|ends| ends[0] == group).map(|ends| ends[1]));
            }
        }
        places
    }

    /// Moves groups, and exchanges them, as long as the cost falls.
    fn improve(&self, mut places: Vec<usize>, partitions: usize) -> Vec<usize> {
        let mut cost = self.cost(&places, partitions);
        'better: loop {
            for a in 0..places.len() {
                let from = places[a];
                let is_alone = places.iter().filter(|&&it| it == from).count() == 1;
                for to in (0..partitions).filter(|&to| to != from && !is_alone) {
                    places[a] = to;
                    let moved = self.cost(&places, partitions);
                    if moved < cost {
                        cost = moved;
                        continue 'better;
                    }
                }
                places[a] = from;
                let others = if places.len() <= EXCHANGED {
                    a + 1
                } else {
                    places.len()
                };
                for b in others..places.len() {
                    places.swap(a, b);
                    let exchanged = self.cost(&places, partitions);
                    if exchanged < cost {
                        cost = exchanged;
                        continue 'better;
                    }
                    places.swap(a, b);
                }
            }
            return places;
        }
    }
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
        let two = place(&[1; 5], &edges, 2);
        assert!(two == [0, 0, 0, 1, 1] || two == [0, 0, 1, 1, 1], "{two:?}");
        assert_eq!(place(&[5, 5, 1, 5, 5], &edges, 3), [0, 0, 1, 2, 2]);
        let five = place(&[1; 5], &edges, 5);
        assert_eq!(five, [0, 1, 2, 3, 4]);
    }

    /// Joints of switches and hosts, both ways.
    fn both(joints: &[(usize, usize)]) -> Vec<Edge> {
        let edges = joints
            .iter()
            .flat_map(|&(a, b)| [edge(a, b, 1000), edge(b, a, 1000)]);
        edges.collect()
    }

    #[test]
    fn few_channels_are_cut() {
        // A server that has as much to do as its two clients and the switch: one link is cut, not two.
        let star = both(&[(0, 3), (1, 3), (2, 3)]);
        assert_eq!(place(&[14, 7, 7, 3], &star, 2), [0, 1, 1, 1]);
        // Two racks of four hosts, numbered in turns.
        let racks: Vec<(usize, usize)> = (0..8).map(|host| (host, 8 + host % 2)).collect();
        let racks = both(&[racks, vec![(8, 9)]].concat());
        let placed = place(&[4, 4, 4, 4, 4, 4, 4, 4, 2, 2], &racks, 2);
        assert_eq!(placed, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn all_partitions_are_used() {
        let star = both(&(1..30).map(|host| (host, 0)).collect::<Vec<_>>());
        for partitions in 1..=30 {
            let placed = place(&[1; 30], &star, partitions);
            let mut used = placed.clone();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used, Vec::from_iter(0..partitions));
            let most = (0..partitions).map(|at| placed.iter().filter(|&&it| it == at).count());
            assert!(
                most.max() <= Some(30usize.div_ceil(partitions) + 2),
                "{placed:?}"
            );
        }
    }

    #[test]
    fn channels_without_latency_are_never_cut() {
        let edges = [edge(0, 1, 0), edge(1, 2, 0), edge(3, 2, 50)];
        assert_eq!(place(&[1; 4], &edges, 4), [0, 0, 0, 1]);
        assert_eq!(place(&[1; 3], &edges[..2], 2), [0, 0, 0]);
        assert_eq!(place(&[], &[], 2), [0usize; 0]);
    }
}
