//! Memory for large bodies, used again.

use arrow_buffer::{Buffer, MutableBuffer};
use dpb_link::{Header, Link, LinkError};

/// The step by which memory for bodies grows, bytes.
const STEP: usize = 256 << 10;

/// Memory that a body had and nobody holds any more.
#[derive(Default)]
pub(super) struct Spare(MutableBuffer);

impl Spare {
    /// The body of a frame whose header was read, in memory that [`Spare::give_back`] has returned, if it is long enough. The
    /// buffer may be longer than the body; slice it.
    ///
    /// # Errors
    /// As [`Link::receive_body`].
    pub(super) fn receive(&mut self, link: &mut Link, header: Header) -> Result<Buffer, LinkError> {
        let mut body = std::mem::take(&mut self.0);
        // Never cut to the body's length, so that it is cleared once and not for every frame.
        if body.len() < header.len {
            body = MutableBuffer::from_len_zeroed(header.len.next_multiple_of(STEP));
        }
        link.receive_exact(&mut body[..header.len])?;
        Ok(body.into())
    }

    /// Takes a buffer of [`Spare::receive`] back, to be used again, if nobody else holds a part of it.
    pub(super) fn give_back(&mut self, buffer: Buffer) {
        if let Ok(bytes) = buffer.into_mutable() {
            self.0 = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use dpb_core::WallClock;
    use dpb_link::Stream;

    use super::*;
    use crate::service::protocol::{TAGS, Tag};

    #[test]
    fn a_large_body_reuses_memory_that_came_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let link = |tcp| {
            let clock = Arc::new(WallClock::default());
            let mut link = Link::new(Stream::Plain(tcp), 0, clock).unwrap();
            link.set_tags(TAGS);
            link
        };
        let (mut near, mut far) = (link(near), link(listener.accept().unwrap().0));
        near.send(Tag::Reply, &[1; 1000]).unwrap();
        near.send(Tag::Reply, &[2; 10]).unwrap();
        near.send(Tag::Reply, &[3; 10]).unwrap();
        let mut spare = Spare::default();
        let mut next = || {
            let header = far.receive_header().unwrap().unwrap();
            let body = spare.receive(&mut far, header).unwrap();
            let at = body.as_ptr();
            spare.give_back(body.clone());
            (at, body.slice_with_length(0, header.len))
        };
        let (first_at, first) = next();
        assert_eq!(first.as_slice(), [1; 1000]);
        // Still held above: not reused.
        let (second_at, second) = next();
        assert_ne!(first_at, second_at);
        assert_eq!(second.as_slice(), [2; 10]);
        drop((first, second));
        let header = far.receive_header().unwrap().unwrap();
        let third = spare.receive(&mut far, header).unwrap();
        let third_at = third.as_ptr();
        assert_eq!(third[..10], [3; 10]);
        spare.give_back(third);
        near.send(Tag::Reply, &[4; 20]).unwrap();
        let header = far.receive_header().unwrap().unwrap();
        assert_eq!(spare.receive(&mut far, header).unwrap().as_ptr(), third_at);
    }
}
