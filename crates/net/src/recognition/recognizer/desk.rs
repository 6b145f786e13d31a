//! What readers work with: one of each for all flows, so that nothing is allocated for a packet.

use super::super::stream::Assembly;
use super::super::tls::{self, Hello};
use super::super::{Carrier, Evidence, Ja4, NameSource, Protocol, Verdict};
use super::{Settings, Stats};

pub(super) struct Desk {
    pub(super) settings: Settings,
    pub(super) stats: Stats,
    /// The verdict that is being made.
    pub(super) verdict: Verdict,
    /// A message out of several records.
    pub(super) records: Vec<u8>,
    /// An Initial packet without its protection.
    pub(super) plain: Vec<u8>,
    /// Numbers while they are sorted.
    pub(super) codes: Vec<u16>,
    /// A hello that is put together out of datagrams.
    pub(super) assembly: Assembly,
}

impl Desk {
    pub(super) fn new(settings: Settings) -> Self {
        // A TCP payload may be longer than what is ever held, so the lists of a hello in one packet may be too; 64 KiB bound these.
        const PAYLOAD_BYTES_MAX: usize = 1 << 16;
        Self {
            settings,
            stats: Stats::default(),
            verdict: Verdict::NONE,
            records: Vec::with_capacity(PAYLOAD_BYTES_MAX),
            plain: Vec::with_capacity(super::super::quic::DATAGRAM_BYTES_MAX),
            codes: Vec::with_capacity(PAYLOAD_BYTES_MAX / 2),
            assembly: Assembly::new(),
        }
    }
}

/// Where a hello was found, and what it is the hello of.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) protocol: Protocol,
    pub(super) evidence: Evidence,
    pub(super) carrier: Carrier,
    pub(super) has_ja4: bool,
}

impl Setting {
    pub(super) fn tls(settings: &Settings) -> Self {
        Self {
            protocol: Protocol::Tls,
            evidence: Evidence::Tls,
            carrier: Carrier::Tcp,
            has_ja4: settings.has_ja4,
        }
    }

    pub(super) fn quic(settings: &Settings) -> Self {
        Self {
            protocol: Protocol::Quic,
            evidence: Evidence::Quic,
            carrier: Carrier::Quic,
            ..Self::tls(settings)
        }
    }

    pub(super) fn dtls(settings: &Settings) -> Self {
        Self {
            protocol: Protocol::Dtls,
            carrier: Carrier::Datagrams,
            ..Self::tls(settings)
        }
    }
}

/// Writes what a hello says into a verdict. A hello that is cut has no fingerprint.
pub(super) fn say_hello(
    verdict: &mut Verdict,
    codes: &mut Vec<u16>,
    hello: &Hello<'_>,
    is_whole: bool,
    setting: Setting,
) {
    verdict.found(setting.protocol, setting.evidence);
    verdict.tls_version = hello.version_max();
    if let Some(name) = hello.server_name {
        let source = match hello.has_encrypted_hello {
            true => NameSource::OuterSni,
            false => NameSource::Sni,
        };
        verdict.named(name, source);
    }
    if let Some(protocol) = hello.protocols.first_known() {
        verdict.protocol_offered.set(protocol);
    }
    if setting.has_ja4 && is_whole && !hello.is_cut {
        verdict.ja4 = Some(Ja4::of(hello, setting.carrier, codes));
    }
}

/// Writes what a ClientHello in a message of TLS says into a verdict; false if it is none.
pub(super) fn say_message(
    verdict: &mut Verdict,
    codes: &mut Vec<u16>,
    message: &tls::Message<'_>,
    setting: Setting,
) -> bool {
    if message.is_ssl2 {
        verdict.found(setting.protocol, setting.evidence);
        let version = message.body.first_chunk();
        verdict.tls_version = version.map_or(0, |version| u16::from_be_bytes(*version));
        return true;
    }
    let Some(hello) = Hello::read(message.body) else {
        return false;
    };
    let is_whole = message.body.len() == message.len;
    say_hello(verdict, codes, &hello, is_whole, setting);
    true
}
