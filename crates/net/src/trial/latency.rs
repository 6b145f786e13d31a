//! Latencies of a trial, in which a lost packet took for ever.

use dpb_core::measure::latency::Latencies;

/// Times from intended departure to arrival, and the packets that never arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    arrived: Latencies,
    lost: u64,
}

impl Latency {
    /// Counts a packet that arrived.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.arrived.record(ns);
    }

    /// Says how many packets never arrived, in all.
    pub fn set_lost(&mut self, packets: u64) {
        self.lost = packets;
    }

    /// Packets that arrived, and those that did not.
    pub fn count(&self) -> u64 {
        self.arrived.count() + self.lost
    }

    /// The time that `share` (0.99 for p99) of all packets did not exceed. `None` if it is infinite: fewer than that share arrived, or there was no
    /// packet.
    pub fn percentile_ns(&self, share: f64) -> Option<u64> {
        let arrived = self.arrived.count();
        // The rank of the packet that is asked for; the histogram rounds up as well.
        let rank = (share * self.count() as f64).ceil().max(1.0);
        if rank > arrived as f64 {
            return None;
        }
        // In the middle of the rank, so that rounding does not reach the next one.
        Some(self.arrived.percentile_ns((rank - 0.5) / arrived as f64))
    }

    /// The latencies of the packets that arrived, without the lost ones.
    pub fn of_arrived(&self) -> &Latencies {
        &self.arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_took_for_ever() {
        let mut latency = Latency::default();
        assert_eq!(latency.percentile_ns(0.5), None);
        (1..=90).for_each(|ns| latency.record(ns));
        assert_eq!(latency.percentile_ns(0.5), Some(45));
        assert_eq!(latency.percentile_ns(1.0), Some(90));
        latency.set_lost(10);
        // Of a hundred packets the 50th took 50 ns, the 90th 90 ns, and the next ten never came.
        assert_eq!(latency.percentile_ns(0.5), Some(50));
        assert_eq!(latency.percentile_ns(0.9), Some(90));
        assert_eq!(latency.percentile_ns(0.91), None);
        assert_eq!(latency.count(), 100);
    }
}
