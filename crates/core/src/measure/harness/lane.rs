//! One thread's side: its queue, its jobs, the timed segment, and the check after it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::host_cpu::{self, Account};
use super::team::{Finish, Member, Span, Team};
use super::{Bench, Broken, Counts, Known, Load, Mode, Order, Report, Run};
use crate::measure::latency::Latencies;
use crate::patience::{self, Silence};
use crate::random::SplitMix64;
use crate::{Clock, Completion, Job, JobError, JobParts, OutputShape, Queue, Right, SetupError};

/// A segment has at least this many jobs for each that the queue holds, if memory and time allow.
const SEGMENT_DEPTHS: usize = 64;
/// And at least this many, so that reading the clock costs nothing.
const SEGMENT_JOBS: usize = 1024;
/// A segment takes at most this share of a run.
const SEGMENT_SHARE: u32 = 4;
/// On a virtual clock a segment reads at most this much, if the queue can still be filled: results are computed for real.
const VIRTUAL_SEGMENT_BYTES: usize = 16 << 20;
/// Empty polls in a row before the core is offered to others.
const SPINS: u32 = 256;
/// Told to stop, jobs in flight are awaited no longer than this.
const GRACE: Duration = Duration::from_secs(2);

/// Polls in a row that brought nothing.
#[derive(Default)]
pub(super) struct Waiting {
    polls: u32,
    silence: Silence,
}

/// One thread's queue and jobs.
pub(super) struct Lane<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) queue: Box<dyn Queue>,
    /// Told to stop with jobs in flight that did not come home: nothing more can be done here.
    pub(super) is_given_up: bool,
    /// Jobs that wait for the next segment.
    pub(super) idle: VecDeque<Job>,
    pub(super) done: Vec<Completion>,
    /// Which input each job has, by its tag.
    loads: Vec<usize>,
    next_load: usize,
    /// Latency runs: when each job was submitted and how long it took, by its tag.
    submitted_ns: Vec<u64>,
    took_ns: Vec<u64>,
    pub(super) counts: Counts,
    pub(super) latencies: Latencies,
    cpu: Account,
    pub(super) random: SplitMix64,
}

impl<'a> Lane<'a> {
    /// Opens a queue, then does as it is told until nobody tells it anything.
    pub(super) fn serve(
        number: u32,
        bench: &'a Bench<'a>,
        team: &Team,
        orders: &Receiver<Order>,
        results: &Sender<Result<Report, Broken>>,
    ) {
        let _member = Member(team);
        // A leader that stopped listening has heard of another failure; this thread just ends.
        let mut lane = match Self::open(number, bench) {
            Ok(lane) => lane,
            Err(broken) => {
                let _ = results.send(Err(broken));
                return;
            }
        };
        let _ = results.send(Ok(Report::Ready));
        let mut round = 0;
        while let Ok(order) = orders.recv() {
            round += 1;
            // Before the line-up: waiting for the others is no job's.
            lane.cpu.start(bench.plan.mode == Mode::HostCpu);
            let report = match (order, bench.plan.mode) {
                _ if !team.line_up(round) => Ok(Report::Stopped),
                (Order::WarmUp, _) => lane.warm_up(),
                (Order::Run, Mode::Open { jobs_per_s }) => lane.run_open(jobs_per_s),
                (Order::Run, _) => lane.run_closed(team, &mut round),
            };
            let is_broken = report.is_err();
            let _ = results.send(report);
            if is_broken {
                return;
            }
        }
    }

    fn open(number: u32, bench: &'a Bench<'a>) -> Result<Self, Broken> {
        let pins = &bench.plan.pin;
        if !pins.is_empty() {
            pin(pins[number as usize % pins.len()])?;
        }
        let threads = bench.plan.threads.get() as usize;
        let mut lane = Self {
            bench,
            queue: bench.operator.clone().open(bench.depth)?,
            is_given_up: false,
            idle: VecDeque::new(),
            done: Vec::new(),
            loads: Vec::new(),
            next_load: number as usize * bench.loads.len() / threads,
            submitted_ns: Vec::new(),
            took_ns: Vec::new(),
            counts: Counts::default(),
            latencies: Latencies::default(),
            cpu: Account::default(),
            random: SplitMix64::new(bench.plan.seed ^ (u64::from(number) << 32)),
        };
        lane.grow(bench.depth.get() as usize)?;
        Ok(lane)
    }

