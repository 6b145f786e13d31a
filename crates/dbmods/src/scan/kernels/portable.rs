//! The portable kernels: plain loops that any compiler vectorises as far as the target allows.
//!
//! The functions are `inline(always)` and generic over [`PackBits`], so that an instruction set's module compiles them
//! again with its own features where own code would not be faster.

use super::{
    ByteSet, FL_ORDER, Kernels, Lanes, Mask, Numbers, Packed, Positions, Relation, gather,
};

/// Runs portably.
pub(super) const KERNELS: Kernels = Kernels {
    name: "portable",
    range: range::<Multiply>,
    unpack,
    widen,
    compare: compare::<Multiply>,
    count,
    positions,
    ask: gather::ask,
    select_narrow: gather::select_narrow,
    select_wide: gather::select_wide,
    pick_narrow: gather::pick_narrow,
    pick_wide: gather::pick_wide,
    bytes_in_set: bytes_in_set::<Multiply>,
    rows_hit,
    sum,
    add,
    subtract,
    multiply,
};

/// The first value of packed row `row`.
#[inline(always)]
pub(super) fn row_start(row: usize) -> usize {
    FL_ORDER[row / 8] * 16 + row % 8 * 128
}

/// Where packed row `row` of `width`-bit values lies in lanes of `lane_bits`: its word, the next one, the shift.
#[inline(always)]
pub(super) fn row_bits(row: usize, width: usize, lane_bits: usize) -> (usize, usize, usize) {
    let word = row * width / lane_bits;
    // The next word is not needed by the last one, and would lie past the end.
    (word, (word + 1).min(width - 1), row * width % lane_bits)
}

/// Gathers booleans into bits.
pub(super) trait PackBits {
    /// Byte `i`, 0 or 1, becomes bit `i`.
    fn pack(bytes: &[u8; 64]) -> u64;
}

/// Eight bytes at a time by a multiplication.
pub(super) struct Multiply;

impl PackBits for Multiply {
    #[inline(always)]
    fn pack(bytes: &[u8; 64]) -> u64 {
        let mut word = 0;
        for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            word |= bits << (8 * i);
        }
        word
    }
}

macro_rules! lane_kernels {
    ($lane:ident, $lanes:literal, $range:ident, $unpack:ident) => {
        #[inline(always)]
        fn $unpack(packed: Packed<'_>, out: &mut [$lane; 1024]) {
            const BITS: usize = $lane::BITS as usize;
            let width = usize::from(packed.width);
            let mask = packed.max() as $lane;
            for row in 0..BITS {
                let (word, next, shift) = row_bits(row, width, BITS);
                let low = packed.bytes[word * 128..][..128]
                    .as_chunks::<{ BITS / 8 }>()
                    .0;
                let high = packed.bytes[next * 128..][..128]
                    .as_chunks::<{ BITS / 8 }>()
                    .0;
                let values = &mut out[row_start(row)..][..$lanes];
                for ((value, low), high) in values.iter_mut().zip(low).zip(high) {
                    let low = $lane::from_le_bytes(*low) >> shift;
                    // In two steps, as a shift by all bits is not a shift.
                    let high = $lane::from_le_bytes(*high) << (BITS - 1 - shift) << 1;
                    *value = (low | high) & mask;
                }
            }
        }

        #[inline(always)]
        fn $range<P: PackBits>(packed: Packed<'_>, lo: u64, span: u64, out: &mut Mask) {
            let (lo, span) = (lo as $lane, span as $lane);
            let mut values = [0; 1024];
            $unpack(packed, &mut values);
            for (word, values) in out.0.iter_mut().zip(values.as_chunks::<64>().0) {
                let mut inside = [0u8; 64];
                for (inside, value) in inside.iter_mut().zip(values) {
                    *inside = u8::from(value.wrapping_sub(lo) <= span);
                }
                *word = P::pack(&inside);
            }
        }
    };
}

lane_kernels!(u8, 128, range_u8, unpack_u8);
lane_kernels!(u16, 64, range_u16, unpack_u16);
lane_kernels!(u32, 32, range_u32, unpack_u32);
lane_kernels!(u64, 16, range_u64, unpack_u64);

/// The implementation of [`Kernels::range`].
#[inline(always)]
pub(super) fn range<P: PackBits>(packed: Packed<'_>, lo: u64, span: u64, out: &mut Mask) {
    match packed.lane_bits {
        8 => range_u8::<P>(packed, lo, span, out),
        16 => range_u16::<P>(packed, lo, span, out),
        32 => range_u32::<P>(packed, lo, span, out),
        _ => range_u64::<P>(packed, lo, span, out),
    }
}

/// The implementation of [`Kernels::unpack`].
#[inline(always)]
pub(super) fn unpack(packed: Packed<'_>, out: &mut Lanes) {
    match packed.lane_bits {
        8 => unpack_u8(packed, out.bytes_mut()),
        16 => unpack_u16(packed, out.words_mut()),
        32 => unpack_u32(packed, out.doublewords_mut()),
        _ => unpack_u64(packed, &mut out.0),
    }
}

