//! A model of a flow table in hardware, with the software behind it: what such a card does with packets, in virtual time.
//!
//! Packets come to the table first. Those whose flow has an entry are counted there and sent on; the others miss, and software looks them up in its
//! own table, a [`Table`]. After some packets of a flow software has an entry made. Entries are few, and made and removed one behind another, at some thousands
//! to a million a second; until one is made its flow's packets miss. Packets that begin or end connections go to software always, entry or not. The table and
//! the software each serve one packet after another, and drop those that find too many waiting. These limits, and none of the card's other parts, are what is modelled:
//! its figures are `simulated`, whatever the parameters were taken from.
//!
//! Software learns of packets by asking for an entry's counters, when the flow seems to be over. They are what came since it asked last. A flow that has ended
//! has its entry removed, which takes time as well, and packets that come until then count; its record is complete when the entry is gone.

use std::collections::VecDeque;
use std::fmt;

use super::index::Index;
use super::record::Extra;
use super::{
    Direction, Flags, Flow, Found, HashKey, Key, Seen, Stats, Table, TableError, Timeouts,
};

/// The parameters of the model. The defaults are of the size of today's cards, no one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardwareModel {
    /// Entries of the table.
    pub capacity: u32,
    /// Time for a packet in the table.
    pub hit_ns: u64,
    /// Packets that may wait for the table.
    pub waiting_max: u64,
    /// Time for a packet in software.
    pub miss_ns: u64,
    /// Packets that may wait for software.
    pub misses_waiting_max: u64,
    /// Packets of a flow that software has seen when it asks for an entry.
    pub packets_before: u64,
    /// Time to make an entry, and to remove one.
    pub change_ns: u64,
    /// Changes that may wait.
    pub changes_waiting_max: usize,
    /// Time to read an entry's counters, in which no entry is made or removed.
    pub query_ns: u64,
}

impl Default for HardwareModel {
    fn default() -> Self {
        Self {
            capacity: 1 << 20,
            hit_ns: 7,
            waiting_max: 1024,
            miss_ns: 100,
            misses_waiting_max: 1024,
            packets_before: 2,
            change_ns: 3000,
            changes_waiting_max: 4096,
            query_ns: 500,
        }
    }
}

/// All parameters by name; part of the evidence.
impl fmt::Display for HardwareModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            capacity,
            hit_ns,
            waiting_max,
            miss_ns,
            misses_waiting_max,
            packets_before,
            change_ns,
            changes_waiting_max,
            query_ns,
        } = self;
        write!(
            f,
            "capacity={capacity},hit_ns={hit_ns},waiting_max={waiting_max},miss_ns={miss_ns},\
             misses_waiting_max={misses_waiting_max},packets_before={packets_before},change_ns={change_ns},\
             changes_waiting_max={changes_waiting_max},query_ns={query_ns}"
        )
    }
}

/// The way of a packet through a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// By an entry; it is sent on at that time.
    Hardware {
        /// Virtual time, in nanoseconds.
        done_ns: u64,
    },
    /// By software.
    Software {
        /// Virtual time, in nanoseconds.
        done_ns: u64,
        /// What its table had.
        found: Found,
    },
    /// Dropped: too many packets wait for the table.
    TableBusy,
    /// Dropped: too many packets wait for software.
    SoftwareBusy,
}

/// What a card counted. Packets by hardware, by software and dropped are all that were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareStats {
    /// Packets that were offered.
    pub offered: u64,
    /// Packets that an entry sent on.
    pub by_hardware: u64,
    /// Packets that software looked up, and refused if its table was full.
    pub by_software: u64,
    /// Packets that found too many waiting for the table.
    pub table_busy: u64,
    /// Packets that found too many waiting for software.
    pub software_busy: u64,
    /// Entries that were asked for and made.
    pub made: u64,
    /// Entries that were not made, as the table was full.
    pub refused_full: u64,
    /// Entries that were not made, as too many changes waited.
    pub refused_busy: u64,
    /// Entries that were removed.
    pub removed: u64,
    /// Entries whose counters were read.
    pub queried: u64,
}

/// One core's part of a card, and its software. See [the module](self).
pub struct Hardware<const N: usize> {
    model: HardwareModel,
    software: Table<N>,
    entries: Vec<Entry<N>>,
    index: Index<Key<N>>,
    hash_key: HashKey,
    free: Vec<u32>,
    changes: VecDeque<Change<N>>,
    /// When the table, software and whoever changes entries are free.
    table_ns: u64,
    software_ns: u64,
    control_ns: u64,
    stats: HardwareStats,
    found: Vec<Found>,
}

