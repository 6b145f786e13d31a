//! x86-64 with AVX-512: many lookups in flight.
//!
//! Sixteen addresses at a time: what leads where is computed side by side, and the line that each lookup reads is fetched
//! ahead; a group later the lines are there. Then the run of each is found by one comparison of 64 bytes. Lookups that meet
//! a child are gathered in a list and what they read next is fetched; when the whole stretch of addresses has come so far,
//! they go on together, a byte of the address at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::hint::black_box;

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
    /// What is looked up in.
    entry: [Entry; GROUP],
    /// Where the part starts that has the value.
    part: [u32; GROUP],
    /// The value of the byte that is looked up.
    value: [u32; GROUP],
    /// Of the block's kind, what finding a code takes: see [`HOWS`].
    how: [u32; GROUP],
    /// Which bytes of the part's line are below the value.
    below: [u64; GROUP],
    /// Which address of the stretch, once lookups wait for others.
    index: [u32; GROUP],
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
            entry: [0; GROUP],
            part: [0; GROUP],
            value: [0; GROUP],
            how: [0; GROUP],
            below: [0; GROUP],
            index: [0; GROUP],
        }
    }
}

impl Pending {
    /// Notes the lookups of a vector that met a child behind `on` others, and fetches the children's entries; says how many
    /// there are then.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn add(&mut self, view: View<'_>, on: usize, index: __m512i, found: Found) -> usize {
        // By way of a register: some CPUs are slow at compressing to memory.
        store(
            &mut self.index[on..],
            _mm512_maskz_compress_epi32(found.children, index),
        );
        store(
            &mut self.child[on..],
            _mm512_maskz_compress_epi32(found.children, found.child),
        );
        let next = on + found.children.count_ones() as usize;
        for child in &self.child[on..next] {
            view.fetch(*child);
        }
        next
    }
}

/// By number of a kind, how a value is made an offset: its shift, and the logarithm of the stride.
static OFFSETS: [u32; 2 * LANES] = {
    let mut packed = [0; 2 * LANES];
    let mut number = 0;
    while number < KINDS.len() {
        let kind = KINDS[number];
        packed[number] = u32::from_le_bytes([kind.shift, 0, kind.stride_log2, 0]);
        number += 1;
    }
    packed
};

/// By number of a kind, from the lowest byte: how many ends a part has, the logarithm of a code's width, the highest number of
/// a child.
static HOWS: [u32; 2 * LANES] = {
    let mut packed = [0; 2 * LANES];
    let mut number = 0;
    while number < KINDS.len() {
        let kind = KINDS[number];
        let child_max = kind.highest() - kind.child_min();
        packed[number] = u32::from_le_bytes([kind.ends, kind.width_log2, child_max as u8, 0]);
        number += 1;
    }
    packed
};

/// By logarithm of its width, the highest code.
static HIGHEST: [u32; LANES] = {
    let mut highest = [0; LANES];
    let mut number = 0;
    while number < KINDS.len() {
        let kind = KINDS[number];
        highest[kind.width_log2 as usize] = kind.highest();
        number += 1;
    }
    highest
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

#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
fn look_up<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    pending: &mut Pending,
    hops: &mut [[u8; 4]],
) {
    let (mut now, mut ahead) = (&mut Group::new(), &mut Group::new());
    let mut on = 0;
    start(view, addresses, 0, ahead);
    for first in (0..addresses.len()).step_by(GROUP) {
        std::mem::swap(&mut now, &mut ahead);
        if first + GROUP < addresses.len() {
            start(view, addresses, first + GROUP, ahead);
        }
        compare(view, now, GROUP);
        for vector in (0..GROUP).step_by(LANES) {
            let found = find(view, now, vector);
            store(&mut hops[first + vector..], found.hop);
            // Few IPv4 routes have more than 24 bits.
            if found.children != 0 {
                let index = lanes_from(first + vector);
                on = pending.add(view, on, index, found);
            }
        }
    }
    let mut depth = 1;
    while on > 0 {
        let groups = [&mut *now, &mut *ahead];
        on = step(view, addresses, pending, on, depth, hops, groups);
        depth += 1;
    }
}

