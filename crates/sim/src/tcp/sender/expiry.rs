//! The sender's timer: retransmission, and probes of a window that stays too small.

use super::{Sender, Timer};
use crate::tcp::statistics::Recovery;

impl Sender {
    /// Lets the timer expire, if it is due.
    pub fn expire(&mut self, now: u64) {
        match self.timer {
            Timer::Retransmission(at) if at <= now => self.retransmission_due(now),
            Timer::Persist(at) if at <= now => self.window_probe_due(now),
            _ => {}
        }
    }

    /// Starts the retransmission timer anew.
    pub(super) fn arm(&mut self, now: u64) {
        self.timer = Timer::Retransmission(now + self.round_trips.timeout_ps());
    }

    /// The time from one probe of the window to the next, which doubles.
    pub(super) fn probe_interval(&self) -> u64 {
        let interval = u128::from(self.round_trips.timeout_ps()) << self.probes.min(40);
        interval.min(u128::from(self.config.rto_max_ps)) as u64
    }

    fn retransmission_due(&mut self, now: u64) {
        let acknowledged = self.board.acknowledged();
        let again = self.expired_at.replace(acknowledged) == Some(acknowledged);
        self.statistics.timeouts += 1;
        self.statistics.repeated_timeouts += u64::from(again);
        self.round_trips.back_off();
        self.timed = None;
        self.arm(now);
        if acknowledged == 0 {
            self.head_due = true;
            self.syn_expired = true;
            self.congestion.syn_lost();
            return;
        }
        self.congestion.timed_out(self.board.flight(), again);
        self.board.time_out();
        self.recovery = Recovery::Timeout;
        self.recovery_end = self.board.sent();
        self.duplicates = 0;
        self.inflation = 0;
        self.head_due = false;
    }

    fn window_probe_due(&mut self, now: u64) {
        self.probes += 1;
        self.timer = Timer::Persist(now + self.probe_interval());
        if self.window_end > self.board.sent() {
            self.window_override = true;
        } else {
            self.probe_due = true;
        }
    }
}
