//! Large bodies past TCP: the writer's end puts them into a ring of pieces in the memory of the reader's end. Such a transport encrypts nothing.
//! Batches of a pushdown have one, whose writer is the agent; a queue into an operator of another machine has one in each direction.
//!
//! ```text
//! writer                              reader
//! placed(batch, length) ── TCP ──▶    expects as many pieces as that takes
//! piece, piece, …       ─ transport ─▶  takes each when the transport itself says that it is there, never because of what TCP says
//!                       ◀── TCP ──    credit(n): n pieces of the ring are free again
//! ```
//!
//! Who carries pieces is not known here: a transport is made of what both sides bring, [`Connector`] the reader's and [`Acceptor`] the
//! writer's, and what these say to each other passes through a request of the service unread. If they do not
//! come together everything stays on TCP, and [`Transport`] has the reason. A transport that breaks later ends the connection: a sweep
//! must not change its transport without a word.
//!
//! **Trust.** Whoever may write to the ring may do so at any time, also after a piece was announced. So a piece is copied out
//! before any of it is looked at, and batches are checked in full in memory that nobody else reaches, as those from the socket
//! are. The copy costs what the one out of the socket does, and gives the room back at once: a reader that keeps its batches
//! never runs out of ring. Lengths are checked against what was announced, credits against what was given.
//!
//! **Waiting** is bounded on both sides. The writer waits for credits as it waits for a socket that takes nothing; the reader for
//! a piece [`PATIENCE`] at most, and looks meanwhile whether the transport and the writer are still there.

pub(crate) mod pieces;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Bodies up to here stay on TCP: they are there with their header, in one packet or a few.
pub const INLINE_BYTES_MAX: usize = 4096;
/// Most memory of the writer's end of one transport.
pub const TRANSPORT_BYTES_MAX: usize = 4 << 20;
/// The time that a piece that was announced may take to arrive.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The number of pieces that it holds; at least one.
    pub pieces: u32,
    /// Bytes of a piece; at least one. The last piece of a body may be shorter.
    pub piece_bytes: usize,
}

/// The reason why a transport carries nothing more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// The writer's end of a transport.
pub trait BodyWriter: fmt::Debug + Send {
    /// The reader's ring.
    fn ring(&self) -> Ring;

    /// Writes the ring's next piece: these parts, one after another. The caller has seen to it that there is room. Returns
    /// as soon as the parts may change again.
    ///
    /// # Errors
    /// The transport is broken.
    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Broken>;

    /// How many pieces that were written are not known to have arrived. Does not wait.
    ///
    /// # Errors
    /// The transport is broken.
    fn in_flight(&mut self) -> Result<u32, Broken>;
}

/// The reader's end of a transport.
pub trait BodyReader: fmt::Debug + Send {
    /// The ring.
    fn ring(&self) -> Ring;

    /// Bytes of the next piece, at most [`Ring::piece_bytes`], once all of it is there. Does not wait.
    ///
    /// # Errors
    /// The transport is broken, or something came that does not belong.
    fn arrived(&mut self) -> Result<Option<usize>, Broken>;

    /// Copies bytes of the piece that has arrived, from `at` on.
    fn copy(&self, at: usize, into: &mut [u8]);

    /// Makes room where the piece was that has arrived.
    ///
    /// # Errors
    /// The transport is broken.
    fn release(&mut self) -> Result<(), Broken>;

    /// Checks whether anything can still arrive; asked now and then while nothing does.
    ///
    /// # Errors
    /// The transport is broken.
    fn check(&mut self) -> Result<(), Broken>;

    /// The file that is readable when a piece has arrived since [`BodyReader::arm`]. `None` if there is none: pieces are then looked for
    /// now and then.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Has the file tell of the next piece; of one that has arrived by now it need not tell.
    ///
    /// # Errors
    /// The transport is broken.
    fn arm(&mut self) -> Result<(), Broken> {
        Ok(())
    }
}

/// The reader's part of opening a transport.
pub trait Connector: fmt::Debug + Send + Sync {
    /// Makes a ring, and says in words for the writer's [`Acceptor`] where it is.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    fn offer(&self) -> Result<(Vec<u8>, Box<dyn Offer>), String>;
}

/// A ring that was offered.
pub trait Offer {
    /// Opens it for whom the answer names.
    ///
    /// # Errors
    /// Why not.
    fn open(self: Box<Self>, answer: &[u8]) -> Result<Connected, String>;
}

/// A connected transport, seen from the reader.
#[derive(Debug)]
pub struct Connected {
    /// The reader's end.
    pub reader: Box<dyn BodyReader>,
    /// The device that carries it: `rdma/mlx5_0`.
    pub name: String,
    /// The stand-in for hardware on either side, if there is one.
    pub emulated_by: Option<String>,
}

/// The writer's part of opening a transport.
pub trait Acceptor: fmt::Debug + Send + Sync {
    /// The end of a transport to the ring that was offered, and the answer to it. Nobody has checked the offer. The end holds at most
    /// [`TRANSPORT_BYTES_MAX`] of memory.
    ///
    /// # Errors
    /// Why not, for the reader to be told.
    fn accept(&self, offer: &[u8]) -> Result<(Vec<u8>, Box<dyn BodyWriter>), String>;
}

/// What an end brings to a transport in both directions.
pub trait Duplex: Connector + Acceptor {}

impl<T: Connector + Acceptor> Duplex for T {}

/// The transport of a client's large bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// With everything else.
    Tcp {
        /// The reason, if another transport was asked for.
        fallback: Option<String>,
    },
    /// Written into the client's ring.
    Ring {
        /// The device that carries it: `rdma/mlx5_0`.
        name: String,
        /// The stand-in for hardware, if there is one.
        emulated_by: Option<String>,
    },
}

impl Transport {
    /// The transport's name in records.
    pub fn name(&self) -> &str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Ring { name, .. } => name,
        }
    }

    /// The reason why it is not the transport that was asked for.
    pub fn fallback(&self) -> Option<&str> {
        match self {
            Self::Tcp { fallback } => fallback.as_deref(),
            Self::Ring { .. } => None,
        }
    }

    /// The stand-in for hardware, if there is one.
    pub fn emulated_by(&self) -> Option<&str> {
        match self {
            Self::Tcp { .. } => None,
            Self::Ring { emulated_by, .. } => emulated_by.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests;
