//! CUBIC's congestion avoidance: RFC 9438.
//!
//! Windows are in segments and times in seconds, both `f64`, as in the RFC. Only `+ - * /`, comparisons and conversions are used, which IEEE
//! 754 rounds exactly and Rust does not fuse: each machine gives the same bits. The cube root is Newton's iteration for that reason.

use super::Acknowledged;

/// The constant C, in segments a cubed second (section 5.1).
const C: f64 = 0.4;
/// The share of the window that a loss leaves (section 4.6).
const BETA: f64 = 0.7;
/// The slope with which Reno's estimate has the throughput of Reno (section 4.3): 3 (1 - beta) / (1 + beta).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Picoseconds in a second.
const SECOND: f64 = 1e12;

#[derive(Clone, Debug)]
pub(super) struct Cubic {
    /// W_max: the window before the last reduction, lowered by fast convergence.
    maximum: f64,
    /// The window before the last reduction (cwnd_prior).
    prior: f64,
    /// True if the curve's plateau is `maximum`; else it is the window at the stage's start (sections 4.8 and 4.10).
    has_origin: bool,
    stage: Option<Stage>,
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Stage {
    start: u64,
    plateau: f64,
    /// K: seconds from the start to the plateau.
    rise: f64,
    /// W_est: the window that Reno would have.
    reno: f64,
    /// The window with its fraction.
    window: f64,
}

impl Cubic {
    pub(super) fn new() -> Self {
        Self {
            maximum: 0.0,
            prior: 0.0,
            has_origin: false,
            stage: None,
        }
    }

    /// The window after an acknowledgement, in bytes.
    pub(super) fn grown(&mut self, window: u64, ack: &Acknowledged, mss: u64) -> u64 {
        let segment = mss as f64;
        let mut stage = match self.stage {
            Some(stage) => stage,
            None => self.begin(window as f64 / segment, ack.now),
        };
        let acked = ack.bytes.min(window) as f64 / segment;
        let elapsed = ack.now.saturating_sub(stage.start) as f64 / SECOND;
        let slope = if stage.reno >= self.prior { 1.0 } else { ALPHA };
        stage.reno += slope * acked / stage.window;
        if stage.at(elapsed) < stage.reno {
            stage.window = larger(stage.window, stage.reno);
        } else {
            let ahead = stage.at(elapsed + ack.round_trip_ps as f64 / SECOND);
            let target = smaller(larger(ahead, stage.window), 1.5 * stage.window);
            stage.window += (target - stage.window) / stage.window * acked;
        }
        self.stage = Some(stage);
        (stage.window * segment) as u64
    }

    fn begin(&self, window: f64, now: u64) -> Stage {
        let plateau = if self.has_origin {
            larger(self.maximum, window)
        } else {
            window
        };
        Stage {
            start: now,
            plateau,
            rise: cube_root((plateau - window) / C),
            reno: window,
            window,
        }
    }

    /// The threshold after a loss with `flight` bytes outstanding, and the plateau of the next stage (sections 4.6 and 4.7).
    pub(super) fn reduced(&mut self, window: u64, flight: u64, mss: u64) -> u64 {
        let segments = window as f64 / mss as f64;
        self.prior = segments;
        self.maximum = if segments < self.maximum {
            segments * (1.0 + BETA) / 2.0
        } else {
            segments
        };
        self.has_origin = true;
        self.stage = None;
        flight * 7 / 10
    }

    /// A timeout: the next stage's curve begins at its plateau.
    pub(super) fn forget_origin(&mut self) {
        self.has_origin = false;
        self.stage = None;
    }

    /// A pause does not count as time of the stage (section 5.8).
    pub(super) fn resumed(&mut self, idle_ps: u64) {
        if let Some(stage) = &mut self.stage {
            stage.start += idle_ps;
        }
    }
}

impl Stage {
    /// W_cubic (section 4.2): the curve's height so many seconds into the stage.
    fn at(&self, elapsed: f64) -> f64 {
        let distance = elapsed - self.rise;
        C * distance * distance * distance + self.plateau
    }
}

/// The larger of two numbers; `f64::max` leaves the sign of zero open.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The cube root of a number that is not negative, to a few units in the last place.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent is within a factor of two of the root.
    let exponent = ((x.to_bits() >> 52) as i64 - 1023).div_euclid(3);
    let mut root = f64::from_bits(((exponent + 1023) as u64) << 52);
    for _ in 0..8 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_right() {
        for exponent in -60..60 {
            let x = 1.37 * (2.0f64).powi(exponent);
            let root = cube_root(x);
            assert!((root / x.cbrt() - 1.0).abs() < 1e-15, "{x}: {root}");
        }
        assert_eq!(cube_root(0.0), 0.0);
        assert_eq!(cube_root(27.0), 3.0);
    }

    #[test]
    fn a_second_loss_below_the_maximum_lowers_the_plateau() {
        // Section 4.7, fast convergence: W_max is cwnd (1 + beta) / 2.
        let mut cubic = Cubic::new();
        for (window, plateau) in [(1000, 1000.0), (800, 680.0), (560, 476.0), (900, 900.0)] {
            let threshold = cubic.reduced(window * 1448, window * 1448, 1448);
            assert_eq!(threshold, window * 1448 * 7 / 10);
            assert!((cubic.maximum - plateau).abs() < 1e-9, "{}", cubic.maximum);
        }
    }
}
