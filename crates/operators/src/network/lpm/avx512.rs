//! x86-64 with AVX-512: many lookups in flight.
//!
//! A stretch of addresses takes each step together, and a step has passes that do one thing: one gathers what the next needs,
//! another makes something of it. Nothing in a pass waits for what another lookup's memory says, by data or by a branch, so that
//! the CPU has as many lines under way as it can. Lookups that are not done are packed in a list, without a branch either, and go
//! on together.
//!
//! The steps: the coarse table, the fine one, then the trie, a byte of the address at a time. A run is found there by one
//! comparison of 64 bytes. The tables are worth their cost for some keys: where the coarse one decides for most, its few lines
//! are had sooner than the fine one's many; where nearly all addresses go on below 24 bits, both are in vain. So from time to
//! time a stretch takes all steps, and the next ones those that paid.
//!
//! Tried and lost, with a million IPv4 routes on an Intel CPU with 2 MiB of L2: lines fetched ahead and branches instead of
//! passes (a third of the speed), always both tables (half for keys drawn from routes), the fine one alone (half for random keys),
//! compact tables below 16 bits instead of it (three quarters). What is left: of keys drawn from such routes a twentieth go on
//! below 24 bits, and take a third of the time, for two lines each that no cache of the core has.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::block::{Entry, KIND_BITS, KINDS};
use super::direct::{self, ASK, COARSE_AT, COARSE_BITS, FINE_BITS};
use super::hops::Hops;
use super::trie::Trie;
use crate::isa::Avx512;

/// Lookups in a vector.
const LANES: usize = 16;
/// Addresses that take each step together: enough to hide what starts and ends a pass, and what they note stays in the L1 cache.
const STRETCH: usize = 32 * LANES;
/// Addresses of which those that the tables leave go on together. The first stretch of them takes all steps, to see which pay.
const SPAN: usize = 16 * STRETCH;
/// In a list of lookups that tables left, the bits below what they said: which address of the span.
const INDEX_BITS: u32 = 24;

/// The memory that lookups read from. [`Trie`] and [`Hops`] see to it that:
///
/// * entries, those of the root and those of children, lead to blocks in the pool as `block::write` writes them;
/// * children go no deeper than addresses have bytes, and a direct table knows none but those of its slot of the root;
/// * codes of hops, those in the pool and those in the direct tables, are below the number of hops;
/// * the pool begins at a multiple of 64, ends 64 bytes behind the last block, and is shorter than 2³¹ bytes.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    direct: &'a [u8; direct::BYTES],
    root: &'a [Entry; 1 << 16],
    pool: &'a [u8],
    hops: &'a [u32],
}

impl<'a> View<'a> {
    /// The memory of `trie`, whose codes are those of `hops`.
    pub(super) fn of(trie: &'a Trie, hops: &'a Hops) -> Self {
        let (direct, root, pool) = trie.parts();
        let hops = hops.by_code();
        Self {
            direct,
            root,
            pool,
            hops,
        }
    }
}

/// The first step.
#[derive(Clone, Copy)]
enum First {
    Coarse,
    Fine,
    Trie,
}

impl First {
    /// The first step that pays, when of `count` addresses the coarse table left `coarse` and the fine one `left`.
    fn that_pays(count: usize, coarse: usize, left: &[u32]) -> Self {
        let asks = |left: &&u32| **left >> INDEX_BITS == u32::from(ASK);
        match [coarse, left.iter().filter(asks).count()] {
            [coarse, _] if 2 * coarse < count => Self::Coarse,
            [_, asks] if 2 * asks < count => Self::Fine,
            _ => Self::Trie,
        }
    }
}

/// The notes that a stretch's lookups keep between passes, one after another.
#[repr(align(64))]
struct Notes {
    /// The number of the address in the span. There is room for one more vector than there can be.
    index: [u32; STRETCH + LANES],
    /// The value that a table gave; or the place of a child's entry in the pool.
    found: [u32; STRETCH + LANES],
    /// The block that is looked up in.
    entry: [u32; STRETCH],
    /// The start of the part that has the value.
    part: [u32; STRETCH],
    /// The value of the byte that is looked up, four times.
    value: [u32; STRETCH],
    /// Of the block's kind, what finding a code takes: see [`HOWS`].
    how: [u32; STRETCH],
    /// The bytes of the part's line that are below the value.
    below: [u64; STRETCH],
}

