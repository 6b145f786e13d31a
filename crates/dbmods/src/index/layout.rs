//! Bursts of keys, the memory for their values as the caller laid it out, and ranges of keys.

use std::ops::Bound;

use super::IndexError;

/// A range of keys, in the order of byte strings.
///
/// ```
/// use dpb_dbmods::index::KeyRange;
///
/// assert!(KeyRange::from(b"b").before(b"d").contains(b"c"));
/// assert!(!KeyRange::after(b"b").contains(b"b"));
/// assert!(KeyRange::ALL.through(b"d").contains(b"d"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// Where it begins.
    pub start: Bound<&'a [u8]>,
    /// Where it ends.
    pub end: Bound<&'a [u8]>,
}

impl<'a> KeyRange<'a> {
    /// All keys.
    pub const ALL: Self = Self {
        start: Bound::Unbounded,
        end: Bound::Unbounded,
    };

    /// The keys that are not less than `key`.
    pub fn from(key: &'a [u8]) -> Self {
        Self {
            start: Bound::Included(key),
            ..Self::ALL
        }
    }

    /// The keys that are greater than `key`.
    pub fn after(key: &'a [u8]) -> Self {
        Self {
            start: Bound::Excluded(key),
            ..Self::ALL
        }
    }

    /// Those of its keys that are less than `key`.
    #[must_use]
    pub fn before(self, key: &'a [u8]) -> Self {
        Self {
            end: Bound::Excluded(key),
            ..self
        }
    }

    /// Those of its keys that are not greater than `key`.
    #[must_use]
    pub fn through(self, key: &'a [u8]) -> Self {
        Self {
            end: Bound::Included(key),
            ..self
        }
    }

    /// True if `key` is one of its keys.
    pub fn contains(&self, key: &[u8]) -> bool {
        let begins = match self.start {
            Bound::Unbounded => true,
            Bound::Included(start) => start <= key,
            Bound::Excluded(start) => start < key,
        };
        begins && self.ends_behind(key)
    }

    /// True if `key` does not lie behind its end.
    fn ends_behind(&self, key: &[u8]) -> bool {
        match self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
        }
    }

    /// True if no key can be in it, as its end lies before its beginning.
    pub fn is_empty(&self) -> bool {
        match (self.start, self.end) {
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
        }
    }
}

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

    /// Checks that all offsets lie in order within the bytes.
    fn check(&self) -> Result<(), IndexError> {
        let Self::Offsets { bytes, offsets } = self else {
            return Ok(());
        };
        let wrong = (offsets.windows(2))
            .position(|pair| pair[0] > pair[1] || pair[1] as usize > bytes.len());
        match wrong {
            Some(key) => Err(IndexError::Offsets {
                key,
                start: offsets[key],
                end: offsets[key + 1],
                bytes: bytes.len(),
            }),
            None => Ok(()),
        }
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

    /// Checks that the keys lie within their bytes and that there is room for their values. What no key will fill is absent from then on.
    pub(super) fn admit(&mut self, keys: Keys<'_>) -> Result<(), IndexError> {
        keys.check()?;
        let count = keys.len();
        if count > self.found.len() {
            return Err(IndexError::Layout {
                room: self.found.len(),
                each: self.each,
                bytes: self.bytes.len(),
                keys: count,
            });
        }
        self.found[count..].fill(Found::Absent);
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
