//! What goes wrong between two simulators.

use std::io;
use std::time::Duration;

use super::intro::IntroError;

/// The reason why a link was not made, or cannot go on.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the system failed.
    #[error("{action}: {source}")]
    System {
        /// The action that the call was a part of.
        action: String,
        /// The system's own words.
        source: io::Error,
    },
    /// The socket's path is longer than a Unix socket's address holds.
    #[error("the socket's path has {bytes} bytes, more than 107: {path}")]
    PathTooLong {
        /// The path.
        path: String,
        /// Its length.
        bytes: usize,
    },
    /// The socket's path names no file.
    #[error("not the path of a socket: {0:?}")]
    NotAPath(String),
    /// Nothing came in time.
    #[error("{awaited} did not come within {} s", waited.as_secs_f64())]
    Timeout {
        /// The thing that was waited for.
        awaited: String,
        /// The time that was given.
        waited: Duration,
    },
    /// The peer closed the socket before its intro had come.
    #[error("the peer closed the socket before it had sent its intro")]
    ClosedBeforeIntro,
    /// The peer's intro is not one of this protocol.
    #[error("the peer's intro: {0}")]
    Intro(#[from] IntroError),
    /// The listener's intro came with another number of files than one.
    #[error("the listener's intro came with {0} files, not with 1, its memory's")]
    Files(usize),
    /// A parameter of this side is out of range.
    #[error("{0}")]
    Parameter(String),
    /// The peer requires synchronisation, and this side has it disabled.
    #[error("the peer requires synchronisation, which this side has disabled")]
    SyncForced,
    /// This side requires synchronisation, and the peer does not offer it.
    #[error("this side requires synchronisation, which the peer does not offer")]
    SyncNotOffered,
    /// The peer has ended without TERMINATE, and everything that it had sent before was delivered.
    #[error("the peer closed its socket without having sent TERMINATE")]
    PeerGone,
    /// Bytes came on the socket after the intros.
    #[error("the peer sent bytes on the socket after its intro")]
    BytesOnSocket,
    /// The peer has cut off the memory that both share.
    #[error("the shared memory has {bytes} bytes now, and had {bytes_before}")]
    MemoryShrunk {
        /// Bytes now.
        bytes: u64,
        /// Bytes at the handshake.
        bytes_before: u64,
    },
    /// The peer sent a type of message that Ethernet does not have.
    #[error(
        "slot {slot} holds a message of type {message_type:#04x}, which Ethernet does not have"
    )]
    MessageType {
        /// The type.
        message_type: u8,
        /// The slot of the ring.
        slot: usize,
    },
    /// The peer sent a frame that is longer than a slot.
    #[error("slot {slot} holds a frame of {bytes} bytes, and at most {bytes_max} fit")]
    FrameLength {
        /// Bytes that the message claims.
        bytes: usize,
        /// Bytes that fit.
        bytes_max: usize,
        /// The slot of the ring.
        slot: usize,
    },
    /// The peer broke its promise that nothing older follows.
    #[error("slot {slot} holds a message of {timestamp_ps} ps after one of {before_ps} ps")]
    TimestampDecreased {
        /// The later message's time.
        timestamp_ps: u64,
        /// The time of the message before it.
        before_ps: u64,
        /// The slot of the ring.
        slot: usize,
    },
    /// The caller sends at an earlier time than before, in a synchronised link.
    #[error("a message sent at {now_ps} ps after one sent at {before_ps} ps")]
    SentBack {
        /// The time of the call.
        now_ps: u64,
        /// The time of the call before it.
        before_ps: u64,
    },
    /// The time of arrival is beyond the end of time.
    #[error("a message sent at {now_ps} ps arrives after the last time that there is")]
    TimeOverflow {
        /// The time of the call.
        now_ps: u64,
    },
    /// The caller sends after [`terminate`](super::Endpoint::terminate).
    #[error("a message sent after TERMINATE")]
    AfterTerminate,
}

impl Error {
    /// The error of a call by which this program wanted to do `action`.
    pub(super) fn system(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System {
            action: action.into(),
            source: source.into(),
        }
    }
}
