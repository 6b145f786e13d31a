//! The oracle: one table of 256 entries, built from the polynomial bit by bit, one byte a step.

use super::POLYNOMIAL;

/// The change of the register by each byte.
static TABLE: [u64; 256] = table();

/// The register after `data`.
pub(super) fn advance(register: u64, data: &[u8]) -> u64 {
    data.iter().fold(register, |register, &byte| {
        (register >> 8) ^ TABLE[usize::from(register as u8 ^ byte)]
    })
}

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            register = (register >> 1) ^ (POLYNOMIAL * (register & 1));
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}
