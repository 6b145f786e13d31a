//! Predicate pushdown: the file crosses the link and is filtered here, or the storage filters and the rows that qualify cross. Nothing is fitted: a
//! scan and a link that work at once take between the longer one and their sum, and these two are the bounds.

use super::interval::Estimate;

/// Known figures of a table, a link and both filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tables {
    /// N: rows of the table.
    pub rows: f64,
    /// F: bytes of the file that a fetch moves.
    pub file_bytes: f64,
    /// r: bytes of a row that is sent.
    pub row_bytes: f64,
    /// W: bytes that the link carries in a second.
    pub link_bytes_per_s: f64,
    /// Rows that the storage filters in a second.
    pub scan_rows_per_s: f64,
    /// Rows that are filtered here in a second.
    pub filter_rows_per_s: f64,
}

impl Tables {
    /// Refuses what is no table.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), String> {
        let parts = [
            ("rows", self.rows),
            ("bytes of the file", self.file_bytes),
            ("bytes of a row", self.row_bytes),
            ("the link's rate", self.link_bytes_per_s),
            ("the scan's rate", self.scan_rows_per_s),
            ("the filter's rate", self.filter_rows_per_s),
        ];
        match parts
            .into_iter()
            .find(|(_, value)| !value.is_finite() || *value <= 0.0)
        {
            Some((name, value)) => Err(format!("{name}: {value}")),
            None => Ok(()),
        }
    }

    /// Seconds of the fetch: from the longer one of transfer and filter, if they overlap, to their sum.
    pub fn fetch_s(&self) -> Estimate {
        bounds(
            self.file_bytes / self.link_bytes_per_s,
            self.rows / self.filter_rows_per_s,
        )
    }

    /// Seconds of the scan at the storage, for this share of rows.
    pub fn push_s(&self, selectivity: f64) -> Estimate {
        let sent = selectivity * self.rows * self.row_bytes / self.link_bytes_per_s;
        bounds(self.rows / self.scan_rows_per_s, sent)
    }
}

/// Two things that may be done at once: the middle of the bounds, and these.
fn bounds(one: f64, other: f64) -> Estimate {
    let (low, high) = (one.max(other), one + other);
    Estimate {
        value: (low * high).sqrt(),
        low,
        high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Tables = Tables {
        rows: 6e6,
        file_bytes: 200e6,
        row_bytes: 100.0,
        link_bytes_per_s: 125e6,
        scan_rows_per_s: 60e6,
        filter_rows_per_s: 30e6,
    };

    #[test]
    fn bounds_are_the_longer_part_and_the_sum() {
        let fetch = TABLE.fetch_s();
        assert!((fetch.low - 1.6).abs() < 1e-12 && (fetch.high - 1.8).abs() < 1e-12);
        let push = TABLE.push_s(0.01);
        // 0.1 s of scan, 6 MB in 0.048 s.
        assert!((push.low - 0.1).abs() < 1e-12 && (push.high - 0.148).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let wrong = Tables {
            link_bytes_per_s: 0.0,
            ..TABLE
        };
        assert!(wrong.check().is_err() && TABLE.check().is_ok());
    }
}
