//! x86-64: registers of one block with AES-NI, of two with VAES, of four with VAES and AVX-512.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::blocks::{Block, Blocks, Task, words_of_part, write_part};
use crate::isa::{AesNi, Vaes, VaesAvx2};

/// Methods that are one instruction each.
macro_rules! instructions {
    ($self:ident, $Reg:ty; $($name:ident($($argument:ident),+) = $code:expr;)+) => {
        $(
            #[inline(always)]
            fn $name($self, $($argument: $Reg),+) -> $Reg {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $code }
            }
        )+
    };
}

/// Methods that do nothing to a register of one block.
macro_rules! same {
    ($($name:ident),+) => {
        $(
            #[inline(always)]
            fn $name(self, reg: __m128i) -> __m128i {
                reg
            }
        )+
    };
}

/// The rest, which differs in the names of instructions alone.
macro_rules! by_names {
    (
        $features:literal $(or $better:literal if $has:tt)?, $width:literal, $long:literal, $Reg:ty, $regs:literal, $class:ident;
        $zero:ident, $load:ident, $store:ident, $words:expr, $left:ident, $right:ident, $up:ident, $down:ident
    ) => {
        type Reg = $Reg;
        type Four = [$Reg; $regs];
        type One = AesNi;
        const REGS: usize = $regs;

        fn enter<K: Task<Self>>(self, task: K) -> K::Out {
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn inside<T: Blocks, K: Task<T>>(token: T, task: K) -> K::Out {
                task.run::<$width, $long>(token)
            }
            $(
                #[inline(never)]
                #[target_feature(enable = $better)]
                fn better<T: Blocks, K: Task<T>>(token: T, task: K) -> K::Out {
                    task.run::<$width, $long>(token)
                }
                if dpb_core::has!(is_x86_feature_detected: $has) {
                    // SAFETY: that is there too.
                    return unsafe { better(self, task) };
                }
            )?
            // SAFETY: the token exists only where these instructions do.
            unsafe { inside(self, task) }
        }

        #[inline(always)]
        fn one(self) -> AesNi {
            self.into()
        }

        #[inline(always)]
        fn zeros(self) -> Self::Four {
            // SAFETY: the token exists only where these instructions do.
            [unsafe { $zero() }; $regs]
        }

        #[inline(always)]
        fn from_words(self, [low, high]: [u64; 2]) -> $Reg {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $words(_mm_set_epi64x(high.cast_signed(), low.cast_signed())) }
        }

        #[inline(always)]
        fn words(self, reg: $Reg) -> [u64; 2] {
            let block = self.low(reg);
            // SAFETY: the token exists only where these instructions do.
            let words = unsafe { [_mm_cvtsi128_si64(block), _mm_extract_epi64::<1>(block)] };
            words.map(i64::cast_unsigned)
        }

        #[inline(always)]
        fn load_reg(self, bytes: &[u8]) -> $Reg {
            let bytes = &bytes[..Self::BYTES];
            // SAFETY: as many bytes as a register has; the load needs no alignment.
            unsafe { $load(bytes.as_ptr().cast()) }
        }

        #[inline(always)]
        fn store_reg(self, to: &mut [u8], reg: $Reg) {
            let to = &mut to[..Self::BYTES];
            // SAFETY: as many bytes as a register has; the store needs no alignment.
            unsafe { $store(to.as_mut_ptr().cast(), reg) }
        }

        #[inline(always)]
        fn inverse_key(self, key: Block<Self>) -> Block<Self> {
            // SAFETY: the token exists only where these instructions do.
            unsafe { _mm_aesimc_si128(key) }
        }

        /// The last round on four equal words, where SHIFTROWS changes nothing.
        #[inline(always)]
        fn substitute(self, word: u32) -> u32 {
            // SAFETY: the token exists only where these instructions do.
            let word = unsafe {
                let words = _mm_set1_epi32(word.cast_signed());
                _mm_cvtsi128_si32(_mm_aesenclast_si128(words, _mm_setzero_si128()))
            };
            word.cast_unsigned()
        }

        #[inline(always)]
        fn left(self, reg: $Reg, bits: u32) -> $Reg {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $left(reg, _mm_cvtsi32_si128(bits.cast_signed())) }
        }

        #[inline(always)]
        fn right(self, reg: $Reg, bits: u32) -> $Reg {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $right(reg, _mm_cvtsi32_si128(bits.cast_signed())) }
        }

        #[inline(always)]
        fn up<const BYTES: i32>(self, reg: $Reg) -> $Reg {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $up::<BYTES>(reg) }
        }

        #[inline(always)]
        fn down<const BYTES: i32>(self, reg: $Reg) -> $Reg {
            // SAFETY: the token exists only where these instructions do.
            unsafe { $down::<BYTES>(reg) }
        }

        #[inline(always)]
        fn prefetch(self, bytes: &[u8; 16]) {
            // SAFETY: nothing is read that could be seen.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast()) }
        }

        #[inline(always)]
        fn pin(self, reg: &mut $Reg) {
            #[inline]
            #[target_feature(enable = $features)]
            fn pin(reg: &mut $Reg) {
                // SAFETY: no instruction: the value stays as it is.
                unsafe {
                    asm!(
                        "/* {} */",
                        inout($class) * reg,
                        options(nomem, nostack, preserves_flags)
                    );
                }
            }
            // SAFETY: the token exists only where these instructions do.
            unsafe { pin(reg) }
        }
    };
}

