//! Counts of what the two halves of an endpoint did.

/// Counts of a sender since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SenderStatistics {
    /// Segments that take a position, with retransmissions.
    pub segments: u64,
    /// Bytes of payload, with retransmissions.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Bytes of payload sent again.
    pub retransmitted_bytes: u64,
    /// Losses found by duplicate or selective acknowledgements: the number of times that the window was lowered so.
    pub fast_recoveries: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Expiries of the retransmission timer for data that had been acknowledged up to the same position at the expiry before: the doublings.
    pub repeated_timeouts: u64,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u64,
    /// Acknowledgements received.
    pub acks: u64,
    /// Bytes of payload that are acknowledged.
    pub acknowledged_bytes: u64,
    /// Samples of the round trip time.
    pub round_trip_samples: u64,
    /// Probes of a window that was too small.
    pub window_probes: u64,
}

/// Counts of a receiver since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReceiverStatistics {
    /// Segments with payload or FIN.
    pub segments: u64,
    /// Bytes delivered in order, each once.
    pub delivered_bytes: u64,
    /// Segments that arrived before one that they follow.
    pub out_of_order_segments: u64,
    /// Segments of which nothing was new.
    pub duplicate_segments: u64,
    /// Bytes of payload that had arrived before.
    pub duplicate_bytes: u64,
    /// Bytes of payload beyond the window, thrown away.
    pub beyond_window_bytes: u64,
    /// Acknowledgements sent, on data or alone.
    pub acks: u64,
}

/// One moment of a sender, for a curve of its window over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderSample {
    /// The congestion window, in bytes.
    pub window_bytes: u64,
    /// The slow start threshold, in bytes; `u64::MAX` before the first loss.
    pub threshold_bytes: u64,
    /// Bytes thought to be in the network.
    pub in_flight_bytes: u64,
    /// The smoothed round trip time, in picoseconds.
    pub round_trip_ps: Option<u64>,
    /// The retransmission timer with backoff, in picoseconds.
    pub timeout_ps: u64,
    /// The part of loss recovery that the sender is in.
    pub recovery: Recovery,
}

/// The part of loss recovery that a sender is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// No loss is being repaired.
    None,
    /// A loss that duplicate or selective acknowledgements showed is being repaired.
    Fast,
    /// The retransmission timer expired; all that was outstanding then is sent again as needed.
    Timeout,
}
