//! How many of eight words are not above a head: one cache line at a time.
//!
//! Words of a node are atomic, and Rust has no vectors of atomics. The compiler makes of the plain loop a gathering of bits that takes twice the
//! instructions of a binary search. With AVX-512 an instruction compares all eight. It stands in assembly, where it is eight relaxed loads: every aligned
//! word of a vector is loaded whole on x86-64 (Intel SDM 3A, 10.1.1, of words; vectors of more are made of these), and a mix of older and newer words is what relaxed loads
//! may give too.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
use dpb_core::cpu_level::Level;

use super::word::{Word, load};

/// Words of a line.
pub(super) type Line = [Word; 8];

/// A way to compare.
pub(super) trait Search: Copy {
    /// How many of the words are not above `head`, if they do not decrease. At most eight, whatever they do.
    fn not_above(self, words: &Line, head: u64) -> usize;
    /// The same of the last five.
    fn not_above_of_five(self, words: &Line, head: u64) -> usize;
}

/// Any machine: a binary search of four steps without a branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

impl Search for Portable {
    #[inline(always)]
    fn not_above(self, words: &Line, head: u64) -> usize {
        let mut count = 4 * step(words, 3, head);
        count += 2 * step(words, count + 1, head);
        count += step(words, count, head);
        count + step(words, count, head)
    }

    #[inline(always)]
    fn not_above_of_five(self, words: &Line, head: u64) -> usize {
        let mut count = 2 * step(words, 4, head);
        count += step(words, 3 + count, head);
        count += step(words, 3 + count, head);
        count + step(words, 3 + count, head)
    }
}

#[inline(always)]
fn step(words: &Line, at: usize, head: u64) -> usize {
    usize::from(load(&words[at % 8]) <= head)
}

/// AVX-512.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Avx512 {
    /// The proof that this machine has it.
    pub(super) fn detect() -> Option<Self> {
        const LEVEL: Level = Level::of(&["avx512f", "avx512dq"]);
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
        (has && LEVEL.is_allowed()).then_some(Self(()))
    }

    /// A bit for each word that is not above.
    #[inline(always)]
    fn compare(self, words: &Line, head: u64) -> u32 {
        let bits: u32;
        // SAFETY: `self` proves that the machine has the instructions. The words are eight and may be read; they are atomic, so others may
        // write them meanwhile.
        unsafe {
            std::arch::asm!(
                "vpbroadcastq zmm16, {head}",
                "vpcmpnltuq k1, zmm16, zmmword ptr [{words}]",
                "kmovb {bits:e}, k1",
                head = in(reg) head,
                words = in(reg) words,
                bits = lateout(reg) bits,
                out("xmm16") _,
                out("k1") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        bits
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Search for Avx512 {
    #[inline(always)]
    fn not_above(self, words: &Line, head: u64) -> usize {
        // The bits of words in order are ones below zeroes. Above the eighth there are zeroes.
        self.compare(words, head).trailing_ones() as usize
    }

    #[inline(always)]
    fn not_above_of_five(self, words: &Line, head: u64) -> usize {
        (self.compare(words, head) >> 3).trailing_ones() as usize
    }
}

/// The best that this machine has, where a call takes too long for its choice to count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Best {
    /// Any machine.
    Portable(Portable),
    /// AVX-512.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512(Avx512),
}

impl Best {
    pub(super) fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(proof) = Avx512::detect() {
            return Self::Avx512(proof);
        }
        Self::Portable(Portable)
    }
}

impl Search for Best {
    #[inline(always)]
    fn not_above(self, words: &Line, head: u64) -> usize {
        match self {
            Self::Portable(search) => search.not_above(words, head),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Avx512(search) => search.not_above(words, head),
        }
    }

    #[inline(always)]
    fn not_above_of_five(self, words: &Line, head: u64) -> usize {
        match self {
            Self::Portable(search) => search.not_above_of_five(words, head),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Avx512(search) => search.not_above_of_five(words, head),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(search: impl Search) {
        let words = [3, 3, 5, 8, 8, 1 << 63, u64::MAX - 1, u64::MAX].map(Word::new);
        let mut heads: Vec<u64> = words.iter().map(load).collect();
        heads.extend(heads.clone().iter().map(|head| head.wrapping_add(1)));
        heads.extend(heads.clone().iter().map(|head| head.wrapping_sub(1)));
        for head in heads {
            let count = words.iter().filter(|word| load(word) <= head).count();
            assert_eq!(search.not_above(&words, head), count, "{head}");
            let five = words[3..].iter().filter(|word| load(word) <= head).count();
            assert_eq!(search.not_above_of_five(&words, head), five, "{head}");
        }
    }

    #[test]
    fn every_way_counts_alike() {
        check(Portable);
        check(Best::detect());
    }
}
