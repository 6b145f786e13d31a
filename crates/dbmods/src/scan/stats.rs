//! What scans count.

/// The counts of a scan, made where the work was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanStats {
    /// Rows whose answer was found, block by block; a row group that zone maps decide counts with all its rows.
    pub tuples_scanned: u64,
    /// The part of these rows that zone maps decided: no value of theirs was looked at for the predicate.
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
    /// True if the scan ended early, by [`super::ScanOptions::stop`] or by the sink.
    pub stopped: bool,
    /// The predicate's parts, in the order in which they were written.
    pub conjuncts: Vec<ConjunctStats>,
}

/// One conjunct of the predicate, as far as it was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConjunctStats {
    /// The test, as text.
    pub text: String,
    /// Blocks on which it was timed.
    pub blocks_sampled: u64,
    /// Rows in these blocks.
    pub rows_sampled: u64,
    /// The part of these rows that passed.
    pub rows_passed: u64,
    /// Time spent on them, nanoseconds.
    pub time_ns: u64,
}

impl ScanStats {
    /// What came of the predicate's parts, one line each, and of the zone maps.
    pub fn in_words(&self) -> String {
        let lines = self.conjuncts.iter().map(|part| {
            let rows = part.rows_sampled.max(1) as f64;
            format!(
                "{}: {:.4} of {} sampled rows pass, {:.3} ns a row",
                part.text,
                part.rows_passed as f64 / rows,
                part.rows_sampled,
                part.time_ns as f64 / rows
            )
        });
        let zones = format!(
            "zone maps decided {} of {} rows ({} row groups, {} more blocks left out)",
            self.tuples_skipped, self.tuples_scanned, self.groups_skipped, self.blocks_skipped
        );
        lines.chain([zones]).collect::<Vec<_>>().join("\n")
    }

    /// All numbers, in the order in which they are written.
    pub(super) fn numbers_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let conjuncts = self.conjuncts.iter_mut().flat_map(|one| {
            [
                &mut one.blocks_sampled,
                &mut one.rows_sampled,
                &mut one.rows_passed,
                &mut one.time_ns,
            ]
        });
        [
            &mut self.tuples_scanned,
            &mut self.tuples_skipped,
            &mut self.rows_selected,
            &mut self.blocks_scanned,
            &mut self.blocks_skipped,
            &mut self.groups_skipped,
            &mut self.bytes_read,
        ]
        .into_iter()
        .chain(conjuncts)
    }

    /// Adds what another has counted of the same predicate.
    pub(super) fn add(&mut self, mut other: Self) {
        self.stopped |= other.stopped;
        for (number, other) in self.numbers_mut().zip(other.numbers_mut()) {
            *number = number.saturating_add(*other);
        }
    }
}
