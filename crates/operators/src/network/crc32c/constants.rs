//! Powers of *x* modulo the Castagnoli polynomial, in the reflected form that carry-less multiplication wants.
//!
//! Bit *i* of a reflected 64-bit word is the coefficient of x^(63-i), so the product of two such words, taken as a
//! reflected 128-bit word, is their product times x. A constant *k* of 32 bits in the low half of a word stands for k
//! times x^32. Together: multiplying by [`shift`]`(n)` multiplies by x^n, for n of at least 33 (Gopal et al., Fast
//! CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009).

/// The polynomial without its highest term, bits reversed.
const POLYNOMIAL: u32 = super::portable::POLYNOMIAL;

/// The factor that moves 64 bits forward by `bits`, at least 33.
pub(super) const fn shift(bits: u32) -> u64 {
    power_of_x(bits - 33) as u64
}

/// The factors that move the low and the high half of 128 bits forward by `bits`. The low half, being earlier in the
/// message, is 64 bits farther from the end.
#[cfg(target_arch = "x86_64")]
pub(super) const fn fold(bits: u32) -> [u64; 2] {
    [shift(bits + 64), shift(bits)]
}

/// x^n mod P, reflected: bit 31 is the coefficient of x^0.
const fn power_of_x(n: u32) -> u32 {
    const ONE: u32 = 1 << 31;
    const X: u32 = 1 << 30;
    let (mut power, mut square, mut n) = (ONE, X, n);
    while n > 0 {
        if n & 1 == 1 {
            power = product(power, square);
        }
        square = product(square, square);
        n >>= 1;
    }
    power
}

/// a * b mod P, reflected, one coefficient of b a step from the highest.
const fn product(a: u32, b: u32) -> u32 {
    let mut result = 0;
    let mut bit = 0;
    while bit < 32 {
        // Times x, reduced.
        result = (result >> 1) ^ (POLYNOMIAL * (result & 1));
        if b >> bit & 1 == 1 {
            result ^= a;
        }
        bit += 1;
    }
    result
}
