//! What an agent tells a client that it refuses.

use crate::service::protocol::{Refusal, WireError};
use crate::table::segment::SegmentError;

/// A refusal with its words.
pub(super) fn refuse(refusal: Refusal, text: impl Into<String>) -> WireError {
    WireError::Refused {
        refusal,
        text: text.into(),
    }
}

/// The refusal for a damaged file.
pub(super) fn damaged(error: &SegmentError) -> WireError {
    refuse(Refusal::Damaged, error.to_string())
}

/// The refusal for a request that the agent's own end cuts short.
pub(super) fn ending() -> WireError {
    refuse(Refusal::Unavailable, "the agent is ending")
}
