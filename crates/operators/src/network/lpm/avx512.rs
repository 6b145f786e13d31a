//! x86-64 with AVX-512: many lookups in flight.
//!
//! Sixteen addresses at a time: what leads where is computed side by side, and the line that each lookup reads is fetched
//! ahead; a group later the lines are there. Then the run of each is found by one comparison of 64 bytes. Lookups that meet
//! a child are gathered in a list and what they read next is fetched; when the whole stretch of addresses has come so far,
//! they go on together, a byte of the address at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::block::{Entry, KIND_BITS, KINDS};
use super::hops::Hops;
use super::trie::Trie;
use crate::isa::Avx512;

/// Lookups in a vector.
const LANES: usize = 16;
/// Lookups in a group, whose lines are fetched together.
const GROUP: usize = 4 * LANES;
/// Addresses that take each step together. Many: of routes that few addresses have, many are under way even so.
const STRETCH: usize = 16 * GROUP;

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
        let hops = hops.by_code();
        Self { root, pool, hops }
    }

    /// Fetches a line of the pool ahead.
    #[inline]
    fn fetch(self, at: u32) {
        let at = self.pool.as_ptr().wrapping_add(at as usize).cast();
        // SAFETY: every x86-64 CPU has SSE, and fetching ahead reads nothing that a program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
    }
}

/// Lookups whose lines are being fetched.
#[repr(align(64))]
struct Group {
    /// Which address of the stretch.
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

/// Lookups that met a child; room for one more vector than there can be.
#[repr(align(64))]
struct Pending {
    /// Which address of the stretch.
    index: [u32; STRETCH + LANES],
    /// Where in the pool the child's entry is.
    child: [u32; STRETCH + LANES],
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
static PACKED_KINDS: [u32; 2 * LANES] = {
    let mut packed = [0; 2 * LANES];
    let mut number = 0;
    while number < KINDS.len() {
        let kind = KINDS[number];
        let fields = [kind.shift, kind.stride_log2, kind.ends, kind.width_log2];
        packed[number] = u32::from_le_bytes(fields);
        number += 1;
    }
    packed
};

/// By logarithm of the width of a code: the highest code, then the lowest of a child.
static BOUNDS: [u32; 2 * LANES] = {
    let mut bounds = [0; 2 * LANES];
    let mut number = 0;
    while number < KINDS.len() {
        let kind = KINDS[number];
        bounds[kind.width_log2 as usize] = kind.highest();
        bounds[LANES + kind.width_log2 as usize] = kind.child_min();
        number += 1;
    }
    bounds
};

/// The hop of each address of `BYTES` bytes, little endian.
pub(super) fn lookup_all<const BYTES: usize>(
    _proof: Avx512,
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    hops: &mut [[u8; 4]],
) {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { stretches(view, addresses, hops) }
}

#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn stretches<const BYTES: usize>(view: View<'_>, addresses: &[[u8; BYTES]], hops: &mut [[u8; 4]]) {
    let mut pending = Pending {
        index: [0; STRETCH + LANES],
        child: [0; STRETCH + LANES],
    };
    let (whole, rest) = addresses.split_at(addresses.len() / GROUP * GROUP);
    let (whole_hops, rest_hops) = hops.split_at_mut(whole.len());
    for (stretch, hops) in whole.chunks(STRETCH).zip(whole_hops.chunks_mut(STRETCH)) {
        look_up(view, stretch, &mut pending, hops);
    }
    if !rest.is_empty() {
        let mut group = [[0; BYTES]; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        let mut group_hops = [[0; 4]; GROUP];
        look_up(view, &group, &mut pending, &mut group_hops);
        rest_hops.copy_from_slice(&group_hops[..rest.len()]);
    }
}

/// The hops of a stretch of whole groups.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn look_up<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    pending: &mut Pending,
    hops: &mut [[u8; 4]],
) {
    let (mut now, mut ahead) = (Group::new(), Group::new());
    let mut on = 0;
    start(view, addresses, 0, &mut ahead);
    for first in (0..addresses.len()).step_by(GROUP) {
        std::mem::swap(&mut now, &mut ahead);
        if first + GROUP < addresses.len() {
            start(view, addresses, first + GROUP, &mut ahead);
        }
        find_runs(view, &mut now, GROUP);
        for vector in (0..GROUP).step_by(LANES) {
            let codes = codes(view, &now, vector);
            let found = found(view, codes, !codes.children);
            let places = &mut hops[first + vector..][..LANES];
            // SAFETY: sixteen places of four bytes; the store needs no alignment.
            unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), found) };
            if codes.children != 0 {
                let index = lanes_from(first + vector);
                on = go_on(view, &now, vector, codes, index, pending, on);
            }
        }
    }
    let mut depth = 1;
    while on > 0 {
        let groups = [&mut now, &mut ahead];
        on = step(view, addresses, pending, on, depth, hops, groups);
        depth += 1;
    }
}

