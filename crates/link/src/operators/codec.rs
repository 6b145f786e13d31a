//! Numbers and texts as bytes, and back: the parts that messages are made of.

use std::fmt;

use dpb_core::printable;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a malformed message: {}", self.0)
    }
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let split = self.0.split_at_checked(len);
        let (bytes, rest) = split.ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("as many as asked for"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    /// A number of bytes, items or jobs.
    pub(super) fn size(&mut self) -> Result<usize, Malformed> {
        // Where addresses are shorter, no limit is above the longest of them.
        self.u64().map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither yes nor no")),
        }
    }

    /// Bytes behind their length of 4 bytes, at most `max`.
    pub(super) fn block(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        match len <= max {
            true => self.bytes(len),
            false => Err(Malformed("a text or a table longer than may be")),
        }
    }

    /// A text of at most `max` bytes.
    pub(super) fn text(&mut self, max: usize) -> Result<&'a str, Malformed> {
        let bytes = self.block(max)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed("a text that is not UTF-8"))
    }

    /// A text of at most `max` bytes for a person: nothing of a peer's reaches a terminal raw.
    pub(super) fn words(&mut self, max: usize) -> Result<String, Malformed> {
        self.text(max).map(|text| printable(text, max))
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Nothing is left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        let is_over = self.0.is_empty();
        is_over
            .then_some(())
            .ok_or(Malformed("it does not end where it should"))
    }
}

/// Appends bytes behind their length. What is longer than a length can say is cut.
pub(super) fn put_block(to: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    to.extend(len.to_le_bytes());
    to.extend(&bytes[..len as usize]);
}

/// Appends a text of at most `max` bytes; a longer one is cut between two characters.
pub(super) fn put_text(to: &mut Vec<u8>, text: &str, max: usize) {
    put_block(to, &text.as_bytes()[..text.floor_char_boundary(max)]);
}

/// Appends a number of bytes, items or jobs.
pub(super) fn put_size(to: &mut Vec<u8>, size: usize) {
    to.extend((size as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read_again() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, "größe", 4);
        put_size(&mut bytes, usize::MAX);
        put_block(&mut bytes, &[1, 2]);
        bytes.extend((-3_i32).to_le_bytes());
        let mut reader = Reader::new(&bytes);
        // The fourth byte is in the middle of a character.
        assert_eq!(reader.text(9), Ok("grö"));
        assert_eq!(reader.size(), Ok(usize::MAX));
        assert_eq!(reader.block(2), Ok(&[1, 2][..]));
        assert_eq!(reader.i32(), Ok(-3));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn lengths_are_bounded() {
        let mut bytes = Vec::new();
        put_block(&mut bytes, &[0; 5]);
        assert!(Reader::new(&bytes).block(4).is_err());
        assert!(Reader::new(&bytes[..8]).block(5).is_err());
        assert!(Reader::new(&[2]).bool().is_err());
        assert!(Reader::new(&[0]).end().is_err());
    }
}
