//! TLS's hellos, as clients of today send them (RFC 5246, RFC 8446, RFC 8701, draft-ietf-tls-ecdhe-mlkem).

use dpb_core::random::SplitMix64;

use super::bytes::{Bytes, random_bytes};

/// The version that a client offers, and what it brings for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsOffer {
    /// TLS 1.2, no more.
    Tls12,
    /// TLS 1.3 with a share of X25519, 1.2 as the fallback.
    Tls13,
    /// TLS 1.3 with shares of X25519MLKEM768 and X25519. The first is 1216 bytes, so that the hello fits no segment of Ethernet.
    Tls13PostQuantum,
}

/// A ClientHello.
#[derive(Clone, Debug)]
pub struct ClientHello {
    /// What is offered.
    pub offer: TlsOffer,
    /// The name of the server (SNI), if it is sent.
    pub server_name: Option<String>,
    /// Protocols above TLS (ALPN); none if empty.
    pub alpn: Vec<String>,
    /// True if reserved values stand among the real ones (GREASE, RFC 8701), as browsers send them.
    pub grease: bool,
    /// True if the extensions come in an order that is drawn, as in Chromium since 2023.
    pub shuffled: bool,
    /// The parameters of QUIC's transport (RFC 9001, 8.2): the hello is QUIC's, without session and older versions.
    pub transport_parameters: Option<Vec<u8>>,
}

/// The type of a record of the handshake.
pub const HANDSHAKE: u8 = 22;
/// The type of a record of data.
pub const APPLICATION_DATA: u8 = 23;
/// The type of the record that says that keys change.
const CHANGE_CIPHER_SPEC: u8 = 20;
/// What TLS 1.2 and, for compatibility, 1.3 call themselves.
const LEGACY_VERSION: u16 = 0x0303;
/// The version of a first record, for servers of long ago.
const FIRST_RECORD_VERSION: u16 = 0x0301;

const X25519: u16 = 0x001d;
const X25519_MLKEM768: u16 = 0x11ec;
/// ML-KEM's modulus (FIPS 203): coefficients of a public key lie below.
const MLKEM_Q: usize = 3329;

impl ClientHello {
    /// As a browser's: GREASE, extensions shuffled, HTTP/2 and 1.1.
    pub fn browser(offer: TlsOffer, server_name: &str) -> Self {
        Self {
            offer,
            server_name: Some(server_name.to_owned()),
            alpn: vec!["h2".to_owned(), "http/1.1".to_owned()],
            grease: true,
            shuffled: true,
            transport_parameters: None,
        }
    }

    /// As a browser's that speaks HTTP/3.
    pub fn quic(offer: TlsOffer, server_name: &str, source_id: &[u8]) -> Self {
        // initial_max_data, initial_max_streams_bidi, initial_source_connection_id (RFC 9000, 18.2).
        let mut parameters = vec![0x04, 0x04, 0x80, 0x10, 0x00, 0x00, 0x08, 0x02, 0x40, 0x64];
        parameters.extend([0x0f, source_id.len() as u8]);
        parameters.extend_from_slice(source_id);
        Self {
            alpn: vec!["h3".to_owned()],
            transport_parameters: Some(parameters),
            ..Self::browser(offer, server_name)
        }
    }

    /// The handshake message, which `random` determines.
    pub fn message(&self, random: &mut SplitMix64) -> Vec<u8> {
        let grease = Grease::new(random, self.grease);
        let mut body = Bytes::default();
        body.u16(LEGACY_VERSION);
        body.raw(&random_bytes(random, 32));
        match self.transport_parameters {
            Some(_) => body.vec8(&[]),
            None => body.vec8(&random_bytes(random, 32)),
        }
        body.in16(|suites| {
            grease.put(suites);
            for suite in self.cipher_suites() {
                suites.u16(*suite);
            }
        });
        body.vec8(&[0]);
        let extensions = self.extensions(random, &grease);
        body.in16(|all| extensions.iter().for_each(|extension| all.raw(extension)));
        message(1, &body.0)
    }

