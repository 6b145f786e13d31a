//! Whether bytes are a chunk: every rule of its page, checked before anything relies on it.

use std::ops::Range;

use super::assembly::checksum;
use super::{
    ALIGN, BLOCK_ROWS, BlockMeta, CHUNK_BYTES_MAX, CRC_AT, Chunk, ChunkError, ESCAPE, Encoding,
    GROUP_ROWS, HEADER_BYTES, MAGIC, META_BYTES, Part, STRING_BYTES_MAX, SymbolTable, TAIL_BYTES,
    TextBlock, u32_at, u64_at,
};
use crate::table::pack;

/// What the first 64 bytes say.
pub(super) struct Header {
    pub(super) encoding: Encoding,
    pub(super) column: u16,
    pub(super) group: u32,
    pub(super) rows: u32,
    pub(super) blocks: usize,
    pub(super) unit: i64,
    pub(super) side: Range<usize>,
}

impl Header {
    /// Checks header, directory and side table by their checksum, and that they fit one another.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ChunkError> {
        let fail = |what: &str| Err(ChunkError::new(Part::Header, what));
        if bytes.len() < HEADER_BYTES + META_BYTES + TAIL_BYTES {
            return fail("too short");
        }
        if bytes[..4] != MAGIC {
            return fail("no chunk starts here");
        }
        if u32_at(bytes, 28) as usize != bytes.len() {
            return fail("another length");
        }
        if bytes.len() > CHUNK_BYTES_MAX {
            return fail("longer than 64 MiB");
        }
        let (rows, blocks) = (u32_at(bytes, 12), u32_at(bytes, 16) as usize);
        if !(1..=GROUP_ROWS).contains(&(rows as usize))
            || blocks != (rows as usize).div_ceil(BLOCK_ROWS)
        {
            return fail("no such number of rows");
        }
        let directory_end = HEADER_BYTES + META_BYTES * blocks;
        let (side, side_len) = (u32_at(bytes, 20) as usize, u32_at(bytes, 24) as usize);
        let encoding = match bytes[6] {
            0 => Encoding::Numbers,
            1 => Encoding::Dictionary,
            2 => Encoding::Text,
            _ => return fail("no such encoding"),
        };
        let expected = match encoding {
            Encoding::Numbers => 0,
            _ => directory_end.next_multiple_of(ALIGN),
        };
        if side != expected
            || (side == 0) != (side_len == 0)
            || side
                .max(directory_end)
                .checked_add(side_len)
                .is_none_or(|end| end > bytes.len())
        {
            return fail("the side table lies elsewhere");
        }
        let side = side..side + side_len;
        if checksum(bytes, directory_end, &side) != u32_at(bytes, CRC_AT) {
            return fail("checksum of header, directory and side table");
        }
        let unit = u64_at(bytes, 32) as i64;
        if bytes[7] != 0 || bytes[44..64].iter().any(|&byte| byte != 0) {
            return fail("not zero where it must be");
        }
        if unit < 1 || (encoding != Encoding::Numbers && unit != 1) {
            return fail("no such unit");
        }
        Ok(Self {
            encoding,
            column: u16::from_le_bytes([bytes[4], bytes[5]]),
            group: u32_at(bytes, 8),
            rows,
            blocks,
            unit,
            side,
        })
    }
}

