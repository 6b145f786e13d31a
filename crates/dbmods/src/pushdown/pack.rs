//! Packing to and from the FastLanes order, by the crate `fastlanes`: what the encoder writes and the parser verifies.
//!
//! The scan has its own fused kernels; this is the plain way, and their oracle.
#![allow(unsafe_code)]

use fastlanes::BitPacking;

use super::chunk::BLOCK_ROWS;

/// Bits that `span`, the largest packed value, needs.
pub fn width(span: u64) -> u8 {
    (64 - span.leading_zeros()) as u8
}

/// The narrowest lane that holds `width` bits.
pub fn lane_bits(width: u8) -> u8 {
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
pub fn pack(lane_bits: u8, width: u8, values: &[u64; BLOCK_ROWS], out: &mut Vec<u8>) {
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
pub fn unpack(lane_bits: u8, width: u8, packed: &[u8], values: &mut [u64; BLOCK_ROWS]) {
    assert!(
        width <= lane_bits,
        "width {width} in lanes of {lane_bits} bits"
    );
    assert_eq!(packed.len(), 128 * width as usize, "bytes of a block");
    macro_rules! lanes {
        ($lane:ty) => {{
            const BYTES: usize = size_of::<$lane>();
            let mut input = [0 as $lane; BLOCK_ROWS];
            let input = &mut input[..packed.len() / BYTES];
            for (lane, bytes) in input.iter_mut().zip(packed.chunks_exact(BYTES)) {
                *lane = <$lane>::from_le_bytes(bytes.try_into().expect("bytes of a lane"));
            }
            let mut output = [0 as $lane; BLOCK_ROWS];
            // SAFETY: the input has 1,024 * width / lane bits values, the output 1,024, and width <= lane bits.
            unsafe { <$lane>::unchecked_unpack(width as usize, input, &mut output) };
            *values = output.map(u64::from);
        }};
    }
    match lane_bits {
        _ if width == 0 => *values = [0; BLOCK_ROWS],
        8 => lanes!(u8),
        16 => lanes!(u16),
        32 => lanes!(u32),
        64 => lanes!(u64),
        _ => panic!("lanes of {lane_bits} bits"),
    }
}
