//! The agent's side: owns the data, scans it for whoever may ask, sends what qualifies.
//!
//! One thread a connection, one request at a time on each; a scan's own threads live as long as the scan. All scans of ours
//! together have [`AgentOptions::threads_max`], and each at least one; `protocol::End::threads` says how many it had. DuckDB's own
//! threads come beside them, as many as one scan may have: those of its database, whatever the number of its scans.
//!
//! **Memory** is bounded by the cache plus [`OVERHEAD_BYTES_MAX`], whatever the results' size: batches wait in a queue of
//! [`QUEUE_BATCHES`], a full queue blocks the scan that fills it, and each running scan reserves what it can hold at most
//! out of [`SCANS_BYTES_MAX`]: no more than a quarter of what is left, so that many stalled scans leave some for the next one,
//! which then gets smaller batches, whichever engine runs it. Of what no scan has reserved, up to [`SLOTS_BYTES_MAX`] stay allocated
//! for later ones. Only when next to nothing is left scans wait, and are refused as busy after [`RESERVE_PATIENCE`]. A request reserves
//! what it may grow to before it is received, out of [`PLANS_BYTES_MAX`]; a scan keeps of that what its terms take while it runs. The tables of plans have [`TABLES_BYTES_MAX`]:
//! a plan that finds none left has none, and is slower. Plans are made one at a time. Connections are counted as the
//! session says, see [`dpb_link::agent`]. Once a client asks for DuckDB, it may hold as much again as the cache for its
//! buffers, or [`DUCKDB_BYTES_MIN`] if that is more, and half of that for results that it finishes first. Results that go past
//! TCP (see [`dpb_link::bulk`]) wait in [`dpb_link::bulk::TRANSPORT_BYTES_MAX`] a connection, on [`TRANSPORTS_MAX`] of them.
//!
//! **Peers.** A slow client blocks its own scan only. One that vanishes stops its scan at once: the socket says so while
//! sending, and is asked every few milliseconds while there is nothing to send. One that is connected but takes nothing for
//! a minute is given up; after five seconds already while anybody waits for memory or for DuckDB, whether or not that one holds
//! what is waited for.
//!
//! **Rights.** Who has the token may ask for anything but that caches be dropped, which slows all others: that takes
//! [`AgentOptions::cold`]. Strangers and encryption are the session's.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use dpb_core::Evidence;
use dpb_link::budget::Budget;
pub use dpb_link::budget::RESERVE_PATIENCE;
use dpb_link::{AgentDescription, ClientInfo, Link, LinkError, Service, Tags};

pub use self::bounds::{
    DUCKDB_BYTES_MIN, OVERHEAD_BYTES_MAX, PLANS_BYTES_MAX, QUEUE_BATCHES, SCAN_BYTES_MAX,
    SCAN_BYTES_MIN, SCANS_BYTES_MAX, SLOTS_BYTES_MAX, TABLES_BYTES_MAX, TRANSPORTS_MAX,
};
use self::catalog::Catalog;
pub use self::options::{AgentOptions, BindError};
use self::requests::converse;
pub use self::sending::CORE_WAIT_LOOK;
use crate::scan::Slots;
use crate::service::protocol::{self, AgentInfo, Description};

mod bounds;
mod catalog;
mod duckdb_pool;
mod halt;
mod options;
mod outbox;
mod refusals;
mod requests;
pub(crate) mod residency;
mod scanning;
mod sending;

/// The interval at which an idle sender looks at its peer.
const PEER_LOOK: Duration = Duration::from_millis(10);
/// The service: tables, scanned for whoever opens it.
pub struct Pushdown {
    shared: Shared,
}

/// What a client is told that has waited for memory in vain.
const BUSY: &str = "other scans hold all memory that the agent has for them; try again later";

/// The state that all connections share.
struct Shared {
    options: AgentOptions,
    catalog: Catalog,
    description: Description,
    /// DuckDB's version, or why there is none; found when a client first asks.
    duckdb: OnceLock<Result<String, String>>,
    stop: AtomicBool,
    /// The number of scans that wait for memory or for DuckDB.
    waiting: Arc<AtomicUsize>,
    /// Memory that scans hold in batches.
    budget: Budget,
    /// Memory that ended scans have left.
    slots: Arc<Slots>,
    /// Memory of requests and plans, without tables.
    plans: Budget,
    /// Memory of the tables of plans.
    tables: Budget,
    /// Held by who makes a plan.
    planning: Mutex<()>,
    /// Threads that scan.
    threads: Budget,
    /// One more for each connection whose results go past TCP.
    transports: Mutex<Arc<()>>,
}

impl Shared {
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Pushdown {
    /// The service over the tables that `options` name; those of the session are not looked at.
    ///
    /// # Errors
    /// [`BindError`], of the tables and the backend.
    pub fn new(options: AgentOptions) -> Result<Self, BindError> {
        options.check()?;
        let given = options.given()?;
        let (waiting, clock) = (Arc::default(), Arc::clone(&options.clock));
        let shared = Shared {
            catalog: Catalog::new(
                given,
                options.data_dir.clone(),
                options.cache_bytes,
                &waiting,
                &clock,
            ),
            description: Description {
                cache_bytes: options.cache_bytes,
                backend: options.backend.name().to_owned(),
                emulated_by: match options.backend.properties().evidence {
                    Evidence::Emulated { by } => Some(by),
                    _ => None,
                },
            },
            duckdb: OnceLock::new(),
            stop: AtomicBool::new(false),
            budget: Budget::new(SCANS_BYTES_MAX, &waiting, &clock).saying(BUSY),
            slots: Arc::new(Slots::new(SLOTS_BYTES_MAX)),
            plans: Budget::new(PLANS_BYTES_MAX, &waiting, &clock).saying(BUSY),
            tables: Budget::new(TABLES_BYTES_MAX, &waiting, &clock),
            planning: Mutex::default(),
            threads: Budget::new(options.threads_max.into(), &waiting, &clock),
            waiting,
            transports: Mutex::default(),
            options,
        };
        Ok(Self { shared })
    }

    /// The description that clients have of an agent which offers this.
    pub fn info(&self, agent: &AgentDescription) -> AgentInfo {
        let duckdb = Err("nobody has asked for DuckDB".to_owned());
        AgentInfo::new(agent, self.shared.description.clone(), duckdb)
    }
}

impl Service for Pushdown {
    fn name(&self) -> &str {
        protocol::SERVICE
    }

    fn version(&self) -> u16 {
        protocol::VERSION
    }

    fn tags(&self) -> Tags {
        protocol::TAGS
    }

    fn describe(&self) -> Vec<u8> {
        self.shared.description.to_bytes()
    }

    fn serve(&self, link: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
        link.set_pressure(Arc::clone(&self.shared.waiting));
        converse(&self.shared, link)
    }

    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// An agent that listens and offers its tables, and nothing else.
pub struct Agent {
    agent: dpb_link::Agent,
    info: AgentInfo,
}

impl Agent {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(options: AgentOptions) -> Result<Self, BindError> {
        let session = options.session();
        let pushdown = Arc::new(Pushdown::new(options)?);
        let agent = dpb_link::Agent::bind(session, vec![pushdown.clone()])?;
        let info = pushdown.info(agent.description());
        Ok(Self { agent, info })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.agent.address()
    }

    /// The agent's description, as its clients are told.
    pub fn info(&self) -> &AgentInfo {
        &self.info
    }

    /// Serves until `stop` says so, which is asked ten times a second; then ends every connection and waits for their
    /// threads.
    pub fn run(self, stop: &dyn Fn() -> bool) {
        self.agent.run(stop);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