/// A queue's memory: 49 KiB, too much to clear at each call for a burst of packets. No value is read that the call has not written.
pub(super) struct Scratch {
    notes: Notes,
    /// The addresses that the tables leave, few of each stretch: the trie's steps need many to be worth their while.
    left: [u32; SPAN + LANES],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            notes: Notes {
                index: [0; _],
                found: [0; _],
                entry: [0; _],
                part: [0; _],
                value: [0; _],
                how: [0; _],
                below: [0; _],
            },
            left: [0; _],
        }
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

/// Addresses of `bytes` bytes in a call from which on this is the faster way. With fewer, passes cost more than they hide: bursts of IPv4
/// addresses are looked up by [`dir`](super::dir).
pub(super) fn pays_from(bytes: usize) -> usize {
    match bytes {
        4 => STRETCH,
        _ => 0,
    }
}

/// The hop of each address of `BYTES` bytes, little endian.
pub(super) fn lookup_all<const BYTES: usize>(
    _proof: Avx512,
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    hops: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    // SAFETY: `Avx512` exists only where these instructions do.
    unsafe { stretches(view, addresses, hops, scratch) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
fn stretches<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    hops: &mut [[u8; 4]],
    scratch: &mut Scratch,
) {
    let (whole, rest) = addresses.split_at(addresses.len() / LANES * LANES);
    let (whole_hops, rest_hops) = hops.split_at_mut(whole.len());
    for (span, hops) in whole.chunks(SPAN).zip(whole_hops.chunks_mut(SPAN)) {
        look_up(view, span, scratch, hops);
    }
    if !rest.is_empty() {
        let mut vector = [[0; BYTES]; LANES];
        vector[..rest.len()].copy_from_slice(rest);
        let mut vector_hops = [[0; 4]; LANES];
        look_up(view, &vector, scratch, &mut vector_hops);
        rest_hops.copy_from_slice(&vector_hops[..rest.len()]);
    }
}

/// The hops of a span of whole vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
fn look_up<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    scratch: &mut Scratch,
    hops: &mut [[u8; 4]],
) {
    let Scratch { notes, left } = scratch;
    let mut on = 0;
    let mut first = First::Coarse;
    for start in (0..addresses.len()).step_by(STRETCH) {
        let those = start..addresses.len().min(start + STRETCH);
        on = match first {
            First::Coarse => {
                let (found, index) = (&mut notes.found, &mut notes.index);
                let coarse =
                    decide::<BYTES, true>(view, addresses, those.clone(), found, hops, index, 0);
                let next = decide_rest(view, addresses, notes, coarse, hops, left, on);
                if start == 0 {
                    first = First::that_pays(those.len(), coarse, &left[on..next]);
                }
                next
            }
            First::Fine => {
                let found = &mut notes.found;
                decide::<BYTES, false>(view, addresses, those, found, hops, left, on)
            }
            First::Trie => {
                for vector in those.clone().step_by(LANES) {
                    let asks = _mm512_set1_epi32(i32::from(ASK) << INDEX_BITS);
                    let left = &mut left[on + vector - start..];
                    store(left, _mm512_or_si512(asks, lanes_from(vector)));
                }
                on + those.len()
            }
        };
    }
    let mut asks = 0;
    for start in (0..on).step_by(STRETCH) {
        let those = start..on.min(start + STRETCH);
        let children;
        (children, asks) = enter(view, addresses, notes, left, those, asks);
        walk(view, addresses, notes, children, 1, hops);
    }
    for asks in left[..asks].chunks(STRETCH) {
        notes.index[..asks.len()].copy_from_slice(asks);
        walk(view, addresses, notes, asks.len(), 0, hops);
    }
}

/// Looks those addresses up in a direct table. What it leaves goes to the list behind `on` others, with what the table says; it
/// says how many there are then.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
fn decide<const BYTES: usize, const COARSE: bool>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    those: Range<usize>,
    found: &mut [u32],
    hops: &mut [[u8; 4]],
    list: &mut [u32],
    mut on: usize,
) -> usize {
    let (addresses, hops) = (&addresses[those.clone()], &mut hops[those.clone()]);
    for vector in (0..those.len()).step_by(LANES) {
        let word = match BYTES {
            4 => {
                let bytes = addresses[vector..].as_flattened();
                big_endian(load(bytes.as_chunks::<4>().0))
            }
            _ => words(addresses, lanes_from(vector), !0, 0),
        };
        let codes = match COARSE {
            true => codes::<COARSE_BITS>(view, COARSE_AT, word, !0),
            false => codes::<FINE_BITS>(view, 0, word, !0),
        };
        store(&mut found[vector..], codes);
    }
    for vector in (0..those.len()).step_by(LANES) {
        let (hop, left, says) = hop_of(view, load(&found[vector..]), !0);
        store(&mut hops[vector..], hop);
        let index = lanes_from(those.start + vector);
        on = pack(list, on, left, _mm512_or_si512(index, says));
    }
    on
}

