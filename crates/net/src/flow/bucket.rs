//! A bucket: the tags of fifteen places, compared at once.

/// The places of a bucket.
pub(super) const PLACES: usize = 15;

/// Sixteen bits of a hash, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u16);

impl Tag {
    #[inline(always)]
    pub(super) fn of(hash: u64) -> Self {
        Self((hash as u16).max(1))
    }

    /// 32 bits that depend on all of the tag's.
    #[inline(always)]
    pub(super) fn mixed(self) -> u64 {
        (u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32
    }
}

/// Tags of the places, zero where one is empty, and how many flows of this bucket are in another one.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
pub(super) struct Bucket {
    tags: [u16; PLACES],
    spilled: u16,
}

/// Places, one bit each.
#[derive(Clone, Copy)]
pub(super) struct Places(u32);

impl Bucket {
    /// The places with this tag.
    #[inline(always)]
    pub(super) fn with(&self, tag: Tag) -> Places {
        self.equal(tag.0)
    }

    /// An empty place.
    #[inline(always)]
    pub(super) fn empty(&self) -> Option<usize> {
        self.equal(0).next()
    }

    #[inline(always)]
    fn equal(&self, tag: u16) -> Places {
        let mut places = 0;
        for (i, other) in self.tags.iter().enumerate() {
            places |= u32::from(*other == tag) << i;
        }
        Places(places)
    }

    /// The tag at a place.
    pub(super) fn tag(&self, place: usize) -> Option<Tag> {
        Some(Tag(self.tags[place])).filter(|tag| tag.0 != 0)
    }

    pub(super) fn put(&mut self, place: usize, tag: Tag) {
        self.tags[place] = tag.0;
    }

    pub(super) fn clear(&mut self, place: usize) {
        self.tags[place] = 0;
    }

    /// True if a flow of this bucket may be in another one.
    #[inline(always)]
    pub(super) fn has_spilled(&self) -> bool {
        self.spilled != 0
    }

    pub(super) fn spill(&mut self) {
        self.spilled += 1;
    }

    pub(super) fn unspill(&mut self) {
        self.spilled -= 1;
    }

    /// The places that are taken.
    pub(super) fn taken(&self) -> Places {
        Places(!self.equal(0).0 & ((1 << PLACES) - 1))
    }
}

impl Iterator for Places {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(place)
    }
}