    /// Allocates jobs until there are `jobs`.
    fn grow(&mut self, jobs: usize) -> Result<(), Broken> {
        let loads = &self.bench.loads;
        let dst_bytes = loads.iter().map(|load| load.dst_bytes).max().unwrap_or(0);
        let items = loads.iter().map(|load| load.items.count()).max();
        while self.loads.len() < jobs {
            let load = self.rotate();
            let mut dst = self.bench.backend.alloc(dst_bytes)?;
            // The kernel hands out pages when they are first written: now, not while time runs.
            dst.fill(u8::MAX);
            let Load {
                view, items: split, ..
            } = &self.bench.loads[load];
            let outcomes = match self.bench.shape {
                OutputShape::Fixed(_) => Vec::new(),
                OutputShape::Variable => Vec::with_capacity(items.unwrap_or(0)),
            };
            let slots = self.bench.shape.slots(dst.len(), split.count());
            let (tag, split) = (self.loads.len() as u64, split.clone());
            let job = Job::with_slots(tag, view.clone(), split, dst, slots, outcomes);
            self.idle.push_back(job);
            self.loads.push(load);
        }
        self.done.reserve(jobs);
        self.submitted_ns.resize(jobs, 0);
        self.took_ns.resize(jobs, 0);
        Ok(())
    }

    /// The input whose turn it is.
    fn rotate(&mut self) -> usize {
        let load = self.next_load;
        self.next_load = (load + 1) % self.bench.loads.len();
        load
    }

    /// Works for the time asked for, has every input verified at least once, and finds how long a segment can be.
    fn warm_up(&mut self) -> Result<Report, Broken> {
        let bench = self.bench;
        let started_ns = bench.wall.now_ns();
        let mut job_s = self.segment_s()?;
        let jobs = self.segment_jobs(job_s);
        self.grow(jobs)?;
        let mut seen = self.bench.depth.get() as usize;
        let is_early = || !bench.is_virtual && bench.since(started_ns) < bench.plan.warm_up;
        while is_early() || seen < bench.loads.len() {
            if self.is_stopped() {
                return Ok(Report::Stopped);
            }
            job_s = job_s.min(self.segment_s()?);
            seen += self.idle.len();
        }
        // The first jobs were the slowest; now it is known better.
        let jobs = match self.bench.plan.mode {
            Mode::Open { jobs_per_s } => self.arrivals(jobs_per_s),
            _ => self.segment_jobs(job_s),
        };
        self.grow(jobs)?;
        Ok(Report::Warm(jobs as u64))
    }

    /// How many jobs memory holds for this thread, but at least as many as the queue.
    fn jobs_max(&self) -> usize {
        let outcome_bytes = match self.bench.shape {
            OutputShape::Fixed(_) => 0,
            OutputShape::Variable => size_of::<Result<u32, JobError>>(),
        };
        let bytes = |load: &Load| load.dst_bytes + load.items.count() * outcome_bytes;
        let longest = self.bench.loads.iter().map(bytes).max().unwrap_or(0);
        let job_bytes = longest + size_of::<JobParts>() + size_of::<Completion>();
        let threads = self.bench.plan.threads.get() as usize;
        let jobs = self.bench.dst_bytes_max / (job_bytes * threads);
        jobs.max(self.bench.depth.get() as usize)
    }

    /// Jobs for all arrivals of a run on this thread, ten standard deviations above the mean, if memory holds as many.
    fn arrivals(&self, jobs_per_s: f64) -> usize {
        let plan = self.bench.plan;
        let mean = jobs_per_s * plan.seconds.as_secs_f64() / f64::from(plan.threads.get());
        let most = (mean + 10.0 * mean.sqrt()).ceil() as usize;
        most.max(self.loads.len()).min(self.jobs_max())
    }

