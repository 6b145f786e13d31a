//! A window of sequence numbers against replays: [`Window`].

/// The highest number that came, and the set of those below it that came, as a ring of bits (RFC 6479): it moves forward by clearing words, without shifting any.
#[derive(Clone, Debug)]
pub struct Window {
    highest: u32,
    /// One word more than the window has, so that a word is cleared as a whole while the oldest is in use.
    words: Box<[u64]>,
    size: u32,
}

const WORD_BITS: u32 = u64::BITS;

impl Window {
    /// A window of at least `size` numbers: 64 or a multiple of it, the next one.
    pub fn new(size: u32) -> Self {
        let words = size.div_ceil(WORD_BITS).clamp(1, 1 << 20);
        Self {
            highest: 0,
            words: vec![0; words as usize + 1].into(),
            size: words * WORD_BITS,
        }
    }

    /// True if `sequence` may be accepted: it is new, and not too old. Zero never is (RFC 4303, 2.2).
    pub fn allows(&self, sequence: u32) -> bool {
        if sequence > self.highest {
            return true;
        }
        let is_recent = self.highest - sequence < self.size;
        let (word, bit) = self.place(sequence);
        sequence != 0 && is_recent && self.words[word] & bit == 0
    }

    /// Notes that `sequence` came, in a packet that is genuine. False if it may not be accepted.
    pub fn accept(&mut self, sequence: u32) -> bool {
        if !self.allows(sequence) {
            return false;
        }
        if sequence > self.highest {
            let (old, new) = (self.highest / WORD_BITS, sequence / WORD_BITS);
            let words = self.words.len() as u32;
            for word in old + 1..=new.min(old + words) {
                self.words[(word % words) as usize] = 0;
            }
            self.highest = sequence;
        }
        let (word, bit) = self.place(sequence);
        self.words[word] |= bit;
        true
    }

    /// The highest number that came.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    fn place(&self, sequence: u32) -> (usize, u64) {
        let word = (sequence / WORD_BITS) as usize % self.words.len();
        (word, 1 << (sequence % WORD_BITS))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As RFC 4303 says, with a set of all numbers that came.
        #[test]
        fn a_number_is_accepted_once_while_it_is_recent(
            size in 1_u32..300, start in prop_oneof![Just(0_u32), Just(u32::MAX - 2000), any::<u32>()],
            steps in prop::collection::vec(prop_oneof![4 => -200_i64..20, 2 => -20_i64..200, 1 => -2000_i64..2000], 1..300),
        ) {
            let mut window = Window::new(size);
            let size = i64::from(size.div_ceil(64) * 64);
            let (mut came, mut highest) = (HashSet::new(), 0_i64);
            let mut at = i64::from(start);
            for step in steps {
                at = (at + step).clamp(0, i64::from(u32::MAX));
                let is_right = at != 0 && at > highest - size && came.insert(at);
                prop_assert_eq!(window.allows(at as u32), is_right);
                prop_assert_eq!(window.accept(at as u32), is_right);
                highest = highest.max(if is_right { at } else { 0 });
                prop_assert_eq!(i64::from(window.highest()), highest);
            }
        }
    }
}
