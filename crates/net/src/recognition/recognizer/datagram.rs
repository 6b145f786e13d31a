//! Datagrams, and what their readers make of them. A hello over several of them is put together on the desk.

use super::super::quic::{self, Frame, Keys, Kind, Packets, Side, Version};
use super::super::stream::{Filled, Inserted};
use super::super::tls::{self, Hello};
use super::super::{Evidence, NameSource, Protocol, dns, signature};
use super::Packet;
use super::desk::{Desk, Setting, say_hello};

/// What is known of a flow of datagrams beside the bytes of its hello.
#[derive(Clone, Copy, Default)]
pub(super) struct Collected {
    /// Which bytes of the hello are there.
    pub(super) filled: Filled,
    /// By which the client's packets were opened.
    keys: Option<(Version, Keys)>,
    /// Of DTLS: number and length of the message whose pieces are there.
    message: Option<(u16, u32)>,
    /// Source and number of a packet that looked like RTP, in each direction.
    rtp: [Option<(u32, u16)>; 2],
    /// The protocol that it is if nothing else is found.
    pub(super) likely: Protocol,
}

impl Collected {
    /// True if the rest of a hello is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.likely != Protocol::Unknown
    }
}

/// What came of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The desk has the verdict.
    Found,
    /// More is wanted.
    Wait,
}

/// Has each reader look at a datagram.
pub(super) fn examine(desk: &mut Desk, packet: &Packet<'_>, collected: &mut Collected) -> Step {
    let payload = packet.payload;
    let found = match payload.first() {
        Some(0x80..) => read_quic(desk, payload, collected),
        Some(20..=25) => read_dtls(desk, payload, collected),
        Some(_) => None,
        // Nothing was said yet.
        None => return Step::Wait,
    };
    if let Some(step) = found {
        return step;
    }
    if collected.is_waiting() {
        // Of QUIC and DTLS what comes later is encrypted, and looks like anything.
        return Step::Wait;
    }
    if read_dns(desk, packet) {
        return Step::Found;
    }
    let found = google_quic(payload)
        .or_else(|| sip(payload))
        .or_else(|| signature::datagram(payload, packet.ports))
        .or_else(|| media(packet, collected));
    match found {
        Some(protocol) => {
            desk.verdict.found(protocol, Evidence::Bytes);
            Step::Found
        }
        None => Step::Wait,
    }
}

/// Packets of QUIC; `None` if there is none.
fn read_quic(desk: &mut Desk, payload: &[u8], collected: &mut Collected) -> Option<Step> {
    /// Packets of a datagram that are looked at.
    const PACKETS_MAX: usize = 8;
    let mut is_quic = false;
    for packet in Packets::new(payload).take(PACKETS_MAX) {
        match (packet.kind, packet.version) {
            (Kind::Foreign(number), _) => {
                let is_google = matches!(number >> 16, 0x5130 | 0x5430);
                if is_google {
                    desk.verdict.found(Protocol::GoogleQuic, Evidence::Bytes);
                    return Some(Step::Found);
                }
                // Numbers of this form are sent so that servers name those that they know (RFC 9000, 15).
                is_quic |= number & 0x0f0f_0f0f == 0x0a0a_0a0a && payload.len() >= 1200;
            }
            (Kind::Initial, Some(version)) => {
                let is_open = open(desk, &packet, version, collected);
                is_quic |= is_open || collected.keys.is_some() || is_likely(payload, &packet);
            }
            (Kind::VersionNegotiation, _) => is_quic |= is_negotiation(payload, &packet),
            (_, Some(_)) => is_quic |= collected.is_waiting() || is_likely(payload, &packet),
            (_, None) => {}
        }
    }
    if !is_quic {
        return None;
    }
    collected.likely = Protocol::Quic;
    let bytes = &desk.assembly.bytes()[..collected.filled.front()];
    let Some(([tls::CLIENT_HELLO, a, b, c], body)) = bytes.split_first_chunk() else {
        return Some(Step::Wait);
    };
    let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    let Some(hello) = body.get(..len).and_then(Hello::read) else {
        return Some(Step::Wait);
    };
    let setting = Setting::quic(&desk.settings);
    say_hello(&mut desk.verdict, &mut desk.codes, &hello, true, setting);
    Some(Step::Found)
}

/// Opens an Initial packet of the client, and keeps what of the hello is in it.
fn open(
    desk: &mut Desk,
    packet: &quic::Packet<'_>,
    version: Version,
    collected: &mut Collected,
) -> bool {
    let known = collected.keys.filter(|(known, _)| *known == version);
    // After a Retry the keys follow from the number that the server chose.
    let keys = known.map(|(_, keys)| keys);
    for attempt in 0..2 {
        let tried = match (attempt, keys) {
            (0, Some(keys)) => keys,
            (0, None) => continue,
            _ => Keys::of(version, packet.destination, Side::Client),
        };
        if let Some(frames) = quic::open(packet, &tried, &mut desk.plain) {
            if keys != Some(tried) {
                collected.filled = Filled::default();
            }
            collected.keys = Some((version, tried));
            for frame in frames {
                if let Frame::Crypto { offset, bytes } = frame {
                    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                    let inserted = collected.filled.insert(desk.assembly.room(), offset, bytes);
                    desk.stats.dropped += u64::from(inserted == Inserted::Dropped);
                }
            }
            return true;
        }
    }
    false
}

