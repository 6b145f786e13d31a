//! The agent: owns the data, scans it for whoever may ask, sends what qualifies.
//!
//! One thread a connection, one request at a time on each; a scan's own threads live as long as the scan. All scans of ours
//! together have [`AgentOptions::threads_max`], and each at least one; [`End::threads`] says how many it had. DuckDB's own
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
//! **Strangers.** Who has shown no token takes nobody's place, see [`door`]; one whose token is wrong waits for the answer.
//! [`AgentOptions::say`] hears of those that are refused; who listens slowly keeps nobody waiting. Who has the token may ask for anything but that caches be dropped,
//! which slows all others: that takes [`AgentOptions::cold`]. There is no encryption: what crosses, crosses in clear.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use dpb_core::{Backend, ClockKind, Evidence, Timer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::budget::{Budget, Reserved};
use self::catalog::Catalog;
use self::door::{Admission, Door, KNOCKING_MAX, Refusals};
use self::refusals::{damaged, refuse};
use self::scanning::scan_and_send;
use crate::duckdb::Library;
use crate::scan::Slots;
use crate::service::bulk::Acceptor;
use crate::service::link::{Interrupted, Link, PACE_BITS_PER_S_MIN, between, stalled};
use crate::service::protocol::{
    self, AgentInfo, CAPABILITY_BULK, CAPABILITY_DUCKDB, CAPABILITY_FETCH, End, FileFormat, Hello,
    Refusal, Reply, Request, Tag, Welcome, WireError,
};
use crate::service::selectivity::{self, SelectivityError};
use crate::service::usage;

mod budget;
mod catalog;
pub mod door;
mod duckdb_pool;
mod halt;
mod outbox;
mod refusals;
mod residency;
mod scanning;

/// Memory beside the cache, at most.
pub const OVERHEAD_BYTES_MAX: u64 = 256 << 20;
/// What all running scans together may hold in batches.
pub const SCANS_BYTES_MAX: u64 = 160 << 20;
/// What is kept of ended scans' memory for later ones, of what none has reserved.
pub const SLOTS_BYTES_MAX: usize = 16 << 20;
/// What one running scan may hold in batches.
pub const SCAN_BYTES_MAX: u64 = 32 << 20;
/// What one running scan has at least.
pub const SCAN_BYTES_MIN: u64 = 1 << 20;
/// What all requests, and their plans without tables, may hold: one of the longest while it is received, and many that run.
pub const PLANS_BYTES_MAX: u64 = 14 << 20;
/// What the tables of all plans may hold.
pub const TABLES_BYTES_MAX: u64 = 6 << 20;
/// What a byte of a request may become, decoded and as a plan without tables: a term of two bytes takes up to 128 in a list
/// that grows by doubling, and a quarter of it in the plan.
const REQUEST_GROWTH: u64 = 160;
/// What a byte of a request takes once its terms are counted: its text, and that of its plan.
const TEXT_GROWTH: u64 = 4;
/// What each term takes beside that.
const TERM_BYTES: u64 = 384;
/// What a connection takes beside its requests: stacks of its thread and of a scan's, its sockets, its buffers.
pub const CONNECTION_BYTES: u64 = 128 << 10;
/// What a connection takes before it is served: its thread's stack and what that thread has allocated, 25 to 36 KiB as
/// measured, and its hello.
pub const KNOCKING_BYTES: u64 = 48 << 10;
/// Connections that an agent can be told to serve at once, at most.
pub const CONNECTIONS_MAX: u32 = 128;
/// Batches that wait to be sent on one connection, at most.
pub const QUEUE_BATCHES: usize = 4;
/// What DuckDB may hold in its buffers at least, however small our own cache.
pub const DUCKDB_BYTES_MIN: u64 = 256 << 20;
/// What one connection may hold for results that go past TCP.
pub const TRANSPORT_BYTES_MAX: usize = 4 << 20;
/// Connections whose results go past TCP, at most; others stay on TCP.
pub const TRANSPORTS_MAX: usize = 8;
/// How long a scan waits for what others hold.
pub const RESERVE_PATIENCE: Duration = Duration::from_secs(10);

// The rest is for the program itself, and for what one plan takes while it is made.
const _: () = assert!(
    SCANS_BYTES_MAX
        + PLANS_BYTES_MAX
        + TABLES_BYTES_MAX
        + (TRANSPORT_BYTES_MAX * TRANSPORTS_MAX) as u64
        + CONNECTION_BYTES * CONNECTIONS_MAX as u64
        + KNOCKING_BYTES * KNOCKING_MAX as u64
        + (22 << 20)
        <= OVERHEAD_BYTES_MAX
);

/// How long a peer with a wrong token waits for the answer.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);
/// How to make a token.
pub const TOKEN_REMEDY: &str =
    "make one with `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`";
