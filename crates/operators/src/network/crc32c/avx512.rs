//! x86-64 with AVX-512 and VPCLMULQDQ: 64 bytes a fold, four items reduced together.
//!
//! A message is folded into one vector of 64 bytes that has the same remainder (four lanes of 128 bits, the earliest
//! bytes lowest). Four such vectors are transposed, so that one instruction folds the same lane of four items; the
//! last 128 bits go through the `crc32` instruction, which another port runs meanwhile. So does a small part of each
//! long message: three chains beside eight vectors (fusion: corsix/fast-crc32).
//!
//! Zeros before a message do not change a CRC whose register starts at zero. So the odd bytes are taken first, masked
//! into the top of a vector, and no tail is left. The register that starts at all ones is all ones XORed onto the
//! first four bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::{Batch, Items};

use super::constants::{fold, shift};
use super::x86_64::{advance as serial, moved, word};
use crate::isa::Avx512;

/// Items shorter than this go through the `crc32` instruction alone. At least 4: the initial register covers four
/// bytes.
const FOLDED_BYTES_MIN: usize = 24;

/// Factors that move lanes forward by so many bytes.
const BY_16: [u64; 2] = fold(128);
const BY_32: [u64; 2] = fold(256);
const BY_64: [u64; 2] = fold(512);
const BY_128: [u64; 2] = fold(1024);
const BY_192: [u64; 2] = fold(1536);
const BY_256: [u64; 2] = fold(2048);
const BY_512: [u64; 2] = fold(4096);

/// A long item goes in strides: eight vectors side by side for eight steps, then three chains of `crc32`.
const STEPS: usize = 8;
const STEP_BYTES: usize = 512;
const VECTOR_BYTES: usize = STEPS * STEP_BYTES;
const CHAIN_BYTES: usize = STEPS * STEP_CHAIN_WORDS * 8;
const STEP_CHAIN_WORDS: usize = 2;
const STRIDE_BYTES: usize = VECTOR_BYTES + 3 * CHAIN_BYTES;
/// Items from this length on go in strides.
const LONG_BYTES_MIN: usize = 2 * STRIDE_BYTES;
/// From the last vectors of a stride to the first of the next.
const BY_STEP_AND_CHAINS: [u64; 2] = fold((STEP_BYTES + 3 * CHAIN_BYTES) as u32 * 8);
/// Factors that move a register forward.
const REGISTER_BY_CHAIN: u64 = shift(CHAIN_BYTES as u32 * 8);
const REGISTER_BY_2_CHAINS: u64 = shift(2 * CHAIN_BYTES as u32 * 8);
const REGISTER_BY_3_CHAINS: u64 = shift(3 * CHAIN_BYTES as u32 * 8);
const REGISTER_BY_STRIDE: u64 = shift(STRIDE_BYTES as u32 * 8);

/// The register before the first byte, all ones.
static INITIAL: Start = Start::new(!0);

/// A register at bytes 64 to 67 among zeros: read from `offset`, it lies `64 - offset` bytes in.
#[repr(align(64))]
struct Start([u8; 192]);