/// Checks that the payloads follow one another, and each by its checksum.
pub(super) fn parse_directory(bytes: &[u8], header: &Header) -> Result<Vec<BlockMeta>, ChunkError> {
    let directory_end = HEADER_BYTES + META_BYTES * header.blocks;
    let zero = |range: Range<usize>, part| {
        if bytes
            .get(range)
            .is_some_and(|gap| gap.iter().all(|&byte| byte == 0))
        {
            Ok(())
        } else {
            Err(ChunkError::new(part, "not zero where it must be"))
        }
    };
    let mut end = directory_end.max(header.side.end);
    if !header.side.is_empty() {
        zero(directory_end..header.side.start, Part::Directory)?;
    }
    let mut blocks = Vec::with_capacity(header.blocks);
    for (i, entry) in bytes[HEADER_BYTES..directory_end]
        .chunks_exact(META_BYTES)
        .enumerate()
    {
        let meta = BlockMeta::from_bytes(entry);
        let start = end.next_multiple_of(ALIGN);
        let rows = BLOCK_ROWS.min(header.rows as usize - i * BLOCK_ROWS);
        if meta.offset as usize != start
            || meta.rows as usize != rows
            || meta.len as usize > bytes.len() - TAIL_BYTES
            || start + meta.len as usize > bytes.len() - TAIL_BYTES
        {
            return Err(ChunkError::new(Part::Directory, "a block lies elsewhere"));
        }
        zero(
            end..start,
            if i == 0 {
                Part::Directory
            } else {
                Part::Block(i as u32 - 1)
            },
        )?;
        if crc_fast::crc32_iscsi(&bytes[meta.range()]) != meta.crc32c {
            return Err(ChunkError::new(Part::Block(i as u32), "checksum"));
        }
        end = start + meta.len as usize;
        blocks.push(meta);
    }
    if end.next_multiple_of(ALIGN) + TAIL_BYTES != bytes.len() {
        return Err(ChunkError::new(Part::Header, "another length"));
    }
    zero(end..bytes.len(), Part::Tail)?;
    Ok(blocks)
}

/// Checks a dictionary; says how many strings it has.
pub(super) fn parse_dictionary(side: &[u8]) -> Result<usize, ChunkError> {
    let fail = |what: &str| Err(ChunkError::new(Part::SideTable, what));
    let count = if side.len() < 12 {
        0
    } else {
        u32_at(side, 0) as usize
    };
    if !(1..=GROUP_ROWS).contains(&count) || side.len() < 4 + 4 * (count + 1) {
        return fail("no such number of strings");
    }
    let (offsets, bytes) = side[4..].split_at(4 * (count + 1));
    let offset = |i: usize| u32_at(offsets, 4 * i) as usize;
    if offset(0) != 0 || offset(count) != bytes.len() {
        return fail("its length is not that of its strings");
    }
    let mut previous: Option<&[u8]> = None;
    for i in 0..count {
        let Some(string) = bytes.get(offset(i)..offset(i + 1)) else {
            return fail("its offsets are not in order");
        };
        if string.len() > STRING_BYTES_MAX {
            return fail("a string is longer than 1 MiB");
        }
        if previous.is_some_and(|previous| previous >= string) {
            return fail("its strings are not in order");
        }
        if std::str::from_utf8(string).is_err() {
            return fail("a string is not UTF-8");
        }
        previous = Some(string);
    }
    Ok(count)
}

impl Chunk {
    /// Checks payloads of packed values. `count`: of a dictionary's entries.
    pub(super) fn check_numbers(&self, count: Option<usize>) -> Result<(), ChunkError> {
        let first = self.blocks[0].min;
        for (i, meta) in self.blocks.iter().enumerate() {
            let fail = |what: &str| Err(ChunkError::new(Part::Block(i as u32), what));
            let unit = self.unit as u64;
            let span = meta.max.wrapping_sub(meta.min) as u64;
            if meta.max < meta.min
                || !span.is_multiple_of(unit)
                || !meta.min.abs_diff(first).is_multiple_of(unit)
                || pack::width(span / unit) != meta.width
                || pack::lane_bits(meta.width) != meta.lane_bits
                || meta.len as usize != 128 * meta.width as usize
            {
                return fail("its width does not fit its smallest and largest value");
            }
            if count.is_some_and(|count| meta.min < 0 || meta.max as u64 >= count as u64) {
                return fail("it points outside the dictionary");
            }
            let rows = meta.rows as usize;
            let (min, max, padding) =
                pack::bounds(meta.lane_bits, meta.width, self.payload(i), rows);
            if (min, max, padding) != (0, span / unit, 0) {
                return fail("its values are not those that its smallest and largest value say");
            }
        }
        Ok(())
    }

