//! An acknowledgement's effect on the sender.

use super::{Sender, Timer};
use crate::tcp::congestion::Acknowledged;
use crate::tcp::scoreboard::DUPLICATE_THRESHOLD;
use crate::tcp::segment::Segment;
use crate::tcp::statistics::Recovery;

impl Sender {
    /// Takes a segment's acknowledgement, its SACK blocks and its window. A segment without an acknowledgement, or with one of what was
    /// never sent, is passed over.
    pub fn receive(&mut self, now: u64, segment: &Segment) {
        let position = segment.acknowledgement;
        if !segment.is_ack() || position > self.board.sent() {
            return;
        }
        self.statistics.acks += 1;
        let window_before = self.window_end;
        self.widen(segment);
        let acknowledged = self.board.acknowledged();
        if position < acknowledged {
            return;
        }
        let news = self.take_blocks(segment);
        let duplicate = self.is_duplicate(segment, news, window_before);
        if position > acknowledged {
            self.advance(now, segment);
        } else {
            self.board.judge(self.mss);
        }
        if duplicate {
            self.statistics.duplicate_acks += 1;
            self.duplicates += 1;
        }
        self.detect_loss(duplicate);
    }

    /// The peer's window. Its end never goes back, as RFC 9293, section 3.8.6, asks of receivers, so segments out of order do no harm.
    fn widen(&mut self, segment: &Segment) {
        let window = u64::from(segment.window);
        let end = segment.acknowledgement + window;
        self.window_max = self.window_max.max(window);
        if end > self.window_end {
            self.window_end = end;
            if matches!(self.timer, Timer::Persist(_)) {
                self.timer = Timer::Off;
                self.probes = 0;
            }
        }
    }

    /// The number of positions that the SACK blocks cover for the first time.
    fn take_blocks(&mut self, segment: &Segment) -> u64 {
        let mut news = 0;
        if self.sack {
            for (start, end) in segment.sack_blocks() {
                if start > segment.acknowledgement {
                    news += self.board.acknowledge_block(start, end);
                }
            }
        }
        news
    }

    /// True for a duplicate acknowledgement: RFC 6675, section 2, with selective acknowledgements, RFC 5681, section 2, without.
    fn is_duplicate(&self, segment: &Segment, news: u64, window_before: u64) -> bool {
        let acknowledged = self.board.acknowledged();
        if self.sack {
            return news > 0 && segment.acknowledgement == acknowledged;
        }
        segment.acknowledgement == acknowledged
            && self.board.flight() > 0
            && segment.sequence_len() == 0
            && self.window_end == window_before
    }

    fn advance(&mut self, now: u64, segment: &Segment) {
        let position = segment.acknowledgement;
        let old = self.board.acknowledged();
        let sample = self.round_trip(now, segment);
        let limited = self.was_limited();
        self.take_sample(sample);
        if old == 0 {
            self.connected(sample);
        }
        self.board.acknowledge(position);
        self.board.judge(self.mss);
        let payload_end = self.fin.map_or(position, |fin| position.min(fin));
        self.statistics.acknowledged_bytes += payload_end.saturating_sub(old.max(1));
        self.duplicates = 0;
        self.expired_at = None;
        let before = self.recovery;
        self.go_on_with_recovery(position - old);
        // The SYN's acknowledgement moves no window (RFC 5681, section 3.1), nor does one within fast recovery.
        if limited && old > 0 && before != Recovery::Fast {
            self.congestion.acknowledged(&Acknowledged {
                now,
                bytes: position - old,
                round_trip_ps: self.round_trips.smoothed_ps().unwrap_or(0),
                sample_ps: sample,
                acknowledged: position,
                sent: self.board.sent(),
                after_timeout: before == Recovery::Timeout,
            });
        }
        if self.board.flight() == 0 {
            self.timer = Timer::Off;
        } else {
            self.arm(now);
        }
    }

    /// True if the window was what kept data back. Slow start also doubles a window of which more than half is used, as Linux does;
    /// else an application that sends little would earn a window that it never tested (RFC 7661).
    fn was_limited(&self) -> bool {
        let more_than_half = 2 * self.board.flight() > self.congestion.window();
        self.blocked_by_congestion || self.congestion.in_slow_start() && more_than_half
    }

    /// The sample of the round trip time in an acknowledgement of new data.
    fn round_trip(&mut self, now: u64, segment: &Segment) -> Option<u64> {
        if self.timestamps {
            let echo = segment.timestamps()?.echo;
            let ticks = self.clock(now).wrapping_sub(echo);
            // An echo from the future is none of ours.
            return (ticks <= u32::MAX / 2)
                .then(|| u64::from(ticks) * self.config.timestamp_tick_ps);
        }
        let (_, left) = self
            .timed
            .filter(|timed| segment.acknowledgement >= timed.0)?;
        self.timed = None;
        Some(now - left)
    }

    fn take_sample(&mut self, sample: Option<u64>) {
        let Some(sample) = sample else { return };
        let per_round_trip = if self.timestamps {
            self.board.flight().div_ceil(2 * self.mss)
        } else {
            1
        };
        self.round_trips.sample(sample, per_round_trip);
        self.statistics.round_trip_samples = self.round_trips.samples();
    }

    /// The SYN is acknowledged.
    fn connected(&mut self, sample: Option<u64>) {
        if self.syn_expired && sample.is_none() {
            self.round_trips.start_data_after_lost_syn();
        }
        self.head_due = false;
    }

    /// Ends the recovery if all that was outstanding at its beginning is acknowledged; else goes on with it.
    fn go_on_with_recovery(&mut self, bytes: u64) {
        let complete = self.board.acknowledged() >= self.recovery_end;
        match self.recovery {
            Recovery::None => {}
            Recovery::Timeout if complete => self.recovery = Recovery::None,
            Recovery::Timeout => {}
            Recovery::Fast if complete => {
                self.recovery = Recovery::None;
                self.inflation = 0;
                self.head_due = false;
                if !self.sack {
                    self.congestion.deflate(self.board.flight());
                }
            }
            Recovery::Fast if !self.sack => {
                // A partial acknowledgement (RFC 6582, section 3.2, step 3): the next segment is lost too.
                self.inflation -= bytes as i64;
                if bytes >= self.mss {
                    self.inflation += self.mss as i64;
                }
                self.board.begin_repairs();
                self.head_due = true;
            }
            Recovery::Fast => {}
        }
    }

    fn detect_loss(&mut self, duplicate: bool) {
        match self.recovery {
            Recovery::None if self.board.flight() > 0 => {
                let enough = self.duplicates >= DUPLICATE_THRESHOLD;
                let lost = if self.sack {
                    self.board.has_selective() && (enough || self.board.head_is_lost())
                } else {
                    // What a finished recovery sent twice brings duplicates too (RFC 6582, section 3.2, step 1).
                    enough && self.board.acknowledged() > self.recovery_end
                };
                if lost {
                    self.begin_recovery();
                }
            }
            Recovery::Fast if duplicate && !self.sack => self.inflation += self.mss as i64,
            _ => {}
        }
    }

    fn begin_recovery(&mut self) {
        self.recovery = Recovery::Fast;
        self.recovery_end = self.board.sent();
        self.congestion.lost(self.board.flight());
        self.inflation = i64::from(DUPLICATE_THRESHOLD) * self.mss as i64;
        self.board.begin_repairs();
        self.head_due = true;
        self.rescued = false;
        self.statistics.fast_recoveries += 1;
    }
}
