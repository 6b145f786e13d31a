//! The sides: dpb's table, hashbrown as it is used and with prefetches by hand, DPDK's rte_hash; and the memory of dpb's table alone.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::hash::BuildHasher;

use anyhow::Result;
use dpb_accel::dpdk::libraries::{Flows, Libraries};
use dpb_core::huge::Huge;
use dpb_core::prefetch::prefetch_item;
use dpb_net::flow::{Direction, Found, HashKey, Seen, Table, Timeouts, V4};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::traffic::{BYTES, KEY_BYTES, Key, Packets, seen_of};

/// One flow table.
pub(crate) trait Side {
    fn name(&self) -> &'static str;
    /// Begins the flows of `packets`.
    fn begin(&mut self, packets: &Packets);
    /// Takes the bursts of a turn, and does what a program has done before it looks up flows.
    fn prepare(&mut self, bursts: &[Packets]);
    /// Copies burst number `at` to where each burst lies: a program has just read its packets' keys, and has them in its caches.
    fn ready(&mut self, at: usize);
    /// Does the burst that is ready.
    fn burst(&mut self, now: u32);
    /// Packets of a flow.
    fn packets(&self, key: &Key) -> u64;
}

/// dpb's.
pub(crate) struct Ours {
    name: &'static str,
    table: Table<2>,
    bursts: Vec<Packets>,
    seen: Vec<Seen<2>>,
    ending: Vec<V4>,
    found: Vec<Found>,
    /// The time of the last burst: a flow is over or not by a clock that does not go back.
    now: u32,
}

impl Ours {
    pub(crate) fn new(name: &'static str, flows: usize) -> Result<Self> {
        Ok(Self {
            name,
            table: Table::new(flows, HashKey::new(1), Timeouts::default())?,
            bursts: Vec::new(),
            seen: Vec::new(),
            ending: Vec::new(),
            found: Vec::new(),
            now: 0,
        })
    }
}

impl Side for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&mut self, packets: &Packets) {
        let mut found = Vec::new();
        self.table.burst(&packets.seen, 0, &mut found, |_| {});
        assert!(found.iter().all(|it| matches!(it, Found::New(_))));
    }

    fn prepare(&mut self, bursts: &[Packets]) {
        self.bursts = bursts.to_vec();
    }

    fn ready(&mut self, at: usize) {
        self.seen.clone_from(&self.bursts[at].seen);
        self.ending.clear();
        let ending = self.bursts[at].ending.iter();
        self.ending.extend(ending.map(|seen| seen.key));
    }

    fn burst(&mut self, now: u32) {
        self.found.clear();
        self.now = now;
        self.table.end_burst(&self.ending, |_| {});
        (self.table).burst(&self.seen, now, &mut self.found, |_| {});
        assert!(!self.found.contains(&Found::Full), "nothing is lost");
    }

    fn packets(&self, key: &Key) -> u64 {
        let flow = self.table.get(&seen_of(key).key, self.now);
        flow.map_or(0, |flow| {
            flow.packets(Direction::Up) + flow.packets(Direction::Down)
        })
    }
}

/// The memory that dpb's table reads and writes for a packet, a bucket's line and then its flow's, in a loop that does nothing else: no hashes, tags or keys. The lines' places
/// are known beforehand. It says what this machine does of such a layout, with prefetches in this order; it is no proof that nothing is faster.
pub(crate) struct TwoLines {
    numbers: HashMap<Key, u32>,
    buckets: Huge<[u64; 8]>,
    flows: Huge<[u64; 8]>,
    bursts: Vec<Vec<u32>>,
    ready: Vec<u32>,
}

impl TwoLines {
    pub(crate) fn new(flows: usize) -> Option<Self> {
        Some(Self {
            numbers: HashMap::new(),
            // Ten places a bucket, six of ten taken.
            buckets: Huge::filled([0; 8], flows / 6 + 1)?,
            flows: Huge::filled([0; 8], flows)?,
            bursts: Vec::new(),
            ready: Vec::new(),
        })
    }
}

/// A bucket for a number, anywhere.
fn bucket(number: u32, buckets: usize) -> usize {
    let hash = u64::from(number.wrapping_mul(0x9e37_79b1));
    ((hash * buckets as u64) >> 32) as usize
}