/// The same in the fine table, for the first `count` lookups of the notes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
fn decide_rest<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    notes: &mut Notes,
    count: usize,
    hops: &mut [[u8; 4]],
    list: &mut [u32],
    mut on: usize,
) -> usize {
    for vector in (0..count).step_by(LANES) {
        let live = live(count, vector);
        let word = words(addresses, index_of(load(&notes.index[vector..])), live, 0);
        let codes = codes::<FINE_BITS>(view, 0, word, live);
        store(&mut notes.found[vector..], codes);
    }
    for vector in (0..count).step_by(LANES) {
        let live = live(count, vector);
        let (hop, left, says) = hop_of(view, load(&notes.found[vector..]), live);
        let index = index_of(load(&notes.index[vector..]));
        scatter(hops, live, index, hop);
        on = pack(list, on, left, _mm512_or_si512(index, says));
    }
    on
}

/// Moves the lookups in `those` whose table named a child into `notes`, each with the place of the child's entry. Packs the other
/// lookups at the start of the list, behind the `asks` that are there already. Returns both counts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
fn enter<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    notes: &mut Notes,
    list: &mut [u32],
    those: Range<usize>,
    mut asks: usize,
) -> (usize, usize) {
    let mut on = 0;
    for vector in those.clone().step_by(LANES) {
        let live = live(those.end, vector);
        let left = load(&list[vector..]);
        let (index, says) = (index_of(left), _mm512_srli_epi32::<INDEX_BITS>(left));
        let asking = _mm512_set1_epi32(i32::from(ASK));
        let children = _mm512_mask_cmpneq_epi32_mask(live, says, asking);
        let word = words(addresses, index, children, 0);
        let entry = entry_of_root(view, word, children);
        let number = _mm512_xor_si512(says, _mm512_set1_epi32(0xff));
        pack(&mut notes.found, on, children, child_at(entry, number));
        on = pack(&mut notes.index, on, children, index);
        asks = pack(list, asks, live & !children, index);
    }
    (on, asks)
}

/// Looks the first `on` lookups of the notes up in the trie, from `depth` bytes behind the root's bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
fn walk<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    notes: &mut Notes,
    mut on: usize,
    mut depth: usize,
    hops: &mut [[u8; 4]],
) {
    while on > 0 {
        locate(view, addresses, notes, on, depth);
        compare(view, notes, on);
        on = find(view, notes, on, hops);
        depth += 1;
    }
}

/// The values of the direct table that starts at `at`, in the lowest byte, of the first `BITS` bits of the live words.
#[inline]
#[target_feature(enable = "avx512f")]
fn codes<const BITS: u8>(view: View<'_>, at: usize, word: __m512i, live: u16) -> __m512i {
    let value = _mm512_srl_epi32(word, _mm_cvtsi32_si128(32 - i32::from(BITS)));
    let (zero, table) = (_mm512_setzero_si512(), view.direct[at..].as_ptr());
    // SAFETY: the table has a byte for each value of so many bits, and three may be read behind the last.
    unsafe { _mm512_mask_i32gather_epi32::<1>(zero, live, value, table.cast()) }
}

/// The hops of the live ones of sixteen codes of a direct table, which it leaves, and what it says of them, above the index.
#[inline]
#[target_feature(enable = "avx512f")]
fn hop_of(view: View<'_>, codes: __m512i, live: u16) -> (__m512i, u16, __m512i) {
    let says = _mm512_slli_epi32::<INDEX_BITS>(codes);
    let least = _mm512_set1_epi32(i32::from(ASK) << INDEX_BITS);
    let left = _mm512_mask_cmpge_epu32_mask(live, says, least);
    // Code 0 is there always, and a gather of all lanes is faster than one of some.
    let code = _mm512_maskz_srli_epi32::<INDEX_BITS>(live & !left, says);
    // SAFETY: codes of hops are below their number.
    let hop = unsafe { _mm512_i32gather_epi32::<4>(code, view.hops.as_ptr().cast()) };
    (hop, left, says)
}

