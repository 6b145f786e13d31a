//! Memory for blocks: chunks of 8, 16 or 32 bytes, none of which crosses a cache line, and of whole lines.

use dpb_core::Buf;

/// The alignment of chunks, and the smallest chunk.
pub(super) const GRAIN_BYTES: usize = 8;

const LINE_BYTES: usize = 64;
/// 8, 16 and 32 bytes, and 1 to 32 lines.
const SIZES: usize = 3 + 32;
const LARGEST_BYTES: usize = 32 * LINE_BYTES;
/// Entries count grains in 27 bits.
const BYTES_MAX: usize = GRAIN_BYTES << 27;
/// The capacity of a fresh pool before it grows.
const START_BYTES: usize = 1 << 16;

/// Chunks, those in use and those given back.
#[derive(Debug)]
pub(super) struct Pool {
    memory: Buf,
    /// Bytes at the start that chunks were ever taken from.
    used: usize,
    /// The starts of the chunks given back, by their size.
    free: [Vec<u32>; SIZES],
    /// Whether a chunk was asked for that there is no room for: the first chunk was given instead, which nobody else has.
    is_full: bool,
}

impl Pool {
    /// Empty.
    pub(super) fn new() -> Self {
        Self {
            memory: zeroed(START_BYTES),
            used: LARGEST_BYTES,
            free: [const { Vec::new() }; SIZES],
            is_full: false,
        }
    }

    /// All bytes there are; 64 more than the last chunk at least.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// Bytes that chunks were ever taken from.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Whether blocks are missing, since there was no room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Some of them, to be written.
    pub(super) fn bytes_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        &mut self.memory[start..start + len]
    }

    /// A chunk of `bytes` or more: where it starts, and how long it is.
    pub(super) fn take(&mut self, bytes: usize) -> (usize, usize) {
        let room = room(bytes);
        (self.take_room(room), room)
    }

    /// Takes back the chunk that ends at `end` and was taken for `bytes`.
    pub(super) fn give_back(&mut self, end: usize, bytes: usize) {
        let room = room(bytes);
        self.free[size(room)].push((end - room) as u32);
    }

    fn take_room(&mut self, room: usize) -> usize {
        if let Some(start) = self.free[size(room)].pop() {
            return start as usize;
        }
        if room < LINE_BYTES {
            let start = self.take_room(2 * room);
            self.free[size(room)].push((start + room) as u32);
            return start;
        }
        if self.used + room > BYTES_MAX {
            self.is_full = true;
            return 0;
        }
        let start = self.used;
        self.used += room;
        if self.used + LINE_BYTES > self.memory.len() {
            let mut memory = zeroed(2 * self.memory.len());
            memory[..self.memory.len()].copy_from_slice(&self.memory);
            self.memory = memory;
        }
        start
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        let mut memory = zeroed(self.memory.len());
        memory.copy_from_slice(&self.memory);
        Self {
            memory,
            used: self.used,
            free: self.free.clone(),
            is_full: self.is_full,
        }
    }
}

/// The size of the smallest chunk that holds `bytes` bytes.
fn room(bytes: usize) -> usize {
    match bytes {
        0..=32 => bytes.max(GRAIN_BYTES).next_power_of_two(),
        _ => bytes.next_multiple_of(LINE_BYTES),
    }
}

/// The number of the free list of chunks of this size.
fn size(room: usize) -> usize {
    match room {
        0..=32 => room.ilog2() as usize - 3,
        _ => 2 + room / LINE_BYTES,
    }
}

fn zeroed(len: usize) -> Buf {
    Buf::zeroed(len).expect("memory for a routing table")
}
