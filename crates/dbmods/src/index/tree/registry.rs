//! Who reads which state, so that the writer knows what nobody reads any more.
//!
//! A state of the tree is named by the position in the log of versions behind its last transaction; [`Registry::committed`] is the newest.
//! A reader writes the state it reads to its seat. Memory that left the tree may be used again once all states that readers announce are newer.
//! So one registry serves the snapshots and, as epochs do (Fraser, "Practical lock-freedom", 2004), the nodes. With crossbeam-epoch beside it,
//! a read would pay two fences for what one of them tells.
//!
//! Reader and writer may miss each other: a reader takes the newest state, is held up, and announces it after the writer has looked. So the
//! writer first says how far it will look ([`Registry::oldest`] raises `horizon`), and a reader that announces a state looks
//! whether the horizon has passed it. Sequentially consistent fences on both sides let at least one see the other (Dekker).

use super::sync::{AtomicU64, Ordering, fence};

/// A seat that nobody has.
const FREE: u64 = 0;
/// A seat whose session reads nothing.
const IDLE: u64 = u64::MAX;
/// The first state: an empty tree.
pub(super) const FIRST: u64 = 1;

/// A word with cache lines of its own: two, as cores fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// The sessions of a tree, and what they read.
#[derive(Debug)]
pub(super) struct Registry {
    committed: Apart,
    horizon: Apart,
    /// Seats from here on were never claimed.
    claimed: AtomicU64,
    seats: Box<[Apart]>,
}

/// The number of a seat, which its session alone has.
#[derive(Debug)]
pub(super) struct Seat(usize);

impl Registry {
    pub(super) fn new(sessions: usize) -> Self {
        Self {
            committed: Apart(AtomicU64::new(FIRST)),
            horizon: Apart(AtomicU64::new(FIRST)),
            claimed: AtomicU64::new(0),
            seats: (0..sessions).map(|_| Apart(AtomicU64::new(FREE))).collect(),
        }
    }

    /// Sessions that there may be.
    pub(super) fn sessions_max(&self) -> usize {
        self.seats.len()
    }

    /// A seat for a new session, if one is free.
    pub(super) fn claim(&self) -> Option<Seat> {
        for (number, seat) in self.seats.iter().enumerate() {
            let claimed =
                (seat.0).compare_exchange(FREE, IDLE, Ordering::AcqRel, Ordering::Relaxed);
            if claimed.is_ok() {
                // Before the first state is announced there, as that store is behind a fence.
                self.claimed.fetch_max(number as u64 + 1, Ordering::AcqRel);
                return Some(Seat(number));
            }
        }
        None
    }

    /// Sessions that are open, and the oldest state that one of them announces now, or the newest state.
    pub(super) fn sessions(&self) -> (u64, u64) {
        let newest = self.committed();
        let states = self.seats.iter().map(|seat| seat.0.load(Ordering::Acquire));
        let open = states.filter(|state| *state != FREE);
        open.fold((0, newest), |(count, oldest), state| {
            (count + 1, oldest.min(state))
        })
    }

    /// Gives a seat back.
    pub(super) fn leave(&self, seat: &Seat) {
        self.seats[seat.0].0.store(FREE, Ordering::Release);
    }

    /// Announces that the session reads the newest state, and says which that is.
    #[inline]
    pub(super) fn enter(&self, seat: &Seat) -> u64 {
        let word = &self.seats[seat.0].0;
        loop {
            let state = self.committed.0.load(Ordering::Acquire);
            word.store(state, Ordering::Release);
            fence(Ordering::SeqCst);
            // The writer looks no further than the newest state, so a second try nearly always does.
            if self.horizon.0.load(Ordering::Acquire) <= state {
                return state;
            }
        }
    }

    /// Ends what [`Registry::enter`] began.
    #[inline]
    pub(super) fn exit(&self, seat: &Seat) {
        self.seats[seat.0].0.store(IDLE, Ordering::Release);
    }

    /// The newest state.
    #[inline]
    pub(super) fn committed(&self) -> u64 {
        self.committed.0.load(Ordering::Acquire)
    }

    /// Makes `state` the newest. Only the writer calls it.
    #[inline]
    pub(super) fn commit(&self, state: u64) {
        self.committed.0.store(state, Ordering::Release);
    }

    /// A state that is no newer than any that is read now or will be. Only the writer calls it.
    pub(super) fn oldest(&self) -> u64 {
        let newest = self.committed.0.load(Ordering::Relaxed);
        self.horizon.0.store(newest, Ordering::Release);
        fence(Ordering::SeqCst);
        let claimed = self.claimed.load(Ordering::Acquire) as usize;
        let mut oldest = newest;
        for seat in &self.seats[..claimed] {
            let state = seat.0.load(Ordering::Acquire);
            if state != FREE {
                oldest = oldest.min(state);
            }
        }
        oldest
    }
}
