//! Several messages side by side: the SHA instructions have a latency that one message cannot hide.
//!
//! Each lane works on one message; when it is done, the next message takes its place. All lanes go forward by the same
//! number of blocks, as many as the lane with the fewest has left.

use dpb_core::Batch;

use super::padded_tail;

/// How an instruction set takes messages forward.
pub(super) trait Compress: Copy {
    /// The hash value, as its instructions want it.
    type State: Copy;
    /// Before the first block.
    fn initial(self) -> Self::State;
    /// After the last block.
    fn digest(self, state: Self::State) -> [u8; 32];
    /// Takes each state forward by its blocks. All have the same number of blocks.
    fn compress<const N: usize>(self, states: &mut [Self::State; N], blocks: [&[[u8; 64]]; N]);
}

/// SHA-256 of one message.
pub(super) fn one(code: impl Compress, message: &[u8]) -> [u8; 32] {
    finish(code, code.initial(), Lane::new(0, message))
}

/// SHA-256 of each item into its slot, `N` side by side.
pub(super) fn batch<const N: usize>(code: impl Compress, batch: Batch<'_>, slots: &mut [[u8; 32]]) {
    let items = batch.len();
    let mut waiting = N.min(items)..items;
    if items < N {
        for (i, slot) in slots.iter_mut().enumerate().take(items) {
            *slot = one(code, batch.item(i));
        }
        return;
    }
    let mut states = [code.initial(); N];
    let mut lanes: [_; N] = std::array::from_fn(|i| Lane::new(i, batch.item(i)));
    'full: loop {
        let count = lanes
            .iter()
            .map(|lane| lane.left().len())
            .min()
            .unwrap_or(0);
        code.compress(
            &mut states,
            lanes.each_ref().map(|lane| &lane.left()[..count]),
        );
        for (lane, state) in lanes.iter_mut().zip(&mut states) {
            lane.advance(count);
            if lane.left().is_empty() {
                slots[lane.item] = code.digest(*state);
                let Some(next) = waiting.next() else {
                    lane.item = items;
                    continue;
                };
                *lane = Lane::new(next, batch.item(next));
                *state = code.initial();
            }
        }
        if lanes.iter().any(|lane| lane.item == items) {
            break 'full;
        }
    }
    for (lane, state) in lanes.into_iter().zip(states) {
        if lane.item < items {
            let slot = &mut slots[lane.item];
            *slot = finish(code, state, lane);
        }
    }
}

/// Takes one lane to its end alone.
fn finish<C: Compress>(code: C, state: C::State, mut lane: Lane<'_>) -> [u8; 32] {
    let mut states = [state];
    while !lane.left().is_empty() {
        let count = lane.left().len();
        code.compress(&mut states, [lane.left()]);
        lane.advance(count);
    }
    code.digest(states[0])
}

/// What is left of one message: full blocks where they lie, then the padded tail.
struct Lane<'a> {
    /// Which item; the number of items once there is none.
    item: usize,
    full: &'a [[u8; 64]],
    tail: [u8; 128],
    tail_at: usize,
    tail_end: usize,
}

impl<'a> Lane<'a> {
    fn new(item: usize, message: &'a [u8]) -> Self {
        let (full, rest) = message.as_chunks::<64>();
        let (tail, tail_end) = padded_tail(rest, message.len() as u64);
        Self {
            item,
            full,
            tail,
            tail_at: 0,
            tail_end,
        }
    }

    /// The next blocks; none if the message is done.
    fn left(&self) -> &[[u8; 64]] {
        if self.full.is_empty() {
            &self.tail.as_chunks::<64>().0[self.tail_at..self.tail_end]
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
}
