//! x86-64 with AVX-512 and VPCLMULQDQ: 64 bytes a fold, four items side by side.
//!
//! A message is folded into one vector of 64 bytes that has the same remainder (four lanes of 128 bits, the earliest
//! bytes lowest). Four such vectors are transposed, so that one instruction folds the same lane of four items, and one
//! reduction ends all four. An item of many kilobytes goes alone, eight vectors of it side by side.
//!
//! Zeros before a message do not change a CRC whose register starts at zero. So the odd bytes are taken first, masked
//! into the top of a vector. A register that starts otherwise is XORed onto the first eight bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::Batch;

use super::constants::{DIVISOR, FORWARD, QUOTIENT, fold};
use super::{INITIAL, portable, slot};
use crate::isa::Avx512;

/// Shorter items, which the initial register would reach beyond, go through the table.
const FOLDED_BYTES_MIN: usize = 8;
/// Vectors begin on cache lines in items from this length on: loads that cross a line take twice as long.
const ALIGNED_BYTES_MIN: usize = 1024;
/// Items from this length on go one by one.
const ALONE_BYTES_MIN: usize = 1 << 15;

/// The register before the first byte, at bytes 64 to 71 among zeros: read from `offset`, it lies `64 - offset` bytes in.
static START: Start = Start::new();

#[repr(align(64))]
struct Start([u8; 192]);

impl Start {
    const fn new() -> Self {
        let mut bytes = [0; 192];
        let (_, at) = bytes.split_at_mut(64);
        let (at, _) = at.split_at_mut(8);
        at.copy_from_slice(&INITIAL.to_le_bytes());
        Self(bytes)
    }

    /// The register `64 - offset` bytes into a vector; `offset` from 1 to 128.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn at(&self, offset: usize) -> __m512i {
        load(self.0[offset..offset + 64].try_into().expect("64 bytes"))
    }
}

/// The pieces of an item.
#[derive(Clone, Copy, Default)]
struct Parts<'a> {
    /// 1 to 64 bytes before the body.
    head: &'a [u8],
    /// Whole blocks.
    body: &'a [[u8; 64]],
    /// The bytes behind it: 1 to 64 of an item whose blocks are cache lines, else none.
    tail: &'a [u8],
}

impl<'a> Parts<'a> {
    /// For short items: no tail.
    #[inline]
    fn whole(item: &'a [u8]) -> Self {
        let (head, body) = item.split_at((item.len() - 1) % 64 + 1);
        Self {
            head,
            body: body.as_chunks().0,
            tail: &[],
        }
    }

    /// For long items: the blocks are cache lines.
    #[inline]
    fn aligned(item: &'a [u8]) -> Self {
        let (head, rest) = item.split_at(64 - item.as_ptr().addr() % 64);
        let (body, tail) = rest.split_at((rest.len() - 1) / 64 * 64);
        Self {
            head,
            body: body.as_chunks().0,
            tail,
        }
    }
}

/// The register after `data`.
pub(super) fn one(_proof: Avx512, data: &[u8]) -> u64 {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { single(data) }
}

/// The CRC of each item, into its slot.
pub(super) fn batch(_proof: Avx512, batch: &Batch<'_>, slots: &mut [[u8; 8]]) {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe {
        match batch.contiguous() {
            Some((items, 64)) => lines(items.as_chunks::<64>().0, slots),
            _ => each(batch, slots),
        }
    }
}

/// The register after `data`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq")]
fn single(data: &[u8]) -> u64 {
    if data.len() < FOLDED_BYTES_MIN {
        return portable::advance(INITIAL, data);
    }
    let Parts { head, body, tail } = match data.len() {
        ALIGNED_BYTES_MIN.. => Parts::aligned(data),
        _ => Parts::whole(data),
    };
    let mut vector = fold_start(head, body);
    if !tail.is_empty() {
        vector = with_tail(vector, tail);
    }
    !_mm_cvtsi128_si64(_mm512_castsi512_si128(reduce([vector; 4]))).cast_unsigned()
}

/// Items of any length, four at a time where they are long enough. Here and below loops stand where `map` would read better:
/// a closure with these features is not inlined into a function of `core`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq")]
fn each(batch: &Batch<'_>, slots: &mut [[u8; 8]]) {
    let (groups, rest) = slots[..batch.len()].as_chunks_mut::<4>();
    let grouped = groups.len() * 4;
    for (group, places) in groups.iter_mut().enumerate() {
        let mut items: [&[u8]; 4] = [&[]; 4];
        let mut all_fit = true;
        for (i, item) in items.iter_mut().enumerate() {
            *item = batch.item(group * 4 + i);
            all_fit &= (FOLDED_BYTES_MIN..ALONE_BYTES_MIN).contains(&item.len());
        }
        if all_fit {
            put(places, four(items));
        } else {
            for (place, item) in places.iter_mut().zip(items) {
                *place = slot(single(item));
            }
        }
    }
    for (i, place) in rest.iter_mut().enumerate() {
        *place = slot(single(batch.item(grouped + i)));
    }
}

