//! Single steps on x86-64.

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use iced_x86::{
    Decoder, DecoderOptions, InstructionInfoFactory, InstructionInfoOptions, OpAccess, Register,
    UsedMemory,
};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use super::super::mapped::Mapped;
use super::super::process::Process;
use super::super::sys::{self, Pid, Stop};
use super::super::{Program, WatchError, Watched};
use crate::trace::{Access, Analyser, Direction, Id, Isa, Options, TraceError};

/// Most instructions of a program that are stepped through: half a minute.
const INSTRUCTIONS_MAX: u64 = 1_000_000;
/// The signal by which a program says that steps are to begin.
const BEGIN: i32 = libc::SIGUSR1;
/// Most bytes of an instruction.
const LENGTH_MAX: usize = 15;

/// An instruction that was met, and its accesses.
struct Met {
    id: Id,
    memory: Vec<UsedMemory>,
    /// Bytes of an element, for a string instruction that repeats itself: as often as RCX says, perhaps never.
    repeated_bytes: Option<u32>,
}

/// A program on its way.
struct Steps<'a> {
    pid: Pid,
    mapped: Mapped,
    met: HashMap<u64, Met>,
    analyser: &'a mut Analyser,
}

pub(in super::super) fn check(isa: Isa) -> Result<(), WatchError> {
    match isa {
        Isa::X86 => Ok(()),
        Isa::A64 => Err(WatchError::Missing(
            "single steps run programs of this machine's instruction set alone; take --source qemu"
                .to_owned(),
        )),
    }
}

