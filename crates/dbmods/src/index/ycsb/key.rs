//! Keys of records.

use std::ops::Deref;

use super::hash::hash;

/// Records whose keys are known to differ. A test proves it for each form: among the first 2^32 numbers no two have the same [`hash`]. It looks at
/// the 2^24 states of the hash before the last octet that varies, which is a block of 256 numbers each, so it takes no list of all numbers.
pub const RECORDS_MAX: u64 = 1 << 32;

/// Bytes of the longest key: "user" and 19 digits.
pub const KEY_BYTES_MAX: usize = 4 + DIGITS;

/// Digits of the longest hash.
const DIGITS: usize = 19;

/// Powers of ten.
const POWERS: [u64; 20] = {
    let (mut powers, mut power) = ([1; 20], 1);
    while power < 20 {
        powers[power] = powers[power - 1] * 10;
        power += 1;
    }
    powers
};

/// How a record's key is written.
///
/// The two forms order the records differently: decimals are not padded, so "user9" lies after "user10".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyForm {
    /// YCSB's: "user" and the decimal digits of the record's [`hash`], no padding (`insertorder=hashed`, `zeropadding=1`). Most have 22 or 23 bytes.
    Ycsb,
    /// Eight bytes: the record's [`hash`], the highest byte first. Keys are spread evenly over the lower half of the numbers of 64 bits.
    Integer,
}

impl KeyForm {
    /// The key of a record. The keys of records below [`RECORDS_MAX`] differ.
    #[inline]
    pub fn key(self, record: u64) -> Key {
        match self {
            Self::Ycsb => Key::decimal(hash(record)),
            Self::Integer => {
                let mut bytes = [0; KEY_BYTES_MAX];
                bytes[..8].copy_from_slice(&Self::integer(record));
                Key { bytes, len: 8 }
            }
        }
    }

    /// The key of a record in the form [`KeyForm::Integer`], as an array.
    #[inline]
    pub const fn integer(record: u64) -> [u8; 8] {
        hash(record).to_be_bytes()
    }
}

/// A key in a buffer of its own. It is a slice of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Zero after the key.
    bytes: [u8; KEY_BYTES_MAX],
    len: u8,
}

impl Key {
    /// The key's bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    #[inline]
    pub(super) fn decimal(number: u64) -> Self {
        const EIGHT: u64 = 100_000_000;
        let high = number / (EIGHT * EIGHT);
        let low = number % (EIGHT * EIGHT);
        // Three groups of eight digits, then zeros, so that the copy has one length, whatever the number's.
        let mut digits = [0; 24 + DIGITS];
        digits[..8].copy_from_slice(&eight_digits(high));
        digits[8..16].copy_from_slice(&eight_digits(low / EIGHT));
        digits[16..24].copy_from_slice(&eight_digits(low % EIGHT));
        // The lengths of hashes are random, so branches on them would be guessed wrong: log(10) of the bits, and one more if the power is reached.
        let bits = 64 - (number | 1).leading_zeros();
        let log = (bits * 1233) >> 12;
        let len =
            log as usize + usize::from(number >= POWERS[log as usize]) + usize::from(number == 0);
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..4].copy_from_slice(b"user");
        // A hash is at most 2^63, which has 19 digits.
        let first = 24 - len.min(DIGITS);
        bytes[4..].copy_from_slice(&digits[first..first + DIGITS]);
        Self {
            bytes,
            len: (4 + len) as u8,
        }
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// The decimal digits of a number below 10^8, by halves of a word at once: four, two and one digit.
#[inline]
const fn eight_digits(number: u64) -> [u8; 8] {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    // Quotients by 100 and 10 of small numbers, as products that do not reach the next lane.
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x0f_000f_000f_000f;
    let ones = tens | ((twos - tens * 10) << 8);
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}