impl Side for TwoLines {
    fn name(&self) -> &'static str {
        "two-lines"
    }

    fn begin(&mut self, packets: &Packets) {
        for (number, key) in packets.keys.iter().enumerate() {
            self.flows[number][0] += 1;
            self.numbers.insert(*key, number as u32);
        }
    }

    fn prepare(&mut self, bursts: &[Packets]) {
        let numbers = |burst: &Packets| burst.keys.iter().map(|key| self.numbers[key]).collect();
        self.bursts = bursts.iter().map(numbers).collect();
    }

    fn ready(&mut self, at: usize) {
        self.ready.clone_from(&self.bursts[at]);
    }

    fn burst(&mut self, now: u32) {
        const AHEAD: usize = 16;
        let count = self.ready.len();
        for step in 0..count + 2 * AHEAD {
            if let Some(number) = self.ready.get(step) {
                prefetch_item(&self.buckets, bucket(*number, self.buckets.len()));
            }
            if let Some(number) = self.ready.get_mut(step.wrapping_sub(AHEAD)) {
                let bucket = bucket(*number, self.buckets.len());
                // All of a bucket's words are zero, which the compiler does not know: the flow waits for its bucket.
                *number |= self.buckets[bucket][0] as u32;
                prefetch_item(&self.flows, *number as usize);
            }
            if let Some(number) = self.ready.get(step.wrapping_sub(2 * AHEAD)) {
                let flow = &mut self.flows[*number as usize];
                flow[0] += 1;
                flow[1] += u64::from(BYTES);
                flow[2] = u64::from(now);
            }
        }
    }

    fn packets(&self, key: &Key) -> u64 {
        self.flows[self.numbers[key] as usize][0]
    }
}

/// What is counted.
#[derive(Clone, Copy, Default)]
struct Line {
    packets: u64,
    bytes: u64,
    last: u32,
}

/// hashbrown with foldhash, as it is used for its speed.
pub(crate) struct Hashbrown {
    table: HashTable<(Key, Line)>,
    state: FixedState,
    bursts: Vec<Packets>,
    keys: Vec<Key>,
    ending: Vec<Key>,
    is_prefetched: bool,
}

impl Hashbrown {
    /// With or without prefetches by hand: of a group of tags, then of the entry that these show.
    pub(crate) fn new(flows: usize, is_prefetched: bool) -> Self {
        Self {
            table: HashTable::with_capacity(flows),
            state: FixedState::default(),
            bursts: Vec::new(),
            keys: Vec::new(),
            ending: Vec::new(),
            is_prefetched,
        }
    }

    /// As of a key of one word: bytes would be hashed with their number.
    fn hash(state: &FixedState, key: &Key) -> u64 {
        state.hash_one(u128::from_ne_bytes(*key))
    }

    fn insert(&mut self, key: &Key) {
        let line = Line {
            packets: 1,
            bytes: u64::from(BYTES),
            last: 0,
        };
        let Self { table, state, .. } = self;
        let hash = Self::hash(state, key);
        table.insert_unique(hash, (*key, line), |(key, _)| Self::hash(state, key));
    }

    /// The first tag and the mask of their numbers; none of an empty table.
    fn tags(&self) -> Option<(*const u8, usize)> {
        let (key, _) = self.table.iter().next()?;
        let hash = Self::hash(&self.state, key);
        let index = (self.table).find_bucket_index(hash, |(other, _)| other == key)?;
        let entry: *const (Key, Line) = self.table.get_bucket(index)?;
        // Entries lie before the tags, the last one first.
        Some((
            entry.wrapping_add(index + 1).cast(),
            self.table.num_buckets() - 1,
        ))
    }

