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
//! | 28 | 4 | length of the chunk, at most 64 MiB |
//! | 32 | 8 | unit: what a packed value is multiplied by (signed, at least 1; 1 but for numbers) |
//! | 40 | 4 | CRC-32C of the header (this field zero), the directory and the side table |
//! | 44 | 20 | zero |
//! | 64 | 32 × blocks | directory, one [`BlockMeta`] a block: min (8), max (8), offset from the chunk's start (4, multiple of 64), length (4), CRC-32C of the payload (4), lane bits (1), width (1), rows (2) |
//! | … | | side table, at a multiple of 64 |
//! | … | | payloads, each at a multiple of 64, the last followed by 64 zero bytes |
//!
//! **Numbers** (INTEGER, BIGINT, DECIMAL, DATE): value = min + unit × packed. `packed` is 1,024 unsigned values of `width`
//! bits in the FastLanes order (that of the crate `fastlanes`) for lanes of `lane bits` (8, 16, 32, 64, the narrowest
//! that holds `width`), 128 × width bytes; width 0 has lanes of 8 bits and no payload. A short block is padded with packed
//! zeros to 1,024 values. `width` is exactly what (max − min) / unit needs, and `min` and `max` are values that occur.
//! All values of a chunk are congruent modulo `unit`, so a literal is translated once a chunk.
//!
//! **Dictionary**: as numbers; the values are positions in the side table, which holds the chunk's distinct strings in
//! strictly ascending byte order: count (4), count + 1 offsets (4 each) into the bytes that follow. A string has at
//! most 1 MiB.
//!
//! **Text** (FSST): side table: count *n* of symbols (4, at most 255), *n* lengths (1 each), padding to 8, *n* symbols (8
//! each, low byte first). Payload: rows + 1 offsets of `lane bits` (16 or 32) each, padding to a multiple of 64, then the rows'
//! codes one after another; offsets count from the first code. Code 255 makes the next byte literal. In the directory `min` is the number of
//! bytes that the block decodes to, `max` the longest row's (at most 1 MiB), `width` is 0.
//!
//! **The layout is canonical**: parts follow one another in the order above with no gap but the zeros that alignment
//! asks for, so a chunk's bytes are covered by the header's checksum, a payload's, or the rule that they are zero.
//!
//! [`Chunk::parse`] trusts nothing. It checks every rule of this page, all checksums, and the content: that no packed value
//! is above its block's `max`, that every code has a symbol and every row is UTF-8. What a [`Chunk`] says is then a
//! fact that a kernel may rely on for memory safety.

use std::fmt;
use std::ops::Range;

use dpb_core::Buf;

use crate::table::pack;
use crate::table::values::Values;

mod assembly;
mod check;
pub(crate) use super::pack::BLOCK_ROWS;
pub(crate) use super::values::STRING_BYTES_MAX;
pub(crate) use assembly::Assembly;
pub(crate) use assembly::EncodedChunk;
#[cfg(any(test, feature = "testing"))]
pub(crate) use assembly::seal;
use check::{Header, parse_dictionary, parse_directory};

/// Blocks of a full row group.
pub(crate) const GROUP_BLOCKS: usize = 64;
/// The number of rows of a full row group.
pub(crate) const GROUP_ROWS: usize = BLOCK_ROWS * GROUP_BLOCKS;

/// Longest chunk, in bytes: who opens a file of a stranger takes no more memory for one.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 << 20;
/// The encoding of a chunk's payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Bit-packed frames of reference.
    Numbers,
    /// The payloads are packed numbers as well; each is a position in a sorted dictionary.
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
    /// The offset of the payload from the chunk's start.
    pub offset: u32,
    /// The size of the payload in bytes.
    pub len: u32,
    /// CRC-32C of the payload.
    pub crc32c: u32,
    /// Bits of a FastLanes lane (8, 16, 32, 64); of an offset (16, 32) for text.
    pub lane_bits: u8,
    /// Bits of a packed value.
    pub width: u8,
    /// The number of rows, 1 to 1,024.
    pub rows: u16,
}

