//! Tags of frames: those of the session, and how a service declares its own.

/// The client's first frame.
pub const HELLO: u8 = 1;
/// Opens a service; the client's frame after the welcome.
pub const OPEN: u8 = 2;
/// Ends early what the agent is doing; the service says what that is.
pub const STOP: u8 = 3;
/// Gives pieces of the client's ring back, see [`crate::bulk`].
pub const CREDIT: u8 = 4;
/// The agent's first frame.
pub const WELCOME: u8 = 129;
/// The service is open.
pub const OPENED: u8 = 130;
/// An error, in place of any answer.
pub const ERROR: u8 = 135;
/// Announces a body that another transport carries, see [`crate::bulk`].
pub const PLACED: u8 = 136;

/// The tags of a service. Those below 16, and from 128 to 143, are the session's and are never asked for.
#[derive(Clone, Copy, Debug)]
pub struct Tags {
    /// Most bytes of a body with this tag; `None` for a tag that the service does not have.
    pub body_bytes_max: fn(u8) -> Option<usize>,
    /// Whether long bodies with this tag may go past TCP, see [`crate::bulk`].
    pub is_bulk: fn(u8) -> bool,
}

impl Tags {
    /// No tags but the session's.
    pub const NONE: Self = Self {
        body_bytes_max: |_| None,
        is_bulk: |_| false,
    };

    /// Most bytes of a body with this tag, the session's tags included; `None` if there is no such tag.
    pub fn body_bytes_max(&self, tag: u8) -> Option<usize> {
        match tag {
            HELLO => Some(1 << 10),
            OPEN => Some(64),
            OPENED => Some(2),
            STOP => Some(0),
            CREDIT => Some(4),
            WELCOME => Some(80 << 10),
            ERROR => Some(64 << 10),
            PLACED => Some(8),
            _ if is_of_session(tag) => None,
            _ => (self.body_bytes_max)(tag),
        }
    }

    /// Returns true if long bodies with this tag may go past TCP.
    pub fn is_bulk(&self, tag: u8) -> bool {
        !is_of_session(tag) && (self.is_bulk)(tag)
    }
}

/// Returns true for tags that no service may have.
pub fn is_of_session(tag: u8) -> bool {
    matches!(tag, 0..=15 | 128..=143)
}
