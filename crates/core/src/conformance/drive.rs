//! Jobs through a queue, with the queue's own promises checked at each step.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::patience::{self, Silence};
use crate::{Buf, Clock, Completion, Items, Job, Limits, Operator, Queue, SetupError, WallClock};

/// How long a queue may do nothing at all with jobs in flight.
const SILENCE: Duration = Duration::from_secs(60);

/// How long to wait for a job at a time.
const NAP: Duration = Duration::from_millis(2);

/// A queue, and the jobs that go through it.
pub(super) struct CheckedQueue {
    queue: Box<dyn Queue>,
    depth: usize,
    /// True if one poll after a submit must bring everything home.
    is_synchronous: bool,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
    sent: Vec<Sent>,
    /// The host's, whatever the backend's is.
    clock: WallClock,
    silence: Silence,
    silence_max: Duration,
    /// Whether the next wait is for the queue's file, if it has one.
    is_file_next: bool,
}

/// What must come home as it went.
struct Sent {
    tag: u64,
    src: Vec<(*const u8, usize)>,
    dst: Vec<(*const u8, usize)>,
    items: Items,
    slots: Items,
    capacity: usize,
}

impl CheckedQueue {
    /// Opens a queue of `depth` jobs.
    pub(super) fn open(
        operator: &Arc<dyn Operator>,
        limits: &Limits,
        depth: u32,
    ) -> Result<Self, SetupError> {
        let depth = NonZeroU32::new(depth).expect("the suite's depths are not zero");
        Ok(Self {
            queue: operator.clone().open(depth)?,
            depth: depth.get() as usize,
            is_synchronous: limits.synchronous,
            ready: VecDeque::new(),
            done: Vec::new(),
            sent: Vec::new(),
            clock: WallClock::default(),
            silence: Silence::default(),
            silence_max: SILENCE,
            is_file_next: false,
        })
    }

    /// Changes how long the queue may do nothing.
    #[cfg(test)]
    pub(super) fn with_silence(self, silence_max: Duration) -> Self {
        Self {
            silence_max,
            ..self
        }
    }

    /// Adds a job, whose tag no other job has.
    pub(super) fn add(&mut self, job: Job) {
        self.sent.push(Sent::new(&job));
        self.ready.push_back(job);
    }

    /// Sends everything through. Each job came home exactly once, with its tag and its buffers.
    pub(super) fn finish(mut self) -> Result<Vec<Completion>, String> {
        while !self.advance()? {}
        self.close()
    }

    /// Sends everything through both queues, in turns.
    pub(super) fn finish_both(mut self, mut other: Self) -> Result<[Vec<Completion>; 2], String> {
        while !(self.advance()? & other.advance()?) {}
        Ok([self.close()?, other.close()?])
    }

    /// Submits and polls once; whether everything is home.
    fn advance(&mut self) -> Result<bool, String> {
        if self.done.len() >= self.sent.len() {
            return Ok(true);
        }
        if self.step()? > 0 {
            self.silence.end();
        } else if self.silence.lasts(&self.clock) > self.silence_max {
            let (flying, ready) = (self.queue.in_flight(), self.ready.len());
            patience::leak(&mut self.queue);
            return Err(format!(
                "{flying} jobs in flight and {ready} ready, but nothing happens; the queue is leaked with its buffers"
            ));
        } else {
            self.is_file_next = !self.is_file_next;
            match self.is_file_next && self.queue.file().is_some() {
                true => self.wait_for_file()?,
                false => self.wait()?,
            }
        }
        Ok(false)
    }

