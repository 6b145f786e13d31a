//! One message: the words of several blocks side by side in vectors, which need no state, and the steps block by block.
//!
//! Between the steps of each block stand the words of the blocks that follow: steps wait for each other, words do not.

use super::K;
use crate::security::hash::settled::{in_place, settled};
use crate::security::hash::sha2::Sums;
use crate::security::hash::vectors::{Enter, Vectors, Work};

/// Takes one message forward, by vectors `v`, in a function that has what `entry` stands for.
pub(super) fn alone<P: Vectors<u64, N>, const N: usize>(
    entry: impl Enter,
    v: P,
    state: &mut [u64; 8],
    blocks: &[[u8; 128]],
) {
    entry.enter(Alone { v, state, blocks });
}

/// A message to be taken forward.
struct Alone<'a, P, const N: usize> {
    v: P,
    state: &'a mut [u64; 8],
    blocks: &'a [[u8; 128]],
}

impl<E, P: Vectors<u64, N>, const N: usize> Work<E> for Alone<'_, P, N> {
    #[inline(always)]
    fn run(self, _entry: E) {
        let mut chunks = self.blocks.chunks(N);
        let Some(mut now) = chunks.next() else {
            return;
        };
        let (mut first, mut second) = (Schedule::new(), Schedule::new());
        let (mut schedule, mut later) = (&mut first, &mut second);
        schedule.start(self.v, now);
        for t in (16..80).step_by(8) {
            schedule.more(self.v, t, 8);
        }
        for next in chunks {
            later.start(self.v, next);
            for block in 0..N {
                steps::<true, P, N>(self.v, self.state, &schedule.inputs, block, later);
            }
            std::mem::swap(&mut schedule, &mut later);
            now = next;
        }
        for block in 0..now.len() {
            steps::<false, P, N>(self.v, self.state, &schedule.inputs, block, later);
        }
    }
}

/// The words of up to `N` blocks side by side.
#[repr(C, align(64))]
struct Schedule<const N: usize> {
    words: [[u64; N]; 80],
    /// The summands of each step: its word and its constant.
    inputs: [[u64; N]; 80],
}

impl<const N: usize> Schedule<N> {
    fn new() -> Self {
        Self {
            words: [[0; N]; 80],
            inputs: [[0; N]; 80],
        }
    }

    /// The words that blocks have. Where there are fewer than `N`, the last one again.
    #[inline(always)]
    fn start<P: Vectors<u64, N>>(&mut self, v: P, blocks: &[[u8; 128]]) {
        let mut rows = [blocks; N];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = &blocks[i.min(blocks.len() - 1)..];
        }
        for (t, word) in v.words(&rows, 0).into_iter().enumerate() {
            let word = v.swap(word);
            v.store(&mut self.words[t], word);
            v.store(&mut self.inputs[t], v.add(word, v.splat(K[t])));
        }
    }

    /// `count` of the 64 that follow, from word `t` on.
    #[inline(always)]
    fn more<P: Vectors<u64, N>>(&mut self, v: P, t: usize, count: usize) {
        let words = &mut self.words[t - 16..][..16 + count];
        let inputs = &mut self.inputs[t..][..count];
        let constants = &K[t..][..count];
        for i in 0..count {
            let sum = v.add(v.load(&words[i]), v.load(&words[i + 9]));
            let sum = v.add(sum, u64::more_0(v, v.load(&words[i + 1])));
            let word = v.add(sum, u64::more_1(v, v.load(&words[i + 14])));
            v.store(&mut words[i + 16], word);
            v.store(&mut inputs[i], v.add(word, v.splat(constants[i])));
        }
    }
}

/// Eighty steps of a block; with `MORE`, between them its share of the later blocks' words.
#[inline(always)]
fn steps<const MORE: bool, P: Vectors<u64, N>, const N: usize>(
    v: P,
    state: &mut [u64; 8],
    inputs: &[[u64; N]; 80],
    block: usize,
    later: &mut Schedule<N>,
) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut differed = b ^ c;
    let share = 64 / N;
    let mut made = 16 + block * share;
    macro_rules! step {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $input:expr) => {
            // What the step before has just made, e and a, comes in last.
            let sum = settled($h.wrapping_add($input[block]));
            $h = settled(sum.wrapping_add($g & !$e));
            let sum1 = $e.rotate_right(14) ^ $e.rotate_right(18) ^ $e.rotate_right(41);
            $h = settled($h.wrapping_add($e & $f)).wrapping_add(sum1);
            $d = $d.wrapping_add($h);
            let sum0 = $a.rotate_right(28) ^ $a.rotate_right(34) ^ $a.rotate_right(39);
            // The majority of a, b and c; the next step takes a ^ b for its b ^ c.
            let differ = $a ^ $b;
            $h = in_place($h.wrapping_add((differ & differed) ^ $b).wrapping_add(sum0));
            differed = differ;
        };
    }
    for (eight, inputs) in inputs.as_chunks::<8>().0.iter().enumerate() {
        step!(a b c d e f g h, inputs[0]);
        step!(h a b c d e f g, inputs[1]);
        step!(g h a b c d e f, inputs[2]);
        step!(f g h a b c d e, inputs[3]);
        step!(e f g h a b c d, inputs[4]);
        step!(d e f g h a b c, inputs[5]);
        step!(c d e f g h a b, inputs[6]);
        step!(b c d e f g h a, inputs[7]);
        if MORE && eight < 8 {
            later.more(v, made, share / 8);
            made += share / 8;
        }
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}
