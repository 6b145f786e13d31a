//! The version lock of a node: optimistic lock coupling (Leis, Scheibner, Kemper and Neumann, "The ART of Practical
//! Synchronization", DaMoN 2016), the part of its readers.
//!
//! A reader takes the version, reads words of the node in any order, and asks whether the version still holds. If it does, no
//! writer was there in between. A reader writes nothing, so readers of one node share its cache line. The fences are those of a sequence lock
//! (Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?", MSPC 2012); all words of a node are atomic, so that a read
//! that races with a write is not undefined, and is thrown away.
//!
//! Writers of a tree take turns, so a writer never waits for a lock.

use super::sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};

/// Set while a writer changes the node.
const LOCKED: u64 = 1;
/// Set when the node is no longer part of the tree.
const OBSOLETE: u64 = 2;
/// A change adds this to the version.
const STEP: u64 = 4;
/// A writer holds a lock for some hundred instructions. One that takes longer has lost its core, and yielding gives it one.
const SPINS: u32 = 64;

/// The version that a reader began with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    /// Of no node: no node that is locked and obsolete is read.
    pub(super) const NONE: Self = Self(LOCKED | OBSOLETE);
}

/// Begins to read: waits until no writer changes the node. `None` if the node is no longer part of the tree.
#[inline(always)]
pub(super) fn read(word: &AtomicU64) -> Option<Version> {
    let version = word.load(Ordering::Acquire);
    match version & (LOCKED | OBSOLETE) {
        0 => Some(Version(version)),
        _ => wait(word),
    }
}

#[cold]
fn wait(word: &AtomicU64) -> Option<Version> {
    let mut spins = 0;
    loop {
        let version = word.load(Ordering::Acquire);
        if version & OBSOLETE != 0 {
            return None;
        }
        if version & LOCKED == 0 {
            return Some(Version(version));
        }
        spins += 1;
        match spins < SPINS {
            true => spin_loop(),
            false => yield_now(),
        }
    }
}

/// True if what was read since [`read`] is of that version.
#[inline(always)]
pub(super) fn unchanged(word: &AtomicU64, version: Version) -> bool {
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == version.0
}

/// Begins to change the node. Only the tree's writer calls it.
#[inline]
pub(super) fn lock(word: &AtomicU64) {
    let version = word.load(Ordering::Relaxed);
    debug_assert_eq!(version & (LOCKED | OBSOLETE), 0, "one writer at a time");
    word.store(version | LOCKED, Ordering::Relaxed);
    // No change below is seen without the mark.
    fence(Ordering::Release);
}

/// Ends the change.
#[inline]
pub(super) fn unlock(word: &AtomicU64) {
    let version = word.load(Ordering::Relaxed);
    word.store((version & !LOCKED) + STEP, Ordering::Release);
}

/// Ends the change of a node that is no longer part of the tree.
#[inline]
pub(super) fn unlock_obsolete(word: &AtomicU64) {
    let version = word.load(Ordering::Relaxed);
    word.store(((version & !LOCKED) + STEP) | OBSOLETE, Ordering::Release);
}

/// Takes a node out of the tree although a writer that panicked may have left it locked, so that no reader waits for it.
#[inline]
pub(super) fn abandon(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) | OBSOLETE, Ordering::Release);
}

/// Makes a node that no reader can reach part of the tree again. Its version goes on.
#[inline]
pub(super) fn renew(word: &AtomicU64) {
    let version = word.load(Ordering::Relaxed);
    word.store((version & !(LOCKED | OBSOLETE)) + STEP, Ordering::Release);
}