/// The CRCs of four items, side by side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq")]
fn four(items: [&[u8]; 4]) -> __m512i {
    let (mut are_long, mut at_lines) = (true, true);
    for item in items {
        are_long &= item.len() >= ALIGNED_BYTES_MIN;
        at_lines &= item.as_ptr_range().end.addr().is_multiple_of(64);
    }
    let is_aligned = are_long && !at_lines;
    let mut parts = [Parts::default(); 4];
    let mut blocks = usize::MAX;
    for (parts, item) in parts.iter_mut().zip(items) {
        *parts = match is_aligned {
            true => Parts::aligned(item),
            false => Parts::whole(item),
        };
        // The first goes to the start: room for what of the initial register the head has none for.
        blocks = blocks.min(parts.body.len().saturating_sub(1));
    }
    let mut vectors = [_mm512_setzero_si512(); 4];
    let mut bodies: [&[[u8; 64]]; 4] = [&[]; 4];
    for i in 0..4 {
        let Parts { head, body, .. } = parts[i];
        let (before, body) = body.split_at(body.len() - blocks);
        vectors[i] = fold_start(head, before);
        bodies[i] = body;
    }
    let [a, b, c, d] = bodies;
    let by_64 = by(const { fold(512) });
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        vectors[0] = folded(vectors[0], by_64, load(a));
        vectors[1] = folded(vectors[1], by_64, load(b));
        vectors[2] = folded(vectors[2], by_64, load(c));
        vectors[3] = folded(vectors[3], by_64, load(d));
    }
    if is_aligned {
        for (vector, Parts { tail, .. }) in vectors.iter_mut().zip(parts) {
            *vector = with_tail(*vector, tail);
        }
    }
    reduce(vectors)
}

/// The start of an item: its head, and the blocks that it has more than the others in its group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn fold_start(head: &[u8], before: &[[u8; 64]]) -> __m512i {
    let vector = _mm512_xor_si512(load_head(head), START.at(head.len()));
    let Some((first, before)) = before.split_first() else {
        return vector;
    };
    let by_64 = by(const { fold(512) });
    // The register's bytes that a head of less than eight has no room for.
    let first = _mm512_xor_si512(load(first), START.at(head.len() + 64));
    let mut vector = folded(vector, by_64, first);
    if before.len() >= LANES {
        return fold_blocks(vector, before);
    }
    for block in before {
        vector = folded(vector, by_64, load(block));
    }
    vector
}

/// A vector and the 1 to 64 bytes behind it in one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn with_tail(vector: __m512i, tail: &[u8]) -> __m512i {
    folded(vector, by(BY_BYTES[tail.len()]), load_head(tail))
}

/// The factors that move a vector forward by 1 byte, 2 bytes and so on.
static BY_BYTES: [[u64; 2]; 65] = {
    let mut factors = [[0; 2]; 65];
    let mut bytes = 1;
    while bytes < factors.len() {
        factors[bytes] = fold(bytes as u32 * 8);
        bytes += 1;
    }
    factors
};

/// Items of 64 bytes: half a line is loaded to its place, so that the first transposition costs nothing.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq")]
fn lines(items: &[[u8; 64]], slots: &mut [[u8; 8]]) {
    let (groups, rest) = items.as_chunks::<4>();
    let (slot_groups, _) = slots.as_chunks_mut::<4>();
    let initial = INITIAL.cast_signed();
    let initial = _mm512_set_epi64(0, 0, 0, initial, 0, 0, 0, initial);
    let by_32 = by(const { fold(256) });
    for (group, places) in groups.iter().zip(slot_groups) {
        let [low01, high01] = halves(&group[0], &group[1]);
        let [low23, high23] = halves(&group[2], &group[3]);
        let folded01 = folded(_mm512_xor_si512(low01, initial), by_32, high01);
        let folded23 = folded(_mm512_xor_si512(low23, initial), by_32, high23);
        put(places, crcs(last_lanes(folded01, folded23)));
    }
    let done = items.len() - rest.len();
    for (place, item) in slots[done..].iter_mut().zip(rest) {
        *place = slot(single(item));
    }
}

