//! Armv8-A with the AES extension: registers of one block.
#![allow(unsafe_code)]

use std::arch::aarch64::*;
use std::arch::asm;

use super::blocks::{Blocks, Task, write_part};
use super::rounds::broadcast;
use crate::isa::ArmAes;
use crate::part::part;

/// Methods that are an instruction or two. These stand in a function with the extension, which the compiler asks for.
macro_rules! instructions {
    ($($name:ident($($argument:ident),+) = $code:expr;)+) => {
        $(
            #[inline(always)]
            fn $name(self, $($argument: uint8x16_t),+) -> uint8x16_t {
                #[inline]
                #[target_feature(enable = "aes")]
                fn $name($($argument: uint8x16_t),+) -> uint8x16_t {
                    $code
                }
                // SAFETY: `ArmAes` exists only where these instructions do.
                unsafe { $name($($argument),+) }
            }
        )+
    };
}

/// Methods that do nothing to a register of one block.
macro_rules! same {
    ($($name:ident),+) => {
        $(
            #[inline(always)]
            fn $name(self, reg: uint8x16_t) -> uint8x16_t {
                reg
            }
        )+
    };
}

/// Rounds, with the key of the round before, which these begin with, and the key of this one.
macro_rules! rounds {
    ($($name:ident($block:ident, $before:ident, $key:ident) = $code:expr;)+) => {
        $(
            #[inline(always)]
            fn $name(self, $block: uint8x16_t, [$before, $key]: [uint8x16_t; 2]) -> uint8x16_t {
                #[inline]
                #[target_feature(enable = "aes")]
                fn $name($block: uint8x16_t, $before: uint8x16_t, $key: uint8x16_t) -> uint8x16_t {
                    $code
                }
                // SAFETY: `ArmAes` exists only where these instructions do.
                unsafe { $name($block, $before, $key) }
            }
        )+
    };
}

impl Blocks for ArmAes {
    type Reg = uint8x16_t;
    type Four = [uint8x16_t; 4];
    type One = Self;
    type Own<'k, const N: usize> = [uint8x16_t; N];
    const REGS: usize = 4;
    const LANES: usize = 16;
    const READS_AGAIN: bool = false;

    #[inline(always)]
    fn enter<K: Task<Self>>(self, task: K) -> K::Out {
        #[inline(never)]
        #[target_feature(enable = "aes")]
        fn inside<K: Task<ArmAes>>(token: ArmAes, task: K) -> K::Out {
            task.run::<2, 2>(token)
        }
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe { inside(self, task) }
    }

    #[inline(always)]
    fn one(self) -> Self {
        self
    }

    #[inline(always)]
    fn own<const N: usize>(self, keys: &[[u8; 16]; N]) -> [uint8x16_t; N] {
        broadcast(self, keys)
    }

    #[inline(always)]
    fn zeros(self) -> Self::Four {
        [self.set_words([0; 2]); 4]
    }

