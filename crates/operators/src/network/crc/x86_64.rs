//! x86-64 with PCLMULQDQ: vectors of one lane; with VPCLMULQDQ, of two or four.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::cpu_vendor::Vendor;

use super::constants::{Order, fold};
use super::vectors::{Task, Vectors, by, order, reduced, taken};
use super::{Algorithm, Castagnoli};
use crate::isa::{Avx512, Sse42, VaesAvx2};

/// Read from `len` on, the order that moves `len` bytes from the start of a lane to its end, and zeros below.
static TO_END: [u8; 32] = {
    let mut order = [0x80; 32];
    let mut i = 0;
    while i < 16 {
        order[16 + i] = i as u8;
        i += 1;
    }
    order
};

/// The bytes of a lane in the opposite order.
const TURNED: [u64; 2] = [0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607];

/// What the instruction sets have in common.
macro_rules! common {
    (
        $features:literal, $Vector:ident of $bytes:literal,
        $load:ident, $plus:ident, $product:ident, $up:ident, $down:ident
    ) => {
        type Vector = $Vector;
        type Narrow = Sse42;

        const BYTES: usize = $bytes;

        #[inline(always)]
        fn enter<T: Task>(self, task: T) -> T::Output {
            #[target_feature(enable = $features)]
            fn inside<V: Vectors, T: Task>(vectors: V, task: T) -> T::Output {
                task.run(vectors)
            }
            // SAFETY: the token exists only where these instructions do.
            unsafe { inside(self, task) }
        }

        #[inline(always)]
        fn narrow(self) -> Sse42 {
            self.into()
        }

        #[inline(always)]
        fn load(self, bytes: &[u8]) -> $Vector {
            let bytes = &bytes[..$bytes];
            // SAFETY: the token exists only where these instructions do; so many bytes, which need no alignment.
            unsafe { $load(bytes.as_ptr().cast()) }
        }

        #[inline(always)]
        fn plus(self, a: $Vector, b: $Vector) -> $Vector {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $plus(a, b) }
        }

        #[inline(always)]
        fn product<const HALVES: i32>(self, a: $Vector, b: $Vector) -> $Vector {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $product::<HALVES>(a, b) }
        }

        #[inline(always)]
        fn up(self, lanes: $Vector) -> $Vector {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $up::<8>(lanes) }
        }

        #[inline(always)]
        fn down(self, lanes: $Vector) -> $Vector {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $down::<8>(lanes) }
        }

        #[inline(always)]
        fn has_instruction<A: Algorithm>() -> bool {
            A::POLYNOMIAL == Castagnoli::POLYNOMIAL
        }

        #[inline(always)]
        fn word<A: Algorithm>(self, register: u64, word: u64) -> u64 {
            // SAFETY: the token exists only where these instructions do.
            unsafe { _mm_crc32_u64(register, word) }
        }

        #[inline(always)]
        fn byte<A: Algorithm>(self, register: u64, byte: u8) -> u64 {
            // SAFETY: the token exists only where these instructions do.
            u64::from(unsafe { _mm_crc32_u8(register as u32, byte) })
        }
    };
}

impl Vectors for Sse42 {
    common!(
        "sse4.2,pclmulqdq", __m128i of 16,
        _mm_loadu_si128, _mm_xor_si128, _mm_clmulepi64_si128, _mm_bslli_si128, _mm_bsrli_si128
    );

    const TURNS_BITS: bool = false;
    const BY_CACHE_LINES: bool = false;

    // AMD's Zen is such. On an EPYC of family 25, model 1, 64 KiB took 0.75 of the time with longer chains (measured, in a test).
    #[inline(always)]
    fn products_are_slow() -> bool {
        Vendor::here() == Vendor::Amd
    }

