//! Copies by a device: two queue pairs connected to each other, writes from one to the other.
//!
//! A job's buffers belong to this until its last write has completed, or until both queue pairs are destroyed, which ends
//! whatever the device does on their behalf. So nothing is given back too early, and a device that fails ends jobs instead
//! of keeping them. A write completes when the receiving end, the same device, has acknowledged it: what the device writes
//! afterwards, the completion first of all, comes after the data.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{Buf, Clock, Completion, Job, JobError, Limits, OutputShape, Place, Region};

use super::super::sys;
use super::chain::Chain;
use super::{
    Capacity, CompletionQueue, ProtectionDomain, QueuePair, Registered, RemotePair, Route,
    VerbsError,
};

/// The copies of one queue.
pub(in crate::rdma) struct Copier {
    /// `None` once the device has failed, or refused to end.
    pairs: Option<[QueuePair; 2]>,
    completions: Arc<CompletionQueue>,
    domain: Arc<ProtectionDomain>,
    limits: Limits,
    depth: usize,
    /// The jobs in order; the first `posted_jobs` are wholly posted.
    jobs: VecDeque<Entry>,
    posted_jobs: usize,
    /// Never seen by the device.
    refused: VecDeque<Completion>,
    /// Writes posted and writes completed, since the start.
    posted: u64,
    completed: u64,
    /// Most writes posted and not completed.
    room: u64,
    chain: Chain,
    /// Jobs that a device which refused to end may still write to; they never come home.
    left: usize,
    /// The reason that every job fails from now on.
    failure: Option<JobError>,
    /// The clock by which its patience with the device is counted.
    clock: Arc<dyn Clock>,
}

/// A job and how far it is.
struct Entry {
    job: Job,
    /// The next item to be posted.
    item: usize,
    /// The write that ends it, once it is wholly posted.
    last: u64,
}

/// Bytes that lie together on both sides.
struct Segment {
    /// The place that is read; its length is that of both.
    src: Place,
    /// The place that is written.
    dst: Place,
}

/// Writes of one call.
const CHAIN_MAX: usize = 64;
/// The time that a queue that is dropped waits for its writes before it stops them.
const PATIENCE: Duration = Duration::from_secs(2);

impl Copier {
    /// A copier for `depth` jobs within `limits`, with `room` writes in flight. `to` tells how the port reaches itself; its
    /// peer is filled in here.
    pub(in crate::rdma) fn new(
        domain: &Arc<ProtectionDomain>,
        to: Route,
        limits: Limits,
        depth: usize,
        room: u32,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, VerbsError> {
        let completions = CompletionQueue::with_file(&domain.context, room)?;
        let capacity = Capacity {
            sends: room,
            receives: 1,
            inline_bytes: 0,
        };
        let pair = || QueuePair::new(domain, [&completions; 2], capacity);
        let mut pairs = [pair()?, pair()?];
        let numbers = [pairs[0].number(), pairs[1].number()];
        for (pair, number) in pairs.iter_mut().zip([numbers[1], numbers[0]]) {
            let qp_num = number;
            pair.connect(&Route {
                peer: RemotePair { qp_num, ..to.peer },
                ..to
            })?;
        }
        Ok(Self {
            pairs: Some(pairs),
            completions,
            domain: domain.clone(),
            limits,
            depth,
            jobs: VecDeque::with_capacity(depth),
            posted_jobs: 0,
            refused: VecDeque::with_capacity(depth),
            posted: 0,
            completed: 0,
            room: room.into(),
            chain: Chain::new(CHAIN_MAX),
            left: 0,
            failure: None,
            clock,
        })
    }

    pub(in crate::rdma) fn in_flight(&self) -> usize {
        self.jobs.len() + self.refused.len() + self.left
    }

    pub(in crate::rdma) fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.depth - self.in_flight());
        for mut job in ready.drain(..taken) {
            match self.admit(&mut job) {
                Ok(()) => self.jobs.push_back(Entry {
                    job,
                    item: 0,
                    last: 0,
                }),
                Err(error) => self.refused.push_back(Completion {
                    job,
                    result: Err(error),
                }),
            }
        }
        self.post();
        taken
    }

    pub(in crate::rdma) fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        done.extend(self.refused.drain(..));
        self.collect();
        self.post();
        while self.posted_jobs > 0 && self.jobs[0].last <= self.completed {
            let entry = self.jobs.pop_front().expect("a posted job");
            self.posted_jobs -= 1;
            done.push(Completion {
                job: entry.job,
                result: Ok(()),
            });
        }
        if let (Some(error), None) = (self.failure, &self.pairs) {
            self.posted_jobs = 0;
            done.extend(self.jobs.drain(..).map(|entry| Completion {
                job: entry.job,
                result: Err(error),
            }));
        }
        done.len() - before
    }

    /// Sleeps until a write has completed, at most for `timeout`, unless `poll` has something already.
    pub(in crate::rdma) fn wait(&mut self, timeout: Duration) {
        // A job of which nothing is written is home without a completion.
        let is_home = self.posted_jobs > 0 && self.jobs[0].last <= self.completed;
        if self.in_flight() == 0 || !self.refused.is_empty() || is_home {
            return;
        }
        if self.pairs.is_some() {
            let completed = self.completed;
            if let Err(error) = self.completions.arm() {
                self.fail(JobError::Device(-error.errno()));
            }
            // The file need not tell of what completed before it was armed.
            self.collect();
            if self.completed != completed {
                return;
            }
        }
        // Of a device that has failed, `poll` gives the jobs home, but for those that are left to it for good.
        if self.pairs.is_some() || self.jobs.is_empty() {
            self.completions.sleep(timeout);
        }
    }

    /// The file that says that something has completed.
    pub(in crate::rdma) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.completions.file()
    }

    /// Whether the job may be carried out.
    fn admit(&self, job: &mut Job) -> Result<(), JobError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        job.admit(OutputShape::Variable, &self.limits)?;
        let is_ours = |home: &dyn Region| {
            let region = home.downcast_ref::<Registered>();
            region.is_some_and(|region| region.is_in(&self.domain))
        };
        let is_reached = job.all_regions(is_ours);
        is_reached.then_some(()).ok_or(JobError::ForeignBuffer)
    }

    /// Posts what there is room for.
    fn post(&mut self) {
        let Some([initiator, _]) = &mut self.pairs else {
            return;
        };
        while self.posted_jobs < self.jobs.len() && self.posted - self.completed < self.room {
            self.chain.clear();
            let room = (self.room - (self.posted - self.completed)) as usize;
            while let Some(entry) = self.jobs.get_mut(self.posted_jobs) {
                if self.chain.is_full() || self.chain.len() == room {
                    break;
                }
                match entry.next_segment() {
                    Some(segment) => {
                        let (request, part) = entry.write(&segment);
                        self.chain.push(request, part);
                    }
                    None => {
                        entry.last = self.posted + self.chain.len() as u64;
                        self.posted_jobs += 1;
                    }
                }
            }
            self.posted += self.chain.len() as u64;
            if let Some(last) = self.chain.last() {
                last.wr_id = self.posted;
                last.send_flags = sys::SEND_SIGNALED;
            }
            let Some(first) = self.chain.link() else {
                continue;
            };
            // SAFETY: a whole chain; its parts lie inside buffers of this domain that `jobs` owns until the writes have
            // completed or the queue pairs are gone; of an output no reference is made while they fly.
            if let Err(error) = unsafe { initiator.post_send(first) } {
                return self.fail(JobError::Device(-error.errno()));
            }
        }
    }

    /// Takes completions.
    fn collect(&mut self) {
        if self.pairs.is_none() {
            return;
        }
        let mut completions = [sys::Wc::default(); 16];
        loop {
            let count = match self.completions.poll(&mut completions) {
                Ok(count) => count,
                Err(error) => return self.fail(JobError::Device(-error.errno())),
            };
            for completion in &completions[..count] {
                if completion.status != sys::WC_SUCCESS {
                    return self.fail(JobError::Device(completion.status));
                }
                self.completed = completion.wr_id;
            }
            if count < completions.len() {
                return;
            }
        }
    }

    /// Ends both queue pairs, so that all jobs can go home. If the device refuses to, its jobs stay: it may still write.
    fn fail(&mut self, error: JobError) {
        self.failure = Some(error);
        let pairs = self.pairs.take().into_iter().flatten();
        let ended: Result<Vec<()>, _> = pairs.map(QueuePair::destroy).collect();
        if let Err(refusal) = ended {
            let jobs = std::mem::take(&mut self.jobs);
            self.posted_jobs = 0;
            self.left = jobs.len();
            eprintln!(
                "dpb: {refusal}; the buffers of {} jobs are left to it",
                self.left
            );
            std::mem::forget(jobs);
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let mut waiting = Silence::default();
        while self.pairs.is_some()
            && self.completed < self.posted
            && waiting.lasts(&*self.clock) < PATIENCE
        {
            self.collect();
            std::thread::yield_now();
        }
        if self.pairs.is_some() {
            // Nobody asks for it any more; what counts is that the queue pairs end before the jobs' buffers go.
            self.fail(JobError::Device(sys::WC_WR_FLUSH_ERR));
        }
    }
}

