//! x86-64 with AVX-512 and VPCLMULQDQ: 64 bytes a fold, four items side by side.
//!
//! A message is folded into one vector of 64 bytes that has the same remainder (four lanes of 128 bits, the earliest
//! bytes lowest). Four such vectors are transposed, so that one instruction folds the same lane of four items, and one
//! reduction ends all four.
//!
//! CRC-32C has the `crc32` instruction besides, which another port runs meanwhile: a part of each long item goes there
//! (fusion: corsix/fast-crc32). A fifth of each of four items beside their vectors was slower than none: at 1500 bytes
//! the ends cost more than the middle gains.
//!
//! Zeros before a message do not change a CRC whose register starts at zero. So the odd bytes are taken first, masked
//! into the top of a vector, and no tail is left. A register that starts otherwise is XORed onto the first four bytes.
#![allow(unsafe_code)]

mod long;

use std::arch::x86_64::*;

use dpb_core::Batch;

use super::Algorithm;
use super::constants::{Barrett, fold};
use super::portable;
use super::x86_64::{chained, has_instruction};
use crate::isa::Avx512;

/// Items from this length on go one by one.
const ALONE_BYTES_MIN: usize = 1 << 15;

/// The register before the first byte, all ones or none.
#[repr(align(64))]
struct Start([u8; 192]);

impl Start {
    /// At bytes 64 to 67 among zeros: read from `offset`, it lies `64 - offset` bytes in.
    const fn new(register: u32) -> Self {
        let mut bytes = [0; 192];
        let (_, at) = bytes.split_at_mut(64);
        let (at, _) = at.split_at_mut(4);
        at.copy_from_slice(&register.to_le_bytes());
        Self(bytes)
    }

    /// The register `64 - offset` bytes into a vector; `offset` from 1 to 128.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn at(&self, offset: usize) -> __m512i {
        load(self.0[offset..offset + 64].try_into().expect("64 bytes"))
    }
}

/// The register after `data`.
pub(super) fn one<A: Algorithm>(_proof: Avx512, data: &[u8]) -> u32 {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { single::<A>(data) }
}

/// The CRC of each item, into its slot.
pub(super) fn batch<A: Algorithm>(_proof: Avx512, batch: &Batch<'_>, slots: &mut [A::Slot]) {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe {
        match batch.contiguous() {
            Some((items, 64)) => lines::<A>(items.as_chunks::<64>().0, slots),
            _ => each::<A>(batch, slots),
        }
    }
}

