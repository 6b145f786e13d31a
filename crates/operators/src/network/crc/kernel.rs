//! The CRCs' kernel, one for all instruction sets and polynomials: two carry-less products a lane fold a vector into the next one (Gopal et al., Fast
//! CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009), until one vector is left that has the message's remainder.
//!
//! A fold's result comes five cycles or more after it began, and another could begin every two. So four items of a batch go side by side, and
//! of one long item up to eight vectors.
//!
//! Zeros before a message do not change a CRC whose register starts at zero. So the odd bytes are taken first, in the top of a vector, and no
//! tail is left. A register that starts otherwise is XORed onto the first bytes.

use std::marker::PhantomData;

use dpb_core::Batch;

use super::folds::{blocks, grouped};
use super::vectors::{BYTES_MAX, Task, Vectors, by_vectors, crc, order, register, taken};
use super::{Algorithm, chained, portable};

/// Shorter items go through the table.
const FOLDED_BYTES_MIN: usize = 16;
/// Items from this length on go one by one.
const ALONE_BYTES_MIN: usize = 1 << 15;
/// Items from this length on are read by cache lines, where that counts.
const BY_CACHE_LINES_MIN: usize = 1024;
/// Items up to this length are short.
const SHORT_BYTES_MAX: usize = 256;
/// Bytes of the register.
const REGISTER_BYTES: usize = 8;

/// The CRC of some bytes. The code for short ones is apart: it needs few registers, and nothing is saved for it.
#[inline(always)]
pub(super) fn one<A: Algorithm, V: Vectors>(v: V, data: &[u8]) -> A::Crc {
    match data.len() {
        0..=SHORT_BYTES_MAX => v.enter(Short::<A>(data, PhantomData)),
        _ => v.enter(One::<A>(data, PhantomData)),
    }
}

/// The CRC of at most [`SHORT_BYTES_MAX`].
struct Short<'a, A>(&'a [u8], PhantomData<A>);

impl<A: Algorithm> Task for Short<'_, A> {
    type Output = A::Crc;

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) -> A::Crc {
        let item = self.0;
        if V::has_instruction::<A>() && (V::BYTES < 64 || item.len() < 128) {
            return A::crc(chained::short::<A, V>(v, A::INITIAL, item));
        }
        if item.len() < FOLDED_BYTES_MIN {
            return A::crc(portable::advance::<A>(A::INITIAL, item));
        }
        let (vector, body) = started::<A, V>(v, item, (item.len() - 1) % V::BYTES + 1);
        let vector = grouped::<A, V, 1>(v, vector, body);
        last::<A, V>(v, vector)
    }
}

/// The CRC of some bytes.
struct One<'a, A>(&'a [u8], PhantomData<A>);

impl<A: Algorithm> Task for One<'_, A> {
    type Output = A::Crc;

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) -> A::Crc {
        alone::<A, V>(v, self.0)
    }
}

/// The CRC of each item, into its slot.
pub(super) struct OfBatch<'a, 'b, A: Algorithm>(
    pub(super) &'a Batch<'b>,
    pub(super) &'a mut [A::Slot],
);

impl<A: Algorithm> Task for OfBatch<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) {
        let Self(batch, slots) = self;
        let slots = &mut slots[..batch.len()];
        if V::has_instruction::<A>() && V::BYTES == 16 {
            return v.enter(chained::Each::<A>(batch, slots));
        }
        match batch.contiguous() {
            Some((items, 64)) => v.enter(Lines::<A>(items, slots)),
            Some((items, len))
                if (FOLDED_BYTES_MIN..ALONE_BYTES_MIN).contains(&len)
                    && !(V::BY_CACHE_LINES && len >= BY_CACHE_LINES_MIN) =>
            {
                v.enter(Equal::<A>(items, len, slots));
            }
            _ => v.enter(Mixed::<A>(batch, slots)),
        }
    }
}

/// Items of 64 bytes.
struct Lines<'a, A: Algorithm>(&'a [u8], &'a mut [A::Slot]);

impl<A: Algorithm> Task for Lines<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) {
        let Self(items, slots) = self;
        let (items, _) = items.as_chunks::<64>();
        let (groups, rest) = items.as_chunks::<4>();
        let (slot_groups, slots_rest) = slots.as_chunks_mut::<4>();
        for (group, slots) in groups.iter().zip(slot_groups) {
            put::<A, V>(slots, v.lines::<A>(group));
        }
        for (item, slot) in rest.iter().zip(slots_rest) {
            *slot = A::slot(one::<A, V>(v, item));
        }
    }
}

/// Items of one length.
struct Equal<'a, A: Algorithm>(&'a [u8], usize, &'a mut [A::Slot]);

