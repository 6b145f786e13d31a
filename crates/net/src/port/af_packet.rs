//! A network interface of Linux, through raw sockets (`packet(7)`). Needs CAP_NET_RAW in the network namespace.
//!
//! Packets come through a ring in shared memory (TPACKET_V3), from which each is copied into a frame of the port's own; they leave many to a call
//! of the system, past the interface's queueing discipline. Neither allocates.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use dpb_core::port::{Arrivals, Dating, PortStats};
use dpb_core::{Buf, PacketPort, SetupError};

use super::pool::Pool;
use super::{FRAME_HEADER, TAG, Unfit, checksum, pooled, sys};
use ring::{Packet, Ring};

mod ring;

/// A tag lies behind two addresses.
const TAG_AT: usize = 12;
/// All protocols.
const EVERYTHING: u16 = libc::ETH_P_ALL as u16;

/// A network interface.
///
/// * What this machine sends there does not come back.
/// * The tag of a virtual network, which the kernel takes out of a packet, is put back. A checksum that the kernel has left to the device is computed.
/// * What is longer than the interface's packets, as several that the kernel has put together are (GRO), is lost and counted as too long;
///   `ethtool -K INTERFACE gro off tso off gso off`, at the sender too if that is on this machine, keeps the kernel from making them.
/// * What the kernel drops because the ring is full counts as `kernel` (`PACKET_STATISTICS`). While buffers that were received are held so that no frame is left,
///   packets wait in the ring.
/// * Times are the kernel's. A block is handed over when it is full or its time is up, so a packet may be received as much as [`Options::block_time`] later.
#[derive(Debug)]
pub struct AfPacket {
    name: String,
    /// Packets come here.
    ring: Ring,
    receiver: OwnedFd,
    /// And go out there: packets of a socket with offloads, as the receiver is, would need a header each.
    sender: OwnedFd,
    /// Longest packet of IP.
    mtu: usize,
    pool: Pool,
    times_ns: Vec<u64>,
    stats: PortStats,
}

/// How an interface is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Blocks of the ring, at least two.
    pub blocks: u32,
    /// Bytes of a block: a power of two, at least a page. Where the interface's packets need more, they get more.
    pub block_bytes: u32,
    /// The time after which a block is handed over that is not full, in whole milliseconds, at least one. It bounds what the ring adds to a packet's latency.
    pub block_time: Duration,
    /// Frames for packets that are received or allocated.
    pub frames: u32,
    /// A group of ports that share an interface's packets.
    pub fanout: Option<Fanout>,
    /// True if packets leave past the interface's queueing discipline (`PACKET_QDISC_BYPASS`), which then drops nothing and shapes nothing.
    pub skips_queueing: bool,
    /// True if packets to other addresses come too, as a program that forwards wants it.
    pub is_promiscuous: bool,
}

/// A group of ports that share an interface's packets: each packet comes to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// The group's number in this network namespace.
    pub group: u16,
    /// Who gets a packet.
    pub by: FanoutBy,
}

/// Who of a group gets a packet (`PACKET_FANOUT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanoutBy {
    /// By a hash of its flow: all packets of a flow come to one port. Both directions of a flow, too.
    Hash,
    /// One after another.
    Turns,
    /// By the CPU on which it came.
    Cpu,
    /// The first that has room.
    Room,
    /// At random.
    Random,
    /// By the queue of the device in which it came.
    Queue,
}

impl Default for Options {
    /// 64 blocks of 128 KiB, a millisecond, 4096 frames.
    fn default() -> Self {
        Self {
            blocks: 64,
            block_bytes: 128 << 10,
            block_time: Duration::from_millis(1),
            frames: 4096,
            fanout: None,
            skips_queueing: true,
            is_promiscuous: true,
        }
    }
}

impl AfPacket {
    /// The interface of this name, `eth0`, in this thread's network namespace.
    ///
    /// # Errors
    /// There is none, or this process may not open raw sockets: [`io::ErrorKind::PermissionDenied`].
    pub fn open(interface: &str) -> io::Result<Self> {
        Self::open_with(interface, &Options::default())
    }

