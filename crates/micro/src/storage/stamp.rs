//! What each unit of a file says of itself.
//!
//! ```text
//! 0   the file's tag, from its seed
//! 8   the offset of the unit in the file
//! 16  the generation: 0 as laid out, then the number of the write
//! 24  a checksum of all of the above and of the rest
//! 32  the rest, random bytes that no device compresses
//! ```
//!
//! Little-endian. A block is one unit or several. The checksum of the rest is kept with each buffer, so that a write costs its stamps, not
//! its bytes.

use std::fmt;

use dpb_core::random::SplitMix64;

/// Bytes of a unit, where all blocks are multiples of it.
const UNIT: u64 = 4096;
/// Bytes of a unit where some are not: a sector.
const SECTOR: u64 = 512;
/// Bytes before the rest.
const HEAD: usize = 32;

/// The bytes of a unit of a file that is accessed in blocks of these sizes.
pub fn unit_bytes(blocks: impl IntoIterator<Item = u64>) -> u64 {
    match blocks.into_iter().all(|block| block.is_multiple_of(UNIT)) {
        true => UNIT,
        false => SECTOR,
    }
}

/// How the units of one file are stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) unit: usize,
    tag: u64,
}

/// A unit that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Where it should lie.
    offset: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Foreign,
    Elsewhere(u64),
    Generation { is: u64, expected: u64 },
    Damaged,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the block at byte {} ", self.offset)?;
        match self.what {
            What::Foreign => write!(f, "is not one that dpb wrote with this seed"),
            What::Elsewhere(offset) => write!(f, "is the one that belongs to byte {offset}"),
            What::Generation { is, expected } => {
                write!(f, "is of write {is}, and must be of write {expected}")
            }
            What::Damaged => write!(f, "is damaged: its checksum is another"),
        }
    }
}

impl Stamps {
    pub(super) fn new(seed: u64, unit: u64) -> Self {
        Self {
            unit: unit as usize,
            tag: SplitMix64::new(seed ^ 0x6470_625f_696f).next_u64(),
        }
    }

    /// Fills a buffer with random bytes; the checksums of its units' rests.
    pub(super) fn fill(&self, buffer: &mut [u8], random: &mut SplitMix64) -> Vec<u64> {
        for word in buffer.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        let units = buffer.chunks_exact(self.unit);
        units.map(|unit| checksum(&unit[HEAD..])).collect()
    }

    /// Makes a filled buffer the block that lies at `offset`.
    pub(super) fn stamp(&self, block: &mut [u8], rests: &[u64], offset: u64, generation: u64) {
        let units = block.chunks_exact_mut(self.unit).zip(rests);
        for ((unit, rest), offset) in units.zip((offset..).step_by(self.unit)) {
            let head = [
                self.tag,
                offset,
                generation,
                self.seal(*rest, offset, generation),
            ];
            for (place, word) in unit.chunks_exact_mut(8).zip(head) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// A look at the first unit of a block: whose it is and where it belongs. The rest is not read.
    pub(super) fn look(&self, block: &[u8], offset: u64) -> Result<(), Fault> {
        self.place(block, offset)
    }

    /// Checks all of a block; `generation` if it is known.
    pub(super) fn check(
        &self,
        block: &[u8],
        offset: u64,
        generation: Option<u64>,
    ) -> Result<(), Fault> {
        for (unit, offset) in block
            .chunks_exact(self.unit)
            .zip((offset..).step_by(self.unit))
        {
            self.place(unit, offset)?;
            let is = word(unit, 2);
            let what = if word(unit, 3) != self.seal(checksum(&unit[HEAD..]), offset, is) {
                What::Damaged
            } else if let Some(expected) = generation.filter(|&expected| expected != is) {
                What::Generation { is, expected }
            } else {
                continue;
            };
            return Err(Fault { offset, what });
        }
        Ok(())
    }

    fn place(&self, unit: &[u8], offset: u64) -> Result<(), Fault> {
        let what = if word(unit, 0) != self.tag {
            What::Foreign
        } else if word(unit, 1) != offset {
            What::Elsewhere(word(unit, 1))
        } else {
            return Ok(());
        };
        Err(Fault { offset, what })
    }

    fn seal(&self, rest: u64, offset: u64, generation: u64) -> u64 {
        [self.tag, offset, generation].into_iter().fold(rest, mix)
    }
}

fn word(unit: &[u8], at: usize) -> u64 {
    let bytes = unit[at * 8..at * 8 + 8].try_into();
    u64::from_le_bytes(bytes.expect("eight bytes"))
}

/// A step that loses nothing: of two states, or of two words, that differ, the results differ.
fn mix(state: u64, word: u64) -> u64 {
    (state ^ word.wrapping_mul(0x9fb2_1c65_1e98_df25))
        .rotate_left(29)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Four sums side by side, for speed. A change of one word always shows, any other change once in 2^64 does not. What does
/// not fill 32 bytes at the end is left out.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mut lanes = [1u64, 2, 3, 4];
    for words in bytes.chunks_exact(32) {
        for (at, lane) in lanes.iter_mut().enumerate() {
            *lane = mix(*lane, word(words, at));
        }
    }
    lanes.into_iter().fold(0, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_right_in_its_own_place_and_generation_alone() {
        for unit in [SECTOR, UNIT] {
            let stamps = Stamps::new(7, unit);
            let mut block = vec![0; 8192];
            let rests = stamps.fill(&mut block, &mut SplitMix64::new(1));
            stamps.stamp(&mut block, &rests, 16_384, 9);
            assert_eq!(stamps.check(&block, 16_384, Some(9)), Ok(()));
            assert_eq!(stamps.check(&block, 16_384, None), Ok(()));
            let fault = |block: &[u8], offset, generation| {
                let checked = stamps.check(block, offset, generation);
                checked.expect_err("a fault").to_string()
            };
            assert!(fault(&block, 0, None).contains("belongs to byte 16384"));
            assert!(fault(&block, 16_384, Some(8)).contains("write 9"));
            assert!(Stamps::new(8, unit).look(&block, 16_384).is_err());
            // Every byte counts, each bit of it.
            for at in (0..8192).step_by(131).chain([8191]) {
                block[at] ^= 1 << (at % 8);
                assert!(stamps.check(&block, 16_384, Some(9)).is_err(), "byte {at}");
                block[at] ^= 1 << (at % 8);
            }
            assert_eq!(stamps.check(&block, 16_384, Some(9)), Ok(()));
            // Half of an older write.
            let mut torn = block.clone();
            stamps.stamp(&mut torn, &rests, 16_384, 10);
            torn[4096..].copy_from_slice(&block[4096..]);
            assert!(fault(&torn, 16_384, Some(10)).contains("byte 20480"));
        }
        assert_eq!(unit_bytes([8192, 1 << 20]), UNIT);
        assert_eq!(unit_bytes([8192, 512]), SECTOR);
    }
}
