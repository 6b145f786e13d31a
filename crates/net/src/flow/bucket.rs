//! A bucket: one cache line with the tags of ten places, compared at once, and the numbers that these places hold.
#![allow(unsafe_code)]

/// The places of a bucket.
pub(super) const PLACES: usize = 10;

/// Fifteen bits of a hash, and one that is set, so that no tag is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u16);

impl Tag {
    #[inline(always)]
    pub(super) fn of(hash: u64) -> Self {
        Self(hash as u16 | 1 << 15)
    }

    /// 32 bits that depend on all of the tag's.
    #[inline(always)]
    pub(super) fn mixed(self) -> u64 {
        (u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32
    }
}

/// Numbers by tags. An empty place has tag zero.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    /// Ten tags of sixteen bits, the first one in the lowest; in the last half word how many numbers of this bucket are elsewhere.
    words: [u64; 3],
    /// A number below [`Bucket::NUMBERS_MAX`] in each place, and [`AWAY`].
    held: [u32; PLACES],
}

/// Set in a place whose number would be in another bucket if there were room.
const AWAY: u32 = 1 << 31;

/// The distance of two tags in a word.
const TAG_BITS: usize = 16;
const TAGS_A_WORD: usize = 4;
const SPILLED_SHIFT: u32 = 32;

impl Bucket {
    /// Numbers are below this.
    pub(super) const NUMBERS_MAX: usize = AWAY as usize;

    /// The number in the first place with this tag, and true; or whatever stands in the last place, and false.
    #[inline(always)]
    pub(super) fn first_with(&self, tag: Tag) -> (u32, bool) {
        let places = self.equal(tag.0);
        // The end mark lies in the last place, so that the place is one of the bucket's without a branch.
        let place = (places | compare::PLACE << (compare::STEP * (PLACES - 1))).trailing_zeros();
        let number = self.held[place as usize / compare::STEP] & !AWAY;
        (number, places != 0)
    }

    /// The places with this tag.
    #[inline(always)]
    pub(super) fn with(&self, tag: Tag) -> Places {
        Places(self.equal(tag.0))
    }

    /// An empty place.
    #[inline(always)]
    pub(super) fn empty(&self) -> Option<usize> {
        Places(self.equal(0)).next()
    }

    #[inline(always)]
    fn equal(&self, tag: u16) -> compare::Bits {
        compare::equal(&self.words, tag)
    }

    /// The number at a place.
    #[inline(always)]
    pub(super) fn number(&self, place: usize) -> u32 {
        self.held[place] & !AWAY
    }

    /// The place that holds `number` under this tag.
    #[inline(always)]
    pub(super) fn place_of(&self, tag: Tag, number: u32) -> Option<usize> {
        self.with(tag).find(|place| self.number(*place) == number)
    }

    /// The tag at a place, if it is taken.
    pub(super) fn tag(&self, place: usize) -> Option<Tag> {
        let word = self.words[place / TAGS_A_WORD];
        let tag = (word >> (place % TAGS_A_WORD * TAG_BITS)) as u16;
        (tag != 0).then_some(Tag(tag))
    }

    /// Puts a number at an empty place; `is_away` if it would rather be in another bucket.
    pub(super) fn put(&mut self, place: usize, tag: Tag, number: u32, is_away: bool) {
        let shift = place % TAGS_A_WORD * TAG_BITS;
        self.words[place / TAGS_A_WORD] |= u64::from(tag.0) << shift;
        self.held[place] = number | if is_away { AWAY } else { 0 };
    }

    /// Empties a place; says what it held, and if that would rather have been elsewhere.
    pub(super) fn take(&mut self, place: usize) -> (u32, bool) {
        let shift = place % TAGS_A_WORD * TAG_BITS;
        self.words[place / TAGS_A_WORD] &= !(u64::from(u16::MAX) << shift);
        let held = std::mem::take(&mut self.held[place]);
        (held & !AWAY, held & AWAY != 0)
    }

    /// True if a number of this bucket is elsewhere.
    #[inline(always)]
    pub(super) fn has_spilled(&self) -> bool {
        self.words[2] >> SPILLED_SHIFT != 0
    }

    pub(super) fn spill(&mut self) {
        self.words[2] += 1 << SPILLED_SHIFT;
    }

    pub(super) fn unspill(&mut self) {
        self.words[2] -= 1 << SPILLED_SHIFT;
    }
}

/// Places, by turns.
#[derive(Clone, Copy)]
pub(super) struct Places(compare::Bits);

impl Iterator for Places {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize / compare::STEP;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

/// By SSE2, which is part of x86-64. AVX2 would halve two comparisons of some thirty instructions.
#[cfg(target_arch = "x86_64")]
mod compare {
    use std::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_cvtsi64_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set_epi64x,
        _mm_set1_epi16,
    };

    /// [`PLACE`] for each place, the first one lowest.
    pub(super) type Bits = u32;
    /// Bits from one place to the next.
    pub(super) const STEP: usize = 1;
    pub(super) const PLACE: Bits = 1;

    #[inline(always)]
    pub(super) fn equal(words: &[u64; 3], tag: u16) -> Bits {
        const TAKEN: Bits = (1 << super::PLACES) - 1;
        let [first, second, third] = words.map(u64::cast_signed);
        // SAFETY: SSE2 is part of x86-64, and none of these reads or writes memory.
        let places = unsafe {
            let tag = _mm_set1_epi16(tag.cast_signed());
            let low = _mm_cmpeq_epi16(_mm_set_epi64x(second, first), tag);
            let high = _mm_cmpeq_epi16(_mm_cvtsi64_si128(third), tag);
            _mm_movemask_epi8(_mm_packs_epi16(low, high))
        };
        places.cast_unsigned() & TAKEN
    }
}

