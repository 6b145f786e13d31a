//! Encrypted connections: TLS 1.3 by rustls, with AWS-LC's cryptography.
//!
//! An agent has a self-made certificate. A client knows it by its SHA-256 alone, so no authority is asked, and no name or date in a
//! certificate counts. The agent knows its clients by the token, which they show once the connection is encrypted. The handshake has
//! the same deadline as the session's hello.

mod config;
mod credentials;
mod fingerprint;
mod stream;

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

pub use self::credentials::{ClientCredentials, CredentialsError, ServerCredentials};
pub use self::fingerprint::{CLIENT_FILE, Fingerprint};
pub use self::stream::TlsStream;
use crate::error::LinkError;
use crate::wait::Until;

/// Shakes hands with a client.
///
/// # Errors
/// [`LinkError::Tls`], [`LinkError::Io`].
pub(crate) fn accept(
    tcp: TcpStream,
    credentials: &ServerCredentials,
    until: &Until<'_>,
) -> Result<TlsStream, LinkError> {
    let connection = ServerConnection::new(Arc::clone(&credentials.config))
        .map_err(|error| LinkError::Tls(error.to_string()))?;
    complete(tcp, connection.into(), until)
}

/// Shakes hands with an agent whose certificate has this fingerprint.
///
/// # Errors
/// [`LinkError::Tls`], [`LinkError::Io`].
pub(crate) fn connect(
    tcp: TcpStream,
    fingerprint: Fingerprint,
    until: &Until<'_>,
) -> Result<TlsStream, LinkError> {
    let connection = || {
        let config = config::client_config(fingerprint)?;
        let name = ServerName::try_from(config::NAME).expect("a name of letters");
        ClientConnection::new(Arc::new(config), name)
    };
    let connection = connection().map_err(|error| LinkError::Tls(error.to_string()))?;
    complete(tcp, connection.into(), until)
}

fn complete(
    tcp: TcpStream,
    connection: Connection,
    until: &Until<'_>,
) -> Result<TlsStream, LinkError> {
    let mut stream = TlsStream::new(tcp, connection);
    while stream.is_handshaking() || stream.has_unsent() {
        let is_sending = stream.has_unsent();
        let events = match is_sending {
            true => PollFlags::OUT,
            false => PollFlags::IN,
        };
        until.wait(stream.tcp(), events)?;
        let moved = match is_sending {
            true => stream.push(),
            false => stream.pull(),
        };
        match moved {
            Err(e) if is_passing(&e) => {}
            moved => moved.map_err(failure)?,
        }
        if stream.is_handshaking() && stream.has_plaintext() {
            return Err(LinkError::Tls(
                "the peer closed the connection during the TLS handshake".to_owned(),
            ));
        }
    }
    Ok(stream)
}

/// Returns true for errors after which the same is tried again.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Why a handshake failed, for a person.
fn failure(error: io::Error) -> LinkError {
    use rustls::{AlertDescription as Alert, CertificateError, Error};
    let Some(tls) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    else {
        return LinkError::Io(error);
    };
    LinkError::Tls(match tls {
        Error::InvalidCertificate(CertificateError::Other(other)) => other.0.to_string(),
        Error::InvalidMessage(_) => format!(
            "the peer does not speak TLS ({tls}): it was started without credentials, or is no agent of dpb's"
        ),
        Error::AlertReceived(
            Alert::BadCertificate | Alert::CertificateUnknown | Alert::UnknownCA,
        ) => "the client expects another certificate".to_owned(),
        _ => format!("the TLS handshake failed: {tls}"),
    })
}
