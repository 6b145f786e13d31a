//! A queue's own engine: which job each task is of, and what its buffers are.
//!
//! A context owns its jobs, so that their memory stays as long as a device may touch it: [`EngineContext::take`] gives a job back when no task
//! of it is in flight. While one is, no reference to the memory is made.
//!
//! Tasks are made once and used again. DOCA's buffers are not: one that was kept would keep the memory that it is over from
//! being given back. They come from an inventory, which is a pool, and go there when their task has ended.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use dpb_core::{Buf, ErasureCode, Job, JobError, Place, Region};

use super::super::kind::{EngineParameters, Kind};
use super::super::sys::Code;
use super::jobs::{JobEngine, Retrieved};
use super::library::{Calls, Family};
use super::memory::{Chunk, Inventory, Registered, Window};
use super::tasks::{IV_BYTES, TaskEngine};
use super::{Device, Refused, Unopened, say_leaked};

/// One engine's context of one thread.
pub(in crate::doca) struct EngineContext {
    engine: ManuallyDrop<Engine>,
    inventory: ManuallyDrop<Inventory>,
    /// The memory and buffers that tasks are made over, before they are given buffers of their own.
    parked: ManuallyDrop<(Chunk, [Window; 2])>,
    places: ManuallyDrop<Vec<Option<Held>>>,
    tasks: Vec<InFlight>,
    /// Tasks that are not in flight.
    idle: Vec<u32>,
    /// The reason that nothing can be submitted any more.
    dead: Option<Code>,
    device: Arc<Device>,
}

enum Engine {
    Job(JobEngine),
    Task(TaskEngine),
}

/// A job.
struct Held {
    job: Job,
    /// Tasks in flight.
    open: u32,
}

/// Memory of a job: its registration, its start, its length.
#[derive(Clone, Copy)]
struct Extent {
    mmap: Registered,
    start: NonNull<u8>,
    len: usize,
}

/// The registration of a job's memory, if `device` reaches it.
fn registered(home: &dyn Region, device: &Device) -> Option<Registered> {
    home.downcast_ref::<Chunk>()?.registered_with(device)
}

impl Extent {
    /// No reference to the memory is made.
    fn of(place: Place, bufs: &[Buf], device: &Device) -> Self {
        let buf = &bufs[place.buf];
        let end = place.start.checked_add(place.len);
        assert!(end.is_some_and(|end| end <= buf.len()), "inside its buffer");
        Self {
            mmap: registered(buf.region(), device).expect("looked at when it came"),
            // SAFETY: just checked.
            start: unsafe { buf.as_non_null().add(place.start) },
            len: place.len,
        }
    }
}

impl Held {
    /// The memory of item `i`, which `device` is known to reach.
    fn item(&self, device: &Device, i: usize) -> Extent {
        let src = &self.job.src;
        Extent::of(self.job.items.place(i, src), src, device)
    }

    /// The memory for the output of item `i`.
    fn slot(&self, device: &Device, i: usize) -> Extent {
        let dst = &self.job.dst;
        Extent::of(self.job.slots.place(i, dst), dst, device)
    }
}

/// The job and the item of a task in flight, and its buffers.
#[derive(Clone, Copy)]
struct InFlight {
    place: u32,
    item: u32,
    buffers: Option<[Window; 2]>,
    /// The room for the task's output.
    room: NonNull<[u8]>,
}

/// The parts of its item and of its slot that one task works on, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doca) struct Piece {
    pub(in crate::doca) src: Range<usize>,
    pub(in crate::doca) dst: Range<usize>,
    /// The place of a nonce in the item, if one is needed.
    pub(in crate::doca) iv: Option<usize>,
}

/// The outcome of an attempt to start a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doca) enum Start {
    /// The task is in flight.
    Started,
    /// The task can be started later, when others have ended.
    Busy,
    /// DOCA refuses it.
    Failed(Code),
}