    /// [`AfPacket::open`] with `options`.
    ///
    /// # Errors
    /// As [`AfPacket::open`], or an option that the kernel does not take.
    pub fn open_with(interface: &str, options: &Options) -> io::Result<Self> {
        let index = sys::interface_index(interface)?;
        // Of no protocol until they are bound, so that nothing comes from other interfaces.
        let (receiver, sender) = (packet_socket()?, packet_socket()?);
        let mtu = sys::mtu(interface)?;
        let frame_bytes = (mtu + FRAME_HEADER + TAG).next_multiple_of(64);
        let set =
            |option, value: i32| sys::set_option(receiver.as_fd(), libc::SOL_PACKET, option, value);
        set(libc::PACKET_IGNORE_OUTGOING, 1)?;
        let wanted = u32::try_from(Ring::block_bytes_for(frame_bytes)).map_err(io::Error::other)?;
        let block_bytes = options.block_bytes.max(wanted);
        let blocks = options.blocks.max(2);
        let ring = Ring::new(receiver.as_fd(), blocks, block_bytes, options.block_time)?;
        if options.is_promiscuous {
            let member = libc::packet_mreq {
                mr_ifindex: index,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            let add = libc::PACKET_ADD_MEMBERSHIP;
            sys::set_option(receiver.as_fd(), libc::SOL_PACKET, add, member)?;
        }
        sys::bind_packet(receiver.as_fd(), index, EVERYTHING)?;
        if let Some(fanout) = options.fanout {
            set(libc::PACKET_FANOUT, fanout.value())?;
        }
        sys::bind_packet(sender.as_fd(), index, 0)?;
        let skips = i32::from(options.skips_queueing);
        let skip = libc::PACKET_QDISC_BYPASS;
        sys::set_option(sender.as_fd(), libc::SOL_PACKET, skip, skips)?;
        Ok(Self {
            name: interface.to_owned(),
            ring,
            receiver,
            sender,
            mtu,
            pool: Pool::new(options.frames.max(1), frame_bytes)?,
            times_ns: Vec::new(),
            stats: PortStats::default(),
        })
    }

    /// The packet in a frame of the pool, whole, as it was on the wire; none if it is lost.
    fn taken(pool: &mut Pool, packet: &Packet<'_>, max: usize, stats: &mut PortStats) -> Taken {
        let tag = packet.tag.as_ref().map_or(&[][..], |tag| tag);
        let len = packet.len + tag.len();
        if len > max || packet.bytes.len() < packet.len {
            stats.receive_lost.too_long += 1;
            return Taken::Lost;
        }
        let Some(mut frame) = pool.take() else {
            return Taken::NoFrame;
        };
        let room = &mut pool.bytes_mut(&mut frame)[..len];
        let bytes = &packet.bytes[..packet.len];
        let (addresses, rest) = bytes.split_at(TAG_AT.min(bytes.len()));
        let (start, behind) = room.split_at_mut(addresses.len());
        let (tag_place, behind) = behind.split_at_mut(tag.len());
        start.copy_from_slice(addresses);
        tag_place.copy_from_slice(tag);
        behind.copy_from_slice(rest);
        if let Some((start, offset)) = packet.checksum {
            // In front of the tag there is no checksum.
            checksum::complete(room, start + tag.len(), offset);
        }
        stats.delivered.add(len);
        Taken::Buf(pool.buf(frame, 0, len))
    }
}

/// What becomes of a packet in the ring.
enum Taken {
    Buf(Buf),
    Lost,
    NoFrame,
}

impl PacketPort for AfPacket {
    fn name(&self) -> &str {
        &self.name
    }

    /// Of a frame with a tag. Without one it may be four bytes shorter.
    fn packet_bytes_max(&self) -> usize {
        self.mtu + FRAME_HEADER + TAG
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        let max = self.packet_bytes_max();
        pooled(&mut self.pool, len, max)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        self.times_ns.clear();
        let bytes_max = self.packet_bytes_max();
        let mut came = 0;
        while came < max
            && let Some(packet) = self.ring.next()
        {
            if packet.is_outgoing {
                continue;
            }
            match Self::taken(&mut self.pool, &packet, bytes_max, &mut self.stats) {
                Taken::Buf(buf) => {
                    self.times_ns.push(packet.time_ns);
                    packets.push(buf);
                    came += 1;
                }
                Taken::Lost => {}
                Taken::NoFrame => {
                    self.ring.unread();
                    break;
                }
            }
        }
        self.ring.give_back();
        Ok(came)
    }

    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals {
            by: Dating::Kernel,
            times_ns: &self.times_ns,
        }
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let max = self.packet_bytes_max();
        let fits = |packet: &&Buf| Unfit::of(packet.len(), max).is_none();
        let mut taken = 0;
        loop {
            let fit = packets.iter().take_while(fits).map(|packet| &packet[..]);
            let sent = match sys::send(self.sender.as_fd(), fit) {
                // A frame without a tag, longer than the interface's.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::EINVAL))
                        && packets[0].len() > self.mtu + FRAME_HEADER =>
                {
                    let (len, max) = (packets[0].len(), self.mtu + FRAME_HEADER);
                    return Unfit::TooLong { len, max }.refused(taken, &mut self.stats);
                }
                Err(_) if taken > 0 => return Ok(taken),
                sent => sent?,
            };
            for packet in packets.drain(..sent) {
                self.stats.taken.add(packet.len());
                self.stats.sent.add(packet.len());
            }
            taken += sent;
            let Some(packet) = packets.front() else {
                return Ok(taken);
            };
            if let Some(unfit) = Unfit::of(packet.len(), max) {
                return unfit.refused(taken, &mut self.stats);
            }
            // A part of a burst went: there is no room for more.
            if sent < sys::BURST {
                self.stats.refused.queue_full += packets.len() as u64;
                return Ok(taken);
            }
        }
    }

