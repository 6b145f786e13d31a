//! Rates in bits, and of what bits.

use super::sizes::FCS_BYTES;

/// Preamble, start of frame and the gap between frames, in bytes: what a wire carries beside a frame (IEEE 802.3).
pub const GAP_BYTES: usize = 20;

/// What the bits of a rate are bits of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Frames as buffers hold them: without check sequence and gap.
    Buffer,
    /// Frames with their check sequence, without the gap: "layer 2", as interfaces count.
    Frame,
    /// All that the wire carries: "layer 1", of which a link's rate is the whole.
    Wire,
}

impl Layer {
    /// Bytes for each frame beside those that its buffer holds.
    pub fn overhead_bytes(self) -> usize {
        match self {
            Self::Buffer => 0,
            Self::Frame => FCS_BYTES,
            Self::Wire => FCS_BYTES + GAP_BYTES,
        }
    }

    /// Bits a second of packets whose buffers hold so many bytes on average.
    pub fn bits_per_s(self, packets_per_s: f64, frame_bytes: f64) -> f64 {
        packets_per_s * 8.0 * (frame_bytes + self.overhead_bytes() as f64)
    }

    /// Packets a second that make so many bits a second.
    pub fn packets_per_s(self, bits_per_s: f64, frame_bytes: f64) -> f64 {
        bits_per_s / (8.0 * (frame_bytes + self.overhead_bytes() as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2544's table for 10 Mb/s Ethernet (appendix B), and the same for 10 Gb/s.
    #[test]
    fn maximum_frame_rates() {
        let table = [
            (64, 14_880),
            (128, 8_445),
            (256, 4_528),
            (512, 2_349),
            (768, 1_586),
            (1024, 1_197),
            (1280, 961),
            (1518, 812),
        ];
        for (with_fcs, frames) in table {
            let rate = Layer::Wire.packets_per_s(1e7, f64::from(with_fcs - 4));
            assert_eq!(rate as u32, frames, "{with_fcs}");
        }
        let rate = Layer::Wire.packets_per_s(1e10, 60.0);
        assert!((rate - 14_880_952.4).abs() < 0.1);
        assert!((Layer::Frame.bits_per_s(rate, 60.0) - 7.619e9).abs() < 1e6);
        assert!((Layer::Buffer.bits_per_s(1e6, 60.0) - 4.8e8).abs() < 1.0);
    }
}