    #[inline(always)]
    fn head(self, item: &[u8], len: usize) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_shuffle_epi8(self.load(item), self.load(&TO_END[len..])) }
    }

    #[inline(always)]
    fn first(self, word: u64) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_cvtsi64_si128(word.cast_signed()) }
    }

    #[inline(always)]
    fn all(self, [low, high]: [u64; 2]) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_set_epi64x(high.cast_signed(), low.cast_signed()) }
    }

    #[inline(always)]
    fn turned(self, bytes: __m128i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_shuffle_epi8(bytes, self.all(TURNED)) }
    }

    #[inline(always)]
    fn last_lane<A: Algorithm>(self, item: __m128i) -> __m128i {
        item
    }

    #[inline(always)]
    fn half<const HIGH: bool>(self, lane: __m128i) -> u64 {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            match HIGH {
                true => _mm_cvtsi128_si64(_mm_unpackhi_epi64(lane, lane)).cast_unsigned(),
                false => _mm_cvtsi128_si64(lane).cast_unsigned(),
            }
        }
    }
}

impl Vectors for VaesAvx2 {
    common!(
        "avx2,pclmulqdq,vpclmulqdq", __m256i of 32,
        _mm256_loadu_si256, _mm256_xor_si256, _mm256_clmulepi64_epi128, _mm256_bslli_epi128, _mm256_bsrli_epi128
    );

    const TURNS_BITS: bool = false;
    const BY_CACHE_LINES: bool = false;

    #[inline(always)]
    fn head(self, item: &[u8], len: usize) -> __m256i {
        let lane = self.narrow();
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            match len.checked_sub(16) {
                None | Some(0) => {
                    let high = lane.head(item, len);
                    _mm256_inserti128_si256::<1>(_mm256_setzero_si256(), high)
                }
                Some(low) => {
                    let high = lane.load(&item[low..]);
                    _mm256_set_m128i(high, lane.head(item, low))
                }
            }
        }
    }

    #[inline(always)]
    fn first(self, word: u64) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_zextsi128_si256(self.narrow().first(word)) }
    }

    #[inline(always)]
    fn all(self, lane: [u64; 2]) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_broadcastsi128_si256(self.narrow().all(lane)) }
    }

    #[inline(always)]
    fn turned(self, bytes: __m256i) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_shuffle_epi8(bytes, self.all(TURNED)) }
    }

    #[inline(always)]
    fn last_lane<A: Algorithm>(self, item: __m256i) -> __m128i {
        let lane = self.narrow();
        let by_16 = lane.all(const { fold::<A>(order::<A, Self>(), 128) });
        // SAFETY: the token exists only where these instructions do.
        let [low, high] = unsafe {
            [
                _mm256_castsi256_si128(item),
                _mm256_extracti128_si256::<1>(item),
            ]
        };
        lane.folded(low, by_16, high)
    }

    #[inline(always)]
    fn half<const HIGH: bool>(self, lanes: __m256i) -> u64 {
        // SAFETY: the token exists only where these instructions do.
        let lane = unsafe { _mm256_castsi256_si128(lanes) };
        self.narrow().half::<HIGH>(lane)
    }

    #[inline(always)]
    fn registers<A: Algorithm>(self, [a, b, c, d]: [__m256i; 4]) -> [u64; 4] {
        let by_16 = by::<A, _, 16>(self);
        // SAFETY: the token exists only where these instructions do.
        let [low_ab, high_ab, low_cd, high_cd] = unsafe {
            [
                _mm256_permute2x128_si256::<0x20>(a, b),
                _mm256_permute2x128_si256::<0x31>(a, b),
                _mm256_permute2x128_si256::<0x20>(c, d),
                _mm256_permute2x128_si256::<0x31>(c, d),
            ]
        };
        let ab = self.folded(low_ab, by_16, high_ab);
        let cd = self.folded(low_cd, by_16, high_cd);
        two_and_two::<A>(self, ab, cd)
    }

    /// A lane is an item's from the start on.
    #[inline(always)]
    fn lines<A: Algorithm>(self, [a, b, c, d]: &[[u8; 64]; 4]) -> [u64; 4] {
        let by_16 = by::<A, _, 16>(self);
        let mut pairs = [self.all([A::INITIAL, 0]); 2];
        for (lanes, [low, high]) in pairs.iter_mut().zip([[a, b], [c, d]]) {
            *lanes = taken::<A, _>(self, self.plus(*lanes, both(self, low, high, 0)));
            for at in [16, 32, 48] {
                let next = taken::<A, _>(self, both(self, low, high, at));
                *lanes = self.folded(*lanes, by_16, next);
            }
        }
        let [ab, cd] = pairs;
        two_and_two::<A>(self, ab, cd)
    }
}

