//! Standstills: no partition has anything to do before it is promised more, and nothing is under way between them.
//!
//! Promises alone would get the partitions over a pause, in steps of the lookahead: a retransmission timer of 200 ms is 200 000 steps of a microsecond. But the earliest
//! of all events that wait is known then, and nothing arrives anywhere before it and the least lookahead have passed (deadlock detection and recovery: Chandy and Misra,
//! CACM 24(4), 1981).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The words of the partitions of a run that wait.
pub(super) struct Standstill {
    /// The least lookahead of all links.
    lookahead_ps: u64,
    /// Nothing that is not there yet arrives before this time.
    floor_ps: AtomicU64,
    /// By partition: those that wait.
    waiting: Mutex<Vec<Option<Waiting>>>,
}

/// The state of a partition that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The time of its next event.
    pub(super) next_ps: u64,
    /// The number of batches of messages that it handed over.
    pub(super) sent: u64,
    /// The number of batches that it took.
    pub(super) taken: u64,
}

impl Standstill {
    pub(super) fn new(partitions: usize, lookahead_ps: u64) -> Self {
        Self {
            lookahead_ps,
            floor_ps: AtomicU64::new(0),
            waiting: Mutex::new(vec![None; partitions]),
        }
    }

    /// A partition waits. It says so before it goes on ([`Standstill::go_on`]), and again while it waits.
    pub(super) fn wait(&self, partition: usize, state: Waiting) {
        let mut waiting = self.waiting();
        waiting[partition] = Some(state);
        let Some(states) = waiting.iter().copied().collect::<Option<Vec<_>>>() else {
            return;
        };
        let sent: u64 = states.iter().map(|it| it.sent).sum();
        let taken: u64 = states.iter().map(|it| it.taken).sum();
        if sent != taken {
            return;
        }
        let next_ps = states.iter().map(|it| it.next_ps).min();
        let floor_ps = next_ps.map_or(0, |it| it.saturating_add(self.lookahead_ps));
        self.floor_ps.fetch_max(floor_ps, Ordering::Relaxed);
        // What they said is old now: some have something to do.
        waiting.fill(None);
    }

    /// A partition that has waited is about to handle events.
    pub(super) fn go_on(&self, partition: usize) {
        self.waiting()[partition] = None;
    }

    /// The time before which nothing arrives that is not there yet.
    pub(super) fn floor_ps(&self) -> u64 {
        self.floor_ps.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Option<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(next_ps: u64, sent: u64, taken: u64) -> Waiting {
        Waiting {
            next_ps,
            sent,
            taken,
        }
    }

    #[test]
    fn all_wait_and_nothing_is_under_way() {
        let standstill = Standstill::new(2, 10);
        standstill.wait(0, state(500, 3, 1));
        assert_eq!(standstill.floor_ps(), 0, "the other runs");
        standstill.wait(1, state(400, 1, 2));
        assert_eq!(standstill.floor_ps(), 0, "a batch is under way");
        standstill.go_on(1);
        standstill.wait(0, state(500, 3, 1));
        assert_eq!(standstill.floor_ps(), 0, "the other runs again");
        standstill.wait(1, state(450, 1, 3));
        assert_eq!(standstill.floor_ps(), 460);
        standstill.wait(0, state(500, 3, 1));
        assert_eq!(standstill.floor_ps(), 460, "all have to say it again");
        standstill.wait(1, state(u64::MAX, 1, 3));
        assert_eq!(standstill.floor_ps(), 510);
    }
}
