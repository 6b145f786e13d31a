//! The oracle: one table of 256 entries, built from the polynomial bit by bit, one byte a step (RFC 3720, 12.1; RFC 1952, 8).

use super::Algorithm;

/// The register after `data`.
pub(super) fn advance<A: Algorithm>(register: u64, data: &[u8]) -> u64 {
    let table = const { &table::<A>() };
    data.iter().fold(register, |register, &byte| {
        let byte = match A::HIGHEST_FIRST {
            true => byte.reverse_bits(),
            false => byte,
        };
        (register >> 8) ^ table[usize::from(register as u8 ^ byte)]
    })
}

/// The change of the register by each byte.
const fn table<A: Algorithm>() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            register = (register >> 1) ^ (A::POLYNOMIAL * (register & 1));
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}
