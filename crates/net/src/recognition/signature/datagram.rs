//! First bytes of a datagram.

use super::super::Protocol;
use super::super::bytes::Bytes;
use super::stream::{ber_len, rpc_message};

/// Reads a datagram; `None` if it is of no protocol that is known by its bytes.
pub(in super::super) fn datagram(bytes: &[u8], ports: [u16; 2]) -> Option<Protocol> {
    let has_port = |port: u16| ports.contains(&port);
    if let Some(protocol) = text(bytes) {
        return Some(protocol);
    }
    let by_port = ports.iter().find_map(|port| match port {
        123 => ntp(bytes),
        67 | 68 => dhcp(bytes),
        546 | 547 => dhcp6(bytes),
        69 => tftp(bytes),
        137 => netbios_names(bytes),
        138 => netbios_datagrams(bytes),
        161 | 162 => snmp(bytes),
        500 | 4500 => ike(bytes, has_port(4500)),
        1194 => openvpn(bytes),
        1645 | 1646 | 1812 | 1813 | 3799 => radius(bytes),
        1701 => l2tp(bytes),
        2123 | 2152 | 3386 => gtp(bytes),
        4789 => vxlan(bytes),
        5683 => coap(bytes),
        88 => matches!(bytes, [0x6a..=0x7e, 0x80..=0x84, ..]).then_some(Protocol::Kerberos),
        389 => cldap(bytes),
        3544 => matches!(bytes, [0x60, _, ..] | [0, 0 | 1, ..]).then_some(Protocol::Teredo),
        _ => None,
    });
    by_port
        .or_else(|| stun(bytes))
        .or_else(|| dhcp(bytes).filter(|_| bytes.len() >= 240))
        .or_else(|| wireguard(bytes))
        .or_else(|| rpc_message(&mut Bytes(bytes)))
        .or_else(|| snmp(bytes))
}

/// Protocols whose datagrams are text, or begin with it.
fn text(bytes: &[u8]) -> Option<Protocol> {
    let starts = |start: &[u8]| bytes.starts_with(start);
    match bytes.first()? {
        b'N' | b'M' if starts(b"NOTIFY * HTTP/1.1\r\n") || starts(b"M-SEARCH * HTTP/1.1\r\n") => {
            Some(Protocol::Ssdp)
        }
        b'H' if starts(b"HTTP/1.1 200 OK\r\n") => Some(Protocol::Ssdp),
        b'd' if dht(bytes) => Some(Protocol::BitTorrent),
        b'<' if syslog(bytes) => Some(Protocol::Syslog),
        0xff if starts(b"\xff\xff\xff\xffTSource") || starts(b"\xff\xff\xff\xffU\xff") => {
            Some(Protocol::Steam)
        }
        0xff if starts(b"\xff\xff\xff\xffget") || starts(b"\xff\xff\xff\xffstatus") => {
            Some(Protocol::Quake)
        }
        _ => None,
    }
}

/// A dictionary of BitTorrent's distributed table (BEP 5).
fn dht(bytes: &[u8]) -> bool {
    let starts = [
        &b"d1:ad2:id20:"[..],
        b"d1:rd2:id20:",
        b"d2:ip6:",
        b"d2:ip4:",
        b"d1:eli20",
        b"d1:y1:",
    ];
    starts.iter().any(|start| bytes.starts_with(start))
}

/// A priority in brackets: at most 191.
fn syslog(bytes: &[u8]) -> bool {
    let Some(end) = bytes[..bytes.len().min(5)]
        .iter()
        .position(|byte| *byte == b'>')
    else {
        return false;
    };
    let digits = &bytes[1..end];
    let number = digits.iter().fold(0_u32, |sum, byte| {
        sum * 10 + u32::from(byte.wrapping_sub(b'0'))
    });
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && number <= 191
}