    #[inline(always)]
    fn set_words(self, [low, high]: [u64; 2]) -> uint8x16_t {
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe { vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high))) }
    }

    #[inline(always)]
    fn words(self, reg: uint8x16_t) -> [u64; 2] {
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe {
            let words = vreinterpretq_u64_u8(reg);
            [vgetq_lane_u64::<0>(words), vgetq_lane_u64::<1>(words)]
        }
    }

    #[inline(always)]
    fn load_reg(self, bytes: &[u8]) -> uint8x16_t {
        let bytes = &bytes[..16];
        // SAFETY: sixteen bytes; the load needs no alignment.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    #[inline(always)]
    fn store_reg(self, to: &mut [u8], reg: uint8x16_t) {
        let to = &mut to[..16];
        // SAFETY: sixteen bytes; the store needs no alignment.
        unsafe { vst1q_u8(to.as_mut_ptr(), reg) }
    }

    #[inline(always)]
    fn load_part(self, bytes: &[u8]) -> uint8x16_t {
        let part = part(bytes);
        self.set_words([part as u64, (part >> 64) as u64])
    }

    #[inline(always)]
    fn store_part(self, to: &mut [u8], reg: uint8x16_t) {
        write_part(to, self.words(reg));
    }

    instructions! {
        xor(a, b) = veorq_u8(a, b);
        and(a, b) = vandq_u8(a, b);
        add32(a, b) = vreinterpretq_u8_u32(vaddq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
        add64(a, b) = vreinterpretq_u8_u64(vaddq_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
        low_product(a, b) = vreinterpretq_u8_p128(vmull_p64(
            vgetq_lane_p64::<0>(vreinterpretq_p64_u8(a)),
            vgetq_lane_p64::<0>(vreinterpretq_p64_u8(b))
        ));
        high_product(a, b) = vreinterpretq_u8_p128(vmull_high_p64(
            vreinterpretq_p64_u8(a),
            vreinterpretq_p64_u8(b)
        ));
        cross_product(a, b) = vreinterpretq_u8_p128(vmull_high_p64(
            vreinterpretq_p64_u8(a),
            vreinterpretq_p64_u8(vextq_u8::<8>(b, b))
        ));
        swap(reg) = vextq_u8::<8>(vrev64q_u8(reg), vrev64q_u8(reg));
        swap_words(reg) = vextq_u8::<8>(reg, reg);
        inverse_key(key) = vaesimcq_u8(key);
    }
    same! { low, widen, broadcast, across, times_alphas }

    #[inline(always)]
    fn times_alpha(self, reg: uint8x16_t) -> uint8x16_t {
        let back = self.set_words([0x87, 1]);
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe {
            // The sign of each word where what it loses comes back.
            let out = vshrq_n_s32::<31>(vreinterpretq_s32_u8(vextq_u8::<12>(reg, reg)));
            let back = vandq_u8(vreinterpretq_u8_s32(out), back);
            veorq_u8(self.add64(reg, reg), back)
        }
    }

    /// Rounds begin with their keys.
    #[inline(always)]
    fn start(self, block: uint8x16_t, _key: uint8x16_t) -> uint8x16_t {
        block
    }

    rounds! {
        round(block, before, _key) = vaesmcq_u8(vaeseq_u8(block, before));
        last(block, before, key) = veorq_u8(vaeseq_u8(block, before), key);
        inverse_round(block, before, _key) = vaesimcq_u8(vaesdq_u8(block, before));
        inverse_last(block, before, key) = veorq_u8(vaesdq_u8(block, before), key);
    }

    /// A round without its last step, on four equal words, where SHIFTROWS changes nothing.
    #[inline(always)]
    fn substitute(self, word: u32) -> u32 {
        #[inline]
        #[target_feature(enable = "aes")]
        fn substitute(word: u32) -> u32 {
            let words = vreinterpretq_u8_u32(vdupq_n_u32(word));
            vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(words, vdupq_n_u8(0))))
        }
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe { substitute(word) }
    }

    #[inline(always)]
    fn left(self, reg: uint8x16_t, bits: u32) -> uint8x16_t {
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe {
            let bits = vdupq_n_s64(i64::from(bits));
            vreinterpretq_u8_u64(vshlq_u64(vreinterpretq_u64_u8(reg), bits))
        }
    }

    #[inline(always)]
    fn right(self, reg: uint8x16_t, bits: u32) -> uint8x16_t {
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe {
            let bits = vdupq_n_s64(-i64::from(bits));
            vreinterpretq_u8_u64(vshlq_u64(vreinterpretq_u64_u8(reg), bits))
        }
    }

    #[inline(always)]
    fn up<const BYTES: i32>(self, reg: uint8x16_t) -> uint8x16_t {
        let zeros = self.set_words([0; 2]);
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe {
            match BYTES {
                2 => vextq_u8::<14>(zeros, reg),
                8 => vextq_u8::<8>(zeros, reg),
                _ => unreachable!("no mode moves blocks so far"),
            }
        }
    }

    #[inline(always)]
    fn down<const BYTES: i32>(self, reg: uint8x16_t) -> uint8x16_t {
        let zeros = self.set_words([0; 2]);
        // SAFETY: `ArmAes` exists only where these instructions do.
        unsafe { vextq_u8::<BYTES>(reg, zeros) }
    }

    #[inline(always)]
    fn behind(self, before: [uint8x16_t; 4], four: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
        [before[3], four[0], four[1], four[2]]
    }

    #[inline(always)]
    fn pin(self, reg: &mut uint8x16_t) {
        // SAFETY: no instruction: the value stays as it is.
        unsafe {
            asm!(
                "/* {:v} */",
                inout(vreg) * reg,
                options(nomem, nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    unsafe fn gather(self, from: [*const u8; 4]) -> [uint8x16_t; 4] {
        let mut four = self.zeros();
        for i in 0..4 {
            // SAFETY: the caller says so; the load needs no alignment.
            four[i] = unsafe { vld1q_u8(from[i]) };
        }
        four
    }

    #[inline(always)]
    unsafe fn scatter(self, to: [*mut u8; 4], four: [uint8x16_t; 4]) {
        for i in 0..4 {
            // SAFETY: the caller says so; the store needs no alignment.
            unsafe { vst1q_u8(to[i], four[i]) };
        }
    }
}
