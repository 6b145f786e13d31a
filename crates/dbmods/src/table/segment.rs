//! A segment file: one table, columnar, written once, checked whenever it is read.
//!
//! All numbers are little endian. Chunks ([`crate::table::chunk`]) follow the header row group by row group, in each
//! column by column, with nothing between them; the footer follows the last chunk and ends the file.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `DPBSEGMT` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | length of the footer, at most 256 MiB |
//! | 16 | 8 | offset of the footer; with its length: the end of the file |
//! | 24 | 4 | CRC-32C of the footer |
//! | 28 | 32 | zero |
//! | 60 | 4 | CRC-32C of the bytes before |
//! | 64 | | chunks, then the footer |
//!
//! The footer:
//!
//! | bytes | what |
//! |---|---|
//! | 2 + n | length of the table's name, and the name, UTF-8 |
//! | 2 | columns |
//! | per column: 1, 1, 1 | type (0 INTEGER, 1 BIGINT, 2 DECIMAL, 3 DATE, 4 TEXT), precision, scale (zero but for DECIMAL) |
//! | per column: 2 + n | length of its name, and the name |
//! | 8 | rows |
//! | 4 | row groups of 1 to 65,536 rows |
//! | per row group: 4 | rows |
//! | per row group, per column: 8, 4 | the chunk's offset and length; a chunk has at most 64 MiB |
//! | 1 | its encoding, as in the chunk |
//! | 8, 8 | zone map: smallest and largest value; dictionary: position; text: 0 and the longest row's bytes |
//!
//! The header is checked by its checksum, the footer by the header's, each chunk as its page says. So each bit of a file is
//! under a checksum or must be zero, and [`Segment::open`] checks that the parts lie end to end.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::schema::{Column, ColumnType, Schema};
use crate::table::arena;
use crate::table::cache::{Cache, FileId, Key};
use crate::table::chunk::{self, Chunk, ChunkError, Encoding, GROUP_ROWS};

mod writer;
pub use writer::{Finished, SegmentWriter};
pub(crate) use writer::{sync_parent, temporary_name};

/// Format version that this code writes and reads.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"DPBSEGMT";
const HEADER_BYTES: usize = 64;
/// Longest footer: of row groups by the hundred thousand, of sixteen columns each.
const FOOTER_BYTES_MAX: u32 = 256 << 20;
/// A column's type and the length of its name.
const COLUMN_BYTES_MIN: usize = 3 + 2;
/// Bytes of a chunk's entry in a footer.
const CHUNK_META_BYTES: usize = 8 + 4 + 1 + 8 + 8;

/// An open segment file. Shared by threads.
#[derive(Debug)]
pub struct Segment {
    file: File,
    path: PathBuf,
    id: FileId,
    footer: Footer,
}

/// What a footer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Table and columns.
    pub schema: Schema,
    /// Rows of the table.
    pub rows: u64,
    /// The row groups, in order.
    pub groups: Vec<GroupMeta>,
}

/// A row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMeta {
    /// Rows, 1 to 65,536.
    pub rows: u32,
    /// One chunk a column.
    pub chunks: Vec<ChunkMeta>,
}

/// The place of a chunk and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMeta {
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// The encoding of its payloads.
    pub encoding: Encoding,
    /// Smallest value; 0 for text and dictionaries.
    pub min: i64,
    /// Largest value; last position of a dictionary that occurs; the longest row's bytes for text.
    pub max: i64,
}

/// The reason why a segment cannot be read.
#[derive(Debug)]
pub enum SegmentError {
    /// The operating system says so.
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file's header or footer is wrong.
    File {
        /// The file.
        path: PathBuf,
        /// `header` or `footer`, and what is wrong.
        what: String,
    },
    /// A chunk is wrong. None of its rows was returned.
    Chunk {
        /// The file.
        path: PathBuf,
        /// The row group.
        group: usize,
        /// The column's name.
        column: String,
        /// The damaged part of the chunk, and the damage.
        source: ChunkError,
    },
}

