//! Several messages side by side: one message is bound by the latency of its steps, many are not.
//!
//! Each lane works on one message; when it is done, the next message takes its place. All lanes go forward by the same
//! number of blocks, as many as the lane with the fewest has left. A lane for which no message is left does another
//! lane's work once more, and nobody reads it.
//!
//! Items of one length end all at once: lanes then need no accounts, see [`alike`].

use dpb_core::Batch;
use dpb_core::prefetch::prefetch_lines;

use super::{Function, Key, Keying, outer_block, pad};

/// An instruction set that takes `N` messages forward by the function `F`.
pub(crate) trait Compress<F: Function<BLOCK>, const BLOCK: usize, const N: usize>:
    Copy
{
    /// `N` states, as its instructions want them.
    type States: Copy;
    /// The states of all lanes, which are the same.
    fn fill(self, state: &F::State) -> Self::States;
    /// Replaces the state of one lane.
    fn set(self, states: &mut Self::States, lane: usize, state: &F::State);
    /// The state of one lane.
    fn state(self, states: &Self::States, lane: usize) -> F::State;
    /// Takes each state forward by lists of blocks, one behind another. A list has as many blocks of each lane, or none. With `outer`, HMAC's outer hash
    /// follows: the result is `outer`, taken forward by the block that holds the inner digest.
    fn forward(
        self,
        states: &mut Self::States,
        lists: &[[&[[u8; BLOCK]]; N]],
        outer: Option<&Self::States>,
    );
}

/// [`Compress::forward`] by `compress`, which takes states forward by a list of blocks.
#[inline(always)]
pub(crate) fn by_blocks<F, C, const BLOCK: usize, const N: usize>(
    code: C,
    states: &mut C::States,
    lists: &[[&[[u8; BLOCK]]; N]],
    outer: Option<&C::States>,
    compress: impl Fn(&mut C::States, [&[[u8; BLOCK]]; N]),
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    for blocks in lists {
        compress(states, *blocks);
    }
    if let Some(outer) = outer {
        let mut blocks = [[[0; BLOCK]]; N];
        for (lane, [block]) in blocks.iter_mut().enumerate() {
            *block = outer_block::<BLOCK, F>(&code.state(states, lane));
        }
        let mut each: [&[[u8; BLOCK]]; N] = [&[]; N];
        for (each, block) in each.iter_mut().zip(&blocks) {
            *each = block;
        }
        *states = *outer;
        compress(states, each);
    }
}

/// A message's blocks: the full ones where they lie, then the padded tail. A state goes through both in one call, so that it stays in
/// registers between them.
pub(crate) type Parts<'a, const BLOCK: usize> = [&'a [[u8; BLOCK]]; 2];

