//! The sender's scoreboard: which positions are acknowledged, lost, repaired (RFC 6675).
//!
//! The RFC states its functions octet by octet. Here the same results are kept as four numbers and a set of ranges, so that an
//! acknowledgement costs little whatever the window.

use crate::tcp::ranges::Ranges;

/// Duplicate acknowledgements, or separate blocks above, that make a loss (RFC 5681, section 3.2).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;

/// Positions sent, and the receiver's word on them.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    /// The lowest position that is not acknowledged (HighACK, plus one).
    acknowledged: u64,
    /// The position behind the highest sent (HighData, plus one).
    sent: u64,
    selective: Ranges,
    /// All below it that is not acknowledged selectively is lost (IsLost).
    lost_below: u64,
    /// Positions at or above `lost_below` that are acknowledged selectively.
    selective_above: u64,
    /// All below it is lost, as the retransmission timer expired.
    timed_out_below: u64,
    /// The position behind the highest retransmitted (HighRxt, plus one).
    repaired: u64,
    /// Positions from `acknowledged` up to `repaired` that are not acknowledged selectively.
    repairs_in_flight: u64,
}

impl Scoreboard {
    /// The lowest position that is not acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The position behind the highest sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Positions sent and not acknowledged cumulatively (FlightSize).
    pub(super) fn flight(&self) -> u64 {
        self.sent - self.acknowledged
    }

    /// Positions that are thought to be in the network (SetPipe).
    pub(super) fn pipe(&self) -> u64 {
        self.sent - self.lost_below.max(self.acknowledged) - self.selective_above
            + self.repairs_in_flight
    }

    /// True if the lowest position that is not acknowledged is lost.
    pub(super) fn head_is_lost(&self) -> bool {
        self.lost_below > self.acknowledged
    }

    /// New data was sent.
    pub(super) fn send(&mut self, len: u64) {
        self.sent += len;
    }

    /// The positions from `start` up to `end` were sent again.
    pub(super) fn repair(&mut self, start: u64, end: u64) {
        let from = self.repaired.max(self.acknowledged);
        debug_assert!(start >= from, "{start} was already repaired up to {from}");
        if end > from {
            // All between the last repair and this one is acknowledged selectively.
            self.repairs_in_flight += end - start;
            self.repaired = end;
        }
    }

    /// Takes a selective acknowledgement; the number of positions that it covers for the first time. Blocks of what was never sent, or
    /// that end below the cumulative acknowledgement, say nothing.
    pub(super) fn acknowledge_block(&mut self, start: u64, end: u64) -> u64 {
        let start = start.max(self.acknowledged);
        if end > self.sent || start >= end {
            return 0;
        }
        let split = self.repaired.clamp(start, end);
        let repaired = self.selective.insert(start, split);
        self.repairs_in_flight -= repaired;
        repaired + self.selective.insert(split, end)
    }

    /// Takes a cumulative acknowledgement.
    pub(super) fn acknowledge(&mut self, position: u64) {
        let split = self.repaired.clamp(self.acknowledged, position);
        let passed = split - self.acknowledged;
        let selective = self.selective.remove_below(split);
        self.repairs_in_flight -= passed - selective;
        self.selective.remove_below(position);
        self.acknowledged = position;
    }

    /// Judges again what is lost: positions below three ranges, or below more than two segments' bytes, that arrived.
    pub(super) fn judge(&mut self, mss: u64) {
        let (mut ranges, mut bytes) = (0, 0);
        let mut found = 0;
        for range in self.selective.descending() {
            ranges += 1;
            bytes += range.end - range.start;
            if ranges >= DUPLICATE_THRESHOLD || bytes > u64::from(DUPLICATE_THRESHOLD - 1) * mss {
                found = range.start;
                break;
            }
        }
        if found >= self.timed_out_below {
            self.lost_below = found;
            self.selective_above = if found > 0 {
                bytes
            } else {
                self.selective.bytes()
            };
        } else {
            self.lost_below = self.timed_out_below;
            self.selective_above = self.selective_from(self.timed_out_below);
        }
        if self.lost_below <= self.acknowledged {
            self.selective_above = self.selective.bytes();
        }
    }

    fn selective_from(&self, position: u64) -> u64 {
        let mut bytes = 0;
        for range in self.selective.descending() {
            if range.end <= position {
                break;
            }
            bytes += range.end - range.start.max(position);
        }
        bytes
    }

    /// Begins repairs at the lowest position, forgetting earlier ones.
    pub(super) fn begin_repairs(&mut self) {
        self.repaired = self.acknowledged;
        self.repairs_in_flight = 0;
    }

    /// All that was sent and is not acknowledged is lost. A receiver that has thrown away what it acknowledged selectively (RFC 2018, section
    /// 8) is not believed any more.
    pub(super) fn time_out(&mut self) {
        if self
            .selective
            .first()
            .is_some_and(|first| first.start == self.acknowledged)
        {
            self.selective.clear();
        }
        self.timed_out_below = self.sent;
        self.lost_below = self.sent;
        self.selective_above = 0;
        self.begin_repairs();
    }

    /// The first lost positions that are not repaired yet, below `limit`, and at most `len` of them.
    pub(super) fn next_lost(&self, limit: u64, len: u64) -> Option<(u64, u64)> {
        self.next_missing(self.lost_below.min(limit), len)
    }

    /// The first positions not repaired yet below the highest that was acknowledged selectively and below `limit`, lost or not.
    pub(super) fn next_hole(&self, limit: u64, len: u64) -> Option<(u64, u64)> {
        let highest = self.selective.last()?.start;
        self.next_missing(highest.min(limit), len)
    }

    fn next_missing(&self, limit: u64, len: u64) -> Option<(u64, u64)> {
        let mut start = self.repaired.max(self.acknowledged);
        let mut next = self.selective.from(start);
        if let Some(range) = next
            && range.start <= start
        {
            start = range.end;
            next = self.selective.from(start);
        }
        if start >= limit {
            return None;
        }
        let end = next.map_or(self.sent, |range| range.start);
        Some((start, end.min(start + len).min(limit)))
    }

    /// The first positions that are not acknowledged, at most `len` of them.
    pub(super) fn head(&self, len: u64) -> (u64, u64) {
        let first = self
            .selective
            .first()
            .map_or(self.sent, |first| first.start);
        // A block right behind the acknowledgement is a receiver's lie or its change of mind: it is sent again.
        let end = if first > self.acknowledged {
            first
        } else {
            self.sent
        };
        (self.acknowledged, end.min(self.acknowledged + len))
    }

    /// The last outstanding positions that are not acknowledged selectively, at most `len` of them.
    pub(super) fn tail(&self, len: u64) -> Option<(u64, u64)> {
        let (floor, end) = match self.selective.last() {
            Some(last) if last.end == self.sent => {
                let mut ranges = self.selective.descending();
                ranges.next();
                let below = ranges.next().map_or(self.acknowledged, |range| range.end);
                (below, last.start)
            }
            Some(last) => (last.end, self.sent),
            None => (self.acknowledged, self.sent),
        };
        (floor < end).then(|| (floor.max(end.saturating_sub(len)), end))
    }

    /// True if some position was acknowledged selectively.
    pub(super) fn has_selective(&self) -> bool {
        !self.selective.is_empty()
    }
}

#[cfg(test)]
mod tests;
