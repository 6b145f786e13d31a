//! Loops on threads of their own: [`Workers`].

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpb_core::{Clock, SetupError};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Account, Station};

/// A loop that a thread drives.
pub trait Work {
    /// Does what there is to do, once around; says how many packets or bursts moved. Never waits.
    ///
    /// # Errors
    /// A port's own; the loop ends.
    fn turn(&mut self) -> io::Result<usize>;

    /// Receives no more from ports.
    fn close(&mut self);

    /// True if it has nothing left, and nothing can come.
    fn is_done(&self) -> bool;

    /// Stores its counts so far, for others to read.
    fn live(&self, _live: &Live) {}

    /// Its counters, and those of its stages.
    fn account(&self) -> Account;
}

/// Packets of one loop so far, which other threads may read while it runs.
#[derive(Debug, Default)]
pub struct Live {
    received: AtomicU64,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Live {
    pub(super) fn store(&self, received: u64, sent: u64, dropped: u64) {
        self.received.store(received, Ordering::Relaxed);
        self.sent.store(sent, Ordering::Relaxed);
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// Received from ports.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Sent to ports.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Dropped at the way out. Drops of stages are in the account.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The behaviour of a thread that has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// It looks again at once: for a core of its own.
    Spin,
    /// It lets others have the core after some looks.
    #[default]
    Yield,
    /// It sleeps for a moment after some looks, and somewhat longer than that, as kernels do: for a core that others need too. Packets wait as long.
    Sleep,
}

/// The time that a thread sleeps which has nothing to do.
const SLEEP: Duration = Duration::from_micros(50);

/// Settings of threads.
#[derive(Clone)]
pub struct Settings {
    /// A core for each thread, in order; used again from the start if there are fewer. Empty: wherever the kernel likes.
    pub cores: Vec<u32>,
    /// Their behaviour without work.
    pub idle: Idle,
    /// By this clock threads give up on bursts that do not come home.
    pub clock: Arc<dyn Clock>,
    /// So long after they were told to stop.
    pub patience: Duration,
}

/// The reason why loops did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    /// A part of a loop is not there.
    #[error("{name}: {error}")]
    Setup {
        /// The thread's name.
        name: String,
        /// The reason.
        error: SetupError,
    },
    /// A port failed, or a thread could not be started or pinned.
    #[error("{name}: {error}")]
    Io {
        /// The thread's name.
        name: String,
        /// The reason.
        error: io::Error,
    },
    /// A loop has ended by itself.
    #[error("{name} has ended")]
    Ended {
        /// The thread's name.
        name: String,
    },
    /// A loop panicked, and said more on stderr.
    #[error("{name} panicked")]
    Panicked {
        /// The thread's name.
        name: String,
    },
}

/// Makes a loop, on the thread that drives it: queues of operators stay on the thread that opened them.
pub type Make = Box<dyn FnOnce() -> Result<Box<dyn Work>, SetupError> + Send>;

/// Threads that each drive one loop. Dropping them stops them, too.
pub struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<Thread>,
}

struct Thread {
    name: String,
    live: Arc<Live>,
    asks: SyncSender<Sender<Account>>,
    handle: Option<JoinHandle<Result<Account, WorkersError>>>,
}

/// Turns without work after which a thread yields.
const LOOKS: u32 = 64;
/// Turns between two looks at whether to stop.
const TURNS: u32 = 32;

impl Workers {
    /// Starts a thread for each loop; returns when all loops are made.
    ///
    /// # Errors
    /// The first one that could not be made, or a thread that could not be started; the others have stopped then.
    pub fn start(loops: Vec<(String, Make)>, settings: &Settings) -> Result<Self, WorkersError> {
        let mut workers = Self {
            stop: Arc::default(),
            threads: Vec::with_capacity(loops.len()),
        };
        let (started, has_started) = channel();
        for (i, (name, make)) in loops.into_iter().enumerate() {
            let cores = settings.cores.len();
            let (asks, asked) = sync_channel(1);
            let thread = Driver {
                asked,
                name: name.clone(),
                core: (cores > 0).then(|| settings.cores[i % cores]),
                settings: settings.clone(),
                stop: Arc::clone(&workers.stop),
                live: Arc::default(),
            };
            let started = started.clone();
            let live = Arc::clone(&thread.live);
            let handle = thread::Builder::new()
                .name(name.clone())
                .spawn(move || thread.run(make, started))
                .map_err(|error| WorkersError::Io {
                    name: name.clone(),
                    error,
                })?;
            workers.threads.push(Thread {
                name,
                live,
                asks,
                handle: Some(handle),
            });
        }
        drop(started);
        // Each says that it has started, or ends.
        let count = workers.threads.len();
        if has_started.iter().take(count).count() < count {
            let ended = workers.end();
            let failed = ended.into_iter().find_map(Result::err);
            return Err(failed.expect("a thread that did not start says why"));
        }
        Ok(workers)
    }

