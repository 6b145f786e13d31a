//! Lengths of packets: fixed, from a range, or a mix whose variant is named.
//!
//! "IMIX" is not one mix. The variants differ in their sizes, in their shares, and in whether sizes are those of IP packets, of frames, or of
//! frames with their check sequence. A mix here has the name of its variant, and all sizes are those of frames **without** the check
//! sequence, as [`PacketPort`](dpb_core::PacketPort) has them. [`Layer`](super::Layer) converts rates.

use super::TrafficError;
use super::draw::{below, draw};

/// Bytes of the frame check sequence, which no buffer holds.
pub const FCS_BYTES: usize = 4;
/// The shortest frame that Ethernet carries, without its check sequence.
pub const FRAME_BYTES_MIN: usize = 60;
/// The longest frame that is generated: RFC 6985's largest size.
pub const FRAME_BYTES_MAX: usize = 16_000 - FCS_BYTES;

/// A mix of sizes with shares, drawn independently for each packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    name: String,
    /// Frame bytes, and packets of this size among [`Mix::period`].
    parts: Vec<(usize, u32)>,
    /// The size of each packet of a period.
    period: Vec<u16>,
}

/// Lengths of frames, without the check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// From the first to the last, each as often.
    Uniform {
        /// The shortest.
        min: usize,
        /// The longest.
        max: usize,
    },
    /// A mix, drawn for each packet.
    Mix(Mix),
    /// Sizes in a given order, over and over: RFC 6985's sequences.
    Sequence {
        /// What the order is called: of a genome, its letters.
        name: String,
        /// The sizes of one turn.
        turn: Vec<usize>,
    },
}

impl Mix {
    /// A mix of frames with these lengths, each with its number of packets.
    ///
    /// # Errors
    /// [`TrafficError::Mix`] if there is no packet in it, or more than 65,536; [`TrafficError::Size`].
    pub fn new(name: &str, parts: &[(usize, u32)]) -> Result<Self, TrafficError> {
        let packets: u64 = parts.iter().map(|(_, count)| u64::from(*count)).sum();
        if packets == 0 || packets > 1 << 16 {
            return Err(TrafficError::Mix {
                name: name.to_owned(),
                packets,
            });
        }
        let mut period = Vec::new();
        for (bytes, count) in parts {
            check(*bytes)?;
            period.extend(std::iter::repeat_n(*bytes as u16, *count as usize));
        }
        Ok(Self {
            name: name.to_owned(),
            parts: parts.to_vec(),
            period,
        })
    }

    /// FD.io CSIT's: 28 of 64, 16 of 570 and 4 of 1518 bytes with check sequence, 353.8 on average.
    pub fn csit() -> Self {
        Self::known("imix-csit", &[(60, 28), (566, 16), (1514, 4)])
    }

    /// The table of older CSIT reports: 28 of 64, 20 of 590 and 4 of 1518 bytes with check sequence.
    pub fn csit_older() -> Self {
        Self::known("imix-csit-older", &[(60, 28), (586, 20), (1514, 4)])
    }

    /// TRex's `imix.py`: 28 of 60, 16 of 590 and 4 of 1514 bytes without check sequence, 361.8 with it on average.
    pub fn trex() -> Self {
        Self::known("imix-trex", &[(60, 28), (590, 16), (1514, 4)])
    }

    /// The "simple IMIX" of IP packets: 40, 576 and 1500 bytes at 7 : 4 : 1, 340.3 on average. Frames are 14 bytes longer, and the
    /// smallest is padded to Ethernet's shortest.
    pub fn ip_7_4_1() -> Self {
        Self::known("imix-ip-7-4-1", &[(60, 7), (590, 4), (1514, 1)])
    }

    /// All that have a name.
    pub fn all() -> [Self; 4] {
        [
            Self::csit(),
            Self::csit_older(),
            Self::trex(),
            Self::ip_7_4_1(),
        ]
    }

    fn known(name: &str, parts: &[(usize, u32)]) -> Self {
        Self::new(name, parts).expect("sizes of frames")
    }

    /// The variant's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frame bytes, and the number of packets of this size in a period.
    pub fn parts(&self) -> &[(usize, u32)] {
        &self.parts
    }

    /// Packets after which each part has its share exactly, on average.
    pub fn period(&self) -> usize {
        self.period.len()
    }
}

