//! The agent: owns the data, scans it for whoever may ask, sends what qualifies.
//!
//! One thread a connection, one request at a time on each; a scan's own threads live as long as the scan.
//!
//! **Memory** is bounded by the cache plus [`OVERHEAD_BYTES_MAX`], whatever the results' size: batches wait in a queue of
//! [`QUEUE_BATCHES`], a full queue blocks the scan that fills it, and each running scan reserves what it can hold at most
//! out of [`SCANS_BYTES_MAX`]: no more than a quarter of what is left, so that many stalled scans leave some for the next one,
//! which then gets smaller batches, whichever engine runs it. Only when next to nothing is left scans wait, and are refused
//! as busy after [`RESERVE_PATIENCE`]. Once a client asks for DuckDB, it may hold as much again as the cache for its
//! buffers, or [`DUCKDB_BYTES_MIN`] if that is more, and half of that for results that it finishes first. Results that go past
//! TCP (see [`super::bulk`]) wait in [`WAY_BYTES_MAX`] a connection, on [`WAYS_MAX`] of them.
//!
//! **Peers.** A slow client blocks its own scan only. One that vanishes stops its scan at once: the socket says so while
//! sending, and is asked every few milliseconds while there is nothing to send. One that is connected but takes nothing for
//! a minute is given up.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::budget::Budget;
use self::scanning::scan_and_send;
use self::shelf::{Shelf, damaged, refuse};
use super::bulk::Accepts;
use super::link::{Interrupted, Link, PACE_BITS_PER_S_MIN, stalled};
use super::selectivity::{self, SelectivityError};
use super::usage;
use super::wire::{
    self, AgentInfo, CAPABILITY_BULK, CAPABILITY_DUCKDB, CAPABILITY_FETCH, End, FileFormat, Hello,
    Refusal, Reply, Request, Tag, Welcome, WireError,
};
use crate::duckdb::Library;

mod budget;
mod outbox;
mod peer;
mod residency;
mod scanning;
mod shelf;

/// Memory beside the cache, at most.
pub const OVERHEAD_BYTES_MAX: u64 = 256 << 20;
/// What all running scans together may hold in batches.
pub const SCANS_BYTES_MAX: u64 = 160 << 20;
/// What one running scan may hold in batches.
pub const SCAN_BYTES_MAX: u64 = 32 << 20;
/// What one running scan has at least.
pub const SCAN_BYTES_MIN: u64 = 1 << 20;
/// Batches that wait to be sent on one connection, at most.
pub const QUEUE_BATCHES: usize = 4;
/// What DuckDB may hold in its buffers at least, however small our own cache.
pub const DUCKDB_BYTES_MIN: u64 = 256 << 20;
/// What one connection may hold for results that go past TCP.
pub const WAY_BYTES_MAX: usize = 4 << 20;
/// Connections whose results go past TCP, at most; others stay on TCP.
pub const WAYS_MAX: usize = 8;
/// How long a scan waits for what others hold.
pub const RESERVE_PATIENCE: Duration = Duration::from_secs(10);

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
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Where it listens; port 0 for any that is free.
    pub listen: SocketAddr,
    /// Where its data is.
    pub data_dir: PathBuf,
    /// Most bytes of chunks that it keeps.
    pub cache_bytes: u64,
    /// What clients must show. Required unless `listen` is loopback.
    pub token: Option<Vec<u8>>,
    /// Most threads that one scan gets.
    pub threads_max: u32,
    /// Most connections at once.
    pub connections_max: u32,
    /// How long a client may take for its hello.
    pub handshake_patience: Duration,
    /// How long a connection may be idle between requests; `None` for as long as it likes.
    pub idle_patience: Option<Duration>,
    /// Who makes ways past TCP for clients that ask for one, or why there are none.
    pub bulk: Result<Arc<dyn Accepts>, String>,
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address that others can reach, and no token.
    #[error("{0} can be reached from other machines: that needs a token (--token-file FILE)")]
    Exposed(SocketAddr),
    /// A token that is empty or too long.
    #[error("a token has 1 to {max} bytes, this one {0}", max = wire::TOKEN_BYTES_MAX)]
    Token(usize),
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
    shelf: Shelf,
    info: AgentInfo,
    stop: AtomicBool,
    budget: Budget,
    connections: Mutex<HashMap<u64, TcpStream>>,
    /// One more for each connection whose results go past TCP.
    ways: Mutex<Arc<()>>,
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
            Some(token) if token.is_empty() || token.len() > wire::TOKEN_BYTES_MAX => {
                return Err(BindError::Token(token.len()));
            }
            _ => {}
        }
        let refused = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let info = AgentInfo::of_this_process(options.cache_bytes);
        let shared = Arc::new(Shared {
            shelf: Shelf::new(options.data_dir.clone(), options.cache_bytes),
            options,
            info,
            stop: AtomicBool::new(false),
            budget: Budget::new(SCANS_BYTES_MAX),
            connections: Mutex::default(),
            ways: Mutex::default(),
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
                Ok((stream, _)) => {
                    next_id += 1;
                    threads.extend(self.welcome(stream, next_id));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Out of file descriptors, or a client gone already: let others finish.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        for stream in lock(&self.shared.connections).values() {
            // Whoever has gone already needs no shutdown.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        for thread in threads {
            // A connection's panic has ended that connection.
            let _ = thread.join();
        }
    }

    /// Gives a connection its thread, or refuses it.
    fn welcome(&self, stream: TcpStream, id: u64) -> Option<thread::JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        stream.set_nonblocking(false).ok()?;
        let kept = stream.try_clone().ok()?;
        let mut link = Link::new(stream, 0).ok()?;
        {
            let mut connections = lock(&shared.connections);
            if connections.len() >= shared.options.connections_max as usize {
                let text = format!("all {} connections are taken", connections.len());
                // The client may be gone; then nobody is refused.
                let _ = link.send(Tag::Error, &wire::refusal_bytes(Refusal::Busy, &text));
                return None;
            }
            connections.insert(id, kept);
        }
        let spawned = thread::Builder::new()
            .name(format!("connection {id}"))
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let _slot = Slot {
                        shared: &shared,
                        id,
                    };
                    if let Err(error) = converse(&shared, &mut link) {
                        say_goodbye(&mut link, &error);
                    }
                }
            });
        if spawned.is_err() {
            lock(&shared.connections).remove(&id);
        }
        spawned.ok()
    }
}

