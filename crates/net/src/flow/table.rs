//! The table of one shard.

use dpb_core::huge::Huge;
use dpb_core::prefetch::prefetch_lines;

use super::bucket::Bucket;
use super::index::Index;
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
/// Packets that take a step together. Each step asks for the lines that the next one reads, so as many lines are on their way; a core keeps
/// track of ten to sixteen, and a line from the last cache takes about as long as a step of so many packets.
const BLOCK: usize = 16;
/// Blocks under way: one at each step, of four.
const BLOCKS: usize = 4;

/// The flows of one shard. See [the module](super).
pub struct Table<const N: usize> {
    index: Index<Key<N>>,
    flows: Huge<Flow<N>>,
    /// Flows without a packet yet, or that have ended: the last one is the next to begin, and most likely in a cache.
    free: Vec<u32>,
    hash_key: HashKey,
    timeouts: Timeouts,
    limits: Limits,
    /// The next flow to be looked at for its end, and when the last one was.
    swept: usize,
    swept_ms: u32,
    stats: Stats,
}

/// Packets on their way through [`Table::burst`].
#[derive(Clone, Copy)]
struct Block {
    hashes: [u64; BLOCK],
    /// The likely flow of each packet.
    numbers: [u32; BLOCK],
    /// The packets whose first bucket has none, one bit each.
    missing: u32,
}

/// What a packet gets.
trait Outcome: Copy {
    /// True if a packet without a flow begins one.
    const BEGINS: bool;
    /// That of a packet without a flow.
    const NONE: Self;
    fn known(slot: Slot) -> Self;
    fn new(slot: Slot) -> Self;
}

impl Outcome for Found {
    const BEGINS: bool = true;
    const NONE: Self = Self::Full;

    #[inline(always)]
    fn known(slot: Slot) -> Self {
        Self::Known(slot)
    }

    #[inline(always)]
    fn new(slot: Slot) -> Self {
        Self::New(slot)
    }
}

impl Outcome for Option<Slot> {
    const BEGINS: bool = false;
    const NONE: Self = None;

    #[inline(always)]
    fn known(slot: Slot) -> Self {
        Some(slot)
    }

