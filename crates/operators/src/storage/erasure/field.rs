//! The field of 256 elements, bytes as polynomials over two elements, modulo x⁸ + x⁴ + x³ + x² + 1.

use std::sync::LazyLock;

/// The polynomial, without x⁸.
const POLYNOMIAL: u8 = 0x1d;

/// All products.
static PRODUCTS: LazyLock<Box<[[u8; 256]]>> = LazyLock::new(|| {
    let row = |a: u8| std::array::from_fn(|b| by_definition(a, b as u8));
    (0..=255).map(row).collect()
});

/// The products of `a` and each element.
pub(super) fn products(a: u8) -> &'static [u8; 256] {
    &PRODUCTS[usize::from(a)]
}

/// `a` times `b`.
pub(super) fn product(a: u8, b: u8) -> u8 {
    products(a)[usize::from(b)]
}

/// The element whose product with `a` is 1.
///
/// # Panics
/// If `a` is 0.
pub(super) fn inverse(a: u8) -> u8 {
    let is_inverse = |b: &u8| product(a, *b) == 1;
    (1..=255).find(is_inverse).expect("0 has no inverse")
}

/// Multiplies as polynomials, `a` by each power of x that `b` has.
fn by_definition(a: u8, b: u8) -> u8 {
    let (mut power, mut sum) = (a, 0);
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            sum ^= power;
        }
        let carry = power >> 7;
        power = (power << 1) ^ (carry * POLYNOMIAL);
    }
    sum
}

/// The products of `a` and the elements that have low bits alone, and of those that have high bits alone: together they give
/// any, which is what instructions that look sixteen entries up are good for.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn nibbles(a: u8) -> [[u8; 16]; 2] {
    let products = products(a);
    [
        std::array::from_fn(|low| products[low]),
        std::array::from_fn(|high| products[high << 4]),
    ]
}
