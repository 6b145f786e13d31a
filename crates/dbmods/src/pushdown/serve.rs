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
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::budget::Budget;
use self::outbox::{Outbox, Taken};
use self::shelf::{Shelf, damaged, refuse};
use super::bulk::Accepts;
use super::link::{Interrupted, Link, PACE_BITS_PER_S_MIN, stalled};
use super::scan::{self, Plan, ScanError, ScanOptions};
use super::selectivity::{self, SelectivityError};
use super::wire::batch::Encoder;
use super::wire::{
    self, AgentInfo, CAPABILITY_BULK, CAPABILITY_DUCKDB, CAPABILITY_FETCH, End, Engine, FileFormat,
    Hello, Refusal, Reply, Request, ScanRequest, Tag, Welcome, WireError,
};
use super::{sql, usage};
use crate::duckdb::{Interrupt, Library};

mod budget;
mod outbox;
mod peer;
mod residency;
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

/// Runs a scan and sends its batches as they come.
fn scan_and_send(shared: &Shared, link: &mut Link, request: &ScanRequest) -> Conversed {
    let segment = shared.shelf.segment(request.sf, &request.query.table)?;
    let schema = segment.schema();
    let usage = |e: &dyn std::fmt::Display| refuse(Refusal::Usage, e.to_string());
    request.query.check(schema).map_err(|e| usage(&e))?;
    let plan = Plan::new(schema, &request.query).map_err(|e| usage(&e))?;
    let output = plan.output_schema();
    if request.threads == 0 {
        return Err(refuse(Refusal::Usage, "a scan needs at least one thread"));
    }
    let threads = request.threads.min(shared.options.threads_max) as usize;
    let batch_rows = request.batch_rows.max(BATCH_ROWS_MIN) as usize;
    // The queue and the one that is being sent.
    let kept_batches = QUEUE_BATCHES + 1;
    let (least, wanted) = match request.engine {
        Engine::Dpb => (
            plan.memory_bytes_min(&segment, kept_batches) as u64,
            plan.memory_bytes_max(&segment, threads, batch_rows, kept_batches) as u64,
        ),
        Engine::DuckDb => peer::memory_bytes(output, batch_rows, kept_batches),
    };
    let reserved = shared.budget.reserve(least, wanted)?;

    let halt = Halt::default();
    let outbox = Outbox::new(QUEUE_BATCHES);
    let outcome = Mutex::new(None);
    // Called before the engine tidies up, which is nobody's waiting time.
    let ended = |end: Result<End, WireError>| {
        *lock(&outcome) = Some(end);
        outbox.finish();
    };
    thread::scope(|scope| {
        let scanner = scope.spawn(|| {
            // Also when the scan panics: the sender must not wait for ever.
            let _finish = Finish(&outbox);
            let sink = |batch| outbox.put(batch);
            match request.engine {
                Engine::Dpb => {
                    let options = ScanOptions {
                        threads,
                        stop: &halt.stop,
                        batch_rows,
                        memory_bytes: reserved.bytes as usize,
                        sink_batches: kept_batches,
                    };
                    let cache = &shared.shelf.cache;
                    let scanned = plan.scan(&segment, cache, &options, &sink);
                    ended(match scanned {
                        Ok(stats) => Ok(ours(&stats)),
                        Err(error) => Err(scan_refusal(&error)),
                    });
                }
                Engine::DuckDb => {
                    let rows_ended = || {
                        ended(Ok(End {
                            tuples_scanned: segment.rows(),
                            ..End::default()
                        }));
                    };
                    let table = &request.query.table;
                    let scan = peer::Scan {
                        sql: sql::query_to_sql(&request.query, schema, table),
                        output,
                        table_rows: segment.rows(),
                        rows_expected: request.rows_expected,
                        batch_rows: peer::batch_rows(output, reserved.bytes, kept_batches),
                    };
                    let scanned =
                        duckdb_scan(shared, request, threads, scan, &halt, &sink, &rows_ended);
                    if let Err(error) = scanned {
                        ended(Err(error));
                    }
                }
            }
            // This thread ends here, and its wait is known until then.
            usage::core_wait_s();
        });
        let sent = send_batches(shared, link, output, &outbox, &halt);
        let ended = match sent {
            Ok(sent) => {
                let end = lock(&outcome).take();
                send_end(link, sent, end, &|| shared.is_ending())
            }
            Err(error) => Err(error),
        };
        outbox.close();
        while ended.is_err() && !scanner.is_finished() {
            halt.now();
            thread::sleep(PEER_LOOK);
        }
        // A scan's panic was told by the missing outcome.
        let _ = scanner.join();
        ended
    })
}

/// Tells how the scan ended, once all its rows are sent.
fn send_end(
    link: &mut Link,
    sent: Sent,
    end: Option<Result<End, WireError>>,
    stop: &dyn Fn() -> bool,
) -> Conversed {
    let end = end.unwrap_or_else(|| Err(refuse(Refusal::Internal, "the scan panicked")));
    let end = match end {
        Ok(end) => end,
        Err(_) if sent.stopped => End::default(),
        Err(error) => return Err(error),
    };
    let end = End {
        rows: sent.rows,
        batches: sent.batches,
        stopped: sent.stopped,
        ..end
    };
    settle(link, stop)?;
    link.send(Tag::End, &wire::encode(&end))
}

