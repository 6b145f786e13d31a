//! The record layer of TLS: a handshake message may end in another record than it begins in.

use super::super::Reading;
use super::super::bytes::Bytes;
use super::{CLIENT_HELLO, SERVER_HELLO};

/// A handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// [`CLIENT_HELLO`] or [`SERVER_HELLO`].
    pub kind: u8,
    /// What is behind type and length.
    pub body: &'a [u8],
    /// The message's length as it states it: more than the body if the stream ended before.
    pub len: usize,
    /// True for the hello of SSL 2 that asks for a later version (RFC 5246, E.2): its body has another form.
    pub is_ssl2: bool,
}

const HANDSHAKE: u8 = 22;
/// A record's header: type, version, length.
const RECORD: usize = 5;
/// A message's header: type, length.
const HEADER: usize = 4;
/// A record's length: that of plaintext, and a ClientHello is never encrypted (RFC 8446, 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;
/// Longer hellos are none: what can be in one is far shorter.
const MESSAGE_BYTES_MAX: usize = 1 << 17;

/// The first handshake message of a stream, if it is a hello.
///
/// The message is borrowed from the stream if one record holds it, else put together in `scratch`. With `is_over` the stream gets no
/// longer, and a message whose end is missing comes as far as it goes.
pub fn message<'a>(
    stream: &'a [u8],
    is_over: bool,
    scratch: &'a mut Vec<u8>,
) -> Reading<Message<'a>> {
    let partial = |wanted: usize| Reading::Partial { wanted };
    match stream.first() {
        None if is_over => return Reading::Foreign,
        None => return partial(RECORD + HEADER),
        Some(&HANDSHAKE) => {}
        Some(0x80..) => return ssl2(stream, is_over),
        Some(_) => return Reading::Foreign,
    }
    let Some(start) = stream.get(..RECORD + HEADER) else {
        let is_version = |at: usize, max: u8| stream.get(at).is_none_or(|byte| *byte <= max);
        let is_likely = stream.get(1).is_none_or(|byte| *byte == 3) && is_version(2, 4);
        return match is_likely && !is_over {
            true => partial(RECORD + HEADER),
            false => Reading::Foreign,
        };
    };
    let Some(record_len) = record_len(start) else {
        return Reading::Foreign;
    };
    // A header that is split over records is rare and legal.
    if record_len >= HEADER {
        let Some((kind, len)) = header(&start[RECORD..]) else {
            return Reading::Foreign;
        };
        if HEADER + len <= record_len {
            let end = RECORD + HEADER + len;
            if stream.len() < end && !is_over {
                return partial(end);
            }
            let body = &stream[RECORD + HEADER..end.min(stream.len())];
            return Reading::Whole(Message {
                kind,
                body,
                len,
                is_ssl2: false,
            });
        }
    }
    over_records(stream, is_over, scratch)
}

/// A message that one record does not hold.
fn over_records<'a>(
    stream: &[u8],
    is_over: bool,
    scratch: &'a mut Vec<u8>,
) -> Reading<Message<'a>> {
    scratch.clear();
    let mut at = 0;
    let wanted = loop {
        let Some(start) = stream[at..].get(..RECORD) else {
            break at + RECORD;
        };
        let Some(record_len) = record_len(start) else {
            // An alert, or noise: the message ends here.
            return cut(scratch);
        };
        at += RECORD;
        let end = (at + record_len).min(stream.len());
        scratch.extend_from_slice(&stream[at..end]);
        let whole = match scratch.get(..HEADER) {
            Some(bytes) => match header(bytes) {
                Some((_, len)) => Some(HEADER + len),
                None => return Reading::Foreign,
            },
            None => None,
        };
        if let Some(whole) = whole.filter(|whole| scratch.len() >= *whole) {
            scratch.truncate(whole);
            return cut(scratch);
        }
        if end - at < record_len {
            // As much of this record as the message takes, and the next one's header if it takes more.
            let here = scratch.len() - (end - at);
            let needed = whole.unwrap_or(HEADER) - here;
            let beyond = if needed > record_len { RECORD } else { 0 };
            break at + needed.min(record_len) + beyond;
        }
        at = end;
    };
    match is_over {
        true => cut(scratch),
        false => Reading::Partial { wanted },
    }
}

/// What `scratch` holds of a message.
fn cut(scratch: &[u8]) -> Reading<Message<'_>> {
    match scratch.get(..HEADER).and_then(header) {
        Some((kind, len)) => Reading::Whole(Message {
            kind,
            body: &scratch[HEADER..],
            len,
            is_ssl2: false,
        }),
        None => Reading::Foreign,
    }
}

/// The length of a handshake record, by its header.
fn record_len(start: &[u8]) -> Option<usize> {
    let mut bytes = Bytes(start);
    let (kind, version) = (bytes.u8()?, bytes.u16()?);
    let len = usize::from(bytes.u16()?);
    let is_record = kind == HANDSHAKE && (0x0300..=0x0304).contains(&version);
    (is_record && (1..=RECORD_BYTES_MAX).contains(&len)).then_some(len)
}

/// Type and length of a hello, by a message's header.
fn header(start: &[u8]) -> Option<(u8, usize)> {
    let mut bytes = Bytes(start);
    let (kind, len) = (bytes.u8()?, bytes.u24()? as usize);
    let is_hello = matches!(kind, CLIENT_HELLO | SERVER_HELLO);
    // A version, a random number and a length at least.
    (is_hello && (35..=MESSAGE_BYTES_MAX).contains(&len)).then_some((kind, len))
}

/// A ClientHello of SSL 2: two bytes of length, the type, a version, three lengths.
fn ssl2(stream: &[u8], is_over: bool) -> Reading<Message<'_>> {
    const START: usize = 11;
    let Some(start) = stream.get(..START) else {
        let is_likely = stream.get(2).is_none_or(|kind| *kind == CLIENT_HELLO)
            && stream.get(3).is_none_or(|major| matches!(major, 0 | 3));
        return match is_likely && !is_over {
            true => Reading::Partial { wanted: START },
            false => Reading::Foreign,
        };
    };
    let number = |at: usize| usize::from(start[at]) << 8 | usize::from(start[at + 1]);
    let len = number(0) & 0x7fff;
    let (version, ciphers, session, challenge) = (number(3), number(5), number(7), number(9));
    let is_hello = start[2] == CLIENT_HELLO
        && matches!(version, 0x0002 | 0x0300..=0x0303)
        && ciphers > 0
        && ciphers % 3 == 0
        && matches!(session, 0 | 16)
        && (16..=32).contains(&challenge)
        && len == 9 + ciphers + session + challenge;
    match is_hello {
        true => Reading::Whole(Message {
            kind: CLIENT_HELLO,
            body: &stream[3..stream.len().min(2 + len)],
            len: len - 1,
            is_ssl2: true,
        }),
        false => Reading::Foreign,
    }
}
