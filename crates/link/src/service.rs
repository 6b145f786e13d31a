//! A service: what an agent does for clients once the session is open.

use std::net::SocketAddr;

use crate::error::LinkError;
use crate::link::Link;
use crate::tag::Tags;

/// A service that an agent offers. All connections share it.
pub trait Service: Send + Sync {
    /// The name that clients open it by: small letters, digits and hyphens, see [`crate::hello::NAME_BYTES_MAX`].
    fn name(&self) -> &str;

    /// The version of the service's own protocol. A client of another version is refused, and both sides say both.
    fn version(&self) -> u16;

    /// The tags of the service's frames.
    fn tags(&self) -> Tags;

    /// What clients are told before they open the service, in its own encoding; at most
    /// [`crate::hello::DESCRIPTION_BYTES_MAX`]. Every client with the token is told.
    fn describe(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Serves one client until it leaves. The connection is the service's until this returns, and ends then. It has a thread of
    /// its own; when the agent ends, the connection is cut.
    ///
    /// # Errors
    /// Why the connection cannot go on. The client is told, unless the stream was taken over.
    fn serve(&self, link: &mut Link, client: &ClientInfo) -> Result<(), LinkError>;

    /// The agent ends: work for clients should stop soon.
    fn stop(&self) {}
}

/// What an agent knows of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// The client's address.
    pub peer: SocketAddr,
    /// True if the connection is encrypted.
    pub is_encrypted: bool,
}