/// How often who waits for what others hold looks whether its client is still there.
const GONE_LOOK: Duration = Duration::from_millis(50);
/// Fewest rows of a batch.
const BATCH_ROWS_MIN: u32 = 64;
/// How often an idle sender looks at its peer.
const PEER_LOOK: Duration = Duration::from_millis(10);
/// How often, between two batches that are sent, the agent looks at how long a scan's threads wait for a core: the kernel
/// forgets it when they end. A look takes 3 us a thread.
pub const CORE_WAIT_LOOK: Duration = Duration::from_millis(10);
/// How often the agent looks whether it should end.
const STOP_LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// How an agent runs.
#[derive(Clone)]
pub struct AgentOptions {
    /// Where it listens; port 0 for any that is free.
    pub listen: SocketAddr,
    /// Where its data is.
    pub data_dir: PathBuf,
    /// Most bytes of chunks that it keeps.
    pub cache_bytes: u64,
    /// What clients must show, see [`protocol::TOKEN_BYTES_MIN`]. Required unless `listen` is loopback.
    pub token: Option<Vec<u8>>,
    /// Most threads of all our scans together, and of DuckDB's database; a scan that finds none left has one all the same.
    pub threads_max: u32,
    /// Most connections that are served at once, up to [`CONNECTIONS_MAX`].
    pub connections_max: u32,
    /// Whether clients may have files dropped from the caches, which slows all others.
    pub cold: bool,
    /// Carries out our scans.
    pub backend: Arc<dyn Backend>,
    /// Hears, on a thread of its own, of peers that were refused: a line each for up to ten in ten seconds, and the number of
    /// the others once a later one is refused.
    pub say: fn(&str),
    /// What every wait and every pace goes by.
    pub clock: Arc<dyn Timer>,
    /// How long a client may take for its hello.
    pub handshake_patience: Duration,
    /// How long a connection may be idle between requests; `None` for as long as it likes.
    pub idle_patience: Option<Duration>,
    /// Who opens transports beside TCP for clients that ask for one, or why there are none.
    pub bulk: Result<Arc<dyn Acceptor>, String>,
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address that others can reach, and no token.
    #[error("{0} can be reached from other machines: that needs a token (--token-file FILE)")]
    Exposed(SocketAddr),
    /// A token that can be guessed, or is too long.
    #[error(
        "a token has {min} to {max} bytes, this one {0}; {TOKEN_REMEDY}",
        min = protocol::TOKEN_BYTES_MIN, max = protocol::TOKEN_BYTES_MAX
    )]
    Token(usize),
    /// More connections than memory is kept for.
    #[error("{0} connections; at most {CONNECTIONS_MAX} are possible, as memory is kept for each")]
    Connections(u32),
    /// A backend whose time is not that of its clients.
    #[error(
        "{0} has a clock of its own, and clients measure by theirs: choose a backend that is no model"
    )]
    Virtual(String),
    /// The operating system says so.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What it says.
        source: io::Error,
    },
}

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What all connections of an agent share.
struct Shared {
    options: AgentOptions,
    catalog: Catalog,
    info: AgentInfo,
    /// DuckDB's version, or why there is none; found when a client first asks.
    duckdb: OnceLock<Result<String, String>>,
    stop: AtomicBool,
    /// Those who wait for memory or for DuckDB.
    waiting: Arc<AtomicUsize>,
    /// What scans hold in batches.
    budget: Budget,
    /// What ended scans have left.
    slots: Arc<Slots>,
    /// What requests and plans hold, without tables.
    plans: Budget,
    /// What the tables of plans hold.
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

/// What one conversation does next.
type Conversed = Result<(), WireError>;

impl Agent {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(options: AgentOptions) -> Result<Self, BindError> {
        let address = options.listen;
        match &options.token {
            None if !address.ip().is_loopback() => return Err(BindError::Exposed(address)),
            Some(token) if !protocol::TOKEN_BYTES.contains(&token.len()) => {
                return Err(BindError::Token(token.len()));
            }
            _ => {}
        }
        if options.connections_max > CONNECTIONS_MAX {
            return Err(BindError::Connections(options.connections_max));
        }
        if options.backend.clock().kind() != ClockKind::Wall {
            return Err(BindError::Virtual(options.backend.name().to_owned()));
        }
        let refused = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let info = AgentInfo::of_this_process(options.cache_bytes, &*options.backend);
        let (waiting, clock) = (Arc::default(), Arc::clone(&options.clock));
        let shared = Arc::new(Shared {
            catalog: Catalog::new(
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who it is, as its clients are told.
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

impl AgentInfo {
    /// What this process says of itself, and of the backend that scans for it.
    pub fn of_this_process(cache_bytes: u64, backend: &dyn Backend) -> Self {
        let cpu_model = std::fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("model name"))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            });
        Self {
            dpb_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            cpus: thread::available_parallelism().map_or(1, |n| n.get() as u32),
            cpu_model: cpu_model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            cache_bytes,
            backend: backend.name().to_owned(),
            emulated_by: match backend.properties().evidence {
                Evidence::Emulated { by } => Some(by),
                _ => None,
            },
            duckdb: Err("nobody has asked for DuckDB".to_owned()),
        }
    }
}

/// What clients are told whose request the agent's own end cuts short.
fn ending() -> WireError {
    refuse(Refusal::Unavailable, "the agent is ending")
}

/// Tells a client why its connection ends, if it is still there to hear it.
fn say_goodbye(link: &mut Link, error: &WireError) {
    if let Some(refusal) = error.refusal() {
        let body = protocol::refusal_bytes(refusal, &error.to_string());
        let _ = link.send(Tag::Error, &body);
        // Closing with unread bytes would reset the connection and take the words along.
        let _ = link.stream().shutdown(std::net::Shutdown::Write);
        link.drain(Duration::from_millis(200));
    }
}

/// Requests until the client leaves.
fn converse(shared: &Shared, link: &mut Link, hello: &Hello) -> Conversed {
    loop {
        let idle_patience = shared.options.idle_patience;
        link.set_deadline(idle_patience);
        let Some(header) = link.receive_header()? else {
            return Ok(());
        };
        match header.tag {
            Tag::Request => {}
            // It came too late for the scan that it meant.
            Tag::Stop => continue,
            tag => return Err(WireError::OutOfPlace(tag)),
        }
        let bytes = header.len as u64 * REQUEST_GROWTH;
        let gone = || shared.is_ending() || link.peer_gone();
        let mut held = shared.plans.reserve(bytes, &gone, |_| bytes)?;
        link.set_deadline(Some(shared.options.handshake_patience));
        let request = protocol::decode(&link.receive_body(header)?)?;
        match answer(shared, link, hello, &mut held, request) {
            // A request that could not be carried out leaves the connection usable.
            Err(WireError::Refused { refusal, text }) => {
                link.send(Tag::Error, &protocol::refusal_bytes(refusal, &text))?;
            }
            other => other?,
        }
    }
}

/// Lets a client in that has the token, if there is a place.
fn handshake(shared: &Shared, link: &mut Link, id: u64) -> Result<Hello, WireError> {
    link.set_deadline(Some(shared.options.handshake_patience));
    let Some(header) = link.receive_header()? else {
        return Err(WireError::Closed);
    };
    if header.tag != Tag::Hello {
        return Err(WireError::OutOfPlace(header.tag));
    }
    let hello = Hello::parse(&link.receive_body(header)?)?;
    if let Some(token) = &shared.options.token
        && !same_secret(token, &hello.token)
    {
        let clock = &*shared.options.clock;
        let began_ns = clock.now_ns();
        let is_early = || between(began_ns, clock.now_ns()) < WRONG_TOKEN_DELAY;
        while is_early() && !shared.is_ending() && !link.peer_gone() {
            clock.sleep(GONE_LOOK);
        }
        return Err(refuse(
            Refusal::Token,
            "the token is wrong or missing: give the agent's with --token-file FILE",
        ));
    }
    if (1..PACE_BITS_PER_S_MIN).contains(&hello.link_bits_per_s) {
        let text = format!(
            "{} bits a second are no pace; it is 0 for none, or at least {PACE_BITS_PER_S_MIN}",
            hello.link_bits_per_s
        );
        return Err(refuse(Refusal::Usage, text));
    }
    let places = shared.options.connections_max as usize;
    match shared.door.admit(id, places) {
        Admission::Served => {}
        Admission::Full => {
            let text = format!("all {places} connections are taken");
            return Err(refuse(Refusal::Busy, text));
        }
        Admission::Gone => return Err(WireError::Closed),
    }
    link.set_pace(hello.link_bits_per_s);
    let mut agent = shared.info.clone();
    let mut capabilities = CAPABILITY_FETCH | CAPABILITY_BULK;
    if hello.capabilities & CAPABILITY_DUCKDB != 0 {
        // Loading it takes memory, which a client that has no use for it would be shown as the agent's.
        let find = || match Library::find() {
            Ok(library) => Ok(library.version().to_owned()),
            Err(missing) => Err(missing.to_string()),
        };
        agent.duckdb = shared.duckdb.get_or_init(find).clone();
        capabilities |= agent.duckdb.as_ref().map_or(0, |_| CAPABILITY_DUCKDB);
    }
    let welcome = Welcome {
        capabilities,
        agent,
    };
    link.send(Tag::Welcome, &welcome.to_bytes())?;
    Ok(hello)
}

/// Compares in a time that depends on the lengths alone.
fn same_secret(ours: &[u8], theirs: &[u8]) -> bool {
    let differing = ours.iter().zip(theirs).fold(0, |differing, (a, b)| {
        std::hint::black_box(differing | (a ^ b))
    });
    ours.len() == theirs.len() && differing == 0
}

fn answer(
    shared: &Shared,
    link: &mut Link,
    hello: &Hello,
    held: &mut Reserved<'_>,
    request: Request,
) -> Conversed {
    let reply = match request {
        Request::Describe { sf } => {
            let duckdb = hello.capabilities & CAPABILITY_DUCKDB != 0;
            Reply::Tables(shared.catalog.tables(sf, duckdb)?)
        }
        Request::Pick {
            sf,
            table,
            selectivity,
        } => pick(shared, link, sf, &table, selectivity)?,
        Request::Cold { .. } if !shared.options.cold => {
            let text = "it keeps its caches, which others use too: start it with --allow-cold, or run without --cold";
            return Err(refuse(Refusal::Unavailable, text));
        }
        Request::Cold { sf, table, format } => {
            shared.catalog.make_cold(sf, &table, format)?;
            Reply::Dropped
        }
        Request::Usage { reset_peak } => Reply::Usage(usage::of_this_process(reset_peak)),
        Request::Scan(request) => return scan_and_send(shared, link, held, request),
        Request::Fetch { sf, table, format } => return send_file(shared, link, sf, &table, format),
        Request::Bulk { offer } => Reply::Bulk(open_transport(shared, link, &offer)),
    };
    link.send(Tag::Reply, &protocol::encode(&reply))
}

/// Opens a transport beside TCP to the client's ring; says what the client needs to know of it, or why there is none.
fn open_transport(shared: &Shared, link: &mut Link, offer: &[u8]) -> Result<Vec<u8>, String> {
    let accepts = shared.options.bulk.as_ref()?;
    if link.is_paced() {
        return Err("the link has a pace, and only TCP keeps it".to_owned());
    }
    if link.has_writer() {
        return Err("this connection has one".to_owned());
    }
    let held = {
        let transports = lock(&shared.transports);
        if Arc::strong_count(&transports) > TRANSPORTS_MAX {
            return Err(format!(
                "all {TRANSPORTS_MAX} of its transports beside TCP are taken"
            ));
        }
        Arc::clone(&transports)
    };
    let (answer, writer) = accepts.accept(offer)?;
    let ring = writer.ring();
    assert!(ring.pieces > 0 && ring.piece_bytes > 0, "as a ring is");
    link.set_writer(writer, held);
    Ok(answer)
}

fn pick(
    shared: &Shared,
    link: &Link,
    sf: f64,
    table: &str,
    share: f64,
) -> Result<Reply, WireError> {
    if !(share > 0.0 && share <= 1.0) {
        let text = format!("{share} is no selectivity; it is above 0 and at most 1");
        return Err(refuse(Refusal::Usage, text));
    }
    let segment = shared.catalog.segment(sf, table)?;
    let stop = || shared.is_ending() || link.peer_gone();
    let picked = selectivity::predicate(&segment, &shared.catalog.cache, share, &stop);
    let (predicate, selectivity) = picked.map_err(|error| match error {
        SelectivityError::Segment(source) => damaged(&source),
        SelectivityError::Stopped if shared.is_ending() => ending(),
        SelectivityError::Stopped => WireError::Closed,
        error => refuse(Refusal::Usage, error.to_string()),
    })?;
    Ok(Reply::Predicate {
        predicate,
        selectivity,
    })
}

fn send_file(
    shared: &Shared,
    link: &mut Link,
    sf: f64,
    table: &str,
    format: FileFormat,
) -> Conversed {
    let (file, bytes) = shared.catalog.file(sf, table, format)?;
    let stop = || shared.is_ending();
    link.send(Tag::Reply, &protocol::encode(&Reply::File { bytes }))?;
    let mut end = End::default();
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(Tag::File.body_bytes_max() as u64) as usize;
        carried(link.send_file_frame(&file, at, len, &stop)?)?;
        at += len as u64;
        end.batches += 1;
    }
    end.bytes_read = bytes;
    settle(link, &stop)?;
    link.send(Tag::End, &protocol::encode(&end))
}

/// Waits until all that was sent has been carried.
fn settle(link: &mut Link, stop: &dyn Fn() -> bool) -> Conversed {
    if link.settle(stop).is_some() {
        return Err(WireError::Closed);
    }
    carried(link.settle_pieces(stop)?)
}

fn carried(ended: Option<Interrupted>) -> Conversed {
    match ended {
        None => Ok(()),
        Some(Interrupted::Stopped) => Err(WireError::Closed),
        Some(Interrupted::Stalled) => Err(stalled()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
