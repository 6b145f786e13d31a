//! x86-64 with AVX-512 and VNNI: a line is one vector, and two instructions add it up.
//!
//! `vpdpwssd` multiplies signed words by one and adds both of a pair to a 32-bit lane. Words are not signed: flipping the top
//! bit of each makes them so, 32,768 less than they are, which is added back at the end. One flip and one `vpdpwssd` for each
//! 64 bytes keep both of the ports that have 512 bits at work.
#![allow(unsafe_code)]

mod headers;

use std::arch::asm;
use std::arch::x86_64::*;

use super::GROUP;
use super::kernel;
use super::lines::{Lines, Read, Task};
use crate::isa::Avx512Vnni;

impl Lines for Avx512Vnni {
    type Line = __m512i;

    const LOW: u32 = 32 * 0x8000;

    #[inline(always)]
    fn enter<T: Task>(self, task: T) -> T::Output {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
        fn inside<T: Task>(lines: Avx512Vnni, task: T) -> T::Output {
            task.run(lines)
        }
        // SAFETY: the token exists only where these instructions do.
        unsafe { inside(self, task) }
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> __m512i {
        // SAFETY: the token exists only where these instructions do; 64 bytes, which need no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, line: __m512i, to: &mut [u8; 64]) {
        // SAFETY: the token exists only where these instructions do; 64 bytes, which need no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), line) }
    }

    #[inline(always)]
    fn lanes(self, lanes: &[u32; GROUP]) -> __m512i {
        // SAFETY: the token exists only where these instructions do; 64 bytes, which need no alignment.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn plus(self, sum: __m512i, bytes: __m512i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { plus_pairs(sum, _mm512_xor_si512(bytes, _mm512_set1_epi16(i16::MIN))) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn total(self, sum: __m512i) -> u32 {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_reduce_add_epi32(sum) as u32 }
    }

    #[inline(always)]
    fn folded(self, sums: __m512i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let low = _mm512_and_si512(sums, _mm512_set1_epi32(0xffff));
            _mm512_add_epi32(low, _mm512_srli_epi32::<16>(sums))
        }
    }

    #[inline(always)]
    fn shifted(self, sums: __m512i, by: &[u32; GROUP]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_sllv_epi32(sums, self.lanes(by)) }
    }

    #[inline(always)]
    fn complements(self, sums: __m512i) -> [u16; GROUP] {
        let mut complements = [0; GROUP];
        // SAFETY: the token exists only where these instructions do; 32 bytes, which need no alignment.
        unsafe {
            let complement = _mm512_xor_si512(sums, _mm512_set1_epi32(0xffff));
            let narrow = _mm512_cvtepi32_epi16(complement);
            _mm256_storeu_si256(complements.as_mut_ptr().cast(), narrow);
        }
        complements
    }

    #[inline(always)]
    fn join_halves(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let outer = _mm512_mask_blend_epi64(0b1111_0000, a, b);
            let inner = _mm512_shuffle_i64x2::<0b01_00_11_10>(a, b);
            _mm512_add_epi32(outer, inner)
        }
    }

    #[inline(always)]
    fn join_quarters(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let outer = _mm512_mask_blend_epi64(0b1100_1100, a, b);
            let crossed = _mm512_set_epi64(13, 12, 7, 6, 9, 8, 3, 2);
            let inner = _mm512_permutex2var_epi64(a, crossed, b);
            _mm512_add_epi32(outer, inner)
        }
    }

    #[inline(always)]
    fn join_lanes(self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let (ab, cd) = (join_eighths(a, b), join_eighths(c, d));
            let (ab, cd) = (_mm512_castsi512_ps(ab), _mm512_castsi512_ps(cd));
            let even = _mm512_shuffle_ps::<0b10_00_10_00>(ab, cd);
            let odd = _mm512_shuffle_ps::<0b11_01_11_01>(ab, cd);
            _mm512_add_epi32(_mm512_castps_si512(even), _mm512_castps_si512(odd))
        }
    }

    #[inline(always)]
    fn short(self, items: &[&[u8]; GROUP], longest: usize) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            match longest {
                0..=32 => halves(self, items),
                _ => heads(self, items),
            }
        }
    }

    #[inline(always)]
    fn rest<const COPY: bool>(self, sum: __m512i, block: &[u8], _dst: &mut [u8]) -> (__m512i, u32) {
        const { assert!(!COPY, "what is copied is read by `long`") };
        // SAFETY: the token exists only where these instructions do.
        let bytes = unsafe { load_head(block.as_chunks::<64>().1) };
        (self.plus(sum, bytes), Self::LOW)
    }

    #[inline(always)]
    fn long<const COPY: bool>(self, block: &[u8], dst: &mut [u8]) -> Read<__m512i> {
        let dst = if COPY { &mut dst[..block.len()] } else { dst };
        // SAFETY: the token exists only where these instructions do; if it is written, `dst` is as long.
        unsafe { pass::<COPY>(self, block, dst.as_mut_ptr()) }
    }

    #[inline(always)]
    fn put(self, from: &[u8], to: &mut [u8]) {
        let from = &from[..to.len()];
        for (from, to) in from.chunks(64).zip(to.chunks_mut(64)) {
            // SAFETY: the token exists only where these instructions do; the mask selects both, which are as long, alone.
            unsafe {
                let mask = _bzhi_u64(!0, to.len() as u32);
                _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, load_head(from));
            }
        }
    }

    #[inline(always)]
    fn headers_of_20(self, items: &[u8; GROUP * 20]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { headers::of_20(self, items) }
    }

    #[inline(always)]
    fn headers_of_40(self, items: &[u8; GROUP * 40]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { headers::of_40(self, items) }
    }
}

