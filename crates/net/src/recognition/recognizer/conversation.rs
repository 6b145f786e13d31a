//! The two directions of a TCP connection, and what its readers make of them.

use super::super::upgrade::{Upgrade, upgrade};
use super::super::{Evidence, NameSource, Protocol, Reading, dns, http, signature, tls};
use super::desk::{Desk, Setting, say_message};

/// What is there of a connection.
pub(super) struct Conversation<'a> {
    /// The start of each direction.
    pub(super) bytes: [&'a [u8]; 2],
    /// True of a direction that gets no longer.
    pub(super) over: [bool; 2],
    /// True of a direction that no reader knows.
    pub(super) foreign: [bool; 2],
    /// The direction of the side that began.
    pub(super) initiator: usize,
    /// The port of each direction's sender.
    pub(super) ports: [u16; 2],
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The desk has the verdict.
    Found,
    /// More is wanted.
    Wait(Wait),
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Bytes of each direction.
    pub(super) wanted: [usize; 2],
    /// True of a direction that no reader knows.
    pub(super) foreign: [bool; 2],
    /// The protocol that it is if nothing else is found.
    pub(super) likely: Protocol,
}

/// Has each reader look at each direction that has bytes.
pub(super) fn examine(desk: &mut Desk, talk: &Conversation<'_>) -> Step {
    let mut wait = Wait {
        wanted: [1; 2],
        foreign: talk.foreign,
        likely: Protocol::Unknown,
    };
    for direction in [talk.initiator, 1 - talk.initiator] {
        if talk.bytes[direction].is_empty() || wait.foreign[direction] {
            continue;
        }
        match side(desk, talk, direction, &mut wait.likely) {
            Reading::Whole(()) => return Step::Found,
            Reading::Partial { wanted } => wait.wanted[direction] = wanted,
            Reading::Foreign => wait.foreign[direction] = true,
        }
    }
    if wait.likely != Protocol::Unknown {
        // The protocol is known, and each side's next words may say more.
        wait.foreign = [false; 2];
        for (wanted, bytes) in wait.wanted.iter_mut().zip(talk.bytes) {
            *wanted = (*wanted).min(bytes.len() + 1);
        }
    }
    Step::Wait(wait)
}

/// Has each reader look at one direction. `Whole` says that the desk has the verdict.
fn side(
    desk: &mut Desk,
    talk: &Conversation<'_>,
    direction: usize,
    likely: &mut Protocol,
) -> Reading<()> {
    let bytes = talk.bytes[direction];
    let mut waiting = None;
    let reading = match bytes.first() {
        Some(22 | 0x80..) => tls_message(desk, talk, direction, likely),
        Some(byte) if byte.is_ascii_alphabetic() => words(desk, talk, direction, likely),
        _ => Reading::Foreign,
    };
    match reading {
        Reading::Foreign => {}
        Reading::Partial { wanted } if bytes[0] != 22 => waiting = Some(wanted),
        reading => return reading,
    }
    if talk.ports.contains(&53) {
        match dns_message(desk, bytes) {
            Reading::Foreign => {}
            reading => return reading,
        }
    }
    let found = match signature::stream(bytes, talk.ports, talk.over[direction]) {
        Reading::Whole(protocol) => return session(desk, talk, direction, protocol, likely),
        Reading::Partial { wanted } => Some(wanted),
        Reading::Foreign => None,
    };
    match (found, waiting) {
        (None, None) => Reading::Foreign,
        (found, waiting) => Reading::Partial {
            wanted: found
                .unwrap_or(usize::MAX)
                .min(waiting.unwrap_or(usize::MAX)),
        },
    }
}

fn tls_message(
    desk: &mut Desk,
    talk: &Conversation<'_>,
    direction: usize,
    likely: &mut Protocol,
) -> Reading<()> {
    let setting = Setting::tls(&desk.settings);
    let (bytes, is_over) = (talk.bytes[direction], talk.over[direction]);
    let message = match tls::message(bytes, is_over, &mut desk.records) {
        Reading::Whole(message) => message,
        Reading::Partial { wanted } => return Reading::Partial { wanted },
        Reading::Foreign => return Reading::Foreign,
    };
    if message.kind == tls::CLIENT_HELLO {
        let (verdict, codes) = (&mut desk.verdict, &mut desk.codes);
        if !say_message(verdict, codes, &message, setting) {
            verdict.found(Protocol::Tls, Evidence::Bytes);
        }
        return Reading::Whole(());
    }
    let Some(answer) = tls::ServerHello::read(message.body) else {
        return Reading::Foreign;
    };
    desk.verdict.tls_version = answer.version;
    let other = 1 - direction;
    if !talk.bytes[other].is_empty() && !talk.over[other] {
        // The hello that this answers has been cut by a lost packet or an early one, which may come still.
        *likely = Protocol::Tls;
        return Reading::Partial {
            wanted: bytes.len() + 1,
        };
    }
    let asked = tls::message(talk.bytes[other], true, &mut desk.records);
    if let Reading::Whole(asked) = asked
        && asked.kind == tls::CLIENT_HELLO
        && say_message(&mut desk.verdict, &mut desk.codes, &asked, setting)
    {
        return Reading::Whole(());
    }
    desk.verdict.found(Protocol::Tls, Evidence::Tls);
    Reading::Whole(())
}

