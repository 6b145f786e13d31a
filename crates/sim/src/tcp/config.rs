//! What one end of a connection is configured with.

use crate::tcp::segment::{IPV4_HEADER_BYTES, TCP_HEADER_BYTES};

/// Picoseconds in a microsecond.
pub const MICROSECOND_PS: u64 = 1_000_000;
/// Picoseconds in a millisecond.
pub const MILLISECOND_PS: u64 = 1_000_000_000;
/// Picoseconds in a second.
pub const SECOND_PS: u64 = 1_000_000_000_000;

/// The law by which the congestion window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681: one segment a round trip, and half at a loss.
    NewReno,
    /// RFC 9438: a cubic function of the time since the last loss, and 0.7 at a loss.
    Cubic,
}

/// The amount by which an acknowledgement moves NewReno's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Each acknowledgement counts alike, whatever it covers (RFC 5681, equation 3): a receiver that delays acknowledgements slows growth.
    Acknowledgements,
    /// The bytes that are acknowledged count (RFC 3465), as in Linux.
    Bytes,
}

/// The application that takes bytes out of the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It reads whatever is in order, at once.
    AtOnce,
    /// It reads so many bytes a second.
    Rate {
        /// Bytes a second.
        bytes_per_second: u64,
    },
    /// It reads when `read` is called.
    OnCall,
}

/// The parameters of one end. The defaults are Linux's, but for its slow start (see `slow_start_segments`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The maximum segment size that a SYN announces: payload and options, in bytes. 1460 on Ethernet.
    pub mss: u16,
    /// The law of the congestion window.
    pub algorithm: Algorithm,
    /// The amount by which an acknowledgement moves NewReno's window.
    pub growth: Growth,
    /// True if selective acknowledgements are offered (RFC 2018). Without them, loss is repaired by RFC 6582.
    pub sack: bool,
    /// True if timestamps are offered (RFC 7323).
    pub timestamps: bool,
    /// The tick of the timestamps' clock, in picoseconds.
    pub timestamp_tick_ps: u64,
    /// The first window, in segments (RFC 6928: ten).
    pub initial_window_segments: u32,
    /// The most that one acknowledgement adds in slow start, in segments: the limit L of RFC 3465. RFC 5681 says one; two doubles the window
    /// each round trip although the receiver delays acknowledgements. Linux has no limit.
    pub slow_start_segments: u32,
    /// True if the first slow start ends when round trips get longer: HyStart++ (RFC 9406). Its limit L of 8 segments then replaces
    /// `slow_start_segments`.
    pub hystart: bool,
    /// True if the window falls back to the first one after a pause longer than the retransmission timer (RFC 5681, section 4.1).
    pub restart_after_idle: bool,
    /// The retransmission timer before there is a round trip time, in picoseconds (RFC 6298: one second).
    pub rto_initial_ps: u64,
    /// The retransmission timer's minimum, in picoseconds. RFC 6298 says one second, Linux 200 ms.
    pub rto_min_ps: u64,
    /// The retransmission timer's maximum, in picoseconds.
    pub rto_max_ps: u64,
    /// The longest that an acknowledgement waits for more data, in picoseconds. Linux 40 ms.
    pub delayed_ack_ps: u64,
    /// The number of full segments after which an acknowledgement is sent at once: 2 (RFC 5681, section 4.2); 1 delays none.
    pub ack_every: u32,
    /// The number of segments at a connection's start that are acknowledged at once. Linux 16.
    pub quick_acks: u32,
    /// The receive buffer, in bytes, below 1 GiB.
    pub receive_buffer_bytes: u32,
    /// The application that empties the receive buffer.
    pub reading: Reading,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            algorithm: Algorithm::Cubic,
            growth: Growth::Bytes,
            sack: true,
            timestamps: true,
            timestamp_tick_ps: MICROSECOND_PS,
            initial_window_segments: 10,
            slow_start_segments: 2,
            hystart: false,
            restart_after_idle: true,
            rto_initial_ps: SECOND_PS,
            rto_min_ps: 200 * MILLISECOND_PS,
            rto_max_ps: 120 * SECOND_PS,
            delayed_ack_ps: 40 * MILLISECOND_PS,
            ack_every: 2,
            quick_acks: 16,
            receive_buffer_bytes: 6 << 20,
            reading: Reading::AtOnce,
        }
    }
}

impl Config {
    /// The defaults on links whose IP packets have at most `mtu` bytes (at least 100).
    pub fn for_mtu(mtu: u16) -> Self {
        Self {
            mss: mtu.max(100) - (IPV4_HEADER_BYTES + TCP_HEADER_BYTES) as u16,
            ..Self::default()
        }
    }
}