/// A type, a length that fits, the cookie (RFC 8489, 5).
fn stun(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    let (kind, len, cookie) = (rest.u16()?, rest.u16()?, rest.u32()?);
    let is_it = kind & 0xc000 == 0
        && len % 4 == 0
        && cookie == 0x2112_a442
        && bytes.len() >= 20 + usize::from(len);
    is_it.then_some(Protocol::Stun)
}

fn ntp(bytes: &[u8]) -> Option<Protocol> {
    let first = bytes.first()?;
    let (version, mode) = (first >> 3 & 7, first & 7);
    let is_time = bytes.len() >= 48 && (1..=5).contains(&mode);
    let is_control = bytes.len() >= 8 && matches!(mode, 6 | 7);
    ((1..=4).contains(&version) && (is_time || is_control)).then_some(Protocol::Ntp)
}

/// BOOTP's form, and DHCP's cookie if it is there.
fn dhcp(bytes: &[u8]) -> Option<Protocol> {
    let [1 | 2, hardware, hardware_len, ..] = bytes else {
        return None;
    };
    let cookie = bytes.get(236..240)?;
    let is_it = cookie == [0x63, 0x82, 0x53, 0x63] && *hardware_len <= 16 && *hardware != 0;
    is_it.then_some(Protocol::Dhcp)
}

fn dhcp6(bytes: &[u8]) -> Option<Protocol> {
    let is_it = matches!(bytes, [1..=13, _, _, _, ..]);
    is_it.then_some(Protocol::Dhcp6)
}

fn tftp(bytes: &[u8]) -> Option<Protocol> {
    let [0, 1 | 2, rest @ ..] = bytes else {
        return None;
    };
    let mut parts = rest.split(|byte| *byte == 0);
    let (name, mode) = (parts.next()?, parts.next()?);
    let modes: [&[u8]; 3] = [b"netascii", b"octet", b"mail"];
    let is_it = !name.is_empty() && modes.iter().any(|known| mode.eq_ignore_ascii_case(known));
    is_it.then_some(Protocol::Tftp)
}

/// The header of DNS, and a name of 32 letters.
fn netbios_names(bytes: &[u8]) -> Option<Protocol> {
    let counts = bytes.get(4..12)?;
    let is_it = counts.iter().step_by(2).all(|high| *high == 0)
        && bytes.get(12).is_some_and(|len| matches!(len, 0x20 | 0xc0));
    is_it.then_some(Protocol::NetbiosNames)
}

fn netbios_datagrams(bytes: &[u8]) -> Option<Protocol> {
    let is_it = matches!(bytes, [0x10..=0x16, 0..=15, ..]) && bytes.len() >= 10;
    is_it.then_some(Protocol::NetbiosDatagrams)
}

/// A sequence with a version and a community, or with version 3's header; its length fits.
fn snmp(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    if rest.u8()? != 0x30 {
        return None;
    }
    let len = ber_len(&mut rest)?;
    if len != rest.len() || rest.u8()? != 2 || rest.u8()? != 1 {
        return None;
    }
    let (version, next) = (rest.u8()?, rest.u8()?);
    matches!((version, next), (0 | 1, 4) | (3, 0x30)).then_some(Protocol::Snmp)
}

/// A header of ISAKMP; on port 4500 four zeroes stand before it.
fn ike(bytes: &[u8], is_encapsulated: bool) -> Option<Protocol> {
    let bytes = match (bytes, is_encapsulated) {
        ([0xff], true) => return Some(Protocol::Ike),
        ([0, 0, 0, 0, rest @ ..], true) => rest,
        _ => bytes,
    };
    let mut rest = Bytes(bytes);
    rest.take(16)?;
    let (_next, version, exchange) = (rest.u8()?, rest.u8()?, rest.u8()?);
    rest.take(5)?;
    let len = rest.u32()? as usize;
    let is_it = matches!(version, 0x10 | 0x20)
        && matches!(exchange, 1..=6 | 32..=47)
        && (28..=1 << 16).contains(&len);
    is_it.then_some(Protocol::Ike)
}

