//! The protocol of the service `index`: an index that a client makes at an agent, and bursts of requests to it.
//!
//! | tag | sent by | body | most bytes |
//! |---|---|---|---|
//! | 16 request | client | a [`Request`] (postcard) | 8 KiB |
//! | 17 burst | client | a [burst](super::burst) | 64 MiB |
//! | 144 reply | agent | a [`Reply`] (postcard) | 8 KiB |
//! | 145 outcome | agent | the burst's [outcome](super::burst) | 64 MiB |
//!
//! **Conversation.** A connection makes an index or joins one. The agent answers each frame in order, so a client may send bursts before it has what came
//! of those before. It must then have room for the outcomes: an agent whose outcome is not taken reads nothing more. An error frame answers a frame that
//! failed; the connection goes on, unless the frame was not understood.
//!
//! **Life.** An index lives as long as a connection to it does. Its data are gone then, whatever its engine.

use serde::{Deserialize, Serialize};

use dpb_link::Tags;

use super::burst::BURST_BYTES_MAX;
use super::kind::{EngineKind, Plan};

/// The service's name.
pub const NAME: &str = "index";
/// The version of its protocol.
pub const VERSION: u16 = 1;
/// The tags of its frames.
pub const TAGS: Tags = Tags {
    body_bytes_max: |tag| match tag {
        REQUEST | REPLY => Some(8 << 10),
        BURST | OUTCOME => Some(BURST_BYTES_MAX),
        _ => None,
    },
    is_bulk: |_| false,
};

/// A question.
pub const REQUEST: u8 = 16;
/// A burst of requests to the index.
pub const BURST: u8 = 17;
/// The answer to a question.
pub const REPLY: u8 = 144;
/// What came of a burst.
pub const OUTCOME: u8 = 145;

/// A question to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes an index. The connection has joined it then.
    Make(Plan),
    /// Joins an index that another connection made.
    Join(IndexId),
    /// What the index holds, and what the agent's process used.
    Usage,
    /// Takes the keys of a range away, at most so many, as one transaction.
    DeleteRange {
        /// The first key.
        start: Vec<u8>,
        /// The key behind the last one; `None` for all keys from the first on.
        end: Option<Vec<u8>>,
        /// Keys at most.
        limit: u32,
    },
    /// Brings what was committed to the disk.
    Flush,
}

/// An index at an agent. Who knows it may use it, so it is drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IndexId(pub u128);

/// An agent's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Make`] and [`Request::Join`].
    Joined {
        /// The index.
        id: IndexId,
        /// Its engine.
        engine: EngineKind,
        /// Threads that work on bursts at once.
        threads: u32,
    },
    /// To [`Request::Usage`].
    Usage(RemoteUsage),
    /// To [`Request::DeleteRange`]: keys that were taken away.
    Deleted(u32),
    /// To [`Request::Flush`].
    Flushed,
}

/// What an index at an agent holds, and what the agent's process has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteUsage {
    /// Keys with a value.
    pub keys: u64,
    /// Bytes of the index.
    pub bytes: u64,
    /// The newest committed state.
    pub state: u64,
    /// Processor time of the process, nanoseconds, user and system.
    pub cpu_ns: u64,
    /// Bursts that were carried out for the index.
    pub bursts: u64,
    /// Requests of these.
    pub requests: u64,
}
