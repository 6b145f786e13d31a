//! Single values out of packed blocks, for rows that are few; and FSST codes to bytes.
#![allow(unsafe_code)]

use std::ops::Range;

use dpb_core::prefetch::prefetch;

use super::FL_ORDER;
use super::{Lanes, Packed};

/// `FL_ORDER` as nibbles; it is its own inverse.
pub(super) const ORDER_NIBBLES: u32 = {
    let mut nibbles = 0;
    let mut i = 0;
    while i < 8 {
        nibbles |= (FL_ORDER[i] as u32) << (4 * i);
        i += 1;
    }
    nibbles
};

/// Asks for the lines that hold the packed values of these positions.
pub(super) fn ask(packed: Packed<'_>, positions: &[u16]) {
    let bits = usize::from(packed.lane_bits);
    let (lanes, width) = (1024 / bits, usize::from(packed.width));
    for &at in positions {
        let (run, within) = (usize::from(at) / 128 % 8, usize::from(at) % 128);
        let order = ORDER_NIBBLES >> (within / lanes * lanes / 16 * 4) & 7;
        let bit = (run + 8 * order as usize) * width;
        let word = bit / bits;
        let byte = word * 128 + within % lanes * (bits / 8);
        prefetch(packed.bytes, byte);
        if bit % bits + width > bits {
            prefetch(packed.bytes, byte + 128);
        }
    }
}

macro_rules! value_in_lanes {
    ($name:ident, $lane:ty) => {
        /// Packed value `at % 1024`.
        #[inline(always)]
        fn $name(packed: Packed<'_>, at: u16) -> u64 {
            const BITS: usize = <$lane>::BITS as usize;
            const LANES: usize = 1024 / BITS;
            let (run, within) = (usize::from(at) / 128 % 8, usize::from(at) % 128);
            let order = ORDER_NIBBLES >> (within / LANES * LANES / 16 * 4) & 7;
            let row = run + 8 * order as usize;
            let width = usize::from(packed.width);
            let bit = row * width;
            let (word, shift) = (bit / BITS, bit % BITS);
            // Only a value that goes on in the next word touches it: it may be on a line of its own.
            let next = word + usize::from(shift + width > BITS);
            let lane = within % LANES;
            // SAFETY: row < BITS, so the value's last bit lies in a word below width, which `next` is; lane < LANES, so both values lie in the 128 * width bytes that `Packed` holds.
            let (low, high) = unsafe {
                let lanes = packed.bytes.as_ptr().cast::<$lane>().add(lane);
                (
                    lanes.add(word * LANES).read_unaligned().to_le(),
                    lanes.add(next * LANES).read_unaligned().to_le(),
                )
            };
            u64::from((low >> shift) | (high << (BITS - 1 - shift) << 1)) & packed.max()
        }
    };
}

value_in_lanes!(value_u8, u8);
value_in_lanes!(value_u16, u16);
value_in_lanes!(value_u32, u32);
value_in_lanes!(value_u64, u64);

/// Calls `each` with the packed value of every position, in order.
#[inline(always)]
pub(in super::super) fn for_each(packed: Packed<'_>, positions: &[u16], mut each: impl FnMut(u64)) {
    match packed.lane_bits {
        8 => positions.iter().for_each(|&at| each(value_u8(packed, at))),
        16 => positions.iter().for_each(|&at| each(value_u16(packed, at))),
        32 => positions.iter().for_each(|&at| each(value_u32(packed, at))),
        _ => positions.iter().for_each(|&at| each(value_u64(packed, at))),
    }
}

/// [`Kernels::select_narrow`](super::Kernels::select_narrow), row by row.
pub(super) fn select_narrow(
    packed: Packed<'_>,
    positions: &[u16],
    min: i32,
    unit: i32,
    out: &mut Vec<i32>,
) {
    out.reserve(positions.len());
    for_each(packed, positions, |value| {
        out.push(min.wrapping_add((value as i32).wrapping_mul(unit)));
    });
}

/// [`Kernels::select_wide`](super::Kernels::select_wide), row by row.
pub(super) fn select_wide(
    packed: Packed<'_>,
    positions: &[u16],
    min: i64,
    unit: i64,
    out: &mut Vec<i64>,
) {
    out.reserve(positions.len());
    for_each(packed, positions, |value| {
        out.push(min.wrapping_add((value as i64).wrapping_mul(unit)));
    });
}

/// Calls `each` with the unpacked value of every position, in order.
#[inline(always)]
fn for_each_lane(lanes: &Lanes, lane_bits: u8, positions: &[u16], mut each: impl FnMut(u64)) {
    let rows = positions.iter().map(|&at| usize::from(at) % 1024);
    match lane_bits {
        8 => rows.for_each(|row| each(lanes.bytes()[row].into())),
        16 => rows.for_each(|row| each(lanes.words()[row].into())),
        32 => rows.for_each(|row| each(lanes.doublewords()[row].into())),
        _ => rows.for_each(|row| each(lanes.quadwords()[row])),
    }
}

/// As [`select_narrow`], of a block that is unpacked.
pub(super) fn pick_narrow(
    lanes: &Lanes,
    lane_bits: u8,
    positions: &[u16],
    min: i32,
    unit: i32,
    out: &mut Vec<i32>,
) {
    out.reserve(positions.len());
    for_each_lane(lanes, lane_bits, positions, |value| {
        out.push(min.wrapping_add((value as i32).wrapping_mul(unit)));
    });
}