pub(in super::super) fn watch(
    program: &Program,
    options: Options,
    stop: &AtomicBool,
) -> Result<Watched, WatchError> {
    // A thread of its own, so that no other one keeps to its core.
    let watched = thread::scope(|scope| {
        let steps = scope.spawn(|| {
            keep_to_this_core();
            watch_here(program, options, stop)
        });
        steps.join()
    });
    watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Keeps this thread, and the processes that it starts, to one core. To wake another core for each step takes ten times as long as the step.
fn keep_to_this_core() {
    let mut core = CpuSet::new();
    core.set(sched_getcpu());
    // Where that is not allowed, steps are slower.
    let _ = sched_setaffinity(None, &core);
}

/// Steps through the program in this thread, which is the one that ptrace obeys.
fn watch_here(
    program: &Program,
    options: Options,
    stop: &AtomicBool,
) -> Result<Watched, WatchError> {
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .envs(program.variables.iter().cloned());
    sys::traced(&mut command);
    let mut process = Process::start(&mut command)?;
    let pid = process.child.id() as Pid;
    let mut analyser = Analyser::new(program.isa, options);
    let mut steps = Steps {
        pid,
        mapped: Mapped::of(process.child.id()),
        met: HashMap::new(),
        analyser: &mut analyser,
    };
    let status = match steps.begin(program.says_begin)? {
        Stop::Ended(status) => status,
        _ => steps.run(stop)?,
    };
    let ended = process.ended(status)?;
    ended.check()?;
    Ok(Watched {
        tally: analyser.finish(),
        stdout: ended.stdout,
        by: "single steps (ptrace), models of caches".to_owned(),
    })
}

impl Steps<'_> {
    /// Waits for the program's first instruction or, if it says so itself, for the word to begin.
    fn begin(&mut self, says_begin: bool) -> Result<Stop, WatchError> {
        let mut stopped = sys::wait(self.pid).map_err(TraceError::from)?;
        let mut is_program = false;
        loop {
            let Stop::Signal(signal) = stopped else {
                return Ok(stopped);
            };
            let delivered = match signal {
                // It has become the program.
                libc::SIGTRAP if !is_program => {
                    is_program = true;
                    sys::dies_with_us(self.pid).map_err(TraceError::from)?;
                    if !says_begin {
                        return Ok(stopped);
                    }
                    0
                }
                BEGIN if is_program && says_begin => return Ok(stopped),
                // Somebody has stopped everything for a while.
                libc::SIGSTOP | libc::SIGTRAP => 0,
                signal => signal,
            };
            sys::go_on(self.pid, delivered).map_err(TraceError::from)?;
            stopped = sys::wait(self.pid).map_err(TraceError::from)?;
        }
    }

    /// Steps to the program's end.
    fn run(&mut self, stop: &AtomicBool) -> Result<std::process::ExitStatus, WatchError> {
        let (mut signal, mut is_executed) = (0, true);
        for _ in 0..INSTRUCTIONS_MAX {
            if stop.load(Ordering::Relaxed) {
                return Err(WatchError::Stopped);
            }
            // A signal stops the program before the instruction that was to be executed.
            if is_executed {
                self.instruction()?;
            }
            sys::step(self.pid, signal).map_err(TraceError::from)?;
            (signal, is_executed) = match sys::wait(self.pid).map_err(TraceError::from)? {
                Stop::Ended(status) => return Ok(status),
                Stop::Signal(libc::SIGTRAP) | Stop::Ending | Stop::Became => (0, true),
                Stop::Signal(libc::SIGSTOP) => (0, false),
                Stop::Signal(signal) => (signal, false),
            };
        }
        Err(WatchError::Missing(format!(
            "more than {INSTRUCTIONS_MAX} instructions, which is too long for single steps"
        )))
    }

    /// The instruction that the next step executes.
    fn instruction(&mut self) -> Result<(), WatchError> {
        let registers = sys::registers(self.pid).map_err(TraceError::from)?;
        let address = registers.rip;
        if !self.met.contains_key(&address) {
            let met = self.meet(address)?;
            self.met.insert(address, met);
        }
        let met = &self.met[&address];
        self.analyser.execute(met.id);
        if met.repeated_bytes.is_some() && registers.rcx == 0 {
            return Ok(());
        }
        for memory in &met.memory {
            let at = memory.virtual_address(0, |register, _, _| value(register, &registers));
            let direction = match memory.access() {
                OpAccess::Read | OpAccess::CondRead => Direction::Load,
                OpAccess::Write | OpAccess::CondWrite => Direction::Store,
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => Direction::Modify,
                _ => continue,
            };
            let bytes = met
                .repeated_bytes
                .unwrap_or(memory.memory_size().size() as u32);
            // The length of what saves a processor's state is not in the instruction.
            if let (Some(address), 1..) = (at, bytes) {
                self.analyser.access(Access {
                    address,
                    bytes,
                    direction,
                })?;
            }
        }
        Ok(())
    }

    fn meet(&mut self, address: u64) -> Result<Met, WatchError> {
        let bytes = self.mapped.up_to(address, LENGTH_MAX).unwrap_or_default();
        let decoded = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE).decode();
        if decoded.is_invalid() {
            let why = format!("no instruction is known at {address:#x}");
            return Err(TraceError::Malformed(why).into());
        }
        let id = self.analyser.define(address, &bytes[..decoded.len()])?;
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info_options(&decoded, InstructionInfoOptions::NONE);
        let memory = info.used_memory().to_vec();
        let is_repeated = decoded.has_rep_prefix() || decoded.has_repne_prefix();
        let is_repeated = is_repeated && decoded.is_string_instruction();
        Ok(Met {
            id,
            memory,
            repeated_bytes: is_repeated.then(|| decoded.memory_size().size() as u32),
        })
    }
}

/// The value of a register that addresses are made of.
fn value(register: Register, values: &libc::user_regs_struct) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => values.rax,
        Register::RBX => values.rbx,
        Register::RCX => values.rcx,
        Register::RDX => values.rdx,
        Register::RSI => values.rsi,
        Register::RDI => values.rdi,
        Register::RBP => values.rbp,
        Register::RSP => values.rsp,
        Register::R8 => values.r8,
        Register::R9 => values.r9,
        Register::R10 => values.r10,
        Register::R11 => values.r11,
        Register::R12 => values.r12,
        Register::R13 => values.r13,
        Register::R14 => values.r14,
        Register::R15 => values.r15,
        Register::FS => values.fs_base,
        Register::GS => values.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    Some(match register.size() {
        4 if !register.is_segment_register() => whole & u64::from(u32::MAX),
        _ => whole,
    })
}
