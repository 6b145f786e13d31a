//! A queue of an interface of Linux, past most of the kernel (`AF_XDP`; the kernel's Documentation/networking/af_xdp.rst).
//!
//! Packets lie in memory that is shared with the kernel, and cross as descriptors in four rings: frames to fill, packets that came, packets to send,
//! frames that were sent. A driver that can (`zero-copy`) has the device write to that memory; of others the kernel copies.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use dpb_core::port::{Count, PortStats};
use dpb_core::{Buf, PacketPort, SetupError};

use super::pool::Pool;
use super::{FRAME_HEADER, TAG, Unfit, pooled, sys};
use program::Program;
use reasons::{why_no_memory, why_no_program, why_no_socket, why_not_bound};
use rings::{FromKernel, ToKernel};

mod program;
mod reasons;
mod rings;

/// Room that the kernel leaves in front of a packet that it receives.
const HEADROOM: usize = 256;
/// The time until a busy queue is tried again.
const RETRY: Duration = Duration::from_millis(2);

/// A queue of an interface.
///
/// * Sending needs CAP_NET_RAW in the network namespace. Receiving needs a program in the kernel, and CAP_BPF and CAP_NET_ADMIN for it outside of all user
///   namespaces. What is missing is an error that says so; [`Options::receives`] leaves it out.
/// * Packets come of one queue: an interface with more has a port for each ([`AfXdp::open_queues`]). What comes to a queue without a port goes to the kernel.
/// * Buffers of this port ([`PacketPort::alloc`], or received) are sent without a copy of ours, others with one.
/// * The tag of a virtual network is where it was. A checksum that the sender has left to its device is lost: on a pair of virtual interfaces
///   the sender's must compute it (`ethtool -K PEER tx off`).
/// * Packets that are longer than a frame has room for, as several that were put together, are dropped by the kernel, which counts them.
/// * What the kernel drops of packets that came counts as `queue_full` (the ring), `no_memory` (no frame to fill) or `kernel`. A virtual interface
///   whose own queue is full drops packets and tells no socket.
pub struct AfXdp {
    name: String,
    /// First, so that no packet comes to a socket that is being closed.
    _program: Option<Arc<Program>>,
    socket: OwnedFd,
    fill: ToKernel<u64>,
    came: Option<FromKernel<libc::xdp_desc>>,
    to_send: ToKernel<libc::xdp_desc>,
    sent: FromKernel<u64>,
    pool: Pool,
    /// Frames that the kernel has for packets to come, and the number that it should have.
    lent: u32,
    lent_wanted: u32,
    /// Of each frame that is being sent, the length of its packet.
    lens: Box<[u32]>,
    packet_bytes_max: usize,
    is_zero_copy: bool,
    stats: PortStats,
    /// Packets whose frames came back, and those of them that the device did not take.
    done: Count,
    not_taken: u64,
}

/// How a queue is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The queue of the interface.
    pub queue: u32,
    /// Frames, a power of two: a half for packets to come, as far as they are not held, the rest for packets to send. The memory is locked: without CAP_IPC_LOCK
    /// all that a user has together is bounded by `ulimit -l`.
    pub frames: u32,
    /// Bytes of a frame: 2048 or 4096. 256 of them lie in front of a packet that comes.
    pub frame_bytes: u32,
    /// True if packets are received.
    pub receives: bool,
    /// Who copies.
    pub copying: Copying,
    /// Where the program sits that hands packets over.
    pub attachment: Attachment,
    /// The time that opening waits for a queue that is busy: the kernel frees a queue some milliseconds after its socket is closed.
    pub patience: Duration,
}

/// Who copies packets between the device and the shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copying {
    /// Nobody, or the kernel if the driver cannot do without.
    #[default]
    Any,
    /// The kernel.
    Kernel,
    /// Nobody.
    Nobody,
}

