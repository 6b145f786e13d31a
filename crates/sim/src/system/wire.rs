//! The sending end of a wire: a queue, a rate, framing, and faults.

use dpb_core::random::SplitMix64;

use super::frame::{FRAME_BYTES_MIN, Frame};
use super::journey::Leg;
use super::ledger::Reason;
use super::trace::Direction;
use super::watch::Watch;

/// The parameters of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct WireModel {
    /// Bits a second.
    pub rate_bps: u64,
    /// Bytes that each frame takes on the wire besides its own: preamble, start, frame check sequence and gap are 24 bytes of Ethernet (IEEE 802.3).
    pub overhead_bytes: u64,
    /// Bytes of frames that may wait or be on their way onto the wire; a frame that does not fit is dropped.
    pub queue_bytes: u64,
    /// Faults of the wire.
    pub faults: WireFaults,
}

/// Faults of a wire, each with a probability for a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WireFaults {
    /// The frame is lost.
    pub loss: f64,
    /// One bit of the frame is flipped, and no frame check sequence finds it: so memory of a switch fails.
    pub flip: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
}

impl Default for WireModel {
    /// Ten gigabits a second with Ethernet's framing, a queue of 512 KiB, no faults.
    fn default() -> Self {
        Self {
            rate_bps: 10_000_000_000,
            overhead_bytes: 24,
            queue_bytes: 512 << 10,
            faults: WireFaults::default(),
        }
    }
}

impl WireModel {
    /// The time that a frame of so many bytes takes on the wire, in picoseconds, rounded up. Frames below the least length are padded.
    #[inline]
    pub fn time_ps(&self, frame_bytes: usize) -> u64 {
        let bytes = frame_bytes.max(FRAME_BYTES_MIN) as u64 + self.overhead_bytes;
        // Of a frame of up to 2 MB this stays below 2^64.
        (bytes * 8_000_000_000_000).div_ceil(self.rate_bps)
    }
}

/// Counters of one direction of a link. `offered` = `sent` + `dropped`, and `arrived` = `sent` - `lost` + `duplicated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireUsage {
    /// Frames that came to the queue.
    pub offered: u64,
    /// Frames that did not fit into the queue.
    pub dropped: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// The bytes of these frames, without framing.
    pub sent_bytes: u64,
    /// Frames that faults lost.
    pub lost: u64,
    /// Frames of which faults flipped a bit.
    pub flipped: u64,
    /// Frames that faults doubled.
    pub duplicated: u64,
    /// Time for which bits were on the wire, in picoseconds.
    pub busy_ps: u64,
    /// The most bytes that were in the queue.
    pub queued_bytes_max: u64,
    /// The time that all frames waited for the wire together, in picoseconds.
    pub waited_ps: u64,
    /// The most frames that waited, without the one on the wire.
    pub waiting_max: usize,
}

/// The sending end of a wire.
#[derive(Clone, Debug)]
pub struct Wire {
    model: WireModel,
    random: SplitMix64,
    free_ps: u64,
    queued_bytes: u64,
    /// The times at which queued frames will have left, and their bytes.
    leaving: std::collections::VecDeque<(u64, u64)>,
    /// The first of them that will have left before the last that was sent is ready, and their bytes.
    early: usize,
    early_bytes: u64,
    usage: WireUsage,
    watch: Watch,
}

/// The fate of a frame that came to a wire.
#[derive(Debug)]
pub enum Departure {
    /// It is on its way: the last bit leaves at this time. Faults may have lost the frame, or doubled it.
    Sent {
        /// The time at which the last bit leaves.
        end_ps: u64,
        /// The frames that arrive.
        frames: [Option<Box<Frame>>; 2],
    },
    /// The queue had no room.
    Dropped,
}

impl Wire {
    /// A wire whose faults the seed determines.
    pub fn new(model: WireModel, seed: u64) -> Self {
        Self {
            model,
            random: SplitMix64::new(seed),
            free_ps: 0,
            queued_bytes: 0,
            leaving: std::collections::VecDeque::new(),
            early: 0,
            early_bytes: 0,
            usage: WireUsage::default(),
            watch: Watch::default(),
        }
    }

