//! Several messages side by side: one message is bound by the latency of its steps, many are not.
//!
//! Each lane works on one message; when it is done, the next message takes its place. All lanes go forward by the same
//! number of blocks, as many as the lane with the fewest has left. A lane for which no message is left does another
//! lane's work once more, and nobody reads it.

use dpb_core::Batch;

use super::{Function, Start, padded_tail};

/// How an instruction set takes `N` messages forward by the function `F`.
pub(crate) trait Compress<F: Function<BLOCK>, const BLOCK: usize, const N: usize>:
    Copy
{
    /// `N` states, as its instructions want them.
    type States;
    /// All the same.
    fn fill(self, state: &F::State) -> Self::States;
    /// Replaces the state of one lane.
    fn set(self, states: &mut Self::States, lane: usize, state: &F::State);
    /// The state of one lane.
    fn state(self, states: &Self::States, lane: usize) -> F::State;
    /// Takes each state forward by its blocks. All have the same number of blocks.
    fn compress(self, states: &mut Self::States, blocks: [&[[u8; BLOCK]]; N]);
}

/// One item after another: `compress` takes a state forward.
pub(crate) fn serial<const BLOCK: usize, F: Function<BLOCK>>(
    compress: impl Fn(&mut F::State, &[[u8; BLOCK]]),
    start: &Start<F::State>,
    batch: Batch<'_>,
    digests: &mut [u8],
) {
    if batch.is_empty() {
        return;
    }
    let digests = digests.chunks_exact_mut(digests.len() / batch.len());
    for (i, digest) in digests.enumerate().take(batch.len()) {
        let mut state = start.state;
        let mut lane = Lane::new::<F>(i, batch.item(i), start.bytes);
        lane.finish::<F>(&compress, &mut state, digest);
    }
}

/// The blocks one by one, as the standard has it.
pub(crate) fn portable<const BLOCK: usize, F: Function<BLOCK>>(
    state: &mut F::State,
    blocks: &[[u8; BLOCK]],
) {
    for block in blocks {
        F::compress(state, block);
    }
}

/// `N` items side by side while at least `few` lanes have one, then, and if there are fewer, one after another.
pub(crate) fn batch<const BLOCK: usize, const N: usize, F, C>(
    code: C,
    few: usize,
    alone: impl Fn(&mut F::State, &[[u8; BLOCK]]),
    start: &Start<F::State>,
    batch: Batch<'_>,
    digests: &mut [u8],
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    let items = batch.len();
    if items < few {
        return serial::<BLOCK, F>(alone, start, batch, digests);
    }
    let digest_bytes = digests.len() / items;
    let digest = |item: usize| item * digest_bytes..(item + 1) * digest_bytes;
    let lane = |item| Lane::new::<F>(item, batch.item(item), start.bytes);
    let mut waiting = N.min(items)..items;
    let mut states = code.fill(&start.state);
    let mut lanes: [Lane<'_, BLOCK>; N] = std::array::from_fn(|i| match i < items {
        true => lane(i),
        false => Lane::IDLE,
    });
    let mut busy = N.min(items);
    while busy >= few {
        let at_work = || lanes.iter().filter(|lane| !lane.left().is_empty());
        let count = at_work().map(|lane| lane.left().len()).min().unwrap_or(0);
        let any = at_work().next().map_or(&[][..], Lane::left);
        let blocks = lanes.each_ref().map(|lane| match lane.left() {
            [] => &any[..count],
            left => &left[..count],
        });
        code.compress(&mut states, blocks);
        for (i, of) in lanes.iter_mut().enumerate() {
            if of.left().is_empty() {
                continue;
            }
            of.advance(count);
            if !of.left().is_empty() {
                continue;
            }
            F::write(&code.state(&states, i), &mut digests[digest(of.item)]);
            if let Some(next) = waiting.next() {
                *of = lane(next);
                code.set(&mut states, i, &start.state);
            } else {
                busy -= 1;
            }
        }
    }
    for (i, lane) in lanes.iter_mut().enumerate() {
        if !lane.left().is_empty() {
            let mut state = code.state(&states, i);
            lane.finish::<F>(&alone, &mut state, &mut digests[digest(lane.item)]);
        }
    }
}

/// What is left of one message: full blocks where they lie, then the padded tail.
struct Lane<'a, const BLOCK: usize> {
    /// Which item.
    item: usize,
    full: &'a [[u8; BLOCK]],
    tail: [[u8; BLOCK]; 2],
    tail_at: usize,
    tail_end: usize,
}

impl<'a, const BLOCK: usize> Lane<'a, BLOCK> {
    /// Without a message.
    const IDLE: Self = Self {
        item: 0,
        full: &[],
        tail: [[0; BLOCK]; 2],
        tail_at: 0,
        tail_end: 0,
    };

    /// `before`: how many bytes were hashed before the message.
    fn new<F: Function<BLOCK>>(item: usize, message: &'a [u8], before: u64) -> Self {
        let (full, rest) = message.as_chunks::<BLOCK>();
        let (tail, tail_end) = padded_tail::<BLOCK, F>(rest, before + message.len() as u64);
        Self {
            item,
            full,
            tail,
            tail_at: 0,
            tail_end,
        }
    }

    /// The next blocks; none if the message is done.
    fn left(&self) -> &[[u8; BLOCK]] {
        if self.full.is_empty() {
            &self.tail[self.tail_at..self.tail_end]
        } else {
            self.full
        }
    }

    fn advance(&mut self, blocks: usize) {
        if self.full.is_empty() {
            self.tail_at += blocks;
        } else {
            self.full = &self.full[blocks..];
        }
    }

    /// Goes to the end alone.
    fn finish<F: Function<BLOCK>>(
        &mut self,
        compress: impl Fn(&mut F::State, &[[u8; BLOCK]]),
        state: &mut F::State,
        digest: &mut [u8],
    ) {
        while !self.left().is_empty() {
            compress(state, self.left());
            self.advance(self.left().len());
        }
        F::write(state, digest);
    }
}
