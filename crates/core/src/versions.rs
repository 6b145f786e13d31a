//! A table that changes while it is read: left-right (Ramalhete and Correia, "Left-Right: A Concurrency Control Technique with Wait-Free
//! Population Oblivious Reads", 2015).
//!
//! There are two tables, a left one and a right one, and a word that says which is live. Readers read the live one. The writer changes the
//! other, moves the word, and later, when the readers of the one that was live have left it, makes the same changes there. So a change
//! is made twice, a reader never meets a half-changed table, and no table is copied for a commit.
//!
//! Each reader has a seat: two locks, each around a reference to one table. Nobody but the
//! writer ever competes for these locks, and it only takes the one of the table that is not live. A reader *tries* the lock of the live
//! one and looks at the word again: if the lock was taken or the word has moved, a commit came in between, and it starts over. It never
//! sleeps, and what it writes lies in a cache line of its own. The writer sleeps at the lock of a reader that has not left.
//!
//! Version zero is read without a lock: a reader keeps a reference of its own until it sees that there was a commit, and the writer changes no table
//! to which a reader has one. Most tables are never changed, and a lock is an instruction that waits for all stores and loads before it: a tenth of the
//! time of a call of 32 lookups of IPv4 (a Xeon of family 6, model 207). A reader that does not enter any more keeps version zero, as a third table. Where
//! that must not be, [`Versions::seated`] has seats from the start. Tables that do change could be read without a lock too, by announcements in plain
//! stores, for which the writer pays with `membarrier(2)` (Desnoyers and others, "User-Level Implementations of Read-Copy Update", 2012). That takes
//! `unsafe` where there is none, and a system call that some kernels refuse.
//!
//! The writer changes a table by [`Arc::get_mut`] alone. A fault in the protocol can therefore make it copy a table, but not change one
//! that is being read; no `unsafe` is needed.
//!
//! The crate `left-right` makes changes when it publishes, when it is too late to refuse them, and starts with two tables even if
//! nothing is ever changed. `arc-swap` allocates when a thread first reads, which is in a job. Either would be a dependency of the seam.

// By its path, since `tests/interleavings.rs` includes this file by its own.
#[cfg(test)]
#[path = "versions/scenarios.rs"]
pub(crate) mod scenarios;

use std::fmt;
use std::mem;
use std::ops::Deref;

use crate::sync::{
    Arc, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, TryLockError, spin_loop,
};

/// A table of which there are versions.
///
/// Two copies that had the same changes must be alike: what they take and refuse next, and what they show to readers.
pub trait Versioned: Clone + Send + Sync + 'static {
    /// A change, which is kept until it was made in both copies.
    type Change: Send;
    /// The reason why a change was refused.
    type Error;
    /// True if a change makes the whole table, whatever it was before: of several changes before a commit the last one alone is kept.
    const REPLACES: bool = false;
    /// Makes a change. Nobody reads the table meanwhile.
    ///
    /// # Errors
    /// If the table cannot take it. It may be left half changed: it is thrown away.
    fn apply(&mut self, change: &Self::Change) -> Result<(), Self::Error>;
}

/// The writer's end of a table with versions. [`crate::Control`] says what it promises.
pub struct Versions<T: Versioned> {
    shared: Arc<Shared<T>>,
    /// Locked before the list of readers is.
    draft: Mutex<Draft<T>>,
}

/// A reader's end: one for each thread that reads, made when its queue is opened.
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
    seat: Arc<Seat<T>>,
    /// Version zero, until it is seen to be over.
    zero: Option<Arc<T>>,
}

/// A version that is being read. The writer may wait for it to be dropped.
pub struct Version<'a, T>(Held<'a, T>);

