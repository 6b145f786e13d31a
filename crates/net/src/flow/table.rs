//! The table of one shard.

use dpb_core::huge::Huge;
use dpb_core::prefetch::prefetch_lines;

use super::bucket::Bucket;
use super::index::Index;
use super::outcome::Outcome;
use super::record::Limits;
use super::{Direction, Flow, Found, HashKey, Key, Seen, Slot, Stats, Timeouts};

/// Why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is for no flow, or for more than places have numbers.
    #[error("a table for {0} flows; at least 1 and at most {FLOWS_MAX}")]
    Capacity(usize),
    /// The kernel has no memory for it.
    #[error("no memory for a table for {0} flows")]
    Memory(usize),
}

/// Numbers that buckets hold.
const FLOWS_MAX: usize = Bucket::NUMBERS_MAX;
/// Packets that take each step together. Between two steps of a packet two other groups have theirs, about as long as a line takes from the last cache. A core keeps track of
/// ten to sixteen lines at once.
const GROUP: usize = 16;
/// Groups in the ring: three under way, rounded up to a power of two.
const GROUPS: usize = 4;
/// Flows that end together.
const BLOCK: usize = 16;

/// The flows of one shard. See [the module](super).
pub struct Table<const N: usize> {
    index: Index<Key<N>>,
    flows: Huge<Flow<N>>,
    /// Flows without a packet yet, or that have ended: the last one is the next to begin, and most likely in a cache.
    free: Vec<u32>,
    hash_key: HashKey,
    timeouts: Timeouts,
    limits: Limits,
    /// By their numbers in a burst, modulo [`GROUPS`]. What is in them has no meaning between two bursts.
    under_way: [Group; GROUPS],
    /// The next flow to be looked at for its end, and when the last one was.
    swept: usize,
    swept_ms: u32,
    stats: Stats,
}

/// Packets on their way through [`Table::burst`].
#[derive(Clone, Copy)]
struct Group {
    hashes: [u64; GROUP],
    /// The likely flow of each packet; any number where there is none.
    numbers: [u32; GROUP],
    /// A bit for each packet that the first bucket shows no flow for, the group's first packet lowest.
    elsewhere: u32,
}

impl Group {
    const EMPTY: Self = Self {
        hashes: [0; GROUP],
        numbers: [0; GROUP],
        elsewhere: 0,
    };
}

