//! x86-64 with AVX-512: sixteen messages of 32-bit words, or eight of 64-bit ones, a word of each in a vector.
#![allow(unsafe_code)]

pub(crate) mod sha2;

use std::arch::x86_64::*;

/// `W` words of 16 messages' states: the first words of all, the second words of all, and so on.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct States32<const W: usize>(pub(crate) [[u32; 16]; W]);

/// `W` words of 8 messages' states.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct States64<const W: usize>(pub(crate) [[u64; 8]; W]);

/// The parts that the two have in common: one state in and out, and vectors in and out.
macro_rules! states {
    ($states:ident, $word:ty) => {
        impl<const W: usize> $states<W> {
            pub(crate) fn fill(state: &[$word; W]) -> Self {
                Self(state.map(|word| [word; _]))
            }

            pub(crate) fn set(&mut self, lane: usize, state: &[$word; W]) {
                for (words, word) in self.0.iter_mut().zip(state) {
                    words[lane] = *word;
                }
            }

            pub(crate) fn state(&self, lane: usize) -> [$word; W] {
                std::array::from_fn(|i| self.0[i][lane])
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            pub(crate) fn load(&self) -> [__m512i; W] {
                let mut vectors = [_mm512_setzero_si512(); W];
                for (vector, words) in vectors.iter_mut().zip(&self.0) {
                    // SAFETY: 64 bytes.
                    *vector = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
                }
                vectors
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            pub(crate) fn store(&mut self, vectors: &[__m512i; W]) {
                for (words, vector) in self.0.iter_mut().zip(vectors) {
                    // SAFETY: 64 bytes.
                    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), *vector) }
                }
            }
        }
    };
}

states!(States32, u32);
states!(States64, u64);

/// Word `i` of the blocks in vector `i`. Of each message, the block that `at` says.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn words_32(blocks: &[&[[u8; 64]]; 16], at: usize) -> [__m512i; 16] {
    // After two steps, vector 4 g + w has word w of each four words, of the blocks 4 g to 4 g + 3.
    let mut fours = [_mm512_setzero_si512(); 16];
    for group in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| &blocks[4 * group + i][at]);
        let (a, b, c, d) = (load(a), load(b), load(c), load(d));
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        fours[4 * group] = _mm512_unpacklo_epi64(ab, cd);
        fours[4 * group + 1] = _mm512_unpackhi_epi64(ab, cd);
        fours[4 * group + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
        fours[4 * group + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
    }
    let mut words = [_mm512_setzero_si512(); 16];
    for w in 0..4 {
        let column = quarters([fours[w], fours[4 + w], fours[8 + w], fours[12 + w]]);
        for quarter in 0..4 {
            words[4 * quarter + w] = column[quarter];
        }
    }
    words
}

/// Word `i` of the blocks in vector `i`. Of each message, the block that `at` says.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn words_64(blocks: &[&[[u8; 128]]; 8], at: usize) -> [__m512i; 16] {
    let mut words = [_mm512_setzero_si512(); 16];
    for half in 0..2 {
        let (mut even, mut odd) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
        for (i, pair) in blocks.as_chunks::<2>().0.iter().enumerate() {
            let [a, b] = pair.map(|of| &of[at].as_chunks::<64>().0[half]);
            let (a, b) = (load(a), load(b));
            even[i] = _mm512_unpacklo_epi64(a, b);
            odd[i] = _mm512_unpackhi_epi64(a, b);
        }
        let (even, odd) = (quarters(even), quarters(odd));
        for quarter in 0..4 {
            words[8 * half + 2 * quarter] = even[quarter];
            words[8 * half + 2 * quarter + 1] = odd[quarter];
        }
    }
    words
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Turns the bytes of each word of 32 bits around.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn swap_32(vector: __m512i) -> __m512i {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    _mm512_shuffle_epi8(vector, _mm512_broadcast_i32x4(order))
}

/// Turns the bytes of each word of 64 bits around.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn swap_64(vector: __m512i) -> __m512i {
    let order = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    _mm512_shuffle_epi8(vector, _mm512_broadcast_i32x4(order))
}

/// Transposes four vectors of four quarters.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, cd_low) = (
        _mm512_shuffle_i32x4::<0x44>(a, b),
        _mm512_shuffle_i32x4::<0x44>(c, d),
    );
    let (ab_high, cd_high) = (
        _mm512_shuffle_i32x4::<0xee>(a, b),
        _mm512_shuffle_i32x4::<0xee>(c, d),
    );
    [
        _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}
