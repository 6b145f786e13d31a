//! Copies by a device: two queue pairs connected to each other, writes from one to the other.
//!
//! A job's buffers belong to this until its last write has completed, or until both queue pairs are destroyed, which ends
//! whatever the device does on their behalf. So nothing is given back too early, and a device that fails ends jobs instead
//! of keeping them. A write completes when the receiving end, the same device, has acknowledged it: what the device writes
//! afterwards, the completion first of all, comes after the data.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dpb_core::{Completion, Job, JobError, Limits, OutputShape, Place, Region};

use super::super::sys;
use super::chain::Chain;
use super::{
    Capacity, CompletionQueue, Peer, ProtectionDomain, QueuePair, Registered, Route, VerbsError,
};

/// One lane of copies.
pub(in crate::rdma) struct Copier {
    /// `None` once the device has failed, or refused to end.
    pairs: Option<[QueuePair; 2]>,
    completions: Arc<CompletionQueue>,
    domain: Arc<ProtectionDomain>,
    limits: Limits,
    depth: usize,
    /// In order; the first `posted_jobs` are wholly posted.
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
    /// Why every job fails from now on.
    failure: Option<JobError>,
}

/// A job and how far it is.
struct Entry {
    job: Job,
    /// The key of the output's memory.
    rkey: u32,
    /// Where the job's output begins, and how long a slot is: taken once, so that no reference is made while the device writes.
    dst: usize,
    slot: usize,
    /// The next item to be posted.
    item: usize,
    /// The write that ends it, once it is wholly posted.
    last: u64,
}

/// Bytes that lie together on both sides.
struct Segment {
    /// The number of the input's buffer.
    buf: usize,
    src: usize,
    dst: usize,
    len: usize,
}

/// Writes of one call.
const CHAIN_MAX: usize = 64;
/// How long a queue that is dropped waits for its writes before it stops them.
const PATIENCE: Duration = Duration::from_secs(2);

impl Copier {
    /// A lane for `depth` jobs within `limits`, with `room` writes in flight. `to` tells how the port reaches itself; its
    /// peer is filled in here.
    pub(in crate::rdma) fn new(
        domain: &Arc<ProtectionDomain>,
        to: Route,
        limits: Limits,
        depth: usize,
        room: u32,
    ) -> Result<Self, VerbsError> {
        let completions = CompletionQueue::new(&domain.context, room)?;
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
                peer: Peer { qp_num, ..to.peer },
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
        })
    }

    pub(in crate::rdma) fn in_flight(&self) -> usize {
        self.jobs.len() + self.refused.len() + self.left
    }

    pub(in crate::rdma) fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len().min(self.depth - self.in_flight());
        for mut job in ready.drain(..taken) {
            match self.admit(&mut job) {
                Ok(rkey) => self.jobs.push_back(Entry {
                    dst: job.dst.as_mut_ptr().expose_provenance(),
                    slot: OutputShape::Variable.slot(job.dst.len(), job.items.count()),
                    job,
                    rkey,
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

    /// Whether the job may be carried out; the key of its output's memory.
    fn admit(&self, job: &mut Job) -> Result<u32, JobError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        let batch = job.batch()?;
        self.limits.check(batch)?;
        if job.outcomes.capacity() < batch.len() {
            return Err(JobError::BadItems);
        }
        job.outcomes.clear();
        let is_ours = |home: &dyn Region| {
            let region = home.downcast_ref::<Registered>();
            region.is_some_and(|region| region.is_in(&self.domain))
        };
        let dst = job.dst.region();
        match dst.downcast_ref::<Registered>() {
            Some(region) if is_ours(dst) && job.src.all_regions(is_ours) => Ok(region.rkey()),
            _ => Err(JobError::ForeignBuffer),
        }
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
            // completed or the queue pairs are gone; of an output no reference was made since its address was taken.
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
        let deadline = Instant::now() + PATIENCE;
        while self.pairs.is_some() && self.completed < self.posted && Instant::now() < deadline {
            self.collect();
            std::thread::yield_now();
        }
        if self.pairs.is_some() {
            // Nobody asks for it any more; what counts is that the queue pairs end before the jobs' buffers go.
            self.fail(JobError::Device(sys::WC_WR_FLUSH_ERR));
        }
    }
}

impl Entry {
    /// Walks over items, with an outcome for each, to the end of what can be written at once. `None` at the end of the job.
    fn next_segment(&mut self) -> Option<Segment> {
        let count = self.job.items.count();
        let slot = self.slot;
        let mut segment: Option<Segment> = None;
        while self.item < count {
            let Place { buf, start, len } = self.job.items.place(self.item, &self.job.src);
            let dst = self.item * slot;
            let fits = len <= slot;
            if fits && len > 0 {
                match &mut segment {
                    None => {
                        let src = start;
                        segment = Some(Segment { buf, src, dst, len });
                    }
                    Some(s) if (s.buf, s.src + s.len, s.dst + s.len) == (buf, start, dst) => {
                        s.len += len;
                    }
                    Some(_) => break,
                }
            }
            self.job.outcomes.push(match fits {
                true => Ok(len as u32),
                false => Err(JobError::DstTooShort),
            });
            self.item += 1;
        }
        segment
    }

    /// The write of `segment`; both of its ends lie inside their buffers, because items and slots do.
    fn write(&self, segment: &Segment) -> (sys::SendWr, sys::Sge) {
        let region = self.job.src.region(segment.buf);
        let region = region.downcast_ref::<Registered>();
        let request = sys::SendWr {
            opcode: sys::WR_RDMA_WRITE,
            remote_addr: (self.dst + segment.dst) as u64,
            rkey: self.rkey,
            ..sys::SendWr::EMPTY
        };
        let src = self.job.src.buf(segment.buf);
        let part = sys::Sge {
            addr: (src.as_ptr().expose_provenance() + segment.src) as u64,
            length: segment.len as u32,
            lkey: region.expect("looked at when it came").lkey(),
        };
        (request, part)
    }
}
