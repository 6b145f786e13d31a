//! Bodies that do not follow their header: another transport carries them, and TCP says what comes there and where there is room.

use super::{Tag, WireError};

/// Announces a body that the agent writes into the client's ring, piece by piece: what of, and how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The kind of the body: a batch, or part of a file.
    pub of: Tag,
    /// The bytes of the body, within that tag's bound.
    pub len: usize,
}

impl Placed {
    /// Returns true if bodies with this tag may go by that transport.
    pub fn is_for(tag: Tag) -> bool {
        matches!(tag, Tag::Batch | Tag::File)
    }

    /// The frame's body.
    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[0] = self.of as u8;
        bytes[4..].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes
    }

    /// Reads the frame's body.
    ///
    /// # Errors
    /// Another length, a tag whose bodies stay on TCP, a body beyond its tag's bound.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let &[of, 0, 0, 0, a, b, c, d] = body else {
            return Err(WireError::Malformed("where a body is"));
        };
        let of = Tag::of(of).ok_or(WireError::UnknownTag(of))?;
        if !Self::is_for(of) {
            return Err(WireError::OutOfPlace(of));
        }
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        let max = of.body_bytes_max();
        match len <= max {
            true => Ok(Self { of, len }),
            false => Err(WireError::TooLong { tag: of, len, max }),
        }
    }
}

/// The body of a frame that gives room for so many pieces back.
pub fn credit_bytes(pieces: u32) -> [u8; 4] {
    pieces.to_le_bytes()
}

/// Reads it.
///
/// # Errors
/// Another length.
pub fn parse_credit(body: &[u8]) -> Result<u32, WireError> {
    let bytes = <[u8; 4]>::try_from(body).map_err(|_| WireError::Malformed("a credit"))?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_bodies_within_their_bound_are_placed() {
        for (of, len) in [(Tag::Batch, 64 << 20), (Tag::File, 4 << 20), (Tag::File, 0)] {
            let placed = Placed { of, len };
            assert_eq!(Placed::parse(&placed.to_bytes()).unwrap(), placed);
        }
        let good = Placed {
            of: Tag::Batch,
            len: 7,
        }
        .to_bytes();
        assert_eq!(good, [132, 0, 0, 0, 7, 0, 0, 0]);
        for (at, byte) in [(0, Tag::End as u8), (0, 77), (1, 1), (7, 4)] {
            let mut forged = good;
            forged[at] = byte;
            if at == 7 {
                // 64 MiB and seven bytes.
                assert!(matches!(
                    Placed::parse(&forged),
                    Err(WireError::TooLong { .. })
                ));
            }
            assert!(Placed::parse(&forged).is_err(), "{at} {byte}");
        }
        assert!(Placed::parse(&good[..7]).is_err());
        assert_eq!(parse_credit(&credit_bytes(0x01_0203)).unwrap(), 0x01_0203);
        assert!(parse_credit(&[0; 5]).is_err());
    }
}
