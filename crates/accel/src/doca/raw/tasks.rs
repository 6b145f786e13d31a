//! One context of one engine, from 2.5 on: its tasks, made once and used again, and its progress.
//!
//! DOCA calls back inside `doca_pe_progress`, on the thread that calls that; a callback notes which task has ended, and nothing
//! else.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use dpb_core::patience::Silence;
use dpb_core::{DeflateFormat, ErasureCode};

use super::super::kind::EngineParameters;
use super::super::sys::tasks::{
    self, CAUCHY, EngineTask, IDLE, Key, Matrix, Pe, RUNNING, SUBMIT_UNFLUSHED, Task,
};
use super::super::sys::{Code, Created, Ctx, Data, Engine};
use super::library::{Progress, TaskCalls, TaskForm};
use super::memory::Window;
use super::{Device, Refused, SILENCE, Unopened, setup};
use crate::readiness;

/// Bytes of a nonce.
pub(super) const IV_BYTES: u32 = 12;
/// Bytes of a tag.
const TAG_BYTES: u32 = 16;

/// A context and its tasks. To be dropped when it is stopped; one that does not stop is forgotten.
pub(super) struct TaskEngine {
    /// The key; in front of `engine`, which must outlive it.
    key: Option<KeyHandle>,
    /// Erasure coding's matrices: the code's, and the one to recover with.
    matrices: Vec<MatrixHandle>,
    engine: EngineHandle,
    pe: PeHandle,
    calls: TaskCalls,
    progress: Progress,
    ctx: NonNull<Ctx>,
    tasks: Vec<TaskSlot>,
    /// The log that callbacks write to; behind `engine` and `pe`, which call them.
    log: LogHandle,
    in_flight: usize,
    is_unflushed: bool,
    notification: Option<Notification>,
    /// The format that wraps the streams.
    format: DeflateFormat,
    device: Arc<Device>,
}

