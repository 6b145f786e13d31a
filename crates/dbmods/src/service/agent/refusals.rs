//! What an agent tells a client that it refuses.
use dpb_link::{LinkError, Refusal};

use crate::table::segment::SegmentError;

/// A refusal with its words.
pub(super) fn refuse(refusal: Refusal, text: impl Into<String>) -> LinkError {
    LinkError::Refused {
        refusal,
        text: text.into(),
    }
}

/// The refusal for a damaged file.
pub(super) fn damaged(error: &SegmentError) -> LinkError {
    refuse(Refusal::Damaged, error.to_string())
}

/// The refusal for a request that the agent's own end cuts short.
pub(super) fn ending() -> LinkError {
    refuse(Refusal::Unavailable, "the agent is ending")
}
