//! An interface that this program makes (`tun(4)`, TAP mode): what the kernel sends there comes here, and what is sent here the kernel receives there.

use std::collections::VecDeque;
use std::ffi::c_ulong;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use dpb_core::port::{PacketPort, PortStats};
use dpb_core::{Buf, SetupError};

use super::pool::Pool;
use super::sys::{self, InterfaceRequest};
use super::{FRAME_HEADER, TAG, Unfit, pooled};

/// The device by which interfaces are made.
const DEVICE: &str = "/dev/net/tun";
/// Frames for packets.
const FRAMES: u32 = 1024;

/// A TAP interface, which is gone when this is dropped. Each packet is a call of the system.
///
/// The kernel computes checksums and cuts packets before it hands them over. What it has no room for in the interface's queue (`txqueuelen`)
/// it drops, and this port counts it as `kernel`.
#[derive(Debug)]
pub struct Tap {
    name: String,
    file: File,
    /// Of its network namespace: the port may be used from another one.
    counters: File,
    mtu: usize,
    pool: Pool,
    stats: PortStats,
}

impl Tap {
    /// An interface of this name, brought up. With `%d` in it the kernel puts the first number there that is free: `tap%d`.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, the name is taken, or this process may not make interfaces: [`io::ErrorKind::PermissionDenied`].
    pub fn open(name: &str) -> io::Result<Self> {
        let with_remedy = |error: io::Error, remedy: &str| {
            io::Error::new(error.kind(), format!("{DEVICE}: {error}; {remedy}"))
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = options.custom_flags(libc::O_NONBLOCK).open(DEVICE);
        let file = file
            .map_err(|error| with_remedy(error, "load the kernel's module tun (modprobe tun)"))?;
        let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as u16;
        let mut request = InterfaceRequest::new(name, InterfaceRequest::flags(flags))?;
        let made = request.ask(file.as_fd(), libc::TUNSETIFF as c_ulong);
        made.map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => with_remedy(
                io::ErrorKind::PermissionDenied.into(),
                "an interface needs CAP_NET_ADMIN: run as root, or in a network namespace of its own (unshare -Urn)",
            ),
            _ => with_remedy(error, "perhaps an interface has that name already (ip link)"),
        })?;
        let name = request.name();
        sys::bring_up(&name)?;
        let mtu = sys::mtu(&name)?;
        // One byte more than a packet may have: the kernel cuts what is longer and says nothing.
        let frame_bytes = (mtu + FRAME_HEADER + TAG + 1).next_multiple_of(64);
        Ok(Self {
            name,
            file,
            counters: sys::interface_counters()?,
            mtu,
            pool: Pool::new(FRAMES, frame_bytes)?,
            stats: PortStats::default(),
        })
    }
}

impl PacketPort for Tap {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        self.mtu + FRAME_HEADER + TAG
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        let max = self.packet_bytes_max();
        pooled(&mut self.pool, len, max)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let bytes_max = self.packet_bytes_max();
        let mut came = 0;
        while came < max
            && let Some(mut frame) = self.pool.take()
        {
            match self.file.read(self.pool.bytes_mut(&mut frame)) {
                Ok(len) if len > bytes_max => {
                    self.pool.give(frame);
                    self.stats.receive_lost.too_long += 1;
                }
                Ok(len) => {
                    packets.push(self.pool.buf(frame, 0, len));
                    self.stats.delivered.add(len);
                    came += 1;
                }
                Err(error) => {
                    self.pool.give(frame);
                    match sys::is_full(&error) {
                        true => break,
                        false => return Err(error),
                    }
                }
            }
        }
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let max = self.packet_bytes_max();
        let mut taken = 0;
        while let Some(packet) = packets.front() {
            if let Some(unfit) = Unfit::of(packet.len(), max) {
                return unfit.refused(taken, &mut self.stats);
            }
            // A packet is written whole or not at all.
            match self.file.write(packet) {
                Ok(_) => {}
                Err(error) if sys::is_full(&error) => {
                    self.stats.refused.queue_full += packets.len() as u64;
                    return Ok(taken);
                }
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
            self.stats.taken.add(packet.len());
            packets.pop_front();
            taken += 1;
        }
        Ok(taken)
    }

    /// What the kernel was given counts as sent.
    fn stats(&mut self) -> PortStats {
        // What the interface could not send is what we could not receive.
        if let Some(dropped) = sys::dropped_when_sending(&self.counters, &self.name) {
            self.stats.receive_lost.kernel = dropped;
        }
        let mut stats = self.stats;
        stats.sent = stats.taken;
        stats
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
