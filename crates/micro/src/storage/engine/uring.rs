//! io_uring: one call of the kernel hands over all that was pushed and brings what is done.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};

use super::{Buffers, Done, Lane, Plan, Request};
use crate::crew::Broken;

struct Uring {
    ring: IoUring,
    buffers: Buffers,
    /// The buffer of each slot's request.
    buffer_of: Vec<usize>,
    file: File,
    is_registered: bool,
}

pub(super) fn open(plan: &Plan, file: File, buffers: Buffers) -> Result<Box<dyn Lane>, Broken> {
    let ring = ring(plan.depth).map_err(|error| {
        Broken::Unsupported(format!(
            "the kernel gives no io_uring ({error}); allow it (sysctl kernel.io_uring_disabled=0, or outside of this \
             container), or take --engine libaio"
        ))
    })?;
    if plan.registered {
        register(&ring, &file, &buffers).map_err(|error| {
            Broken::Unsupported(format!(
                "buffers and file cannot be registered ({error}); raise the limit of locked memory (ulimit -l), or lower \
                 --depth or --block"
            ))
        })?;
    }
    Ok(Box::new(Uring {
        ring,
        buffer_of: vec![0; plan.depth as usize],
        buffers,
        file,
        is_registered: plan.registered,
    }))
}

/// With what newer kernels have for a ring of one thread, else a plain one.
fn ring(depth: u32) -> io::Result<IoUring> {
    let entries = depth.next_power_of_two();
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))
}

fn register(ring: &IoUring, file: &File, buffers: &Buffers) -> io::Result<()> {
    let vector = |number| libc::iovec {
        iov_base: buffers.address(number).cast(),
        iov_len: buffers.len(),
    };
    let vectors: Vec<libc::iovec> = (0..buffers.count()).map(vector).collect();
    ring.submitter().register_files(&[file.as_raw_fd()])?;
    // SAFETY: the buffers live as long as the ring's last request: see `drop`.
    unsafe { ring.submitter().register_buffers(&vectors) }
}

impl Uring {
    fn entry(&mut self, request: Request) -> squeue::Entry {
        let Request {
            slot,
            buffer,
            is_write,
            offset,
        } = request;
        self.buffer_of[slot] = buffer;
        let (address, len) = (self.buffers.launch(buffer), self.buffers.len() as u32);
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = match (self.is_registered, is_write) {
            (false, false) => opcode::Read::new(fd, address, len).offset(offset).build(),
            (false, true) => opcode::Write::new(fd, address, len).offset(offset).build(),
            (true, false) => opcode::ReadFixed::new(types::Fixed(0), address, len, buffer as u16)
                .offset(offset)
                .build(),
            (true, true) => opcode::WriteFixed::new(types::Fixed(0), address, len, buffer as u16)
                .offset(offset)
                .build(),
        };
        entry.user_data(slot as u64)
    }

    fn reap(&mut self, done: &mut Vec<Done>) {
        let Self {
            ring,
            buffers,
            buffer_of,
            ..
        } = self;
        for completion in ring.completion() {
            let slot = completion.user_data() as usize;
            buffers.land(buffer_of[slot]);
            let result = match completion.result() {
                failed if failed < 0 => Err(io::Error::from_raw_os_error(-failed)),
                bytes => Ok(bytes as usize),
            };
            done.push(Done { slot, result });
        }
    }
}

impl Lane for Uring {
    fn push(&mut self, request: Request) {
        let entry = self.entry(request);
        // SAFETY: the entry's buffer is in flight from here on, so nobody can have it, and lives until all are home: see `drop`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("as many entries as slots");
    }

    fn submit(&mut self, done: &mut Vec<Done>) -> io::Result<()> {
        let before = done.len();
        while done.len() == before && self.buffers.in_flight() > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                // A signal, or a queue of completions that is full: those that are there make room.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            self.reap(done);
        }
        Ok(())
    }

    fn buffer(&mut self, number: usize) -> &mut [u8] {
        self.buffers.get(number)
    }
}

fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
    error
        .raw_os_error()
        .is_some_and(|code| passing.contains(&code))
}

impl Drop for Uring {
    /// The kernel writes to the buffers until all requests are home.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.buffers.in_flight() > 0 {
            if self.submit(&mut done).is_err() {
                return self.buffers.leak();
            }
        }
    }
}
