//! Random accesses: addresses that do not wait for each other, so that a core has as many on their way as it can.
//!
//! An access includes its address: drawn in blocks by a generator that vectors compute, laid into 1 KiB of the first cache, and read
//! back from there.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use dpb_core::random::SplitMix64;

use super::wide::{self, Width};
use super::{Access, Handled, Walk};
use crate::mapping::Mapping;

/// The largest buffer: beyond so many words drawn numbers would skip whole cache lines.
pub(super) const SIZE_BYTES_MAX: u64 = 8 << (32 + SKIP_MAX);
/// Addresses drawn at once.
const BLOCK: usize = 256;
/// Blocks between two looks at the clock.
const BLOCKS: usize = 16;
/// A drawn number has 32 bits; in buffers of more words only each second, fourth or eighth is accessed.
const SKIP_MAX: u32 = 3;

type Generators = [u32; 32];

pub(super) struct Random {
    access: Access,
    width: Width,
    /// Places among which is drawn.
    places: u64,
    /// A place is the word at this power of two times its number.
    skip: u32,
    generators: Generators,
    /// The generators as they were at the last check.
    checked: Generators,
    blocks: u64,
    sum: u64,
    /// What a word holds beyond its own number.
    salt: u64,
    salts: SplitMix64,
}

impl Random {
    pub(super) fn new(access: Access, words: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        // A generator of this kind stays at zero.
        let generators = [(); 32].map(|()| (random.next_u64() as u32).max(1));
        let is_beyond = |skip: &u32| words as u64 >> skip > 1 << 32;
        let skip = (0..SKIP_MAX)
            .find(|skip| !is_beyond(skip))
            .unwrap_or(SKIP_MAX);
        Self {
            access,
            width: Width::here(),
            places: words as u64 >> skip,
            skip,
            generators,
            checked: generators,
            blocks: 0,
            sum: 0,
            salt: random.next_u64(),
            salts: random,
        }
    }

    /// Draws again what was drawn since the last check.
    fn replay(&self, mut each: impl FnMut(usize) -> Result<(), String>) -> Result<(), String> {
        let mut generators = self.checked;
        let mut places = [0; BLOCK];
        for _ in 0..self.blocks {
            wide::draw(self.width, &mut generators, self.places, &mut places);
            for place in places {
                each((place as usize) << self.skip)?;
            }
        }
        Ok(())
    }

    fn check_reads(&self) -> Result<(), String> {
        let mut expected = 0u64;
        self.replay(|at| {
            expected = expected.wrapping_add((at as u64).wrapping_add(self.salt));
            Ok(())
        })?;
        match expected == self.sum {
            true => Ok(()),
            false => Err(format!(
                "random reads gave the sum {:#x}, and their addresses give {expected:#x}",
                self.sum
            )),
        }
    }

    /// Visited words hold what was written, others what they held before.
    fn check_writes(&mut self, words: &mut [u64]) -> Result<(), String> {
        let (written, seen) = (self.salt, self.salts.next_u64());
        self.replay(|at| {
            let is = words[at].wrapping_sub(at as u64);
            if is != written && is != seen {
                return Err(format!("random writes did not write word {at}"));
            }
            words[at] = (at as u64).wrapping_add(seen);
            Ok(())
        })?;
        for (at, word) in words.iter_mut().enumerate() {
            let is = word.wrapping_sub(at as u64);
            if is != seen && is != UNTOUCHED {
                return Err(format!(
                    "random writes wrote word {at}, whose address was not drawn"
                ));
            }
            *word = (at as u64).wrapping_add(UNTOUCHED);
        }
        self.salt = self.salts.next_u64();
        Ok(())
    }
}

/// What a word that nobody wrote holds beyond its own number.
const UNTOUCHED: u64 = 0x5eed_0000_0000;

impl Walk for Random {
    fn lay(&mut self, memory: &mut Mapping, _: &AtomicBool) {
        let first = match self.access {
            Access::Read => self.salt,
            Access::Write => UNTOUCHED,
        };
        wide::count_up(self.width, memory.words_mut(), first);
    }

