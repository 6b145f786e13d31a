//! The count of records while threads insert some.

use super::key::RECORDS_MAX;
use super::spec::SpecError;
use super::sync::{AtomicU64, Ordering};

/// Bits of a word.
const BITS: u64 = 64;

/// The records that are there, shared by threads: YCSB's `AcknowledgedCounterGenerator`.
///
/// An insert takes the next number, writes, and then acknowledges the number. A record may be drawn once all before it are acknowledged. Nothing
/// waits. YCSB keeps a window of 2^20 numbers; this keeps a bit for each insert that there is room for.
#[derive(Debug)]
pub struct Inserted {
    records: u64,
    capacity: u64,
    next: AtomicU64,
    acknowledged: AtomicU64,
    /// A bit for each insert: set when it is acknowledged.
    done: Vec<AtomicU64>,
}

impl Inserted {
    /// With `records` records that were loaded, and room for `capacity` records in all.
    ///
    /// # Errors
    ///
    /// [`SpecError::TooManyRecords`] if the room is for more than [`RECORDS_MAX`], [`SpecError::NoRecords`] if none were loaded.
    pub fn new(records: u64, capacity: u64) -> Result<Self, SpecError> {
        let capacity = capacity.max(records);
        if records == 0 {
            return Err(SpecError::NoRecords);
        }
        if capacity > RECORDS_MAX {
            return Err(SpecError::TooManyRecords { records: capacity });
        }
        let words = (capacity - records).div_ceil(BITS);
        Ok(Self {
            records,
            capacity,
            next: AtomicU64::new(records),
            acknowledged: AtomicU64::new(records),
            done: (0..words).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Records that were loaded.
    pub fn loaded(&self) -> u64 {
        self.records
    }

    /// Records that may be drawn: the numbers below this are all loaded or acknowledged. Whoever sees a number here sees what its thread did before
    /// it acknowledged.
    #[inline]
    pub fn records(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// The number of the next record. It is the caller's to insert and acknowledge, or later records are never drawn.
    ///
    /// # Errors
    ///
    /// [`Full`] when there is no room for another.
    pub fn take(&self) -> Result<u64, Full> {
        let more = |next| (next < self.capacity).then_some(next + 1);
        (self.next)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Full {
                capacity: self.capacity,
            })
    }

    /// Says that the insert of a number that [`Inserted::take`] gave has ended.
    ///
    /// # Panics
    ///
    /// If the number was not taken.
    pub fn acknowledge(&self, record: u64) {
        assert!(
            (self.records..self.next.load(Ordering::Relaxed)).contains(&record),
            "record {record} was not taken, so it cannot be acknowledged"
        );
        let insert = record - self.records;
        let bit = 1 << (insert % BITS);
        // Sequentially consistent, as is the look at the next word below: of two threads that acknowledge neighbours, one sees both.
        self.done[(insert / BITS) as usize].fetch_or(bit, Ordering::SeqCst);
        self.advance();
    }

    /// Moves the count over what is acknowledged without a gap.
    fn advance(&self) {
        let mut acknowledged = self.acknowledged.load(Ordering::SeqCst);
        loop {
            let insert = acknowledged - self.records;
            let Some(word) = self.done.get((insert / BITS) as usize) else {
                return;
            };
            let bits = word.load(Ordering::SeqCst) >> (insert % BITS);
            let more = u64::from(bits.trailing_ones());
            if more == 0 {
                return;
            }
            let moved = acknowledged + more;
            match (self.acknowledged).compare_exchange(
                acknowledged,
                moved,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => acknowledged = moved,
                Err(further) => acknowledged = further,
            }
        }
    }
}

/// There is no room for another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {capacity} records that there is room for are inserted; run for a shorter time, or make more room"
)]
pub struct Full {
    /// Records that there is room for.
    pub capacity: u64,
}
