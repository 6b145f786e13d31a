//! A frame's header: which body follows, and how long it is.

use std::io::{self, Read};

use crate::error::LinkError;
use crate::tag::Tags;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 8;

/// A frame's header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the body.
    pub tag: u8,
    /// Bytes of body, within the tag's bound.
    pub len: usize,
}

impl Header {
    /// The header of a body of `len` bytes.
    ///
    /// # Errors
    /// A tag that is neither the session's nor one of `tags`, a length beyond the tag's bound.
    pub fn checked(tag: u8, len: usize, tags: &Tags) -> Result<Self, LinkError> {
        let max = tags
            .body_bytes_max(tag)
            .ok_or(LinkError::UnknownTag(tag))?
            .min(u32::MAX as usize);
        if len > max {
            return Err(LinkError::TooLong { tag, len, max });
        }
        Ok(Self { tag, len })
    }

    /// The bytes on the wire. `len` must keep the tag's bound, as [`Header::checked`] sees to.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.tag;
        bytes[4..].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// An unknown tag, a length beyond the tag's bound, a byte that must be zero and is not.
    pub fn parse(bytes: [u8; HEADER_BYTES], tags: &Tags) -> Result<Self, LinkError> {
        let [tag, a, b, c, length @ ..] = bytes;
        if tags.body_bytes_max(tag).is_none() {
            return Err(LinkError::UnknownTag(tag));
        }
        if [a, b, c] != [0; 3] {
            return Err(LinkError::Malformed("a header byte that must be zero"));
        }
        Self::checked(tag, u32::from_le_bytes(length) as usize, tags)
    }

    /// Reads a header from a stream. `None` if the stream ended cleanly before its first byte.
    ///
    /// # Errors
    /// As [`Header::parse`]; [`LinkError::Torn`] if the stream ends inside; [`LinkError::Io`].
    pub fn read(stream: &mut impl Read, tags: &Tags) -> Result<Option<Self>, LinkError> {
        let mut bytes = [0; HEADER_BYTES];
        let mut have = 0;
        while have < HEADER_BYTES {
            match stream.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(LinkError::Torn),
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(LinkError::Torn),
                Err(e) => return Err(LinkError::Io(e)),
            }
        }
        Self::parse(bytes, tags).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag;

    /// A service with one tag.
    const TAGS: Tags = Tags {
        body_bytes_max: |tag| (tag == 144).then_some(1000),
        is_bulk: |_| false,
    };

    #[test]
    fn headers_keep_their_bounds() {
        let mut known = Vec::new();
        for byte in 0..=255u8 {
            let Some(max) = TAGS.body_bytes_max(byte) else {
                assert!(matches!(
                    Header::parse([byte, 0, 0, 0, 0, 0, 0, 0], &TAGS),
                    Err(LinkError::UnknownTag(b)) if b == byte
                ));
                continue;
            };
            known.push(byte);
            let header = Header {
                tag: byte,
                len: max,
            };
            assert_eq!(Header::parse(header.to_bytes(), &TAGS).unwrap(), header);
            let mut longer = header.to_bytes();
            longer[4..].copy_from_slice(&(max as u32 + 1).to_le_bytes());
            assert!(matches!(
                Header::parse(longer, &TAGS),
                Err(LinkError::TooLong { .. })
            ));
        }
        assert_eq!(known, [1, 2, 3, 4, 129, 130, 135, 136, 144]);
        assert!(Header::parse([144, 1, 0, 0, 0, 0, 0, 0], &TAGS).is_err());
    }

    #[test]
    fn a_service_cannot_have_the_sessions_tags() {
        let greedy = Tags {
            body_bytes_max: |_| Some(7),
            is_bulk: |_| true,
        };
        assert_eq!(greedy.body_bytes_max(0), None);
        assert_eq!(greedy.body_bytes_max(tag::OPENED), Some(2));
        assert!(!greedy.is_bulk(tag::ERROR) && greedy.is_bulk(16));
        assert_eq!(
            (greedy.body_bytes_max(16), greedy.body_bytes_max(255)),
            (Some(7), Some(7))
        );
    }

    #[test]
    fn a_stream_that_ends_inside_a_header_is_torn() {
        let bytes = Header { tag: 144, len: 5 }.to_bytes();
        assert!(Header::read(&mut &bytes[..0], &TAGS).unwrap().is_none());
        for end in 1..HEADER_BYTES {
            assert!(matches!(
                Header::read(&mut &bytes[..end], &TAGS),
                Err(LinkError::Torn)
            ));
        }
        assert!(Header::read(&mut &bytes[..], &TAGS).unwrap().is_some());
    }
}
