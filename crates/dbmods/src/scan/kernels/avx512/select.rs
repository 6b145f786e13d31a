//! Values of single rows: where sixteen lie is computed at once, and they are gathered.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::prefetch::prefetch;

use super::super::gather::{self, ORDER_NIBBLES};
use super::{Lanes, Packed};

/// Rows that are looked up at once.
const ROWS: usize = 16;

/// The places of the packed values of sixteen rows.
struct Places {
    /// Byte at which each one's lane starts, in the word that holds its first bit.
    bytes: __m512i,
    /// The first bit of each in that lane.
    shifts: __m512i,
    /// The values that go on in the next word, 128 bytes further.
    split: __mmask16,
}

/// Which of sixteen rows there are.
fn present(positions: &[u16]) -> __mmask16 {
    match positions.len() {
        ROWS.. => u16::MAX,
        few => (1 << few) - 1,
    }
}

/// The first sixteen of `positions`, modulo 1,024.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn rows(positions: &[u16], present: __mmask16) -> __m512i {
    // SAFETY: masked-out positions are not read, and `present` has a bit for each of the first sixteen that there are.
    let at = unsafe { _mm256_maskz_loadu_epi16(present, positions.as_ptr().cast()) };
    _mm512_and_si512(_mm512_cvtepu16_epi32(at), _mm512_set1_epi32(1023))
}

/// Of the first sixteen of `positions`, whose row numbers are taken modulo 1,024.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn places<const BITS: i32>(width: u8, positions: &[u16], present: __mmask16) -> Places {
    let lanes = 1024 / BITS;
    let (log_bits, lane_log_bytes) = (BITS.trailing_zeros(), BITS.trailing_zeros() - 3);
    let at = rows(positions, present);
    let run = _mm512_srli_epi32::<7>(at);
    let within = _mm512_and_si512(at, _mm512_set1_epi32(127));
    // Which of the eight runs of lanes, as a shift by nibbles: `within / lanes * lanes / 16 * 4`.
    let nibble = _mm512_srli_epi32::<2>(_mm512_and_si512(within, _mm512_set1_epi32(-lanes)));
    let order = _mm512_srlv_epi32(_mm512_set1_epi32(ORDER_NIBBLES as i32), nibble);
    let order = _mm512_and_si512(order, _mm512_set1_epi32(7));
    let row = _mm512_or_si512(run, _mm512_slli_epi32::<3>(order));
    // Below 64 * 64.
    let bit = _mm512_mullo_epi16(row, _mm512_set1_epi32(width.into()));
    let shifts = _mm512_and_si512(bit, _mm512_set1_epi32(BITS - 1));
    let word = _mm512_srl_epi32(bit, _mm_cvtsi32_si128(log_bits as i32));
    let lane = _mm512_and_si512(within, _mm512_set1_epi32(lanes - 1));
    let lane = _mm512_sll_epi32(lane, _mm_cvtsi32_si128(lane_log_bytes as i32));
    let end = _mm512_add_epi32(shifts, _mm512_set1_epi32(width.into()));
    Places {
        bytes: _mm512_or_si512(_mm512_slli_epi32::<7>(word), lane),
        shifts,
        split: _mm512_mask_cmpgt_epi32_mask(present, end, _mm512_set1_epi32(BITS)),
    }
}