impl Sizes {
    /// A genome of RFC 6985: a letter for each frame, in this order, over and over. Sizes of the letters are with check sequence: a 64, b 128, c
    /// 256, d 512, e 1024, f 1280, g 1518, h 2112, i 9000, j 16000, z the longest frame that the path takes, which is `mtu_frame_bytes`
    /// (without check sequence).
    ///
    /// # Errors
    /// [`TrafficError::Genome`] for another letter or for none.
    pub fn genome(letters: &str, mtu_frame_bytes: usize) -> Result<Self, TrafficError> {
        let wrong = || TrafficError::Genome(letters.to_owned());
        let with_fcs = |letter| {
            Some(match letter {
                'a' => 64,
                'b' => 128,
                'c' => 256,
                'd' => 512,
                'e' => 1024,
                'f' => 1280,
                'g' => 1518,
                'h' => 2112,
                'i' => 9000,
                'j' => 16_000,
                'z' => mtu_frame_bytes + FCS_BYTES,
                _ => return None,
            })
        };
        let turn: Option<Vec<usize>> = letters
            .chars()
            .map(|letter| with_fcs(letter).map(|bytes| bytes - FCS_BYTES))
            .collect();
        let turn = turn.filter(|turn| !turn.is_empty()).ok_or_else(wrong)?;
        let sizes = Self::Sequence {
            name: format!("imix-genome-{letters}"),
            turn,
        };
        sizes.check()?;
        Ok(sizes)
    }

    /// The same, with shorter frames made longer: what carries more headers than a mix was made for. The name says so.
    #[must_use]
    pub fn at_least(self, bytes: usize) -> Self {
        if self.min() >= bytes {
            return self;
        }
        // More than any frame has is refused later, in whatever form.
        let bytes = bytes.min(usize::from(u16::MAX));
        let longer = |size: usize| size.max(bytes);
        match self {
            Self::Fixed(size) => Self::Fixed(longer(size)),
            Self::Uniform { min, max } => Self::Uniform {
                min: longer(min),
                max: longer(max),
            },
            Self::Mix(mix) => Self::Mix(Mix {
                name: format!("{}-from-{bytes}", mix.name),
                parts: mix
                    .parts
                    .iter()
                    .map(|(size, count)| (longer(*size), *count))
                    .collect(),
                period: mix
                    .period
                    .iter()
                    .map(|size| longer(usize::from(*size)) as u16)
                    .collect(),
            }),
            Self::Sequence { name, turn } => Self::Sequence {
                name: format!("{name}-from-{bytes}"),
                turn: turn.into_iter().map(longer).collect(),
            },
        }
    }

    /// The length of frame `i`.
    #[inline(always)]
    pub(super) fn frame_bytes(&self, key: u64, i: u64) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform { min, max } => {
                min + below(draw(key, i), (max - min + 1) as u64) as usize
            }
            Self::Mix(mix) => {
                usize::from(mix.period[below(draw(key, i), mix.period.len() as u64) as usize])
            }
            Self::Sequence { turn, .. } => turn[(i % turn.len() as u64) as usize],
        }
    }

    /// The shortest.
    pub fn min(&self) -> usize {
        self.range().0
    }

    /// The longest.
    pub fn max(&self) -> usize {
        self.range().1
    }

    fn range(&self) -> (usize, usize) {
        let of = |sizes: &mut dyn Iterator<Item = usize>| {
            sizes.fold((usize::MAX, 0), |(min, max), bytes| {
                (min.min(bytes), max.max(bytes))
            })
        };
        match self {
            Self::Fixed(bytes) => (*bytes, *bytes),
            Self::Uniform { min, max } => (*min, *max),
            Self::Mix(mix) => of(&mut mix.period.iter().map(|bytes| usize::from(*bytes))),
            Self::Sequence { turn, .. } => of(&mut turn.iter().copied()),
        }
    }

    /// The average, without check sequence.
    pub fn mean(&self) -> f64 {
        let of = |sum: usize, count: usize| sum as f64 / count as f64;
        match self {
            Self::Fixed(bytes) => *bytes as f64,
            Self::Uniform { min, max } => of(min + max, 2),
            Self::Mix(mix) => of(
                mix.period.iter().map(|bytes| usize::from(*bytes)).sum(),
                mix.period.len(),
            ),
            Self::Sequence { turn, .. } => of(turn.iter().sum(), turn.len()),
        }
    }

    /// What it is called where figures are shown: `60`, `60-1514`, `imix-csit`.
    pub fn name(&self) -> String {
        match self {
            Self::Fixed(bytes) => bytes.to_string(),
            Self::Uniform { min, max } => format!("{min}-{max}"),
            Self::Mix(mix) => mix.name.clone(),
            Self::Sequence { name, .. } => name.clone(),
        }
    }

    pub(super) fn check(&self) -> Result<(), TrafficError> {
        let (min, max) = self.range();
        if min > max {
            return Err(TrafficError::Size(min));
        }
        check(min)?;
        check(max)
    }
}

