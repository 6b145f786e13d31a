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

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

pub(super) fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    let config =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(VERSIONS)?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    // A ticket would make the client's socket readable when nothing was said.
    config.send_tls13_tickets = 0;
    Ok(config)
}

pub(super) fn client_config(fingerprint: Fingerprint) -> Result<ClientConfig, Error> {
    let provider = provider();
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
