//! x86-64 with AVX-512 and VNNI: two instructions for 64 bytes, and sixteen items added up across lanes together.
//!
//! `vpdpwssd` multiplies signed words by one and adds both of a pair to a 32-bit lane. Words are not signed: flipping the top
//! bit of each makes them so, 32,768 less than they are, which is added back at the end. One flip and one `vpdpwssd` for each
//! 64 bytes keep both of the ports that have 512 bits at work.
//!
//! Adding up across lanes takes longer than reading a short item. Sixteen are reduced together: each step joins two vectors
//! to one that holds half as many lanes of both, so that fifteen steps end with the sixteen sums side by side.
//!
//! Loops stand where `map` or `from_fn` would: what takes a closure lacks these instructions, and is not inlined.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use dpb_core::Batch;

use super::{GROUP, Group, fold};
use crate::isa::Avx512Vnni;

/// So much is summed in 32 bits: 1,024 vectors of at most 32 * 65,535.
const BLOCK_BYTES: usize = 1 << 16;
/// From this length on whole cache lines are read.
const LINED_BYTES_MIN: usize = 512;
/// The amount by which flipped top bits change the sum of one vector of 32 words.
const BIAS: u32 = 32 * 0x8000;
/// The sum of the little-endian words of `data`.
pub(crate) fn sum(_proof: Avx512Vnni, data: &[u8]) -> u64 {
    // SAFETY: `Avx512Vnni` exists only where these instructions do.
    unsafe { sum_of(data) }
}

/// The checksums of sixteen items, little endian.
pub(super) fn group(_proof: Avx512Vnni, group: &Group<'_>) -> [u16; GROUP] {
    // SAFETY: `Avx512Vnni` exists only where these instructions do.
    unsafe { group_of(group) }
}

