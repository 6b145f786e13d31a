//! Loops over words, compiled once for each width of vectors that this machine may have.
//!
//! The loops are plain; what they gain is the compiler's choice of wider vectors: without it x86-64 code moves 16 bytes at a time, and
//! a core with AVX2 reads its first cache at half its speed.
#![allow(unsafe_code)]

/// The widest vectors that may be used, proven by detection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    /// What the target has anyway.
    Plain,
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2(Proof),
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512(Proof),
}

/// Made by [`Width::here`] alone.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof(());

impl Width {
    /// What this CPU has, and `DPB_CPU_LEVEL` does not hide.
    pub(super) fn here() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if dpb_core::has!(is_x86_feature_detected: "avx512f", "avx512vl", "avx512dq") {
                return Self::Avx512(Proof(()));
            }
            if dpb_core::has!(is_x86_feature_detected: "avx2") {
                return Self::Avx2(Proof(()));
            }
        }
        Self::Plain
    }
}

/// The same function for each width, and one that chooses.
macro_rules! for_each_width {
    ($(#[$docs:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$docs])*
        pub(super) fn $name(width: Width, $($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn plain($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($argument: $type),*) $(-> $result)? {
                plain($($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
            fn avx512($($argument: $type),*) $(-> $result)? {
                plain($($argument),*)
            }

            match width {
                Width::Plain => plain($($argument),*),
                #[cfg(target_arch = "x86_64")]
                Width::Avx2(Proof(())) => {
                    // SAFETY: the proof says that this CPU has AVX2.
                    unsafe { avx2($($argument),*) }
                }
                #[cfg(target_arch = "x86_64")]
                Width::Avx512(Proof(())) => {
                    // SAFETY: the proof says that this CPU has these parts of AVX-512.
                    unsafe { avx512($($argument),*) }
                }
            }
        }
    };
}

for_each_width! {
    /// The sum of all words.
    fn sum(words: &[u64]) -> u64 {
        words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

for_each_width! {
    /// Writes `first`, `first + 1` and so on.
    fn count_up(words: &mut [u64], first: u64) {
        for (at, word) in words.iter_mut().enumerate() {
            *word = first.wrapping_add(at as u64);
        }
    }
}

for_each_width! {
    /// Draws a place below `count` for each of `places`, from generators side by side (xorshift, Marsaglia 2003), whose number does not
    /// depend on the width: the same seed gives the same places on each machine.
    fn draw(generators: &mut [u32; 32], count: u64, places: &mut [u32]) {
        for places in places.chunks_exact_mut(32) {
            for (state, place) in generators.iter_mut().zip(places) {
                let mut bits = *state;
                bits ^= bits << 13;
                bits ^= bits >> 17;
                bits ^= bits << 5;
                *state = bits;
                // The part of the range that these bits are of all that 32 bits can be.
                *place = ((u64::from(bits) * count) >> 32) as u32;
            }
        }
    }
}

for_each_width! {
    /// *to* = *from*
    fn copy(to: &mut [f64], from: &[f64]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

for_each_width! {
    /// *to* = *s* *from*
    fn scale(to: &mut [f64], from: &[f64], s: f64) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = s * *from;
        }
    }
}

for_each_width! {
    /// *to* = *left* + *right*
    fn add(to: &mut [f64], left: &[f64], right: &[f64]) {
        for ((to, left), right) in to.iter_mut().zip(left).zip(right) {
            *to = *left + *right;
        }
    }
}

for_each_width! {
    /// *to* = *left* + *s* *right*
    fn triad(to: &mut [f64], left: &[f64], right: &[f64], s: f64) {
        for ((to, left), right) in to.iter_mut().zip(left).zip(right) {
            *to = *left + s * *right;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_draws_and_sums_alike() {
        let (mut plain, mut wide) = ([7; 32], [7; 32]);
        let (mut left, mut right) = ([0; 256], [0; 256]);
        for _ in 0..100 {
            draw(Width::Plain, &mut plain, 12_345, &mut left);
            draw(Width::here(), &mut wide, 12_345, &mut right);
            assert_eq!(left, right);
            assert!(left.iter().all(|&place| place < 12_345));
        }
        let mut words = vec![0; 1003];
        count_up(Width::here(), &mut words, u64::MAX);
        assert_eq!(words[1], 0);
        assert_eq!(sum(Width::here(), &words), sum(Width::Plain, &words));
        assert_eq!(sum(Width::Plain, &words), (1002 * 1001 / 2) - 1);
    }
}
