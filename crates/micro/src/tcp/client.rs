//! The client: opens the connections, starts the phases, and adds up what both ends counted.

mod link;

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use dpb_core::measure::provenance::memory_available_bytes;
use dpb_core::measure::{Interference, Watch};
use dpb_core::random::SplitMix64;
use dpb_core::{Clock, WallClock};

use super::flow::{Fault, Lane, Tally, pin};
use super::message::seed_of;
use super::protocol::{Control, Figures, Hello, Join, Machine, Open, Tag, VERSION, Welcome};
use super::{Direction, Failure, Load, Measured, Plan, Run, wire};

/// How often somebody who waits looks whether to go on.
const LOOK: Duration = Duration::from_millis(20);

/// The server that is measured with.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it listens; the first address that answers is the one.
    pub addresses: Vec<SocketAddr>,
    /// What it asks for.
    pub token: Option<Vec<u8>>,
    /// How long a step of the conversation may take.
    pub patience: Duration,
}

/// Carries out a test. Runs stop early when `stop` is set.
///
/// # Errors
/// See [`Failure`].
pub fn measure(target: &Target, plan: &Plan, stop: &AtomicBool) -> Result<Measured, Failure> {
    plan.check().map_err(Failure::Plan)?;
    wire::usable(plan.engine).map_err(Failure::Unavailable)?;
    let (wanted, left) = (plan.memory_bytes(), memory_available_bytes());
    if wanted > left {
        return Err(Failure::Unavailable(format!(
            "the test takes {wanted} bytes of memory, {left} are left"
        )));
    }
    let clock = WallClock::default();
    let never = || false;
    let (stream, address) = dial(target)?;
    let mut control = Control::new(stream, &clock, &never);
    let (streams, server) = open(&mut control, target, address, plan)?;
    let mut session = Session {
        control,
        patience: target.patience,
        plan,
        streams,
        clock: &clock,
        stop,
    };
    let link = link::of(&session.control.stream);
    let (runs, interference) = session.run()?;
    Ok(Measured {
        interrupted: runs.len() < plan.repeat as usize,
        runs,
        interference,
        server,
        link,
    })
}

fn dial(target: &Target) -> Result<(TcpStream, SocketAddr), Failure> {
    let mut last = "it has no address".to_owned();
    for &address in &target.addresses {
        match TcpStream::connect_timeout(&address, target.patience) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(Failure::Unreachable(format!(
        "no server: {last}; is `dpb tcp --serve` running there, and may this machine reach its port?"
    )))
}

/// Greets, says what is to be done, and opens the data connections.
fn open(
    control: &mut Control<'_>,
    target: &Target,
    address: SocketAddr,
    plan: &Plan,
) -> Result<(Vec<TcpStream>, Machine), Failure> {
    let patience = target.patience;
    let greeting = |broken: super::protocol::Broken| broken.failure("greeting");
    let hello = Hello {
        version: VERSION,
        token: target.token.clone().unwrap_or_default(),
    };
    control
        .send(Tag::Hello, &hello.to_bytes(), patience)
        .map_err(greeting)?;
    let body = control.expect(Tag::Welcome, patience).map_err(greeting)?;
    let welcome = Welcome::parse(&body).map_err(greeting)?;
    let opening = |broken: super::protocol::Broken| broken.failure("opening the test");
    control
        .send(Tag::Open, &Open::of(plan).to_bytes(), patience)
        .map_err(opening)?;
    control.expect(Tag::Opened, patience).map_err(opening)?;
    let connect = |connection: u32| -> Result<TcpStream, Failure> {
        let broke = |why: String| Failure::Broken(format!("connection {connection}: {why}"));
        let stream = TcpStream::connect_timeout(&address, patience);
        let stream = stream.map_err(|error| broke(error.to_string()))?;
        let join = Join {
            session: welcome.session,
            connection,
        };
        let never = || false;
        let clock = WallClock::default();
        let mut control = Control::new(stream, &clock, &never);
        let joined = control.send(Tag::Join, &join.to_bytes(), patience);
        joined.map_err(|broken| broke(broken.to_string()))?;
        let stream = control.stream;
        let prepared = wire::prepare(&stream, plan.nodelay, plan.buffer_bytes);
        prepared.map_err(|error| broke(error.to_string()))?;
        Ok(stream)
    };
    let streams = (0..plan.connections as u32).map(connect);
    let streams = streams.collect::<Result<_, _>>()?;
    control.expect(Tag::Joined, patience).map_err(opening)?;
    Ok((streams, welcome.machine))
}

/// A session whose connections are open.
struct Session<'a> {
    control: Control<'a>,
    patience: Duration,
    plan: &'a Plan,
    streams: Vec<TcpStream>,
    clock: &'a WallClock,
    stop: &'a AtomicBool,
}

/// A thread's phase.
struct Report {
    tally: Tally,
    retransmissions: Option<u64>,
}

type Reported = Receiver<Result<Report, Fault>>;

