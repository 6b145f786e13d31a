//! The service `index` of an agent: the side of the DPU. See [`super::protocol`] for what goes over the wire.
//!
//! A connection has a thread of its own. At most [`IndexServiceOptions::threads`] of them work on bursts at a time, so that the agent uses no more
//! processors than it was given, however many connections there are.
//!
//! **Memory.** An index reserves what its [plan](Plan::needs) says before it is made, out of [`IndexServiceOptions::memory_bytes_max`] and the free space
//! of the folder. A burst reserves what it and its outcome may take.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use dpb_core::Timer;
use dpb_link::budget::{Budget, Reserved};
use dpb_link::{
    ClientInfo, Header, Link, LinkError, Refusal, Service, Tags, decode, encode, refusal_bytes, tag,
};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use super::burst::{BURST_BYTES_MAX, Burst, Executor, Outcome};
use super::kind::{EngineKind, Plan};
use super::protocol::{self, BURST, IndexId, OUTCOME, REPLY, REQUEST, RemoteUsage, Reply, Request};
use super::{Index, IndexError, KeyRange};

/// The time that a client may take to send a body that it has announced.
const BODY_PATIENCE: Duration = Duration::from_secs(60);
/// Memory of all bursts and outcomes together.
const BURSTS_BYTES_MAX: u64 = 512 << 20;
/// Indexes of all clients together.
const INDEXES_MAX: usize = 64;

/// How the service is made.
#[derive(Clone, Debug)]
pub struct IndexServiceOptions {
    /// Memory of all indexes together, bytes.
    pub memory_bytes_max: u64,
    /// The folder in which files of indexes lie while these live.
    pub folder: PathBuf,
    /// Bursts that are worked on at once.
    pub threads: u32,
    /// The time for which a client may say nothing; `None` for as long as it likes.
    pub idle_patience: Option<Duration>,
    /// The clock of waits and of the time that bursts take.
    pub clock: Arc<dyn Timer>,
}

/// The service.
pub struct IndexService {
    options: IndexServiceOptions,
    indexes: Mutex<HashMap<IndexId, Weak<Shared>>>,
    /// Bytes that indexes have reserved.
    memory_bytes: Arc<AtomicU64>,
    threads: Budget,
    bursts: Budget,
    stop: AtomicBool,
}

/// An index that connections share.
struct Shared {
    id: IndexId,
    plan: Plan,
    index: Arc<dyn Index>,
    bursts: AtomicU64,
    requests: AtomicU64,
    // The files go after the index, which is declared before them.
    _folder: Option<TempDir>,
    _memory: Held,
}