/// The checksum of each item, into its slot.
pub(super) fn plain(_proof: Avx512Vnni, batch: &Batch<'_>, slots: &mut [[u8; 2]]) {
    let slots = &mut slots[..batch.len()];
    // SAFETY: `Avx512Vnni` exists only where these instructions do.
    unsafe {
        match (batch.contiguous(), batch.offsets()) {
            (Some((_, 0)), _) => slots.fill([0xff; 2]),
            (Some((items, len)), _) => equal(items, len, slots),
            // Without the question for each item how it is described.
            (None, Some((src, offsets))) => {
                let item = |i: usize| &src[offsets[i] as usize..offsets[i + 1] as usize];
                mixed(item, slots);
            }
            (None, None) => mixed(|i| batch.item(i), slots),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn group_of(group: &Group<'_>) -> [u16; GROUP] {
    let sums = sums(&group.bytes);
    checksums(_mm512_add_epi32(sums, load(&group.plus)))
}

/// Items of `len` bytes each, which is not zero.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn equal(src: &[u8], len: usize, slots: &mut [[u8; 2]]) {
    let (groups, rest) = slots.as_chunks_mut::<GROUP>();
    let (grouped, mut src) = src.split_at(groups.len() * GROUP * len);
    match len {
        _ if groups.is_empty() => {}
        20 => headers_of_20(grouped, groups),
        40 => headers_of_40(grouped, groups),
        _ => equal_groups(grouped, len, groups),
    }
    for slot in rest {
        let (item, behind) = src.split_at(len);
        one(item, slot);
        src = behind;
    }
}

/// Sixteen items at a time. (`chunks_exact` would divide.)
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn equal_groups(src: &[u8], len: usize, groups: &mut [[[u8; 2]; GROUP]]) {
    let mut rest = src;
    for group in groups {
        let mut items: [&[u8]; GROUP] = [&[]; GROUP];
        for item in &mut items {
            (*item, rest) = rest.split_at(len);
        }
        put(sums(&items), group);
    }
}

/// Items of any length; `item` says where each is.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn mixed<'a>(item: impl Fn(usize) -> &'a [u8], slots: &mut [[u8; 2]]) {
    let (groups, rest) = slots.as_chunks_mut::<GROUP>();
    let grouped = groups.len() * GROUP;
    for (first, group) in (0..).step_by(GROUP).zip(groups) {
        let items: [&[u8]; GROUP] = std::array::from_fn(|i| item(first + i));
        put(sums(&items), group);
    }
    for (i, slot) in (grouped..).zip(rest) {
        one(item(i), slot);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn one(item: &[u8], slot: &mut [u8; 2]) {
    *slot = (!fold(sum_of(item))).to_le_bytes();
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn put(sums: __m512i, slots: &mut [[u8; 2]; GROUP]) {
    for (slot, checksum) in slots.iter_mut().zip(checksums(sums)) {
        *slot = checksum.to_le_bytes();
    }
}

/// The sum of the little-endian words of `data`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn sum_of(data: &[u8]) -> u64 {
    if data.len() <= BLOCK_BYTES {
        read(data).sum()
    } else {
        sum_of_blocks(data)
    }
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn sum_of_blocks(data: &[u8]) -> u64 {
    let mut sum = 0;
    for block in data.chunks(BLOCK_BYTES) {
        sum += read(block).sum();
    }
    sum
}

/// The sums of sixteen items, in 32 bits each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn sums(items: &[&[u8]; GROUP]) -> __m512i {
    let longest = items
        .iter()
        .fold(0, |longest, item| longest.max(item.len()));
    match longest {
        0..=32 => halves(items),
        33..=64 => lines(items),
        65..=BLOCK_BYTES => blocks(items),
        _ => longer(items),
    }
}

/// Items of 20 bytes: sixteen are five vectors, of whose 80 lanes five are an item. They are turned into five columns, in
/// which an item has one lane.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn headers_of_20(src: &[u8], groups: &mut [[[u8; 2]; GROUP]]) {
    const MIDDLE: [u16; 5] = lanes_from::<16>(32);
    const HIGH: [u16; 5] = lanes_from::<16>(64);
    let first = _mm512_set_epi32(75, 70, 65, 60, 55, 50, 45, 40, 35, 30, 25, 20, 15, 10, 5, 0);
    for (items, group) in src.as_chunks::<{ GROUP * 20 }>().0.iter().zip(groups) {
        let [a, b, c, d, e] = five_lines(items);
        let mut sum = _mm512_set1_epi32(10 * 0x8000);
        for column in 0..5 {
            // Lanes count modulo 32 in two vectors and modulo 16 in one, so that one index serves all.
            let lane = _mm512_add_epi32(first, _mm512_set1_epi32(column as i32));
            let low = _mm512_permutex2var_epi32(a, lane, b);
            let middle = _mm512_permutex2var_epi32(c, lane, d);
            let words = _mm512_mask_blend_epi32(MIDDLE[column], low, middle);
            let words = _mm512_mask_permutexvar_epi32(words, HIGH[column], lane, e);
            sum = plus_pairs(sum, words);
        }
        put(sum, group);
    }
}

/// Items of 40 bytes: the same, with eight items in lanes of 64 bits, twice.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn headers_of_40(src: &[u8], groups: &mut [[[u8; 2]; GROUP]]) {
    let in_order = _mm512_set_epi32(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0);
    let bias = _mm512_set1_epi32(20 * 0x8000);
    let (eights, _) = src.as_chunks::<{ GROUP / 2 * 40 }>();
    for (eights, group) in eights.as_chunks::<2>().0.iter().zip(groups) {
        let sums = join_words(eight_of_40(&eights[0]), eight_of_40(&eights[1]));
        let sums = _mm512_permutexvar_epi32(in_order, sums);
        put(_mm512_add_epi32(sums, bias), group);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn eight_of_40(items: &[u8; GROUP / 2 * 40]) -> __m512i {
    const MIDDLE: [u16; 5] = lanes_from::<8>(16);
    const HIGH: [u16; 5] = lanes_from::<8>(32);
    let [a, b, c, d, e] = five_lines(items);
    let first = _mm512_set_epi64(35, 30, 25, 20, 15, 10, 5, 0);
    let mut sum = _mm512_setzero_si512();
    for column in 0..5 {
        let lane = _mm512_add_epi64(first, _mm512_set1_epi64(column as i64));
        let low = _mm512_permutex2var_epi64(a, lane, b);
        let middle = _mm512_permutex2var_epi64(c, lane, d);
        let words = _mm512_mask_blend_epi64(MIDDLE[column] as u8, low, middle);
        let words = _mm512_mask_permutexvar_epi64(words, HIGH[column] as u8, lane, e);
        sum = plus_pairs(sum, words);
    }
    sum
}

/// The items, of `LANES`, that have a column's lane, the fifth of their lanes for each column, at `start` or behind.
const fn lanes_from<const LANES: usize>(start: usize) -> [u16; 5] {
    let mut masks = [0; 5];
    let mut lane = 0;
    while lane < 5 * LANES {
        if lane >= start {
            masks[lane % 5] |= 1 << (lane / 5);
        }
        lane += 1;
    }
    masks
}

/// Five lines, the top bits of their words flipped.
#[inline]
#[target_feature(enable = "avx512f")]
fn five_lines(bytes: &[u8; 5 * 64]) -> [__m512i; 5] {
    let (lines, _) = bytes.as_chunks::<64>();
    let mut flipped = [_mm512_setzero_si512(); 5];
    for (flipped, line) in flipped.iter_mut().zip(lines) {
        *flipped = _mm512_xor_si512(load_line(line), _mm512_set1_epi16(i16::MIN));
    }
    flipped
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_line(line: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
}

/// Items of at most 32 bytes: two to a vector, eight apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn halves(items: &[&[u8]; GROUP]) -> __m512i {
    let zero = _mm512_setzero_si512();
    let mut pairs = [zero; 8];
    for i in 0..8 {
        let (low, high) = (items[i], items[i + 8]);
        let low_mask = _bzhi_u64(!0, low.len() as u32);
        let high_mask = _bzhi_u64(!0, high.len() as u32) << 32;
        // SAFETY: the masks select `low` in the low half and `high`, read from 32 bytes before it, in the high half, each at
        // most 32 bytes; no other byte is accessed.
        let bytes = unsafe {
            let bytes = _mm512_maskz_loadu_epi8(low_mask, low.as_ptr().cast());
            _mm512_mask_loadu_epi8(bytes, high_mask, high.as_ptr().wrapping_sub(32).cast())
        };
        pairs[i] = added(zero, bytes);
    }
    _mm512_add_epi32(join(pairs), _mm512_set1_epi32(BIAS as i32 / 2))
}

/// Items of at most 64 bytes: a vector each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn lines(items: &[&[u8]; GROUP]) -> __m512i {
    let zero = _mm512_setzero_si512();
    let mut pairs = [zero; 8];
    for i in 0..8 {
        let low = added(zero, load_head(items[i]));
        let high = added(zero, load_head(items[i + 8]));
        pairs[i] = join_halves(low, high);
    }
    _mm512_add_epi32(join(pairs), _mm512_set1_epi32(BIAS as i32))
}

/// Items of at most a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn blocks(items: &[&[u8]; GROUP]) -> __m512i {
    let mut pairs = [_mm512_setzero_si512(); 8];
    let (mut biases, mut shifts) = ([0; GROUP], [0; GROUP]);
    for i in 0..8 {
        let (low, high) = (read(items[i]), read(items[i + 8]));
        pairs[i] = join_halves(low.lanes, high.lanes);
        (biases[i], biases[i + 8]) = (low.bias, high.bias);
        (shifts[i], shifts[i + 8]) = (low.shift, high.shift);
    }
    let sums = once_folded(_mm512_add_epi32(join(pairs), load(&biases)));
    _mm512_sllv_epi32(sums, load(&shifts))
}

/// Items of any length, one by one.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn longer(items: &[&[u8]; GROUP]) -> __m512i {
    let mut sums = [0; GROUP];
    for (sum, item) in sums.iter_mut().zip(items) {
        *sum = u32::from(fold(sum_of(item)));
    }
    load(&sums)
}

