//! A token bucket, which owes nobody more than a burst. Times are nanoseconds of the caller's clock.

use std::time::Duration;

/// The time by which a sender may run ahead of its pace.
pub(crate) const BURST: Duration = Duration::from_micros(200);
/// The part of a sleep's lateness that is made up for, at most.
pub(crate) const LATE_MAX: Duration = Duration::from_millis(2);
/// Bytes that are sent between two looks at the clock.
pub(super) const PACED_BYTES: usize = 128 << 10;

/// Spreads sending over time.
#[derive(Debug)]
pub(super) struct Pacer {
    pub(super) bits_per_s: u64,
    /// When the link will have carried everything sent so far.
    free_at_ns: u64,
    /// The lateness of sleeps, as far as it is not made up for yet.
    late_ns: u64,
}

impl Pacer {
    /// A link that is free from `now_ns` on.
    pub(super) fn new(bits_per_s: u64, now_ns: u64) -> Self {
        Self {
            bits_per_s,
            free_at_ns: now_ns,
            late_ns: 0,
        }
    }

    /// Bytes that may be sent at once.
    pub(super) fn piece(&self, whole: usize) -> usize {
        match self.bits_per_s {
            0 => whole,
            _ => whole.min(PACED_BYTES),
        }
    }

    /// Counts what was sent until `now_ns`.
    pub(super) fn sent(&mut self, bytes: usize, now_ns: u64) {
        if self.bits_per_s != 0 {
            let earliest_ns = now_ns.saturating_sub(ns(BURST) + self.late_ns);
            let takes = Duration::from_secs_f64(bytes as f64 * 8.0 / self.bits_per_s as f64);
            self.free_at_ns = self.free_at_ns.max(earliest_ns) + ns(takes);
            self.late_ns = self.late_ns.min(now_ns.saturating_sub(self.free_at_ns));
        }
    }

    /// The time until the link will have carried everything sent so far.
    pub(super) fn ahead(&self, now_ns: u64) -> Duration {
        match self.bits_per_s {
            0 => Duration::ZERO,
            _ => Duration::from_nanos(self.free_at_ns.saturating_sub(now_ns)),
        }
    }

    /// Notes how late a sleep for the pace has ended.
    pub(super) fn woke(&mut self, now_ns: u64) {
        self.late_ns = now_ns.saturating_sub(self.free_at_ns).min(ns(LATE_MAX));
    }

    /// What is sent next makes up for no lateness.
    pub(super) fn forget_lateness(&mut self) {
        self.late_ns = 0;
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
