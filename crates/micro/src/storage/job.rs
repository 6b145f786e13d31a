//! One thread's requests: always as many in flight as asked for, each one's time kept, each one's data checked.
//!
//! A request's time is from just before the call that hands it over until the thread sees that it is done. No two requests for the same
//! block are in flight while something is written, so that each read has one right answer.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use dpb_core::Clock;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::provenance::memory_available_bytes;
use dpb_core::random::SplitMix64;

use super::engine::{self, Done, Lane, Request};
use super::stamp::Stamps;
use super::{Access, Fsync, Handled, Pattern, Plan, Target};
use crate::crew::{Broken, Member};

/// Blocks of a run that are read back if not all are.
const SAMPLES: usize = 64;

/// What one run of one job gives.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) handled: Handled,
    pub(super) reads: Latencies,
    pub(super) writes: Latencies,
    pub(super) syncs: Latencies,
    pub(super) latency_ns: u64,
}

impl Part {
    pub(super) fn add(&mut self, other: &Self) {
        self.handled.add(&other.handled);
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.syncs.add(&other.syncs);
        self.latency_ns += other.latency_ns;
    }
}

pub(super) struct Job<'a> {
    plan: &'a Plan,
    target: &'a Target,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    /// The first byte of its part.
    start: u64,
    blocks: usize,
    random: SplitMix64,
    /// Of a sequence: the next block.
    next: usize,
    /// What it has once it is prepared.
    open: Option<Open>,
    contents: Contents,
    free: Vec<usize>,
    slots: Vec<Slot>,
    part: Part,
    /// Blocks compared in the last run.
    compared: u64,
}

struct Open {
    lane: Box<dyn Lane>,
    file: File,
    /// Checksums of what each buffer for writes holds behind its stamps.
    rests: Vec<Vec<u64>>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    block: usize,
    is_write: bool,
    generation: u64,
    submitted_ns: u64,
}

