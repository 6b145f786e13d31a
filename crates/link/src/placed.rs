//! Bodies that do not follow their header: another transport carries them, and TCP says what comes there and where there is room.

use crate::error::LinkError;
use crate::tag::Tags;

/// Announces a body that the agent writes into the client's ring, piece by piece: what of, and how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The kind of the body, one that the service lets go so.
    pub of: u8,
    /// The bytes of the body, within that tag's bound.
    pub len: usize,
}

impl Placed {
    /// The frame's body: the tag (1), zero (3), the length (4).
    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[0] = self.of;
        bytes[4..].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes
    }

    /// Reads the frame's body.
    ///
    /// # Errors
    /// Another length, a tag whose bodies stay on TCP, a body beyond its tag's bound.
    pub fn parse(body: &[u8], tags: &Tags) -> Result<Self, LinkError> {
        let &[of, 0, 0, 0, a, b, c, d] = body else {
            return Err(LinkError::Malformed("where a body is"));
        };
        let max = tags.body_bytes_max(of).ok_or(LinkError::UnknownTag(of))?;
        if !tags.is_bulk(of) {
            return Err(LinkError::OutOfPlace(of));
        }
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        match len <= max {
            true => Ok(Self { of, len }),
            false => Err(LinkError::TooLong { tag: of, len, max }),
        }
    }
}

/// The body of a frame that gives room for `pieces` pieces back.
pub fn credit_bytes(pieces: u32) -> [u8; 4] {
    pieces.to_le_bytes()
}

/// Reads it.
///
/// # Errors
/// Another length.
pub fn parse_credit(body: &[u8]) -> Result<u32, LinkError> {
    let bytes = <[u8; 4]>::try_from(body).map_err(|_| LinkError::Malformed("a credit"))?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A service of which bodies with tags 146 and 147 may go past TCP, and those with 148 not.
    const TAGS: Tags = Tags {
        body_bytes_max: |tag| match tag {
            146 => Some(64 << 20),
            147 => Some(4 << 20),
            148 => Some(1000),
            _ => None,
        },
        is_bulk: |tag| matches!(tag, 146 | 147),
    };

    #[test]
    fn only_large_bodies_within_their_bound_are_placed() {
        for (of, len) in [(146, 64 << 20), (147, 4 << 20), (147, 0)] {
            let placed = Placed { of, len };
            assert_eq!(Placed::parse(&placed.to_bytes(), &TAGS).unwrap(), placed);
        }
        let good = Placed { of: 146, len: 7 }.to_bytes();
        assert_eq!(good, [146, 0, 0, 0, 7, 0, 0, 0]);
        // A tag that stays on TCP, one of the session's, one that is not known, a byte that is not zero, 64 MiB and seven bytes.
        for (at, byte) in [(0, 148), (0, 135), (0, 77), (1, 1), (7, 4)] {
            let mut forged = good;
            forged[at] = byte;
            let refused = Placed::parse(&forged, &TAGS).unwrap_err();
            let is_right = match (at, byte) {
                (0, 77) => matches!(refused, LinkError::UnknownTag(77)),
                (0, _) => matches!(refused, LinkError::OutOfPlace(tag) if tag == byte),
                (1, _) => matches!(refused, LinkError::Malformed(_)),
                _ => matches!(refused, LinkError::TooLong { .. }),
            };
            assert!(is_right, "{at} {byte}: {refused}");
        }
        assert!(Placed::parse(&good[..7], &TAGS).is_err());
        assert_eq!(parse_credit(&credit_bytes(0x01_0203)).unwrap(), 0x01_0203);
        assert!(parse_credit(&[0; 5]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(body in prop::collection::vec(any::<u8>(), 0..10)) {
            if let Ok(placed) = Placed::parse(&body, &TAGS) {
                prop_assert_eq!(&placed.to_bytes()[..], &body[..]);
            }
            if let Ok(pieces) = parse_credit(&body) {
                prop_assert_eq!(&credit_bytes(pieces)[..], &body[..]);
            }
        }
    }
}
