//! Packets in and out: one trait over DPDK's network devices, raw sockets, capture files and memory.
//!
//! | port | what |
//! |---|---|
//! | [`Dpdk::port`](crate::dpdk::Dpdk::port) | a network device of DPDK, of hardware or of software |
//! | [`AfPacket`] | a network interface of Linux, through a raw socket |
//! | [`Capture`] | a pcap file to read from, another to write to |
//! | [`pair`] | two ends in memory |

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::{Buf, SetupError};

mod af_packet;
pub mod capture;
mod sys;

pub use af_packet::AfPacket;
pub use capture::{Capture, Dates};

/// Somewhere packets come from and go to, each in a buffer of its own: an Ethernet frame without preamble and check
/// sequence. Driven by one thread at a time; nothing waits.
pub trait PacketPort: Send {
    /// The port's name: `net_ring0`, `eth0`.
    fn name(&self) -> &str;

    /// Longest packet, in bytes.
    fn packet_bytes_max(&self) -> usize;

    /// Zeroed memory for a packet that this port sends without a copy.
    ///
    /// # Errors
    /// [`SetupError::OutOfMemory`], also if it is longer than [`PacketPort::packet_bytes_max`].
    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError>;

    /// Appends packets that have come, at most `max`; says how many.
    ///
    /// # Errors
    /// The port's own. Packets that came before it are appended.
    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize>;

    /// Takes packets from the front, until it has no room for more; says how many. What is taken may be on its way
    /// still.
    ///
    /// # Errors
    /// The port's own, or [`io::ErrorKind::InvalidInput`] for a packet that is too long. That packet is in front, those
    /// before it are taken.
    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize>;
}

/// One end of a pair in memory.
#[derive(Debug)]
pub struct End {
    name: String,
    out: Arc<Mutex<VecDeque<Buf>>>,
    into: Arc<Mutex<VecDeque<Buf>>>,
}

/// Packets that an end holds for the other.
const PAIR_PACKETS_MAX: usize = 4096;
/// Longest packet where nothing else bounds it: what IP allows, and an Ethernet header with a tag.
const BYTES_MAX: usize = 65535 + 18;

/// Two ports: what one sends the other receives, as it is. Each holds up to 4096 packets for the other.
pub fn pair() -> [End; 2] {
    let [one, two] = [(); 2].map(|()| Arc::new(Mutex::new(VecDeque::new())));
    let end = |name: &str, out: &Arc<_>, into: &Arc<_>| End {
        name: name.to_owned(),
        out: Arc::clone(out),
        into: Arc::clone(into),
    };
    [end("memory 0", &one, &two), end("memory 1", &two, &one)]
}

impl PacketPort for End {
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
        let mut into = self.into.lock().unwrap_or_else(PoisonError::into_inner);
        let came = into.len().min(max);
        packets.extend(into.drain(..came));
        Ok(came)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let room = packets.len().min(PAIR_PACKETS_MAX - out.len());
        let fit = packets
            .iter()
            .take(room)
            .take_while(|packet| packet.len() <= BYTES_MAX);
        let taken = fit.count();
        out.extend(packets.drain(..taken));
        match taken < room {
            true if taken == 0 => Err(too_long(packets[0].len(), BYTES_MAX)),
            _ => Ok(taken),
        }
    }
}

/// Heap memory for a packet.
fn zeroed(len: usize, max: usize) -> Result<Buf, SetupError> {
    let fits = (len <= max).then(|| Buf::zeroed(len));
    fits.flatten().ok_or(SetupError::OutOfMemory { len })
}

/// A copy of a packet on the heap.
fn copied(packet: &[u8]) -> io::Result<Buf> {
    let mut buf = Buf::zeroed(packet.len()).ok_or(io::ErrorKind::OutOfMemory)?;
    buf.copy_from_slice(packet);
    Ok(buf)
}

/// The reason why a port cannot send a packet.
pub(crate) fn too_long(len: usize, max: usize) -> io::Error {
    let why = format!("a packet of {len} bytes, and the port takes up to {max}");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(count: u8) -> VecDeque<Buf> {
        let packet = |i: u8| copied(&vec![i; 60 + usize::from(i)]).expect("memory");
        (0..count).map(packet).collect()
    }

    #[test]
    fn what_one_end_sends_the_other_receives_in_order() {
        let [mut one, mut two] = pair();
        assert_eq!(one.send(&mut packets(9)).expect("room"), 9);
        assert_eq!(two.send(&mut packets(2)).expect("room"), 2);
        let mut came = Vec::new();
        assert_eq!(two.receive(&mut came, 5).expect("works"), 5);
        assert_eq!(two.receive(&mut came, 5).expect("works"), 4);
        assert_eq!(two.receive(&mut came, 5).expect("works"), 0);
        for (came, sent) in came.iter().zip(packets(9)) {
            assert_eq!(came[..], sent[..]);
        }
        came.clear();
        assert_eq!(one.receive(&mut came, 5).expect("works"), 2);
    }

    #[test]
    fn what_does_not_fit_stays_with_the_sender() {
        let [mut one, _two] = pair();
        let mut sent = 0;
        loop {
            let mut ready = packets(100);
            let taken = one.send(&mut ready).expect("no error");
            sent += taken;
            assert_eq!(ready.len(), 100 - taken);
            if taken < 100 {
                break;
            }
        }
        assert_eq!(sent, PAIR_PACKETS_MAX);

        let [mut one, _two] = pair();
        let mut ready = packets(2);
        ready.push_back(Buf::zeroed(BYTES_MAX + 1).expect("memory"));
        assert_eq!(one.send(&mut ready).expect("the first two"), 2);
        let error = one.send(&mut ready).expect_err("too long");
        assert_eq!(
            (error.kind(), ready.len()),
            (io::ErrorKind::InvalidInput, 1)
        );
        assert!(one.alloc(BYTES_MAX + 1).is_err() && one.alloc(BYTES_MAX).is_ok());
    }
}
