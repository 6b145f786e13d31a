//! Captures played back: faster or slower, over and over, with other addresses.

use crate::packet::{Ends, Frame, Rewriter, Side};

use super::permutation::Permutation;
use super::stamp::STAMP_BYTES;
use super::{FRAME_BYTES_MIN, Stamp, StampKey, Traffic, TrafficError};

/// How addresses are rewritten, so that each loop of a capture has flows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Not at all.
    Nothing,
    /// The last bits of IPv4 and IPv6 addresses are permuted: equal ones stay equal, so flows stay whole and both directions
    /// meet. Each loop has another permutation. Checksums stay right, or as wrong as they were. Packets that a [`Rewriter`] refuses stay as they are:
    /// those that were cut when they were captured are among them.
    Addresses {
        /// Determines the permutations.
        seed: u64,
        /// Bits of IPv4 addresses that change, from the last: 2 to 32.
        v4_bits: u32,
        /// Bits of IPv6 addresses that change: 2 to 63.
        v6_bits: u32,
    },
}

/// A capture in memory. Packet *i* is the packet *i* modulo their number, so it is a function of *i* as a generator's is.
///
/// A frame is followed by a stamp behind its datagram, as padding of Ethernet lies there: what it carries is as it was captured.
#[derive(Clone, Debug)]
pub struct Replay {
    bytes: Vec<u8>,
    /// Where each packet ends in `bytes`.
    ends: Vec<usize>,
    /// When each was captured, from the first on, in nanoseconds.
    times_ns: Vec<u64>,
    frame_bytes_max: usize,
    rewrite: Option<[Permutation; 2]>,
    /// False if frames are as long as they were.
    has_stamps: bool,
}

impl Replay {
    /// The packets of a capture: when each came, in nanoseconds, and its bytes. Times that go back count as the one before.
    ///
    /// # Errors
    /// [`TrafficError::Capture`] if there is no packet, or one of no bytes; bits to be rewritten that are too few or too many.
    pub fn new<B: AsRef<[u8]>>(
        packets: impl IntoIterator<Item = (u64, B)>,
        rewrite: Rewrite,
    ) -> Result<Self, TrafficError> {
        let rewrite = match rewrite {
            Rewrite::Nothing => None,
            Rewrite::Addresses {
                seed,
                v4_bits,
                v6_bits,
            } => {
                if !(2..=32).contains(&v4_bits) || !(2..=63).contains(&v6_bits) {
                    return Err(TrafficError::Capture(
                        "is rewritten in 2 to 32 bits of IPv4 addresses and 2 to 63 of IPv6",
                    ));
                }
                Some([v4_bits, v6_bits].map(|bits| Permutation::of_bits(bits, seed)))
            }
        };
        let mut replay = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            times_ns: Vec::new(),
            frame_bytes_max: 0,
            rewrite,
            has_stamps: true,
        };
        let (mut first_ns, mut last_ns) = (None, 0);
        for (time_ns, packet) in packets {
            let packet = packet.as_ref();
            if packet.is_empty() {
                return Err(TrafficError::Capture("with a packet of no bytes"));
            }
            let first_ns = *first_ns.get_or_insert(time_ns);
            last_ns = time_ns.saturating_sub(first_ns).max(last_ns);
            replay.times_ns.push(last_ns);
            replay.bytes.extend_from_slice(packet);
            replay.ends.push(replay.bytes.len());
            replay.frame_bytes_max = replay.frame_bytes_max.max(stamped_bytes(packet.len()));
        }
        match replay.ends.is_empty() {
            true => Err(TrafficError::Capture("without a packet")),
            false => Ok(replay),
        }
    }

    /// The same packets without stamps: what is sent is what was captured, byte by byte but for what is rewritten. No trial can count it.
    #[must_use]
    pub fn without_stamps(mut self) -> Self {
        self.has_stamps = false;
        let longest = (0..self.len() as u64).map(|i| self.captured(i).len()).max();
        self.frame_bytes_max = longest.unwrap_or(0);
        self
    }

    /// Packets of the capture.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never: there is a packet at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Packets a second of the capture; `None` if all came at once.
    pub fn packets_per_s(&self) -> Option<f64> {
        let last_ns = *self.times_ns.last()?;
        (last_ns > 0).then(|| (self.len() - 1) as f64 * 1e9 / last_ns as f64)
    }

    /// When packet `i` is due, in nanoseconds from the first, `speed` times as fast as it was captured. Between the last packet of a loop and the
    /// first of the next lies the mean gap.
    pub fn departure_ns(&self, i: u64, speed: f64) -> u64 {
        let len = self.len() as u64;
        let (turn, at) = (i / len, (i % len) as usize);
        let last_ns = self.times_ns[self.len() - 1];
        let gap_ns = last_ns.checked_div(len - 1).unwrap_or(0);
        let captured = turn as f64 * (last_ns + gap_ns) as f64 + self.times_ns[at] as f64;
        (captured / speed) as u64
    }

    /// Packet `i` as it was captured.
    pub fn captured(&self, i: u64) -> &[u8] {
        let at = (i % self.len() as u64) as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }
}

/// Bytes of a frame with its stamp.
fn stamped_bytes(captured: usize) -> usize {
    (captured + STAMP_BYTES).max(FRAME_BYTES_MIN)
}

impl Traffic for Replay {
    fn frame_bytes(&self, i: u64) -> usize {
        let captured = self.captured(i).len();
        match self.has_stamps {
            true => stamped_bytes(captured),
            false => captured,
        }
    }

    fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    fn write(&self, i: u64, departure_ns: u64, key: &StampKey, frame: &mut [u8]) {
        let captured = self.captured(i);
        let (packet, rest) = frame.split_at_mut(captured.len());
        packet.copy_from_slice(captured);
        rest.fill(0);
        if let Some(permutations) = &self.rewrite {
            rewrite(packet, permutations, i / self.len() as u64);
        }
        if !self.has_stamps {
            return;
        }
        let stamp = Stamp {
            number: i,
            departure_ns,
            filler_bytes: 0,
        };
        key.write(stamp, frame);
    }

    fn has_filler(&self, _i: u64, filler: &[u8]) -> bool {
        filler.is_empty()
    }
}

/// Rewrites the addresses of an Ethernet frame. What cannot be rewritten stays as it is.
fn rewrite(frame: &mut [u8], permutations: &[Permutation; 2], turn: u64) -> Option<()> {
    let ends = Frame::read(frame).ok()?.ends()?;
    let mut rewriter = Rewriter::of_frame(frame).ok()?;
    let [v4, v6] = permutations;
    match ends {
        Ends::V4(ends) => {
            for (side, address) in SIDES.into_iter().zip(ends) {
                let new = permuted(address.into(), v4, turn) as u32;
                rewriter.set_address_v4(side, new).ok()?;
            }
        }
        Ends::V6(ends) => {
            for (side, address) in SIDES.into_iter().zip(ends) {
                let low = permuted(address as u64, v6, turn);
                let new = address >> 64 << 64 | u128::from(low);
                rewriter.set_address_v6(side, new).ok()?;
            }
        }
    }
    Some(())
}

const SIDES: [Side; 2] = [Side::Source, Side::Destination];

/// The last bits of an address, permuted.
fn permuted(address: u64, permutation: &Permutation, turn: u64) -> u64 {
    let mask = permutation.len() - 1;
    address & !mask | permutation.apply(address & mask, turn)
}