/// The size of the header in bytes.
pub(crate) const HEADER_BYTES: usize = 64;
/// The size of a directory entry in bytes.
pub(crate) const META_BYTES: usize = 32;
/// Everything inside a chunk starts at a multiple of this.
pub(crate) const ALIGN: usize = 64;
/// Zero bytes after the last payload, so that a kernel may load a whole vector at its end.
pub(crate) const TAIL_BYTES: usize = 64;
/// The code that makes the next byte literal.
pub(crate) const ESCAPE: u8 = 255;

const MAGIC: [u8; 4] = *b"DPBC";
const CRC_AT: usize = 40;

/// One column of one row group, verified.
pub struct Chunk {
    bytes: Buf,
    encoding: Encoding,
    column: u16,
    group: u32,
    rows: u32,
    unit: i64,
    side: Range<usize>,
    blocks: Vec<BlockMeta>,
    symbols: Option<Box<SymbolTable>>,
}

/// The part of a chunk that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first 64 bytes, or the length as a whole.
    Header,
    /// The entries of the blocks.
    Directory,
    /// Dictionary or symbols.
    SideTable,
    /// This block's payload.
    Block(u32),
    /// The zeros at the end.
    Tail,
}

/// The reason why bytes are no chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkError {
    /// The part of the chunk that is damaged.
    pub part: Part,
    /// The damage, in words.
    pub what: String,
}

/// A chunk's distinct strings, in strictly ascending byte order.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary<'a> {
    offsets: &'a [u8],
    bytes: &'a [u8],
}

/// A chunk's FSST symbols. Entries at and above [`SymbolTable::len`] are zero.
#[derive(Clone, Debug)]
pub struct SymbolTable {
    len: usize,
    /// The length of each symbol, 1 to 8 bytes.
    pub lengths: [u8; 256],
    /// Each symbol, its first byte lowest, zero above its length.
    pub symbols: [u64; 256],
}

/// One block of a text chunk.
#[derive(Clone, Copy, Debug)]
pub struct TextBlock<'a> {
    rows: usize,
    wide: bool,
    offsets: &'a [u8],
    codes: &'a [u8],
}

impl Chunk {
    /// Verifies `bytes`, which become the chunk.
    ///
    /// # Errors
    /// The first part that breaks a rule of this page.
    pub fn parse(bytes: Buf) -> Result<Self, ChunkError> {
        let header = Header::parse(&bytes)?;
        let blocks = parse_directory(&bytes, &header)?;
        let mut chunk = Self {
            encoding: header.encoding,
            column: header.column,
            group: header.group,
            rows: header.rows,
            unit: header.unit,
            side: header.side.clone(),
            blocks,
            symbols: None,
            bytes,
        };
        match chunk.encoding {
            Encoding::Numbers => chunk.check_numbers(None)?,
            Encoding::Dictionary => {
                let count = parse_dictionary(&chunk.bytes[chunk.side.clone()])?;
                chunk.check_numbers(Some(count))?;
            }
            Encoding::Text => {
                let symbols = Box::new(SymbolTable::parse(&chunk.bytes[chunk.side.clone()])?);
                chunk.check_texts(&symbols)?;
                chunk.symbols = Some(symbols);
            }
        }
        Ok(chunk)
    }

    /// Returns the encoding of the payloads.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the index of the column in the table.
    pub fn column(&self) -> usize {
        self.column as usize
    }

    /// Returns the index of the row group in the table.
    pub fn group(&self) -> usize {
        self.group as usize
    }

    /// Returns the number of rows, 1 to `GROUP_ROWS`.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Returns the factor of packed values. All values of the chunk are congruent modulo this unit.
    pub fn unit(&self) -> i64 {
        self.unit
    }

    /// The directory.
    pub fn blocks(&self) -> &[BlockMeta] {
        &self.blocks
    }

