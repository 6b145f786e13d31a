//! The congestion window: slow start, congestion avoidance, and the answer to a loss.
//!
//! Slow start is the same for every law; a law moves the window above the threshold and says by how much a loss lowers it. Times
//! and windows come out the same on every machine: NewReno counts in integers, CUBIC uses only IEEE's exact operations.

mod cubic;
mod hystart;

use crate::tcp::config::{Algorithm, Config, Growth};
use cubic::Cubic;
use hystart::{Hystart, Phase};

/// An acknowledgement of new data, as the laws see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    /// The time.
    pub(super) now: u64,
    /// Bytes that it covers for the first time.
    pub(super) bytes: u64,
    /// The smoothed round trip time, in picoseconds; zero before the first sample.
    pub(super) round_trip_ps: u64,
    /// This acknowledgement's sample of the round trip time, in picoseconds.
    pub(super) sample_ps: Option<u64>,
    /// The position behind the acknowledged data.
    pub(super) acknowledged: u64,
    /// The position behind the data sent.
    pub(super) sent: u64,
    /// True if a retransmission timer expired and its losses are not repaired yet.
    pub(super) after_timeout: bool,
}

/// The congestion window of one sender.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    window: u64,
    threshold: u64,
    mss: u64,
    initial: u64,
    slow_start_bytes: u64,
    hystart: Option<Hystart>,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    NewReno(NewReno),
    Cubic(Cubic),
}

#[derive(Clone, Debug)]
struct NewReno {
    growth: Growth,
    /// Bytes acknowledged since the window last grew; with [`Growth::Acknowledgements`], the share of a byte that rounding left, in
    /// bytes times the window.
    counted: u64,
}

impl Congestion {
    /// The first window, for segments of `mss` bytes of payload.
    pub(super) fn new(config: &Config, mss: u64) -> Self {
        let law = match config.algorithm {
            Algorithm::NewReno => Law::NewReno(NewReno {
                growth: config.growth,
                counted: 0,
            }),
            Algorithm::Cubic => Law::Cubic(Cubic::new()),
        };
        let initial = mss * u64::from(config.initial_window_segments.max(1));
        Self {
            window: initial,
            threshold: u64::MAX,
            mss,
            initial,
            slow_start_bytes: mss * u64::from(config.slow_start_segments.max(1)),
            hystart: config.hystart.then(Hystart::new),
            law,
        }
    }

    /// The window, in bytes.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// The slow start threshold, in bytes; `u64::MAX` before the first loss.
    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// True if the window is below the threshold.
    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Grows the window.
    pub(super) fn acknowledged(&mut self, ack: &Acknowledged) {
        if self.in_slow_start() {
            self.slow_start(ack);
            return;
        }
        self.window = match &mut self.law {
            Law::NewReno(law) => law.grown(self.window, ack.bytes, self.mss),
            Law::Cubic(law) => law.grown(self.window, ack, self.mss),
        };
    }

    fn slow_start(&mut self, ack: &Acknowledged) {
        // RFC 3465, section 2.3: one segment while losses of a timeout are repaired.
        let limit = if ack.after_timeout {
            self.mss
        } else {
            self.slow_start_bytes
        };
        let mut growth = ack.bytes.min(limit);
        let first = self.threshold == u64::MAX;
        if let Some(hystart) = self.hystart.as_mut().filter(|_| first) {
            let bytes = ack.bytes.min(hystart::LIMIT_SEGMENTS * self.mss);
            match hystart.acknowledged(ack) {
                Phase::SlowStart => growth = bytes,
                Phase::Conservative => growth = bytes / hystart::CONSERVATIVE_DIVISOR,
                Phase::Done => {
                    self.threshold = self.window;
                    return;
                }
            }
        }
        self.window = (self.window + growth).min(self.threshold.max(self.window));
    }

    /// Lowers window and threshold as fast retransmit found a loss with `flight` bytes outstanding.
    pub(super) fn lost(&mut self, flight: u64) {
        self.reduce(flight);
        self.window = self.threshold;
    }

    /// Lowers the window to one segment as the retransmission timer expired with `flight` bytes outstanding. The threshold follows
    /// only the first time for the same data (RFC 5681, section 3.1).
    pub(super) fn timed_out(&mut self, flight: u64, again: bool) {
        if !again {
            self.reduce(flight);
        }
        if let Law::Cubic(law) = &mut self.law {
            law.forget_origin();
        }
        self.window = self.mss;
    }

    fn reduce(&mut self, flight: u64) {
        // Limited transmit's segments do not count (RFC 5681, section 3.2), so never more than the window.
        let flight = flight.min(self.window);
        let floor = 2 * self.mss;
        self.threshold = match &mut self.law {
            Law::NewReno(law) => {
                law.counted = 0;
                (flight / 2).max(floor)
            }
            Law::Cubic(law) => law.reduced(self.window, flight, self.mss).max(floor),
        };
    }

    /// The window at the end of NewReno's fast recovery (RFC 6582, section 3.2, step 3).
    pub(super) fn deflate(&mut self, flight: u64) {
        self.window = self.threshold.min(flight.max(self.mss) + self.mss);
    }

    /// Goes back to one segment, as the SYN was lost (RFC 5681, section 3.1).
    pub(super) fn syn_lost(&mut self) {
        self.window = self.mss;
        self.initial = self.mss;
    }

    /// Sending begins again after a pause of `idle_ps` with nothing outstanding. With `restart`, the window falls back to the first one.
    pub(super) fn resumed(&mut self, idle_ps: u64, restart: bool) {
        if restart {
            self.window = self.window.min(self.initial);
        }
        if let Law::Cubic(law) = &mut self.law {
            law.resumed(idle_ps);
        }
    }
}

impl NewReno {
    fn grown(&mut self, window: u64, bytes: u64, mss: u64) -> u64 {
        match self.growth {
            Growth::Bytes => {
                // Much at once, as after a repair, still counts as one window.
                self.counted += bytes.min(window);
                if self.counted < window {
                    return window;
                }
                self.counted -= window;
                window + mss
            }
            Growth::Acknowledgements => {
                let growth = mss * mss + self.counted;
                self.counted = growth % window;
                window + growth / window
            }
        }
    }
}

#[cfg(test)]
mod tests;
