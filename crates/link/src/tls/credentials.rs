//! Credentials: an agent's key, certificate and token, and the small file by which its clients know it.
//!
//! `dpb serve init` makes a folder of four files: `key.pem`, `certificate.pem`, `token` and `client.credentials`. The last one goes
//! to the clients. It is three lines of text:
//!
//! ```text
//! dpb credentials 1
//! fingerprint sha256:<64 hexadecimal digits: SHA-256 of the certificate in DER>
//! token <the token>
//! ```

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::config::{NAME, server_config};
use super::fingerprint::{CLIENT_FILE, Fingerprint};
use crate::token::Token;

/// The first line of a client's file.
const FORMAT: &str = "dpb credentials 1";
/// More than this of any of the files is not read.
const FILE_BYTES_MAX: u64 = 64 << 10;
const KEY: &str = "key.pem";
const CERTIFICATE: &str = "certificate.pem";
const TOKEN: &str = "token";

/// Why credentials cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The operating system says so.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A secret that others than its owner may read.
    #[error("{}: others than its owner may use it (its mode is {mode:03o}): chmod 600 it", path.display())]
    Shared {
        /// The file.
        path: PathBuf,
        /// The file's permissions.
        mode: u32,
    },
    /// A file that holds something else.
    #[error("{}: {why}; `dpb serve init` makes new credentials", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is something already.
    #[error("{} is there already: remove it, or choose another folder; clients of the old credentials need new ones then", .0.display())]
    Exists(PathBuf),
    /// No key or certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

/// An agent's credentials.
#[derive(Clone)]
pub struct ServerCredentials {
    pub(super) config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    token: Token,
}

impl fmt::Debug for ServerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCredentials")
            .field("fingerprint", &self.fingerprint)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl ServerCredentials {
    /// Makes a key, a certificate and a token, and writes them into the new folder `dir`, whole or not at all. The key, the token and
    /// the client's file are their owner's alone.
    ///
    /// # Errors
    /// [`CredentialsError`]; among them a folder that is there and not empty.
    pub fn make(dir: &Path) -> Result<Self, CredentialsError> {
        let failed = |source| CredentialsError::File {
            path: dir.to_owned(),
            source,
        };
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(CredentialsError::Exists(dir.to_owned()));
        }
        let token = Token::random().map_err(|source| CredentialsError::File {
            path: "/dev/urandom".into(),
            source,
        })?;
        let made = Made::new(token)?;
        let name = dir.file_name().ok_or_else(|| {
            failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a folder's name",
            ))
        })?;
        let mut unfinished = name.to_owned();
        unfinished.push(format!(".{}.new", std::process::id()));
        let unfinished = dir.with_file_name(unfinished);
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        DirBuilder::new()
            .mode(0o700)
            .create(&unfinished)
            .map_err(failed)?;
        let written = made
            .write(&unfinished)
            .and_then(|()| fs::rename(&unfinished, dir));
        if written.is_err() {
            // What is left of it is of no use; the first error is the one to tell.
            let _ = fs::remove_dir_all(&unfinished);
        }
        written.map_err(|source| match source.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => {
                CredentialsError::Exists(dir.to_owned())
            }
            _ => failed(source),
        })?;
        Self::load(dir)
    }

    /// A key and a certificate that live as long as this value, and are written nowhere; clients show `token`.
    ///
    /// # Errors
    /// [`CredentialsError::Make`].
    pub fn one_time(token: Token) -> Result<Self, CredentialsError> {
        let failed = |error: &dyn fmt::Display| CredentialsError::Make(error.to_string());
        let made = Made::new(token)?;
        let certificate = CertificateDer::from_pem_slice(made.certificate.as_bytes())
            .map_err(|error| failed(&error))?;
        let key =
            PrivateKeyDer::from_pem_slice(made.key.as_bytes()).map_err(|error| failed(&error))?;
        let config = server_config(certificate, key).map_err(|error| failed(&error))?;
        Ok(Self {
            config: Arc::new(config),
            fingerprint: made.client.fingerprint,
            token: made.client.token,
        })
    }

    /// Reads what [`ServerCredentials::make`] has written.
    ///
    /// # Errors
    /// [`CredentialsError`]; among them secrets that others may read, and a key of another certificate.
    pub fn load(dir: &Path) -> Result<Self, CredentialsError> {
        let path = dir.join(CERTIFICATE);
        let certificate = CertificateDer::from_pem_slice(&read(&path)?)
            .map_err(|error| content(&path, error.to_string()))?;
        let path = dir.join(KEY);
        let key = PrivateKeyDer::from_pem_slice(&read_secret(&path)?)
            .map_err(|error| content(&path, error.to_string()))?;
        let fingerprint = Fingerprint::of(&certificate);
        let config =
            server_config(certificate, key).map_err(|error| content(&path, error.to_string()))?;
        let path = dir.join(TOKEN);
        let token = Token::new(read_secret(&path)?.trim_ascii())
            .map_err(|error| content(&path, error.to_string()))?;
        Ok(Self {
            config: Arc::new(config),
            fingerprint,
            token,
        })
    }

    /// The certificate's fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The token that clients show.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// What a client of this agent needs.
    pub fn for_clients(&self) -> ClientCredentials {
        ClientCredentials {
            fingerprint: self.fingerprint,
            token: self.token.clone(),
        }
    }
}

