//! The rows that a scan may still give, of a query with a limit: one count for all threads that work at it.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;

/// Rows that are left.
#[derive(Debug)]
pub(crate) struct Quota(AtomicU64);

impl Quota {
    /// So many rows; `None` for any number.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self(AtomicU64::new(limit.unwrap_or(u64::MAX)))
    }

    /// Takes up to `rows`; says how many.
    pub(crate) fn take(&self, rows: u64) -> u64 {
        let left = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(rows))
            });
        left.unwrap_or_else(|left| left).min(rows)
    }

    /// As many of a batch's rows as there is room for; `None` if there is none.
    pub(crate) fn cut(&self, batch: RecordBatch) -> Option<RecordBatch> {
        let rows = batch.num_rows();
        match self.take(rows as u64) as usize {
            0 => None,
            taken if taken == rows => Some(batch),
            taken => Some(batch.slice(0, taken)),
        }
    }

    /// True if no row is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_no_more_rows_together_than_there_are() {
        let quota = Quota::new(Some(10_000));
        let taken: u64 = std::thread::scope(|scope| {
            let takers = [(); 4].map(|()| {
                scope.spawn(|| {
                    (1..)
                        .map_while(|rows| Some(quota.take(rows)).filter(|&n| n > 0))
                        .sum::<u64>()
                })
            });
            takers.map(|taker| taker.join().unwrap()).into_iter().sum()
        });
        assert_eq!((taken, quota.is_spent()), (10_000, true));
        let endless = Quota::new(None);
        assert_eq!((endless.take(7), endless.is_spent()), (7, false));
        assert!(Quota::new(Some(0)).is_spent());
    }
}
