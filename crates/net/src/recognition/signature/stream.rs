//! First bytes of a direction of a TCP connection.

use super::super::bytes::{Bytes, agrees};
use super::super::{Protocol, Reading};

/// Starts that one protocol alone has, whoever sends them.
const STARTS: &[(&[u8], Protocol)] = &[
    (b"SSH-", Protocol::Ssh),
    (b"EHLO ", Protocol::Smtp),
    (b"HELO ", Protocol::Smtp),
    (b"ehlo ", Protocol::Smtp),
    (b"helo ", Protocol::Smtp),
    (b"* OK ", Protocol::Imap),
    (b"* PREAUTH ", Protocol::Imap),
    (b"+OK ", Protocol::Pop3),
    (b"+OK\r\n", Protocol::Pop3),
    (b"\x13BitTorrent protocol", Protocol::BitTorrent),
    (b"RFB 003.", Protocol::Vnc),
    (b"RFB 004.", Protocol::Vnc),
    (b"AMQP\x00", Protocol::Amqp),
    (b"AMQP\x01\x01\x00\x0a", Protocol::Amqp),
    (b"AMQP\x02", Protocol::Amqp),
    (b"AMQP\x03", Protocol::Amqp),
    (b"@RSYNCD: ", Protocol::Rsync),
    (b"NICK ", Protocol::Irc),
    (b"NOTICE AUTH ", Protocol::Irc),
    (b"<stream:stream ", Protocol::Xmpp),
    (b"<?xml version=", Protocol::Xmpp),
    (b"CAP LS", Protocol::Irc),
];

/// Reads the first bytes. `is_over` says that no more follow.
pub(in super::super) fn stream(bytes: &[u8], ports: [u16; 2], is_over: bool) -> Reading<Protocol> {
    let mut wanted = None;
    for (start, protocol) in STARTS {
        if !agrees(bytes, start) {
            continue;
        }
        if bytes.len() < start.len() {
            wanted = Some(start.len());
            continue;
        }
        match protocol {
            Protocol::Xmpp => match xmpp(bytes) {
                Some(true) => return Reading::Whole(Protocol::Xmpp),
                Some(false) => return Reading::Foreign,
                None => wanted = Some(bytes.len() + 1),
            },
            _ => return Reading::Whole(*protocol),
        }
    }
    let found = match bytes.first() {
        Some(b'2') => greeting(bytes),
        Some(b'A'..=b'Z' | b'a'..=b'z' | b'*' | b'#') => words(bytes, ports),
        _ => binary(bytes, ports),
    };
    match (found, wanted) {
        (Reading::Foreign, Some(wanted)) if !is_over => Reading::Partial { wanted },
        (Reading::Partial { .. }, _) if is_over => Reading::Foreign,
        (found, _) => found,
    }
}

/// True if the root of the document is a stream of XMPP; `None` if it is not there yet.
fn xmpp(bytes: &[u8]) -> Option<bool> {
    let head = &bytes[..bytes.len().min(512)];
    let has = |word: &[u8]| head.windows(word.len()).any(|window| window == word);
    if has(b"<stream:stream") || has(b"jabber:") {
        return Some(true);
    }
    (head.len() > 128).then_some(false)
}

/// A server's "220 …": SMTP says so in the line, or asks for more with a hyphen; FTP says FTP, or anything else.
fn greeting(bytes: &[u8]) -> Reading<Protocol> {
    if !agrees(bytes, b"220 ") && !agrees(bytes, b"220-") {
        return Reading::Foreign;
    }
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        let is_text = bytes.iter().all(|byte| *byte >= b' ' || *byte == b'\r');
        return match is_text && bytes.len() < 512 {
            true => Reading::Partial {
                wanted: bytes.len() + 1,
            },
            false => Reading::Foreign,
        };
    };
    let line = &bytes[..end];
    let has = |word: &[u8]| {
        line.windows(word.len())
            .any(|window| window.eq_ignore_ascii_case(word))
    };
    Reading::Whole(match () {
        () if has(b"SMTP") || has(b"MAIL") => Protocol::Smtp,
        () if has(b"FTP") => Protocol::Ftp,
        // Left to the client's first words.
        () => return Reading::Foreign,
    })
}

