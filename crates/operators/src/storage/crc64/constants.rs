//! Powers of *x* modulo the polynomial, in the reflected form that carry-less multiplication wants.
//!
//! Bit *i* of a reflected 64-bit word is the coefficient of x^(63-i), so the product of two such words, taken as a
//! reflected 128-bit word, is their product times x (Gopal et al., Fast CRC Computation for Generic Polynomials Using
//! PCLMULQDQ, Intel 2009).

use super::POLYNOMIAL;

/// The factors that move the low and the high half of 128 bits forward by `bits`, at least 1. The low half, being earlier in
/// the message, is 64 bits farther from the end.
pub(super) const fn fold(bits: u32) -> [u64; 2] {
    [shift(bits + 64), shift(bits)]
}

/// The constants by which 128 bits become a register (Barrett reduction, three products). With the low half moved forward by [`FORWARD`] and the
/// high half on its low one, the 128 bits have the remainder of 192, of which 64 are zeros at the end. Their low half times
/// [`QUOTIENT`] gives the quotient by the polynomial in the product's low half; that times the polynomial, taken off, leaves
/// the register in the high half. [`DIVISOR`] is the polynomial without its last term, for which the quotient itself stands.
pub(super) const FORWARD: u64 = shift(128);
/// x^128 divided by the polynomial: bit *i* is the coefficient of x^(64-i), and that of x^0 does not matter.
pub(super) const QUOTIENT: u64 = quotient();
/// 64 of the polynomial's 65 bits: bit *i* is the coefficient of x^(64-i).
pub(super) const DIVISOR: u64 = POLYNOMIAL << 1 | 1;

/// The factor that moves 64 bits forward by `bits`, at least 1.
const fn shift(bits: u32) -> u64 {
    power_of_x(bits - 1)
}

const fn quotient() -> u64 {
    // Long division: what is left, reflected, beside the digits from the highest on.
    let (mut left, mut digits, mut i) = (POLYNOMIAL, 1, 1);
    while i < 64 {
        let digit = left & 1;
        digits |= digit << i;
        left = (left >> 1) ^ (POLYNOMIAL * digit);
        i += 1;
    }
    digits
}

/// x^n mod P, reflected: bit 63 is the coefficient of x^0.
const fn power_of_x(n: u32) -> u64 {
    const ONE: u64 = 1 << 63;
    const X: u64 = 1 << 62;
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
const fn product(a: u64, b: u64) -> u64 {
    let mut result = 0;
    let mut bit = 0;
    while bit < 64 {
        // Times x, reduced.
        result = (result >> 1) ^ (POLYNOMIAL * (result & 1));
        if b >> bit & 1 == 1 {
            result ^= a;
        }
        bit += 1;
    }
    result
}
