//! Ways to reach an agent.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::super::wire::{SessionSecurity, Wire};

/// Connects to agents: opens a session, and in it the service `operators`.
pub trait Dial: Send + Sync {
    /// Connects to the agent at `address`, which is `HOST:PORT`.
    ///
    /// # Errors
    /// Why there is no connection, in words that a person can act on.
    fn dial(&self, address: &str) -> Result<Dialled, String>;
}

impl<F: Fn(&str) -> Result<Dialled, String> + Send + Sync> Dial for F {
    fn dial(&self, address: &str) -> Result<Dialled, String> {
        self(address)
    }
}

/// A connection to an agent.
#[allow(missing_debug_implementations)]
pub struct Dialled {
    /// The bytes.
    pub wire: Box<dyn Wire>,
    /// Who can read what crosses.
    pub security: SessionSecurity,
}

/// How long a machine may take to answer at all.
const CONNECT: Duration = Duration::from_secs(10);

/// Plain TCP: no token, no encryption.
///
/// # Errors
/// As [`Dial::dial`].
pub fn tcp(address: &str) -> Result<Dialled, String> {
    let addresses = address
        .to_socket_addrs()
        .map_err(|error| format!("{address}: {error}"))?;
    let mut refused = format!("{address}: no such host");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                return Ok(Dialled {
                    wire: Box::new(stream),
                    security: match address.ip().is_loopback() {
                        true => SessionSecurity::Loopback,
                        false => SessionSecurity::Clear,
                    },
                });
            }
            Err(error) => {
                refused = format!("no agent at {address}: {error}; is `dpb serve` running there?")
            }
        }
    }
    Err(refused)
}
