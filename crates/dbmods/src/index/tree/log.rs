//! Older versions of entries: a log that only grows at its head and is forgotten at its tail.
//!
//! A leaf has the newest version of each entry in place, with the position of a record in this log: what the entry was before
//! (as in HyPer: Neumann, Mühlbauer and Kemper, "Fast Serializable Multi-Version Concurrency Control for Main-Memory Database Systems",
//! SIGMOD 2015). Positions are also what states are named by. A write whose record lies at position `p` is part of every state above `p`. So one
//! number per entry is its time and the way to its past, and a reader of state `s` needs the log for entries with `p >= s` alone.
//!
//! Nobody needs a record below the oldest state that is read. Then it is forgotten, and the positions that lead to it stay where they are: they are below every
//! state from then on. With no reader, two segments serve by turns and stay in a cache.

use super::arena::Arena;
use super::node::{Word, load, store};
use super::numbers::Numbers;
use super::registry::FIRST;
use super::slot::{INLINE_BYTES_MAX, Slot};
use crate::index::IndexError;

/// Words of a segment.
pub(super) const SEGMENT: usize = if cfg!(miri) { 512 } else { 4096 };
/// Words of a record before the value: the older record's position, and the slot.
const RECORD: usize = 2;
/// Words of a record, at most.
pub(super) const RECORD_MAX: usize = RECORD + INLINE_BYTES_MAX / 8;

/// The segments, for readers.
#[derive(Debug)]
pub(super) struct Log {
    arena: Arena<SEGMENT>,
    /// The node of each segment, by the segment's number modulo the length.
    directory: Box<[Word]>,
}

/// A version of an entry that another one replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old<'a> {
    /// The position of the version before it.
    pub(super) older: u64,
    /// The lengths of its parts; the place means nothing.
    pub(super) slot: Slot,
    /// Its value, or the word of a long one.
    pub(super) value: &'a [Word],
}

impl Log {
    pub(super) fn new(bytes_max: usize) -> Self {
        let segments = (bytes_max / (SEGMENT * 8)).max(4);
        Self {
            arena: Arena::new(),
            directory: (0..segments).map(|_| Word::new(0)).collect(),
        }
    }

    fn segment(&self, position: u64) -> &Word {
        let segment = position / SEGMENT as u64;
        &self.directory[(segment % self.directory.len() as u64) as usize]
    }

    /// The record at a position. A reader asks for positions that are not below its state alone: those below may be forgotten.
    fn at(&self, position: u64) -> Option<Old<'_>> {
        let number = load(self.segment(position)) as u32;
        if number == 0 {
            return None;
        }
        let record = &self.arena.node(number)[position as usize % SEGMENT..];
        let slot = Slot(load(record.get(1)?));
        Some(Old {
            older: load(&record[0]),
            slot,
            value: record.get(RECORD..RECORD + slot.value_words())?,
        })
    }

    /// The version that a reader of `state` sees, of an entry whose newest one is at `position`, which is not part of that state. `None` if
    /// the position was read while a writer changed its leaf.
    #[cold]
    pub(super) fn seen_by(&self, state: u64, mut position: u64) -> Option<Old<'_>> {
        loop {
            let old = self.at(position)?;
            if old.older < state {
                return Some(old);
            }
            if old.older >= position {
                return None;
            }
            position = old.older;
        }
    }

    /// Bytes that versions may take.
    pub(super) fn bytes_max(&self) -> u64 {
        (self.directory.len() * SEGMENT * 8) as u64
    }
}

/// The log's ends, for the writer.
#[derive(Debug)]
pub(super) struct Ends {
    numbers: Numbers,
    /// Where the next record goes.
    head: u64,
    /// The first segment that is not forgotten, and the first that was never begun.
    tail: u64,
    begun: u64,
}

impl Ends {
    pub(super) fn new() -> Self {
        Self {
            numbers: Numbers::new(),
            head: FIRST,
            tail: 0,
            begun: 0,
        }
    }

    /// The position behind the last record.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Makes room for so many records.
    pub(super) fn reserve(&mut self, log: &Log, records: usize) -> Result<(), IndexError> {
        let words = records.saturating_mul(RECORD_MAX);
        let segments = words / (SEGMENT - RECORD_MAX) + 2;
        let in_use = self.begun - self.tail;
        if in_use + segments as u64 > log.directory.len() as u64 {
            return Err(full(log.bytes_max()));
        }
        self.numbers.reserve(&log.arena, segments)
    }

    /// True if a reservation would want segments forgotten.
    pub(super) fn is_long(&self) -> bool {
        self.begun - self.tail > 2
    }

    /// Appends what an entry was, and gives its position.
    pub(super) fn append(&mut self, log: &Log, older: u64, slot: Slot, value: &[Word]) -> u64 {
        let words = RECORD + value.len();
        let offset = self.head as usize % SEGMENT;
        if offset + words > SEGMENT {
            self.head += (SEGMENT - offset) as u64;
        }
        let position = self.head;
        while self.begun <= position / SEGMENT as u64 {
            let number = self.numbers.take();
            store(log.segment(self.begun * SEGMENT as u64), u64::from(number));
            self.begun += 1;
        }
        let number = load(log.segment(position)) as u32;
        let record = &log.arena.node(number)[position as usize % SEGMENT..][..words];
        store(&record[0], older);
        store(&record[1], slot.0);
        for (to, from) in record[RECORD..].iter().zip(value) {
            store(to, load(from));
        }
        self.head += words as u64;
        position
    }

    /// Forgets the segments that lie below `oldest`.
    pub(super) fn forget(&mut self, log: &Log, oldest: u64) {
        while self.tail < self.begun && (self.tail + 1) * SEGMENT as u64 <= oldest {
            let number = load(log.segment(self.tail * SEGMENT as u64)) as u32;
            self.numbers.give(number);
            self.tail += 1;
        }
    }

    /// Bytes that are not forgotten.
    pub(super) fn bytes_in_use(&self) -> u64 {
        (self.begun - self.tail) * SEGMENT as u64 * 8
    }

    /// Bytes that the log ever took.
    pub(super) fn bytes(&self) -> u64 {
        self.numbers.ever() * SEGMENT as u64 * 8
    }
}

/// The error of a log that is full.
pub(super) fn full(limit_bytes: u64) -> IndexError {
    IndexError::Full {
        what: "the old versions of an index",
        limit_bytes,
        remedy: "release the snapshots that are held, write fewer keys in one transaction, or allow more bytes of versions",
    }
}
