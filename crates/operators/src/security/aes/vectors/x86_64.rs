//! x86-64: registers of one block with AES-NI, of two with VAES, of four with VAES and AVX-512.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::blocks::{Block, Blocks, Stored, Task, write_part};
use crate::isa::{AesAvx, AesNi};
use crate::part::part;

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

/// Rounds, which end with their keys.
macro_rules! rounds {
    ($Reg:ty; $($name:ident $instruction:ident),+) => {
        $(
            #[inline(always)]
            fn $name(self, block: $Reg, [_, key]: [$Reg; 2]) -> $Reg {
                // SAFETY: the token exists only where these instructions do.
                unsafe { $instruction(block, key) }
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
    (@own stored $Reg:ty) => {
        type Own<'k, const N: usize> = Stored<'k, N>;

        #[inline(always)]
        fn own<const N: usize>(self, keys: &[[u8; 16]; N]) -> Stored<'_, N> {
            Stored(keys)
        }
    };
    (@own registers $Reg:ty) => {
        type Own<'k, const N: usize> = [$Reg; N];

        #[inline(always)]
        fn own<const N: usize>(self, keys: &[[u8; 16]; N]) -> [$Reg; N] {
            broadcast(self, keys)
        }
    };
    (
        $features:literal, $width:literal, $long:literal, $Reg:ty, $regs:literal, $class:ident, $own:ident;
        $zero:ident, $load:ident, $store:ident, $words:expr, $left:ident, $right:ident, $up:ident, $down:ident
    ) => {
        type Reg = $Reg;
        type Four = [$Reg; $regs];
        type One = AesNi;
        by_names!(@own $own $Reg);
        const REGS: usize = $regs;

        #[inline(always)]
        fn enter<K: Task<Self>>(self, task: K) -> K::Out {
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn inside<T: Blocks, K: Task<T>>(token: T, task: K) -> K::Out {
                task.run::<$width, $long>(token)
            }
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
        fn set_words(self, [low, high]: [u64; 2]) -> $Reg {
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

mod avx2;
mod avx512;

/// [`Blocks`] with registers of one block, by the features of the token.
macro_rules! one_block {
    ($Token:ident, $features:literal) => {
        impl Blocks for $Token {
            const LANES: usize = 8;
            const READS_AGAIN: bool = true;

            by_names! {
                $features, 2, 2, __m128i, 4, xmm_reg, stored;
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
                swap(reg) = _mm_shuffle_epi8(reg, self.set_words(TURNED));
                swap_words(reg) = _mm_shuffle_epi32::<0b01_00_11_10>(reg);
                start(block, key) = _mm_xor_si128(block, key);
            }
            same! { low, widen, broadcast, across, times_alphas }

            #[inline(always)]
            fn times_alpha(self, reg: __m128i) -> __m128i {
                let back = self.set_words([0x87, 1]);
                // SAFETY: the token exists only where these instructions do.
                unsafe {
                    // The sign of each word where what it loses comes back.
                    let out = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0b00_01_00_11>(reg));
                    _mm_xor_si128(_mm_add_epi64(reg, reg), _mm_and_si128(out, back))
                }
            }

            rounds! { __m128i; round _mm_aesenc_si128, last _mm_aesenclast_si128, inverse_round _mm_aesdec_si128, inverse_last _mm_aesdeclast_si128 }

            #[inline(always)]
            fn load_part(self, bytes: &[u8]) -> __m128i {
                let part = part(bytes);
                self.set_words([part as u64, (part >> 64) as u64])
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
    };
}

one_block!(AesNi, "aes,pclmulqdq,sse4.1,ssse3");
// The same instructions as AVX encodes them: a result goes to a register of its own, so nothing is copied before it is overwritten, and
// operands in memory need no alignment.
one_block!(AesAvx, "avx,aes,pclmulqdq");