impl Session<'_> {
    /// The warm-up and the runs; fewer if they are to stop.
    fn run(&mut self) -> Result<(Vec<Run>, Interference), Failure> {
        let streams = std::mem::take(&mut self.streams);
        let line = Barrier::new(streams.len());
        let (plan, clock, stop) = (self.plan, self.clock, self.stop);
        thread::scope(|scope| {
            let _ended = Ended(&streams);
            let (reports, reported) = channel();
            let (ready, is_ready) = channel();
            let mut team = Vec::new();
            for (index, stream) in (0..).zip(&streams) {
                let (start, started) = channel();
                let worker = Worker {
                    plan,
                    index,
                    stream,
                    clock,
                    stop,
                    line: &line,
                    ready: ready.clone(),
                    started,
                    reports: reports.clone(),
                };
                let thread = thread::Builder::new().name(format!("dpb-tcp-{index}"));
                let spawned = thread.spawn_scoped(scope, || worker.work());
                spawned.map_err(|error| Failure::Unavailable(format!("no thread: {error}")))?;
                team.push(start);
            }
            drop((reports, ready));
            // Nobody waits at the line for a thread that could not begin.
            for _ in &team {
                let begun = is_ready.recv().unwrap_or(Err(Fault::Closed));
                begun.map_err(failure)?;
            }
            self.phases(&team, &reported)
        })
    }

    fn phases(
        &mut self,
        team: &[Sender<Duration>],
        reported: &Reported,
    ) -> Result<(Vec<Run>, Interference), Failure> {
        let (mut runs, mut interference) = (Vec::new(), Interference::default());
        if !self.plan.warm_up.is_zero() && !self.is_stopped() {
            self.phase(self.plan.warm_up, team, reported)?;
        }
        while runs.len() < self.plan.repeat as usize && !self.is_stopped() {
            let (run, of_run) = self.phase(self.plan.run, team, reported)?;
            // A run that was cut short is none.
            if !self.is_stopped() {
                runs.push(run);
                interference.add(&of_run);
            }
        }
        Ok((runs, interference))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// One phase, from its announcement to the figures of both ends.
    fn phase(
        &mut self,
        span: Duration,
        team: &[Sender<Duration>],
        reported: &Reported,
    ) -> Result<(Run, Interference), Failure> {
        let patience = self.patience;
        let starting = |broken: super::protocol::Broken| broken.failure("starting a run");
        let millis = span.as_millis().max(1) as u64;
        self.control
            .send(Tag::Phase, &millis.to_le_bytes(), patience)
            .map_err(starting)?;
        self.control
            .expect(Tag::Ready, patience)
            .map_err(starting)?;
        let watch = Watch::start();
        for start in team {
            // A thread that is gone has left a report.
            let _ = start.send(span);
        }
        let ending = |broken: super::protocol::Broken| broken.failure("ending a run");
        let is_receiver = self.plan.direction == Direction::Receive;
        if is_receiver {
            self.sleep(span, reported)?;
            self.control.send(Tag::End, &[], patience).map_err(ending)?;
        }
        let reports = self.reports(span, reported)?;
        let mut interference = watch.stop();
        if !is_receiver {
            self.control.send(Tag::End, &[], patience).map_err(ending)?;
        }
        let body = self
            .control
            .expect(Tag::Figures, 2 * patience)
            .map_err(ending)?;
        let figures = Figures::parse(&body).map_err(ending)?;
        if !figures.wrong.is_empty() {
            let wrong = &figures.wrong;
            return Err(Failure::Wrong(format!("at the server, {wrong}")));
        }
        let server_wait_s = figures.core_wait_ns as f64 / 1e9;
        interference.core_wait_s = match (interference.core_wait_s, figures.core_wait_ns) {
            (_, u64::MAX) => None,
            (here, _) => here.map(|here| here + server_wait_s),
        };
        Ok((self.joined(&reports, &figures)?, interference))
    }

    /// Waits while the server sends; a thread that fails ends it.
    fn sleep(&self, span: Duration, reported: &Reported) -> Result<(), Failure> {
        let end_ns = self.clock.now_ns() + span.as_nanos() as u64;
        loop {
            let left = end_ns.saturating_sub(self.clock.now_ns());
            if left == 0 || self.is_stopped() {
                return Ok(());
            }
            match reported.recv_timeout(LOOK.min(Duration::from_nanos(left))) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(fault)) => return Err(failure(fault)),
                Ok(Ok(_)) => return Err(Failure::Wrong("a mark that came too early".to_owned())),
                Err(RecvTimeoutError::Disconnected) => return Err(failure(Fault::Closed)),
            }
        }
    }

    /// What the threads report, of each one.
    fn reports(&self, span: Duration, reported: &Reported) -> Result<Vec<Report>, Failure> {
        let most = span + self.patience;
        let end_ns = self.clock.now_ns() + most.as_nanos() as u64;
        let mut reports = Vec::new();
        while (reports.len() as u64) < self.plan.connections {
            let left = end_ns.saturating_sub(self.clock.now_ns());
            match reported.recv_timeout(Duration::from_nanos(left)) {
                Ok(Ok(report)) => reports.push(report),
                Ok(Err(fault)) => return Err(failure(fault)),
                Err(_) => {
                    return Err(Failure::Broken(format!(
                        "a run of {:.1} s is not over after {:.1} s: messages do not come back",
                        span.as_secs_f64(),
                        most.as_secs_f64()
                    )));
                }
            }
        }
        Ok(reports)
    }

    /// A run, of what both ends counted. Messages count where they were to arrive.
    fn joined(&self, reports: &[Report], figures: &Figures) -> Result<Run, Failure> {
        let tallies = || reports.iter().map(|report| &report.tally);
        let here: u64 = tallies().map(|tally| tally.messages).sum();
        if here != figures.messages {
            return Err(Failure::Wrong(format!(
                "{here} messages at the client and {} at the server",
                figures.messages
            )));
        }
        let first_ns = tallies().map(|tally| tally.first_ns).min().unwrap_or(0);
        let last_ns = tallies().map(|tally| tally.last_ns).max().unwrap_or(0);
        let elapsed_ns = match self.plan.direction {
            Direction::Send => figures.elapsed_ns,
            Direction::Echo | Direction::Receive => last_ns - first_ns,
        };
        let bytes = here * self.plan.size_bytes;
        let is_sent = self.plan.direction != Direction::Receive;
        let is_received = self.plan.direction != Direction::Send;
        let theirs = Some(figures.retransmissions).filter(|&count| count != u64::MAX);
        let ours = reports.iter().map(|report| report.retransmissions);
        let mut run = Run {
            messages: here,
            elapsed_ns: elapsed_ns.max(1),
            sent_bytes: if is_sent { bytes } else { 0 },
            received_bytes: if is_received { bytes } else { 0 },
            latencies: Default::default(),
            latency_sum_ns: 0,
            delays: Default::default(),
            unserved: 0,
            client_cpu_ns: tallies().map(|tally| tally.cpu_ns).sum(),
            server_cpu_ns: figures.cpu_ns,
            retransmissions: ours.chain([theirs]).sum(),
        };
        for tally in tallies() {
            run.latencies.add(&tally.latencies);
            run.latency_sum_ns += tally.latency_sum_ns;
            run.delays.add(&tally.delays);
            run.unserved += tally.unserved;
        }
        Ok(run)
    }
}