/// A task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doca) struct Landing {
    pub(in crate::doca) place: u32,
    pub(in crate::doca) item: u32,
    /// Bytes written.
    pub(in crate::doca) result: Result<usize, Code>,
    /// If it went well, and something wraps its stream: what that checks plain bytes with.
    pub(in crate::doca) check: u32,
}

fn absent(call: &str, text: String) -> Refused {
    Refused {
        call: call.to_owned(),
        text,
    }
}

/// The lengths of the source and the destination that tasks are made over. For erasure coding they are as long as its shortest
/// blocks: shorter ones could be refused.
fn parked_lens(parameters: &EngineParameters) -> [usize; 2] {
    parameters.coded().map_or([1, 1], |(code, coded)| {
        let unit = ErasureCode::UNIT_BYTES;
        [code.data_blocks() * unit, coded * unit]
    })
}

/// The buffers that tasks are made over: a source that is full, and an empty destination, in the same memory.
fn park(
    device: &Arc<Device>,
    chunk: &Chunk,
    inventory: &mut Inventory,
    [src_len, dst_len]: [usize; 2],
) -> Result<[Window; 2], Refused> {
    let mmap = chunk
        .registered_with(device)
        .expect("registered with this device alone");
    let mut window = |len, data_len| {
        // SAFETY: inside the chunk, which the context keeps.
        let window = unsafe { inventory.window(mmap, chunk.memory(), len, data_len) };
        window.map_err(|code| Refused::new(device.doca, "doca_buf_inventory_buf_by_args", code))
    };
    Ok([window(src_len, src_len)?, window(dst_len, 0)?])
}

impl Engine {
    /// # Safety
    /// The `parked` buffers live until the engine is stopped; for ever if it could neither be opened nor stopped.
    unsafe fn open(
        device: &Arc<Device>,
        calls: &Calls,
        parameters: &EngineParameters,
        tasks: u32,
        parked: [Window; 2],
    ) -> Result<Self, Unopened> {
        match (calls, device.doca.family()) {
            (Calls::Job(calls), Family::Jobs(jobs)) => {
                JobEngine::open(device, calls, jobs, parameters, tasks).map(Self::Job)
            }
            (Calls::Task(calls), Family::Tasks(progress)) => {
                // SAFETY: the caller vouches for the buffers.
                let engine =
                    unsafe { TaskEngine::open(device, calls, progress, parameters, tasks, parked) };
                engine.map(Self::Task)
            }
            _ => unreachable!("calls are of the library's family"),
        }
    }
}

impl EngineContext {
    /// Opens a context for `places` jobs and up to `tasks` tasks at a time; with a key or with rules, where the engine needs them.
    pub(in crate::doca) fn open(
        device: &Arc<Device>,
        kind: Kind,
        parameters: &EngineParameters,
        places: usize,
        tasks: u32,
    ) -> Result<Self, Refused> {
        let doca = device.doca;
        let calls = doca.calls(kind).map_err(|lack| absent("library", lack))?;
        let lens = parked_lens(parameters);
        let chunk = Chunk::zeroed(std::slice::from_ref(device), lens[0].max(lens[1]));
        let chunk = chunk.map_err(|error| absent("memory", error.to_string()))?;
        let mut inventory = Inventory::new(doca, 2 * tasks as usize + 2)?;
        let parked = park(device, &chunk, &mut inventory, lens)?;
        // SAFETY: the context keeps the buffers until the engine is stopped; below, where there is to be no context.
        let engine = unsafe { Engine::open(device, &calls, parameters, tasks, parked) };
        let engine = match engine {
            Ok(engine) => engine,
            Err(Unopened {
                refused,
                is_stopped,
            }) => {
                if is_stopped {
                    for window in parked {
                        // SAFETY: the engine is stopped.
                        unsafe { inventory.give_back(window) };
                    }
                } else {
                    say_leaked(device.name(), "starts no context and stops none");
                    std::mem::forget((inventory, chunk));
                }
                return Err(refused);
            }
        };
        let none = InFlight {
            place: 0,
            item: 0,
            buffers: None,
            room: NonNull::slice_from_raw_parts(NonNull::dangling(), 0),
        };
        Ok(Self {
            engine: ManuallyDrop::new(engine),
            inventory: ManuallyDrop::new(inventory),
            parked: ManuallyDrop::new((chunk, parked)),
            places: ManuallyDrop::new((0..places).map(|_| None).collect()),
            tasks: vec![none; tasks as usize],
            idle: (0..tasks).rev().collect(),
            dead: None,
            device: device.clone(),
        })
    }

