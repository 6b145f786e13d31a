//! JA4: a short name for the way in which a client says hello (FoxIO, "JA4: TLS Client Fingerprinting"; the method for TLS clients is under the
//! BSD 3-clause licence; its relatives are not, and are not here).
//!
//! `t13d1516h2_8daaf6152771_e5627efa2ab1`: TLS over TCP, version 1.3, with a server's name, 15 ciphers, 16 extensions, ALPN `h2`; the start of
//! the SHA-256 of the ciphers in numerical order; and that of the extensions in numerical order with the signature algorithms as they came.

use std::fmt;

use sha2::{Digest, Sha256};

use super::tls::{Codes, Hello};

/// The carrier of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// TLS over TCP.
    Tcp,
    /// QUIC.
    Quic,
    /// DTLS.
    Datagrams,
}

/// A fingerprint of 36 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ja4([u8; 36]);

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

impl Ja4 {
    /// The fingerprint of a whole hello. `scratch` is for the numbers while they are sorted; nothing is allocated if it has room for as many as the
    /// hello has bytes.
    pub fn of(hello: &Hello<'_>, carrier: Carrier, scratch: &mut Vec<u16>) -> Self {
        let mut name = [b'_'; 36];
        name[..10].copy_from_slice(&prefix(hello, carrier));
        sorted(scratch, hello.ciphers.iter());
        name[11..23].copy_from_slice(&hashed(scratch, Codes::default()));
        sorted(scratch, hashed_extensions(hello));
        name[24..].copy_from_slice(&hashed(scratch, hello.signature_algorithms));
        Self(name)
    }

    /// The same before it is hashed (`JA4_r`), for a person who wants to know why two differ.
    pub fn raw(hello: &Hello<'_>, carrier: Carrier) -> String {
        let mut text = String::from_utf8_lossy(&prefix(hello, carrier)).into_owned();
        let mut codes = Vec::new();
        sorted(&mut codes, hello.ciphers.iter());
        text.push('_');
        list(&codes, Codes::default(), |bytes| {
            text += &String::from_utf8_lossy(bytes)
        });
        sorted(&mut codes, hashed_extensions(hello));
        text.push('_');
        list(&codes, hello.signature_algorithms, |bytes| {
            text += &String::from_utf8_lossy(bytes);
        });
        text
    }

    /// The fingerprint as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ja4({self})")
    }
}

/// What is in front of the hashes.
fn prefix(hello: &Hello<'_>, carrier: Carrier) -> [u8; 10] {
    let kind = match carrier {
        Carrier::Tcp => b't',
        Carrier::Quic => b'q',
        Carrier::Datagrams => b'd',
    };
    let [v, w] = *match hello.version_max() {
        0x0304 => b"13",
        0x0303 => b"12",
        0x0302 => b"11",
        0x0301 => b"10",
        0x0300 => b"s3",
        0x0002 => b"s2",
        0xfeff => b"d1",
        0xfefd => b"d2",
        0xfefc => b"d3",
        _ => b"00",
    };
    let to = if hello.names_server() { b'd' } else { b'i' };
    let [c, d] = two_digits(hello.ciphers.iter().count());
    let [e, f] = two_digits(hello.extensions.kinds().count());
    let [p, q] = protocol(hello.protocols.first_known());
    [kind, v, w, to, c, d, e, f, p, q]
}

fn two_digits(count: usize) -> [u8; 2] {
    let count = count.min(99) as u8;
    [b'0' + count / 10, b'0' + count % 10]
}

/// The first and the last character of a protocol's name, or of its hexadecimal form if one of them is no letter or digit.
fn protocol(name: Option<&[u8]>) -> [u8; 2] {
    let (Some(first), Some(last)) = (name.and_then(<[u8]>::first), name.and_then(<[u8]>::last))
    else {
        return *b"00";
    };
    match first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        true => [*first, *last],
        false => [HEX[usize::from(first >> 4)], HEX[usize::from(last & 15)]],
    }
}

/// The name of the server and ALPN are in the prefix already.
fn hashed_extensions<'a>(hello: &Hello<'a>) -> impl Iterator<Item = u16> + 'a {
    let kinds = hello.extensions.kinds();
    kinds.filter(|kind| !matches!(*kind, SERVER_NAME | ALPN))
}

fn sorted(codes: &mut Vec<u16>, from: impl Iterator<Item = u16>) {
    codes.clear();
    codes.extend(from);
    codes.sort_unstable();
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Twelve characters of the SHA-256 of a list, zeroes if there is none.
fn hashed(codes: &[u16], behind: Codes<'_>) -> [u8; 12] {
    if codes.is_empty() {
        return [b'0'; 12];
    }
    let mut hash = Sha256::new();
    list(codes, behind, |bytes| hash.update(bytes));
    let digest: [u8; 32] = hash.finalize().into();
    let mut text = [0; 12];
    for (pair, byte) in text.as_chunks_mut().0.iter_mut().zip(digest) {
        *pair = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    }
    text
}

/// The codes in hexadecimal with commas between them, and, behind an underscore, those that follow, if there are any.
fn list(codes: &[u16], behind: Codes<'_>, mut write: impl FnMut(&[u8])) {
    const PIECE: usize = 5 * 64;
    let mut piece = [0; PIECE];
    let mut len = 0;
    let mut between = None;
    let mut put = |code: u16, separator: Option<u8>| {
        if len + 5 > PIECE {
            write(&piece[..len]);
            len = 0;
        }
        if let Some(separator) = separator {
            piece[len] = separator;
            len += 1;
        }
        for nibble in [12, 8, 4, 0] {
            piece[len] = HEX[usize::from(code >> nibble & 15)];
            len += 1;
        }
        len
    };
    let mut filled = 0;
    for code in codes {
        filled = put(*code, between);
        between = Some(b',');
    }
    let mut separator = b'_';
    for code in behind.iter() {
        filled = put(code, Some(separator));
        separator = b',';
    }
    write(&piece[..filled]);
}