/// Looks the first 16 bits of a group up, and fetches what the next byte needs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn start<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    first: usize,
    group: &mut Group,
) {
    for vector in (0..GROUP).step_by(LANES) {
        let word = match BYTES {
            4 => big_endian(load(
                addresses[first + vector..]
                    .as_flattened()
                    .as_chunks::<4>()
                    .0,
            )),
            _ => words(addresses, lanes_from(first + vector), 0),
        };
        let slot = _mm512_srli_epi32::<16>(word);
        // SAFETY: 2^16 entries, and indices of 16 bits.
        let entry = unsafe { _mm512_i32gather_epi32::<4>(slot, view.root.as_ptr().cast()) };
        let value = _mm512_and_si512(_mm512_srli_epi32::<8>(word), _mm512_set1_epi32(0xff));
        locate(view, group, vector, entry, value);
    }
}

/// Looks the next byte of the first `count` pending lookups up, `depth` bytes behind the root's bits. Those that meet a
/// child stay pending; it says how many they are.
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
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
        compare(view, now, here);
        for vector in (0..here).step_by(LANES) {
            let live = (u32::MAX >> (32 - (here - vector).min(LANES))) as u16;
            let mut found = find(view, now, vector);
            found.children &= live;
            let index = load(&now.index[vector..]);
            let places = hops.as_mut_ptr().cast();
            // SAFETY: indices are below the stretch's length, and there is a place for each address.
            unsafe { _mm512_mask_i32scatter_epi32::<4>(places, live, index, found.hop) };
            // What was pending here is in `now`, and `on` is not beyond: nothing is written over.
            on = pending.add(view, on, index, found);
        }
    }
    on
}

/// Takes the first group of these pending lookups to the blocks of their children.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
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
        let index = load(&pending.index[those.start + vector..]);
        let word = words(addresses, index, at / 4 * 4);
        let value = _mm512_and_si512(_mm512_srl_epi32(word, shift), _mm512_set1_epi32(0xff));
        let child = load(&pending.child[those.start + vector..]);
        // SAFETY: children's entries are in the pool. Behind the last pending one there are such that once
        // were pending, or zeros.
        let entry = unsafe { _mm512_i32gather_epi32::<1>(child, view.pool.as_ptr().cast()) };
        store(&mut group.index[vector..], index);
        locate(view, group, vector, entry, value);
    }
}

/// Finds where blocks have their values, and fetches that.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn locate(view: View<'_>, group: &mut Group, first: usize, entry: __m512i, value: __m512i) {
    let number = _mm512_and_si512(entry, _mm512_set1_epi32((1 << KIND_BITS) - 1));
    let by_number = |table: &[u32; 2 * LANES]| {
        let [low, high] = [load(&table[..LANES]), load(&table[LANES..])];
        _mm512_permutex2var_epi32(low, number, high)
    };
    let offset = by_number(&OFFSETS);
    let shift = _mm512_and_si512(offset, _mm512_set1_epi32(0xff));
    let stride = _mm512_srli_epi32::<16>(offset);
    let offset = _mm512_sllv_epi32(_mm512_srlv_epi32(value, shift), stride);
    let part = _mm512_add_epi32(block_start(entry), offset);
    store(&mut group.entry[first..], entry);
    store(&mut group.part[first..], part);
    store(&mut group.value[first..], value);
    store(&mut group.how[first..], by_number(&HOWS));
    // From memory: taking them out of the vector costs more.
    for part in &black_box(&*group).part[first..first + LANES] {
        view.fetch(*part);
    }
}

/// Where a block's first part starts, in bytes: grains are 8.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_start(entry: __m512i) -> __m512i {
    _mm512_slli_epi32::<3>(_mm512_srli_epi32::<KIND_BITS>(entry))
}

/// Compares the values of the first `count` lookups with their lines, which were fetched.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn compare(view: View<'_>, group: &mut Group, count: usize) {
    for i in 0..count {
        let line = group.part[i] as usize & !63;
        // SAFETY: a part lies in the pool, and so does its line: the pool begins at a multiple of 64 and goes on for 64.
        let line = unsafe { _mm512_load_si512(view.pool.as_ptr().add(line).cast()) };
        let value = _mm512_set1_epi8(group.value[i] as i8);
        group.below[i] = _mm512_cmplt_epu8_mask(line, value);
    }
}

/// Where sixteen lookups lead.
#[derive(Clone, Copy)]
struct Found {
    /// Their hops, unless they met a child.
    hop: __m512i,
    /// Those that did.
    children: u16,
    /// Where the child's entry is.
    child: __m512i,
}