fn openvpn(bytes: &[u8]) -> Option<Protocol> {
    let first = bytes.first()?;
    let is_reset = matches!(first >> 3, 1 | 2 | 7 | 8 | 10) && first & 7 == 0;
    (is_reset && bytes.len() >= 14).then_some(Protocol::OpenVpn)
}

fn radius(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    let (code, _number, len) = (rest.u8()?, rest.u8()?, usize::from(rest.u16()?));
    let is_it = matches!(code, 1..=5 | 11..=13 | 40..=45) && len >= 20 && len <= bytes.len();
    is_it.then_some(Protocol::Radius)
}

/// Version 2, and reserved bits that are zero.
fn l2tp(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    let flags = rest.u16()?;
    (flags & 0x34f0 == 0 && matches!(flags & 15, 2 | 3)).then_some(Protocol::L2tp)
}

fn gtp(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    let (flags, _kind, len) = (rest.u8()?, rest.u8()?, usize::from(rest.u16()?));
    let behind = if flags >> 5 == 2 { 4 } else { 8 };
    let is_it = matches!(flags >> 5, 1 | 2) && bytes.len() == behind + len;
    is_it.then_some(Protocol::Gtp)
}

fn vxlan(bytes: &[u8]) -> Option<Protocol> {
    let is_it = matches!(bytes, [flags, _, _, _, _, _, _, 0, ..] if flags & 8 != 0);
    is_it.then_some(Protocol::Vxlan)
}

fn coap(bytes: &[u8]) -> Option<Protocol> {
    let [first, code, _, _, ..] = bytes else {
        return None;
    };
    let is_it = first >> 6 == 1 && first & 15 <= 8 && matches!(code >> 5, 0 | 2 | 4 | 5 | 7);
    is_it.then_some(Protocol::Coap)
}

/// LDAP over UDP: a search or its answer.
fn cldap(bytes: &[u8]) -> Option<Protocol> {
    let mut rest = Bytes(bytes);
    if rest.u8()? != 0x30 {
        return None;
    }
    ber_len(&mut rest)?;
    (rest.u8()? == 2).then_some(Protocol::Ldap)
}

/// A type of 1 to 4 in four bytes, and its length (WireGuard's paper, 5.4).
fn wireguard(bytes: &[u8]) -> Option<Protocol> {
    let is_it = match bytes {
        [1, 0, 0, 0, ..] => bytes.len() == 148,
        [2, 0, 0, 0, ..] => bytes.len() == 92,
        [3, 0, 0, 0, ..] => bytes.len() == 64,
        _ => false,
    };
    is_it.then_some(Protocol::WireGuard)
}

/// The source and the number of a packet that looks like RTP. Two in a row make RTP.
pub(in super::super) fn rtp(bytes: &[u8]) -> Option<(u32, u16)> {
    let mut rest = Bytes(bytes);
    let (first, kind) = (rest.u8()?, rest.u8()? & 0x7f);
    let number = rest.u16()?;
    rest.u32()?;
    let source = rest.u32()?;
    let contributors = usize::from(first & 15) * 4;
    // 64 to 95 would be RTCP's types behind the same port (RFC 5761), and others are not given out.
    let is_likely = first >> 6 == 2
        && (kind <= 34 || (96..=127).contains(&kind))
        && source != 0
        && rest.len() > contributors;
    is_likely.then_some((source, number))
}

/// True of a compound of RTCP whose lengths fit: a report first (RFC 3550, A.2).
pub(in super::super) fn is_rtcp(bytes: &[u8]) -> bool {
    let mut at = 0;
    let mut count = 0;
    while at < bytes.len() {
        let [first, kind, high, low, ..] = bytes[at..] else {
            return false;
        };
        let is_right = first >> 6 == 2
            && match count {
                0 => matches!(kind, 200 | 201),
                _ => (200..=207).contains(&kind),
            };
        if !is_right {
            return false;
        }
        at += 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
        count += 1;
    }
    count > 0 && at == bytes.len()
}
