//! x86-64 with AVX-512: many lookups in flight.
//!
//! Sixteen addresses at a time: what leads where is computed side by side, and the line that each lookup reads is fetched
//! ahead; a group later the lines are there. Then the run of each is found by one comparison of 64 bytes. Lookups that meet
//! a child are gathered in a list and go on together, a byte of the address at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::block::{Entry, KIND_BITS, KINDS};
use super::hops::Hops;
use super::trie::Trie;
use crate::isa::Avx512;

/// Lookups in a vector.
const LANES: usize = 16;
/// Vectors in a group, whose lines are fetched together.
const VECTORS: usize = 4;
/// Lookups in a group.
const GROUP: usize = LANES * VECTORS;

/// What lookups read from. [`Trie`] and [`Hops`] see to it that:
///
/// * entries, those of the root and those of children, lead to blocks in the pool as `block::write` writes them;
/// * children go no deeper than addresses have bytes;
/// * codes of hops are below the number of hops;
/// * the pool begins at a multiple of 64, ends 64 bytes behind the last block, and is shorter than 2³¹ bytes.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    root: &'a [Entry; 1 << 16],
    pool: &'a [u8],
    hops: &'a [u32],
}

impl<'a> View<'a> {
    /// Of a table whose codes are those of `hops`.
    pub(super) fn of(trie: &'a Trie, hops: &'a Hops) -> Self {
        let (root, pool) = trie.parts();
        Self {
            root,
            pool,
            hops: hops.by_code(),
        }
    }
}

/// Lookups under way.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group {
    /// Which address of the group.
    index: [u32; GROUP],
    /// What is looked up in.
    entry: [Entry; GROUP],
    /// Where the part starts that has the value.
    part: [u32; GROUP],
    /// The value of the byte that is looked up.
    value: [u32; GROUP],
    /// The packed [`Kind`](super::block::Kind) of the block.
    kind: [u32; GROUP],
    /// The run that the value is in.
    run: [u32; GROUP],
}

impl Group {
    const fn new() -> Self {
        Self {
            index: [0; GROUP],
            entry: [0; GROUP],
            part: [0; GROUP],
            value: [0; GROUP],
            kind: [0; GROUP],
            run: [0; GROUP],
        }
    }
}

/// By number of a kind, its fields in one word: shift, logarithm of stride, ends, logarithm of width.
static PACKED_KINDS: [[u32; LANES]; 2] = {
    let mut packed = [[0; LANES]; 2];
    let mut number = 0;
    while number < KINDS.len() {
        let kind = KINDS[number];
        let fields = [kind.shift, kind.stride_log2, kind.ends, kind.width_log2];
        packed[number / LANES][number % LANES] = u32::from_le_bytes(fields);
        number += 1;
    }
    packed
};

/// By logarithm of the width of a code: the highest code, and the lowest of a child.
static HIGHEST: [u32; LANES] = {
    let mut highest = [0; LANES];
    (highest[0], highest[1], highest[2]) = (0xff, 0xffff, 0xffff_ffff);
    highest
};
static CHILD_MIN: [u32; LANES] = {
    let mut child_min = [0; LANES];
    (child_min[0], child_min[1], child_min[2]) = (0xc0, 0xff00, 0xffff_ff00);
    child_min
};

/// The hop of each address of `BYTES` bytes, little endian.
pub(super) fn lookup_all<const BYTES: usize>(
    _proof: Avx512,
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    hops: &mut [[u8; 4]],
) {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { groups(view, addresses, hops) }
}

#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn groups<const BYTES: usize>(view: View<'_>, addresses: &[[u8; BYTES]], hops: &mut [[u8; 4]]) {
    let (full, rest) = addresses.as_chunks::<GROUP>();
    let (full_hops, rest_hops) = hops.as_chunks_mut::<GROUP>();
    let mut ahead = Group::new();
    let mut now = Group::new();
    if let Some(first) = full.first() {
        start(view, first, &mut ahead);
    }
    for (i, hops) in full_hops.iter_mut().enumerate() {
        std::mem::swap(&mut now, &mut ahead);
        if let Some(next) = full.get(i + 1) {
            start(view, next, &mut ahead);
        }
        finish(view, &full[i], &mut now, hops);
    }
    if !rest.is_empty() {
        let mut group = [[0; BYTES]; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        let mut hops = [[0; 4]; GROUP];
        start(view, &group, &mut now);
        finish(view, &group, &mut now, &mut hops);
        rest_hops.copy_from_slice(&hops[..rest.len()]);
    }
}

