//! What tells one CRC from another.

use std::fmt;
use std::hash::Hash;

/// A CRC, as a register of 32 bits that takes the lowest bit of each byte first.
///
/// Not to be implemented elsewhere: the paths know which of these their CPU has an instruction for.
pub trait Algorithm: sealed::Sealed + Copy + fmt::Debug + Send + Sync + 'static {
    /// The operator's name.
    const NAME: &'static str;
    /// The polynomial without its highest term: bit 31 is the coefficient of x^0. Of a CRC of 16 bits, times x^16.
    const POLYNOMIAL: u32;
    /// The register before the first byte.
    const INITIAL: u32;
    /// Whether the highest bit of a byte comes first, so that the register takes bytes with their bits reversed.
    const HIGHEST_FIRST: bool;
    /// A value of it.
    type Crc: Copy + Eq + Hash + fmt::Debug + fmt::LowerHex + Into<u64> + Send + Sync;
    /// The value's bytes, as the protocols write them.
    type Slot: Copy + AsRef<[u8]>;

    /// The CRC that a register stands for after the last byte.
    fn crc(register: u32) -> Self::Crc;
    /// The register that stands for it.
    fn register(crc: Self::Crc) -> u32;
    /// The bytes of a CRC, in the order of an output.
    fn slot(crc: Self::Crc) -> Self::Slot;
    /// The value that the low bits of a word are.
    fn from_word(word: u32) -> Self::Crc;
    /// Places for values, one behind another.
    fn slots(bytes: &mut [u8]) -> &mut [Self::Slot];
}

/// CRC-32 of IEEE 802.3, gzip, zlib, PNG: polynomial 0x04C11DB7. CRC-32/ISO-HDLC in the catalogue of CRCs.
#[derive(Clone, Copy, Debug)]
pub enum Ieee {}

/// CRC-32C: polynomial 0x1EDC6F41 (RFC 3720, 12.1). CRC-32/ISCSI in the catalogue of CRCs.
#[derive(Clone, Copy, Debug)]
pub enum Castagnoli {}

/// CRC-16/T10-DIF: polynomial 0x8BB7, highest bit first, register starting at zero (T10 SBC-3, 4.22.4).
#[derive(Clone, Copy, Debug)]
pub enum T10Dif {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Ieee {}
    impl Sealed for super::Castagnoli {}
    impl Sealed for super::T10Dif {}
}

/// The two of 32 bits: lowest bit first, register starting at all ones and inverted at the end, little endian.
macro_rules! of_32_bits {
    ($algorithm:ty, $name:literal, $polynomial:literal) => {
        impl Algorithm for $algorithm {
            const NAME: &'static str = $name;
            const POLYNOMIAL: u32 = u32::reverse_bits($polynomial);
            const INITIAL: u32 = !0;
            const HIGHEST_FIRST: bool = false;
            type Crc = u32;
            type Slot = [u8; 4];

            fn crc(register: u32) -> u32 {
                !register
            }

            fn register(crc: u32) -> u32 {
                !crc
            }

            fn slot(crc: u32) -> [u8; 4] {
                crc.to_le_bytes()
            }

            fn from_word(word: u32) -> u32 {
                word
            }

            fn slots(bytes: &mut [u8]) -> &mut [[u8; 4]] {
                bytes.as_chunks_mut().0
            }
        }
    };
}

of_32_bits!(Ieee, "crc32", 0x04C1_1DB7);
of_32_bits!(Castagnoli, "crc32c", 0x1EDC_6F41);

impl Algorithm for T10Dif {
    const NAME: &'static str = "crc16-t10dif";
    const POLYNOMIAL: u32 = u32::reverse_bits(0x8BB7 << 16);
    const INITIAL: u32 = 0;
    const HIGHEST_FIRST: bool = true;
    type Crc = u16;
    type Slot = [u8; 2];

    fn crc(register: u32) -> u16 {
        (register as u16).reverse_bits()
    }

    fn register(crc: u16) -> u32 {
        u32::from(crc.reverse_bits())
    }

    fn slot(crc: u16) -> [u8; 2] {
        crc.to_be_bytes()
    }

    fn from_word(word: u32) -> u16 {
        word as u16
    }

    fn slots(bytes: &mut [u8]) -> &mut [[u8; 2]] {
        bytes.as_chunks_mut().0
    }
}
