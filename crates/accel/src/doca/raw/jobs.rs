//! One context of one engine, up to 2.2: its work queue, and the jobs in it.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use dpb_core::DeflateFormat;
use dpb_core::patience::Silence;

use super::super::kind::EngineParameters;
use super::super::sys::jobs::{Base, Deflate, Event, Jobs, Memcpy, Search, Sha, Workq};
use super::super::sys::{Code, Created, Ctx, Data, Engine};
use super::library::{JobCalls, JobForm};
use super::memory::Window;
use super::search::Searches;
use super::{Device, Refused, SILENCE, Unopened, setup, setup_now};

/// A context and its work queue. To be dropped when it is stopped; one that does not stop is forgotten.
pub(super) struct JobEngine {
    workq: WorkqHandle,
    engine: EngineHandle,
    calls: JobCalls,
    jobs: Jobs,
    ctx: NonNull<Ctx>,
    /// The last step of the setup, as far as steps must be undone.
    stage: Stage,
    /// The jobs as DOCA has them: it may read a job until that has ended, though its documentation does not say so.
    requests: Vec<UnsafeCell<Request>>,
    /// The format that wraps the streams.
    format: DeflateFormat,
    /// The checks of plain bytes, which DOCA writes, by the jobs' numbers; none where no format wraps the streams.
    checks: Vec<UnsafeCell<u64>>,
    /// The memory that searches report to.
    searches: Option<Searches>,
    is_in_flight: Vec<bool>,
    in_flight: usize,
    device: Arc<Device>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Made,
    HasDevice,
    Started,
    HasWorkq,
}

/// A job as its engine reads it.
#[repr(C)]
union Request {
    base: Base,
    memcpy: Memcpy,
    deflate: Deflate,
    sha: Sha,
    search: Search,
}

/// The group that a search names: that of rules which name no group.
const RULE_GROUPS: [u16; 4] = [1, 0, 0, 0];

struct EngineHandle(NonNull<Engine>, Created);
struct WorkqHandle(NonNull<Workq>, Jobs);

/// The result of a look for ended jobs.
pub(super) enum Retrieved {
    /// A job, by its number, and its code.
    Ended(u32, Code),
    /// None yet.
    Nothing,
    /// The queue itself is out of order.
    Broken(Code),
}

impl JobEngine {
    /// Opens an engine with room for `count` jobs, and with rules if it searches.
    pub(super) fn open(
        device: &Arc<Device>,
        calls: &JobCalls,
        jobs: &Jobs,
        parameters: &EngineParameters,
        count: u32,
    ) -> Result<Self, Unopened> {
        let mut engine = Self::make(device, calls, jobs, parameters.format(), count)?;
        match engine.start(parameters.material()) {
            Ok(()) => Ok(engine),
            Err(refused) => {
                let is_stopped = engine.stop();
                if !is_stopped {
                    std::mem::forget(engine);
                }
                Err(Unopened {
                    refused,
                    is_stopped,
                })
            }
        }
    }

    fn make(
        device: &Arc<Device>,
        calls: &JobCalls,
        jobs: &Jobs,
        format: DeflateFormat,
        count: u32,
    ) -> Result<Self, Refused> {
        let refused = |pattern, code| Refused::new(device.doca, calls.of.symbol(pattern), code);
        let (mut engine, mut workq) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the handle is written on success.
        let code = setup(|| unsafe { (jobs.workq_create)(count, &mut workq) });
        let workq = made(workq, code).ok_or_else(|| refused("doca_workq_create", code))?;
        let workq = WorkqHandle(workq, *jobs);
        // SAFETY: as above.
        let code = setup(|| unsafe { (calls.create.create)(&mut engine) });
        let engine = made(engine, code).ok_or_else(|| refused("doca_X_create", code))?;
        let engine = EngineHandle(engine, calls.created);
        // SAFETY: made above.
        let ctx = NonNull::new(unsafe { (calls.created.as_ctx)(engine.0.as_ptr()) });
        let ctx = ctx.ok_or_else(|| refused("doca_X_as_ctx", Code::INVALID_VALUE))?;
        let request = |number| {
            UnsafeCell::new(Request {
                base: Base {
                    kind: calls.kind,
                    flags: 0,
                    ctx: ctx.as_ptr(),
                    user_data: Data {
                        u64: u64::from(number),
                    },
                },
            })
        };
        Ok(Self {
            workq,
            engine,
            calls: *calls,
            jobs: *jobs,
            ctx,
            stage: Stage::Made,
            requests: (0..count).map(request).collect(),
            format,
            checks: match format {
                DeflateFormat::Raw => Vec::new(),
                DeflateFormat::Zlib | DeflateFormat::Gzip => {
                    (0..count).map(|_| UnsafeCell::new(0)).collect()
                }
            },
            searches: match calls.form {
                JobForm::Search(searching) => Some(Searches::new(searching, count)),
                _ => None,
            },
            is_in_flight: vec![false; count as usize],
            in_flight: 0,
            device: device.clone(),
        })
    }

