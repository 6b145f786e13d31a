//! AVX2: the portable loops compiled for 256-bit vectors, with the bit gathering by `VPMOVMSKB`.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable::{self, PackBits};
use super::{ByteSet, Kernels, Lanes, Mask, Numbers, Packed, Positions, Relation, gather};

/// The set, if the CPU has it.
pub(super) fn detect() -> Option<Kernels> {
    dpb_core::has!(is_x86_feature_detected: "avx2", "bmi1", "bmi2", "popcnt").then_some(Kernels {
        name: "avx2",
        range,
        unpack,
        widen,
        compare,
        count,
        positions,
        bytes_in_set,
        ask: gather::ask,
        select_narrow: gather::select_narrow,
        select_wide: gather::select_wide,
        pick_narrow: gather::pick_narrow,
        pick_wide: gather::pick_wide,
        rows_hit,
        sum,
        add,
        subtract,
        multiply,
    })
}

/// 32 bytes at a time.
struct MoveMask;

impl PackBits for MoveMask {
    #[inline(always)]
    fn pack(bytes: &[u8; 64]) -> u64 {
        let half = |at: usize| {
            // SAFETY: only this module's functions instantiate the type, all with AVX2; 32 bytes from `at` (0 or 32).
            unsafe {
                let bytes = _mm256_loadu_si256(bytes.as_ptr().add(at).cast());
                // The sign bit is the one that is gathered.
                u64::from(_mm256_movemask_epi8(_mm256_slli_epi16::<7>(bytes)) as u32)
            }
        };
        half(0) | half(32) << 32
    }
}

macro_rules! compiled_for_avx2 {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $portable:expr;)*) => {
        $(#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        fn $name($($arg: $ty),*) $(-> $ret)? {
            $portable($($arg),*)
        })*
    };
}

compiled_for_avx2! {
    range(packed: Packed<'_>, lo: u64, span: u64, out: &mut Mask) = portable::range::<MoveMask>;
    unpack(packed: Packed<'_>, out: &mut Lanes) = portable::unpack;
    widen(lanes: &Lanes, lane_bits: u8, min: i64, unit: i64, out: &mut Numbers) = portable::widen;
    compare(relation: Relation, left: &Numbers, right: &Numbers, out: &mut Mask) = portable::compare::<MoveMask>;
    count(mask: &Mask) -> usize = portable::count;
    positions(mask: &Mask, out: &mut Positions) -> usize = portable::positions;
    bytes_in_set(bytes: &[u8], set: &ByteSet, out: &mut [u64]) = portable::bytes_in_set::<MoveMask>;
    rows_hit(found: &[u64], offsets: &[[u8; 2]], out: &mut Mask) = portable::rows_hit;
    sum(values: &Numbers, mask: &Mask) -> i64 = portable::sum;
    add(left: &Numbers, right: &Numbers, out: &mut Numbers) = portable::add;
    subtract(left: &Numbers, right: &Numbers, out: &mut Numbers) = portable::subtract;
    multiply(left: &Numbers, right: &Numbers, out: &mut Numbers) = portable::multiply;
}
