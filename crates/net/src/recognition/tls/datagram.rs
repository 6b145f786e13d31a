//! The records of DTLS (RFC 6347, 4.1; RFC 9147): a handshake message may come in pieces, each in a record of its own.

use super::super::bytes::Bytes;
use super::{CLIENT_HELLO, SERVER_HELLO};

/// A piece of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// [`CLIENT_HELLO`] or [`SERVER_HELLO`].
    pub kind: u8,
    /// The length of the whole message.
    pub len: usize,
    /// The place of this piece in it.
    pub start: usize,
    /// Its bytes.
    pub body: &'a [u8],
    /// The message's number: a hello with a cookie is another one.
    pub number: u16,
}

/// The first record of a datagram, if it holds a hello or a piece of one; and true instead of a piece if it is another record of DTLS
/// that is not encrypted.
pub fn datagram(payload: &[u8]) -> Option<Result<Piece<'_>, bool>> {
    const HANDSHAKE: u8 = 22;
    let mut bytes = Bytes(payload);
    let kind = bytes.u8()?;
    let version = bytes.u16()?;
    // 0x0100 is OpenSSL's number from before the standard.
    if !(20..=25).contains(&kind) || !matches!(version, 0xfeff | 0xfefd | 0xfefc | 0x0100) {
        return None;
    }
    let epoch = bytes.u16()?;
    bytes.take(6)?;
    let mut record = Bytes(bytes.vector_16()?);
    if kind != HANDSHAKE || epoch != 0 {
        return Some(Err(epoch == 0));
    }
    let kind = record.u8()?;
    let len = record.u24()? as usize;
    let number = record.u16()?;
    let start = record.u24()? as usize;
    let piece = record.u24()? as usize;
    let body = record.take(piece)?;
    if !matches!(kind, CLIENT_HELLO | SERVER_HELLO) {
        return Some(Err(true));
    }
    let is_inside = start + piece <= len;
    is_inside.then_some(Ok(Piece {
        kind,
        len,
        start,
        body,
        number,
    }))
}