impl Segment {
    /// Opens a file and checks header and footer.
    ///
    /// # Errors
    /// If it cannot be read, is no segment, of another version, truncated, or damaged in header or footer.
    pub fn open(path: &Path) -> Result<Self, SegmentError> {
        let io = |source| SegmentError::Io {
            path: path.to_owned(),
            source,
        };
        let wrong = |what: String| SegmentError::File {
            path: path.to_owned(),
            what,
        };
        let file = open_regular(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let mut header = [0; HEADER_BYTES];
        if metadata.len() < HEADER_BYTES as u64 {
            return Err(wrong(format!(
                "no segment: {} bytes are too short for one",
                metadata.len()
            )));
        }
        file.read_exact_at(&mut header, 0).map_err(io)?;
        let place = FooterPlace::parse(&header, metadata.len()).map_err(wrong)?;
        let mut footer = vec![0; place.len as usize];
        file.read_exact_at(&mut footer, place.offset).map_err(io)?;
        if crc_fast::crc32_iscsi(&footer) != place.crc32c {
            return Err(wrong("footer: checksum".to_owned()));
        }
        let footer = Footer::parse(&footer, place.offset)
            .map_err(|what| wrong(format!("footer: {what}")))?;
        let id = FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed_ns: metadata.mtime() as i128 * 1_000_000_000 + metadata.mtime_nsec() as i128,
            crc32c: place.crc32c,
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            id,
            footer,
        })
    }

    /// Table and columns.
    pub fn schema(&self) -> &Schema {
        &self.footer.schema
    }

    /// Rows of the table.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// The row groups.
    pub fn groups(&self) -> &[GroupMeta] {
        &self.footer.groups
    }

    /// A text that tells it from other segments: table, rows, and the checksum of the footer, in which every chunk has its own.
    pub fn identity(&self) -> String {
        let (table, rows) = (&self.schema().table, self.rows());
        format!("{table}, {rows} rows, crc32c {:08x}", self.id.crc32c)
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// The open file, to send it whole.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A verified chunk, from the cache or through it.
    ///
    /// # Errors
    /// If it cannot be read or is damaged; the error names file, column, row group and block.
    ///
    /// # Panics
    /// If there is no such row group or column.
    pub fn chunk(
        &self,
        group: usize,
        column: usize,
        cache: &Cache,
    ) -> Result<Arc<Chunk>, SegmentError> {
        let key = Key {
            file: self.id,
            group: group as u32,
            column: column as u32,
        };
        cache.load(key, || self.read_chunk(group, column))
    }

    /// A verified chunk, from the file.
    ///
    /// # Errors
    /// As [`Segment::chunk`].
    ///
    /// # Panics
    /// If there is no such row group or column.
    pub fn read_chunk(&self, group: usize, column: usize) -> Result<Chunk, SegmentError> {
        let group_meta = &self.footer.groups[group];
        let meta = &group_meta.chunks[column];
        let io = |source| SegmentError::Io {
            path: self.path.clone(),
            source,
        };
        let mut bytes = arena::buffer(meta.len as usize)
            .ok_or_else(|| io(io::Error::from(io::ErrorKind::OutOfMemory)))?;
        self.file
            .read_exact_at(&mut bytes, meta.offset)
            .map_err(io)?;
        let chunk = Chunk::parse(bytes).and_then(|chunk| {
            let fits = chunk.group() == group
                && chunk.column() == column
                && chunk.rows() == group_meta.rows as usize
                && chunk.encoding() == meta.encoding
                && chunk::zone(chunk.encoding(), chunk.blocks()) == (meta.min, meta.max);
            if fits {
                Ok(chunk)
            } else {
                Err(ChunkError {
                    part: chunk::Part::Header,
                    what: "not the chunk that the footer names".to_owned(),
                })
            }
        });
        chunk.map_err(|source| SegmentError::Chunk {
            path: self.path.clone(),
            group,
            column: self.footer.schema.columns[column].name.clone(),
            source,
        })
    }

    /// Reads and verifies every chunk.
    ///
    /// # Errors
    /// The first damage.
    pub fn verify(&self) -> Result<(), SegmentError> {
        for group in 0..self.footer.groups.len() {
            for column in 0..self.footer.schema.columns.len() {
                self.read_chunk(group, column)?;
            }
        }
        Ok(())
    }

    /// Drops the file from the operating system's page cache, which needs no privilege for clean pages, and its chunks from
    /// `cache`: the next scan is cold.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn make_cold(&self, cache: &Cache) -> Result<(), SegmentError> {
        cache.clear();
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed).map_err(|error| {
            SegmentError::Io {
                path: self.path.clone(),
                source: error.into(),
            }
        })
    }
}