    fn cipher_suites(&self) -> &'static [u16] {
        const ALL: [u16; 15] = [
            0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
            0x009c, 0x009d, 0x002f, 0x0035,
        ];
        match (self.offer, &self.transport_parameters) {
            (_, Some(_)) => &ALL[..3],
            (TlsOffer::Tls12, None) => &ALL[3..],
            (TlsOffer::Tls13 | TlsOffer::Tls13PostQuantum, None) => &ALL,
        }
    }

    fn groups(&self) -> &'static [u16] {
        const ALL: [u16; 4] = [X25519_MLKEM768, X25519, 0x0017, 0x0018];
        match self.offer {
            TlsOffer::Tls13PostQuantum => &ALL,
            TlsOffer::Tls12 | TlsOffer::Tls13 => &ALL[1..],
        }
    }

    /// The extensions, each with its type and length, in the order in which they are sent.
    fn extensions(&self, random: &mut SplitMix64, grease: &Grease) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        let mut add = |kind: u16, body: Bytes| all.push(extension(kind, &body.0));
        if let Some(name) = &self.server_name {
            add(
                0,
                Bytes::with(|to| {
                    to.in16(|list| {
                        list.raw(&[0]);
                        list.vec16(name.as_bytes());
                    });
                }),
            );
        }
        if self.transport_parameters.is_none() {
            add(23, Bytes::default());
            add(0xff01, Bytes(vec![0]));
            add(11, Bytes(vec![1, 0]));
            add(35, Bytes::default());
        }
        add(
            10,
            Bytes::with(|to| {
                to.in16(|groups| {
                    grease.put(groups);
                    self.groups().iter().for_each(|group| groups.u16(*group));
                });
            }),
        );
        if !self.alpn.is_empty() {
            add(
                16,
                Bytes::with(|to| {
                    to.in16(|list| self.alpn.iter().for_each(|name| list.vec8(name.as_bytes())));
                }),
            );
        }
        add(5, Bytes(vec![1, 0, 0, 0, 0]));
        add(
            13,
            Bytes::with(|to| {
                to.in16(|list| {
                    let schemes = [
                        0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
                    ];
                    schemes.iter().for_each(|scheme| list.u16(*scheme));
                });
            }),
        );
        add(18, Bytes::default());
        if self.offer != TlsOffer::Tls12 {
            add(51, self.key_shares(random, grease));
            add(45, Bytes(vec![1, 1]));
            add(
                43,
                Bytes::with(|to| {
                    to.in8(|versions| {
                        grease.put(versions);
                        versions.u16(0x0304);
                        if self.transport_parameters.is_none() {
                            versions.u16(LEGACY_VERSION);
                        }
                    });
                }),
            );
            add(27, Bytes(vec![2, 0, 2]));
        }
        if let Some(parameters) = &self.transport_parameters {
            add(57, Bytes(parameters.clone()));
        }
        if self.shuffled {
            for at in (1..all.len()).rev() {
                all.swap(at, random.below(at + 1));
            }
        }
        if self.grease {
            // Two that differ: an extension may not come twice.
            let [first, last] = grease.two();
            all.insert(0, extension(first, &[]));
            all.push(extension(last, &[0]));
        }
        all
    }

    fn key_shares(&self, random: &mut SplitMix64, grease: &Grease) -> Bytes {
        Bytes::with(|to| {
            to.in16(|shares| {
                if self.grease {
                    grease.put(shares);
                    shares.vec16(&[0]);
                }
                if self.offer == TlsOffer::Tls13PostQuantum {
                    let mut share = mlkem768_key(random);
                    share.extend(random_bytes(random, 32));
                    shares.u16(X25519_MLKEM768);
                    shares.vec16(&share);
                }
                shares.u16(X25519);
                shares.vec16(&random_bytes(random, 32));
            });
        })
    }
}