/// The index of sixteen lookups of a list.
#[inline]
#[target_feature(enable = "avx512f")]
fn index_of(list: __m512i) -> __m512i {
    _mm512_and_si512(list, _mm512_set1_epi32((1 << INDEX_BITS) - 1))
}

/// The root's entries for the first bits of the live words.
#[inline]
#[target_feature(enable = "avx512f")]
fn entry_of_root(view: View<'_>, word: __m512i, live: u16) -> __m512i {
    let (zero, root) = (_mm512_setzero_si512(), view.root.as_ptr().cast());
    let slot = _mm512_srli_epi32::<16>(word);
    // SAFETY: 2^16 entries, and indices of 16 bits.
    unsafe { _mm512_mask_i32gather_epi32::<4>(zero, live, slot, root) }
}

/// The places of the entries of children with these numbers, of the blocks that these entries lead to: child 0 stands right before the
/// block.
#[inline]
#[target_feature(enable = "avx512f")]
fn child_at(entry: __m512i, number: __m512i) -> __m512i {
    let before = _mm512_add_epi32(_mm512_slli_epi32::<2>(number), _mm512_set1_epi32(4));
    _mm512_sub_epi32(block_start(entry), before)
}

/// Takes `count` lookups of the list to the block of the root or of a child, and finds where that has their next byte, `depth`
/// bytes behind the root's bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn locate<const BYTES: usize>(
    view: View<'_>,
    addresses: &[[u8; BYTES]],
    notes: &mut Notes,
    count: usize,
    depth: usize,
) {
    let at = 2 + depth;
    let shift = _mm_cvtsi32_si128(8 * (3 - at as i32 % 4));
    // The lowest byte of each word, four times.
    let spread = _mm_set_epi8(12, 12, 12, 12, 8, 8, 8, 8, 4, 4, 4, 4, 0, 0, 0, 0);
    let spread = _mm512_broadcast_i32x4(spread);
    for vector in (0..count).step_by(LANES) {
        let live = live(count, vector);
        let index = load(&notes.index[vector..]);
        let word = words(addresses, index, live, at / 4 * 4);
        let zero = _mm512_setzero_si512();
        let entry = if depth == 0 {
            entry_of_root(view, word, live)
        } else {
            let child = load(&notes.found[vector..]);
            // SAFETY: children's entries are in the pool; behind the last live one nothing is read.
            unsafe {
                _mm512_mask_i32gather_epi32::<1>(zero, live, child, view.pool.as_ptr().cast())
            }
        };
        let word = _mm512_srl_epi32(word, shift);
        let value = _mm512_and_si512(word, _mm512_set1_epi32(0xff));
        let number = _mm512_and_si512(entry, _mm512_set1_epi32((1 << KIND_BITS) - 1));
        let by_number = |table: &[u32; 2 * LANES]| {
            let [low, high] = [load(&table[..LANES]), load(&table[LANES..])];
            _mm512_permutex2var_epi32(low, number, high)
        };
        let offset = by_number(&OFFSETS);
        let part_shift = _mm512_and_si512(offset, _mm512_set1_epi32(0xff));
        let stride = _mm512_srli_epi32::<16>(offset);
        let offset = _mm512_sllv_epi32(_mm512_srlv_epi32(value, part_shift), stride);
        let part = _mm512_add_epi32(block_start(entry), offset);
        store(&mut notes.entry[vector..], entry);
        store(&mut notes.part[vector..], part);
        store(
            &mut notes.value[vector..],
            _mm512_shuffle_epi8(word, spread),
        );
        store(&mut notes.how[vector..], by_number(&HOWS));
    }
}

/// Compares the values of the first `count` lookups with their lines.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn compare(view: View<'_>, notes: &mut Notes, count: usize) {
    let lookups = notes.part.iter().zip(&notes.value).zip(&mut notes.below);
    for ((part, value), below) in lookups.take(count) {
        let line = *part as usize & !63;
        // SAFETY: a part lies in the pool, and so does its line: the pool begins at a multiple of 64 and goes on for 64.
        let line = unsafe { _mm512_load_si512(view.pool.as_ptr().add(line).cast()) };
        *below = _mm512_cmplt_epu8_mask(line, _mm512_set1_epi32(*value as i32));
    }
}

