//! Packets out of order: of the whole stream as RFC 4737 counts them, and within flows.

use std::collections::VecDeque;

use dpb_core::measure::latency::Latencies;

use super::numbers::Numbers;
use crate::traffic::{Member, Population};

/// Arrivals whose order is remembered for n-reordering. TCP's fast retransmission looks at three.
const RECENT: usize = 64;
/// Runs that are remembered: 16 MiB. A gap ends a run, so extents are exact over a million of gaps; those that reach further back are cut there.
const RUNS_MAX: usize = 1 << 20;

/// Reordering of one stream (RFC 4737). Copies and foreign packets have no part in it.
///
/// * A packet is *reordered* if one with a higher number arrived before it (section 3.3).
/// * Its *extent* is the number of arrivals back to the first of those (section 4.2).
/// * It is *n-reordered* if the n arrivals right before it all have higher numbers (section 5.3). A packet that is 3-reordered makes TCP send one again.
#[derive(Debug)]
pub struct Order {
    arrivals: u64,
    /// The number after the highest that arrived.
    next: u64,
    reordered: u64,
    extents: Latencies,
    extent_max: u64,
    n_reordered: [u64; RECENT],
    recent: [u64; RECENT],
    /// Packets that arrived in order, as runs of numbers without a gap. A late packet fell into a gap, so all of the run behind it arrived before it.
    runs: VecDeque<Run>,
}

/// The first packet of a run.
#[derive(Clone, Copy, Debug)]
struct Run {
    number: u64,
    arrival: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            arrivals: 0,
            next: 0,
            reordered: 0,
            extents: Latencies::default(),
            extent_max: 0,
            n_reordered: [0; RECENT],
            recent: [0; RECENT],
            runs: VecDeque::new(),
        }
    }
}

impl Order {
    /// Counts a packet's arrival; true if it is reordered.
    ///
    /// # Panics
    /// It may, if the number has arrived before: copies are not given to it.
    #[inline]
    pub fn arrive(&mut self, number: u64) -> bool {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let is_late = number < self.next;
        if is_late {
            self.late(number, arrival);
        } else {
            if number > self.next || self.runs.is_empty() {
                self.begin_run(number, arrival);
            }
            self.next = number + 1;
        }
        self.recent[(arrival % RECENT as u64) as usize] = number;
        is_late
    }

    #[cold]
    fn late(&mut self, number: u64, arrival: u64) {
        self.reordered += 1;
        let after = self.runs.partition_point(|run| run.number <= number);
        // Something with a higher number has arrived in order, so there is such a run.
        let first = self.runs[after].arrival;
        let extent = arrival - first;
        self.extents.record(extent);
        self.extent_max = self.extent_max.max(extent);
        let before = (1..=RECENT as u64).take_while(|n| {
            *n <= arrival && self.recent[((arrival - n) % RECENT as u64) as usize] > number
        });
        for n in before {
            self.n_reordered[n as usize - 1] += 1;
        }
    }

    fn begin_run(&mut self, number: u64, arrival: u64) {
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(Run { number, arrival });
    }

    /// Packets that arrived, each once.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Packets that are reordered.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// The largest extent, in packets; zero if nothing is reordered.
    pub fn extent_max(&self) -> u64 {
        self.extent_max
    }

    /// The extent that `share` of the reordered packets do not exceed, to three digits.
    pub fn extent_percentile(&self, share: f64) -> u64 {
        self.extents.percentile_ns(share)
    }

    /// Packets that are `n`-reordered, for n from 1 to 64.
    ///
    /// # Panics
    /// If n is another number.
    pub fn n_reordered(&self, n: usize) -> u64 {
        self.n_reordered[n - 1]
    }
}

/// Reordering within flows. A system with several cores may exchange packets of two flows, and must not do so with packets of one.
///
/// Flows of a lane follow one another, so one number a lane is enough: the highest that arrived. Only where a packet arrives after one of a later
/// flow of its lane are the numbers looked through that would have come between.
#[derive(Debug)]
pub struct FlowOrder {
    /// Of each lane, the number after the highest that arrived.
    next: Vec<u64>,
    reordered: u64,
}

impl FlowOrder {
    /// For the flows of a population.
    pub fn new(population: &Population) -> Self {
        Self {
            next: vec![0; population.live() as usize],
            reordered: 0,
        }
    }