    /// Lets this observer see what the wire does.
    pub fn watch_by(&mut self, watch: Watch) {
        self.watch = watch;
    }

    /// Its observer.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Its parameters.
    pub fn model(&self) -> &WireModel {
        &self.model
    }

    /// The counters so far.
    pub fn usage(&self) -> WireUsage {
        self.usage
    }

    /// The bytes in the queue now: frames of which the last bit has not left, also those that are not ready yet.
    #[inline]
    pub fn queued_bytes(&mut self, now_ps: u64) -> u64 {
        while let Some(&(end_ps, bytes)) = self.leaving.front() {
            if end_ps > now_ps {
                break;
            }
            self.leaving.pop_front();
            self.queued_bytes -= bytes;
            if self.early > 0 {
                self.early -= 1;
                self.early_bytes -= bytes;
            }
        }
        self.queued_bytes
    }

    /// The number of frames, and their bytes, that are in the queue now and will not have left by `ready_ps`.
    fn queued_until(&mut self, now_ps: u64, ready_ps: u64) -> (usize, u64) {
        let queued_bytes = self.queued_bytes(now_ps);
        while let Some(&(end_ps, bytes)) = self.leaving.get(self.early)
            && end_ps <= ready_ps
        {
            self.early += 1;
            self.early_bytes += bytes;
        }
        (
            self.leaving.len() - self.early,
            queued_bytes - self.early_bytes,
        )
    }

    /// The bytes that were in the queue when it was last looked at.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// The time at which the wire is free for the next frame.
    pub fn free_ps(&self) -> u64 {
        self.free_ps
    }

    /// Sends a frame that comes to the queue now. Its time in the queue and on the wire is counted; the way to the other end is the channel's.
    #[inline]
    pub fn send(&mut self, now_ps: u64, frame: Box<Frame>) -> Departure {
        self.send_ready(now_ps, now_ps, frame)
    }

    /// Sends a frame that is there now, and comes to the queue at `ready_ps`. Frames come to the queue in the order in which they are sent.
    #[inline]
    pub(crate) fn send_ready(
        &mut self,
        now_ps: u64,
        ready_ps: u64,
        mut frame: Box<Frame>,
    ) -> Departure {
        self.usage.offered += 1;
        let bytes = frame.bytes() as u64;
        let (before, queued_bytes) = self.queued_until(now_ps, ready_ps);
        let queued_bytes = queued_bytes + bytes;
        if queued_bytes > self.model.queue_bytes {
            self.usage.dropped += 1;
            self.watch.dropped(0, &frame, Reason::QueueFull, ready_ps);
            return Departure::Dropped;
        }
        self.queued_bytes += bytes;
        self.usage.queued_bytes_max = self.usage.queued_bytes_max.max(queued_bytes);
        let begin_ps = self.free_ps.max(ready_ps);
        if begin_ps > ready_ps {
            self.usage.waiting_max = self.usage.waiting_max.max(before);
            self.usage.waited_ps += begin_ps - ready_ps;
            self.watch.waits(0, ready_ps);
            self.watch.goes(0, begin_ps);
        }
        let time_ps = self.model.time_ps(frame.bytes());
        let end_ps = begin_ps + time_ps;
        self.free_ps = end_ps;
        self.leaving.push_back((end_ps, bytes));
        self.usage.sent += 1;
        self.usage.sent_bytes += bytes;
        self.usage.busy_ps += time_ps;
        self.watch.pass(&mut frame, 0, Leg::WireQueue, begin_ps);
        self.watch.pass(&mut frame, 0, Leg::Wire, end_ps);
        self.watch.capture(Direction::Out, end_ps, &frame);
        Departure::Sent {
            end_ps,
            frames: self.spoil(frame),
        }
    }

