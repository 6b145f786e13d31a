//! Sequential accesses: the buffer from end to end, again and again.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use super::wide::{self, Width};
use super::{Access, Handled, Walk};
use crate::mapping::Mapping;

/// Words between two looks at the clock.
const STEP: usize = 32_768;

pub(super) struct Sequential {
    access: Access,
    width: Width,
    words: usize,
    /// The next word.
    at: usize,
    /// Words since the buffer was laid.
    done: u64,
    /// Words that were checked of them.
    checked: u64,
    sum: u64,
}

impl Sequential {
    pub(super) fn new(access: Access, words: usize) -> Self {
        Self {
            access,
            width: Width::here(),
            words,
            at: 0,
            done: 0,
            checked: 0,
            sum: 0,
        }
    }

    /// What pass `pass` writes into the first word; the others count up from there.
    fn first(pass: u64) -> u64 {
        pass.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The sum of the first `count` words that are read, over passes.
    fn sum_to(&self, count: u64) -> u64 {
        let sum = |words: u64| {
            let numbers = u128::from(words) * u128::from(words.saturating_sub(1)) / 2;
            (numbers as u64).wrapping_add(words.wrapping_mul(Self::first(0)))
        };
        let (passes, rest) = (count / self.words as u64, count % self.words as u64);
        passes
            .wrapping_mul(sum(self.words as u64))
            .wrapping_add(sum(rest))
    }

    fn check_writes(&self, words: &[u64]) -> Result<(), String> {
        let pass = self.done / self.words as u64 + 1;
        for (at, word) in words.iter().enumerate() {
            let last = if at < self.at { pass } else { pass - 1 };
            if *word != Self::first(last).wrapping_add(at as u64) {
                return Err(format!(
                    "sequential writes left word {at} wrong in pass {last}"
                ));
            }
        }
        Ok(())
    }
}

impl Walk for Sequential {
    fn lay(&mut self, memory: &mut Mapping, _: &AtomicBool) {
        wide::count_up(self.width, memory.words_mut(), Self::first(0));
    }

    fn go(&mut self, memory: &mut Mapping) -> Handled {
        let words = memory.words_mut();
        let mut left = STEP;
        while left > 0 {
            let end = self.words.min(self.at + left);
            let part = &mut words[self.at..end];
            match self.access {
                Access::Read => self.sum = self.sum.wrapping_add(wide::sum(self.width, part)),
                Access::Write => {
                    let pass = self.done / self.words as u64 + 1;
                    let first = Self::first(pass).wrapping_add(self.at as u64);
                    wide::count_up(self.width, part, first);
                    black_box(part);
                }
            }
            self.done += (end - self.at) as u64;
            left -= end - self.at;
            self.at = if end == self.words { 0 } else { end };
        }
        Handled::words(STEP as u64)
    }

    fn check(&mut self, memory: &mut Mapping) -> Result<(), String> {
        if self.access == Access::Write {
            return self.check_writes(memory.words_mut());
        }
        let expected = self
            .sum_to(self.done)
            .wrapping_sub(self.sum_to(self.checked));
        let sum = std::mem::take(&mut self.sum);
        self.checked = self.done;
        match sum == expected {
            true => Ok(()),
            false => Err(format!(
                "sequential reads gave the sum {sum:#x}, and it must be {expected:#x}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Pages;

    #[test]
    fn what_is_wrong_is_found_in_any_pass() {
        // Not a divisor of a step, so that passes end within steps.
        const WORDS: usize = 1000;
        for access in [Access::Read, Access::Write] {
            let mut walk = Sequential::new(access, WORDS);
            let mut memory = Mapping::new(WORDS * 8, Pages::Normal).expect("mapped");
            walk.lay(&mut memory, &AtomicBool::new(false));
            for _ in 0..3 {
                assert_eq!(walk.go(&mut memory).bytes, 8 * STEP as u64);
                walk.go(&mut memory);
                walk.check(&mut memory).expect("right");
            }
            if access == Access::Read {
                memory.words_mut()[999] ^= 1 << 63;
                walk.go(&mut memory);
            } else {
                walk.go(&mut memory);
                memory.words_mut()[999] ^= 1 << 63;
            }
            assert!(walk.check(&mut memory).is_err(), "{access:?}");
        }
    }

    #[test]
    fn the_formula_is_the_sum() {
        let walk = Sequential::new(Access::Read, 10);
        let sums: u64 = (0..25).map(|at| at % 10).sum();
        assert_eq!(walk.sum_to(25), sums);
    }
}
