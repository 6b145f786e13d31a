//! Tables on disk and in memory: a [`Segment`] is a file of one table, cut into row groups; a [`Chunk`] is one column of one
//! row group, and the unit that is read, verified and kept by the [`Cache`]. [`BatchWriter`] makes a segment of Arrow's record
//! batches, [`SegmentWriter`] of plain values.

pub(crate) mod arena;
mod batches;
pub(crate) mod cache;
pub(crate) mod chunk;
pub(crate) mod encode;
pub(crate) mod pack;
pub(crate) mod segment;
mod text;
pub(crate) mod values;

pub use batches::{BatchWriter, WriteError};
pub use cache::{Cache, CacheStats};
pub use chunk::{BlockMeta, Chunk, ChunkError, Encoding, Part};
pub use segment::{
    ChunkMeta, Finished, GroupMeta, Segment, SegmentError, SegmentWriter, open_regular,
};
pub use values::{Texts, Values};

#[cfg(feature = "testing")]
pub mod forge;
