//! The start of an HTTP message: of version 1 the request line and the host (RFC 9112), of version 2 the preface of who knows that the server speaks it
//! (RFC 9113, 3.4). SIP and RTSP, whose first lines look alike, are told apart.

use super::Reading;
use super::bytes::agrees;

/// What a first line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// The preface of HTTP/2.
    Http2,
    /// RTSP (RFC 7826).
    Rtsp,
    /// SIP (RFC 3261).
    Sip,
}

/// A request, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What it is a request of.
    pub dialect: Dialect,
    /// The method.
    pub method: &'a [u8],
    /// The target as it stands there.
    pub target: &'a [u8],
    /// Host and port that it is for: of the target if it is in absolute form or the method is CONNECT, which counts more than the header (RFC 9112, 3.2.2),
    /// else of the header `Host`.
    pub host: Option<&'a [u8]>,
    /// The length of request line and headers with the empty line, if that was reached.
    pub len: Option<usize>,
}

impl Request<'_> {
    /// True if what follows the answer is another protocol.
    pub fn is_connect(&self) -> bool {
        self.method == b"CONNECT"
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Longer methods are none.
const METHOD_BYTES_MAX: usize = 24;

/// Reads the request that a stream begins with. It is whole as soon as its host is known, or its headers have ended. With `is_over` the stream gets no
/// longer, and the request comes as far as it goes.
pub fn request(stream: &[u8], is_over: bool) -> Reading<Request<'_>> {
    if agrees(stream, PREFACE) {
        // "PRI" may begin nothing else.
        return match stream.len() >= PREFACE.len() {
            true => Reading::Whole(Request {
                dialect: Dialect::Http2,
                method: b"PRI",
                target: b"*",
                host: None,
                len: Some(PREFACE.len()),
            }),
            false => waiting(stream, is_over),
        };
    }
    let method_len = stream.iter().take_while(|byte| is_token(**byte)).count();
    if method_len > METHOD_BYTES_MAX {
        return Reading::Foreign;
    }
    let (method, rest) = stream.split_at(method_len);
    match rest.first() {
        None => return waiting(stream, is_over),
        Some(b' ') if method_len > 0 => {}
        _ => return Reading::Foreign,
    }
    // A first line has no bytes that are no text; this refuses what is binary without waiting for an end of the line.
    let Some(line) = line(rest) else {
        return match rest.iter().all(|byte| is_text(*byte)) {
            true => waiting(stream, is_over),
            false => Reading::Foreign,
        };
    };
    let Some((target, dialect)) = target(&rest[1..line.text_len]) else {
        return Reading::Foreign;
    };
    let mut request = Request {
        dialect,
        method,
        target,
        host: authority(method, target),
        len: None,
    };
    let headers = Headers {
        bytes: stream,
        at: method_len + line.whole_len,
    };
    read_headers(&mut request, headers, is_over)
}

/// True if the stream begins with an answer of HTTP/1, RTSP or SIP.
pub fn answer(stream: &[u8]) -> Reading<Dialect> {
    let starts: [(&[u8], Dialect); 4] = [
        (b"HTTP/1.", Dialect::Http1),
        (b"RTSP/1.0 ", Dialect::Rtsp),
        (b"RTSP/2.0 ", Dialect::Rtsp),
        (b"SIP/2.0 ", Dialect::Sip),
    ];
    for (start, dialect) in starts {
        if agrees(stream, start) {
            return match stream.len() >= start.len() {
                true => Reading::Whole(dialect),
                false => Reading::Partial {
                    wanted: start.len(),
                },
            };
        }
    }
    Reading::Foreign
}

/// A host without its port, brackets and the dot at its end.
pub fn without_port(host: &[u8]) -> &[u8] {
    let host = match host {
        [b'[', inside @ ..] => inside.split(|byte| *byte == b']').next().unwrap_or(inside),
        _ => match host.iter().rposition(|byte| *byte == b':') {
            Some(colon) if host[colon + 1..].iter().all(u8::is_ascii_digit) => &host[..colon],
            _ => host,
        },
    };
    host.strip_suffix(b".").unwrap_or(host)
}