/// A packet that cannot be opened, such as a server's, but has the form of one.
fn is_likely(payload: &[u8], packet: &quic::Packet<'_>) -> bool {
    let is_plausible = packet.destination.len() + packet.source.len() > 0;
    is_plausible && packet.bytes.len() >= 21 && payload.len() >= 21
}

/// A server's list of versions: those of the IETF or of drafts are in it.
fn is_negotiation(payload: &[u8], packet: &quic::Packet<'_>) -> bool {
    let start = 7 + packet.destination.len() + packet.source.len();
    let (versions, _) = payload.get(start..).unwrap_or_default().as_chunks();
    let numbers = versions.iter().map(|version| u32::from_be_bytes(*version));
    let mut known = numbers
        .filter(|number| Version::of(*number).is_some() || matches!(number >> 16, 0x5130 | 0x5430));
    known.next().is_some()
}

/// Google's QUIC before it had long headers: flags with a version, eight bytes of a connection's number, "Q0" and two digits.
fn google_quic(payload: &[u8]) -> Option<Protocol> {
    let is_version = |at: usize| match payload.get(at..at + 4) {
        Some([b'Q', b'0', a, b]) => a.is_ascii_digit() && b.is_ascii_digit(),
        _ => false,
    };
    let flags = payload.first()?;
    let is_it = flags & 0xc1 == 0x01 && is_version(if flags & 0x08 == 0 { 1 } else { 9 });
    is_it.then_some(Protocol::GoogleQuic)
}

/// A hello of DTLS; `None` if this is no record of DTLS.
fn read_dtls(desk: &mut Desk, payload: &[u8], collected: &mut Collected) -> Option<Step> {
    let piece = match tls::datagram(payload)? {
        Ok(piece) => piece,
        Err(_) => {
            collected.likely = Protocol::Dtls;
            return Some(Step::Wait);
        }
    };
    let setting = Setting::dtls(&desk.settings);
    if piece.kind == tls::SERVER_HELLO {
        desk.verdict.found(Protocol::Dtls, Evidence::Tls);
        return Some(Step::Found);
    }
    collected.likely = Protocol::Dtls;
    let message = Some((piece.number, piece.len as u32));
    if collected.message != message {
        collected.message = message;
        collected.filled = Filled::default();
    }
    let body = match piece.body.len() == piece.len {
        true => piece.body,
        false => {
            let room = desk.assembly.room();
            let inserted = collected.filled.insert(room, piece.start, piece.body);
            desk.stats.dropped += u64::from(inserted == Inserted::Dropped);
            desk.assembly.bytes()[..collected.filled.front()]
                .get(..piece.len)
                .unwrap_or_default()
        }
    };
    let Some(hello) = Hello::read_datagram(body) else {
        return Some(Step::Wait);
    };
    say_hello(&mut desk.verdict, &mut desk.codes, &hello, true, setting);
    Some(Step::Found)
}

/// A message of DNS on one of its ports; on others it must ask one plain question and hold nothing else.
fn read_dns(desk: &mut Desk, packet: &Packet<'_>) -> bool {
    let by_port = packet.ports.iter().find_map(|port| match port {
        53 => Some(Protocol::Dns),
        5353 => Some(Protocol::Mdns),
        5355 => Some(Protocol::Llmnr),
        _ => None,
    });
    let message = dns::Message::read(packet.payload, &mut desk.verdict.host);
    let is_right = match (message, by_port) {
        (Some(_), Some(_)) => true,
        (Some(message), None) => {
            message.is_plain_question() && desk.verdict.host.as_bytes().contains(&b'.')
        }
        (None, _) => false,
    };
    if !is_right {
        desk.verdict.clear();
        return false;
    }
    let protocol = by_port.unwrap_or(Protocol::Dns);
    desk.verdict.found(protocol, Evidence::Dns);
    desk.verdict.source = Some(NameSource::DnsQuestion);
    true
}

/// SIP over UDP: a request or an answer.
fn sip(payload: &[u8]) -> Option<Protocol> {
    if !payload.first()?.is_ascii_uppercase() {
        return None;
    }
    let line = payload
        .split(|byte| *byte == b'\n')
        .next()?
        .trim_ascii_end();
    let is_it = line.starts_with(b"SIP/2.0 ") || line.ends_with(b" SIP/2.0");
    is_it.then_some(Protocol::Sip)
}

/// RTCP by its form; RTP if two packets of a source follow each other.
fn media(packet: &Packet<'_>, collected: &mut Collected) -> Option<Protocol> {
    if signature::is_rtcp(packet.payload) {
        return Some(Protocol::Rtcp);
    }
    let now = signature::rtp(packet.payload);
    let before = std::mem::replace(&mut collected.rtp[packet.direction as usize], now);
    let ((source, number), (source_before, number_before)) = (now?, before?);
    let distance = number.wrapping_sub(number_before);
    (source == source_before && (1..=4).contains(&distance)).then_some(Protocol::Rtp)
}
