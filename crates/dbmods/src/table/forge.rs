//! Chunks and segments that look whole and are not, for tests and fuzzers.

use super::{Values, chunk, segment};
use crate::table::encode;

/// Bytes of a chunk's header.
pub const HEADER_BYTES: usize = chunk::HEADER_BYTES;

/// The bytes of the chunk of one column of one row group.
///
/// # Panics
/// If there are no values, too many, or too long ones.
pub fn encode(column: u16, group: u32, values: &Values) -> Vec<u8> {
    encode::encode(column, group, values).bytes
}

/// Puts right checksums into a chunk.
pub fn seal_chunk(bytes: &mut [u8]) {
    chunk::seal(bytes);
}

/// Puts a right header into a segment whose footer begins at `footer`. Too short a file stays as it is.
pub fn seal_segment(file: &mut [u8], footer: usize) {
    segment::seal(file, footer);
}
