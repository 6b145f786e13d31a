//! AVX-512 with VBMI2 and VPOPCNTDQ (Ice Lake, Zen 4 and later): funnel shifts by run-time counts, compares straight to masks.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

mod range;
mod select;

use super::portable::{self, row_bits, row_start};
use super::{ByteSet, Kernels, Lanes, Mask, Numbers, Packed, Positions, Relation};

/// The set, if the CPU has it.
pub(super) fn detect() -> Option<Kernels> {
    dpb_core::has!(
        is_x86_feature_detected: "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512vbmi2",
        "avx512vpopcntdq", "bmi1", "bmi2", "popcnt",
    )
    .then_some(Kernels {
        name: "avx512",
        range: range::range,
        unpack,
        widen,
        compare,
        count,
        positions,
        ask: select::ask,
        select_narrow: select::select_narrow,
        select_wide: select::select_wide,
        pick_narrow: select::pick_narrow,
        pick_wide: select::pick_wide,
        bytes_in_set,
        rows_hit,
        sum,
        add,
        subtract,
        multiply,
    })
}

/// Half `half` (0, 1) of packed word `word`.
#[target_feature(enable = "avx512f")]
#[inline]
fn half_word(packed: Packed<'_>, word: usize, half: usize) -> __m512i {
    debug_assert!(word < usize::from(packed.width) && half < 2);
    // SAFETY: `Packed` holds 128 bytes for each of `width` words, callers name words below `width`, halves are 64 bytes.
    unsafe { _mm512_loadu_si512(packed.bytes.as_ptr().add(word * 128 + half * 64).cast()) }
}

/// Defines a lane's unpack; `$funnel` is its funnel shift.
macro_rules! lane_unpack {
    ($lane:ty, $unpack:ident, $set1:ident, $funnel:ident, $add:ident) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
        fn $unpack(packed: Packed<'_>, out: &mut Lanes) {
            const BITS: usize = <$lane>::BITS as usize;
            let width = usize::from(packed.width);
            let mask = $set1(packed.max() as _);
            let step = $set1(width as _);
            let mut shift = _mm512_setzero_si512();
            let values: *mut $lane = out.0.as_mut_ptr().cast();
            for row in 0..BITS {
                let (word, next, _) = row_bits(row, width, BITS);
                for half in 0..2 {
                    let (low, high) =
                        (half_word(packed, word, half), half_word(packed, next, half));
                    let value = _mm512_and_si512($funnel(low, high, shift), mask);
                    // SAFETY: a half row is 64 bytes of the 1,024 values; `row_start` is below 1,024 minus a row.
                    unsafe {
                        let at = values.add(row_start(row) + half * (512 / BITS));
                        _mm512_storeu_si512(at.cast(), value);
                    }
                }
                shift = $add(shift, step);
            }
        }
    };
}

lane_unpack!(
    u16,
    unpack_u16,
    _mm512_set1_epi16,
    _mm512_shrdv_epi16,
    _mm512_add_epi16
);
lane_unpack!(
    u32,
    unpack_u32,
    _mm512_set1_epi32,
    _mm512_shrdv_epi32,
    _mm512_add_epi32
);
lane_unpack!(
    u64,
    unpack_u64,
    _mm512_set1_epi64,
    _mm512_shrdv_epi64,
    _mm512_add_epi64
);

/// Half `half` of packed row `row`. There is no shift of bytes: words are shifted, and what crossed is cut off.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn row_u8(packed: Packed<'_>, row: usize, half: usize, mask: __m512i) -> __m512i {
    let (word, next, shift) = row_bits(row, usize::from(packed.width), 8);
    let low = _mm512_srl_epi16(
        half_word(packed, word, half),
        _mm_cvtsi32_si128(shift as i32),
    );
    let high = _mm512_sll_epi16(
        half_word(packed, next, half),
        _mm_cvtsi32_si128(8 - shift as i32),
    );
    let from_low = _mm512_set1_epi8((0xFFu8 >> shift) as i8);
    // from_low ? low : high, bit by bit.
    let value = _mm512_ternarylogic_epi64::<0xCA>(from_low, low, high);
    _mm512_and_si512(value, mask)
}

