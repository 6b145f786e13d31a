//! Several messages side by side: one message is bound by the latency of its steps, many are not.
//!
//! Each lane works on one message; when it is done, the next message takes its place. All lanes go forward by the same
//! number of blocks, as many as the lane with the fewest has left. A lane for which no message is left does another
//! lane's work once more, and nobody reads it.
//!
//! Items of one length end all at once: lanes then need no accounts, see [`alike`].

use dpb_core::Batch;
use dpb_core::prefetch::prefetch_item;

use super::{Function, Start, Starts, pad, put_length};

/// An instruction set that takes `N` messages forward by the function `F`.
pub(crate) trait Compress<F: Function<BLOCK>, const BLOCK: usize, const N: usize>:
    Copy
{
    /// `N` states, as its instructions want them.
    type States;
    /// The states of all lanes, which are the same.
    fn fill(self, state: &F::State) -> Self::States;
    /// Replaces the state of one lane.
    fn set(self, states: &mut Self::States, lane: usize, state: &F::State);
    /// The state of one lane.
    fn state(self, states: &Self::States, lane: usize) -> F::State;
    /// Takes each state forward by its blocks. All have the same number of blocks.
    fn compress(self, states: &mut Self::States, blocks: [&[[u8; BLOCK]]; N]);
    /// The same with two lists of blocks, one after the other. One list may be empty, of all lanes.
    #[inline(always)]
    fn compress_both(self, states: &mut Self::States, parts: [[&[[u8; BLOCK]]; N]; 2]) {
        for blocks in parts {
            if !blocks[0].is_empty() {
                self.compress(states, blocks);
            }
        }
    }
}

/// A message's blocks: the full ones where they lie, then the padded tail. A state goes through both in one call, so that it stays in
/// registers between them.
pub(crate) type Parts<'a, const BLOCK: usize> = [&'a [[u8; BLOCK]]; 2];