/// What is known of the blocks of a job; empty if it only reads.
#[derive(Default)]
struct Contents {
    /// The write that each block is of, 0 if it is of none of this test.
    generations: Vec<u64>,
    flying: Vec<bool>,
    last: u64,
    /// Some of the blocks that were written since the last check.
    samples: Vec<usize>,
    /// The last write before the run.
    checked: u64,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        target: &'a Target,
        number: u32,
        clock: &'a dyn Clock,
        stop: &'a AtomicBool,
    ) -> Self {
        let blocks = target.bytes() / u64::from(plan.jobs) / plan.block;
        let seed = plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(number);
        Self {
            plan,
            target,
            clock,
            stop,
            start: u64::from(number) * blocks * plan.block,
            blocks: blocks as usize,
            random: SplitMix64::new(seed),
            next: 0,
            open: None,
            contents: Contents::default(),
            free: (0..plan.depth as usize).rev().collect(),
            slots: vec![Slot::default(); plan.depth as usize],
            part: Part::default(),
            compared: 0,
        }
    }

    fn offset(&self, block: usize) -> u64 {
        self.start + block as u64 * self.plan.block
    }

    /// Reads its part once, so that what the page cache can hold is there.
    fn warm_cache(&mut self) -> Result<(), Broken> {
        let has_room = self.target.bytes() <= memory_available_bytes();
        if self.plan.direct || !self.plan.access.reads() || !has_room {
            return Ok(());
        }
        for block in 0..self.blocks {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.read_back(block)?;
        }
        Ok(())
    }

    /// Reads a block by itself, into the first buffer.
    fn read_back(&mut self, block: usize) -> Result<&[u8], Broken> {
        let offset = self.offset(block);
        let open = self.open.as_mut().expect("prepared");
        let read = open.file.read_exact_at(open.lane.buffer(0), offset);
        read.map_err(|error| self.broken("read", offset, &error))?;
        Ok(self.open.as_mut().expect("prepared").lane.buffer(0))
    }

    fn broken(&self, what: &str, offset: u64, error: &io::Error) -> Broken {
        if self.plan.direct && error.kind() == io::ErrorKind::InvalidInput {
            return Broken::Unsupported(self.target.no_direct(error));
        }
        let path = self.target.path().display();
        Broken::Wrong(format!(
            "{path}: {} bytes at {offset} cannot be {what}: {error}",
            self.plan.block
        ))
    }

    /// A request to be made now; `None` if the blocks that come next are in flight.
    fn draw(&mut self) -> Option<(usize, bool)> {
        let is_write = match self.plan.access {
            Access::Read => false,
            Access::Write => true,
            Access::Mixed { read_share } => self.random.unit() > read_share,
        };
        let is_free = |contents: &Contents, block: usize| contents.flying.get(block) != Some(&true);
        match self.plan.pattern {
            Pattern::Sequential => {
                let block = self.next;
                is_free(&self.contents, block).then(|| {
                    self.next = (block + 1) % self.blocks;
                    (block, is_write)
                })
            }
            // There are at least as many blocks as slots, so one is free.
            Pattern::Random => loop {
                let block = self.random.below(self.blocks);
                if is_free(&self.contents, block) {
                    break Some((block, is_write));
                }
            },
        }
    }

    /// Pushes requests until as many are in flight as may be; the slots that they have are added to `pushed`.
    fn push(&mut self, open: &mut Open, pushed: &mut Vec<usize>, most: usize) {
        while pushed.len() < most && !self.free.is_empty() {
            let Some((block, is_write)) = self.draw() else {
                return;
            };
            let slot = self.free.pop().expect("not empty");
            let offset = self.offset(block);
            // Reads of a mixed test have buffers of their own, behind those of writes.
            let buffer = match self.plan.access {
                Access::Mixed { .. } if !is_write => slot + self.slots.len(),
                _ => slot,
            };
            let mut generation = 0;
            if is_write {
                generation = self.contents.launch_write();
                if let Some(stamps) = self.target.stamps() {
                    let block = open.lane.buffer(buffer);
                    stamps.stamp(block, &open.rests[buffer], offset, generation);
                }
            }
            if let Some(flying) = self.contents.flying.get_mut(block) {
                *flying = true;
            }
            self.slots[slot] = Slot {
                block,
                is_write,
                generation,
                submitted_ns: 0,
            };
            open.lane.push(Request {
                slot,
                buffer,
                is_write,
                offset,
            });
            pushed.push(slot);
        }
    }

    /// Counts a request that is done, and looks at what it brought.
    fn finish(&mut self, open: &mut Open, done: Done, now_ns: u64) -> Result<(), Broken> {
        let slot = self.slots[done.slot];
        let (offset, bytes) = (self.offset(slot.block), self.plan.block);
        let what = if slot.is_write { "written" } else { "read" };
        let result = done
            .result
            .map_err(|error| self.broken(what, offset, &error))?;
        if result as u64 != bytes {
            let path = self.target.path().display();
            let why = format!("{path}: only {result} of {bytes} bytes at {offset} were {what}");
            return Err(Broken::Wrong(why));
        }
        let ns = now_ns.saturating_sub(slot.submitted_ns);
        self.part.latency_ns += ns;
        self.free.push(done.slot);
        if let Some(flying) = self.contents.flying.get_mut(slot.block) {
            *flying = false;
        }
        if slot.is_write {
            self.part.writes.record(ns);
            self.part.handled.writes += 1;
            self.part.handled.bytes_written += bytes;
            self.contents
                .land_write(slot.block, slot.generation, &mut self.random);
            return Ok(());
        }
        self.part.reads.record(ns);
        self.part.handled.reads += 1;
        self.part.handled.bytes_read += bytes;
        let Some(stamps) = self.target.stamps() else {
            return Ok(());
        };
        let buffer = match self.plan.access {
            Access::Mixed { .. } => done.slot + self.slots.len(),
            _ => done.slot,
        };
        self.compared += 1;
        let block = open.lane.buffer(buffer);
        let generation = self.contents.generation(slot.block);
        judge(
            stamps,
            self.target,
            block,
            offset,
            generation,
            self.plan.verify,
        )
    }

    /// Waits until what was written is on the device.
    fn sync(&mut self, open: &Open) -> Result<(), Broken> {
        let start_ns = self.clock.now_ns();
        open.file.sync_all().map_err(|error| {
            let path = self.target.path().display();
            Broken::Wrong(format!("{path} cannot be synced: {error}"))
        })?;
        self.part.syncs.record(self.clock.now_ns() - start_ns);
        self.part.handled.syncs += 1;
        Ok(())
    }

    fn requests(&mut self, open: &mut Open, until_ns: u64) -> Result<(), Broken> {
        let (mut pushed, mut done) = (
            Vec::with_capacity(self.slots.len()),
            Vec::with_capacity(self.slots.len()),
        );
        let mut unsynced = 0u32;
        let mut now_ns = self.clock.now_ns();
        loop {
            pushed.clear();
            let may_go_on = now_ns < until_ns && !self.stop.load(Ordering::Relaxed);
            let is_idle = self.free.len() == self.slots.len();
            let before_sync = match self.plan.sync {
                Fsync::Every(writes) => writes.saturating_sub(unsynced) as usize,
                _ => usize::MAX,
            };
            if before_sync == 0 && is_idle {
                self.sync(open)?;
                unsynced = 0;
                now_ns = self.clock.now_ns();
                continue;
            }
            if may_go_on {
                self.push(open, &mut pushed, before_sync);
            } else if is_idle {
                return Ok(());
            }
            unsynced += pushed
                .iter()
                .filter(|&&slot| self.slots[slot].is_write)
                .count() as u32;
            let start_ns = self.clock.now_ns();
            for &slot in &pushed {
                self.slots[slot].submitted_ns = start_ns;
            }
            let submitted = open.lane.submit(&mut done);
            submitted.map_err(|error| self.broken("asked for", self.start, &error))?;
            now_ns = self.clock.now_ns();
            for done in done.drain(..) {
                self.finish(open, done, now_ns)?;
            }
        }
    }

    /// The blocks of the last run that are read back: all, or a few.
    fn take_written(&mut self) -> BTreeMap<usize, u64> {
        let contents = &mut self.contents;
        let samples = std::mem::take(&mut contents.samples);
        let is_new = |block: &usize| contents.generations[*block] > contents.checked;
        let blocks: Vec<usize> = match self.plan.verify {
            true => (0..contents.generations.len()).filter(is_new).collect(),
            false => samples,
        };
        let known = blocks
            .into_iter()
            .map(|block| (block, contents.generations[block]));
        let known = known.collect();
        contents.checked = contents.last;
        known
    }
}

