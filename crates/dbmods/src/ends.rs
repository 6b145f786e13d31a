//! The way in which failures end a request: the same for a scan here, at an agent, and at several.

use serde::{Deserialize, Serialize};

/// The end that a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ends {
    /// The request makes no sense, or cannot be computed.
    Usage,
    /// Something that the request needs is not there.
    Unavailable,
    /// A signal asked to end.
    Interrupted,
    /// The work broke, or something is damaged.
    Broken,
}
