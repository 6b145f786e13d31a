//! The secret that a client shows.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;

/// Fewest bytes of a token: what nobody guesses, if they are random.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Most bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 512;
/// Bytes that a token may have.
pub const TOKEN_BYTES: RangeInclusive<usize> = TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX;

/// A command that makes a token.
pub const TOKEN_REMEDY: &str =
    "make one with `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`";

/// A token of a length that nobody guesses.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

/// A token that can be guessed, or is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} bytes, this one {0}; {TOKEN_REMEDY}")]
pub struct TokenLength(pub usize);

impl Token {
    /// A token of these bytes.
    ///
    /// # Errors
    /// [`TokenLength`] unless they are as many as [`TOKEN_BYTES`] says.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, TokenLength> {
        let bytes = bytes.into();
        match TOKEN_BYTES.contains(&bytes.len()) {
            true => Ok(Self(bytes)),
            false => Err(TokenLength(bytes.len())),
        }
    }

    /// 32 random bytes of the system's, as 64 hexadecimal digits.
    ///
    /// # Errors
    /// Those of reading `/dev/urandom`.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(digits.into_bytes()))
    }

    /// The token itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares in a time that depends on the lengths alone.
    pub fn is(&self, shown: &[u8]) -> bool {
        let differing = self.0.iter().zip(shown).fold(0, |differing, (a, b)| {
            std::hint::black_box(differing | (a ^ b))
        });
        self.0.len() == shown.len() && differing == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_matches_itself_alone_and_reaches_no_log() {
        let token = Token::new(*b"sixteen letters.").unwrap();
        assert!(token.is(b"sixteen letters."));
        for other in [
            &b""[..],
            b"sixteen letters",
            b"sixteen letters!",
            b"sixteen letters..",
        ] {
            assert!(!token.is(other));
        }
        assert_eq!(format!("{token:?}"), "Token(16 bytes)");
        assert_eq!(Token::new([7; 15]), Err(TokenLength(15)));
        assert_eq!(Token::new([7; 513]), Err(TokenLength(513)));
    }

    #[test]
    fn random_tokens_differ() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.as_bytes().len(), 64);
        assert!(one.as_bytes().iter().all(u8::is_ascii_hexdigit));
        assert_ne!(one, other);
    }
}
