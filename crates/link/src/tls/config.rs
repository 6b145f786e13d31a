//! What both sides ask of TLS: version 1.3, a certificate that is known by its fingerprint, and nothing kept for a later connection.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, ServerConfig,
    SignatureScheme,
};

use super::fingerprint::{CLIENT_FILE, Fingerprint};

/// The name in certificates. Nobody goes by it: a certificate is known by its fingerprint.
pub(super) const NAME: &str = "dpb";
/// The only version.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// AWS-LC's cryptography, whose ciphers stand in the order of preference: AES-GCM where the CPU has instructions for it,
/// with the shorter key first, which takes ten rounds instead of fourteen; else ChaCha20-Poly1305 first.
fn provider(has_aes: bool) -> Arc<CryptoProvider> {
    use aws_lc_rs::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = match has_aes {
        true => vec![
            TLS13_AES_128_GCM_SHA256,
            TLS13_AES_256_GCM_SHA384,
            TLS13_CHACHA20_POLY1305_SHA256,
        ],
        false => vec![
            TLS13_CHACHA20_POLY1305_SHA256,
            TLS13_AES_128_GCM_SHA256,
            TLS13_AES_256_GCM_SHA384,
        ],
    };
    Arc::new(provider)
}

/// Returns true if the CPU has instructions for AES.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

pub(super) fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    server_config_of(has_aes(), certificate, key)
}

fn server_config_of(
    has_aes: bool,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    let config =
        ServerConfig::builder_with_provider(provider(has_aes)).with_protocol_versions(VERSIONS)?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    // A ticket would make the client's socket readable when nothing was said.
    config.send_tls13_tickets = 0;
    // AES only where both sides have instructions for it: an agent without them takes its own order, any other that of the client.
    config.ignore_client_order = !has_aes;
    Ok(config)
}

pub(super) fn client_config(fingerprint: Fingerprint) -> Result<ClientConfig, Error> {
    client_config_of(has_aes(), fingerprint)
}

fn client_config_of(has_aes: bool, fingerprint: Fingerprint) -> Result<ClientConfig, Error> {
    let provider = provider(has_aes);
    let pinned = Pinned {
        fingerprint,
        provider: Arc::clone(&provider),
    };
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(VERSIONS)?;
    let mut config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Accepts one certificate, whatever it says, from a peer that has its key.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

/// Another certificate than the expected one.
#[derive(Debug)]
pub(super) struct OtherCertificate {
    found: Fingerprint,
    expected: Fingerprint,
}

impl fmt::Display for OtherCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the agent's certificate is {}, and the credentials are for {}: they are another agent's, or somebody stands between; \
             take its present {} from the agent's machine",
            self.found, self.expected, CLIENT_FILE
        )
    }
}

impl std::error::Error for OtherCertificate {}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = Fingerprint::of(certificate);
        if found == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        let other = OtherCertificate {
            found,
            expected: self.fingerprint,
        };
        let other = CertificateError::Other(OtherError(Arc::new(other)));
        Err(Error::InvalidCertificate(other))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 is the only version".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::CipherSuite::{TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256};
    use rustls::{CipherSuite, ClientConnection, ServerConnection};

    use super::*;

    /// The cipher that a client and an agent agree on, each on a machine with or without instructions for AES.
    fn agreed(client_has_aes: bool, agent_has_aes: bool) -> CipherSuite {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let client = client_config_of(client_has_aes, Fingerprint::of(&certificate));
        let agent = server_config_of(agent_has_aes, certificate, key).expect("its key");
        let name = ServerName::try_from(NAME).expect("a name");
        let client = ClientConnection::new(Arc::new(client.expect("a version")), name);
        let (mut client, mut agent) = (
            client.expect("a connection"),
            ServerConnection::new(Arc::new(agent)).expect("a connection"),
        );
        while client.is_handshaking() || agent.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("memory");
            while !bytes.is_empty() {
                let mut rest = &bytes[..];
                agent.read_tls(&mut rest).expect("memory");
                agent.process_new_packets().expect("a handshake");
                bytes = rest.to_vec();
            }
            agent.write_tls(&mut bytes).expect("memory");
            while !bytes.is_empty() {
                let mut rest = &bytes[..];
                client.read_tls(&mut rest).expect("memory");
                client.process_new_packets().expect("a handshake");
                bytes = rest.to_vec();
            }
        }
        let suite = client.negotiated_cipher_suite().expect("agreed");
        suite.suite()
    }

    #[test]
    fn aes_is_agreed_on_where_both_have_instructions_for_it() {
        assert_eq!(agreed(true, true), TLS13_AES_128_GCM_SHA256);
        for (client, agent) in [(true, false), (false, true), (false, false)] {
            assert_eq!(agreed(client, agent), TLS13_CHACHA20_POLY1305_SHA256);
        }
    }

    #[test]
    fn instructions_for_aes_are_those_that_the_system_lists() {
        let listed = std::fs::read_to_string("/proc/cpuinfo").expect("Linux");
        let is_features = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
        let features = listed.lines().find(is_features).unwrap_or_default();
        assert_eq!(has_aes(), features.split(' ').any(|word| word == "aes"));
    }
}
