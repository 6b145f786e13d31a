//! The keying material of an encrypted connection.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use dpb_core::random::SplitMix64;

use crate::exit::Failure;

/// Bytes of salt, behind the key (RFC 4106, 8.1).
const SALT_BYTES: usize = 4;
/// More than this of a file is not read.
const FILE_BYTES_MAX: u64 = 1024;

/// A key of AES and a salt.
#[derive(Clone, PartialEq, Eq)]
pub struct Keying {
    /// 16 or 32 bytes.
    pub key: Vec<u8>,
    /// The part of nonces that does not travel.
    pub salt: [u8; SALT_BYTES],
}

impl Keying {
    /// Of a file: 20 or 36 bytes as hexadecimal digits, with or without 0x before them, as `ip xfrm` takes them; the last four are the salt.
    ///
    /// # Errors
    /// A file that cannot be read, that others than its owner may read, or that holds something else.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::usage(format!("--key {}: {why}", path.display()));
        let read = || -> std::io::Result<(u32, String)> {
            let file = File::open(path)?;
            let (mode, mut text) = (file.metadata()?.mode(), String::new());
            file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
            Ok((mode & 0o777, text))
        };
        let (mode, text) = read().map_err(|error| wrong(error.to_string()))?;
        if mode & 0o077 != 0 {
            return Err(wrong(format!(
                "others than its owner may use it (its mode is {mode:03o}): chmod 600 {}",
                path.display()
            )));
        }
        let keying = Self::parse(text.trim());
        keying.ok_or_else(|| {
            wrong(
                "a key is 40 or 72 hexadecimal digits, of AES-128 or AES-256 and four bytes of salt: head -c 20 /dev/urandom | od -An -v -tx1 | tr -d ' \\n'".to_owned(),
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let value = |digit: &u8| char::from(*digit).to_digit(16);
        let bytes: Option<Vec<u8>> = (digits.as_bytes().chunks(2))
            .map(|two| match two {
                [high, low] => Some((value(high)? << 4 | value(low)?) as u8),
                _ => None,
            })
            .collect();
        let bytes = bytes.filter(|bytes| matches!(bytes.len(), 20 | 36))?;
        let (key, salt) = bytes.split_last_chunk()?;
        Some(Self {
            key: key.to_vec(),
            salt: *salt,
        })
    }

    /// Of a seed: a key of AES-128 for measurements. Whoever knows the seed has it.
    pub fn made(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let key = [random.next_u64(), random.next_u64()].map(u64::to_be_bytes);
        Self {
            key: key.as_flattened().to_vec(),
            salt: (random.next_u64() as u32).to_be_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_ip_xfrm_takes_them() {
        // Of RFC 4106's layout: the key, then the salt.
        let keying = Keying::parse("0x4c80cdefbb5d10da906ac73c3613a6342e443b68").expect("a key");
        assert_eq!(keying.key[..2], [0x4c, 0x80]);
        assert_eq!(keying.salt, [0x2e, 0x44, 0x3b, 0x68]);
        let long = "ab".repeat(36);
        assert_eq!(Keying::parse(&long).expect("a key").key, [0xab; 32]);
        for wrong in [
            "",
            "0x",
            "00",
            &"ab".repeat(16),
            &"+f".repeat(20),
            &"a".repeat(39),
        ] {
            assert!(Keying::parse(wrong).is_none(), "{wrong}");
        }
        assert!(Keying::made(1) == Keying::made(1) && Keying::made(1) != Keying::made(2));
    }
}