/// The hops of the first `count` lookups of the list, which were compared. Those that met a child are in the list then; it says
/// how many they are.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt")]
fn find(view: View<'_>, notes: &mut Notes, count: usize, hops: &mut [[u8; 4]]) -> usize {
    let byte = _mm512_set1_epi32(0xff);
    let zero = _mm512_setzero_si512();
    let mut on = 0;
    for vector in (0..count).step_by(LANES) {
        let live = live(count, vector);
        let (how, part) = (load(&notes.how[vector..]), load(&notes.part[vector..]));
        let ends = _mm512_and_si512(how, byte);
        let width = _mm512_and_si512(_mm512_srli_epi32::<8>(how), byte);
        let child_max = _mm512_srli_epi32::<16>(how);
        let run = runs(&notes.below[vector..], part, ends);
        let at = _mm512_add_epi32(_mm512_add_epi32(part, ends), _mm512_sllv_epi32(run, width));
        // SAFETY: a code lies in its part; behind it there are 64 bytes in the pool. Indices are below 2³¹.
        let word =
            unsafe { _mm512_mask_i32gather_epi32::<1>(zero, live, at, view.pool.as_ptr().cast()) };
        let highest = _mm512_permutexvar_epi32(width, load(&HIGHEST));
        // Children are counted down from the highest code.
        let number = _mm512_andnot_si512(word, highest);
        let children = _mm512_mask_cmple_epu32_mask(live, number, child_max);
        let child = child_at(load(&notes.entry[vector..]), number);
        let code = _mm512_and_si512(word, highest);
        let by_code = view.hops.as_ptr().cast();
        // SAFETY: codes of hops are below their number; those of children are left out.
        let hop =
            unsafe { _mm512_mask_i32gather_epi32::<4>(zero, live & !children, code, by_code) };
        let index = load(&notes.index[vector..]);
        scatter(hops, live, index, hop);
        pack(&mut notes.found, on, children, child);
        on = pack(&mut notes.index, on, children, index);
    }
    on
}

/// Packs the chosen values of a vector behind `on` others; says how many there are then. As many as were read before fit: what is
/// written over was read.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
fn pack(list: &mut [u32], on: usize, chosen: u16, values: __m512i) -> usize {
    // By way of a register: some CPUs are slow at compressing to memory.
    store(&mut list[on..], _mm512_maskz_compress_epi32(chosen, values));
    on + chosen.count_ones() as usize
}

/// Writes the live ones of sixteen hops to the places of their addresses.
#[inline]
#[target_feature(enable = "avx512f")]
fn scatter(hops: &mut [[u8; 4]], live: u16, index: __m512i, hop: __m512i) {
    let len = _mm512_set1_epi32(hops.len() as i32);
    debug_assert_eq!(_mm512_mask_cmpge_epu32_mask(live, index, len), 0);
    // SAFETY: indices in the list are below the span's length, and there is a place for each address.
    unsafe {
        _mm512_mask_i32scatter_epi32::<4>(hops.as_mut_ptr().cast(), live, index, hop);
    }
}

/// The lanes of a vector of the list that are below its length.
#[inline]
fn live(count: usize, vector: usize) -> u16 {
    (u32::MAX >> (32 - (count - vector).min(LANES))) as u16
}

/// The start of a block's first part, in bytes: grains are 8.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_start(entry: __m512i) -> __m512i {
    _mm512_slli_epi32::<3>(_mm512_srli_epi32::<KIND_BITS>(entry))
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

/// The 32 bits at byte `at` of the live addresses at these indices.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words<const BYTES: usize>(
    addresses: &[[u8; BYTES]],
    index: __m512i,
    live: u16,
    at: usize,
) -> __m512i {
    let index = _mm512_mullo_epi32(index, _mm512_set1_epi32(BYTES as i32));
    let first = addresses.as_ptr().cast::<u8>().wrapping_add(at);
    let zero = _mm512_setzero_si512();
    // SAFETY: live indices are below the number of addresses, and four bytes from `at`, a multiple of four, are in each.
    big_endian(unsafe { _mm512_mask_i32gather_epi32::<1>(zero, live, index, first.cast()) })
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