impl Start {
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

/// CRC-32C of `data`.
pub(super) fn crc32c(_proof: Avx512, data: &[u8]) -> u32 {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { one(data) }
}

/// CRC-32C of each item, into its slot.
pub(super) fn batch(_proof: Avx512, batch: Batch<'_>, slots: &mut [[u8; 4]]) {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe {
        match batch.items() {
            Items::Fixed { len: 64, count } => {
                let (items, _) = batch.src().as_chunks::<64>();
                lines(&items[..*count as usize], slots);
            }
            _ => each(batch, slots),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,sse4.2")]
fn one(data: &[u8]) -> u32 {
    if data.len() >= LONG_BYTES_MIN {
        long(data)
    } else {
        !advance(!0, data)
    }
}

/// The register after `data`, of middling length at most.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,sse4.2")]
fn advance(register: u32, data: &[u8]) -> u32 {
    if data.len() < FOLDED_BYTES_MIN {
        serial(register, data)
    } else {
        reduce([fold_item(&Start::new(register), data); 4])[0]
    }
}

/// Items of any length, four at a time where they are long enough.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,sse4.2")]
fn each(batch: Batch<'_>, slots: &mut [[u8; 4]]) {
    let mut i = 0;
    while i < batch.len() {
        let group = [i, i + 1, i + 2, i + 3].map(|j| match j < batch.len() {
            true => batch.item(j),
            false => &[],
        });
        let shortest = group.iter().map(|item| item.len()).min().unwrap_or(0);
        let longest = group.iter().map(|item| item.len()).max().unwrap_or(0);
        let crcs = if shortest < FOLDED_BYTES_MIN || longest >= LONG_BYTES_MIN {
            group.map(|item| one(item))
        } else {
            let [a, b, c, d] = group;
            let registers = reduce([
                fold_item(&INITIAL, a),
                fold_item(&INITIAL, b),
                fold_item(&INITIAL, c),
                fold_item(&INITIAL, d),
            ]);
            registers.map(|register| !register)
        };
        for (slot, crc) in slots[i..].iter_mut().zip(crcs) {
            *slot = crc.to_le_bytes();
        }
        i += 4;
    }
}

/// Items of 64 bytes: half a line is loaded to its place, so that the first transposition costs nothing.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,sse4.2")]
fn lines(items: &[[u8; 64]], slots: &mut [[u8; 4]]) {
    let (groups, rest) = items.as_chunks::<4>();
    let (slot_groups, _) = slots.as_chunks_mut::<4>();
    let initial = _mm512_set_epi64(0, 0, 0, 0xffff_ffff, 0, 0, 0, 0xffff_ffff);
    for (group, slots) in groups.iter().zip(slot_groups) {
        let [low01, high01] = halves(&group[0], &group[1]);
        let [low23, high23] = halves(&group[2], &group[3]);
        let folded01 = folded(_mm512_xor_si512(low01, initial), by(BY_32), high01);
        let folded23 = folded(_mm512_xor_si512(low23, initial), by(BY_32), high23);
        let registers = reduce_halves(folded01, folded23);
        *slots = registers.map(|register| (!register).to_le_bytes());
    }
    let done = items.len() - rest.len();
    for (slot, item) in slots[done..].iter_mut().zip(rest) {
        *slot = one(item).to_le_bytes();
    }
}

/// The first halves of two lines in one vector, the second halves in another.
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

/// The item's remainder in 64 bytes that end where the item ends. At least four bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn fold_item(start: &Start, item: &[u8]) -> __m512i {
    let blocks = item.len().div_ceil(64);
    let head_bytes = item.len() - (blocks - 1) * 64;
    let (head, body) = item.split_at(head_bytes);
    let (body, _) = body.as_chunks::<64>();
    let head = _mm512_xor_si512(load_head(head), start.at(head_bytes));
    let Some((first, body)) = body.split_first() else {
        return head;
    };
    // The register's bytes that a head of less than four has no room for.
    let first = _mm512_xor_si512(load(first), start.at(head_bytes + 64));
    let mut folded_yet = folded(head, by(BY_64), first);
    // Full groups of four are folded side by side; what does not fill one goes before them.
    let (before, groups) = body.split_at(body.len() % 4);
    for block in before {
        folded_yet = folded(folded_yet, by(BY_64), load(block));
    }
    let (groups, _) = groups.as_chunks::<4>();
    let Some((group, groups)) = groups.split_first() else {
        return folded_yet;
    };
    let mut lanes = [
        folded(folded_yet, by(BY_64), load(&group[0])),
        load(&group[1]),
        load(&group[2]),
        load(&group[3]),
    ];
    for group in groups {
        for (lane, block) in lanes.iter_mut().zip(group) {
            *lane = folded(*lane, by(BY_256), load(block));
        }
    }
    let [a, b, c, d] = lanes;
    let bc = folded(b, by(BY_128), folded(c, by(BY_64), d));
    folded(a, by(BY_192), bc)
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

/// The registers of four folded items.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn reduce(items: [__m512i; 4]) -> [u32; 4] {
    let [a, b, c, d] = items;
    reduce_halves(pair(a, b), pair(c, d))
}

/// Two folded items of four lanes each, folded to two lanes each.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn pair(a: __m512i, b: __m512i) -> __m512i {
    folded(
        _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
        by(BY_32),
        _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
    )
}

/// The registers of four items, of which two lanes each are left, two items to a vector.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn reduce_halves(ab: __m512i, cd: __m512i) -> [u32; 4] {
    let early = _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd);
    let late = _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd);
    let mut words = [0u64; 8];
    // SAFETY: `words` has 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), folded(early, by(BY_16), late)) };
    let (pairs, _) = words.as_chunks::<2>();
    [pairs[0], pairs[1], pairs[2], pairs[3]]
        .map(|[low, high]| _mm_crc32_u64(_mm_crc32_u64(0, low), high) as u32)
}

/// A long item, in strides that begin on a cache line: loads that cross one take twice as long.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,sse4.2")]
fn long(data: &[u8]) -> u32 {
    let (head, data) = data.split_at(data.as_ptr().align_offset(64));
    let (strides, tail) = data.as_chunks::<STRIDE_BYTES>();
    let mut register = advance(!0, head);
    // Zeros stay zeros however far they are moved.
    let mut vectors = [_mm512_setzero_si512(); 8];
    for stride in strides {
        let (steps, words) = stride.split_at(VECTOR_BYTES);
        let (steps, _) = steps.as_chunks::<STEP_BYTES>();
        let (words, _) = words.as_chunks::<8>();
        let (words, _) = words.as_chunks::<STEP_CHAIN_WORDS>();
        let (words0, words) = words.split_at(STEPS);
        let (words1, words2) = words.split_at(STEPS);
        let words = words0.iter().zip(words1).zip(words2);
        let mut chains = [0; 3];
        let mut factors = by(BY_STEP_AND_CHAINS);
        for (step, ((words0, words1), words2)) in steps.iter().zip(words) {
            let (blocks, _) = step.as_chunks::<64>();
            for lane in 0..8 {
                vectors[lane] = folded(vectors[lane], factors, load(&blocks[lane]));
            }
            factors = by(BY_512);
            for i in 0..STEP_CHAIN_WORDS {
                chains[0] = word(chains[0], u64::from_le_bytes(words0[i]));
                chains[1] = word(chains[1], u64::from_le_bytes(words1[i]));
                chains[2] = word(chains[2], u64::from_le_bytes(words2[i]));
            }
        }
        let [chain0, chain1, chain2] = chains;
        let carried = moved(register, REGISTER_BY_STRIDE)
            ^ moved(chain0, REGISTER_BY_2_CHAINS)
            ^ moved(chain1, REGISTER_BY_CHAIN);
        register = chain2 ^ word(0, carried);
    }
    let [a, b, c, d, e, f, g, h] = vectors;
    let ab = folded(a, by(BY_64), b);
    let cd = folded(c, by(BY_64), d);
    let ef = folded(e, by(BY_64), f);
    let gh = folded(g, by(BY_64), h);
    let all = folded(
        folded(ab, by(BY_128), cd),
        by(BY_256),
        folded(ef, by(BY_128), gh),
    );
    let before_chains = reduce([all; 4])[0];
    let carried = moved(before_chains, REGISTER_BY_3_CHAINS);
    register ^= word(0, carried);
    !advance(register, tail)
}

/// One block.
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
