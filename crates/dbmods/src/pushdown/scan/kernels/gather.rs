//! Single values out of packed blocks, for rows that are few; and FSST codes to bytes.
#![allow(unsafe_code)]

use super::Packed;
use super::portable::FL_ORDER;

/// `FL_ORDER` as nibbles; it is its own inverse.
const ORDER_NIBBLES: u32 = {
    let mut nibbles = 0;
    let mut i = 0;
    while i < 8 {
        nibbles |= (FL_ORDER[i] as u32) << (4 * i);
        i += 1;
    }
    nibbles
};

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
            let next = (word + 1).min(width - 1);
            let lane = within % LANES;
            // SAFETY: row < BITS, so word < width; lane < LANES, so both values lie in the 128 * width bytes that `Packed` holds.
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

/// FSST symbols, by code; a code that stands for none has length 0.
#[derive(Clone, Debug)]
pub(in super::super) struct Symbols {
    symbols: [u64; 256],
    lengths: [u8; 256],
}

/// The code that makes the next byte literal.
pub(in super::super) const ESCAPE: u8 = 255;

/// Spare bytes that [`Symbols::decode`] needs past the decoded text.
pub(in super::super) const DECODE_SLACK: usize = 8;

impl Symbols {
    /// From symbols (low byte first) and their lengths, 1 to 8.
    ///
    /// # Panics
    /// If there are more than 255 symbols, or the lists differ in length.
    pub(in super::super) fn new(symbols: &[u64], lengths: &[u8]) -> Self {
        assert!(symbols.len() == lengths.len() && symbols.len() < 256, "a code each");
        let mut table = Self { symbols: [0; 256], lengths: [0; 256] };
        table.symbols[..symbols.len()].copy_from_slice(symbols);
        for (to, from) in table.lengths.iter_mut().zip(lengths) {
            *to = (*from).min(8);
        }
        table
    }

    /// The bytes of `code`'s symbol; empty for the escape and for codes without one.
    pub(in super::super) fn symbol(&self, code: u8) -> ([u8; 8], usize) {
        let code = usize::from(code);
        (self.symbols[code].to_le_bytes(), usize::from(self.lengths[code]))
    }

    /// Decodes `codes` to the front of `out`; says how many bytes. Symbols are written whole, so `out` needs
    /// [`DECODE_SLACK`] bytes more than the text. What does not fit is not written.
    #[inline]
    pub(in super::super) fn decode(&self, codes: &[u8], out: &mut [u8]) -> usize {
        let mut written = 0;
        // With room for the longest text that the codes can mean, nothing needs checking inside the loop.
        if codes.len() * 8 + DECODE_SLACK <= out.len() {
            let mut at = 0;
            while at < codes.len() {
                let code = codes[at];
                at += 1;
                let (symbol, len) = if code == ESCAPE && at < codes.len() {
                    at += 1;
                    (u64::from(codes[at - 1]), 1)
                } else {
                    let code = usize::from(code);
                    (self.symbols[code], usize::from(self.lengths[code]))
                };
                // SAFETY: each code read so far has advanced `written` by at most 8, so 8 bytes more fit by the check above.
                unsafe {
                    out.as_mut_ptr().add(written).cast::<u64>().write_unaligned(symbol.to_le());
                }
                written += len;
            }
            return written;
        }
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            let (symbol, len) = match (code, codes.as_slice().first()) {
                (ESCAPE, Some(&literal)) => {
                    codes.next();
                    ([literal, 0, 0, 0, 0, 0, 0, 0], 1)
                }
                _ => self.symbol(code),
            };
            let Some(to) = out.get_mut(written..written + len) else { break };
            to.copy_from_slice(&symbol[..len]);
            written += len;
        }
        written
    }
}
