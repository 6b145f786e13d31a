//! HyStart++: leaving the first slow start when round trips get longer (RFC 9406).

use super::Acknowledged;

/// The most that one acknowledgement adds, in segments, where sending is not paced (section 4.3, L).
pub(super) const LIMIT_SEGMENTS: u64 = 8;
/// The divisor of growth in conservative slow start.
pub(super) const CONSERVATIVE_DIVISOR: u64 = 4;

/// The least and most rise of the round trip time that counts, in picoseconds.
const RISE_MIN_PS: u64 = 4_000_000_000;
const RISE_MAX_PS: u64 = 16_000_000_000;
/// The share of the last round's least round trip that counts as a rise.
const RISE_DIVISOR: u64 = 8;
/// Samples that a round needs before it is judged.
const SAMPLES: u32 = 8;
/// Rounds of conservative slow start.
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The part of slow start that the sender is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    SlowStart,
    Conservative,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Hystart {
    phase: Phase,
    /// The position whose acknowledgement ends the round.
    round_end: u64,
    last_least_ps: u64,
    least_ps: u64,
    samples: u32,
    /// The least round trip of the round in which conservative slow start began.
    baseline_ps: u64,
    conservative_rounds: u32,
}

impl Hystart {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::SlowStart,
            round_end: 0,
            last_least_ps: u64::MAX,
            least_ps: u64::MAX,
            samples: 0,
            baseline_ps: u64::MAX,
            conservative_rounds: 0,
        }
    }

    /// Takes an acknowledgement; the phase that governs the growth it brings.
    pub(super) fn acknowledged(&mut self, ack: &Acknowledged) -> Phase {
        if let Some(sample) = ack.sample_ps {
            self.least_ps = self.least_ps.min(sample);
            self.samples += 1;
        }
        if self.samples >= SAMPLES {
            self.judge();
        }
        if ack.acknowledged >= self.round_end {
            self.next_round(ack.sent);
        }
        self.phase
    }

    fn judge(&mut self) {
        match self.phase {
            Phase::SlowStart if self.last_least_ps != u64::MAX && self.least_ps != u64::MAX => {
                let rise = (self.last_least_ps / RISE_DIVISOR).clamp(RISE_MIN_PS, RISE_MAX_PS);
                if self.least_ps >= self.last_least_ps + rise {
                    self.baseline_ps = self.least_ps;
                    self.conservative_rounds = 0;
                    self.phase = Phase::Conservative;
                }
            }
            Phase::Conservative if self.least_ps < self.baseline_ps => {
                self.baseline_ps = u64::MAX;
                self.phase = Phase::SlowStart;
            }
            _ => {}
        }
    }

    fn next_round(&mut self, sent: u64) {
        self.round_end = sent;
        self.last_least_ps = self.least_ps;
        self.least_ps = u64::MAX;
        self.samples = 0;
        if self.phase == Phase::Conservative {
            self.conservative_rounds += 1;
            if self.conservative_rounds >= CONSERVATIVE_ROUNDS {
                self.phase = Phase::Done;
            }
        }
    }
}
