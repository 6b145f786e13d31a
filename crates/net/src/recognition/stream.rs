//! Putting together what comes in pieces: the bytes of one direction of a TCP connection, of QUIC's handshake, of a hello over several datagrams.
//!
//! A stream's start is held in one block of memory, so that readers have it as one slice. Pieces are written to their places as they come, in any order: a
//! bit for each byte says which are there, so gaps are not limited in number. **The first copy of a byte stays**: what overlaps with bytes that are there is
//! not written. Bytes behind the block's end are dropped.

use super::looks::Looks;

/// Which bytes of a block are there. Those between the front and the end have a bit each in the block's [`Room`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filled {
    /// Bytes from the start without a gap.
    front: u16,
    /// The place behind the last byte.
    end: u16,
}

/// The memory of a block: bytes, and as many bits.
pub(super) struct Room<'a> {
    bytes: &'a mut [u8],
    /// Without a meaning before the front and behind the end.
    bits: &'a mut [u64],
}

/// What came of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// There are more bytes from the start without a gap.
    Grown,
    /// It lies behind a gap.
    Held,
    /// All of it was there.
    Known,
    /// There is no room for it: it lies behind the end.
    Dropped,
}

impl Filled {
    /// Bytes from the start without a gap.
    pub(super) fn front(&self) -> usize {
        usize::from(self.front)
    }

    /// The place behind the last byte.
    pub(super) fn end(&self) -> usize {
        usize::from(self.end)
    }

    /// Writes what of a piece is not there, to its place in a block, which is shorter than 64 KiB.
    pub(super) fn insert(&mut self, room: Room<'_>, start: usize, bytes: &[u8]) -> Inserted {
        let Room { bytes: block, bits } = room;
        let stop = start.saturating_add(bytes.len()).min(block.len());
        let (front, end) = (self.front(), self.end());
        let from = start.max(front);
        if from >= stop {
            return match start >= block.len() && !bytes.is_empty() {
                true => Inserted::Dropped,
                false => Inserted::Known,
            };
        }
        let mut write = |from: usize, to: usize| {
            block[from..to].copy_from_slice(&bytes[from - start..to - start]);
        };
        let mut has_news = false;
        // Gaps before the end.
        let before = stop.min(end);
        let mut at = from;
        while at < before {
            let gap = next(bits, at, before, false);
            at = next(bits, gap, before, true);
            if gap < at {
                write(gap, at);
                has_news = true;
            }
        }
        if stop > end {
            let behind = from.max(end);
            write(behind, stop);
            has_news = true;
            set(bits, end, behind, false);
        }
        match from == front {
            true => self.front = next(bits, stop, end.max(stop), false) as u16,
            false => set(bits, from, stop, true),
        }
        self.end = end.max(stop) as u16;
        match () {
            () if !has_news => Inserted::Known,
            () if from == front => Inserted::Grown,
            () => Inserted::Held,
        }
    }

    /// Moves all bytes back by `by`, since the stream began earlier than was thought; false if that would move one out of the block.
    pub(super) fn move_back(&mut self, room: Room<'_>, by: usize) -> bool {
        let Room { bytes, bits } = room;
        let (front, end) = (self.front(), self.end());
        if end + by > bytes.len() || by == 0 {
            return false;
        }
        if end == 0 {
            return true;
        }
        bytes.copy_within(..end, by);
        move_up(bits, by);
        set(bits, 0, by, false);
        set(bits, by, by + front, true);
        (self.front, self.end) = (0, (end + by) as u16);
        true
    }
}

impl Room<'_> {
    /// The bytes that it has room for.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Takes over what another one holds up to `end`; both are as long at least.
    pub(super) fn copy_from(self, other: &Room<'_>, end: usize) {
        self.bytes[..end].copy_from_slice(&other.bytes[..end]);
        let words = end.div_ceil(WORD);
        self.bits[..words].copy_from_slice(&other.bits[..words]);
    }
}

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// The first place from `from` on whose bit is `is_set`; `to` if there is none before it.
fn next(bits: &[u64], from: usize, to: usize, is_set: bool) -> usize {
    let mut at = from;
    while at < to {
        let word = match is_set {
            true => bits[at / WORD],
            false => !bits[at / WORD],
        };
        let rest = word >> (at % WORD);
        if rest != 0 {
            return to.min(at + rest.trailing_zeros() as usize);
        }
        at = (at / WORD + 1) * WORD;
    }
    to
}