    /// How many jobs fit a segment, if one takes so long on the wall clock. On a virtual clock that must not matter.
    fn segment_jobs(&self, job_s: f64) -> usize {
        let depth = self.bench.depth.get() as usize;
        let jobs = SEGMENT_DEPTHS * depth;
        let jobs = if self.bench.is_virtual {
            let cost_bytes = self.bench.workload.cost_bytes();
            let cost = |load: &Load| load.view.len() + load.items.count() * cost_bytes;
            let longest = self.bench.loads.iter().map(cost).max();
            jobs.min(VIRTUAL_SEGMENT_BYTES / longest.unwrap_or(0).max(1))
        } else {
            let time = self.bench.plan.seconds / SEGMENT_SHARE;
            jobs.max(SEGMENT_JOBS)
                .min((time.as_secs_f64() / job_s) as usize)
        };
        jobs.max(depth).min(self.jobs_max())
    }

    /// One segment off the record; seconds of wall clock a job.
    fn segment_s(&mut self) -> Result<f64, Broken> {
        let jobs = self.idle.len();
        let started_ns = self.bench.wall.now_ns();
        // Alone: nobody else ends it.
        self.segment(Finish::new(1, &AtomicUsize::new(0)))?;
        let took = self.bench.since(started_ns).max(Duration::from_nanos(1));
        Ok(took.as_secs_f64() / jobs as f64)
    }

    /// Segments, each together with the other threads, until the time is up for one of them.
    fn run_closed(&mut self, team: &Team, round: &mut usize) -> Result<Report, Broken> {
        self.counts = Counts::default();
        self.latencies.clear();
        let mut spans = Vec::new();
        let started_ns = self.bench.wall.now_ns();
        loop {
            *round += 1;
            let is_over =
                self.bench.is_virtual || self.bench.since(started_ns) >= self.bench.plan.seconds;
            let is_done = !spans.is_empty() && is_over;
            if is_done || self.is_stopped() {
                team.call_off(*round);
            }
            if !team.line_up(*round) {
                return Ok(Report::Stopped);
            }
            if team.is_off(*round) {
                break;
            }
            spans.push(self.segment(team.finish(*round))?);
        }
        if self.is_stopped() {
            return Ok(Report::Stopped);
        }
        Ok(self.report(spans))
    }

    /// What was counted since the run began, in these spans.
    pub(super) fn report(&self, spans: Vec<Option<Span>>) -> Report {
        let run = Run {
            counts: self.counts,
            latencies: self.latencies.clone(),
            cpu: self.cpu.read(),
            ..Run::default()
        };
        Report::Ran(Box::new(run), spans)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.bench.stop.load(Ordering::Relaxed)
    }

    /// Runs idle jobs on the clock until `finish`, which it calls when there are no more, then checks them off it;
    /// when it was timed, if it did anything.
    fn segment(&mut self, finish: Finish<'_>) -> Result<Option<Span>, Broken> {
        let span = match self.bench.plan.mode {
            Mode::Throughput => self.time_segment(finish),
            Mode::HostCpu => {
                let started_ns = host_cpu::thread_ns();
                let span = self.time_segment(finish);
                self.cpu.add_segment(started_ns);
                span
            }
            Mode::Latency | Mode::Open { .. } => self.time_jobs(finish),
        }?;
        let has_worked = !self.done.is_empty();
        if self.bench.plan.mode == Mode::Latency {
            for completion in &self.done {
                let took_ns = self.took_ns[completion.job.tag as usize];
                self.latencies.record(took_ns);
            }
        }
        self.check_done()?;
        Ok(has_worked.then_some(span))
    }

