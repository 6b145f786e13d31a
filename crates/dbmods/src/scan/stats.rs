//! What scans count.

/// What a scan did, counted where it was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanStats {
    /// Rows whose answer was found, block by block; a row group that zone maps decide counts with all its rows.
    pub tuples_scanned: u64,
    /// Of these, rows that zone maps decided: no value of theirs was looked at for the predicate.
    pub tuples_skipped: u64,
    /// Rows that qualify.
    pub rows_selected: u64,
    /// Blocks looked at.
    pub blocks_scanned: u64,
    /// Blocks that zone maps excluded, in row groups that were not.
    pub blocks_skipped: u64,
    /// Row groups that zone maps excluded.
    pub groups_skipped: u64,
    /// Bytes of the chunks that were opened, from the cache or the file.
    pub bytes_read: u64,
    /// Whether the scan ended early, by [`super::ScanOptions::stop`] or by the sink.
    pub stopped: bool,
    /// The predicate's parts, in the order in which they were written.
    pub conjuncts: Vec<ConjunctStats>,
}

/// One conjunct of the predicate, as far as it was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConjunctStats {
    /// What it tests.
    pub text: String,
    /// Blocks on which it was timed.
    pub blocks_sampled: u64,
    /// Rows in these blocks.
    pub rows_sampled: u64,
    /// Of them, rows that passed.
    pub rows_passed: u64,
    /// Time spent on them, nanoseconds.
    pub time_ns: u64,
}

impl ScanStats {
    pub(super) fn add(&mut self, other: Self) {
        self.tuples_scanned += other.tuples_scanned;
        self.tuples_skipped += other.tuples_skipped;
        self.rows_selected += other.rows_selected;
        self.blocks_scanned += other.blocks_scanned;
        self.blocks_skipped += other.blocks_skipped;
        self.groups_skipped += other.groups_skipped;
        self.bytes_read += other.bytes_read;
        self.stopped |= other.stopped;
        if self.conjuncts.is_empty() {
            self.conjuncts = other.conjuncts;
        } else {
            for (one, other) in self.conjuncts.iter_mut().zip(other.conjuncts) {
                one.blocks_sampled += other.blocks_sampled;
                one.rows_sampled += other.rows_sampled;
                one.rows_passed += other.rows_passed;
                one.time_ns += other.time_ns;
            }
        }
    }
}