/// The order of bytes that turns a block around.
const TURNED: [u64; 2] = [0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607];

/// With AVX, instructions have a register for their result, and need fewer copies.
impl Blocks for AesNi {
    const LANES: usize = 8;

    by_names! {
        "aes,pclmulqdq,sse4.1,ssse3" or "avx,aes,pclmulqdq,sse4.1,ssse3" if "avx", 2, 2, __m128i, 4, xmm_reg;
        _mm_setzero_si128, _mm_loadu_si128, _mm_storeu_si128, std::convert::identity,
        _mm_sll_epi64, _mm_srl_epi64, _mm_bslli_si128, _mm_bsrli_si128
    }

    instructions! {
        self, __m128i;
        xor(a, b) = _mm_xor_si128(a, b);
        and(a, b) = _mm_and_si128(a, b);
        add32(a, b) = _mm_add_epi32(a, b);
        add64(a, b) = _mm_add_epi64(a, b);
        low_product(a, b) = _mm_clmulepi64_si128::<0x00>(a, b);
        high_product(a, b) = _mm_clmulepi64_si128::<0x11>(a, b);
        cross_product(a, b) = _mm_clmulepi64_si128::<0x01>(a, b);
        swap(reg) = _mm_shuffle_epi8(reg, self.from_words(TURNED));
        swap_words(reg) = _mm_shuffle_epi32::<0b01_00_11_10>(reg);
        start(block, key) = _mm_xor_si128(block, key);
    }
    same! { low, widen, broadcast, across, times_alphas }

