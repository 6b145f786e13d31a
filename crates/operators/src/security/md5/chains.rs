//! Plain code for speed: unrolled, each step arranged to wait little, two messages' steps between each other.
//!
//! A step needs the one before it. So what does not need it is added first, and the function of b, c and d is written such that
//! b, the newest, comes in last.

use super::{K, Md5};
use crate::security::hash::lanes::{self, Compress, Parts};
use crate::security::hash::settled::settled;

/// Messages side by side: two fill the waits, three need more registers than x86-64 has.
pub(super) const LANES: usize = 2;

/// Plain code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chains;

impl<const N: usize> Compress<Md5, 64, N> for Chains {
    type States = [[u32; 4]; N];

    fn fill(self, state: &[u32; 4]) -> Self::States {
        [*state; N]
    }

    fn set(self, states: &mut Self::States, lane: usize, state: &[u32; 4]) {
        states[lane] = *state;
    }

    fn state(self, states: &Self::States, lane: usize) -> [u32; 4] {
        states[lane]
    }

    fn forward(
        self,
        states: &mut Self::States,
        lists: &[[&[[u8; 64]]; N]],
        outer: Option<&Self::States>,
    ) {
        lanes::by_blocks::<Md5, _, 64, N>(self, states, lists, outer, compress);
    }
}

/// Takes one message forward.
pub(super) fn alone(state: &mut [u32; 4], parts: Parts<'_, 64>) {
    let [full, tail] = parts;
    compress(std::array::from_mut(state), [full]);
    compress(std::array::from_mut(state), [tail]);
}

fn compress<const N: usize>(states: &mut [[u32; 4]; N], blocks: [&[[u8; 64]]; N]) {
    for at in 0..blocks[0].len() {
        // Loops, because `map` over a list of lists is not always inlined.
        let mut words = [&[[0; 4]; 16]; N];
        for (words, blocks) in words.iter_mut().zip(blocks) {
            let block = blocks[at].as_chunks().0;
            *words = block.try_into().expect("sixteen words");
        }
        let [mut a, mut b, mut c, mut d] = [[0; N]; 4];
        for (i, state) in states.iter().enumerate() {
            [a[i], b[i], c[i], d[i]] = *state;
        }
        macro_rules! step {
            ($mix:ident, $a:ident $b:ident $c:ident $d:ident, $word:expr, $step:expr, $rotate:literal) => {
                for i in 0..N {
                    let word = u32::from_le_bytes(words[i][$word % 16]);
                    let sum = $a[i].wrapping_add(word).wrapping_add(K[$step]);
                    let sum = settled(sum.into()) as u32;
                    let sum = $mix(sum, $b[i], $c[i], $d[i]);
                    $a[i] = sum.rotate_left($rotate).wrapping_add($b[i]);
                }
            };
        }
        macro_rules! four {
            ($mix:ident, $first:expr, $stride:expr, $step:expr, $r0:literal $r1:literal $r2:literal $r3:literal) => {
                step!($mix, a b c d, $first + $stride * $step, $step, $r0);
                step!($mix, d a b c, $first + $stride * ($step + 1), $step + 1, $r1);
                step!($mix, c d a b, $first + $stride * ($step + 2), $step + 2, $r2);
                step!($mix, b c d a, $first + $stride * ($step + 3), $step + 3, $r3);
            };
        }
        macro_rules! round {
            ($mix:ident, $first:literal, $stride:literal, $round:literal, $r0:literal $r1:literal $r2:literal $r3:literal) => {
                four!($mix, $first, $stride, 16 * $round, $r0 $r1 $r2 $r3);
                four!($mix, $first, $stride, 16 * $round + 4, $r0 $r1 $r2 $r3);
                four!($mix, $first, $stride, 16 * $round + 8, $r0 $r1 $r2 $r3);
                four!($mix, $first, $stride, 16 * $round + 12, $r0 $r1 $r2 $r3);
            };
        }
        round!(f, 0, 1, 0, 7 12 17 22);
        round!(g, 1, 5, 1, 5 9 14 20);
        round!(h, 5, 3, 2, 4 11 16 23);
        round!(i, 0, 7, 3, 6 10 15 21);
        for (i, state) in states.iter_mut().enumerate() {
            for (word, add) in state.iter_mut().zip([a[i], b[i], c[i], d[i]]) {
                *word = word.wrapping_add(add);
            }
        }
    }
}

#[inline(always)]
fn f(sum: u32, b: u32, c: u32, d: u32) -> u32 {
    sum.wrapping_add(((c ^ d) & b) ^ d)
}

/// The two halves have no bit in common, so they may be added one after the other.
#[inline(always)]
fn g(sum: u32, b: u32, c: u32, d: u32) -> u32 {
    (settled(sum.wrapping_add(c & !d).into()) as u32).wrapping_add(b & d)
}

#[inline(always)]
fn h(sum: u32, b: u32, c: u32, d: u32) -> u32 {
    sum.wrapping_add((c ^ d) ^ b)
}

#[inline(always)]
fn i(sum: u32, b: u32, c: u32, d: u32) -> u32 {
    sum.wrapping_add((b | !d) ^ c)
}