/// Shorter items go through the `crc32` instruction alone, or through the table. At least 4: the initial register covers
/// four bytes.
const fn folded_bytes_min<A: Algorithm>() -> usize {
    if has_instruction::<A>() { 24 } else { 4 }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
fn single<A: Algorithm>(data: &[u8]) -> u32 {
    match data.len() {
        long::FUSED_BYTES_MIN.. if has_instruction::<A>() => long::fused::<A>(data),
        long::BYTES_MIN.. => long::folded::<A>(data),
        _ => advance::<A>(A::INITIAL, data),
    }
}

/// The register after `data`, of middling length at most.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
fn advance<A: Algorithm>(register: u32, data: &[u8]) -> u32 {
    if data.len() >= folded_bytes_min::<A>() {
        let Parts { head, body, .. } = Parts::whole(data);
        register_of::<A>(fold_start::<A>(&Start::new(register), head, body))
    } else if has_instruction::<A>() {
        chained::advance::<A>(register, data)
    } else {
        portable::advance::<A>(register, data)
    }
}

/// Items of any length, four at a time where they are long enough. Here and below loops stand where `map` would read better:
/// a closure with these features is not inlined into a function of `core`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
fn each<A: Algorithm>(batch: &Batch<'_>, slots: &mut [A::Slot]) {
    let (groups, rest) = slots[..batch.len()].as_chunks_mut::<4>();
    let grouped = groups.len() * 4;
    for (group, slots) in groups.iter_mut().enumerate() {
        let mut items: [&[u8]; 4] = [&[]; 4];
        let mut all_fit = true;
        for (i, item) in items.iter_mut().enumerate() {
            *item = batch.item(group * 4 + i);
            all_fit &= (folded_bytes_min::<A>()..ALONE_BYTES_MIN).contains(&item.len());
        }
        if all_fit {
            put::<A>(slots, four::<A>(items));
        } else {
            for (slot, item) in slots.iter_mut().zip(items) {
                *slot = A::slot(A::crc(single::<A>(item)));
            }
        }
    }
    for (i, slot) in rest.iter_mut().enumerate() {
        *slot = A::slot(A::crc(single::<A>(batch.item(grouped + i))));
    }
}

/// The registers after four items, side by side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
fn four<A: Algorithm>(items: [&[u8]; 4]) -> __m128i {
    let (mut are_long, mut at_lines) = (true, true);
    for item in items {
        are_long &= item.len() >= long::BYTES_MIN;
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
    let start = const { &Start::new(A::INITIAL) };
    let mut vectors = [_mm512_setzero_si512(); 4];
    let mut bodies: [&[[u8; 64]]; 4] = [&[]; 4];
    for i in 0..4 {
        let Parts { head, body, .. } = parts[i];
        let (before, body) = body.split_at(body.len() - blocks);
        vectors[i] = fold_start::<A>(start, head, before);
        bodies[i] = body;
    }
    let [a, b, c, d] = bodies;
    let by_64 = by(const { fold::<A>(512) });
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        vectors[0] = folded(vectors[0], by_64, load_bytes::<A>(a));
        vectors[1] = folded(vectors[1], by_64, load_bytes::<A>(b));
        vectors[2] = folded(vectors[2], by_64, load_bytes::<A>(c));
        vectors[3] = folded(vectors[3], by_64, load_bytes::<A>(d));
    }
    if is_aligned {
        for (vector, Parts { tail, .. }) in vectors.iter_mut().zip(parts) {
            *vector = with_tail::<A>(*vector, tail);
        }
    }
    reduce::<A>(vectors)
}

/// The pieces of an item.
#[derive(Clone, Copy, Default)]
struct Parts<'a> {
    /// The odd bytes before the body.
    head: &'a [u8],
    /// Whole blocks.
    body: &'a [[u8; 64]],
    /// The odd bytes behind it.
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

    /// For long items: the blocks are cache lines, for loads that cross one take twice as long. 1 to 64 bytes before and behind.
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

/// The start of an item: its head, and the blocks that it has more than the others in its group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni")]
fn fold_start<A: Algorithm>(start: &Start, head: &[u8], before: &[[u8; 64]]) -> __m512i {
    let vector = _mm512_xor_si512(taken::<A>(load_head(head)), start.at(head.len()));
    let Some((first, before)) = before.split_first() else {
        return vector;
    };
    let by_64 = by(const { fold::<A>(512) });
    // The register's bytes that a head of less than four has no room for.
    let first = _mm512_xor_si512(load_bytes::<A>(first), start.at(head.len() + 64));
    let mut vector = folded(vector, by_64, first);
    if before.len() > 2 {
        return fold_blocks::<A>(vector, before);
    }
    for block in before {
        vector = folded(vector, by_64, load_bytes::<A>(block));
    }
    vector
}

/// A vector and the 1 to 64 bytes behind it in one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq,gfni")]
fn with_tail<A: Algorithm>(vector: __m512i, tail: &[u8]) -> __m512i {
    let factors = const { &by_bytes::<A>() }[tail.len()];
    folded(vector, by(factors), taken::<A>(load_head(tail)))
}

/// The factors that move a vector forward by 1 byte, 2 bytes and so on.
const fn by_bytes<A: Algorithm>() -> [[u64; 2]; 65] {
    let mut factors = [[0; 2]; 65];
    let mut bytes = 1;
    while bytes < factors.len() {
        factors[bytes] = fold::<A>(bytes as u32 * 8);
        bytes += 1;
    }
    factors
}

/// Items of 64 bytes: half a line is loaded to its place, so that the first transposition costs nothing.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
fn lines<A: Algorithm>(items: &[[u8; 64]], slots: &mut [A::Slot]) {
    let (groups, rest) = items.as_chunks::<4>();
    let (slot_groups, _) = slots.as_chunks_mut::<4>();
    let initial = i64::from(A::INITIAL);
    let initial = _mm512_set_epi64(0, 0, 0, initial, 0, 0, 0, initial);
    let by_32 = by(const { fold::<A>(256) });
    for (group, slots) in groups.iter().zip(slot_groups) {
        let [low01, high01] = halves::<A>(&group[0], &group[1]);
        let [low23, high23] = halves::<A>(&group[2], &group[3]);
        let folded01 = folded(_mm512_xor_si512(low01, initial), by_32, high01);
        let folded23 = folded(_mm512_xor_si512(low23, initial), by_32, high23);
        put::<A>(slots, registers::<A>(last_lanes::<A>(folded01, folded23)));
    }
    let done = items.len() - rest.len();
    for (slot, item) in slots[done..].iter_mut().zip(rest) {
        *slot = A::slot(A::crc(single::<A>(item)));
    }
}

/// The first halves of two lines in one vector, the second halves in another.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn halves<A: Algorithm>(a: &[u8; 64], b: &[u8; 64]) -> [__m512i; 2] {
    // SAFETY: 32 bytes at 0 and at 32 lie inside 64; the loads need no alignment.
    unsafe {
        let half = |item: &[u8; 64], at: usize| _mm256_loadu_si256(item.as_ptr().add(at).cast());
        let first = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(a, 0)), half(b, 0));
        let second = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(a, 32)), half(b, 32));
        [taken::<A>(first), taken::<A>(second)]
    }
}

