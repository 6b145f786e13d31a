//! A ring of each thread's own: a send and a receive may be under way at once, and one call starts both and waits.
#![allow(unsafe_code)]

use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use super::{Moved, Wait, Wire};

const ENTRIES: u32 = 4;
/// `user_data` of a send and of a receive.
const SEND: u64 = 1;
const RECEIVE: u64 = 2;
const MSG_WAITALL: i32 = 0x100;
const MSG_NOSIGNAL: i32 = 0x4000;
const ETIME: i32 = 62;
/// A connection that is shut down ends what is under way at once; who has not heard of it after so many such waits never will.
const LAST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAITS: u32 = 5;

/// Whether there is io_uring, with what is used of it.
pub(super) fn usable() -> Result<(), String> {
    ring().map(drop).map_err(|error| {
        format!(
            "no io_uring here ({error}): it needs Linux 5.11, sysctl kernel.io_uring_disabled=0, and a container that allows it"
        )
    })
}

/// A ring whose thread is not interrupted for completions, where the kernel can do without (5.19).
///
/// `IORING_SETUP_DEFER_TASKRUN` was tried and lost: who waits for two completions is then woken by the second event alone (seen on Linux
/// 6.18), but a send that goes on when there is room makes an event and no completion, so a long one stayed where it was.
fn ring() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_coop_taskrun();
    let ring = match builder.build(ENTRIES) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => IoUring::new(ENTRIES)?,
        ring => ring?,
    };
    match ring.params().is_feature_ext_arg() {
        true => Ok(ring),
        false => Err(ErrorKind::Unsupported.into()),
    }
}

/// See [`Wire`]. While an operation is under way the kernel has its part of the memory, and nobody else.
pub(super) struct Uring {
    ring: IoUring,
    /// Of a boxed slice, which is freed when nothing is under way any more, and else never.
    memory: *mut [u8],
    stream: TcpStream,
    sending: Option<Range<usize>>,
    receiving: Option<Range<usize>>,
    /// A send ends when all of it is sent (Linux 6.0): then it can be awaited together with a receive.
    sends_all: bool,
}

impl Uring {
    pub(super) fn new(stream: TcpStream, memory: Vec<u8>) -> io::Result<Self> {
        let ring = ring()?;
        // The kernel need not look the socket up for each operation.
        ring.submitter().register_files(&[stream.as_raw_fd()])?;
        Ok(Self {
            sends_all: ring.params().is_feature_linked_file(),
            ring,
            memory: Box::into_raw(memory.into_boxed_slice()),
            stream,
            sending: None,
            receiving: None,
        })
    }

    fn under_way(&self) -> usize {
        usize::from(self.sending.is_some()) + usize::from(self.receiving.is_some())
    }

    fn start_send(&mut self, part: Range<usize>) {
        let entry = opcode::Send::new(Fixed(0), self.start_of(&part), length(&part))
            .flags(MSG_WAITALL | MSG_NOSIGNAL)
            .build();
        self.sending = Some(part);
        self.push(&entry.user_data(SEND));
    }

    fn start_receive(&mut self, part: Range<usize>) {
        let entry = opcode::Recv::new(Fixed(0), self.start_of(&part), length(&part)).build();
        self.receiving = Some(part);
        self.push(&entry.user_data(RECEIVE));
    }

    /// The address of a part that lies in the memory.
    fn start_of(&self, part: &Range<usize>) -> *mut u8 {
        assert!(part.start <= part.end && part.end <= self.memory.len());
        self.memory.cast::<u8>().wrapping_add(part.start)
    }

    fn push(&mut self, entry: &Entry) {
        // SAFETY: the memory of the entry is a part of `self.memory`, which does not move and is not freed before the operation
        // has ended (see `drop`). `sending` or `receiving` says so, and `memory` hands no such part out.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("two operations at most, and room for four");
    }

    /// Submits and waits for so many completions, or for a time.
    fn wait(&mut self, completions: usize, time: Option<Duration>) -> io::Result<()> {
        loop {
            let done = match time {
                None => self.ring.submit_and_wait(completions),
                Some(time) => {
                    let time = Timespec::from(time);
                    let args = SubmitArgs::new().timespec(&time);
                    self.ring.submitter().submit_with_args(completions, &args)
                }
            };
            return match done {
                Err(error) if error.raw_os_error() == Some(ETIME) => Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => match time {
                    None => continue,
                    Some(_) => Ok(()),
                },
                done => done.map(drop),
            };
        }
    }

    /// What has ended.
    fn collect(&mut self) -> io::Result<Moved> {
        let mut moved = Moved::default();
        let mut failed = None;
        for completion in self.ring.completion() {
            let bytes = usize::try_from(completion.result());
            match (completion.user_data(), bytes) {
                (SEND, bytes) => {
                    self.sending = None;
                    moved.sent = bytes.unwrap_or(0);
                }
                (_, bytes) => {
                    self.receiving = None;
                    moved.received = bytes.unwrap_or(0);
                    if bytes == Ok(0) {
                        failed = Some(ErrorKind::UnexpectedEof.into());
                    }
                }
            }
            if bytes.is_err() {
                failed = Some(io::Error::from_raw_os_error(-completion.result()));
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(moved),
        }
    }
}

impl Wire for Uring {
    fn memory(&mut self, part: Range<usize>) -> &mut [u8] {
        let of_kernel = [&self.sending, &self.receiving];
        for busy in of_kernel.into_iter().flatten() {
            let is_apart = part.end <= busy.start || busy.end <= part.start;
            assert!(is_apart || part.is_empty(), "the kernel has {busy:?}");
        }
        // SAFETY: the part lies in the memory (`start_of`), and no operation that is under way reads or writes it. The reference
        // borrows `self`, without which none can be started.
        unsafe { std::slice::from_raw_parts_mut(self.start_of(&part), part.len()) }
    }

    fn turn(&mut self, send: Range<usize>, receive: Range<usize>, wait: Wait) -> io::Result<Moved> {
        if self.sending.is_none() && !send.is_empty() {
            self.start_send(send);
        }
        if self.receiving.is_none() && !receive.is_empty() {
            self.start_receive(receive);
        }
        match wait {
            Wait::Both if self.sends_all => self.wait(self.under_way(), None)?,
            Wait::For(time) => self.wait(1, Some(time))?,
            // Nothing under way would be awaited for ever.
            _ if self.under_way() > 0 => self.wait(1, None)?,
            _ => {}
        }
        self.collect()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.under_way() > 0 {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        for _ in 0..LAST_WAITS {
            if self.under_way() == 0 {
                break;
            }
            let _ = self.wait(1, Some(LAST_WAIT));
            let _ = self.collect();
        }
        if self.under_way() == 0 {
            // SAFETY: it came out of a box, nothing is under way, and nobody uses it after this.
            drop(unsafe { Box::from_raw(self.memory) });
        }
    }
}

fn length(part: &Range<usize>) -> u32 {
    u32::try_from(part.len()).unwrap_or(u32::MAX)
}