/// As [`select_wide`], of a block that is unpacked.
pub(super) fn pick_wide(
    lanes: &Lanes,
    lane_bits: u8,
    positions: &[u16],
    min: i64,
    unit: i64,
    out: &mut Vec<i64>,
) {
    out.reserve(positions.len());
    for_each_lane(lanes, lane_bits, positions, |value| {
        out.push(min.wrapping_add((value as i64).wrapping_mul(unit)));
    });
}

/// FSST symbols, by code; a code that stands for none has length 0.
#[derive(Clone, Debug)]
pub(in super::super) struct Symbols {
    symbols: [u64; 256],
    lengths: [u8; 256],
}

/// The code that makes the next byte literal.
pub(in super::super) const ESCAPE: u8 = 255;

impl Symbols {
    /// From symbols (low byte first) and their lengths, 1 to 8.
    ///
    /// # Panics
    /// If there are more than 255 symbols, or the lists differ in length.
    pub(in super::super) fn new(symbols: &[u64], lengths: &[u8]) -> Self {
        assert!(
            symbols.len() == lengths.len() && symbols.len() < 256,
            "a code each"
        );
        let mut table = Self {
            symbols: [0; 256],
            lengths: [0; 256],
        };
        table.symbols[..symbols.len()].copy_from_slice(symbols);
        for (to, from) in table.lengths.iter_mut().zip(lengths) {
            *to = (*from).min(8);
        }
        table
    }

    /// The bytes of `code`'s symbol; empty for the escape and for codes without one.
    pub(in super::super) fn symbol(&self, code: u8) -> ([u8; 8], usize) {
        let code = usize::from(code);
        (
            self.symbols[code].to_le_bytes(),
            usize::from(self.lengths[code]),
        )
    }

    /// Appends what `codes[text]` stand for.
    #[inline]
    pub(in super::super) fn decode(&self, codes: &[u8], text: Range<usize>, out: &mut Vec<u8>) {
        let (mut at, end) = (text.start, text.end);
        // A code is at most 8 bytes, every symbol is written whole, and up to seven codes too many are looked at.
        out.reserve((end - at + 8) * 8);
        let mut len = out.len();
        let to = out.as_mut_ptr();
        // Eight at once, where there is no escape and the block has the bytes: codes past the end become
        // escapes, whose symbol is empty.
        while at < end
            && let Some(eight) = codes.get(at..at + 8)
        {
            let some = u64::from_le_bytes(eight.try_into().unwrap_or_default());
            let past = match end - at {
                8.. => 0,
                left => u64::MAX << (8 * left),
            };
            if has_escape(some & !past) {
                break;
            }
            let some = some | past;
            for i in 0..8 {
                let code = usize::from((some >> (8 * i)) as u8);
                // SAFETY: `len` has moved by 8 bytes at most for each code before this one, and at most as many as there
                // are, rounded up to eight, were looked at; so 8 more fit into what was reserved.
                unsafe {
                    let to = to.add(len).cast::<u64>();
                    to.write_unaligned(self.symbols[code].to_le());
                }
                len += usize::from(self.lengths[code]);
            }
            at += 8;
        }
        while at < end {
            let code = codes[at];
            at += 1;
            let (symbol, symbol_len) = if code == ESCAPE && at < end {
                at += 1;
                (u64::from(codes[at - 1]), 1)
            } else {
                let code = usize::from(code);
                (self.symbols[code], usize::from(self.lengths[code]))
            };
            // SAFETY: as above.
            unsafe {
                let to = to.add(len).cast::<u64>();
                to.write_unaligned(symbol.to_le());
            }
            len += symbol_len;
        }
        // SAFETY: all bytes below `len` were written above, and `len` is within what was reserved.
        unsafe { out.set_len(len) }
    }
}

/// Returns true if one of eight codes is [`ESCAPE`].
#[inline(always)]
fn has_escape(codes: u64) -> bool {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const LOWEST_BIT: u64 = 0x0101_0101_0101_0101;
    // Of a byte of ones, and of no other with its top bit, the lower seven overflow into the top.
    ((codes & LOW_BITS) + LOWEST_BIT) & codes & !LOW_BITS != 0
}

/// A text of at most 32 bytes, copied whole whatever its length.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ShortText {
    bytes: [u8; 32],
    len: u8,
}

impl ShortText {
    /// `None` if `text` is longer.
    pub(in super::super) fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self {
            bytes,
            len: text.len() as u8,
        })
    }
}

/// Appends the texts at `entries`, and where each ends.
///
/// # Panics
/// If there is no such text.
pub(in super::super) fn push_short(
    texts: &[ShortText],
    entries: &[i32],
    bytes: &mut Vec<u8>,
    ends: &mut Vec<i32>,
) {
    bytes.reserve(32 * entries.len());
    let mut len = bytes.len();
    ends.extend(entries.iter().map(|&entry| {
        let text = &texts[entry as usize];
        // SAFETY: 32 bytes for each entry were reserved, and `len` has moved by 32 at most for each before this one.
        unsafe {
            bytes
                .as_mut_ptr()
                .add(len)
                .cast::<[u8; 32]>()
                .write(text.bytes);
        }
        len += usize::from(text.len);
        len as i32
    }));
    // SAFETY: all bytes below `len` were written above, as no text is longer than the 32 bytes that it writes.
    unsafe { bytes.set_len(len) }
}
