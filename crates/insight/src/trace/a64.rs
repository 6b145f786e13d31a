//! 64-bit Arm: the classes that bits 28 to 25 of an instruction say (Arm Architecture Reference Manual, C4.1), and within them what
//! the mix needs. Registers are not decoded.

use super::instruction::{Instruction, Operation};

/// Decodes four bytes, which are little-endian on every Arm that runs Linux.
pub(super) fn decode(address: u64, bytes: &[u8]) -> Instruction {
    let mut word = [0; 4];
    word.copy_from_slice(bytes);
    let word = u32::from_le_bytes(word);
    let operation = operation(word);
    Instruction {
        operation,
        is_conditional: operation == Operation::Branch && is_conditional(word),
        is_multiply: is_multiply(word),
        ..Instruction::unknown(address, 4)
    }
}

fn operation(word: u32) -> Operation {
    match word >> 25 & 0xf {
        // Reserved; bit 31 clear and all of the upper bits: a permanently undefined instruction.
        0b0000 | 0b0001 | 0b0011 => Operation::Unknown,
        // The scalable vectors, whose loads and stores have 1xx in their first bits.
        0b0010 => match word >> 29 {
            0b100..=0b111 => Operation::Move,
            0b011 => Operation::Float,
            _ => Operation::Vector,
        },
        0b1000 | 0b1001 => Operation::Scalar,
        0b1010 | 0b1011 => branch_or_system(word),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => Operation::Move,
        // CRC-32 among data processing with two sources.
        0b0101 | 0b1101 if word & 0x7fe0_e000 == 0x1ac0_4000 => Operation::Crypto,
        0b0101 | 0b1101 => Operation::Scalar,
        _ => vector(word),
    }
}

fn branch_or_system(word: u32) -> Operation {
    // Hints, barriers, system registers: 1101 0101 00.
    match word >> 22 {
        0b11_0101_0100 => Operation::Other,
        _ => Operation::Branch,
    }
}

/// B.cond and BC.cond, CBZ and CBNZ, TBZ and TBNZ.
fn is_conditional(word: u32) -> bool {
    word >> 24 == 0x54 || matches!(word >> 24 & 0x7f, 0x34..=0x37)
}

/// Scalar floating point, advanced SIMD and cryptography.
fn vector(word: u32) -> Operation {
    let is_crypto = word & 0xff3e_0c00 == 0x4e28_0800       // AES
        || word & 0xff20_8c00 == 0x5e00_0000                // SHA, three registers
        || word & 0xff3e_0c00 == 0x5e28_0800                // SHA, two registers
        || word >> 24 == 0xce                               // SHA-512, SHA-3, SM3, SM4
        || word & 0xbf20_fc00 == 0x0e20_e000; // PMULL
    if is_crypto {
        return Operation::Crypto;
    }
    let (top, is_scalar) = (word >> 24 & 0x7f, word >> 28 & 1 == 1);
    // Scalar arithmetic and conversions, fused products, and among vectors of three registers of the same kind the opcodes from 11000 on.
    let is_float = is_scalar && matches!(top & 0x5f, 0x1e | 0x1f) && word >> 30 & 1 == 0
        || word & 0x9f20_c400 == 0x0e20_c400;
    match is_float {
        true => Operation::Float,
        false => Operation::Vector,
    }
}

/// MADD, MSUB, their long forms and SMULH, UMULH: data processing with three sources.
fn is_multiply(word: u32) -> bool {
    word >> 24 & 0x7f == 0x1b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as binutils assembles them, which a test of the feeders does too.
    #[test]
    fn known_words_have_their_classes() {
        for (word, operation, is_conditional) in [
            (0x9100_0400, Operation::Scalar, false), // add x0, x0, #1
            (0x8b01_0000, Operation::Scalar, false), // add x0, x0, x1
            (0xf940_0020, Operation::Move, false),   // ldr x0, [x1]
            (0xa9bf_7bfd, Operation::Move, false),   // stp x29, x30, [sp, #-16]!
            (0x4c40_7000, Operation::Move, false),   // ld1 {v0.16b}, [x0]
            (0x5400_0041, Operation::Branch, true),  // b.ne +8
            (0xb400_0040, Operation::Branch, true),  // cbz x0, +8
            (0x3600_0040, Operation::Branch, true),  // tbz w0, #0, +8
            (0x1400_0001, Operation::Branch, false), // b +4
            (0x9400_0001, Operation::Branch, false), // bl +4
            (0xd65f_03c0, Operation::Branch, false), // ret
            (0xd400_0001, Operation::Branch, false), // svc #0
            (0xd503_201f, Operation::Other, false),  // nop
            (0xd503_3bbf, Operation::Other, false),  // dmb ish
            (0x9ac1_4c00, Operation::Crypto, false), // crc32x w0, w0, x1
            (0x4e28_4820, Operation::Crypto, false), // aese v0.16b, v1.16b
            (0x5e02_4020, Operation::Crypto, false), // sha256h q0, q1, v2.4s
            (0x0ee2_e020, Operation::Crypto, false), // pmull v0.1q, v1.1d, v2.1d
            (0x1e62_2820, Operation::Float, false),  // fadd d0, d1, d2
            (0x1f42_0c20, Operation::Float, false),  // fmadd d0, d1, d2, d3
            (0x4e22_d420, Operation::Float, false),  // fadd v0.4s, v1.4s, v2.4s
            (0x4ea2_8420, Operation::Vector, false), // add v0.4s, v1.4s, v2.4s
            (0x6e22_1c20, Operation::Vector, false), // eor v0.16b, v1.16b, v2.16b
        ] {
            let decoded = decode(0, &u32::to_le_bytes(word));
            assert_eq!(
                (decoded.operation, decoded.is_conditional),
                (operation, is_conditional),
                "{word:08x}"
            );
        }
        assert!(decode(0, &0x9b01_7c00_u32.to_le_bytes()).is_multiply); // mul x0, x0, x1
    }
}