    #[inline(always)]
    fn new(slot: Slot) -> Self {
        Some(slot)
    }
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
            timeouts,
            swept: 0,
            swept_ms: 0,
            stats: Stats::default(),
        })
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
        self.each(packets, now_ms, found, ended);
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
        self.each(packets, now_ms, known, ended);
    }

    /// Blocks of packets by steps, each block a step behind the one before it: hashes, tags, tags of second buckets, flows.
    #[inline(always)]
    fn each<O: Outcome>(
        &mut self,
        packets: &[Seen<N>],
        now_ms: u32,
        outcomes: &mut Vec<O>,
        mut ended: impl FnMut(&Flow<N>),
    ) {
        let before = outcomes.len();
        outcomes.resize(before + packets.len(), O::NONE);
        let outcomes = &mut outcomes[before..];
        let (packets, outcomes) = (packets.chunks(BLOCK), outcomes.chunks_mut(BLOCK));
        let mut blocks = [Block {
            hashes: [0; BLOCK],
            numbers: [0; BLOCK],
            missing: 0,
        }; BLOCKS];
        let mut ahead = packets.clone();
        let mut behind = packets.clone().zip(outcomes);
        let count = packets.len();
        for step in 0..count + BLOCKS - 1 {
            if let Some(packets) = ahead.next() {
                self.hash(packets, &mut blocks[step % BLOCKS]);
            }
            if (1..=count).contains(&step) {
                let len = packets.clone().nth(step - 1).map_or(0, <[_]>::len);
                self.look(&mut blocks[(step - 1) % BLOCKS], len);
            }
            if (2..2 + count).contains(&step) {
                self.look_elsewhere(&mut blocks[(step - 2) % BLOCKS]);
            }
            if step >= BLOCKS - 1
                && let Some((packets, outcomes)) = behind.next()
            {
                let block = &blocks[(step + 1) % BLOCKS];
                self.count(packets, block, now_ms, outcomes, &mut ended);
            }
        }
        self.stats.offered += packets.map(<[_]>::len).sum::<usize>() as u64;
    }

    /// First: asks for the first bucket of each.
    #[inline(always)]
    fn hash(&self, packets: &[Seen<N>], block: &mut Block) {
        for (hash, packet) in block.hashes.iter_mut().zip(packets) {
            *hash = self.hash_key.hash(&packet.key);
            self.index.prefetch(*hash);
        }
    }

    /// Second: asks for the flow that the first bucket's tags show, or for the second bucket.
    #[inline(always)]
    fn look(&self, block: &mut Block, len: usize) {
        block.missing = 0;
        let hashes = block.hashes.iter().zip(&mut block.numbers).take(len);
        for (i, (hash, number)) in hashes.enumerate() {
            let (likely, is_there) = self.index.likely(*hash);
            *number = likely;
            self.prefetch_flow(likely);
            block.missing |= u32::from(!is_there) << i;
        }
        let mut missing = block.missing;
        while missing != 0 {
            let i = missing.trailing_zeros() as usize % BLOCK;
            self.index.prefetch_second(block.hashes[i]);
            missing &= missing - 1;
        }
    }

    /// Third: asks for the flow that the second bucket's tags show, or for the one that will begin.
    #[inline(always)]
    fn look_elsewhere(&self, block: &mut Block) {
        let mut missing = block.missing;
        let mut left = self.free.len();
        while missing != 0 {
            let i = missing.trailing_zeros() as usize % BLOCK;
            missing &= missing - 1;
            if let Some(likely) = self.index.likely_second(block.hashes[i]) {
                block.numbers[i] = likely;
                self.prefetch_flow(likely);
            } else if left > 0 {
                left -= 1;
                self.prefetch_flow(self.free[left]);
            }
        }
    }

    #[inline(always)]
    fn prefetch_flow(&self, number: u32) {
        prefetch_lines(&self.flows, number as usize);
    }

    /// Fourth: counts packets at their flows.
    #[inline(always)]
    fn count<O: Outcome>(
        &mut self,
        packets: &[Seen<N>],
        block: &Block,
        now_ms: u32,
        outcomes: &mut [O],
        ended: &mut impl FnMut(&Flow<N>),
    ) {
        let likely = block.numbers.iter().zip(&block.hashes);
        for ((packet, outcome), (number, hash)) in packets.iter().zip(outcomes).zip(likely) {
            let flow = &mut self.flows[*number as usize];
            *outcome = match flow.key == packet.key && flow.count(packet, &self.limits, now_ms) {
                true => O::known(Slot(*number)),
                false => self.count_unlikely(packet, *hash, now_ms, ended),
            };
        }
    }

    /// Counts a packet whose flow is not where its tag led first, or is over, or is not there.
    #[inline(never)]
    fn count_unlikely<O: Outcome>(
        &mut self,
        packet: &Seen<N>,
        hash: u64,
        now_ms: u32,
        ended: &mut impl FnMut(&Flow<N>),
    ) -> O {
        if let Some(number) = self.find(hash, &packet.key) {
            let flow = &mut self.flows[number as usize];
            if flow.count(packet, &self.limits, now_ms) {
                return O::known(Slot(number));
            }
            ended(flow);
            self.stats.ended += 1;
            self.stats.began += 1;
            *flow = Flow::begun(packet, number, now_ms);
            return O::new(Slot(number));
        }
        if !O::BEGINS {
            self.stats.missed += 1;
            return O::NONE;
        }
        let Some(number) = self.free.pop() else {
            self.stats.refused += 1;
            return O::NONE;
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
                self.prefetch_flow(self.index.likely(*hash).0);
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

impl<const N: usize> std::fmt::Debug for Table<N> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = to.debug_struct("Table");
        table.field("live", &self.len());
        table.field("capacity", &self.capacity());
        table.field("stats", &self.stats()).finish_non_exhaustive()
    }
}