/// Looks the first 16 bits of a group up, and fetches what the next byte needs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn start<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    first: usize,
    group: &mut Group,
) {
    for vector in (0..GROUP).step_by(LANES) {
        let word = words(addresses, lanes_from(first + vector), 0);
        let slot = _mm512_srli_epi32::<16>(word);
        // SAFETY: 2^16 entries, and indices of 16 bits.
        let entry = unsafe { _mm512_i32gather_epi32::<4>(slot, view.root.as_ptr().cast()) };
        let value = _mm512_and_si512(_mm512_srli_epi32::<8>(word), _mm512_set1_epi32(0xff));
        locate(view, group, vector, entry, value);
    }
}

/// Looks the next byte of the first `count` pending lookups up, `depth` bytes behind the root's bits. Those that meet a
/// child stay pending; it says how many they are.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn step<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    pending: &mut Pending,
    count: usize,
    depth: usize,
    hops: &mut [[u8; 4]],
    [mut now, mut ahead]: [&mut Group; 2],
) -> usize {
    let mut on = 0;
    resume(view, addresses, pending, 0..count, depth, ahead);
    for first in (0..count).step_by(GROUP) {
        std::mem::swap(&mut now, &mut ahead);
        if first + GROUP < count {
            resume(view, addresses, pending, first + GROUP..count, depth, ahead);
        }
        let here = (count - first).min(GROUP);
        find_runs(view, now, here);
        for vector in (0..here).step_by(LANES) {
            let live = (u32::MAX >> (32 - (here - vector).min(LANES))) as u16;
            let mut codes = codes(view, now, vector);
            codes.children &= live;
            let done = live & !codes.children;
            let index = load(&now.index, vector);
            let found = found(view, codes, done);
            let places = hops.as_mut_ptr().cast();
            // SAFETY: indices are below the stretch's length, and there is a place for each address.
            unsafe { _mm512_mask_i32scatter_epi32::<4>(places, done, index, found) };
            // What was pending here is in `now`, and `on` is not beyond: nothing is written over.
            on = go_on(view, now, vector, codes, index, pending, on);
        }
    }
    on
}

/// Takes the first group of these pending lookups to the blocks of their children.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn resume<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    pending: &Pending,
    those: std::ops::Range<usize>,
    depth: usize,
    group: &mut Group,
) {
    let at = 2 + depth;
    let shift = _mm_cvtsi32_si128(8 * (3 - at as i32 % 4));
    for vector in (0..those.len().min(GROUP)).step_by(LANES) {
        let index = load(&pending.index, those.start + vector);
        let word = words(addresses, index, at / 4 * 4);
        let value = _mm512_and_si512(_mm512_srl_epi32(word, shift), _mm512_set1_epi32(0xff));
        let child = load(&pending.child, those.start + vector);
        // SAFETY: children's entries are in the pool. Lanes behind the last pending one have zeros from compressions.
        let entry = unsafe { _mm512_i32gather_epi32::<1>(child, view.pool.as_ptr().cast()) };
        store(&mut group.index, vector, index);
        locate(view, group, vector, entry, value);
    }
}

/// Finds where blocks have their values, and fetches that.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn locate(view: View<'_>, group: &mut Group, first: usize, entry: __m512i, value: __m512i) {
    let byte = _mm512_set1_epi32(0xff);
    let number = _mm512_and_si512(entry, _mm512_set1_epi32((1 << KIND_BITS) - 1));
    let [low, high] = [load(&PACKED_KINDS, 0), load(&PACKED_KINDS, LANES)];
    let kind = _mm512_permutex2var_epi32(low, number, high);
    let shift = _mm512_and_si512(kind, byte);
    let stride = _mm512_and_si512(_mm512_srli_epi32::<8>(kind), byte);
    let offset = _mm512_sllv_epi32(_mm512_srlv_epi32(value, shift), stride);
    let part = _mm512_add_epi32(block_start(entry), offset);
    store(&mut group.entry, first, entry);
    store(&mut group.kind, first, kind);
    store(&mut group.value, first, value);
    store(&mut group.part, first, part);
    for part in &group.part[first..first + LANES] {
        view.fetch(*part);
    }
}

