//! The slot of a leaf's entry: where the entry lies, and how long its parts are.
//!
//! An entry is a word with the position of its older version, then the key unless that is its head, then the value or the word of a
//! long one's first run.

use super::node::words_for;

/// Bytes of a value that lies in the leaf, at most. A longer one lies in lines of its own, so that a leaf has some entries whatever their values.
pub(super) const INLINE_BYTES_MAX: usize = 512;

/// See [the module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

const KEY_SHIFT: u32 = 16;
const VALUE_SHIFT: u32 = 32;
const VALUE_MASK: u64 = 0xff_ffff;
/// There is no value: the key was taken away, or was not there.
const ABSENT: u64 = 1 << 56;
/// The value lies in lines of its own.
const LONG: u64 = 1 << 57;
/// The key lies in the entry.
const KEYED: u64 = 1 << 58;

impl Slot {
    /// Of a version without a value.
    pub(super) const NONE: Self = Self(ABSENT);

    /// Of an entry whose place is not known yet, in a leaf whose heads leave `skip` bytes out.
    pub(super) fn new(key: &[u8], value_len: usize, skip: usize) -> Self {
        let long = if value_len > INLINE_BYTES_MAX {
            LONG
        } else {
            0
        };
        let keyed = if key.len() == 8 && skip == 0 {
            0
        } else {
            KEYED
        };
        let lens = (key.len() as u64) << KEY_SHIFT | (value_len as u64) << VALUE_SHIFT;
        Self(lens | long | keyed)
    }

    /// With another place.
    pub(super) fn at(self, offset: usize) -> Self {
        Self(self.0 & !0xffff | offset as u64)
    }

    /// The same key without a value.
    pub(super) fn without_value(self) -> Self {
        Self(self.0 & !(VALUE_MASK << VALUE_SHIFT) & !LONG | ABSENT)
    }

    /// The same key with another value.
    pub(super) fn with_value(self, value_len: usize) -> Self {
        let long = if value_len > INLINE_BYTES_MAX {
            LONG
        } else {
            0
        };
        let kept = self.0 & !(VALUE_MASK << VALUE_SHIFT) & !(LONG | ABSENT);
        Self(kept | (value_len as u64) << VALUE_SHIFT | long)
    }

    #[inline(always)]
    pub(super) fn offset(self) -> usize {
        self.0 as u16 as usize
    }

    #[inline(always)]
    pub(super) fn key_len(self) -> usize {
        (self.0 >> KEY_SHIFT) as u16 as usize
    }

    #[inline(always)]
    pub(super) fn value_len(self) -> usize {
        (self.0 >> VALUE_SHIFT & VALUE_MASK) as usize
    }

    #[inline(always)]
    pub(super) fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.0 & LONG != 0
    }

    /// True unless the key is its head.
    #[inline(always)]
    pub(super) fn is_keyed(self) -> bool {
        self.0 & KEYED != 0
    }

    #[inline(always)]
    pub(super) fn key_words(self) -> usize {
        match self.is_keyed() {
            true => words_for(self.key_len()),
            false => 0,
        }
    }

    /// Words of the value in the leaf.
    #[inline(always)]
    pub(super) fn value_words(self) -> usize {
        match self.is_long() {
            true => 1,
            false => words_for(self.value_len()),
        }
    }

    /// Where the value begins.
    #[inline(always)]
    pub(super) fn value_at(self) -> usize {
        self.offset() + 1 + self.key_words()
    }

    /// Words of the whole entry.
    pub(super) fn words(self) -> usize {
        1 + self.key_words() + self.value_words()
    }
}