fn failure(fault: Fault) -> Failure {
    match fault {
        Fault::Closed => Failure::Broken("the server closed a data connection".to_owned()),
        Fault::Wrong(why) => Failure::Wrong(why),
        Fault::Io(why) => Failure::Broken(format!("a data connection: {why}")),
    }
}

/// Ends the connections when a test ends, however it ends: threads may wait for a server that says nothing.
struct Ended<'a>(&'a [TcpStream]);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        for stream in self.0 {
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
    stop: &'a AtomicBool,
    /// Where all threads start together.
    line: &'a Barrier,
    ready: Sender<Result<(), Fault>>,
    started: Receiver<Duration>,
    reports: Sender<Result<Report, Fault>>,
}

impl Worker<'_> {
    fn work(self) {
        let lane = pin(&self.plan.pin, self.index).and_then(|()| {
            let stream = self.stream.try_clone()?;
            Lane::new(stream, self.plan, self.index, self.clock)
        });
        let mut lane = match lane {
            Ok(lane) => lane,
            Err(error) => {
                let _ = self.ready.send(Err(error.into()));
                return;
            }
        };
        let _ = self.ready.send(Ok(()));
        let seed = seed_of(self.plan.seed, self.index);
        let mut random = SplitMix64::new(!seed);
        while let Ok(span) = self.started.recv() {
            let before = wire::retransmissions(self.stream);
            let tally = self.phase(&mut lane, span, &mut random);
            let now = wire::retransmissions(self.stream);
            let retransmissions = now.zip(before).map(|(now, before)| now - before);
            let report = tally.map(|tally| Report {
                tally,
                retransmissions,
            });
            let is_over = report.is_err();
            if self.reports.send(report).is_err() || is_over {
                return;
            }
        }
    }

    fn phase(
        &self,
        lane: &mut Lane<'_>,
        span: Duration,
        random: &mut SplitMix64,
    ) -> Result<Tally, Fault> {
        self.line.wait();
        let end_ns = self.clock.now_ns() + span.as_nanos() as u64;
        let is_over = |now_ns| now_ns >= end_ns || self.stop.load(Ordering::Relaxed);
        match (self.plan.direction, self.plan.load) {
            (Direction::Echo, Load::Closed) => lane.echo_closed(is_over),
            (Direction::Echo, Load::Open { messages_per_s }) => {
                let gap_ns = 1e9 * self.plan.connections as f64 / messages_per_s;
                lane.echo_open(gap_ns, random, is_over)
            }
            (Direction::Send, _) => lane.source(is_over),
            (Direction::Receive, _) => lane.sink(),
        }
    }
}