    /// The timed loop of throughput runs, and of those for the host's CPU time.
    fn time_segment(&mut self, finish: Finish<'_>) -> Result<Span, Broken> {
        let clock = self.bench.backend.clock();
        let mut waiting = Waiting::default();
        let start_ns = clock.now_ns();
        loop {
            if !finish.is_called() {
                self.queue.submit(&mut self.idle);
                if self.idle.is_empty() {
                    finish.call();
                }
            } else if self.queue.in_flight() == 0 {
                break;
            }
            let home = self.queue.poll(&mut self.done);
            self.wait_if_empty(home, self.idle.len(), &mut waiting)?;
            if self.is_given_up {
                finish.call();
                break;
            }
        }
        let end_ns = clock.now_ns();
        Ok(Span { start_ns, end_ns })
    }

    /// The timed loop of latency runs: a burst is stamped before it is submitted, and when it comes home.
    fn time_jobs(&mut self, finish: Finish<'_>) -> Result<Span, Broken> {
        let clock = self.bench.backend.clock();
        let depth = self.bench.depth.get() as usize;
        let mut staged = VecDeque::with_capacity(depth);
        let mut waiting = Waiting::default();
        let start_ns = clock.now_ns();
        while !finish.is_called() || !staged.is_empty() || self.queue.in_flight() > 0 {
            let room = depth - self.queue.in_flight() - staged.len();
            if room > 0 && !finish.is_called() {
                let now_ns = clock.now_ns();
                for job in self.idle.drain(..room.min(self.idle.len())) {
                    self.submitted_ns[job.tag as usize] = now_ns;
                    staged.push_back(job);
                }
                if self.idle.is_empty() {
                    finish.call();
                }
            }
            self.queue.submit(&mut staged);
            let home = self.queue.poll(&mut self.done);
            self.wait_if_empty(home, staged.len(), &mut waiting)?;
            if self.is_given_up {
                finish.call();
                break;
            }
            if home > 0 {
                let now_ns = clock.now_ns();
                for completion in &self.done[self.done.len() - home..] {
                    let tag = completion.job.tag as usize;
                    self.took_ns[tag] = now_ns - self.submitted_ns[tag];
                }
            }
        }
        let end_ns = clock.now_ns();
        Ok(Span { start_ns, end_ns })
    }

    /// After a poll that brought `home` jobs, with `ready` more that wait for the queue. After many that brought nothing
    /// somebody else may need the core more; after too long a silence the device is wedged.
    pub(super) fn wait_if_empty(
        &mut self,
        home: usize,
        ready: usize,
        waiting: &mut Waiting,
    ) -> Result<(), Broken> {
        if home > 0 {
            *waiting = Waiting::default();
            return Ok(());
        }
        self.counts.polls_empty += 1;
        waiting.polls += 1;
        let is_host_cpu = self.bench.plan.mode == Mode::HostCpu;
        if is_host_cpu {
            self.cpu.spend();
        } else {
            std::hint::spin_loop();
        }
        let is_patient = if is_host_cpu || self.bench.is_virtual {
            // Giving the core away costs CPU time too; and a model needs many polls, each of which would wait for a busy machine.
            !waiting.polls.is_multiple_of(SPINS)
        } else {
            waiting.polls <= SPINS
        };
        if is_patient {
            return Ok(());
        }
        thread::yield_now();
        let silence = waiting.silence.lasts(&self.bench.wall);
        self.is_given_up = silence > GRACE && self.is_stopped();
        let is_wedged = silence > self.bench.silence_max;
        let flying = self.queue.in_flight();
        if self.is_given_up || is_wedged {
            patience::leak(&mut self.queue);
        }
        if is_wedged {
            return Err(Broken::Wrong(format!(
                "{flying} jobs in flight and {ready} ready, but nothing came home for {:.0} s; the queue is leaked with \
                 its buffers",
                silence.as_secs_f64()
            )));
        }
        Ok(())
    }

    /// Checks every job that came home and lays it ready again. Never on the clock.
    pub(super) fn check_done(&mut self) -> Result<(), Broken> {
        while let Some(completion) = self.done.pop() {
            self.check_and_reload(completion)?;
        }
        Ok(())
    }

