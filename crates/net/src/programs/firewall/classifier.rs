//! The first of many rules that a tuple fits: [`Classifier`].

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;

use crate::flow::Tuple;

/// The ranges of one rule, in one family.
#[derive(Clone, Debug)]
pub(super) struct Fit<A> {
    /// Source and destination.
    pub(super) addresses: [RangeInclusive<A>; 2],
    /// Source and destination.
    pub(super) ports: [RangeInclusive<u16>; 2],
    /// `None` is any.
    pub(super) protocol: Option<u8>,
}

/// A value of a part of tuples: its least one, and the next one.
pub(super) trait Value: Ord + Copy {
    const LEAST: Self;
    fn next(self) -> Option<Self>;
}

macro_rules! values {
    ($($type:ty),+) => {$(
        impl Value for $type {
            const LEAST: Self = 0;

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )+};
}

values!(u8, u16, u32, u128);

/// Rules of one family.
pub(super) struct Classifier<A> {
    sets: Sets,
    addresses: [Part<A>; 2],
    ports: [Part<u16>; 2],
    protocols: Part<u8>,
}

/// One part of tuples, cut where the rules that fit change.
struct Part<T> {
    /// The first value of each interval, rising, from the least one.
    starts: Vec<T>,
    /// The set of rules that fit an interval.
    sets: Vec<u32>,
}

/// Sets of rules as vectors of bits, each once. The lowest bit of the first word is rule 0.
struct Sets {
    words: usize,
    bits: Vec<u64>,
    /// For each word of a set a bit that says if there is any in it.
    summary_words: usize,
    summaries: Vec<u64>,
}

const WORD_BITS: usize = u64::BITS as usize;

impl<A: Value> Classifier<A> {
    /// For rules of which those that no packet of this family matches are `None`.
    pub(super) fn new(rules: Vec<Option<Fit<A>>>) -> Self {
        let mut maker = Maker::new(rules.len());
        let mut part = |of: usize| {
            let ranges = rules.iter().map(|rule| {
                let rule = rule.as_ref()?;
                Some(rule.addresses[of].clone())
            });
            maker.part(ranges)
        };
        let addresses = [part(0), part(1)];
        let mut part = |of: usize| {
            let ranges = rules.iter().map(|rule| {
                let rule = rule.as_ref()?;
                Some(rule.ports[of].clone())
            });
            maker.part(ranges)
        };
        let ports = [part(0), part(1)];
        let protocols = maker.part(rules.iter().map(|rule| {
            let protocol = rule.as_ref()?.protocol;
            Some(protocol.map_or(0..=u8::MAX, |of| of..=of))
        }));
        Self {
            sets: maker.sets,
            addresses,
            ports,
            protocols,
        }
    }

    /// The first rule that `tuple` fits.
    pub(super) fn first(&self, tuple: &Tuple<A>) -> Option<usize> {
        let [source, destination] = &self.addresses;
        let [from, to] = &self.ports;
        self.sets.first([
            source.set(tuple.addresses[0]),
            destination.set(tuple.addresses[1]),
            from.set(tuple.ports[0]),
            to.set(tuple.ports[1]),
            self.protocols.set(tuple.protocol),
        ])
    }
}

impl<T: Value> Part<T> {
    #[inline]
    fn set(&self, value: T) -> usize {
        // The first interval begins at the least value, so there is always one.
        let behind = self.starts.partition_point(|start| *start <= value);
        self.sets[behind - 1] as usize
    }
}

impl Sets {
    /// The lowest rule that all of five sets have.
    fn first(&self, sets: [usize; 5]) -> Option<usize> {
        for summary in 0..self.summary_words {
            let of = |set: usize| self.summaries[set * self.summary_words + summary];
            let mut words = sets.iter().fold(u64::MAX, |all, set| all & of(*set));
            while words != 0 {
                let word = summary * WORD_BITS + words.trailing_zeros() as usize;
                let of = |set: usize| self.bits[set * self.words + word];
                let rules = sets.iter().fold(u64::MAX, |all, set| all & of(*set));
                if rules != 0 {
                    return Some(word * WORD_BITS + rules.trailing_zeros() as usize);
                }
                words &= words - 1;
            }
        }
        None
    }
}

/// Makes the sets of all parts, each once.
struct Maker {
    sets: Sets,
    numbers: HashMap<Box<[u64]>, u32>,
}

impl Maker {
    fn new(rules: usize) -> Self {
        let words = rules.div_ceil(WORD_BITS);
        Self {
            sets: Sets {
                words,
                bits: Vec::new(),
                summary_words: words.div_ceil(WORD_BITS),
                summaries: Vec::new(),
            },
            numbers: HashMap::new(),
        }
    }

    /// The part whose ranges these are, rule after rule.
    fn part<T: Value>(
        &mut self,
        ranges: impl Iterator<Item = Option<RangeInclusive<T>>>,
    ) -> Part<T> {
        // At which value a rule begins to fit, and at which it no longer does.
        let mut changes = Vec::new();
        for (rule, range) in ranges.enumerate() {
            if let Some(range) = range {
                changes.push((*range.start(), rule, true));
                changes.extend(range.end().next().map(|end| (end, rule, false)));
            }
        }
        changes.sort_unstable_by_key(|(value, ..)| *value);
        let mut part = Part {
            starts: vec![T::LEAST],
            sets: Vec::new(),
        };
        let mut set = vec![0; self.sets.words];
        let mut changes = changes.into_iter().peekable();
        loop {
            let at = part.starts[part.starts.len() - 1];
            // A rule has one range: it does not end and begin at one value.
            while let Some((_, rule, fits)) = changes.next_if(|(value, ..)| *value == at) {
                let bit = 1 << (rule % WORD_BITS);
                match fits {
                    true => set[rule / WORD_BITS] |= bit,
                    false => set[rule / WORD_BITS] &= !bit,
                }
            }
            part.sets.push(self.number(&set));
            let Some((next, ..)) = changes.peek() else {
                return part;
            };
            part.starts.push(*next);
        }
    }

    /// The number of this set.
    fn number(&mut self, set: &[u64]) -> u32 {
        let sets = &mut self.sets;
        *self.numbers.entry(set.into()).or_insert_with_key(|set| {
            let number = sets.summaries.len().checked_div(sets.summary_words);
            sets.bits.extend_from_slice(set);
            for words in set.chunks(WORD_BITS) {
                let any = |sum: u64, (word, at): (&u64, u32)| sum | u64::from(*word != 0) << at;
                (sets.summaries).push(words.iter().zip(0..).fold(0, any));
            }
            number.unwrap_or(0) as u32
        })
    }
}

impl<A> fmt::Debug for Classifier<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, destination] = self.addresses.each_ref().map(|part| part.starts.len());
        let bytes = (self.sets.bits.len() + self.sets.summaries.len()) * size_of::<u64>();
        write!(
            f,
            "Classifier({source} and {destination} intervals of addresses, {bytes} bytes of sets)"
        )
    }
}
