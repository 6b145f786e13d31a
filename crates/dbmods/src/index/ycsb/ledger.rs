//! What a read may return while threads write: a register's linearizability, as far as it can be known without stopping anybody.
//!
//! A thread begins a write, writes its version, and ends the write; it begins a read, reads, and ends the read with the version that it found.
//!
//! # The rule
//!
//! Version `v` is a wrong answer to a read
//!
//! * if `v` had not begun when the read ended, or
//! * if some write began after all versions up to `v` had ended, and ended before the read began.
//!
//! Versions of a record are numbered in the order in which they begin: 1 is the insert, [`ABSENT`] is that there is no record. A read that this
//! rule refuses is one that no order of the operations explains, so there are no false alarms.
//!
//! # What is not seen
//!
//! * Two writes that overlap may take effect in either order, and different readers may be shown different ones: each is right here.
//! * Two reads are not compared: that one goes back behind an earlier one is seen only if a write that ended separates them.
//! * A version that ended is still a right answer while an earlier one of the same record goes on, even if a write follows it. So a write that is never
//!   ended, because its outcome is unknown, makes the ledger see less of this record from then on.
//! * Only the 23 versions after the oldest one that goes on are told apart. Where later ones end before it, the record is exact again once all its
//!   writes have ended, or never if 255 or more did.
//!
//! Where writes of a record do not overlap, each stale version is found.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// The version of a record that is not there.
pub const ABSENT: u64 = 0;
/// The version of a record that was loaded, and of an insert.
pub const LOADED: u64 = 1;

/// Versions of one record, at most. Threads may overshoot by one each, so there is room above.
const VERSIONS_MAX: u32 = u32::MAX - (1 << 20);

/// What each record of an index may be read as, shared by threads. A record takes 16 bytes.
#[derive(Debug)]
pub struct Ledger {
    records: Vec<Record>,
}

/// A write that goes on. If its outcome is unknown, it is dropped and never ended.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a write is ended, unless its outcome is unknown"]
pub struct Write {
    /// The record.
    pub record: u64,
    /// The version to write.
    pub version: u64,
    /// The smallest version that a read which begins after this write ended may return.
    floor_after: u32,
}

impl Write {
    /// The smallest version that may be read after this write ended.
    pub fn floor_after(&self) -> u64 {
        self.floor_after.into()
    }
}

/// The smallest version that a read may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a read is judged by the floor that it began with"]
pub struct Floor(u32);

impl Floor {
    /// The floor of a read that did not know its record when it began, such as a row of a scan: no version is stale. Versions from nowhere are found.
    pub const NONE: Self = Self(0);
}

/// Why a read was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongRead {
    /// The version had been replaced before the read began.
    #[error(
        "record {record}: a read found version {found}, and version {floor} or a later one was there before the read began (0 is no record)"
    )]
    Stale {
        /// The record.
        record: u64,
        /// The version that was found.
        found: u64,
        /// The oldest version that would have been right.
        floor: u64,
    },
    /// Nobody had begun to write the version.
    #[error(
        "record {record}: a read found version {found}, and {begun} versions had begun when it ended"
    )]
    FromNowhere {
        /// The record.
        record: u64,
        /// The version that was found.
        found: u64,
        /// The newest version that had begun.
        begun: u64,
    },
}

/// A record was written so often that its versions have no more numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "record {record} was written {VERSIONS_MAX} times, and the ledger counts no further; run for a shorter time, or with more records"
)]
pub struct TooManyWrites {
    /// The record.
    pub record: u64,
}

impl Ledger {
    /// For records `0..capacity`, of which the first `loaded` are there with version [`LOADED`].
    pub fn new(loaded: u64, capacity: u64) -> Self {
        let record = |record| Record::new(u32::from(record < loaded));
        Self {
            records: (0..capacity.max(loaded)).map(record).collect(),
        }
    }

    /// Records that there is room for.
    pub fn capacity(&self) -> u64 {
        self.records.len() as u64
    }

    /// Begins to write a record: it is given its next version. The first version of a record that was not loaded is its insert.
    ///
    /// # Errors
    ///
    /// [`TooManyWrites`] after some 4 · 10^9 writes of one record.
    ///
    /// # Panics
    ///
    /// If there is no room for the record, as all calls do.
    #[inline]
    pub fn begin_write(&self, record: u64) -> Result<Write, TooManyWrites> {
        let begun = self.records[record as usize].begin_write();
        let (version, floor_after) = begun.ok_or(TooManyWrites { record })?;
        Ok(Write {
            record,
            version: version.into(),
            floor_after,
        })
    }

    /// Ends a write after it returned: from now on, the versions that it replaced are stale.
    #[inline]
    pub fn end_write(&self, write: Write) {
        let record = &self.records[write.record as usize];
        record.end_write(write.version as u32, write.floor_after);
    }