enum Held<'a, T> {
    /// Version zero, for which nobody waits.
    Zero(&'a T),
    Seated(MutexGuard<'a, Option<Arc<T>>>),
}

/// In place of a side: no commit was made yet.
const ZERO: usize = 2;

struct Shared<T> {
    /// Which table of each seat is live, 0 or 1; or [`ZERO`].
    side: AtomicUsize,
    readers: Mutex<Readers<T>>,
}

struct Readers<T> {
    live: Arc<T>,
    /// Version zero, once it is over and until no reader has it. It is here, and not with the draft, so that no reader is ever the last who has
    /// it: to free a table takes time, and readers are in a job.
    zero: Option<Arc<T>>,
    /// How many commits there were.
    version: u64,
    seats: Vec<Arc<Seat<T>>>,
}

/// A reader's references to both tables. The one to the live table is always there; the other one is from the commit on that made another
/// table live until the writer takes it back. Alone in its cache lines.
#[repr(align(128))]
struct Seat<T>([Mutex<Option<Arc<T>>>; 2]);

/// What becomes the next version.
struct Draft<T: Versioned> {
    /// `None` until it is needed, first or after a refusal or a panic: then it is copied from the live table. Also after the first commit: then
    /// it is [`Readers::zero`], if nobody has that.
    table: Option<Arc<T>>,
    /// What it lacks of the last commit, when it was live itself. Readers may still be in it if there is something.
    missed: Vec<T::Change>,
    /// What it has that is not committed.
    added: Vec<T::Change>,
}

impl<T: Versioned> Versions<T> {
    /// `table` is version zero, which is read without a lock. Others may share it: it is copied before it is changed. A reader keeps it until it
    /// enters after the first commit, or is dropped: until then there are three tables.
    pub fn new(table: Arc<T>) -> Self {
        Self::starting(table, ZERO)
    }

    /// [`Versions::new`] with two tables at most, whatever readers do: version zero is read with a lock, as the others are, and goes as they do. For
    /// tables whose contents must not stay, such as keys.
    pub fn seated(table: Arc<T>) -> Self {
        Self::starting(table, 0)
    }

    fn starting(table: Arc<T>, side: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                side: AtomicUsize::new(side),
                readers: Mutex::new(Readers {
                    live: table,
                    zero: None,
                    version: 0,
                    seats: Vec::new(),
                }),
            }),
            draft: Mutex::new(Draft::default()),
        }
    }

    /// A reader. Allocates.
    pub fn reader(&self) -> Reader<T> {
        let mut readers = lock(&self.shared.readers);
        let seat = Arc::new(Seat([Mutex::new(None), Mutex::new(None)]));
        // It moves under the lock that is held.
        let side = self.shared.side.load(Ordering::Relaxed);
        let zero = (side == ZERO).then(|| readers.live.clone());
        if zero.is_none() {
            *lock(&seat.0[side]) = Some(readers.live.clone());
        }
        readers.seats.push(seat.clone());
        Reader {
            shared: self.shared.clone(),
            seat,
            zero,
        }
    }

    /// Makes a change in the next version. After a commit this waits for the readers of the version before it. The first change copies the
    /// table, so does the first one after a refusal or a panic, and the first one after the first commit if somebody still has version zero. If
    /// [`Versioned::apply`] panics, the changes since the last commit are lost.
    ///
    /// # Errors
    /// If the table refuses it; the next version is then what it was.
    pub fn change(&self, change: T::Change) -> Result<(), T::Error> {
        let mut place = lock(&self.draft);
        // Taken out, so that a panic leaves nothing half changed behind.
        let mut draft = mem::take(&mut *place);
        let mut table = self.up_to_date(&mut draft);
        let result = own(&mut table).apply(&change);
        if result.is_ok() {
            draft.table = Some(table);
            if T::REPLACES {
                draft.added.clear();
            }
            draft.added.push(change);
        }
        *place = draft;
        result
    }

    /// Makes the changes since the last commit visible: readers that enter after it has returned see them. Does not wait for readers. Gives
    /// the number of commits, of which one without changes is none.
    pub fn commit(&self) -> u64 {
        let mut draft = lock(&self.draft);
        if draft.added.is_empty() {
            return lock(&self.shared.readers).version;
        }
        let table = self.up_to_date(&mut draft);
        let mut readers = lock(&self.shared.readers);
        let before = self.shared.side.load(Ordering::Relaxed);
        let side = if before == ZERO { 0 } else { 1 - before };
        for seat in &readers.seats {
            *lock(&seat.0[side]) = Some(table.clone());
        }
        self.shared.side.store(side, Ordering::Release);
        let old = Some(mem::replace(&mut readers.live, table));
        match before {
            ZERO => readers.zero = old,
            _ => draft.table = old,
        }
        draft.missed = mem::take(&mut draft.added);
        readers.version += 1;
        readers.version
    }

    /// The draft's table with all that was committed and added, in nobody else's hands.
    fn up_to_date(&self, draft: &mut Draft<T>) -> Arc<T> {
        let missed = mem::take(&mut draft.missed);
        if !missed.is_empty() {
            self.reclaim();
        }
        // Nobody gets a reference to it any more: what is alone stays alone.
        let zero = lock(&self.shared.readers)
            .zero
            .take_if(|zero| Arc::get_mut(zero).is_some());
        // It is of use if it lacks the first commit's changes alone. Later it goes.
        let table = match draft.table.take() {
            None if !missed.is_empty() => zero,
            table => table,
        };
        if let Some(mut table) = table
            && let Some(own) = Arc::get_mut(&mut table)
        {
            make(own, &missed);
            return table;
        }
        let live = lock(&self.shared.readers).live.clone();
        let mut table = T::clone(&live);
        make(&mut table, &draft.added);
        Arc::new(table)
    }

    /// Takes the readers' references to the table that is not live: waits for those that are still in it. None comes after them.
    fn reclaim(&self) {
        let seats = lock(&self.shared.readers).seats.clone();
        let side = 1 - self.shared.side.load(Ordering::Relaxed);
        for seat in &seats {
            *lock(&seat.0[side]) = None;
        }
    }
}

