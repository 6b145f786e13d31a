//! STREAM's kernels (J. McCalpin, "Memory bandwidth and machine balance in current high performance computers", 1995): their
//! arithmetic, their count of bytes, their check.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use super::wide::{self, Width};
use super::{ACCESS_BYTES, Handled, Kernel, Walk};
use crate::mapping::Mapping;

/// Elements between two looks at the clock.
const STEP: usize = 16_384;
/// The scalar, as in STREAM.
const SCALAR: f64 = 3.0;
/// What the arrays hold at first, as in STREAM.
const START: [f64; 3] = [1.0, 2.0, 0.5];
/// The relative error that STREAM allows for numbers of 64 bits.
const ERROR_MAX: f64 = 1e-13;

pub(super) struct Stream {
    kernel: Kernel,
    width: Width,
    /// Elements of an array.
    len: usize,
    at: usize,
    /// Whether all elements have been computed since the last check.
    is_whole: bool,
}

impl Stream {
    pub(super) fn new(kernel: Kernel, words: usize) -> Self {
        // A multiple of a cache line, so that no two arrays share one.
        let len = words / 3 / 8 * 8;
        Self {
            kernel,
            width: Width::here(),
            len,
            at: 0,
            is_whole: false,
        }
    }

    /// The array that the kernel writes.
    fn target(&self) -> usize {
        match self.kernel {
            Kernel::Triad => 0,
            Kernel::Scale => 1,
            Kernel::Copy | Kernel::Add => 2,
        }
    }

    /// What the kernel writes into each element.
    fn right(&self) -> f64 {
        let [a, b, c] = START;
        match self.kernel {
            Kernel::Copy => a,
            Kernel::Scale => SCALAR * c,
            Kernel::Add => a + b,
            Kernel::Triad => b + SCALAR * c,
        }
    }

    fn arrays<'a>(&self, memory: &'a mut Mapping) -> [&'a mut [f64]; 3] {
        let (a, rest) = memory.floats_mut().split_at_mut(self.len);
        let (b, rest) = rest.split_at_mut(self.len);
        [a, b, &mut rest[..self.len]]
    }

    /// Makes the target hold what no kernel writes.
    fn spoil(&self, memory: &mut Mapping) {
        self.arrays(memory)[self.target()].fill(f64::NAN);
    }
}

impl Walk for Stream {
    fn lay(&mut self, memory: &mut Mapping, _: &AtomicBool) {
        for (array, start) in self.arrays(memory).into_iter().zip(START) {
            array.fill(start);
        }
        self.spoil(memory);
    }

    fn go(&mut self, memory: &mut Mapping) -> Handled {
        let [a, b, c] = self.arrays(memory);
        let mut left = STEP;
        while left > 0 {
            let end = self.len.min(self.at + left);
            let part = self.at..end;
            let width = self.width;
            match self.kernel {
                Kernel::Copy => wide::copy(width, &mut c[part.clone()], &a[part]),
                Kernel::Scale => wide::scale(width, &mut b[part.clone()], &c[part], SCALAR),
                Kernel::Add => wide::add(width, &mut c[part.clone()], &a[part.clone()], &b[part]),
                Kernel::Triad => wide::triad(
                    width,
                    &mut a[part.clone()],
                    &b[part.clone()],
                    &c[part],
                    SCALAR,
                ),
            }
            black_box((&mut *a, &mut *b, &mut *c));
            left -= end - self.at;
            self.is_whole |= end == self.len;
            self.at = if end == self.len { 0 } else { end };
        }
        let accesses = STEP as u64
            * match self.kernel {
                Kernel::Copy | Kernel::Scale => 2,
                Kernel::Add | Kernel::Triad => 3,
            };
        Handled {
            accesses,
            bytes: accesses * ACCESS_BYTES,
        }
    }

    fn check(&mut self, memory: &mut Mapping) -> Result<(), String> {
        let (target, right, at) = (self.target(), self.right(), self.at);
        for (number, array) in self.arrays(memory).into_iter().enumerate() {
            // What a run that is shorter than a pass has not reached is still spoilt.
            let (expected, reached) = match number == target {
                true if self.is_whole => (right, self.len),
                true => (right, at),
                false => (START[number], self.len),
            };
            let wrong = array[..reached].iter().position(|is| {
                let error = (is - expected).abs() / expected.abs();
                error.is_nan() || error > ERROR_MAX
            });
            if let Some(wrong) = wrong {
                let (name, is) = (["a", "b", "c"][number], array[wrong]);
                return Err(format!("{name}[{wrong}] is {is}, and must be {expected}"));
            }
        }
        (self.at, self.is_whole) = (0, false);
        self.spoil(memory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Pages;

    #[test]
    fn every_kernel_computes_what_stream_says_and_a_wrong_element_is_found() {
        // STREAM's numbers at the start: 1, 2, 0.5; its scalar 3.
        for (kernel, right) in [
            (Kernel::Copy, 1.0),
            (Kernel::Scale, 1.5),
            (Kernel::Add, 3.0),
            (Kernel::Triad, 3.5),
        ] {
            // One pass is longer than a step, the other shorter.
            for words in [300, 3 * 40_000] {
                let mut stream = Stream::new(kernel, words);
                let mut memory = Mapping::new(words * 8, Pages::Normal).expect("mapped");
                stream.lay(&mut memory, &AtomicBool::new(false));
                for _ in 0..4 {
                    stream.go(&mut memory);
                }
                let target = stream.target();
                assert!(
                    stream.arrays(&mut memory)[target]
                        .iter()
                        .all(|&is| is == right)
                );
                stream.check(&mut memory).expect("right");
                stream.go(&mut memory);
                stream.check(&mut memory).expect("as far as it came");
                stream.go(&mut memory);
                stream.arrays(&mut memory)[target][10] *= 1.0 + 1e-12;
                assert!(stream.check(&mut memory).is_err());
            }
        }
    }
}