    /// Takes a job into a place that is free.
    ///
    /// # Errors
    /// The job, if its memory is not the device's.
    pub(in crate::doca) fn hold(&mut self, place: u32, job: Job) -> Result<(), Job> {
        let held = &mut self.places[place as usize];
        assert!(held.is_none(), "a free place");
        if !job.all_regions(|home| registered(home, &self.device).is_some()) {
            return Err(job);
        }
        *held = Some(Held { job, open: 0 });
        Ok(())
    }

    /// Item `i` of the job in `place`, which a device may read but not write.
    pub(in crate::doca) fn item(&self, place: u32, i: usize) -> &[u8] {
        let held = self.places[place as usize].as_ref().expect("a held job");
        held.job.items.place(i, &held.job.src).bytes(&held.job.src)
    }

    /// Bytes of the slot of item `i` of the job in `place`.
    pub(in crate::doca) fn slot_len(&self, place: u32, i: usize) -> usize {
        let held = self.places[place as usize].as_ref().expect("a held job");
        held.job.slots.place(i, &held.job.dst).len
    }

    /// Writes to the slot of item `i` of the job in `place`. Tasks of that job may be in flight; where one is to write, this is of
    /// no use.
    ///
    /// # Panics
    /// If it is not within that slot, or there is none.
    pub(in crate::doca) fn write(&mut self, place: u32, i: usize, at: usize, bytes: &[u8]) {
        let held = self.places[place as usize].as_mut().expect("a held job");
        let slot = held.slot(&self.device, i);
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= slot.len), "within the slot");
        // SAFETY: just checked; the context owns the output, and makes no reference to it while a device may write there.
        unsafe {
            let at = slot.start.add(at).as_ptr();
            at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Outcomes of the job in `place`.
    pub(in crate::doca) fn outcomes(&mut self, place: u32) -> &mut Vec<Result<u32, JobError>> {
        let held = self.places[place as usize].as_mut();
        &mut held.expect("a held job").job.outcomes
    }

    /// Gives the job in `place` back, unless a task of it is in flight.
    pub(in crate::doca) fn take(&mut self, place: u32) -> Option<Job> {
        let held = self.places[place as usize].take_if(|held| held.open == 0)?;
        Some(held.job)
    }

    /// The reason that nothing can be submitted any more, if there is one.
    pub(in crate::doca) fn dead(&self) -> Option<Code> {
        self.dead
    }

    /// Starts a task of the job in `place`.
    ///
    /// # Panics
    /// If the piece is not of that job, or there is none.
    pub(in crate::doca) fn start(&mut self, place: u32, item: u32, piece: &Piece) -> Start {
        if let Some(code) = self.dead {
            return Start::Failed(code);
        }
        let Some(&task) = self.idle.last() else {
            return Start::Busy;
        };
        let held = self.places[place as usize].as_mut().expect("a held job");
        let src = held.item(&self.device, item as usize);
        let slot = held.slot(&self.device, item as usize);
        let buffers = match windows(&mut self.inventory, src, slot, piece) {
            Ok(buffers) => buffers,
            Err(code) => return Start::Failed(code),
        };
        // SAFETY: inside the slot, as `windows` has checked.
        let room = unsafe { slot.start.add(piece.dst.start) };
        let room = NonNull::slice_from_raw_parts(room, piece.dst.len());
        let iv = piece.iv.map_or(ptr::null(), |at| {
            assert!(at + IV_BYTES as usize <= src.len, "a nonce of that item");
            // SAFETY: just checked.
            unsafe { src.start.add(at).as_ptr().cast_const() }
        });
        let [src, dst] = buffers;
        // SAFETY: the context keeps the job, and with it the memory and its registration, and the buffers until the task has ended.
        let submitted = unsafe {
            match &mut *self.engine {
                Engine::Job(engine) => engine.submit(task, src, dst),
                Engine::Task(engine) => engine.submit(task, src, dst, iv),
            }
        };
        match submitted {
            Ok(()) => {
                self.idle.pop();
                held.open += 1;
                self.tasks[task as usize] = InFlight {
                    place,
                    item,
                    buffers: Some(buffers),
                    room,
                };
                Start::Started
            }
            Err(code) => {
                for window in buffers {
                    // SAFETY: the device has not taken it.
                    unsafe { self.inventory.give_back(window) };
                }
                self.refused(code)
            }
        }
    }

    /// Judges a submit that DOCA refused: the device is busy, the task has failed, or the context is lost.
    fn refused(&mut self, code: Code) -> Start {
        let in_flight = match &*self.engine {
            Engine::Job(engine) => engine.in_flight(),
            Engine::Task(engine) => engine.in_flight(),
        };
        match code {
            Code::AGAIN | Code::NO_MEMORY | Code::FULL if in_flight > 0 => Start::Busy,
            Code::IO_FAILED
            | Code::BAD_STATE
            | Code::DRIVER
            | Code::OPERATING_SYSTEM
            | Code::SHUTDOWN => {
                self.kill(code);
                Start::Failed(code)
            }
            code => Start::Failed(code),
        }
    }

    /// The device, or its context, is lost. What is in flight is called home.
    fn kill(&mut self, code: Code) {
        self.dead = Some(code);
        match &mut *self.engine {
            // What it dropped is looked for by `poll`.
            Engine::Job(engine) => _ = engine.halt(),
            Engine::Task(engine) => engine.halt(),
        }
    }

    /// Tells the device of what was started since the last time.
    pub(in crate::doca) fn flush(&mut self) {
        if let Engine::Task(engine) = &mut *self.engine {
            engine.flush();
        }
    }

    /// The file that says that tasks have ended, if the engine has one.
    pub(in crate::doca) fn file(&self) -> Option<BorrowedFd<'_>> {
        match &*self.engine {
            // A work queue has one too, in an event mode of its own that nobody could try: it is polled.
            Engine::Job(_) => None,
            Engine::Task(engine) => engine.file(),
        }
    }

    /// Has the file tell of the next task that ends; says whether it will. It need not tell of a task that has ended by now.
    pub(in crate::doca) fn arm(&mut self) -> bool {
        match &mut *self.engine {
            // What a lost device's context flushes may come without a word.
            _ if self.dead.is_some() => false,
            Engine::Job(_) => false,
            Engine::Task(engine) => engine.arm(),
        }
    }

    /// Appends the tasks that have ended, at most as many as there are.
    pub(in crate::doca) fn poll(&mut self, landed: &mut Vec<Landing>) {
        if let Engine::Task(engine) = &mut *self.engine {
            engine.advance();
        }
        for _ in 0..self.tasks.len() {
            let Some((task, code)) = self.next() else {
                break;
            };
            landed.push(self.land(task, code));
        }
    }

    fn next(&mut self) -> Option<(u32, Code)> {
        let dead = self.dead;
        let broken = match &mut *self.engine {
            Engine::Task(engine) => return engine.next(),
            Engine::Job(engine) => match dead {
                Some(code) if engine.halt() => return Some((engine.next_dropped()?, code)),
                Some(_) => return None,
                None => match engine.next() {
                    Retrieved::Ended(task, code) => return Some((task, code)),
                    Retrieved::Nothing => return None,
                    Retrieved::Broken(code) => code,
                },
            },
        };
        self.kill(broken);
        self.next()
    }

    fn land(&mut self, task: u32, code: Code) -> Landing {
        // What a lost device's context flushes has that for its cause.
        let code = match (code, self.dead) {
            (Code::SHUTDOWN, Some(dead)) => dead,
            _ => code,
        };
        let InFlight {
            place,
            item,
            buffers,
            room,
        } = &mut self.tasks[task as usize];
        let (place, item, room) = (*place, *item, *room);
        let [src, dst] = buffers.take().expect("a task in flight has buffers");
        // SAFETY: the task has ended: the device uses them no more. The job, and with it its output, is the context's.
        let result = unsafe {
            let found = match (&mut *self.engine, code) {
                (Engine::Job(engine), Code::SUCCESS) => engine.write_found(room),
                _ => None,
            };
            let len = found.unwrap_or_else(|| self.inventory.data_len(dst));
            self.inventory.give_back(src);
            self.inventory.give_back(dst);
            match code {
                Code::SUCCESS => len,
                code => Err(code),
            }
        };
        let held = self.places[place as usize].as_mut().expect("a held job");
        held.open -= 1;
        self.idle.push(task);
        let check = match (&*self.engine, result) {
            (_, Err(_)) => 0,
            (Engine::Job(engine), Ok(_)) => engine.check(task),
            (Engine::Task(engine), Ok(_)) => engine.check(task),
        };
        Landing {
            place,
            item,
            result,
            check,
        }
    }
}

