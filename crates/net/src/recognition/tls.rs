//! The start of TLS and DTLS: a ClientHello over however many records, and what it says (RFC 8446, RFC 5246, RFC 6347, RFC 9147).
//!
//! [`message`] takes the first handshake message out of the records of a stream, [`datagram`] a piece of it out of a datagram of DTLS;
//! [`Hello::read`] reads the message. Nothing is checked that a middlebox need not know: a hello with an extension that is broken is a hello.

mod datagram;
mod hello;
mod record;

pub use datagram::{Piece, datagram};
pub use hello::{Codes, Extension, Extensions, Hello, Protocols, ServerHello, is_grease};
pub use record::{Message, message};

/// A ClientHello's number among handshake messages.
pub const CLIENT_HELLO: u8 = 1;
/// A ServerHello's.
pub const SERVER_HELLO: u8 = 2;