    /// Checks what came home, counts it, and lays the job ready with the next input: its destination scrubbed, so that a
    /// job that nobody carries out cannot pass for the last one.
    fn check_and_reload(&mut self, completion: Completion) -> Result<(), Broken> {
        let Completion { mut job, result } = completion;
        let tag = job.tag as usize;
        let at = self.loads[tag];
        let bytes_out = self
            .check(&job, result)
            .map_err(|what| Broken::Wrong(format!("input {at}: {what}")))?;
        self.counts.jobs += 1;
        self.counts.items += job.items.count() as u64;
        self.counts.bytes_in += job.batch().map_or(0, |batch| batch.bytes()) as u64;
        self.counts.bytes_out += bytes_out;
        scrub(&mut job);
        let next = self.rotate();
        if next != at {
            let Load { view, items, .. } = &self.bench.loads[next];
            job.src = view.clone().into();
            job.items = items.clone();
            job.slots = self.bench.shape.slots(job.dst[0].len(), items.count());
            self.loads[tag] = next;
        }
        self.idle.push_back(job);
        Ok(())
    }

    /// Whether a result is right; the bytes that were written.
    fn check(&self, job: &Job, result: Result<(), JobError>) -> Result<u64, String> {
        result
            .and_then(|()| job.check_outcomes(self.bench.shape))
            .map_err(|error| format!("the job failed: {error}"))?;
        let load = &self.bench.loads[self.loads[job.tag as usize]];
        if let Some(known) = load.known.get()
            && known.equals(job, self.bench.shape)
        {
            return Ok(known.bytes.len() as u64);
        }
        // The first of its kind, or an encoder that wrote something else this time, as it may.
        let found = self.vouch(job)?;
        let bytes_out = found.bytes.len() as u64;
        let _ = load.known.set(found);
        Ok(bytes_out)
    }

    /// Has the workload judge each item.
    fn vouch(&self, job: &Job) -> Result<Known, String> {
        let Bench {
            shape, workload, ..
        } = *self.bench;
        let batch = job.batch().map_err(|error| error.to_string())?;
        let mut known = Known {
            bytes: Vec::new(),
            outcomes: job.outcomes.clone(),
            is_only: true,
        };
        for i in 0..batch.len() {
            let (item, output) = (batch.item(i), job.output(shape, i));
            let slot_bytes = job.slots.place(i, &job.dst).len;
            let right = workload.right(item, slot_bytes);
            right
                .check(output, slot_bytes, |output| workload.approve(item, output))
                .map_err(|what| format!("item {i} ({} bytes): {what}", item.len()))?;
            known.is_only &= matches!(right, Right::Only(_));
            known.bytes.extend_from_slice(output.unwrap_or_default());
        }
        Ok(known)
    }
}

impl Known {
    fn equals(&self, job: &Job, shape: OutputShape) -> bool {
        match shape {
            // The usual slots, one right behind another.
            OutputShape::Fixed(_) => job.dst[0][..self.bytes.len()] == self.bytes,
            OutputShape::Variable => {
                let mut rest = self.bytes.as_slice();
                self.outcomes == job.outcomes
                    && (0..job.outcomes.len()).all(|i| {
                        let output = job.output(shape, i).unwrap_or_default();
                        let (right, after) = rest.split_at(output.len());
                        rest = after;
                        output == right
                    })
            }
        }
    }
}

/// Leaves nothing of what was written. Turned over rather than overwritten: no byte is as it was, whatever it was.
fn scrub(job: &mut Job) {
    for byte in job.dst.iter_mut().flat_map(|buf| &mut buf[..]) {
        *byte = !*byte;
    }
    job.outcomes.clear();
}

/// Keeps this thread on one core.
fn pin(core: u32) -> Result<(), Broken> {
    let mut cores = CpuSet::new();
    if core as usize >= CpuSet::MAX_CPU {
        return Err(SetupError::Parameter(format!("there is no core {core}")).into());
    }
    cores.set(core as usize);
    sched_setaffinity(None, &cores).map_err(|error| {
        SetupError::Parameter(format!("cannot pin a thread to core {core}: {error}")).into()
    })
}
