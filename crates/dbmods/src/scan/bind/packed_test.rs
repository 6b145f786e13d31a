//! A block's packed values against a set of integers: row by row, range by range, or unpacked, by how many rows and ranges there are.

use super::super::context::packed;
use super::super::intset::IntSet;
use super::super::kernels::{ByteSet, Kernels, Lanes, Mask, Packed, gather};
use crate::table::chunk::{BlockMeta, Chunk};

/// With fewer rows left than this, their values are fetched one by one.
const SINGLE_ROWS_MAX: usize = 24;
/// With more ranges than this, values are unpacked once and looked up.
const RANGE_PASSES_MAX: usize = 3;

/// [`super::Bound::Packed`] on a block.
pub(super) fn test_packed(
    kernels: &Kernels,
    chunk: &Chunk,
    block: usize,
    set: &IntSet,
    lanes: &mut Lanes,
    within: &Mask,
    out: &mut Mask,
) {
    let meta = &chunk.blocks()[block];
    let ranges = set.meeting(meta.min, meta.max);
    let (Some(packed), None) = (packed(chunk, block), set.over(meta.min, meta.max)) else {
        *out = if set.contains(meta.min) {
            *within
        } else {
            Mask::NONE
        };
        return;
    };
    let unit = chunk.unit();
    if kernels.count(within) <= SINGLE_ROWS_MAX {
        single_rows(packed, (meta, unit), set, within, out);
    } else if ranges.len() <= RANGE_PASSES_MAX {
        passes(kernels, packed, (meta, unit), ranges, out);
    } else {
        unpacked(
            kernels,
            packed,
            (meta, unit),
            (set, ranges),
            lanes,
            within,
            out,
        );
    }
}

/// Fetches the values of few rows.
#[inline]
fn single_rows(
    packed: Packed<'_>,
    (meta, unit): (&BlockMeta, i64),
    set: &IntSet,
    within: &Mask,
    out: &mut Mask,
) {
    let mut rows = [0; SINGLE_ROWS_MAX];
    let mut count = 0;
    within.for_each(|row| {
        rows[count] = row as u16;
        count += 1;
    });
    *out = Mask::NONE;
    let mut rows_left = rows[..count].iter();
    gather::for_each(packed, &rows[..count], |value| {
        let value = meta.min.wrapping_add((value as i64).wrapping_mul(unit));
        if let Some(&row) = rows_left.next()
            && set.contains(value)
        {
            out.insert(usize::from(row));
        }
    });
}

/// Compares all values with each of few ranges.
#[inline]
fn passes(
    kernels: &Kernels,
    packed: Packed<'_>,
    (meta, unit): (&BlockMeta, i64),
    ranges: &[(i64, i64)],
    out: &mut Mask,
) {
    *out = Mask::NONE;
    let mut one = Mask::NONE;
    for (i, &range) in ranges.iter().enumerate() {
        let Some((lo, hi)) = packed_range(meta, unit, packed.max(), range) else {
            continue;
        };
        let to = if i == 0 { &mut *out } else { &mut one };
        kernels.range(packed, lo, hi - lo, to);
        if i > 0 {
            out.or(&one);
        }
    }
}

/// Unpacks the block and looks each value up.
#[inline]
fn unpacked(
    kernels: &Kernels,
    packed: Packed<'_>,
    (meta, unit): (&BlockMeta, i64),
    (set, ranges): (&IntSet, &[(i64, i64)]),
    lanes: &mut Lanes,
    within: &Mask,
    out: &mut Mask,
) {
    kernels.unpack(packed, lanes);
    if packed.lane_bits() == 8 {
        let mut bytes = ByteSet::EMPTY;
        for &range in ranges {
            if let Some((lo, hi)) = packed_range(meta, unit, packed.max(), range) {
                (lo..=hi).for_each(|value| bytes.insert(value as u8));
            }
        }
        kernels.bytes_in_set(lanes.bytes(), &bytes, &mut out.0);
        return;
    }
    *out = Mask::NONE;
    within.for_each(|row| {
        let packed = match packed.lane_bits() {
            16 => u64::from(lanes.words()[row]),
            32 => u64::from(lanes.doublewords()[row]),
            _ => lanes.quadwords()[row],
        };
        if set.contains(meta.min.wrapping_add((packed as i64).wrapping_mul(unit))) {
            out.insert(row);
        }
    });
}

/// The packed values whose numbers lie in `range`, if there are any: number = min + unit * packed.
fn packed_range(meta: &BlockMeta, unit: i64, max: u64, range: (i64, i64)) -> Option<(u64, u64)> {
    let from_min = |value: i64| (value as u64).wrapping_sub(meta.min as u64);
    let (lo, hi) = (range.0.max(meta.min), range.1.min(meta.max));
    if lo > hi {
        return None;
    }
    let (lo, hi) = (from_min(lo), from_min(hi));
    let (lo, hi) = match unit as u64 {
        1 => (lo, hi),
        unit => (lo.div_ceil(unit), hi / unit),
    };
    (lo <= hi && lo <= max).then(|| (lo, hi.min(max)))
}