impl<A: Algorithm> Task for Equal<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) {
        let Self(mut items, len, slots) = self;
        let (groups, rest) = slots.as_chunks_mut::<4>();
        let head = (len - 1) % V::BYTES + 1;
        for slots in groups {
            let (group, behind) = items.split_at(4 * len);
            let (ab, cd) = group.split_at(2 * len);
            let ((a, b), (c, d)) = (ab.split_at(len), cd.split_at(len));
            let mut vectors = [v.all([0; 2]); 4];
            let mut bodies: [&[u8]; 4] = [&[]; 4];
            for (i, item) in [a, b, c, d].into_iter().enumerate() {
                (vectors[i], bodies[i]) = started::<A, V>(v, item, head);
            }
            put::<A, V>(slots, side_by_side::<A, V>(v, vectors, bodies));
            items = behind;
        }
        for slot in rest {
            let (item, behind) = items.split_at(len);
            *slot = A::slot(one::<A, V>(v, item));
            items = behind;
        }
    }
}

/// Items of any length.
struct Mixed<'a, 'b, A: Algorithm>(&'a Batch<'b>, &'a mut [A::Slot]);

impl<A: Algorithm> Task for Mixed<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) {
        let Self(batch, slots) = self;
        let (groups, rest) = slots.as_chunks_mut::<4>();
        let grouped = groups.len() * 4;
        for (group, slots) in groups.iter_mut().enumerate() {
            let mut items: [&[u8]; 4] = [&[]; 4];
            let mut all_fit = true;
            for (i, item) in items.iter_mut().enumerate() {
                *item = batch.item(group * 4 + i);
                all_fit &= (FOLDED_BYTES_MIN..ALONE_BYTES_MIN).contains(&item.len());
            }
            if all_fit {
                put::<A, V>(slots, four::<A, V>(v, items));
            } else {
                for (slot, item) in slots.iter_mut().zip(items) {
                    *slot = A::slot(one::<A, V>(v, item));
                }
            }
        }
        for (i, slot) in rest.iter_mut().enumerate() {
            *slot = A::slot(one::<A, V>(v, batch.item(grouped + i)));
        }
    }
}

/// Writes the CRCs of four registers into their slots.
#[inline(always)]
fn put<A: Algorithm, V: Vectors>(slots: &mut [A::Slot; 4], registers: [u64; 4]) {
    for (slot, register) in slots.iter_mut().zip(registers) {
        *slot = A::slot(crc::<A, V>(register));
    }
}

/// The registers of four items of any length.
#[inline(always)]
fn four<A: Algorithm, V: Vectors>(v: V, items: [&[u8]; 4]) -> [u64; 4] {
    let (mut are_long, mut at_lines) = (V::BY_CACHE_LINES, true);
    for item in items {
        are_long &= item.len() >= BY_CACHE_LINES_MIN;
        at_lines &= item.as_ptr_range().end.addr().is_multiple_of(64);
    }
    let has_tails = are_long && !at_lines;
    let mut vectors = [v.all([0; 2]); 4];
    let mut bodies: [&[u8]; 4] = [&[]; 4];
    let mut tails: [&[u8]; 4] = [&[]; 4];
    let mut shortest = usize::MAX;
    for (i, item) in items.into_iter().enumerate() {
        let head = match has_tails {
            true => V::BYTES - item.as_ptr().addr() % V::BYTES,
            false => (item.len() - 1) % V::BYTES + 1,
        };
        (vectors[i], bodies[i]) = started::<A, V>(v, item, head);
        if has_tails {
            (bodies[i], tails[i]) = bodies[i].split_at((bodies[i].len() - 1) / V::BYTES * V::BYTES);
        }
        shortest = shortest.min(bodies[i].len());
    }
    // What an item has more than the others goes first.
    for i in 0..4 {
        let (before, body) = bodies[i].split_at(bodies[i].len() - shortest);
        if !before.is_empty() {
            vectors[i] = grouped::<A, V, 4>(v, vectors[i], before);
        }
        bodies[i] = body;
    }
    let [a, b, c, d] = bodies;
    let by_1 = by_vectors::<A, V, 1>(v);
    each_of_four::<A, V>(v, &mut vectors, by_1, [a, b, c, d]);
    if has_tails {
        for (vector, tail) in vectors.iter_mut().zip(tails) {
            *vector = with_tail::<A, V>(v, *vector, tail);
        }
    }
    v.registers::<A>(vectors)
}

/// The registers of four items, of which equally much is left.
#[inline(always)]
fn side_by_side<A: Algorithm, V: Vectors>(
    v: V,
    mut vectors: [V::Vector; 4],
    bodies: [&[u8]; 4],
) -> [u64; 4] {
    let by_1 = by_vectors::<A, V, 1>(v);
    each_of_four::<A, V>(v, &mut vectors, by_1, bodies);
    v.registers::<A>(vectors)
}