/// Sixteen bytes of two items.
#[inline(always)]
fn both(v: VaesAvx2, low: &[u8; 64], high: &[u8; 64], at: usize) -> __m256i {
    let lane = v.narrow();
    let (low, high) = (lane.load(&low[at..]), lane.load(&high[at..]));
    // SAFETY: the token exists only where these instructions do.
    unsafe { _mm256_set_m128i(high, low) }
}

/// The registers of twice two lanes.
#[inline(always)]
fn two_and_two<A: Algorithm>(v: VaesAvx2, ab: __m256i, cd: __m256i) -> [u64; 4] {
    let order = order::<A, VaesAvx2>();
    let (ab, cd) = (reduced::<A, _>(v, order, ab), reduced::<A, _>(v, order, cd));
    let mut registers = [0; 4];
    // SAFETY: the token exists only where these instructions do; 32 bytes, which need no alignment.
    unsafe {
        // Words of a, c, b, d.
        let words = match order {
            Order::Natural => _mm256_unpacklo_epi64(ab, cd),
            Order::Reflected => _mm256_unpackhi_epi64(ab, cd),
        };
        _mm256_storeu_si256(registers.as_mut_ptr().cast(), words);
    }
    let [a, c, b, d] = registers;
    [a, b, c, d]
}

impl Vectors for Avx512 {
    common!(
        "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2", __m512i of 64,
        _mm512_loadu_si512, _mm512_xor_si512, _mm512_clmulepi64_epi128, _mm512_bslli_epi128, _mm512_bsrli_epi128
    );

    const TURNS_BITS: bool = true;
    const BY_CACHE_LINES: bool = true;