/// Opens a file for reading if it is a regular one: opening a FIFO would wait for who writes to it.
///
/// # Errors
/// Those of the operating system; anything else than a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let without_waiting = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options()
        .read(true)
        .custom_flags(without_waiting)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// Puts magic, version, place and checksums into the header of a file whose footer begins at `footer`, so that tests and
/// fuzzers can forge. Too short a file stays as it is.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn seal(file: &mut [u8], footer: usize) {
    if (HEADER_BYTES..=file.len()).contains(&footer) {
        let place = FooterPlace {
            offset: footer as u64,
            len: (file.len() - footer) as u32,
            crc32c: crc_fast::crc32_iscsi(&file[footer..]),
        };
        file[..HEADER_BYTES].copy_from_slice(&place.to_bytes());
    }
}

/// The place of the footer, as the header has it.
struct FooterPlace {
    offset: u64,
    len: u32,
    crc32c: u32,
}

impl FooterPlace {
    fn parse(header: &[u8; HEADER_BYTES], file_len: u64) -> Result<Self, String> {
        if header[..8] != MAGIC {
            return Err("header: no segment (another magic number)".to_owned());
        }
        let version = chunk::u32_at(header, 8);
        if version != VERSION {
            return Err(format!(
                "header: format version {version}, this dpb reads version {VERSION}"
            ));
        }
        if crc_fast::crc32_iscsi(&header[..60]) != chunk::u32_at(header, 60) {
            return Err("header: checksum".to_owned());
        }
        if header[28..60].iter().any(|&byte| byte != 0) {
            return Err("header: not zero where it must be".to_owned());
        }
        let place = Self {
            offset: chunk::u64_at(header, 16),
            len: chunk::u32_at(header, 12),
            crc32c: chunk::u32_at(header, 24),
        };
        if place.len > FOOTER_BYTES_MAX {
            return Err(format!(
                "header: a footer of {} bytes; at most {FOOTER_BYTES_MAX} are possible",
                place.len
            ));
        }
        let end = place.offset.saturating_add(place.len as u64);
        if end != file_len || place.offset < HEADER_BYTES as u64 {
            return Err(format!(
                "header: the file has {file_len} bytes, not {end}; it is cut off or something was appended"
            ));
        }
        Ok(place)
    }

    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.crc32c.to_le_bytes());
        let crc = crc_fast::crc32_iscsi(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

impl Footer {
    /// `end`: where the last chunk must end.
    fn parse(bytes: &[u8], end: u64) -> Result<Self, String> {
        let mut from = Bytes(bytes);
        let table = from.name()?;
        let count = from.number::<2>()? as usize;
        let mut columns = Vec::with_capacity(from.at_most(count, COLUMN_BYTES_MIN));
        for _ in 0..count {
            let ty = from.column_type()?;
            let name = from.name()?;
            columns.push(Column { name, ty });
        }
        let rows = from.number::<8>()?;
        let group_count = from.number::<4>()? as usize;
        let group_bytes = 4 + CHUNK_META_BYTES * columns.len();
        let mut groups = Vec::with_capacity(from.at_most(group_count, group_bytes));
        let (mut at, mut sum) = (HEADER_BYTES as u64, 0u64);
        for i in 0..group_count {
            let rows = from.number::<4>()? as u32;
            if !(1..=GROUP_ROWS).contains(&(rows as usize)) {
                return Err(format!("row group {i} has {rows} rows"));
            }
            sum += rows as u64;
            let mut chunks = Vec::with_capacity(columns.len());
            for column in &columns {
                let meta = from.chunk_meta(column.ty)?;
                let wrong = |what| Err(format!("row group {i}, column {}: {what}", column.name));
                if meta.offset != at {
                    return wrong("lies elsewhere".to_owned());
                }
                if meta.len as usize > chunk::CHUNK_BYTES_MAX {
                    let most = chunk::CHUNK_BYTES_MAX;
                    return wrong(format!(
                        "has {} bytes; at most {most} are possible",
                        meta.len
                    ));
                }
                at += meta.len as u64;
                chunks.push(meta);
            }
            groups.push(GroupMeta { rows, chunks });
        }
        if !from.0.is_empty() || at != end || sum != rows || columns.is_empty() {
            return Err("its parts do not add up".to_owned());
        }
        let schema = Schema { table, columns };
        Ok(Self {
            schema,
            rows,
            groups,
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_name(&mut bytes, &self.schema.table);
        bytes.extend_from_slice(&(self.schema.columns.len() as u16).to_le_bytes());
        for column in &self.schema.columns {
            bytes.extend_from_slice(&match column.ty {
                ColumnType::Integer => [0, 0, 0],
                ColumnType::BigInt => [1, 0, 0],
                ColumnType::Decimal { precision, scale } => [2, precision, scale],
                ColumnType::Date => [3, 0, 0],
                ColumnType::Text => [4, 0, 0],
            });
            put_name(&mut bytes, &column.name);
        }
        bytes.extend_from_slice(&self.rows.to_le_bytes());
        bytes.extend_from_slice(&(self.groups.len() as u32).to_le_bytes());
        for group in &self.groups {
            bytes.extend_from_slice(&group.rows.to_le_bytes());
            for chunk in &group.chunks {
                bytes.extend_from_slice(&chunk.offset.to_le_bytes());
                bytes.extend_from_slice(&chunk.len.to_le_bytes());
                bytes.push(chunk.encoding as u8);
                bytes.extend_from_slice(&chunk.min.to_le_bytes());
                bytes.extend_from_slice(&chunk.max.to_le_bytes());
            }
        }
        bytes
    }
}

fn put_name(bytes: &mut Vec<u8>, name: &str) {
    let len = u16::try_from(name.len()).expect("names are short");
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
}

/// The rest of a footer.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("too short")?;
        self.0 = rest;
        Ok(taken)
    }

    /// How many of `count` entries there can be, of at least so many bytes each: no more memory is taken before they are read.
    fn at_most(&self, count: usize, entry_bytes: usize) -> usize {
        count.min(self.0.len() / entry_bytes)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, String> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(self.take(N)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn name(&mut self) -> Result<String, String> {
        let len = self.number::<2>()? as usize;
        let bytes = self.take(len)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| "a name is not UTF-8".to_owned())
    }

    fn column_type(&mut self) -> Result<ColumnType, String> {
        let bytes = self.take(3)?;
        Ok(match *bytes {
            [0, 0, 0] => ColumnType::Integer,
            [1, 0, 0] => ColumnType::BigInt,
            [2, precision @ 1..=18, scale] if scale <= precision => {
                ColumnType::Decimal { precision, scale }
            }
            [3, 0, 0] => ColumnType::Date,
            [4, 0, 0] => ColumnType::Text,
            _ => return Err("no such type".to_owned()),
        })
    }

    fn chunk_meta(&mut self, ty: ColumnType) -> Result<ChunkMeta, String> {
        let offset = self.number::<8>()?;
        let len = self.number::<4>()? as u32;
        let encoding = match (self.number::<1>()?, ty) {
            (1, ColumnType::Text) => Encoding::Dictionary,
            (2, ColumnType::Text) => Encoding::Text,
            (0, ty) if ty != ColumnType::Text => Encoding::Numbers,
            _ => return Err("no such encoding for the column's type".to_owned()),
        };
        let (min, max) = (self.number::<8>()? as i64, self.number::<8>()? as i64);
        let (low, high) = range(ty);
        if min > max || min < low || max > high {
            return Err("a zone map is not of its column's type".to_owned());
        }
        Ok(ChunkMeta {
            offset,
            len,
            encoding,
            min,
            max,
        })
    }
}

/// The values that a column of this type can have.
fn range(ty: ColumnType) -> (i64, i64) {
    match ty {
        ColumnType::Integer | ColumnType::Date => (i32::MIN as i64, i32::MAX as i64),
        ColumnType::BigInt => (i64::MIN, i64::MAX),
        ColumnType::Decimal { precision, .. } => {
            let limit = 10i64.pow(precision as u32) - 1;
            (-limit, limit)
        }
        ColumnType::Text => (0, i64::MAX),
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::File { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Chunk {
                path,
                group,
                column,
                source,
            } => {
                write!(
                    f,
                    "{}: column {column}, row group {group}, {source}",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::File { .. } => None,
            Self::Chunk { source, .. } => Some(source),
        }
    }
}

#[cfg(test)]
mod tests;