    /// The whole chunk as it lies in the file; starts at a multiple of 64, and at least 64 more bytes follow each payload
    /// inside it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A block's payload: `128 * width` bytes for numbers and dictionaries.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn payload(&self, block: usize) -> &[u8] {
        &self.bytes[self.blocks[block].range()]
    }

    /// The distinct strings of a dictionary chunk.
    pub fn dictionary(&self) -> Option<Dictionary<'_>> {
        (self.encoding == Encoding::Dictionary)
            .then(|| Dictionary::new(&self.bytes[self.side.clone()]))
    }

    /// Bytes of the longest text that a row may have; 0 of numbers.
    pub fn longest_text(&self) -> usize {
        match self.dictionary() {
            Some(dictionary) => dictionary.longest(),
            None if self.encoding == Encoding::Text => {
                let longest = self.blocks.iter().map(|block| block.max).max();
                longest.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
            }
            None => 0,
        }
    }

    /// The symbols of a text chunk.
    pub fn symbols(&self) -> Option<&SymbolTable> {
        self.symbols.as_deref()
    }

    /// Offsets and codes of a block of a text chunk.
    ///
    /// # Panics
    /// If there is no such block, or the chunk is not text.
    pub fn text(&self, block: usize) -> TextBlock<'_> {
        assert_eq!(self.encoding, Encoding::Text, "chunk of text");
        TextBlock::new(&self.blocks[block], self.payload(block))
    }

    /// Decodes a block of numbers (or of dictionary positions), its rows only: simple, not fast.
    ///
    /// # Panics
    /// If there is no such block, or the chunk is text.
    pub fn decode_numbers(&self, block: usize, out: &mut Vec<i64>) {
        assert_ne!(self.encoding, Encoding::Text, "chunk of numbers");
        let meta = &self.blocks[block];
        let mut packed = [0u64; BLOCK_ROWS];
        pack::unpack(meta.lane_bits, meta.width, self.payload(block), &mut packed);
        let value = |packed: &u64| {
            meta.min
                .wrapping_add((self.unit as u64).wrapping_mul(*packed) as i64)
        };
        out.extend(packed[..meta.rows as usize].iter().map(value));
    }

    /// Decodes a block of a dictionary or text chunk, row by row: simple, not fast.
    ///
    /// # Panics
    /// If there is no such block, or the chunk is of numbers.
    pub fn decode_texts(&self, block: usize, mut row: impl FnMut(&str)) {
        if let Some(dictionary) = self.dictionary() {
            let mut positions = Vec::new();
            self.decode_numbers(block, &mut positions);
            positions
                .iter()
                .for_each(|&position| row(dictionary.get(position as usize)));
        } else {
            let (text, symbols) = (self.text(block), self.symbols().expect("chunk of text"));
            let mut bytes = Vec::new();
            for i in 0..text.rows {
                bytes.clear();
                symbols.decode(text.row(i), &mut bytes);
                row(std::str::from_utf8(&bytes).expect("parse has checked it"));
            }
        }
    }

    /// Appends all values to a list of the column's kind.
    ///
    /// # Panics
    /// If the list is of the other kind.
    pub fn decode(&self, out: &mut Values) {
        for block in 0..self.blocks.len() {
            match out {
                Values::Numbers(values) => {
                    assert_eq!(self.encoding, Encoding::Numbers, "chunk of numbers");
                    self.decode_numbers(block, values);
                }
                Values::Texts(texts) => self.decode_texts(block, |row| texts.push(row)),
            }
        }
    }
}

impl BlockMeta {
    /// Returns the range of the payload in the chunk.
    pub fn range(&self) -> Range<usize> {
        self.offset as usize..self.offset as usize + self.len as usize
    }

    /// As in the file.
    pub(crate) fn to_bytes(self) -> [u8; META_BYTES] {
        let mut bytes = [0; META_BYTES];
        bytes[0..8].copy_from_slice(&self.min.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.max.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.offset.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.crc32c.to_le_bytes());
        bytes[28] = self.lane_bits;
        bytes[29] = self.width;
        bytes[30..32].copy_from_slice(&self.rows.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            min: u64_at(bytes, 0) as i64,
            max: u64_at(bytes, 8) as i64,
            offset: u32_at(bytes, 16),
            len: u32_at(bytes, 20),
            crc32c: u32_at(bytes, 24),
            lane_bits: bytes[28],
            width: bytes[29],
            rows: u16::from_le_bytes([bytes[30], bytes[31]]),
        }
    }
}

impl<'a> Dictionary<'a> {
    fn new(side: &'a [u8]) -> Self {
        let count = u32_at(side, 0) as usize;
        let (offsets, bytes) = side[4..].split_at(4 * (count + 1));
        Self { offsets, bytes }
    }

    /// Distinct strings, at least 1.
    pub fn len(&self) -> usize {
        self.offsets.len() / 4 - 1
    }

