//! The server: takes clients one after the other, and says what it refuses.
//!
//! Each connection that comes in has a thread for its first frame, which must come whole in time, and there are few such threads. A hello starts a session, if there
//! is none; a join hands its connection to the session that it names.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use dpb_core::measure::provenance::memory_available_bytes;
use dpb_core::{Clock, Timer, WallClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::flow::{Echo, Fault, Lane, Tally, core_wait_ns, pin};
use super::protocol::{
    Broken, Control, Figures, Hello, Join, Machine, Open, Refusal, SessionId, TOKEN_BYTES, Tag,
    VERSION, Welcome, parse_phase, same_secret,
};
use super::{CONNECTIONS_MAX, Direction, Plan, wire};

/// Connections whose first frame is awaited at once, the session among them: all of a test's, and a few strangers'.
const GREETED_MAX: usize = CONNECTIONS_MAX as usize + 32;
/// How often the server looks whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// How often a client that waits for its turn looks.
const AGAIN: Duration = Duration::from_millis(2);

/// How a server serves.
#[derive(Debug)]
pub struct ServerOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What clients must show; required unless `listen` is loopback.
    pub token: Option<Vec<u8>>,
    /// What it says of itself.
    pub machine: Machine,
    /// Cores for the threads of a test, in order; empty: wherever the kernel likes.
    pub pin: Vec<u32>,
    /// How long a step of the conversation may take.
    pub patience: Duration,
    /// Where it says who came and what it refused.
    pub say: fn(&str),
}

/// Why there is no server.
#[derive(Debug)]
pub enum BindError {
    /// The address is not to be had.
    Listen(SocketAddr, io::Error),
    /// The token has so many bytes.
    Token(usize),
    /// Others than this machine can reach the address, and there is no token.
    NoToken(SocketAddr),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = TOKEN_BYTES.into_inner();
        match self {
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Token(bytes) => write!(f, "a token has {least} to {most} bytes, not {bytes}"),
            Self::NoToken(address) => write!(
                f,
                "others can reach {address}: give a token (--token-file), or listen on 127.0.0.1"
            ),
        }
    }
}

impl std::error::Error for BindError {}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: ServerOptions,
    clock: WallClock,
    current: Mutex<Option<Current>>,
    greeted: AtomicUsize,
}

