//! Putting together what comes in pieces: the bytes of one direction of a TCP connection, of QUIC's handshake, of a hello over several datagrams.
//!
//! A stream's start is held in one block of memory, so that readers have it as one slice. Pieces are written to their places as they come. **The first
//! copy of a byte stays**: what overlaps with bytes that are there is not written. Up to [`ISLANDS`] stretches behind a gap are held; a piece that
//! would make one more is dropped. Bytes behind the block's end are dropped.

/// Stretches behind gaps that are held.
pub(super) const ISLANDS: usize = 6;

/// Which bytes of a block are there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filled {
    /// Bytes from the start without a gap.
    front: u16,
    count: u8,
    /// From where to where, in order, none touching another.
    islands: [(u16, u16); ISLANDS],
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
    /// There is no room for it: too many gaps, or behind the end.
    Dropped,
}

impl Filled {
    /// Bytes from the start without a gap.
    pub(super) fn front(&self) -> usize {
        usize::from(self.front)
    }

    /// The place behind the last byte.
    pub(super) fn end(&self) -> usize {
        let islands = &self.islands[..usize::from(self.count)];
        islands
            .last()
            .map_or(self.front(), |last| usize::from(last.1))
    }

    /// Writes what of a piece is not there, to its place in `block`, which is shorter than 64 KiB.
    pub(super) fn insert(&mut self, block: &mut [u8], start: usize, bytes: &[u8]) -> Inserted {
        let end = start.saturating_add(bytes.len()).min(block.len());
        let from = start.max(self.front());
        if from >= end {
            return match start >= block.len() && !bytes.is_empty() {
                true => Inserted::Dropped,
                false => Inserted::Known,
            };
        }
        let Some(next) = self.with(from as u16, end as u16) else {
            return Inserted::Dropped;
        };
        let mut write = |from: usize, to: usize| {
            block[from..to].copy_from_slice(&bytes[from - start..to - start]);
        };
        let mut at = from;
        let mut has_news = false;
        for (start, behind) in &self.islands[..usize::from(self.count)] {
            let (start, behind) = (usize::from(*start), usize::from(*behind));
            if at >= end || start >= end {
                break;
            }
            if start > at {
                write(at, start);
                has_news = true;
            }
            at = at.max(behind);
        }
        if at < end {
            write(at, end);
            has_news = true;
        }
        let before = self.front;
        *self = next;
        match () {
            () if !has_news => Inserted::Known,
            () if self.front > before => Inserted::Grown,
            () => Inserted::Held,
        }
    }

    /// These bytes and a stretch that does not begin in the front; `None` if there would be too many islands.
    fn with(&self, from: u16, to: u16) -> Option<Self> {
        let mut next = Self {
            front: self.front,
            ..Self::default()
        };
        let mut new = Some((from, to));
        let old = self.islands[..usize::from(self.count)].iter().copied();
        for island in old {
            new = match new {
                Some(piece) if piece.1 < island.0 => {
                    next.push(piece)?;
                    next.push(island)?;
                    None
                }
                Some(piece) if piece.0 <= island.1 => {
                    Some((piece.0.min(island.0), piece.1.max(island.1)))
                }
                new => {
                    next.push(island)?;
                    new
                }
            };
        }
        if let Some(piece) = new {
            next.push(piece)?;
        }
        Some(next)
    }

    /// Appends a stretch that lies behind all others.
    fn push(&mut self, (from, to): (u16, u16)) -> Option<()> {
        if from <= self.front {
            self.front = self.front.max(to);
            return Some(());
        }
        *self.islands.get_mut(usize::from(self.count))? = (from, to);
        self.count += 1;
        Some(())
    }

    /// Moves all bytes back by `by`, since the stream began earlier than was thought; false if that would move one out of the block.
    pub(super) fn move_back(&mut self, block: &mut [u8], by: usize) -> bool {
        let end = self.end();
        let is_full = usize::from(self.count) == ISLANDS;
        if end + by > block.len() || by == 0 || is_full {
            return false;
        }
        block.copy_within(..end, by);
        let old = *self;
        let by = by as u16;
        *self = Self::default();
        if old.front > 0 {
            self.islands[0] = (by, old.front + by);
            self.count = 1;
        }
        for (from, to) in &old.islands[..usize::from(old.count)] {
            self.islands[usize::from(self.count)] = (from + by, to + by);
            self.count += 1;
        }
        true
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
        Self {
            bytes: vec![0; long_start + long as usize * LONG_BYTES],
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

    /// The same, to be written.
    pub(super) fn bytes_mut(&mut self, block: Block) -> &mut [u8] {
        let range = self.range(block);
        &mut self.bytes[range]
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
        filled: Filled {
            front: 0,
            count: 0,
            islands: [(0, 0); ISLANDS],
        },
        wanted: 0,
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
        let needed = start.saturating_add(bytes.len()).min(LONG_BYTES);
        self.block = match self.block {
            Block::NONE => match pool.take(needed) {
                Some(block) => block,
                None => match pool.take(1) {
                    Some(block) => block,
                    None => return Inserted::Dropped,
                },
            },
            block => pool.grown(block, self.filled.end(), needed),
        };
        self.filled.insert(pool.bytes_mut(self.block), start, bytes)
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
        let is_moved = self.filled.move_back(pool.bytes_mut(self.block), by);
        if let (true, Some(end)) = (is_moved, &mut self.end) {
            *end = end.saturating_add(by as u16);
        }
        is_moved
    }

    /// Gives its memory back.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        pool.give(self.block);
        self.block = Block::NONE;
    }
}