    fn spoil(&mut self, mut frame: Box<Frame>) -> [Option<Box<Frame>>; 2] {
        let faults = self.model.faults;
        if faults == WireFaults::default() {
            return [Some(frame), None];
        }
        // A number for each fault, whatever the others did: so one fault more does not move the others.
        let [is_lost, is_flipped, is_doubled] = [faults.loss, faults.flip, faults.duplicate]
            .map(|probability| self.random.unit() <= probability);
        let bit = self.random.below(frame.bytes() * 8);
        if is_lost {
            self.usage.lost += 1;
            let at_ps = frame.journey.counted_ps();
            self.watch.dropped(0, &frame, Reason::Lost, at_ps);
            return [None, None];
        }
        if is_flipped {
            self.usage.flipped += 1;
            frame.flip(bit);
        }
        let again = is_doubled.then(|| frame.clone());
        self.usage.duplicated += u64::from(is_doubled);
        self.watch.copied(&frame, u64::from(is_doubled));
        [Some(frame), again]
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Stream;
    use super::*;

    fn frame(bytes: u32, now_ps: u64) -> Box<Frame> {
        Frame::new(&[0; 14], Stream { seed: 1, offset: 0 }, bytes - 14, now_ps)
    }

    fn end_ps(departure: &Departure) -> Option<u64> {
        match departure {
            Departure::Sent { end_ps, .. } => Some(*end_ps),
            Departure::Dropped => None,
        }
    }

    #[test]
    fn frames_take_the_time_of_their_bits() {
        let model = WireModel::default();
        // 64 bytes with the check sequence are 67.2 ns at ten gigabits, 1518 are 1230.4 ns: the figures of RFC 2544's rates.
        assert_eq!(model.time_ps(60), 67_200);
        assert_eq!(model.time_ps(1), 67_200);
        assert_eq!(model.time_ps(1514), 1_230_400);
    }

    #[test]
    fn a_full_queue_drops() {
        let model = WireModel {
            queue_bytes: 2000,
            ..WireModel::default()
        };
        let mut wire = Wire::new(model, 0);
        assert_eq!(end_ps(&wire.send(0, frame(1000, 0))), Some(819_200));
        assert_eq!(end_ps(&wire.send(0, frame(1000, 0))), Some(1_638_400));
        assert_eq!(end_ps(&wire.send(819_199, frame(60, 819_199))), None);
        assert_eq!(
            end_ps(&wire.send(819_200, frame(1000, 819_200))),
            Some(2_457_600)
        );
        let usage = wire.usage();
        assert_eq!((usage.offered, usage.sent, usage.dropped), (4, 3, 1));
        assert_eq!(usage.queued_bytes_max, 2000);
        assert_eq!(wire.queued_bytes(2_457_600), 0);
    }

    #[test]
    fn faults_are_as_many_as_planned() {
        let faults = WireFaults {
            loss: 0.1,
            flip: 0.2,
            duplicate: 0.05,
        };
        let model = WireModel {
            faults,
            queue_bytes: u64::MAX,
            ..WireModel::default()
        };
        let mut wire = Wire::new(model, 3);
        let whole = frame(100, 0);
        let mut expected = Vec::new();
        whole.write(&mut expected);
        let (mut arrived, mut changed) = (0u64, 0u64);
        for _ in 0..20_000 {
            if let Departure::Sent { frames, .. } = wire.send(0, frame(100, 0)) {
                let mut bytes = Vec::new();
                for frame in frames.iter().flatten() {
                    bytes.clear();
                    frame.write(&mut bytes);
                    arrived += 1;
                }
                changed += u64::from(frames[0].is_some() && bytes != expected);
            }
        }
        let usage = wire.usage();
        assert_eq!(arrived, usage.sent - usage.lost + usage.duplicated);
        assert_eq!(changed, usage.flipped);
        // Four standard deviations of a binomial distribution.
        let near = |count: u64, of: f64, p: f64| {
            let deviation = (of * p * (1.0 - p)).sqrt();
            assert!(
                (count as f64 - of * p).abs() < 4.0 * deviation,
                "{count} of {of}, {p}"
            );
        };
        near(usage.lost, 20_000.0, 0.1);
        near(usage.flipped, 18_000.0, 0.2);
        near(usage.duplicated, 18_000.0, 0.05);
    }
}
