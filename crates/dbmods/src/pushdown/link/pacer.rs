//! A token bucket, which owes nobody more than a burst.

use std::time::{Duration, Instant};

/// How far a sender may run ahead of its pace.
pub const BURST: Duration = Duration::from_micros(200);
/// How much of a sleep's lateness is made up for.
pub const LATE_MAX: Duration = Duration::from_millis(2);
/// Bytes that are sent between two looks at the clock.
pub(super) const PACED_BYTES: usize = 128 << 10;

/// Spreads sending over time.
#[derive(Debug)]
pub(super) struct Pacer {
    pub(super) bits_per_s: u64,
    /// When the link will have carried everything sent so far.
    pub(super) free_at: Instant,
    /// How late sleeps ended, as far as it is not made up for yet.
    pub(super) late: Duration,
}

impl Pacer {
    pub(super) fn new(bits_per_s: u64) -> Self {
        Self {
            bits_per_s,
            free_at: Instant::now(),
            late: Duration::ZERO,
        }
    }

    /// Bytes that may be sent at once.
    pub(super) fn piece(&self, whole: usize) -> usize {
        match self.bits_per_s {
            0 => whole,
            _ => whole.min(PACED_BYTES),
        }
    }

    /// Counts what was sent until `now`.
    pub(super) fn sent(&mut self, bytes: usize, now: Instant) {
        if self.bits_per_s != 0 {
            let earliest = now.checked_sub(BURST + self.late).unwrap_or(now);
            let takes = Duration::from_secs_f64(bytes as f64 * 8.0 / self.bits_per_s as f64);
            self.free_at = self.free_at.max(earliest) + takes;
            self.late = self.late.min(now.saturating_duration_since(self.free_at));
        }
    }

    /// How long until the link will have carried everything sent so far.
    pub(super) fn ahead(&self, now: Instant) -> Duration {
        match self.bits_per_s {
            0 => Duration::ZERO,
            _ => self.free_at.saturating_duration_since(now),
        }
    }

    /// Notes how late a sleep for the pace has ended.
    pub(super) fn woke(&mut self, now: Instant) {
        self.late = now.saturating_duration_since(self.free_at).min(LATE_MAX);
    }
}
