//! A network interface of Linux, through a raw socket (`packet(7)`). Needs CAP_NET_RAW.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use dpb_core::{Buf, SetupError};

use super::sys::{self, BURST, Received};
use super::{PacketPort, copied, too_long, zeroed};

/// An Ethernet header with a tag.
const HEADER: usize = 18;

/// The place of a tag: behind two addresses.
const TAG_AT: usize = 12;

/// A network interface. What this machine sends there does not come back. The tag of a virtual network, which the kernel takes out of
/// a packet, is put back. What is longer than the interface's packets, as several that the kernel has put together are (GRO), is dropped and counted.
#[derive(Debug)]
pub struct AfPacket {
    name: String,
    socket: OwnedFd,
    packet_bytes_max: usize,
    /// Room for a burst of packets.
    room: Vec<u8>,
    too_long: u64,
}

impl AfPacket {
    /// The interface of this name: `eth0`.
    ///
    /// # Errors
    /// There is none, or this process may not open raw sockets: [`io::ErrorKind::PermissionDenied`].
    pub fn open(interface: &str) -> io::Result<Self> {
        let socket = sys::open(interface)?;
        let mtu = std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu"))?;
        let mtu: usize = mtu.trim().parse().map_err(io::Error::other)?;
        let packet_bytes_max = mtu + HEADER;
        Ok(Self {
            name: interface.to_owned(),
            socket,
            packet_bytes_max,
            room: vec![0; BURST * packet_bytes_max],
            too_long: 0,
        })
    }

    /// Packets that were dropped because they were too long; `ethtool -K INTERFACE gro off` keeps the kernel from making them.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }
}

impl PacketPort for AfPacket {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        self.packet_bytes_max
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        zeroed(len, self.packet_bytes_max)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let part = self.packet_bytes_max;
        let received = sys::receive(&self.socket, &mut self.room, part, max)?;
        let before = packets.len();
        for (packet, Received { len, tag }) in self.room.chunks_exact(part).zip(received) {
            match (packet.get(..len), tag) {
                (Some(packet), None) => packets.push(copied(packet)?),
                (Some(packet), Some(tag)) if len + tag.len() <= part => {
                    packets.push(tagged(packet, tag)?);
                }
                _ => self.too_long += 1,
            }
        }
        Ok(packets.len() - before)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let max = self.packet_bytes_max;
        let fit = packets.iter().take_while(|packet| packet.len() <= max);
        let sent = sys::send(&self.socket, fit.map(|packet| &packet[..]))?;
        packets.drain(..sent);
        match packets.front() {
            Some(packet) if sent == 0 && packet.len() > max => Err(too_long(packet.len(), max)),
            _ => Ok(sent),
        }
    }
}

/// The packet with its tag where that was.
fn tagged(packet: &[u8], tag: [u8; 4]) -> io::Result<Buf> {
    let (addresses, rest) = packet.split_at(TAG_AT.min(packet.len()));
    copied(&[addresses, &tag, rest].concat())
}