/// The implementation of [`Kernels::numbers`].
#[inline(always)]
pub(super) fn widen(lanes: &Lanes, lane_bits: u8, min: i64, unit: i64, out: &mut Numbers) {
    macro_rules! widen {
        ($values:expr) => {
            if unit == 1 {
                for (out, &value) in out.iter_mut().zip($values) {
                    *out = min.wrapping_add(value as i64);
                }
            } else if lane_bits < 64
                && let Ok(unit) = u32::try_from(unit)
            {
                // A 32-bit by 32-bit product is one instruction, a 64-bit one three.
                for (out, &value) in out.iter_mut().zip($values) {
                    let product = u64::from(value as u32) * u64::from(unit);
                    *out = min.wrapping_add(product as i64);
                }
            } else {
                for (out, &value) in out.iter_mut().zip($values) {
                    *out = min.wrapping_add((value as i64).wrapping_mul(unit));
                }
            }
        };
    }
    match lane_bits {
        8 => widen!(lanes.bytes()),
        16 => widen!(lanes.words()),
        32 => widen!(lanes.doublewords()),
        _ => widen!(lanes.quadwords()),
    }
}

/// The implementation of [`Kernels::compare`].
#[inline(always)]
pub(super) fn compare<P: PackBits>(
    relation: Relation,
    left: &Numbers,
    right: &Numbers,
    out: &mut Mask,
) {
    macro_rules! compare {
        ($op:tt) => {
            for (i, word) in out.0.iter_mut().enumerate() {
                let mut holds = [0u8; 64];
                let (left, right) = (&left[i * 64..][..64], &right[i * 64..][..64]);
                for ((holds, left), right) in holds.iter_mut().zip(left).zip(right) {
                    *holds = u8::from(left $op right);
                }
                *word = P::pack(&holds);
            }
        };
    }
    match relation {
        Relation::Equal => compare!(==),
        Relation::Less => compare!(<),
        Relation::LessOrEqual => compare!(<=),
    }
}

/// The implementation of [`Kernels::count`].
#[inline(always)]
pub(super) fn count(mask: &Mask) -> usize {
    mask.0.iter().map(|word| word.count_ones() as usize).sum()
}

/// The implementation of [`Kernels::positions`].
#[inline(always)]
pub(super) fn positions(mask: &Mask, out: &mut Positions) -> usize {
    let mut count = 0;
    mask.for_each(|row| {
        out[count] = row as u16;
        count += 1;
    });
    count
}

/// The implementation of [`Kernels::bytes_in_set`].
#[inline(always)]
pub(super) fn bytes_in_set<P: PackBits>(bytes: &[u8], set: &ByteSet, out: &mut [u64]) {
    let mut table = [0u8; 256];
    for (byte, entry) in (0..=255).zip(&mut table) {
        *entry = u8::from(set.contains(byte));
    }
    let (chunks, rest) = bytes.as_chunks::<64>();
    for (word, chunk) in out.iter_mut().zip(chunks) {
        *word = P::pack(&chunk.map(|byte| table[usize::from(byte)]));
    }
    if !rest.is_empty() {
        let mut found = [0; 64];
        for (found, byte) in found.iter_mut().zip(rest) {
            *found = table[usize::from(*byte)];
        }
        out[chunks.len()] = P::pack(&found);
    }
}

/// The implementation of [`Kernels::rows_hit`].
#[inline(always)]
pub(super) fn rows_hit(found: &[u64], offsets: &[[u8; 2]], out: &mut Mask) {
    rows_hit_by(found, offsets.len() - 1, out, |i| {
        usize::from(u16::from_le_bytes(offsets[i]))
    });
}

/// [`rows_hit`] for any kind of offsets.
#[inline(always)]
pub(in super::super) fn rows_hit_by(
    found: &[u64],
    rows: usize,
    out: &mut Mask,
    offset: impl Fn(usize) -> usize,
) {
    *out = Mask::NONE;
    // The row that starts at or before the bit, and where it ends.
    let (mut row, mut end) = (0, offset(1));
    for (i, &word) in found.iter().enumerate() {
        let mut word = word;
        while word != 0 {
            let at = i * 64 + word.trailing_zeros() as usize;
            word &= word - 1;
            if at >= end {
                // Gallop: hits are a few rows apart.
                let mut step = 8;
                while row + step < rows && offset(row + step) <= at {
                    row += step;
                }
                while step > 1 {
                    step /= 2;
                    if row + step < rows && offset(row + step) <= at {
                        row += step;
                    }
                }
                end = offset(row + 1);
            }
            out.insert(row);
        }
    }
}

/// The implementation of [`Kernels::sum`].
#[inline(always)]
pub(super) fn sum(values: &Numbers, mask: &Mask) -> i64 {
    let mut sums = [0i64; 8];
    for (values, word) in values.as_chunks::<64>().0.iter().zip(&mask.0) {
        for (i, values) in values.as_chunks::<8>().0.iter().enumerate() {
            let byte = (word >> (8 * i)) as i64;
            for (bit, (sum, value)) in sums.iter_mut().zip(values).enumerate() {
                *sum = sum.wrapping_add(value & -(byte >> bit & 1));
            }
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// The implementation of [`Kernels::add`].
#[inline(always)]
pub(super) fn add(left: &Numbers, right: &Numbers, out: &mut Numbers) {
    for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
        *out = left.wrapping_add(*right);
    }
}

/// The implementation of [`Kernels::subtract`].
#[inline(always)]
pub(super) fn subtract(left: &Numbers, right: &Numbers, out: &mut Numbers) {
    for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
        *out = left.wrapping_sub(*right);
    }
}

/// The implementation of [`Kernels::multiply`].
#[inline(always)]
pub(super) fn multiply(left: &Numbers, right: &Numbers, out: &mut Numbers) {
    for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
        *out = left.wrapping_mul(*right);
    }
}