/// A vector and the blocks behind it in one: full groups of four are folded side by side, what does not fill one goes before
/// them.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq,gfni")]
fn fold_blocks<A: Algorithm>(mut vector: __m512i, blocks: &[[u8; 64]]) -> __m512i {
    let by_64 = by(const { fold::<A>(512) });
    let (before, groups) = blocks.split_at(blocks.len() % 4);
    for block in before {
        vector = folded(vector, by_64, load_bytes::<A>(block));
    }
    let (groups, _) = groups.as_chunks::<4>();
    let Some((group, groups)) = groups.split_first() else {
        return vector;
    };
    let mut lanes = [
        folded(vector, by_64, load_bytes::<A>(&group[0])),
        load_bytes::<A>(&group[1]),
        load_bytes::<A>(&group[2]),
        load_bytes::<A>(&group[3]),
    ];
    let by_256 = by(const { fold::<A>(2048) });
    for group in groups {
        for (lane, block) in lanes.iter_mut().zip(group) {
            *lane = folded(*lane, by_256, load_bytes::<A>(block));
        }
    }
    let [a, b, c, d] = lanes;
    let (ab, cd) = (folded(a, by_64, b), folded(c, by_64, d));
    folded(ab, by(const { fold::<A>(1024) }), cd)
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

/// The register of one folded item.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn register_of<A: Algorithm>(item: __m512i) -> u32 {
    _mm_cvtsi128_si32(reduce::<A>([item; 4])).cast_unsigned()
}

/// The registers of four folded items.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn reduce<A: Algorithm>([a, b, c, d]: [__m512i; 4]) -> __m128i {
    registers::<A>(last_lanes::<A>(pair::<A>(a, b), pair::<A>(c, d)))
}

/// Two folded items of four lanes each, folded to two lanes each.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn pair<A: Algorithm>(a: __m512i, b: __m512i) -> __m512i {
    folded(
        _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
        by(const { fold::<A>(256) }),
        _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
    )
}

/// Four items, of which two lanes each are left, in one lane each.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn last_lanes<A: Algorithm>(ab: __m512i, cd: __m512i) -> __m512i {
    folded(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd),
        by(const { fold::<A>(128) }),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd),
    )
}

/// The registers of four lanes, by one Barrett reduction of all. Two `crc32` instructions a lane were slower: the way out of a
/// vector costs the multiplier's port more than three products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn registers<A: Algorithm>(lanes: __m512i) -> __m128i {
    let factors = by([Barrett::<A>::FORWARD, Barrett::<A>::QUOTIENT]);
    let polynomial = by([Barrett::<A>::POLYNOMIAL; 2]);
    let forward = _mm512_clmulepi64_epi128::<0x00>(lanes, factors);
    let reduced = _mm512_xor_si512(forward, _mm512_bsrli_epi128::<8>(lanes));
    let quotient = _mm512_clmulepi64_epi128::<0x10>(reduced, factors);
    let rest = _mm512_clmulepi64_epi128::<0x00>(quotient, polynomial);
    let third_quarters = _mm512_castsi128_si512(_mm_setr_epi32(2, 6, 10, 14));
    let registers = _mm512_permutexvar_epi32(third_quarters, _mm512_xor_si512(reduced, rest));
    _mm512_castsi512_si128(registers)
}

/// Writes the CRCs of four registers into their slots.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn put<A: Algorithm>(slots: &mut [A::Slot; 4], registers: __m128i) {
    let mut values = [0u32; 4];
    // SAFETY: `values` has 16 bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), registers) };
    for (slot, register) in slots.iter_mut().zip(values) {
        *slot = A::slot(A::crc(register));
    }
}

/// The bytes as the register takes them.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn taken<A: Algorithm>(bytes: __m512i) -> __m512i {
    // Row i of the matrix makes bit 7 - i.
    const REVERSED: i64 = 0x8040_2010_0804_0201_u64.cast_signed();
    match A::HIGHEST_FIRST {
        true => _mm512_gf2p8affine_epi64_epi8::<0>(bytes, _mm512_set1_epi64(REVERSED)),
        false => bytes,
    }
}

/// One block of a message, as the register takes it.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn load_bytes<A: Algorithm>(block: &[u8; 64]) -> __m512i {
    taken::<A>(load(block))
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
