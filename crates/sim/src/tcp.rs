//! TCP endpoints as state machines: a segment or the time goes in, segments come out.
//!
//! An [`Endpoint`] has no clock, no thread and no payload. Whoever drives it gives it the virtual time in picoseconds with each call, and
//! carries its [`Segment`]s: payload is a length at a position, and the bytes follow from the position where someone needs them. After a
//! connection's queues have grown to their size, nothing allocates.
//!
//! The driver's duties are four:
//!
//! 1. give each segment that arrives to [`Endpoint::receive`];
//! 2. after every call, take segments from [`Endpoint::next_segment`] until it gives none;
//! 3. call [`Endpoint::expire`] at [`Endpoint::deadline`], which each call may move; a call that comes too early does nothing;
//! 4. play the application: [`Endpoint::offer`], [`Endpoint::delivered_bytes`], [`Endpoint::close`].
//!
//! ```
//! use dpb_sim::tcp::{Config, Endpoint};
//!
//! let mut client = Endpoint::connect(Config::for_mtu(1500));
//! let mut server = Endpoint::listen(Config::for_mtu(1500));
//! client.offer(100_000);
//! client.close();
//! let mut now = 0;
//! while server.delivered_bytes() < 100_000 {
//!     // A network without loss: 10 microseconds there, 10 back.
//!     now += 10_000_000;
//!     while let Some(segment) = client.next_segment(now) {
//!         server.receive(now, &segment);
//!     }
//!     now += 10_000_000;
//!     while let Some(segment) = server.next_segment(now) {
//!         client.receive(now, &segment);
//!     }
//! }
//! assert!(server.peer_has_closed());
//! assert_eq!(client.sender().statistics().retransmissions, 0);
//! ```
//!
//! | part | source |
//! |---|---|
//! | states of a connection, windows, silly windows | RFC 9293 |
//! | retransmission timer | RFC 6298; timestamps: RFC 7323 |
//! | slow start, congestion avoidance, fast retransmit | RFC 5681; byte growth: RFC 3465; first window: RFC 6928; limited transmit: RFC 3042 |
//! | loss recovery | RFC 6675 with selective acknowledgements (RFC 2018), else RFC 6582 |
//! | CUBIC; HyStart++ | RFC 9438; RFC 9406 |
//!
//! Not modelled: urgent data, resets, simultaneous opening, TIME-WAIT, Nagle's algorithm, pacing, explicit congestion notification, tail loss
//! probes and RACK (RFC 8985). The last two make Linux repair a loss at a flow's end, or of a retransmission, in a round trip where this
//! endpoint waits for its timer.

mod config;
mod congestion;
mod endpoint;
mod ranges;
mod receiver;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod statistics;

pub use config::{Algorithm, Config, Growth, MICROSECOND_PS, MILLISECOND_PS, Reading, SECOND_PS};
pub use endpoint::Endpoint;
pub(crate) use ranges::Ranges;
pub use receiver::Receiver;
pub use segment::{
    Flags, IPV4_HEADER_BYTES, SACK_BLOCKS_MAX, Segment, SequenceNumbers, TCP_HEADER_BYTES,
    TIMESTAMP_OPTION_BYTES, Timestamps, sack_option_bytes,
};
pub use sender::Sender;
pub use statistics::{ReceiverStatistics, Recovery, SenderSample, SenderStatistics};
