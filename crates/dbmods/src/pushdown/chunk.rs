//! A chunk: one column of one row group, the unit that is read, cached and verified.
//!
//! All numbers are little endian. A chunk starts at a multiple of 64 in the file and in memory.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | magic `DPBC` |
//! | 4 | 2 | column |
//! | 6 | 1 | encoding: 0 numbers, 1 dictionary, 2 text |
//! | 7 | 1 | zero |
//! | 8 | 4 | row group |
//! | 12 | 4 | rows, at most 65,536 |
//! | 16 | 4 | blocks, `rows / 1024` rounded up |
//! | 20 | 4 | offset of the side table (dictionary or symbols), 0 if there is none |
//! | 24 | 4 | length of the side table |
//! | 28 | 4 | length of the chunk |
//! | 32 | 8 | unit: what a packed value is multiplied by (signed, at least 1; 1 but for numbers) |
//! | 40 | 4 | CRC-32C of the header (this field zero), the directory and the side table |
//! | 44 | 20 | zero |
//! | 64 | 32 × blocks | directory, one [`BlockMeta`] a block: min (8), max (8), offset from the chunk's start (4, multiple of 64), length (4), CRC-32C of the payload (4), lane bits (1), width (1), rows (2) |
//! | … | | side table, at a multiple of 64 |
//! | … | | payloads, each at a multiple of 64, the last followed by 64 zero bytes |
//!
//! **Numbers** (INTEGER, BIGINT, DECIMAL, DATE): value = min + unit × packed. `packed` is 1,024 unsigned values of `width`
//! bits in the FastLanes order for lanes of `lane bits` (8, 16, 32, 64, the narrowest that holds `width`), 128 × width bytes; width 0 has no payload.
//! A short block is padded with zeros to 1,024 values.
//!
//! **Dictionary**: as numbers; the values are positions in the side table, which holds the chunk's distinct strings in
//! ascending byte order: count (4), count + 1 offsets (4 each) into the bytes that follow.
//!
//! **Text** (FSST): side table: count *n* of symbols (4, at most 255), *n* lengths (1 each), padding to 8, *n* symbols (8
//! each, low byte first). Payload: rows + 1 offsets of `lane bits` (16 or 32) each, padding to a multiple of 64, then the rows'
//! codes one after another. Code 255 makes the next byte literal. In the directory `min` is the number of
//! bytes that the block decodes to, `max` the longest row's, `width` is 0.

/// Rows of a full block.
pub const BLOCK_ROWS: usize = 1024;
/// Blocks of a full row group.
pub const GROUP_BLOCKS: usize = 64;
/// Rows of a full row group.
pub const GROUP_ROWS: usize = BLOCK_ROWS * GROUP_BLOCKS;

/// How a chunk's payloads are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Bit-packed frames of reference.
    Numbers,
    /// The same, over positions in a sorted dictionary.
    Dictionary,
    /// FSST codes.
    Text,
}

/// One entry of a chunk's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// Smallest value (numbers), smallest position (dictionary), decoded bytes (text).
    pub min: i64,
    /// Largest value, largest position, longest row.
    pub max: i64,
    /// Where the payload starts, from the chunk's start.
    pub offset: u32,
    /// Bytes of payload.
    pub len: u32,
    /// CRC-32C of the payload.
    pub crc32c: u32,
    /// Bits of a FastLanes lane (8, 16, 32, 64); of an offset (16, 32) for text.
    pub lane_bits: u8,
    /// Bits of a packed value.
    pub width: u8,
    /// Rows, 1 to 1,024.
    pub rows: u16,
}