/// Has the bits of these places say so.
fn set(bits: &mut [u64], from: usize, to: usize, is_set: bool) {
    let mut at = from;
    while at < to {
        let count = (WORD - at % WORD).min(to - at);
        let mask = u64::MAX >> (WORD - count) << (at % WORD);
        match is_set {
            true => bits[at / WORD] |= mask,
            false => bits[at / WORD] &= !mask,
        }
        at += count;
    }
}

/// Moves each bit up by `by` places. The lowest ones have no meaning then.
fn move_up(bits: &mut [u64], by: usize) {
    let (words, shift) = (by / WORD, by % WORD);
    for at in (words..bits.len()).rev() {
        let high = bits[at - words] << shift;
        let low = match (at - words).checked_sub(1) {
            Some(below) if shift > 0 => bits[below] >> (WORD - shift),
            _ => 0,
        };
        bits[at] = high | low;
    }
}

/// A start that is put together outside of a pool.
pub(super) struct Assembly {
    bytes: Vec<u8>,
    bits: Vec<u64>,
}

impl Assembly {
    /// One as long as a long block.
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; LONG_BYTES],
            bits: vec![0; LONG_BYTES / WORD],
        }
    }

    /// Its bytes, whichever are there.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, to be written.
    pub(super) fn room(&mut self) -> Room<'_> {
        Room {
            bytes: &mut self.bytes,
            bits: &mut self.bits,
        }
    }
}

/// A block of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block(u32);

impl Block {
    /// No block.
    pub(super) const NONE: Self = Self(u32::MAX);
    const LONG: u32 = 1 << 31;

    fn is_long(self) -> bool {
        self.0 & Self::LONG != 0
    }
}

/// Blocks of two lengths. All memory is there from the start.
pub(super) struct Pool {
    bytes: Vec<u8>,
    /// A bit for each byte.
    bits: Vec<u64>,
    /// Where the long ones begin.
    long_start: usize,
    short: Vec<u32>,
    long: Vec<u32>,
}

/// The length of a short block: most hellos fit, with keys for the time after quantum computers too.
pub(super) const SHORT_BYTES: usize = 2 << 10;
/// That of a long one.
pub(super) const LONG_BYTES: usize = 8 << 10;

impl Pool {
    /// So many blocks of each length.
    pub(super) fn new(short: u32, long: u32) -> Self {
        let long_start = short as usize * SHORT_BYTES;
        let len = long_start + long as usize * LONG_BYTES;
        Self {
            bytes: vec![0; len],
            bits: vec![0; len / WORD],
            long_start,
            short: (0..short).rev().collect(),
            long: (0..long).rev().collect(),
        }
    }

    /// A block of at least so many bytes, if one is left and there are such.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Block> {
        if bytes <= SHORT_BYTES
            && let Some(at) = self.short.pop()
        {
            return Some(Block(at));
        }
        if bytes > LONG_BYTES {
            return None;
        }
        self.long.pop().map(|at| Block(at | Block::LONG))
    }

    /// Takes a block back.
    pub(super) fn give(&mut self, block: Block) {
        match block {
            Block::NONE => {}
            block if block.is_long() => self.long.push(block.0 & !Block::LONG),
            Block(at) => self.short.push(at),
        }
    }

    fn range(&self, block: Block) -> std::ops::Range<usize> {
        let Block(at) = block;
        match block {
            Block::NONE => 0..0,
            block if block.is_long() => {
                let start = self.long_start + (at & !Block::LONG) as usize * LONG_BYTES;
                start..start + LONG_BYTES
            }
            _ => {
                let start = at as usize * SHORT_BYTES;
                start..start + SHORT_BYTES
            }
        }
    }

    /// Its bytes; none of [`Block::NONE`].
    pub(super) fn bytes(&self, block: Block) -> &[u8] {
        &self.bytes[self.range(block)]
    }

    /// The same with their bits, to be written.
    pub(super) fn room(&mut self, block: Block) -> Room<'_> {
        let range = self.range(block);
        Room {
            bits: &mut self.bits[range.start / WORD..range.end / WORD],
            bytes: &mut self.bytes[range],
        }
    }

    /// Blocks that are left.
    pub(super) fn left(&self) -> (usize, usize) {
        (self.short.len(), self.long.len())
    }

    /// A block of at least `needed` bytes with what `block` holds up to `end`: `block` itself if it is long enough, else a long one, or `block` if none is left.
    pub(super) fn grown(&mut self, block: Block, end: usize, needed: usize) -> Block {
        let range = self.range(block);
        if needed <= range.len() || range.len() == LONG_BYTES {
            return block;
        }
        let Some(longer) = self.take(needed.min(LONG_BYTES)) else {
            return block;
        };
        let to = self.range(longer).start;
        let end = range.start + end.min(range.len());
        self.bytes.copy_within(range.start..end, to);
        let words = range.start / WORD..end.div_ceil(WORD);
        self.bits.copy_within(words, to / WORD);
        self.give(block);
        longer
    }
}

