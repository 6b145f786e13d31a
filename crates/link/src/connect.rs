//! The client's side: a connection to an agent, and a service of its opened on it.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use dpb_core::{Timer, WallClock};

use crate::VERSION;
use crate::error::LinkError;
use crate::hello::{AgentDescription, Hello, Offer, Open, Welcome, parse_opened};
use crate::link::{Link, between};
use crate::stream::{Stream, set_options};
use crate::tag::{HELLO, OPEN, OPENED, Tags, WELCOME};
#[cfg(feature = "tls")]
use crate::tls::ClientCredentials;
use crate::token::Token;

/// The time that an agent may take to accept.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// The time that an agent may take for the handshake and to open a service, unless told otherwise.
const WELCOME_PATIENCE: Duration = Duration::from_secs(15);

/// What a client shows, and how it knows its agent.
#[derive(Clone, Debug, Default)]
pub enum Pass {
    /// Nothing; to agents on loopback alone.
    #[default]
    None,
    /// A token; to agents on loopback alone, as nothing is encrypted.
    Token(Token),
    /// The token of these credentials, encrypted, to the agent with their certificate.
    #[cfg(feature = "tls")]
    Credentials(ClientCredentials),
}

impl Pass {
    fn token(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Token(token) => token.as_bytes(),
            #[cfg(feature = "tls")]
            Self::Credentials(credentials) => credentials.token.as_bytes(),
        }
    }

    fn is_encrypted(&self) -> bool {
        !matches!(self, Self::None | Self::Token(_))
    }
}

/// Why no session came about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody there.
    #[error("cannot reach an agent at {address}: {source}. Start one there with `dpb serve`")]
    Unreachable {
        /// The agent's address.
        address: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// An agent on another machine, and nothing to encrypt with.
    #[error(
        "{address} is another machine, and connections to it are encrypted: give its credentials with --credentials FILE \
         (`dpb serve init` there makes them)"
    )]
    Unprotected {
        /// The agent's address.
        address: String,
    },
    /// The agent refused, or no sense came of it.
    #[error("{source}")]
    Link {
        /// The agent's address.
        address: String,
        /// The failure.
        source: LinkError,
    },
}

/// How to connect to an agent.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The agent's address, `host:port`.
    pub address: String,
    /// What is shown to it.
    pub pass: Pass,
    /// The pace of both sides, bits per second; 0 for as fast as they can.
    pub link_bits_per_s: u64,
    /// The clock of the pace and of every wait.
    pub clock: Arc<dyn Timer>,
    /// Asked several times a second whether to give up waiting for the agent.
    pub stop: fn() -> bool,
    /// The time that the agent may take for the handshake, and then to open a service.
    pub patience: Duration,
}

impl Connect {
    /// A connection without a pass or a pace.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            pass: Pass::None,
            link_bits_per_s: 0,
            clock: Arc::new(WallClock::default()),
            stop: || false,
            patience: WELCOME_PATIENCE,
        }
    }

    /// Connects and shakes hands.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn session(&self) -> Result<Session, ConnectError> {
        let tcp = self.dial()?;
        let wrong = |source| ConnectError::Link {
            address: self.address.clone(),
            source,
        };
        let deadline_ns = self
            .clock
            .now_ns()
            .saturating_add(self.patience.as_nanos() as u64);
        let stream = self.secure(tcp, deadline_ns).map_err(wrong)?;
        self.shake(stream, deadline_ns).map_err(wrong)
    }

    fn dial(&self) -> Result<TcpStream, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable {
            address: self.address.clone(),
            source,
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.address.to_socket_addrs().map_err(unreachable)? {
            if !self.pass.is_encrypted() && !is_loopback(address) {
                let address = self.address.clone();
                return Err(ConnectError::Unprotected { address });
            }
            match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(e) => last = e,
            }
        }
        Err(unreachable(last))
    }

    #[cfg(feature = "tls")]
    fn secure(&self, tcp: TcpStream, deadline_ns: u64) -> Result<Stream, LinkError> {
        set_options(&tcp)?;
        let Pass::Credentials(credentials) = &self.pass else {
            return Ok(Stream::Plain(tcp));
        };
        let until = crate::wait::Until {
            clock: &*self.clock,
            deadline_ns,
            stop: &self.stop,
        };
        let tls = crate::tls::connect(tcp, credentials.fingerprint, &until)?;
        Ok(Stream::Tls(Box::new(tls)))
    }

    #[cfg(not(feature = "tls"))]
    fn secure(&self, tcp: TcpStream, _: u64) -> Result<Stream, LinkError> {
        set_options(&tcp)?;
        Ok(Stream::Plain(tcp))
    }

    fn shake(&self, stream: Stream, deadline_ns: u64) -> Result<Session, LinkError> {
        let mut link = Link::new(stream, self.link_bits_per_s, Arc::clone(&self.clock))?;
        link.set_stop(self.stop);
        let hello = Hello {
            version: VERSION,
            capabilities: 0,
            link_bits_per_s: self.link_bits_per_s,
            token: self.pass.token().to_vec(),
        };
        link.send(HELLO, &hello.to_bytes())?;
        link.set_deadline(Some(between(self.clock.now_ns(), deadline_ns)));
        let header = link.receive_answer_of(WELCOME)?;
        let welcome = Welcome::parse(&link.receive_body(header)?)?;
        link.set_deadline(None);
        Ok(Session {
            link,
            welcome,
            patience: self.patience,
        })
    }
}

/// An agent that has welcomed this client.
#[derive(Debug)]
pub struct Session {
    link: Link,
    welcome: Welcome,
    patience: Duration,
}

impl Session {
    /// The agent's description of itself.
    pub fn agent(&self) -> &AgentDescription {
        &self.welcome.agent
    }

    /// The services that the agent offers.
    pub fn services(&self) -> &[Offer] {
        &self.welcome.services
    }

    /// Opens the service `name`, whose protocol this side speaks in `version` and whose frames have these tags. The connection is
    /// the service's from then on.
    ///
    /// # Errors
    /// [`LinkError::Refused`] if the agent has no such service, or another version of it; those of the connection.
    pub fn open(self, name: &str, version: u16, tags: Tags) -> Result<Link, LinkError> {
        let mut link = self.link;
        let open = Open {
            service: name.to_owned(),
            version,
        };
        link.send(OPEN, &open.to_bytes())?;
        link.set_deadline(Some(self.patience));
        let header = link.receive_answer_of(OPENED)?;
        let opened = parse_opened(&link.receive_body(header)?)?;
        if opened != version {
            return Err(LinkError::Disbelieved(format!(
                "version {opened} of {name} is open, where version {version} was asked for"
            )));
        }
        link.set_deadline(None);
        link.set_tags(tags);
        Ok(link)
    }
}

/// Returns true for an address that no other machine has.
fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