#[target_feature(enable = "avx512f,avx512bw")]
fn unpack_u8(packed: Packed<'_>, out: &mut Lanes) {
    let mask = _mm512_set1_epi8(packed.max() as i8);
    let bytes = out.bytes_mut().as_chunks_mut::<64>().0;
    for row in 0..8 {
        for half in 0..2 {
            let value = row_u8(packed, row, half, mask);
            // SAFETY: 64 bytes into a chunk of 64.
            unsafe { _mm512_storeu_si512(bytes[row * 2 + half].as_mut_ptr().cast(), value) }
        }
    }
}

/// The implementation of [`Kernels::unpack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
fn unpack(packed: Packed<'_>, out: &mut Lanes) {
    match packed.lane_bits {
        8 => unpack_u8(packed, out),
        16 => unpack_u16(packed, out),
        32 => unpack_u32(packed, out),
        _ => unpack_u64(packed, out),
    }
}

/// The implementation of [`Kernels::compare`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn compare(relation: Relation, left: &Numbers, right: &Numbers, out: &mut Mask) {
    macro_rules! compare {
        ($op:ident) => {
            for (word, (left, right)) in out.0.iter_mut().zip(
                left.as_chunks::<64>()
                    .0
                    .iter()
                    .zip(right.as_chunks::<64>().0),
            ) {
                let mut bits = 0;
                for i in 0..8 {
                    // SAFETY: eight values from `8 * i` of chunks of 64.
                    let (left, right) = unsafe {
                        (
                            _mm512_loadu_si512(left.as_ptr().add(8 * i).cast()),
                            _mm512_loadu_si512(right.as_ptr().add(8 * i).cast()),
                        )
                    };
                    bits |= u64::from($op(left, right)) << (8 * i);
                }
                *word = bits;
            }
        };
    }
    match relation {
        Relation::Equal => compare!(_mm512_cmpeq_epi64_mask),
        Relation::Less => compare!(_mm512_cmplt_epi64_mask),
        Relation::LessOrEqual => compare!(_mm512_cmple_epi64_mask),
    }
}

/// The implementation of [`Kernels::count`].
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn count(mask: &Mask) -> usize {
    // SAFETY: a mask is 128 bytes.
    let (low, high) = unsafe {
        (
            _mm512_loadu_si512(mask.0.as_ptr().cast()),
            _mm512_loadu_si512(mask.0.as_ptr().add(8).cast()),
        )
    };
    let counts = _mm512_add_epi64(_mm512_popcnt_epi64(low), _mm512_popcnt_epi64(high));
    _mm512_reduce_add_epi64(counts) as usize
}

/// See [`Kernels::positions`]: compressed in a register, as a compressing store is slow on Zen 4.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn positions(mask: &Mask, out: &mut Positions) -> usize {
    const IOTA: [u16; 32] = {
        let mut iota = [0; 32];
        let mut i = 0;
        while i < 32 {
            iota[i] = i as u16;
            i += 1;
        }
        iota
    };
    // SAFETY: 64 bytes of a constant.
    let iota = unsafe { _mm512_loadu_si512(IOTA.as_ptr().cast()) };
    let mut count = 0;
    for (i, word) in mask.0.iter().enumerate() {
        for (half, bits) in [(0, *word as u32), (1, (*word >> 32) as u32)] {
            let rows = _mm512_add_epi16(iota, _mm512_set1_epi16((i * 64 + half * 32) as i16));
            let kept = _mm512_maskz_compress_epi16(bits, rows);
            // SAFETY: `count` is at most 1,024 minus the 32 rows of this step, and the array has 64 entries more than 1,024.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(count).cast(), kept) };
            count += bits.count_ones() as usize;
        }
    }
    count
}

