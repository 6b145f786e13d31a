//! Which flow packet *i* is part of, and which packet of it: computed from *i*, while flows arrive, live and end.
//!
//! # How
//!
//! As many flows live at any time as there are *lanes*. Packets go round: in each round every lane has one, in an order that is another permutation
//! each time. So packet *i* is number *i* / lanes of its lane, and the lane is a permuted *i* mod lanes.
//!
//! In a lane flows follow one another. Their lengths are those of one deck, dealt in a circle: a table whose size depends on the mixture
//! alone, and not on lanes or packets. Each lane begins at another position of the circle, so a position leads to its flow and to the sequence number in it
//! by one search between two neighbouring entries. Nothing is remembered from packet to packet, so any core makes any part, and a receiver
//! knows the flow of a packet from its number.
//!
//! The price: all live flows send at the same rate, and all lanes go through the same circle of lengths. What is right is what a flow table feels:
//! the share of packets that begin a flow (one in the mean length), the lengths of flows that begin, how many live, and how long one stays away.

use super::TrafficError;
use super::draw::{Divisor, below, draw};
use super::lengths::{Deck, Lengths};
use super::permutation::Permutation;

/// The order of lanes in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Another one each round.
    #[default]
    Shuffled,
    /// One after another, always the same: the friendliest traffic that there is.
    RoundRobin,
}

/// Where lanes are when traffic begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Somewhere in a flow, as on a link that has been up for long: new flows come at an even rate from the first packet on.
    #[default]
    Warm,
    /// At the first packet of a flow: the first round is all new flows.
    Cold,
}

/// The flows of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Flows {
    /// Flows that live at the same time.
    pub live: u64,
    /// Packets of a flow.
    pub lengths: Lengths,
    /// Lengths in the deck that flows are dealt from; 65,536 show the tail up to one flow in that number. Counts for mixtures only.
    pub strata: u32,
    /// The order in which live flows have their turn.
    pub order: Order,
    /// Where they are at the start.
    pub start: Start,
}

impl Flows {
    /// So many flows that never end.
    pub fn endless(live: u64) -> Self {
        Self {
            live,
            lengths: Lengths::Endless,
            strata: 1 << 16,
            order: Order::default(),
            start: Start::default(),
        }
    }

    /// Flows that come and go, with lengths of this mixture.
    pub fn churning(live: u64, lengths: super::Mixture) -> Self {
        Self {
            lengths: Lengths::Mixture(lengths),
            ..Self::endless(live)
        }
    }
}

/// The place of a packet among the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The flow's number. Flows that live at the same time have different ones.
    pub flow: u64,
    /// Packets of the flow before this one.
    pub sequence: u64,
    /// Packets that the flow has; `None` if it never ends.
    pub packets: Option<u64>,
    /// The lane: flows of a lane follow one another.
    pub lane: u64,
}

impl Member {
    /// True of the last packet of a flow.
    pub fn is_last(&self) -> bool {
        self.packets == Some(self.sequence + 1)
    }
}

/// Flows, by the number of a packet.
#[derive(Clone, Debug)]
pub struct Population {
    lanes: Divisor,
    order: Order,
    rounds: Permutation,
    start: Start,
    start_key: u64,
    deck: Option<Deck>,
}

impl Population {
    pub(super) fn new(flows: &Flows, seed: u64) -> Result<Self, TrafficError> {
        if !(1..=1 << 32).contains(&flows.live) {
            return Err(TrafficError::Live(flows.live));
        }
        let deck = match &flows.lengths {
            Lengths::Endless => None,
            Lengths::Fixed(packets) => {
                Some(Deck::fixed(*packets).ok_or(TrafficError::FlowPackets(*packets))?)
            }
            Lengths::Mixture(mixture) => Some(Deck::new(mixture, flows.strata, draw(seed, 0))?),
        };
        Ok(Self {
            lanes: Divisor::new(flows.live),
            order: flows.order,
            rounds: Permutation::new(flows.live, draw(seed, 1)),
            start: flows.start,
            start_key: draw(seed, 2),
            deck,
        })
    }

    /// Flows that live at the same time.
    #[inline(always)]
    pub fn live(&self) -> u64 {
        self.lanes.value()
    }

    /// Numbers of flows that live at the same time lie this far apart at most.
    pub(super) fn numbers(&self) -> u64 {
        // A lane may be one turn of its deck ahead of another.
        let deck = self.deck.as_ref().map_or(1, |deck| 2 * deck.flows());
        self.live() * deck
    }

    /// The flow of packet `i`.
    #[inline(always)]
    pub fn of(&self, i: u64) -> Member {
        let (round, at) = self.lanes.divide(i);
        let lane = match self.order {
            Order::Shuffled => self.rounds.apply(at, round),
            Order::RoundRobin => at,
        };
        self.in_lane(lane, round)
    }

    /// The packet of this lane in this round: the number that [`Population::of`] was given.
    pub fn number(&self, lane: u64, round: u64) -> u64 {
        let at = match self.order {
            Order::Shuffled => self.rounds.invert(lane, round),
            Order::RoundRobin => lane,
        };
        round * self.live() + at
    }

