//! Powers of *x* modulo a polynomial, in the forms that carry-less multiplication wants.
//!
//! Bit *i* of a reflected 64-bit word is the coefficient of x^(63-i), so the product of two such words, taken as a
//! reflected 128-bit word, is their product times x (Gopal et al., Fast CRC Computation for Generic Polynomials Using
//! PCLMULQDQ, Intel 2009). A CRC that takes the highest bit of a byte first may also be computed in words whose bit *i* is the
//! coefficient of x^i: the same with the halves of a lane exchanged, and without that x.

use super::Algorithm;

/// The order of the bits in a lane of 128.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Bit 0 is the first of the message: the highest power of *x*.
    Reflected,
    /// Bit 127 is the first of the message.
    Natural,
}

/// The factors that move the low and the high half of 128 bits forward by `bits`, at least 1. The half that is earlier in the
/// message is 64 bits farther from the end.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const fn fold<A: Algorithm>(order: Order, bits: u32) -> [u64; 2] {
    match order {
        Order::Reflected => [power_of_x::<A>(bits + 63), power_of_x::<A>(bits - 1)],
        Order::Natural => [
            power_of_x::<A>(bits).reverse_bits(),
            power_of_x::<A>(bits + 64).reverse_bits(),
        ],
    }
}

/// The constants by which 128 bits become a register (Barrett reduction, three products). With the early half moved forward by
/// [`Barrett::FORWARD`] and the late half in its place, the 128 bits have the remainder of 192, of which 64 are zeros at the end. Their early half times
/// [`Barrett::QUOTIENT`] gives the quotient by the polynomial; that times [`Barrett::DIVISOR`], taken off, leaves the register in the late half.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) struct Barrett<A>(std::marker::PhantomData<A>);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<A: Algorithm> Barrett<A> {
    /// See [`fold`].
    pub(super) const FORWARD: u64 = power_of_x::<A>(127);
    /// x^128 divided by the polynomial: bit *i* is the coefficient of x^(64-i), and that of x^0 does not matter.
    pub(super) const QUOTIENT: u64 = quotient::<A>() as u64;
    /// 64 of the polynomial's 65 bits: bit *i* is the coefficient of x^(64-i).
    pub(super) const DIVISOR: u64 = A::POLYNOMIAL << 1 | 1;
    /// True if the last term, which [`Barrett::DIVISOR`] has no room for, is there: the quotient itself stands for it.
    pub(super) const HAS_LAST_TERM: bool = A::POLYNOMIAL >> 63 == 1;

    /// The same for [`Order::Natural`]. Of quotient and divisor the first term is left out, for which the factor itself stands.
    pub(super) const NATURAL_FORWARD: u64 = power_of_x::<A>(128).reverse_bits();
    pub(super) const NATURAL_QUOTIENT: u64 = ((quotient::<A>() >> 1) as u64).reverse_bits();
    pub(super) const NATURAL_DIVISOR: u64 = A::POLYNOMIAL.reverse_bits();
}

/// x^128 divided by the polynomial: bit *i* is the coefficient of x^(64-i).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn quotient<A: Algorithm>() -> u128 {
    // Long division: what is left, reflected, beside the digits from the highest on.
    let (mut left, mut digits, mut i) = (A::POLYNOMIAL, 1u128, 1);
    while i <= 64 {
        let digit = left & 1;
        digits |= (digit as u128) << i;
        left = (left >> 1) ^ (A::POLYNOMIAL * digit);
        i += 1;
    }
    digits
}

/// x^n mod P, reflected: bit 63 is the coefficient of x^0.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const fn power_of_x<A: Algorithm>(n: u32) -> u64 {
    const ONE: u64 = 1 << 63;
    const X: u64 = 1 << 62;
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
pub(super) const fn product<A: Algorithm>(a: u64, b: u64) -> u64 {
    let mut result = 0;
    let mut bit = 0;
    while bit < 64 {
        // Times x, reduced.
        result = (result >> 1) ^ (A::POLYNOMIAL * (result & 1));
        if b >> bit & 1 == 1 {
            result ^= a;
        }
        bit += 1;
    }
    result
}

/// x^8: bit 63 is the coefficient of x^0.
pub(super) const BYTE_POWER: u64 = 1 << (63 - 8);

/// For each byte of a length, from the lowest: x to eight times what it stands for.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const fn powers<A: Algorithm>() -> [[u64; 256]; 8] {
    let mut powers = [[0; 256]; 8];
    let (mut step, mut place) = (BYTE_POWER, 0);
    while place < 8 {
        let (mut power, mut value) = (1 << 63, 0);
        while value < 256 {
            powers[place][value] = power;
            power = product::<A>(power, step);
            value += 1;
        }
        (step, place) = (power, place + 1);
    }
    powers
}
