//! A file that is read from its start, and errors that say where it ended.

use std::io::{self, Read};

/// A file, and how far it is read.
#[derive(Debug)]
pub(super) struct Input<R> {
    pub(super) file: R,
    pub(super) at: u64,
}

impl<R: Read> Input<R> {
    /// The next bytes, all of them.
    pub(super) fn fill(&mut self, room: &mut [u8], inside: &str) -> io::Result<()> {
        let start = self.at;
        self.file
            .read_exact(room)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    let why =
                        format!("the file ends inside {inside} (which begins before byte {start})");
                    io::Error::new(io::ErrorKind::UnexpectedEof, why)
                }
                _ => error,
            })?;
        self.at += room.len() as u64;
        Ok(())
    }

    /// The next `N` bytes.
    pub(super) fn take<const N: usize>(&mut self, inside: &str) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, inside)?;
        Ok(bytes)
    }

    /// The next `N` bytes, or none if the file ends before them.
    pub(super) fn take_or_end<const N: usize>(
        &mut self,
        inside: &str,
    ) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        let first = loop {
            match self.file.read(&mut bytes[..1]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                first => break first?,
            }
        };
        // An end is an end only between packets.
        if first == 0 {
            return Ok(None);
        }
        self.at += 1;
        self.fill(&mut bytes[1..], inside)?;
        Ok(Some(bytes))
    }

    /// Passes bytes over.
    pub(super) fn pass(&mut self, bytes: u32, inside: &str) -> io::Result<()> {
        let mut room = [0; 512];
        let mut left = bytes as usize;
        while left > 0 {
            let part = left.min(room.len());
            self.fill(&mut room[..part], inside)?;
            left -= part;
        }
        Ok(())
    }
}
