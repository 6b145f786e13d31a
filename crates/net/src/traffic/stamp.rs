//! What each packet says of itself: its number, when it was due, and a check word. The last 18 bytes of a frame.
//!
//! | bits | what |
//! |---|---|
//! | 0–39 | number of the packet in its trial |
//! | 40–85 | intended departure, in nanoseconds since the trial's start: up to 19 hours |
//! | 86–99 | bytes of payload and padding in front of the stamp that are known by the packet's number |
//! | 100–111 | mark of the trial, which the key gives |
//! | 112–143 | check word over the rest, keyed |
//!
//! The number is a little-endian one of 144 bits. It fits behind the headers of a UDP packet over IPv4 of the shortest frame, and its place is counted from
//! the end of the frame, so that headers may be rewritten, put in front or taken off under way. Frames must not be trimmed or
//! padded.
//!
//! The key belongs to a trial. A packet that is left over from the one before is *foreign*, as is one whose mark another program has written by
//! chance: one in 4096. A packet with the mark and a wrong check word, or with another payload than its number has, is *corrupted*.

use dpb_core::random::SplitMix64;

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 18;

const NUMBER_BITS: u32 = 40;
const DEPARTURE_BITS: u32 = 46;
const FILLER_BITS: u32 = 14;
const MARK_BITS: u32 = 12;
/// The first bits of the fields behind the number.
const DEPARTURE: u32 = NUMBER_BITS;
const FILLER: u32 = DEPARTURE + DEPARTURE_BITS;
const MARK: u32 = FILLER + FILLER_BITS;

/// Packets that a trial can number.
pub const NUMBERS: u64 = 1 << NUMBER_BITS;
/// Departures lie before this, in nanoseconds.
pub const DEPARTURES_NS: u64 = 1 << DEPARTURE_BITS;

/// What stamps of one trial are made and read with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampKey {
    words: [u64; 3],
    mark: u64,
}

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The packet's number.
    pub number: u64,
    /// When it was due, in nanoseconds since the trial's start.
    pub departure_ns: u64,
    /// Bytes right in front of the stamp that the packet's number determines: generated payload, or the message of a conversation and its padding.
    pub filler_bytes: usize,
}

/// What the end of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A stamp of this trial.
    Stamp(Stamp),
    /// Its mark is this trial's, its check word is not.
    Corrupted,
    /// No stamp of this trial.
    Foreign,
}

impl StampKey {
    /// The key of a trial.
    pub fn new(seed: u64, trial: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ trial.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self {
            words: std::array::from_fn(|_| random.next_u64() | 1),
            mark: random.next_u64() >> (64 - MARK_BITS),
        }
    }

    /// Keyed 32 bits of both words.
    #[inline(always)]
    fn check(&self, low: u64, high: u64) -> u64 {
        let [first, second, third] = self.words;
        folded(folded(low ^ first, high ^ second) ^ low, third) >> 32
    }

    /// The stamp's 18 bytes: eight, eight and two, as little-endian numbers.
    #[inline(always)]
    pub(super) fn words(&self, stamp: Stamp) -> (u64, u64, u16) {
        debug_assert!(stamp.number < NUMBERS && stamp.departure_ns < DEPARTURES_NS);
        let low = stamp.number | stamp.departure_ns << DEPARTURE;
        let high = stamp.departure_ns >> (64 - DEPARTURE)
            | (stamp.filler_bytes as u64) << (FILLER - 64)
            | self.mark << (MARK - 64);
        let check = self.check(low, high);
        (low, high | check << 48, (check >> 16) as u16)
    }

    /// Writes a stamp into the end of a frame.
    ///
    /// # Panics
    /// If the frame is shorter than a stamp.
    #[inline]
    pub fn write(&self, stamp: Stamp, frame: &mut [u8]) {
        put(self.words(stamp), frame);
    }

