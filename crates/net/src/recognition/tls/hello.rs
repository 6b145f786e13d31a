//! What a ClientHello says (RFC 8446, 4.1.2), and the little that is wanted of a ServerHello.

use super::super::bytes::Bytes;

const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
/// Encrypted Client Hello (RFC 9849).
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const HOST_NAME: u8 = 0;

/// True of the values that clients send so that servers learn to ignore unknown ones (RFC 8701): 0x0a0a, 0x1a1a … 0xfafa.
pub fn is_grease(code: u16) -> bool {
    code & 0x0f0f == 0x0a0a && code >> 8 == code & 0xff
}

/// Numbers of two bytes, one behind another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codes<'a>(pub &'a [u8]);

impl<'a> Codes<'a> {
    /// Each in its order, GREASE left out.
    pub fn iter(&self) -> impl Iterator<Item = u16> + 'a {
        let (pairs, _) = self.0.as_chunks();
        let codes = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
        codes.filter(|code| !is_grease(*code))
    }
}

/// Names of protocols (RFC 7301), each with a length of one byte before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols<'a>(&'a [u8]);

impl<'a> Protocols<'a> {
    /// Each in its order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + 'a {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || bytes.vector_8())
    }

    /// The first one that is not GREASE.
    pub fn first_known(&self) -> Option<&'a [u8]> {
        self.iter().find(|name| match name {
            [a, b] => !is_grease(u16::from_be_bytes([*a, *b])),
            _ => true,
        })
    }
}

/// An extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its number (IANA).
    pub kind: u16,
    /// Its bytes, fewer than it states if the hello is cut.
    pub body: &'a [u8],
}

/// The extensions of a hello, one behind another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a>(&'a [u8]);

impl<'a> Extensions<'a> {
    /// Each in its order, GREASE too. The last one may be cut.
    pub fn iter(&self) -> impl Iterator<Item = Extension<'a>> + 'a {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || {
            let kind = bytes.u16()?;
            let len = bytes.u16()?;
            let body = bytes.take_up_to(usize::from(len));
            Some(Extension { kind, body })
        })
    }

    /// The numbers of all but GREASE.
    pub fn kinds(&self) -> impl Iterator<Item = u16> + 'a {
        let kinds = self.iter().map(|extension| extension.kind);
        kinds.filter(|kind| !is_grease(*kind))
    }
}

/// A ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The version in front (`legacy_version`).
    pub version: u16,
    /// 32 bytes.
    pub random: &'a [u8],
    /// Up to 32 bytes.
    pub session_id: &'a [u8],
    /// The cipher suites.
    pub ciphers: Codes<'a>,
    /// All extensions.
    pub extensions: Extensions<'a>,
    /// The name of the server (RFC 6066, 3). With [`has_encrypted_hello`](Self::has_encrypted_hello) it is that of the outer hello.
    pub server_name: Option<&'a [u8]>,
    /// ALPN.
    pub protocols: Protocols<'a>,
    /// `supported_versions`.
    pub versions: Codes<'a>,
    /// `supported_groups`.
    pub groups: Codes<'a>,
    /// `signature_algorithms`.
    pub signature_algorithms: Codes<'a>,
    /// True if there is an Encrypted Client Hello, or what looks like one: clients send it as GREASE as well, and nobody on the way can tell.
    pub has_encrypted_hello: bool,
    /// True if the end of the hello is missing.
    pub is_cut: bool,
}