/// Where the program sits that hands packets over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// In the driver, or in the kernel's own code if the driver does not take it.
    #[default]
    Any,
    /// In the driver.
    Driver,
    /// In the kernel's own code, which any driver's packets reach.
    Generic,
}

impl Default for Options {
    /// Queue 0, 2048 frames of 2048 bytes, both ways, half a second of patience.
    fn default() -> Self {
        Self {
            queue: 0,
            frames: 2048,
            frame_bytes: 2048,
            receives: true,
            copying: Copying::default(),
            attachment: Attachment::default(),
            patience: Duration::from_millis(500),
        }
    }
}

impl AfXdp {
    /// Queue 0 of the interface of this name, in this thread's network namespace.
    ///
    /// # Errors
    /// There is none, it is down, or the kernel or this process's rights lack something: the error says what, and what to do.
    pub fn open(interface: &str) -> io::Result<Self> {
        Self::open_with(interface, &Options::default())
    }

    /// [`AfXdp::open`] with `options`.
    ///
    /// # Errors
    /// As [`AfXdp::open`], or an option that is not possible.
    pub fn open_with(interface: &str, options: &Options) -> io::Result<Self> {
        let queue = options.queue;
        let opened = Self::open_queues(interface, queue..queue.saturating_add(1), options)?;
        opened
            .into_iter()
            .next()
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// A port for each of the interface's `queues`, all with `options` but for [`Options::queue`].
    ///
    /// # Errors
    /// As [`AfXdp::open_with`].
    pub fn open_queues(
        interface: &str,
        queues: Range<u32>,
        options: &Options,
    ) -> io::Result<Vec<Self>> {
        let index = sys::interface_index(interface)?;
        let ports = queues
            .clone()
            .map(|queue| Self::bind_patiently(interface, index, queue, options));
        let mut ports = ports.collect::<io::Result<Vec<_>>>()?;
        if options.receives {
            let program = Program::attach(index, queues.end, options.attachment)
                .map_err(|error| why_no_program(error, interface))?;
            let program = Arc::new(program);
            for (queue, port) in queues.zip(&mut ports) {
                program.direct(queue, port.socket.as_fd())?;
                port._program = Some(program.clone());
            }
        }
        Ok(ports)
    }

    /// [`AfXdp::bind`], as often as the queue is busy and the patience lasts.
    fn bind_patiently(
        interface: &str,
        index: c_int,
        queue: u32,
        options: &Options,
    ) -> io::Result<Self> {
        let mut left = options.patience;
        loop {
            match Self::bind(interface, index, queue, options) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && !left.is_zero() => {
                    std::thread::sleep(RETRY.min(left));
                    left = left.saturating_sub(RETRY);
                }
                bound => return bound,
            }
        }
    }

