//! Why a conversation could not go on, and what is said of it on the wire.

use std::error::Error;
use std::io;

use dpb_core::printable;

use crate::VERSION;
use crate::tag::{ERROR, Tags};

/// Characters of a refusal that are kept: it is for a person, on one line.
const REFUSAL_CHARS_MAX: usize = 2000;

/// The reason why a connection could not go on, or a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
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
    /// The peer's session is of another version.
    #[error(
        "the peer speaks version {theirs} of the protocol, this dpb version {VERSION}: install the same dpb on both sides"
    )]
    Version {
        /// The peer's.
        theirs: u16,
    },
    /// No encrypted connection came about, or one broke.
    #[error("{0}")]
    Tls(String),
    /// No such tag.
    #[error("unknown frame tag {0}")]
    UnknownTag(u8),
    /// A known tag where it has no place.
    #[error("a frame with tag {0} out of place")]
    OutOfPlace(u8),
    /// A length beyond the tag's bound.
    #[error("a frame with tag {tag} of {len} bytes; at most {max} are allowed")]
    TooLong {
        /// The tag.
        tag: u8,
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
    /// A body that its service does not understand.
    #[error(transparent)]
    Body(Box<dyn Error + Send + Sync>),
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

impl LinkError {
    /// A refusal with its words.
    pub fn refused(refusal: Refusal, text: impl Into<String>) -> Self {
        Self::Refused {
            refusal,
            text: text.into(),
        }
    }

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
            Self::Tls(_) => Some(Refusal::Credentials),
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
    /// What was asked for is not here: no data, no such service.
    Unavailable = 5,
    /// Too many connections or requests at once; come back.
    Busy = 6,
    /// A stored file is damaged.
    Damaged = 7,
    /// The agent broke.
    Internal = 8,
    /// One side encrypts and the other does not, or the certificate is not the expected one; the connection ends.
    Credentials = 9,
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
            9 => Self::Credentials,
            _ => Self::Protocol,
        }
    }

    /// The code in words, for a refusal that has none.
    fn meaning(self) -> &'static str {
        match self {
            Self::Protocol => "it did not understand the conversation",
            Self::Version => "it speaks another version",
            Self::Token => "the token is wrong or missing",
            Self::Usage => "what was asked for is wrong",
            Self::Unavailable => "what was asked for is not there",
            Self::Busy => "it has too many connections or requests",
            Self::Damaged => "a file there is damaged",
            Self::Internal => "it broke",
            Self::Credentials => "encryption or certificate are not the expected ones",
        }
    }
}

/// The body of an error frame: the code, then the text, cut to the frame's bound.
pub fn refusal_bytes(refusal: Refusal, text: &str) -> Vec<u8> {
    let bytes_max = Tags::NONE.body_bytes_max(ERROR).unwrap_or_default();
    let text = cut(text, bytes_max - 2);
    let mut body = (refusal as u16).to_le_bytes().to_vec();
    body.extend_from_slice(text.as_bytes());
    body
}

/// The front of `text` that fits into `bytes_max` bytes, cut between two characters.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Reads the body of an error frame; its text may be printed as it is then.
pub fn parse_refusal(body: &[u8]) -> LinkError {
    match body.split_first_chunk::<2>() {
        Some((code, text)) => {
            let text = String::from_utf8_lossy(text);
            // An error message without a word would tell a person nothing.
            let refusal = Refusal::of(u16::from_le_bytes(*code));
            let text = match text.trim() {
                "" => format!("the agent refused: {}", refusal.meaning()),
                _ => printable(&text, REFUSAL_CHARS_MAX),
            };
            LinkError::Refused { refusal, text }
        }
        None => LinkError::Torn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_carry_their_code_and_text() {
        for refusal in [
            Refusal::Protocol,
            Refusal::Version,
            Refusal::Token,
            Refusal::Usage,
            Refusal::Unavailable,
            Refusal::Busy,
            Refusal::Damaged,
            Refusal::Internal,
            Refusal::Credentials,
        ] {
            let error = parse_refusal(&refusal_bytes(refusal, "why"));
            assert_eq!(error.refusal(), Some(refusal));
            assert_eq!(error.to_string(), "why");
        }
        for silent in ["", " \n"] {
            let error = parse_refusal(&refusal_bytes(Refusal::Busy, silent));
            assert_eq!(
                error.to_string(),
                "the agent refused: it has too many connections or requests"
            );
        }
        let long = "ö".repeat(40_000);
        assert!(refusal_bytes(Refusal::Usage, &long).len() <= 64 << 10);
    }

    #[test]
    fn words_of_a_peer_reach_nobody_raw() {
        let text = "\u{1b}]0;owned\u{7}\nall is well\u{202e}".to_owned() + &"x".repeat(60_000);
        let said = parse_refusal(&refusal_bytes(Refusal::Damaged, &text)).to_string();
        let is_raw = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!said.contains(is_raw), "{said}");
        assert!(said.len() < 5000 && said.contains("all is well"), "{said}");
    }
}
