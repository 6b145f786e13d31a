//! One message: the words of several blocks side by side in vectors, which need no state, and the steps block by block.
//!
//! Between the steps of each block stand the words of the blocks that follow: steps wait for each other, words do not.

use super::Sums;
use crate::security::hash::lanes::Parts;
use crate::security::hash::vectors::{Vectors, Work};

/// Takes one message forward, by vectors `v`; a few blocks by `few`, because a vector costs the same however few blocks it has.
#[inline(always)]
pub(crate) fn alone<
    W: Sums,
    P: Vectors<W, N>,
    const N: usize,
    const BLOCK: usize,
    const STEPS: usize,
>(
    v: P,
    constants: &[W; STEPS],
    few: impl Fn(&mut [W; 8], Parts<'_, BLOCK>),
    state: &mut [W; 8],
    parts: Parts<'_, BLOCK>,
) {
    for blocks in parts {
        if blocks.len() <= N.div_ceil(4) {
            few(state, [blocks, &[]]);
        } else {
            v.enter(Alone {
                constants,
                state: &mut *state,
                blocks,
            });
        }
    }
}

/// A message to be taken forward.
struct Alone<'a, W, const N: usize, const BLOCK: usize, const STEPS: usize> {
    constants: &'a [W; STEPS],
    state: &'a mut [W; 8],
    blocks: &'a [[u8; BLOCK]],
}

impl<W: Sums, P: Vectors<W, N>, const N: usize, const BLOCK: usize, const STEPS: usize> Work<P>
    for Alone<'_, W, N, BLOCK, STEPS>
{
    #[inline(always)]
    fn run(self, v: P) {
        let Self {
            constants,
            state,
            blocks,
        } = self;
        let mut chunks = blocks.chunks(N);
        let Some(mut now) = chunks.next() else {
            return;
        };
        let mut first = Schedule::new();
        first.start(v, constants, now);
        let (all, constants_of_more) = (&mut first.0, &constants[16..]);
        for i in 0..STEPS - 16 {
            more(v, all, constants_of_more, i);
        }
        let mut schedule = &mut first;
        let mut second;
        // A message of one vector's blocks needs no second schedule, which would have to be cleared.
        if blocks.len() > N {
            second = Schedule::new();
            let mut later = &mut second;
            for next in chunks {
                later.start(v, constants, next);
                for block in 0..N {
                    let share = later.share(constants, block);
                    steps(v, state, schedule, block, Some(share));
                }
                std::mem::swap(&mut schedule, &mut later);
                now = next;
            }
        }
        for block in 0..now.len() {
            steps(v, state, schedule, block, None);
        }
    }
}

/// The words of up to `N` blocks side by side, for each step.
#[repr(C, align(64))]
struct Schedule<W, const N: usize, const STEPS: usize>([Words<W, N>; STEPS]);

/// The words of a step.
#[repr(C)]
#[derive(Clone, Copy)]
struct Words<W, const N: usize> {
    words: [W; N],
    /// The summands of the step: its words and its constant. Beside the words, so that one address leads to both.
    inputs: [W; N],
}

impl<W: Sums, const N: usize, const STEPS: usize> Schedule<W, N, STEPS> {
    fn new() -> Self {
        let none = Words {
            words: [W::ZERO; N],
            inputs: [W::ZERO; N],
        };
        Self([none; STEPS])
    }

    /// The words that blocks have. Where there are fewer than `N`, the last one again.
    #[inline(always)]
    fn start<P: Vectors<W, N>, const BLOCK: usize>(
        &mut self,
        v: P,
        constants: &[W; STEPS],
        blocks: &[[u8; BLOCK]],
    ) {
        let mut rows = [blocks; N];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = &blocks[i.min(blocks.len() - 1)..];
        }
        for (t, word) in v.words(&rows, 0).into_iter().enumerate() {
            let word = v.swap(word);
            self.0[t].set(v, word, constants[t]);
        }
    }

    /// What makes the words of block `block`'s share: those of the steps that the share begins and ends with.
    #[inline(always)]
    fn share<'a>(&'a mut self, constants: &'a [W; STEPS], block: usize) -> Later<'a, W, N> {
        let count = (STEPS - 16) / N;
        let first = block * count;
        Later {
            words: &mut self.0[first..][..16 + count],
            constants: &constants[16 + first..][..count],
        }
    }
}