/// One item after another: `alone` takes a state forward.
pub(crate) fn serial<const BLOCK: usize, F: Function<BLOCK>>(
    alone: impl Fn(&mut F::State, Parts<'_, BLOCK>),
    keying: Keying<'_, F::State>,
    batch: Batch<'_>,
    digests: &mut [u8],
) {
    if batch.is_empty() {
        return;
    }
    let digests = digests.chunks_exact_mut(digests.len() / batch.len());
    for (i, digest) in digests.enumerate().take(batch.len()) {
        let mut state = *keying.inner(i);
        let mut lane = Lane::IDLE;
        lane.begin::<F>(i, batch.item(i), keying.blocks_before());
        lane.finish::<F>(&alone, &mut state);
        if let Some(outer) = keying.outer(i) {
            outer_alone::<BLOCK, F>(&alone, &mut state, outer);
        }
        F::write(&state, digest);
    }
}

/// Replaces an inner state of HMAC by the code's words.
fn outer_alone<const BLOCK: usize, F: Function<BLOCK>>(
    alone: impl Fn(&mut F::State, Parts<'_, BLOCK>),
    state: &mut F::State,
    outer: &F::State,
) {
    let block = outer_block::<BLOCK, F>(state);
    *state = *outer;
    alone(state, [&[], &[block]]);
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
    keying: Keying<'_, F::State>,
    batch: Batch<'_>,
    digests: &mut [u8],
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    let items = batch.len();
    if items < few {
        return serial::<BLOCK, F>(alone, keying, batch, digests);
    }
    let len = batch.longest();
    if batch.contiguous().is_some() || batch.bytes() == len * items {
        return alike::<BLOCK, N, F, C>((code, few, alone), keying, batch, len, digests);
    }
    let digest_bytes = digests.len() / items;
    let digest = |item: usize| item * digest_bytes..(item + 1) * digest_bytes;
    let mut waiting = N.min(items)..items;
    let mut states = code.fill(keying.inner(0));
    if let Keying::Each(keys) = keying {
        set_others::<BLOCK, N, F, C>(code, &mut states, &keys[..N.min(items)], |key| &key.inner);
    }
    let mut lanes = [const { Lane::IDLE }; N];
    // Of each lane, the blocks to the end of its message's full ones or of its tail. Side by side, so that the fewest are found at once.
    let mut left = [IDLE; N];
    for (item, (lane, left)) in lanes.iter_mut().zip(&mut left).enumerate().take(items) {
        lane.begin::<F>(item, batch.item(item), keying.blocks_before());
        *left = lane.left().len();
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
        code.forward(&mut states, &[blocks], None);
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
                lane.begin::<F>(next, batch.item(next), keying.blocks_before());
                left[i] = lane.left().len();
                code.set(&mut states, i, keying.inner(next));
            } else {
                left[i] = IDLE;
                busy -= 1;
            }
        }
    }
    finish_each::<BLOCK, N, F, C>((code, &states), &lanes, &alone, digests, digest_bytes);
    if !matches!(keying, Keying::Plain(_)) {
        outer_each::<BLOCK, N, F, C>((code, few, alone), keying, digests, digest_bytes);
    }
}