/// Where a block's first part starts, in bytes: grains are 8.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_start(entry: __m512i) -> __m512i {
    _mm512_slli_epi32::<3>(_mm512_srli_epi32::<KIND_BITS>(entry))
}

/// The run of each of the first `count` lookups: as many as there are ends below its value.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn find_runs(view: View<'_>, group: &mut Group, count: usize) {
    for i in 0..count {
        let part = group.part[i] as usize;
        // SAFETY: a part lies in the pool, and so does its line: the pool begins at a multiple of 64 and goes on for 64.
        let line = unsafe { _mm512_load_si512(view.pool.as_ptr().add(part & !63).cast()) };
        let value = _mm512_set1_epi8(group.value[i] as i8);
        let below = _mm512_cmplt_epu8_mask(line, value);
        let ends = _bzhi_u64(below >> (part % 64), group.kind[i] >> 16 & 0xff);
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
    let kind = load(&group.kind, first);
    let ends = _mm512_and_si512(_mm512_srli_epi32::<16>(kind), _mm512_set1_epi32(0xff));
    let width = _mm512_srli_epi32::<24>(kind);
    let run = _mm512_sllv_epi32(load(&group.run, first), width);
    let at = _mm512_add_epi32(_mm512_add_epi32(load(&group.part, first), ends), run);
    // SAFETY: a code lies in its part; behind it there are 64 bytes in the pool. Indices are below 2³¹.
    let word = unsafe { _mm512_i32gather_epi32::<1>(at, view.pool.as_ptr().cast()) };
    let highest = _mm512_permutexvar_epi32(width, load(&BOUNDS, 0));
    let child_min = _mm512_permutexvar_epi32(width, load(&BOUNDS, LANES));
    let code = _mm512_and_si512(word, highest);
    Codes {
        code,
        highest,
        children: _mm512_cmpge_epu32_mask(code, child_min),
    }
}

/// The hops of some lanes' codes; of the others 0.
#[inline]
#[target_feature(enable = "avx512f")]
fn found(view: View<'_>, codes: Codes, lanes: u16) -> __m512i {
    let zero = _mm512_setzero_si512();
    let hops = view.hops.as_ptr().cast();
    // SAFETY: codes of hops are below their number; the other lanes are left out.
    unsafe { _mm512_mask_i32gather_epi32::<4>(zero, lanes, codes.code, hops) }
}

/// Puts the lookups of a vector that met a child behind the `on` that did before, and fetches the children's entries;
/// says how many they are then.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
fn go_on(
    view: View<'_>,
    group: &Group,
    first: usize,
    codes: Codes,
    index: __m512i,
    pending: &mut Pending,
    on: usize,
) -> usize {
    let start = block_start(load(&group.entry, first));
    let number = _mm512_sub_epi32(codes.highest, codes.code);
    // Child 0 stands right before the block.
    let back = _mm512_add_epi32(_mm512_slli_epi32::<2>(number), _mm512_set1_epi32(4));
    let at = _mm512_sub_epi32(start, back);
    // By way of a register: some CPUs are slow at compressing to memory.
    let index = _mm512_maskz_compress_epi32(codes.children, index);
    store(&mut pending.index, on, index);
    let at = _mm512_maskz_compress_epi32(codes.children, at);
    store(&mut pending.child, on, at);
    let next = on + codes.children.count_ones() as usize;
    for child in &pending.child[on..next] {
        view.fetch(*child);
    }
    next
}

/// The 32 bits at byte `at` of the addresses at these indices.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words<const BYTES: usize>(addresses: &[[u8; BYTES]], index: __m512i, at: usize) -> __m512i {
    let index = _mm512_mullo_epi32(index, _mm512_set1_epi32(BYTES as i32));
    let first = addresses.as_ptr().cast::<u8>().wrapping_add(at);
    // SAFETY: indices are below the number of addresses, and four bytes from `at`, a multiple of four, are in each.
    let word = unsafe { _mm512_i32gather_epi32::<1>(index, first.cast()) };
    let big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    _mm512_shuffle_epi8(word, _mm512_broadcast_i32x4(big_endian))
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
fn load(words: &[u32], first: usize) -> __m512i {
    let words = &words[first..first + LANES];
    // SAFETY: sixteen words; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(words: &mut [u32], first: usize, values: __m512i) {
    let words = &mut words[first..first + LANES];
    // SAFETY: sixteen words; the store needs no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), values) }
}