/// A task that was made, and its state.
struct TaskSlot {
    engine_task: NonNull<EngineTask>,
    task: NonNull<Task>,
    state: TaskState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskState {
    Idle,
    InFlight,
    Freed,
}

/// The file by which a progress engine says that it has something to do, and how it is asked to.
#[derive(Clone, Copy)]
struct Notification {
    file: c_int,
    calls: tasks::Notification,
}

/// Tasks by their numbers, and whether they failed, since they were last looked at.
struct CompletionLog(Vec<(u32, bool)>);

struct KeyHandle(NonNull<Key>, tasks::Authenticated);
struct MatrixHandle(NonNull<Matrix>, tasks::Coding);
struct EngineHandle(NonNull<Engine>, Created);
struct PeHandle(NonNull<Pe>, tasks::Tasks);
struct LogHandle(NonNull<CompletionLog>);

impl TaskEngine {
    /// Opens an engine with `tasks` tasks, over `parked` buffers until they are given others.
    ///
    /// # Safety
    /// The buffers live as long as the engine; for ever if it could neither be opened nor stopped.
    pub(super) unsafe fn open(
        device: &Arc<Device>,
        calls: &TaskCalls,
        progress: &Progress,
        parameters: &EngineParameters,
        count: u32,
        parked: [Window; 2],
    ) -> Result<Self, Unopened> {
        let mut engine = Self::make(device, calls, progress, parameters)?;
        // SAFETY: the caller vouches for the buffers.
        match unsafe { engine.start(parameters, count, parked) } {
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
        calls: &TaskCalls,
        progress: &Progress,
        parameters: &EngineParameters,
    ) -> Result<Self, Refused> {
        let doca = device.doca;
        let tasks = progress.tasks;
        let refused = |pattern, code| Refused::new(doca, calls.of.symbol(pattern), code);
        let (mut engine, mut pe) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the handle is written on success.
        let code = setup(|| unsafe { (tasks.pe_create)(&mut pe) });
        let pe = made(pe, code).ok_or_else(|| refused("doca_pe_create", code))?;
        let pe = PeHandle(pe, tasks);
        // SAFETY: as above; the device is open as long as its arc lives.
        let code = setup(|| unsafe { (calls.create.create)(device.dev.as_ptr(), &mut engine) });
        let engine = made(engine, code).ok_or_else(|| refused("doca_X_create", code))?;
        let engine = EngineHandle(engine, calls.created);
        let key = match calls.form {
            TaskForm::Authenticated(_, gcm, kind) => {
                let (at, mut handle) = (parameters.material().as_ptr().cast(), ptr::null_mut());
                // SAFETY: as above; the key is as long as its kind says.
                let code =
                    setup(|| unsafe { (gcm.key_create)(engine.0.as_ptr(), at, kind, &mut handle) });
                let handle = made(handle, code);
                let handle = handle.ok_or_else(|| refused("doca_X_key_create", code))?;
                Some(KeyHandle(handle, gcm))
            }
            _ => None,
        };
        // SAFETY: made above.
        let ctx = NonNull::new(unsafe { (calls.created.as_ctx)(engine.0.as_ptr()) });
        let ctx = ctx.ok_or_else(|| refused("doca_X_as_ctx", Code::INVALID_VALUE))?;
        Ok(Self {
            key,
            matrices: Vec::new(),
            engine,
            pe,
            calls: *calls,
            progress: *progress,
            ctx,
            tasks: Vec::new(),
            log: LogHandle(NonNull::from(Box::leak(Box::new(
                CompletionLog(Vec::new()),
            )))),
            in_flight: 0,
            is_unflushed: false,
            notification: None,
            format: parameters.format(),
            device: device.clone(),
        })
    }

    /// Configures, starts, and makes the tasks.
    ///
    /// # Safety
    /// As for `open`.
    unsafe fn start(
        &mut self,
        parameters: &EngineParameters,
        count: u32,
        parked: [Window; 2],
    ) -> Result<(), Refused> {
        setup(|| self.configure(count))?;
        self.run()?;
        if let TaskForm::Coding(coding) = self.calls.form {
            setup(|| self.make_matrices(coding, parameters))?;
        }
        for number in 0..count {
            // SAFETY: the context runs, and the caller vouches for the buffers.
            let slot = unsafe { self.make_task(number, parked) };
            let slot = slot.map_err(|code| self.refused("doca_X_task_Y_alloc_init", code))?;
            self.tasks.push(slot);
        }
        self.notification = self.find_notification();
        Ok(())
    }

    /// The progress engine's file, if this release has such files and gives one.
    fn find_notification(&self) -> Option<Notification> {
        let calls = self.progress.notification?;
        let mut file = -1;
        // SAFETY: our progress engine; the handle, which is a file, is written on success.
        let code = setup(|| unsafe { (calls.handle)(self.pe.0.as_ptr(), &mut file) });
        (code == Code::SUCCESS && file >= 0).then_some(Notification { file, calls })
    }

    /// The progress engine's file.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        let Notification { file, .. } = self.notification?;
        // SAFETY: the progress engine's own, which closes it when it is destroyed; it lives as long as `self`.
        Some(unsafe { BorrowedFd::borrow_raw(file) })
    }

    /// Has the file tell of the next task that ends; says whether it will. It need not tell of a task that has ended by now.
    pub(super) fn arm(&mut self) -> bool {
        let Some(Notification { file, calls }) = self.notification else {
            return false;
        };
        let pe = self.pe.0.as_ptr();
        let has_told = self.file().is_some_and(readiness::is_readable);
        // SAFETY: our progress engine and its file, which has told of something if it is cleared.
        unsafe {
            let is_clear = !has_told || (calls.clear)(pe, file) == Code::SUCCESS;
            is_clear && (calls.request)(pe) == Code::SUCCESS
        }
    }

    fn configure(&mut self, count: u32) -> Result<(), Refused> {
        let (engine, ctx) = (self.engine.0.as_ptr(), self.ctx.as_ptr());
        let tasks = self.progress.tasks;
        let ended = Data {
            ptr: self.log.0.as_ptr().cast(),
        };
        // SAFETY: all are made. No callback comes before the first task; each task is noted once before it is used again, so
        // that `ended` never grows.
        unsafe {
            (*self.log.0.as_ptr()).0.reserve_exact(count as usize);
            let code = (tasks.pe_connect_ctx)(self.pe.0.as_ptr(), ctx);
            self.checked("doca_pe_connect_ctx", code)?;
            let code = match self.calls.form {
                TaskForm::Plain(configured, _) | TaskForm::Authenticated(configured, ..) => {
                    (configured.set_conf)(engine, succeeded, failed, count)
                }
                TaskForm::Hash(hash, _) => {
                    (hash.set_conf)(engine, succeeded, failed, count.ilog2() as u8)
                }
                TaskForm::Coding(coding) => (coding.set_conf)(engine, succeeded, failed, count),
            };
            self.checked("doca_X_task_Y_set_conf", code)?;
            let code = (tasks.ctx_set_user_data)(ctx, ended);
            self.checked("doca_ctx_set_user_data", code)
        }
    }

