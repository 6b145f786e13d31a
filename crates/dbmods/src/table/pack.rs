//! Packing to and from the FastLanes order, by the crate `fastlanes`: what the encoder writes and the parser verifies.
//!
//! The scan has its own fused kernels; this is the plain way, and their oracle.
#![allow(unsafe_code)]

use fastlanes::BitPacking;

/// The number of rows of a full block.
pub(crate) const BLOCK_ROWS: usize = 1024;
/// Bits that `span`, the largest packed value, needs.
pub(crate) fn width(span: u64) -> u8 {
    (64 - span.leading_zeros()) as u8
}

/// The narrowest lane that holds `width` bits.
pub(crate) fn lane_bits(width: u8) -> u8 {
    match width {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

/// Appends `values`, packed: `128 * width` bytes.
///
/// # Panics
/// If `width` does not fit `lane_bits`, or `lane_bits` is none of 8, 16, 32, 64.
pub(crate) fn pack(lane_bits: u8, width: u8, values: &[u64; BLOCK_ROWS], out: &mut Vec<u8>) {
    assert!(
        width <= lane_bits,
        "width {width} in lanes of {lane_bits} bits"
    );
    macro_rules! lanes {
        ($lane:ty) => {{
            let input: [$lane; BLOCK_ROWS] = std::array::from_fn(|i| values[i] as $lane);
            let mut packed = [0 as $lane; BLOCK_ROWS];
            let packed = &mut packed[..BLOCK_ROWS * width as usize / lane_bits as usize];
            // SAFETY: the input has 1,024 values, the output 1,024 * width / lane bits, and width <= lane bits.
            unsafe { <$lane>::unchecked_pack(width as usize, &input, packed) };
            out.extend(packed.iter().flat_map(|lane| lane.to_le_bytes()));
        }};
    }
    match lane_bits {
        _ if width == 0 => {}
        8 => lanes!(u8),
        16 => lanes!(u16),
        32 => lanes!(u32),
        64 => lanes!(u64),
        _ => panic!("lanes of {lane_bits} bits"),
    }
}

/// Unpacks 1,024 values.
///
/// # Panics
/// If `width` does not fit `lane_bits`, `lane_bits` is none of 8, 16, 32, 64, or `packed` is not `128 * width` bytes.
pub(crate) fn unpack(lane_bits: u8, width: u8, packed: &[u8], values: &mut [u64; BLOCK_ROWS]) {
    match lane_bits {
        8 => *values = unpack_lanes::<u8>(width, packed).map(u64::from),
        16 => *values = unpack_lanes::<u16>(width, packed).map(u64::from),
        32 => *values = unpack_lanes::<u32>(width, packed).map(u64::from),
        64 => *values = unpack_lanes::<u64>(width, packed),
        _ => panic!("lanes of {lane_bits} bits"),
    }
}

/// Smallest and largest of the first `rows` packed values, and the largest of the others.
///
/// # Panics
/// As [`unpack`], or if there are more rows than 1,024 or none.
pub(super) fn bounds(lane_bits: u8, width: u8, packed: &[u8], rows: usize) -> (u64, u64, u64) {
    fn bounds_of<T: Lane>(width: u8, packed: &[u8], rows: usize) -> (u64, u64, u64) {
        let values = unpack_lanes::<T>(width, packed);
        let (rows, padding) = values.split_at(rows);
        let min = rows.iter().fold(rows[0], |min, &value| min.min(value));
        let max = rows.iter().fold(rows[0], |max, &value| max.max(value));
        let padding = padding
            .iter()
            .fold(T::default(), |max, &value| max.max(value));
        (min.into(), max.into(), padding.into())
    }
    match lane_bits {
        8 => bounds_of::<u8>(width, packed, rows),
        16 => bounds_of::<u16>(width, packed, rows),
        32 => bounds_of::<u32>(width, packed, rows),
        64 => bounds_of::<u64>(width, packed, rows),
        _ => panic!("lanes of {lane_bits} bits"),
    }
}

/// An unsigned integer that FastLanes packs.
trait Lane: BitPacking + Copy + Default + Ord + Into<u64> {
    fn read_le(bytes: &[u8]) -> Self;
}

macro_rules! lane {
    ($($lane:ty),*) => {$(
        impl Lane for $lane {
            fn read_le(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("bytes of a lane"))
            }
        }
    )*};
}

lane!(u8, u16, u32, u64);

fn unpack_lanes<T: Lane>(width: u8, packed: &[u8]) -> [T; BLOCK_ROWS] {
    let lane_bits = 8 * size_of::<T>();
    assert!(
        width as usize <= lane_bits,
        "width {width} in lanes of {lane_bits} bits"
    );
    assert_eq!(packed.len(), 128 * width as usize, "bytes of a block");
    let mut input = [T::default(); BLOCK_ROWS];
    let input = &mut input[..packed.len() / size_of::<T>()];
    for (lane, bytes) in input.iter_mut().zip(packed.chunks_exact(size_of::<T>())) {
        *lane = T::read_le(bytes);
    }
    let mut output = [T::default(); BLOCK_ROWS];
    if width > 0 {
        // SAFETY: the input has 1,024 * width / lane bits values, the output 1,024, and width <= lane bits.
        unsafe { T::unchecked_unpack(width as usize, input, &mut output) };
    }
    output
}