impl<T> Reader<T> {
    /// The live version, for as long as it is held. Neither waits nor allocates nor frees a table; starts over if a commit comes in between.
    #[inline]
    pub fn enter(&mut self) -> Version<'_, T> {
        if self.zero.is_some() {
            if self.shared.side.load(Ordering::Acquire) != ZERO {
                self.leave_zero();
            } else if let Some(zero) = &self.zero {
                return Version(Held::Zero(zero));
            }
        }
        loop {
            let side = self.shared.side.load(Ordering::Acquire);
            if let Some(table) = try_lock(&self.seat.0[side])
                && self.shared.side.load(Ordering::Acquire) == side
                && table.is_some()
            {
                return Version(Held::Seated(table));
            }
            spin_loop();
        }
    }

    /// Version zero is over. The writer's end has it too, or whoever shares it.
    #[cold]
    fn leave_zero(&mut self) {
        self.zero = None;
    }
}

impl<T> Drop for Reader<T> {
    /// The seat and its references go under one lock: a writer that no longer finds the seat must find the table its own.
    fn drop(&mut self) {
        let mut readers = lock(&self.shared.readers);
        readers.seats.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        for table in &self.seat.0 {
            *lock(table) = None;
        }
    }
}

impl<T> Deref for Version<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Held::Zero(table) => table,
            Held::Seated(table) => table.as_deref().expect("looked at when it was entered"),
        }
    }
}

impl<T: Versioned> Default for Draft<T> {
    fn default() -> Self {
        Self {
            table: None,
            missed: Vec::new(),
            added: Vec::new(),
        }
    }
}

/// The inside of a table that nobody else has.
fn own<T>(table: &mut Arc<T>) -> &mut T {
    Arc::get_mut(table).expect("nobody else has it")
}

/// Makes changes that were taken before, by a table that was alike.
fn make<T: Versioned>(table: &mut T, changes: &[T::Change]) {
    for change in changes {
        assert!(table.apply(change).is_ok(), "a copy refuses what was taken");
    }
}

/// A lock that means nothing more after a panic than before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<T: Versioned> fmt::Debug for Versions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readers = lock(&self.shared.readers);
        f.debug_struct("Versions")
            .field("version", &readers.version)
            .field("readers", &readers.seats.len())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Version<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Version").field(&**self).finish()
    }
}