    /// Waits for a job by the queue's file, as [`Queue::file`] says: what has finished before it was armed is found by a poll, and the rest
    /// makes it readable.
    fn wait_for_file(&mut self) -> Result<(), String> {
        let number = |queue: &dyn Queue| queue.file().map(|file| file.as_raw_fd());
        let before = number(&*self.queue);
        self.queue.wait(Duration::ZERO);
        if self.step()? > 0 || self.queue.in_flight() == 0 {
            self.silence.end();
            return Ok(());
        }
        if number(&*self.queue) != before {
            return Err("the queue's file is another one after a wait".into());
        }
        let file = self.queue.file().expect("the same as before");
        let patience = Timespec::try_from(self.silence_max).expect("not too long");
        let mut files = [PollFd::new(&file, PollFlags::IN)];
        match poll(&mut files, Some(&patience)) {
            Ok(0) => {
                let flying = self.queue.in_flight();
                patience::leak(&mut self.queue);
                Err(format!(
                    "{flying} jobs in flight, but the queue's file does not become readable; the queue is leaked with its buffers"
                ))
            }
            // A signal ends it early.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(format!("the queue's file: {error}")),
        }
    }

    /// Waits a moment for a job.
    fn wait(&mut self) -> Result<(), String> {
        let flying = self.queue.in_flight();
        let start_ns = self.clock.now_ns();
        self.queue.wait(NAP);
        let took = Duration::from_nanos(self.clock.now_ns() - start_ns);
        if took > SILENCE {
            return Err(format!("a wait of {NAP:?} took {took:?}"));
        }
        match self.queue.in_flight() == flying {
            true => Ok(()),
            false => Err("waiting changed how many jobs are in flight".into()),
        }
    }

    /// Judges what came home.
    fn close(mut self) -> Result<Vec<Completion>, String> {
        self.wait()?;
        if self.queue.poll(&mut self.done) != 0 || self.queue.in_flight() != 0 {
            return Err("all jobs are home, and more is said to be in flight".into());
        }
        let mut expected: Vec<u64> = self.sent.iter().map(|sent| sent.tag).collect();
        let mut tags: Vec<u64> = self.done.iter().map(|c| c.job.tag).collect();
        tags.sort_unstable();
        expected.sort_unstable();
        if tags != expected {
            return Err(format!("tags {expected:?} went in, {tags:?} came home"));
        }
        for Completion { job, .. } in &self.done {
            let sent = self.sent.iter().find(|sent| sent.tag == job.tag);
            if !sent.is_some_and(|sent| sent.is_home(job)) {
                return Err(format!(
                    "job {}: its buffers, items or slots came home changed",
                    job.tag
                ));
            }
        }
        Ok(self.done)
    }

    /// Says how many jobs moved.
    fn step(&mut self) -> Result<usize, String> {
        let (ready, flying) = (self.ready.len(), self.queue.in_flight());
        let taken = self.queue.submit(&mut self.ready);
        let now = self.queue.in_flight();
        if ready - self.ready.len() != taken || now != flying + taken || now > self.depth {
            return Err(format!(
                "submit says {taken}; ready {ready} to {}, in flight {flying} to {now}",
                self.ready.len()
            ));
        }
        let home = self.done.len();
        let said = self.queue.poll(&mut self.done);
        let landed = self.queue.in_flight();
        if self.done.len() != home + said || landed + said != now {
            return Err(format!(
                "poll says {said}; home {home} to {}, in flight {now} to {landed}",
                self.done.len()
            ));
        }
        if self.is_synchronous && landed > 0 {
            return Err(format!(
                "said to be synchronous, but {landed} of {now} jobs are in flight after a poll"
            ));
        }
        Ok(taken + said)
    }
}

impl Sent {
    fn new(job: &Job) -> Self {
        let places = |bufs: &[Buf]| bufs.iter().map(|buf| (buf.as_ptr(), buf.len())).collect();
        Self {
            tag: job.tag,
            src: places(&job.src),
            dst: places(&job.dst),
            items: job.items.clone(),
            slots: job.slots.clone(),
            capacity: job.outcomes.capacity(),
        }
    }

    fn is_home(&self, job: &Job) -> bool {
        let home = Self::new(job);
        home.src == self.src
            && home.dst == self.dst
            && home.items == self.items
            && home.slots == self.slots
            && home.capacity >= self.capacity
    }
}
