//! Free text: FSST (Boncz, Neumann, Leis: "FSST: Fast Random Access String Compression", PVLDB 13(11), 2020), with a symbol
//! table of its own for each chunk, trained on a sample of it by the crate `fsst`.

use fsst::Compressor;

use crate::table::chunk::{Assembly, BLOCK_ROWS, BlockMeta, EncodedChunk, Encoding, TextBlock};
use crate::table::values::Texts;

/// The chunk of `texts`.
pub(super) fn encode(column: u16, group: u32, texts: &Texts) -> EncodedChunk {
    let rows: Vec<&[u8]> = texts.iter().map(str::as_bytes).collect();
    let compressor = Compressor::train(&rows);
    let (mut payloads, mut lengths, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut codes, mut ends) = (Vec::new(), Vec::new());
    for rows in rows.chunks(BLOCK_ROWS) {
        codes.clear();
        ends.clear();
        compressor.compress_bulk_into::<4>(rows, &mut codes, &mut ends);
        let wide = codes.len() > u16::MAX as usize;
        let before = payloads.len();
        for end in std::iter::once(0).chain(ends.iter().copied()) {
            payloads.extend_from_slice(&(end as u32).to_le_bytes()[..if wide { 4 } else { 2 }]);
        }
        payloads.resize(before + TextBlock::offset_bytes(rows.len(), wide), 0);
        payloads.extend_from_slice(&codes);
        lengths.push(payloads.len() - before);
        blocks.push(BlockMeta {
            min: rows.iter().map(|row| row.len() as i64).sum(),
            max: rows.iter().map(|row| row.len() as i64).max().unwrap_or(0),
            offset: 0,
            len: 0,
            crc32c: 0,
            lane_bits: if wide { 32 } else { 16 },
            width: 0,
            rows: rows.len() as u16,
        });
    }
    Assembly {
        column,
        group,
        rows: texts.len(),
        encoding: Encoding::Text,
        unit: 1,
        side: &symbols(&compressor),
        blocks,
        payloads: &payloads,
        lengths: &lengths,
    }
    .finish()
}

/// The side table.
fn symbols(compressor: &Compressor) -> Vec<u8> {
    let (symbols, lengths) = (compressor.symbol_table(), compressor.symbol_lengths());
    let mut side = (symbols.len() as u32).to_le_bytes().to_vec();
    side.extend_from_slice(lengths);
    side.resize(side.len().next_multiple_of(8), 0);
    side.extend(
        symbols
            .iter()
            .flat_map(|symbol| symbol.to_u64().to_le_bytes()),
    );
    side
}