/// Words that clients begin with.
fn words(bytes: &[u8], ports: [u16; 2]) -> Reading<Protocol> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        let is_text = bytes
            .iter()
            .all(|byte| (b' '..0x7f).contains(byte) || *byte == b'\r');
        let is_open = is_text && bytes.len() < 512;
        return match is_open {
            true => Reading::Partial {
                wanted: bytes.len() + 1,
            },
            false => Reading::Foreign,
        };
    };
    let line = bytes[..end].trim_ascii_end();
    if !line.iter().all(|byte| (b' '..0x7f).contains(byte)) {
        return Reading::Foreign;
    }
    let mut words = line.split(|byte| *byte == b' ');
    let (first, second) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let is_tag = first.len() <= 16 && first.iter().all(u8::is_ascii_alphanumeric);
    let is = |word: &[u8], text: &[u8]| word.eq_ignore_ascii_case(text);
    let third = words.next();
    match () {
        // USER with four words is IRC's; FTP and POP3 have two.
        () if is(first, b"USER") && words.next().is_some() => Reading::Whole(Protocol::Irc),
        () if is(first, b"USER") && third.is_none() && !second.is_empty() => {
            Reading::Whole(match ports.contains(&110) {
                true => Protocol::Pop3,
                false => Protocol::Ftp,
            })
        }
        () if is(first, b"AUTH") && (is(second, b"TLS") || is(second, b"SSL")) => {
            Reading::Whole(Protocol::Ftp)
        }
        () if is(first, b"STLS") || is(first, b"APOP") => Reading::Whole(Protocol::Pop3),
        () if is(first, b"MAIL") && second.to_ascii_uppercase().starts_with(b"FROM:") => {
            Reading::Whole(Protocol::Smtp)
        }
        () if is_tag
            && (is(second, b"LOGIN")
                || is(second, b"CAPABILITY")
                || is(second, b"STARTTLS")
                || is(second, b"AUTHENTICATE")
                || (is(second, b"ID") && third.is_some())) =>
        {
            Reading::Whole(Protocol::Imap)
        }
        () if line.len() > 1 && matches!(line[0], b'*') && digits(&line[1..]) => {
            match bytes.get(end + 1) {
                Some(b'$') => Reading::Whole(Protocol::Redis),
                Some(_) => Reading::Foreign,
                None => Reading::Partial { wanted: end + 2 },
            }
        }
        () if matches!(first, b"get" | b"gets") && third.is_none() && !second.starts_with(b"/") => {
            Reading::Whole(Protocol::Memcached)
        }
        () if first == b"stats" && second.is_empty() => Reading::Whole(Protocol::Memcached),
        () => Reading::Foreign,
    }
}

fn digits(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// Protocols whose first byte is no text.
fn binary(bytes: &[u8], ports: [u16; 2]) -> Reading<Protocol> {
    // Each reader wants at most so many bytes, and most are decided by fewer.
    const ENOUGH: usize = 32;
    let found = [
        tpkt as fn(&[u8]) -> Option<Protocol>,
        smb,
        mqtt,
        postgresql,
        mysql,
        mongodb,
        bgp,
        ldap,
        socks,
        dcerpc,
        tds,
        rpc,
        rtmp,
        git,
        telnet,
        dnp3,
        diameter,
    ]
    .iter()
    .find_map(|reader| reader(bytes));
    let has_port = |port: u16| ports.contains(&port);
    let found = found.or_else(|| match () {
        () if has_port(502) => modbus(bytes),
        () if has_port(88) => kerberos(bytes),
        () if has_port(1194) => openvpn(bytes),
        () => None,
    });
    match found {
        Some(protocol) => Reading::Whole(protocol),
        None if bytes.len() < 8 => Reading::Partial { wanted: 8 },
        None if bytes.len() < ENOUGH && could_be_longer(bytes) => Reading::Partial {
            wanted: bytes.len() + 1,
        },
        None => Reading::Foreign,
    }
}

/// True of a start that some reader may still accept.
fn could_be_longer(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xff) || matches!(bytes, [0, 0, ..] | [_, _, _, 0, ..])
}

/// RDP: TPKT, X.224's connection request or confirmation, and behind it nothing, a cookie or a negotiation (MS-RDPBCGR 2.2.1): others than RDP put
/// parameters of X.224 there.
fn tpkt(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    let (version, reserved, len) = (rest.u8()?, rest.u8()?, rest.u16()?);
    let (header_len, kind) = (rest.u8()?, rest.u8()?);
    let is_it = version == 3
        && reserved == 0
        && (11..=1024).contains(&len)
        && matches!(kind, 0xe0 | 0xd0)
        && u16::from(header_len) + 5 == len
        && (len == 11 || matches!(bytes.get(11)?, 1..=3 | b'C'));
    is_it.then_some(Protocol::Rdp)
}

