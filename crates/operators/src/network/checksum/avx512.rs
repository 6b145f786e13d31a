//! x86-64 with AVX-512 and VNNI: two instructions for 64 bytes, and sixteen short items in one vector.
//!
//! `vpdpwssd` multiplies signed words by one and adds both of a pair to a 32-bit lane. Words are not signed: flipping the top
//! bit of each makes them so, 32,768 less than they are, which is added back at the end. One flip and one `vpdpwssd` for each
//! 64 bytes keep both of the ports that have 512 bits at work.
//!
//! Short items take longer to add up across lanes than to read. Sixteen are reduced together: each step folds two vectors to
//! one that holds half as many lanes of both, so that fifteen steps end with the sixteen sums side by side.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Piece;
use crate::isa::Avx512Vnni;

/// So much is summed in 32 bits: 1,024 vectors of at most 32 * 65,535.
const BLOCK_BYTES: usize = 1 << 16;
/// What flipping the top bits takes from the sum of one vector of 32 words.
const BIAS: u32 = 32 * 0x8000;
/// How many items are reduced together.
pub(super) const GROUP: usize = 16;

/// The sum of the little-endian words of `data`.
pub(crate) fn sum(_proof: Avx512Vnni, data: &[u8]) -> u64 {
    // SAFETY: `Avx512Vnni` exists only where these instructions do.
    unsafe { sum_of(data) }
}

/// The same, while `src` is copied to `dst`, which is as long.
pub(crate) fn copy(_proof: Avx512Vnni, src: &[u8], dst: &mut [u8]) -> u64 {
    // SAFETY: `Avx512Vnni` exists only where these instructions do.
    unsafe { sum_and_copy(src, dst) }
}

/// The checksums of sixteen pieces, little endian.
pub(super) fn group(_proof: Avx512Vnni, pieces: &[Piece<'_>; GROUP], is_udp: bool) -> [u16; GROUP] {
    // SAFETY: `Avx512Vnni` exists only where these instructions do.
    unsafe {
        let longest = pieces
            .iter()
            .fold(0, |longest, piece| longest.max(piece.bytes.len()));
        match longest {
            ..=32 => halves(pieces, is_udp),
            ..=64 => lines(pieces, is_udp),
            _ => pieces.map(|piece| piece.checksum(sum_of(piece.bytes), is_udp)),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
pub(crate) fn sum_of(data: &[u8]) -> u64 {
    let (blocks, tail) = data.as_chunks::<BLOCK_BYTES>();
    let blocks: u64 = blocks.iter().map(|block| u64::from(block_sum(block))).sum();
    blocks + u64::from(block_sum(tail))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
pub(crate) fn sum_and_copy(src: &[u8], dst: &mut [u8]) -> u64 {
    assert_eq!(src.len(), dst.len());
    let blocks = src.chunks(BLOCK_BYTES).zip(dst.chunks_mut(BLOCK_BYTES));
    blocks
        .map(|(src, dst)| u64::from(pass::<true>(src, dst.as_mut_ptr())))
        .sum()
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn block_sum(block: &[u8]) -> u32 {
    pass::<false>(block, std::ptr::null_mut())
}

/// The sum of at most [`BLOCK_BYTES`]; with `COPY` also written to `dst`, which has room for as many.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn pass<const COPY: bool>(src: &[u8], dst: *mut u8) -> u32 {
    let step = |sum: &mut __m512i, at: usize| {
        // SAFETY: every caller below has 64 bytes left at `at`, in `src` and, if it is written, in `dst`.
        unsafe {
            let bytes = _mm512_loadu_si512(src.as_ptr().add(at).cast());
            if COPY {
                _mm512_storeu_si512(dst.add(at).cast(), bytes);
            }
            *sum = added(*sum, bytes);
        }
    };
    let mut sums = [_mm512_setzero_si512(); 8];
    let (mut at, len) = (0, src.len());
    while len - at >= 512 {
        for (i, sum) in sums.iter_mut().enumerate() {
            step(sum, at + 64 * i);
        }
        at += 512;
    }
    if len - at >= 256 {
        for (i, sum) in sums[..4].iter_mut().enumerate() {
            step(sum, at + 64 * i);
        }
        at += 256;
    }
    if len - at >= 128 {
        step(&mut sums[4], at);
        step(&mut sums[5], at + 64);
        at += 128;
    }
    if len - at >= 64 {
        step(&mut sums[6], at);
        at += 64;
    }
    if at < len {
        let mask = _bzhi_u64(!0, (len - at) as u32);
        // SAFETY: the mask selects the `len - at` bytes that are left of `src` and `dst`; no other is accessed.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(mask, src.as_ptr().add(at).cast());
            if COPY {
                _mm512_mask_storeu_epi8(dst.add(at).cast(), mask, bytes);
            }
            sums[7] = added(sums[7], bytes);
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let low = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
    let high = _mm512_add_epi32(_mm512_add_epi32(e, f), _mm512_add_epi32(g, h));
    let sum = _mm512_reduce_add_epi32(_mm512_add_epi32(low, high)) as u32;
    sum.wrapping_add(len.div_ceil(64) as u32 * BIAS)
}

/// The words of `bytes` as signed ones, 32,768 less each, added in pairs to the lanes of `sum`.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn added(sum: __m512i, bytes: __m512i) -> __m512i {
    let flipped = _mm512_xor_si512(bytes, _mm512_set1_epi16(i16::MIN));
    _mm512_dpwssd_epi32(sum, flipped, _mm512_set1_epi16(1))
}

/// Pieces of at most 64 bytes: one vector each.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn lines(pieces: &[Piece<'_>; GROUP], is_udp: bool) -> [u16; GROUP] {
    let zero = _mm512_setzero_si512();
    let line = |i: usize| {
        let bytes = pieces[i].bytes;
        let mask = _bzhi_u64(!0, bytes.len() as u32);
        // SAFETY: the mask selects `bytes` alone, at most 64; no other byte is accessed.
        added(zero, unsafe {
            _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast())
        })
    };
    let pairs = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| join_halves(line(i), line(i + 8)));
    finish(pairs, BIAS, pieces, is_udp)
}

/// Pieces of at most 32 bytes: two to a vector, eight apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn halves(pieces: &[Piece<'_>; GROUP], is_udp: bool) -> [u16; GROUP] {
    let zero = _mm512_setzero_si512();
    let pairs = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| {
        let (low, high) = (pieces[i].bytes, pieces[i + 8].bytes);
        let low_mask = _bzhi_u64(!0, low.len() as u32);
        let high_mask = _bzhi_u64(!0, high.len() as u32) << 32;
        // SAFETY: the masks select `low` in the low half and `high`, read from 32 bytes before it, in the high half, each at
        // most 32 bytes; no other byte is accessed.
        let bytes = unsafe {
            let bytes = _mm512_maskz_loadu_epi8(low_mask, low.as_ptr().cast());
            _mm512_mask_loadu_epi8(bytes, high_mask, high.as_ptr().wrapping_sub(32).cast())
        };
        added(zero, bytes)
    });
    finish(pairs, BIAS / 2, pieces, is_udp)
}

