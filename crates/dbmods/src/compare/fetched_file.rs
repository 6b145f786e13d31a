//! The place where a fetched file lands.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::MemfdFlags;

/// Where a fetched file lands: a file in memory without a name, gone with this process however it ends. It is written
/// over and over, so that its pages are there from the second run on.
#[derive(Debug)]
pub(crate) struct FetchedFile {
    file: File,
}

impl FetchedFile {
    pub(crate) fn new() -> io::Result<Self> {
        let fd: OwnedFd = rustix::fs::memfd_create("dpb-fetch", MemfdFlags::CLOEXEC)?;
        Ok(Self { file: fd.into() })
    }

    pub(crate) fn rewound(&mut self) -> io::Result<&mut File> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(&mut self.file)
    }

    /// Bytes of memory that the file takes.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.file.flush()?;
        self.file.set_len(bytes)
    }

    /// A path that this process can open it by.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}
