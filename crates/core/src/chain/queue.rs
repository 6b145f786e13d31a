//! The queue of a chain: jobs go from the queue of one stage to that of the next.

use std::collections::VecDeque;
use std::mem::take;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::Chain;
use super::flight::Flight;
use crate::{Completion, Job, JobError, Memory, Operator, OutputShape, Queue, SetupError};

/// An open [`Chain`].
pub(super) struct ChainQueue {
    chain: Arc<Chain>,
    stage_queues: Vec<StageQueue>,
    /// One for each job that may be in flight.
    flights: Vec<Flight>,
    /// Which of them are free.
    free: Vec<usize>,
    /// What a stage has just finished.
    done: Vec<Completion>,
    /// What the chain has finished.
    finished: VecDeque<Completion>,
}

/// The queue of a stage.
struct StageQueue {
    queue: Box<dyn Queue>,
    shape: OutputShape,
    /// Jobs that the queue has not taken yet.
    ready: VecDeque<Job>,
}

impl ChainQueue {
    /// A queue of `chain` for `depth` jobs, with a queue of each stage and the memory between them.
    pub(super) fn open(chain: Arc<Chain>, depth: NonZeroU32) -> Result<Self, SetupError> {
        let jobs = depth.get() as usize;
        let stage_queue = |stage: &Arc<dyn Operator>| {
            Ok::<_, SetupError>(StageQueue {
                queue: stage.clone().open(depth)?,
                shape: stage.shape(),
                ready: VecDeque::with_capacity(jobs),
            })
        };
        let stage_queues: Result<Vec<_>, _> = chain.stages.iter().map(stage_queue).collect();
        let mut bytes = [0; 2];
        for (between, needed) in chain.bytes_between().enumerate() {
            bytes[between % 2] = bytes[between % 2].max(needed);
        }
        let flight = |_| Flight::new(&chain, bytes);
        let flights: Result<Vec<_>, _> = (0..jobs).map(flight).collect();
        Ok(Self {
            stage_queues: stage_queues?,
            flights: flights?,
            free: (0..jobs).rev().collect(),
            done: Vec::with_capacity(jobs),
            finished: VecDeque::with_capacity(jobs),
            chain,
        })
    }

    /// Checks a job and sends it to the first stage.
    fn start(&mut self, mut job: Job) {
        if let Err(error) = self.chain.admit(&mut job) {
            let result = Err(error);
            return self.finished.push_back(Completion { job, result });
        }
        let number = self.free.pop().expect("no more jobs than flights");
        let flight = &mut self.flights[number];
        flight.accept(job);
        self.enter(number, 0);
    }

    /// Sends flight `number` to stage `k`.
    fn enter(&mut self, number: usize, k: usize) {
        let is_last = k + 1 == self.stage_queues.len();
        let before = k
            .checked_sub(1)
            .map(|before| self.stage_queues[before].shape);
        let stage = &*self.chain.stages[k];
        let flight = &mut self.flights[number];
        let mut job = flight.enter(k, before);
        job.tag = number as u64;
        match flight.place_outputs(&mut job, stage, k, is_last) {
            Ok(()) => {
                let stage_queue = &mut self.stage_queues[k];
                stage_queue.ready.push_back(job);
                stage_queue.queue.submit(&mut stage_queue.ready);
            }
            Err(error) => {
                let result = Err(error);
                self.leave(k, Completion { job, result });
            }
        }
    }

    /// Sends what stages have finished to the next ones, in the order of the stages: what is computed at once is through at once.
    fn go_on(&mut self) {
        let mut done = take(&mut self.done);
        for k in 0..self.stage_queues.len() {
            let stage_queue = &mut self.stage_queues[k];
            if !stage_queue.ready.is_empty() {
                stage_queue.queue.submit(&mut stage_queue.ready);
            }
            stage_queue.queue.poll(&mut done);
            for completion in done.drain(..) {
                self.leave(k, completion);
            }
        }
        self.done = done;
    }

    /// Goes on with a job that stage `k` has finished.
    fn leave(&mut self, k: usize, done: Completion) {
        let number = done.job.tag as usize;
        let is_last = k + 1 == self.stage_queues.len();
        let flight = &mut self.flights[number];
        let result = flight.leave(done, k, is_last, self.stage_queues[k].shape);
        if result.is_ok() && !is_last {
            return self.enter(number, k + 1);
        }
        let job = flight.finish(k, self.chain.shape, self.stage_queues[k].shape, &result);
        self.free.push(number);
        self.finished.push_back(Completion { job, result });
    }
}

impl Queue for ChainQueue {
    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len() + self.finished.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.flights.len() - self.in_flight());
        for job in ready.drain(..taken) {
            self.start(job);
        }
        if self.chain.limits.synchronous {
            self.go_on();
        }
        taken
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.go_on();
        let finished = self.finished.len();
        done.extend(self.finished.drain(..));
        finished
    }

    /// Waits for the only stage that has jobs; for the last of several, briefly, since any of them may finish first.
    fn wait(&mut self, timeout: Duration) {
        const BRIEFLY: Duration = Duration::from_micros(50);
        if !self.finished.is_empty() {
            return;
        }
        let busy = |stage_queue: &&mut StageQueue| stage_queue.queue.in_flight() > 0;
        let mut busy = self.stage_queues.iter_mut().rev().filter(busy);
        let (last, others) = (busy.next(), busy.next().is_some());
        if let Some(stage_queue) = last {
            stage_queue.queue.wait(if others {
                timeout.min(BRIEFLY)
            } else {
                timeout
            });
        }
    }
}

impl Chain {
    fn admit(&self, job: &mut Job) -> Result<(), JobError> {
        if let Memory::Output = job.src {
            let Ok(offset) = self.in_place else {
                return Err(JobError::NotInPlace);
            };
            return job
                .open_in_place(self.shape, &self.limits, offset)
                .map(drop);
        }
        job.admit(self.shape, &self.limits).map(drop)
    }
}