/// The result of [`read`] for a block.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    /// The sum, spread over 32-bit lanes, less `bias`.
    lanes: __m512i,
    /// The amount by which flipped top bits changed the sum.
    bias: u32,
    /// Bits by which the sum must be shifted to the left: zero, or eight if the words were read across.
    shift: u32,
}

/// Adds up at most [`BLOCK_BYTES`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
pub(crate) fn read(block: &[u8]) -> Read {
    if block.len() < LINED_BYTES_MIN {
        read_few(block)
    } else {
        // SAFETY: nothing is written.
        unsafe { pass::<false>(block, std::ptr::null_mut()) }
    }
}

/// Reads the bytes as they lie: masks cost more than the lines that are crossed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn read_few(block: &[u8]) -> Read {
    let (lines, rest) = block.as_chunks::<64>();
    let (pairs, odd) = lines.as_chunks::<2>();
    let (mut a, mut b) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for [first, second] in pairs {
        a = added(a, load_line(first));
        b = added(b, load_line(second));
    }
    if let [line] = odd {
        a = added(a, load_line(line));
    }
    if !rest.is_empty() {
        b = added(b, load_head(rest));
    }
    Read {
        lanes: _mm512_add_epi32(a, b),
        bias: block.len().div_ceil(64) as u32 * BIAS,
        shift: 0,
    }
}

