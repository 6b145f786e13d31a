//! Writes a segment under a temporary name and gives it its own when it is whole and on disk.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};

use super::{ChunkMeta, Footer, FooterPlace, GroupMeta, HEADER_BYTES, Segment};
use crate::schema::Schema;
use crate::table::encode::{self, EncodedChunk, Values};

/// A file that is whole and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC-32C of the whole file.
    pub crc32c: u32,
}

/// A segment file in the making. Dropped before [`SegmentWriter::finish`], it leaves nothing.
pub struct SegmentWriter {
    file: File,
    path: PathBuf,
    temporary: Option<PathBuf>,
    at: u64,
    footer: Footer,
    /// The checksum of all that follows the header.
    digest: Digest,
}

impl Segment {
    /// A segment of one row group, in a file that is gone when the segment is.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn temporary(schema: Schema, columns: &[Values]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(&schema.table);
        let mut writer = SegmentWriter::create(&path, schema)?;
        writer.write_group(columns)?;
        writer.finish()?;
        Self::open(&path).map_err(io::Error::other)
    }
}

impl SegmentWriter {
    /// Starts the file that will be `path`.
    ///
    /// # Errors
    /// If the temporary file beside it cannot be made.
    ///
    /// # Panics
    /// If `path` ends in no file name.
    pub fn create(path: &Path, schema: Schema) -> io::Result<Self> {
        let temporary = temporary_name(path);
        let mut writer = Self {
            file: File::create(&temporary)?,
            path: path.to_owned(),
            temporary: Some(temporary),
            at: HEADER_BYTES as u64,
            footer: Footer {
                schema,
                rows: 0,
                groups: Vec::new(),
            },
            digest: Digest::new(CrcAlgorithm::Crc32Iscsi),
        };
        // If this fails, dropping the writer removes the file.
        writer.file.write_all(&[0; HEADER_BYTES])?;
        Ok(writer)
    }

    /// Encodes and appends a row group: one list of values a column.
    ///
    /// # Errors
    /// If it cannot be written.
    ///
    /// # Panics
    /// As [`SegmentWriter::append`].
    pub fn write_group(&mut self, columns: &[Values]) -> io::Result<()> {
        let group = self.footer.groups.len() as u32;
        let encode = |(i, values)| encode::encode(i as u16, group, values);
        let chunks: Vec<EncodedChunk> = columns.iter().enumerate().map(encode).collect();
        self.append(&chunks)
    }

    /// Appends a row group that was encoded elsewhere, as the next in order.
    ///
    /// # Errors
    /// If it cannot be written.
    ///
    /// # Panics
    /// If it is not one chunk a column, all of the same rows.
    pub fn append(&mut self, chunks: &[EncodedChunk]) -> io::Result<()> {
        let rows = chunks[0].rows;
        assert_eq!(
            chunks.len(),
            self.footer.schema.columns.len(),
            "one chunk a column"
        );
        assert!(
            chunks.iter().all(|chunk| chunk.rows == rows),
            "chunks of the same rows"
        );
        let mut metas = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            self.file.write_all(&chunk.bytes)?;
            self.digest.update(&chunk.bytes);
            metas.push(ChunkMeta {
                offset: self.at,
                len: chunk.bytes.len() as u32,
                encoding: chunk.encoding,
                min: chunk.min,
                max: chunk.max,
            });
            self.at += chunk.bytes.len() as u64;
        }
        self.footer.rows += rows as u64;
        self.footer.groups.push(GroupMeta {
            rows: rows as u32,
            chunks: metas,
        });
        Ok(())
    }

    /// Ends the file, brings it to disk and gives it its name.
    ///
    /// # Errors
    /// If any of that fails; nothing is left then.
    pub fn finish(mut self) -> io::Result<Finished> {
        let footer = self.footer.to_bytes();
        self.file.write_all(&footer)?;
        self.digest.update(&footer);
        let place = FooterPlace {
            offset: self.at,
            len: footer.len() as u32,
            crc32c: crc_fast::crc32_iscsi(&footer),
        };
        self.file.seek(SeekFrom::Start(0))?;
        let header = place.to_bytes();
        self.file.write_all(&header)?;
        self.file.sync_all()?;
        let temporary = self
            .temporary
            .as_ref()
            .expect("set until the file has its name");
        fs::rename(temporary, &self.path)?;
        self.temporary = None;
        sync_parent(&self.path)?;
        let bytes = self.at + footer.len() as u64;
        let (header, rest) = (
            crc_fast::crc32_iscsi(&header) as u64,
            self.digest.finalize(),
        );
        let rest_bytes = bytes - HEADER_BYTES as u64;
        let crc = crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, header, rest, rest_bytes);
        Ok(Finished {
            rows: self.footer.rows,
            bytes,
            crc32c: crc as u32,
        })
    }
}

impl fmt::Debug for SegmentWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SegmentWriter({}, {} bytes)",
            self.path.display(),
            self.at
        )
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // A file that cannot be removed now is removed by the next generation.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// `.NAME.PID.tmp` beside `path`.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().expect("a file name").to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

/// Makes a rename durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
