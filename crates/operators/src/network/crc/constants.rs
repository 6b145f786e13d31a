//! Powers of *x* modulo a polynomial, in the reflected form that carry-less multiplication wants.
//!
//! Bit *i* of a reflected 64-bit word is the coefficient of x^(63-i), so the product of two such words, taken as a
//! reflected 128-bit word, is their product times x. A constant *k* of 32 bits in the low half of a word stands for k
//! times x^32. Together: multiplying by [`shift`]`(n)` multiplies by x^n (Gopal et al., Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ, Intel 2009).

use super::Algorithm;

/// The factor that moves 64 bits forward by `bits`, at least 1.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const fn shift<A: Algorithm>(bits: u32) -> u64 {
    if bits > 32 {
        power_of_x::<A>(bits - 33) as u64
    } else {
        // Powers too low for the low half of a word need no reduction.
        1 << (64 - bits)
    }
}

/// The factors that move the low and the high half of 128 bits forward by `bits`. The low half, being earlier in the
/// message, is 64 bits farther from the end.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const fn fold<A: Algorithm>(bits: u32) -> [u64; 2] {
    [shift::<A>(bits + 64), shift::<A>(bits)]
}

/// The constants by which 128 bits become a register (Barrett reduction, three products). With the low half moved forward by
/// [`Barrett::FORWARD`] the 128 bits are 96, times x^32. Of these the first 64, times [`Barrett::QUOTIENT`], give the
/// quotient by the polynomial in the product's low half; that times [`Barrett::POLYNOMIAL`], taken off, leaves the
/// register in the third quarter.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) struct Barrett<A>(std::marker::PhantomData<A>);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<A: Algorithm> Barrett<A> {
    /// See [`shift`].
    pub(super) const FORWARD: u64 = shift::<A>(128);
    /// x^96 divided by the polynomial: bit *i* is the coefficient of x^(64-i), and that of x^0 does not matter.
    pub(super) const QUOTIENT: u64 = quotient::<A>();
    /// All of its 33 bits: bit *i* is the coefficient of x^(32-i).
    pub(super) const POLYNOMIAL: u64 = (A::POLYNOMIAL as u64) << 1 | 1;
}

/// x^96 divided by the polynomial, as [`Barrett::QUOTIENT`] has it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn quotient<A: Algorithm>() -> u64 {
    // Long division: what is left, reflected in 32 bits, beside the digits from the highest on.
    let (mut left, mut digits, mut i) = (A::POLYNOMIAL, 1u64, 1);
    while i < 64 {
        let digit = left & 1;
        digits |= (digit as u64) << i;
        left = (left >> 1) ^ (A::POLYNOMIAL * digit);
        i += 1;
    }
    digits
}

/// x^n mod P, reflected: bit 31 is the coefficient of x^0.
pub(super) const fn power_of_x<A: Algorithm>(n: u32) -> u32 {
    const ONE: u32 = 1 << 31;
    const X: u32 = 1 << 30;
    let (mut power, mut square, mut n) = (ONE, X, n);
    while n > 0 {
        if n & 1 == 1 {
            power = product::<A>(power, square);
        }
        square = product::<A>(square, square);
        n >>= 1;
    }
    power
}

/// a * b mod P, reflected, one coefficient of b a step from the highest.
pub(super) const fn product<A: Algorithm>(a: u32, b: u32) -> u32 {
    let mut result = 0;
    let mut bit = 0;
    while bit < 32 {
        // Times x, reduced.
        result = (result >> 1) ^ (A::POLYNOMIAL * (result & 1));
        if b >> bit & 1 == 1 {
            result ^= a;
        }
        bit += 1;
    }
    result
}

/// x^8: bit 31 is the coefficient of x^0.
pub(super) const BYTE_POWER: u32 = 1 << (31 - 8);

/// For each byte of a length, from the lowest: x to eight times what it stands for.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const fn powers<A: Algorithm>() -> [[u32; 256]; 8] {
    let mut powers = [[0; 256]; 8];
    let (mut step, mut place) = (BYTE_POWER, 0);
    while place < 8 {
        let (mut power, mut value) = (1 << 31, 0);
        while value < 256 {
            powers[place][value] = power;
            power = product::<A>(power, step);
            value += 1;
        }
        (step, place) = (power, place + 1);
    }
    powers
}