impl<'a> Hello<'a> {
    /// Reads the body of a ClientHello of TLS; `None` if it is none, or ends before its extensions.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        Self::with_cookie(body, false)
    }

    /// Reads one of DTLS, which has a cookie.
    pub fn read_datagram(body: &'a [u8]) -> Option<Self> {
        Self::with_cookie(body, true)
    }

    fn with_cookie(body: &'a [u8], has_cookie: bool) -> Option<Self> {
        let mut bytes = Bytes(body);
        let version = bytes.u16()?;
        let is_known = match has_cookie {
            true => matches!(version, 0xfe00..=0xfeff | 0x0100),
            false => version >> 8 == 3,
        };
        if !is_known {
            return None;
        }
        let random = bytes.take(32)?;
        let session_id = bytes.vector_8().filter(|id| id.len() <= 32)?;
        if has_cookie {
            bytes.vector_8()?;
        }
        let ciphers = bytes.vector_16().filter(|list| list.len() % 2 == 0)?;
        bytes.vector_8()?;
        let mut hello = Self {
            version,
            random,
            session_id,
            ciphers: Codes(ciphers),
            extensions: Extensions::default(),
            server_name: None,
            protocols: Protocols::default(),
            versions: Codes::default(),
            groups: Codes::default(),
            signature_algorithms: Codes::default(),
            has_encrypted_hello: false,
            is_cut: false,
        };
        // A hello without extensions ends here.
        if let Some(len) = bytes.u16() {
            let extensions = bytes.take_up_to(usize::from(len));
            hello.is_cut = extensions.len() < usize::from(len);
            hello.extend(Extensions(extensions));
        }
        Some(hello)
    }

    fn extend(&mut self, extensions: Extensions<'a>) {
        self.extensions = extensions;
        for Extension { kind, body } in extensions.iter() {
            let mut bytes = Bytes(body);
            match kind {
                SERVER_NAME => self.server_name = self.server_name.or_else(|| server_name(body)),
                SUPPORTED_GROUPS => self.groups = codes(bytes.vector_16()),
                SIGNATURE_ALGORITHMS => self.signature_algorithms = codes(bytes.vector_16()),
                ALPN => self.protocols = Protocols(bytes.vector_16().unwrap_or_default()),
                SUPPORTED_VERSIONS => self.versions = codes(bytes.vector_8()),
                ENCRYPTED_CLIENT_HELLO => self.has_encrypted_hello = true,
                _ => {}
            }
        }
    }

    /// The highest version that it offers.
    pub fn version_max(&self) -> u16 {
        // Versions of DTLS count downwards.
        let rank = |version: &u16| match version >> 8 {
            0xfe => (1, !version),
            _ => (0, *version),
        };
        self.versions
            .iter()
            .max_by_key(rank)
            .unwrap_or(self.version)
    }

    /// True if there is an extension of the server's name, whatever it says.
    pub fn names_server(&self) -> bool {
        self.extensions.iter().any(|one| one.kind == SERVER_NAME)
    }
}

fn codes(list: Option<&[u8]>) -> Codes<'_> {
    Codes(list.unwrap_or_default())
}

/// The first host name of the list, which has one at most.
fn server_name(body: &[u8]) -> Option<&[u8]> {
    let mut bytes = Bytes(body);
    let mut list = Bytes(bytes.vector_16()?);
    loop {
        let kind = list.u8()?;
        let name = list.vector_16()?;
        if kind == HOST_NAME {
            return Some(name).filter(|name| !name.is_empty());
        }
    }
}

/// A ServerHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello<'a> {
    /// The version that was chosen.
    pub version: u16,
    /// The cipher suite that was.
    pub cipher: u16,
    /// The protocol that was (ALPN), if the version says it in clear.
    pub protocol: Option<&'a [u8]>,
}

impl<'a> ServerHello<'a> {
    /// Reads the body of a ServerHello; `None` if it is none.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes(body);
        let version = bytes.u16().filter(|version| version >> 8 == 3)?;
        bytes.take(32)?;
        bytes.vector_8().filter(|id| id.len() <= 32)?;
        let cipher = bytes.u16()?;
        bytes.u8()?;
        let mut hello = Self {
            version,
            cipher,
            protocol: None,
        };
        let extensions = bytes.vector_16().unwrap_or_default();
        for Extension { kind, body } in Extensions(extensions).iter() {
            let mut bytes = Bytes(body);
            match kind {
                SUPPORTED_VERSIONS => hello.version = bytes.u16().unwrap_or(version),
                ALPN => hello.protocol = Protocols(bytes.vector_16()?).iter().next(),
                _ => {}
            }
        }
        Some(hello)
    }
}
