//! TLS that begins behind something else: STARTTLS, proxies, databases, remote desktops.

use super::Protocol;
use super::bytes::Bytes;

/// What a client's bytes say about TLS behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade<'a> {
    /// There is none, and none is to be expected.
    None,
    /// It may come still.
    Open,
    /// It may begin at this place.
    At {
        place: usize,
        /// What a proxy is to connect to.
        host: Option<&'a [u8]>,
    },
}

/// What a client of `protocol` has said.
pub(super) fn upgrade<'a>(protocol: Protocol, client: &'a [u8]) -> Upgrade<'a> {
    match protocol {
        Protocol::Smtp | Protocol::Imap | Protocol::Pop3 | Protocol::Ftp => lines(client),
        Protocol::Xmpp => xmpp(client),
        Protocol::PostgreSql => postgresql(client),
        Protocol::MySql => mysql(client),
        Protocol::Rdp => rdp(client),
        Protocol::Socks => socks(client),
        Protocol::Ldap => ldap(client),
        _ => Upgrade::None,
    }
}

const fn at<'a>(place: usize) -> Upgrade<'a> {
    Upgrade::At { place, host: None }
}

/// Commands in lines: some ask for TLS, some come before that, and after any other it is too late.
fn lines(client: &[u8]) -> Upgrade<'_> {
    const BEFORE: [&[u8]; 14] = [
        b"EHLO",
        b"HELO",
        b"LHLO",
        b"NOOP",
        b"CAPABILITY",
        b"CAPA",
        b"FEAT",
        b"SYST",
        b"ID",
        b"ENABLE",
        b"HOST",
        b"OPTS",
        b"LANG",
        b"HELP",
    ];
    let mut start = 0;
    while let Some(len) = client[start..].iter().position(|byte| *byte == b'\n') {
        let line = client[start..start + len].trim_ascii();
        start += len + 1;
        let mut words = line.split(|byte| *byte == b' ');
        let (first, second) = (words.next().unwrap_or_default(), words.next());
        let is = |word: Option<&[u8]>, text: &[u8]| {
            word.is_some_and(|word| word.eq_ignore_ascii_case(text))
        };
        let asks = is(Some(first), b"STARTTLS")
            || is(Some(first), b"STLS")
            || is(second, b"STARTTLS")
            || (is(Some(first), b"AUTH") && (is(second, b"TLS") || is(second, b"SSL")));
        if asks {
            return at(start);
        }
        let is_before = |word| BEFORE.iter().any(|text| is(word, text));
        if !is_before(Some(first)) && !is_before(second) {
            return Upgrade::None;
        }
    }
    Upgrade::Open
}

fn xmpp(client: &[u8]) -> Upgrade<'_> {
    const ASKED: &[u8] = b"<starttls";
    let asked = client
        .windows(ASKED.len())
        .position(|window| window == ASKED);
    if let Some(asked) = asked {
        let end = client[asked..].iter().position(|byte| *byte == b'>');
        return match end {
            // `<starttls …></starttls>` is the long form.
            Some(end) => {
                let behind = asked + end + 1;
                let rest = client[behind..].strip_prefix(b"</starttls>");
                at(client.len() - rest.unwrap_or(&client[behind..]).len())
            }
            None => Upgrade::Open,
        };
    }
    let has = |word: &[u8]| client.windows(word.len()).any(|window| window == word);
    match has(b"<auth") || has(b"<iq") {
        true => Upgrade::None,
        false => Upgrade::Open,
    }
}

/// A request of eight bytes; or the start of a session without TLS.
fn postgresql(client: &[u8]) -> Upgrade<'_> {
    match client {
        [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f, ..] => at(8),
        [] => Upgrade::Open,
        _ => Upgrade::None,
    }
}

/// The first packet of a client, cut short, with the capability SSL.
fn mysql(client: &[u8]) -> Upgrade<'_> {
    const SSL: u8 = 0x08;
    match client {
        [0x20, 0, 0, 1, _, flags, ..] if flags & SSL != 0 => at(36),
        [] => Upgrade::Open,
        _ => Upgrade::None,
    }
}

/// The first packet of a client, of as many bytes as it says.
fn rdp(client: &[u8]) -> Upgrade<'_> {
    match client {
        [3, 0, high, low, ..] => at(usize::from(u16::from_be_bytes([*high, *low]))),
        [] => Upgrade::Open,
        _ => Upgrade::None,
    }
}

/// Of version 5 the methods, a name and a password if these are asked for, and a request (RFC 1928, RFC 1929); of version 4 a request alone.
fn socks(client: &[u8]) -> Upgrade<'_> {
    fn version_5(client: &[u8]) -> Option<Upgrade<'_>> {
        let mut bytes = Bytes(client);
        bytes.u8()?;
        bytes.vector_8()?;
        let mut version = bytes.u8()?;
        if version == 1 {
            bytes.vector_8()?;
            bytes.vector_8()?;
            version = bytes.u8()?;
        }
        if version != 5 || bytes.u8()? != 1 {
            return Some(Upgrade::None);
        }
        bytes.u8()?;
        let mut host = None;
        match bytes.u8()? {
            1 => bytes.take(4)?,
            3 => {
                let name = bytes.vector_8()?;
                host = Some(name);
                name
            }
            4 => bytes.take(16)?,
            _ => return Some(Upgrade::None),
        };
        bytes.u16()?;
        let place = client.len() - bytes.len();
        Some(Upgrade::At { place, host })
    }
    fn version_4(client: &[u8]) -> Option<Upgrade<'_>> {
        let mut bytes = Bytes(client);
        bytes.take(4)?;
        let address = bytes.u32()?;
        let mut text = || {
            let len = bytes.0.iter().position(|byte| *byte == 0)?;
            let text = bytes.take(len)?;
            bytes.u8()?;
            Some(text)
        };
        text()?;
        // An address of 0.0.0.x says that a name follows.
        let host = match address {
            1..=255 => Some(text()?),
            _ => None,
        };
        let place = client.len() - bytes.len();
        Some(Upgrade::At { place, host })
    }
    let read = match client.first() {
        Some(5) => version_5(client),
        Some(4) => version_4(client),
        _ => None,
    };
    read.unwrap_or(Upgrade::Open)
}

/// The extended operation 1.3.6.1.4.1.1466.20037 in the first message (RFC 4511, 4.14).
fn ldap(client: &[u8]) -> Upgrade<'_> {
    const NUMBER: &[u8] = b"1.3.6.1.4.1.1466.20037";
    let head = &client[..client.len().min(64)];
    let found = head
        .windows(NUMBER.len())
        .position(|window| window == NUMBER);
    match (found, client) {
        (Some(found), _) => at(found + NUMBER.len()),
        (None, []) => Upgrade::Open,
        (None, _) => Upgrade::None,
    }
}
