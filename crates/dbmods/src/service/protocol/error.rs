//! Why a conversation could not go on, and what is said of it on the wire.

use std::io;

use dpb_core::printable;

use super::{Tag, VERSION};
use crate::ipc::IpcError;

/// Characters of a refusal that are kept: it is for a person, on one line.
const REFUSAL_CHARS_MAX: usize = 2000;

/// The reason why a connection could not go on, or a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The socket.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer went away between frames, where an answer was due.
    #[error("the peer closed the connection")]
    Closed,
    /// The stream or a body ended too early.
    #[error("the connection ended inside a frame")]
    Torn,
    /// The peer speaks something else.
    #[error("the peer does not speak dpb's protocol")]
    Foreign,
    /// The peer is of another version.
    #[error(
        "the peer speaks version {theirs} of the protocol, this dpb version {VERSION}: install the same dpb on both sides"
    )]
    Version {
        /// The peer's.
        theirs: u16,
    },
    /// No such tag.
    #[error("unknown frame tag {0}")]
    UnknownTag(u8),
    /// A known tag where it has no place.
    #[error("a {0:?} frame out of place")]
    OutOfPlace(Tag),
    /// A length beyond the tag's bound.
    #[error("a {tag:?} frame of {len} bytes; at most {max} are allowed")]
    TooLong {
        /// The tag.
        tag: Tag,
        /// Bytes announced.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A body that does not decode.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// Bytes after the end of a message.
    #[error("{0} bytes after the end of a message")]
    TrailingBytes(usize),
    /// An Arrow message that is not valid.
    #[error(transparent)]
    Arrow(#[from] IpcError),
    /// The transport of large bodies broke, or what came by it was no sense.
    #[error("bulk results did not get through: {0}")]
    Bulk(String),
    /// What the agent says of its data or of itself cannot be, or contradicts what it sent.
    #[error("what the agent says cannot be: {0}")]
    Disbelieved(String),
    /// The agent said no.
    #[error("{text}")]
    Refused {
        /// The agent's code.
        refusal: Refusal,
        /// The agent's words.
        text: String,
    },
}

impl WireError {
    /// What an agent tells a client whose frame gave this error; `None` if nobody is left to hear it.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Io(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                Some(Refusal::Protocol)
            }
            Self::Io(_) | Self::Closed => None,
            Self::Version { .. } => Some(Refusal::Version),
            Self::Refused { refusal, .. } => Some(*refusal),
            Self::Bulk(_) => Some(Refusal::Internal),
            _ => Some(Refusal::Protocol),
        }
    }
}

/// The reason why the agent refused. The numbers are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Refusal {
    /// The frame or the conversation was not understood; the connection ends.
    Protocol = 1,
    /// The agent speaks another version; the connection ends.
    Version = 2,
    /// The token is wrong or missing; the connection ends.
    Token = 3,
    /// What was asked for is wrong: an unknown column, a scale factor below zero.
    Usage = 4,
    /// What was asked for is not here: no data, no DuckDB.
    Unavailable = 5,
    /// Too many connections or scans at once; come back.
    Busy = 6,
    /// A stored file is damaged.
    Damaged = 7,
    /// The agent broke.
    Internal = 8,
}

impl Refusal {
    fn of(code: u16) -> Self {
        match code {
            2 => Self::Version,
            3 => Self::Token,
            4 => Self::Usage,
            5 => Self::Unavailable,
            6 => Self::Busy,
            7 => Self::Damaged,
            8 => Self::Internal,
            _ => Self::Protocol,
        }
    }
}

/// The body of an error frame: the code, then the text, cut to the frame's bound.
pub fn refusal_bytes(refusal: Refusal, text: &str) -> Vec<u8> {
    let text = cut(text, Tag::Error.body_bytes_max() - 2);
    let mut body = (refusal as u16).to_le_bytes().to_vec();
    body.extend_from_slice(text.as_bytes());
    body
}

/// As much of a text as fits into so many bytes.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Reads the body of an error frame; its text may be printed as it is then.
pub fn parse_refusal(body: &[u8]) -> WireError {
    match body.split_first_chunk::<2>() {
        Some((code, text)) => WireError::Refused {
            refusal: Refusal::of(u16::from_le_bytes(*code)),
            text: printable(&String::from_utf8_lossy(text), REFUSAL_CHARS_MAX),
        },
        None => WireError::Torn,
    }
}
