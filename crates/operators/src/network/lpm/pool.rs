//! Memory for blocks: chunks of a power of two of bytes, none of which up to a cache line crosses one.

use dpb_core::Buf;

/// What chunks begin at multiples of, and the smallest chunk.
pub(super) const GRAIN_BYTES: usize = 8;

const LINE_LOG2: usize = 6;
/// Chunks have 2³ to 2¹¹ bytes.
const SIZES: usize = 12;
const LARGEST_BYTES: usize = 1 << (SIZES - 1);
/// Entries count grains in 27 bits.
const BYTES_MAX: usize = GRAIN_BYTES << 27;
/// What a fresh pool can hold before it grows.
const START_BYTES: usize = 1 << 16;

/// Chunks, those in use and those given back.
#[derive(Debug)]
pub(super) struct Pool {
    memory: Buf,
    /// Bytes at the start that chunks were ever taken from.
    used: usize,
    /// Where the chunks given back start, by the logarithm of their size.
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
            free: Default::default(),
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
        let size = size_log2(bytes);
        (self.take_sized(size), 1 << size)
    }

    /// Takes back the chunk that ends at `end` and was taken for `bytes`.
    pub(super) fn give_back(&mut self, end: usize, bytes: usize) {
        let size = size_log2(bytes);
        self.free[size].push((end - (1 << size)) as u32);
    }

    fn take_sized(&mut self, size: usize) -> usize {
        if let Some(start) = self.free[size].pop() {
            return start as usize;
        }
        if size < LINE_LOG2 {
            let start = self.take_sized(size + 1);
            self.free[size].push((start + (1 << size)) as u32);
            return start;
        }
        if self.used + (1 << size) > BYTES_MAX {
            self.is_full = true;
            return 0;
        }
        let start = self.used;
        self.used += 1 << size;
        if self.used + 64 > self.memory.len() {
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

fn size_log2(bytes: usize) -> usize {
    bytes.max(GRAIN_BYTES).next_power_of_two().ilog2() as usize
}

fn zeroed(len: usize) -> Buf {
    Buf::zeroed(len).expect("memory for a routing table")
}
