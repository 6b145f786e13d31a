//! How failures end whoever asked, one way for a scan here, at an agent, and at several.

use serde::{Deserialize, Serialize};

/// The end that a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ends {
    /// What was asked for makes no sense, or cannot be computed.
    Usage,
    /// What it takes is not there.
    Unavailable,
    /// A signal asked to end.
    Interrupted,
    /// The work broke, or something is damaged.
    Broken,
}