    #[inline(always)]
    fn in_lane(&self, lane: u64, round: u64) -> Member {
        let Some(deck) = &self.deck else {
            return Member {
                flow: lane,
                sequence: round,
                packets: None,
                lane,
            };
        };
        let (flows, packets) = (deck.flows(), deck.packets());
        let bits = draw(self.start_key, lane);
        let begin = match self.start {
            Start::Warm => below(bits, packets),
            Start::Cold => deck.start(below(bits, flows)),
        };
        let mut position = begin + round;
        let mut turn = 0;
        if position >= packets {
            (turn, position) = (position / packets, position % packets);
        }
        let (dealt, sequence) = deck.at(position);
        Member {
            flow: (turn * self.live() + lane) * flows + dealt,
            sequence,
            packets: Some(deck.length(dealt)),
            lane,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::Mixture;
    use super::*;

    fn small(live: u64, start: Start) -> Population {
        let flows = Flows {
            strata: 64,
            start,
            ..Flows::churning(live, Mixture::agh_campus())
        };
        Population::new(&flows, 5).expect("flows")
    }

    /// A flow is in one piece: its packets are numbered without gaps, it ends where its length says, and it never comes again.
    #[test]
    fn flows_are_whole() {
        for (live, start) in [(1, Start::Cold), (7, Start::Warm), (100, Start::Warm)] {
            let population = small(live, start);
            let mut open: HashMap<u64, Member> = HashMap::new();
            let mut ended = std::collections::HashSet::new();
            for i in 0..60_000 {
                let member = population.of(i);
                assert!(!ended.contains(&member.flow), "{member:?}");
                match open.insert(member.flow, member) {
                    Some(before) => {
                        assert_eq!(before.sequence + 1, member.sequence);
                        assert_eq!((before.packets, before.lane), (member.packets, member.lane));
                    }
                    // Only a warm start may begin in the middle.
                    None => assert!(
                        member.sequence == 0 || (start == Start::Warm && i < live),
                        "{i}: {member:?}"
                    ),
                }
                if member.is_last() {
                    open.remove(&member.flow);
                    ended.insert(member.flow);
                }
                assert!(open.len() as u64 <= live);
            }
            assert!(ended.len() > 100);
        }
    }

    /// Every lane has one packet in each round, and the number of a packet follows from both.
    #[test]
    fn rounds_have_every_lane_once() {
        let population = small(50, Start::Warm);
        for round in 0..20 {
            let mut seen = [false; 50];
            for at in 0..50 {
                let i = round * 50 + at;
                let lane = population.of(i).lane;
                assert!(!std::mem::replace(&mut seen[lane as usize], true));
                assert_eq!(population.number(lane, round), i);
            }
        }
    }

    /// The share of packets that begin a flow is one in the mean length, and of the flows that begin 47.8 % are one packet (the mixture's).
    #[test]
    fn churn_is_that_of_the_mixture() {
        let agh = Mixture::agh_campus();
        let flows = Flows::churning(10_000, agh.clone());
        let population = Population::new(&flows, 11).expect("flows");
        let mut began = vec![0u32; 10_000];
        let mut of_one = 0u64;
        let packets = 3_000_000;
        for i in 0..packets {
            let member = population.of(i);
            began[member.lane as usize] += u32::from(member.sequence == 0);
            of_one += u64::from(member.packets == Some(1));
        }
        let all = f64::from(began.iter().sum::<u32>());
        let expected = packets as f64 / agh.mean();
        // Lanes begin independently, and a lane inside a long flow begins none: the spread is that which the lanes show.
        let mean = all / 1e4;
        let squares = began.iter().map(|count| (f64::from(*count) - mean).powi(2));
        let spread = squares.sum::<f64>().sqrt();
        assert!(
            (all - expected).abs() < 4.0 * spread,
            "{all}, {expected}, spread {spread}"
        );
        let share = of_one as f64 / all;
        let spread = (0.478 * 0.522 / all).sqrt();
        assert!(
            (share - agh.share_at_most(1)).abs() < 6.0 * spread,
            "{share}"
        );
    }

    #[test]
    fn endless_flows_never_end() {
        let population = Population::new(&Flows::endless(10), 3).expect("flows");
        for i in 0..100 {
            let member = population.of(i);
            assert_eq!((member.sequence, member.packets), (i / 10, None));
            assert!(member.flow < 10 && !member.is_last());
        }
        for live in [0, u64::MAX] {
            assert!(Population::new(&Flows::endless(live), 3).is_err());
        }
    }

    proptest! {
        /// The order in which packets are asked for changes nothing.
        #[test]
        fn packets_know_nothing_of_each_other(seed: u64, mut at in prop::collection::vec(0u64..1 << 40, 1..50)) {
            let flows = Flows { strata: 64, ..Flows::churning(1000, Mixture::agh_campus()) };
            let population = Population::new(&flows, seed).expect("flows");
            let first: Vec<_> = at.iter().map(|i| population.of(*i)).collect();
            at.reverse();
            let other = Population::new(&flows, seed).expect("flows");
            let second: Vec<_> = at.iter().map(|i| other.of(*i)).collect();
            prop_assert!(first.iter().eq(second.iter().rev()));
        }
    }
}
