//! How many of eight words are not above a head: one cache line at a time.
//!
//! Words of a node are atomic, and Rust has no vectors of atomics. The compiler makes of the plain loop a gathering of bits that takes twice the
//! instructions of a binary search. With AVX-512 an instruction compares all eight, with AVX2 two, with NEON four. They stand in assembly, where a
//! vector is read as relaxed loads read its words: each aligned word whole, in any order. Intel and AMD promise it of vectors of 16 bytes that are
//! aligned (Intel SDM 3A, 10.1.1, for CPUs with AVX); of wider ones, and of NEON's, CPUs do so in practice. A mix of older and newer words is no
//! matter, as relaxed loads may give one too.
#![allow(unsafe_code)]

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
        dpb_core::has!(is_x86_feature_detected: "avx512f", "avx512dq").then_some(Self(()))
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

/// AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Avx2 {
    /// The proof that this machine has it.
    pub(super) fn detect() -> Option<Self> {
        dpb_core::has!(is_x86_feature_detected: "avx2").then_some(Self(()))
    }

    /// A bit for each word that is above.
    #[inline(always)]
    fn compare(self, words: &Line, head: u64) -> u32 {
        /// AVX2 compares signed numbers: with this bit turned, they are in the order of unsigned ones.
        const SIGN: u64 = 1 << 63;
        let (low, high): (u32, u32);
        // SAFETY: `self` proves that the machine has the instructions. The words are eight and may be read; they are atomic, so others may
        // write them meanwhile.
        unsafe {
            std::arch::asm!(
                "vmovq {a}, {head}",
                "vmovq {s}, {sign}",
                "vpbroadcastq {a:y}, {a}",
                "vpbroadcastq {s:y}, {s}",
                "vpxor {b:y}, {s:y}, ymmword ptr [{words}]",
                "vpxor {s:y}, {s:y}, ymmword ptr [{words} + 32]",
                "vpcmpgtq {b:y}, {b:y}, {a:y}",
                "vpcmpgtq {s:y}, {s:y}, {a:y}",
                "vmovmskpd {low:e}, {b:y}",
                "vmovmskpd {high:e}, {s:y}",
                head = in(reg) head ^ SIGN,
                sign = in(reg) SIGN,
                words = in(reg) words,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                s = out(xmm_reg) _,
                low = lateout(reg) low,
                high = lateout(reg) high,
                options(nostack, readonly, preserves_flags),
            );
        }
        low | high << 4
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Search for Avx2 {
    #[inline(always)]
    fn not_above(self, words: &Line, head: u64) -> usize {
        (self.compare(words, head) | 1 << 8).trailing_zeros() as usize
    }

    #[inline(always)]
    fn not_above_of_five(self, words: &Line, head: u64) -> usize {
        ((self.compare(words, head) | 1 << 8) >> 3).trailing_zeros() as usize
    }
}

/// NEON, which every aarch64 CPU has. A vector holds two words.
#[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Neon;

#[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
impl Search for Neon {
    #[inline(always)]
    fn not_above(self, words: &Line, head: u64) -> usize {
        let count: u64;
        // SAFETY: NEON is part of aarch64. The words are eight and may be read; they are atomic, so others may write them meanwhile.
        unsafe {
            std::arch::asm!(
                "dup {h:v}.2d, {head}",
                "ldp {a:q}, {b:q}, [{words}]",
                "ldp {c:q}, {d:q}, [{words}, #32]",
                // A lane that is not above becomes -1.
                "cmhs {a:v}.2d, {h:v}.2d, {a:v}.2d",
                "cmhs {b:v}.2d, {h:v}.2d, {b:v}.2d",
                "cmhs {c:v}.2d, {h:v}.2d, {c:v}.2d",
                "cmhs {d:v}.2d, {h:v}.2d, {d:v}.2d",
                "add {a:v}.2d, {a:v}.2d, {b:v}.2d",
                "add {c:v}.2d, {c:v}.2d, {d:v}.2d",
                "add {a:v}.2d, {a:v}.2d, {c:v}.2d",
                "addp {a:d}, {a:v}.2d",
                "fmov {count}, {a:d}",
                head = in(reg) head,
                words = in(reg) words,
                h = out(vreg) _,
                a = out(vreg) _,
                b = out(vreg) _,
                c = out(vreg) _,
                d = out(vreg) _,
                count = lateout(reg) count,
                options(nostack, readonly, preserves_flags),
            );
        }
        count.wrapping_neg() as usize
    }

    #[inline(always)]
    fn not_above_of_five(self, words: &Line, head: u64) -> usize {
        let count: u64;
        // SAFETY: as above; the five words are the last of eight.
        unsafe {
            std::arch::asm!(
                "dup {h:v}.2d, {head}",
                // The upper lane becomes zero, which is above no head.
                "ldr {a:d}, [{words}, #24]",
                "ldp {b:q}, {c:q}, [{words}, #32]",
                "cmhs {a:v}.2d, {h:v}.2d, {a:v}.2d",
                "cmhs {b:v}.2d, {h:v}.2d, {b:v}.2d",
                "cmhs {c:v}.2d, {h:v}.2d, {c:v}.2d",
                "add {a:v}.2d, {a:v}.2d, {b:v}.2d",
                "add {a:v}.2d, {a:v}.2d, {c:v}.2d",
                "addp {a:d}, {a:v}.2d",
                "fmov {count}, {a:d}",
                head = in(reg) head,
                words = in(reg) words,
                h = out(vreg) _,
                a = out(vreg) _,
                b = out(vreg) _,
                c = out(vreg) _,
                count = lateout(reg) count,
                options(nostack, readonly, preserves_flags),
            );
        }
        count.wrapping_neg() as usize - 1
    }
}

/// The best that this machine has, where a call takes too long for its choice to count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Best {
    /// Any machine.
    Portable(Portable),
    /// AVX2.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2(Avx2),
    /// AVX-512.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512(Avx512),
    /// NEON.
    #[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
    Neon(Neon),
}

