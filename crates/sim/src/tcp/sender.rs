//! The sending half of an endpoint: what to send, when to send it again.
//!
//! Retransmission timer: RFC 6298 with RFC 7323's samples. Loss recovery: RFC 6675 with selective acknowledgements, RFC 6582 without;
//! limited transmit (RFC 3042) with both. Nagle's algorithm is off; sending is not paced.

mod arrival;
mod expiry;
mod output;

use crate::tcp::config::Config;
use crate::tcp::congestion::Congestion;
use crate::tcp::rtt::RoundTrips;
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::segment::TIMESTAMP_OPTION_BYTES;
use crate::tcp::statistics::{Recovery, SenderSample, SenderStatistics};

/// Payload that never ends, as an application's.
const UNLIMITED: u64 = u64::MAX >> 2;

/// The sending half of an endpoint. Positions are those of [`crate::tcp::Segment`]; times are picoseconds and never go back.
#[derive(Clone, Debug)]
pub struct Sender {
    config: Config,
    /// The most positions in a segment without SACK blocks.
    mss: u64,
    sack: bool,
    timestamps: bool,
    /// True once the application or the peer opened the connection.
    open: bool,
    /// The position behind what the application offered, and behind the FIN if it closed.
    limit: u64,
    /// The position of the FIN.
    fin: Option<u64>,
    /// The position behind what the peer has room for.
    window_end: u64,
    /// The largest window that the peer ever gave.
    window_max: u64,
    board: Scoreboard,
    congestion: Congestion,
    round_trips: RoundTrips,
    recovery: Recovery,
    /// The position that ends the recovery when it is acknowledged.
    recovery_end: u64,
    /// The lowest unacknowledged segment is to be sent again, whatever the window.
    head_due: bool,
    /// The one retransmission of the last segment of this recovery was made (rule 4 of RFC 6675's NextSeg).
    rescued: bool,
    /// Duplicate acknowledgements since the last that was none.
    duplicates: u32,
    /// Positions by which duplicate acknowledgements widen the window (RFC 6582; without SACK).
    inflation: i64,
    /// The segment that is timed, where there are no timestamps: the position behind it and when it left (RFC 6298, section 3).
    timed: Option<(u64, u64)>,
    timer: Timer,
    /// The position up to which data was acknowledged when the retransmission timer last expired.
    expired_at: Option<u64>,
    syn_expired: bool,
    /// A probe of the peer's window is due.
    probe_due: bool,
    probes: u32,
    /// The peer's window stayed small for long: what fits is sent.
    window_override: bool,
    /// The window, and not the data or the peer, ended the last output.
    blocked_by_congestion: bool,
    last_sent: u64,
    statistics: SenderStatistics,
}

/// The one timer of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Off,
    Retransmission(u64),
    /// The peer's window keeps everything back, and nothing is outstanding.
    Persist(u64),
}

impl Sender {
    /// A sender that is not open.
    pub fn new(config: Config) -> Self {
        let granularity = if config.timestamps {
            config.timestamp_tick_ps
        } else {
            1
        };
        let mut sender = Self {
            mss: 0,
            sack: config.sack,
            timestamps: config.timestamps,
            open: false,
            limit: 1,
            fin: None,
            window_end: 1,
            window_max: 0,
            board: Scoreboard::default(),
            congestion: Congestion::new(&config, u64::from(config.mss)),
            round_trips: RoundTrips::new(
                config.rto_initial_ps,
                config.rto_min_ps,
                config.rto_max_ps,
                granularity,
            ),
            recovery: Recovery::None,
            recovery_end: 0,
            head_due: false,
            rescued: false,
            duplicates: 0,
            inflation: 0,
            timed: None,
            timer: Timer::Off,
            expired_at: None,
            syn_expired: false,
            probe_due: false,
            probes: 0,
            window_override: false,
            blocked_by_congestion: false,
            last_sent: 0,
            statistics: SenderStatistics::default(),
            config,
        };
        sender.negotiate(config.mss, config.sack, config.timestamps);
        sender
    }

