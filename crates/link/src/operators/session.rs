//! The service in sessions: what an agent offers, and how clients open it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::agent::OperatorsService;
use super::client::{Dial, Dialled};
use super::protocol::VERSION;
use super::wire::SessionSecurity;
use crate::connect::{Connect, Pass};
use crate::error::{LinkError, Refusal};
use crate::link::Link;
use crate::service::{ClientInfo, Service};
use crate::tag::Tags;

/// The service's name.
pub const NAME: &str = "operators";

/// Reaches agents by sessions: encrypted ones to other machines, plain ones on loopback.
#[derive(Clone)]
pub struct Sessions {
    pass: Arc<dyn Fn() -> Result<Pass, String> + Send + Sync>,
}

impl Sessions {
    /// `pass` gives what is shown to agents; it is asked for each connection.
    pub fn new(pass: impl Fn() -> Result<Pass, String> + Send + Sync + 'static) -> Self {
        let pass = Arc::new(pass);
        Self { pass }
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

impl Dial for Sessions {
    fn dial(&self, address: &str) -> Result<Dialled, String> {
        let connect = Connect {
            pass: (self.pass)()?,
            ..Connect::new(address)
        };
        let session = connect.session().map_err(|error| error.to_string())?;
        let link = session.open(NAME, VERSION, Tags::NONE);
        let link = link.map_err(|error| format!("{address}: {error}"))?;
        let stream = link.into_stream();
        // A session that is not encrypted does not leave the machine.
        let security = match stream.is_encrypted() {
            true => SessionSecurity::Encrypted,
            false => SessionSecurity::Loopback,
        };
        let wire = Box::new(stream);
        Ok(Dialled { wire, security })
    }
}

impl Service for OperatorsService {
    fn name(&self) -> &str {
        NAME
    }

    fn version(&self) -> u16 {
        VERSION
    }

    /// None: the service takes the stream over.
    fn tags(&self) -> Tags {
        Tags::NONE
    }

    fn serve(&self, link: &mut Link, client: &ClientInfo) -> Result<(), LinkError> {
        let security = match client.is_encrypted {
            true => SessionSecurity::Encrypted,
            false => SessionSecurity::Loopback,
        };
        let stop: &AtomicBool = &self.0.stop;
        let is_stopped = || stop.load(Ordering::Relaxed);
        let stream = Box::new(link.take_over());
        let served = self.serve_wire(stream, client.peer.ip(), security, &is_stopped);
        served.map_err(|why| LinkError::refused(Refusal::Protocol, why))
    }

    fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}
