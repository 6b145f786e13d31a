//! The client: the family `remote`, whose backends are those of other machines.

mod backend;
mod dial;
mod join;
mod line;
mod operator;
mod places;
mod queue;
mod receiving;

use std::sync::Arc;
use std::time::Duration;

use dpb_core::{Backend, Clock, Family, Listed, OpSpec, OpenError, Unsupported, WallClock};
use rustix::io::Errno;

use self::backend::RemoteBackend;
pub use self::dial::{Dial, Dialled, tcp};
use super::REMOTE;
use super::spec::Resolve;
use crate::bulk::Duplex;

/// The time for which an agent may say nothing where it must, unless told otherwise: as long as other peers of dpb may.
const PATIENCE: Duration = Duration::from_secs(60);

/// The family `remote`: `remote/HOST:PORT/BACKEND` is the backend `BACKEND` of the agent at `HOST:PORT`.
#[allow(missing_debug_implementations)]
pub struct Remote(Far);

/// The things that reach an agent.
#[derive(Clone)]
struct Far {
    dial: Arc<dyn Dial>,
    resolve: Arc<dyn Resolve>,
    clock: Arc<dyn Clock>,
    patience: Duration,
    beside: Option<Beside>,
}

/// A transport beside the connections of queues.
#[derive(Clone)]
struct Beside {
    family: &'static str,
    transport: &'static str,
    duplex: Arc<dyn Duplex>,
}

impl Far {
    /// The name of the family.
    fn family(&self) -> &'static str {
        self.beside.as_ref().map_or(REMOTE, |beside| beside.family)
    }
}

impl Remote {
    /// Agents that `dial` connects to. `resolve` makes specs of their parts, as agents do: what it does not make again is not sent.
    pub fn new(dial: impl Dial + 'static, resolve: impl Resolve + 'static) -> Self {
        Self(Far {
            dial: Arc::new(dial),
            resolve: Arc::new(resolve),
            clock: Arc::new(WallClock::default()),
            patience: PATIENCE,
            beside: None,
        })
    }

    /// The same as the family `remote-…`: a job's items, and its outputs, go by `duplex` where they have more than
    /// [`INLINE_BYTES_MAX`](crate::bulk::INLINE_BYTES_MAX) bytes, into rings at both ends. `transport` is its name for a person. Where it
    /// cannot be had, the backend cannot either. It encrypts nothing.
    ///
    /// # Panics
    /// If `family` does not begin with `remote-`: agents would not know it for a backend of another machine.
    #[must_use]
    pub fn beside(
        mut self,
        family: &'static str,
        transport: &'static str,
        duplex: Arc<dyn Duplex>,
    ) -> Self {
        assert!(family.starts_with("remote-"), "{family}");
        self.0.beside = Some(Beside {
            family,
            transport,
            duplex,
        });
        self
    }

    /// The same with another patience: the time for which an agent may say nothing where it must. That of a queue is longer by the cost of
    /// its jobs.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.0.patience = patience;
        self
    }
}

impl Family for Remote {
    fn name(&self) -> &'static str {
        self.0.family()
    }

    fn backends(&self) -> Vec<Listed> {
        vec![Listed {
            instance: "HOST:PORT/BACKEND".to_owned(),
            is_here: false,
            summary: match &self.0.beside {
                None => "any operator, on a backend of another machine".to_owned(),
                Some(beside) => format!(
                    "as remote, with large items and outputs by {}, which encrypts nothing",
                    beside.transport
                ),
            },
            details: match &self.0.beside {
                None => "an agent there: dpb serve".to_owned(),
                Some(beside) => format!(
                    "an agent there: dpb serve; at both ends a device for {}",
                    beside.transport
                ),
            },
        }]
    }

    /// Connects, and asks for the backend. Without a backend's name it is the agent's `cpu`.
    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        let (address, backend) = match instance.split_once('/') {
            Some((address, backend)) => (address, backend),
            None => (instance, "cpu"),
        };
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        let family = self.0.family();
        if !has_port || backend.is_empty() {
            return Err(OpenError::NoSuch(format!(
                "no backend `{family}/{instance}`; it is {family}/HOST:PORT/BACKEND, such as {family}/10.0.0.2:7400/cpu"
            )));
        }
        let opened = RemoteBackend::open(self.0.clone(), address, backend);
        let absent = |why| Unsupported {
            reason: format!("{family}/{address}/{backend}: {why}"),
        };
        Ok(Box::new(opened.map_err(absent)?))
    }

    /// None: nobody knows where agents are.
    fn all_for(&self, _: &OpSpec) -> Vec<String> {
        Vec::new()
    }
}

/// The reason for a lost connection in words, from the code in [`JobError::Device`](dpb_core::JobError::Device). `None` if it is no such code: one
/// of the agent's device.
pub fn lost(code: i32) -> Option<&'static str> {
    let errno = Errno::from_raw_os_error(code.checked_neg().filter(|code| *code > 0)?);
    Some(match errno {
        Errno::CONNRESET | Errno::PIPE => "the agent closed the connection, or is gone",
        Errno::TIMEDOUT => "the agent was silent for too long",
        Errno::PROTO => "the agent sent what is no answer",
        Errno::CONNABORTED => "the agent refused to go on",
        Errno::NOLINK => "the transport of items and outputs is broken",
        _ => return None,
    })
}