/// A length, and SMB's mark in one of its versions (MS-SMB2 2.1); or NetBIOS' session request.
fn smb(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    let (kind, len) = (bytes.u8()?, bytes.u24()?);
    let start = bytes.take(4)?;
    let is_session = kind == 0x81 && len == 68 && start[0] == 0x20;
    let is_it = kind == 0 && matches!(start, b"\xffSMB" | b"\xfeSMB" | b"\xfdSMB");
    (is_session || is_it).then_some(Protocol::Smb)
}

fn mqtt(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    if bytes.u8()? != 0x10 {
        return None;
    }
    // The length, seven bits a byte.
    for _ in 0..4 {
        if bytes.u8()? & 0x80 == 0 {
            break;
        }
    }
    let name = bytes.vector_16()?;
    matches!(name, b"MQTT" | b"MQIsdp").then_some(Protocol::Mqtt)
}

/// The start of a session, a request for TLS, or one to cancel.
fn postgresql(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    let (len, code) = (bytes.u32()?, bytes.u32()?);
    let is_it = match code {
        0x0003_0000..=0x0003_0002 => (8..=10_000).contains(&len),
        80_877_103 | 80_877_104 => len == 8,
        80_877_102 => len == 16,
        _ => false,
    };
    is_it.then_some(Protocol::PostgreSql)
}

/// A server's greeting: version 10 of the protocol, and a version of the server as text.
fn mysql(bytes: &[u8]) -> Option<Protocol> {
    let [a, b, c, 0, 10, text @ ..] = bytes else {
        return None;
    };
    let len = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
    let version = text.split(|byte| *byte == 0).next()?;
    let is_version = (3..64).contains(&version.len())
        && version.len() < text.len()
        && version[0].is_ascii_digit()
        && version.iter().all(|byte| (b' '..0x7f).contains(byte));
    (is_version && (40..512).contains(&len)).then_some(Protocol::MySql)
}

/// A length, two numbers, and an operation (little-endian).
fn mongodb(bytes: &[u8]) -> Option<Protocol> {
    let (words, _) = bytes.get(..16)?.as_chunks();
    let [len, _, answered, operation] = words else {
        return None;
    };
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let is_it = (16..=48 << 20).contains(&word(len))
        && match word(operation) {
            2004 | 2010 | 2012 | 2013 => word(answered) == 0,
            _ => false,
        };
    is_it.then_some(Protocol::MongoDb)
}

/// Sixteen bytes of ones, a length, a type.
fn bgp(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    let marker = bytes.take(16)?;
    let (len, kind) = (bytes.u16()?, bytes.u8()?);
    let is_it = marker.iter().all(|byte| *byte == 0xff)
        && (19..=4096).contains(&len)
        && (1..=5).contains(&kind);
    is_it.then_some(Protocol::Bgp)
}

/// A sequence, a number, and an operation of LDAP in BER.
fn ldap(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    if bytes.u8()? != 0x30 {
        return None;
    }
    ber_len(&mut bytes)?;
    if bytes.u8()? != 2 || !(1..=4).contains(&bytes.u8()?) {
        return None;
    }
    // The number is small in the first messages.
    let mut operation = bytes.u8()?;
    for _ in 0..4 {
        if (0x60..=0x78).contains(&operation) {
            break;
        }
        operation = bytes.u8()?;
    }
    let is_it = matches!(operation, 0x60 | 0x61 | 0x63..=0x65 | 0x77 | 0x78);
    is_it.then_some(Protocol::Ldap)
}

/// A length in BER.
pub(super) fn ber_len(bytes: &mut Bytes<'_>) -> Option<usize> {
    let first = bytes.u8()?;
    match first {
        0..=0x7f => Some(usize::from(first)),
        0x81..=0x84 => {
            let mut len = 0;
            for _ in 0..first & 7 {
                len = len << 8 | usize::from(bytes.u8()?);
            }
            Some(len)
        }
        _ => None,
    }
}

/// A client's first message of version 5: the methods, no more. Of version 4: a command, a port, an address, names.
fn socks(bytes: &[u8]) -> Option<Protocol> {
    let is_it = match bytes {
        [5, count @ 1..=9, methods @ ..] => {
            // A request or a name and a password follow.
            let offered = methods.get(..usize::from(*count));
            let behind = methods.get(usize::from(*count));
            offered.is_some_and(|methods| methods.iter().all(|method| *method <= 9))
                && matches!(behind, None | Some(1 | 5))
        }
        [4, 1 | 2, _, _, _, _, _, _, names @ ..] => {
            names.last() == Some(&0) && names.iter().filter(|byte| **byte == 0).count() <= 2
        }
        _ => false,
    };
    is_it.then_some(Protocol::Socks)
}

