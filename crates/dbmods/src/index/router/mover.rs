//! The mover: it moves the boundary piece by piece while lanes go on, by hand or after the measured rates of both sides.

use std::sync::Arc;
use std::time::Duration;

use super::split::{Dpu, Split};
use super::{Router, Work};
use crate::index::burst::{Burst, Executor, Outcome};
use crate::index::remote::{DELETED_AT_ONCE, Remote, RemoteError};
use crate::index::{IndexError, KeyRange};

/// Records that are copied at once, at most.
const COPIED_AT_ONCE: u32 = 256;
/// Bytes of values that are copied at once, at most.
const COPIED_BYTES: usize = 1 << 20;
/// The time between two looks at the lanes.
const LOOK: Duration = Duration::from_micros(20);
/// The part of the way to the best share that one step of [`Mover::adapt`] goes, at most: the rates change with the split.
const STEP: f64 = 0.5;
/// A difference of shares that is not worth a move.
const SLACK: f64 = 0.005;

/// Why a piece was not moved. It is where it was, or where the failure of the DPU's side has put it.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The DPU's side was given up, before or meanwhile.
    #[error("the DPU's side is gone")]
    Gone,
    /// The host's index failed.
    #[error("the host's index: {0}")]
    Host(#[from] IndexError),
    /// The DPU's side failed.
    #[error("the DPU's index: {0}")]
    Dpu(#[from] RemoteError),
    /// The caller has asked to stop.
    #[error("moving was stopped")]
    Stopped,
}

/// What moves the boundary of a router. There may be one at a time.
pub struct Mover {
    router: Arc<Router>,
    executor: Executor,
    remote: Option<(u64, Remote)>,
    burst: Burst,
    outcome: Outcome,
    /// The work that was done when the last step of [`Mover::adapt`] ended.
    before: Work,
    moved: Moved,
}

/// What a mover has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Pieces that changed sides.
    pub pieces: u64,
    /// Records in them.
    pub records: u64,
}

impl Mover {
    /// The mover of a router.
    ///
    /// # Errors
    /// [`IndexError`] if the host's index has no session left.
    pub fn new(router: &Arc<Router>) -> Result<Self, IndexError> {
        let options = router.options();
        Ok(Self {
            executor: Executor::new(Arc::clone(router.host()), Arc::clone(&options.clock))?,
            remote: None,
            burst: Burst::new(options.value_room),
            outcome: Outcome::new(),
            before: router.work(),
            moved: Moved::default(),
            router: Arc::clone(router),
        })
    }

    /// What it has moved so far.
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// Moves the boundary to the mark `to`, piece by piece, as long as `stop` is false.
    ///
    /// # Errors
    /// [`MoveError`]. Pieces that were moved before stay where they are.
    pub fn move_to(&mut self, to: usize, stop: &dyn Fn() -> bool) -> Result<(), MoveError> {
        let to = to.min(self.router.options().marks.len());
        loop {
            let split = self.router.splits.now();
            if split.boundary == to {
                return Ok(());
            }
            self.step(&split, split.boundary < to, stop)?;
        }
    }