/// Compares a block with what it must be: its place, and with `verify` all of it.
fn judge(
    stamps: Stamps,
    target: &Target,
    block: &[u8],
    offset: u64,
    generation: Option<u64>,
    verify: bool,
) -> Result<(), Broken> {
    let judged = match verify {
        true => stamps.check(block, offset, generation),
        false => stamps.look(block, offset),
    };
    judged.map_err(|fault| Broken::Wrong(format!("{}: {fault}", target.path().display())))
}

impl Contents {
    fn of(blocks: usize) -> Self {
        Self {
            generations: vec![0; blocks],
            flying: vec![false; blocks],
            ..Self::default()
        }
    }

    /// The number of a write that starts now.
    fn launch_write(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn land_write(&mut self, block: usize, generation: u64, random: &mut SplitMix64) {
        self.generations[block] = generation;
        if self.samples.len() < SAMPLES {
            self.samples.push(block);
        } else if let Some(sample) = {
            let since = (self.last - self.checked) as usize;
            self.samples.get_mut(random.below(since.max(1)))
        } {
            *sample = block;
        }
    }

    /// The write that the block is of, if it is one of this test.
    fn generation(&self, block: usize) -> Option<u64> {
        self.generations
            .get(block)
            .copied()
            .filter(|&generation| generation > 0)
    }
}

impl Member for Job<'_> {
    type Part = Part;

    fn prepare(&mut self) -> Result<(), Broken> {
        let (plan, target) = (self.plan, self.target);
        let file = target
            .open(plan.direct)
            .map_err(|error| match plan.direct {
                true => Broken::Unsupported(target.no_direct(&error)),
                false => Broken::Wrong(format!(
                    "{} cannot be opened: {error}",
                    target.path().display()
                )),
            })?;
        let depth = plan.depth as usize;
        let buffers = match plan.access {
            Access::Mixed { .. } => 2 * depth,
            _ => depth,
        };
        let lane = engine::open(plan, &file, buffers)?;
        let rests = Vec::new();
        self.open = Some(Open { lane, file, rests });
        self.warm_cache()?;
        if plan.access.writes() {
            self.contents = Contents::of(self.blocks);
            let open = self.open.as_mut().expect("just set");
            if let Some(stamps) = target.stamps() {
                let fill = |number| stamps.fill(open.lane.buffer(number), &mut self.random);
                open.rests = (0..depth).map(fill).collect();
            }
        }
        Ok(())
    }

    fn work(&mut self, until_ns: u64) -> Result<Part, Broken> {
        let mut open = self.open.take().expect("prepared");
        self.compared = 0;
        let mut worked = self.requests(&mut open, until_ns);
        if worked.is_ok() && self.plan.sync == Fsync::End && self.part.handled.writes > 0 {
            worked = self.sync(&open);
        }
        self.open = Some(open);
        worked.map(|()| std::mem::take(&mut self.part))
    }

    fn check(&mut self) -> Result<u64, Broken> {
        let mut compared = self.compared;
        if !self.plan.access.writes() {
            return Ok(compared);
        }
        let open = self.open.as_ref().expect("prepared");
        // So that the next run does not wait for what this one has left in the cache.
        open.file
            .sync_data()
            .map_err(|error| self.broken("synced", self.start, &error))?;
        let Some(stamps) = self.target.stamps() else {
            return Ok(compared);
        };
        // The first buffer is one of those whose contents are known, and is needed again.
        let kept = self
            .open
            .as_mut()
            .expect("prepared")
            .lane
            .buffer(0)
            .to_vec();
        for (block, generation) in self.take_written() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let (offset, target) = (self.offset(block), self.target);
            let read = self.read_back(block)?;
            judge(stamps, target, read, offset, Some(generation), true)?;
            compared += 1;
        }
        let open = self.open.as_mut().expect("prepared");
        open.lane.buffer(0).copy_from_slice(&kept);
        Ok(compared)
    }
}
