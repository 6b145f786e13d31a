//! Ports of packets: memory, capture files, and interfaces of Linux. What they have in common is [`PacketPort`].
//!
//! | port | what | rights | packets are copied |
//! |---|---|---|---|
//! | [`pair`] | two ends in memory | | never |
//! | [`Looped`] | memory: what is sent comes back | | never |
//! | [`Capture`] | a file to read from (pcap, pcapng), another to write to | | into a frame of its own |
//! | [`AfPacket`] | an interface, through raw sockets | CAP_NET_RAW | once each way |
//! | [`AfXdp`] | a queue of an interface, past most of the kernel | CAP_NET_RAW to send, CAP_BPF and CAP_NET_ADMIN to receive | never by us; by the kernel, where the driver cannot do without |
//! | [`Tap`] | an interface that this program makes, and whose other side the kernel has | CAP_NET_ADMIN | once each way |
//! | [`FrameStream`] | a Unix socket for a guest of QEMU (`-netdev stream`) | | once each way |
//! | [`Datagrams`] | a UDP socket of the kernel: what is in datagrams, without frames | | once out, twice in |
//! | [`Dated`] | any of them, with times of arrival by a clock that is given | | |
//! | [`MultiQueue`] | several as one: packets go to one of them by their flows | | |
//! | [`halves`] | one as two, of which one sends and one receives | | |
//!
//! DPDK's ports are `dpb_accel::dpdk::Dpdk::port`. Rights count in the network namespace: `unshare -Urn` gives all but CAP_BPF to anybody. What is missing is
//! an error that says what to do.
//!
//! None of them waits in `receive` or `send`; [`wait`] does.

use std::io;
use std::time::Duration;

use dpb_core::port::{PortStats, too_long};
use dpb_core::{Buf, SetupError};

pub use dpb_core::PacketPort;

pub mod af_packet;
pub mod af_xdp;
pub mod capture;
mod checksum;
pub mod datagrams;
mod dated;
mod frame_stream;
mod halves;
mod mapping;
mod memory;
mod multi_queue;
mod pool;
mod returns;
mod ring;
mod sync;
mod sys;
mod tap;

pub use af_packet::AfPacket;
pub use af_xdp::AfXdp;
pub use capture::{Capture, Dates};
pub use datagrams::Datagrams;
pub use dated::Dated;
pub use frame_stream::FrameStream;
pub use halves::{Half, halves};
pub use memory::{End, Looped, pair, pair_of};
pub use multi_queue::MultiQueue;
pub use tap::Tap;

use pool::Pool;

/// Two addresses and a type.
const FRAME_HEADER: usize = 14;
/// The tag of a virtual network.
const TAG: usize = 4;
/// Longest packet where nothing else bounds it: what IP allows, and an Ethernet header with a tag.
const BYTES_MAX: usize = 65535 + FRAME_HEADER + TAG;

/// Waits until packets may have come, for no longer than `patience`. With `to_send`, room to send ends the wait, too. True if so; at once where the port
/// has no [file](PacketPort::file) to wait for, and where the caller goes on polling therefore.
///
/// # Errors
/// What `poll(2)` gives.
pub fn wait(port: &dyn PacketPort, to_send: bool, patience: Duration) -> io::Result<bool> {
    match port.file() {
        Some(file) => sys::poll(file, to_send, patience),
        None => Ok(true),
    }
}

/// The Ethernet address of an interface of Linux, in this thread's network namespace.
///
/// # Errors
/// There is no such interface, or it is none of Ethernet.
pub fn ethernet_address(interface: &str) -> io::Result<[u8; 6]> {
    sys::ethernet_address(interface)
}

/// A packet that a port cannot send, whatever room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    TooLong { len: usize, max: usize },
    TooShort { len: usize },
}

impl Unfit {
    /// The reason why a packet of this length is no frame for an interface of Linux whose longest has `max` bytes.
    fn of(len: usize, max: usize) -> Option<Self> {
        match len {
            ..FRAME_HEADER => Some(Self::TooShort { len }),
            _ if len > max => Some(Self::TooLong { len, max }),
            _ => None,
        }
    }

    /// The result of a call of `send` that has `taken` packets and ends at this one: an error if it is the first.
    fn refused(self, taken: usize, stats: &mut PortStats) -> io::Result<usize> {
        if taken > 0 {
            return Ok(taken);
        }
        match self {
            Self::TooLong { len, max } => {
                stats.refused.too_long += 1;
                Err(too_long(len, max))
            }
            Self::TooShort { len } => {
                stats.refused.malformed += 1;
                let why = format!(
                    "a packet of {len} bytes is no Ethernet frame: its header has {FRAME_HEADER}"
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }
    }
}

/// Heap memory for a packet.
fn zeroed(len: usize, max: usize) -> Result<Buf, SetupError> {
    let fits = (len <= max).then(|| Buf::zeroed(len));
    fits.flatten().ok_or(SetupError::OutOfMemory { len })
}

/// A zeroed frame of the pool for a packet.
fn pooled(pool: &mut Pool, len: usize, max: usize) -> Result<Buf, SetupError> {
    let fits = (len <= max.min(pool.frame_bytes())).then(|| pool.take());
    let mut frame = fits.flatten().ok_or(SetupError::OutOfMemory { len })?;
    pool.bytes_mut(&mut frame)[..len].fill(0);
    Ok(pool.buf(frame, 0, len))
}