    /// Packets that arrived after a later one of the same flow.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Counts packet `number`, which is `member`, given all that have `arrived`. True if it is reordered.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        population: &Population,
        arrived: &Numbers,
        number: u64,
        member: Member,
    ) -> bool {
        let next = &mut self.next[member.lane as usize];
        if number >= *next {
            *next = number + 1;
            return false;
        }
        let highest = *next - 1;
        let is_late = is_late(population, arrived, number, member, highest);
        self.reordered += u64::from(is_late);
        is_late
    }
}

/// True if a packet of the same flow between `number` and `highest`, the highest of its lane, has arrived.
#[cold]
fn is_late(
    population: &Population,
    arrived: &Numbers,
    number: u64,
    member: Member,
    highest: u64,
) -> bool {
    let (live, lane) = (population.live(), member.lane);
    let later = population.of(highest);
    if later.flow == member.flow {
        return true;
    }
    let round = number / live;
    // Those of the flow that come after it.
    let left = member
        .packets
        .map_or(u64::MAX, |packets| packets - member.sequence - 1);
    let last = (highest / live).min(round.saturating_add(left));
    (round + 1..=last).any(|round| arrived.contains(population.number(lane, round)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(numbers: &[u64]) -> Order {
        let mut order = Order::default();
        numbers.iter().for_each(|number| {
            order.arrive(*number);
        });
        order
    }

    /// RFC 4737, section 7, tables 1 to 3: reordered packets and their extents; n-reordering of each packet.
    #[test]
    fn the_examples_of_the_rfc() {
        let one = of(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
        assert_eq!((one.reordered(), one.extent_max()), (1, 4));
        assert_eq!((one.n_reordered(4), one.n_reordered(5)), (1, 0));
        let two = of(&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10]);
        assert_eq!((two.reordered(), two.extent_max()), (2, 2));
        // Packet 6 comes right after 5, which is lower: it is not even 1-reordered.
        assert_eq!((two.n_reordered(1), two.n_reordered(2)), (1, 0));
        let three = of(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]);
        assert_eq!((three.reordered(), three.extent_max()), (3, 6));
        assert_eq!(three.extent_percentile(0.1), 4);
        assert_eq!((three.n_reordered(1), three.n_reordered(4)), (1, 1));
    }

    #[test]
    fn losses_are_no_reordering() {
        let order = of(&[0, 1, 5, 6, 9]);
        assert_eq!((order.reordered(), order.arrivals()), (0, 5));
        let order = of(&[0, 1, 5, 6, 9, 3, 7]);
        // 3 after 5, the third of six arrivals; 7 after 9.
        assert_eq!((order.reordered(), order.extent_max()), (2, 3));
    }

    /// Behind more gaps than are remembered an extent is too short.
    #[test]
    fn extents_reach_over_a_million_of_gaps() {
        let mut order = Order::default();
        // Every second number: each begins a run, and the first two runs are forgotten.
        (0..RUNS_MAX as u64 + 2).for_each(|i| {
            order.arrive(2 * i);
        });
        order.arrive(1);
        assert_eq!(order.reordered(), 1);
        // The run of number 2 is among those that are forgotten.
        assert_eq!(order.extent_max(), RUNS_MAX as u64);
        order.arrive(2 * RUNS_MAX as u64 + 1);
        assert_eq!(
            (order.reordered(), order.extent_max()),
            (2, RUNS_MAX as u64)
        );
    }

    proptest! {
        /// As the RFC's definitions say, applied to the whole history.
        #[test]
        fn as_defined(len in 1usize..120, moves in prop::collection::vec((0usize..120, 0usize..120), 0..30), lost in prop::collection::vec(0usize..120, 0..20)) {
            let mut sent: Vec<u64> = (0..len as u64).collect();
            for (from, to) in moves {
                let number = sent.remove(from % len);
                sent.insert(to % len, number);
            }
            for at in lost {
                if sent.len() > 1 {
                    sent.remove(at % sent.len());
                }
            }
            let mut order = Order::default();
            let (mut reordered, mut extent_max, mut by_n) = (0, 0, [0u64; RECENT]);
            for (at, number) in sent.iter().enumerate() {
                let first = sent[..at].iter().position(|other| other > number);
                prop_assert_eq!(order.arrive(*number), first.is_some());
                if let Some(first) = first {
                    reordered += 1;
                    extent_max = extent_max.max(at - first);
                    let before = sent[..at].iter().rev().take_while(|other| *other > number).count();
                    by_n[..before.min(RECENT)].iter_mut().for_each(|count| *count += 1);
                }
            }
            prop_assert_eq!(order.reordered(), reordered);
            prop_assert_eq!(order.extent_max(), extent_max as u64);
            prop_assert_eq!(order.n_reordered, by_n);
        }
    }
}
