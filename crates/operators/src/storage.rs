//! Operators that stored data needs.

#[cfg(all(test, feature = "deflate"))]
mod c;
#[cfg(feature = "crc")]
pub mod crc64;
#[cfg(feature = "deflate")]
pub mod deflate;
#[cfg(feature = "erasure")]
pub mod erasure;
#[cfg(feature = "huffman")]
pub mod huffman;
#[cfg(feature = "lz4")]
pub mod lz4;
#[cfg(feature = "huffman")]
mod prefix_code;
#[cfg(any(feature = "lz4", feature = "snappy"))]
mod repeats;
#[cfg(feature = "snappy")]
pub mod snappy;
#[cfg(any(
    feature = "deflate",
    feature = "huffman",
    feature = "lz4",
    feature = "snappy"
))]
mod streams;
#[cfg(feature = "hashes")]
pub mod xxh3;

use dpb_core::{Batch, BatchOut, JobError};

/// Runs `code` on each item and its slot, and notes each outcome.
#[allow(dead_code, reason = "the formats that use it are features")]
fn each(
    batch: Batch<'_>,
    out: BatchOut<'_>,
    mut code: impl FnMut(&[u8], &mut [u8]) -> Result<usize, JobError>,
) {
    out.each_outcome(batch, |item, slot| {
        // A slot longer than 4 GiB can hold more than an outcome can say; nothing here makes one.
        code(item, slot).and_then(|len| u32::try_from(len).map_err(|_| JobError::TooLong))
    });
}

/// The version in the name of the file of a library that is loaded, as in `2.0.30` of `libisal.so.2.0.30`: for libraries that do not say
/// theirs. `start` is the name up to it.
#[cfg(feature = "deflate")]
fn version_of_loaded(start: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let version = maps.lines().find_map(|line| {
        let (_, file) = line.rsplit_once('/')?;
        file.strip_prefix(start)
    });
    version.unwrap_or("of unknown version").to_owned()
}

/// A slot that fills from the front; each format adds its own ways to write.
#[allow(dead_code, reason = "the formats that use it are features")]
struct Out<'a> {
    slot: &'a mut [u8],
    len: usize,
}

#[allow(dead_code, reason = "as above")]
impl<'a> Out<'a> {
    fn new(slot: &'a mut [u8]) -> Self {
        Self { slot, len: 0 }
    }

    /// Appends `bytes`, all of them or none.
    fn push(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        let room = self.slot[self.len..].get_mut(..bytes.len());
        room.ok_or(JobError::DstTooShort)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }
}