/// A key, a certificate and a token, as files.
struct Made {
    key: String,
    certificate: String,
    client: ClientCredentials,
}

impl Made {
    fn new(token: Token) -> Result<Self, CredentialsError> {
        let failed = |error: rcgen::Error| CredentialsError::Make(error.to_string());
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let mut params = rcgen::CertificateParams::new(vec![NAME.to_owned()]).map_err(failed)?;
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, NAME);
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self {
            key: key.serialize_pem(),
            client: ClientCredentials {
                fingerprint: Fingerprint::of(certificate.der()),
                token,
            },
            certificate: certificate.pem(),
        })
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let token = [self.client.token.as_bytes(), b"\n"].concat();
        for (name, mode, bytes) in [
            (KEY, 0o600, self.key.as_bytes()),
            (CERTIFICATE, 0o644, self.certificate.as_bytes()),
            (TOKEN, 0o600, &token),
            (CLIENT_FILE, 0o600, self.client.to_text().as_bytes()),
        ] {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(dir.join(name))?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        File::open(dir)?.sync_all()
    }
}

/// What a client knows of its agent: which certificate to expect, and the token to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    /// The fingerprint of the agent's certificate.
    pub fingerprint: Fingerprint,
    /// The token.
    pub token: Token,
}

impl ClientCredentials {
    /// Reads a credentials file.
    ///
    /// # Errors
    /// [`CredentialsError`]; among them a file that others may read.
    pub fn load(path: &Path) -> Result<Self, CredentialsError> {
        let bytes = read_secret(path)?;
        Self::parse(&bytes).map_err(|why| content(path, why.to_owned()))
    }

    /// Reads the text of a credentials file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not a text")?;
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return Err("no credentials file of this version of dpb: its first line is another");
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let fingerprint = field("fingerprint").ok_or("no fingerprint in its second line")?;
        let token = field("token").ok_or("no token in its third line")?;
        // A carriage return at its end would be gone when the file is written again.
        if token.contains(char::is_control) {
            return Err("a control character in the token");
        }
        if lines.next().is_some() {
            return Err("more than three lines");
        }
        let token = Token::new(token).map_err(|_| "the token's length");
        Self::new(fingerprint, token?)
    }

    /// Credentials of what an agent has said: its fingerprint as a text, and a token.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(fingerprint: &str, token: Token) -> Result<Self, &'static str> {
        let fingerprint = Fingerprint::parse(fingerprint)
            .ok_or("the fingerprint is not sha256: and 64 hexadecimal digits")?;
        Ok(Self { fingerprint, token })
    }

    /// The text of the credentials file.
    pub fn to_text(&self) -> String {
        let token = String::from_utf8_lossy(self.token.as_bytes());
        format!(
            "{FORMAT}\nfingerprint {}\ntoken {token}\n",
            self.fingerprint
        )
    }
}

fn content(path: &Path, why: String) -> CredentialsError {
    CredentialsError::Content {
        path: path.to_owned(),
        why,
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    read_if(path, |_| Ok(()))
}

/// Reads a file that only its owner may read.
fn read_secret(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    read_if(path, |mode| match mode & 0o077 {
        0 => Ok(()),
        _ => Err(CredentialsError::Shared {
            path: path.to_owned(),
            mode,
        }),
    })
}

fn read_if(
    path: &Path,
    is_fine: impl FnOnce(u32) -> Result<(), CredentialsError>,
) -> Result<Vec<u8>, CredentialsError> {
    let failed = |source| CredentialsError::File {
        path: path.to_owned(),
        source,
    };
    // A pipe would keep the program waiting.
    let mut options = OpenOptions::new();
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = options
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(content(path, "not a regular file".to_owned()));
    }
    is_fine(metadata.mode() & 0o777)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}
