//! The table of one shard.

use dpb_core::prefetch::prefetch_item;

use super::bucket::{Bucket, PLACES, Tag};
use super::{Direction, Flags, HashKey, Key, State, Timeouts};

/// What is known of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Flow<const N: usize> {
    key: Key<N>,
    /// Packets of [`Direction::Up`] and of [`Direction::Down`].
    packets: [u64; 2],
    bytes: [u64; 2],
    first_ms: u32,
    last_ms: u32,
    state: State,
    initiator: Direction,
}

impl<const N: usize> Flow<N> {
    const NONE: Self = Self {
        key: Key([0; N]),
        packets: [0; 2],
        bytes: [0; 2],
        first_ms: 0,
        last_ms: 0,
        state: State::Datagrams,
        initiator: Direction::Up,
    };

    /// Its key.
    pub fn key(&self) -> Key<N> {
        self.key
    }

    /// Packets in this direction.
    pub fn packets(&self, direction: Direction) -> u64 {
        self.packets[direction as usize]
    }

    /// Bytes of those, as they were given with each packet.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.bytes[direction as usize]
    }

    /// The time of the first packet and of the last one.
    pub fn seen_ms(&self) -> (u32, u32) {
        (self.first_ms, self.last_ms)
    }

    /// How far it has come.
    pub fn state(&self) -> State {
        self.state
    }

    /// The direction of the side that began.
    pub fn initiator(&self) -> Direction {
        self.initiator
    }

    fn is_none(&self) -> bool {
        self.key == Self::NONE.key
    }
}

/// A packet, as a table sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<const N: usize> {
    /// The flow that it is part of.
    pub key: Key<N>,
    /// Its direction there.
    pub direction: Direction,
    /// Its bytes, by the measure that the caller chose.
    pub bytes: u32,
    /// Of TCP, its flags.
    pub flags: Option<Flags>,
}

/// The place of a flow, until the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// What came of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is part of a flow that is known.
    Known(Slot),
    /// It is the first of a flow.
    New(Slot),
    /// It would be, and there is no room. It is counted as refused.
    Full,
}

/// What a table counted. Packets of live flows, of ended ones and refused ones are all that were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that were offered.
    pub offered: u64,
    /// Packets without a flow, as the table was full.
    pub refused: u64,
    /// Flows that began.
    pub began: u64,
    /// Flows that ended.
    pub ended: u64,
    /// Flows that moved to make room for others.
    pub moved: u64,
}

/// Why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is for no flow, or for more than places have numbers.
    #[error("a table for {0} flows; at least 1 and at most {FLOWS_MAX}")]
    Capacity(usize),
}

/// Places have numbers of 32 bits.
const FLOWS_MAX: usize = 3 << 30;
/// Of a hundred places so many are taken at most: beyond that, making room takes long.
const FILL_PERCENT: usize = 95;
/// Places beside the buckets, for flows that find none.
const STASH: usize = 64;
/// Packets that are asked for together.
const WINDOW: usize = 32;
/// Buckets that are looked through for room.
const SEARCHED_MAX: usize = 256;
/// No place.
const NOWHERE: usize = usize::MAX;

/// The flows of one shard. See [the module](super).
pub struct Table<const N: usize> {
    buckets: Vec<Bucket>,
    /// Of each bucket its places, one behind another, and the stash.
    flows: Vec<Flow<N>>,
    stashed: usize,
    live: usize,
    capacity: usize,
    hash_key: HashKey,
    timeouts: Timeouts,
    /// The next bucket to be looked through for flows that are over, and when the last one was.
    swept: usize,
    swept_ms: u32,
    stats: Stats,
}

impl<const N: usize> Table<N> {
    /// A table for `capacity` flows, all of whose memory is there at once.
    ///
    /// # Errors
    /// [`TableError::Capacity`].
    pub fn new(capacity: usize, hash_key: HashKey, timeouts: Timeouts) -> Result<Self, TableError> {
        if !(1..=FLOWS_MAX).contains(&capacity) {
            return Err(TableError::Capacity(capacity));
        }
        let places = (capacity * 100).div_ceil(FILL_PERCENT);
        // Two at least, so that a flow has a choice.
        let buckets = places.div_ceil(PLACES).max(2);
        Ok(Self {
            buckets: vec![Bucket::default(); buckets],
            flows: vec![Flow::NONE; buckets * PLACES + STASH],
            stashed: 0,
            live: 0,
            capacity,
            hash_key,
            timeouts,
            swept: 0,
            swept_ms: 0,
            stats: Stats::default(),
        })
    }