#[derive(Clone, Copy)]
struct Entry<const N: usize> {
    key: Key<N>,
    /// Since software asked last.
    since: Extra,
    state: EntryState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryState {
    Unused,
    Coming,
    Here,
    Going,
}

/// A change of an entry, which is done at some time.
struct Change<const N: usize> {
    done_ns: u64,
    entry: u32,
    /// Of a removal, the flow that has ended.
    ended: Option<Flow<N>>,
}

const MS: u64 = 1_000_000;

impl<const N: usize> Hardware<N> {
    /// With a software table for `flows`.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn new(
        model: HardwareModel,
        flows: usize,
        hash_key: HashKey,
        timeouts: Timeouts,
    ) -> Result<Self, TableError> {
        let capacity = model.capacity as usize;
        let unused = Entry {
            key: Flow::NONE.key,
            since: Extra::default(),
            state: EntryState::Unused,
        };
        Ok(Self {
            software: Table::new(flows, hash_key, timeouts)?,
            entries: vec![unused; capacity],
            index: Index::new(capacity).ok_or(TableError::Memory(capacity))?,
            hash_key,
            free: (0..model.capacity).rev().collect(),
            changes: VecDeque::new(),
            table_ns: 0,
            software_ns: 0,
            control_ns: 0,
            stats: HardwareStats::default(),
            found: Vec::new(),
            model,
        })
    }

    /// The parameters.
    pub fn model(&self) -> &HardwareModel {
        &self.model
    }

    /// What was counted.
    pub fn stats(&self) -> HardwareStats {
        self.stats
    }

    /// What software counted.
    pub fn software_stats(&self) -> Stats {
        self.software.stats()
    }

    /// Flows that software knows.
    pub fn len(&self) -> usize {
        self.software.len()
    }

    /// True if it knows none.
    pub fn is_empty(&self) -> bool {
        self.software.is_empty()
    }