/// The first halves of two lines in one vector, the second halves in another.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(a: &[u8; 64], b: &[u8; 64]) -> [__m512i; 2] {
    // SAFETY: 32 bytes at 0 and at 32 lie inside 64; the loads need no alignment.
    unsafe {
        let half = |item: &[u8; 64], at: usize| _mm256_loadu_si256(item.as_ptr().add(at).cast());
        [
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(a, 0)), half(b, 0)),
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(a, 32)), half(b, 32)),
        ]
    }
}

/// Vectors of one item that are folded side by side.
const LANES: usize = 8;

/// A vector and the blocks behind it in one: full groups are folded side by side, what does not fill one goes before them.
#[inline(never)]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold_blocks(mut vector: __m512i, blocks: &[[u8; 64]]) -> __m512i {
    let by_64 = by(const { fold(512) });
    let (before, groups) = blocks.split_at(blocks.len() % LANES);
    for block in before {
        vector = folded(vector, by_64, load(block));
    }
    let (groups, _) = groups.as_chunks::<LANES>();
    let Some((first, groups)) = groups.split_first() else {
        return vector;
    };
    let mut lanes = [_mm512_setzero_si512(); LANES];
    for (lane, block) in lanes.iter_mut().zip(first) {
        *lane = load(block);
    }
    lanes[0] = folded(vector, by_64, lanes[0]);
    let by_group = by(const { fold(LANES as u32 * 512) });
    for group in groups {
        for (lane, block) in lanes.iter_mut().zip(group) {
            *lane = folded(*lane, by_group, load(block));
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let by_128 = by(const { fold(1024) });
    let abcd = folded(folded(a, by_64, b), by_128, folded(c, by_64, d));
    let efgh = folded(folded(e, by_64, f), by_128, folded(g, by_64, h));
    folded(abcd, by(const { fold(2048) }), efgh)
}

/// `early`, moved forward by the bytes that `factors` stand for, added to `late`.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn folded(early: __m512i, factors: __m512i, late: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(early, factors);
    let high = _mm512_clmulepi64_epi128::<0x11>(early, factors);
    _mm512_ternarylogic_epi64::<0x96>(low, high, late)
}

/// The same two factors for each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn by(factors: [u64; 2]) -> __m512i {
    let [low, high] = factors.map(u64::cast_signed);
    _mm512_broadcast_i32x4(_mm_set_epi64x(high, low))
}

/// The CRCs of four folded items.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn reduce([a, b, c, d]: [__m512i; 4]) -> __m512i {
    crcs(last_lanes(pair(a, b), pair(c, d)))
}

/// Two folded items of four lanes each, folded to two lanes each.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn pair(a: __m512i, b: __m512i) -> __m512i {
    folded(
        _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
        by(const { fold(256) }),
        _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
    )
}

/// Four items, of which two lanes each are left, in one lane each.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn last_lanes(ab: __m512i, cd: __m512i) -> __m512i {
    folded(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd),
        by(const { fold(128) }),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd),
    )
}

/// The CRCs of four lanes in the low half, by one Barrett reduction of all.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn crcs(lanes: __m512i) -> __m512i {
    let factors = by([FORWARD, QUOTIENT]);
    let forward = _mm512_clmulepi64_epi128::<0x00>(lanes, factors);
    let reduced = _mm512_xor_si512(forward, _mm512_bsrli_epi128::<8>(lanes));
    let quotient = _mm512_clmulepi64_epi128::<0x10>(reduced, factors);
    let rest = _mm512_clmulepi64_epi128::<0x00>(quotient, by([DIVISOR; 2]));
    let under = _mm512_bslli_epi128::<8>(quotient);
    // The sum of three, inverted.
    let crcs = _mm512_ternarylogic_epi64::<0x69>(reduced, rest, under);
    _mm512_maskz_compress_epi64(0b1010_1010, crcs)
}

/// Four CRCs into their slots.
#[inline]
#[target_feature(enable = "avx512f")]
fn put(places: &mut [[u8; 8]; 4], crcs: __m512i) {
    // SAFETY: the slots are 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(places.as_mut_ptr().cast(), _mm512_castsi512_si256(crcs)) };
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

/// 1 to 64 bytes in the top of a vector, zeros below.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_head(head: &[u8]) -> __m512i {
    let gap = 64 - head.len();
    let start = head.as_ptr().wrapping_sub(gap);
    // SAFETY: the mask selects `head` alone; bytes that are masked out are not accessed and cannot fault.
    unsafe { _mm512_maskz_loadu_epi8(!0 << gap, start.cast()) }
}
