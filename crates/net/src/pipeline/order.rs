//! Bursts that came home in any order, in the order of their numbers again: [`Reorder`].

use std::collections::VecDeque;

use super::Burst;

/// Holds bursts back until those before them have come.
#[derive(Debug)]
pub(super) struct Reorder {
    next: u64,
    /// By number, modulo the places.
    held: Vec<Option<Burst>>,
    waiting: usize,
}

impl Reorder {
    /// For a line that has up to `bursts` in flight: the numbers of those span no more than that.
    pub(super) fn new(bursts: usize) -> Self {
        Self {
            next: 0,
            held: (0..bursts).map(|_| None).collect(),
            waiting: 0,
        }
    }

    /// Takes a burst; appends all whose turn it is.
    pub(super) fn accept(&mut self, burst: Burst, ready: &mut VecDeque<Burst>) {
        if burst.number != self.next {
            let place = self.place(burst.number);
            let is_new = burst.number > self.next && self.held[place].is_none();
            assert!(
                is_new,
                "a stage gave burst {} back a second time",
                burst.number
            );
            self.held[place] = Some(burst);
            self.waiting += 1;
            return;
        }
        ready.push_back(burst);
        self.next += 1;
        while self.waiting > 0 {
            let place = self.place(self.next);
            let Some(burst) = self.held[place].take() else {
                break;
            };
            ready.push_back(burst);
            self.next += 1;
            self.waiting -= 1;
        }
    }

    /// Packets of the bursts that are held back.
    pub(super) fn packets(&self) -> u64 {
        self.held.iter().flatten().map(|b| b.len() as u64).sum()
    }

    fn place(&self, number: u64) -> usize {
        (number % self.held.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbered(number: u64) -> Burst {
        Burst {
            number,
            ..Burst::default()
        }
    }

    proptest! {
        /// Whatever the order within a window, numbers come out one behind another, each as soon as it can.
        #[test]
        fn numbers_come_out_in_order(window in 1_usize..9, picks in prop::collection::vec(any::<u32>(), 1..200)) {
            let mut order = Reorder::new(window);
            let (mut ready, mut out) = (VecDeque::new(), Vec::new());
            let (mut flying, mut next) = (Vec::new(), 0);
            for pick in picks {
                // As many as a line has in flight: those that wait count, too.
                while (next - out.len() as u64) < window as u64 {
                    flying.push(next);
                    next += 1;
                }
                let landed = flying.swap_remove(pick as usize % flying.len());
                order.accept(numbered(landed), &mut ready);
                out.extend(ready.drain(..).map(|burst| burst.number));
                let lowest = flying.iter().copied().min().unwrap_or(next);
                prop_assert_eq!(out.len() as u64, lowest);
            }
            prop_assert!(out.iter().copied().eq(0..out.len() as u64));
        }
    }

    #[test]
    #[should_panic(expected = "a second time")]
    fn a_burst_that_comes_twice_is_a_fault_of_its_stage() {
        let (mut order, mut ready) = (Reorder::new(4), VecDeque::new());
        order.accept(numbered(2), &mut ready);
        order.accept(numbered(2), &mut ready);
    }
}