    /// Takes what the peer's SYN permits: its maximum segment size, selective acknowledgements, timestamps. Data must not have left yet.
    pub fn negotiate(&mut self, peer_mss: u16, sack: bool, timestamps: bool) {
        self.sack = self.config.sack && sack;
        self.timestamps = self.config.timestamps && timestamps;
        // A peer that announces none, or a tiny one, gets RFC 9293's default.
        let peer_mss = if peer_mss < 64 { 536 } else { peer_mss };
        let options = if self.timestamps {
            TIMESTAMP_OPTION_BYTES
        } else {
            0
        };
        self.mss = u64::from(u32::from(self.config.mss.min(peer_mss)).max(64) - options);
        self.congestion = Congestion::new(&self.config, self.mss);
        if self.syn_expired {
            self.congestion.syn_lost();
        }
    }

    /// Opens the connection: the SYN is the next segment.
    pub fn open(&mut self) {
        self.open = true;
    }

    /// True if the SYN was acknowledged.
    pub fn is_established(&self) -> bool {
        self.board.acknowledged() > 0
    }

    /// Adds bytes to what the application wants sent. Nothing is added once it closed.
    pub fn offer(&mut self, bytes: u64) {
        if self.fin.is_none() {
            self.limit = self.limit.saturating_add(bytes).min(UNLIMITED);
        }
    }

    /// Lets the application want to send for ever, until it closes.
    pub fn offer_unlimited(&mut self) {
        if self.fin.is_none() {
            self.limit = UNLIMITED;
        }
    }

    /// Ends the stream behind what was offered; of an unlimited one, behind what was sent.
    pub fn close(&mut self) {
        if self.fin.is_some() {
            return;
        }
        if self.limit == UNLIMITED {
            self.limit = self.board.sent().max(1);
        }
        self.fin = Some(self.limit);
        self.limit += 1;
    }

    /// The position behind all that was sent: the sequence number of an acknowledgement alone.
    pub fn next_position(&self) -> u64 {
        self.board.sent()
    }

    /// Bytes offered that were not sent yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.fin
            .unwrap_or(self.limit)
            .saturating_sub(self.board.sent().max(1))
    }

    /// Bytes of payload that the peer acknowledged.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.statistics.acknowledged_bytes
    }

    /// True if the peer has acknowledged all that was offered, and the FIN if the application closed.
    pub fn is_done(&self) -> bool {
        self.board.acknowledged() >= self.limit
    }

    /// True if the peer has acknowledged the FIN.
    pub fn is_closed(&self) -> bool {
        self.fin.is_some() && self.is_done()
    }

    /// The time at which [`Sender::expire`] is to be called, if any. It changes with every call; a call that comes too early does nothing.
    pub fn deadline(&self) -> Option<u64> {
        match self.timer {
            Timer::Off => None,
            Timer::Retransmission(at) | Timer::Persist(at) => Some(at),
        }
    }

    /// The bytes of payload in a full segment without SACK blocks.
    pub fn payload_max(&self) -> u32 {
        self.mss as u32
    }

    /// True if both ends permit selective acknowledgements.
    pub fn has_sack(&self) -> bool {
        self.sack
    }

    /// True if both ends use timestamps.
    pub fn has_timestamps(&self) -> bool {
        self.timestamps
    }

    /// The counts so far.
    pub fn statistics(&self) -> &SenderStatistics {
        &self.statistics
    }

    /// The window and what belongs to it, now.
    pub fn sample(&self) -> SenderSample {
        SenderSample {
            window_bytes: self.congestion.window(),
            threshold_bytes: self.congestion.threshold(),
            in_flight_bytes: self.in_flight(),
            round_trip_ps: self.round_trips.smoothed_ps(),
            timeout_ps: self.round_trips.timeout_ps(),
            recovery: self.recovery,
        }
    }

    /// Bytes that count against the congestion window.
    fn in_flight(&self) -> u64 {
        if self.sack || self.recovery == Recovery::Timeout {
            return self.board.pipe();
        }
        let flight = self.board.flight();
        match self.recovery {
            Recovery::Fast => {
                let inflated = flight as i64 - self.inflation;
                inflated.max(0) as u64
            }
            // Limited transmit: each of the first two duplicates lets one segment out.
            _ => flight.saturating_sub(u64::from(self.duplicates.min(2)) * self.mss),
        }
    }
}

#[cfg(test)]
mod tests;
