//! A chain: each cache line says where the next one is, and all lines are one cycle in an order that is drawn (a random Hamiltonian
//! cycle). A step cannot start before the one before it has ended, so its time is what the memory takes to answer.

use std::sync::atomic::{AtomicBool, Ordering};

use dpb_core::random::SplitMix64;

use super::{ACCESS_BYTES, Handled, LINE_BYTES, Walk};
use crate::mapping::Mapping;

/// Words of a line: the first says where the next line is, the second how many steps the line is from the start.
const LINE: usize = (LINE_BYTES / ACCESS_BYTES) as usize;
/// Steps between two looks at the clock.
const STEP: usize = 4096;
/// Lines laid between two looks at the signal.
const LOOK: usize = 1 << 20;

pub(super) struct Chain {
    lines: usize,
    random: SplitMix64,
    /// The word that the next step reads.
    at: usize,
    steps: u64,
}

impl Chain {
    pub(super) fn new(words: usize, seed: u64) -> Self {
        Self {
            lines: words / LINE,
            random: SplitMix64::new(seed),
            at: 0,
            steps: 0,
        }
    }
}

/// Makes one cycle of all lines, by Sattolo's algorithm (1986): every cycle is as likely as any other. Says whether it was finished.
fn link(words: &mut [u64], lines: usize, random: &mut SplitMix64, stop: &AtomicBool) -> bool {
    for line in 0..lines {
        words[line * LINE] = (line * LINE) as u64;
    }
    for line in (1..lines).rev() {
        if line.is_multiple_of(LOOK) && stop.load(Ordering::Relaxed) {
            return false;
        }
        words.swap(line * LINE, random.below(line) * LINE);
    }
    true
}

/// Numbers the lines in the order of the cycle, once around.
fn number(words: &mut [u64], lines: usize, stop: &AtomicBool) {
    let mut at = 0;
    for rank in 0..lines {
        if rank.is_multiple_of(LOOK) && stop.load(Ordering::Relaxed) {
            return;
        }
        words[at + 1] = rank as u64;
        at = words[at] as usize;
    }
}

impl Walk for Chain {
    fn lay(&mut self, memory: &mut Mapping, stop: &AtomicBool) {
        let words = memory.words_mut();
        if link(words, self.lines, &mut self.random, stop) {
            number(words, self.lines, stop);
        }
    }

    fn go(&mut self, memory: &mut Mapping) -> Handled {
        self.at = chase(memory.words_mut(), self.at);
        self.steps += STEP as u64;
        Handled::words(STEP as u64)
    }

    fn check(&mut self, memory: &mut Mapping) -> Result<(), String> {
        let rank = memory.words_mut()[self.at + 1];
        let expected = self.steps % self.lines as u64;
        match rank == expected {
            true => Ok(()),
            false => Err(format!(
                "after {} steps the chain is at line {rank} of its cycle, and must be at {expected}",
                self.steps
            )),
        }
    }
}

#[inline(never)]
fn chase(words: &[u64], mut at: usize) -> usize {
    for _ in 0..STEP {
        at = words[at] as usize;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Pages;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_chain_visits_every_line_once_before_it_is_back() {
        for (lines, seed) in [(2, 1), (16, 1), (1000, 2), (4096, 3)] {
            let mut words = vec![0; lines * LINE];
            assert!(link(&mut words, lines, &mut SplitMix64::new(seed), &GO_ON));
            let mut visits = vec![0; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert_eq!(at % LINE, 0);
                visits[at / LINE] += 1;
                at = words[at] as usize;
            }
            assert_eq!(at, 0, "back at the start");
            assert!(visits.iter().all(|&visits| visits == 1));
        }
    }

    #[test]
    fn cycles_are_drawn_alike() {
        // Of 4 lines there are 6 cycles; of 6000 draws each has 1000, with a standard deviation of 29.
        let mut random = SplitMix64::new(5);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut words = vec![0; 4 * LINE];
            link(&mut words, 4, &mut random, &GO_ON);
            *seen.entry(words).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(
            seen.values().all(|count| (850..1150).contains(count)),
            "{:?}",
            seen.values()
        );
    }

    #[test]
    fn a_step_too_few_is_found() {
        let mut chain = Chain::new(100 * LINE, 9);
        let mut memory = Mapping::new(100 * 64, Pages::Normal).expect("mapped");
        chain.lay(&mut memory, &GO_ON);
        for _ in 0..3 {
            chain.go(&mut memory);
            chain.check(&mut memory).expect("right");
        }
        chain.at = memory.words_mut()[chain.at] as usize;
        assert!(chain.check(&mut memory).is_err());
    }
}