#[inline(always)]
fn each_of_four<A: Algorithm, V: Vectors>(
    v: V,
    vectors: &mut [V::Vector; 4],
    factors: V::Vector,
    [a, b, c, d]: [&[u8]; 4],
) {
    let (a, b) = (a.chunks_exact(V::BYTES), b.chunks_exact(V::BYTES));
    let (c, d) = (c.chunks_exact(V::BYTES), d.chunks_exact(V::BYTES));
    for (((a, b), c), d) in a.zip(b).zip(c).zip(d) {
        vectors[0] = v.folded(vectors[0], factors, taken::<A, V>(v, v.load(a)));
        vectors[1] = v.folded(vectors[1], factors, taken::<A, V>(v, v.load(b)));
        vectors[2] = v.folded(vectors[2], factors, taken::<A, V>(v, v.load(c)));
        vectors[3] = v.folded(vectors[3], factors, taken::<A, V>(v, v.load(d)));
    }
}

/// The register before the first byte, at bytes 64 to 71 among zeros.
#[repr(align(64))]
struct Start([u8; 3 * BYTES_MAX]);

impl Start {
    const fn new(register: u64) -> Self {
        let mut bytes = [0; 3 * BYTES_MAX];
        let (_, at) = bytes.split_at_mut(BYTES_MAX);
        let (at, _) = at.split_at_mut(REGISTER_BYTES);
        at.copy_from_slice(&register.to_le_bytes());
        Self(bytes)
    }
}

/// The start of an item of sixteen bytes or more: its head and the first block in a vector; and the blocks that are left.
#[inline(always)]
fn started<A: Algorithm, V: Vectors>(v: V, item: &[u8], head: usize) -> (V::Vector, &[u8]) {
    let start = const { &Start::new(A::INITIAL) };
    let mut vector = v.head(item, head);
    if A::INITIAL != 0 {
        vector = v.plus(vector, v.load(&start.0[BYTES_MAX + head - V::BYTES..]));
    }
    vector = taken::<A, V>(v, vector);
    let body = &item[head..];
    if body.len() < V::BYTES {
        return (vector, body);
    }
    let (first, body) = body.split_at(V::BYTES);
    let mut first = v.load(first);
    if A::INITIAL != 0 {
        // The register's bytes that a short head has no room for.
        first = v.plus(first, v.load(&start.0[BYTES_MAX + head..]));
    }
    let first = taken::<A, V>(v, first);
    (v.folded(vector, by_vectors::<A, V, 1>(v), first), body)
}

/// The CRC of one item.
#[inline(always)]
fn alone<A: Algorithm, V: Vectors>(v: V, item: &[u8]) -> A::Crc {
    if V::has_instruction::<A>() {
        return A::crc(chained::advance::<A, V>(v, A::INITIAL, item));
    }
    if item.len() < FOLDED_BYTES_MIN {
        return A::crc(portable::advance::<A>(A::INITIAL, item));
    }
    let by_lines = V::BY_CACHE_LINES && item.len() >= BY_CACHE_LINES_MIN;
    let head = match by_lines {
        true => V::BYTES - item.as_ptr().addr() % V::BYTES,
        false => (item.len() - 1) % V::BYTES + 1,
    };
    let (mut vector, mut body) = started::<A, V>(v, item, head);
    let mut tail: &[u8] = &[];
    if by_lines {
        (body, tail) = body.split_at((body.len() - 1) / V::BYTES * V::BYTES);
    }
    vector = blocks::<A, V>(v, vector, body);
    if by_lines {
        vector = with_tail::<A, V>(v, vector, tail);
    }
    last::<A, V>(v, vector)
}

/// The CRC of a folded item.
#[inline(always)]
fn last<A: Algorithm, V: Vectors>(v: V, vector: V::Vector) -> A::Crc {
    let lane = v.last_lane::<A>(vector);
    crc::<A, V>(register::<A, V::Narrow>(v.narrow(), order::<A, V>(), lane))
}

/// A vector and 1 to [`Vectors::BYTES`] bytes behind it in one.
#[inline(always)]
fn with_tail<A: Algorithm, V: Vectors>(v: V, vector: V::Vector, tail: &[u8]) -> V::Vector {
    let factors = const { &by_bytes::<A, V>() }[tail.len()];
    let tail = taken::<A, V>(v, v.head(tail, tail.len()));
    v.folded(vector, v.all(factors), tail)
}

/// The factors that move a vector forward by 1 byte, 2 bytes and so on.
const fn by_bytes<A: Algorithm, V: Vectors>() -> [[u64; 2]; BYTES_MAX + 1] {
    let mut factors = [[0; 2]; BYTES_MAX + 1];
    let mut bytes = 1;
    while bytes < factors.len() {
        factors[bytes] = super::constants::fold::<A>(order::<A, V>(), bytes as u32 * 8);
        bytes += 1;
    }
    factors
}
