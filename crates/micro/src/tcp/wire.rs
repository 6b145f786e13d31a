//! One end of a data connection, as an engine of the kernel moves its bytes.

mod sys;
mod uring;

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::Engine;

pub(super) use sys::retransmissions;

/// Bytes that a call has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) sent: usize,
    pub(super) received: usize,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until bytes have moved in one direction.
    Any,
    /// The same; but nothing can be done before both directions have moved, so an engine may spare the caller the first.
    Both,
    /// Until bytes have moved, or so much time has passed.
    For(Duration),
}

/// A connection, and memory that bytes are sent from and received into.
pub(super) trait Wire {
    /// A part of the memory, none of which is being sent or received into.
    fn memory(&mut self, part: Range<usize>) -> &mut [u8];

    /// Sends bytes of `send` and receives into `receive`, either of which may be empty, until something has moved. A part that has not moved, or not
    /// whole, is to be given again.
    ///
    /// # Errors
    /// The kernel's; [`ErrorKind::UnexpectedEof`] when the peer sends no more.
    fn turn(&mut self, send: Range<usize>, receive: Range<usize>, wait: Wait) -> io::Result<Moved>;
}

/// Whether this machine has an engine.
///
/// # Errors
/// Why not, and what to do.
pub fn usable(engine: Engine) -> Result<(), String> {
    match engine {
        Engine::Sockets => Ok(()),
        Engine::IoUring => uring::usable(),
    }
}

/// The wire over `stream`, with so many bytes of memory. It belongs to the thread that calls.
pub(super) fn over(
    stream: TcpStream,
    engine: Engine,
    memory_bytes: usize,
) -> io::Result<Box<dyn Wire>> {
    let memory = vec![0; memory_bytes];
    Ok(match engine {
        Engine::Sockets => Box::new(Sockets { stream, memory }),
        Engine::IoUring => Box::new(uring::Uring::new(stream, memory)?),
    })
}

/// Sets what a plan says of a connection's socket.
pub(super) fn prepare(
    stream: &TcpStream,
    nodelay: bool,
    buffer_bytes: Option<u64>,
) -> io::Result<()> {
    stream.set_nodelay(nodelay)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    if let Some(bytes) = buffer_bytes {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        sockopt::set_socket_send_buffer_size(stream, bytes)?;
        sockopt::set_socket_recv_buffer_size(stream, bytes)?;
    }
    Ok(())
}

/// `send(2)` and `recv(2)`.
struct Sockets {
    stream: TcpStream,
    memory: Vec<u8>,
}

impl Sockets {
    fn send(&self, part: &Range<usize>, flags: SendFlags) -> rustix::io::Result<usize> {
        let flags = flags | SendFlags::NOSIGNAL;
        again(|| send(&self.stream, &self.memory[part.clone()], flags))
    }

    fn receive(&mut self, part: &Range<usize>, flags: RecvFlags) -> rustix::io::Result<usize> {
        let room = &mut self.memory[part.clone()];
        again(|| recv(&self.stream, &mut *room, flags).map(|(_, bytes)| bytes))
    }

    /// Whether the connection was ready in time.
    fn wait(&self, ready: PollFlags, wait: Wait) -> io::Result<bool> {
        let timeout = match wait {
            Wait::For(time) => Some(Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: i64::from(time.subsec_nanos()),
            }),
            Wait::Any | Wait::Both => None,
        };
        match poll(&mut [PollFd::new(&self.stream, ready)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Wire for Sockets {
    fn memory(&mut self, part: Range<usize>) -> &mut [u8] {
        &mut self.memory[part]
    }

    fn turn(&mut self, send: Range<usize>, receive: Range<usize>, wait: Wait) -> io::Result<Moved> {
        let sent = |sent| Moved { sent, received: 0 };
        match (send.is_empty(), receive.is_empty()) {
            (true, true) => Ok(Moved::default()),
            (false, true) => Ok(sent(self.send(&send, SendFlags::empty())?)),
            (true, false) => match wait {
                Wait::For(_) if !self.wait(PollFlags::IN, wait)? => Ok(Moved::default()),
                _ => received(self.receive(&receive, RecvFlags::empty())?),
            },
            (false, false) => {
                match self.send(&send, SendFlags::DONTWAIT) {
                    Ok(bytes) => return Ok(sent(bytes)),
                    Err(Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
                match self.receive(&receive, RecvFlags::DONTWAIT) {
                    Ok(bytes) => return received(bytes),
                    Err(Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
                self.wait(PollFlags::IN | PollFlags::OUT, wait)?;
                Ok(Moved::default())
            }
        }
    }
}

/// Of a receive that has ended.
fn received(bytes: usize) -> io::Result<Moved> {
    match bytes {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        received => Ok(Moved { sent: 0, received }),
    }
}

/// A call that a signal may interrupt.
fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