/// Where sixteen lookups lead that were compared.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq")]
fn find(view: View<'_>, group: &Group, first: usize) -> Found {
    let byte = _mm512_set1_epi32(0xff);
    let (how, part) = (load(&group.how[first..]), load(&group.part[first..]));
    let ends = _mm512_and_si512(how, byte);
    let width = _mm512_and_si512(_mm512_srli_epi32::<8>(how), byte);
    let child_max = _mm512_srli_epi32::<16>(how);
    let run = runs(&group.below[first..], part, ends);
    let at = _mm512_add_epi32(_mm512_add_epi32(part, ends), _mm512_sllv_epi32(run, width));
    // SAFETY: a code lies in its part; behind it there are 64 bytes in the pool. Indices are below 2³¹.
    let word = unsafe { _mm512_i32gather_epi32::<1>(at, view.pool.as_ptr().cast()) };
    let highest = _mm512_permutexvar_epi32(width, load(&HIGHEST));
    // Children are counted down from the highest code; child 0 stands right before the block.
    let number = _mm512_andnot_si512(word, highest);
    let children = _mm512_cmple_epu32_mask(number, child_max);
    let before = _mm512_add_epi32(_mm512_slli_epi32::<2>(number), _mm512_set1_epi32(4));
    let child = _mm512_sub_epi32(block_start(load(&group.entry[first..])), before);
    let code = _mm512_and_si512(word, highest);
    let zero = _mm512_setzero_si512();
    let hops = view.hops.as_ptr().cast();
    // SAFETY: codes of hops are below their number; those of children are left out.
    let hop = unsafe { _mm512_mask_i32gather_epi32::<4>(zero, !children, code, hops) };
    Found {
        hop,
        children,
        child,
    }
}

/// The runs of sixteen lookups: as many as there are bytes below the value among the part's ends.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn runs(below: &[u64], part: __m512i, ends: __m512i) -> __m512i {
    let below = &below[..LANES];
    let start = _mm512_and_si512(part, _mm512_set1_epi32(63));
    // The bits before the part go out at the bottom, those behind its ends at the top.
    let above = _mm512_sub_epi32(_mm512_set1_epi32(64), ends);
    let count = |half: usize, start: __m256i, above: __m256i| {
        // SAFETY: eight words; the load needs no alignment.
        let below = unsafe { _mm512_loadu_si512(below[half..half + LANES / 2].as_ptr().cast()) };
        let from_start = _mm512_srlv_epi64(below, _mm512_cvtepu32_epi64(start));
        let within = _mm512_sllv_epi64(from_start, _mm512_cvtepu32_epi64(above));
        _mm512_cvtepi64_epi32(_mm512_popcnt_epi64(within))
    };
    let low = count(
        0,
        _mm512_castsi512_si256(start),
        _mm512_castsi512_si256(above),
    );
    let [start, above] = [
        _mm512_extracti64x4_epi64::<1>(start),
        _mm512_extracti64x4_epi64::<1>(above),
    ];
    let high = count(LANES / 2, start, above);
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// The 32 bits at byte `at` of the addresses at these indices.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words<const BYTES: usize>(addresses: &[[u8; BYTES]], index: __m512i, at: usize) -> __m512i {
    let index = _mm512_mullo_epi32(index, _mm512_set1_epi32(BYTES as i32));
    let first = addresses.as_ptr().cast::<u8>().wrapping_add(at);
    // SAFETY: indices are below the number of addresses, and four bytes from `at`, a multiple of four, are in each.
    big_endian(unsafe { _mm512_i32gather_epi32::<1>(index, first.cast()) })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn big_endian(words: __m512i) -> __m512i {
    let order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(order))
}

/// `first`, `first + 1`, …
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_from(first: usize) -> __m512i {
    let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_add_epi32(lanes, _mm512_set1_epi32(first as i32))
}

/// The first sixteen of some words.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<T: Word>(words: &[T]) -> __m512i {
    let words = &words[..LANES];
    // SAFETY: sixteen words of four plain bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Writes the first sixteen of some words.
#[inline]
#[target_feature(enable = "avx512f")]
fn store<T: Word>(words: &mut [T], values: __m512i) {
    let words = &mut words[..LANES];
    // SAFETY: sixteen words of four bytes, of any values; the store needs no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), values) }
}

/// # Safety
/// Four bytes that may be anything.
unsafe trait Word {}

// SAFETY: four bytes, any of which will do.
unsafe impl Word for u32 {}
// SAFETY: four bytes, any of which will do.
unsafe impl Word for [u8; 4] {}
