//! The program in the kernel that hands packets of a queue to its socket, loaded by `bpf(2)`: six instructions and a map from queues to sockets.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Attachment;

const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEMENT: c_int = 2;
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// To attach to the kernel's own code, after it has made its structure of a packet.
const GENERIC: u32 = 1 << 1;
/// To attach to the driver.
const DRIVER: u32 = 1 << 2;
/// The verdict that lets a packet go on to the kernel.
const PASS: i32 = 2;
/// The number of the function `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// The place of the queue's number in `struct xdp_md`.
const QUEUE_AT: i16 = 16;
/// A number that loading puts a map's address in the place of.
const MAP_BY_FILE: u8 = 1;
/// No helper that is called asks for more.
const LICENSE: &std::ffi::CStr = c"Apache-2.0 OR MIT";

/// The program of an interface. It is taken off the interface when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    _link: OwnedFd,
    map: OwnedFd,
}

/// `struct bpf_insn`.
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// What [`MAP_CREATE`] takes.
#[repr(C)]
struct NewMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

/// What [`MAP_UPDATE_ELEMENT`] takes.
#[repr(C)]
struct Element {
    map: u32,
    nothing: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// What [`PROGRAM_LOAD`] takes.
#[repr(C)]
struct NewProgram {
    kind: u32,
    instructions_len: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// What [`LINK_CREATE`] takes.
#[repr(C)]
struct NewLink {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
}

impl Program {
    /// Loads the program and attaches it to the interface of this number.
    pub(super) fn attach(index: c_int, queues: u32, how: Attachment) -> io::Result<Self> {
        let map = bpf(
            MAP_CREATE,
            &NewMap {
                kind: MAP_OF_SOCKETS,
                key_bytes: 4,
                value_bytes: 4,
                entries_max: queues,
                flags: 0,
            },
        )?;
        let instructions = instructions(&map);
        let program = bpf(
            PROGRAM_LOAD,
            &NewProgram {
                kind: PROGRAM_XDP,
                instructions_len: instructions.len() as u32,
                instructions: address(&instructions),
                license: LICENSE.as_ptr().addr() as u64,
                log_level: 0,
                log_bytes: 0,
                log: 0,
                kernel_version: 0,
                flags: 0,
            },
        )?;
        let link = |flags| {
            bpf(
                LINK_CREATE,
                &NewLink {
                    program: program.as_raw_fd() as u32,
                    interface: index as u32,
                    kind: ATTACH_XDP,
                    flags,
                },
            )
        };
        let link = match how {
            Attachment::Driver => link(DRIVER),
            Attachment::Generic => link(GENERIC),
            // The driver may have a condition that is not met, as of the interface's longest packet.
            Attachment::Any => link(DRIVER).or_else(|error| match error.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST | libc::EPERM) => Err(error),
                _ => link(GENERIC),
            }),
        };
        Ok(Self { _link: link?, map })
    }

    /// Has packets of the queue go to this socket, until that is closed.
    pub(super) fn direct(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let element = Element {
            map: self.map.as_raw_fd() as u32,
            nothing: 0,
            key: address(&queue),
            value: address(&value),
            flags: 0,
        };
        bpf_call(MAP_UPDATE_ELEMENT, &element).map(drop)
    }
}

/// Gives `bpf_redirect_map(the map, the packet's queue, PASS)` as verdict: to the queue's socket, or to the kernel if it has none.
fn instructions(map: &OwnedFd) -> [Instruction; 6] {
    let instruction = |code, to: u8, from: u8, offset, immediate| Instruction {
        code,
        registers: match cfg!(target_endian = "little") {
            true => to | from << 4,
            false => to << 4 | from,
        },
        offset,
        immediate,
    };
    [
        // r2 = *(u32 *)(r1 + QUEUE_AT)
        instruction(0x61, 2, 1, QUEUE_AT, 0),
        // r1 = the map, in two instructions
        instruction(0x18, 1, MAP_BY_FILE, 0, map.as_fd().as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        // r3 = PASS
        instruction(0xB7, 3, 0, 0, PASS),
        instruction(0x85, 0, 0, 0, REDIRECT_MAP),
        // return r0
        instruction(0x95, 0, 0, 0, 0),
    ]
}

fn address<T>(value: &T) -> u64 {
    std::ptr::from_ref(value).expose_provenance() as u64
}

/// A call of the system that makes a file.
fn bpf<T>(command: c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf_call(command, attributes)?;
    // SAFETY: new, and nobody else's: the caller's command makes a file.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

fn bpf_call<T>(command: c_int, attributes: &T) -> io::Result<c_long> {
    let len = size_of::<T>();
    // SAFETY: attributes as long as said, of the command that they are declared for; the addresses in them are of values that live through the call and
    // that the kernel only reads.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), len) };
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}