    /// The names of the loops, and their counts while they run.
    pub fn live(&self) -> impl Iterator<Item = (&str, &Live)> {
        let threads = self.threads.iter();
        threads.map(|thread| (&*thread.name, &*thread.live))
    }

    /// The accounts of all loops while they run; each loop gives its own between two turns, when it has looked at its ports since it was asked.
    ///
    /// # Errors
    /// If a loop has ended. [`Workers::stop`] says why.
    pub fn accounts(&self) -> Result<Vec<Account>, WorkersError> {
        let each = self.threads.iter().map(|thread| {
            let (answer, answered) = channel();
            // A thread that has ended listens no more.
            let account = thread
                .asks
                .send(answer)
                .ok()
                .and_then(|()| answered.recv().ok());
            account.ok_or_else(|| WorkersError::Ended {
                name: thread.name.clone(),
            })
        });
        each.collect()
    }

    /// True if a thread has ended by itself, which it does after an error, or where nothing can come any more.
    pub fn has_ended(&self) -> bool {
        let handles = self
            .threads
            .iter()
            .filter_map(|thread| thread.handle.as_ref());
        handles.into_iter().any(JoinHandle::is_finished)
    }

    /// Has loops receive no more, waits until what they hold has been sent, and gives the account of each.
    ///
    /// # Errors
    /// The first loop that failed.
    pub fn stop(mut self) -> Result<Vec<Account>, WorkersError> {
        self.end().into_iter().collect()
    }

    fn end(&mut self) -> Vec<Result<Account, WorkersError>> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.iter_mut();
        let ended = threads.filter_map(|thread| {
            let handle = thread.handle.take()?;
            let panicked = |_| {
                Err(WorkersError::Panicked {
                    name: thread.name.clone(),
                })
            };
            Some(handle.join().unwrap_or_else(panicked))
        });
        ended.collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.threads.iter().map(|thread| &thread.name);
        f.debug_list().entries(names).finish()
    }
}

/// A thread's own part of driving its loop.
struct Driver {
    name: String,
    core: Option<u32>,
    settings: Settings,
    stop: Arc<AtomicBool>,
    live: Arc<Live>,
    asked: Receiver<Sender<Account>>,
}

impl Driver {
    fn run(self, make: Make, started: Sender<()>) -> Result<Account, WorkersError> {
        let failed = |error| WorkersError::Io {
            name: self.name.clone(),
            error,
        };
        if let Some(core) = self.core {
            pin(core).map_err(failed)?;
        }
        let mut work = make().map_err(|error| WorkersError::Setup {
            name: self.name.clone(),
            error,
        })?;
        // Nobody listens if another thread could not start. The last word of each, so that the listener knows who will not speak.
        let _ = started.send(());
        drop(started);
        let mut closed_ns = None;
        let mut idle = 0;
        loop {
            let asked = self.asked.try_recv().ok();
            for _ in 0..TURNS {
                match work.turn().map_err(failed)? {
                    0 => idle += 1,
                    _ => idle = 0,
                }
                if idle >= LOOKS {
                    self.rest();
                }
            }
            work.live(&self.live);
            if let Some(answer) = asked {
                // Whoever asked may have gone.
                let _ = answer.send(work.account());
            }
            if closed_ns.is_none() && self.stop.load(Ordering::Relaxed) {
                work.close();
                closed_ns = Some(self.settings.clock.now_ns());
            }
            let is_over = |since: u64| {
                let waited = self.settings.clock.now_ns().saturating_sub(since);
                Duration::from_nanos(waited) > self.settings.patience
            };
            if work.is_done() || closed_ns.is_some_and(is_over) {
                return Ok(work.account());
            }
        }
    }

    fn rest(&self) {
        match self.settings.idle {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => thread::yield_now(),
            // Nobody wakes it up.
            Idle::Sleep => thread::park_timeout(SLEEP),
        }
    }
}

/// Keeps this thread on one core.
fn pin(core: u32) -> io::Result<()> {
    let mut cores = CpuSet::new();
    if core as usize >= CpuSet::MAX_CPU {
        let why = format!("there is no core {core}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    cores.set(core as usize);
    sched_setaffinity(None, &cores).map_err(|error| {
        let error = io::Error::from(error);
        let why = format!("cannot pin a thread to core {core}: {error}");
        io::Error::new(error.kind(), why)
    })
}

/// It ends when all who could send it bursts have ended.
impl Work for Station {
    fn turn(&mut self) -> io::Result<usize> {
        Ok(self.turn())
    }

    fn close(&mut self) {}

    fn is_done(&self) -> bool {
        self.is_done()
    }

    fn account(&self) -> Account {
        let mut account = Account {
            name: self.stage().name().to_owned(),
            stages: self.reports(),
            ..Account::default()
        };
        for stage in &mut account.stages {
            // Its packets belong to the loops that sent them.
            stage.level += 1;
        }
        account
    }
}