    fn checked(&self, pattern: &str, code: Code) -> Result<(), Refused> {
        match code {
            Code::SUCCESS => Ok(()),
            code => Err(self.refused(pattern, code)),
        }
    }

    fn refused(&self, pattern: &str, code: Code) -> Refused {
        Refused::new(self.device.doca, self.calls.of.symbol(pattern), code)
    }

    /// Starts the context and waits, not for ever, until it runs.
    fn run(&mut self) -> Result<(), Refused> {
        // SAFETY: a context that is configured.
        let code = setup(|| unsafe { (self.device.doca.core.ctx_start)(self.ctx.as_ptr()) });
        let is_starting = code == Code::IN_PROGRESS;
        let mut starting = Silence::default();
        while is_starting
            && self.state() != Some(RUNNING)
            && starting.lasts(self.device.clock()) < SILENCE
        {
            self.advance();
        }
        match self.state() {
            Some(RUNNING) => Ok(()),
            _ => Err(self.refused("doca_ctx_start", code)),
        }
    }

    /// The code's matrix, and behind it, if blocks are to be recovered, the one for that. The context runs, as it does in NVIDIA's
    /// sample when they are made.
    fn make_matrices(
        &mut self,
        coding: tasks::Coding,
        parameters: &EngineParameters,
    ) -> Result<(), Refused> {
        let (code, mut missing): (ErasureCode, Vec<u32>) = match parameters {
            EngineParameters::Code(code) => (*code, Vec::new()),
            EngineParameters::Loss(loss) => (loss.code(), loss.missing().map(u32::from).collect()),
            other => unreachable!("no code: {other:?}"),
        };
        let engine = self.engine.0.as_ptr();
        let (data, parity) = (code.data_blocks(), code.parity_blocks());
        let mut matrix = ptr::null_mut();
        // SAFETY: our engine; the handle is written on success.
        let code = unsafe { (coding.matrix_create)(engine, CAUCHY, data, parity, &mut matrix) };
        let whole = made(matrix, code);
        let whole = whole.ok_or_else(|| self.refused("doca_X_matrix_create", code))?;
        self.matrices.push(MatrixHandle(whole, coding));
        if missing.is_empty() {
            return Ok(());
        }
        let (at, count) = (missing.as_mut_ptr(), missing.len());
        // SAFETY: as above; there are so many numbers.
        let code = unsafe {
            (coding.matrix_create_recover)(engine, whole.as_ptr(), at, count, &mut matrix)
        };
        let recover = made(matrix, code);
        let recover = recover.ok_or_else(|| self.refused("doca_X_matrix_create_recover", code))?;
        self.matrices.push(MatrixHandle(recover, coding));
        Ok(())
    }

    /// # Safety
    /// The context runs; the buffers live as long as the task.
    unsafe fn make_task(&mut self, number: u32, [src, dst]: [Window; 2]) -> Result<TaskSlot, Code> {
        static NO_IV: [u8; IV_BYTES as usize] = [0; IV_BYTES as usize];
        let (engine, src, dst) = (self.engine.0.as_ptr(), src.as_ptr(), dst.as_ptr());
        let data = Data {
            u64: u64::from(number),
        };
        let mut task = ptr::null_mut();
        // SAFETY: the caller vouches for the buffers; the handle is written on success.
        unsafe {
            let code = match self.calls.form {
                TaskForm::Plain(_, plain) => (plain.alloc_init)(engine, src, dst, data, &mut task),
                TaskForm::Hash(hash, algorithm) => {
                    (hash.alloc_init)(engine, algorithm, src, dst, data, &mut task)
                }
                TaskForm::Authenticated(_, gcm, _) => {
                    let key = self
                        .key
                        .as_ref()
                        .map_or(ptr::null_mut(), |key| key.0.as_ptr());
                    let iv = NO_IV.as_ptr();
                    (gcm.alloc_init)(
                        engine, src, dst, key, iv, IV_BYTES, TAG_BYTES, 0, data, &mut task,
                    )
                }
                TaskForm::Coding(coding) => {
                    let matrix = self.matrices.last().expect("made before tasks").0.as_ptr();
                    (coding.alloc_init)(engine, matrix, src, dst, data, &mut task)
                }
            };
            let engine_task = made(task, code).ok_or(code)?;
            let task = (self.calls.any.as_task)(engine_task.as_ptr());
            Ok(TaskSlot {
                engine_task,
                task: NonNull::new(task).ok_or(Code::INVALID_VALUE)?,
                state: TaskState::Idle,
            })
        }
    }