/// Waits until all that was sent has been carried.
fn settle(link: &mut Link, stop: &dyn Fn() -> bool) -> Conversed {
    if link.settle(stop).is_some() {
        return Err(WireError::Closed);
    }
    carried(link.settle_pieces(stop)?)
}

/// Stops a scan, whichever engine runs it.
#[derive(Default)]
struct Halt {
    stop: AtomicBool,
    /// Where DuckDB runs, once it does.
    duckdb: Mutex<Option<Interrupt>>,
}

impl Halt {
    /// May be called again: DuckDB forgets an interrupt that comes before its statement.
    fn now(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(running) = &*lock(&self.duckdb) {
            running.interrupt();
        }
    }

    fn is_set(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Says to the outbox that nothing more comes, however the scan ended.
struct Finish<'a, T>(&'a Outbox<T>);

impl<T> Drop for Finish<'_, T> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// What a sender counted.
#[derive(Default)]
struct Sent {
    rows: u64,
    batches: u64,
    stopped: bool,
}

/// Sends the schema, then batches until the outbox has finished, the client asks to stop, or it is gone.
fn send_batches(
    shared: &Shared,
    link: &mut Link,
    schema: &SchemaRef,
    outbox: &Outbox<RecordBatch>,
    halt: &Halt,
) -> Result<Sent, WireError> {
    let broke =
        |e: arrow_schema::ArrowError| refuse(Refusal::Internal, format!("cannot encode: {e}"));
    let (mut encoder, schema) = Encoder::new(schema).map_err(broke)?;
    let stop = || shared.is_ending();
    let mut sent = Sent::default();
    let mut looked = Instant::now();
    send_parts(link, Tag::Schema, &[&schema], schema.len(), &stop)?;
    loop {
        let taken = outbox.take(PEER_LOOK);
        if looked.elapsed() >= CORE_WAIT_LOOK {
            usage::core_wait_s();
            looked = Instant::now();
        }
        if let Some(header) = link.interjection()? {
            if header.tag != Tag::Stop {
                return Err(WireError::OutOfPlace(header.tag));
            }
            outbox.close();
            sent.stopped = true;
        }
        if sent.stopped {
            halt.now();
        }
        match taken {
            Taken::Item(batch) if !sent.stopped => {
                let encoded = encoder.encode(&batch).map_err(broke)?;
                let parts: Vec<&[u8]> = encoded.parts.iter().map(Buffer::as_slice).collect();
                send_parts(link, Tag::Batch, &parts, encoded.len, &stop)?;
                sent.rows += batch.num_rows() as u64;
                sent.batches += 1;
            }
            Taken::Item(_) | Taken::Nothing => {
                if shared.is_ending() {
                    return Err(ending());
                }
            }
            Taken::Finished => return Ok(sent),
        }
    }
}

fn send_parts(
    link: &mut Link,
    tag: Tag,
    parts: &[&[u8]],
    len: usize,
    stop: &dyn Fn() -> bool,
) -> Conversed {
    carried(link.send_frame(tag, parts, len, stop)?)
}

fn carried(ended: Option<Interrupted>) -> Conversed {
    match ended {
        None => Ok(()),
        Some(Interrupted::Peer) => Err(WireError::Closed),
        Some(Interrupted::Stalled) => Err(stalled()),
    }
}

/// DuckDB's rows of the same query, in the same schema. Says when they have ended, which is before DuckDB has tidied up.
fn duckdb_scan(
    shared: &Shared,
    request: &ScanRequest,
    threads: usize,
    scan: peer::Scan<'_>,
    halt: &Halt,
    sink: &dyn Fn(RecordBatch) -> ControlFlow<()>,
    rows_ended: &dyn Fn(),
) -> Conversed {
    let table = &request.query.table;
    let mut seated = shared.shelf.duckdb(request.sf, table, threads)?;
    *lock(&halt.duckdb) = Some(seated.connection.interrupt_handle());
    let peer = &shared.shelf.peer;
    let scanned = peer.scan(&mut seated, scan, halt, sink, rows_ended);
    // It would keep the database open for longer than its seat is taken.
    *lock(&halt.duckdb) = None;
    scanned
}

fn ours(stats: &scan::ScanStats) -> End {
    End {
        tuples_scanned: stats.tuples_scanned,
        bytes_read: stats.bytes_read,
        blocks_scanned: stats.blocks_scanned,
        blocks_skipped: stats.blocks_skipped,
        explain: wire::cut(&explanation(stats), wire::EXPLAIN_BYTES_MAX).to_owned(),
        ..End::default()
    }
}

/// What the scan found out about the predicate's parts, one line each.
fn explanation(stats: &scan::ScanStats) -> String {
    let lines = stats.conjuncts.iter().map(|part| {
        let rows = part.rows_sampled.max(1) as f64;
        format!(
            "{}: {:.4} of {} sampled rows pass, {:.3} ns a row",
            part.text,
            part.rows_passed as f64 / rows,
            part.rows_sampled,
            part.time_ns as f64 / rows
        )
    });
    let zones = format!(
        "zone maps decided {} of {} rows ({} row groups, {} more blocks left out)",
        stats.tuples_skipped, stats.tuples_scanned, stats.groups_skipped, stats.blocks_skipped
    );
    lines.chain([zones]).collect::<Vec<_>>().join("\n")
}

fn scan_refusal(error: &ScanError) -> WireError {
    match error {
        ScanError::Segment(source) => damaged(source),
        other => refuse(Refusal::Usage, other.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