/// Looks the first 16 bits of a group up, and fetches what the next byte needs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn start<const BYTES: usize>(view: View<'_>, addresses: &[[u8; BYTES]; GROUP], group: &mut Group) {
    for vector in 0..VECTORS {
        let first = vector * LANES;
        let word = words(addresses, lanes_from(first), 0);
        let slot = _mm512_srli_epi32::<16>(word);
        // SAFETY: 2^16 entries, and indices of 16 bits.
        let entry = unsafe { _mm512_i32gather_epi32::<4>(slot, view.root.as_ptr().cast()) };
        let value = _mm512_and_si512(_mm512_srli_epi32::<8>(word), _mm512_set1_epi32(0xff));
        locate(view, group, first, entry, value);
    }
}

/// Finds where a block has its value, and fetches it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn locate(view: View<'_>, group: &mut Group, first: usize, entry: __m512i, value: __m512i) {
    let byte = _mm512_set1_epi32(0xff);
    let [low, high] = &PACKED_KINDS;
    let number = _mm512_and_si512(entry, _mm512_set1_epi32((1 << KIND_BITS) - 1));
    let kind = _mm512_permutex2var_epi32(load(low), number, load(high));
    let shift = _mm512_and_si512(kind, byte);
    let stride = _mm512_and_si512(_mm512_srli_epi32::<8>(kind), byte);
    let start = block_start(entry);
    let offset = _mm512_sllv_epi32(_mm512_srlv_epi32(value, shift), stride);
    let part = _mm512_add_epi32(start, offset);
    store(&mut group.entry, first, entry);
    store(&mut group.kind, first, kind);
    store(&mut group.value, first, value);
    store(&mut group.part, first, part);
    for part in &group.part[first..first + LANES] {
        let at = view.pool.as_ptr().wrapping_add(*part as usize);
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
}

/// Where a block's first part starts, in bytes: grains are 8.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_start(entry: __m512i) -> __m512i {
    _mm512_slli_epi32::<3>(_mm512_srli_epi32::<KIND_BITS>(entry))
}

/// The hops of a group, whose lines were fetched.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn finish<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]; GROUP],
    group: &mut Group,
    hops: &mut [[u8; 4]; GROUP],
) {
    find_runs(view, group, GROUP);
    let mut on = 0;
    for vector in 0..VECTORS {
        let first = vector * LANES;
        let code = codes(view, group, first);
        let children = code.children;
        // SAFETY: codes of hops are below their number; those of children are left out.
        let found = unsafe {
            _mm512_mask_i32gather_epi32::<4>(
                _mm512_setzero_si512(),
                !children,
                code.code,
                view.hops.as_ptr().cast(),
            )
        };
        // SAFETY: `LANES` places of four bytes from `first` on.
        unsafe { _mm512_storeu_si512(hops.as_mut_ptr().add(first).cast(), found) };
        if children != 0 {
            on = go_on(view, group, first, on, lanes_from(first), code);
        }
    }
    let mut depth = 1;
    while on > 0 {
        on = step(view, addresses, group, on, depth, hops);
        depth += 1;
    }
}

/// Looks the next byte of the first `count` lookups up, `depth` bytes behind the root's bits; those that meet a child stay in
/// the group, and it says how many they are.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn step<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]; GROUP],
    group: &mut Group,
    count: usize,
    depth: usize,
    hops: &mut [[u8; 4]; GROUP],
) -> usize {
    let at = 2 + depth;
    let shift = _mm_cvtsi32_si128(8 * (3 - at as i32 % 4));
    for first in (0..count).step_by(LANES) {
        let index = load_from(&group.index, first);
        let word = words(addresses, index, at / 4 * 4);
        let value = _mm512_and_si512(_mm512_srl_epi32(word, shift), _mm512_set1_epi32(0xff));
        let entry = load_from(&group.entry, first);
        locate(view, group, first, entry, value);
    }
    find_runs(view, group, count.next_multiple_of(LANES));
    let mut on = 0;
    for first in (0..count).step_by(LANES) {
        let live = (u32::MAX >> (32 - (count - first).min(LANES))) as u16;
        let mut code = codes(view, group, first);
        code.children &= live;
        let done = live & !code.children;
        let index = load_from(&group.index, first);
        // SAFETY: codes of hops are below their number; indices are below the group's length.
        unsafe {
            let zero = _mm512_setzero_si512();
            let found =
                _mm512_mask_i32gather_epi32::<4>(zero, done, code.code, view.hops.as_ptr().cast());
            _mm512_mask_i32scatter_epi32::<4>(hops.as_mut_ptr().cast(), done, index, found);
        }
        on = go_on(view, group, first, on, index, code);
    }
    on
}

