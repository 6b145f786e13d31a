//! The kernel's older asynchronous calls, `io_submit(2)` and its kin, called directly: what the library libaio wraps.
#![allow(unsafe_code)]

use std::ffi::{c_long, c_ulong};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use super::{Buffers, Done, Lane, Plan, Request};
use crate::crew::Broken;

const READ: u16 = 0;
const WRITE: u16 = 1;

/// `struct iocb` of a machine whose words are little-endian, as all are that dpb knows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

struct Aio {
    context: c_ulong,
    buffers: Buffers,
    buffer_of: Vec<usize>,
    file: File,
    /// A block for each slot, at an address that stays.
    controls: Vec<Control>,
    /// Blocks that the kernel does not have yet.
    pushed: Vec<*mut Control>,
    events: Vec<Event>,
}

// SAFETY: the pointers are into `controls`, which is this value's own.
unsafe impl Send for Aio {}

pub(super) fn open(plan: &Plan, file: File, buffers: Buffers) -> Result<Box<dyn Lane>, Broken> {
    let depth = plan.depth as usize;
    let mut context: c_ulong = 0;
    // SAFETY: the kernel writes a context into `context` and keeps no address of it.
    let made = unsafe {
        libc::syscall(
            libc::SYS_io_setup,
            c_long::from(plan.depth),
            &raw mut context,
        )
    };
    said(made).map_err(|error| {
        Broken::Unsupported(format!(
            "the kernel gives no context for {depth} asynchronous requests ({error}); lower --depth or --jobs, or raise \
             fs.aio-max-nr"
        ))
    })?;
    Ok(Box::new(Aio {
        context,
        buffers,
        buffer_of: vec![0; depth],
        file,
        controls: vec![Control::default(); depth],
        pushed: Vec::with_capacity(depth),
        events: vec![Event::default(); depth],
    }))
}

impl Lane for Aio {
    fn push(&mut self, request: Request) {
        let Request {
            slot,
            buffer,
            is_write,
            offset,
        } = request;
        self.buffer_of[slot] = buffer;
        self.controls[slot] = Control {
            data: slot as u64,
            opcode: if is_write { WRITE } else { READ },
            fd: self.file.as_raw_fd() as u32,
            buffer: self.buffers.launch(buffer).addr() as u64,
            bytes: self.buffers.len() as u64,
            offset: offset as i64,
            ..Control::default()
        };
        self.pushed.push(&raw mut self.controls[slot]);
    }

    fn submit(&mut self, done: &mut Vec<Done>) -> io::Result<()> {
        let mut first = 0;
        while first < self.pushed.len() {
            let left = &self.pushed[first..];
            // SAFETY: each pointer is to a block in `controls`, which describes a buffer that is in flight: nobody can have it
            // until the kernel says that it is done, and it lives until then (see `drop`).
            let taken = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, left.len(), left.as_ptr())
            };
            match said(taken) {
                Ok(taken) => first += taken,
                // The device's queue is full; what is in flight makes room.
                Err(error) if is_busy(&error) && self.buffers.in_flight() > left.len() => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.take_back(first);
                    return Err(error);
                }
            }
        }
        self.pushed.drain(..first);
        self.reap(done)
    }

    fn buffer(&mut self, number: usize) -> &mut [u8] {
        self.buffers.get(number)
    }
}

impl Aio {
    /// The kernel never had these.
    fn take_back(&mut self, first: usize) {
        for control in self.pushed.drain(..).skip(first) {
            // SAFETY: a pointer into `controls`, which is alive.
            let slot = unsafe { (*control).data } as usize;
            self.buffers.land(self.buffer_of[slot]);
        }
    }

    /// Waits for one, and takes all that are there.
    fn reap(&mut self, done: &mut Vec<Done>) -> io::Result<()> {
        if self.buffers.in_flight() == 0 {
            return Ok(());
        }
        let events = &mut self.events;
        let count = loop {
            // SAFETY: `events` has room for as many as are asked for; no time limit is given.
            let count = unsafe {
                let room: c_long = events.len() as c_long;
                let none = null_mut::<libc::timespec>();
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    1 as c_long,
                    room,
                    events.as_mut_ptr(),
                    none,
                )
            };
            match said(count) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        for event in &self.events[..count] {
            let slot = event.data as usize;
            self.buffers.land(self.buffer_of[slot]);
            let result = match usize::try_from(event.result) {
                Ok(bytes) => Ok(bytes),
                Err(_) => Err(io::Error::from_raw_os_error(-event.result as i32)),
            };
            done.push(Done { slot, result });
        }
        Ok(())
    }
}

impl Drop for Aio {
    /// Waits for what is in flight, as io_destroy does too.
    fn drop(&mut self) {
        self.take_back(0);
        let mut done = Vec::new();
        while self.buffers.in_flight() > 0 {
            if self.reap(&mut done).is_err() {
                self.buffers.leak();
                break;
            }
        }
        // SAFETY: the context is this value's own, and nobody uses it after this.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// What a call returned, or why it failed.
fn said(returned: c_long) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_the_kernels() {
        assert_eq!(size_of::<Control>(), size_of::<libc::iocb>());
        assert_eq!(
            std::mem::offset_of!(Control, opcode),
            std::mem::offset_of!(libc::iocb, aio_lio_opcode)
        );
        assert_eq!(
            std::mem::offset_of!(Control, buffer),
            std::mem::offset_of!(libc::iocb, aio_buf)
        );
        assert_eq!(
            std::mem::offset_of!(Control, offset),
            std::mem::offset_of!(libc::iocb, aio_offset)
        );
        assert_eq!(size_of::<Event>(), 32);
    }
}