    /// Never: a chunk has rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the longest string.
    pub fn longest(&self) -> usize {
        let lens = (0..self.len()).map(|i| self.bytes(i).len());
        lens.max().unwrap_or(0)
    }

    /// The bytes of string `i`.
    ///
    /// # Panics
    /// If there is no such string.
    pub fn bytes(&self, i: usize) -> &'a [u8] {
        &self.bytes[u32_at(self.offsets, 4 * i) as usize..u32_at(self.offsets, 4 * i + 4) as usize]
    }

    /// String `i`.
    ///
    /// # Panics
    /// If there is no such string.
    pub fn get(&self, i: usize) -> &'a str {
        std::str::from_utf8(self.bytes(i)).expect("parse has checked it")
    }

    /// Returns all strings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        let this = *self;
        (0..this.len()).map(move |i| this.get(i))
    }
}

impl SymbolTable {
    /// Symbols, at most 255.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if every byte is an escape.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends what `codes` stand for.
    ///
    /// # Panics
    /// If the last code is an escape.
    pub fn decode(&self, codes: &[u8], out: &mut Vec<u8>) {
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                out.push(*codes.next().expect("an escape is followed by its byte"));
            } else {
                let len = self.lengths[code as usize] as usize;
                out.extend_from_slice(&self.symbols[code as usize].to_le_bytes()[..len]);
            }
        }
    }
}

impl<'a> TextBlock<'a> {
    fn new(meta: &BlockMeta, payload: &'a [u8]) -> Self {
        let (rows, wide) = (meta.rows as usize, meta.lane_bits == 32);
        let (offsets, codes) = payload.split_at(Self::offset_bytes(rows, wide));
        Self {
            rows,
            wide,
            offsets,
            codes,
        }
    }

    /// Returns the size of the offsets with their padding in bytes.
    pub(crate) fn offset_bytes(rows: usize, wide: bool) -> usize {
        ((rows + 1) * if wide { 4 } else { 2 }).next_multiple_of(ALIGN)
    }

    /// Returns the number of rows of the block.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns true if offsets have 32 bits, false if they have 16.
    pub fn wide(&self) -> bool {
        self.wide
    }

    /// `rows + 1` offsets of 2 or 4 bytes each, and padding; starts at a multiple of 64.
    pub fn offset_table(&self) -> &'a [u8] {
        self.offsets
    }

    /// The codes of all rows, one after another; starts at a multiple of 64.
    pub fn codes(&self) -> &'a [u8] {
        self.codes
    }

    /// Returns the place at which the codes of row `i` start; for `rows`, the place at which the last row's codes end.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn offset(&self, i: usize) -> usize {
        assert!(i <= self.rows, "row {i} of {}", self.rows);
        if self.wide {
            u32_at(self.offsets, 4 * i) as usize
        } else {
            u16::from_le_bytes([self.offsets[2 * i], self.offsets[2 * i + 1]]) as usize
        }
    }

    /// Row `i`'s codes.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, i: usize) -> &'a [u8] {
        &self.codes[self.offset(i)..self.offset(i + 1)]
    }
}

/// A chunk's zone map in a segment's footer: smallest and largest value or position; 0 and the longest row for text.
pub(crate) fn zone(encoding: Encoding, blocks: &[BlockMeta]) -> (i64, i64) {
    let max = blocks.iter().map(|block| block.max).max().unwrap_or(0);
    let min = blocks.iter().map(|block| block.min).min().unwrap_or(0);
    (if encoding == Encoding::Text { 0 } else { min }, max)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

impl ChunkError {
    fn new(part: Part, what: &str) -> Self {
        Self {
            part,
            what: what.to_owned(),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Directory => f.write_str("directory"),
            Self::SideTable => f.write_str("side table"),
            Self::Block(block) => write!(f, "block {block}"),
            Self::Tail => f.write_str("tail"),
        }
    }
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.what)
    }
}

impl std::error::Error for ChunkError {}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            column,
            group,
            rows,
            encoding,
            ..
        } = self;
        write!(
            f,
            "Chunk(column {column}, group {group}, {rows} rows, {encoding:?})"
        )
    }
}

#[cfg(test)]
mod tests;