/// Sixteen sums, item *i* in the low half of vector *i* and item *i* + 8 in its high half, brought to one lane each, and the
/// checksums that they are.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn finish(
    pairs: [__m512i; 8],
    bias: u32,
    pieces: &[Piece<'_>; GROUP],
    is_udp: bool,
) -> [u16; GROUP] {
    let fours = [0, 1, 2, 3].map(|i| join_quarters(pairs[i], pairs[i + 4]));
    let eights = [0, 1].map(|i| join_eighths(fours[i], fours[i + 2]));
    let sums = join_words(eights[0], eights[1]);
    let plus = pieces.map(|piece| piece.plus.wrapping_add(bias));
    // SAFETY: `plus` has 64 bytes; the load needs no alignment.
    let plus = unsafe { _mm512_loadu_si512(plus.as_ptr().cast()) };
    checksums(_mm512_add_epi32(sums, plus), is_udp)
}

/// Each sum's carries added back in, and complemented.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn checksums(sums: __m512i, is_udp: bool) -> [u16; GROUP] {
    let word = _mm512_set1_epi32(0xffff);
    let fold = |sums| _mm512_add_epi32(_mm512_and_si512(sums, word), _mm512_srli_epi32::<16>(sums));
    let folded = fold(fold(sums));
    // All ones has the complement zero, which UDP writes as all ones.
    let complement = _mm512_xor_si512(folded, word);
    let is_zero = _mm512_cmpeq_epi32_mask(folded, word) & if is_udp { 0xffff } else { 0 };
    let complement = _mm512_mask_mov_epi32(complement, is_zero, word);
    let mut checksums = [0; GROUP];
    // SAFETY: `checksums` has 32 bytes; the store needs no alignment.
    unsafe {
        _mm256_storeu_si256(
            checksums.as_mut_ptr().cast(),
            _mm512_cvtepi32_epi16(complement),
        )
    };
    checksums
}

/// The halves of `a` added in the low half, those of `b` in the high one.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_halves(a: __m512i, b: __m512i) -> __m512i {
    let outer = _mm512_mask_blend_epi64(0b1111_0000, a, b);
    let inner = _mm512_shuffle_i64x2::<0b01_00_11_10>(a, b);
    _mm512_add_epi32(outer, inner)
}

/// The quarters of each half added: of `a` in its first, of `b` in its second.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_quarters(a: __m512i, b: __m512i) -> __m512i {
    let outer = _mm512_mask_blend_epi64(0b1100_1100, a, b);
    let crossed = _mm512_set_epi64(13, 12, 7, 6, 9, 8, 3, 2);
    let inner = _mm512_permutex2var_epi64(a, crossed, b);
    _mm512_add_epi32(outer, inner)
}

/// The same with the eighths of each quarter.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_eighths(a: __m512i, b: __m512i) -> __m512i {
    let outer = _mm512_mask_blend_epi64(0b1010_1010, a, b);
    let inner = _mm512_shuffle_pd::<0b0101_0101>(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b));
    _mm512_add_epi32(outer, _mm512_castpd_si512(inner))
}

/// The same with the words of each eighth.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_words(a: __m512i, b: __m512i) -> __m512i {
    const ODD: __mmask16 = 0b1010_1010_1010_1010;
    const SWAPPED: i32 = 0b10_11_00_01;
    let outer = _mm512_mask_blend_epi32(ODD, a, b);
    let inner = _mm512_mask_shuffle_epi32::<SWAPPED>(_mm512_shuffle_epi32::<SWAPPED>(a), ODD, b);
    _mm512_add_epi32(outer, inner)
}