    /// Entries that are used, coming and going ones too.
    pub fn entries(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Sends a packet through that comes at `now_ns`, which never goes back. `ended` gets each flow whose record is complete.
    pub fn packet(
        &mut self,
        packet: &Seen<N>,
        now_ns: u64,
        mut ended: impl FnMut(&Flow<N>),
    ) -> Passage {
        self.settle(now_ns, &mut ended);
        self.stats.offered += 1;
        let model = &self.model;
        let admitted = admit(&mut self.table_ns, now_ns, model.hit_ns, model.waiting_max);
        let Some(done_ns) = admitted else {
            self.stats.table_busy += 1;
            return Passage::TableBusy;
        };
        let now_ms = (now_ns / MS) as u32;
        let entry = self.entry(&packet.key);
        if let Some(at) = entry
            && !is_of_control(packet.flags)
        {
            let entry = &mut self.entries[at as usize];
            if matches!(entry.state, EntryState::Here | EntryState::Going) {
                entry.since.count(packet.direction, packet.bytes, now_ms);
                self.stats.by_hardware += 1;
                return Passage::Hardware { done_ns };
            }
        }
        let waiting_max = self.model.misses_waiting_max;
        let admitted = admit(
            &mut self.software_ns,
            done_ns,
            self.model.miss_ns,
            waiting_max,
        );
        let Some(done_ns) = admitted else {
            self.stats.software_busy += 1;
            return Passage::SoftwareBusy;
        };
        self.stats.by_software += 1;
        // What the entry has counted is part of the flow that this packet may end.
        if let Some(at) = entry {
            self.take_counters(at, now_ns);
        }
        self.found.clear();
        (self.software).burst(&[*packet], now_ms, &mut self.found, ended);
        let found = self.found[0];
        if let (None, Found::Known(slot) | Found::New(slot)) = (entry, found) {
            let flow = self.software.flow(slot);
            let seen = flow.packets(Direction::Up) + flow.packets(Direction::Down);
            if seen >= self.model.packets_before {
                self.ask_for(packet.key, now_ns);
            }
        }
        Passage::Software { done_ns, found }
    }

    /// The entry of a flow, whatever its state.
    fn entry(&self, key: &Key<N>) -> Option<u32> {
        let is = |at: u32| self.entries[at as usize].key == *key;
        self.index.find(self.hash_key.hash(key), key, is)
    }

    fn ask_for(&mut self, key: Key<N>, now_ns: u64) {
        if self.changes.len() >= self.model.changes_waiting_max {
            self.stats.refused_busy += 1;
            return;
        }
        let Some(at) = self.free.pop() else {
            self.stats.refused_full += 1;
            return;
        };
        self.index.add(self.hash_key.hash(&key), key, at);
        self.entries[at as usize] = Entry {
            key,
            since: Extra::default(),
            state: EntryState::Coming,
        };
        self.change(at, None, now_ns);
    }

    fn change(&mut self, entry: u32, ended: Option<Flow<N>>, now_ns: u64) {
        self.control_ns = self.control_ns.max(now_ns) + self.model.change_ns;
        self.changes.push_back(Change {
            done_ns: self.control_ns,
            entry,
            ended,
        });
    }

    /// Carries out the changes that are done by then.
    fn settle(&mut self, now_ns: u64, ended: &mut impl FnMut(&Flow<N>)) {
        while let Some(change) = self.changes.pop_front_if(|change| change.done_ns <= now_ns) {
            let at = change.entry;
            let entry = &mut self.entries[at as usize];
            let Some(mut flow) = change.ended else {
                // It may have been told to go before it had come.
                if entry.state == EntryState::Coming {
                    entry.state = EntryState::Here;
                }
                self.stats.made += 1;
                continue;
            };
            flow.add(&std::mem::take(&mut entry.since));
            let key = entry.key;
            entry.state = EntryState::Unused;
            entry.key = Flow::NONE.key;
            self.index.remove(self.hash_key.hash(&key), &key, at);
            self.free.push(at);
            self.stats.removed += 1;
            ended(&flow);
        }
    }

    /// Reads an entry's counters into its flow, if software still knows that.
    fn take_counters(&mut self, at: u32, now_ns: u64) {
        let entry = &mut self.entries[at as usize];
        if entry.since.is_nothing() || entry.state == EntryState::Going {
            return;
        }
        if let Some(flow) = self.software.flow_mut(&entry.key) {
            flow.add(&std::mem::take(&mut entry.since));
            self.stats.queried += 1;
            self.control_ns = self.control_ns.max(now_ns) + self.model.query_ns;
        }
    }

    /// Looks for flows that are over, as [`Table::expire`] does. Of those that have an entry it asks for the counters first; their records come when the entry is gone.
    pub fn expire(&mut self, now_ns: u64, mut ended: impl FnMut(&Flow<N>)) {
        self.settle(now_ns, &mut ended);
        let Self {
            model,
            software,
            entries,
            index,
            hash_key,
            control_ns,
            stats,
            ..
        } = self;
        let entry_of = |key: &Key<N>, entries: &[Entry<N>]| {
            index.find(hash_key.hash(key), key, |at| {
                entries[at as usize].key == *key
            })
        };
        let ask = |flow: &mut Flow<N>| {
            let Some(at) = entry_of(&flow.key(), entries) else {
                return;
            };
            let entry = &mut entries[at as usize];
            if entry.state != EntryState::Going {
                flow.add(&std::mem::take(&mut entry.since));
                stats.queried += 1;
                *control_ns = (*control_ns).max(now_ns) + model.query_ns;
            }
        };
        let mut over = Vec::new();
        software.expire_after((now_ns / MS) as u32, ask, |flow| over.push(*flow));
        for flow in over {
            match self.entry(&flow.key()) {
                // One that is going belongs to a flow of this key that has ended before.
                Some(at) if self.entries[at as usize].state != EntryState::Going => {
                    self.entries[at as usize].state = EntryState::Going;
                    self.change(at, Some(flow), now_ns);
                }
                _ => ended(&flow),
            }
        }
    }

    /// All packets and bytes that live flows have and that entries hold besides.
    pub fn held(&self) -> (u64, u64) {
        let flows = self.software.all();
        let waiting = self
            .changes
            .iter()
            .filter_map(|change| change.ended.as_ref());
        let of_flows = flows.chain(waiting).map(|flow| {
            [Direction::Up, Direction::Down]
                .map(|direction| (flow.packets(direction), flow.bytes(direction)))
        });
        let of_entries = self.entries.iter().map(|entry| entry.since.counted());
        of_flows
            .chain(of_entries)
            .flatten()
            .fold((0, 0), |sum, (packets, bytes)| {
                (sum.0 + packets, sum.1 + bytes)
            })
    }
}

impl<const N: usize> fmt::Debug for Hardware<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hardware")
            .field("model", &self.model)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// When a server that is free at `free_ns` is done with what comes at `now_ns`; `None` if more than `waiting_max` wait already.
fn admit(free_ns: &mut u64, now_ns: u64, cost_ns: u64, waiting_max: u64) -> Option<u64> {
    let wait_ns = free_ns.saturating_sub(now_ns);
    if wait_ns > waiting_max.saturating_mul(cost_ns) {
        return None;
    }
    *free_ns = now_ns.max(*free_ns) + cost_ns;
    Some(*free_ns)
}

/// True of packets that begin or end a connection.
fn is_of_control(flags: Option<Flags>) -> bool {
    let control = Flags::SYN.with(Flags::FIN).with(Flags::RST);
    flags.is_some_and(|flags| flags.0 & control.0 != 0)
}

#[cfg(test)]
mod tests;