    /// One step of the adaptive split: looks at the work since the last step, and moves the boundary towards the share at which neither side waits for the other.
    /// Gives the share of requests that the DPU's side should have, if enough was measured.
    ///
    /// # Errors
    /// As [`Mover::move_to`].
    pub fn adapt(
        &mut self,
        host_threads: u32,
        dpu_threads: u32,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<f64>, MoveError> {
        let now = self.router.work();
        let work = now.since(&self.before);
        let measured = work
            .best_dpu_share(host_threads, dpu_threads)
            .zip(work.dpu_share());
        let marks = self.router.options().marks.len();
        let boundary = self.router.boundary();
        let best = match measured {
            Some((best, share)) => {
                let by = STEP * (best - share);
                // Each side keeps a piece, so there is one to move.
                if by.abs() > SLACK && marks > 1 {
                    // Marks cut the records into equal pieces; a share of the requests is taken for a share of the records.
                    let pieces = (by * marks as f64).round() as i64;
                    let to = (boundary as i64 - pieces).clamp(1, marks as i64 - 1);
                    self.move_to(to as usize, stop)?;
                }
                Some(best)
            }
            // A side without requests is not measured: it gets a piece.
            None if boundary == marks && marks > 0 => {
                self.move_to(marks - 1, stop)?;
                None
            }
            None => None,
        };
        self.before = self.router.work();
        Ok(best)
    }

    /// Connects to a DPU's side that has come back, and moves its range there again, to the mark `to`. The router must have a mirror.
    ///
    /// # Errors
    /// [`MoveError`].
    pub fn come_back(&mut self, to: usize, stop: &dyn Fn() -> bool) -> Result<(), MoveError> {
        let options = self.router.options();
        let Some((connect, plan)) = &options.dpu else {
            return Err(MoveError::Gone);
        };
        if !options.mirror {
            return Err(MoveError::Gone);
        }
        if self.router.dpu_is_lost() {
            let keeper = Remote::make(connect, *plan, options.patience)?;
            self.router.splits.come_back(keeper);
        }
        self.move_to(to, stop)
    }

    /// Moves the piece above the boundary to the host (`to_host`), or the one below it to the DPU.
    fn step(
        &mut self,
        split: &Split,
        to_host: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), MoveError> {
        let Dpu::Here { id, generation } = split.dpu else {
            return Err(MoveError::Gone);
        };
        if self.remote.as_ref().is_none_or(|(of, _)| *of != generation) {
            self.remote = Some((generation, self.router.connect(id)?));
        }
        let (start, end) = match to_host {
            true => (split.boundary, split.boundary + 1),
            false => (split.boundary - 1, split.boundary),
        };
        let begun = self
            .router
            .splits
            .publish(split.version, |split| split.moving = Some((start, end)));
        let begun = begun.ok_or(MoveError::Gone)?;
        let copied = self
            .wait_until_past(begun, stop)
            .and_then(|()| self.copy(start, end, to_host));
        let records = match copied {
            Ok(records) => records,
            Err(error) => {
                // The piece stays, and its writes go on.
                self.router
                    .splits
                    .publish(begun, |split| split.moving = None);
                if matches!(&error, MoveError::Dpu(error) if error.is_broken()) {
                    self.router.give_up(generation, &error.to_string());
                }
                return Err(error);
            }
        };
        let ended = self.router.splits.publish(begun, |split| {
            split.moving = None;
            split.boundary = if to_host { end } else { start };
        });
        let ended = ended.ok_or(MoveError::Gone)?;
        // What was copied is deleted even if the caller wants to stop: a lane ends its requests soon.
        self.wait_until_past(ended, &|| false)?;
        self.moved.pieces += 1;
        self.moved.records += records;
        self.delete(start, end, to_host)
    }

    /// Waits until no lane uses a split older than `version`.
    fn wait_until_past(&self, version: u64, stop: &dyn Fn() -> bool) -> Result<(), MoveError> {
        while !self.router.splits.is_past(version) {
            if stop() {
                return Err(MoveError::Stopped);
            }
            self.router.options().clock.sleep(LOOK);
        }
        Ok(())
    }

    /// Copies a piece whose writes are held back.
    fn copy(&mut self, start: usize, end: usize, to_host: bool) -> Result<u64, MoveError> {
        let router = Arc::clone(&self.router);
        if to_host && router.options().mirror {
            // It is there.
            return Ok(0);
        }
        let mut from = router.mark(start).unwrap_or_default().to_vec();
        let end = router.mark(end);
        let value_bytes = router.options().value_room.max(1);
        let rows = COPIED_AT_ONCE.min((COPIED_BYTES / value_bytes).max(1) as u32);
        let mut copied = 0;
        // What an attempt that failed has left there.
        self.empty(&from, end, to_host)?;
        loop {
            self.burst.clear();
            let from_key = std::ops::Bound::Included(&*from);
            self.burst.scan(from_key, end, rows);
            self.run(!to_host)?;
            let mut puts = Burst::new(0);
            self.outcome.each_row(&mut |_, key, value| {
                puts.put(key, value);
                from.clear();
                from.extend_from_slice(key);
                // The least key behind this one.
                from.push(0);
            });
            let found = self.outcome.rows(0);
            if found > 0 {
                self.burst = puts;
                self.run(to_host)?;
                copied += u64::from(found);
            }
            if found < rows {
                return Ok(copied);
            }
        }
    }

    /// Carries the burst out at the host or at the DPU.
    fn run(&mut self, at_host: bool) -> Result<(), MoveError> {
        if at_host {
            return Ok(self.executor.run(&self.burst, &mut self.outcome)?);
        }
        let (_, remote) = self.remote.as_mut().expect("a step has connected");
        remote.send(&self.burst)?;
        remote.receive(&self.burst, &mut self.outcome)?;
        Ok(())
    }

    /// Deletes a piece where it was.
    fn delete(&mut self, start: usize, end: usize, to_host: bool) -> Result<(), MoveError> {
        if !to_host && self.router.options().mirror {
            return Ok(());
        }
        let router = Arc::clone(&self.router);
        self.empty(
            router.mark(start).unwrap_or_default(),
            router.mark(end),
            !to_host,
        )
    }

    /// Takes the keys of a range away at the host or at the DPU.
    fn empty(&mut self, from: &[u8], end: Option<&[u8]>, at_host: bool) -> Result<(), MoveError> {
        if !at_host {
            let (_, remote) = self.remote.as_mut().expect("a step has connected");
            remote.delete_range(from, end)?;
            return Ok(());
        }
        let range = KeyRange::from(from);
        let range = end.map_or(range, |end| range.before(end));
        while self
            .router
            .host
            .delete_range(range, DELETED_AT_ONCE as usize)?
            .keys
            == DELETED_AT_ONCE as usize
        {}
        Ok(())
    }
}