    /// Reads the stamp in the end of a frame.
    #[inline]
    pub fn read(&self, frame: &[u8]) -> Read {
        let Some(bytes) = frame.last_chunk::<STAMP_BYTES>() else {
            return Read::Foreign;
        };
        let word = |at: usize| {
            let bytes: [u8; 8] = std::array::from_fn(|i| bytes[at + i]);
            u64::from_le_bytes(bytes)
        };
        let (low, second) = (word(0), word(8));
        let last = u16::from_le_bytes([bytes[16], bytes[17]]);
        let high = second & ((1 << 48) - 1);
        if high >> (MARK - 64) != self.mark {
            return Read::Foreign;
        }
        let check = second >> 48 | u64::from(last) << 16;
        if check != self.check(low, high) {
            return Read::Corrupted;
        }
        let departure = low >> DEPARTURE | high << (64 - DEPARTURE);
        Read::Stamp(Stamp {
            number: low & (NUMBERS - 1),
            departure_ns: departure & (DEPARTURES_NS - 1),
            filler_bytes: (high >> (FILLER - 64) & ((1 << FILLER_BITS) - 1)) as usize,
        })
    }
}

/// Writes a stamp's words into the end of a frame.
#[inline(always)]
pub(super) fn put((low, high, last): (u64, u64, u16), frame: &mut [u8]) {
    let at = frame.len() - STAMP_BYTES;
    let end = &mut frame[at..];
    end[..8].copy_from_slice(&low.to_le_bytes());
    end[8..16].copy_from_slice(&high.to_le_bytes());
    end[16..].copy_from_slice(&last.to_le_bytes());
}

/// Both halves of a product, one over the other.
#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            seed: u64, trial: u64, number in 0..NUMBERS, departure_ns in 0..DEPARTURES_NS, filler_bytes in 0usize..1 << 14, len in 18usize..100,
        ) {
            let key = StampKey::new(seed, trial);
            let mut frame = vec![0xa5; len];
            let stamp = Stamp { number, departure_ns, filler_bytes };
            key.write(stamp, &mut frame);
            prop_assert_eq!(key.read(&frame), Read::Stamp(stamp));
            prop_assert!(frame[..len - STAMP_BYTES].iter().all(|byte| *byte == 0xa5));
        }

        /// A changed bit is noticed, wherever it is.
        #[test]
        fn a_changed_bit_is_noticed(seed: u64, number in 0..NUMBERS, departure_ns in 0..DEPARTURES_NS, bit in 0usize..144) {
            let key = StampKey::new(seed, 0);
            let mut frame = [0; 60];
            key.write(Stamp { number, departure_ns, filler_bytes: 0 }, &mut frame);
            frame[60 - STAMP_BYTES + bit / 8] ^= 1 << (bit % 8);
            let right = if (100..112).contains(&bit) { Read::Foreign } else { Read::Corrupted };
            prop_assert_eq!(key.read(&frame), right);
        }
    }

    #[test]
    fn other_trials_and_other_programs_are_foreign() {
        let mut frame = [0; 60];
        let stamp = Stamp {
            number: 5,
            departure_ns: 9,
            filler_bytes: 0,
        };
        StampKey::new(1, 1).write(stamp, &mut frame);
        let others = (2..1002).map(|trial| StampKey::new(1, trial).read(&frame));
        let foreign = others.filter(|read| *read == Read::Foreign).count();
        assert!(foreign > 990, "{foreign} of 1000");
        assert_eq!(StampKey::new(1, 1).read(&[0; 17]), Read::Foreign);
        // Random bytes have the mark one time in 4096, and hardly ever the check word.
        let key = StampKey::new(7, 7);
        let mut random = SplitMix64::new(1);
        let (mut corrupted, n) = (0, 400_000);
        for _ in 0..n {
            let bytes: Vec<u8> = (0..3)
                .flat_map(|_| random.next_u64().to_le_bytes())
                .collect();
            match key.read(&bytes) {
                Read::Foreign => {}
                Read::Corrupted => corrupted += 1,
                Read::Stamp(stamp) => panic!("{stamp:?}"),
            }
        }
        assert!((50..160).contains(&corrupted), "{corrupted} of {n}");
    }
}
