//! How long a client waits for its agent.

use std::time::Duration;

/// The time for which an agent may keep its client waiting for a reply.
///
/// Of waiting counts what this side has nothing else to do. A byte ends a silence, and what arrives earns time too, at
/// `BYTES_PER_S_MIN`, so that who sends a byte now and then gains nothing. An agent that scans
/// shows a sign of life every few seconds, see [`crate::service::protocol`]; for what it answers with one reply it is silent for as long as
/// the work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest silence, and what any reply may take in all.
    pub silence: Duration,
    /// What a scan may take beyond that: as long as one of so many rows of the table in a second does. To find a predicate, or
    /// to read a file anew, is given a hundredth of it.
    pub rows_per_s: u32,
}

impl Default for Patience {
    /// A minute, and 1000 rows a second, where scans go through millions.
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(60),
            rows_per_s: 1000,
        }
    }
}

impl Patience {
    /// The time that so many rows may take.
    pub(super) fn work(&self, rows: u64) -> Duration {
        Duration::from_secs(rows) / self.rows_per_s.max(1)
    }
}
