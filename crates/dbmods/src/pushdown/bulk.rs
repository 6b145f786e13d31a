//! Large bodies past TCP: the agent writes them into a ring of pieces in the client's memory.
//!
//! ```text
//! agent                               client
//! placed(batch, length) ── TCP ──▶    expects as many pieces as that takes
//! piece, piece, …       ─ the way ─▶  takes each when the way itself says that it is there, never because of what TCP says
//!                       ◀── TCP ──    credit(n): n pieces of the ring are free again
//! ```
//!
//! Who carries pieces is not known here: a way is made of what both sides bring, [`Offers`] the client and [`Accepts`] the
//! agent, and what these say to each other passes through [`Request::Bulk`](super::wire::Request::Bulk) unread. If they do not
//! come together everything stays on TCP, and [`Way`] has the reason. A way that breaks later ends the connection: a sweep
//! must not change its transport without a word.
//!
//! **Trust.** Whoever may write to the ring may do so at any time, also after a piece was announced. So a piece is copied out
//! before any of it is looked at, and batches are checked in full in memory that nobody else reaches, as those from the socket
//! are. The copy costs what the one out of the socket does, and gives the room back at once: a client that keeps its batches
//! never runs out of ring. Lengths are checked against what was announced, credits against what was given.
//!
//! **Waiting** is bounded on both sides. The agent waits for credits as it waits for a socket that takes nothing; the client for
//! a piece [`PATIENCE`] at most, and looks meanwhile whether the way and the agent are still there.

use std::fmt;
use std::time::Duration;

/// Bodies up to here stay on TCP: they are there with their header, in one packet or a few.
pub const INLINE_BYTES_MAX: usize = 4096;
/// How long a piece that was announced may take to arrive.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// How many pieces it holds; at least one.
    pub pieces: u32,
    /// Bytes of a piece; at least one. The last piece of a body may be shorter.
    pub piece_bytes: usize,
}

/// Why a way carries nothing more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// The agent's end of a way.
pub trait Writer: fmt::Debug + Send {
    /// The client's ring.
    fn ring(&self) -> Ring;

    /// Writes the ring's next piece: these parts, one after another. The caller has seen to it that there is room. Returns
    /// as soon as the parts may change again.
    ///
    /// # Errors
    /// The way is broken.
    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Broken>;

    /// How many pieces that were written are not known to have arrived. Does not wait.
    ///
    /// # Errors
    /// The way is broken.
    fn under_way(&mut self) -> Result<u32, Broken>;
}

/// The client's end of a way.
pub trait Reader: fmt::Debug + Send {
    /// The ring.
    fn ring(&self) -> Ring;

    /// Bytes of the next piece, at most [`Ring::piece_bytes`], once all of it is there. Does not wait.
    ///
    /// # Errors
    /// The way is broken, or something came that does not belong.
    fn arrived(&mut self) -> Result<Option<usize>, Broken>;

    /// Copies bytes of the piece that has arrived, from `at` on.
    fn copy(&self, at: usize, into: &mut [u8]);

    /// Makes room where the piece was that has arrived.
    ///
    /// # Errors
    /// The way is broken.
    fn release(&mut self) -> Result<(), Broken>;

    /// Whether anything can still arrive; asked now and then while nothing does.
    ///
    /// # Errors
    /// The way is broken.
    fn check(&mut self) -> Result<(), Broken>;
}

/// What the client brings.
pub trait Offers: fmt::Debug + Send + Sync {
    /// Makes a ring, and says in words for the agent's [`Accepts`] where it is.
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
    fn open(self: Box<Self>, answer: &[u8]) -> Result<Opened, String>;
}

/// A way, seen from the client.
#[derive(Debug)]
pub struct Opened {
    /// Its end.
    pub reader: Box<dyn Reader>,
    /// What carries it: `rdma/mlx5_0`.
    pub name: String,
    /// What stands in for hardware on either side, if something does.
    pub emulated_by: Option<String>,
}

/// What the agent brings.
pub trait Accepts: fmt::Debug + Send + Sync {
    /// The end of a way to the ring that was offered, and the answer to it. Nobody has checked the offer. The end holds at most
    /// [`super::serve::WAY_BYTES_MAX`] of memory.
    ///
    /// # Errors
    /// Why not, for the client to be told.
    fn accept(&self, offer: &[u8]) -> Result<(Vec<u8>, Box<dyn Writer>), String>;
}

/// Which way a client's large bodies come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// With everything else.
    Tcp {
        /// Why, if another way was asked for.
        fallback: Option<String>,
    },
    /// Written into the client's ring.
    Ring {
        /// What carries it: `rdma/mlx5_0`.
        name: String,
        /// What stands in for hardware, if something does.
        emulated_by: Option<String>,
    },
}

impl Way {
    /// The way's name in records.
    pub fn name(&self) -> &str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Ring { name, .. } => name,
        }
    }

    /// Why it is not the way that was asked for.
    pub fn fallback(&self) -> Option<&str> {
        match self {
            Self::Tcp { fallback } => fallback.as_deref(),
            Self::Ring { .. } => None,
        }
    }

    /// What stands in for hardware, if something does.
    pub fn emulated_by(&self) -> Option<&str> {
        match self {
            Self::Tcp { .. } => None,
            Self::Ring { emulated_by, .. } => emulated_by.as_deref(),
        }
    }
}