    fn go(&mut self, memory: &mut Mapping) -> Handled {
        let words = memory.words_mut();
        let mut places = [0; BLOCK];
        for _ in 0..BLOCKS {
            wide::draw(self.width, &mut self.generators, self.places, &mut places);
            match self.access {
                Access::Read => self.sum = self.sum.wrapping_add(read(words, &places, self.skip)),
                Access::Write => write(words, &places, self.skip, self.salt),
            }
        }
        self.blocks += BLOCKS as u64;
        Handled::words((BLOCKS * BLOCK) as u64)
    }

    fn check(&mut self, memory: &mut Mapping) -> Result<(), String> {
        match self.access {
            Access::Read => self.check_reads(),
            Access::Write => self.check_writes(memory.words_mut()),
        }?;
        (self.blocks, self.sum, self.checked) = (0, 0, self.generators);
        Ok(())
    }
}

/// Four sums, so that none waits for the last. Not part of the wide code: a gather is no faster than loads, and on some cores slower.
#[inline(never)]
fn read(words: &[u64], places: &[u32; BLOCK], skip: u32) -> u64 {
    let mut sums = [0u64; 4];
    for places in places.chunks_exact(4) {
        for (sum, &place) in sums.iter_mut().zip(places) {
            *sum = sum.wrapping_add(words[(place as usize) << skip]);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

#[inline(never)]
fn write(words: &mut [u64], places: &[u32; BLOCK], skip: u32, salt: u64) {
    for &place in places {
        let at = (place as usize) << skip;
        words[at] = (at as u64).wrapping_add(salt);
    }
    black_box(words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Pages;

    fn laid(access: Access) -> (Random, Mapping) {
        let mut random = Random::new(access, 512, 7);
        let mut memory = Mapping::new(4096, Pages::Normal).expect("mapped");
        random.lay(&mut memory, &AtomicBool::new(false));
        (random, memory)
    }

    #[test]
    fn all_words_are_accessed_about_as_often() {
        let (mut random, mut memory) = laid(Access::Read);
        let mut counts = [0u32; 512];
        for _ in 0..16 {
            random.go(&mut memory);
        }
        let counted = random.replay(|at| {
            counts[at] += 1;
            Ok(())
        });
        counted.expect("nothing refused");
        // 128 each; the standard deviation is 11.
        assert!(
            counts.iter().all(|&count| (60..200).contains(&count)),
            "{counts:?}"
        );
        random.check(&mut memory).expect("right");
    }

    #[test]
    fn a_word_that_is_wrong_is_found() {
        let (mut random, mut memory) = laid(Access::Read);
        random.go(&mut memory);
        random.check(&mut memory).expect("right");
        memory.words_mut()[100] ^= 1;
        random.go(&mut memory);
        assert!(random.check(&mut memory).is_err());
    }

    #[test]
    fn a_write_that_is_lost_or_stray_is_found() {
        for is_lost in [true, false] {
            let (mut random, mut memory) = laid(Access::Write);
            random.go(&mut memory);
            random.check(&mut memory).expect("right");
            random.go(&mut memory);
            random.check(&mut memory).expect("right again");
            random.go(&mut memory);
            let words = memory.words_mut();
            if is_lost {
                words[3] = 3 + UNTOUCHED;
            } else {
                // Some address of 4096 drawn among 512 words is certain to be drawn: only a value can be stray.
                words[3] ^= 1 << 40;
            }
            assert!(random.check(&mut memory).is_err(), "lost: {is_lost}");
        }
        // A word that was not drawn.
        let (mut random, mut memory) = laid(Access::Write);
        memory.words_mut()[9] = 9 + random.salt;
        random.blocks = 0;
        assert!(random.check(&mut memory).is_err());
    }

    #[test]
    fn large_buffers_are_reached_to_their_end() {
        let random = Random::new(Access::Read, 1 << 34, 7);
        assert_eq!((random.places, random.skip), (1 << 32, 2));
        let random = Random::new(Access::Read, 1000, 7);
        assert_eq!((random.places, random.skip), (1000, 0));
    }
}