    fn bind(interface: &str, index: c_int, queue: u32, options: &Options) -> io::Result<Self> {
        let (frames, frame_bytes) = (options.frames, options.frame_bytes as usize);
        if !frames.is_power_of_two() || frames < 64 || !matches!(frame_bytes, 2048 | 4096) {
            let why = format!(
                "{frames} frames of {frame_bytes} bytes: a power of two of them, at least 64, of 2048 or 4096 bytes"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(why_no_socket)?;
        let file = socket.as_fd();
        let mtu = sys::mtu(interface)?;
        let pool = Pool::new(frames, frame_bytes)?;
        let memory = libc::xdp_umem_reg_v1 {
            addr: pool.mapping().start().as_ptr().expose_provenance() as u64,
            len: pool.mapping().len() as u64,
            chunk_size: frame_bytes as u32,
            headroom: 0,
        };
        sys::set_option(file, libc::SOL_XDP, libc::XDP_UMEM_REG, memory)
            .map_err(|error| why_no_memory(error, pool.mapping().len()))?;
        let len = frames / 2;
        let set_len = |ring| sys::set_option(file, libc::SOL_XDP, ring, len as c_int);
        set_len(libc::XDP_UMEM_FILL_RING)?;
        set_len(libc::XDP_UMEM_COMPLETION_RING)?;
        set_len(libc::XDP_TX_RING)?;
        if options.receives {
            set_len(libc::XDP_RX_RING)?;
        }
        let places: libc::xdp_mmap_offsets =
            sys::option(file, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let came = options
            .receives
            .then(|| FromKernel::map(file, libc::XDP_PGOFF_RX_RING as u64, places.rx, len));
        let fill = ToKernel::map(file, libc::XDP_UMEM_PGOFF_FILL_RING, places.fr, len)?;
        let sent = FromKernel::map(file, libc::XDP_UMEM_PGOFF_COMPLETION_RING, places.cr, len)?;
        let to_send = ToKernel::map(file, libc::XDP_PGOFF_TX_RING as u64, places.tx, len)?;
        let mut port = Self {
            name: format!("{interface} queue {queue}"),
            _program: None,
            fill,
            came: came.transpose()?,
            to_send,
            sent,
            pool,
            lent: 0,
            lent_wanted: if options.receives { len } else { 0 },
            lens: vec![0; frames as usize].into(),
            packet_bytes_max: (mtu + FRAME_HEADER + TAG).min(frame_bytes - HEADROOM),
            is_zero_copy: false,
            stats: PortStats::default(),
            done: Count::default(),
            not_taken: 0,
            socket,
        };
        port.refill();
        let copying = match options.copying {
            Copying::Any => 0,
            Copying::Kernel => libc::XDP_COPY,
            Copying::Nobody => libc::XDP_ZEROCOPY,
        };
        let flags = copying | libc::XDP_USE_NEED_WAKEUP;
        sys::bind_xdp(port.socket.as_fd(), index, queue, flags)
            .map_err(|error| why_not_bound(error, interface, queue))?;
        let set: c_int = sys::option(port.socket.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS)?;
        port.is_zero_copy = set as u32 & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(port)
    }

    /// True if nobody copies packets: the device reads and writes the shared memory.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Gives the kernel frames for packets to come.
    fn refill(&mut self) {
        let before = self.lent;
        while self.lent < self.lent_wanted
            && self.fill.has_room()
            && let Some(frame) = self.pool.take()
        {
            let distance = self.pool.lend(frame);
            self.fill.put(distance);
            self.lent += 1;
        }
        if self.lent > before {
            self.fill.publish();
        }
    }

    /// Takes back the frames whose packets were sent.
    fn reclaim(&mut self) {
        let mut is_any = false;
        while let Some(distance) = self.sent.take() {
            is_any = true;
            // SAFETY: frames in this ring were lent by `send`, and come back once.
            if let Some(frame) = unsafe { self.pool.reclaim(distance) } {
                self.done.add(self.lens[frame.number()] as usize);
                self.pool.give(frame);
            }
        }
        if is_any {
            self.sent.release();
        }
    }

    /// Has the kernel send what is in the ring. It takes a part at each call (32 packets, as a rule).
    fn kick(&mut self) -> io::Result<()> {
        let mut pending = self.to_send.pending();
        // Where the kernel copies, it looks only when it is asked.
        while pending > 0 && (!self.is_zero_copy || self.to_send.needs_wakeup()) {
            match sys::kick(self.socket.as_fd()) {
                Ok(_) => {}
                // The device did not take a packet, which is gone: its frame comes back as the others do.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => self.not_taken += 1,
                Err(error) => return Err(error),
            }
            self.reclaim();
            let now = self.to_send.pending();
            // There is no room in the device, or for frames that come back.
            if now == pending {
                break;
            }
            pending = now;
        }
        Ok(())
    }

    /// A packet as a descriptor, in a frame that is lent to the kernel from here on.
    fn described(&mut self, packet: Buf) -> Result<libc::xdp_desc, Buf> {
        let len = packet.len();
        let (start, frame) = match self.pool.frame_of(packet) {
            Ok(ours) => ours,
            Err(packet) => {
                let Some(mut frame) = self.pool.take() else {
                    return Err(packet);
                };
                self.pool.bytes_mut(&mut frame)[..len].copy_from_slice(&packet);
                (0, frame)
            }
        };
        self.lens[frame.number()] = len as u32;
        Ok(libc::xdp_desc {
            addr: self.pool.lend(frame) + start,
            len: len as u32,
            options: 0,
        })
    }
}

impl fmt::Debug for AfXdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfXdp")
            .field("name", &self.name)
            .field("is_zero_copy", &self.is_zero_copy)
            .finish_non_exhaustive()
    }
}

impl PacketPort for AfXdp {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        self.packet_bytes_max
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.reclaim();
        pooled(&mut self.pool, len, self.packet_bytes_max)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        self.reclaim();
        let Some(ring) = &mut self.came else {
            return Ok(0);
        };
        let mut came = 0;
        let frame_bytes = self.pool.frame_bytes();
        while came < max
            && let Some(libc::xdp_desc { addr, len, .. }) = ring.take()
        {
            self.lent -= 1;
            let (start, len) = (addr as usize % frame_bytes, len as usize);
            // SAFETY: frames in this ring were lent by `refill`, and come back once.
            let frame = unsafe { self.pool.reclaim(addr) };
            match frame {
                Some(frame) if len <= frame_bytes - start => {
                    packets.push(self.pool.buf(frame, start, len));
                    self.stats.delivered.add(len);
                    came += 1;
                }
                // Not even the kernel says so.
                frame => {
                    self.stats.receive_lost.malformed += 1;
                    if let Some(frame) = frame {
                        self.pool.give(frame);
                    }
                }
            }
        }
        ring.release();
        self.refill();
        if self.fill.needs_wakeup() {
            sys::poll(self.socket.as_fd(), false, Duration::ZERO)?;
        }
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        self.reclaim();
        let mut taken = 0;
        let mut unfit = None;
        while let Some(packet) = packets.pop_front() {
            let len = packet.len();
            unfit = Unfit::of(len, self.packet_bytes_max);
            let described = match unfit {
                Some(_) => Err(packet),
                None if !self.to_send.has_room() => {
                    self.stats.refused.queue_full += packets.len() as u64 + 1;
                    Err(packet)
                }
                None => self.described(packet).inspect_err(|_| {
                    self.stats.refused.no_memory += packets.len() as u64 + 1;
                }),
            };
            match described {
                Ok(descriptor) => {
                    self.to_send.put(descriptor);
                    self.stats.taken.add(len);
                    taken += 1;
                }
                Err(packet) => {
                    packets.push_front(packet);
                    break;
                }
            }
        }
        if taken > 0 {
            self.to_send.publish();
        }
        match (self.kick(), unfit) {
            (Err(error), _) if taken == 0 => Err(error),
            (_, Some(unfit)) => unfit.refused(taken, &mut self.stats),
            _ => Ok(taken),
        }
    }

    fn stats(&mut self) -> PortStats {
        self.reclaim();
        let mut stats = self.stats;
        stats.send_lost.kernel = self.not_taken.min(self.done.packets);
        stats.sent = self.done;
        stats.sent.packets -= stats.send_lost.kernel;
        let file = self.socket.as_fd();
        let counted =
            sys::option::<libc::xdp_statistics>(file, libc::SOL_XDP, libc::XDP_STATISTICS);
        if let Ok(counted) = counted {
            // Where the kernel copies, a packet for which it finds no frame is one that it has dropped. A device only tries again.
            let no_frame = match self.is_zero_copy {
                true => 0,
                false => counted.rx_fill_ring_empty_descs.min(counted.rx_dropped),
            };
            stats.receive_lost.queue_full = counted.rx_ring_full;
            stats.receive_lost.no_memory = no_frame;
            stats.receive_lost.kernel = counted.rx_dropped - no_frame + counted.rx_invalid_descs;
        }
        stats
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