/// [`Kernels::ask`](super::super::Kernels::ask).
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn ask(packed: Packed<'_>, positions: &[u16]) {
    match packed.lane_bits {
        8 => ask_lanes::<8>(packed, positions),
        16 => ask_lanes::<16>(packed, positions),
        32 => ask_lanes::<32>(packed, positions),
        _ => ask_lanes::<64>(packed, positions),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn ask_lanes<const BITS: i32>(packed: Packed<'_>, positions: &[u16]) {
    let mut lines = [0u32; 2 * ROWS];
    for some in positions.chunks(ROWS) {
        let places = places::<BITS>(packed.width, some, present(some));
        let next = _mm512_add_epi32(places.bytes, _mm512_set1_epi32(128));
        let split = places.split.count_ones() as usize;
        // SAFETY: sixteen at most are written from the start, then sixteen from `some.len()`, which is sixteen at most.
        unsafe {
            _mm512_storeu_si512(lines.as_mut_ptr().cast(), places.bytes);
            let rest = _mm512_maskz_compress_epi32(places.split, next);
            _mm512_storeu_si512(lines.as_mut_ptr().add(some.len()).cast(), rest);
        }
        for &line in &lines[..some.len() + split] {
            prefetch(packed.bytes, line as usize);
        }
    }
}

/// The packed values of sixteen rows in lanes of 8, 16 or 32 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn values<const BITS: i32>(packed: Packed<'_>, positions: &[u16]) -> __m512i {
    let present = present(positions);
    let places = places::<BITS>(packed.width, positions, present);
    // Four bytes at a multiple of four never pass the end, which is a multiple of 128; the lane lies within them.
    let dwords = _mm512_and_si512(places.bytes, _mm512_set1_epi32(!3));
    let lane_shift = _mm512_slli_epi32::<3>(_mm512_and_si512(places.bytes, _mm512_set1_epi32(3)));
    let lane_mask = _mm512_set1_epi32((u32::MAX >> (32 - BITS)) as i32);
    let lane = |dwords| _mm512_and_si512(_mm512_srlv_epi32(dwords, lane_shift), lane_mask);
    let zero = _mm512_setzero_si512();
    let base: *const i32 = packed.bytes.as_ptr().cast();
    // SAFETY: a row's word is below `width` and its lane within the word's 128 bytes, all of which `Packed` holds.
    let low = unsafe { _mm512_mask_i32gather_epi32::<1>(zero, present, dwords, base) };
    let mut value = _mm512_srlv_epi32(lane(low), places.shifts);
    if places.split != 0 {
        let next = _mm512_add_epi32(dwords, _mm512_set1_epi32(128));
        // SAFETY: as above; a value that is split has its last bits in the next word, so that is below `width` too.
        let high = unsafe { _mm512_mask_i32gather_epi32::<1>(zero, places.split, next, base) };
        let up = _mm512_sub_epi32(_mm512_set1_epi32(BITS), places.shifts);
        value = _mm512_or_si512(value, _mm512_sllv_epi32(lane(high), up));
    }
    _mm512_and_si512(value, _mm512_set1_epi32(packed.max() as i32))
}

/// The packed values of eight rows in lanes of 64 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn wide_values(packed: Packed<'_>, positions: &[u16]) -> __m512i {
    let present = present(positions) & 0xff;
    let places = places::<64>(packed.width, positions, present);
    let bytes = _mm512_castsi512_si256(places.bytes);
    let shifts = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(places.shifts));
    let zero = _mm512_setzero_si512();
    let base: *const i64 = packed.bytes.as_ptr().cast();
    // SAFETY: as in `values`, and lanes of 64 bits are at multiples of eight bytes.
    let low = unsafe { _mm512_mask_i32gather_epi64::<1>(zero, present as u8, bytes, base) };
    let mut value = _mm512_srlv_epi64(low, shifts);
    if places.split != 0 {
        let next = _mm256_add_epi32(bytes, _mm256_set1_epi32(128));
        // SAFETY: as in `values`.
        let high =
            unsafe { _mm512_mask_i32gather_epi64::<1>(zero, places.split as u8, next, base) };
        let up = _mm512_sub_epi64(_mm512_set1_epi64(64), shifts);
        value = _mm512_or_si512(value, _mm512_sllv_epi64(high, up));
    }
    _mm512_and_si512(value, _mm512_set1_epi64(packed.max() as i64))
}

/// Sixteen values at 64 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn widened(values: __m512i) -> (__m512i, __m512i) {
    (
        _mm512_cvtepu32_epi64(_mm512_castsi512_si256(values)),
        _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(values)),
    )
}

/// Appends `min + unit * value` for what `values` says of sixteen positions at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn narrow(
    positions: &[u16],
    min: i32,
    unit: i32,
    out: &mut Vec<i32>,
    values: impl Fn(&[u16]) -> __m512i,
) {
    out.reserve(positions.len() + ROWS);
    let mut to = out.spare_capacity_mut().as_mut_ptr().cast::<i32>();
    for some in positions.chunks(ROWS) {
        let mut value = values(some);
        if unit != 1 {
            value = _mm512_mullo_epi32(value, _mm512_set1_epi32(unit));
        }
        let value = _mm512_add_epi32(value, _mm512_set1_epi32(min));
        // SAFETY: sixteen more than the positions were reserved, and `to` has moved by those before.
        unsafe {
            _mm512_storeu_si512(to.cast(), value);
            to = to.add(some.len());
        }
    }
    // SAFETY: one value was written for each position.
    unsafe { out.set_len(out.len() + positions.len()) }
}

/// As [`narrow`], at 64 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn wide(
    positions: &[u16],
    min: i64,
    unit: i64,
    out: &mut Vec<i64>,
    values: impl Fn(&[u16]) -> (__m512i, __m512i),
) {
    out.reserve(positions.len() + ROWS);
    let mut to = out.spare_capacity_mut().as_mut_ptr().cast::<i64>();
    let number = |packed| {
        let value = match unit {
            1 => packed,
            unit => _mm512_mullo_epi64(packed, _mm512_set1_epi64(unit)),
        };
        _mm512_add_epi64(value, _mm512_set1_epi64(min))
    };
    for some in positions.chunks(ROWS) {
        let (first, second) = values(some);
        // SAFETY: as in `narrow`.
        unsafe {
            _mm512_storeu_si512(to.cast(), number(first));
            _mm512_storeu_si512(to.add(8).cast(), number(second));
            to = to.add(some.len());
        }
    }
    // SAFETY: one value was written for each position.
    unsafe { out.set_len(out.len() + positions.len()) }
}