/// Replaces all inner digests of HMAC by codes, `N` at a time. Until then they stand where the codes belong: without the key nobody makes codes of them.
fn outer_each<const BLOCK: usize, const N: usize, F, C>(
    (code, few, alone): (C, usize, impl Fn(&mut F::State, Parts<'_, BLOCK>)),
    keying: Keying<'_, F::State>,
    digests: &mut [u8],
    digest_bytes: usize,
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    for (group, digests) in digests.chunks_mut(N * digest_bytes).enumerate() {
        let count = digests.len() / digest_bytes;
        let outer = |lane| keying.outer(group * N + lane).expect("a key");
        if count < few {
            for (lane, digest) in digests.chunks_exact_mut(digest_bytes).enumerate() {
                let mut state = F::read(digest);
                outer_alone::<BLOCK, F>(&alone, &mut state, outer(lane));
                F::write(&state, digest);
            }
            continue;
        }
        let mut states = code.fill(outer(0));
        if let Keying::Each(keys) = keying {
            let keys = &keys[group * N..][..count];
            set_others::<BLOCK, N, F, C>(code, &mut states, keys, |key| &key.outer);
        }
        let outer = states;
        for (lane, digest) in digests.chunks_exact(digest_bytes).enumerate() {
            code.set(&mut states, lane, &F::read(digest));
        }
        code.forward(&mut states, &[], Some(&outer));
        for (lane, digest) in digests.chunks_exact_mut(digest_bytes).enumerate() {
            F::write(&code.state(&states, lane), digest);
        }
    }
}

/// Sets the state of each lane but the first, by its key.
#[inline(always)]
fn set_others<const BLOCK: usize, const N: usize, F, C>(
    code: C,
    states: &mut C::States,
    keys: &[&Key<F::State>],
    state: impl Fn(&Key<F::State>) -> &F::State,
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    for (lane, key) in keys.iter().enumerate().skip(1) {
        code.set(states, lane, state(key));
    }
}

/// [`batch`] of items that are `len` bytes long each: `N` begin and end together, then the next `N`.
#[inline(always)]
fn alike<const BLOCK: usize, const N: usize, F, C>(
    (code, few, alone): (C, usize, impl Fn(&mut F::State, Parts<'_, BLOCK>)),
    keying: Keying<'_, F::State>,
    batch: Batch<'_>,
    len: usize,
    digests: &mut [u8],
) where
    F: Function<BLOCK>,
    C: Compress<F, BLOCK, N>,
{
    let digest_bytes = digests.len() / batch.len();
    let rest_bytes = len % BLOCK;
    let is_one_tail = rest_bytes == 0;
    let bytes = (keying.blocks_before() * BLOCK + len) as u64;
    // One key's is the same in all groups.
    let mut outer = keying.outer(0).map(|outer| code.fill(outer));
    let mut tails = [[[0; BLOCK]; 2]; N];
    let mut tail_blocks = 0;
    for first in (0..batch.len()).step_by(N) {
        let count = N.min(batch.len() - first);
        if count < few {
            let rest = first..batch.len();
            let (keying, batch) = (keying.part(rest.clone()), batch.part(rest));
            return serial::<BLOCK, F>(alone, keying, batch, &mut digests[first * digest_bytes..]);
        }
        // Lanes without an item do the first one's work. Each is asked for once, because its place may follow from several rules.
        let item = |lane: usize| first + if lane < count { lane } else { 0 };
        let mut full: [&[[u8; BLOCK]]; N] = [&[]; N];
        let mut rests: [&[u8]; N] = [&[]; N];
        for (lane, (full, rest)) in full.iter_mut().zip(&mut rests).enumerate() {
            (*full, *rest) = batch.item(item(lane)).as_chunks();
        }
        let mut states = code.fill(keying.inner(first));
        if let Keying::Each(keys) = keying {
            let now = &keys[first..first + count];
            set_others::<BLOCK, N, F, C>(code, &mut states, now, |key| &key.inner);
            set_others::<BLOCK, N, F, C>(
                code,
                outer.insert(code.fill(&now[0].outer)),
                now,
                |key| &key.outer,
            );
            // Those of thousands of sessions do not fit in the cache that is near.
            for key in keys[first + count..].iter().take(N) {
                prefetch_lines(std::slice::from_ref(*key), 0);
            }
        }
        // Only the first tails are padded: in later ones, just what differs is written.
        if tail_blocks == 0 {
            let padded = if is_one_tail { 1 } else { N };
            for (tail, rest) in tails.iter_mut().zip(rests).take(padded) {
                tail_blocks = pad::<BLOCK, F>(tail, rest, bytes);
            }
        } else if !is_one_tail {
            for (tail, rest) in tails.iter_mut().zip(rests).take(count) {
                tail.as_flattened_mut()[..rest_bytes].copy_from_slice(rest);
            }
        }
        let mut last: [&[[u8; BLOCK]]; N] = [&[]; N];
        for (lane, last) in last.iter_mut().enumerate() {
            *last = &tails[if is_one_tail { 0 } else { lane }][..tail_blocks];
        }
        code.forward(&mut states, &[full, last], outer.as_ref());
        let digests = digests[first * digest_bytes..].chunks_exact_mut(digest_bytes);
        for (lane, digest) in digests.enumerate().take(count) {
            F::write(&code.state(&states, lane), digest);
        }
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
            lane.finish::<F>(&alone, &mut state);
            let digest = lane.item * digest_bytes..(lane.item + 1) * digest_bytes;
            F::write(&state, &mut digests[digest]);
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

    /// Takes a message on, behind so many blocks.
    #[inline]
    fn begin<F: Function<BLOCK>>(&mut self, item: usize, message: &'a [u8], blocks_before: usize) {
        let (full, rest) = message.as_chunks::<BLOCK>();
        self.item = item;
        self.full = full;
        self.tail_at = 0;
        let bytes = blocks_before * BLOCK + message.len();
        self.tail_end = pad::<BLOCK, F>(&mut self.tail, rest, bytes as u64);
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
    ) {
        alone(state, [self.full, &self.tail[self.tail_at..self.tail_end]]);
    }
}
