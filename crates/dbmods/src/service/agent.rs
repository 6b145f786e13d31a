//! The agent: owns the data, scans it for whoever may ask, sends what qualifies.
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
//! a plan that finds none left has none, and is slower. Plans are made one at a time. Connections are counted as
//! [`CONNECTION_BYTES`] each, so there are [`CONNECTIONS_MAX`] at most, and strangers' as [`KNOCKING_BYTES`]. Once a client asks for DuckDB, it may hold as much again as the cache for its
//! buffers, or [`DUCKDB_BYTES_MIN`] if that is more, and half of that for results that it finishes first. Results that go past
//! TCP (see [`crate::service::bulk`]) wait in [`TRANSPORT_BYTES_MAX`] a connection, on [`TRANSPORTS_MAX`] of them.
//!
//! **Peers.** A slow client blocks its own scan only. One that vanishes stops its scan at once: the socket says so while
//! sending, and is asked every few milliseconds while there is nothing to send. One that is connected but takes nothing for
//! a minute is given up; after five seconds already while anybody waits for memory or for DuckDB, whether or not that one holds
//! what is waited for.
//!
//! **Strangers.** Who has shown no token takes nobody's place, see [`KNOCKING_MAX`]; one whose token is wrong waits for the answer.
//! [`AgentOptions::say`] hears of those that are refused; who listens slowly keeps nobody waiting. Who has the token may ask for anything but that caches be dropped,
//! which slows all others: that takes [`AgentOptions::cold`]. There is no encryption: what crosses, crosses in clear.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::bounds::{
    CONNECTION_BYTES, CONNECTIONS_MAX, DUCKDB_BYTES_MIN, KNOCKING_BYTES, OVERHEAD_BYTES_MAX,
    PLANS_BYTES_MAX, QUEUE_BATCHES, RESERVE_PATIENCE, SCAN_BYTES_MAX, SCAN_BYTES_MIN,
    SCANS_BYTES_MAX, SLOTS_BYTES_MAX, TABLES_BYTES_MAX, TRANSPORT_BYTES_MAX, TRANSPORTS_MAX,
};
use self::budget::Budget;
use self::catalog::Catalog;
pub use self::door::KNOCKING_MAX;
use self::door::{Door, Refusals};
use self::handshake::handshake;
pub use self::options::{AgentOptions, BindError, TOKEN_REMEDY};
use self::requests::{converse, say_goodbye};
pub use self::sending::CORE_WAIT_LOOK;
use crate::scan::Slots;
use crate::service::link::Link;
use crate::service::protocol::AgentInfo;

mod bounds;
mod budget;
mod catalog;
mod door;
mod duckdb_pool;
mod halt;
mod handshake;
mod options;
mod outbox;
mod refusals;
mod requests;
mod residency;
mod scanning;
mod sending;

/// The interval at which a thread that waits for memory or threads looks whether its client is still there.
const GONE_LOOK: Duration = Duration::from_millis(50);
/// The interval at which an idle sender looks at its peer.
const PEER_LOOK: Duration = Duration::from_millis(10);
/// The interval at which the agent looks whether it should end.
const STOP_LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// The state that all connections of an agent share.
struct Shared {
    options: AgentOptions,
    catalog: Catalog,
    info: AgentInfo,
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
    door: Door,
    refusals: Refusals,
    /// One more for each connection whose results go past TCP.
    transports: Mutex<Arc<()>>,
}

impl Shared {
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Agent {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(options: AgentOptions) -> Result<Self, BindError> {
        options.check()?;
        let given = options.given()?;
        let address = options.listen;
        let refused = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let info = AgentInfo::of_this_process(options.cache_bytes, &*options.backend);
        let (waiting, clock) = (Arc::default(), Arc::clone(&options.clock));
        let shared = Arc::new(Shared {
            catalog: Catalog::new(
                given,
                options.data_dir.clone(),
                options.cache_bytes,
                &waiting,
                &clock,
            ),
            info,
            duckdb: OnceLock::new(),
            stop: AtomicBool::new(false),
            budget: Budget::new(SCANS_BYTES_MAX, &waiting, &clock),
            slots: Arc::new(Slots::new(SLOTS_BYTES_MAX)),
            plans: Budget::new(PLANS_BYTES_MAX, &waiting, &clock),
            tables: Budget::new(TABLES_BYTES_MAX, &waiting, &clock),
            planning: Mutex::default(),
            threads: Budget::new(options.threads_max.into(), &waiting, &clock),
            waiting,
            door: Door::default(),
            refusals: Refusals::new(options.say, clock),
            transports: Mutex::default(),
            options,
        });
        Ok(Self {
            listener,
            address,
            shared,
        })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The agent's description, as its clients are told.
    pub fn info(&self) -> &AgentInfo {
        &self.shared.info
    }

    /// Serves until `stop` says so, which is asked ten times a second; then ends every connection and waits for their
    /// threads.
    pub fn run(self, stop: &dyn Fn() -> bool) {
        let mut threads: Vec<thread::JoinHandle<()>> = Vec::new();
        let mut next_id = 0;
        while !stop() {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&STOP_LOOK)), Ok(1..)) {
                continue;
            }
            threads.retain(|thread| !thread.is_finished());
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    next_id += 1;
                    threads.extend(self.welcome(stream, peer, next_id));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Out of file descriptors, or a client gone already: let others finish.
                Err(_) => self.shared.options.clock.sleep(Duration::from_millis(10)),
            }
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.door.close();
        for thread in threads {
            // A connection's panic has ended that connection.
            let _ = thread.join();
        }
    }

    /// Gives a connection its thread.
    fn welcome(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        id: u64,
    ) -> Option<thread::JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        stream.set_nonblocking(false).ok()?;
        let kept = stream.try_clone().ok()?;
        let mut link = Link::new(stream, 0, Arc::clone(&shared.options.clock)).ok()?;
        link.set_pressure(Arc::clone(&shared.waiting));
        if let Some(oldest) = shared.door.knock(id, kept) {
            let why = format!("{KNOCKING_MAX} newer connections came before it had said hello");
            refused(&shared, oldest.peer_addr(), &why);
        }
        let spawned = thread::Builder::new()
            .name(format!("connection {id}"))
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let _place = Place {
                        shared: &shared,
                        id,
                    };
                    let admitted = handshake(&shared, &mut link, id);
                    if let Err(error) = &admitted
                        && error.refusal().is_some()
                    {
                        refused(&shared, Ok(peer), &error.to_string());
                    }
                    let conversed = admitted.and_then(|hello| converse(&shared, &mut link, &hello));
                    if let Err(error) = conversed {
                        say_goodbye(&mut link, &error);
                    }
                }
            });
        if spawned.is_err() {
            shared.door.leave(id);
        }
        spawned.ok()
    }
}

fn refused(shared: &Shared, peer: io::Result<SocketAddr>, why: &str) {
    // Nobody can be told of a peer that has gone without an address.
    if let Ok(peer) = peer {
        shared.refusals.add(peer, why);
    }
}

/// A connection's place; freed when its thread ends, also by a panic.
struct Place<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.door.leave(self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