    /// Gives task `number`, which is not in flight, to the device.
    ///
    /// # Safety
    /// The buffers, the memory under them, and the nonce live until the task has ended.
    pub(super) unsafe fn submit(
        &mut self,
        number: u32,
        src: Window,
        dst: Window,
        iv: *const u8,
    ) -> Result<(), Code> {
        let slot = &mut self.tasks[number as usize];
        let (engine_task, src, dst) = (slot.engine_task.as_ptr(), src.as_ptr(), dst.as_ptr());
        // SAFETY: a task of ours that is not in flight; the caller vouches for the rest.
        let code = unsafe {
            match self.calls.form {
                TaskForm::Plain(configured, _) => {
                    (configured.set_src)(engine_task, src);
                    (configured.set_dst)(engine_task, dst);
                }
                TaskForm::Hash(hash, _) => {
                    for code in [
                        (hash.set_src)(engine_task, src),
                        (hash.set_dst)(engine_task, dst),
                    ] {
                        if code != Code::SUCCESS {
                            return Err(code);
                        }
                    }
                }
                TaskForm::Authenticated(configured, gcm, _) => {
                    (configured.set_src)(engine_task, src);
                    (configured.set_dst)(engine_task, dst);
                    (gcm.set_iv)(engine_task, iv, IV_BYTES);
                }
                TaskForm::Coding(coding) => {
                    (coding.set_src)(engine_task, src);
                    (coding.set_dst)(engine_task, dst);
                }
            }
            match self.progress.flush {
                Some(flush) => (flush.task_submit_ex)(slot.task.as_ptr(), SUBMIT_UNFLUSHED),
                None => (self.progress.tasks.task_submit)(slot.task.as_ptr()),
            }
        };
        if code != Code::SUCCESS {
            return Err(code);
        }
        slot.state = TaskState::InFlight;
        self.in_flight += 1;
        self.is_unflushed = true;
        Ok(())
    }