/// A connection's place; freed when its thread ends, also by a panic.
struct Slot<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        lock(&self.shared.connections).remove(&self.id);
    }
}

impl AgentInfo {
    /// What this process says of itself.
    pub fn of_this_process(cache_bytes: u64) -> Self {
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
            duckdb: Library::find()
                .map(|library| library.version().to_owned())
                .map_err(|missing| missing.to_string()),
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
        let body = wire::refusal_bytes(refusal, &error.to_string());
        let _ = link.send(Tag::Error, &body);
        // Closing with unread bytes would reset the connection and take the words along.
        let _ = link.stream().shutdown(std::net::Shutdown::Write);
        link.drain(Duration::from_millis(200));
    }
}

/// Handshake, then requests until the client leaves.
fn converse(shared: &Shared, link: &mut Link) -> Conversed {
    handshake(shared, link)?;
    loop {
        let idle_patience = shared.options.idle_patience;
        link.set_deadline(idle_patience.map(|patience| Instant::now() + patience));
        let Some(header) = link.receive_header()? else {
            return Ok(());
        };
        match header.tag {
            Tag::Request => {}
            // It came too late for the scan that it meant.
            Tag::Stop => continue,
            tag => return Err(WireError::OutOfPlace(tag)),
        }
        link.set_deadline(Some(Instant::now() + shared.options.handshake_patience));
        let request = wire::decode(&link.receive_body(header)?)?;
        match answer(shared, link, request) {
            // A request that could not be carried out leaves the connection usable.
            Err(WireError::Refused { refusal, text }) => {
                link.send(Tag::Error, &wire::refusal_bytes(refusal, &text))?;
            }
            other => other?,
        }
    }
}

fn handshake(shared: &Shared, link: &mut Link) -> Conversed {
    link.set_deadline(Some(Instant::now() + shared.options.handshake_patience));
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
    link.set_pace(hello.link_bits_per_s);
    let duckdb = shared.info.duckdb.as_ref().map_or(0, |_| CAPABILITY_DUCKDB);
    let welcome = Welcome {
        capabilities: CAPABILITY_FETCH | CAPABILITY_BULK | duckdb,
        agent: shared.info.clone(),
    };
    link.send(Tag::Welcome, &welcome.to_bytes())
}

/// Compares in a time that depends on the lengths alone.
fn same_secret(ours: &[u8], theirs: &[u8]) -> bool {
    let differing = ours.iter().zip(theirs).fold(0, |differing, (a, b)| {
        std::hint::black_box(differing | (a ^ b))
    });
    ours.len() == theirs.len() && differing == 0
}

fn answer(shared: &Shared, link: &mut Link, request: Request) -> Conversed {
    let reply = match request {
        Request::Describe { sf } => Reply::Tables(shared.shelf.tables(sf)?),
        Request::Pick {
            sf,
            table,
            selectivity,
        } => pick(shared, link, sf, &table, selectivity)?,
        Request::Cold { sf, table, format } => {
            shared.shelf.make_cold(sf, &table, format)?;
            Reply::Dropped
        }
        Request::Usage { reset_peak } => Reply::Usage(usage::of_this_process(reset_peak)),
        Request::Scan(request) => return scan_and_send(shared, link, &request),
        Request::Fetch { sf, table, format } => return send_file(shared, link, sf, &table, format),
        Request::Bulk { offer } => Reply::Bulk(open_way(shared, link, &offer)),
    };
    link.send(Tag::Reply, &wire::encode(&reply))
}

/// Opens a way past TCP to the client's ring; says what the client needs to know of it, or why there is none.
fn open_way(shared: &Shared, link: &mut Link, offer: &[u8]) -> Result<Vec<u8>, String> {
    let accepts = shared.options.bulk.as_ref()?;
    if link.is_paced() {
        return Err("the link has a pace, and only TCP keeps it".to_owned());
    }
    if link.has_writer() {
        return Err("this connection has one".to_owned());
    }
    let seat = {
        let ways = lock(&shared.ways);
        if Arc::strong_count(&ways) > WAYS_MAX {
            return Err(format!("all {WAYS_MAX} of its ways past TCP are taken"));
        }
        Arc::clone(&ways)
    };
    let (answer, writer) = accepts.accept(offer)?;
    let ring = writer.ring();
    assert!(ring.pieces > 0 && ring.piece_bytes > 0, "as a ring is");
    link.set_writer(writer, seat);
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
    let segment = shared.shelf.segment(sf, table)?;
    let stop = || shared.is_ending() || link.peer_gone();
    let picked = selectivity::predicate(&segment, &shared.shelf.cache, share, &stop);
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
    let (file, bytes) = shared.shelf.file(sf, table, format)?;
    let stop = || shared.is_ending();
    link.send(Tag::Reply, &wire::encode(&Reply::File { bytes }))?;
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
    link.send(Tag::End, &wire::encode(&end))
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
        Some(Interrupted::Peer) => Err(WireError::Closed),
        Some(Interrupted::Stalled) => Err(stalled()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