/// The same, while they are copied to the start of `dst`.
///
/// # Panics
/// If it is shorter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
pub(crate) fn copy(block: &[u8], dst: &mut [u8]) -> Read {
    let dst = &mut dst[..block.len()];
    // SAFETY: `dst` is as long.
    unsafe { pass::<true>(block, dst.as_mut_ptr()) }
}

/// Adds up at most [`BLOCK_BYTES`] in whole cache lines, of what is written if anything is, the first and the last masked:
/// accesses that cross a line take twice as long. From an odd address words are taken across, which swaps the bytes of the
/// sum (RFC 1071, 2 B).
///
/// # Safety
/// With `COPY`, `dst` has room for `block`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
unsafe fn pass<const COPY: bool>(block: &[u8], dst: *mut u8) -> Read {
    let ahead = match COPY {
        true => dst.addr() % 64,
        false => block.as_ptr().addr() % 64,
    };
    let start = block.as_ptr().wrapping_sub(ahead);
    let start_to = dst.wrapping_sub(ahead);
    let end = ahead + block.len();
    let lines = end.div_ceil(64).max(1);
    let masked = |i: usize, mask: u64| {
        // SAFETY: every `mask` selects bytes of `block` alone, and as many of `dst`; no other byte is accessed.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(mask, start.wrapping_add(64 * i).cast());
            if COPY {
                _mm512_mask_storeu_epi8(start_to.wrapping_add(64 * i).cast(), mask, bytes);
            }
            bytes
        }
    };
    let whole = |sum: __m512i, i: usize| {
        // SAFETY: lines behind the first and before the last lie inside `block`, and inside `dst`.
        let bytes = unsafe {
            let bytes = _mm512_loadu_si512(start.wrapping_add(64 * i).cast());
            if COPY {
                _mm512_storeu_si512(start_to.wrapping_add(64 * i).cast(), bytes);
            }
            bytes
        };
        added(sum, bytes)
    };
    let zero = _mm512_setzero_si512();
    let first = !0 << ahead;
    let last = _bzhi_u64(!0, (end - 64 * (lines - 1)) as u32);
    let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
    if lines == 1 {
        a = added(zero, masked(0, first & last));
    } else {
        a = added(a, masked(0, first));
        b = added(b, masked(lines - 1, last));
        let mut i = 1;
        while i + 4 < lines {
            a = whole(a, i);
            b = whole(b, i + 1);
            c = whole(c, i + 2);
            d = whole(d, i + 3);
            i += 4;
        }
        if i + 2 < lines {
            c = whole(c, i);
            d = whole(d, i + 1);
            i += 2;
        }
        if i + 1 < lines {
            a = whole(a, i);
        }
    }
    Read {
        lanes: _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d)),
        bias: lines as u32 * BIAS,
        shift: (ahead as u32 & 1) * 8,
    }
}

impl Read {
    /// The sum, its carries not added back in.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn sum(self) -> u64 {
        // Multiplying by 256 swaps the bytes of a sum whose carries are added back in.
        let sum = _mm512_reduce_add_epi32(self.lanes) as u32;
        u64::from(sum.wrapping_add(self.bias)) << self.shift
    }
}