/// Items of at most 32 bytes: two to a vector, eight apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn halves(lines: Avx512Vnni, items: &[&[u8]; GROUP]) -> __m512i {
    let mut pairs = [lines.zero(); 8];
    for i in 0..8 {
        let (low, high) = (items[i], items[i + 8]);
        let low_mask = _bzhi_u64(!0, low.len() as u32);
        let high_mask = _bzhi_u64(!0, high.len() as u32) << 32;
        // SAFETY: the masks select `low` in the low half and `high`, read from 32 bytes before it, in the high half, each at
        // most 32 bytes; no other byte is accessed.
        let bytes = unsafe {
            let bytes = _mm512_maskz_loadu_epi8(low_mask, low.as_ptr().cast());
            _mm512_mask_loadu_epi8(bytes, high_mask, high.as_ptr().wrapping_sub(32).cast())
        };
        pairs[i] = lines.plus(lines.zero(), bytes);
    }
    let low = _mm512_set1_epi32(Avx512Vnni::LOW as i32 / 2);
    _mm512_add_epi32(kernel::join(lines, pairs), low)
}

/// Items of at most 64 bytes: a vector each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn heads(lines: Avx512Vnni, items: &[&[u8]; GROUP]) -> __m512i {
    let mut pairs = [lines.zero(); 8];
    for i in 0..8 {
        let low = lines.plus(lines.zero(), load_head(items[i]));
        let high = lines.plus(lines.zero(), load_head(items[i + 8]));
        pairs[i] = lines.join_halves(low, high);
    }
    let low = _mm512_set1_epi32(Avx512Vnni::LOW as i32);
    _mm512_add_epi32(kernel::join(lines, pairs), low)
}

/// Adds up at most a block in whole cache lines, of what is written if anything is, the first and the last masked:
/// accesses that cross a line take twice as long. From an odd address words are taken across, which swaps the bytes of the
/// sum (RFC 1071, 2 B).
///
/// # Safety
/// With `COPY`, `dst` has room for `block`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
unsafe fn pass<const COPY: bool>(proof: Avx512Vnni, block: &[u8], dst: *mut u8) -> Read<__m512i> {
    let ahead = match COPY {
        true => dst.addr() % 64,
        false => block.as_ptr().addr() % 64,
    };
    let start = block.as_ptr().wrapping_sub(ahead);
    let start_to = dst.wrapping_sub(ahead);
    let end = ahead + block.len();
    let count = end.div_ceil(64).max(1);
    let masked = |i: usize, mask: u64| {
        // SAFETY: every `mask` selects bytes of `block` alone, and as many of `dst`; no other byte is accessed.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(mask, start.wrapping_add(64 * i).cast());
            if COPY {
                _mm512_mask_storeu_epi8(start_to.wrapping_add(64 * i).cast(), mask, bytes);
            }
            bytes
        }
    };
    let whole = |sum: __m512i, i: usize| {
        // SAFETY: lines behind the first and before the last lie inside `block`, and inside `dst`.
        let bytes = unsafe {
            let bytes = _mm512_loadu_si512(start.wrapping_add(64 * i).cast());
            if COPY {
                _mm512_storeu_si512(start_to.wrapping_add(64 * i).cast(), bytes);
            }
            bytes
        };
        proof.plus(sum, bytes)
    };
    let zero = _mm512_setzero_si512();
    let first = !0 << ahead;
    let last = _bzhi_u64(!0, (end - 64 * (count - 1)) as u32);
    let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
    if count == 1 {
        a = proof.plus(zero, masked(0, first & last));
    } else {
        a = proof.plus(a, masked(0, first));
        b = proof.plus(b, masked(count - 1, last));
        let mut i = 1;
        while i + 4 < count {
            a = whole(a, i);
            b = whole(b, i + 1);
            c = whole(c, i + 2);
            d = whole(d, i + 3);
            i += 4;
        }
        if i + 2 < count {
            c = whole(c, i);
            d = whole(d, i + 1);
            i += 2;
        }
        if i + 1 < count {
            a = whole(a, i);
        }
    }
    Read {
        lanes: _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d)),
        low: count as u32 * Avx512Vnni::LOW,
        shift: (ahead as u32 & 1) * 8,
    }
}

/// Signed words added in pairs to the lanes of `sum`.
///
/// As assembly, for the compiler makes two instructions of the intrinsic's one where it thinks that a chain is long: 256-byte
/// items are a tenth slower then.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn plus_pairs(mut sum: __m512i, words: __m512i) -> __m512i {
    let ones = _mm512_set1_epi16(1);
    // SAFETY: one instruction, which this CPU has, on registers alone.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {words}, {ones}",
            sum = inout(zmm_reg) sum,
            words = in(zmm_reg) words,
            ones = in(zmm_reg) ones,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// At most 64 bytes, and zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn load_head(bytes: &[u8]) -> __m512i {
    let mask = _bzhi_u64(!0, bytes.len() as u32);
    // SAFETY: the mask selects `bytes` alone; no other byte is accessed.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

/// The halves of each quarter added: of `a` in its first, of `b` in its second.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_eighths(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}