    /// The flows that there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The flows that there can be.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The flow at a place that this burst gave.
    pub fn flow(&self, Slot(at): Slot) -> &Flow<N> {
        &self.flows[at as usize]
    }

    /// The flow with this key, if there is one that is not over at `now_ms`.
    pub fn get(&self, key: &Key<N>, now_ms: u32) -> Option<&Flow<N>> {
        let at = self.find(self.hash_key.hash(key), key)?;
        Some(&self.flows[at]).filter(|flow| !self.is_over(flow, now_ms))
    }

    /// All flows that are not over at `now_ms`.
    pub fn iter(&self, now_ms: u32) -> impl Iterator<Item = &Flow<N>> {
        let flows = self.flows.iter().filter(|flow| !flow.is_none());
        flows.filter(move |flow| !self.is_over(flow, now_ms))
    }

    /// Finds or makes the flow of each packet and counts it there; what came of each is appended to `found`. `ended` gets each flow that
    /// a packet ends: one that was over before it, or one whose connection is closed and opened anew.
    ///
    /// `now_ms` never goes back; it may wrap around.
    pub fn burst(
        &mut self,
        packets: &[Seen<N>],
        now_ms: u32,
        found: &mut Vec<Found>,
        mut ended: impl FnMut(&Flow<N>),
    ) {
        found.reserve(packets.len());
        for packets in packets.chunks(WINDOW) {
            let mut hashes = [0; WINDOW];
            for (hash, packet) in hashes.iter_mut().zip(packets) {
                *hash = self.hash_key.hash(&packet.key);
                prefetch_item(&self.buckets, self.bucket_of(*hash));
            }
            let mut places = [NOWHERE; WINDOW];
            for ((place, hash), _) in places.iter_mut().zip(hashes).zip(packets) {
                *place = self.likely(hash);
                prefetch_item(&self.flows, *place);
            }
            for ((packet, hash), place) in packets.iter().zip(hashes).zip(places) {
                found.push(self.packet(packet, hash, place, now_ms, &mut ended));
            }
        }
        self.stats.offered += packets.len() as u64;
    }

    /// The place at which the flow with this hash is, as far as its bucket shows; or where it would be put.
    #[inline(always)]
    fn likely(&self, hash: u64) -> usize {
        let first = self.bucket_of(hash);
        let bucket = &self.buckets[first];
        let tag = Tag::of(hash);
        if let Some(place) = bucket.with(tag).next() {
            return first * PLACES + place;
        }
        if bucket.has_spilled() {
            let second = self.other(first, tag);
            if let Some(place) = self.buckets[second].with(tag).next() {
                return second * PLACES + place;
            }
        }
        bucket
            .empty()
            .map_or(NOWHERE, |place| first * PLACES + place)
    }

    #[inline(always)]
    fn packet(
        &mut self,
        packet: &Seen<N>,
        hash: u64,
        likely: usize,
        now_ms: u32,
        ended: &mut impl FnMut(&Flow<N>),
    ) -> Found {
        let is_there = |flow: &Flow<N>| flow.key == packet.key;
        let at = match self.flows.get(likely).is_some_and(is_there) {
            true => Some(likely),
            // A packet before may have moved it, or made it.
            false => self.find(hash, &packet.key),
        };
        if let Some(at) = at {
            let flow = &mut self.flows[at];
            let is_over = (self.timeouts).are_over(flow.state, flow.last_ms, now_ms);
            let next = flow
                .state
                .after(packet.flags, packet.direction == flow.initiator);
            if let (Some(next), false) = (next, is_over) {
                flow.state = next;
                flow.last_ms = now_ms;
                flow.packets[packet.direction as usize] += 1;
                flow.bytes[packet.direction as usize] += u64::from(packet.bytes);
                return Found::Known(Slot(at as u32));
            }
            ended(flow);
            self.stats.ended += 1;
            self.stats.began += 1;
            *flow = begun(packet, now_ms);
            return Found::New(Slot(at as u32));
        }
        self.begin(packet, hash, now_ms)
    }