/// By NEON, which is part of 64-bit Arm: a nibble for each place, as there is no instruction that gathers bits.
#[cfg(target_arch = "aarch64")]
mod compare {
    use std::arch::aarch64::{
        vceq_u16, vceqq_u16, vcombine_u8, vcombine_u16, vcreate_u16, vdup_n_u16, vdupq_n_u16,
        vget_lane_u64, vmovn_u16, vreinterpret_u64_u8, vreinterpretq_u16_u8, vshrn_n_u16,
    };

    /// [`PLACE`] for each place, the first one lowest.
    pub(super) type Bits = u64;
    /// Bits from one place to the next.
    pub(super) const STEP: usize = 4;
    pub(super) const PLACE: Bits = 1;

    #[inline(always)]
    pub(super) fn equal(words: &[u64; 3], tag: u16) -> Bits {
        const TAKEN: Bits = 0x11_1111_1111;
        // SAFETY: NEON is part of 64-bit Arm, and none of these reads or writes memory.
        unsafe {
            let tags = vcombine_u16(vcreate_u16(words[0]), vcreate_u16(words[1]));
            let low = vmovn_u16(vceqq_u16(tags, vdupq_n_u16(tag)));
            let last = vceq_u16(vcreate_u16(words[2]), vdup_n_u16(tag));
            let high = vmovn_u16(vcombine_u16(last, vdup_n_u16(0)));
            let nibbles = vshrn_n_u16::<4>(vreinterpretq_u16_u8(vcombine_u8(low, high)));
            vget_lane_u64::<0>(vreinterpret_u64_u8(nibbles)) & TAKEN
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use words as compare;

/// By words, four tags at a time.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod words {
    /// [`PLACE`] for each place, the first one lowest.
    pub(super) type Bits = u32;
    /// Bits from one place to the next.
    pub(super) const STEP: usize = 1;
    pub(super) const PLACE: Bits = 1;

    #[inline(always)]
    pub(super) fn equal(words: &[u64; 3], tag: u16) -> Bits {
        const TAKEN: Bits = (1 << super::PLACES) - 1;
        const EACH: u64 = 0x0001_0001_0001_0001;
        const LOW: u64 = 0x7fff * EACH;
        /// Brings the lowest bits of the half words together, in the highest one.
        const GATHER: u64 = 1 << 48 | 1 << 33 | 1 << 18 | 1 << 3;
        let mut bits = 0;
        for (i, word) in words.iter().enumerate() {
            let differ = word ^ (EACH * u64::from(tag));
            // A carry out of the lower fifteen bits, or the highest bit itself: not zero.
            let differ = ((differ & LOW) + LOW) | differ;
            let equal = !differ >> 15 & EACH;
            bits |= ((equal.wrapping_mul(GATHER) >> 48) as u32 & 15) << (4 * i);
        }
        bits & TAKEN
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;

    use super::*;

    #[test]
    fn is_a_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    /// Every way of comparing against one tag after another.
    #[test]
    fn all_comparisons_are_alike() {
        let mut random = SplitMix64::new(1);
        for round in 0..2000 {
            // Few values, so that many are equal; the spilled count is no tag.
            let of = |random: &mut SplitMix64| match round % 3 {
                0 => random.below(3) as u64,
                1 => 0xfffe + random.below(2) as u64,
                _ => 0x7fff + random.below(3) as u64,
            };
            let tags: [u64; 12] = std::array::from_fn(|_| of(&mut random));
            let words = std::array::from_fn(|word| {
                (0..4).map(|i| tags[4 * word + i] << (16 * i)).sum::<u64>()
            });
            let held = std::array::from_fn(|place| 100 + place as u32);
            let bucket = Bucket { words, held };
            for tag in [0, 1, 2, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff] {
                let right: Vec<usize> = (0..PLACES)
                    .filter(|place| tags[*place] == u64::from(tag))
                    .collect();
                let found: Vec<usize> = bucket.with(Tag(tag)).collect();
                assert_eq!(found, right);
                let by_words = words::equal(&words, tag);
                let has = |place: &usize| by_words >> (place * words::STEP) & words::PLACE != 0;
                let found: Vec<usize> = (0..16).filter(has).collect();
                assert_eq!(found, right);
                let (number, is_there) = bucket.first_with(Tag(tag));
                assert_eq!(is_there, !right.is_empty());
                assert!(
                    right
                        .first()
                        .is_none_or(|place| number == bucket.number(*place))
                );
            }
        }
    }

    #[test]
    fn gives_back_what_was_put() {
        let mut bucket = Bucket::default();
        for place in 0..PLACES {
            assert_eq!(bucket.empty(), Some(place));
            bucket.put(place, Tag(7 + place as u16), place as u32, place % 2 == 1);
        }
        assert_eq!(bucket.empty(), None);
        (0..3).for_each(|_| bucket.spill());
        for place in 0..PLACES {
            let tag = Tag(7 + place as u16);
            assert_eq!(bucket.tag(place), Some(tag));
            assert_eq!(bucket.place_of(tag, place as u32), Some(place));
            assert_eq!(bucket.place_of(tag, 99), None);
            assert_eq!(bucket.take(place), (place as u32, place % 2 == 1));
            assert_eq!(bucket.tag(place), None);
        }
        (0..3).for_each(|_| {
            assert!(bucket.has_spilled());
            bucket.unspill();
        });
        assert!(!bucket.has_spilled());
    }
}