impl<const N: usize> Table<N> {
    /// A table for `capacity` flows, all of whose memory is there at once.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn new(capacity: usize, hash_key: HashKey, timeouts: Timeouts) -> Result<Self, TableError> {
        if !(1..=FLOWS_MAX).contains(&capacity) {
            return Err(TableError::Capacity(capacity));
        }
        let memory = TableError::Memory(capacity);
        let mut free = Vec::new();
        free.try_reserve_exact(capacity).map_err(|_| memory)?;
        free.extend((0..capacity as u32).rev());
        Ok(Self {
            index: Index::new(capacity).ok_or(memory)?,
            flows: Huge::filled(Flow::NONE, capacity).ok_or(memory)?,
            free,
            hash_key,
            limits: timeouts.by_number(),
            under_way: [Group::EMPTY; GROUPS],
            timeouts,
            swept: 0,
            swept_ms: 0,
            stats: Stats::default(),
        })
    }

    /// Bytes of memory that a table for `capacity` flows takes.
    pub fn bytes(capacity: usize) -> u64 {
        let a_flow = (size_of::<Flow<N>>() + size_of::<u32>()) as u64;
        let flows = (capacity as u64).saturating_mul(a_flow);
        flows.saturating_add(Index::<Key<N>>::bytes(capacity))
    }

    /// The flows that there are.
    pub fn len(&self) -> usize {
        self.capacity() - self.free.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The flows that there can be.
    pub fn capacity(&self) -> usize {
        self.flows.len()
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        Stats {
            moved: self.index.moved(),
            ..self.stats
        }
    }

    /// The flow at a place, as long as it lives.
    pub fn flow(&self, Slot(number): Slot) -> &Flow<N> {
        &self.flows[number as usize]
    }

    /// The flow with this key, if there is one that is not over at `now_ms`.
    pub fn get(&self, key: &Key<N>, now_ms: u32) -> Option<&Flow<N>> {
        let number = self.find(self.hash_key.hash(key), key)?;
        let flow = &self.flows[number as usize];
        (!flow.is_over(&self.limits, now_ms)).then_some(flow)
    }

    /// All flows that are not over at `now_ms`.
    pub fn iter(&self, now_ms: u32) -> impl Iterator<Item = &Flow<N>> {
        (self.all()).filter(move |flow| !flow.is_over(&self.limits, now_ms))
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
        ended: impl FnMut(&Flow<N>),
    ) {
        self.each(packets, now_ms, found, |_| true, ended);
    }

    /// As [`Table::burst`], for packets that may begin a flow only if `may_begin` says so, which is asked for their places in the burst. One that may not gets `None`, and
    /// is counted as missed; a closed connection that it would open anew stays as it is.
    pub fn burst_if(
        &mut self,
        packets: &[Seen<N>],
        now_ms: u32,
        found: &mut Vec<Option<Found>>,
        may_begin: impl FnMut(usize) -> bool,
        ended: impl FnMut(&Flow<N>),
    ) {
        self.each(packets, now_ms, found, may_begin, ended);
    }

    /// As [`Table::burst`], for packets that begin no flow: those without one get `None`, and are counted as missed. A flow that is over
    /// ends with the packet that finds it, which may begin it anew.
    pub fn known(
        &mut self,
        packets: &[Seen<N>],
        now_ms: u32,
        known: &mut Vec<Option<Slot>>,
        ended: impl FnMut(&Flow<N>),
    ) {
        self.each(packets, now_ms, known, |_| true, ended);
    }

    /// Each group of packets in four steps, between which others have theirs: hashes, tags, tags of second buckets, flows.
    #[inline(always)]
    fn each<O: Outcome>(
        &mut self,
        packets: &[Seen<N>],
        now_ms: u32,
        outcomes: &mut Vec<O>,
        mut may_begin: impl FnMut(usize) -> bool,
        mut ended: impl FnMut(&Flow<N>),
    ) {
        let before = outcomes.len();
        outcomes.resize(before + packets.len(), O::NONE);
        let outcomes = &mut outcomes[before..];
        for step in 0..packets.len().div_ceil(GROUP) + 2 {
            self.ask(group(packets, step), step);
            // Before the first group there is none.
            let looking = step.wrapping_sub(1);
            let looked = group(packets, looking).len();
            self.look(looked, looking);
            let counting = step.wrapping_sub(2);
            let numbers = self.under_way[counting % GROUPS].numbers;
            let packets = group(packets, counting);
            let outcomes = group_mut(outcomes, counting);
            // By places: zipped iterators compile to twice the instructions here.
            for at in 0..packets.len().min(GROUP) {
                let (packet, number) = (&packets[at], numbers[at]);
                outcomes[at] = match self.count(packet, number, now_ms) {
                    true => O::known(Slot(number)),
                    false => {
                        let hash = self.under_way[counting % GROUPS].hashes[at];
                        let may_begin = || may_begin(counting * GROUP + at);
                        self.count_unlikely(packet, hash, now_ms, may_begin, &mut ended)
                    }
                };
            }
            self.look_elsewhere(looking);
        }
        self.stats.offered += packets.len() as u64;
    }

    /// Hashes a group's packets and asks for their first buckets.
    #[inline(always)]
    fn ask(&mut self, packets: &[Seen<N>], group: usize) {
        let hashes = &mut self.under_way[group % GROUPS].hashes;
        for (packet, kept) in packets.iter().zip(hashes) {
            let hash = self.hash_key.hash(&packet.key);
            *kept = hash;
            self.index.prefetch(hash);
        }
    }

    /// Asks for the flows that the first buckets' tags show, or for the second buckets.
    #[inline(always)]
    fn look(&mut self, count: usize, group: usize) {
        let group = &mut self.under_way[group % GROUPS];
        let mut elsewhere = 0;
        for at in 0..count.min(GROUP) {
            let (number, is_there) = self.index.likely(group.hashes[at]);
            prefetch_lines(&self.flows, number as usize);
            group.numbers[at] = number;
            elsewhere |= u32::from(!is_there) << at;
        }
        group.elsewhere = elsewhere;
        for at in bits(group.elsewhere) {
            self.index.prefetch_second(group.hashes[at]);
        }
    }

    /// Asks for the flows that the second buckets' tags show, or for the ones that will begin.
    #[inline(always)]
    fn look_elsewhere(&mut self, group: usize) {
        let group = &mut self.under_way[group % GROUPS];
        let mut beginning = 0;
        for at in bits(group.elsewhere) {
            if let Some(number) = self.index.likely_second(group.hashes[at]) {
                group.numbers[at] = number;
                prefetch_lines(&self.flows, number as usize);
            } else {
                beginning += 1;
                let next = self.free.len().wrapping_sub(beginning);
                if let Some(number) = self.free.get(next) {
                    prefetch_lines(&self.flows, *number as usize);
                }
            }
        }
    }

    /// Counts the packet at the flow with this number, and says so; not if that is another flow, is over, or begins anew.
    #[inline(always)]
    fn count(&mut self, packet: &Seen<N>, number: u32, now_ms: u32) -> bool {
        let flow = self.flows.get_mut(number as usize);
        flow.is_some_and(|flow| flow.key == packet.key && flow.count(packet, &self.limits, now_ms))
    }

    /// Counts a packet whose flow is not where its tag led first, or is over, or is not there.
    #[inline(never)]
    fn count_unlikely<O: Outcome>(
        &mut self,
        packet: &Seen<N>,
        hash: u64,
        now_ms: u32,
        may_begin: impl FnOnce() -> bool,
        ended: &mut impl FnMut(&Flow<N>),
    ) -> O {
        if let Some(number) = self.find(hash, &packet.key) {
            let flow = &mut self.flows[number as usize];
            if flow.count(packet, &self.limits, now_ms) {
                return O::known(Slot(number));
            }
            if !may_begin() {
                self.stats.missed += 1;
                return O::NONE;
            }
            ended(flow);
            self.stats.ended += 1;
            self.stats.began += 1;
            *flow = Flow::begun(packet, number, now_ms);
            return O::new(Slot(number));
        }
        if !(O::BEGINS && may_begin()) {
            self.stats.missed += 1;
            return O::NONE;
        }
        let Some(number) = self.free.pop() else {
            self.stats.refused += 1;
            return O::FULL;
        };
        self.index.add(hash, packet.key, number);
        self.flows[number as usize] = Flow::begun(packet, number, now_ms);
        self.stats.began += 1;
        O::new(Slot(number))
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &Key<N>) -> Option<u32> {
        let is = |number: u32| self.flows[number as usize].key == *key;
        self.index.find(hash, key, is)
    }

    /// Makes a flow that has no packet yet, unless there is one with this key: as a control plane does. Nothing is counted as refused.
    pub fn put(&mut self, key: Key<N>, initiator: Direction, now_ms: u32) -> Found {
        let hash = self.hash_key.hash(&key);
        if let Some(number) = self.find(hash, &key) {
            return Found::Known(Slot(number));
        }
        let Some(number) = self.free.pop() else {
            return Found::Full;
        };
        self.index.add(hash, key, number);
        self.flows[number as usize] = Flow::put(key, initiator, number, now_ms);
        self.stats.began += 1;
        Found::New(Slot(number))
    }

    /// Looks at as many flows as the time since the last call asks for, so that each is looked at once a [`Timeouts::turn_ms`]; hands out those
    /// that are over, and frees their room.
    pub fn expire(&mut self, now_ms: u32, ended: impl FnMut(&Flow<N>)) {
        self.expire_after(now_ms, |_| {}, ended);
    }

    /// As [`Table::expire`], for flows some of whose packets are counted elsewhere: `ask` adds them to one that seems to be over.
    pub(super) fn expire_after(
        &mut self,
        now_ms: u32,
        ask: impl FnMut(&mut Flow<N>),
        ended: impl FnMut(&Flow<N>),
    ) {
        let flows = self.capacity() as u64;
        let elapsed = u64::from(now_ms.wrapping_sub(self.swept_ms));
        let turn = u64::from(self.timeouts.turn_ms.max(1));
        let due = (flows * elapsed).div_ceil(turn).min(flows);
        self.swept_ms = now_ms;
        self.sweep(due as usize, now_ms, ask, ended);
    }

    /// Looks at all flows at once.
    pub fn expire_all(&mut self, now_ms: u32, ended: impl FnMut(&Flow<N>)) {
        self.swept_ms = now_ms;
        self.sweep(self.capacity(), now_ms, |_| {}, ended);
    }

    #[inline(always)]
    fn sweep(
        &mut self,
        flows: usize,
        now_ms: u32,
        mut ask: impl FnMut(&mut Flow<N>),
        mut ended: impl FnMut(&Flow<N>),
    ) {
        let mut over = [0; BLOCK];
        let mut count = 0;
        for _ in 0..flows {
            let flow = &mut self.flows[self.swept];
            if !flow.is_none() && flow.is_over(&self.limits, now_ms) {
                ask(flow);
                if flow.is_over(&self.limits, now_ms) {
                    over[count] = self.swept as u32;
                    count += 1;
                }
            }
            self.swept += 1;
            if self.swept == self.flows.len() {
                self.swept = 0;
            }
            if count == BLOCK {
                self.remove(&over, &mut ended);
                count = 0;
            }
        }
        self.remove(&over[..count], &mut ended);
    }

    /// All flows, those that are over and not ended yet too.
    pub(super) fn all(&self) -> impl Iterator<Item = &Flow<N>> {
        self.flows.iter().filter(|flow| !flow.is_none())
    }

    /// The flow with this key, over or not.
    pub(super) fn flow_mut(&mut self, key: &Key<N>) -> Option<&mut Flow<N>> {
        let number = self.find(self.hash_key.hash(key), key)?;
        Some(&mut self.flows[number as usize])
    }

    /// Ends the flow with this key.
    pub fn end(&mut self, key: &Key<N>) -> Option<Flow<N>> {
        let number = self.find(self.hash_key.hash(key), key)?;
        let mut ended = None;
        self.remove(&[number], &mut |flow: &Flow<N>| ended = Some(*flow));
        ended
    }

    /// Ends the flows with these keys; hands out those that there are, and says how many.
    pub fn end_burst(&mut self, keys: &[Key<N>], mut ended: impl FnMut(&Flow<N>)) -> usize {
        let mut count = 0;
        for keys in keys.chunks(BLOCK) {
            let mut hashes = [0; BLOCK];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash_key.hash(key);
                self.index.prefetch(*hash);
            }
            for (hash, _) in hashes.iter().zip(keys) {
                prefetch_lines(&self.flows, self.index.likely(*hash).0 as usize);
            }
            for (hash, key) in hashes.iter().zip(keys) {
                if let Some(number) = self.find(*hash, key) {
                    self.remove_one(*hash, number, &mut ended);
                    count += 1;
                }
            }
        }
        count
    }

    /// Ends flows by their numbers.
    fn remove(&mut self, numbers: &[u32], ended: &mut impl FnMut(&Flow<N>)) {
        let mut hashes = [0; BLOCK];
        for (hash, number) in hashes.iter_mut().zip(numbers) {
            *hash = self.hash_key.hash(&self.flows[*number as usize].key);
            self.index.prefetch(*hash);
        }
        for (hash, number) in hashes.iter().zip(numbers) {
            self.remove_one(*hash, *number, ended);
        }
    }

    #[inline(always)]
    fn remove_one(&mut self, hash: u64, number: u32, ended: &mut impl FnMut(&Flow<N>)) {
        let flow = &mut self.flows[number as usize];
        ended(flow);
        self.index.remove(hash, &flow.key, number);
        flow.key = Flow::NONE.key;
        self.free.push(number);
        self.stats.ended += 1;
    }

    /// Numbers that no bucket has room for.
    #[cfg(test)]
    pub(super) fn overflowed(&self) -> usize {
        self.index.overflowed()
    }
}

/// Places of the bits of a group that are set, the lowest first.
#[inline(always)]
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (at < GROUP).then_some(at)
    })
}

/// A group of a burst's items; fewer at the end, none behind it.
#[inline(always)]
fn group<T>(items: &[T], group: usize) -> &[T] {
    let start = group.saturating_mul(GROUP).min(items.len());
    &items[start..(start + GROUP).min(items.len())]
}

/// As [`group`].
#[inline(always)]
fn group_mut<T>(items: &mut [T], group: usize) -> &mut [T] {
    let start = group.saturating_mul(GROUP).min(items.len());
    let end = (start + GROUP).min(items.len());
    &mut items[start..end]
}

impl<const N: usize> std::fmt::Debug for Table<N> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = to.debug_struct("Table");
        table.field("live", &self.len());
        table.field("capacity", &self.capacity());
        table.field("stats", &self.stats()).finish_non_exhaustive()
    }
}