    #[inline(never)]
    fn begin(&mut self, packet: &Seen<N>, hash: u64, now_ms: u32) -> Found {
        let at = (self.live < self.capacity)
            .then(|| self.room(hash))
            .flatten();
        let Some(at) = at else {
            self.stats.refused += 1;
            return Found::Full;
        };
        self.flows[at] = begun(packet, now_ms);
        self.live += 1;
        self.stats.began += 1;
        Found::New(Slot(at as u32))
    }

    /// Looks through as many places as the time since the last call asks for, so that all are once a [`Timeouts::turn_ms`]; hands out flows that
    /// are over, and frees their room.
    pub fn expire(&mut self, now_ms: u32, ended: impl FnMut(&Flow<N>)) {
        let buckets = self.buckets.len();
        let elapsed = u64::from(now_ms.wrapping_sub(self.swept_ms));
        let turn = u64::from(self.timeouts.turn_ms.max(1));
        let due = (buckets as u64 * elapsed / turn).min(buckets as u64);
        if due > 0 {
            self.swept_ms = now_ms;
            self.sweep(due as usize, now_ms, ended);
        }
    }

    /// Looks through all places at once.
    pub fn expire_all(&mut self, now_ms: u32, ended: impl FnMut(&Flow<N>)) {
        self.swept_ms = now_ms;
        self.sweep(self.buckets.len(), now_ms, ended);
    }

    fn sweep(&mut self, buckets: usize, now_ms: u32, mut ended: impl FnMut(&Flow<N>)) {
        for _ in 0..buckets {
            let bucket = self.swept;
            for place in self.buckets[bucket].taken() {
                self.end_if_over(bucket * PLACES + place, now_ms, &mut ended);
            }
            self.swept = (bucket + 1) % self.buckets.len();
        }
        if self.stashed > 0 {
            for at in self.stash() {
                self.end_if_over(at, now_ms, &mut ended);
            }
        }
    }

    fn end_if_over(&mut self, at: usize, now_ms: u32, ended: &mut impl FnMut(&Flow<N>)) {
        let flow = &self.flows[at];
        if flow.is_none() || !self.is_over(flow, now_ms) {
            return;
        }
        ended(flow);
        self.remove(at);
    }

    /// Ends the flow with this key.
    pub fn end(&mut self, key: &Key<N>) -> Option<Flow<N>> {
        let at = self.find(self.hash_key.hash(key), key)?;
        let flow = self.flows[at];
        self.remove(at);
        Some(flow)
    }

    fn is_over(&self, flow: &Flow<N>, now_ms: u32) -> bool {
        (self.timeouts).are_over(flow.state, flow.last_ms, now_ms)
    }

    fn stash(&self) -> std::ops::Range<usize> {
        let start = self.buckets.len() * PLACES;
        start..start + STASH
    }

    /// The bucket in which a flow is put first.
    #[inline(always)]
    fn bucket_of(&self, hash: u64) -> usize {
        scaled(hash >> 32, self.buckets.len())
    }

    /// The other bucket of a flow that is in `bucket`: the other's other one is this.
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

    fn find(&self, hash: u64, key: &Key<N>) -> Option<usize> {
        let (first, tag) = (self.bucket_of(hash), Tag::of(hash));
        let in_bucket = |bucket: usize| {
            let places = self.buckets[bucket].with(tag);
            let mut places = places.map(|place| bucket * PLACES + place);
            places.find(|at| self.flows[*at].key == *key)
        };
        let found = in_bucket(first);
        if found.is_some() || !self.buckets[first].has_spilled() {
            return found;
        }
        in_bucket(self.other(first, tag)).or_else(|| {
            let mut stash = self.stash().take_while(|_| self.stashed > 0);
            stash.find(|at| self.flows[*at].key == *key)
        })
    }

    /// An empty place for a flow with this hash, its tag written.
    fn room(&mut self, hash: u64) -> Option<usize> {
        let (first, tag) = (self.bucket_of(hash), Tag::of(hash));
        let second = self.other(first, tag);
        let empty = |bucket: usize| Some((bucket, self.buckets[bucket].empty()?));
        let place = empty(first).or_else(|| empty(second));
        let Some((bucket, place)) = place.or_else(|| self.make_room([first, second])) else {
            let mut stash = self.stash();
            let at = stash.find(|at| self.flows[*at].is_none())?;
            self.stashed += 1;
            self.buckets[first].spill();
            return Some(at);
        };
        self.buckets[bucket].put(place, tag);
        if bucket != first {
            self.buckets[first].spill();
        }
        Some(bucket * PLACES + place)
    }

