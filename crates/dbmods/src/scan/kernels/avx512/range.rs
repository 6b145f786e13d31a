//! Fused unpack-and-compare: which packed values lie in a range.
//!
//! A value is brought to the *top* of its lane by one funnel shift, bits of no meaning below it, and compared there with bounds
//! that lie as high: no mask is needed. A half row costs a load, a shift with a memory operand, a subtract, a compare and a store of
//! the mask. Rows are unrolled and the usual widths are constants, as finding the words of a row takes more instructions than
//! comparing it.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::portable::row_start;
use super::super::{Mask, Packed};
use super::half_word;

/// How far ahead of a compare its packed values are asked for: the next blocks of the column, or of another, as payloads lie one
/// after another. The hardware's own prefetch ends with the page.
const AHEAD_BYTES: usize = 4096;

/// See [`Kernels::range`](super::super::Kernels::range).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn range(packed: Packed<'_>, lo: u64, span: u64, out: &mut Mask) {
    macro_rules! of_width {
        ($range:ident, [$($width:literal)*] $other:literal) => {
            match packed.width {
                $($width => $range::<$width>(packed, lo, span, out),)*
                _ => $range::<$other>(packed, lo, span, out),
            }
        };
    }
    match packed.lane_bits {
        8 => of_width!(range_u8, [1 2 3 4 5 6 7] 8),
        16 => of_width!(range_u16, [9 10 11 12 13 14 15 16] 0),
        32 => of_width!(range_u32, [17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32] 0),
        _ => range_u64::<0>(packed, lo, span, out),
    }
}

/// Asks for line `line` of a later block.
#[inline(always)]
fn ask_ahead(packed: Packed<'_>, line: usize) {
    let at = packed.bytes.as_ptr().wrapping_add(line * 64 + AHEAD_BYTES);
    // SAFETY: a prefetch accesses nothing that the program sees, wherever it points, and SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

/// A span between values at the top of their lanes, `above` bits up: the bits below a value are those of no meaning.
#[inline(always)]
fn at_top(span: u64, above: usize) -> u64 {
    span << above | !(u64::MAX << above)
}

/// The place where a packed row ends in its lane.
struct RowEnd {
    /// The words whose funnel shift to the right by `shift` leaves the row's value at the top of the lane.
    low: usize,
    high: usize,
    shift: usize,
}

impl RowEnd {
    #[inline(always)]
    fn new(row: usize, width: usize, lane_bits: usize) -> Self {
        let end = (row + 1) * width;
        let high = end / lane_bits;
        Self {
            // Where the value ends with its word, that word is the low one. The other is then not looked at; and where the value
            // lies in the high word alone, what the low one gives are bits of no meaning.
            low: high.max(1) - 1,
            high: high.min(width - 1),
            shift: end % lane_bits,
        }
    }
}

/// `$body` for each of these rows, constants.
macro_rules! unrolled {
    ($row:ident in [$($at:literal)*] $body:block) => {
        $({
            const $row: usize = $at;
            $body
        })*
    };
}

/// Defines a lane's compare; `WIDTH` 0 is one that is known at run time alone.
macro_rules! lane_range {
    ($lane:ty, $range:ident, $set1:ident, $funnel:ident, $sub:ident, $cmple:ident, $half_mask:ty, $rows:tt) => {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
        fn $range<const WIDTH: usize>(packed: Packed<'_>, lo: u64, span: u64, out: &mut Mask) {
            const BITS: usize = <$lane>::BITS as usize;
            let width = if WIDTH == 0 {
                usize::from(packed.width)
            } else {
                WIDTH
            };
            let above = BITS - width;
            let (lo, span) = ($set1((lo << above) as _), $set1(at_top(span, above) as _));
            let halves: *mut $half_mask = out.0.as_mut_ptr().cast();
            unrolled!(ROW in $rows {
                let RowEnd { low, high, shift } = RowEnd::new(ROW, width, BITS);
                let shift = $set1(shift as _);
                for half in 0..2 {
                    if ROW < width {
                        ask_ahead(packed, ROW * 2 + half);
                    }
                    let (low, high) = (half_word(packed, low, half), half_word(packed, high, half));
                    let inside = $cmple($sub($funnel(low, high, shift), lo), span);
                    // SAFETY: a row starts at a multiple of its two halves, below 1,024, so both lie in the mask's 1,024 bits.
                    unsafe { *halves.add(row_start(ROW) / (512 / BITS) + half) = inside };
                }
            });
        }
    };
}

lane_range!(u16, range_u16, _mm512_set1_epi16, _mm512_shrdv_epi16, _mm512_sub_epi16, _mm512_cmple_epu16_mask, u32,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]);
lane_range!(u32, range_u32, _mm512_set1_epi32, _mm512_shrdv_epi32, _mm512_sub_epi32, _mm512_cmple_epu32_mask, u16,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]);
lane_range!(u64, range_u64, _mm512_set1_epi64, _mm512_shrdv_epi64, _mm512_sub_epi64, _mm512_cmple_epu64_mask, u8,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
     32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63]);

/// There is no shift of bytes: words are shifted. What crosses into a byte from its neighbour lies below the value, or is replaced.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
fn range_u8<const WIDTH: usize>(packed: Packed<'_>, lo: u64, span: u64, out: &mut Mask) {
    let above = 8 - WIDTH;
    let lo = _mm512_set1_epi8((lo << above) as i8);
    let span = _mm512_set1_epi8(at_top(span, above) as i8);
    unrolled!(ROW in [0 1 2 3 4 5 6 7] {
        let RowEnd { low, high, shift } = RowEnd::new(ROW, WIDTH, 8);
        let (down, up) = (_mm_cvtsi32_si128(shift as i32), _mm_cvtsi32_si128(8 - shift as i32));
        for half in 0..2 {
            if ROW < WIDTH {
                ask_ahead(packed, ROW * 2 + half);
            }
            let (low, high) = (half_word(packed, low, half), half_word(packed, high, half));
            let value = if shift == 0 {
                low
            } else if shift >= WIDTH {
                _mm512_sll_epi16(high, up)
            } else {
                let from_low = _mm512_set1_epi8((0xFFu8 >> shift) as i8);
                // from_low ? low : high, bit by bit.
                _mm512_ternarylogic_epi64::<0xCA>(from_low, _mm512_srl_epi16(low, down), _mm512_sll_epi16(high, up))
            };
            // Words 0 and 1 are row 0's, and so on: `row_start` counts 128 values a row here.
            out.0[row_start(ROW) / 64 + half] = _mm512_cmple_epu8_mask(_mm512_sub_epi8(value, lo), span);
        }
    });
}