    fn stats(&mut self) -> PortStats {
        let option = libc::PACKET_STATISTICS;
        let counted = sys::option(self.receiver.as_fd(), libc::SOL_PACKET, option);
        // The kernel counts from the last question on.
        if let Ok(libc::tpacket_stats_v3 { tp_drops, .. }) = counted {
            self.stats.receive_lost.kernel += u64::from(tp_drops);
        }
        self.stats
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }
}

impl Fanout {
    fn value(self) -> i32 {
        let by = match self.by {
            FanoutBy::Hash => libc::PACKET_FANOUT_HASH,
            FanoutBy::Turns => libc::PACKET_FANOUT_LB,
            FanoutBy::Cpu => libc::PACKET_FANOUT_CPU,
            FanoutBy::Room => libc::PACKET_FANOUT_ROLLOVER,
            FanoutBy::Random => libc::PACKET_FANOUT_RND,
            FanoutBy::Queue => libc::PACKET_FANOUT_QM,
        };
        // The group has a hook of its own, which does not ask the socket whether it wants what this machine sends.
        let kind = by | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        (u32::from(self.group) | kind << 16).cast_signed()
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    let opened = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "a raw socket needs CAP_NET_RAW: run as root, `setcap cap_net_raw+ep PROGRAM`, or in a network namespace of its own (`unshare -Urn`)",
        ),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: &[u8]) -> Packet<'_> {
        Packet {
            bytes,
            len: bytes.len(),
            tag: None,
            checksum: None,
            is_outgoing: false,
            time_ns: 0,
        }
    }

    #[test]
    fn a_tag_and_a_checksum_are_put_back() {
        let mut pool = Pool::new(2, 128).expect("memory");
        let mut stats = PortStats::default();
        let mut bytes = [0_u8; 40];
        bytes[..12].copy_from_slice(b"to...from...");
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[20..].fill(0x11);
        bytes[30..32].fill(0);
        let packet = Packet {
            tag: Some([0x81, 0x00, 0x00, 0x05]),
            checksum: Some((20, 10)),
            ..packet(&bytes)
        };
        let Taken::Buf(buf) = AfPacket::taken(&mut pool, &packet, 64, &mut stats) else {
            panic!("there is a frame");
        };
        assert_eq!(&buf[..16], b"to...from...\x81\x00\x00\x05");
        assert_eq!(buf[16..18], [0x08, 0x00]);
        // Nine words of 1111 sum to 9999.
        assert_eq!(buf[34..36], (!0x9999_u16).to_be_bytes());
        assert_eq!(buf.len(), 44);
        assert_eq!((stats.delivered.packets, stats.delivered.bytes), (1, 44));
    }

    #[test]
    fn what_is_longer_is_lost_and_counted() {
        let mut pool = Pool::new(1, 128).expect("memory");
        let mut stats = PortStats::default();
        let bytes = [1; 64];
        let mut cut = packet(&bytes);
        cut.len = 65;
        let mut tagged = packet(&bytes);
        tagged.tag = Some([0x81, 0, 0, 1]);
        for lost in [&cut, &tagged] {
            let taken = AfPacket::taken(&mut pool, lost, 67, &mut stats);
            assert!(matches!(taken, Taken::Lost));
        }
        assert_eq!(
            (stats.receive_lost.too_long, stats.delivered.packets),
            (2, 0)
        );
        let first = AfPacket::taken(&mut pool, &packet(&bytes), 67, &mut stats);
        assert!(matches!(first, Taken::Buf(_)));
        let second = AfPacket::taken(&mut pool, &packet(&bytes), 67, &mut stats);
        assert!(matches!(second, Taken::NoFrame));
        assert_eq!(
            (stats.delivered.packets, stats.receive_lost.total()),
            (1, 2)
        );
    }
}