/// Words to be made, behind the sixteen before them, and their constants.
struct Later<'a, W, const N: usize> {
    words: &'a mut [Words<W, N>],
    constants: &'a [W],
}

/// Makes word `i` of those behind the first sixteen.
#[inline(always)]
fn more<W: Sums, P: Vectors<W, N>, const N: usize>(
    v: P,
    all: &mut [Words<W, N>],
    constants: &[W],
    i: usize,
) {
    let sum = v.add(v.load(&all[i].words), v.load(&all[i + 9].words));
    let sum = v.add(sum, W::more_0(v, v.load(&all[i + 1].words)));
    let word = v.add(sum, W::more_1(v, v.load(&all[i + 14].words)));
    all[i + 16].set(v, word, constants[i]);
}

impl<W: Sums, const N: usize> Words<W, N> {
    #[inline(always)]
    fn set<P: Vectors<W, N>>(&mut self, v: P, word: P::V, constant: W) {
        v.store(&mut self.words, word);
        v.store(&mut self.inputs, v.add(word, v.splat(constant)));
    }
}

/// The steps of a block; between them its share of later blocks' words, if there are any.
#[allow(
    unused_assignments,
    reason = "what the last step leaves for a next one"
)]
#[inline(always)]
fn steps<W: Sums, P: Vectors<W, N>, const N: usize, const STEPS: usize>(
    v: P,
    state: &mut [W; 8],
    Schedule(all): &Schedule<W, N, STEPS>,
    block: usize,
    later: Option<Later<'_, W, N>>,
) {
    // Eight steps make eight words of one block, thus so many vectors of `N` words.
    const {
        assert!(
            8_usize.is_multiple_of(N) && STEPS.is_multiple_of(8),
            "all words, and all steps"
        )
    };
    let share = 8 / N;
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut differed = b ^ c;
    macro_rules! step {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $words:expr) => {
            // What the step before has just made, e and a, comes in last.
            let sum = $h.plus($words.inputs[block]).settled();
            // The majority of a, b and c; the next step takes a ^ b for its b ^ c.
            let differ = $a ^ $b;
            if P::KEEPS_OPERANDS {
                $h = sum.plus($g & !$e).settled();
                let sum_1 = $e.upper_1();
                let most = ((differ & differed) ^ $b).settled();
                $h = $h.plus($e & $f).settled().plus(sum_1);
                $d = $d.plus($h).computed_here();
                $h = $h.plus(most).settled().plus($a.upper_0()).computed_here();
            } else {
                $h = sum.plus((($f ^ $g) & $e) ^ $g).settled();
                $h = $h.plus($e.upper_1_nested());
                let most = ((differ & differed) ^ $b).settled();
                $d = $d.plus($h).computed_here();
                $h = $h
                    .plus(most)
                    .settled()
                    .plus($a.upper_0_nested())
                    .computed_here();
            }
            differed = differ;
        };
    }
    // Eight steps; `first` and `last` are what is done beside their first four and their last. After eight steps each word of the state is back in its
    // variable, so the steps are a loop. Unrolled they took up to 1.33 times as long (measured on Zen 3).
    macro_rules! eight {
        ($all:ident, $first:block, $last:block) => {
            step!(a b c d e f g h, $all[0]);
            step!(h a b c d e f g, $all[1]);
            step!(g h a b c d e f, $all[2]);
            step!(f g h a b c d e, $all[3]);
            $first
            step!(e f g h a b c d, $all[4]);
            step!(d e f g h a b c, $all[5]);
            step!(c d e f g h a b, $all[6]);
            step!(b c d e f g h a, $all[7]);
            $last
        };
    }
    let (eights, _) = all.as_chunks::<8>();
    // Sixteen words are there before.
    let beside = later.as_ref().map_or(0, |_| (STEPS - 16) / 8);
    let (with_words, others) = eights.split_at(beside);
    if let Some(Later { words, constants }) = later {
        for (i, eight) in with_words.iter().enumerate() {
            let (first, middle, last) = (i * share, i * share + share / 2, (i + 1) * share);
            eight!(
                eight,
                {
                    for i in first..middle {
                        more(v, words, constants, i);
                    }
                },
                {
                    for i in middle..last {
                        more(v, words, constants, i);
                    }
                }
            );
        }
    }
    for eight in others {
        eight!(eight, {}, {});
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.plus(add);
    }
}
