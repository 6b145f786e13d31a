//! Frames that may stand in an Initial packet (RFC 9000, 12.4 and 19).

use super::super::bytes::Bytes;
use super::header::variable;

/// A frame that a reader of hellos wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Bytes of the handshake, from this place.
    Crypto {
        /// Their place in the stream of the handshake.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The connection is given up.
    Close,
}

/// The frames of a packet; PADDING, PING and ACK are passed over. It ends at the first frame that may not be there.
#[derive(Clone, Debug)]
pub struct Frames<'a>(Bytes<'a>);

impl<'a> Frames<'a> {
    /// Those in `plain`.
    pub fn new(plain: &'a [u8]) -> Self {
        Self(Bytes(plain))
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let Self(bytes) = self;
        loop {
            // Most of a client's packet is padding.
            let padding = bytes.0.iter().take_while(|byte| **byte == 0).count();
            bytes.take(padding)?;
            match variable(bytes)? {
                0x01 => {}
                kind @ (0x02 | 0x03) => acknowledgement(bytes, kind == 0x03)?,
                0x06 => {
                    let offset = variable(bytes)?;
                    let len = usize::try_from(variable(bytes)?).ok()?;
                    let bytes = bytes.take(len)?;
                    return Some(Frame::Crypto { offset, bytes });
                }
                0x1c | 0x1d => {
                    *bytes = Bytes(&[]);
                    return Some(Frame::Close);
                }
                _ => {
                    *bytes = Bytes(&[]);
                    return None;
                }
            }
        }
    }
}

fn acknowledgement(bytes: &mut Bytes<'_>, has_counts: bool) -> Option<()> {
    let (_largest, _delay) = (variable(bytes)?, variable(bytes)?);
    let ranges = variable(bytes)?;
    let _first = variable(bytes)?;
    for _ in 0..ranges {
        let (_gap, _len) = (variable(bytes)?, variable(bytes)?);
    }
    if has_counts {
        for _ in 0..3 {
            variable(bytes)?;
        }
    }
    Some(())
}