/// The memory that an index has reserved.
struct Held {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Held {
    fn reserve(bytes: u64, of: &Arc<AtomicU64>, max: u64) -> Result<Self, LinkError> {
        let add = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= max);
        match of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Self {
                bytes,
                of: Arc::clone(of),
            }),
            Err(held) => Err(LinkError::refused(
                Refusal::Unavailable,
                format!(
                    "an index of {bytes} bytes does not fit: {} of {max} bytes are free for indexes; ask for fewer records, or give the agent more with --index-memory",
                    max - held
                ),
            )),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl IndexService {
    /// A service without an index.
    pub fn new(options: IndexServiceOptions) -> Self {
        let waiting = Arc::default();
        let threads = u64::from(options.threads.max(1));
        Self {
            indexes: Mutex::default(),
            memory_bytes: Arc::default(),
            threads: Budget::new(threads, &waiting, &options.clock)
                .saying("other bursts keep all threads of the agent busy; try again later"),
            bursts: Budget::new(BURSTS_BYTES_MAX, &waiting, &options.clock),
            stop: AtomicBool::new(false),
            options,
        }
    }

    fn indexes(&self) -> MutexGuard<'_, HashMap<IndexId, Weak<Shared>>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn make(&self, plan: Plan) -> Result<Arc<Shared>, LinkError> {
        let needs = plan.needs();
        let memory = Held::reserve(
            needs.memory_bytes,
            &self.memory_bytes,
            self.options.memory_bytes_max,
        )?;
        let broke =
            |error: &dyn fmt::Display| LinkError::refused(Refusal::Unavailable, error.to_string());
        let folder = match plan.engine {
            EngineKind::Tree => None,
            EngineKind::Lmdb => {
                std::fs::create_dir_all(&self.options.folder).map_err(|error| broke(&error))?;
                let made = tempfile::Builder::new()
                    .prefix("index-")
                    .tempdir_in(&self.options.folder);
                Some(made.map_err(|error| {
                    broke(&format!("{}: {error}", self.options.folder.display()))
                })?)
            }
        };
        let path = folder
            .as_ref()
            .map(TempDir::path)
            .unwrap_or(&self.options.folder);
        let index = plan.make(path).map_err(|error| broke(&error))?;
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| broke(&error))?;
        let shared = Arc::new(Shared {
            id: IndexId(u128::from_le_bytes(id)),
            plan,
            index,
            bursts: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            _folder: folder,
            _memory: memory,
        });
        let mut indexes = self.indexes();
        indexes.retain(|_, index| index.strong_count() > 0);
        if indexes.len() >= INDEXES_MAX {
            return Err(LinkError::refused(
                Refusal::Busy,
                "the agent has as many indexes as it may; try again later",
            ));
        }
        indexes.insert(shared.id, Arc::downgrade(&shared));
        Ok(shared)
    }

    fn join(&self, id: IndexId) -> Result<Arc<Shared>, LinkError> {
        let index = self.indexes().get(&id).and_then(Weak::upgrade);
        index.ok_or_else(|| {
            LinkError::refused(
                Refusal::Unavailable,
                "the agent has no such index: the connection that made it has ended",
            )
        })
    }

    /// Answers one request.
    fn answer(&self, request: Request, lane: &mut Option<Lane>) -> Result<Reply, LinkError> {
        let shared = match request {
            Request::Make(plan) => self.make(plan)?,
            Request::Join(id) => self.join(id)?,
            Request::Usage => return Ok(Reply::Usage(Lane::of(lane)?.shared.usage()?)),
            Request::DeleteRange { start, end, limit } => {
                let range = KeyRange::from(&start);
                let range = end.as_deref().map_or(range, |end| range.before(end));
                let deleted = Lane::of(lane)?
                    .shared
                    .index
                    .delete_range(range, limit as usize);
                return Ok(Reply::Deleted(deleted.map_err(refused)?.keys as u32));
            }
            Request::Flush => {
                Lane::of(lane)?.shared.index.flush().map_err(refused)?;
                return Ok(Reply::Flushed);
            }
        };
        let joined = Reply::Joined {
            id: shared.id,
            engine: shared.plan.engine,
            threads: self.options.threads,
        };
        *lane = Some(Lane {
            executor: Executor::new(Arc::clone(&shared.index), Arc::clone(&self.options.clock))
                .map_err(refused)?,
            shared,
        });
        Ok(joined)
    }

    /// Carries a burst out, and puts its outcome behind what is in `out`.
    fn run(
        &self,
        link: &Link,
        burst: &Burst,
        outcome: &mut Outcome,
        lane: &mut Lane,
    ) -> Result<(), LinkError> {
        let gone = || self.is_ending() || link.peer_gone();
        let _thread = self.threads.reserve(1, &gone, |_| 1)?;
        lane.executor.run(burst, outcome).map_err(refused)?;
        lane.shared.bursts.fetch_add(1, Ordering::Relaxed);
        lane.shared
            .requests
            .fetch_add(burst.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// A connection that has joined an index.
struct Lane {
    // The session goes before the index, whose files go with it.
    executor: Executor,
    shared: Arc<Shared>,
}

impl Lane {
    fn of(lane: &mut Option<Self>) -> Result<&mut Self, LinkError> {
        lane.as_mut().ok_or_else(|| {
            LinkError::refused(Refusal::Usage, "the connection has made or joined no index")
        })
    }
}

impl Shared {
    fn usage(&self) -> Result<RemoteUsage, LinkError> {
        let usage = self.index.usage().map_err(refused)?;
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(RemoteUsage {
            keys: usage.keys,
            bytes: usage.bytes,
            state: usage.newest,
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            bursts: self.bursts.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        })
    }
}

/// An error of the index, as the client is told.
fn refused(error: IndexError) -> LinkError {
    let refusal = match error {
        IndexError::KeyLength { .. }
        | IndexError::ValueLength { .. }
        | IndexError::Layout { .. } => Refusal::Usage,
        IndexError::Sessions { .. } => Refusal::Busy,
        IndexError::Full { .. } | IndexError::Memory { .. } | IndexError::Disk { .. } => {
            Refusal::Unavailable
        }
        _ => Refusal::Internal,
    };
    LinkError::refused(refusal, error.to_string())
}

impl Service for IndexService {
    fn name(&self) -> &str {
        protocol::NAME
    }

    fn version(&self) -> u16 {
        protocol::VERSION
    }

    fn tags(&self) -> Tags {
        protocol::TAGS
    }

    fn serve(&self, link: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
        let mut lane = None;
        let (mut burst, mut outcome) = (Burst::new(0), Outcome::new());
        let mut body = Vec::new();
        loop {
            link.set_deadline(self.options.idle_patience);
            let Some(header) = link.receive_header()? else {
                return Ok(());
            };
            match header.tag {
                REQUEST => {
                    link.set_deadline(Some(BODY_PATIENCE));
                    let request = decode(&link.receive_body(header)?)?;
                    match self.answer(request, &mut lane) {
                        Ok(reply) => link.send(REPLY, &encode(&reply))?,
                        Err(error) => refuse(link, error)?,
                    }
                }
                BURST => {
                    let held = self.receive(link, header, &mut body)?;
                    burst.read_from(&body)?;
                    let held = self.room(link, held, burst.outcome_bytes_max())?;
                    let ran = Lane::of(&mut lane)
                        .and_then(|lane| self.run(link, &burst, &mut outcome, lane));
                    match ran {
                        Ok(()) => {
                            body.clear();
                            outcome.write_to(&mut body);
                            link.send(OUTCOME, &body)?;
                        }
                        Err(error) => refuse(link, error)?,
                    }
                    drop(held);
                }
                tag::STOP => {}
                other => return Err(LinkError::OutOfPlace(other)),
            }
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl IndexService {
    /// Receives the body of a burst into `body`.
    fn receive(
        &self,
        link: &mut Link,
        header: Header,
        body: &mut Vec<u8>,
    ) -> Result<Reserved<'_>, LinkError> {
        let bytes = 2 * header.len as u64;
        let held = self
            .bursts
            .reserve(bytes, &|| self.is_ending() || link.peer_gone(), |_| bytes)?;
        link.set_deadline(Some(BODY_PATIENCE));
        body.resize(header.len, 0);
        link.receive_exact(body)?;
        Ok(held)
    }

    /// Reserves what an outcome may take, on top of what its burst does.
    fn room<'a>(
        &'a self,
        link: &Link,
        held: Reserved<'a>,
        outcome_bytes: usize,
    ) -> Result<[Reserved<'a>; 2], LinkError> {
        let bytes = 2 * outcome_bytes.min(BURST_BYTES_MAX) as u64;
        let room = self
            .bursts
            .reserve(bytes, &|| self.is_ending() || link.peer_gone(), |_| bytes)?;
        Ok([held, room])
    }
}

/// Tells the client why its frame failed, if it is the frame's fault and the conversation can go on.
fn refuse(link: &mut Link, error: LinkError) -> Result<(), LinkError> {
    match error {
        LinkError::Refused { refusal, text } => {
            link.send(tag::ERROR, &refusal_bytes(refusal, &text))
        }
        broken => Err(broken),
    }
}