/// Requests and answers of HTTP and of what looks like it.
fn words(
    desk: &mut Desk,
    talk: &Conversation<'_>,
    direction: usize,
    likely: &mut Protocol,
) -> Reading<()> {
    let (bytes, is_over) = (talk.bytes[direction], talk.over[direction]);
    match http::answer(bytes) {
        Reading::Whole(dialect) => {
            // The request that this answers may have been cut.
            let asked = http::request(talk.bytes[1 - direction], true);
            return match asked {
                Reading::Whole(request) if request.is_connect() => Reading::Foreign,
                Reading::Whole(request) => say_request(desk, &request),
                _ => {
                    let (protocol, evidence) = of_dialect(dialect);
                    desk.verdict.found(protocol, evidence);
                    Reading::Whole(())
                }
            };
        }
        Reading::Partial { wanted } if !is_over => return Reading::Partial { wanted },
        _ => {}
    }
    match http::request(bytes, is_over) {
        Reading::Whole(request) => {
            let follows = desk.settings.follows_upgrades && request.is_connect();
            match request.len.filter(|_| follows) {
                Some(place) => {
                    let host = request.host.map(http::without_port);
                    behind(desk, talk, direction, Protocol::Http, place, host, likely)
                }
                None => say_request(desk, &request),
            }
        }
        Reading::Partial { wanted } => Reading::Partial { wanted },
        Reading::Foreign => Reading::Foreign,
    }
}

fn of_dialect(dialect: http::Dialect) -> (Protocol, Evidence) {
    match dialect {
        http::Dialect::Http1 => (Protocol::Http, Evidence::Http),
        http::Dialect::Http2 => (Protocol::Http2, Evidence::Http),
        http::Dialect::Rtsp => (Protocol::Rtsp, Evidence::Http),
        http::Dialect::Sip => (Protocol::Sip, Evidence::Http),
    }
}

fn say_request(desk: &mut Desk, request: &http::Request<'_>) -> Reading<()> {
    let (protocol, evidence) = of_dialect(request.dialect);
    desk.verdict.found(protocol, evidence);
    if let Some(host) = request.host {
        let source = match request.is_connect() {
            true => NameSource::Proxy,
            false => NameSource::Http,
        };
        desk.verdict.named(http::without_port(host), source);
    }
    Reading::Whole(())
}

/// A message of DNS with its length before it (RFC 1035, 4.2.2).
fn dns_message(desk: &mut Desk, bytes: &[u8]) -> Reading<()> {
    let Some((len, message)) = bytes.split_first_chunk() else {
        return Reading::Partial { wanted: 14 };
    };
    let len = usize::from(u16::from_be_bytes(*len));
    let cut = &message[..len.min(message.len())];
    if dns::Message::read(cut, &mut desk.verdict.host).is_some() {
        desk.verdict.found(Protocol::Dns, Evidence::Dns);
        desk.verdict.source = Some(NameSource::DnsQuestion);
        return Reading::Whole(());
    }
    desk.verdict.clear();
    // A question ends within so many bytes.
    match cut.len() < len.min(12 + 255 + 4) {
        true => Reading::Partial {
            wanted: bytes.len() + 1,
        },
        false => Reading::Foreign,
    }
}

/// A protocol that its first bytes showed: decided, unless the connection may go over to TLS.
fn session(
    desk: &mut Desk,
    talk: &Conversation<'_>,
    direction: usize,
    protocol: Protocol,
    likely: &mut Protocol,
) -> Reading<()> {
    if desk.settings.follows_upgrades {
        let is_server = protocol == Protocol::MySql
            || matches!(talk.bytes[direction].first(), Some(b'2' | b'*' | b'+'));
        let client = match (is_server, talk.bytes[talk.initiator].is_empty()) {
            (true, _) => 1 - direction,
            // Of some protocols answers look like requests.
            (false, false) => talk.initiator,
            (false, true) => direction,
        };
        match upgrade(protocol, talk.bytes[client]) {
            Upgrade::None => {}
            Upgrade::Open if talk.over[client] => {}
            Upgrade::Open => {
                *likely = protocol;
                return Reading::Partial {
                    wanted: talk.bytes[direction].len() + 1,
                };
            }
            Upgrade::At { place, host } => {
                return behind(desk, talk, client, protocol, place, host, likely);
            }
        }
    }
    desk.verdict.found(protocol, Evidence::Bytes);
    Reading::Whole(())
}

/// What follows at `place` of a client's bytes: a hello, or it is what it seemed to be.
fn behind(
    desk: &mut Desk,
    talk: &Conversation<'_>,
    client: usize,
    protocol: Protocol,
    place: usize,
    host: Option<&[u8]>,
    likely: &mut Protocol,
) -> Reading<()> {
    let rest = talk.bytes[client].get(place..).unwrap_or_default();
    let is_over = talk.over[client];
    match tls::message(rest, is_over, &mut desk.records) {
        Reading::Partial { wanted } if !is_over => {
            *likely = protocol;
            return Reading::Partial {
                wanted: place + wanted,
            };
        }
        Reading::Whole(message) if message.kind == tls::CLIENT_HELLO => {
            let setting = Setting {
                protocol,
                ..Setting::tls(&desk.settings)
            };
            let (verdict, codes) = (&mut desk.verdict, &mut desk.codes);
            say_message(verdict, codes, &message, setting);
        }
        _ => {}
    }
    desk.verdict.label.protocol = protocol;
    if desk.verdict.label.evidence == Evidence::None {
        desk.verdict.label.evidence = match protocol {
            Protocol::Http => Evidence::Http,
            _ => Evidence::Bytes,
        };
    }
    if let (true, Some(host)) = (desk.verdict.host.is_empty(), host) {
        desk.verdict.named(host, NameSource::Proxy);
    }
    Reading::Whole(())
}
