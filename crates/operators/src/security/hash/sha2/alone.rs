//! One message: the words of several blocks side by side in vectors, which need no state, and the steps block by block.
//!
//! Between the steps of each block stand the words of the blocks that follow: steps wait for each other, words do not.

use super::Sums;
use crate::security::hash::vectors::{Enter, Vectors, Work};

/// Takes one message forward, by vectors `v`, in a function that has what `entry` stands for; a few blocks by `few`, because a vector
/// costs the same however few blocks it has.
#[inline(always)]
pub(crate) fn alone<
    W: Sums,
    P: Vectors<W, N>,
    const N: usize,
    const BLOCK: usize,
    const STEPS: usize,
>(
    entry: impl Enter,
    v: P,
    constants: &[W; STEPS],
    few: impl Fn(&mut [W; 8], &[[u8; BLOCK]]),
    state: &mut [W; 8],
    blocks: &[[u8; BLOCK]],
) {
    if blocks.len() <= N.div_ceil(4) {
        return few(state, blocks);
    }
    entry.enter(Alone {
        v,
        constants,
        state,
        blocks,
    });
}

/// A message to be taken forward.
struct Alone<'a, W, P, const N: usize, const BLOCK: usize, const STEPS: usize> {
    v: P,
    constants: &'a [W; STEPS],
    state: &'a mut [W; 8],
    blocks: &'a [[u8; BLOCK]],
}

impl<E, W: Sums, P: Vectors<W, N>, const N: usize, const BLOCK: usize, const STEPS: usize> Work<E>
    for Alone<'_, W, P, N, BLOCK, STEPS>
{
    #[inline(always)]
    fn run(self, _entry: E) {
        let Self {
            v,
            constants,
            state,
            blocks,
        } = self;
        let mut chunks = blocks.chunks(N);
        let Some(mut now) = chunks.next() else {
            return;
        };
        let (mut first, mut second) = (Schedule::new(), Schedule::new());
        let (mut schedule, mut later) = (&mut first, &mut second);
        schedule.start(v, constants, now);
        for t in (16..STEPS).step_by(8) {
            schedule.more(v, constants, t, 8);
        }
        for next in chunks {
            later.start(v, constants, next);
            for block in 0..N {
                let words = Some((constants, &mut *later));
                steps(v, state, &schedule.inputs, block, words);
            }
            std::mem::swap(&mut schedule, &mut later);
            now = next;
        }
        for block in 0..now.len() {
            steps(v, state, &schedule.inputs, block, None);
        }
    }
}

/// The words of up to `N` blocks side by side.
#[repr(C, align(64))]
struct Schedule<W, const N: usize, const STEPS: usize> {
    words: [[W; N]; STEPS],
    /// The summands of each step: its word and its constant.
    inputs: [[W; N]; STEPS],
}

impl<W: Sums, const N: usize, const STEPS: usize> Schedule<W, N, STEPS> {
    fn new() -> Self {
        Self {
            words: [[W::ZERO; N]; STEPS],
            inputs: [[W::ZERO; N]; STEPS],
        }
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
            v.store(&mut self.words[t], word);
            v.store(&mut self.inputs[t], v.add(word, v.splat(constants[t])));
        }
    }

    /// `count` of the words that follow, from word `t` on.
    #[inline(always)]
    fn more<P: Vectors<W, N>>(&mut self, v: P, constants: &[W; STEPS], t: usize, count: usize) {
        let words = &mut self.words[t - 16..][..16 + count];
        let inputs = &mut self.inputs[t..][..count];
        let constants = &constants[t..][..count];
        for i in 0..count {
            let sum = v.add(v.load(&words[i]), v.load(&words[i + 9]));
            let sum = v.add(sum, W::more_0(v, v.load(&words[i + 1])));
            let word = v.add(sum, W::more_1(v, v.load(&words[i + 14])));
            v.store(&mut words[i + 16], word);
            v.store(&mut inputs[i], v.add(word, v.splat(constants[i])));
        }
    }
}

/// The steps of a block; between them its share of later blocks' words, if there are any.
#[inline(always)]
fn steps<W: Sums, P: Vectors<W, N>, const N: usize, const STEPS: usize>(
    v: P,
    state: &mut [W; 8],
    inputs: &[[W; N]; STEPS],
    block: usize,
    mut later: Option<(&[W; STEPS], &mut Schedule<W, N, STEPS>)>,
) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut differed = b ^ c;
    // Eight steps make eight words of one block, thus vectors of eight words: the first eights do, as many as make all words.
    let (share, every) = (8usize.div_ceil(N), N.div_ceil(8));
    let mut made = 16 + block * (STEPS - 16) / N;
    macro_rules! step {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $input:expr) => {
            // What the step before has just made, e and a, comes in last.
            let sum = $h.plus($input[block]).settled();
            $h = sum.plus($g & !$e).settled();
            let sum_1 = $e.upper_1();
            // The majority of a, b and c; the next step takes a ^ b for its b ^ c.
            let differ = $a ^ $b;
            let most = ((differ & differed) ^ $b).settled();
            $h = $h.plus($e & $f).settled().plus(sum_1);
            $d = $d.plus($h).in_place();
            $h = $h.plus(most).settled().plus($a.upper_0()).in_place();
            differed = differ;
        };
    }
    for (eight, inputs) in inputs.as_chunks::<8>().0.iter().enumerate() {
        let has_share = eight < (STEPS - 16) / 8 && eight % every == 0;
        step!(a b c d e f g h, inputs[0]);
        step!(h a b c d e f g, inputs[1]);
        step!(g h a b c d e f, inputs[2]);
        step!(f g h a b c d e, inputs[3]);
        // A half of the share here, rounded down.
        if let (true, Some((constants, later))) = (has_share, &mut later) {
            later.more(v, constants, made, share / 2);
        }
        step!(e f g h a b c d, inputs[4]);
        step!(d e f g h a b c, inputs[5]);
        step!(c d e f g h a b, inputs[6]);
        step!(b c d e f g h a, inputs[7]);
        if let (true, Some((constants, later))) = (has_share, &mut later) {
            later.more(v, constants, made + share / 2, share - share / 2);
            made += share;
        }
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.plus(add);
    }
}