    fn start(&mut self, rules: &[u8]) -> Result<(), Refused> {
        let (ctx, dev) = (self.ctx.as_ptr(), self.device.dev.as_ptr());
        let (jobs, core) = (self.jobs, self.device.doca.core);
        let checked = |call, code| match code {
            Code::SUCCESS => Ok(()),
            code => Err((call, code)),
        };
        // SAFETY: all are made; the device is open as long as its arc lives.
        let started = setup(|| unsafe {
            checked("doca_ctx_dev_add", (jobs.ctx_dev_add)(ctx, dev))?;
            self.stage = Stage::HasDevice;
            let start = match &self.searches {
                Some(searches) => {
                    searches.set_up(self.engine.0.as_ptr(), rules)?;
                    "doca_ctx_start, which compiles the rules and needs the service mlx-regex"
                }
                None => "doca_ctx_start",
            };
            checked(start, (core.ctx_start)(ctx))?;
            self.stage = Stage::Started;
            checked(
                "doca_ctx_workq_add",
                (jobs.ctx_workq_add)(ctx, self.workq.0.as_ptr()),
            )?;
            self.stage = Stage::HasWorkq;
            Ok(())
        });
        started.map_err(|(call, code)| Refused::new(self.device.doca, call, code))
    }

    /// Gives job `number`, which is not in flight, to the device.
    ///
    /// # Safety
    /// The buffers and the memory under them live until the job has ended.
    pub(super) unsafe fn submit(
        &mut self,
        number: u32,
        src: Window,
        dst: Window,
    ) -> Result<(), Code> {
        let request = self.requests[number as usize].get();
        let (src, dst) = (src.as_ptr(), dst.as_ptr());
        // SAFETY: not in flight, so nobody reads it; the base is in front of each form, and was written when it was made. The
        // caller vouches for the buffers.
        let code = unsafe {
            let base = (*request).base;
            match self.calls.form {
                JobForm::Memcpy(_) => (*request).memcpy = Memcpy { base, dst, src },
                JobForm::Deflate(_) => {
                    let checks = self.checks.get(number as usize);
                    let checksums = checks.map_or(ptr::null_mut(), UnsafeCell::get);
                    (*request).deflate = Deflate {
                        base,
                        dst,
                        src,
                        checksums,
                    };
                }
                JobForm::Sha(_) => {
                    (*request).sha = Sha {
                        base,
                        src,
                        dst,
                        flags: 0,
                    }
                }
                JobForm::Search(_) => {
                    let searches = self.searches.as_ref().expect("made for searches");
                    (*request).search = Search {
                        base,
                        groups: RULE_GROUPS,
                        src,
                        report: searches.report(number),
                        may_wait: 0,
                    }
                }
            }
            (self.jobs.workq_submit)(self.workq.0.as_ptr(), request.cast())
        };
        if code != Code::SUCCESS {
            return Err(code);
        }
        self.is_in_flight[number as usize] = true;
        self.in_flight += 1;
        Ok(())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The check of the plain bytes of job `number`, which has ended well and is not yet used again.
    pub(super) fn check(&self, number: u32) -> u32 {
        let Some(checks) = self.checks.get(number as usize) else {
            return 0;
        };
        // SAFETY: the job is not in flight: nobody else accesses it.
        let checks = unsafe { *checks.get() };
        match self.format {
            // CRC-32 in the low half, Adler-32 in the high one.
            DeflateFormat::Zlib => (checks >> 32) as u32,
            _ => checks as u32,
        }
    }

    /// Looks for a job that has ended.
    pub(super) fn next(&mut self) -> Retrieved {
        let none = Data { u64: u64::MAX };
        let mut event = Event {
            kind: 0,
            user_data: none,
            result: none,
        };
        // SAFETY: our work queue; the event is written when a job has ended, well or not.
        let (code, number, result) = unsafe {
            let code = (self.jobs.workq_progress)(self.workq.0.as_ptr(), &mut event, 0);
            (code, event.user_data.u64, Code(event.result.u64 as i32))
        };
        let code = match code {
            Code::AGAIN => return Retrieved::Nothing,
            Code::SUCCESS => Code::SUCCESS,
            // A search has no code there, but where it reports to.
            Code::IO_FAILED if result != Code::SUCCESS && self.searches.is_none() => result,
            code => code,
        };
        let number = number as usize;
        match self.is_in_flight.get_mut(number) {
            Some(is_in_flight) if *is_in_flight => {
                *is_in_flight = false;
                self.in_flight -= 1;
                let reported = match &mut self.searches {
                    // SAFETY: it has just ended.
                    Some(searches) => unsafe { searches.collect(number as u32) },
                    None => Code::SUCCESS,
                };
                let code = if code == Code::SUCCESS {
                    reported
                } else {
                    code
                };
                Retrieved::Ended(number as u32, code)
            }
            // No event, or none of ours: it is the queue that failed.
            _ if code == Code::SUCCESS => Retrieved::Broken(Code::IO_FAILED),
            _ => Retrieved::Broken(code),
        }
    }

    /// Writes what the job that ended last has found, and says how many bytes that is; `None` from an engine that writes its
    /// output itself.
    ///
    /// # Safety
    /// Nobody else has `room`.
    pub(super) unsafe fn write_found(
        &mut self,
        room: NonNull<[u8]>,
    ) -> Option<Result<usize, Code>> {
        let searches = self.searches.as_mut()?;
        // SAFETY: the caller vouches for it.
        Some(unsafe { searches.write(room) })
    }

    /// Takes the work queue from the context and stops it; says whether it is stopped, so that no job is in flight any more. Not
    /// while another thread makes or destroys something: ask again.
    pub(super) fn halt(&mut self) -> bool {
        setup_now(|| self.undo()).is_some() && self.is_stopped()
    }

    /// Undoes what `start` has done, in the order opposite to it, as far as the device lets it. To be called in `setup`.
    fn undo(&mut self) {
        let (ctx, dev) = (self.ctx.as_ptr(), self.device.dev.as_ptr());
        let (jobs, core) = (self.jobs, self.device.doca.core);
        // SAFETY: all are ours, and each was done.
        unsafe {
            if self.stage == Stage::HasWorkq
                && (jobs.ctx_workq_rm)(ctx, self.workq.0.as_ptr()) == Code::SUCCESS
            {
                self.stage = Stage::Started;
            }
            if self.stage == Stage::Started && (core.ctx_stop)(ctx) == Code::SUCCESS {
                self.stage = Stage::HasDevice;
            }
            if self.stage == Stage::HasDevice && (jobs.ctx_dev_rm)(ctx, dev) == Code::SUCCESS {
                self.stage = Stage::Made;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stage <= Stage::HasDevice
    }

    /// A job that was in flight when the engine was stopped.
    pub(super) fn next_dropped(&mut self) -> Option<u32> {
        let number = self
            .is_in_flight
            .iter()
            .position(|is_in_flight| *is_in_flight)?;
        self.is_in_flight[number] = false;
        self.in_flight -= 1;
        Some(number as u32)
    }

    /// Stops the context; says whether it is. Jobs in flight get their time to end by themselves.
    pub(super) fn stop(&mut self) -> bool {
        let mut silence = Silence::default();
        while self.in_flight > 0 && self.stage == Stage::HasWorkq {
            match self.next() {
                Retrieved::Ended(..) => silence.end(),
                Retrieved::Nothing if silence.lasts(self.device.clock()) <= SILENCE => {
                    std::thread::yield_now();
                }
                _ => break,
            }
        }
        // Another thread may be at it for long, compiling rules: that is no silence of the device's.
        setup(|| self.undo());
        let mut stopping = Silence::default();
        while !self.is_stopped() {
            if stopping.lasts(self.device.clock()) > SILENCE {
                return false;
            }
            std::thread::yield_now();
            setup(|| self.undo());
        }
        true
    }
}

/// A handle that a call has made, if it has.
fn made<T>(handle: *mut T, code: Code) -> Option<NonNull<T>> {
    NonNull::new(handle).filter(|_| code == Code::SUCCESS)
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        // SAFETY: made with these functions; its context is stopped, or was never started.
        setup(|| unsafe { (self.1.destroy)(self.0.as_ptr()) });
    }
}

impl Drop for WorkqHandle {
    fn drop(&mut self) {
        // SAFETY: made with these functions; no context has it.
        setup(|| unsafe { (self.1.workq_destroy)(self.0.as_ptr()) });
    }
}
