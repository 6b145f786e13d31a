//! What readers and the writer of a tree share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::arena::Arena;
use super::chain::Chains;
#[cfg(test)]
use super::fault::Fault;
use super::inner::{INNER, Separators};
use super::leaf::LEAF;
use super::lock::{self, Version};
use super::log::Log;
use super::node::{ENTRIES_MAX, LOCK, Word};
use super::registry::Registry;
use super::search::Best;
use super::values::Runs;
use crate::index::{IndexError, Usage};

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Shared {
    /// See [`Root`].
    root: AtomicU64,
    pub(super) leaves: Arena<LEAF>,
    pub(super) inners: Arena<INNER>,
    pub(super) values: Runs,
    pub(super) separators: Separators,
    pub(super) log: Log,
    pub(super) registry: Registry,
    pub(super) search: Best,
    pub(super) counts: Counts,
    /// A writer panicked.
    broken: AtomicBool,
    #[cfg(test)]
    pub(super) fault: Fault,
    /// Entries of a node, at most: few make deep trees of few keys.
    #[cfg(test)]
    pub(super) entries_max: usize,
}

/// What the last transaction left, for whoever asks.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) keys: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) versions_bytes: AtomicU64,
}

/// A writer of the tree panicked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken;

impl From<Broken> for IndexError {
    fn from(_: Broken) -> Self {
        Self::Broken
    }
}

/// The topmost node, and how many inner nodes lie on the way to a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) number: u32,
    pub(super) height: u32,
}

impl Shared {
    pub(super) fn new(sessions: usize, versions_bytes_max: usize) -> Self {
        Self {
            root: AtomicU64::new(0),
            leaves: Arena::new(),
            inners: Arena::new(),
            values: Runs::new(),
            separators: Chains::new(),
            log: Log::new(versions_bytes_max),
            registry: Registry::new(sessions),
            search: Best::detect(),
            counts: Counts::default(),
            broken: AtomicBool::new(false),
            #[cfg(test)]
            fault: Fault::None,
            #[cfg(test)]
            entries_max: ENTRIES_MAX,
        }
    }

    #[inline(always)]
    pub(super) fn root(&self) -> Root {
        let word = self.root.load(Ordering::Acquire);
        Root {
            number: word as u32,
            height: (word >> 32) as u32,
        }
    }

    /// True if it still is the root. Else a node's version may be of a time when it was only a part.
    #[inline(always)]
    pub(super) fn is_root(&self, root: Root) -> bool {
        #[cfg(test)]
        if self.has(Fault::KeepsRoot) {
            return true;
        }
        self.root() == root
    }

    pub(super) fn set_root(&self, root: Root) {
        let word = u64::from(root.height) << 32 | u64::from(root.number);
        self.root.store(word, Ordering::Release);
    }

    /// Marks the tree as broken.
    pub(super) fn set_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// An error if a writer panicked. Readers that meet a change ask.
    #[cold]
    pub(super) fn check_whole(&self) -> Result<(), Broken> {
        match self.broken.load(Ordering::Acquire) {
            true => Err(Broken),
            false => Ok(()),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let (sessions, oldest) = self.registry.sessions();
        Usage {
            keys: self.counts.keys.load(Ordering::Relaxed),
            bytes: self.counts.bytes.load(Ordering::Relaxed),
            versions_bytes: self.counts.versions_bytes.load(Ordering::Relaxed),
            sessions,
            newest: self.registry.committed(),
            oldest,
        }
    }

    /// Entries of a node, at most.
    #[inline(always)]
    pub(super) fn entries_max(&self) -> usize {
        #[cfg(test)]
        return self.entries_max;
        #[cfg(not(test))]
        ENTRIES_MAX
    }

    /// True if the tests have planted that mistake.
    #[cfg(test)]
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// True if what was read of a node is of the version that the reader began with.
    #[inline(always)]
    pub(super) fn unchanged<const W: usize>(&self, node: &[Word; W], version: Version) -> bool {
        #[cfg(test)]
        if self.fault.skips(node) {
            return true;
        }
        lock::unchanged(&node[LOCK], version)
    }

    /// True if the writer's change at `position` is part of `state`.
    #[inline(always)]
    pub(super) fn is_seen(&self, position: u64, state: u64) -> bool {
        #[cfg(test)]
        if self.has(Fault::SeesTheNewest) {
            return true;
        }
        position < state
    }

    /// In tests, a place at which another thread may be let in.
    #[inline(always)]
    pub(super) fn pause(&self) {
        #[cfg(test)]
        self.fault.pause();
    }

    /// The same between the root and its version.
    #[inline(always)]
    pub(super) fn pause_at_root(&self) {
        #[cfg(test)]
        self.fault.pause_at_root();
    }

    /// In tests, counts reads that begin anew.
    #[inline(always)]
    pub(super) fn retry(&self) {
        #[cfg(test)]
        self.fault.retry();
    }
}