    /// Frees a place in one of two buckets by moving flows to their other buckets, on the shortest way there is (a breadth-first search, as
    /// MemC3 has it).
    #[inline(never)]
    fn make_room(&mut self, roots: [usize; 2]) -> Option<(usize, usize)> {
        /// A bucket, and the step and the place there whose flow could move to it.
        struct Step {
            bucket: usize,
            from: Option<(usize, usize)>,
        }
        let mut steps: Vec<Step> = (roots.iter())
            .map(|bucket| Step {
                bucket: *bucket,
                from: None,
            })
            .collect();
        let mut next = 0;
        while next < steps.len() {
            let bucket = steps[next].bucket;
            for place in 0..PLACES {
                let tag = self.buckets[bucket].tag(place)?;
                let other = self.other(bucket, tag);
                let Some(empty) = self.buckets[other].empty() else {
                    // A bucket twice on a way would move a flow that is no longer there.
                    if steps.len() < SEARCHED_MAX && steps.iter().all(|step| step.bucket != other) {
                        steps.push(Step {
                            bucket: other,
                            from: Some((next, place)),
                        });
                    }
                    continue;
                };
                let (mut to, mut freed) = ((other, empty), (bucket, place));
                let mut step = next;
                loop {
                    self.relocate(freed, to);
                    let Some((before, place)) = steps[step].from else {
                        return Some(freed);
                    };
                    (to, freed) = (freed, (steps[before].bucket, place));
                    step = before;
                }
            }
            next += 1;
        }
        None
    }

    /// Moves a flow to an empty place of its other bucket.
    fn relocate(&mut self, from: (usize, usize), to: (usize, usize)) {
        let tag = self.buckets[from.0].tag(from.1).expect("a flow is there");
        let flow = std::mem::replace(&mut self.flows[from.0 * PLACES + from.1], Flow::NONE);
        let first = self.bucket_of(self.hash_key.hash(&flow.key));
        self.flows[to.0 * PLACES + to.1] = flow;
        self.buckets[from.0].clear(from.1);
        self.buckets[to.0].put(to.1, tag);
        if first == from.0 {
            self.buckets[first].spill();
        } else {
            self.buckets[first].unspill();
        }
        self.stats.moved += 1;
    }

    fn remove(&mut self, at: usize) {
        let flow = std::mem::replace(&mut self.flows[at], Flow::NONE);
        let first = self.bucket_of(self.hash_key.hash(&flow.key));
        let bucket = at / PLACES;
        if bucket < self.buckets.len() {
            self.buckets[bucket].clear(at % PLACES);
        } else {
            self.stashed -= 1;
        }
        if bucket != first {
            self.buckets[first].unspill();
        }
        self.live -= 1;
        self.stats.ended += 1;
    }
}

impl<const N: usize> std::fmt::Debug for Table<N> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = to.debug_struct("Table");
        table.field("live", &self.live);
        table.field("capacity", &self.capacity);
        table.field("stats", &self.stats).finish_non_exhaustive()
    }
}

/// The flow that `packet` begins.
fn begun<const N: usize>(packet: &Seen<N>, now_ms: u32) -> Flow<N> {
    let protocol = packet.key.protocol();
    let (state, is_by_initiator) = State::first(protocol, packet.flags);
    let mut flow = Flow {
        key: packet.key,
        first_ms: now_ms,
        last_ms: now_ms,
        state,
        initiator: match is_by_initiator {
            true => packet.direction,
            false => packet.direction.reverse(),
        },
        ..Flow::NONE
    };
    flow.packets[packet.direction as usize] = 1;
    flow.bytes[packet.direction as usize] = u64::from(packet.bytes);
    flow
}

/// 32 bits of a hash, brought to the numbers below `end`.
#[inline(always)]
fn scaled(bits: u64, end: usize) -> usize {
    (((bits & 0xffff_ffff) * end as u64) >> 32) as usize
}