/// [`Kernels::select_narrow`](super::super::Kernels::select_narrow) of few positions.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn select_narrow(
    packed: Packed<'_>,
    positions: &[u16],
    min: i32,
    unit: i32,
    out: &mut Vec<i32>,
) {
    match packed.lane_bits {
        8 => narrow(positions, min, unit, out, |some| values::<8>(packed, some)),
        16 => narrow(positions, min, unit, out, |some| values::<16>(packed, some)),
        32 => narrow(positions, min, unit, out, |some| values::<32>(packed, some)),
        _ => gather::select_narrow(packed, positions, min, unit, out),
    }
}

/// [`Kernels::select_wide`](super::super::Kernels::select_wide) of few positions.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn select_wide(
    packed: Packed<'_>,
    positions: &[u16],
    min: i64,
    unit: i64,
    out: &mut Vec<i64>,
) {
    match packed.lane_bits {
        8 => wide(positions, min, unit, out, |some| {
            widened(values::<8>(packed, some))
        }),
        16 => wide(positions, min, unit, out, |some| {
            widened(values::<16>(packed, some))
        }),
        32 => wide(positions, min, unit, out, |some| {
            widened(values::<32>(packed, some))
        }),
        _ => wide(positions, min, unit, out, |some| {
            let (first, second) = some.split_at(some.len().min(8));
            (wide_values(packed, first), wide_values(packed, second))
        }),
    }
}

/// Sixteen unpacked values of lanes of 8, 16 or 32 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn picked<const BITS: i32>(lanes: &Lanes, positions: &[u16]) -> __m512i {
    let present = present(positions);
    let bytes = _mm512_mullo_epi16(rows(positions, present), _mm512_set1_epi32(BITS / 8));
    let dwords = _mm512_and_si512(bytes, _mm512_set1_epi32(!3));
    let lane_shift = _mm512_slli_epi32::<3>(_mm512_and_si512(bytes, _mm512_set1_epi32(3)));
    let lane_mask = _mm512_set1_epi32((u32::MAX >> (32 - BITS)) as i32);
    let zero = _mm512_setzero_si512();
    let base: *const i32 = lanes.0.as_ptr().cast();
    // SAFETY: a row is below 1,024, so its four bytes lie in the first 4,096 of 8,192.
    let dwords = unsafe { _mm512_mask_i32gather_epi32::<1>(zero, present, dwords, base) };
    _mm512_and_si512(_mm512_srlv_epi32(dwords, lane_shift), lane_mask)
}

/// Eight unpacked values of lanes of 64 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn wide_picked(lanes: &Lanes, positions: &[u16]) -> __m512i {
    let present = present(positions) & 0xff;
    let rows = _mm512_castsi512_si256(rows(positions, present));
    let zero = _mm512_setzero_si512();
    let base: *const i64 = lanes.0.as_ptr().cast();
    // SAFETY: a row is below 1,024, and there are as many values.
    unsafe { _mm512_mask_i32gather_epi64::<8>(zero, present as u8, rows, base) }
}

/// As [`select_narrow`], of a block that is unpacked.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn pick_narrow(
    lanes: &Lanes,
    lane_bits: u8,
    positions: &[u16],
    min: i32,
    unit: i32,
    out: &mut Vec<i32>,
) {
    match lane_bits {
        8 => narrow(positions, min, unit, out, |some| picked::<8>(lanes, some)),
        16 => narrow(positions, min, unit, out, |some| picked::<16>(lanes, some)),
        32 => narrow(positions, min, unit, out, |some| picked::<32>(lanes, some)),
        _ => gather::pick_narrow(lanes, lane_bits, positions, min, unit, out),
    }
}

/// As [`select_wide`], of a block that is unpacked.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn pick_wide(
    lanes: &Lanes,
    lane_bits: u8,
    positions: &[u16],
    min: i64,
    unit: i64,
    out: &mut Vec<i64>,
) {
    match lane_bits {
        8 => wide(positions, min, unit, out, |some| {
            widened(picked::<8>(lanes, some))
        }),
        16 => wide(positions, min, unit, out, |some| {
            widened(picked::<16>(lanes, some))
        }),
        32 => wide(positions, min, unit, out, |some| {
            widened(picked::<32>(lanes, some))
        }),
        _ => wide(positions, min, unit, out, |some| {
            let (first, second) = some.split_at(some.len().min(8));
            (wide_picked(lanes, first), wide_picked(lanes, second))
        }),
    }
}
