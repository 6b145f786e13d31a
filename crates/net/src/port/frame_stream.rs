//! A Unix socket over which frames come one after another, each behind its length: four bytes, most significant first. So QEMU's `-netdev stream` has its network.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use dpb_core::port::{PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

use super::sys::is_full;
use super::{BYTES_MAX, FRAME_HEADER, Unfit, zeroed};

/// The bytes of a length.
const LENGTH_BYTES: usize = 4;
/// Bytes that wait for the guest to take them, at most: about as many as a queue of a thousand frames.
const WAITING_BYTES_MAX: usize = 1536 << 10;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The network of one guest. It listens at a path; a guest comes, may leave, and another may come.
///
/// While nobody is there, or the guest takes nothing, what is sent is refused. What a guest that leaves had not taken is lost, and so is the piece of a frame that it had sent.
#[derive(Debug)]
pub struct FrameStream {
    path: PathBuf,
    name: String,
    listener: UnixListener,
    guest: Option<Guest>,
    stats: PortStats,
}

#[derive(Debug)]
struct Guest {
    socket: UnixStream,
    /// Bytes that were read, and the first that was not given out.
    read: Vec<u8>,
    given: usize,
    /// Bytes to be written, and the first that was not.
    waiting: Vec<u8>,
    written: usize,
    /// The ends of frames in `waiting`, with their bytes.
    ends: VecDeque<(usize, usize)>,
    /// True once it has closed its side: what was read before is still given out.
    is_gone: bool,
}

impl FrameStream {
    /// A socket at this path, which is removed when the port is dropped.
    ///
    /// # Errors
    /// What the system says: there is a file of that name, or the path is longer than 107 bytes.
    pub fn listen(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => io::Error::new(
                error.kind(),
                format!("{error}; remove the file if no program listens there"),
            ),
            _ => error,
        })?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            path: path.to_owned(),
            name: format!("stream {}", path.display()),
            listener,
            guest: None,
            stats: PortStats::default(),
        })
    }

    /// True if a guest is there.
    pub fn is_joined(&self) -> bool {
        self.guest.is_some()
    }

    /// Lets a guest in, if there is none.
    fn admit(&mut self) -> io::Result<()> {
        if self.guest.is_some() {
            return Ok(());
        }
        match self.listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                self.guest = Some(Guest::new(socket));
                Ok(())
            }
            Err(error) if is_full(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn dismiss(&mut self) {
        if let Some(guest) = self.guest.take() {
            self.stats.send_lost.queue_full += guest.ends.len() as u64;
        }
    }

    /// Writes what the guest takes.
    fn write(&mut self) {
        let Some(guest) = &mut self.guest else { return };
        let is_there = guest.write();
        while let Some(&(end, bytes)) = guest.ends.front()
            && end <= guest.written
        {
            self.stats.sent.add(bytes);
            guest.ends.pop_front();
        }
        guest.forget();
        if !is_there {
            self.dismiss();
        }
    }
}

impl Guest {
    fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            read: Vec::new(),
            given: 0,
            waiting: Vec::new(),
            written: 0,
            ends: VecDeque::new(),
            is_gone: false,
        }
    }

    /// False if the guest has left.
    fn write(&mut self) -> bool {
        while self.written < self.waiting.len() {
            match self.socket.write(&self.waiting[self.written..]) {
                Ok(0) => return false,
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return is_full(&error),
            }
        }
        true
    }

    /// Forgets what is written, when that is all or much.
    fn forget(&mut self) {
        if self.written == self.waiting.len() {
            self.waiting.clear();
        } else if self.written >= READ_BYTES {
            self.waiting.drain(..self.written);
        } else {
            return;
        }
        for (end, _) in &mut self.ends {
            *end -= self.written;
        }
        self.written = 0;
    }

    fn fill(&mut self) {
        self.read.drain(..self.given);
        self.given = 0;
        let from = self.read.len();
        self.read.resize(from + READ_BYTES, 0);
        let came = match self.socket.read(&mut self.read[from..]) {
            Ok(0) => {
                self.is_gone = true;
                0
            }
            Ok(bytes) => bytes,
            Err(error) => {
                self.is_gone = !is_full(&error);
                0
            }
        };
        self.read.truncate(from + came);
    }

    /// The next frame that is there whole; `Err` with a length that no frame has.
    fn next(&mut self) -> Result<Option<&[u8]>, usize> {
        let rest = &self.read[self.given..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let bytes = u32::from_be_bytes(*length) as usize;
        if bytes > BYTES_MAX {
            return Err(bytes);
        }
        let Some(frame) = rest.get(..bytes) else {
            return Ok(None);
        };
        self.given += LENGTH_BYTES + bytes;
        Ok(Some(frame))
    }
}

impl PacketPort for FrameStream {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        BYTES_MAX
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        zeroed(len, BYTES_MAX)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        self.admit()?;
        self.write();
        let mut came = 0;
        let mut is_filled = false;
        while came < max {
            let Some(guest) = &mut self.guest else { break };
            let is_gone = guest.is_gone;
            match guest.next() {
                Ok(Some(frame)) if frame.len() < FRAME_HEADER => {
                    self.stats.receive_lost.malformed += 1;
                }
                Ok(Some(frame)) => match zeroed(frame.len(), BYTES_MAX) {
                    Ok(mut packet) => {
                        packet.copy_from_slice(frame);
                        self.stats.delivered.add(packet.len());
                        packets.push(packet);
                        came += 1;
                    }
                    Err(_) => self.stats.receive_lost.no_memory += 1,
                },
                Ok(None) if is_gone => self.dismiss(),
                Ok(None) if is_filled => break,
                Ok(None) => {
                    guest.fill();
                    is_filled = true;
                }
                Err(bytes) => {
                    let why = format!(
                        "the guest sends a frame of {bytes} bytes, and at most {BYTES_MAX} are one: it does not speak this protocol"
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
            }
        }
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        self.admit()?;
        let mut taken = 0;
        while let Some(packet) = packets.front() {
            if let Some(unfit) = Unfit::of(packet.len(), BYTES_MAX) {
                self.write();
                return unfit.refused(taken, &mut self.stats);
            }
            let Some(guest) = &mut self.guest else {
                self.stats.refused.queue_full += packets.len() as u64;
                break;
            };
            if guest.waiting.len() - guest.written + packet.len() > WAITING_BYTES_MAX {
                self.write();
                let is_full = self.guest.as_ref().is_none_or(|guest| {
                    guest.waiting.len() - guest.written + packet.len() > WAITING_BYTES_MAX
                });
                if is_full {
                    self.stats.refused.queue_full += packets.len() as u64;
                    return Ok(taken);
                }
                continue;
            }
            let length = packet.len() as u32;
            guest.waiting.extend_from_slice(&length.to_be_bytes());
            guest.waiting.extend_from_slice(packet);
            guest.ends.push_back((guest.waiting.len(), packet.len()));
            self.stats.taken.add(packet.len());
            packets.pop_front();
            taken += 1;
        }
        self.write();
        Ok(taken)
    }

    fn stats(&mut self) -> PortStats {
        self.write();
        self.stats
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(match &self.guest {
            Some(guest) => guest.socket.as_fd(),
            None => self.listener.as_fd(),
        })
    }
}

impl Drop for FrameStream {
    fn drop(&mut self) {
        // Whoever has removed it meanwhile wanted the same.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