/// Calls with the search that was chosen, each call compiled for one.
macro_rules! with_search {
    ($best:expr, $search:ident => $call:expr) => {
        match $best {
            Best::Portable($search) => $call,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Best::Avx2($search) => $call,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Best::Avx512($search) => $call,
            #[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
            Best::Neon($search) => $call,
        }
    };
}
pub(super) use with_search;

impl Best {
    pub(super) fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(proof) = Avx512::detect() {
            return Self::Avx512(proof);
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(proof) = Avx2::detect() {
            return Self::Avx2(proof);
        }
        #[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
        return Self::Neon(Neon);
        #[cfg(not(all(target_arch = "aarch64", target_endian = "little", not(miri))))]
        Self::Portable(Portable)
    }
}

impl Search for Best {
    #[inline(always)]
    fn not_above(self, words: &Line, head: u64) -> usize {
        with_search!(self, search => search.not_above(words, head))
    }

    #[inline(always)]
    fn not_above_of_five(self, words: &Line, head: u64) -> usize {
        with_search!(self, search => search.not_above_of_five(words, head))
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;

    use super::*;

    fn check(search: impl Search, numbers: [u64; 8]) {
        let words = numbers.map(Word::new);
        let mut heads = numbers.to_vec();
        heads.extend(numbers.map(|head| head.wrapping_add(1)));
        heads.extend(numbers.map(|head| head.wrapping_sub(1)));
        for head in heads {
            let count = numbers.iter().filter(|word| **word <= head).count();
            assert_eq!(
                search.not_above(&words, head),
                count,
                "{head} in {numbers:?}"
            );
            assert_eq!(
                Portable.not_above(&words, head),
                count,
                "{head} in {numbers:?}"
            );
            let five = numbers[3..].iter().filter(|word| **word <= head).count();
            assert_eq!(
                search.not_above_of_five(&words, head),
                five,
                "{head} in {numbers:?}"
            );
            assert_eq!(
                Portable.not_above_of_five(&words, head),
                five,
                "{head} in {numbers:?}"
            );
        }
    }

    fn check_all(search: impl Search) {
        check(search, [3, 3, 5, 8, 8, 1 << 63, u64::MAX - 1, u64::MAX]);
        check(search, [0; 8]);
        check(search, [u64::MAX; 8]);
        let mut random = SplitMix64::new(1);
        for round in 0..if cfg!(miri) { 5 } else { 1000 } {
            let mut numbers: [u64; 8] = std::array::from_fn(|_| random.next_u64() >> (round % 64));
            numbers.sort_unstable();
            check(search, numbers);
        }
    }

    /// At each level that `DPB_CPU_LEVEL` leaves, the best is another one.
    #[test]
    fn every_way_counts_as_the_portable_one() {
        check_all(Portable);
        check_all(Best::detect());
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(search) = Avx2::detect() {
            check_all(search);
        }
    }

    /// Words out of order, as a reader may see them while a writer changes the node, give any count that a line has.
    #[test]
    fn words_out_of_order_give_a_count_in_bounds() {
        let words = [9, 0, 7, u64::MAX, 1, 5, 0, 2].map(Word::new);
        for head in [0, 1, 5, 8, u64::MAX] {
            assert!(Best::detect().not_above(&words, head) <= 8);
            assert!(Best::detect().not_above_of_five(&words, head) <= 5);
        }
    }
}
