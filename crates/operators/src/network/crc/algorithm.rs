//! What tells one CRC from another.

use std::fmt;
use std::hash::Hash;

/// A CRC, as a register of 64 bits that takes the lowest bit of each byte first. One of 32 bits is one of 64 whose polynomial
/// is times x^32: its register has zeros in the high half.
///
/// Not to be implemented elsewhere: the paths know which of these their CPU has an instruction for.
pub trait Algorithm: sealed::Sealed + Copy + fmt::Debug + Send + Sync + 'static {
    /// The operator's name.
    const NAME: &'static str;
    /// The polynomial, times what makes its degree 64, without its highest term: bit 63 is the coefficient of x^0.
    const POLYNOMIAL: u64;
    /// The register before the first byte.
    const INITIAL: u64;
    /// True if the highest bit of a byte comes first, so that the register takes bytes with their bits reversed.
    const HIGHEST_FIRST: bool;
    /// A value of it.
    type Crc: Copy + Eq + Hash + fmt::Debug + fmt::LowerHex + Into<u64> + Send + Sync;
    /// The value's bytes, as the protocols write them.
    type Slot: Copy + AsRef<[u8]>;

    /// The CRC that a register stands for after the last byte.
    fn crc(register: u64) -> Self::Crc;
    /// The register that stands for it.
    fn register(crc: Self::Crc) -> u64;
    /// The CRC that a register stands for whose bits are in the opposite order.
    fn crc_of_turned(register: u64) -> Self::Crc {
        Self::crc(register.reverse_bits())
    }
    /// The bytes of a CRC, in the order of an output.
    fn slot(crc: Self::Crc) -> Self::Slot;
    /// The value that the low bits of a word are.
    fn from_word(word: u64) -> Self::Crc;
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

/// CRC-64/NVME: polynomial 0xAD93D23594C93659 (NVM Express NVM Command Set, 64b Guard Protection Information).
#[derive(Clone, Copy, Debug)]
pub enum Nvme {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Ieee {}
    impl Sealed for super::Castagnoli {}
    impl Sealed for super::T10Dif {}
    impl Sealed for super::Nvme {}
}

/// The two of 32 bits: lowest bit first, register starting at all ones and inverted at the end, little endian.
macro_rules! of_32_bits {
    ($algorithm:ty, $name:literal, $polynomial:literal) => {
        impl Algorithm for $algorithm {
            const NAME: &'static str = $name;
            const POLYNOMIAL: u64 = u32::reverse_bits($polynomial) as u64;
            const INITIAL: u64 = u32::MAX as u64;
            const HIGHEST_FIRST: bool = false;
            type Crc = u32;
            type Slot = [u8; 4];

            fn crc(register: u64) -> u32 {
                !(register as u32)
            }

            fn register(crc: u32) -> u64 {
                u64::from(!crc)
            }

            fn slot(crc: u32) -> [u8; 4] {
                crc.to_le_bytes()
            }

            fn from_word(word: u64) -> u32 {
                word as u32
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
    const POLYNOMIAL: u64 = u16::reverse_bits(0x8BB7) as u64;
    const INITIAL: u64 = 0;
    const HIGHEST_FIRST: bool = true;
    type Crc = u16;
    type Slot = [u8; 2];

    fn crc(register: u64) -> u16 {
        (register as u16).reverse_bits()
    }

    fn register(crc: u16) -> u64 {
        u64::from(crc.reverse_bits())
    }

    fn crc_of_turned(register: u64) -> u16 {
        (register >> 48) as u16
    }

    fn slot(crc: u16) -> [u8; 2] {
        crc.to_be_bytes()
    }

    fn from_word(word: u64) -> u16 {
        word as u16
    }

    fn slots(bytes: &mut [u8]) -> &mut [[u8; 2]] {
        bytes.as_chunks_mut().0
    }
}

/// Lowest bit first, register starting at all ones and inverted at the end, little endian.
impl Algorithm for Nvme {
    const NAME: &'static str = "crc64-nvme";
    const POLYNOMIAL: u64 = u64::reverse_bits(0xAD93_D235_94C9_3659);
    const INITIAL: u64 = !0;
    const HIGHEST_FIRST: bool = false;
    type Crc = u64;
    type Slot = [u8; 8];

    fn crc(register: u64) -> u64 {
        !register
    }

    fn register(crc: u64) -> u64 {
        !crc
    }

    fn slot(crc: u64) -> [u8; 8] {
        crc.to_le_bytes()
    }

    fn from_word(word: u64) -> u64 {
        word
    }

    fn slots(bytes: &mut [u8]) -> &mut [[u8; 8]] {
        bytes.as_chunks_mut().0
    }
}