/// Buffers over a piece of an item and of its slot: the source all data, the destination all room.
fn windows(
    inventory: &mut Inventory,
    item: Extent,
    slot: Extent,
    piece: &Piece,
) -> Result<[Window; 2], Code> {
    let is_inside =
        |range: &Range<usize>, of: Extent| range.start <= range.end && range.end <= of.len;
    assert!(
        is_inside(&piece.src, item) && is_inside(&piece.dst, slot),
        "a piece of that job"
    );
    // SAFETY: just checked; the context keeps the job, whose memory holds its registration, as long as the buffers. A chunk is
    // longer than what it was asked for.
    unsafe {
        let at = item.start.add(piece.src.start);
        let src = inventory.window(item.mmap, at, piece.src.len(), piece.src.len())?;
        let at = slot.start.add(piece.dst.start);
        match inventory.window(slot.mmap, at, piece.dst.len(), 0) {
            Ok(dst) => Ok([src, dst]),
            Err(code) => {
                inventory.give_back(src);
                Err(code)
            }
        }
    }
}

impl Drop for EngineContext {
    /// Waits for what is in flight, but not for ever.
    fn drop(&mut self) {
        let is_stopped = match &mut *self.engine {
            Engine::Job(engine) => engine.stop(),
            Engine::Task(engine) => engine.stop(),
        };
        if !is_stopped {
            // The device may still write: jobs, buffers, and the context, which keeps the device open, stay as they are.
            say_leaked(self.device.name(), "does not stop");
            return;
        }
        let in_flight = self.tasks.iter_mut().filter_map(|task| task.buffers.take());
        let parked = self.parked.1;
        // SAFETY: the engine is stopped: nothing uses buffers, jobs or handles. Each field is dropped once, in this order: the
        // engine before the buffers that its tasks name, these before their inventory and the memory that they are over.
        unsafe {
            ManuallyDrop::drop(&mut self.engine);
            for window in in_flight.flatten().chain(parked) {
                self.inventory.give_back(window);
            }
            ManuallyDrop::drop(&mut self.inventory);
            ManuallyDrop::drop(&mut self.places);
            ManuallyDrop::drop(&mut self.parked);
        }
    }
}