    #[inline(always)]
    fn times_alpha(self, reg: __m128i) -> __m128i {
        let back = self.from_words([0x87, 1]);
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            // The sign of each word where what it loses comes back.
            let out = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0b00_01_00_11>(reg));
            _mm_xor_si128(_mm_add_epi64(reg, reg), _mm_and_si128(out, back))
        }
    }

    #[inline(always)]
    fn round(self, block: __m128i, [_, key]: [__m128i; 2]) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_aesenc_si128(block, key) }
    }

    #[inline(always)]
    fn last(self, block: __m128i, [_, key]: [__m128i; 2]) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_aesenclast_si128(block, key) }
    }

    #[inline(always)]
    fn inverse_round(self, block: __m128i, [_, key]: [__m128i; 2]) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_aesdec_si128(block, key) }
    }

    #[inline(always)]
    fn inverse_last(self, block: __m128i, [_, key]: [__m128i; 2]) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm_aesdeclast_si128(block, key) }
    }

    #[inline(always)]
    fn load_part(self, bytes: &[u8]) -> __m128i {
        self.from_words(words_of_part(bytes))
    }

    #[inline(always)]
    fn store_part(self, to: &mut [u8], reg: __m128i) {
        write_part(to, self.words(reg));
    }

    #[inline(always)]
    fn behind(self, before: [__m128i; 4], four: [__m128i; 4]) -> [__m128i; 4] {
        [before[3], four[0], four[1], four[2]]
    }

    #[inline(always)]
    unsafe fn gather(self, from: [*const u8; 4]) -> [__m128i; 4] {
        let mut four = self.zeros();
        for i in 0..4 {
            // SAFETY: the caller says so; the load needs no alignment.
            four[i] = unsafe { _mm_loadu_si128(from[i].cast()) };
        }
        four
    }

    #[inline(always)]
    unsafe fn scatter(self, to: [*mut u8; 4], four: [__m128i; 4]) {
        for i in 0..4 {
            // SAFETY: the caller says so; the store needs no alignment.
            unsafe { _mm_storeu_si128(to[i].cast(), four[i]) };
        }
    }
}

impl Blocks for VaesAvx2 {
    const LANES: usize = 16;

    by_names! {
        "avx2,vaes,vpclmulqdq,aes,pclmulqdq", 4, 4, __m256i, 2, ymm_reg;
        _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_broadcastsi128_si256,
        _mm256_sll_epi64, _mm256_srl_epi64, _mm256_bslli_epi128, _mm256_bsrli_epi128
    }

    instructions! {
        self, __m256i;
        xor(a, b) = _mm256_xor_si256(a, b);
        and(a, b) = _mm256_and_si256(a, b);
        add32(a, b) = _mm256_add_epi32(a, b);
        add64(a, b) = _mm256_add_epi64(a, b);
        low_product(a, b) = _mm256_clmulepi64_epi128::<0x00>(a, b);
        high_product(a, b) = _mm256_clmulepi64_epi128::<0x11>(a, b);
        cross_product(a, b) = _mm256_clmulepi64_epi128::<0x01>(a, b);
        swap(reg) = _mm256_shuffle_epi8(reg, self.from_words(TURNED));
        swap_words(reg) = _mm256_shuffle_epi32::<0b01_00_11_10>(reg);
        start(block, key) = _mm256_xor_si256(block, key);
    }

