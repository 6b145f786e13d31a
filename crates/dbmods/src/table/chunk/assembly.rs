//! Puts a chunk together; the other way round than parsing it.

use std::ops::Range;

use super::{
    ALIGN, BlockMeta, CHUNK_BYTES_MAX, CRC_AT, Encoding, HEADER_BYTES, MAGIC, META_BYTES,
    TAIL_BYTES, u32_at, zone,
};

/// The checksum that the header carries: of the header with that field zero, the directory and the side table.
pub(super) fn checksum(bytes: &[u8], directory_end: usize, side: &Range<usize>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..CRC_AT]);
    digest.update(&[0; 4]);
    digest.update(&bytes[CRC_AT + 4..directory_end]);
    digest.update(&bytes[side.clone()]);
    digest.finalize() as u32
}

/// Puts the right checksums into a chunk that is whole but for them. Of bytes that are no chunk it seals what lies inside
/// them, so that tests and fuzzers can forge.
pub(crate) fn seal(bytes: &mut [u8]) {
    let len = bytes.len();
    if len < HEADER_BYTES {
        return;
    }
    let blocks = (u32_at(bytes, 16) as usize).min((len - HEADER_BYTES) / META_BYTES);
    let directory_end = HEADER_BYTES + META_BYTES * blocks;
    for at in (HEADER_BYTES..directory_end).step_by(META_BYTES) {
        let payload = BlockMeta::from_bytes(&bytes[at..at + META_BYTES]).range();
        if let Some(payload) = bytes.get(payload) {
            let crc = crc_fast::crc32_iscsi(payload);
            bytes[at + 24..at + 28].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let start = u32_at(bytes, 20) as usize;
    let side = start..start + u32_at(bytes, 24) as usize;
    if side.end <= len {
        let crc = checksum(bytes, directory_end, &side);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A chunk ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedChunk {
    /// The bytes that [`crate::table::chunk::Chunk::parse`] takes.
    pub bytes: Vec<u8>,
    /// The number of rows.
    pub rows: usize,
    /// The encoding of the payloads.
    pub encoding: Encoding,
    /// Smallest value, as in a segment's footer.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

/// Puts a chunk together; the other way round than [`Chunk::parse`].
pub(crate) struct Assembly<'a> {
    pub(crate) column: u16,
    pub(crate) group: u32,
    pub(crate) rows: usize,
    pub(crate) encoding: Encoding,
    pub(crate) unit: i64,
    /// Empty for numbers.
    pub(crate) side: &'a [u8],
    /// Offset, length and checksum are not filled in yet.
    pub(crate) blocks: Vec<BlockMeta>,
    /// All payloads, each with its length.
    pub(crate) payloads: &'a [u8],
    pub(crate) lengths: &'a [usize],
}

impl Assembly<'_> {
    /// The chunk.
    ///
    /// # Panics
    /// If it is longer than [`CHUNK_BYTES_MAX`].
    pub(crate) fn finish(mut self) -> EncodedChunk {
        let directory_end = HEADER_BYTES + META_BYTES * self.blocks.len();
        let side_at = directory_end.next_multiple_of(ALIGN);
        let mut bytes = vec![0; directory_end];
        let mut side = 0..0;
        if !self.side.is_empty() {
            bytes.resize(side_at, 0);
            bytes.extend_from_slice(self.side);
            side = side_at..bytes.len();
        }
        let mut payloads = self.payloads;
        for (meta, &len) in self.blocks.iter_mut().zip(self.lengths) {
            let (payload, rest) = payloads.split_at(len);
            payloads = rest;
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
            meta.offset = bytes.len() as u32;
            meta.len = len as u32;
            bytes.extend_from_slice(payload);
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGN) + TAIL_BYTES, 0);
        assert!(
            bytes.len() <= CHUNK_BYTES_MAX,
            "a chunk of {} bytes",
            bytes.len()
        );
        for (i, meta) in self.blocks.iter().enumerate() {
            let at = HEADER_BYTES + META_BYTES * i;
            bytes[at..at + META_BYTES].copy_from_slice(&meta.to_bytes());
        }
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(4, &self.column.to_le_bytes());
        put(6, &[self.encoding as u8]);
        put(8, &self.group.to_le_bytes());
        put(12, &(self.rows as u32).to_le_bytes());
        put(16, &(self.blocks.len() as u32).to_le_bytes());
        put(20, &(side.start as u32).to_le_bytes());
        put(24, &(side.len() as u32).to_le_bytes());
        put(32, &self.unit.to_le_bytes());
        let len = bytes.len() as u32;
        bytes[28..32].copy_from_slice(&len.to_le_bytes());
        seal(&mut bytes);
        let (min, max) = zone(self.encoding, &self.blocks);
        EncodedChunk {
            bytes,
            rows: self.rows,
            encoding: self.encoding,
            min,
            max,
        }
    }
}