/// The session that there is.
#[derive(Debug)]
struct Current {
    id: SessionId,
    client: SocketAddr,
    joins: Sender<(u32, TcpStream)>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(options: ServerOptions) -> Result<Self, BindError> {
        match &options.token {
            Some(token) if !TOKEN_BYTES.contains(&token.len()) => {
                return Err(BindError::Token(token.len()));
            }
            None if !options.listen.ip().is_loopback() => {
                return Err(BindError::NoToken(options.listen));
            }
            _ => {}
        }
        let listen = |error| BindError::Listen(options.listen, error);
        let listener = TcpListener::bind(options.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self {
            listener,
            address,
            options,
            clock: WallClock::default(),
            current: Mutex::new(None),
            greeted: AtomicUsize::new(0),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `is_stopped` says so.
    pub fn run(&self, is_stopped: &(dyn Fn() -> bool + Sync)) {
        thread::scope(|scope| {
            while !is_stopped() {
                let look = Timespec {
                    tv_sec: 0,
                    tv_nsec: LOOK.as_nanos() as i64,
                };
                let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
                let _ = poll(&mut ready, Some(&look));
                if let Ok((stream, peer)) = self.listener.accept() {
                    self.accept(scope, stream, peer, is_stopped);
                }
            }
        });
    }

    fn accept<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        stream: TcpStream,
        peer: SocketAddr,
        is_stopped: &'scope (dyn Fn() -> bool + Sync),
    ) {
        if self.greeted.fetch_add(1, Ordering::Relaxed) >= GREETED_MAX {
            self.greeted.fetch_sub(1, Ordering::Relaxed);
            self.say(peer, "refused: too many connections that have said nothing");
            return;
        }
        let greet = move || {
            let is_blocking = stream.set_nonblocking(false);
            let mut control = Control::new(stream, &self.clock, is_stopped);
            let greeted = match is_blocking {
                Ok(()) => self.greet(&mut control, peer, is_stopped),
                Err(error) => Err(Broken::Io(error.to_string())),
            };
            self.greeted.fetch_sub(1, Ordering::Relaxed);
            if let Err(broken) = greeted {
                self.say(peer, &format!("refused: {broken}"));
            }
        };
        let greeter = thread::Builder::new().name("dpb-tcp-greet".to_owned());
        if greeter.spawn_scoped(scope, greet).is_err() {
            self.greeted.fetch_sub(1, Ordering::Relaxed);
            self.say(peer, "refused: no thread is to be had");
        }
    }

    fn say(&self, peer: SocketAddr, what: &str) {
        (self.options.say)(&format!("{peer}: {what}"));
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the first frame of a connection.
    fn greet(
        &self,
        control: &mut Control<'_>,
        peer: SocketAddr,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Broken> {
        let patience = self.options.patience;
        let (tag, body) = control.receive(patience)?;
        match tag {
            Tag::Join => self.join(&Join::parse(&body)?, control),
            Tag::Hello => {
                if let Err(why) = self.admit(&Hello::parse(&body)?) {
                    control.refuse(Refusal::Client, &why, patience);
                    return Err(Broken::Garbage(why));
                }
                match self.begin_soon(peer, is_stopped) {
                    Ok((id, joins)) => {
                        let served = self.session(control, id, &joins, is_stopped);
                        *self.current() = None;
                        if let Err(broken) = served
                            && broken != Broken::Closed
                        {
                            control.refuse(Refusal::Session, &broken.to_string(), patience);
                            self.say(peer, &format!("the session broke: {broken}"));
                        }
                        Ok(())
                    }
                    Err(why) => {
                        control.refuse(Refusal::Client, &why, patience);
                        Err(Broken::Garbage(why))
                    }
                }
            }
            _ => Err(Broken::Garbage(format!("{tag:?} first"))),
        }
    }

    fn join(&self, join: &Join, control: &Control<'_>) -> Result<(), Broken> {
        let current = self.current();
        let current = current
            .as_ref()
            .filter(|current| same_secret(&current.id, &join.session));
        let current =
            current.ok_or_else(|| Broken::Garbage("a join to no session of now".to_owned()))?;
        let stream = control.stream.try_clone();
        let stream = stream.map_err(|error| Broken::Io(error.to_string()))?;
        // A session that has ended has no use for it.
        let _ = current.joins.send((join.connection, stream));
        Ok(())
    }

    /// Whether a client may come in.
    fn admit(&self, hello: &Hello) -> Result<(), String> {
        if hello.version != VERSION {
            return Err(format!(
                "the client has version {} of the protocol, this server {VERSION}; use the same dpb on both sides",
                hello.version
            ));
        }
        match &self.options.token {
            Some(token) if !same_secret(token, &hello.token) => {
                Err("the token is not this server's (--token-file)".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// A session of this client, unless there is another's; one that is about to end is awaited.
    fn begin_soon(
        &self,
        client: SocketAddr,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(SessionId, Receiver<(u32, TcpStream)>), String> {
        let end_ns = self.clock.now_ns() + self.options.patience.as_nanos() as u64 / 4;
        loop {
            match self.begin(client) {
                Err(_) if self.clock.now_ns() < end_ns && !is_stopped() => {
                    self.clock.sleep(AGAIN);
                }
                begun => return begun,
            }
        }
    }

    fn begin(&self, client: SocketAddr) -> Result<(SessionId, Receiver<(u32, TcpStream)>), String> {
        let mut id = SessionId::default();
        let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut id));
        random.map_err(|error| format!("no random numbers here: {error}"))?;
        let mut current = self.current();
        if let Some(Current { client, .. }) = &*current {
            return Err(format!(
                "it measures with {client}; try again when that is done"
            ));
        }
        let (sender, joins) = channel();
        *current = Some(Current {
            id,
            client,
            joins: sender,
        });
        Ok((id, joins))
    }

    fn session(
        &self,
        control: &mut Control<'_>,
        id: SessionId,
        joins: &Receiver<(u32, TcpStream)>,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Broken> {
        let patience = self.options.patience;
        let welcome = Welcome {
            session: id,
            machine: self.options.machine.clone(),
        };
        control.send(Tag::Welcome, &welcome.to_bytes(), patience)?;
        let open = Open::parse(&control.expect(Tag::Open, patience)?)?;
        let plan = open.plan();
        if let Err(why) = can(&plan) {
            control.refuse(Refusal::Test, &why, patience);
            return Ok(());
        }
        control.send(Tag::Opened, &[], patience)?;
        let streams = self.joined(&plan, joins, is_stopped)?;
        for stream in streams.values() {
            let prepared = wire::prepare(stream, plan.nodelay, plan.buffer_bytes);
            prepared.map_err(|error| Broken::Io(error.to_string()))?;
        }
        control.send(Tag::Joined, &[], patience)?;
        self.phases(control, &plan, &streams)
    }

    /// The data connections, all of them.
    fn joined(
        &self,
        plan: &Plan,
        joins: &Receiver<(u32, TcpStream)>,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<BTreeMap<u32, TcpStream>, Broken> {
        let patience = self.options.patience;
        let end_ns = self.clock.now_ns() + patience.as_nanos() as u64;
        let mut streams = BTreeMap::new();
        while (streams.len() as u64) < plan.connections {
            match joins.recv_timeout(LOOK) {
                Ok((index, stream)) if u64::from(index) < plan.connections => {
                    streams.insert(index, stream);
                }
                Ok((index, _)) => return Err(Broken::Garbage(format!("a connection {index}"))),
                Err(_) if is_stopped() => return Err(Broken::Stopped),
                Err(_) if self.clock.now_ns() > end_ns => return Err(Broken::Silent(patience)),
                Err(_) => {}
            }
        }
        Ok(streams)
    }

    /// One phase after the other, until the client closes the connection.
    fn phases(
        &self,
        control: &mut Control<'_>,
        plan: &Plan,
        streams: &BTreeMap<u32, TcpStream>,
    ) -> Result<(), Broken> {
        let is_over = &AtomicBool::new(false);
        thread::scope(|scope| {
            // Threads that wait for the peer or for us are to end with the session, however it ends.
            let _ended = Ended(streams);
            let (reports, reported) = channel();
            let mut team = Vec::new();
            for (&index, stream) in streams {
                let (start, started) = channel();
                let worker = Worker {
                    plan,
                    index,
                    stream,
                    clock: &self.clock,
                    pin: &self.options.pin,
                    is_over,
                    started,
                    reports: reports.clone(),
                };
                let thread = thread::Builder::new().name(format!("dpb-tcp-{index}"));
                let spawned = thread.spawn_scoped(scope, || worker.work());
                spawned.map_err(|error| Broken::Io(error.to_string()))?;
                team.push(start);
            }
            drop(reports);
            loop {
                self.phase(control, &team, is_over, &reported)?;
            }
        })
    }

    fn phase(
        &self,
        control: &mut Control<'_>,
        team: &[Sender<()>],
        is_over: &AtomicBool,
        reported: &Receiver<Result<Report, Fault>>,
    ) -> Result<(), Broken> {
        let patience = self.options.patience;
        let span = parse_phase(&control.expect(Tag::Phase, patience)?)?;
        is_over.store(false, Ordering::Relaxed);
        for start in team {
            let _ = start.send(());
        }
        control.send(Tag::Ready, &[], patience)?;
        control.expect(Tag::End, span + 2 * patience)?;
        is_over.store(true, Ordering::Relaxed);
        let mut figures = Sum::default();
        let end_ns = self.clock.now_ns() + patience.as_nanos() as u64;
        for _ in team {
            let left = end_ns.saturating_sub(self.clock.now_ns());
            match reported.recv_timeout(Duration::from_nanos(left)) {
                Ok(Ok(report)) => figures.add(&report),
                Ok(Err(Fault::Wrong(why))) => {
                    figures.wrong.get_or_insert(why);
                    break;
                }
                Ok(Err(Fault::Closed)) => return Err(Broken::Closed),
                Ok(Err(Fault::Io(why))) => return Err(Broken::Io(why)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Broken::Silent(patience));
                }
            }
        }
        control.send(Tag::Figures, &figures.figures().to_bytes(), patience)
    }
}

/// Whether a test can be carried out here.
fn can(plan: &Plan) -> Result<(), String> {
    plan.check()?;
    let (wanted, left) = (plan.memory_bytes(), memory_available_bytes());
    if wanted > left {
        return Err(format!(
            "the test takes {wanted} bytes of memory, {left} are left"
        ));
    }
    wire::usable(plan.engine)
}

/// Ends the connections of a session when it ends.
struct Ended<'a>(&'a BTreeMap<u32, TcpStream>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        for stream in self.0.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// The thread of a connection.
struct Worker<'a> {
    plan: &'a Plan,
    index: u32,
    stream: &'a TcpStream,
    clock: &'a WallClock,
    pin: &'a [u32],
    /// Nothing more is to be sent in this phase.
    is_over: &'a AtomicBool,
    started: Receiver<()>,
    reports: Sender<Result<Report, Fault>>,
}

/// A thread's phase.
struct Report {
    tally: Tally,
    core_wait_ns: Option<u64>,
    retransmissions: Option<u64>,
}

impl Worker<'_> {
    fn work(self) {
        let fault = match self.phases() {
            Ok(()) => return,
            Err(fault) => fault,
        };
        let was_wrong = matches!(fault, Fault::Wrong(_));
        let _ = self.reports.send(Err(fault));
        if was_wrong {
            drain(self.stream);
        }
    }

    fn phases(&self) -> Result<(), Fault> {
        pin(self.pin, self.index)?;
        let stream = self.stream.try_clone()?;
        match self.plan.direction {
            Direction::Echo => {
                let mut echo = Echo::new(stream, self.plan)?;
                self.each(|| echo.phase(self.clock))
            }
            Direction::Send => {
                let mut lane = Lane::new(stream, self.plan, self.index, self.clock)?;
                self.each(|| lane.sink())
            }
            Direction::Receive => {
                let mut lane = Lane::new(stream, self.plan, self.index, self.clock)?;
                self.each(|| lane.source(|_| self.is_over.load(Ordering::Relaxed)))
            }
        }
    }

    /// Carries out a phase whenever one is started, and reports it.
    fn each(&self, mut phase: impl FnMut() -> Result<Tally, Fault>) -> Result<(), Fault> {
        while self.started.recv().is_ok() {
            let before = (core_wait_ns(), wire::retransmissions(self.stream));
            let tally = phase()?;
            let report = Report {
                tally,
                core_wait_ns: since(core_wait_ns(), before.0),
                retransmissions: since(wire::retransmissions(self.stream), before.1),
            };
            if self.reports.send(Ok(report)).is_err() {
                break;
            }
        }
        Ok(())
    }
}

fn since(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(before?))
}

/// What the threads of a phase have done together.
#[derive(Default)]
struct Sum {
    messages: u64,
    cpu_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    core_wait_ns: u64,
    is_wait_unknown: bool,
    retransmissions: u64,
    is_retransmission_unknown: bool,
    wrong: Option<String>,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        let tally = &report.tally;
        self.messages += tally.messages;
        self.cpu_ns += tally.cpu_ns;
        let first_ns = self.first_ns.unwrap_or(u64::MAX).min(tally.first_ns);
        self.first_ns = Some(first_ns);
        self.last_ns = self.last_ns.max(tally.last_ns);
        self.core_wait_ns += report.core_wait_ns.unwrap_or(0);
        self.is_wait_unknown |= report.core_wait_ns.is_none();
        self.retransmissions += report.retransmissions.unwrap_or(0);
        self.is_retransmission_unknown |= report.retransmissions.is_none();
    }

    fn figures(self) -> Figures {
        let unless = |unknown: bool, value| if unknown { u64::MAX } else { value };
        Figures {
            messages: self.messages,
            elapsed_ns: self.last_ns - self.first_ns.unwrap_or(self.last_ns),
            cpu_ns: self.cpu_ns,
            core_wait_ns: unless(self.is_wait_unknown, self.core_wait_ns),
            retransmissions: unless(self.is_retransmission_unknown, self.retransmissions),
            wrong: self.wrong.unwrap_or_default(),
        }
    }
}

/// Reads and forgets until the peer sends no more: a sender is not to be stopped by what was wrong with its message.
fn drain(mut stream: &TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    while matches!(stream.read(&mut bytes), Ok(1..)) {}
}