    #[inline(always)]
    fn round(self, block: __m256i, [_, key]: [__m256i; 2]) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_aesenc_epi128(block, key) }
    }

    #[inline(always)]
    fn last(self, block: __m256i, [_, key]: [__m256i; 2]) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_aesenclast_epi128(block, key) }
    }

    #[inline(always)]
    fn inverse_round(self, block: __m256i, [_, key]: [__m256i; 2]) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_aesdec_epi128(block, key) }
    }

    #[inline(always)]
    fn inverse_last(self, block: __m256i, [_, key]: [__m256i; 2]) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_aesdeclast_epi128(block, key) }
    }

    #[inline(always)]
    fn low(self, reg: __m256i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_castsi256_si128(reg) }
    }

    #[inline(always)]
    fn widen(self, block: __m128i) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_zextsi128_si256(block) }
    }

    #[inline(always)]
    fn broadcast(self, block: __m128i) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm256_broadcastsi128_si256(block) }
    }

    #[inline(always)]
    fn across(self, reg: __m256i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            _mm_xor_si128(
                _mm256_castsi256_si128(reg),
                _mm256_extracti128_si256::<1>(reg),
            )
        }
    }

    #[inline(always)]
    fn load_part(self, bytes: &[u8]) -> __m256i {
        let one = self.one();
        match bytes.split_at_checked(16) {
            None => self.widen(one.load_part(bytes)),
            Some((whole, rest)) => {
                let (low, high) = (one.load_reg(whole), one.load_part(rest));
                // SAFETY: the token exists only where these instructions do.
                unsafe { _mm256_set_m128i(high, low) }
            }
        }
    }

    #[inline(always)]
    fn store_part(self, to: &mut [u8], reg: __m256i) {
        let one = self.one();
        match to.split_at_mut_checked(16) {
            None => one.store_part(to, self.low(reg)),
            Some((whole, rest)) => {
                one.store_reg(whole, self.low(reg));
                // SAFETY: the token exists only where these instructions do.
                one.store_part(rest, unsafe { _mm256_extracti128_si256::<1>(reg) });
            }
        }
    }

    #[inline(always)]
    fn times_alphas(self, reg: __m256i) -> __m256i {
        // SAFETY: the token exists only where these instructions do.
        let [left, out] = unsafe {
            [
                _mm256_sllv_epi64(reg, _mm256_set_epi64x(1, 1, 0, 0)),
                _mm256_srlv_epi64(reg, _mm256_set_epi64x(63, 63, 64, 64)),
            ]
        };
        let back = self.cross_product(out, self.from_words([0x87; 2]));
        self.xor3(left, self.up::<8>(out), back)
    }

    #[inline(always)]
    fn behind(self, before: [__m256i; 2], four: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            [
                _mm256_permute2x128_si256::<0x21>(before[1], four[0]),
                _mm256_permute2x128_si256::<0x21>(four[0], four[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn gather(self, from: [*const u8; 4]) -> [__m256i; 2] {
        // SAFETY: the caller says so; no load needs alignment.
        unsafe {
            let [a, b, c, d] = from;
            [
                _mm256_loadu2_m128i(b.cast(), a.cast()),
                _mm256_loadu2_m128i(d.cast(), c.cast()),
            ]
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: [*mut u8; 4], four: [__m256i; 2]) {
        // SAFETY: the caller says so; no store needs alignment.
        unsafe {
            let [a, b, c, d] = to;
            _mm256_storeu2_m128i(b.cast(), a.cast(), four[0]);
            _mm256_storeu2_m128i(d.cast(), c.cast(), four[1]);
        }
    }
}

impl Blocks for Vaes {
    const LANES: usize = 16;

    by_names! {
        "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,aes,pclmulqdq", 4, 8, __m512i, 1, zmm_reg;
        _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_broadcast_i32x4,
        _mm512_sll_epi64, _mm512_srl_epi64, _mm512_bslli_epi128, _mm512_bsrli_epi128
    }

    instructions! {
        self, __m512i;
        xor(a, b) = _mm512_xor_si512(a, b);
        and(a, b) = _mm512_and_si512(a, b);
        xor3(a, b, c) = _mm512_ternarylogic_epi64::<0x96>(a, b, c);
        add32(a, b) = _mm512_add_epi32(a, b);
        add64(a, b) = _mm512_add_epi64(a, b);
        low_product(a, b) = _mm512_clmulepi64_epi128::<0x00>(a, b);
        high_product(a, b) = _mm512_clmulepi64_epi128::<0x11>(a, b);
        cross_product(a, b) = _mm512_clmulepi64_epi128::<0x01>(a, b);
        swap(reg) = _mm512_shuffle_epi8(reg, self.from_words(TURNED));
        swap_words(reg) = _mm512_shuffle_epi32::<0b01_00_11_10>(reg);
        start(block, key) = _mm512_xor_si512(block, key);
    }

    #[inline(always)]
    fn round(self, block: __m512i, [_, key]: [__m512i; 2]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_aesenc_epi128(block, key) }
    }

    #[inline(always)]
    fn last(self, block: __m512i, [_, key]: [__m512i; 2]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_aesenclast_epi128(block, key) }
    }

    #[inline(always)]
    fn inverse_round(self, block: __m512i, [_, key]: [__m512i; 2]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_aesdec_epi128(block, key) }
    }

    #[inline(always)]
    fn inverse_last(self, block: __m512i, [_, key]: [__m512i; 2]) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_aesdeclast_epi128(block, key) }
    }

    #[inline(always)]
    fn low(self, reg: __m512i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_castsi512_si128(reg) }
    }

    #[inline(always)]
    fn widen(self, block: __m128i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_zextsi128_si512(block) }
    }

    #[inline(always)]
    fn broadcast(self, block: __m128i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        unsafe { _mm512_broadcast_i32x4(block) }
    }

    #[inline(always)]
    fn across(self, reg: __m512i) -> __m128i {
        // SAFETY: the token exists only where these instructions do.
        unsafe {
            let [low, high] = [
                _mm512_castsi512_si256(reg),
                _mm512_extracti64x4_epi64::<1>(reg),
            ];
            let two = _mm256_xor_si256(low, high);
            _mm_xor_si128(
                _mm256_castsi256_si128(two),
                _mm256_extracti128_si256::<1>(two),
            )
        }
    }

    #[inline(always)]
    fn load_part(self, bytes: &[u8]) -> __m512i {
        // SAFETY: the mask has bits only for bytes that are there.
        unsafe { _mm512_maskz_loadu_epi8(mask(bytes.len()), bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_part(self, to: &mut [u8], reg: __m512i) {
        // SAFETY: the mask has bits only for bytes that are there.
        unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask(to.len()), reg) }
    }

    #[inline(always)]
    fn load_some(self, bytes: &[u8]) -> [__m512i; 1] {
        match bytes.try_into() {
            Ok(all) => self.load(all),
            Err(_) => [self.load_part(bytes)],
        }
    }

    #[inline(always)]
    fn store_some(self, to: &mut [u8], [reg]: [__m512i; 1]) {
        match to.try_into() {
            Ok(all) => self.store(all, [reg]),
            Err(_) => self.store_part(to, reg),
        }
    }

    #[inline(always)]
    fn first(self, [reg]: [__m512i; 1], bytes: usize) -> [__m512i; 1] {
        // SAFETY: the token exists only where these instructions do.
        [unsafe { _mm512_maskz_mov_epi8(mask(bytes), reg) }]
    }

    #[inline(always)]
    fn times_alphas(self, reg: __m512i) -> __m512i {
        // SAFETY: the token exists only where these instructions do.
        let [left, out] = unsafe {
            let bits = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
            let rest = _mm512_sub_epi64(_mm512_set1_epi64(64), bits);
            [_mm512_sllv_epi64(reg, bits), _mm512_srlv_epi64(reg, rest)]
        };
        let back = self.cross_product(out, self.from_words([0x87; 2]));
        self.xor3(left, self.up::<8>(out), back)
    }

    #[inline(always)]
    fn behind(self, [before]: [__m512i; 1], [four]: [__m512i; 1]) -> [__m512i; 1] {
        // SAFETY: the token exists only where these instructions do.
        [unsafe { _mm512_alignr_epi64::<6>(four, before) }]
    }

    #[inline(always)]
    unsafe fn gather(self, from: [*const u8; 4]) -> [__m512i; 1] {
        // SAFETY: the caller says so; no load needs alignment.
        unsafe {
            let [a, b, c, d] = from;
            let low = _mm256_loadu2_m128i(b.cast(), a.cast());
            let high = _mm256_loadu2_m128i(d.cast(), c.cast());
            [_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)]
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: [*mut u8; 4], [four]: [__m512i; 1]) {
        // SAFETY: the caller says so; no store needs alignment.
        unsafe {
            _mm_storeu_si128(to[0].cast(), _mm512_castsi512_si128(four));
            _mm_storeu_si128(to[1].cast(), _mm512_extracti32x4_epi32::<1>(four));
            _mm_storeu_si128(to[2].cast(), _mm512_extracti32x4_epi32::<2>(four));
            _mm_storeu_si128(to[3].cast(), _mm512_extracti32x4_epi32::<3>(four));
        }
    }
}

/// A bit for each of the first `bytes`, of 64 at most.
#[inline(always)]
fn mask(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        bytes => u64::MAX >> 64usize.saturating_sub(bytes),
    }
}
