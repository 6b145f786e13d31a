//! Bursts of keys, and the memory for their values, as the caller laid them out.

use super::IndexError;

/// The keys of a burst, where they lie.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    /// Keys of eight bytes, one behind another. This is the fast path. An integer key is its big-endian bytes.
    Eight(&'a [[u8; 8]]),
    /// Key *i* is `bytes[offsets[i]..offsets[i + 1]]`: one more offset than keys, none decreasing.
    Offsets {
        /// All keys.
        bytes: &'a [u8],
        /// Where they begin and end.
        offsets: &'a [u32],
    },
    /// Keys anywhere.
    Slices(&'a [&'a [u8]]),
}

impl<'a> Keys<'a> {
    /// The number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Eight(keys) => keys.len(),
            Self::Offsets { offsets, .. } => offsets.len().saturating_sub(1),
            Self::Slices(keys) => keys.len(),
        }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A key.
    ///
    /// # Panics
    /// If there is no such key, or its offsets lie outside of the bytes.
    #[inline]
    pub fn key(&self, at: usize) -> &'a [u8] {
        match self {
            Self::Eight(keys) => &keys[at],
            Self::Offsets { bytes, offsets } => {
                &bytes[offsets[at] as usize..offsets[at + 1] as usize]
            }
            Self::Slices(keys) => keys[at],
        }
    }
}

/// What there is for a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// The index has no such key.
    #[default]
    Absent,
    /// A value of this many bytes, all of which are there.
    Whole(u32),
    /// A value of this many bytes, which is longer than the room for it. The first bytes are there.
    Cut(u32),
}

impl Found {
    /// A value of `len` bytes in room for `room`.
    #[inline]
    pub(super) fn of(len: usize, room: usize) -> Self {
        // Values are shorter than 16 MiB.
        match len <= room {
            true => Self::Whole(len as u32),
            false => Self::Cut(len as u32),
        }
    }
}

/// Room for the values of a burst: value *i* begins at byte `i * each`.
#[derive(Debug)]
pub struct Values<'a> {
    bytes: &'a mut [u8],
    each: usize,
    found: &'a mut [Found],
}

impl<'a> Values<'a> {
    /// Room for `found.len()` values of up to `each` bytes.
    ///
    /// # Errors
    /// [`IndexError::Layout`] if `bytes` is too short.
    pub fn new(
        bytes: &'a mut [u8],
        each: usize,
        found: &'a mut [Found],
    ) -> Result<Self, IndexError> {
        let needed = each.checked_mul(found.len());
        if needed.is_none_or(|needed| needed > bytes.len()) {
            return Err(IndexError::Layout {
                room: found.len(),
                each,
                bytes: bytes.len(),
                keys: found.len(),
            });
        }
        Ok(Self { bytes, each, found })
    }

    /// Checks that there is room for the values of so many keys.
    pub(super) fn admit(&self, keys: usize) -> Result<(), IndexError> {
        if keys > self.found.len() {
            return Err(IndexError::Layout {
                room: self.found.len(),
                each: self.each,
                bytes: self.bytes.len(),
                keys,
            });
        }
        Ok(())
    }

    /// Room for one value, and for what was found.
    #[inline]
    pub(super) fn place(&mut self, at: usize) -> (&mut [u8], &mut Found) {
        let start = at * self.each;
        (
            &mut self.bytes[start..start + self.each],
            &mut self.found[at],
        )
    }

    /// What was found for key `at`.
    pub fn found(&self, at: usize) -> Found {
        self.found[at]
    }

    /// The value of key `at`, if there is one that fitted.
    pub fn value(&self, at: usize) -> Option<&[u8]> {
        match self.found[at] {
            Found::Whole(len) => Some(&self.bytes[at * self.each..][..len as usize]),
            Found::Absent | Found::Cut(_) => None,
        }
    }
}
