//! How an agent runs, and why it may not start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dpb_core::{Backend, ClockKind, Timer, WallClock};
use dpb_link::Access;
use dpb_link::bulk::Acceptor;

use crate::local::Table;
use crate::scan::operator::own_cores;
use crate::table::Segment;
use crate::tpch;

/// The options of an agent that has tables.
#[derive(Clone)]
pub struct AgentOptions {
    /// The address that it listens on; port 0 for any that is free.
    pub listen: SocketAddr,
    /// The directory of its data.
    pub data_dir: PathBuf,
    /// Tables that it serves beside those of its data directory, by their names; it reads them through its own cache.
    pub tables: Vec<Table>,
    /// Most bytes of chunks that it keeps.
    pub cache_bytes: u64,
    /// Who may connect. Credentials are required unless `listen` is loopback.
    pub access: Access,
    /// Most threads of all our scans together, and of DuckDB's database; a scan that finds none left has one all the same.
    pub threads_max: u32,
    /// Most connections that are served at once, up to
    /// [`dpb_link::agent::CONNECTIONS_MAX`].
    pub connections_max: u32,
    /// True if clients may have files dropped from the caches, which slows all others.
    pub cold: bool,
    /// Carries out our scans.
    pub backend: Arc<dyn Backend>,
    /// Hears, on a thread of its own, of peers that were refused: a line each for up to ten in ten seconds, and the number of
    /// the others once a later one is refused.
    pub say: fn(&str),
    /// The clock of every wait and every pace.
    pub clock: Arc<dyn Timer>,
    /// The time that a client may take for its hello.
    pub handshake_patience: Duration,
    /// The time for which a connection may be idle between requests; `None` for as long as it likes.
    pub idle_patience: Option<Duration>,
    /// The opener of transports beside TCP for clients that ask for one, or the reason why there is none.
    pub bulk: Result<Arc<dyn Acceptor>, String>,
}

/// The reason why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The session says so.
    #[error(transparent)]
    Session(#[from] dpb_link::BindError),
    /// Two tables that have the same name.
    #[error("two tables are called {0}")]
    SameName(String),
    /// A backend whose time is not that of its clients.
    #[error(
        "{0} has a clock of its own, and clients measure by theirs: choose a backend that is no model"
    )]
    Virtual(String),
}

/// Bytes of chunks that an agent keeps unless told otherwise.
const CACHE_BYTES: u64 = 1 << 30;
/// Connections that it serves unless told otherwise.
const CONNECTIONS: u32 = 16;
/// The time that a client may take for its hello unless told otherwise.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

impl AgentOptions {
    /// An agent that anyone may ask, that scans with all of this machine's cores, keeps 1 GiB of chunks, serves 16 connections, says
    /// nothing, and has no transport but TCP.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            data_dir: tpch::default_data_dir(),
            tables: Vec::new(),
            cache_bytes: CACHE_BYTES,
            access: Access::Anyone,
            threads_max: thread::available_parallelism().map_or(1, |n| n.get() as u32),
            connections_max: CONNECTIONS,
            cold: false,
            backend: Arc::new(own_cores()),
            say: |_| (),
            clock: Arc::new(WallClock::default()),
            handshake_patience: HANDSHAKE_PATIENCE,
            idle_patience: None,
            bulk: Err("it was given none".to_owned()),
        }
    }

    /// The part of them that is the session's.
    pub fn session(&self) -> dpb_link::AgentOptions {
        dpb_link::AgentOptions {
            listen: self.listen,
            access: self.access.clone(),
            connections_max: self.connections_max,
            say: self.say,
            clock: Arc::clone(&self.clock),
            handshake_patience: self.handshake_patience,
            idle_patience: self.idle_patience,
        }
    }

    /// Checks whether an agent can scan so.
    pub(super) fn check(&self) -> Result<(), BindError> {
        if self.backend.clock().kind() != ClockKind::Wall {
            return Err(BindError::Virtual(self.backend.name().to_owned()));
        }
        Ok(())
    }

    /// The tables that it was given, by their names.
    pub(super) fn given(&self) -> Result<BTreeMap<String, Arc<Segment>>, BindError> {
        let mut given = BTreeMap::new();
        for table in &self.tables {
            let name = table.schema().table.clone();
            if given
                .insert(name.clone(), Arc::clone(table.segment()))
                .is_some()
            {
                return Err(BindError::SameName(name));
            }
        }
        Ok(given)
    }
}