/// The run of each of the first `count` lookups: as many as there are ends below its value.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn find_runs(view: View<'_>, group: &mut Group, count: usize) {
    for i in 0..count {
        let part = group.part[i] as usize;
        // SAFETY: a part, with what is behind it in its line, lies in the pool, which begins at a multiple of 64.
        let line = unsafe { _mm512_load_si512(view.pool.as_ptr().add(part & !63).cast()) };
        let value = _mm512_set1_epi8(group.value[i] as i8);
        let below = _mm512_cmplt_epu8_mask(line, value);
        let ends = _bzhi_u64(below >> (part % 64), (group.kind[i] >> 16) & 0xff);
        group.run[i] = ends.count_ones();
    }
}

/// What lookups found.
#[derive(Clone, Copy)]
struct Codes {
    code: __m512i,
    highest: __m512i,
    /// The lanes whose code is a child's.
    children: u16,
}

/// The codes of sixteen lookups whose runs are known.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn codes(view: View<'_>, group: &Group, first: usize) -> Codes {
    let kind = load_from(&group.kind, first);
    let ends = _mm512_and_si512(_mm512_srli_epi32::<16>(kind), _mm512_set1_epi32(0xff));
    let width = _mm512_srli_epi32::<24>(kind);
    let run = _mm512_sllv_epi32(load_from(&group.run, first), width);
    let at = _mm512_add_epi32(_mm512_add_epi32(load_from(&group.part, first), ends), run);
    // SAFETY: a code lies in its part; behind it there are 64 bytes in the pool. Indices are below 2³¹.
    let word = unsafe { _mm512_i32gather_epi32::<1>(at, view.pool.as_ptr().cast()) };
    let highest = _mm512_permutexvar_epi32(width, load(&HIGHEST));
    let child_min = _mm512_permutexvar_epi32(width, load(&CHILD_MIN));
    let code = _mm512_and_si512(word, highest);
    Codes {
        code,
        highest,
        children: _mm512_cmpge_epu32_mask(code, child_min),
    }
}

/// Puts the lookups that met a child behind the `on` that did before; says how many they are then.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
fn go_on(
    view: View<'_>,
    group: &mut Group,
    first: usize,
    on: usize,
    index: __m512i,
    codes: Codes,
) -> usize {
    let start = block_start(load_from(&group.entry, first));
    // Child 0 stands right before the block.
    let before = _mm512_add_epi32(
        _mm512_sub_epi32(codes.highest, codes.code),
        _mm512_set1_epi32(1),
    );
    let at = _mm512_sub_epi32(start, _mm512_slli_epi32::<2>(before));
    let zero = _mm512_setzero_si512();
    // SAFETY: the entries of a block's children are in the pool; the other lanes are left out.
    let entry = unsafe {
        _mm512_mask_i32gather_epi32::<1>(zero, codes.children, at, view.pool.as_ptr().cast())
    };
    // Not past the lanes read already: `on` is at most `first`. In a register, since some CPUs are slow to memory.
    store(
        &mut group.index,
        on,
        _mm512_maskz_compress_epi32(codes.children, index),
    );
    store(
        &mut group.entry,
        on,
        _mm512_maskz_compress_epi32(codes.children, entry),
    );
    on + codes.children.count_ones() as usize
}

/// The 32 bits at byte `at` of the addresses at these indices.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words<const BYTES: usize>(
    addresses: &[[u8; BYTES]; GROUP],
    index: __m512i,
    at: usize,
) -> __m512i {
    let index = _mm512_mullo_epi32(index, _mm512_set1_epi32(BYTES as i32));
    // SAFETY: indices are below the group's length, and four bytes from `at`, a multiple of four, are in the address.
    let word = unsafe {
        _mm512_i32gather_epi32::<1>(index, addresses.as_ptr().cast::<u8>().add(at).cast())
    };
    let big_endian = _mm512_broadcast_i32x4(_mm_set_epi8(
        12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3,
    ));
    _mm512_shuffle_epi8(word, big_endian)
}

/// `first`, `first + 1`, …
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_from(first: usize) -> __m512i {
    let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_add_epi32(lanes, _mm512_set1_epi32(first as i32))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &[u32; LANES]) -> __m512i {
    // SAFETY: sixteen words; the load needs no alignment.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_from(lanes: &[u32; GROUP], first: usize) -> __m512i {
    let lanes = lanes[first..first + LANES].first_chunk();
    load(lanes.expect("a vector"))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(lanes: &mut [u32; GROUP], first: usize, values: __m512i) {
    let lanes = &mut lanes[first..first + LANES];
    // SAFETY: sixteen words; the store needs no alignment.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), values) }
}