fn check(bytes: usize) -> Result<(), TrafficError> {
    match (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&bytes) {
        true => Ok(()),
        false => Err(TrafficError::Size(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The averages that CSIT, TRex and the IP-level mix are quoted with.
    #[test]
    fn averages_are_those_of_the_variants() {
        let with_fcs = |mix: Mix| Sizes::Mix(mix).mean() + FCS_BYTES as f64;
        assert!((with_fcs(Mix::csit()) - 353.83).abs() < 0.01);
        assert!((with_fcs(Mix::trex()) - 361.83).abs() < 0.01);
        let ip = Mix::ip_7_4_1();
        let packets = [(40, 7), (576, 4), (1500, 1)];
        let mean = packets.iter().map(|(bytes, n)| bytes * n).sum::<usize>() as f64 / 12.0;
        assert!((mean - 340.33).abs() < 0.01);
        for ((frame, frames), (packet, count)) in ip.parts().iter().zip(packets) {
            assert_eq!((*frame, *frames), ((packet + 14).max(60), count as u32));
        }
    }

    /// Shares of 48,000 packets (chi-square, 2 degrees of freedom; 13.8 is passed by one in a thousand).
    #[test]
    fn shares_of_a_mix_are_kept() {
        for (seed, mix) in (1..).zip(Mix::all()) {
            let sizes = Sizes::Mix(mix.clone());
            let n = 48_000u64;
            let mut counts = std::collections::BTreeMap::new();
            for i in 0..n {
                *counts.entry(sizes.frame_bytes(seed, i)).or_insert(0u32) += 1;
            }
            let chi: f64 = (mix.parts().iter())
                .map(|(bytes, packets)| {
                    let expected = n as f64 * f64::from(*packets) / mix.period() as f64;
                    (f64::from(counts[bytes]) - expected).powi(2) / expected
                })
                .sum();
            assert!(chi < 13.8, "{}: {chi}", mix.name());
        }
    }

    #[test]
    fn letters_of_a_genome_come_in_order() {
        let sizes = Sizes::genome("aag", 1514).expect("letters");
        let three: Vec<_> = (0..4).map(|i| sizes.frame_bytes(1, i)).collect();
        assert_eq!(three, [60, 60, 1514, 60]);
        assert_eq!(sizes.name(), "imix-genome-aag");
        assert_eq!((sizes.min(), sizes.max()), (60, 1514));
        assert!(Sizes::genome("ax", 1514).is_err() && Sizes::genome("", 1514).is_err());
        assert_eq!(Sizes::genome("z", 1514).expect("mtu").max(), 1514);
    }

    #[test]
    fn short_frames_are_made_longer_by_name() {
        let sizes = Sizes::Mix(Mix::csit()).at_least(72);
        assert_eq!(
            (sizes.min(), sizes.name()),
            (72, "imix-csit-from-72".to_owned())
        );
        assert_eq!(Sizes::Mix(Mix::csit()).at_least(60).name(), "imix-csit");
        assert_eq!(Sizes::Fixed(60).at_least(64), Sizes::Fixed(64));
        // Longer than two bytes can say.
        assert!(Sizes::Mix(Mix::csit()).at_least(70_000).check().is_err());
    }

    #[test]
    fn a_range_reaches_both_ends() {
        let sizes = Sizes::Uniform { min: 60, max: 63 };
        let mut seen = [0; 4];
        (0..4000).for_each(|i| seen[sizes.frame_bytes(2, i) - 60] += 1);
        assert!(
            seen.iter().all(|count| (850..1150).contains(count)),
            "{seen:?}"
        );
        for wrong in [
            Sizes::Fixed(59),
            Sizes::Fixed(16_000),
            Sizes::Uniform { min: 100, max: 60 },
        ] {
            assert!(wrong.check().is_err());
        }
        assert!(Mix::new("none", &[]).is_err() && Mix::new("short", &[(40, 1)]).is_err());
    }
}
