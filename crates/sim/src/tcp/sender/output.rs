//! The choice of the next segment.

use super::{Sender, Timer};
use crate::tcp::segment::{Flags, Segment, Timestamps};
use crate::tcp::statistics::Recovery;

/// A choice: positions from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    start: u64,
    end: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    New,
    Repair,
    /// The last segment once more, which moves no mark.
    Rescue,
}

impl Sender {
    /// The next segment to send now; to be called until it gives none, after every other call. It has no acknowledgement: an
    /// [`crate::tcp::Endpoint`] adds that.
    pub fn next_segment(&mut self, now: u64) -> Option<Segment> {
        self.next_segment_with(now, 0)
    }

    /// The next segment, where other options take `option_bytes` out of its room.
    pub(in crate::tcp) fn next_segment_with(
        &mut self,
        now: u64,
        option_bytes: u32,
    ) -> Option<Segment> {
        if !self.open {
            return None;
        }
        if self.board.acknowledged() == 0 {
            return self.syn(now);
        }
        if std::mem::take(&mut self.probe_due) {
            self.statistics.window_probes += 1;
            // An old position without payload: the peer must answer, and nothing changes for it.
            return Some(self.segment(now, self.board.acknowledged() - 1, 0));
        }
        let room = self.mss.saturating_sub(u64::from(option_bytes)).max(1);
        let choice = self.choose(now, room)?;
        self.commit(now, choice);
        let fin = self.fin.filter(|&fin| choice.end > fin);
        let payload = choice.end - choice.start - u64::from(fin.is_some());
        let mut segment = self.segment(now, choice.start, payload);
        if fin.is_some() {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        self.count(choice, payload);
        Some(segment)
    }

    /// The SYN is to be sent again, as the peer sent its own again.
    pub(in crate::tcp) fn repeat_syn(&mut self) {
        self.head_due = self.board.acknowledged() == 0 && self.board.sent() > 0;
    }

    /// The reading of the timestamps' clock.
    pub(in crate::tcp) fn clock(&self, now: u64) -> u32 {
        (now / self.config.timestamp_tick_ps.max(1)) as u32
    }

    fn segment(&self, now: u64, sequence: u64, payload: u64) -> Segment {
        let mut segment = Segment {
            sequence,
            payload_len: payload as u32,
            ..Segment::default()
        };
        if self.timestamps {
            segment.set_timestamps(Timestamps {
                value: self.clock(now),
                echo: 0,
            });
        }
        segment
    }

    fn syn(&mut self, now: u64) -> Option<Segment> {
        let first = self.board.sent() == 0;
        if !first && !std::mem::take(&mut self.head_due) {
            return None;
        }
        if first {
            self.board.send(1);
            self.timed = Some((1, now));
        } else {
            self.timed = None;
            self.statistics.retransmissions += 1;
        }
        self.statistics.segments += 1;
        self.last_sent = now;
        self.arm(now);
        let mut segment = self.segment(now, 0, 0);
        segment.mss = self.config.mss;
        segment.flags = segment.flags.with(Flags::SYN);
        if self.sack {
            segment.flags = segment.flags.with(Flags::SACK_PERMITTED);
        }
        Some(segment)
    }

    fn choose(&mut self, now: u64, room: u64) -> Option<Choice> {
        if std::mem::take(&mut self.head_due) && self.board.flight() > 0 {
            let (start, end) = self.board.head(room);
            return Some(Choice {
                start,
                end,
                kind: Kind::Repair,
            });
        }
        let choice = match self.recovery {
            Recovery::None => self.new_data(now, room),
            Recovery::Timeout => self.lost(room).or_else(|| self.new_data(now, room)),
            Recovery::Fast if self.sack => self
                .lost(room)
                .or_else(|| self.new_data(now, room))
                .or_else(|| self.hole(room))
                .or_else(|| self.rescue(room)),
            Recovery::Fast => self.new_data(now, room),
        };
        let Some(choice) = choice else {
            self.blocked_by_congestion = false;
            return None;
        };
        let fits = self.in_flight() + (choice.end - choice.start) <= self.congestion.window();
        if !fits {
            self.blocked_by_congestion = true;
            return None;
        }
        Some(choice)
    }

    /// Rule 1 of NextSeg, for data that was outstanding when the recovery began. Data sent since then is another loss event's.
    fn lost(&self, room: u64) -> Option<Choice> {
        let (start, end) = self.board.next_lost(self.recovery_end, room)?;
        Some(Choice {
            start,
            end,
            kind: Kind::Repair,
        })
    }

    /// Rule 2 of NextSeg: data that was never sent, as far as the peer's window allows.
    fn new_data(&mut self, now: u64, room: u64) -> Option<Choice> {
        let start = self.board.sent();
        let wanted = room.min(self.limit.saturating_sub(start));
        if wanted == 0 {
            return None;
        }
        let allowed = self.window_end.saturating_sub(start);
        // No silly windows (RFC 9293, section 3.8.6.2.1): a full segment, all there is, or half the largest window; what fits when the
        // timer says that this took too long.
        let silly = allowed < self.window_max.div_ceil(2) && !self.window_override;
        if allowed < wanted && (allowed == 0 || silly) {
            self.wait_for_window(now);
            return None;
        }
        Some(Choice {
            start,
            end: start + wanted.min(allowed),
            kind: Kind::New,
        })
    }

    fn wait_for_window(&mut self, now: u64) {
        if self.board.flight() == 0 && self.timer == Timer::Off {
            self.timer = Timer::Persist(now + self.probe_interval());
        }
    }

    /// Rule 3 of NextSeg: a hole that is not lost by the rules, as nothing else can be sent.
    fn hole(&self, room: u64) -> Option<Choice> {
        let (start, end) = self.board.next_hole(self.recovery_end, room)?;
        Some(Choice {
            start,
            end,
            kind: Kind::Repair,
        })
    }

    /// Rule 4 of NextSeg: the last segment, once in a recovery.
    fn rescue(&self, room: u64) -> Option<Choice> {
        if self.rescued {
            return None;
        }
        let (start, end) = self.board.tail(room)?;
        Some(Choice {
            start,
            end,
            kind: Kind::Rescue,
        })
    }

    fn commit(&mut self, now: u64, choice: Choice) {
        match choice.kind {
            Kind::New => {
                if self.board.flight() == 0 && !self.blocked_by_congestion {
                    self.resume(now);
                }
                self.board.send(choice.end - choice.start);
                self.window_override = false;
                if self.timed.is_none() && !self.timestamps {
                    self.timed = Some((choice.end, now));
                }
                if !matches!(self.timer, Timer::Retransmission(_)) {
                    self.arm(now);
                }
                self.last_sent = now;
            }
            Kind::Repair => {
                self.board.repair(choice.start, choice.end);
                // Karn's rule: what is sent again is not timed.
                self.timed = None;
                // RFC 6675, section 6: the careful variant, so that a long repair is not cut off.
                self.arm(now);
            }
            Kind::Rescue => {
                self.rescued = true;
                self.timed = None;
                self.arm(now);
            }
        }
    }

    /// Nothing was outstanding, as the application had nothing: a pause ends.
    fn resume(&mut self, now: u64) {
        let idle = now.saturating_sub(self.last_sent);
        let restart = self.config.restart_after_idle && idle > self.round_trips.timeout_ps();
        self.congestion.resumed(idle, restart);
    }

    fn count(&mut self, choice: Choice, payload: u64) {
        let statistics = &mut self.statistics;
        statistics.segments += 1;
        statistics.bytes += payload;
        if choice.kind != Kind::New {
            statistics.retransmissions += 1;
            statistics.retransmitted_bytes += payload;
        }
    }
}