/// One item after another: `alone` takes a state forward.
pub(crate) fn serial<const BLOCK: usize, F: Function<BLOCK>>(
    alone: impl Fn(&mut F::State, Parts<'_, BLOCK>),
    starts: Starts<'_, F::State>,
    batch: Batch<'_>,
    digests: &mut [u8],
) {
    if batch.is_empty() {
        return;
    }
    let digests = digests.chunks_exact_mut(digests.len() / batch.len());
    for (i, digest) in digests.enumerate().take(batch.len()) {
        let start = starts.of(i);
        let mut state = start.state;
        let mut lane = Lane::IDLE;
        lane.begin::<F>(i, batch.item(i), start.bytes);
        lane.finish::<F>(&alone, &mut state, digest);
    }
}

/// The blocks one by one, as the standard has it.
pub(crate) fn portable<const BLOCK: usize, F: Function<BLOCK>>(
    state: &mut F::State,
    parts: Parts<'_, BLOCK>,
) {
    for block in parts.into_iter().flatten() {
        F::compress(state, block);
    }
}

/// `N` items side by side while at least `few` lanes have one, then, and if there are fewer, one after another.
pub(crate) fn batch<const BLOCK: usize, const N: usize, F, C>(
    code: C,
    few: usize,
    alone: impl Fn(&mut F::State, Parts<'_, BLOCK>),
    starts: Starts<'_, F::State>,
    batch: Batch<'_>,
    digests: &mut [u8],
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    let items = batch.len();
    if items < few {
        return serial::<BLOCK, F>(alone, starts, batch, digests);
    }
    let len = batch.longest();
    if batch.contiguous().is_some() || batch.bytes() == len * items {
        return alike::<BLOCK, N, F, C>((code, few, alone), starts, batch, len, digests);
    }
    let digest_bytes = digests.len() / items;
    let digest = |item: usize| item * digest_bytes..(item + 1) * digest_bytes;
    let mut waiting = N.min(items)..items;
    let mut states = code.fill(&starts.of(0).state);
    let mut lanes = [const { Lane::IDLE }; N];
    // Of each lane, the blocks to the end of its message's full ones or of its tail. Side by side, so that the fewest are found at once.
    let mut left = [IDLE; N];
    for (item, (lane, left)) in lanes.iter_mut().zip(&mut left).enumerate().take(items) {
        let start = starts.of(item);
        lane.begin::<F>(item, batch.item(item), start.bytes);
        *left = lane.left().len();
    }
    if let Starts::Each(..) = starts {
        for lane in 1..N.min(items) {
            code.set(&mut states, lane, &starts.of(lane).state);
        }
    }
    let mut busy = N.min(items);
    while busy >= few {
        let count = left.iter().copied().min().unwrap_or(0);
        let any = left.iter().position(|&left| left != IDLE).unwrap_or(0);
        let mut blocks: [&[[u8; BLOCK]]; N] = [&[]; N];
        for (i, blocks) in blocks.iter_mut().enumerate() {
            let lane = if left[i] == IDLE { any } else { i };
            *blocks = &lanes[lane].left()[..count];
        }
        code.compress(&mut states, blocks);
        for (i, lane) in lanes.iter_mut().enumerate() {
            if left[i] == IDLE {
                continue;
            }
            lane.advance(count);
            left[i] -= count;
            if left[i] > 0 {
                continue;
            }
            left[i] = lane.left().len();
            if left[i] > 0 {
                continue;
            }
            F::write(&code.state(&states, i), &mut digests[digest(lane.item)]);
            if let Some(next) = waiting.next() {
                let start = starts.of(next);
                lane.begin::<F>(next, batch.item(next), start.bytes);
                left[i] = lane.left().len();
                code.set(&mut states, i, &start.state);
            } else {
                left[i] = IDLE;
                busy -= 1;
            }
        }
    }
    finish_each::<BLOCK, N, F, C>((code, &states), &lanes, alone, digests, digest_bytes);
}

/// [`batch`] of items that are `len` bytes long each: `N` begin and end together, then the next `N`.
#[inline(always)]
fn alike<const BLOCK: usize, const N: usize, F, C>(
    (code, few, alone): (C, usize, impl Fn(&mut F::State, Parts<'_, BLOCK>)),
    starts: Starts<'_, F::State>,
    batch: Batch<'_>,
    len: usize,
    digests: &mut [u8],
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    let digest_bytes = digests.len() / batch.len();
    let rest_bytes = len % BLOCK;
    let is_one_tail = rest_bytes == 0 && matches!(starts, Starts::One(_));
    let mut tails = [[[0; BLOCK]; 2]; N];
    let mut tail_blocks = 0;
    // The number of bytes that each tail ends with.
    let mut said = [0; N];
    for first in (0..batch.len()).step_by(N) {
        let count = N.min(batch.len() - first);
        if count < few {
            let rest = first..batch.len();
            let (starts, batch) = (starts.part(rest.clone()), batch.part(rest));
            return serial::<BLOCK, F>(alone, starts, batch, &mut digests[first * digest_bytes..]);
        }
        // Lanes without an item do the first one's work. Each is asked for once, because its place may follow from several rules.
        let item = |lane: usize| first + if lane < count { lane } else { 0 };
        let mut full: [&[[u8; BLOCK]]; N] = [&[]; N];
        let mut rests: [&[u8]; N] = [&[]; N];
        for (lane, (full, rest)) in full.iter_mut().zip(&mut rests).enumerate() {
            (*full, *rest) = batch.item(item(lane)).as_chunks();
        }
        let mut states = code.fill(&starts.of(first).state);
        if let Starts::Each(..) = starts {
            for lane in 1..count {
                code.set(&mut states, lane, &starts.of(first + lane).state);
            }
            // Those of thousands of sessions do not fit in the cache that is near.
            for next in (first + count..batch.len()).take(N) {
                prefetch_whole(starts.of(next));
            }
        }
        // Only the first tails are padded: in later ones, just what differs is written. A length that is there already is not: the load of a
        // vector would wait for a store of a part of it.
        if tail_blocks == 0 {
            let padded = if is_one_tail { 1 } else { N };
            for (lane, tail) in tails.iter_mut().enumerate().take(padded) {
                said[lane] = starts.of(item(lane)).bytes + len as u64;
                tail_blocks = pad::<BLOCK, F>(tail, rests[lane], said[lane]);
            }
        } else if !is_one_tail {
            for (lane, tail) in tails.iter_mut().enumerate().take(count) {
                copy(&mut tail.as_flattened_mut()[..rest_bytes], rests[lane]);
                let bytes = starts.of(item(lane)).bytes + len as u64;
                if bytes != said[lane] {
                    said[lane] = bytes;
                    put_length::<BLOCK, F>(&mut tail[tail_blocks - 1], bytes);
                }
            }
        }
        let mut last: [&[[u8; BLOCK]]; N] = [&[]; N];
        for (lane, last) in last.iter_mut().enumerate() {
            *last = &tails[if is_one_tail { 0 } else { lane }][..tail_blocks];
        }
        code.compress_both(&mut states, [full, last]);
        let digests = digests[first * digest_bytes..].chunks_exact_mut(digest_bytes);
        for (lane, digest) in digests.enumerate().take(count) {
            F::write(&code.state(&states, lane), digest);
        }
    }
}

/// Asks for the lines that hold a start, which are two at most: its first bytes, and its last ones, which say how many came before.
#[inline(always)]
fn prefetch_whole<State>(start: &Start<State>) {
    const { assert!(size_of::<Start<State>>() <= 128) };
    prefetch_item(std::slice::from_ref(start), 0);
    prefetch_item(std::slice::from_ref(&start.bytes), 0);
}

/// Copies as many bytes. The lengths of digests, which HMAC hashes once more, are known to the compiler: no calls.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        16 => to[..16].copy_from_slice(&from[..16]),
        20 => to[..20].copy_from_slice(&from[..20]),
        32 => to[..32].copy_from_slice(&from[..32]),
        64 => to[..64].copy_from_slice(&from[..64]),
        _ => to.copy_from_slice(from),
    }
}

/// Takes what is left of each lane's message to its end, one after another.
// Inlined, so that the states need not lie in memory before.
#[inline(always)]
fn finish_each<const BLOCK: usize, const N: usize, F, C>(
    (code, states): (C, &C::States),
    lanes: &[Lane<'_, BLOCK>; N],
    alone: impl Fn(&mut F::State, Parts<'_, BLOCK>),
    digests: &mut [u8],
    digest_bytes: usize,
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    for (i, lane) in lanes.iter().enumerate() {
        if !lane.left().is_empty() {
            let mut state = code.state(states, i);
            let digest = lane.item * digest_bytes..(lane.item + 1) * digest_bytes;
            lane.finish::<F>(&alone, &mut state, &mut digests[digest]);
        }
    }
}

/// Blocks left of a lane without a message: never the fewest.
const IDLE: usize = usize::MAX;

/// The rest of one message: full blocks where they lie, then the padded tail.
struct Lane<'a, const BLOCK: usize> {
    /// The number of the item.
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

    /// Takes a message on. `before`: how many bytes were hashed before it.
    #[inline]
    fn begin<F: Function<BLOCK>>(&mut self, item: usize, message: &'a [u8], before: u64) {
        let (full, rest) = message.as_chunks::<BLOCK>();
        self.item = item;
        self.full = full;
        self.tail_at = 0;
        self.tail_end = pad::<BLOCK, F>(&mut self.tail, rest, before + message.len() as u64);
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
        &self,
        alone: impl Fn(&mut F::State, Parts<'_, BLOCK>),
        state: &mut F::State,
        digest: &mut [u8],
    ) {
        alone(state, [self.full, &self.tail[self.tail_at..self.tail_end]]);
        F::write(state, digest);
    }
}