/// The start of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// The sequence number of the first byte.
    pub(super) base: u32,
    pub(super) block: Block,
    pub(super) filled: Filled,
    /// Bytes that a reader waits for.
    pub(super) wanted: u16,
    /// The looks of readers.
    pub(super) read: Looks,
    /// The looks of rules.
    pub(super) shown: Looks,
    /// True if the base is known: by a SYN, or by a packet.
    pub(super) has_base: bool,
    /// True if it is known by a SYN, so that nothing comes before it.
    pub(super) is_base_sure: bool,
    /// True if no reader knows what is there.
    pub(super) is_foreign: bool,
    /// Where it ends, if a FIN came.
    pub(super) end: Option<u16>,
}

impl Stream {
    pub(super) const EMPTY: Self = Self {
        base: 0,
        block: Block::NONE,
        filled: Filled { front: 0, end: 0 },
        wanted: 0,
        read: Looks::NONE,
        shown: Looks::NONE,
        has_base: false,
        is_base_sure: false,
        is_foreign: false,
        end: None,
    };

    /// The bytes from the start without a gap.
    pub(super) fn bytes<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        let block = pool.bytes(self.block);
        &block[..self.filled.front().min(block.len())]
    }

    /// True if no more bytes come that could be held.
    pub(super) fn is_over(&self) -> bool {
        let front = self.filled.front();
        front >= LONG_BYTES || self.end.is_some_and(|end| front >= usize::from(end))
    }

    /// Writes a piece to its place.
    pub(super) fn insert(&mut self, pool: &mut Pool, start: usize, bytes: &[u8]) -> Inserted {
        if bytes.is_empty() {
            return Inserted::Known;
        }
        if start >= LONG_BYTES {
            return Inserted::Dropped;
        }
        let needed = start.saturating_add(bytes.len());
        let room = Self::room(&mut self.block, pool, self.filled.end(), needed);
        self.filled.insert(room, start, bytes)
    }

    /// Keeps what was put together elsewhere, up to `end`; false if no block is long enough.
    pub(super) fn keep(&mut self, pool: &mut Pool, from: &mut Assembly, end: usize) -> bool {
        let room = Self::room(&mut self.block, pool, 0, end);
        let is_long_enough = room.len() >= end;
        if is_long_enough {
            room.copy_from(&from.room(), end);
        }
        is_long_enough
    }

    /// A block for `needed` bytes, or as long a one as is left, with what it holds up to `end`.
    fn room<'a>(block: &mut Block, pool: &'a mut Pool, end: usize, needed: usize) -> Room<'a> {
        let needed = needed.min(LONG_BYTES);
        *block = match *block {
            Block::NONE => pool
                .take(needed)
                .or_else(|| pool.take(1))
                .unwrap_or(Block::NONE),
            block => pool.grown(block, end, needed),
        };
        pool.room(*block)
    }

    /// Writes a segment of TCP. What was before the first byte of the stream moves it back if no SYN said where it begins.
    pub(super) fn segment(&mut self, pool: &mut Pool, sequence: u32, bytes: &[u8]) -> Inserted {
        if bytes.is_empty() {
            return Inserted::Known;
        }
        if !self.has_base {
            self.has_base = true;
            self.base = sequence;
        }
        let distance = sequence.wrapping_sub(self.base) as i32;
        if distance >= 0 {
            return self.insert(pool, distance as usize, bytes);
        }
        let before = distance.unsigned_abs() as usize;
        if self.is_base_sure || before > LONG_BYTES || !self.move_back(pool, before) {
            // What is left of it behind the first byte.
            return match bytes.get(before..) {
                Some(rest) => self.insert(pool, 0, rest),
                None => Inserted::Known,
            };
        }
        self.base = sequence;
        self.insert(pool, 0, bytes)
    }

    fn move_back(&mut self, pool: &mut Pool, by: usize) -> bool {
        let end = self.filled.end();
        if self.block == Block::NONE || end + by > LONG_BYTES {
            return false;
        }
        self.block = pool.grown(self.block, end, end + by);
        let is_moved = self.filled.move_back(pool.room(self.block), by);
        if let (true, Some(end)) = (is_moved, &mut self.end) {
            *end = end.saturating_add(by as u16);
        }
        is_moved
    }

    /// Gives its memory back.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        pool.give(self.block);
        *self = Self::EMPTY;
    }
}