fn waiting<'a>(stream: &[u8], is_over: bool) -> Reading<Request<'a>> {
    match is_over {
        true => Reading::Foreign,
        false => Reading::Partial {
            wanted: stream.len() + 1,
        },
    }
}

fn read_headers<'a>(
    request: &mut Request<'a>,
    mut headers: Headers<'a>,
    is_over: bool,
) -> Reading<Request<'a>> {
    // The target's authority decides, but what follows CONNECT begins behind its headers.
    if request.host.is_some() && !request.is_connect() {
        return Reading::Whole(*request);
    }
    loop {
        let before = headers.at;
        match headers.next() {
            Some(Header::End) => {
                request.len = Some(headers.at);
                return Reading::Whole(*request);
            }
            Some(Header::Field(name, value)) => {
                if name.eq_ignore_ascii_case(b"host") && request.host.is_none() {
                    request.host = Some(value).filter(|value| !value.is_empty());
                    if request.host.is_some() && !request.is_connect() {
                        return Reading::Whole(*request);
                    }
                }
            }
            None if is_over => return Reading::Whole(*request),
            None => {
                return Reading::Partial {
                    wanted: headers.bytes.len().max(before) + 1,
                };
            }
        }
    }
}

/// The lines behind the first one.
struct Headers<'a> {
    bytes: &'a [u8],
    at: usize,
}

enum Header<'a> {
    End,
    Field(&'a [u8], &'a [u8]),
}

impl<'a> Headers<'a> {
    /// The next header; `None` if its line has no end yet.
    fn next(&mut self) -> Option<Header<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let line = line(rest)?;
        let text = &rest[..line.text_len];
        self.at += line.whole_len;
        if text.is_empty() {
            return Some(Header::End);
        }
        let colon = text.iter().position(|byte| *byte == b':');
        let (name, value) = text.split_at(colon.unwrap_or(text.len()));
        Some(Header::Field(
            name,
            value.get(1..).unwrap_or_default().trim_ascii(),
        ))
    }
}

struct Line {
    /// Without its end.
    text_len: usize,
    whole_len: usize,
}

/// The first line; it ends with LF, and mostly with CR before it (RFC 9112, 2.2).
fn line(bytes: &[u8]) -> Option<Line> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let has_return = bytes[..end].last() == Some(&b'\r');
    Some(Line {
        text_len: end - usize::from(has_return),
        whole_len: end + 1,
    })
}

/// Target and protocol of a request line behind its method; a path alone is of HTTP before its lines had versions.
fn target(line: &[u8]) -> Option<(&[u8], Dialect)> {
    if line.first() == Some(&b'/') && line.iter().all(|byte| (b'!'..0x7f).contains(byte)) {
        return Some((line, Dialect::Http1));
    }
    let space = line.iter().rposition(|byte| *byte == b' ')?;
    let (target, version) = (line[..space].trim_ascii(), &line[space + 1..]);
    let dialect = match version {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9'] => Dialect::Http1,
        b"RTSP/1.0" | b"RTSP/2.0" => Dialect::Rtsp,
        b"SIP/2.0" => Dialect::Sip,
        _ => return None,
    };
    (!target.is_empty() && target.iter().all(|byte| is_text(*byte))).then_some((target, dialect))
}

/// The authority in a target: of CONNECT all of it, else what stands between `//` and the path.
fn authority<'a>(method: &[u8], target: &'a [u8]) -> Option<&'a [u8]> {
    let authority = if method == b"CONNECT" {
        target
    } else {
        let scheme = target.iter().position(|byte| *byte == b':')?;
        let is_scheme = target[..scheme].iter().all(u8::is_ascii_alphanumeric);
        let rest = target[scheme + 1..].strip_prefix(b"//");
        let rest = rest.filter(|_| is_scheme && scheme > 0)?;
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        let authority = &rest[..end.unwrap_or(rest.len())];
        // A name and a password may stand in front.
        match authority.iter().rposition(|byte| *byte == b'@') {
            Some(at) => &authority[at + 1..],
            None => authority,
        }
    };
    Some(authority).filter(|authority| !authority.is_empty())
}

/// A character of a method: what a token may have, less what no method in use has.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte == b'\r' || byte == b'\n' || (byte >= b' ' && byte != 0x7f)
}
