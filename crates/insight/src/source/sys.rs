//! Calls of the system that need `unsafe`: ptrace, and counters of the CPU.
//!
//! `ptrace` takes a variable number of arguments, which the C library reads as a number and pointers. So each is handed over as wide as a pointer.
#![allow(unsafe_code, reason = "ptrace and perf_event_open")]

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

/// An argument that a request does not have.
const NOTHING: *mut libc::c_void = std::ptr::null_mut();

/// A number where ptrace expects a pointer.
fn wide(number: i32) -> *mut libc::c_void {
    std::ptr::without_provenance_mut(number as usize)
}

/// A process number.
pub(super) type Pid = libc::pid_t;

/// Why a process that is traced has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A signal is about to be delivered to it.
    Signal(i32),
    /// It is about to end: its memory is still there.
    Ending,
    /// It has become another program.
    Became,
    /// It has ended.
    Ended(ExitStatus),
}

/// Makes a command whose process is traced by this one, and stops when it has become the program. Its memory has the same addresses
/// in every run.
pub(super) fn traced(command: &mut Command) {
    let become_traced = || {
        // SAFETY: both calls are async-signal-safe, and follow no pointers.
        unsafe {
            // Addresses are as they are where that is not allowed.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            match libc::ptrace(libc::PTRACE_TRACEME, 0, NOTHING, NOTHING) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        }
    };
    // SAFETY: what it does between fork and exec is async-signal-safe.
    unsafe { command.pre_exec(become_traced) };
}

/// The tracee dies with this process.
pub(super) fn dies_with_us(pid: Pid) -> io::Result<()> {
    set_options(pid, libc::PTRACE_O_EXITKILL)
}

/// The tracee dies with this process, and stops before its end ([`Stop::Ending`]) and when it becomes another program.
pub(super) fn stops_at_its_end(pid: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC;
    set_options(pid, options)
}

fn set_options(pid: Pid, options: i32) -> io::Result<()> {
    // SAFETY: the kernel takes the options as a number and follows no pointer.
    told(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, NOTHING, wide(options)) })
}

/// Lets a stopped tracee execute one instruction, and delivers the signal, unless that is 0.
pub(super) fn step(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: the kernel takes the signal as a number and follows no pointer.
    told(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, pid, NOTHING, wide(signal)) })
}

/// Lets a stopped tracee go on, and delivers the signal, unless that is 0.
pub(super) fn go_on(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: the kernel takes the signal as a number and follows no pointer.
    told(unsafe { libc::ptrace(libc::PTRACE_CONT, pid, NOTHING, wide(signal)) })
}

/// Lets a stopped tracee go, for good.
pub(super) fn let_go(pid: Pid) -> io::Result<()> {
    // SAFETY: the kernel follows no pointer.
    told(unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, NOTHING, NOTHING) })
}

fn told(result: libc::c_long) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until the tracee stops or ends.
pub(super) fn wait(pid: Pid) -> io::Result<Stop> {
    let mut status = 0;
    loop {
        // SAFETY: the status is a valid place for one.
        let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
        if waited == -1 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        const EVENT_SHIFT: u32 = 16;
        return Ok(match (libc::WIFSTOPPED(status), status >> EVENT_SHIFT) {
            (true, libc::PTRACE_EVENT_EXIT) => Stop::Ending,
            (true, libc::PTRACE_EVENT_EXEC) => Stop::Became,
            (true, _) => Stop::Signal(libc::WSTOPSIG(status)),
            (false, _) => Stop::Ended(ExitStatus::from_raw(status)),
        });
    }
}

/// The registers of a stopped tracee.
#[cfg(target_arch = "x86_64")]
pub(super) fn registers(pid: Pid) -> io::Result<libc::user_regs_struct> {
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel fills the whole structure, or says that it has not.
    unsafe {
        told(libc::ptrace(
            libc::PTRACE_GETREGS,
            pid,
            NOTHING,
            registers.as_mut_ptr(),
        ))?;
        Ok(registers.assume_init())
    }
}

/// `struct perf_event_attr` as of Linux 3.16 (`PERF_ATTR_SIZE_VER3`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_kind: u32,
    config1: u64,
    config2: u64,
    branch_sample: u64,
    user_registers: u64,
    user_stack: u32,
    clock: i32,
}

/// Children are counted too; the kernel and the hypervisor are not.
const FLAGS: u64 = 1 << 1 | 1 << 5 | 1 << 6;
/// With each count the time that it was wanted and the time that it ran.
const READ_FORMAT: u64 = 1 | 2;

/// Opens a counter of a process, in no group. What is read of it is three words: the count, the
/// nanoseconds that it was wanted, the nanoseconds that it ran.
pub(super) fn counter(kind: u32, config: u64, pid: Pid) -> io::Result<File> {
    let attributes = EventAttributes {
        kind,
        size: size_of::<EventAttributes>() as u32,
        config,
        read_format: READ_FORMAT,
        flags: FLAGS,
        ..EventAttributes::default()
    };
    const ANY_CPU: i32 = -1;
    const NO_GROUP: i32 = -1;
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    // SAFETY: the kernel reads the structure, whose size it says, and gives a descriptor that is ours.
    unsafe {
        let opened = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            ANY_CPU,
            NO_GROUP,
            CLOSE_ON_EXEC,
        );
        told(opened)?;
        Ok(File::from_raw_fd(opened as i32))
    }
}
