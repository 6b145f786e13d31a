//! Bodies as pieces of a ring: what each end keeps count of, whoever carries the pieces.

use std::os::fd::BorrowedFd;

use super::{BodyReader, BodyWriter, Broken};

/// The end that sends.
#[derive(Debug)]
pub(crate) struct Outgoing {
    writer: Box<dyn BodyWriter>,
    /// Pieces of the ring that are free.
    free: u32,
    bytes: u64,
}

/// The end that receives.
#[derive(Debug)]
pub(crate) struct Incoming {
    reader: Box<dyn BodyReader>,
    /// Bytes of the body that was announced which were not taken yet.
    left: usize,
    /// Bytes of the piece that has arrived, and how many of them were taken.
    piece: Option<usize>,
    at: usize,
    /// Pieces that are free and the sender does not know of.
    owed: u32,
    bytes: u64,
}

impl Outgoing {
    /// # Panics
    /// If the ring is none: it has no pieces, or no bytes in them.
    pub(crate) fn new(writer: Box<dyn BodyWriter>) -> Self {
        let ring = writer.ring();
        assert!(ring.pieces > 0 && ring.piece_bytes > 0, "as a ring is");
        Self {
            free: ring.pieces,
            writer,
            bytes: 0,
        }
    }

    pub(crate) fn piece_bytes(&self) -> usize {
        self.writer.ring().piece_bytes
    }

    /// True if the receiver has room for a piece.
    pub(crate) fn has_room(&self) -> bool {
        self.free > 0
    }

    /// True if a piece can be written without waiting: the receiver has room, and so has the writer, which may not yet know of what has
    /// arrived.
    pub(crate) fn has_place(&mut self) -> Result<bool, Broken> {
        Ok(self.has_room() && self.in_flight()? < self.writer.ring().pieces)
    }

    /// Writes the next piece, of `len` bytes: these parts, one after another. The caller has seen to it that there is room.
    pub(crate) fn write(&mut self, parts: &[&[u8]], len: usize) -> Result<(), Broken> {
        self.writer.write(parts)?;
        self.free -= 1;
        self.bytes += len as u64;
        Ok(())
    }

    /// Pieces that are not known to have arrived.
    pub(crate) fn in_flight(&mut self) -> Result<u32, Broken> {
        self.writer.in_flight()
    }

    /// Counts the room that the receiver gives back. `false` if that is more than was taken.
    pub(crate) fn take_credit(&mut self, pieces: u32) -> bool {
        let free = self.free.checked_add(pieces);
        let free = free.filter(|&free| free <= self.writer.ring().pieces);
        self.free = free.unwrap_or(self.free);
        free.is_some()
    }

    /// Bytes that were written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Incoming {
    pub(crate) fn new(reader: Box<dyn BodyReader>) -> Self {
        Self {
            reader,
            left: 0,
            piece: None,
            at: 0,
            owed: 0,
            bytes: 0,
        }
    }

    /// A body of `len` bytes was announced. `false` if the one before it was not taken.
    pub(crate) fn expect(&mut self, len: usize) -> bool {
        let is_next = self.left == 0;
        if is_next {
            self.left = len;
        }
        is_next
    }

    /// Bytes of the body that was announced which were not taken yet.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// True if there are bytes to take.
    pub(crate) fn has_piece(&mut self) -> Result<bool, Broken> {
        if self.piece.is_some() {
            return Ok(true);
        }
        let Some(len) = self.reader.arrived()? else {
            return Ok(false);
        };
        let due = self.left.min(self.reader.ring().piece_bytes);
        if len != due {
            let text = format!("{len} bytes arrived where {due} were due");
            return Err(Broken(text));
        }
        (self.piece, self.at) = (Some(len), 0);
        Ok(true)
    }

    /// Copies what there is of the next piece, as far as there is room; says how much. Does not wait.
    pub(crate) fn take(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let len = match self.has_piece()? {
            true => self.piece.unwrap_or_default(),
            false => return Ok(0),
        };
        let count = into.len().min(len - self.at);
        self.reader.copy(self.at, &mut into[..count]);
        self.at += count;
        self.left -= count;
        self.bytes += count as u64;
        if self.at == len {
            self.reader.release()?;
            self.piece = None;
            self.owed += 1;
        }
        Ok(count)
    }

    /// Pieces to be given back, once they are worth a message: not for each, but before the sender runs out of room.
    pub(crate) fn credit(&mut self) -> Option<u32> {
        let worth_telling = (self.reader.ring().pieces / 4).max(1);
        (self.owed >= worth_telling).then(|| std::mem::take(&mut self.owed))
    }

    /// True if anything can still arrive.
    pub(crate) fn check(&mut self) -> Result<(), Broken> {
        self.reader.check()
    }

    /// As [`BodyReader::file`].
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.reader.file()
    }

    /// As [`BodyReader::arm`].
    pub(crate) fn arm(&mut self) -> Result<(), Broken> {
        self.reader.arm()
    }

    /// Bytes that were taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
