//! Frames of an answer.

use crate::service::link::Link;
use crate::service::protocol::{self, Header, Reply, Tag, WireError};

/// The next frame's header; an error frame becomes its error.
pub(super) fn next(link: &mut Link) -> Result<Header, WireError> {
    let header = link.receive_header()?.ok_or(WireError::Closed)?;
    if header.tag == Tag::Error {
        let body = link.receive_body(header)?;
        return Err(protocol::parse_refusal(&body));
    }
    Ok(header)
}

/// The one reply to a request.
pub(super) fn answer(link: &mut Link) -> Result<Reply, WireError> {
    let header = expect(link, Tag::Reply)?;
    protocol::decode(&link.receive_body(header)?)
}

pub(super) fn expect(link: &mut Link, tag: Tag) -> Result<Header, WireError> {
    let header = next(link)?;
    if header.tag == tag {
        Ok(header)
    } else {
        Err(WireError::OutOfPlace(header.tag))
    }
}