    /// Begins to read a record.
    #[inline]
    pub fn begin_read(&self, record: u64) -> Floor {
        self.records[record as usize].begin_read()
    }

    /// Ends a read of a record that found `version`, or [`ABSENT`].
    ///
    /// # Errors
    ///
    /// [`WrongRead`] if no order of reads and writes explains it.
    #[inline]
    pub fn end_read(&self, record: u64, floor: Floor, version: u64) -> Result<(), WrongRead> {
        let begun = self.records[record as usize].begun();
        if version > begun.into() {
            return Err(WrongRead::FromNowhere {
                record,
                found: version,
                begun: begun.into(),
            });
        }
        if version < floor.0.into() {
            return Err(WrongRead::Stale {
                record,
                found: version,
                floor: floor.0.into(),
            });
        }
        Ok(())
    }
}

/// Bytes of a record.
#[cfg(test)]
pub(super) const RECORD_BYTES: usize = size_of::<Record>();

/// What is known of a record.
#[derive(Debug)]
struct Record {
    /// Versions that began.
    begun: AtomicU32,
    /// The smallest version that may be read.
    floor: AtomicU32,
    /// Which versions ended: [`Ended`].
    ended: AtomicU64,
}

impl Record {
    /// With so many versions that began and ended.
    fn new(versions: u32) -> Self {
        Self {
            begun: AtomicU32::new(versions),
            floor: AtomicU32::new(versions),
            ended: AtomicU64::new(Ended::all(versions).0),
        }
    }

    /// A version, and the floor after it.
    #[inline]
    fn begin_write(&self) -> Option<(u32, u32)> {
        if self.begun.load(Ordering::Relaxed) >= VERSIONS_MAX {
            return None;
        }
        // Acquire and release: whoever sees this version in the index or as ended also sees it begun.
        let version = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        // The write itself is after this look, so all that ended here ended before it. It has not ended, so the prefix is below it.
        let ended = Ended(self.ended.load(Ordering::Acquire));
        Some((version, ended.prefix() + 1))
    }

    #[inline]
    fn end_write(&self, version: u32, floor_after: u32) {
        let mut ended = Ended(self.ended.load(Ordering::Acquire));
        loop {
            // After the look at the versions that ended, so that none of those is missing among the ones that began.
            let begun = self.begun.load(Ordering::Acquire);
            let with = ended.with(version, begun);
            match (self.ended).compare_exchange_weak(
                ended.0,
                with.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(other) => ended = Ended(other),
            }
        }
        if self.floor.load(Ordering::Relaxed) < floor_after {
            self.floor.fetch_max(floor_after, Ordering::AcqRel);
        }
    }

    #[inline]
    fn begin_read(&self) -> Floor {
        Floor(self.floor.load(Ordering::Acquire))
    }

    #[inline]
    fn begun(&self) -> u32 {
        self.begun.load(Ordering::Acquire)
    }
}

/// The versions of a record that ended, in a word: 32 bits for the last of those that ended without a gap (the prefix), 24 bits for those after the first
/// gap, and 8 bits for the number of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ended(u64);

impl Ended {
    /// Versions after the prefix that have a bit.
    const BITS: u32 = 24;
    const OTHERS_MAX: u64 = u8::MAX as u64;

    /// All versions up to this one.
    fn all(versions: u32) -> Self {
        Self::new(versions, 0, 0)
    }

    fn new(prefix: u32, bits: u32, others: u64) -> Self {
        Self(u64::from(prefix) << 32 | u64::from(bits) << 8 | others)
    }

    #[inline]
    fn prefix(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn bits(self) -> u32 {
        (self.0 >> 8) as u32 & ((1 << Self::BITS) - 1)
    }

    #[inline]
    fn others(self) -> u64 {
        self.0 & Self::OTHERS_MAX
    }

    /// And this version, when `begun` versions have begun or more.
    #[inline]
    fn with(self, version: u32, begun: u32) -> Self {
        let (prefix, bits) = (self.prefix(), self.bits());
        let after = version - prefix - 1;
        let (bits, others) = match after < Self::BITS {
            true => (bits | 1 << after, self.others()),
            false => (bits, (self.others() + 1).min(Self::OTHERS_MAX)),
        };
        // The number of those that ended is that of those that began: there is no gap. It is not known where others were not counted.
        let number = u64::from(prefix) + u64::from(bits.count_ones()) + others;
        if others > 0 && others < Self::OTHERS_MAX && number == u64::from(begun) {
            return Self::all(begun);
        }
        let more = bits.trailing_ones();
        Self::new(prefix + more, bits >> more, others)
    }
}