/// See [`Kernels::bytes_in_set`]. `VPERMB` looks at six bits of an index, so tables that repeat need no AND.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn bytes_in_set(bytes: &[u8], set: &ByteSet, out: &mut [u64]) {
    let bit_of = _mm512_set1_epi64(i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]));
    // SAFETY: 32 bytes of the set.
    let table = _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(set.0.as_ptr().cast()) });
    let (chunks, rest) = bytes.as_chunks::<64>();
    let find = |bytes: __m512i| {
        let byte = _mm512_permutexvar_epi8(_mm512_srli_epi16::<3>(bytes), table);
        let bit = _mm512_permutexvar_epi8(bytes, bit_of);
        _mm512_test_epi8_mask(byte, bit)
    };
    for (word, chunk) in out.iter_mut().zip(chunks) {
        // SAFETY: a chunk of 64 bytes.
        *word = find(unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) });
    }
    if !rest.is_empty() {
        let valid = u64::MAX >> (64 - rest.len());
        // SAFETY: the masked load touches only the bytes of `rest`.
        let last = unsafe { _mm512_maskz_loadu_epi8(valid, rest.as_ptr().cast()) };
        out[chunks.len()] = find(last) & valid;
    }
}

/// See [`Kernels::rows_hit`]: 32 offsets a compare, as hits are a few rows apart.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn rows_hit(found: &[u64], offsets: &[[u8; 2]], out: &mut Mask) {
    *out = Mask::NONE;
    let start = |row: usize| u32::from(u16::from_le_bytes(offsets[row]));
    // The row that starts at or before the bit, and where it ends.
    let (mut row, mut end) = (0, start(1));
    for (i, &word) in found.iter().enumerate() {
        let mut word = word;
        while word != 0 {
            let at = (i * 64) as u32 + word.trailing_zeros();
            word &= word - 1;
            if at >= end {
                loop {
                    let later = &offsets[row + 1..offsets.len() - 1];
                    let valid = u32::MAX >> (32 - later.len().min(32)).min(31);
                    let valid = if later.is_empty() { 0 } else { valid };
                    // SAFETY: the masked load touches only the offsets of `later`.
                    let starts = unsafe { _mm512_maskz_loadu_epi16(valid, later.as_ptr().cast()) };
                    let at = _mm512_set1_epi16(at as i16);
                    let before = _mm512_mask_cmple_epu16_mask(valid, starts, at).count_ones();
                    row += before as usize;
                    if before < 32 {
                        break;
                    }
                }
                end = start(row + 1);
            }
            out.insert(row);
        }
    }
}

/// The implementation of [`Kernels::sum`].
#[target_feature(enable = "avx512f")]
fn sum(values: &Numbers, mask: &Mask) -> i64 {
    let mut sums = [_mm512_setzero_si512(); 4];
    for (values, word) in values.as_chunks::<64>().0.iter().zip(&mask.0) {
        for i in 0..8 {
            let keep = (word >> (8 * i)) as u8;
            // SAFETY: eight values from `8 * i` of a chunk of 64.
            let eight = unsafe { _mm512_loadu_si512(values.as_ptr().add(8 * i).cast()) };
            sums[i % 4] = _mm512_mask_add_epi64(sums[i % 4], keep, sums[i % 4], eight);
        }
    }
    let pairs = [
        _mm512_add_epi64(sums[0], sums[1]),
        _mm512_add_epi64(sums[2], sums[3]),
    ];
    _mm512_reduce_add_epi64(_mm512_add_epi64(pairs[0], pairs[1]))
}

macro_rules! compiled_for_avx512 {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $portable:path;)*) => {
        $(#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
        fn $name($($arg: $ty),*) $(-> $ret)? {
            $portable($($arg),*)
        })*
    };
}

compiled_for_avx512! {
    widen(lanes: &Lanes, lane_bits: u8, min: i64, unit: i64, out: &mut Numbers) = portable::widen;
    add(left: &Numbers, right: &Numbers, out: &mut Numbers) = portable::add;
    subtract(left: &Numbers, right: &Numbers, out: &mut Numbers) = portable::subtract;
    multiply(left: &Numbers, right: &Numbers, out: &mut Numbers) = portable::multiply;
}
