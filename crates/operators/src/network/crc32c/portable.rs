//! The oracle: one table of 256 entries, built from the polynomial bit by bit, one byte a step (RFC 3720, 12.1).

/// The Castagnoli polynomial 0x1EDC6F41, bits reversed.
pub(super) const POLYNOMIAL: u32 = 0x82F6_3B78;

/// CRC-32C of `data`.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table(POLYNOMIAL);
    !data.iter().fold(!0u32, |register, byte| {
        (register >> 8) ^ TABLE[usize::from(register as u8 ^ byte)]
    })
}

/// What one byte does to the register of a reflected CRC with this polynomial.
pub(crate) const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            register = (register >> 1) ^ (polynomial * (register & 1));
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}