    #[inline(always)]
    fn folded(self, early: __m512i, factors: __m512i, late: __m512i) -> __m512i {
        let low = self.product::<0x00>(early, factors);
        let high = self.product::<0x11>(early, factors);
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_ternarylogic_epi64::<0x96>(low, high, late) }
    }

    #[inline(always)]
    fn head(self, item: &[u8], len: usize) -> __m512i {
        let item = &item[..len];
        let gap = 64 - len;
        let start = item.as_ptr().wrapping_sub(gap);
        // SAFETY: the token exists only where these instructions do. The mask selects `item` alone; bytes that are masked out are not
        // accessed and cannot fault.
        unsafe { _mm512_maskz_loadu_epi8(!0 << gap, start.cast()) }
    }

    #[inline(always)]
    fn first(self, word: u64) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_zextsi128_si512(self.narrow().first(word)) }
    }

    #[inline(always)]
    fn all(self, lane: [u64; 2]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_broadcast_i32x4(self.narrow().all(lane)) }
    }

    #[inline(always)]
    fn turned(self, bytes: __m512i) -> __m512i {
        // Row i of the matrix makes bit 7 - i.
        const REVERSED: i64 = 0x8040_2010_0804_0201_u64.cast_signed();
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(bytes, _mm512_set1_epi64(REVERSED)) }
    }

    #[inline(always)]
    fn last_lane<A: Algorithm>(self, item: __m512i) -> __m128i {
        let factors = const {
            &[
                fold::<A>(Order::Reflected, 384),
                fold::<A>(Order::Reflected, 256),
                fold::<A>(Order::Reflected, 128),
                [0; 2],
            ]
        };
        // SAFETY: the token exists only where these instructions do; 64 bytes, which need no alignment.
        unsafe {
            let factors = _mm512_loadu_si512(factors.as_ptr().cast());
            let last = _mm512_maskz_mov_epi64(0b1100_0000, item);
            let lanes = self.folded(item, factors, last);
            let halves = _mm256_xor_si256(
                _mm512_castsi512_si256(lanes),
                _mm512_extracti64x4_epi64::<1>(lanes),
            );
            _mm_xor_si128(
                _mm256_castsi256_si128(halves),
                _mm256_extracti128_si256::<1>(halves),
            )
        }
    }

    #[inline(always)]
    fn half<const HIGH: bool>(self, lanes: __m512i) -> u64 {
        // SAFETY: the token exists only where these instructions do.
        let lane = unsafe { _mm512_castsi512_si128(lanes) };
        self.narrow().half::<HIGH>(lane)
    }

    #[inline(always)]
    fn registers<A: Algorithm>(self, [a, b, c, d]: [__m512i; 4]) -> [u64; 4] {
        four_lanes::<A>(self, pair::<A>(self, a, b), pair::<A>(self, c, d))
    }

    /// Half a line is loaded to its place, so that the first transposition costs nothing.
    #[inline(always)]
    fn lines<A: Algorithm>(self, [a, b, c, d]: &[[u8; 64]; 4]) -> [u64; 4] {
        let by_32 = by::<A, _, 32>(self);
        // SAFETY: the token exists only where these instructions do.
        let initial = unsafe {
            let initial = A::INITIAL.cast_signed();
            _mm512_set_epi64(0, 0, 0, initial, 0, 0, 0, initial)
        };
        let mut pairs = [initial; 2];
        for (lanes, [low, high]) in pairs.iter_mut().zip([[a, b], [c, d]]) {
            let first = taken::<A, _>(self, self.plus(*lanes, halves(self, low, high, 0)));
            let second = taken::<A, _>(self, halves(self, low, high, 32));
            *lanes = self.folded(first, by_32, second);
        }
        let [ab, cd] = pairs;
        four_lanes::<A>(self, ab, cd)
    }
}

/// 32 bytes of two items.
#[inline(always)]
fn halves(_proof: Avx512, low: &[u8; 64], high: &[u8; 64], at: usize) -> __m512i {
    let (low, high) = (&low[at..at + 32], &high[at..at + 32]);
    // SAFETY: the token exists only where these instructions do; 32 bytes each, which need no alignment.
    unsafe {
        let low = _mm512_castsi256_si512(_mm256_loadu_si256(low.as_ptr().cast()));
        _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(high.as_ptr().cast()))
    }
}

/// Two folded items of four lanes each, folded to two lanes each.
#[inline(always)]
fn pair<A: Algorithm>(v: Avx512, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the token exists only where these instructions do.
    let [early, late] = unsafe {
        [
            _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
            _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
        ]
    };
    v.folded(early, by::<A, _, 32>(v), late)
}

/// The registers of four items, of which two lanes each are left.
#[inline(always)]
fn four_lanes<A: Algorithm>(v: Avx512, ab: __m512i, cd: __m512i) -> [u64; 4] {
    // SAFETY: the token exists only where these instructions do.
    let [early, late] = unsafe {
        [
            _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd),
            _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd),
        ]
    };
    let lanes = v.folded(early, by::<A, _, 16>(v), late);
    let lanes = reduced::<A, _>(v, Order::Reflected, lanes);
    let mut registers = [0; 4];
    // SAFETY: the token exists only where these instructions do; 32 bytes, which need no alignment.
    unsafe {
        let high_halves = _mm512_castsi256_si512(_mm256_setr_epi64x(1, 3, 5, 7));
        let words = _mm512_castsi512_si256(_mm512_permutexvar_epi64(high_halves, lanes));
        _mm256_storeu_si256(registers.as_mut_ptr().cast(), words);
    }
    registers
}
