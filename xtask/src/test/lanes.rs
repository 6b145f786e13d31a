//! Pieces of work beside each other: many keep one core busy, or wait.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// So many at a time. Most test programs have threads of their own besides.
const LANES: usize = 2;

/// What `run` makes of each piece, in the order of `pieces`. A lane that is free takes the next one, so the longest come first.
pub(super) fn side_by_side<T: Send, R: Send>(
    pieces: Vec<T>,
    run: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let queue = Mutex::new(pieces.into_iter().enumerate());
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = || {
        let mut done = Vec::new();
        while let Some((number, piece)) = take() {
            done.push((number, run(piece)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let ends = lanes.into_iter().map(|lane| lane.join());
        let done = ends.map(|end| end.unwrap_or_else(|why| std::panic::resume_unwind(why)));
        done.flatten().collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn two_run_at_a_time_and_results_keep_their_order() {
        // Returns only if another piece runs meanwhile.
        let both = Barrier::new(2);
        let twice = |number: u32| {
            both.wait();
            2 * number
        };
        assert_eq!(side_by_side(vec![3, 1, 2, 5], twice), [6, 2, 4, 10]);
        assert!(side_by_side(Vec::new(), twice).is_empty());
    }
}
