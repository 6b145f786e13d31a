//! Bodies of control frames: values by serde, in postcard's format.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LinkError;

/// The body of a control frame.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages hold nothing that postcard cannot write")
}

/// Decodes the body of a control frame, to its last byte.
///
/// # Errors
/// [`LinkError::Malformed`] or [`LinkError::TrailingBytes`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, LinkError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(LinkError::TrailingBytes(rest.len())),
        Err(_) => Err(LinkError::Malformed("a message's body")),
    }
}
