//! Files of records: JSON lines, only ever appended to, that survive a kill at any byte.
//!
//! A record is written with one `write` to a file opened for appending, under a lock. If the process dies in
//! the middle, the file ends in a torn line. Nobody repairs it: the next append begins with a line feed of its own, so the
//! torn bytes stay where they are as one damaged line, every reader reports it by number, and no record after it is touched.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::record::{Record, SCHEMA_VERSION, SCHEMA_VERSION_MIN};

/// Longest file of records that is read.
const READ_BYTES_MAX: u64 = 1 << 30;

/// An open file of records.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    durability: Durability,
}

/// The events that an appended record outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of this process, however sudden.
    Process,
    /// The end of the machine too: each append waits for the disk.
    Machine,
}

/// The content of a file of records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The records, in order.
    pub records: Vec<Line>,
    /// Lines that are none.
    pub damaged: Vec<Damage>,
}

/// A record and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// From 1.
    pub number: usize,
    /// The record.
    pub record: Record,
}

/// A line that holds no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// From 1.
    pub number: usize,
    /// The reason why the line is no record.
    pub reason: String,
}

impl Store {
    /// Opens `path` for appending and makes it, but not its folder, if it is not there.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn open(path: &Path, durability: Durability) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("records file {}: {error}", path.display()),
            )
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(named)?;
        if durability == Durability::Machine {
            // The name too. Some file systems cannot sync a folder; the file is there all the same.
            let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|open| open.sync_all());
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            durability,
        })
    }

    /// Appends one record; when this returns, it outlives what the store's [`Durability`] says.
    ///
    /// # Errors
    /// What the system says, with the path: a full disk, for one. A line torn by the error hurts no other. A record that
    /// JSON cannot hold (a rate that is no number) is refused, and nothing is written.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let json = serde_json::to_vec(record).map_err(io::Error::other)?;
        // JSON writes NaN as null, and the reader would find damage where a record was meant to be.
        if let Some(Err(reason)) = parse(&json) {
            let what = format!("record {} cannot be read back: {reason}", record.id);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.append_line(&json).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("records file {}: {error}", self.path.display()),
            )
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append_line(&mut self, json: &[u8]) -> io::Result<()> {
        self.file.lock()?;
        let written = self.write_after_whole_line(json);
        let unlocked = self.file.unlock();
        written.and(unlocked)
    }

    fn write_after_whole_line(&mut self, json: &[u8]) -> io::Result<()> {
        let mut line = Vec::with_capacity(json.len() + 2);
        if !self.ends_with_whole_line()? {
            line.push(b'\n');
        }
        line.extend_from_slice(json);
        line.push(b'\n');
        self.file.write_all(&line)?;
        match self.durability {
            Durability::Machine => match self.file.sync_data() {
                // fsync(2): a special file that cannot be synchronised, such as /dev/null.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                synced => synced,
            },
            Durability::Process => Ok(()),
        }
    }

    fn ends_with_whole_line(&mut self) -> io::Result<bool> {
        if self.file.seek(SeekFrom::End(0))? == 0 {
            return Ok(true);
        }
        self.file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        self.file.read_exact(&mut last)?;
        Ok(last == [b'\n'])
    }
}

impl Reading {
    /// Reads a file.
    ///
    /// # Errors
    /// What the system says, with the path. Damaged lines are no error.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        match crate::file::read(path, READ_BYTES_MAX) {
            Ok(bytes) => Ok(Self::of_bytes(&bytes)),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("records file {}: {error}", path.display()),
            )),
        }
    }

    /// Reads what a file holds. Blank lines are nothing; any other line is a record or damage.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut reading = Self::default();
        for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let number = at + 1;
            match parse(line.trim_ascii()) {
                None => {}
                Some(Ok(record)) => reading.records.push(Line { number, record }),
                Some(Err(reason)) => reading.damaged.push(Damage { number, reason }),
            }
        }
        reading
    }
}

/// `None` for a blank line.
fn parse(line: &[u8]) -> Option<Result<Record, String>> {
    /// Read first, so that a newer record is called newer, not damaged.
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    if line.is_empty() {
        return None;
    }
    Some(match serde_json::from_slice::<Record>(line) {
        Ok(record) if is_read(record.schema_version) => Ok(record),
        Ok(record) => Err(foreign_version(record.schema_version)),
        Err(error) => Err(match serde_json::from_slice::<Version>(line) {
            Ok(Version { schema_version }) if !is_read(schema_version) => {
                foreign_version(schema_version)
            }
            _ => format!("not a record: {error}"),
        }),
    })
}

fn is_read(version: u32) -> bool {
    (SCHEMA_VERSION_MIN..=SCHEMA_VERSION).contains(&version)
}

fn foreign_version(version: u32) -> String {
    format!(
        "record of schema version {version}; this dpb reads versions {SCHEMA_VERSION_MIN} to {SCHEMA_VERSION}"
    )
}

#[cfg(test)]
mod tests;