/// Version 5.0, a bind or its answer, whole.
fn dcerpc(bytes: &[u8]) -> Option<Protocol> {
    let [5, 0 | 1, kind, flags, order, 0, 0, 0, low, high, ..] = bytes else {
        return None;
    };
    let len = match order {
        0x10 => u16::from_le_bytes([*low, *high]),
        0x00 => u16::from_be_bytes([*low, *high]),
        _ => return None,
    };
    let is_it = matches!(kind, 0 | 2 | 11 | 12) && flags & 3 != 0 && len >= 16;
    is_it.then_some(Protocol::DceRpc)
}

/// TDS: a packet before the login, or a login of version 7, whole.
fn tds(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    let (kind, status, len) = (rest.u8()?, rest.u8()?, usize::from(rest.u16()?));
    rest.take(2)?;
    let (number, window) = (rest.u8()?, rest.u8()?);
    let is_first = status == 1 && matches!(number, 0 | 1) && window == 0 && len > 8;
    let is_prelogin = kind == 0x12 && bytes.get(8) == Some(&0) && len < 512;
    let is_login = kind == 0x10 && len == bytes.len();
    (is_first && (is_prelogin || is_login)).then_some(Protocol::SqlServer)
}

/// ONC RPC over TCP: a mark, a number, a call of version 2 or an accepted answer.
fn rpc(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    let mark = bytes.u32()?;
    let is_last = mark & 0x8000_0000 != 0 && (24..=1 << 20).contains(&(mark & 0x7fff_ffff));
    if !is_last {
        return None;
    }
    rpc_message(&mut bytes)
}

/// A number, a call of version 2 and a program that has a number in use, or an answer.
pub(super) fn rpc_message(bytes: &mut Bytes<'_>) -> Option<Protocol> {
    let (_number, direction, third) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    let is_call = direction == 0 && third == 2 && (100_000..=400_000).contains(&bytes.u32()?);
    is_call.then_some(Protocol::Rpc)
}

/// A client's version and 1536 bytes, of which four are zero in version 3.
fn rtmp(bytes: &[u8]) -> Option<Protocol> {
    let is_it = matches!(bytes, [3, _, _, _, _, 0, 0, 0, 0, ..]) && bytes.len() > 64;
    is_it.then_some(Protocol::Rtmp)
}

/// A length in hexadecimal, and a service.
fn git(bytes: &[u8]) -> Option<Protocol> {
    let (len, rest) = bytes.split_at_checked(4)?;
    let is_it = len.iter().all(u8::is_ascii_hexdigit) && rest.starts_with(b"git-");
    is_it.then_some(Protocol::Git)
}

/// Three bytes that ask for an option.
fn telnet(bytes: &[u8]) -> Option<Protocol> {
    let is_it = matches!(bytes, [0xff, 0xfb..=0xfe, 0..=49, ..])
        && (bytes.len() == 3 || bytes.get(3) == Some(&0xff));
    is_it.then_some(Protocol::Telnet)
}

fn dnp3(bytes: &[u8]) -> Option<Protocol> {
    let is_it = matches!(bytes, [0x05, 0x64, 5..=255, _, _, _, _, _, _, _, ..]);
    is_it.then_some(Protocol::Dnp3)
}

/// Version 1, a length, flags, and a request of capabilities.
fn diameter(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    let (version, len, flags, code) = (bytes.u8()?, bytes.u24()?, bytes.u8()?, bytes.u24()?);
    let is_it = version == 1
        && len >= 20
        && len % 4 == 0
        && flags & 0x0f == 0
        && matches!(
            code,
            257 | 258 | 265 | 268 | 271 | 272 | 274 | 275 | 280 | 282 | 303 | 316..=324
        );
    is_it.then_some(Protocol::Diameter)
}

/// A number, two zeroes, a length that fits, a unit, a function.
fn modbus(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    let (_number, protocol, len) = (rest.u16()?, rest.u16()?, rest.u16()?);
    let is_it = protocol == 0 && (2..=254).contains(&len) && rest.len() >= 2;
    is_it.then_some(Protocol::Modbus)
}

/// A length, and a message of Kerberos in BER.
fn kerberos(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    let len = bytes.u32()?;
    let is_it = (10..1 << 20).contains(&len) && matches!(bytes.u8()?, 0x6a..=0x7e);
    is_it.then_some(Protocol::Kerberos)
}

/// A length, and a reset with a session's number.
fn openvpn(bytes: &[u8]) -> Option<Protocol> {
    let mut bytes = Bytes(bytes);
    let (len, kind) = (bytes.u16()?, bytes.u8()?);
    let is_it = len >= 14 && matches!(kind >> 3, 7 | 8 | 10) && kind & 7 == 0;
    is_it.then_some(Protocol::OpenVpn)
}
