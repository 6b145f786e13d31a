//! Nodes by numbers: chunks of memory that asks for huge pages, cut into nodes of equal size.
//!
//! A node is an array of atomic words, so whoever has its number may read it at any moment. Words that are read while a writer changes the node are
//! wrong, and nothing worse. Nodes are used again and never given back before the arena is dropped. The unsafe code of the tree is in this file, in
//! [`search`](super::search), and in [`values`](super::values).
#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::index::IndexError;

/// Bytes of a chunk, about. Only what is written takes memory.
const CHUNK_BYTES: usize = if cfg!(miri) { 16 << 10 } else { 32 << 20 };
/// Chunks of an arena, at most: half a terabyte.
const CHUNKS: usize = if cfg!(miri) { 256 } else { 16 << 10 };

/// The memory of a chunk.
#[cfg(not(miri))]
type Memory = dpb_core::huge::Huge<u8>;
/// Miri knows no mappings.
#[cfg(miri)]
type Memory = Vec<AtomicU64>;

/// Nodes of `W` words.
pub(super) struct Arena<const W: usize> {
    /// Null where there is no chunk yet.
    chunks: Box<[AtomicPtr<[AtomicU64; W]>]>,
    /// What owns the chunks.
    memory: Mutex<Vec<Memory>>,
}

impl<const W: usize> Arena<W> {
    /// Nodes of a chunk: a power of two, so that a number splits by bits.
    pub(super) const NODES: usize = {
        let nodes = CHUNK_BYTES / (W * 8);
        1 << nodes.ilog2()
    };
    const SHIFT: u32 = Self::NODES.trailing_zeros();

    pub(super) fn new() -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| AtomicPtr::default()).collect(),
            memory: Mutex::new(Vec::new()),
        }
    }

    /// The node with this number, which its reader knows to be one: the number was checked after it was read, or the writer has it.
    ///
    /// # Panics
    /// If its chunk was never made.
    #[inline(always)]
    pub(super) fn node(&self, number: u32) -> &[AtomicU64; W] {
        self.try_node(number).expect("a number of a node")
    }

    /// The node with this number. `None` if there is no such node, or its chunk is not seen yet: a number that was read while a writer changed its
    /// node may be any, and may be seen before the chunk that it is in.
    #[inline(always)]
    pub(super) fn try_node(&self, number: u32) -> Option<&[AtomicU64; W]> {
        // SAFETY: the place is a node of a chunk, which lives as long as `self`. Its words are initialised, and all who have them share them as atomics.
        self.place(number).map(|place| unsafe { &*place })
    }

    /// A run of nodes one behind another, from this number on. `None` if there are none such, or not in one chunk.
    #[inline(always)]
    pub(super) fn try_nodes(&self, number: u32, count: usize) -> Option<&[[AtomicU64; W]]> {
        if count > Self::NODES - Self::within(number) {
            return None;
        }
        let place = self.place(number)?;
        // SAFETY: all of these are nodes of one chunk, as the one of `try_node` is. The place may be used for all of the chunk, since it is no node's
        // reference.
        Some(unsafe { std::slice::from_raw_parts(place, count) })
    }

    /// Where a node lies. `None` if its chunk is not there.
    #[inline(always)]
    fn place(&self, number: u32) -> Option<*const [AtomicU64; W]> {
        let chunk = (self.chunks.get((number >> Self::SHIFT) as usize)?).load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: `ensure` stored the pointer after it had made a chunk of `NODES` nodes, which is what the mask keeps the number below.
        Some(unsafe { chunk.add(Self::within(number)) })
    }

    /// The number of a node within its chunk.
    #[inline(always)]
    const fn within(number: u32) -> usize {
        number as usize & (Self::NODES - 1)
    }

    /// The error of more nodes than there are numbers.
    pub(super) fn full(&self) -> IndexError {
        let nodes = (CHUNKS * Self::NODES).min(u32::MAX as usize);
        IndexError::Full {
            what: "the nodes of an index",
            limit_bytes: (nodes * W * 8) as u64,
            remedy: "split its keys over several indexes",
        }
    }

    /// Makes the chunk of a node, unless it is there.
    pub(super) fn ensure(&self, number: u32) -> Result<(), IndexError> {
        let bytes = Self::NODES * W * 8;
        let chunk =
            (self.chunks.get((number >> Self::SHIFT) as usize)).ok_or_else(|| self.full())?;
        if !chunk.load(Ordering::Relaxed).is_null() {
            return Ok(());
        }
        let (memory, start) = chunk_of::<W>(Self::NODES).ok_or(IndexError::Memory { bytes })?;
        let mut owners = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        owners.push(memory);
        chunk.store(start, Ordering::Release);
        Ok(())
    }
}

/// A chunk of `nodes` nodes of zeroes.
#[cfg(not(miri))]
fn chunk_of<const W: usize>(nodes: usize) -> Option<(Memory, *mut [AtomicU64; W])> {
    let mut memory = Memory::try_zeroed(nodes * W * 8)?;
    // It begins at a huge page, and a word of zeroes is an atomic zero. The slice is not used again, so that the pointer stays good.
    let start = memory.as_mut_ptr().cast();
    Some((memory, start))
}

/// A chunk of `nodes` nodes of zeroes.
#[cfg(miri)]
fn chunk_of<const W: usize>(nodes: usize) -> Option<(Memory, *mut [AtomicU64; W])> {
    let mut memory: Memory = (0..nodes * W).map(|_| AtomicU64::new(0)).collect();
    let start = memory.as_mut_ptr().cast();
    Some((memory, start))
}

impl<const W: usize> fmt::Debug for Arena<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena(nodes of {W} words)")
    }
}