    /// Rings the doorbell for what was submitted since the last time.
    pub(super) fn flush(&mut self) {
        if let Some(flush) = self.progress.flush
            && std::mem::take(&mut self.is_unflushed)
        {
            // SAFETY: our context.
            unsafe { (flush.ctx_flush)(self.ctx.as_ptr()) };
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The next task that has ended, by its number, and its code. Those that one progress brings come one by one.
    pub(super) fn next(&mut self) -> Option<(u32, Code)> {
        // SAFETY: callbacks run inside `doca_pe_progress` only, so that nobody else looks at it now.
        let ended = unsafe { (*self.log.0.as_ptr()).0.pop() };
        let (number, has_failed) = ended?;
        let slot = &mut self.tasks[number as usize];
        slot.state = TaskState::Idle;
        self.in_flight -= 1;
        if !has_failed {
            return Some((number, Code::SUCCESS));
        }
        // SAFETY: a task of ours that has ended.
        let code = match unsafe { (self.progress.tasks.task_status)(slot.task.as_ptr()) } {
            Code::SUCCESS => Code::IO_FAILED,
            code => code,
        };
        Some((number, code))
    }

    /// The check of the plain bytes of task `number`, which has ended well and is not yet used again.
    pub(super) fn check(&self, number: u32) -> u32 {
        let task = self.tasks[number as usize].engine_task.as_ptr();
        // SAFETY: a task of ours that is not in flight, of an engine that has these functions for it.
        unsafe {
            match (self.calls.checks, self.format) {
                (Some(checks), DeflateFormat::Zlib) => (checks.adler)(task),
                (Some(checks), DeflateFormat::Gzip) => (checks.crc)(task),
                _ => 0,
            }
        }
    }

    /// Lets DOCA look for what has ended, as long as there is something, but not for more than there can be.
    pub(super) fn advance(&mut self) {
        for _ in 0..=self.tasks.len() {
            // SAFETY: our progress engine; its callbacks get `ended`, to which no reference is alive.
            if unsafe { (self.progress.tasks.pe_progress)(self.pe.0.as_ptr()) } == 0 {
                break;
            }
        }
    }

    /// Has the context flush what is in flight: it comes home with an error. Nothing can be submitted any more.
    pub(super) fn halt(&mut self) {
        // SAFETY: our context. If it is not to be stopped, it is stopped already, or does not answer.
        unsafe { (self.device.doca.core.ctx_stop)(self.ctx.as_ptr()) };
    }

    /// Stops the context; says whether it is, and everything home. Tasks in flight get their time to end by themselves.
    pub(super) fn stop(&mut self) -> bool {
        self.flush();
        self.wait(|engine| engine.in_flight == 0);
        self.free_tasks();
        self.halt();
        self.wait(|engine| {
            engine.free_tasks();
            engine.state() == Some(IDLE)
        })
    }

    /// Waits until `is_there`, or until nothing has ended for long.
    fn wait(&mut self, mut is_there: impl FnMut(&mut Self) -> bool) -> bool {
        let mut silence = Silence::default();
        while !is_there(self) {
            self.advance();
            if self.next().is_some() {
                while self.next().is_some() {}
                silence.end();
            } else if silence.lasts(self.device.clock()) > SILENCE {
                return false;
            } else {
                std::thread::yield_now();
            }
        }
        true
    }

    /// A context is idle only when its tasks are freed.
    fn free_tasks(&mut self) {
        let free = self.progress.tasks.task_free;
        let is_idle = |slot: &&mut TaskSlot| slot.state == TaskState::Idle;
        for slot in self.tasks.iter_mut().filter(is_idle) {
            slot.state = TaskState::Freed;
            // SAFETY: a task of ours that is not in flight, and that is not used again.
            unsafe { free(slot.task.as_ptr()) };
        }
    }

    fn state(&self) -> Option<tasks::CtxState> {
        let mut state = IDLE;
        // SAFETY: our context; the state is written on success.
        let code = unsafe { (self.progress.tasks.ctx_state)(self.ctx.as_ptr(), &mut state) };
        (code == Code::SUCCESS).then_some(state)
    }
}

/// A handle that a call has made, if it has.
fn made<T>(handle: *mut T, code: Code) -> Option<NonNull<T>> {
    NonNull::new(handle).filter(|_| code == Code::SUCCESS)
}

/// DOCA's callback for tasks that went well.
unsafe extern "C" fn succeeded(_task: *mut EngineTask, number: Data, ended: Data) {
    // SAFETY: the data of our tasks and contexts.
    unsafe { note(number, ended, false) };
}

/// DOCA's callback for tasks that failed.
unsafe extern "C" fn failed(_task: *mut EngineTask, number: Data, ended: Data) {
    // SAFETY: the data of our tasks and contexts.
    unsafe { note(number, ended, true) };
}

/// # Safety
/// A task's number, and a `CompletionLog` to which no reference is alive.
unsafe fn note(number: Data, ended: Data, has_failed: bool) {
    // SAFETY: the caller vouches for both.
    unsafe {
        (*ended.ptr.cast::<CompletionLog>())
            .0
            .push((number.u64 as u32, has_failed))
    };
}

impl Drop for KeyHandle {
    fn drop(&mut self) {
        // SAFETY: made with these functions; no task uses it any more.
        setup(|| unsafe { (self.1.key_destroy)(self.0.as_ptr()) });
    }
}

impl Drop for MatrixHandle {
    fn drop(&mut self) {
        // SAFETY: made with these functions; no task uses it any more.
        setup(|| unsafe { (self.1.matrix_destroy)(self.0.as_ptr()) });
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        // SAFETY: made with these functions; its context is stopped, or was never started.
        setup(|| unsafe { (self.1.destroy)(self.0.as_ptr()) });
    }
}

impl Drop for PeHandle {
    fn drop(&mut self) {
        // SAFETY: made with these functions; its context is gone.
        setup(|| unsafe { (self.1.pe_destroy)(self.0.as_ptr()) });
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        // SAFETY: leaked when the engine was made, which is gone: nothing calls back.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