    /// Checks payloads of text.
    pub(super) fn check_texts(&self, symbols: &SymbolTable) -> Result<(), ChunkError> {
        let ascii = symbols
            .symbols
            .iter()
            .all(|symbol| symbol & 0x8080_8080_8080_8080 == 0);
        let (mut bytes, mut offsets) = (Vec::new(), Vec::with_capacity(BLOCK_ROWS + 1));
        for (i, meta) in self.blocks.iter().enumerate() {
            let fail = |what: &str| Err(ChunkError::new(Part::Block(i as u32), what));
            let payload = self.payload(i);
            let rows = meta.rows as usize;
            if meta.width != 0 || !matches!(meta.lane_bits, 16 | 32) {
                return fail("it has no such offsets");
            }
            if payload.len() < TextBlock::offset_bytes(rows, meta.lane_bits == 32) {
                return fail("it is too short for its offsets");
            }
            let text = TextBlock::new(meta, payload);
            offsets.clear();
            offsets.extend((0..=rows).map(|row| text.offset(row)));
            if offsets[0] != 0 || offsets[rows] != text.codes.len() || !offsets.is_sorted() {
                return fail("its offsets are not in order");
            }
            let (mut sum, mut longest) = (0u64, 0u64);
            for bounds in offsets.windows(2) {
                let codes = &text.codes[bounds[0]..bounds[1]];
                let Some((len, plain)) = symbols.measure(codes) else {
                    return fail("a code has no symbol");
                };
                if len > STRING_BYTES_MAX {
                    return fail("a row is longer than 1 MiB");
                }
                if !(ascii && plain) {
                    bytes.clear();
                    symbols.decode(codes, &mut bytes);
                    if std::str::from_utf8(&bytes).is_err() {
                        return fail("a row is not UTF-8");
                    }
                }
                sum += len as u64;
                longest = longest.max(len as u64);
            }
            if meta.min as u64 != sum || meta.max as u64 != longest {
                return fail("its rows are not as long as it says");
            }
        }
        Ok(())
    }
}

impl SymbolTable {
    /// Checks symbols.
    pub(super) fn parse(side: &[u8]) -> Result<Self, ChunkError> {
        let fail = |what: &str| Err(ChunkError::new(Part::SideTable, what));
        if side.len() < 8 {
            return fail("no symbols");
        }
        let len = u32_at(side, 0) as usize;
        let start = (4 + len.min(256)).next_multiple_of(8);
        if len > 255 || side.len() != start + 8 * len {
            return fail("its length is not that of its symbols");
        }
        let mut table = Self {
            len,
            lengths: [0; 256],
            symbols: [0; 256],
        };
        table.lengths[..len].copy_from_slice(&side[4..4 + len]);
        if side[4 + len..start].iter().any(|&byte| byte != 0) {
            return fail("its padding is not zero");
        }
        for i in 0..len {
            let (symbol, bytes) = (u64_at(side, start + 8 * i), table.lengths[i]);
            if !(1..=8).contains(&bytes) || (bytes < 8 && symbol >> (8 * bytes) != 0) {
                return fail("a symbol is not as long as it says");
            }
            table.symbols[i] = symbol;
        }
        Ok(table)
    }

    /// Bytes that `codes` stand for, and whether all its literal bytes are ASCII. `None`: a code has no symbol, or the
    /// last is an escape.
    fn measure(&self, codes: &[u8]) -> Option<(usize, bool)> {
        let (mut len, mut literals) = (0, 0);
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                literals |= codes.next()?;
                len += 1;
            } else {
                let symbol = self.lengths[code as usize];
                if symbol == 0 {
                    return None;
                }
                len += symbol as usize;
            }
        }
        Some((len, literals < 0x80))
    }
}
