//! How an agent listens, and why it may not.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::{Timer, WallClock};

#[cfg(feature = "tls")]
use crate::tls::ServerCredentials;
use crate::token::Token;

/// Connections that an agent can be told to serve at once, at most.
pub const CONNECTIONS_MAX: u32 = 128;
/// Connections that it serves unless told otherwise.
const CONNECTIONS: u32 = 16;
/// The time that a client may take for its handshake unless told otherwise.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

/// Who may connect, and what protects a connection.
#[derive(Clone, Debug)]
pub enum Access {
    /// Anyone who reaches the agent, on loopback.
    Anyone,
    /// Who shows this token, on loopback: nothing is encrypted.
    Token(Token),
    /// Who shows the token of these credentials, once the connection is encrypted.
    #[cfg(feature = "tls")]
    Credentials(ServerCredentials),
}

impl Access {
    /// The token that clients must show.
    pub(crate) fn token(&self) -> Option<&Token> {
        match self {
            Self::Anyone => None,
            Self::Token(token) => Some(token),
            #[cfg(feature = "tls")]
            Self::Credentials(credentials) => Some(credentials.token()),
        }
    }

    fn is_encrypted(&self) -> bool {
        !matches!(self, Self::Anyone | Self::Token(_))
    }
}

/// The options of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// The address that it listens on; port 0 for any that is free.
    pub listen: SocketAddr,
    /// Who may connect. Credentials are required unless `listen` is loopback.
    pub access: Access,
    /// Most connections that are served at once, up to [`CONNECTIONS_MAX`].
    pub connections_max: u32,
    /// Hears, on a thread of its own, of peers that were refused: a line each for up to ten in ten seconds, and the number of
    /// the others once a later one is refused.
    pub say: fn(&str),
    /// The clock of every wait and every pace.
    pub clock: Arc<dyn Timer>,
    /// The time that a client may take for its handshake, TLS and hello together.
    pub handshake_patience: Duration,
    /// The time that a client may take to open a service; `None` for as long as it likes. Services have patience of their own.
    pub idle_patience: Option<Duration>,
}

impl AgentOptions {
    /// An agent that anyone may ask, that serves 16 connections and says nothing.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            access: Access::Anyone,
            connections_max: CONNECTIONS,
            say: |_| (),
            clock: Arc::new(WallClock::default()),
            handshake_patience: HANDSHAKE_PATIENCE,
            idle_patience: None,
        }
    }

    /// Checks whether an agent can run so; listening aside.
    pub(super) fn check(&self) -> Result<(), BindError> {
        let is_loopback = self.listen.ip().to_canonical().is_loopback();
        if !is_loopback && !self.access.is_encrypted() {
            return Err(BindError::Exposed(self.listen));
        }
        if self.connections_max > CONNECTIONS_MAX {
            return Err(BindError::Connections(self.connections_max));
        }
        Ok(())
    }
}

/// The reason why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address that others can reach, and no credentials.
    #[error(
        "{0} can be reached from other machines: that needs encrypted connections. Make credentials with `dpb serve init DIR`, \
         and give them with --credentials DIR"
    )]
    Exposed(SocketAddr),
    /// More connections than memory is kept for.
    #[error("{0} connections; at most {CONNECTIONS_MAX} are possible, as memory is kept for each")]
    Connections(u32),
    /// Services that cannot be offered: two of one name, too many, a name or a description beyond its bounds.
    #[error("these services cannot be offered together: {0}")]
    Services(String),
    /// The operating system says so.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
}