/// A ServerHello that accepts what was offered. The client's session is not echoed: none is resumed.
pub fn server_hello(offer: TlsOffer, random: &mut SplitMix64) -> Vec<u8> {
    let mut body = Bytes::default();
    body.u16(LEGACY_VERSION);
    body.raw(&random_bytes(random, 32));
    body.vec8(&random_bytes(random, 32));
    body.u16(match offer {
        TlsOffer::Tls12 => 0xc02f,
        TlsOffer::Tls13 | TlsOffer::Tls13PostQuantum => 0x1301,
    });
    body.raw(&[0]);
    body.in16(|all| match offer {
        TlsOffer::Tls12 => {
            all.raw(&extension(0xff01, &[0]));
            all.raw(&extension(23, &[]));
        }
        TlsOffer::Tls13 | TlsOffer::Tls13PostQuantum => {
            all.raw(&extension(43, &[3, 4]));
            let (group, len) = match offer {
                // A ciphertext of ML-KEM-768, and X25519's point.
                TlsOffer::Tls13PostQuantum => (X25519_MLKEM768, 1088 + 32),
                TlsOffer::Tls12 | TlsOffer::Tls13 => (X25519, 32),
            };
            let share = Bytes::with(|to| {
                to.u16(group);
                to.vec16(&random_bytes(random, len));
            });
            all.raw(&extension(51, &share.0));
        }
    });
    message(2, &body.0)
}

/// A handshake message in records of at most `fragment_bytes_max` each: one, unless it is cut.
pub fn handshake_records(message: &[u8], fragment_bytes_max: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for fragment in message.chunks(fragment_bytes_max.clamp(1, 1 << 14)) {
        records.extend(record(HANDSHAKE, FIRST_RECORD_VERSION, fragment));
    }
    records
}

/// The end of the handshake and data: records whose bytes look random.
pub fn encrypted_records(lens: &[usize], random: &mut SplitMix64) -> Vec<u8> {
    let mut records = record(CHANGE_CIPHER_SPEC, LEGACY_VERSION, &[1]);
    for len in lens {
        records.extend(record(
            APPLICATION_DATA,
            LEGACY_VERSION,
            &random_bytes(random, *len),
        ));
    }
    records
}

fn record(kind: u8, version: u16, fragment: &[u8]) -> Vec<u8> {
    let mut record = Bytes(vec![kind]);
    record.u16(version);
    record.vec16(fragment);
    record.0
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend_from_slice(body);
    message
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut extension = Bytes::default();
    extension.u16(kind);
    extension.vec16(body);
    extension.0
}

/// A public key of ML-KEM-768 (FIPS 203): 768 coefficients of twelve bits, and a seed. It has no secret key, and passes a server's check of its
/// coefficients.
fn mlkem768_key(random: &mut SplitMix64) -> Vec<u8> {
    let mut key = Vec::with_capacity(1184);
    for _ in 0..3 * 256 / 2 {
        let [first, second] = [(); 2].map(|()| random.below(MLKEM_Q) as u32);
        let pair = first | second << 12;
        key.extend_from_slice(&pair.to_le_bytes()[..3]);
    }
    key.extend(random_bytes(random, 32));
    key
}

/// Reserved values (RFC 8701): one for each use, the same wherever it is used again.
struct Grease {
    value: u16,
    other: u16,
    is_sent: bool,
}

impl Grease {
    fn new(random: &mut SplitMix64, is_sent: bool) -> Self {
        let value = |n: usize| (n as u16) << 12 | 0x0a00 | (n as u16) << 4 | 0x0a;
        let first = random.below(16);
        let second = (first + 1 + random.below(15)) % 16;
        Self {
            value: value(first),
            other: value(second),
            is_sent,
        }
    }

    fn put(&self, to: &mut Bytes) {
        if self.is_sent {
            to.u16(self.value);
        }
    }

    fn two(&self) -> [u16; 2] {
        [self.value, self.other]
    }
}