    #[cfg(target_arch = "x86_64")]
    fn prefetch(&self, hashes: &[u64]) {
        use std::arch::x86_64::{
            _MM_HINT_T0, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_prefetch,
            _mm_set1_epi8,
        };
        let Some((tags, mask)) = self.tags() else {
            return;
        };
        for hash in hashes {
            // SAFETY: a prefetch reads nothing that the program sees.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(tags.wrapping_add(*hash as usize & mask).cast()) }
        }
        for hash in hashes {
            let at = *hash as usize & mask;
            // SAFETY: the table has a tag for each bucket and a group more behind them, as hashbrown 0.17 lays it out.
            let places = unsafe {
                let group = _mm_loadu_si128(tags.add(at).cast());
                let equal = _mm_cmpeq_epi8(group, _mm_set1_epi8((hash >> 57) as i8));
                _mm_movemask_epi8(equal)
            };
            if places != 0 {
                let index = (at + places.trailing_zeros() as usize) & mask;
                let entry = tags.wrapping_sub((index + 1) * size_of::<(Key, Line)>());
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(entry.cast()) }
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn prefetch(&self, _hashes: &[u64]) {
        let _ = self.tags();
    }
}

impl Side for Hashbrown {
    fn name(&self) -> &'static str {
        match self.is_prefetched {
            true => "hashbrown-prefetched",
            false => "hashbrown",
        }
    }

    fn begin(&mut self, packets: &Packets) {
        packets.keys.iter().for_each(|key| self.insert(key));
    }

    fn prepare(&mut self, bursts: &[Packets]) {
        self.bursts = bursts.to_vec();
    }

    fn ready(&mut self, at: usize) {
        self.keys.clone_from(&self.bursts[at].keys);
        self.ending.clone_from(&self.bursts[at].ending_keys);
    }

    fn burst(&mut self, now: u32) {
        const BURST_MAX: usize = 256;
        let (burst, ending) = (
            std::mem::take(&mut self.keys),
            std::mem::take(&mut self.ending),
        );
        for key in &ending {
            let hash = Self::hash(&self.state, key);
            if let Ok(entry) = self.table.find_entry(hash, |(other, _)| other == key) {
                entry.remove();
            }
        }
        for keys in burst.chunks(BURST_MAX) {
            let mut hashes = [0; BURST_MAX];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = Self::hash(&self.state, key);
            }
            if self.is_prefetched {
                self.prefetch(&hashes[..keys.len()]);
            }
            for (key, hash) in keys.iter().zip(hashes) {
                match self.table.find_mut(hash, |(other, _)| other == key) {
                    Some((_, line)) => {
                        line.packets += 1;
                        line.bytes += u64::from(BYTES);
                        line.last = now;
                    }
                    None => self.insert(key),
                }
            }
        }
        (self.keys, self.ending) = (burst, ending);
    }

    fn packets(&self, key: &Key) -> u64 {
        let hash = Self::hash(&self.state, key);
        let found = self.table.find(hash, |(other, _)| other == key);
        found.map_or(0, |(_, line)| line.packets)
    }
}

/// DPDK's, by its bulk calls, with hashes that the program has had before.
pub(crate) struct RteHash {
    table: Flows,
    bursts: Vec<Hashed>,
    ready: Hashed,
}

/// A burst as one piece of memory.
#[derive(Default)]
struct Hashed {
    keys: Vec<u8>,
    hashes: Vec<u32>,
    lens: Vec<u32>,
    ending: Vec<u8>,
    ending_hashes: Vec<u32>,
}

impl RteHash {
    pub(crate) fn new(flows: usize) -> Result<Self, String> {
        let libraries = Libraries::load().map_err(|why| why.to_string())?;
        let table = libraries.flows(flows as u32, KEY_BYTES as u32);
        Ok(Self {
            table: table.map_err(|why| why.to_string())?,
            bursts: Vec::new(),
            ready: Hashed::default(),
        })
    }

    fn hashed(&self, keys: &[Key]) -> (Vec<u8>, Vec<u32>) {
        let (keys, mut hashes) = (keys.concat(), vec![0; keys.len()]);
        self.table.hashes(&keys, &mut hashes);
        (keys, hashes)
    }
}

impl Side for RteHash {
    fn name(&self) -> &'static str {
        "rte_hash"
    }

    fn begin(&mut self, packets: &Packets) {
        let (keys, hashes) = self.hashed(&packets.keys);
        let lens = vec![BYTES; hashes.len()];
        let refused = self.table.add(&keys, &hashes, &lens, 0);
        assert_eq!(refused, 0, "rte_hash has no room at 95 of 100");
    }

    fn prepare(&mut self, bursts: &[Packets]) {
        let hashed = |burst: &Packets| {
            let (keys, hashes) = self.hashed(&burst.keys);
            let (ending, ending_hashes) = self.hashed(&burst.ending_keys);
            Hashed {
                lens: vec![BYTES; hashes.len()],
                keys,
                hashes,
                ending,
                ending_hashes,
            }
        };
        self.bursts = bursts.iter().map(hashed).collect();
    }

    fn ready(&mut self, at: usize) {
        let (burst, ready) = (&self.bursts[at], &mut self.ready);
        ready.keys.clone_from(&burst.keys);
        ready.hashes.clone_from(&burst.hashes);
        ready.lens.clone_from(&burst.lens);
        ready.ending.clone_from(&burst.ending);
        ready.ending_hashes.clone_from(&burst.ending_hashes);
    }

    fn burst(&mut self, now: u32) {
        let Hashed {
            keys,
            hashes,
            lens,
            ending,
            ending_hashes,
        } = &mut self.ready;
        if ending.is_empty() {
            self.table.count(keys, hashes, lens, 64, now);
        } else {
            self.table.remove(ending, ending_hashes);
            self.table.pass(keys, hashes, lens, now);
        }
    }

    fn packets(&self, key: &Key) -> u64 {
        self.table.packets(key)
    }
}