/// The words of `bytes` as signed ones, 32,768 less each, added in pairs to the lanes of `sum`.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn added(sum: __m512i, bytes: __m512i) -> __m512i {
    plus_pairs(sum, _mm512_xor_si512(bytes, _mm512_set1_epi16(i16::MIN)))
}

/// Signed words added in pairs to the lanes of `sum`.
///
/// As assembly, for the compiler makes two instructions of the intrinsic's one where it thinks that a chain is long: 256-byte
/// items are a tenth slower then.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn plus_pairs(mut sum: __m512i, words: __m512i) -> __m512i {
    let ones = _mm512_set1_epi16(1);
    // SAFETY: one instruction, which this CPU has, on registers alone.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {words}, {ones}",
            sum = inout(zmm_reg) sum,
            words = in(zmm_reg) words,
            ones = in(zmm_reg) ones,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// At most 64 bytes, and zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn load_head(bytes: &[u8]) -> __m512i {
    let mask = _bzhi_u64(!0, bytes.len() as u32);
    // SAFETY: the mask selects `bytes` alone; no other byte is accessed.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &[u32; GROUP]) -> __m512i {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

/// Each sum's carries added back in, and complemented: checksums, little endian.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn checksums(sums: __m512i) -> [u16; GROUP] {
    let folded = once_folded(once_folded(sums));
    let complement = _mm512_xor_si512(folded, _mm512_set1_epi32(0xffff));
    let mut checksums = [0; GROUP];
    let narrow = _mm512_cvtepi32_epi16(complement);
    // SAFETY: `checksums` has 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(checksums.as_mut_ptr().cast(), narrow) };
    checksums
}

/// Each sum's high half added to its low one.
#[inline]
#[target_feature(enable = "avx512f")]
fn once_folded(sums: __m512i) -> __m512i {
    let low = _mm512_and_si512(sums, _mm512_set1_epi32(0xffff));
    _mm512_add_epi32(low, _mm512_srli_epi32::<16>(sums))
}

/// Sixteen sums, item *i* in the low half of vector *i* and item *i* + 8 in its high half, brought to one lane each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn join(pairs: [__m512i; 8]) -> __m512i {
    let [a, b, c, d, e, f, g, h] = pairs;
    let even = join_eighths(join_quarters(a, e), join_quarters(c, g));
    let odd = join_eighths(join_quarters(b, f), join_quarters(d, h));
    join_words(even, odd)
}

/// The halves of `a` added in the low half, those of `b` in the high one.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_halves(a: __m512i, b: __m512i) -> __m512i {
    let outer = _mm512_mask_blend_epi64(0b1111_0000, a, b);
    let inner = _mm512_shuffle_i64x2::<0b01_00_11_10>(a, b);
    _mm512_add_epi32(outer, inner)
}

/// The quarters of each half added: of `a` in its first, of `b` in its second.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_quarters(a: __m512i, b: __m512i) -> __m512i {
    let outer = _mm512_mask_blend_epi64(0b1100_1100, a, b);
    let crossed = _mm512_set_epi64(13, 12, 7, 6, 9, 8, 3, 2);
    let inner = _mm512_permutex2var_epi64(a, crossed, b);
    _mm512_add_epi32(outer, inner)
}

/// The same with the eighths of each quarter.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_eighths(a: __m512i, b: __m512i) -> __m512i {
    let outer = _mm512_mask_blend_epi64(0b1010_1010, a, b);
    let inner = _mm512_shuffle_pd::<0b0101_0101>(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b));
    _mm512_add_epi32(outer, _mm512_castpd_si512(inner))
}

/// The same with the words of each eighth.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_words(a: __m512i, b: __m512i) -> __m512i {
    const ODD: __mmask16 = 0b1010_1010_1010_1010;
    const SWAPPED: i32 = 0b10_11_00_01;
    let outer = _mm512_mask_blend_epi32(ODD, a, b);
    let inner = _mm512_mask_shuffle_epi32::<SWAPPED>(_mm512_shuffle_epi32::<SWAPPED>(a), ODD, b);
    _mm512_add_epi32(outer, inner)
}