impl Segment {
    /// Whether both sides go on where it ends.
    fn goes_on_at(&self, src: &Place, dst: &Place) -> bool {
        let behind = |start: usize| start + self.src.len;
        (self.src.buf, behind(self.src.start)) == (src.buf, src.start)
            && (self.dst.buf, behind(self.dst.start)) == (dst.buf, dst.start)
    }
}

impl Entry {
    /// Walks over items, with an outcome for each, to the end of what can be written at once. `None` at the end of the job.
    fn next_segment(&mut self) -> Option<Segment> {
        let count = self.job.items.count();
        let mut segment: Option<Segment> = None;
        while self.item < count {
            let src = self.job.items.place(self.item, &self.job.src);
            let dst = self.job.slots.place(self.item, &self.job.dst);
            let fits = src.len <= dst.len;
            if fits && src.len > 0 {
                match &mut segment {
                    None => segment = Some(Segment { src, dst }),
                    Some(s) if s.goes_on_at(&src, &dst) => s.src.len += src.len,
                    Some(_) => break,
                }
            }
            self.job.outcomes.push(match fits {
                true => Ok(src.len as u32),
                false => Err(JobError::DstTooShort),
            });
            self.item += 1;
        }
        segment
    }

    /// The write of `segment`; both of its ends lie inside their buffers, because items and slots do.
    fn write(&self, segment: &Segment) -> (sys::SendWr, sys::Sge) {
        let Segment { src, dst } = segment;
        let [from, to] = [&self.job.src[src.buf], &self.job.dst[dst.buf]];
        let [read, written] = [from, to].map(|buf| {
            let region = buf.region().downcast_ref::<Registered>();
            region.expect("looked at when it came")
        });
        // No reference to the memory is made: the device writes there.
        let address =
            |buf: &Buf, start| (buf.as_non_null().expose_provenance().get() + start) as u64;
        let request = sys::SendWr {
            opcode: sys::WR_RDMA_WRITE,
            remote_addr: address(to, dst.start),
            rkey: written.rkey(),
            ..sys::SendWr::EMPTY
        };
        let part = sys::Sge {
            addr: address(from, src.start),
            length: src.len as u32,
            lkey: read.lkey(),
        };
        (request, part)
    }
}
