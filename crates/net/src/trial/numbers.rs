//! Which numbers have been seen: exact for any number of packets, in memory for those that are missing or late.
//!
//! A bit for each number, in pages. A page whose numbers have all been seen is forgotten, so that a trial of a billion packets that loses few
//! takes few pages.

/// Numbers of a page.
const PAGE: u64 = 1 << 15;
const WORDS: usize = (PAGE / 64) as usize;

/// A page.
#[derive(Debug)]
enum Page {
    /// None of its numbers has been seen.
    Empty,
    /// Some have: how many are missing, and which there are.
    Part(u32, Box<[u64; WORDS]>),
    /// All have.
    Full,
}

/// A set of numbers from 0.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pages: Vec<Page>,
    /// Memory of a page that is full.
    spare: Vec<Box<[u64; WORDS]>>,
}

impl Numbers {
    /// Adds a number; false if it was there.
    #[inline]
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let page = (number / PAGE) as usize;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || Page::Empty);
        }
        let (word, bit) = ((number % PAGE / 64) as usize, 1 << (number % 64));
        match &mut self.pages[page] {
            Page::Full => false,
            Page::Part(_, words) if words[word] & bit != 0 => false,
            Page::Part(missing, words) => {
                words[word] |= bit;
                *missing -= 1;
                if *missing == 0
                    && let Page::Part(_, words) =
                        std::mem::replace(&mut self.pages[page], Page::Full)
                {
                    self.spare.push(words);
                }
                true
            }
            empty @ Page::Empty => {
                let mut words = match self.spare.pop() {
                    Some(mut words) => {
                        words.fill(0);
                        words
                    }
                    None => Box::new([0; WORDS]),
                };
                words[word] = bit;
                *empty = Page::Part(PAGE as u32 - 1, words);
                true
            }
        }
    }

    /// True if the number is in it.
    pub(super) fn contains(&self, number: u64) -> bool {
        match self.pages.get((number / PAGE) as usize) {
            None | Some(Page::Empty) => false,
            Some(Page::Full) => true,
            Some(Page::Part(_, words)) => {
                words[(number % PAGE / 64) as usize] & 1 << (number % 64) != 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use dpb_core::random::SplitMix64;

    use super::*;

    #[test]
    fn as_a_set_does() {
        let mut random = SplitMix64::new(1);
        let (mut numbers, mut set) = (Numbers::default(), HashSet::new());
        for _ in 0..200_000 {
            let number = random.below(5 * PAGE as usize / 2) as u64;
            assert_eq!(numbers.insert(number), set.insert(number));
        }
        for number in 0..4 * PAGE {
            assert_eq!(numbers.contains(number), set.contains(&number));
        }
    }

    #[test]
    fn full_pages_take_no_memory() {
        let mut numbers = Numbers::default();
        (0..10 * PAGE).for_each(|number| assert!(numbers.insert(number)));
        assert!(numbers.pages.iter().all(|page| matches!(page, Page::Full)));
        assert_eq!(numbers.spare.len(), 1);
        assert!(!numbers.insert(5) && numbers.contains(5) && !numbers.contains(10 * PAGE));
    }
}
