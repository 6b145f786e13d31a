//! Shards that write while another thread reads. `tests/interleavings.rs` compiles this file with loom's primitives and tries every order.

use super::super::sync::{Arc, JOBS, PoisonError, SHARDS, explore, spawn, yield_now};
use super::{Ledger, Page};

/// Packets offered, those that found a flow, and those that found none.
type Counted = [u64; 3];

/// A mistake that is planted, so that it is seen to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// Writes before a job is counted as a whole.
    HalfAJob,
    /// Ends without writing what it could not write before.
    Forgets,
}

impl Page<Counted> {
    /// As if what is written were all there is.
    fn forget(&mut self) {
        self.now = *self.page.lock().unwrap_or_else(PoisonError::into_inner);
    }
}

fn sum(ledger: &Ledger<Counted>) -> Counted {
    let mut sum = [0; 3];
    ledger.each(|page| {
        // So that a shard may come upon a page that is just being read.
        yield_now();
        for (sum, part) in sum.iter_mut().zip(page) {
            *sum += part;
        }
    });
    sum
}

/// What is read adds up at every time, never goes back, and in the end is all there was.
pub(crate) fn what_is_read_adds_up(mistake: Mistake) {
    let ledger = Arc::new(Ledger::<Counted>::new());
    let shards: Vec<_> = (0..SHARDS)
        .map(|_| {
            let mut page = ledger.open();
            spawn(move || {
                let mut counted = [0; 3];
                for _ in 0..JOBS {
                    counted[0] += 3;
                    if mistake == Mistake::HalfAJob {
                        page.write(counted);
                    }
                    counted[1] += 2;
                    counted[2] += 1;
                    page.write(counted);
                }
                if mistake == Mistake::Forgets {
                    page.forget();
                }
            })
        })
        .collect();
    let mut before = 0;
    for _ in 0..2 {
        let [offered, found, missed] = sum(&ledger);
        assert_eq!(offered, found + missed, "half a job");
        assert!(offered >= before, "went back");
        before = offered;
    }
    for shard in shards {
        shard.join().expect("no panic");
    }
    let jobs = SHARDS * JOBS;
    assert_eq!(
        sum(&ledger),
        [3, 2, 1].map(|each| each * jobs),
        "at the end"
    );
}

#[test]
fn shards_write_while_another_thread_reads() {
    explore(|| what_is_read_adds_up(Mistake::None));
}
