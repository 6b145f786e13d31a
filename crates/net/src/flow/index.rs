//! Numbers by hashes: where in an array the thing with a key is.
//!
//! A number lies in one of two buckets (partial-key cuckoo hashing: Fan, Andersen and Kaminsky, "MemC3", NSDI 2013), in the first one where
//! that has room. Where both are full, one of their numbers goes to its other bucket; no second one moves for that, so an insertion
//! takes bounded time. If none can, the number goes to an ordered map beside the buckets. So there is room for every number, whatever the hashes
//! are. A bucket says if numbers of it are elsewhere, so that a key that is not there costs one line.

use std::collections::BTreeMap;

use dpb_core::huge::Huge;
use dpb_core::prefetch::prefetch_lines;

use super::bucket::{Bucket, PLACES, Tag};

/// Of a hundred places so many are taken when there are all numbers. With numbers that come and go at random, one in twenty is then in its
/// second bucket, and one bucket in twenty is full (Erlang's formula for ten servers and an offered load of 6.3). At 95 of a hundred it would be a third,
/// and each of these costs a line more.
const FILL_PERCENT: u64 = 60;

/// The numbers of things with keys `K`.
#[derive(Debug)]
pub(super) struct Index<K> {
    buckets: Huge<Bucket>,
    overflow: BTreeMap<K, u32>,
    moved: u64,
}

/// Buckets for so many numbers. Two at least, so that a number has a choice.
fn buckets(numbers: u64) -> u64 {
    let places = numbers.saturating_mul(100).div_ceil(FILL_PERCENT);
    places.div_ceil(PLACES as u64).max(2)
}

impl<K: Ord + Copy> Index<K> {
    /// For `numbers` of them; `None` if there is no memory.
    pub(super) fn new(numbers: usize) -> Option<Self> {
        let buckets = usize::try_from(buckets(numbers as u64)).ok()?;
        Some(Self {
            buckets: Huge::filled(Bucket::default(), buckets)?,
            overflow: BTreeMap::new(),
            moved: 0,
        })
    }

    /// Bytes of the buckets for so many numbers.
    pub(super) fn bytes(numbers: usize) -> u64 {
        (buckets(numbers as u64)).saturating_mul(size_of::<Bucket>() as u64)
    }

    /// Numbers that were moved to make room.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// Numbers that no bucket has room for.
    #[cfg(test)]
    pub(super) fn overflowed(&self) -> usize {
        self.overflow.len()
    }

    /// Asks for the bucket that [`Index::likely`] reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_lines(&self.buckets, self.first(hash));
    }

    /// The number with this hash, as far as the first bucket's tags show it, and true. Without one, any number and false.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u64) -> (u32, bool) {
        self.buckets[self.first(hash)].first_with(Tag::of(hash))
    }

    /// Asks for the second bucket of a hash for which the first one shows nothing, if it will be read.
    #[inline(always)]
    pub(super) fn prefetch_second(&self, hash: u64) {
        let first = self.first(hash);
        let bucket = &self.buckets[first];
        if bucket.has_spilled() || bucket.empty().is_none() {
            prefetch_lines(&self.buckets, self.other(first, Tag::of(hash)));
        }
    }

    /// As [`Index::likely`], of the second bucket.
    #[inline(always)]
    pub(super) fn likely_second(&self, hash: u64) -> Option<u32> {
        let (first, tag) = (self.first(hash), Tag::of(hash));
        if !self.buckets[first].has_spilled() {
            return None;
        }
        let (number, is_there) = self.buckets[self.other(first, tag)].first_with(tag);
        is_there.then_some(number)
    }

    /// The number of `key`, which `is` tells from others with its tag.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, key: &K, is: impl Fn(u32) -> bool) -> Option<u32> {
        let (first, tag) = (self.first(hash), Tag::of(hash));
        let bucket = &self.buckets[first];
        for place in bucket.with(tag) {
            let number = bucket.number(place);
            if is(number) {
                return Some(number);
            }
        }
        if !bucket.has_spilled() {
            return None;
        }
        let bucket = &self.buckets[self.other(first, tag)];
        for place in bucket.with(tag) {
            let number = bucket.number(place);
            if is(number) {
                return Some(number);
            }
        }
        self.overflow.get(key).copied()
    }

    /// Adds a number. Its key is not there yet.
    #[inline(always)]
    pub(super) fn add(&mut self, hash: u64, key: K, number: u32) {
        let (first, tag) = (self.first(hash), Tag::of(hash));
        match self.buckets[first].empty() {
            Some(place) => self.buckets[first].put(place, tag, number, false),
            None => self.add_elsewhere(first, tag, key, number),
        }
    }

    #[inline(never)]
    fn add_elsewhere(&mut self, first: usize, tag: Tag, key: K, number: u32) {
        let second = self.other(first, tag);
        let place = match self.buckets[second].empty() {
            Some(place) => Some((second, place)),
            None => self.make_room(second).or_else(|| self.make_room(first)),
        };
        match place {
            Some((bucket, place)) => self.buckets[bucket].put(place, tag, number, bucket != first),
            None => {
                self.overflow.insert(key, number);
            }
        }
        if place.is_none_or(|(bucket, _)| bucket != first) {
            self.buckets[first].spill();
        }
    }

    /// Moves one number of a full bucket to its other bucket; says which place is empty now.
    fn make_room(&mut self, bucket: usize) -> Option<(usize, usize)> {
        for place in 0..PLACES {
            let tag = self.buckets[bucket].tag(place)?;
            prefetch_lines(&self.buckets, self.other(bucket, tag));
        }
        for place in 0..PLACES {
            let tag = self.buckets[bucket].tag(place)?;
            let to = self.other(bucket, tag);
            let Some(empty) = self.buckets[to].empty() else {
                continue;
            };
            let (number, was_away) = self.buckets[bucket].take(place);
            self.buckets[to].put(empty, tag, number, !was_away);
            match was_away {
                true => self.buckets[to].unspill(),
                false => self.buckets[bucket].spill(),
            }
            self.moved += 1;
            return Some((bucket, place));
        }
        None
    }

    /// Removes `number`, which is there.
    pub(super) fn remove(&mut self, hash: u64, key: &K, number: u32) {
        let (first, tag) = (self.first(hash), Tag::of(hash));
        if let Some(place) = self.buckets[first].place_of(tag, number) {
            self.buckets[first].take(place);
            return;
        }
        let second = self.other(first, tag);
        if let Some(place) = self.buckets[second].place_of(tag, number) {
            self.buckets[second].take(place);
        } else {
            let removed = self.overflow.remove(key);
            debug_assert_eq!(removed, Some(number), "a number that is nowhere");
        }
        self.buckets[first].unspill();
    }

    /// The bucket in which a number is put first.
    #[inline(always)]
    fn first(&self, hash: u64) -> usize {
        scaled(hash >> 32, self.buckets.len())
    }

    /// The other bucket of a number that is in `bucket`: the other's other one is this.
    #[inline(always)]
    fn other(&self, bucket: usize, tag: Tag) -> usize {
        let buckets = self.buckets.len();
        let sum = scaled(tag.mixed(), buckets);
        if sum >= bucket {
            sum - bucket
        } else {
            sum + buckets - bucket
        }
    }
}

/// 32 bits of a hash, brought to the numbers below `end`.
#[inline(always)]
fn scaled(bits: u64, end: usize) -> usize {
    (((bits & 0xffff_ffff) * end as u64) >> 32) as usize
}
